"""The table of what can happen in a story: users, operators, the API server, watches, nodes, Ray, policy.

To add a fault, write a function here with `@action`, undo it in `calm` if it lasts, and let `generate` draw
it. Every function gets the world and the arguments of the step; what cannot be done is skipped, because a step
may have lost its object when a story is shortened.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from manta.api.meta import Key
from manta.api.ray import names
from manta.api.ray.resources import RAY_CLUSTERS, RAY_CRON_JOBS, RAY_JOBS, RAY_SERVICES
from manta.api.resources import (
    CUSTOM_RESOURCE_DEFINITIONS,
    GATEWAYS,
    HTTP_ROUTES,
    INGRESSES,
    JOBS,
    NETWORK_POLICIES,
    NODES,
    POD_DISRUPTION_BUDGETS,
    PODS,
    RESOURCE_QUOTAS,
    ROLE_BINDINGS,
    ROLES,
    ROUTES,
    SECRETS,
    SERVICE_ACCOUNTS,
    SERVICES,
    Resource,
)
from manta.kube.errors import AlreadyExists, MantaError, NotFound
from simulation.ray import env_of
from simulation.transport import RequestFault, SimulatedTransport

if TYPE_CHECKING:
    from simulation.operators import Life, Replica
    from simulation.world import World

NAMESPACE = "default"
KINDS: dict[str, Resource] = {
    "RayCluster": RAY_CLUSTERS,
    "RayJob": RAY_JOBS,
    "RayService": RAY_SERVICES,
    "RayCronJob": RAY_CRON_JOBS,
    "Pod": PODS,
    "Service": SERVICES,
    "Job": JOBS,
    "Secret": SECRETS,
    "ServiceAccount": SERVICE_ACCOUNTS,
    "Role": ROLES,
    "RoleBinding": ROLE_BINDINGS,
    "Ingress": INGRESSES,
    "Route": ROUTES,
    "NetworkPolicy": NETWORK_POLICIES,
    "PodDisruptionBudget": POD_DISRUPTION_BUDGETS,
    "Gateway": GATEWAYS,
    "HTTPRoute": HTTP_ROUTES,
}
DRIFT: dict[str, dict[str, Any]] = {
    "Service": {"spec": {"selector": {"app": "else"}}},
    "Role": {"rules": []},
    "RoleBinding": {"subjects": []},
    "Ingress": {"spec": {"rules": [{"host": "else.example.com"}]}},
    "Route": {"spec": {"to": {"kind": "Service", "name": "else"}}},
    "NetworkPolicy": {"spec": {"podSelector": {"matchLabels": {"app": "else"}}}},
    "PodDisruptionBudget": {"spec": {"minAvailable": 0}},
    "Gateway": {"spec": {"gatewayClassName": "else"}},
    "HTTPRoute": {"spec": {"rules": []}},
}
"""What `drift` changes in an object of the operator: it must be put right, whoever did it."""
QUOTA = "simulated-quota"
Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Action:
    area: str
    """user, operator, server, watch, node, ray or policy."""
    text: str
    apply: Callable[..., Any]
    touches_jobs: bool = False
    """Whether a running Ray job may fail because of it."""


ACTIONS: dict[str, Action] = {}


def action(area: str, *, touches_jobs: bool = False) -> Callable[[Callable[..., Any]], Any]:
    """Enter a function into the table; its docstring documents it."""

    def enter(function: Callable[..., Any]) -> Callable[..., Any]:
        name = function.__name__.rstrip("_")
        ACTIONS[name] = Action(area, (function.__doc__ or "").strip(), function, touches_jobs)
        return function

    return enter


def later(world: World, seconds: float, undo: Callable[[], object]) -> None:
    asyncio.get_running_loop().call_later(seconds, undo)


# ── the user ─────────────────────────────────────────────────────────────────────────────


@action("user")
async def create(world: World, object: Object) -> None:  # noqa: A002
    """The user creates an object."""
    kind, name = object["kind"], object["metadata"]["name"]
    try:
        await world.user.create(KINDS[kind], NAMESPACE, object)
    except MantaError as error:
        world.refused.append(f"{kind} {name}: {error}")
        return
    world.objects[kind, name] = copy.deepcopy(object)


@action("user")
async def edit(world: World, kind: str, name: str, spec: Object) -> None:
    """The user changes fields of a spec (a merge patch; lists are replaced)."""
    try:
        await world.user.patch(KINDS[kind], Key(NAMESPACE, name), {"spec": spec})
    except MantaError as error:
        world.refused.append(f"{kind} {name}: {error}")
        return
    if (kind, name) in world.objects:
        held = world.objects[kind, name]
        held["spec"] = merged(held["spec"], spec)  # also of one that waits to be created again


@action("user", touches_jobs=True)
async def delete(world: World, kind: str, name: str) -> None:
    """The user deletes an object."""
    try:
        await world.user.delete(KINDS[kind], Key(NAMESPACE, name))
    except MantaError as error:
        world.refused.append(f"{kind} {name}: {error}")
        return
    world.objects.pop((kind, name), None)


@action("user", touches_jobs=True)
async def recreate(world: World, kind: str, name: str) -> None:
    """The user deletes an object and creates it again under the same name, as soon as the name is free."""
    wanted = copy.deepcopy(world.objects.get((kind, name)))
    if wanted is None:
        return
    await delete(world, kind, name)
    world.objects[kind, name] = wanted
    world.tasks.append(asyncio.create_task(_create_again(world, wanted)))


async def _create_again(world: World, wanted: Object) -> None:
    key = (wanted["kind"], wanted["metadata"]["name"])
    while world.objects.get(key) is wanted:  # the user has not changed their mind
        try:
            await world.user.create(KINDS[wanted["kind"]], NAMESPACE, wanted)
        except AlreadyExists:
            await asyncio.sleep(0.3)
        except MantaError as error:
            world.refused.append(str(error))
            return
        else:
            return


@action("user", touches_jobs=True)
async def delete_child(world: World, kind: str, number: int) -> None:
    """The user deletes one of the operator's own objects, say a Pod or a Service."""
    resource = KINDS[kind]
    children = [one for one in world.all(_storage(resource)) if _is_ours(one)]
    if children:
        name = children[number % len(children)]["metadata"]["name"]
        await _quietly(world.user.delete(resource, Key(NAMESPACE, name)))


