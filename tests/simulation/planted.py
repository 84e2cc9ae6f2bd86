"""Planted bugs: guards are taken out of the code, in memory, and seeds are run until an oracle notices.

python -m tests.simulation.planted [NAME ...] [--most 2000] [--jobs N]

Most are KubeRay's known bugs (`tools/knownbugs` says which words of our code keep us from each); the others are
made for oracles that none of those would wake. Each bug names its oracle, and the profile and the kind of object in
which it can show; the seeds are counted from 1 until that oracle fails. Each bug runs in a process of its own, whose
import system changes the source; no file is touched.
"""

from __future__ import annotations

import argparse
import importlib.machinery
import importlib.util
import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT)]

from tools.knownbugs.check import GUARDS  # noqa: E402
from tools.knownbugs.guard import Cut  # noqa: E402

_PLANNERS = "controllers/raycluster/planners"


@dataclass(frozen=True, slots=True)
class Bug:
    name: str
    text: str
    cuts: tuple[Cut, ...]
    oracle: str
    """The one that must fail."""
    profile: str
    kind: str = "RayCluster"
    """Of one object in each story."""


def _known(number: int, oracle: str, profile: str = "user", kind: str = "RayCluster") -> Bug:
    found = next(one for one in GUARDS if one.number == number)
    return Bug(f"c{number:02}", f"C{number:02}: {found.bug}", found.cuts, oracle, profile, kind)


def _own(
    name: str, text: str, cut: Cut, oracle: str, profile: str = "user", kind: str = "RayCluster"
) -> Bug:
    return Bug(name, text, (cut,), oracle, profile, kind)


