"""Ray's dashboard API, answered from the index of a session."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from manta.history.index import queries
from manta.history.index.queries import MAX_ROWS
from manta.history.json_text import read_json
from manta.history.serve.shapes import (
    NotFoundError,
    Query,
    Session,
    first,
    limit_of,
    ok,
    state_list,
)
from manta.history.serve.stored import last_summary, merged_node
from manta.history.serve.task_answers import summarize, tasks, timeline

_LOG_CATEGORIES: Final = (
    (re.compile(r"worker-.*\.out"), "worker_out"),
    (re.compile(r"worker-.*\.err"), "worker_err"),
    (re.compile(r"python-core-worker-.*"), "core_worker"),
    (re.compile(r"python-core-driver-.*"), "driver"),
    (re.compile(r"gcs_server.*"), "gcs_server"),
    (re.compile(r"raylet.*"), "raylet"),
    (re.compile(r"monitor.*"), "autoscaler"),
    (re.compile(r"(dashboard_agent|runtime_env_agent).*"), "agent"),
    (re.compile(r"dashboard\..*"), "dashboard"),
)


# ── jobs ─────────────────────────────────────────────────────────────────────────────────
def _job(one: Mapping[str, Any]) -> dict[str, Any]:
    driver = one["job_id"] and {"id": one["job_id"], "node_ip_address": one["ip"] or "", "pid": one["driver_pid"] or ""}  # fmt: skip
    return {
        "type": "SUBMISSION" if one["submission_id"] else "DRIVER",
        "job_id": one["job_id"],
        "submission_id": one["submission_id"],
        "driver_info": driver or None,
        "status": queries.job_status(one),
        "entrypoint": one["command"] or "",
        "message": one["message"],
        "error_type": None,
        "start_time": int(one["started"]) if one["started"] else None,
        "end_time": int(one["ended"]) if one["ended"] else None,
        "metadata": _object(one["metadata"]),
        "runtime_env": _object(one["runtime_env"]),
        "driver_agent_http_address": None,
        "driver_node_id": one["driver_node_id"],
        "driver_exit_code": None,
    }


def jobs(session: Session, query: Query) -> Any:
    return [_job(one) for one in queries.jobs(session.database)]


def job(session: Session, query: Query, name: str) -> Any:
    """One job, by its id or its submission id. Raises NotFoundError."""
    for one in queries.jobs(session.database):
        if name in (one["job_id"], one["submission_id"]):
            return _job(one)
    raise NotFoundError(f"no job {name}")


def state_jobs(session: Session, query: Query) -> Any:
    return state_list(jobs(session, query))


# ── actors ───────────────────────────────────────────────────────────────────────────────
_ACTORS: Final = """SELECT a.*, n.ip, (SELECT count(*) FROM restarts r WHERE r.actor_id = a.actor_id) AS restarts
  FROM actors a LEFT JOIN nodes n ON n.node_id = a.node_id"""


def _actor(one: Mapping[str, Any]) -> dict[str, Any]:
    started = int(one["started"] or 0)
    return {
        "actorId": one["actor_id"],
        "jobId": one["job_id"],
        "address": {
            "nodeId": one["node_id"] or "", "ipAddress": one["ip"] or "", "port": one["port"] or 0,
            "workerId": one["worker_id"] or "",
        },
        "name": one["name"] or "",
        "className": one["class_name"] or "",
        "actorClass": one["class_name"] or "",
        "state": one["state"] or "DEPENDENCIES_UNREADY",
        "numRestarts": str(one["restarts"]),
        "timestamp": one["ended"] or one["started"] or 0,
        "pid": one["pid"] or 0,
        "startTime": started,
        "endTime": int(one["ended"] or 0),
        "reprName": one["repr_name"] or "",
        "exitDetail": one["death"] or "-",
        "requiredResources": _object(one["resources"]),
        "labelSelector": _object(one["labels"]),
        "placementGroupId": one["placement_group"],
        "callSite": one["call_site"] or "",
        "rayNamespace": one["namespace"] or "",
        "isDetached": bool(one["detached"]),
        "numExecutedTasks": 0, "numPendingTasks": 0, "usedResources": {}, "gpus": [], "tpus": [],
        "processStats": None, "mem": [0, 0, 0, 0],
    }  # fmt: skip


def actors(session: Session, query: Query) -> Any:
    query_text = f"{_ACTORS} ORDER BY a.actor_id LIMIT {MAX_ROWS}"
    found = {one["actor_id"]: _actor(one) for one in queries.rows(session.database, query_text)}
    return ok({"actors": found}, "All actors fetched.")


def actor(session: Session, query: Query, actor_id: str) -> Any:
    """One actor. Raises NotFoundError."""
    for one in queries.rows(session.database, f"{_ACTORS} WHERE a.actor_id = ?", actor_id):
        return ok({"detail": _actor(one)}, "Actor details fetched.")
    raise NotFoundError(f"no actor {actor_id}")


def state_actors(session: Session, query: Query) -> Any:
    names = ("actor_id", "class_name", "state", "job_id", "name", "node_id", "pid", "namespace")
    rows = [
        {"ray_namespace" if key == "namespace" else key: one[key] for key in names}
        for one in queries.rows(session.database, f"{_ACTORS} LIMIT {limit_of(query)}")
    ]
    return state_list(rows)


# ── nodes and workers ────────────────────────────────────────────────────────────────────
def _node(one: Mapping[str, Any]) -> dict[str, Any]:
    resources = _object(one["resources"])
    head = "node:__internal_head__" in resources
    raylet = {
        "nodeId": one["node_id"], "nodeManagerAddress": one["ip"] or "", "nodeName": one["name"] or "",
        "nodeManagerHostname": one["hostname"] or "", "isHeadNode": head, "state": one["state"] or "DEAD",
        "stateMessage": one["death"], "startTimeMs": str(int(one["started"] or 0)),
        "endTimeMs": str(int(one["ended"] or 0)), "labels": _object(one["labels"]), "resourcesTotal": resources,
        "numWorkers": 0, "objectStoreUsedMemory": 0,
        "objectStoreAvailableMemory": resources.get("object_store_memory", 0), "coreWorkersStats": [],
    }  # fmt: skip
    cpus = int(resources.get("CPU", 0))
    return {
        "now": (one["ended"] or one["started"] or 0) / 1000, "hostname": one["hostname"] or "",
        "ip": one["ip"] or "", "cpu": 0.0, "cpus": [cpus, cpus],
        "mem": [int(resources.get("memory", 0)), int(resources.get("memory", 0)), 0.0, 0], "shm": 0,
        "raylet": raylet, "agent": {}, "bootTime": (one["started"] or 0) / 1000,
        "loadAvg": [[0, 0, 0], [0, 0, 0]], "disk": {"/": {"total": 0, "used": 0, "free": 0, "percent": 0.0}},
        "diskIo": [0, 0, 0, 0], "diskIoSpeed": [0, 0, 0, 0], "gpus": [], "tpus": [], "network": [0, 0],
        "networkSpeed": [0, 0], "cmdline": [],
    }  # fmt: skip


def nodes(session: Session, query: Query) -> Any:
    found = list(queries.rows(session.database, "SELECT * FROM nodes ORDER BY started"))
    if first(query, "view") == "hostNameList":
        names = [one["hostname"] or one["ip"] for one in found]
        return ok({"hostNameList": names}, "Node hostname list fetched.")
    seen, said = last_summary(session)
    logical = {one["node_id"]: _resource_text(_object(one["resources"])) for one in found}
    summary = [merged_node(_node(one), seen.pop(one["node_id"], None)) for one in found]
    both = {"summary": [*summary, *seen.values()], "nodeLogicalResources": {**logical, **said}}
    return ok(both, "Node summary fetched.")


def _resource_text(resources: Mapping[str, float]) -> str:
    return "\n".join(f"0.0/{size} {name}" for name, size in resources.items() if ":" not in name)


def node(session: Session, query: Query, node_id: str) -> Any:
    """One node with its workers. Raises NotFoundError."""
    for one in queries.rows(session.database, "SELECT * FROM nodes WHERE node_id = ?", node_id):
        workers = [
            {"pid": w["pid"], "jobId": w["job_id"] or "", "language": "PYTHON", "cmdline": [f"ray::{w['type']}"],
             "createTime": (w["started"] or 0) / 1000, "cpuPercent": 0.0, "memoryInfo": {"rss": 0, "vms": 0},
             "coreWorkerStats": [{"workerId": w["worker_id"], "jobId": w["job_id"] or ""}]}
            for w in queries.rows(session.database, "SELECT * FROM workers WHERE node_id = ?", node_id)
        ]  # fmt: skip
        of_node = queries.rows(session.database, f"{_ACTORS} WHERE a.node_id = ?", node_id)
        actors_here = {a["actor_id"]: _actor(a) for a in of_node}
        whole = merged_node(_node(one), last_summary(session)[0].get(node_id))
        detail = {**whole, "workers": workers, "actors": actors_here}
        return ok({"detail": detail}, "Node details fetched.")
    raise NotFoundError(f"no node {node_id}")


def state_nodes(session: Session, query: Query) -> Any:
    rows = [
        {
            "node_id": one["node_id"], "node_ip": one["ip"], "state": one["state"], "state_message": one["death"],
            "is_head_node": "node:__internal_head__" in _object(one["resources"]), "node_name": one["name"],
            "resources_total": _object(one["resources"]), "labels": _object(one["labels"]),
        }
        for one in queries.rows(session.database, "SELECT * FROM nodes ORDER BY started")
    ]  # fmt: skip
    return state_list(rows)


def state_workers(session: Session, query: Query) -> Any:
    select = "SELECT w.*, n.ip FROM workers w LEFT JOIN nodes n USING (node_id) LIMIT ?"
    rows = [
        {
            "worker_id": one["worker_id"], "is_alive": one["state"] == "ALIVE", "worker_type": one["type"],
            "exit_type": one["exit_type"], "node_id": one["node_id"], "ip": one["ip"], "pid": one["pid"],
        }
        for one in queries.rows(session.database, select, limit_of(query))
    ]  # fmt: skip
    return state_list(rows)


# ── logs and events ──────────────────────────────────────────────────────────────────────
def log_files(session: Session, query: Query) -> Any:
    """The files directly below `glob`'s directory, by component, as Ray lists them. Raises NotFoundError."""
    wanted = first(query, "node_id") or first(query, "node_ip")
    pod = session.reader.pod_of_node(wanted) if wanted else None
    if pod is None:
        raise NotFoundError(f"no logs of node {wanted!r}")
    glob = first(query, "glob", "*")
    below = glob.rpartition("/")[0]
    start = f"{below}/" if below else ""
    found: dict[str, list[str]] = {}
    for one in session.reader.files(pod):
        if not one.path.startswith(start):
            continue
        part, slash, _ = one.path.removeprefix(start).partition("/")
        name = start + part + slash
        names = found.setdefault(_category(name), [])
        if name not in names and _matches(name, glob):
            names.append(name)
    return ok({"result": found})


