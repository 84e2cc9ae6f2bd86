"""Steps that belong together: what is dangerous only in combination, and what chance alone would seldom draw.

A plot fits objects of one kind. It may change the object before it is created, and adds steps to the story.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from random import Random
from typing import Any

from simulation.refusals import (
    INCREMENTAL,
    REDIS,
    dashboard_refuses,
    edit,
    named,
    new_image,
    refused,
    with_fields,
)
from simulation.specs import a_template
from simulation.story import Step
from support.raycluster import container, template

Object = dict[str, Any]
Plot = Callable[[Random, Object, float], list[Step]]


def recreated(random: Random, found: Object, at: float) -> list[Step]:
    """The spec of a cluster changes that is recreated for it; perhaps twice."""
    found["spec"]["upgradeStrategy"] = {"type": "Recreate"}
    edits = [edit(found, at, new_image(random))]
    if random.random() < 0.5:
        edits.append(edit(found, at + random.choice([0.1, 3.0, 15.0]), new_image(random)))
    return edits


ROLLING: tuple[Object, ...] = (
    {},
    {"maxSurge": 1, "maxUnavailable": 0},
    {"maxSurge": 0, "maxUnavailable": 1},
    {"maxSurge": 2, "maxUnavailable": 1, "minReadySeconds": 3},
    {"groups": [{"groupName": "a", "maxSurge": 0, "maxUnavailable": 1}], "paused": False},
    {"groups": [{"groupName": "a", "maxSurge": 2}]},
    {"maxSurge": "50%", "progressDeadlineSeconds": 3600, "onFailure": "stop", "drainSeconds": 5},
)


def rolled(random: Random, found: Object, at: float) -> list[Step]:
    """Workers get a new image a few at a time; perhaps another one on the way."""
    rolling = copy.deepcopy(random.choice(ROLLING))
    groups = found["spec"]["workerGroupSpecs"]
    if not groups:
        rolling.pop("groups", None)
    found["spec"]["upgradeStrategy"] = {"type": "RollingUpdate", "rollingUpdate": rolling}
    if random.random() < 0.5:
        annotations = found["metadata"].setdefault("annotations", {})
        annotations["manta.ray.io/rolling-update-head"] = "allow"
    for group in groups:
        group |= {"replicas": random.choice([2, 3]), "minReplicas": 0, "maxReplicas": 10}
        group.pop("suspend", None)
    pauses = [0.0, random.choice([1.0, 4.0, 15.0])][: random.choice([1, 1, 2])]
    edits = []
    for pause in pauses:
        new = [{**group, "template": a_template(random)} for group in groups]
        head = new_image(random) if random.random() < 0.5 else {}
        edits.append(edit(found, at + 5.0 + pause, {"workerGroupSpecs": new, **head}))
    return edits


ANOTHER_IMAGE: Object = {
    "headGroupSpec": {"template": template(container(image="rayproject/ray:2.61.0"))}
}
"""One that no other step chooses."""


def rolled_until_it_fails(random: Random, found: Object, at: float) -> list[Step]:
    """New Pods of a rolling update do not start: it stops at its deadline, or goes back. Then the user tries it
    again, or changes the spec, perhaps while it goes back."""
    how: Object = {"progressDeadlineSeconds": random.choice([15, 30])}
    how |= {"onFailure": random.choice(["stop", "rollback", "rollback"])}
    how |= random.choice([{}, {"maxSurge": 0, "maxUnavailable": 1}, {"maxSurge": 1}])
    found["spec"]["upgradeStrategy"] = {"type": "RollingUpdate", "rollingUpdate": how}
    found["spec"]["suspend"] = False
    annotations = found["metadata"].setdefault("annotations", {})
    annotations["manta.ray.io/rolling-update-head"] = "allow"
    groups = found["spec"]["workerGroupSpecs"]
    for group in groups:
        group |= {"replicas": 2, "minReplicas": 0, "maxReplicas": 10}
        group.pop("suspend", None)
    begins, script = at + 15.0, random.choice(["start=never", "pull=error:20", "exit=1@5"])
    role, lasts = random.choice(["worker", "worker", "head"]), random.choice([25.0, 60.0, 60.0])
    fails: Object = {"role": role, "script": script, "seconds": lasts}
    steps = [Step(at=round(begins - 0.1, 2), do="pod_script", args=fails)]
    changed = [{**group, "template": a_template(random)} for group in groups]
    steps.append(edit(found, begins, {"workerGroupSpecs": changed, **new_image(random)}))
    if random.random() < 0.4:
        again = {**named(found), "decision": "retry"}
        steps.append(
            Step(at=round(begins + random.choice([32.0, 70.0]), 2), do="steer", args=again)
        )
    last = begins + random.choice([18.0, 35.0, 100.0])
    return [*steps, edit(found, last, ANOTHER_IMAGE)]


def rolled_and_suspended(random: Random, found: Object, at: float) -> list[Step]:
    """A cluster is suspended in the middle of a rolling update, for longer than the deadline of the update."""
    how: Object = {"progressDeadlineSeconds": 10, "onFailure": random.choice(["stop", "rollback"])}
    how |= random.choice([{}, {"maxSurge": 0, "maxUnavailable": 1}, {"minReadySeconds": 3}])
    found["spec"]["upgradeStrategy"] = {"type": "RollingUpdate", "rollingUpdate": how}
    found["metadata"].setdefault("annotations", {})["manta.ray.io/rolling-update-head"] = "allow"
    groups = found["spec"]["workerGroupSpecs"]
    for group in groups:
        group |= {"replicas": 2, "minReplicas": 0, "maxReplicas": 10}
        group.pop("suspend", None)
    changed = [{**group, "template": a_template(random)} for group in groups]
    begins, word = at + 10.0, random.choice(["suspend", "groups"])
    paused = begins + random.choice([0.2, 1.5, 3.0, 6.0])
    ends = paused + random.choice([4.0, 25.0, 25.0])
    steps = [edit(found, begins, {"workerGroupSpecs": changed, **new_image(random)})]
    for when, how_ in ((paused, True), (ends, False)):
        spec: Object = {"suspend": how_}
        if word == "groups":
            spec = {"workerGroupSpecs": [{**group, "suspend": how_} for group in changed]}
        steps.append(edit(found, when, spec))
    return steps


def hosts_rolled(random: Random, found: Object, at: float) -> list[Step]:
    """Replicas of several hosts are rolled; one host is lost on the way, or the number of hosts changes."""
    how: Object = random.choice([{}, {"maxSurge": 0, "maxUnavailable": 1}, {"maxSurge": "50%"}])
    found["spec"]["upgradeStrategy"] = {"type": "RollingUpdate", "rollingUpdate": dict(how)}
    groups = found["spec"]["workerGroupSpecs"]
    for group in groups:
        group |= {"numOfHosts": 2, "replicas": 2, "minReplicas": 0, "maxReplicas": 10}
        group.pop("suspend", None)
    hosts = random.choice([1, 2, 2, 3])
    new = [{**one, "numOfHosts": hosts, "template": a_template(random)} for one in groups]
    lost = {"role": "worker", "number": random.randrange(6)}
    begins = at + 10.0
    return [
        edit(found, begins, {"workerGroupSpecs": new}),
        Step(at=round(begins + random.choice([0.3, 1.5, 5.0]), 2), do="evict", args=lost),
    ]


def claim_reused(random: Random, found: Object, at: float) -> list[Step]:
    """A cluster whose GCS keeps its tables on a volume is deleted, and created again under the same name."""
    policy = random.choice(["Retain", "DeleteWithCluster"])
    storage: Object = {"size": "1Gi", "deletionPolicy": policy}
    found["spec"]["gcsFaultToleranceOptions"] = {"backend": "rocksdb", "storage": storage}
    found["spec"].pop("suspend", None)
    begins = at + 8.0
    other = "Retain" if policy == "DeleteWithCluster" else "DeleteWithCluster"
    change: Object = {"gcsFaultToleranceOptions": {"storage": {"deletionPolicy": other}}}
    steps = [Step(at=round(begins, 2), do="recreate", args=named(found))]
    if random.random() < 0.5:
        steps.append(edit(found, begins + random.choice([-0.1, 2.0, 10.0]), change))
    return sorted(steps, key=lambda step: step.at)


def rolled_often(random: Random, found: Object, at: float) -> list[Step]:
    """More edits than revisions are kept, one after the other."""
    found["spec"]["upgradeStrategy"] = {"type": "RollingUpdate", "rollingUpdate": {}}
    groups = found["spec"]["workerGroupSpecs"]
    pause, steps = random.choice([0.5, 2.0, 6.0]), []
    for number in range(13):
        new = [{**group, "labels": {"zone": f"z{number}"}} for group in groups]
        head = {"headGroupSpec": {"labels": {"zone": f"z{number}"}}}
        steps.append(edit(found, at + pause * number, {"workerGroupSpecs": new, **head}))
    return steps


def cleanup_stuck(random: Random, found: Object, at: float) -> list[Step]:
    """A cluster with fault tolerance is deleted, and its head does not die, or the Pod that cleans up Redis does not
    start, or fails."""
    found["spec"]["gcsFaultToleranceOptions"] = dict(REDIS)
    found["spec"]["suspend"] = False
    stuck = [
        ("head", "stop=never"),
        ("redis-cleanup", "start=never"),
        ("redis-cleanup", "exit=1@5"),
    ]
    role, script = random.choice([stuck[0], *stuck])
    args = {"role": role, "script": script, "seconds": random.choice([60.0, 900.0, 900.0])}
    at = 1.5 if role == "head" else at
    gone = Step(at=round(at + 5.0, 2), do="delete", args=named(found))
    return [Step(at=round(at, 2), do="pod_script", args=args), gone]


def protected(random: Random, found: Object, at: float) -> list[Step]:
    """The head gets a PodDisruptionBudget, and loses it again."""
    name = "manta.ray.io/protect-head"
    return [
        Step(at=round(when, 2), do="annotate", args={**named(found), "annotations": {name: value}})
        for when, value in ((at, "true"), (at + random.choice([5.0, 30.0]), None))
    ]


def out_of_bounds(random: Random, found: Object, at: float) -> list[Step]:
    """The replicas of a group are fewer than its least, or more than its most."""
    groups = found["spec"]["workerGroupSpecs"]
    for group in groups:
        group |= {"minReplicas": 1, "maxReplicas": 2, "replicas": random.choice([0, 4])}
        group.pop("suspend", None)
    changed = [{**group, "replicas": random.choice([0, 1, 3])} for group in groups]
    return [edit(found, at, {"workerGroupSpecs": changed})] if groups else []


def shrunk(random: Random, found: Object, at: float) -> list[Step]:
    """A group grows, and shrinks by a few."""
    groups = found["spec"]["workerGroupSpecs"]
    for group in groups:
        group |= {"replicas": random.choice([3, 4]), "maxReplicas": 10, "minReplicas": 0}
    fewer = [{**group, "replicas": group["replicas"] - random.choice([1, 2])} for group in groups]
    return [edit(found, at, {"workerGroupSpecs": fewer})] if groups else []


def shrunk_as_one_goes(random: Random, found: Object, at: float) -> list[Step]:
    """Workers die slowly; one is deleted by somebody, and its group shrinks while it still runs."""
    found["spec"].pop("enableInTreeAutoscaling", None)
    groups = found["spec"]["workerGroupSpecs"]
    for group in groups:
        group |= {"replicas": random.choice([3, 4]), "maxReplicas": 10, "minReplicas": 0}
        for name in ("suspend", "numOfHosts"):
            group.pop(name, None)
    fewer = [{**group, "replicas": group["replicas"] - 1} for group in groups]
    script = {"role": "worker", "script": "stop=60", "seconds": 90.0}
    gone = {"kind": "Pod", "number": random.randrange(5)}
    return [
        Step(at=1.5, do="pod_script", args=script),
        Step(at=round(at + 6.0, 2), do="delete_child", args=gone),
        edit(found, at + 6.0 + random.choice([1.0, 20.0, 20.0]), {"workerGroupSpecs": fewer}),
    ]


def group_paused(random: Random, found: Object, at: float) -> list[Step]:
    """The groups of a cluster are suspended by themselves, and resumed."""
    groups = found["spec"]["workerGroupSpecs"]
    for group in groups:
        group |= {"replicas": 2, "minReplicas": 0, "maxReplicas": 10, "suspend": False}
    resumes = at + 5.0 + random.choice([0.2, 5.0, 25.0])
    return [
        edit(found, when, {"workerGroupSpecs": [{**group, "suspend": how} for group in groups]})
        for when, how in ((at + 5.0, True), (resumes, False))
    ]


def token_lost(random: Random, found: Object, at: float) -> list[Step]:
    """Somebody deletes the Secret with the token, and a worker is started again."""
    found["spec"]["authOptions"] = {"mode": "token"}
    for group in found["spec"]["workerGroupSpecs"]:
        group |= {"replicas": 2, "minReplicas": 0, "maxReplicas": 10}
    return [
        Step(at=round(at + 6.0, 2), do="delete_child", args={"kind": "Secret", "number": 0}),
        Step(at=round(at + 6.2, 2), do="evict", args={"role": "worker", "number": 0}),
    ]


AROUND: dict[str, Object] = {
    "Ingress": {"headGroupSpec": {"enableIngress": True}},
    "Route": {"headGroupSpec": {"enableIngress": True}},
    "Role": {"enableInTreeAutoscaling": True},
    "RoleBinding": {"enableInTreeAutoscaling": True},
    "NetworkPolicy": {"networkPolicy": {"mode": "DenyAll"}},
    "Service": {},
}
"""What surrounds the Pods of a cluster, and the fields that it needs."""


def meddled(random: Random, found: Object, at: float) -> list[Step]:
    """Somebody changes, or deletes, what surrounds the Pods."""
    kind = random.choice(sorted(AROUND))
    with_fields(found["spec"], copy.deepcopy(AROUND[kind]))
    do = random.choice(["drift", "drift", "delete_child"])
    return [Step(at=round(at + 5.0, 2), do=do, args={"kind": kind, "number": random.randrange(2)})]


def upgraded_in_steps(random: Random, found: Object, at: float) -> list[Step]:
    """A service moves to a new cluster in steps; the user may change their mind on the way."""
    found["spec"]["upgradeStrategy"] = dict(INCREMENTAL)
    found["spec"]["rayClusterConfig"]["enableInTreeAutoscaling"] = True
    found["spec"].pop("suspend", None)
    steps = [edit(found, at + 20.0, {"rayClusterConfig": new_image(random)})]
    if random.random() < 0.3:
        later = at + 20.0 + random.choice([3.0, 12.0, 25.0])
        steps.append(edit(found, later, {"rayClusterConfig": new_image(random)}))
    elif random.random() < 0.3:
        steps.append(edit(found, at + 60.0, {"upgradeStrategy": {"type": "NewCluster"}}))
    return steps


WAITING: tuple[Object, ...] = (
    {"automatic": False},
    {"automatic": False, "gatewayClassName": "manta"},
    {
        "analysis": {
            "intervalSeconds": 5,
            "windowSeconds": 20,
            "minRequests": 1,
            "maxErrorPercent": 1.0,
            "maxP95Milliseconds": 100,
            "prometheus": {"query": "errors", "max": 1.0},
        }
    },
)
"""Canaries that wait for a person, or for figures that the fake Ray does not give."""


def _without_autoscaler(spec: Object) -> None:
    """The canary of an autoscaled cluster waits for the autoscaler to take idle workers away: Ray has none here."""
    for field in ("enableInTreeAutoscaling", "autoscalerOptions"):
        spec.pop(field, None)
    for group in spec.get("workerGroupSpecs") or ():
        for field in ("priority", "idleTimeoutSeconds"):
            group.pop(field, None)


def upgraded_as_canary(random: Random, found: Object, at: float) -> list[Step]:
    """Pods of a new cluster get requests in steps, behind one Service; the user may stop it, or change the spec."""
    weights = random.choice([(20, 50), (50,)])
    steps: list[Object] = [{"weight": weight, "pauseSeconds": 5} for weight in weights]
    options: Object = {"steps": steps, "maxSurge": random.choice([1, "50%"])}
    if random.random() < 0.2:
        options |= copy.deepcopy(random.choice(WAITING))
        steps[0]["untilPromoted"] = True
    found["spec"]["upgradeStrategy"] = {"type": "Canary", "canaryUpgradeOptions": options}
    found["spec"].pop("suspend", None)
    _without_autoscaler(found["spec"]["rayClusterConfig"])
    edits = [edit(found, at + 20.0, {"rayClusterConfig": new_image(random)})]
    if random.random() < 0.3:
        later = at + 20.0 + random.choice([3.0, 12.0, 25.0])
        edits.append(edit(found, later, {"rayClusterConfig": new_image(random)}))
    return edits


def canary_steered(random: Random, found: Object, at: float) -> list[Step]:
    """The user pauses, promotes or aborts a canary, and then changes the spec."""
    begins = at + 20.0
    steps = upgraded_as_canary(random, found, at)[:1]
    for decision in random.choice(
        [("abort",), ("promote",), ("pause", "resume"), ("pause", "abort"), ("promote", "abort")]
    ):
        begins += random.choice([1.0, 6.0, 12.0])
        args = {**named(found), "decision": decision}
        steps.append(Step(at=round(begins, 2), do="steer", args=args))
    steps.append(Step(at=140.0, do="steer", args={**named(found), "decision": "resume"}))
    last = begins + random.choice([1.0, 8.0, 60.0])
    return [*steps, edit(found, last, {"rayClusterConfig": ANOTHER_IMAGE})]


def upgraded_often(random: Random, found: Object, at: float) -> list[Step]:
    """A service gets a new spec before the last one serves."""
    found["spec"].pop("suspend", None)
    pauses = [0.0, random.choice([1.0, 8.0]), random.choice([12.0, 30.0])]
    return [edit(found, at + pause, {"rayClusterConfig": new_image(random)}) for pause in pauses]


def tick_disturbed(random: Random, found: Object, at: float) -> list[Step]:
    """The operator dies, or a reply gets lost, when a schedule starts a job."""
    found["spec"] |= {"schedule": "* * * * *", "suspend": False}
    when = random.choice([59.9, 119.9])
    crash = Step(
        at=when,
        do="crash",
        args={"replica": 0, "writes": random.choice([1, 1, 2]), "down": random.choice([0.1, 3.0])},
    )
    lost = Step(at=when, do="lose_reply", args={"verb": "create", "plural": "rayjobs", "times": 1})
    return [random.choice([crash, crash, lost])]


def forgotten(random: Random, found: Object, at: float) -> list[Step]:
    """Ray forgets a job that was submitted over HTTP, while it runs."""
    if "rayClusterSpec" not in found["spec"]:
        return []
    found["spec"] |= {"submissionMode": "HTTPMode", "suspend": False}
    return [Step(at=round(6.0 + random.random() * 8, 2), do="forget", args={"number": 0})]


def head_lost(random: Random, found: Object, at: float) -> list[Step]:
    """The head of a running job is evicted."""
    found["spec"] |= {"suspend": False}
    do = random.choice(["evict", "end_container"])
    args = {"role": "head", "number": 0} | ({"code": 137} if do == "end_container" else {})
    return [Step(at=round(6.0 + random.random() * 10, 2), do=do, args=args)]


def sidecar_lost(random: Random, found: Object, at: float) -> list[Step]:
    """The head is evicted before all workers run; the submitter runs beside it."""
    found["spec"] |= {"suspend": False, "submissionMode": "SidecarMode"}
    slow = {"role": "worker", "script": "start=15", "seconds": 90.0}
    return [
        Step(at=1.5, do="pod_script", args=slow),
        Step(
            at=round(6.0 + random.random() * 8, 2), do="evict", args={"role": "head", "number": 0}
        ),
    ]


def job_suspended(random: Random, found: Object, at: float) -> list[Step]:
    """A job is suspended while its submitter runs, and resumed."""
    found["spec"] |= {"suspend": False, "submissionMode": "K8sJobMode"}
    begins = 7.0 + random.random() * 10
    ends = begins + random.choice([0.2, 3.0, 30.0])
    return [edit(found, when, {"suspend": how}) for when, how in ((begins, True), (ends, False))]


def submitter_lost(random: Random, found: Object, at: float) -> list[Step]:
    """The Pod of the submitter is evicted while its job runs, and is not started again."""
    found["spec"] |= {
        "submissionMode": "K8sJobMode",
        "submitterConfig": {"backoffLimit": 0},
        "suspend": False,
    }
    at = round(6.0 + random.random() * 10, 2)
    return [Step(at=at, do="lose_submitter", args={"number": 0})]


def pods_fail(random: Random, found: Object, at: float) -> list[Step]:
    """All Pods of a role are evicted as soon as they run, for a while."""
    args = {"role": random.choice(["head", "worker"]), "script": "evict@0.2", "seconds": 90.0}
    return [Step(at=1.5, do="pod_script", args=args)]


def hosts_lost(random: Random, found: Object, at: float) -> list[Step]:
    """One host of a replica of several is lost."""
    for group in found["spec"]["workerGroupSpecs"]:
        group |= {"numOfHosts": 2, "replicas": 2, "minReplicas": 0, "maxReplicas": 10}
    number = random.randrange(4)
    return [
        Step(at=round(at + 4.0, 2), do="evict", args={"role": "worker", "number": number}),
        Step(at=round(at + 4.1, 2), do="delete_child", args={"kind": "Pod", "number": number}),
    ][: random.choice([1, 1, 2])]


def too_large(random: Random, found: Object, at: float) -> list[Step]:
    """No node has room for the Pods of one group, or for the head."""
    groups = [found["spec"]["headGroupSpec"], *found["spec"]["workerGroupSpecs"]]
    for one in random.choice(groups)["template"]["spec"]["containers"]:
        one["resources"] = {"requests": {"cpu": "1000"}, "limits": {"cpu": "1000"}}
    return []


def list_refused(random: Random, found: Object, at: float) -> list[Step]:
    """The watch of Pods breaks, cannot resume, and the list that it needs is refused for a while."""
    args = {"plural": "pods", "expire": True, "refused": random.choice([3, 10, 20])}
    return [Step(at=round(at + 5.0, 2), do="break_watches", args=args)]


PLOTS: dict[str, tuple[tuple[Plot, tuple[str, ...]], ...]] = {
    "RayCluster": (
        (recreated, ("user", "crash", "server", "watch", "leases", "nodes", "mixed")),
        (rolled, ("user", "crash", "server", "watch", "leases", "nodes", "mixed")),
        (rolled, ("user", "crash", "watch")),
        (rolled_until_it_fails, ("user", "crash", "server", "watch", "nodes", "mixed")),
        (rolled_and_suspended, ("user", "crash", "watch", "leases")),
        (hosts_rolled, ("user", "crash", "watch", "nodes")),
        (claim_reused, ("user", "crash", "server", "watch")),
        (rolled_often, ("user", "crash", "server", "watch")),
        (cleanup_stuck, ("nodes", "mixed")),
        (pods_fail, ("nodes",)),
        (too_large, ("user", "policy", "nodes")),
        (hosts_lost, ("nodes", "crash", "watch")),
        (protected, ("user", "policy", "crash")),
        (refused, ("policy", "mixed")),
        (shrunk_as_one_goes, ("user", "crash", "watch", "nodes")),
        (group_paused, ("user", "crash", "server", "watch", "policy")),
        (token_lost, ("user", "nodes")),
        (meddled, ("user", "crash", "server", "leases")),
        (out_of_bounds, ("user", "policy", "server")),
        (shrunk, ("user", "crash", "server", "watch", "leases")),
        (list_refused, ("watch", "mixed")),
    ),
    "RayService": (
        (refused, ("policy", "mixed")),
        (dashboard_refuses, ("ray", "mixed")),
        (upgraded_in_steps, ("user", "crash", "server", "watch", "leases", "ray", "mixed")),
        (upgraded_as_canary, ("user", "crash", "server", "watch", "leases", "ray", "mixed")),
        (canary_steered, ("user", "crash", "server", "watch", "leases", "ray", "mixed")),
        (upgraded_often, ("user", "crash", "server", "watch", "nodes", "mixed")),
    ),
    "RayJob": (
        (refused, ("policy", "mixed")),
        (dashboard_refuses, ("ray", "mixed")),
        (sidecar_lost, ("nodes", "ray")),
        (job_suspended, ("user", "crash", "server", "watch")),
        (forgotten, ("ray", "mixed")),
        (head_lost, ("nodes", "ray", "mixed")),
        (submitter_lost, ("user", "crash", "watch", "nodes")),
    ),
    "RayCronJob": (
        (refused, ("policy", "mixed")),
        (tick_disturbed, ("crash", "server", "mixed", "clock")),
    ),
}
"""By kind: the plots, and the profiles that have them."""


def plotted(random: Random, profile: str, objects: list[Object]) -> list[Step]:
    """The steps of one plot that fits; none if nothing does."""
    found = random.choice(objects)
    fitting = [plot for plot, profiles in PLOTS[found["kind"]] if profile in profiles]
    if not fitting:
        return []
    return random.choice(fitting)(random, found, 4.0 + random.random() ** 2 * 30)
