"""A Ray that answers the questions about its use: drivers, actors, placement groups and Serve."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

from manta.ray.models import Target, Unreachable
from manta.ray.transport import Reply


@dataclass
class FakeUse:
    """What runs in one Ray cluster, and the counters that Ray keeps of it."""

    drivers: int = 0
    ended_at: float | None = None
    actors: list[dict[str, str]] = field(default_factory=list)
    dead_actors: int = 0
    groups: list[str] = field(default_factory=list)
    removed_groups: int = 0
    applications: dict[str, Any] = field(default_factory=dict)
    longest: int = 10_000
    """As many actors as Ray lists at most."""

    def start_driver(self) -> None:
        self.drivers += 1

    def end_driver(self, now: float) -> None:
        self.drivers -= 1
        self.ended_at = now

    def start_actor(
        self, class_name: str = "Counter", namespace: str = "", state: str = "ALIVE"
    ) -> None:
        self.actors.append({"class_name": class_name, "ray_namespace": namespace, "state": state})

    def end_actor(self, class_name: str = "Counter") -> None:
        self.actors.remove(next(one for one in self.actors if one["class_name"] == class_name))
        self.dead_actors += 1

    def deploy(self, name: str = "app") -> None:
        self.start_actor("ServeController", "serve")
        self.start_actor("ProxyActor", "serve")
        self.applications[name] = {"status": "RUNNING"}

    # ── what its dashboard answers ───────────────────────────────────────────────────────

    def reply(self, path: str) -> Any:
        parts = urlsplit(path)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        match parts.path:
            case "/api/component_activities":
                return {"driver": self._driver()}
            case "/api/v0/actors":
                dead = [{"class_name": "Old", "state": "DEAD"}] * self.dead_actors
                return self._list(self.actors, dead, query)
            case "/api/v0/placement_groups":
                gone = [{"name": "old", "state": "REMOVED"}] * self.removed_groups
                return self._list(
                    [{"name": one, "state": "CREATED"} for one in self.groups], gone, query
                )
            case "/api/serve/applications/":
                return {"applications": self.applications}
            case _:
                raise AssertionError(f"nobody should ask for {path}")

    def _driver(self) -> dict[str, Any]:
        active = self.drivers > 0
        return {
            "is_active": "ACTIVE" if active else "INACTIVE",
            "reason": f"Number of active drivers: {self.drivers}" if active else None,
            "timestamp": 1.0,
            "last_activity_at": self.ended_at,
        }

    def _list(
        self, living: list[dict[str, str]], dead: list[dict[str, str]], query: dict[str, str]
    ) -> dict[str, Any]:
        is_equal, state = query["filter_predicates"] == "=", query["filter_values"]
        assert query["filter_predicates"] in ("=", "!=")
        every = [*living, *dead]
        listed = every if is_equal else every[: self.longest]
        found = [one for one in listed if (one["state"] == state) is is_equal]
        rows = {
            "total": len(every),
            "num_after_truncation": len(listed),
            "num_filtered": len(found),
            "result": found[: int(query["limit"])],
            "partial_failure_warning": "",
        }
        return {"result": True, "msg": "", "data": {"result": rows}}


@dataclass
class FakeActivities:
    """The dashboards of all clusters, as a transport; `weather` is what happens to a request."""

    clusters: dict[str, FakeUse] = field(default_factory=dict)
    weather: Callable[[str, str], str] = lambda service, path: ""
    """(head Service, path) -> '', 'hang', '500', '429', 'nonsense', 'refuse', 'partial', 'error' or 'shape'."""
    asked: list[tuple[str, str]] = field(default_factory=list)
    tokens: set[str] = field(default_factory=set)
    """What was shown; '' where no token was."""

    def of(self, name: str = "demo") -> FakeUse:
        return self.clusters.setdefault(f"{name}-head-svc", FakeUse())

    async def send(
        self, target: Target, method: str, path: str, body: bytes | None = None
    ) -> Reply | Unreachable:
        assert (method, body) == ("GET", None)
        self.asked.append((target.service, path))
        self.tokens.add(target.token)
        weather = self.weather(target.service, path)
        answer = self.clusters.setdefault(target.service, FakeUse()).reply(path)
        match weather:
            case "hang":
                await asyncio.sleep(2)
                return Unreachable("no answer within 2 s")
            case "refuse":
                return Unreachable("connection refused", sent=False)
            case "500" | "429":
                return Reply(int(weather), b"try later")
            case "nonsense":
                return Reply(200, b"<html>please log in</html>")
            case "shape":
                return Reply(200, b'{"result": true, "data": {"driver": "fine"}}')
            case "partial" | "error":
                return Reply(200, json.dumps(_spoiled(answer, weather)).encode())
            case _:
                return Reply(200, json.dumps(answer).encode())

    async def probe(self, url: str) -> Reply | Unreachable:
        raise AssertionError(f"nobody should probe {url}")

    async def close(self) -> None:
        pass


def _spoiled(answer: dict[str, Any], how: str) -> dict[str, Any]:
    """The answer with a warning that part of it is missing, or with an error in place of an activity."""
    if "driver" in answer:
        return {"driver": {"is_active": "ERROR", "reason": "GCS timed out", "timestamp": 1.0}}
    if "data" not in answer:
        return {"detail": "not now"}
    if how == "error":
        return {"result": False, "msg": "GCS timed out", "data": {"result": None}}
    answer["data"]["result"] |= {"partial_failure_warning": "1 of 2 nodes failed", "result": []}
    return answer