def _matches(name: str, glob: str) -> bool:
    return fnmatch.fnmatchcase(name.rstrip("/"), glob)


def _category(name: str) -> str:
    return next((kind for pattern, kind in _LOG_CATEGORIES if pattern.fullmatch(name)), "internal")


def ray_events(session: Session, query: Query) -> Any:
    """The events by job, as Ray's dashboard groups them; `global` has those of no job."""
    found: dict[str, list[dict[str, Any]]] = {"global": []}
    for one in queries.rows(
        session.database, "SELECT * FROM ray_events ORDER BY at DESC LIMIT 1000"
    ):
        fields = _object(one["fields"])
        row = {
            "eventId": one["id"], "sourceType": one["source"], "sourceHostname": one["hostname"],
            "sourcePid": one["pid"], "message": one["message"], "timestamp": str(int(one["at"] / 1000)),
            "customFields": fields, "severity": one["severity"], "label": one["label"],
        }  # fmt: skip
        found.setdefault(str(fields.get("job_id") or "global"), []).append(row)
    if job_id := first(query, "job_id"):
        return ok({"jobId": job_id, "events": found.get(job_id, [])}, "Job events fetched.")
    return ok({"events": found}, "All events fetched.")


# ── the session ──────────────────────────────────────────────────────────────────────────
def cluster_status(session: Session, query: Query) -> Any:
    found = list(queries.rows(session.database, "SELECT * FROM nodes"))
    total: dict[str, float] = {}
    for one in found:
        for name, size in _object(one["resources"]).items():
            if ":" not in name:
                total[name] = total.get(name, 0) + size
    if not first(query, "format"):
        return ok({"autoscalingStatus": None, "autoscalingError": None, "clusterStatus": None}, "Got cluster status.")  # fmt: skip
    lines = [f" {size} {name}" for name, size in sorted(total.items())]
    rule = "-" * 63  # the frontend looks for these headings
    status = ["Node status", rule, f"This session is over. It had {len(found)} nodes."]
    text = "\n".join([*status, "", "Resources", rule, "Of all nodes:", *lines])
    return ok({"clusterStatus": text}, "Got formatted cluster status.")


