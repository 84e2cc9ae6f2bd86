"""Requests to and replies of a Ray dashboard, with the fields that we use.

A result is one of a closed set of values. `Unreachable` and `Refused` are values, not exceptions: the
planners decide what they mean.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from manta.api.ray.job import JobStatus


@dataclass(frozen=True, slots=True)
class Target:
    """One dashboard, and how to reach it."""

    namespace: str
    service: str
    """The head Service; `--use-kubernetes-proxy` reaches the dashboard by its name."""
    host: str
    """The Service's full DNS name, or an address (IPv6 without brackets)."""
    port: int = 8265
    port_name: str = "dashboard"
    token: str = field(default="", repr=False)
    """The bearer token of `authOptions.mode: token`; never printed."""

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Unreachable:
    """The dashboard gave no usable answer."""

    why: str
    sent: bool = True
    """False: the request was never sent. True: it may have been executed."""


@dataclass(frozen=True, slots=True)
class Refused:
    """The dashboard rejected the request."""

    status: int
    why: str


@dataclass(frozen=True, slots=True)
class Accepted:
    """The dashboard executed the request."""


# ── jobs ─────────────────────────────────────────────────────────────────────────────────


class JobInfo(msgspec.Struct, frozen=True, gc=False):
    status: JobStatus
    submission_id: str | None = None
    job_id: str | None = None
    """Ray's own id, once the driver has connected; tasks have it."""
    message: str | None = None
    start_time: int | None = None
    """Milliseconds since the epoch."""
    end_time: int | None = None
    entrypoint: str = ""
    error_type: str | None = None
    first_failure: str = ""
    """The error of the first failed task of a failed job, on one line; empty if it is not known."""


class TaskInfo(msgspec.Struct, frozen=True, gc=False):
    """A failed task, as the state API shows it."""

    name: str | None = None
    error_type: str | None = None
    error_message: str | None = None
    """A traceback, for an exception of the task."""
    end_time_ms: float | None = None
    """Ray 2.60 sends a number with a fraction."""


class _TaskRows(msgspec.Struct, frozen=True):
    result: tuple[TaskInfo, ...] = ()


class _TaskData(msgspec.Struct, frozen=True):
    result: _TaskRows = _TaskRows()


class TaskList(msgspec.Struct, frozen=True):
    """Answer of the state API: `data.result.result`."""

    data: _TaskData | None = None

    @property
    def tasks(self) -> tuple[TaskInfo, ...]:
        return self.data.result.result if self.data else ()


TasksResult = TaskList | Unreachable


@dataclass(frozen=True, slots=True)
class NoSuchJob:
    """The dashboard knows no such job."""


JobResult = JobInfo | NoSuchJob | Unreachable


class Session(msgspec.Struct, frozen=True, gc=False):
    """A Ray session. With GCS fault tolerance it survives the head, otherwise it ends with it."""

    session_name: str = ""
    """Empty: this Ray does not report it."""


SessionResult = Session | Unreachable


@dataclass(frozen=True, slots=True)
class JobRequest:
    submission_id: str
    entrypoint: str
    runtime_env: Mapping[str, Any] = field(default_factory=dict)
    metadata: Mapping[str, str] = field(default_factory=dict)
    num_cpus: float | None = None
    num_gpus: float | None = None
    resources: Mapping[str, float] = field(default_factory=dict)

    def body(self) -> dict[str, Any]:
        optional = {
            "runtime_env": dict(self.runtime_env),
            "metadata": dict(self.metadata),
            "entrypoint_num_cpus": self.num_cpus,
            "entrypoint_num_gpus": self.num_gpus,
            "entrypoint_resources": dict(self.resources),
        }
        wanted = {name: value for name, value in optional.items() if value not in (None, {})}
        return {"submission_id": self.submission_id, "entrypoint": self.entrypoint, **wanted}


@dataclass(frozen=True, slots=True)
class AlreadySubmitted:
    """The submission id exists: an earlier request succeeded."""


SubmitResult = Accepted | AlreadySubmitted | Refused | Unreachable


# ── Serve ────────────────────────────────────────────────────────────────────────────────


class DeploymentStatus(msgspec.Struct, frozen=True, gc=False):
    status: str = ""
    message: str = ""


class ApplicationStatus(msgspec.Struct, frozen=True, gc=False):
    status: str = ""
    message: str = ""
    deployments: dict[str, DeploymentStatus] = {}


class ServeProxy(msgspec.Struct, frozen=True, gc=False):
    node_ip: str = ""
    status: str = ""


class ServeStatus(msgspec.Struct, frozen=True, gc=False):
    applications: dict[str, ApplicationStatus] = {}
    proxies: dict[str, ServeProxy] = {}
    """The proxies by node id, with those of draining nodes."""
    target_capacity: float | None = None


ServeResult = ServeStatus | Unreachable
PutResult = Accepted | Refused | Unreachable