BUGS: tuple[Bug, ...] = (
    _known(2, "no-extra-pods", "watch"),
    _known(4, "pod-deletion"),
    _known(6, "pod-deletion"),
    _known(7, "visible-reason"),
    _known(12, "no-extra-pods"),
    _known(14, "converges"),
    _known(15, "one-head"),
    _known(16, "no-extra-pods", "watch"),
    _known(23, "backs-off", "nodes"),
    _known(26, "visible-reason"),
    _known(30, "backs-off", "policy"),
    _known(32, "quiet"),
    _known(35, "leader-writes", "leases"),
    _known(44, "config-once", "user", "RayService"),
    _known(48, "two-clusters", "user", "RayService"),
    _known(55, "as-specified", "user", "RayJob"),
    _known(57, "as-ray-says", "user", "RayJob"),
    _known(58, "as-ray-says", "user", "RayJob"),
    _known(59, "as-ray-says", "user", "RayJob"),
    _known(62, "converges", "user", "RayJob"),
    _known(70, "no-hot-loop", "nodes"),
    _known(75, "own-objects"),
    _known(92, "converges", "nodes"),
    _known(94, "own-objects"),
    _own(
        "cleanup-waits",
        "a finalizer waits for the cleanup of Redis nine times as long as it may",
        (
            "controllers/raycluster/planners/deletion.py",
            "    return since + redis_cleanup_timeout(meta) - snapshot.now",
            "    return since + 9 * redis_cleanup_timeout(meta) - snapshot.now",
        ),
        "finalizers-end",
        "nodes",
    ),
    _own(
        "one-too-many",
        "a group that shrinks loses one worker more than it has too many",
        (
            f"{_PLANNERS}/worker_group.py",
            "    candidates = in_scale_down_order(living)[:surplus]",
            "    candidates = in_scale_down_order(living)[: surplus + 1]",
        ),
        "pod-deletion",
    ),
    _own(
        "same-head",
        "the head of a resumed cluster has the name of the first one",
        (
            "manifests/head_pod.py",
            "    follows = cluster.status.head.pod_name or _resumed_by(cluster)",
            "    follows = cluster.status.head.pod_name",
        ),
        "head-names",
    ),
    _own(
        "rolls-fast",
        "a rolling update deletes two workers more than may be missing",
        (
            f"{_PLANNERS}/rolling_update.py",
            "    least = kept.wanted - kept.limits.unavailable\n",
            "    least = kept.wanted - kept.limits.unavailable - 2\n",
        ),
        "rolls-gently",
    ),
    _own(
        "no-uid",
        "a delete does not name the UID",
        (
            "reconcile/executor.py",
            "                uid=action.uid,\n                propagation",
            "                propagation",
        ),
        "deletes-by-uid",
    ),
    _own(
        "foreign",
        "Pods of others are taken for ours, and deleted",
        (
            "controllers/raycluster/observe.py",
            "    return owner is None or owner.uid == cluster.metadata.uid",
            "    return True",
        ),
        "own-objects",
    ),
    _own(
        "early-switch",
        "the serve Service follows a cluster whose applications do not run yet",
        (
            "controllers/rayservice/facts/readiness.py",
            "            return _applications(reported, applications, name) or (",
            '            return "" or (',
        ),
        "serves-only",
        "user",
        "RayService",
    ),
    _own(
        "early-traffic",
        "an incremental upgrade gives requests to a cluster whose applications do not run yet",
        (
            "controllers/rayservice/planners/rollout.py",
            "    return not serving_obstacle(pending, desired)\n",
            "    return bool(desired)\n",
        ),
        "serves-only",
        "user",
        "RayService",
    ),
    _own(
        "again",
        "a job that succeeded is run again",
        ("controllers/rayjob/plan.py", "    Stage.COMPLETE: finish,", "    Stage.COMPLETE: retry,"),
        "terminal-stays",
        "user",
        "RayJob",
    ),
    _own(
        "ahead",
        "the status is of a generation that does not exist yet",
        (
            "controllers/rayjob/status.py",
            "observed_generation=snapshot.job.metadata.generation,",
            "observed_generation=snapshot.job.metadata.generation + 1,",
        ),
        "observed-generation",
        "user",
        "RayJob",
    ),
    _own(
        "tick-twice",
        "the name of a RayJob does not follow from its tick",
        (
            "controllers/raycronjob/ticks.py",
            'return f"{cron.metadata.name}-{int(tick.timestamp()) // 60}"',
            '''return f"{cron.metadata.name}-{__import__('asyncio').get_running_loop().time() * 10:.0f}"''',
        ),
        "one-job-per-tick",
        "crash",
        "RayCronJob",
    ),
    _own(
        "raises",
        "a planner raises for a second group",
        (
            f"{_PLANNERS}/worker_group.py",
            "    plans = [plan_removed_groups(snapshot)]",
            (
                "    assert len(snapshot.cluster.spec.worker_group_specs) < 2\n"
                "    plans = [plan_removed_groups(snapshot)]"
            ),
        ),
        "no-bug",
    ),
    _own(
        "raises-late",
        "the status of a cluster with two groups raises",
        (
            "controllers/raycluster/controller.py",
            "        return next_status(snapshot, outcome, step.blocked_by)",
            (
                "        assert len(snapshot.cluster.spec.worker_group_specs) < 2\n"
                "        return next_status(snapshot, outcome, step.blocked_by)"
            ),
        ),
        "no-bug",
    ),
    _own(
        "raises-last",
        "when a suspended cluster is looked at next raises",
        (
            "controllers/raycluster/controller.py",
            "        return PDB_LIST_RETRY if is_unknown and not snapshot.is_suspended else None",
            "        return PDB_LIST_RETRY if is_unknown and not snapshot.is_suspended else {}[1]",
        ),
        "no-bug",
    ),
    _own(
        "silent",
        "a cluster that waits does not say why",
        (
            "controllers/raycluster/blocked.py",
            (
                "    rejected = outcome.failure\n"
                "    if rejected is not None and not is_routine(rejected):\n"
                "        return same_failure(known, _condition(blockage_of(rejected)))\n"
                "    problem = _obstacle(snapshot) or waits_for or _blocked_pods(snapshot)"
            ),
            "    problem = None",
        ),
        "visible-reason",
        "policy",
    ),
    _own(
        "submit-again",
        "a job that Ray has forgotten is submitted again",
        (
            "controllers/rayjob/stages/running.py",
            "    if snapshot.status.job_status:\n        why = f",
            "    if snapshot.mode is not SubmissionMode.HTTP:\n        why = f",
        ),
        "runs-once",
        "ray",
        "RayJob",
    ),
    _own(
        "leads-again",
        "an operator that gets its lease back reconciles only what changed meanwhile",
        ("runtime/manager.py", "        if not is_first:\n", "        if False:\n"),
        "as-ray-says",
        "leases",
        "RayJob",
    ),
)
"""At least one for each oracle (`test_every_oracle_has_a_planted_bug`)."""


