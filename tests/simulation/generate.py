"""Draws a story from a seed and a profile. Pure: the same seed gives the same story."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any, TypeVar

from simulation.actions import DRIFT
from simulation.plots import plotted
from simulation.specs import an_annotation, an_edit, an_object
from simulation.story import Step, Story, settings_from
from simulation.validity import problems
from support.merge_patch import merged
from support.raycluster import NAMESPACE, container

Object = dict[str, Any]
TRIES = 12
"""Draws until an object or an edit is valid."""
FAULTS_END = 150.0
"""No fault begins later, in virtual seconds."""
PLURALS = ("pods", "rayclusters", "rayjobs", "rayservices", "services", "jobs", "secrets")
OTHERS = (
    "serviceaccounts",
    "roles",
    "rolebindings",
    "ingresses",
    "routes",
    "networkpolicies",
    "poddisruptionbudgets",
    "persistentvolumeclaims",
    "gateways",
    "httproutes",
    "controllerrevisions",
)
"""What surrounds the Pods of some clusters."""
KINDS = ("RayCluster", "RayCluster", "RayJob", "RayService", "RayCronJob")
KINDS_OF = {
    "ray": ("RayCluster", "RayJob", "RayJob", "RayService", "RayService"),
    "nodes": ("RayCluster", "RayCluster", "RayJob", "RayJob", "RayService"),
    "clock": ("RayCluster", "RayJob", "RayJob", "RayService", "RayCronJob"),
}
"""Profiles whose faults are about some kinds."""
PLOTTED = {"policy": 0.8}
"""How many stories of a profile have a plot, if not every other one: a refusal needs one to matter."""
T = TypeVar("T")
Args = dict[str, Any]
Faults = dict[str, Callable[[Random], Args]]


def _replica(random: Random) -> int:
    return random.randrange(2)


OPERATOR: Faults = {
    "crash": lambda r: {
        "replica": _replica(r),
        "writes": r.choice([1, 1, 2, 3, r.randint(1, 12)]),
        "before": r.random() < 0.3,
        "down": r.choice([0.1, 1.0, 5.0, 20.0]),
    },
    "kill": lambda r: {"replica": _replica(r), "down": r.choice([0.1, 5.0, 30.0])},
    "stop": lambda r: {"replica": _replica(r), "down": r.choice([0.1, 3.0])},
    "cut_off": lambda r: {"replica": _replica(r), "seconds": r.choice([3.0, 15.0, 60.0])},
}
SERVER: Faults = {
    "fail": lambda r: {
        "verb": r.choice(
            ["any", "write", "create", "patch", "delete", "update", "read", "watch", "watch"]
        ),
        "plural": r.choice(["", "", "pods", *PLURALS, r.choice(OTHERS)]),
        "code": r.choice([409, 410, 429, 500, 503, 504]),
        "times": r.choice([1, 2, 4, 8, 30]),
    },
    "lose_reply": lambda r: {
        "verb": r.choice(["write", "create", "patch", "delete"]),
        "plural": r.choice(["", "", "pods", *PLURALS]),
        "times": r.choice([1, 2, 5, 12]),
    },
    "slow": lambda r: {
        "verb": r.choice(["any", "write", "create", "read"]),
        "plural": r.choice(["", *PLURALS]),
        "seconds": r.choice([0.5, 4.0, 20.0, 40.0]),
        "times": r.randint(1, 6),
    },
}
WATCH: Faults = {
    "delay_watch": lambda r: {
        "plural": r.choice(["pods", "rayclusters", *PLURALS]),
        "seconds": r.choice([0.5, 3.0, 10.0, 30.0]),
        "lasts": r.choice([10.0, 60.0]),
    },
    "hold_watches": lambda r: {
        "plurals": sorted(r.sample(PLURALS, r.randint(1, len(PLURALS)))),
        "seconds": r.choice([2.0, 10.0, 45.0]),
    },
    "drop_events": lambda r: {
        "plural": r.choice(["pods", "rayclusters", *PLURALS]),
        "relist": r.choice([1.0, 10.0, 40.0]),
    },
    "break_watches": lambda r: {
        "plural": r.choice(["", "", "pods", *PLURALS]),
        "expire": r.random() < 0.5,
        "refused": r.choice([0, 0, 1, 3]),
    },
    "lose_reply": lambda r: {
        "verb": "create",
        "plural": r.choice(["", "pods"]),
        "times": r.choice([1, 3]),
    },
}
LEASES: Faults = {
    "pause": lambda r: {"replica": _replica(r), "seconds": r.choice([5.0, 20.0, 40.0])},
    "fail": lambda r: {
        "verb": r.choice(["any", "update"]),
        "plural": "leases",
        "code": r.choice([409, 500, 503]),
        "times": r.choice([2, 10, 40]),
    },
    "cut_off": OPERATOR["cut_off"],
    "kill": OPERATOR["kill"],
    "stop": OPERATOR["stop"],
    "crash": OPERATOR["crash"],
}
NODES: Faults = {
    "node_down": lambda r: {"number": r.randrange(3), "seconds": r.choice([10.0, 60.0, 400.0])},
    "node_gone": lambda r: {"number": r.randrange(3), "seconds": r.choice([5.0, 60.0])},
    "evict": lambda r: {"role": r.choice(["head", "worker"]), "number": r.randrange(5)},
    "end_container": lambda r: {
        "role": r.choice(["head", "worker"]),
        "number": r.randrange(5),
        "code": r.choice([0, 1, 137]),
    },
    "lose_submitter": lambda r: {"number": r.randrange(3)},
    "pod_script": lambda r: {
        "role": r.choice(["head", "worker", "redis-cleanup"]),
        "script": r.choice(
            [
                "start=never",
                "pull=error:20",
                "init-exit=42",
                "ready=never",
                "exit=1@5",
                "oom@8",
                "stop=never",
                "stop=60",
                "start=15",
                "evict@6",
                "evict@0.2",
            ]
        ),
        "seconds": r.choice([20.0, 90.0, 400.0]),
    },
}
RAY: Faults = {
    "dashboard": lambda r: {
        "topic": r.choice(["any", "jobs", "serve", "probe"]),
        "how": r.choice(
            ["hang", "500", "read-only", "read-only", "refuse", "nonsense", "lose-reply", "empty"]
        ),
        "seconds": r.choice([5.0, 30.0, 120.0]),
    },
    "forget": lambda r: {"number": r.randrange(4)},
    "serve_status": lambda r: {
        "number": r.randrange(4),
        "status": r.choice(["UNHEALTHY", "DEPLOYING", "DEPLOY_FAILED", "DELETING"]),
        "seconds": r.choice([5.0, 40.0]),
    },
    "end_container": NODES["end_container"],
}
POLICY: Faults = {
    "quota": lambda r: {"pods": r.randint(0, 3), "seconds": r.choice([10.0, 60.0])},
    "deny": lambda r: {
        "verb": r.choice(["create", "create", "patch", "delete"]),
        "plural": r.choice([*["pods", "services", "rayclusters", "jobs"] * 3, "secrets", *OTHERS]),
        "seconds": r.choice([5.0, 40.0]),
    },
    "old_crds": lambda r: {"seconds": r.choice([10.0, 60.0])},
}
CLOCK: Faults = {
    "clock_jump": lambda r: {
        "replica": _replica(r),
        "seconds": r.choice([-3600.0, -30.0, 30.0, 3600.0, 86400.0]),
        "lasts": r.choice([5.0, 60.0]),
    },
    "kill": OPERATOR["kill"],
}
PROFILES: dict[str, Faults] = {
    "user": {},
    "crash": OPERATOR,
    "server": SERVER,
    "watch": WATCH,
    "leases": LEASES,
    "nodes": NODES,
    "ray": RAY,
    "policy": POLICY,
    "clock": CLOCK,
    "mixed": {**OPERATOR, **SERVER, **WATCH, **NODES, **RAY, **POLICY, **CLOCK},
}
"""`user` has edits, deletions and re-creations only; the others add faults to them."""


def profile_of(seed: int, profile: str) -> str:
    return list(PROFILES)[seed % len(PROFILES)] if profile == "all" else profile


def generate(seed: int, profile: str = "all", kind: str = "") -> Story:
    """`kind`: one of the objects is of this kind, whatever the profile draws."""
    name = profile_of(seed, profile)
    random = Random("/".join((name, str(seed), *([kind] if kind else []))))
    objects, plot, settings = _beginning(random, name, kind)
    steps = [
        Step(at=round(2.0 + number * random.random() * 3, 2), do="create", args={"object": one})
        for number, one in enumerate(objects)
    ]
    steps += plot
    for _ in range(random.choice([0, 1, 2, 3, 4]) if name != "user" else random.randint(1, 6)):
        steps += _user_steps(random, objects, steps, settings)
    faults = PROFILES[name]
    anchors = tuple(steps)
    for _ in range(random.choice([1, 2, 3, 4, 6]) if faults else 0):
        do = random.choice(sorted(faults))
        steps.append(Step(at=_moment(random, anchors), do=do, args=faults[do](random)))
    return Story(
        seed=seed,
        profile=name,
        steps=tuple(sorted(steps, key=lambda step: step.at)),
        replicas=2 if name == "leases" or random.random() < 0.05 else 1,
        latency=random.choice([0.0, 0.0, 0.05, 0.3]),
        job_seconds=random.choice([5.0, 20.0, 60.0]),
        job_status=random.choice(["SUCCEEDED", "SUCCEEDED", "FAILED"]),
        settings=settings,
    )


Beginning = tuple[list[Object], list[Step], Object]


def _beginning(random: Random, name: str, kind: str) -> Beginning:
    """The objects, the steps of a plot, and the operator's settings."""

    def draw() -> Beginning:
        objects = _objects(random, KINDS_OF.get(name, KINDS), kind)
        plot = plotted(random, name, objects) if random.random() < PLOTTED.get(name, 0.5) else []
        return objects, plot, _settings(random, objects)

    def is_valid(drawn: Beginning) -> bool:
        return not any(problems(one, settings_from(drawn[2])) for one in drawn[0])

    return _mostly(random, draw, is_valid)


