"""The run without faults that the end of a story is compared with.

It has the user's objects as they were in the end, in a fresh world. Faults and edits may change how a Ray job ends:
then its RayJob must end as one of several runs without faults does, in which the job succeeds, fails, or is too late.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from manta.api.ray import names
from simulation import actions
from simulation.actions import policy
from simulation.oracles import is_operator
from simulation.outcome import INVALID, Outcome, differences, outcome_of
from simulation.run import ENOUGH, Prepare, Quiet, Result, play, run
from simulation.story import Step, Story
from simulation.world import World, simulate
from support.merge_patch import merged

Object = dict[str, Any]
JOBS = "rayjobs.ray.io "
DEADLINES = ("activeDeadlineSeconds", "preRunningDeadlineSeconds")
ENDED = ("Complete", "Failed", "Suspended")
SHUTDOWN = ("shutdownAfterJobFinishes", "ttlSecondsAfterFinished", "deletionStrategy")
"""What becomes of the cluster of a RayJob that has ended."""
ENDS_OPERATOR = ("crash", "cut_off", "kill", "pause", "stop")
"""Steps after which another process may lead, which watches only what its clusters ask for."""
NOTICED = 15.0
"""Seconds within which an operator that starts, or takes the lease over, has seen what changed."""
OVERDUE = "JobDeploymentStatusTransitionGracePeriodExceeded"


def run_checked(story: Story, prepare: Prepare | None = None) -> Result:
    """Run a story, and compare its end with a run without faults from the specs that it ended with."""
    result = run(story, prepare)
    if result.outcome is not None:
        found = [f"converges: {one}" for one in _compared(result, result.outcome)]
        result.violations += found[:ENOUGH]
    return result


def _compared(result: Result, outcome: Outcome) -> Iterator[str]:
    wanted = _reference(result.story, result.objects, result.foreign)
    for key in sorted({*outcome, *wanted}):
        found, other = outcome.get(key), wanted.get(key)
        if key.startswith(JOBS) and _may_end_otherwise(result, key.removeprefix(JOBS)):
            yield from _job_differences(result, key, found, other)
        elif said := list(differences(_beside_limits(result, key, found, other), other, f"/{key}")):
            yield from () if _is_from_before(result, key, found, other) else said


def _beside_limits(
    result: Result, key: str, found: Outcome | None, other: Outcome | None
) -> Outcome | None:
    return _without_budget(result, key, _in_time(result, found, other), other)


def _without_budget(
    result: Result, key: str, found: Outcome | None, other: Outcome | None
) -> Outcome | None:
    """PodDisruptionBudgets are not watched before a cluster asks for one: if the annotation of a head is removed while
    no operator runs, its budget stays (docs/guide/fault-tolerance.md)."""
    budget, (resource, _, name) = "poddisruptionbudgets.policy <name>-head", key.partition(" ")
    if resource != "rayclusters.ray.io" or found is None or other is None:
        return found
    if budget in other["objects"] or not _unprotected_unseen(result, name):
        return found
    return {**found, "objects": {k: one for k, one in found["objects"].items() if k != budget}}


def _unprotected_unseen(result: Result, name: str) -> bool:
    """Whether the operator that saw the budget may have ended before it saw the annotation go."""
    steps = result.story.steps
    removed = [
        step.at
        for step in steps
        if step.do == "annotate"
        and (step.args["kind"], step.args["name"]) == ("RayCluster", name)
        and step.args["annotations"].get(names.ANNOTATION_PROTECT_HEAD, "true") != "true"
    ]
    ended = [(step.at, _down(step)) for step in steps if step.do in ENDS_OPERATOR]
    return any(at - down <= then <= at + NOTICED for at in removed for then, down in ended)


def _down(step: Step) -> float:
    """For how long no operator may run. A crash comes with a write that may be long in coming."""
    if step.do == "crash":
        return float("inf")
    return float(step.args.get("down", step.args.get("seconds", 0.0))) + NOTICED


def _in_time(result: Result, found: Outcome | None, other: Outcome | None) -> Outcome | None:
    """An operator whose clock is ahead of Ray's gives the submitter of a job that has ended no time to print the log,
    as in KubeRay, and says so in the reason of the RayJob."""
    is_ahead = any(
        step.do == "clock_jump" and step.args["seconds"] > 0 for step in result.story.steps
    )
    if found is None or other is None or not is_ahead or found.get("reason") != OVERDUE:
        return found
    return {**found, "reason": other["reason"]}


def _is_from_before(result: Result, key: str, found: Outcome | None, other: Outcome | None) -> bool:
    """Whether a CRD of an older release explains the difference: what was made for a field that it removed stays
    until the user edits the object; and a cluster that a RayService or RayJob made meanwhile lacks the field."""
    for objects in _versions(result)[1:]:
        wanted = _reference(result.story, objects, result.foreign).get(key)
        if not any(differences(_undrifted(found, other, wanted), wanted)):
            return True
    return False


def _undrifted(
    found: Outcome | None, other: Outcome | None, wanted: Outcome | None
) -> Outcome | None:
    """Without changes of somebody else to what was made for a removed field: the operator does not know how to
    correct them."""
    if not (found and other and wanted) or "objects" not in found:
        return found
    made = {
        name: one
        for name, one in wanted["objects"].items()
        if name in found["objects"] and name not in other["objects"]
    }
    return {**found, "objects": {**found["objects"], **made}}


def _versions(result: Result) -> list[list[Object]]:
    """The objects as they are in the end; if a CRD of an older release was installed, also as the user asked for
    them, and as it prunes their clusters."""
    if not any(step.do == "old_crds" for step in result.story.steps):
        return [result.objects]
    return [result.objects, result.asked, [_pruned(one) for one in result.objects]]


def _pruned(found: Object) -> Object:
    """The object, if its cluster was made when the RayCluster CRD was of an older release."""
    spec = dict(found["spec"])
    for name in {"rayClusterSpec", "rayClusterConfig"} & set(spec):
        inner = {key: one for key, one in spec[name].items() if key not in policy.OLD_FIELDS}
        inner["workerGroupSpecs"] = [
            {key: one for key, one in group.items() if key not in policy.OLD_GROUP_FIELDS}
            for group in inner.get("workerGroupSpecs") or ()
        ]
        spec[name] = inner
    return {**found, "spec": spec}


_REFERENCES: dict[bytes, Outcome] = {}


def _reference(story: Story, objects: list[Object], foreign: list[Object]) -> Outcome:
    """The outcome of a run without faults. Services of somebody else have taken their names before."""
    taken = [one for one in foreign if one["kind"] == "Service"]
    steps = (
        *(Step(at=1.5, do="foreign", args={"object": one}) for one in taken),
        *(Step(at=2.0, do="create", args={"object": one}) for one in objects),
    )
    calm = Story(
        seed=0,
        profile="reference",
        steps=steps,
        settings=story.settings,
        job_seconds=story.job_seconds,
        job_status=story.job_status,
    )
    key = msgspec.json.encode(calm, order="deterministic")
    if key not in _REFERENCES:
        if len(_REFERENCES) > 500:
            _REFERENCES.clear()
        _REFERENCES[key] = simulate(_calmly, calm)
    return _REFERENCES[key]


async def _calmly(world: World) -> Outcome:
    quiet = Quiet(world)
    await world.begin()
    await play(world)
    await actions.suspend_schedules(world)
    await quiet.wait()
    return outcome_of(world)


# ── jobs ─────────────────────────────────────────────────────────────────────────────────


def _may_end_otherwise(result: Result, name: str) -> bool:
    """Whether the steps of the story may change how this job ends: they kill or edit it, or what it runs on; or they
    make an operator too late, or too early, for a deadline."""
    spec = _spec_of(result.objects, name)
    disturbed = [step for step in result.story.steps if step.do != "create"]
    if disturbed and any(field in spec for field in DEADLINES):
        return True
    return any(
        actions.ACTIONS[step.do].touches_jobs
        or (step.args.get("kind") == "RayJob" and step.args.get("name") == name)
        or ("clusterSelector" in spec and actions.ACTIONS[step.do].area == "user")
        for step in disturbed
    )


def _spec_of(objects: list[Object], name: str) -> Object:
    found = [one for one in objects if _is_job(one, name)]
    return dict(found[0]["spec"]) if found else {}


def _job_differences(
    result: Result, key: str, found: Outcome | None, wanted: Outcome | None
) -> Iterator[str]:
    """The RayJob must have ended as in one of the variants: with this stage, and with so many clusters left."""
    if wanted is not None and (INVALID in wanted or _waits(result, key, wanted)):
        return  # without faults it waits, for a user or for a cluster: it may have ended before that
    tried = [_end_of(wanted)]
    if _end_of(found) in tried:
        return
    for story, objects in _variants(result, key.removeprefix(JOBS)):
        other = _reference(story, objects, result.foreign).get(key)
        tried.append(_end_of(other))
        if _end_of(found) == tried[-1] or _without_cluster(result, found, other):
            return
    ends = "; ".join(sorted(set(tried)))
    yield f"/{key}: it is {_end_of(found)}, and without faults one of: {ends}"


def _waits(result: Result, key: str, wanted: Outcome) -> bool:
    """Whether it waits in the end, or has waited until its deadline for a selected cluster that the user deleted."""
    selector = _spec_of(result.objects, key.removeprefix(JOBS)).get("clusterSelector") or {}
    selected = selector.get(names.LABEL_CLUSTER)
    there = {one["metadata"]["name"] for one in result.objects if one["kind"] == "RayCluster"}
    return wanted["deployment"] not in ENDED or (selected is not None and selected not in there)


def _without_cluster(result: Result, found: Outcome | None, other: Outcome | None) -> bool:
    """Whether the only difference is a cluster that the user has deleted: a job that has ended makes no new one."""
    if found is None or other is None or found["clusters"] or found["deployment"] not in ENDED:
        return False
    deleted = any(
        step.do == "delete_child" and step.args["kind"] == "RayCluster"
        for step in result.story.steps
    )
    return deleted and bool(found["deployment"] == other["deployment"])


def _end_of(job: Outcome | None) -> str:
    if job is None:
        return "gone"
    return f"{job['deployment'] or 'new'} with {job['clusters']} clusters"


def _variants(result: Result, name: str) -> Iterator[tuple[Story, list[Object]]]:
    """The same objects, where the job succeeds, fails, or misses a deadline, and was never suspended."""
    for objects in (*_versions(result), *_as_shut_down(result, name)):
        spec = _spec_of(objects, name)
        for suspend in dict.fromkeys((spec.get("suspend", False), False)):
            timeless = {key: value for key, value in spec.items() if key not in DEADLINES}
            timeless["suspend"] = suspend
            for status in ("SUCCEEDED", "FAILED"):
                story = msgspec.structs.replace(result.story, job_status=status)
                yield story, _with_spec(objects, name, timeless)
            for field in DEADLINES:
                if field in spec:
                    yield result.story, _with_spec(objects, name, {**timeless, field: 1})


def _as_shut_down(result: Result, name: str) -> Iterator[list[Object]]:
    """The objects, where the user asks that of the RayJob's cluster which they asked when an operator deleted it: a
    later edit does not bring it back."""
    at = _shut_down_at(result, name)
    if at is None:
        return
    asked: Object = {}
    for step in sorted(result.story.steps, key=lambda one: one.at):
        args = step.args
        if step.at >= at:
            break
        if step.do == "create" and _is_job(args["object"], name):
            asked = args["object"]["spec"]
        elif step.do == "edit" and (args["kind"], args["name"]) == ("RayJob", name):
            asked = merged(asked, args["spec"])
    spec = _spec_of(result.objects, name)
    then = {key: one for key, one in spec.items() if key not in SHUTDOWN}
    then |= {key: asked[key] for key in SHUTDOWN if key in asked}
    if then != spec:
        yield _with_spec(result.objects, name, then)


def _shut_down_at(result: Result, name: str) -> float | None:
    """When an operator deleted the last cluster of this RayJob."""
    words = (line.split() for line in result.lines)
    found = [
        float(at)
        for at, by, *what in words
        if is_operator(by)
        and what[:2] == ["DELETED", "rayclusters.ray.io"]
        and what[2].startswith(f"default/{name}-")
    ]
    return found[-1] if found else None


def _is_job(found: Object, name: str) -> bool:
    return (found["kind"], found["metadata"]["name"]) == ("RayJob", name)


def _with_spec(objects: list[Object], name: str, spec: Object) -> list[Object]:
    return [{**one, "spec": spec} if _is_job(one, name) else one for one in objects]
