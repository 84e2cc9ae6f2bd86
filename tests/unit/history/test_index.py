"""The index of a session, from events of a real Ray 2.60 and from damaged ones."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from manta.history.catalog import Catalog
from manta.history.index import queries
from manta.history.index.builder import IndexBuilder
from manta.history.index.queries import Filter, FilterError
from manta.history.layout import event_key
from manta.history.store import StoreError
from support.history import (
    FAILED_TASK,
    RECORDED,
    SESSION,
    WHO,
    file_store,
    generated_lines,
    recorded_session,
    task_events,
)

KEY = WHO.session(SESSION)


def opened(catalog: Catalog):
    database = catalog.open_index(KEY)
    assert database is not None
    return database


def test_the_tasks_jobs_actors_nodes_and_workers_of_a_session_are_found(tmp_path: Path) -> None:
    database = opened(recorded_session(tmp_path))
    page = queries.tasks(database)
    assert page.total == page.matching == len(list(page.rows)) > 10
    [job] = queries.jobs(database)
    assert (job["job_id"], job["submission_id"], queries.job_status(job)) == (
        "02000000",
        "sub-1",
        "SUCCEEDED",
    )
    actors = {one["name"]: one["state"] for one in queries.rows(database, "SELECT * FROM actors")}
    assert actors == {"act": "DEAD", "_ray_internal_job_actor_sub-1": "DEAD"}
    [node] = queries.rows(database, "SELECT * FROM nodes")
    assert (node["ip"], node["pod"]) == ("192.0.2.2", WHO.pod)
    assert queries.summary(database)["workers"] == 7


def test_the_failed_task_has_its_traceback(tmp_path: Path) -> None:
    database = opened(recorded_session(tmp_path))
    [failed] = queries.failed_tasks(database, limit=10)
    assert failed["task_id"] == FAILED_TASK
    assert failed["error_message"].endswith("ValueError: number seven")
    assert [one["state"] for one in failed["events"]][-1] == "FAILED"
    assert failed["task_log_info"]["stdout_start"] == 130


def test_events_that_come_twice_and_in_another_order_change_nothing(tmp_path: Path) -> None:
    lines = RECORDED.read_bytes().splitlines()
    once, twice = tmp_path / "once.db", tmp_path / "twice.db"
    for path, given in ((once, lines), (twice, [*reversed(lines), *lines])):
        builder = IndexBuilder(path)
        builder.add_lines(given)
        builder.close()

    def content(path: Path):
        import sqlite3

        database = sqlite3.connect(path)
        database.row_factory = sqlite3.Row
        found = list(queries.tasks(database, limit=1000, detail=True, drivers=True).rows)
        actors = list(queries.rows(database, "SELECT * FROM actors"))
        database.close()
        return sorted(found, key=lambda one: (one["task_id"], one["attempt_number"])), actors

    assert content(once) == content(twice)


@pytest.mark.parametrize(
    ("key", "value", "count"),
    [
        ("state", "FAILED", 1),
        ("state", "failed", 1),
        ("task_id", FAILED_TASK, 1),
        ("name", "no such", 0),
        ("task_id", "not hex", 0),
    ],
)
def test_tasks_are_filtered(tmp_path: Path, key: str, value: str, count: int) -> None:
    database = opened(recorded_session(tmp_path))
    page = queries.tasks(database, [Filter(key, "=", value)])
    assert page.matching == len(list(page.rows)) == count
    assert queries.tasks(database, [Filter(key, "!=", value)]).matching == page.total - count


def test_an_unknown_filter_names_the_known_ones(tmp_path: Path) -> None:
    database = opened(recorded_session(tmp_path))
    with pytest.raises(FilterError, match="'colour': tasks have state, attempt_number, name"):
        queries.tasks(database, [Filter("colour", "=", "red")])
    with pytest.raises(FilterError, match="must be = or !="):
        queries.tasks(database, [Filter("state", ">", "red")])


def test_pages_are_disjoint_and_complete(tmp_path: Path) -> None:
    path = tmp_path / "i.db"
    builder = IndexBuilder(path)
    builder.add_lines(generated_lines(1000))
    builder.close()
    import sqlite3

    database = sqlite3.connect(path)
    database.row_factory = sqlite3.Row
    pages = [list(queries.tasks(database, limit=300, offset=at).rows) for at in range(0, 1200, 300)]
    assert [len(one) for one in pages] == [300, 300, 300, 100]
    assert len({row["task_id"] for page in pages for row in page}) == 1000
    assert len(queries.failed_tasks(database, limit=10)) == 1
    database.close()


def test_a_second_attempt_is_a_row_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "i.db"
    first, second = task_events(1, failed=True), task_events(1)
    for event in second:
        for name in ("taskDefinitionEvent", "taskLifecycleEvent"):
            if name in event:
                event[name]["taskAttempt"] = 1
    import sqlite3

    import msgspec

    builder = IndexBuilder(path)
    builder.add_lines([msgspec.json.encode(first), msgspec.json.encode(second)])
    builder.close()
    database = sqlite3.connect(path)
    database.row_factory = sqlite3.Row
    rows = list(queries.tasks(database).rows)
    assert [(one["attempt_number"], one["state"]) for one in rows] == [
        (0, "FAILED"),
        (1, "FINISHED"),
    ]
    database.close()


def test_a_truncated_segment_gives_what_is_readable(tmp_path: Path) -> None:
    store = file_store(tmp_path)
    catalog = recorded_session(tmp_path, store=store)
    packed = gzip.compress(b"".join(generated_lines(1000)))
    store.create(event_key(KEY, WHO.pod, "zz-cut"), packed[: len(packed) // 2])
    database = opened(catalog)
    assert queries.tasks(database).total > 200
    assert queries.failed_tasks(database, limit=1)[0]["task_id"] == FAILED_TASK


def test_an_invalid_line_is_counted_and_skipped(tmp_path: Path) -> None:
    builder = IndexBuilder(tmp_path / "i.db")
    builder.add_lines(
        [
            b'{"eventType": 7',
            b'[{"taskLifecycleEvent": 3}]',
            b'"text"',
            b"",
            b"[]",
            *generated_lines(3),
        ]
    )
    assert builder.invalid_lines == 3
    builder.close()


def test_a_session_without_events_has_an_index(tmp_path: Path) -> None:
    from manta.history.ship import SessionShipper
    from support.history import write_session

    store = file_store(tmp_path)
    session = write_session(tmp_path / "ray", {"raylet.out": b"x\n"})
    SessionShipper(store, WHO, session, tmp_path / "state").ship()
    summary = queries.summary(opened(Catalog(store, tmp_path / "cache")))
    assert summary["tasks"] == {}
    assert summary["log_files"] == 1


def test_the_index_is_stored_and_used_again(tmp_path: Path) -> None:
    catalog = recorded_session(tmp_path)
    opened(catalog).close()
    [stored] = [one.key for one in catalog.store.objects(f"{KEY.prefix}/index")]
    other = Catalog(catalog.store, tmp_path / "other")
    opened(other).close()
    [copy] = (tmp_path / "other").glob("*.db")
    assert copy.read_bytes() == catalog.store.read(stored)


def test_a_damaged_index_is_built_again(tmp_path: Path) -> None:
    catalog = recorded_session(tmp_path)
    opened(catalog).close()
    [stored] = [one.key for one in catalog.store.objects(f"{KEY.prefix}/index")]
    catalog.store.delete([stored])
    catalog.store.create(stored, b"no database")
    assert queries.tasks(opened(Catalog(catalog.store, tmp_path / "other"))).total > 10


def test_the_index_of_a_session_that_grew_replaces_the_one_before(tmp_path: Path) -> None:
    catalog = recorded_session(tmp_path)
    catalog.open_index(KEY)
    [before] = [one.key for one in catalog.store.objects(f"{KEY.prefix}/index")]
    catalog.store.create(event_key(KEY, WHO.pod, "zz"), gzip.compress(b"[]\n"))
    catalog.open_index(KEY)
    [after] = [one.key for one in catalog.store.objects(f"{KEY.prefix}/index")]
    assert before != after


def test_who_may_only_read_the_store_gets_an_index_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    catalog = recorded_session(tmp_path)

    def refuse(_key: str, _path: Path) -> None:
        raise StoreError("403 Forbidden")

    monkeypatch.setattr(catalog.store, "write_derived", refuse)
    database = catalog.open_index(KEY)
    assert database is not None
    assert queries.tasks(database).total
    assert "is kept on this machine only: 403 Forbidden" in caplog.text


def test_a_missing_session_has_no_index(tmp_path: Path) -> None:
    catalog = recorded_session(tmp_path)
    assert catalog.open_index(KEY._replace(name="other")) is None


def test_the_tail_of_a_file_that_is_one_line_is_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from manta.history import logs
    from manta.history.ship import SessionShipper
    from support.history import write_session

    monkeypatch.setattr(logs, "MAX_TAIL", 1000)
    store = file_store(tmp_path)
    session = write_session(tmp_path / "ray", {"raylet.out": b"x" * 3_000_000})
    SessionShipper(store, WHO, session, tmp_path / "state").ship()
    database = opened(Catalog(store, tmp_path / "cache"))
    assert logs.LogReader(store, database).tail(WHO.pod, "raylet.out", 10) == b"x" * 1000