def _an_edit(random: Random, found: Object, settings: Object) -> Object:
    def is_valid(change: Object) -> bool:
        edited = {**found, "spec": merged(found["spec"], change)}
        return not problems(edited, settings_from(settings))

    return _mostly(random, lambda: an_edit(random, found), is_valid)


def _mostly(random: Random, draw: Callable[[], T], is_valid: Callable[[T], bool]) -> T:
    """Nine in ten are valid, if a few draws can find one."""
    drawn = draw()
    for _ in range(TRIES if random.random() < 0.9 else 0):
        if is_valid(drawn):
            break
        drawn = draw()
    return drawn


def _moment(random: Random, anchors: Sequence[Step]) -> float:
    """Most steps come at a bad moment: shortly before or after what the user does. The rest is spread."""
    if random.random() < 0.6:
        about = random.choice(anchors).at + random.choice([-0.3, 0.05, 0.5, 2.0, 6.0, 20.0])
        return round(max(1.1, about + random.random() * random.choice([0.1, 2.0])), 2)
    return round(2.0 + random.random() ** 2 * FAULTS_END, 2)


def _objects(random: Random, drawn: Sequence[str], kind: str) -> list[Object]:
    kinds = random.sample(drawn, random.choice([1, 1, 1, 2]))
    if kind and kind not in kinds:
        kinds[0] = kind
    found = []
    for number, each in enumerate(kinds):
        found.append(an_object(random, each, f"{each[3:].lower()}-{number}", rare=True))
    for one in found:
        clusters = [each["metadata"]["name"] for each in found if each["kind"] == "RayCluster"]
        if one["kind"] == "RayJob" and clusters and random.random() < 0.7:
            one["spec"].pop("rayClusterSpec")
            one["spec"]["clusterSelector"] = {"ray.io/cluster": clusters[0]}
            for field in (
                "shutdownAfterJobFinishes",
                "deletionStrategy",
                "backoffLimit",
                "suspend",
            ):
                one["spec"].pop(field, None)
    return found


