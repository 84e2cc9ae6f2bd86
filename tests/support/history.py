"""Sessions for the tests of history: recorded events of a real Ray 2.60, and generated ones."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from manta.history.catalog import Catalog
from manta.history.ship import Identity, SessionShipper, ship_events
from manta.history.store import Store, open_store

RECORDED = Path(__file__).parents[1] / "unit" / "history" / "recorded" / "ray-2.60-events.jsonl"
SOURCE = Path(__file__).parents[2] / "src"
SESSION = "session_2026-11-18_01-51-39_771206_28616"
NODE = "c9007845412623513b8e79411e67ea7997512d139fa8b4b2bc5f3e07"
WHO = Identity("default", "rayjob", "train", "train-abc", "train-abc-head-x1", "head", "2.60.0")
DEEP_POST = b'[{"x": ' + b"[" * 200_000 + b"]" * 200_000 + b"}]\n"
"""JSON that no recursive reader gets through."""
FAILED_TASK = "0d12401e8fa9a714ffffffffffffffffffffffff02000000"


def mount_source(pod: dict[str, Any], container: dict[str, Any]) -> None:
    """Let the container import manta from this checkout, also where that lies below /tmp: Pods have a /tmp of their own."""
    path = str(SOURCE)
    pod["volumes"].append({"name": "source", "hostPath": {"path": path}})
    container["volumeMounts"].append({"name": "source", "mountPath": path, "readOnly": True})


def file_store(directory: Path) -> Store:
    return open_store((directory / "store").as_uri(), {})


def write_session(root: Path, logs: dict[str, bytes], node: str = NODE) -> Path:
    """A session directory as Ray writes it."""
    session = root / SESSION
    (session / "logs").mkdir(parents=True, exist_ok=True)
    (session / f"metrics_agent_port_{node}").write_text("1")
    for path, content in logs.items():
        file = session / "logs" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("ab") as log:
            log.write(content)
    return session


def recorded_session(directory: Path, who: Identity = WHO, store: Store | None = None) -> Catalog:
    """A store with the recorded session in it."""
    store = store or file_store(directory)
    jobs = b'{"event_id":"1","source_type":"JOBS","message":"Started a ray job sub-1.","timestamp":"1794966721"}\n'
    jobs += (
        b'{"event_id":"2","source_type":"JOBS","message":"Completed a ray job sub-1 with a status'
        b' SUCCEEDED.","timestamp":"1794966738"}\n'
    )
    worker = "worker-6d9c3c7d307c78940b1ebe9b839bf71487f26c44001356375e169759-ffffffff-29268"
    out = (b"x" * 129) + b"\ntask 7\nafter\n"
    logs = {
        "job-driver-sub-1.log": b"the driver says hello\nand goodbye\n",
        "events/event_JOBS.log": jobs,
        "raylet.out": b"one\ntwo\nthree\n",
        f"{worker}.out": out,
        f"{worker}.err": b"",
        f"{worker.partition('-ffffffff-')[0]}-02000000-29267.out": b"the actor prints\n",
    }
    session = write_session(directory / "ray" / who.namespace / who.name, logs)
    SessionShipper(store, who, session, directory / f"{who.namespace}-{who.name}.json").ship()
    ship_events(store, who, SESSION, RECORDED)
    return Catalog(store, directory / "cache")


# ── generated events ─────────────────────────────────────────────────────────────────────
def encoded(*parts: int) -> str:
    return base64.b64encode(bytes(parts)).decode()


def task_events(number: int, *, failed: bool = False) -> list[dict[str, Any]]:
    """The events of one task, as sizes and types are in a real session: 5 for each task."""
    task = base64.b64encode(number.to_bytes(8, "big") + b"\xff" * 12 + b"\x01\0\0\0").decode()
    worker = base64.b64encode((number % 97).to_bytes(28, "big")).decode()
    node = base64.b64encode((number % 5).to_bytes(28, "big")).decode()
    at = f"2026-01-31T12:{number // 60_000 % 60:02d}:{number // 1000 % 60:02d}.{number % 1000:03d}000000Z"
    common = {"sourceType": "CORE_WORKER", "timestamp": at, "severity": "INFO", "sessionName": SESSION, "nodeId": node}  # fmt: skip
    task_ids = {"taskId": task, "jobId": "AQAAAA==", "taskAttempt": 0}
    function = {"pythonFunctionDescriptor": {"moduleName": "job", "functionName": f"f{number % 20}", "functionHash": "36eb5e9af7c44175adf4a04c586238e0", "className": ""}}  # fmt: skip
    definition = {**task_ids, "taskFunc": function, "taskName": f"f{number % 20}", "taskType": "NORMAL_TASK", "requiredResources": {"CPU": 1.0}, "parentTaskId": "//////////////////////////8BAAAA", "placementGroupId": "////////////////////////", "serializedRuntimeEnv": "{}", "language": "PYTHON", "refIds": {}, "labelSelector": {}}  # fmt: skip
    last = {"state": "FAILED" if failed else "FINISHED", "timestamp": at}
    error = {"rayErrorInfo": {"errorType": "TASK_EXECUTION_EXCEPTION", "errorMessage": f"ValueError: {number}"}} if failed else {}  # fmt: skip
    worker_log = f"/tmp/ray/{SESSION}/logs/worker-{number % 97}-01000000-{number % 97}"
    log = {"taskLogInfo": {"stdoutFile": f"{worker_log}.out", "stderrFile": f"{worker_log}.err", "stdoutStart": number, "stdoutEnd": number + 8, "stderrStart": 0, "stderrEnd": 0}}  # fmt: skip
    profile = [{"startTime": "1769860800000000000", "endTime": "1769860800000100000", "extraData": "{}", "eventName": name} for name in ("task:deserialize_arguments", "task:execute", "task:store_outputs", f"task::f{number % 20}")]  # fmt: skip
    return [
        {"eventId": f"{number}-1", "eventType": "TASK_DEFINITION_EVENT", "taskDefinitionEvent": definition, **common},
        {"eventId": f"{number}-2", "eventType": "TASK_LIFECYCLE_EVENT", "taskLifecycleEvent": {**task_ids, "stateTransitions": [{"state": "PENDING_ARGS_AVAIL", "timestamp": at}, {"state": "PENDING_NODE_ASSIGNMENT", "timestamp": at}]}, **common},
        {"eventId": f"{number}-3", "eventType": "TASK_LIFECYCLE_EVENT", "taskLifecycleEvent": {**task_ids, "stateTransitions": [{"state": "RUNNING", "timestamp": at}], "nodeId": node, "workerId": worker, "workerPid": number % 97, **log}, **common},
        {"eventId": f"{number}-4", "eventType": "TASK_LIFECYCLE_EVENT", "taskLifecycleEvent": {**task_ids, "stateTransitions": [{"state": "SUBMITTED_TO_WORKER", "timestamp": at}, last], **error}, **common},
        {"eventId": f"{number}-5", "eventType": "TASK_PROFILE_EVENT", "taskProfileEvents": {"taskId": task, "jobId": "AQAAAA==", "attemptNumber": 0, "profileEvents": {"componentType": "worker", "componentId": worker, "nodeIpAddress": "10.0.0.1", "events": profile}}, **common},
    ]  # fmt: skip


def generated_lines(count: int, *, failing: int = 1000) -> Iterator[bytes]:
    """Posted arrays of 200 tasks; every `failing`th task fails."""
    for first in range(0, count, 200):
        events: list[dict[str, Any]] = []
        for number in range(first, min(first + 200, count)):
            events += task_events(number, failed=number % failing == failing - 1)
        yield msgspec.json.encode(events) + b"\n"
