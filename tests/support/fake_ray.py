"""A Ray dashboard for tests: it keeps a registry of jobs per head, and counts executions.

It stands behind the courier seam of `manta.ray`: what it does to a request is what a network and a
dashboard can do: lose the reply, hang, answer 500, come back empty.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from manta.ray.models import Target, Unreachable
from manta.ray.transport import Reply


@dataclass
class FakeJob:
    entrypoint: str
    status: str = "RUNNING"
    message: str = ""
    start_time: int = 0
    end_time: int = 0
    log: str = ""

    def document(self, job_id: str) -> dict[str, Any]:
        return {
            "type": "SUBMISSION",
            "submission_id": job_id,
            "status": self.status,
            "message": self.message,
            "start_time": self.start_time,
            "end_time": self.end_time or None,
            "entrypoint": self.entrypoint,
            "job_id": "01000000",
        }


_lives = count(1)


@dataclass
class FakeHead:
    """One head's memory. A head that is replaced without fault tolerance starts with a new one."""

    session: str = field(default_factory=lambda: f"session_2026-01-01_12-00-00_{next(_lives)}_1")
    jobs: dict[str, FakeJob] = field(default_factory=dict)
    failed_tasks: list[dict[str, Any]] = field(default_factory=list)
    """As the state API shows them."""
    autoscaler: str = "No cluster status."
    """The text of `ray status`."""
    serve_config: dict[str, Any] | None = None
    applications: dict[str, Any] = field(default_factory=dict)
    proxies: dict[str, Any] = field(default_factory=dict)
    """Where Serve keeps proxies, as it says it: by node id."""
    puts: list[dict[str, Any]] = field(default_factory=list)
    """Every Serve config that it was given, in order."""


Weather = Callable[[str, str], str]
"""(method, path) -> '', 'hang', '500', 'refuse', 'nonsense' or 'lose-reply'."""