USER_STEPS = (
    *["edit"] * 4,
    *["autoscale"] * 2,
    "suspend",
    "delete_child",
    "drift",
    "drift",
    "annotate",
    "recreate",
    "delete",
    "foreign",
)


def _user_steps(
    random: Random, objects: list[Object], steps: Sequence[Step], settings: Object
) -> list[Step]:
    found = random.choice(objects)
    named: Args = {"kind": found["kind"], "name": found["metadata"]["name"]}
    at, do = _moment(random, steps), random.choice(USER_STEPS)
    groups = found["spec"].get("workerGroupSpecs") if found["kind"] == "RayCluster" else None
    match do:
        case "autoscale" if groups:
            args: Args = {"replicas": random.randint(0, 5), "remove": random.choice([0, 1, 2])}
            args |= {"name": named["name"], "group": random.choice(groups)["groupName"]}
            return [Step(at=at, do=do, args=args)]
        case "suspend" if found["kind"] != "RayCronJob":
            ends = round(at + random.choice([0.05, 1.0, 10.0, 40.0]), 2)
            return [
                Step(at=when, do="edit", args={**named, "spec": {"suspend": how}})
                for when, how in ((at, True), (ends, False))
            ]
        case "delete_child":
            kinds = [
                *["Pod"] * 4,
                "Service",
                "Service",
                "Job",
                "RayCluster",
                "RayCluster",
                "Secret",
            ]
            kinds.append(random.choice(sorted(DRIFT)))
            args = {"kind": random.choice(kinds), "number": random.randrange(5)}
            return [Step(at=at, do=do, args=args)]
        case "drift":
            return [Step(at=at, do=do, args={"number": random.randrange(8)})]
        case "annotate" if annotations := an_annotation(random, found["kind"]):
            args = {name: None if random.random() < 0.3 else to for name, to in annotations.items()}
            return [Step(at=at, do=do, args={**named, "annotations": args})]
        case "recreate" | "delete":
            return [Step(at=at, do=do, args=named)]
        case "foreign":
            return [Step(at=at, do=do, args={"object": _foreign(random, named["name"])})]
        case _:
            return [
                Step(at=at, do="edit", args={**named, "spec": _an_edit(random, found, settings)})
            ]