@action("user")
async def drift(world: World, number: int, kind: str = "") -> None:
    """The user changes one of the operator's own objects (of this kind, or any), say the selector of a Service."""
    children = [
        (each, one["metadata"]["name"])
        for each in ([kind] if kind else sorted(DRIFT))
        for one in world.all(_storage(KINDS[each]))
        if _is_ours(one)
    ]
    if children:
        each, name = children[number % len(children)]
        await _quietly(world.user.patch(KINDS[each], Key(NAMESPACE, name), DRIFT[each]))


@action("user")
async def annotate(world: World, kind: str, name: str, annotations: Object) -> None:
    """The user sets or removes annotations of an object."""
    change = {"metadata": {"annotations": annotations}}
    done = await _quietly(world.user.patch(KINDS[kind], Key(NAMESPACE, name), change))
    if done and (kind, name) in world.objects:
        held = world.objects[kind, name]
        held["metadata"] = merged(held["metadata"], change["metadata"])


@action("user")
async def foreign(world: World, object: Object) -> None:  # noqa: A002
    """Somebody else creates an object that looks like one of ours. A Pod has another controller: one without an
    owner that carries the labels of a cluster counts as a Pod of that cluster, as in KubeRay."""
    object = copy.deepcopy(object)  # noqa: A001
    other = world.live["configmaps"].get(f"{NAMESPACE}/kube-root-ca.crt")
    if object["kind"] == "Pod" and other is not None:
        owner: Object = {"apiVersion": "v1", "kind": "ConfigMap", "name": "kube-root-ca.crt"}
        owner |= {"uid": other["metadata"]["uid"], "controller": True}
        object["metadata"]["ownerReferences"] = [owner]
    if await _quietly(world.user.create(KINDS[object["kind"]], NAMESPACE, object)):
        world.foreign.append(object)


@action("user")
async def autoscale(world: World, name: str, group: str, replicas: int, remove: int = 0) -> None:
    """Ray's autoscaler v2 changes the replicas of a group, and names idle workers to remove."""
    try:
        found = await world.user.get(RAY_CLUSTERS, Key(NAMESPACE, name))
    except MantaError:
        return
    workers = [
        pod["metadata"]["name"]
        for pod in world.pods("worker", name)
        if (pod["metadata"].get("labels") or {}).get("ray.io/group") == group
        and not pod["metadata"].get("deletionTimestamp")
    ]
    for number, one in enumerate(found["spec"].get("workerGroupSpecs") or ()):
        if one["groupName"] == group:
            gone = workers[:remove]
            wanted = max(0, len(workers) - len(gone)) if gone else replicas
            base = f"/spec/workerGroupSpecs/{number}"
            patch = [
                {"op": "add", "path": f"{base}/replicas", "value": wanted},
                {"op": "add", "path": f"{base}/scaleStrategy", "value": {"workersToDelete": gone}},
            ]
            await _quietly(world.user.patch(RAY_CLUSTERS, Key(NAMESPACE, name), patch, kind="json"))


