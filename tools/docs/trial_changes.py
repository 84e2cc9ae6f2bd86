"""Common changes, tried out: which source files each one touches, and a check that the change took effect.

A trial is applied in memory: the check runs in a process that imports the edited modules and all others as they are.
The names are those of `CHANGES` in package_map.py, whose table shows the files; `tests/architecture/test_trial_changes.py` runs them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Trial:
    edits: Mapping[str, tuple[str, str]]
    """Source file below src/manta -> the text in it, and what replaces it. A new file has no text before."""
    check: str
    """Python that fails without the change."""


TRIALS: Final[Mapping[str, Trial]] = {
    "readiness probe of workers": Trial(
        {"manifests/probes.py": ("failures = 10", "failures = 20")},
        """
from manta.manifests.probes import add_probes
container = {}
add_probes(container, {}, head=False, serving=False, ray_version="2.60.0")
assert container["readinessProbe"]["failureThreshold"] == 20
""",
    ),
    "condition of a RayJob": Trial(
        {
            "api/ray/job.py": (
                '    COMPLETE = "Complete"\n    FAILED = "Failed"\n\n\nclass SubmissionMode',
                '    COMPLETE = "Complete"\n    FAILED = "Failed"\n    SUSPENDED = "Suspended"\n\n\nclass SubmissionMode',
            ),
            "controllers/rayjob/conditions.py": (
                "    wanted = (\n",
                '    wanted = (\n        (JobConditionType.SUSPENDED, *_is(Stage.SUSPENDED, stage, "", "")),\n',
            ),
        },
        """
from datetime import UTC, datetime
from types import SimpleNamespace
from manta.api.ray.job import RayJobStatus
from manta.controllers.rayjob.conditions import conditions
snapshot = SimpleNamespace(status=RayJobStatus(), now=datetime.now(UTC))
found = conditions(snapshot, RayJobStatus(job_deployment_status="Complete"), None)
assert ("Suspended", "False") in [(one.type, one.status) for one in found]
""",
    ),
    "deletion policy of a RayJob": Trial(
        {
            "api/ray/job.py": (
                '    DELETE_NONE = "DeleteNone"\n\n\nDELETION_IMPACT: Final = (\n',
                (
                    '    DELETE_NONE = "DeleteNone"\n    KEEP_HEAD = "KeepHead"\n\n\n'
                    "DELETION_IMPACT: Final = (\n    DeletionPolicyType.KEEP_HEAD,\n"
                ),
            ),
            "controllers/rayjob/deletion_policies.py": (
                "DeletionPolicyType.DELETE_NONE: Policy(",
                (
                    "DeletionPolicyType.KEEP_HEAD: Policy(_suspend_workers, _are_workers_gone),\n"
                    "    DeletionPolicyType.DELETE_NONE: Policy("
                ),
            ),
        },
        """
from manta.api.ray.job import DELETION_IMPACT, DeletionPolicyType
from manta.controllers.rayjob.deletion_policies import POLICIES
assert "KeepHead" in POLICIES and POLICIES.keys() == set(DELETION_IMPACT) == set(DeletionPolicyType)
""",
    ),
    "flag of the operator": Trial(
        {
            "operator/option_table.py": (
                "FLAGS: Final = (\n",
                'FLAGS: Final = (\n    Flag("worker-grace", int, 7, "seconds", setting="worker_grace"),\n',
            ),
            "rules/settings.py": (
                "    login_shell: bool = False\n",
                "    login_shell: bool = False\n    worker_grace: int = 7\n",
            ),
        },
        """
import argparse
from manta.operator.options import add_flags, options_from
parser = argparse.ArgumentParser()
add_flags(parser)
assert options_from(parser.parse_args([]), {}).settings.worker_grace == 7
assert options_from(parser.parse_args(["--worker-grace=9"]), {}).settings.worker_grace == 9
""",
    ),
    "environment variable of the operator": Trial(
        {
            "operator/option_table.py": (
                "VARIABLES: Final = (\n",
                'VARIABLES: Final = (\n    Variable("HOST_IPC", "host_ipc", "Pods share the IPC namespace"),\n',
            ),
            "rules/settings.py": (
                "    login_shell: bool = False\n",
                "    login_shell: bool = False\n    host_ipc: bool = False\n",
            ),
        },
        """
