"""Ray, as far as the operator can see it: dashboards, jobs, Serve, submitters; all of it may misbehave.

A head's memory lives as long as the container that is Ray, or longer where the cluster keeps it in Redis. A
submitter behaves as the command in its container does: it waits for the dashboard, asks whether Ray knows the
job, submits it if not (and if the session is the one that it is meant for), and follows it to its end.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from manta.api.meta import Key
from manta.api.ray import names
from manta.manifests.session_guard import OTHER_SESSION_EXIT_CODE
from manta.ray.models import Target, Unreachable
from manta.ray.transport import Reply
from support.fake_ray import FakeJob, _application

Object = dict[str, Any]
EPOCH_MS = 1_767_225_600_000
SUBMIT_AFTER = 1.0
POLL = 2.0


@dataclass
class Memory:
    """What one GCS knows."""

    session: str
    jobs: dict[str, FakeJob] = field(default_factory=dict)
    serve_config: dict[str, Any] | None = None
    applications: dict[str, Any] = field(default_factory=dict)


@dataclass
class Head:
    """One life of the Ray container of a head Pod."""

    pod: str
    cluster: str
    uid: str
    restarts: int
    memory: Memory


@dataclass(frozen=True, slots=True)
class Execution:
    at: float
    cluster: str
    job_id: str
    job: FakeJob


@dataclass(frozen=True, slots=True)
class JobScript:
    """How every entrypoint goes."""

    seconds: float = 20.0
    status: str = "SUCCEEDED"


@dataclass
class SimulatedRay:
    end_container: Callable[[Key, int, str], None]
    """Ends a container of a Pod with an exit code."""
    ask_for_worker: Callable[[str, str], None]
    """Serve wants to run replicas in this cluster: its autoscaler makes room, if it has one."""
    script: JobScript = JobScript()
    deploy_seconds: float = 5.0
    weather: dict[str, str] = field(default_factory=dict)
    """By `jobs`, `serve`, `probe` or `any`: hang, 500, read-only, refuse, nonsense, lose-reply, empty."""
    executions: list[Execution] = field(default_factory=list)
    heads: dict[tuple[str, str], Head] = field(default_factory=dict)
    """By namespace and cluster."""
    served_at: dict[str, float] = field(default_factory=dict)
    """By cluster: when all its applications last ran."""
    repeated: dict[tuple[str, str], int] = field(default_factory=dict)
    """By cluster and session: how often it was sent the config that it had, and answered."""
    calls: int = 0
    _services: dict[tuple[str, str], str] = field(default_factory=dict)
    _claims: dict[tuple[str, str], str] = field(default_factory=dict)
    """UIDs of PersistentVolumeClaims: the tables of embedded storage live as long as its claim."""
    _kept: dict[str, Memory] = field(default_factory=dict)
    _begun: set[tuple[str, str, int]] = field(default_factory=set)
    _tasks: list[asyncio.Task[None]] = field(default_factory=list)
    _sessions: int = 0

    # ── what happens in the cluster ──────────────────────────────────────────────────────

    def see(self, type_: str, resource: str, found: Object) -> None:
        if resource == "services":
            self._see_service(type_, found)
        elif resource == "persistentvolumeclaims":
            meta = found["metadata"]
            self._claims[meta["namespace"], meta["name"]] = meta["uid"]
        elif resource == "pods":
            self._see_pod(type_, found)

    def _see_service(self, type_: str, service: Object) -> None:
        where = (service["metadata"]["namespace"], service["metadata"]["name"])
        selected = (service["spec"].get("selector") or {}).get(names.LABEL_CLUSTER, "")
        if type_ == "DELETED" or not selected:
            self._services.pop(where, None)
        else:
            self._services[where] = selected

    def _see_pod(self, type_: str, pod: Object) -> None:
        labels = pod["metadata"].get("labels") or {}
        if labels.get(names.LABEL_NODE_TYPE) == names.NODE_HEAD and names.LABEL_CLUSTER in labels:
            self._see_head(type_, pod, labels[names.LABEL_CLUSTER])
        for number, container in enumerate(pod["spec"].get("containers") or ()):
            env = _env(container)
            if names.ENV_JOB_SUBMISSION_ID in env:
                self._see_submitter(pod, number, env)

    def _see_head(self, type_: str, pod: Object, cluster: str) -> None:
        meta = pod["metadata"]
        where, state = (meta["namespace"], cluster), _container_state(pod, 0)
        known = self.heads.get(where)
        if type_ == "DELETED" or "running" not in state:
            if known is not None and known.uid == meta["uid"]:
                self._lose(self.heads.pop(where))
            return
        restarts = int(state["restarts"])
        if known is None or (known.uid, known.restarts) != (meta["uid"], restarts):
            if known is not None:
                self._lose(known)
            memory = self._memory_of(pod)
            self.heads[where] = Head(meta["name"], cluster, meta["uid"], restarts, memory)

    def _memory_of(self, pod: Object) -> Memory:
        env = _env(pod["spec"]["containers"][0])
        kept = env.get(names.ENV_EXTERNAL_STORAGE_NAMESPACE) or pod["metadata"]["uid"]
        claim = self._claim_of(pod)
        if claim:
            kept = claim
        elif not env.get(names.ENV_REDIS_ADDRESS):
            self._sessions += 1
            return Memory(f"session-{self._sessions}")
        if kept not in self._kept:
            self._sessions += 1
            self._kept[kept] = Memory(f"session-{self._sessions}")
        return self._kept[kept]

    def _claim_of(self, pod: Object) -> str:
        """The UID of the claim with the tables of this head; empty if it has none."""
        for volume in pod["spec"].get("volumes") or ():
            claim = (volume.get("persistentVolumeClaim") or {}).get("claimName", "")
            if found := self._claims.get((pod["metadata"]["namespace"], claim)):
                return found
        return ""

    def _lose(self, head: Head) -> None:
        """What ran on this head has ended with it."""
        for job in head.memory.jobs.values():
            if job.status == "RUNNING":
                job.status, job.message, job.end_time = "FAILED", "the head was lost", _now_ms()

    def restart_empty(self, namespace: str, cluster: str) -> None:
        """The dashboard forgets everything while its Pod lives on, as after a crash of the GCS without Redis."""
        head = self.heads.get((namespace, cluster))
        if head is not None:
            self._lose(head)
            self._sessions += 1
            head.memory = Memory(f"session-{self._sessions}")

    def runs(self, cluster: str) -> bool:
        """Whether all applications of this cluster's Serve run now."""
        for (_, name), head in self.heads.items():
            found = head.memory.applications.values()
            if name == cluster and found and all(one["status"] == "RUNNING" for one in found):
                return True
        return False

    # ── submitters ───────────────────────────────────────────────────────────────────────

    def _see_submitter(self, pod: Object, number: int, env: dict[str, str]) -> None:
        meta, state = pod["metadata"], _container_state(pod, number)
        life = (meta["uid"], str(number), int(state["restarts"]))
        if "running" in state and life not in self._begun:
            self._begun.add(life)
            self._tasks.append(asyncio.create_task(self._submit(pod, number, env)))

    async def _submit(self, pod: Object, number: int, env: dict[str, str]) -> None:
        meta = pod["metadata"]
        container = pod["spec"]["containers"][number]["name"]
        service = env.get(names.ENV_DASHBOARD_ADDRESS, "").partition("://")[2] or env.get(
            names.ENV_DASHBOARD_ADDRESS, ""
        )
        name = service.partition(".")[0].partition(":")[0]
        own = (meta.get("labels") or {}).get(names.LABEL_CLUSTER, "")
        beside = (meta.get("labels") or {}).get(names.LABEL_NODE_TYPE) == names.NODE_HEAD
        code = await self._follow(meta["namespace"], own if beside else name, env, beside=beside)
        single = len(pod["spec"]["containers"]) == 1
        self.end_container(Key(meta["namespace"], meta["name"]), code, "" if single else container)

    async def _follow(self, namespace: str, name: str, env: dict[str, str], *, beside: bool) -> int:
        """Follow the job by the name of the head Service, or of the cluster for a submitter beside the head."""

        def find() -> Head | None:
            return self.heads.get((namespace, name)) if beside else self._head(namespace, name)

        await asyncio.sleep(SUBMIT_AFTER)
        while (head := find()) is None:
            await asyncio.sleep(POLL)
        job_id, session = env[names.ENV_JOB_SUBMISSION_ID], env.get(names.ENV_SESSION, "")
        memory = head.memory
        if job_id not in memory.jobs:
            if session and memory.session != session:
                return OTHER_SESSION_EXIT_CODE
            self._start(head, job_id, "entrypoint")
        while True:
            await asyncio.sleep(POLL)
            now = find()
            if now is None or now.memory is not memory:
                return 1
            if memory.jobs[job_id].status != "RUNNING":
                return 0 if memory.jobs[job_id].status == "SUCCEEDED" else 1

    def _head(self, namespace: str, service: str) -> Head | None:
        return self.heads.get((namespace, self._services.get((namespace, service), "")))

    # ── jobs ─────────────────────────────────────────────────────────────────────────────

    def _start(self, head: Head, job_id: str, entrypoint: str) -> None:
        loop = asyncio.get_running_loop()
        job = FakeJob(entrypoint, start_time=_now_ms())
        self.executions.append(Execution(loop.time(), head.cluster, job_id, job))
        head.memory.jobs[job_id] = job
        loop.call_later(self.script.seconds, self._end, job, self.script.status)

    @staticmethod
    def _end(job: FakeJob, status: str, message: str = "") -> None:
        if job.status == "RUNNING":
            job.status, job.message, job.end_time = status, message, _now_ms()

    # ── the dashboard ────────────────────────────────────────────────────────────────────

    async def send(
        self, target: Target, method: str, path: str, body: bytes | None = None
    ) -> Reply | Unreachable:
        self.calls += 1
        topic = "serve" if path.startswith("/api/serve/") else "jobs"
        await asyncio.sleep(0.01)
        match self.weather.get(topic) or self.weather.get("any", ""):
            case "hang":
                await asyncio.sleep(2)
                return Unreachable("no answer within 2 s")
            case "500":
                return Reply(500, b"Internal Server Error")
            case "read-only" if method != "GET":
                return Reply(500, b"Internal Server Error")
            case "nonsense":
                return Reply(200, b"<html>please log in</html>")
            case "refuse":
                return Unreachable("connection refused", sent=False)
            case "lose-reply":
                self._handle(target, method, path, body)
                return Unreachable("connection reset")
            case "empty" if method == "GET" and topic == "serve":
                return Reply(200, b'{"applications": {}, "proxies": {}}')
            case "empty" if method == "GET":
                return Reply(404, b"Job does not exist")
            case _:
                self._note_repeated(target, method, path, body)
                return self._handle(target, method, path, body)

    def _note_repeated(self, target: Target, method: str, path: str, body: bytes | None) -> None:
        head = self._head(target.namespace, target.service)
        if head is None or method != "PUT" or not path.startswith("/api/serve/"):
            return
        if json.loads(body or b"{}") == head.memory.serve_config:
            where = (head.cluster, head.memory.session)
            self.repeated[where] = self.repeated.get(where, 0) + 1

    async def probe(self, url: str) -> Reply | Unreachable:
        await asyncio.sleep(0.01)
        if self.weather.get("probe"):
            return Reply(503, b"")
        return Reply(200, b"")

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()

    def _handle(
        self, target: Target, method: str, path: str, body: bytes | None
    ) -> Reply | Unreachable:
        head = self._head(target.namespace, target.service)
        if head is None:
            return Unreachable("connection refused", sent=False)
        if path.startswith("/api/serve/"):
            return self._serve(head, method, body)
        if path == "/api/version":
            answer = {"version": "4", "session_name": head.memory.session}
            return Reply(200, json.dumps(answer).encode())
        parts = path.removeprefix("/api/jobs/").split("/")
        if method == "POST" and parts == [""]:
            return self._take(head, json.loads(body or b"{}"))
        job = head.memory.jobs.get(parts[0])
        if job is None:
            return Reply(404, b"Job does not exist")
        if parts[1:] == ["stop"]:
            self._end(job, "STOPPED")
            return Reply(200, b'{"stopped": true}')
        return Reply(200, json.dumps(job.document(parts[0])).encode())

    def _take(self, head: Head, request: dict[str, Any]) -> Reply:
        job_id = request["submission_id"]
        if job_id in head.memory.jobs:
            return Reply(500, f"{job_id} exists. Please use a different submission_id.".encode())
        self._start(head, job_id, request["entrypoint"])
        return Reply(200, b"{}")

    # ── Serve ────────────────────────────────────────────────────────────────────────────

    def _serve(self, head: Head, method: str, body: bytes | None) -> Reply:
        memory = head.memory
        if method == "PUT":
            self._deploy(head, json.loads(body or b"{}"))
            return Reply(200, b"")
        document: dict[str, Any] = {"applications": memory.applications, "proxies": {}}
        if memory.serve_config is not None and "target_capacity" in memory.serve_config:
            document["target_capacity"] = memory.serve_config["target_capacity"]
        if self.runs(head.cluster):
            self.served_at[head.cluster] = asyncio.get_running_loop().time()
        return Reply(200, json.dumps(document).encode())

    def _deploy(self, head: Head, config: dict[str, Any]) -> None:
        memory = head.memory
        if config == memory.serve_config:
            return
        only_capacity = memory.serve_config is not None and _applications(config) == _applications(
            memory.serve_config
        )
        memory.serve_config = config
        if _applications(config) and config.get("target_capacity") != 0:
            self.ask_for_worker(*self._place_of(head))
        if only_capacity:
            return
        listed = [one.get("name", "default") for one in config.get("applications", ())]
        memory.applications = {name: _application("DEPLOYING") for name in listed}
        loop = asyncio.get_running_loop()
        loop.call_later(self.deploy_seconds, self._deployed, memory, config)

    @staticmethod
    def _deployed(memory: Memory, config: dict[str, Any]) -> None:
        if memory.serve_config is config or _applications(config) == _applications(
            memory.serve_config or {}
        ):
            memory.applications = {name: _application("RUNNING") for name in memory.applications}

    def set_applications(self, namespace: str, cluster: str, status: str) -> None:
        head = self.heads.get((namespace, cluster))
        if head is not None:
            memory = head.memory
            memory.applications = {name: _application(status) for name in memory.applications}

    def _place_of(self, head: Head) -> tuple[str, str]:
        return next(place for place, one in self.heads.items() if one is head)

    def clusters(self) -> Iterator[tuple[str, str]]:
        yield from sorted(self.heads)


def _applications(config: dict[str, Any]) -> Any:
    return config.get("applications")


def env_of(pod: Object) -> dict[str, str]:
    """The environment of all containers of a Pod together."""
    return {key: value for one in pod["spec"]["containers"] for key, value in _env(one).items()}


def _env(container: Object) -> dict[str, str]:
    return {one["name"]: one.get("value", "") for one in container.get("env") or ()}


def _container_state(pod: Object, number: int) -> dict[str, Any]:
    """The state of a container, with `restarts`."""
    name = pod["spec"]["containers"][number]["name"]
    for one in (pod.get("status") or {}).get("containerStatuses") or ():
        if one["name"] == name:
            return {**one["state"], "restarts": one.get("restartCount", 0)}
    return {"restarts": 0}


def _now_ms() -> int:
    return EPOCH_MS + int(asyncio.get_running_loop().time() * 1000)