@dataclass
class FakeRay:
    """The dashboards of all clusters, by namespace and head Service."""

    heads: dict[tuple[str, str], FakeHead] = field(default_factory=dict)
    weather: Weather = lambda method, path: ""
    finish_after: float | None = None
    """Seconds after which every job succeeds by itself."""
    executions: list[tuple[str, str]] = field(default_factory=list)
    """(cluster's Service, submission id) of every job that really started."""
    calls: list[tuple[str, str, str]] = field(default_factory=list)
    healthy_proxies: bool = True
    deploy_after: float | None = None
    """Seconds after which applications of a submitted Serve config run; None: a test says when."""
    serve_refuses: str = ""
    """What the dashboard says to a Serve config, with a 400."""
    probes: list[str] = field(default_factory=list)
    metrics: Callable[[str], Reply | Unreachable] = lambda url: Reply(200, b"")
    """The page of metrics at this URL of a Pod."""
    clock: Callable[[], float] | None = None
    """Seconds since 1970; None: those of the loop since 2026."""
    hanging: set[str] = field(default_factory=set)
    """Head Services whose dashboards take a request and never answer it."""

    def head(self, namespace: str, service: str) -> FakeHead:
        return self.heads.setdefault((namespace, service), FakeHead())

    def restart_head(self, namespace: str, service: str) -> None:
        self.heads[(namespace, service)] = FakeHead()

    def start(self, service: str, head: FakeHead, job_id: str, entrypoint: str) -> None:
        """A job begins to run, whoever submitted it."""
        self.executions.append((service, job_id))
        head.jobs[job_id] = FakeJob(entrypoint, start_time=self._now_ms())
        if self.finish_after is not None:
            loop = asyncio.get_running_loop()
            loop.call_later(self.finish_after, self.end, head, job_id, "SUCCEEDED")

    def end(self, head: FakeHead, job_id: str, status: str, message: str = "") -> None:
        job = head.jobs.get(job_id)
        if job is not None and job.status == "RUNNING":
            job.status, job.message, job.end_time = status, message, self._now_ms()

    def _now_ms(self) -> int:
        if self.clock is not None:
            return int(self.clock() * 1000)
        return 1_767_225_600_000 + int(asyncio.get_running_loop().time() * 1000)

    # ── the courier ──────────────────────────────────────────────────────────────────────

    async def send(
        self, target: Target, method: str, path: str, body: bytes | None = None
    ) -> Reply | Unreachable:
        self.calls.append((method, path, target.service))
        match "hang" if target.service in self.hanging else self.weather(method, path):
            case "hang":
                await asyncio.sleep(2)
                return Unreachable("no answer within 2 s")
            case "500":
                return Reply(500, b"Internal Server Error")
            case "nonsense":
                return Reply(200, b"<html>please log in</html>")
            case "refuse":
                return Unreachable("connection refused", sent=False)
            case "lose-reply":
                self._handle(target, method, path, body)
                return Unreachable("connection reset")
            case _:
                return self._handle(target, method, path, body)

    async def probe(self, url: str) -> Reply | Unreachable:
        self.probes.append(url)
        if url.endswith("/metrics"):
            return self.metrics(url)
        return Reply(200 if self.healthy_proxies else 503, b"")

    async def close(self) -> None:
        pass

    def _handle(self, target: Target, method: str, path: str, body: bytes | None) -> Reply:
        head = self.head(target.namespace, target.service)
        if path.startswith("/api/serve/"):
            return self._serve(head, method, body)
        if path.startswith("/api/v0/tasks?"):
            answer = {"data": {"result": {"result": head.failed_tasks}}}
            return Reply(200, json.dumps(answer).encode())
        if path.startswith("/api/cluster_status"):
            return Reply(200, json.dumps({"data": {"clusterStatus": head.autoscaler}}).encode())
        if path == "/api/version":
            return Reply(200, json.dumps({"version": "4", "session_name": head.session}).encode())
        parts = path.removeprefix("/api/jobs/").split("/")
        if method == "POST" and parts == [""]:
            return self._submit(target.service, head, json.loads(body or b"{}"))
        job = head.jobs.get(parts[0])
        if job is None:
            return Reply(404, b"Job does not exist")
        if parts[1:] == ["stop"]:
            self.end(head, parts[0], "STOPPED")
            return Reply(200, b'{"stopped": true}')
        if parts[1:] == ["logs"]:
            return Reply(200, json.dumps({"logs": job.log}).encode())
        return Reply(200, json.dumps(job.document(parts[0])).encode())

    def _submit(self, service: str, head: FakeHead, request: dict[str, Any]) -> Reply:
        job_id = request["submission_id"]
        if job_id in head.jobs:
            text = f"Job with submission_id {job_id} already exists. Please use a different submission_id."
            return Reply(500, text.encode())
        self.start(service, head, job_id, request["entrypoint"])
        return Reply(200, b"{}")

    # ── Serve ────────────────────────────────────────────────────────────────────────────

    def _serve(self, head: FakeHead, method: str, body: bytes | None) -> Reply:
        if method == "PUT":
            if self.serve_refuses:
                return Reply(400, self.serve_refuses.encode())
            self._deploy(head, json.loads(body or b"{}"))
            return Reply(200, b"")
        document = {"applications": head.applications, "proxies": head.proxies}
        if head.serve_config is not None and "target_capacity" in head.serve_config:
            document["target_capacity"] = head.serve_config["target_capacity"]
        return Reply(200, json.dumps(document).encode())

    def _deploy(self, head: FakeHead, config: dict[str, Any]) -> None:
        head.puts.append(config)
        if config == head.serve_config:
            return  # the same again changes nothing
        head.serve_config = config
        names = [one.get("name", "default") for one in config.get("applications", ())]
        head.applications = {name: _application("DEPLOYING") for name in names}
        if self.deploy_after is not None:
            loop = asyncio.get_running_loop()
            loop.call_later(self.deploy_after, self.set_applications, head, config, "RUNNING")

    def set_applications(
        self, head: FakeHead, config: dict[str, Any] | None, status: str, message: str = ""
    ) -> None:
        """All applications of this config (None: of any) are so now."""
        if config is None or head.serve_config is config:
            head.applications = {name: _application(status, message) for name in head.applications}


def _application(status: str, message: str = "") -> dict[str, Any]:
    healthy = "HEALTHY" if status == "RUNNING" else "UPDATING"
    deployments = {"Main": {"status": healthy, "message": ""}}
    return {"status": status, "message": message, "deployments": deployments}