import argparse
from manta.operator.options import add_flags, options_from
parser = argparse.ArgumentParser()
add_flags(parser)
assert options_from(parser.parse_args([]), {"HOST_IPC": "true"}).settings.host_ipc
""",
    ),
    "feature gate": Trial(
        {
            "rules/settings.py": (
                "class FeatureGates:\n",
                'class FeatureGates:\n    tpu_slices: bool = _gate("TPUSlices", default=False)\n',
            )
        },
        """
import argparse
from manta.operator.options import add_flags, options_from
parser = argparse.ArgumentParser()
add_flags(parser)
assert options_from(parser.parse_args(["--feature-gates=TPUSlices=true"]), {}).settings.gates.tpu_slices
""",
    ),
    "built-in kind of the API server": Trial(
        {
            "localplane/apiserver/builtin_resources/core.py": (
                "CORE: Final[tuple[ApiResource, ...]] = (\n",
                (
                    "CORE: Final[tuple[ApiResource, ...]] = (\n"
                    '    builtin("storage.k8s.io/v1/csinodes", "CSINode", namespaced=False, roles=VIEW),\n'
                ),
            )
        },
        """
from manta.localplane.apiserver.registry import Registry
assert Registry().find("storage.k8s.io", "v1", "csinodes").kind == "CSINode"
""",
    ),
    "name of the leader lease": Trial(
        {"api/ray/names.py": ('"ray-operator-leader"', '"manta-leader"')},
        """
from manta.install.kuberay import LEADER_LEASE_NAME as installed
from manta.operator.process import LEADER_LEASE_NAME as held
assert installed == held == "manta-leader"
""",
    ),
    "message of an image pull": Trial(
        {"localplane/kubelet.py": ("Failed to pull image", "Cannot pull image")},
        """
from manta.localplane.fakenodes.pod_status import pull_failed as fake
from manta.localplane.node.images.store import pull_failed as real
assert fake("a", "b") == real("a", "b") == 'Cannot pull image "a": b'
""",
    ),
    "command of the CLI": Trial(
        {
            "cli/main.py": (
                "VERBS: Mapping[str, str] = {\n",
                'VERBS: Mapping[str, str] = {\n    "hello": "greet",\n',
            ),
            "cli/hello.py": (
                "",
                "def add_parser(subparsers):\n    subparsers.add_parser('hello')\n\n\ndef run(args):\n    return 7\n",
            ),
        },
        """
from manta.cli.main import main
assert main(["hello"]) == 7
""",
    ),
    "which worker is deleted on scale-down": Trial(
        {
            "controllers/raycluster/planners/scale_down_order.py": (
                "key=_age, reverse=True",
                "key=_age",
            )
        },
        """
import msgspec
from manta.api.core import Pod
from manta.controllers.raycluster.planners.scale_down_order import in_scale_down_order
old, new = (
    msgspec.convert({"metadata": {"name": name, "creationTimestamp": name}}, Pod) for name in ("2020", "2026")
)
assert in_scale_down_order([new, old]) == [old, new]
""",
    ),
    "validation of a RayCronJob": Trial(
        {
            "rules/validation/cronjob.py": (
                "    return (\n",
                '    return (\n        *((Violation("spec.timeZone", None, "required"),) if not cron.spec.time_zone else ()),\n',
            )
        },
        """
import msgspec
from manta.api.ray.cronjob import RayCronJob
from manta.rules.settings import Settings
from manta.rules.validation.cronjob import cronjob_violations
job = {"metadata": {"name": "a"}, "spec": {"schedule": "* * * * *", "jobTemplate": {"entrypoint": "true"}}}
found = cronjob_violations(msgspec.json.decode(msgspec.json.encode(job), type=RayCronJob), Settings())
assert "required" in [one.message for one in found]
""",
    ),
}