def cluster_metadata(session: Session, query: Query) -> Any:
    return ok({"rayVersion": session.ray_version, "pythonVersion": "", "rayInitCluster": False})


def version(session: Session, query: Query) -> Any:
    facts = {row[0]: row[1] for row in session.database.execute("SELECT name, value FROM facts")}
    return {"version": "4", "ray_version": session.ray_version, "ray_commit": "", "session_name": facts.get("session", "")}  # fmt: skip


def _constant(value: Any) -> Endpoint:
    return lambda _session, _query: value


def _object(text: str | None) -> dict[str, Any]:
    try:
        found = read_json(msgspec.json.decode, text.encode()) if text else {}
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


Endpoint = Callable[[Session, Query], Any]
ENDPOINTS: Final[Mapping[str, Endpoint]] = {
    "nodes": nodes,
    "events": ray_events,
    "logical/actors": actors,
    "api/jobs": jobs,
    "api/v0/tasks": tasks,
    "api/v0/tasks/summarize": summarize,
    "api/v0/tasks/timeline": timeline,
    "api/v0/jobs": state_jobs,
    "api/v0/actors": state_actors,
    "api/v0/nodes": state_nodes,
    "api/v0/workers": state_workers,
    "api/v0/logs": log_files,
    "api/v0/cluster_metadata": cluster_metadata,
    "api/v0/placement_groups": lambda _s, _q: state_list([]),
    "api/v0/runtime_env_redaction": _constant(ok({"redactionEnabled": False})),
    "api/v0/platform_events": _constant(ok({"events": []}, "Retrieved platform events")),
    "api/cluster_status": cluster_status,
    "api/version": version,
    "api/authentication_mode": _constant({"authentication_mode": "disabled"}),
    "api/profiling_enabled": _constant(ok({"profilingEnabled": False, "profilingDefaults": {}})),
    "api/serve/applications": _constant({"applications": {}, "proxies": {}}),
    "api/train/v2/runs/v1": _constant({"train_runs": []}),
    "timezone": _constant({"offset": "+00:00", "value": "Etc/UTC"}),
}
ITEMS: Final[Mapping[str, Callable[[Session, Query, str], Any]]] = {
    "nodes": node,
    "logical/actors": actor,
    "api/jobs": job,
    "api/data/datasets": lambda _s, _q, _name: {"datasets": []},
}
"""Endpoints with a name after the slash."""


def is_known(path: str) -> bool:
    """Whether the index answers this path."""
    return path in ENDPOINTS or path.rpartition("/")[0] in ("nodes", "logical/actors", "api/jobs")


UNAVAILABLE: Final[Mapping[str, str]] = {
    "api/grafana_health": "Grafana belongs to live clusters",
    "api/prometheus_health": "Prometheus belongs to live clusters",
}
