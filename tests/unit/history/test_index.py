"""The index of a session, from events of a real Ray 2.60 and from damaged ones."""

from __future__ import annotations

import gzip
import json
import sqlite3
import sys
from pathlib import Path

import pytest

from manta.history.catalog import Catalog
from manta.history.index import queries
from manta.history.index.builder import IndexBuilder
from manta.history.index.queries import Filter, FilterError
from manta.history.layout import answer_key, event_key, log_key, pod_key
from manta.history.logs import LogReader
from manta.history.ship import SessionShipper
from manta.history.store import StoreError
from support.history import (
    DEEP_POST,
    FAILED_TASK,
    RECORDED,
    SESSION,
    WHO,
    encoded,
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


POSTED = {"sessionName": SESSION, "eventId": "1"}
TASK = {"taskId": encoded(*range(24)), "taskAttempt": 0}
ODD_POSTS = {
    "pid": {"taskLifecycleEvent": {**TASK, "workerPid": 10**20}},
    "attempt": {"taskLifecycleEvent": {**TASK, "taskAttempt": 2**70, "workerPid": 1}},
    "worker": {"workerDefinitionEvent": {"workerId": encoded(1), "pid": -(2**70)}},
    "port": {"actorLifecycleEvent": {"actorId": encoded(1), "stateTransitions": [{"state": "ALIVE", "port": 2**70}]}},
    "offset": {"taskLifecycleEvent": {**TASK, "taskLogInfo": {"stdoutFile": "a", "stdoutStart": 2**70}}},
    "digits": {"taskDefinitionEvent": {**TASK, "taskFunc": {"x": {"functionName": 10**4999}}}},
}  # fmt: skip


@pytest.mark.parametrize("odd", ODD_POSTS.values(), ids=ODD_POSTS)
def test_one_odd_event_costs_only_itself(tmp_path: Path, odd: dict[str, object]) -> None:
    store = file_store(tmp_path)
    catalog = recorded_session(tmp_path, store=store)
    before = queries.summary(opened(catalog))
    sys.set_int_max_str_digits(0)
    line = json.dumps([*task_events(1), POSTED | odd, *task_events(2)])
    sys.set_int_max_str_digits(sys.int_info.default_max_str_digits)
    store.create(event_key(KEY, WHO.pod, "odd"), gzip.compress(line.encode()))
    after = queries.summary(opened(catalog))
    assert after["tasks"]["FINISHED"] == before["tasks"]["FINISHED"] + 2
    assert after["invalid_lines"] == "1"


def deep(text: str) -> bytes:
    return text.replace("DEEP", "[" * 200_000 + "]" * 200_000).encode() + b"\n"


@pytest.mark.parametrize(
    ("line", "invalid"),
    [
        (b'{"event_id": "2", "message": "x", "source_pid": "inf"}', "0"),
        (b'{"event_id": "2", "message": "x", "source_pid": 1' + b"0" * 30 + b"}", "0"),
        (b'{"event_id": "2", "message": "x", "timestamp": 1e300}', "0"),
        (b'{"event_id": "2", "message": "x", "timestamp": "' + b"9" * 400 + b'"}', "0"),
        (b'{"event_id": "2", "message": 1' + b"0" * 5000 + b"}", "1"),
        (deep('{"event_id": "2", "message": "x", "custom_fields": DEEP}'), "1"),
    ],
    ids=lambda value: None if isinstance(value, str) else value[:55],
)
def test_one_odd_line_of_an_event_log_costs_at_most_itself(
    tmp_path: Path, line: bytes, invalid: str
) -> None:
    catalog = recorded_session(tmp_path)
    session = tmp_path / "ray/default/train" / SESSION
    started = b'{"event_id": "3", "source_type": "JOBS", "message": "Started a ray job sub-3."}\n'
    (session / "logs/events/event_GCS.log").write_bytes(line.strip() + b"\n" + started)
    SessionShipper(catalog.store, WHO, session, tmp_path / "default-train.json").ship()
    database = opened(catalog)
    assert "sub-3" in {one["submission_id"] for one in queries.jobs(database)}
    assert queries.summary(database)["invalid_lines"] == invalid
    for at, pid in database.execute("SELECT at, pid FROM ray_events"):
        assert 0 <= at < 253_402_300_800_000
        assert pid < 2**63


LINE = b'{"event_id": "%d", "source_type": "JOBS", "message": "Started a ray job sub-%d."}\n'


@pytest.mark.parametrize("size", [1, 7, 50, 84, 10_000])
def test_a_line_that_chunks_cut_is_read_whole(tmp_path: Path, size: int) -> None:
    catalog = recorded_session(tmp_path)
    text = b"".join(LINE % (number, number) for number in range(100, 130))[
        : None if size % 2 else -1
    ]
    for start in range(0, len(text), size):
        part = text[start : start + size]
        key = log_key(KEY, WHO.pod, "events/event_GCS.log", (0, 5, start, start + len(part)))
        catalog.store.create(key, gzip.compress(part))
    database = opened(catalog)
    [count] = database.execute("SELECT count(*) FROM ray_events WHERE length(id) = 3").fetchone()
    assert count == 30
    assert queries.summary(database)["invalid_lines"] == "0"


def test_ranges_of_an_event_log_that_were_shipped_twice_count_once(tmp_path: Path) -> None:
    """After a lost state. An earlier range that is read after a later one would start a job again."""
    catalog = recorded_session(tmp_path)
    done = b'{"event_id": "9", "source_type": "JOBS", "message": "Completed a ray job sub-7 with a status FAILED."}\n'
    first, second = LINE % (6, 6), LINE % (7, 7)
    text = first + second + done
    cut, end = len(first), len(first + second)
    for start, stop in ((0, cut), (0, len(text)), (cut, end)):
        key = log_key(KEY, WHO.pod, "events/event_GCS.log", (0, 5, start, stop))
        catalog.store.create(key, gzip.compress(text[start:stop]))
    [job] = [one for one in queries.jobs(opened(catalog)) if one["submission_id"] == "sub-7"]
    assert job["status"] == "FAILED"


def test_after_a_missing_chunk_of_an_event_log_the_next_whole_line_is_read(tmp_path: Path) -> None:
    catalog = recorded_session(tmp_path)
    text = b"".join(LINE % (number, number) for number in range(100, 110))
    for start, end in ((0, 100), (300, len(text))):
        key = log_key(KEY, WHO.pod, "events/event_GCS.log", (0, 5, start, end))
        catalog.store.create(key, gzip.compress(text[start:end]))
    database = opened(catalog)
    [count] = database.execute("SELECT count(*) FROM ray_events WHERE length(id) = 3").fetchone()
    assert count == 1 + (len(text) - 300) // len(LINE % (100, 100))
    assert queries.summary(database)["invalid_lines"] == "2"


def test_a_line_that_never_ends_is_not_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("manta.history.indexing._MAX_LINE_BYTES", 100_000)
    catalog = recorded_session(tmp_path)
    bomb = gzip.compress(b"x" * 1_000_000 + b"\n" + b"".join(generated_lines(3)))
    catalog.store.create(event_key(KEY, WHO.pod, "bomb"), bomb)
    summary = queries.summary(opened(catalog))
    assert (summary["tasks"]["FINISHED"], summary["invalid_lines"]) == (17, "10")


def test_odd_answers_and_pod_records_cost_only_themselves(tmp_path: Path) -> None:
    catalog = recorded_session(tmp_path)
    for uri, at, body in (
        ("api/deep", 1, DEEP_POST),
        ("api/late", 10**20, b"{}"),
        ("api/good", 1, b"{}"),
    ):
        catalog.store.create(answer_key(KEY, uri, at), gzip.compress(body))
    catalog.store.create(pod_key(KEY, WHO.pod, "ff"), b"[]")
    database = opened(catalog)
    assert [row[0] for row in database.execute("SELECT uri FROM answers")] == ["api/good"]
    assert queries.summary(database)["invalid_lines"] == "1"


def test_an_inode_of_64_bits_and_a_ten_thousandth_generation_are_read(tmp_path: Path) -> None:
    catalog = recorded_session(tmp_path)
    key = log_key(KEY, WHO.pod, "odd.log", (10_000, 2**64 - 1, 0, 4))
    catalog.store.create(key, gzip.compress(b"odd\n"))
    reader = LogReader(catalog.store, opened(catalog))
    assert b"".join(reader.read(WHO.pod, "odd.log")) == b"odd\n"


def test_a_full_disk_is_an_error_and_no_index_without_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog = recorded_session(tmp_path)

    def full(_self: IndexBuilder, _event: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(IndexBuilder, "add", full)
    with pytest.raises(StoreError, match=r"index of .*train.*: database or disk is full"):
        catalog.open_index(KEY)
    assert not list((tmp_path / "cache").glob("*.db"))


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