# ── the operator ─────────────────────────────────────────────────────────────────────────


@action("operator")
def crash(world: World, replica: int, writes: int, before: bool = False, down: float = 1.0) -> None:
    """The operator is killed at its n-th write from now: right after the server accepted it, before the reply
    comes; or right before it is sent. It starts again later."""
    found = _replica(world, replica)

    def kill() -> None:
        found.kill()
        world.restart_later(found, down)

    if found.transport is not None:
        found.transport.kill_at_write(writes, before=before, kill=kill)


@action("operator")
def kill(world: World, replica: int, down: float = 1.0) -> None:
    """The operator is killed now (SIGKILL), and starts again later."""
    found = _replica(world, replica)
    found.kill()
    world.restart_later(found, down)


@action("operator")
def stop(world: World, replica: int, down: float = 1.0) -> None:
    """The operator is stopped politely (SIGTERM): it finishes what it does. Later it starts again."""
    found = _replica(world, replica)
    life = found.life
    if life is None:
        return
    found.stop()

    async def restart() -> None:
        await asyncio.wait(life.tasks)  # without a lease, two processes would write
        await asyncio.sleep(down)
        world.start(found)

    world.background(restart())


@action("operator")
def pause(world: World, replica: int, seconds: float) -> None:
    """The operator's machine is suspended: nothing is sent, its monotonic clock stands still. When it wakes up it
    believes that it still holds the lease."""
    found = _replica(world, replica)
    life = found.life
    if life is None:
        return
    life.transport.freeze()
    found.clock.freeze()
    world.paused += 1

    def resume() -> None:
        found.clock.thaw()
        life.transport.thaw()

    later(world, seconds, resume)


@action("operator")
def cut_off(world: World, replica: int, seconds: float) -> None:
    """The operator cannot reach the API server."""
    life = _replica(world, replica).life
    if life is not None:
        life.transport.unreachable = True
        life.transport.wake()
        later(world, seconds, lambda: setattr(life.transport, "unreachable", False))


@action("operator")
def clock_jump(world: World, replica: int, seconds: float, lasts: float) -> None:
    """The wall clock of the operator jumps, and is corrected later."""
    clock = _replica(world, replica).clock
    clock.jump(seconds)
    later(world, lasts, lambda: clock.jump(-seconds))


# ── the API server ───────────────────────────────────────────────────────────────────────


@action("server")
def fail(world: World, verb: str, plural: str, code: int, times: int) -> None:
    """The API server answers requests of the operators with a status code, without executing them."""
    for replica in world.replicas:
        replica.request_faults.append(RequestFault(verb, plural, str(code), times))


@action("server")
def lose_reply(world: World, verb: str, plural: str, times: int) -> None:
    """The API server executes a write, but the reply is lost."""
    for replica in world.replicas:
        replica.request_faults.append(RequestFault(verb, plural, "lose", times))


@action("server")
def slow(world: World, verb: str, plural: str, seconds: float, times: int) -> None:
    """The API server takes long to answer."""
    for replica in world.replicas:
        replica.request_faults.append(RequestFault(verb, plural, "slow", times, seconds))


# ── watches ──────────────────────────────────────────────────────────────────────────────


@action("watch")
def delay_watch(world: World, plural: str, seconds: float, lasts: float) -> None:
    """Events of one kind come late, so that they are reordered against those of other kinds."""
    for transport in _transports(world):
        transport.watch_fault(plural).delay = seconds
        later(world, lasts, partial(setattr, transport.watch_fault(plural), "delay", 0.0))


@action("watch")
def hold_watches(world: World, plurals: list[str], seconds: float) -> None:
    """No event of these kinds comes for a while: the operator's view is stale. Then all of them come at once."""
    until = asyncio.get_running_loop().time() + seconds
    for transport in _transports(world):
        for plural in plurals:
            transport.watch_fault(plural).held_until = until


@action("watch")
def drop_events(world: World, plural: str, relist: float) -> None:
    """Events of one kind get lost: the connection is silent. Later it breaks, its version is too old (410), and
    the operator lists."""
    for transport in _transports(world):
        transport.watch_fault(plural).drop = True
        later(world, relist, partial(_relist, transport, plural))