def _foreign(random: Random, cluster: str) -> Object:
    """An object of somebody else that carries our labels or one of our names."""
    labels = {"ray.io/cluster": cluster, "ray.io/node-type": random.choice(["worker", "head"])}
    labels |= {"ray.io/group": random.choice(["a", "headgroup"])}
    if random.random() < 0.5:
        meta = {"name": f"stranger-{random.randrange(100)}", "namespace": NAMESPACE}
        spec: Object = {"containers": [container()]}
        return {"kind": "Pod", "metadata": {**meta, "labels": labels}, "spec": spec}
    meta = {"name": f"{cluster}-{random.choice(['head-svc', 'serve-svc'])}", "namespace": NAMESPACE}
    spec = {"ports": [{"port": 1234}], "selector": {"app": "else"}}
    return {"kind": "Service", "metadata": meta, "spec": spec}


GATES = {
    "networkPolicy": "ray_cluster_network_policy",
    "rocksdb": "gcs_fault_tolerance_embedded_storage",
    "historyServerOptions": "ray_cluster_history_server",
    "tlsOptions": "ray_cluster_mtls",
    "SidecarMode": "sidecar_submitter_restart",
}
"""Gates, by a word in the specs that need them."""


def _settings(random: Random, objects: list[Object]) -> Object:
    found: Object = {}
    text, chance = str(objects), random.random()
    gates = [
        gate
        for word, gate in GATES.items()
        if random.random() < (0.95 if word in text else 0.3 * (chance < 0.2))
    ]
    if gates:
        found["gates"] = sorted(gates)
    if random.random() < 0.15:
        found["deterministic_head_pod_name"] = True
    if random.random() < (0.3 if "enableIngress" in text else 0.05):
        found["openshift"] = True
    return found
