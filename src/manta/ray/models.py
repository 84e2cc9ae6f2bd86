"""What a Ray dashboard says, and what we say to it. Only the fields that we use.

An answer is one of a closed set of values. A dashboard that hangs, refuses or talks nonsense is a
fact about the world (`Unreachable`, `Refused`), not an exception: the planners decide what it means.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import msgspec


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
    """No answer that can be trusted."""

    why: str
    sent: bool = True
    """False: the request provably never left. True: it may have been carried out."""


@dataclass(frozen=True, slots=True)
class Refused:
    """The dashboard understood, and said no."""

    status: int
    why: str


@dataclass(frozen=True, slots=True)
class Accepted:
    """The dashboard did what was asked."""


# ── jobs ─────────────────────────────────────────────────────────────────────────────────


class JobState(StrEnum):
    NEW = ""
    PENDING = "PENDING"
    RUNNING = "RUNNING"
    STOPPED = "STOPPED"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"

    @property
    def is_terminal(self) -> bool:
        return self in (JobState.STOPPED, JobState.SUCCEEDED, JobState.FAILED)


class JobInfo(msgspec.Struct, frozen=True, gc=False):
    status: JobState
    submission_id: str | None = None
    message: str | None = None
    start_time: int | None = None
    """Milliseconds since the epoch, as Ray says it."""
    end_time: int | None = None
    entrypoint: str = ""
    error_type: str | None = None


@dataclass(frozen=True, slots=True)
class NoSuchJob:
    """The dashboard answered, and knows no such job."""


JobAnswer = JobInfo | NoSuchJob | Unreachable


class Session(msgspec.Struct, frozen=True, gc=False):
    """One life of Ray's memory: with fault tolerance it outlives the head, without it goes along."""

    session_name: str = ""
    """Empty: this Ray is too old to tell."""


SessionAnswer = Session | Unreachable


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
    """The submission id is taken: an earlier try of ours got through."""


SubmitAnswer = Accepted | AlreadySubmitted | Refused | Unreachable


# ── Serve ────────────────────────────────────────────────────────────────────────────────


class DeploymentStatus(msgspec.Struct, frozen=True, gc=False):
    status: str = ""
    message: str = ""


class ApplicationStatus(msgspec.Struct, frozen=True, gc=False):
    status: str = ""
    message: str = ""
    deployments: dict[str, DeploymentStatus] = {}


class ProxyPlace(msgspec.Struct, frozen=True, gc=False):
    node_ip: str = ""
    status: str = ""


class ServeStatus(msgspec.Struct, frozen=True, gc=False):
    applications: dict[str, ApplicationStatus] = {}
    proxies: dict[str, ProxyPlace] = {}
    """By node id: on which nodes Serve keeps a proxy, those that drain among them."""
    target_capacity: float | None = None


ServeAnswer = ServeStatus | Unreachable
PutAnswer = Accepted | Refused | Unreachable