def _relist(transport: SimulatedTransport, plural: str) -> None:
    transport.watch_fault(plural).drop = False
    transport.cut_watches(plural, expire=True)


@action("watch")
def break_watches(world: World, plural: str = "", expire: bool = False, refused: int = 0) -> None:
    """Open watches break; with `expire`, they cannot resume; so many attempts to open them again, and as many lists,
    are refused."""
    for transport in _transports(world):
        transport.cut_watches(plural, expire=expire)
    for replica in world.replicas if refused else ():
        replica.request_faults += [
            RequestFault(verb, plural, "503", refused) for verb in ("watch", "read")
        ]


# ── nodes and Pods ───────────────────────────────────────────────────────────────────────


@action("node", touches_jobs=True)
def node_down(world: World, number: int, seconds: float) -> None:
    """A node does not answer for a while; its Pods change no more."""
    name = f"fake-node-{number % world.story.nodes}"
    world.nodes.disconnect(name)
    later(world, seconds, lambda: world.nodes.reconnect(name))


@action("node", touches_jobs=True)
async def node_gone(world: World, number: int, seconds: float) -> None:
    """A node is deleted with its Pods, and joins again later."""
    name = f"fake-node-{number % world.story.nodes}"
    world.nodes.disconnect(name)
    await _quietly(world.user.delete(NODES, Key("", name)))

    def back() -> None:
        world.nodes.reconnect(name)
        world.tasks.append(asyncio.create_task(world.nodes._register(name)))

    later(world, seconds, back)


@action("node", touches_jobs=True)
def evict(world: World, role: str, number: int) -> None:
    """The kubelet evicts a Pod: it is Failed."""
    _with_pod(world, role, number, world.nodes.evict)


@action("node", touches_jobs=True)
def end_container(world: World, role: str, number: int, code: int) -> None:
    """The containers of a Pod end with an exit code."""
    _with_pod(world, role, number, lambda key: world.nodes.end(key, code))


@action("node")
def lose_submitter(world: World, number: int) -> None:
    """The Pod of a submitter is evicted while Ray runs its job: the job goes on, and only Ray knows how it ends."""
    running = {job for head in world.ray.heads.values() for job in head.memory.jobs}
    pods = [
        pod
        for pod in world.all("pods")
        if (env := env_of(pod).get(names.ENV_JOB_SUBMISSION_ID))
        and env in running
        and _is_alone(pod)
    ]
    if pods:
        meta = pods[number % len(pods)]["metadata"]
        world.nodes.evict(Key(meta["namespace"], meta["name"]))


def _is_alone(pod: Object) -> bool:
    """Whether a submitter has a Pod of its own, which nobody deletes."""
    meta = pod["metadata"]
    on_node = bool(pod["spec"].get("nodeName")) and pod["status"].get("phase") == "Running"
    beside = names.LABEL_NODE_TYPE in (meta.get("labels") or {})
    return on_node and not beside and not meta.get("deletionTimestamp")


@action("node", touches_jobs=True)
def pod_script(world: World, role: str, script: str, seconds: float) -> None:
    """For a while, Pods of a role do as this script of the fake nodes says: fail to start, refuse to die, ..."""
    labels = f"ray.io/node-type={role}"
    world.nodes.script(labels, script)
    later(world, seconds, lambda: world.nodes.script(labels, world.plain[role]))


# ── Ray ──────────────────────────────────────────────────────────────────────────────────


@action("ray", touches_jobs=True)
def dashboard(world: World, topic: str, how: str, seconds: float) -> None:
    """Dashboards hang, refuse, answer 500 (to everything, or to what is submitted) or nonsense, lose replies, or say
    that nothing is there."""
    world.ray.weather[topic] = how
    later(world, seconds, lambda: world.ray.weather.pop(topic, None))


@action("ray", touches_jobs=True)
def forget(world: World, number: int) -> None:
    """A dashboard restarts empty: it knows no jobs and no applications any more."""
    known = list(world.ray.clusters())
    if known:
        world.ray.restart_empty(*known[number % len(known)])


@action("ray")
def serve_status(world: World, number: int, status: str, seconds: float) -> None:
    """Serve reports a status for all applications of one cluster, and later RUNNING."""
    known = list(world.ray.clusters())
    if known:
        where = known[number % len(known)]
        world.ray.set_applications(*where, status)
        later(world, seconds, lambda: world.ray.set_applications(*where, "RUNNING"))


# ── policy ───────────────────────────────────────────────────────────────────────────────