# ── in the process with the bug ──────────────────────────────────────────────────────────


class _Cutter(importlib.machinery.SourceFileLoader):
    cuts: tuple[tuple[str, str], ...] = ()

    def get_code(self, fullname: str) -> Any:
        return self.source_to_code(self.get_data(self.path), self.path)

    def source_to_code(  # type: ignore[override]
        self, data: Any, path: Any, *, _optimize: int = -1
    ) -> Any:
        text = bytes(data).decode()
        for old, new in self.cuts:
            assert text.count(old) == 1, f"{path}: {old!r} occurs {text.count(old)} times"
            text = text.replace(old, new)
        return super().source_to_code(text.encode(), path, _optimize=_optimize)


class _Finder:
    """Loads the files that have cuts from changed source."""

    def __init__(self, cuts: tuple[Cut, ...]) -> None:
        self._by_name: dict[str, list[tuple[str, str]]] = {}
        for path, old, new in cuts:
            name = "manta." + path.removesuffix(".py").replace("/", ".")
            self._by_name.setdefault(name.removesuffix(".__init__"), []).append((old, new))

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name not in self._by_name:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        assert spec is not None
        assert spec.origin is not None
        loader = _Cutter(name, spec.origin)
        loader.cuts = tuple(self._by_name[name])
        return importlib.util.spec_from_file_location(name, spec.origin, loader=loader)


def hunt(bug: Bug, most: int) -> dict[str, Any]:
    """Run seeds until the oracle of the bug fails; for a fresh process only."""
    assert not any(name.startswith("manta.") for name in sys.modules)
    sys.meta_path.insert(0, _Finder(bug.cuts))
    from simulation.generate import generate
    from simulation.reference import run_checked
    from simulation.run import run

    began = time.process_time()
    told = run_checked if bug.oracle == "converges" else run
    others: dict[str, int] = {}
    for seed in range(1, most + 1):
        result = told(generate(seed, bug.profile, bug.kind))
        for name in result.failed:
            others.setdefault(name, seed)
        if bug.oracle in others:
            said = next(one for one in result.violations if one.startswith(bug.oracle))
            return _verdict(bug, seed, began, others, said)
    return _verdict(bug, None, began, others)


def _verdict(
    bug: Bug, seeds: int | None, began: float, others: dict[str, int], said: str = ""
) -> dict[str, Any]:
    """`others`: the first seed at which each oracle failed."""
    others = {name: seed for name, seed in others.items() if name != bug.oracle}
    found = {"bug": bug.name, "oracle": bug.oracle, "seeds": seeds, "profile": bug.profile}
    cpu = round(time.process_time() - began)
    return {**found, "kind": bug.kind, "others": others, "said": said[:200], "cpu": cpu}


# ── many of them ─────────────────────────────────────────────────────────────────────────


def _in_process(bug: Bug, most: int) -> dict[str, Any]:
    command = [sys.executable, str(Path(__file__)), "--hunt", bug.name, "--most", str(most)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        return {"bug": bug.name, "seeds": None, "error": done.stderr[-600:]}
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--most", type=int, default=2000)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--hunt", default="", help="run in this process")
    args = parser.parse_args()
    by_name = {bug.name: bug for bug in BUGS}
    if args.hunt:
        sys.stdout.write(json.dumps(hunt(by_name[args.hunt], args.most)) + "\n")
        return 0
    chosen = [by_name[name] for name in args.names] or list(BUGS)
    missed = 0
    with ThreadPoolExecutor(args.jobs) as pool:
        for found in pool.map(lambda bug: _in_process(bug, args.most), chosen):
            missed += found["seeds"] is None
            sys.stdout.write(json.dumps(found) + "\n")
            sys.stdout.flush()
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
