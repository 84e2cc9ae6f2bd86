"""KubeRay's tree: sessions, tasks and logs are read from it as they are."""

from __future__ import annotations

import gzip
from pathlib import Path

import msgspec
import pytest

from manta.history.catalog import Catalog
from manta.history.index import queries
from manta.history.layout import SessionKey
from manta.history.logs import LogReader
from support.history import FAILED_TASK, NODE, RECORDED, SESSION, file_store

PLACES = {
    SessionKey("default", "raycluster", "demo", SESSION): "raycluster/default/demo",
    SessionKey("default", "rayjob", "train", SESSION): "rayjob/default/train/train-abc",
}


def kuberay_tree(tmp_path: Path, place: str) -> Catalog:
    """As its collector writes it: one event a line, whole log files."""
    store = file_store(tmp_path)
    base = f"cluster-history/{place}/{SESSION}"
    events = [
        one for line in RECORDED.read_bytes().splitlines() for one in msgspec.json.decode(line)
    ]
    lines = [msgspec.json.encode(one) + b"\n" for one in events]
    half = len(lines) // 2
    store.create(f"{base}/{NODE}/node_events/{NODE}-2026-11-18-01-1.jsonl", b"".join(lines[:half]))
    packed = gzip.compress(b"".join(lines[half:]))
    store.create(f"{base}/{NODE}/job_events/02000000/{NODE}-2026-11-18-01-2.jsonl.gz", packed)
    store.create(f"{base}/{NODE}/logs/raylet.out", b"line\n" * 500_000)
    store.create(f"{base}/{NODE}/logs/job-driver-sub-1.log", b"the driver says hello\n")
    zone = b'{"offset": "+02:00", "value": "Europe/Berlin"}'
    store.create(f"{base}/fetched_endpoints/restful__timezone", zone)
    groups = f"{base}/fetched_endpoints/restful__api__v0__placement_groups?detail=1&limit=10000"
    store.create(groups, b'{"result": true}')
    return Catalog(store, tmp_path / "cache")


@pytest.mark.parametrize(("key", "place"), PLACES.items(), ids=lambda one: str(one)[:40])
def test_a_session_of_kuberays_collector_is_read(
    tmp_path: Path, key: SessionKey, place: str
) -> None:
    catalog = kuberay_tree(tmp_path, place)
    assert catalog.namespaces() == ["default"]
    assert list(catalog.sessions("default")) == [key]
    database = catalog.open_index(key)
    assert database is not None
    assert queries.tasks(database).total == 16
    assert queries.failed_tasks(database, limit=1)[0]["task_id"] == FAILED_TASK
    reader = LogReader(catalog.store, database)
    assert reader.pod_of_node(NODE) == NODE
    assert b"".join(reader.read(NODE, "raylet.out")) == b"line\n" * 500_000
    assert reader.tail(NODE, "raylet.out", 2) == b"line\nline\n"
    assert list(catalog.sessions("default")) == [key]  # also with the index of ours beside it


def test_a_file_of_events_is_never_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """KubeRay's collector writes one for an hour, of any size."""
    catalog = kuberay_tree(tmp_path, "raycluster/default/demo")
    real = catalog.store.read

    def small(key: str) -> bytes | None:
        assert "_events/" not in key
        return real(key)

    monkeypatch.setattr(catalog.store, "read", small)
    database = catalog.open_index(next(catalog.sessions("default")))
    assert database is not None
    assert queries.tasks(database).total == 16


def test_answers_of_the_dashboard_that_kuberays_collector_kept_are_served(tmp_path: Path) -> None:
    from manta.history.serve.shapes import Session
    from manta.history.serve.stored import stored_answer

    catalog = kuberay_tree(tmp_path, "raycluster/default/demo")
    database = catalog.open_index(next(catalog.sessions("default")))
    assert database is not None
    session = Session(database, LogReader(catalog.store, database), "")
    assert b"Berlin" in (stored_answer(session, "timezone", {}, known=True) or b"")
    assert stored_answer(session, "api/v0/placement_groups", {}, known=True) == b'{"result": true}'
    assert stored_answer(session, "api/v0/tasks", {}, known=True) is None


def test_the_log_of_a_dead_worker_has_the_name_by_which_tasks_know_it(tmp_path: Path) -> None:
    catalog = kuberay_tree(tmp_path, "raycluster/default/demo")
    base = f"cluster-history/raycluster/default/demo/{SESSION}/{NODE}/logs"
    catalog.store.create(f"{base}/old/worker-a.out", b"the last words\n")
    catalog.store.create(f"{base}/worker-b.out", b"one\n")
    catalog.store.create(f"{base}/old/worker-b.out", b"two\n")
    database = catalog.open_index(next(catalog.sessions("default")))
    assert database is not None
    reader = LogReader(catalog.store, database)
    assert b"".join(reader.read(NODE, "worker-a.out")) == b"the last words\n"
    assert b"".join(reader.read(NODE, "worker-b.out")) == b"one\ntwo\n"


def test_what_is_not_there_is_not_found(tmp_path: Path) -> None:
    catalog = kuberay_tree(tmp_path, "raycluster/default/demo")
    assert catalog.open_index(SessionKey("default", "rayjob", "demo", SESSION)) is None
    assert list(catalog.sessions("other")) == []
    assert list(catalog.sessions("../default")) == []


def test_retention_leaves_kuberays_sessions_alone(tmp_path: Path) -> None:
    from manta.history.prune import stored_sessions

    catalog = kuberay_tree(tmp_path, "raycluster/default/demo")
    database = catalog.open_index(next(catalog.sessions("default")))
    assert database is not None
    assert list(stored_sessions(catalog, ["default"])) == []