@action("policy")
async def quota(world: World, pods: int, seconds: float) -> None:
    """A ResourceQuota allows so many Pods in the namespace, for a while."""
    body = {"metadata": {"name": QUOTA}, "spec": {"hard": {"pods": str(pods)}}}
    await _quietly(world.user.create(RESOURCE_QUOTAS, NAMESPACE, body))
    later(world, seconds, lambda: world.background(_lift_quota(world)))


async def _lift_quota(world: World) -> None:
    await _quietly(world.user.delete(RESOURCE_QUOTAS, Key(NAMESPACE, QUOTA)))


@action("policy")
def deny(world: World, plural: str, seconds: float, verb: str = "create") -> None:
    """An admission webhook refuses to create, patch or delete objects of one kind (403), for a while."""
    for replica in world.replicas:
        fault = RequestFault(verb, plural, "403", 10**6)
        replica.request_faults.append(fault)
        later(world, seconds, partial(setattr, fault, "times", 0))


OLD_FIELDS = (
    "networkPolicy",
    "tlsOptions",
    "historyServerOptions",
    "upgradeStrategy",
    "authOptions",
)
OLD_GROUP_FIELDS = ("priority", "labels", "resources", "idleTimeoutSeconds", "suspend")


@action("policy")
async def old_crds(world: World, seconds: float) -> None:
    """An administrator installs the RayCluster CRD of an older release, and later the present one again."""
    key = Key("", "rayclusters.ray.io")
    found = await world.user.get(CUSTOM_RESOURCE_DEFINITIONS, key)
    older = copy.deepcopy(found)
    for version in older["spec"]["versions"]:
        spec = version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
        groups = spec["workerGroupSpecs"]["items"]["properties"]
        for fields, unknown in ((spec, OLD_FIELDS), (groups, OLD_GROUP_FIELDS)):
            for name in unknown:
                fields.pop(name, None)
    await _replace_crd(world, key, older)
    later(world, seconds, lambda: world.background(_replace_crd(world, key, found)))


async def _replace_crd(world: World, key: Key, crd: Object) -> None:
    now = await world.user.get(CUSTOM_RESOURCE_DEFINITIONS, key)
    crd["metadata"]["resourceVersion"] = now["metadata"]["resourceVersion"]
    await world.user.replace(CUSTOM_RESOURCE_DEFINITIONS, key, crd)


# ── the end of all faults ────────────────────────────────────────────────────────────────


def calm(world: World) -> None:
    """All faults are over. What has a timer of its own has ended before."""
    world.ray.weather.clear()
    for replica in world.replicas:
        replica.request_faults.clear()
        replica.clock.thaw()
        for life in (*replica.ended, *([replica.life] if replica.life else [])):
            life.transport.clear()
        if not replica.is_stopping:
            world.start(replica)
    for number in range(world.story.nodes):
        world.nodes.reconnect(f"fake-node-{number}")
    world.background(suspend_schedules(world))


async def suspend_schedules(world: World) -> None:
    """The user suspends all RayCronJobs: with new jobs for ever, nothing would come to rest."""
    for kind, name in sorted(world.objects):
        if kind == "RayCronJob":
            await edit(world, kind, name, {"suspend": True})


# ── helpers ──────────────────────────────────────────────────────────────────────────────


def _replica(world: World, number: int) -> Replica:
    return world.replicas[number % len(world.replicas)]


def _lives(world: World) -> list[Life]:
    return [one.life for one in world.replicas if one.life is not None]


def _transports(world: World) -> list[SimulatedTransport]:
    return [life.transport for life in _lives(world)]


def _with_pod(world: World, role: str, number: int, do: Callable[[Key], None]) -> None:
    pods = [one for one in world.pods(role) if not one["metadata"].get("deletionTimestamp")]
    if pods:
        meta = pods[number % len(pods)]["metadata"]
        try:
            do(Key(meta["namespace"], meta["name"]))
        except LookupError:
            return  # it is on no node yet


async def _quietly(request: Any) -> bool:
    try:
        await request
    except (MantaError, NotFound):
        return False
    return True


def _storage(resource: Resource) -> str:
    return f"{resource.plural}.{resource.group}" if resource.group else resource.plural


def _is_ours(found: Object) -> bool:
    owners = found["metadata"].get("ownerReferences") or ()
    return any(one["kind"].startswith("Ray") for one in owners)


def merged(old: Any, patch: Any) -> Any:
    """A JSON merge patch (RFC 7386)."""
    if not isinstance(patch, dict):
        return patch
    result = dict(old) if isinstance(old, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), value)
    return result
