"""What Ray's dashboard answered while a cluster lived: asked for, kept on disk, shipped, and served."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import msgspec
import pytest

from manta.history.answers import (
    MAX_ANSWER_BYTES,
    VOLATILE_SECONDS,
    AnswerFiles,
    AnswerShipper,
    Fetch,
    answering_session,
    keep_answers,
    pause_after,
    remove_old,
    ship_all,
)
from manta.history.catalog import Catalog
from manta.history.dashboard_fetch import dashboard_fetcher
from manta.history.layout import answer_key, parse_answer_key
from manta.history.logs import LogReader
from manta.history.serve.answers import nodes
from manta.history.serve.shapes import Session
from manta.history.serve.stored import stored_answer
from manta.history.store import Store
from support.dashboard import serving
from support.history import NODE, SESSION, WHO, file_store, recorded_session

KEY = WHO.session(SESSION)
GROUPS = "api/v0/placement_groups?detail=1&limit=10000"
NODES = "nodes?view=summary"


def dashboard(**answers: object) -> dict[str, bytes]:
    """URIs and what is answered to them, with the least that every look needs."""
    both = {"api/version": {"session_name": SESSION}, **answers}
    return {uri: msgspec.json.encode(body) for uri, body in both.items()}


def stored(store: Store) -> dict[tuple[str, int], bytes]:
    found = {}
    for one in store.objects(f"{KEY.prefix}/answers"):
        name = parse_answer_key(KEY.prefix, one.key)
        assert name is not None
        found[name] = gzip.decompress(store.read(one.key) or b"")
    return found


def poll(fetch: Fetch, files: AnswerFiles) -> str:
    if session := answering_session(fetch, WHO):
        keep_answers(fetch, session, files)
    return session


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_a_look_keeps_every_answer_and_the_datasets_of_the_newest_jobs(tmp_path: Path) -> None:
    jobs = [{"job_id": f"{n:08x}", "start_time": n} for n in range(1, 31)] + [{"job_id": None}]
    answers = dashboard(**{"api/jobs/": jobs, GROUPS: {"x": 1}, "api/data/datasets/0000001e": {}})
    asked: list[str] = []

    def fetch(uri: str) -> bytes | None:
        asked.append(uri)
        return answers.get(uri)

    files = AnswerFiles(tmp_path / "answers")
    assert poll(fetch, files) == SESSION
    assert [one.uri for one in files.answers(SESSION)] == ["api/data/datasets/0000001e", GROUPS]
    assert sum("datasets" in uri for uri in asked) == 20


def test_an_answer_that_cannot_be_kept_stops_no_other_and_is_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The name of a file has at most 255 bytes; the id of a submission may be longer."""
    jobs = [{"job_id": "x" * 300, "start_time": "2"}, {"job_id": "good", "start_time": "1"}]
    found = {f"api/data/datasets/{one['job_id']}": {} for one in jobs}
    answers = dashboard(**{"api/jobs/": jobs, GROUPS: {"x": 1}, **found})
    files = AnswerFiles(tmp_path / "answers")
    assert poll(answers.get, files) == SESSION
    assert [one.uri for one in files.answers(SESSION)] == ["api/data/datasets/good", GROUPS]
    assert "1 answers of the dashboard are not kept: api/data/datasets/xxx" in caplog.text


@pytest.mark.parametrize(
    "version",
    [b"", b"no JSON", b"[]", b'{"session_name": null}', b'{"session_name": "session_/../../x"}'],
)
def test_without_the_name_of_a_session_nothing_is_kept(tmp_path: Path, version: bytes) -> None:
    answers = {"api/version": version, "timezone": b"{}"}
    assert poll(answers.get, AnswerFiles(tmp_path / "answers")) == ""
    assert not (tmp_path / "answers").exists()


def test_an_answer_that_is_no_json_does_not_replace_the_last_one(tmp_path: Path) -> None:
    files = AnswerFiles(tmp_path)
    poll(dashboard(timezone={"offset": "+01:00"}).get, files)
    poll({**dashboard(), "timezone": b"<html>"}.get, files)
    [one] = files.answers(SESSION)
    assert b"+01:00" in one.file.read_bytes()


def test_an_answer_that_did_not_change_is_not_shipped_again(tmp_path: Path) -> None:
    files, store = AnswerFiles(tmp_path / "answers"), file_store(tmp_path)
    shipper = AnswerShipper(store, WHO)
    for groups in ({"n": 1}, {"n": 1}, {"n": 2}):
        poll(dashboard(**{GROUPS: groups}).get, files)
        shipper.ship(files, SESSION)
    assert sorted(stored(store).values()) == [b'{"n":1}', b'{"n":2}']


def test_what_changes_all_the_time_is_shipped_every_five_minutes_and_at_the_end(
    tmp_path: Path,
) -> None:
    files, store, clock = AnswerFiles(tmp_path / "answers"), file_store(tmp_path), Clock()
    shipper = AnswerShipper(store, WHO, clock)
    for number in range(62):  # ten minutes, and 20 seconds
        poll(dashboard(**{NODES: {"n": number}}).get, files)
        shipper.ship(files, SESSION)
        clock.now += VOLATILE_SECONDS / 30
    assert len(stored(store)) == 3
    shipper.ship(files, living="")
    assert max(stored(store).items())[1] == b'{"n":61}'
    shipper.ship(files, living="session_2026-11-19_01-51-39_771206_1")
    assert files.sessions() == []


def test_a_dashboard_that_answers_again_makes_no_second_object(tmp_path: Path) -> None:
    """A poll may fail while the head is busy."""
    files, store = AnswerFiles(tmp_path / "answers"), file_store(tmp_path)
    shipper = AnswerShipper(store, WHO)
    made = []
    for answers in (dashboard(timezone={}, **{NODES: {"n": 1}}), {}) * 3:
        made.append(shipper.ship(files, poll(answers.get, files)))
    assert (sum(made), len(stored(store))) == (2, 2)


def test_a_restarted_shipper_makes_no_second_object(tmp_path: Path) -> None:
    files, store = AnswerFiles(tmp_path / "answers"), file_store(tmp_path)
    poll(dashboard(**{NODES: {"n": 1}}).get, files)
    assert [AnswerShipper(store, WHO).ship(files, SESSION) for _ in range(2)] == [1, 0]


def test_after_the_clock_jumped_back_the_newest_answer_still_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files, store = AnswerFiles(tmp_path / "answers"), file_store(tmp_path)
    for now, number in ((2_000, 1), (1_000, 2)):
        monkeypatch.setattr("time.time_ns", lambda at=now: at * 10**9)
        poll(dashboard(**{GROUPS: {"n": number}}).get, files)
        AnswerShipper(store, WHO).ship(files, SESSION)
    assert max(stored(store).items())[1] == b'{"n":2}'


def test_only_the_newest_readable_version_of_an_answer_is_read(tmp_path: Path) -> None:
    catalog = recorded_session(tmp_path)
    for at in range(100):
        body = b"cut off {" if at == 99 else msgspec.json.encode({"n": at})
        catalog.store.create(answer_key(KEY, GROUPS, at), gzip.compress(body))

    class Counting(Store):
        reads: list[str] = []  # noqa: RUF012 - of one test

        def read(self, key: str) -> bytes | None:
            self.reads.append(key)
            return super().read(key)

    counting = Counting(catalog.store.url, catalog.store._inner)
    database = Catalog(counting, tmp_path / "cache").open_index(KEY)
    assert database is not None
    session = Session(database, LogReader(catalog.store, database), "2.60.0")
    path = GROUPS.partition("?")[0]
    assert stored_answer(session, path, {}, known=True) == b'{"n":98}'
    assert sum("/answers/" in key for key in Counting.reads) == 2


def opened(tmp_path: Path, **answers: object) -> Session:
    """A recorded session with these answers."""
    catalog = recorded_session(tmp_path)
    poll(dashboard(**answers).get, AnswerFiles(tmp_path / "answers"))
    ship_all(catalog.store, WHO, tmp_path / "answers")
    database = catalog.open_index(KEY)
    assert database is not None
    return Session(database, LogReader(catalog.store, database), "2.60.0")


def test_nodes_have_the_usage_that_the_dashboard_saw_last(tmp_path: Path) -> None:
    """Also nodes of which no event came; how a node ended is told by its events."""
    seen = {"cpu": 42.5, "raylet": {"nodeId": NODE, "state": "DEAD", "objectStoreUsedMemory": 7}}
    other = {"cpu": 1.0, "raylet": {"nodeId": "ff" * 28, "state": "ALIVE"}}
    data = {"summary": [seen, other, "odd"], "nodeLogicalResources": {NODE: "1.0/2.0 CPU"}}
    session = opened(tmp_path, **{NODES: {"result": True, "data": data}})
    answer: Any = nodes(session, {"view": ["summary"]})
    ours, unknown = answer["data"]["summary"]
    assert (ours["cpu"], ours["raylet"]["objectStoreUsedMemory"]) == (42.5, 7)
    assert (ours["raylet"]["state"], ours["ip"]) == ("ALIVE", "192.0.2.2")
    assert unknown == other
    assert answer["data"]["nodeLogicalResources"][NODE] == "1.0/2.0 CPU"


@pytest.mark.parametrize(
    ("status", "is_stored"),
    [(None, False), ("No cluster status. It may take a few seconds", False), ("Healthy", True)],
)
def test_a_cluster_without_an_autoscaler_has_the_status_of_the_index(
    tmp_path: Path, status: str | None, is_stored: bool
) -> None:
    uri = "api/cluster_status?format=1"
    session = opened(tmp_path, **{uri: {"data": {"clusterStatus": status}}})
    found = stored_answer(session, "api/cluster_status", {"format": ["1"]}, known=True)
    assert (found is not None) == is_stored


def test_directories_that_nobody_took_go_after_a_while(tmp_path: Path) -> None:
    for name in ("lives", "gone"):
        (tmp_path / name).mkdir()
    remove_old(tmp_path, ["lives"], before=(tmp_path / "gone").stat().st_mtime)
    assert (tmp_path / "gone").exists()
    remove_old(tmp_path, ["lives"], before=(tmp_path / "gone").stat().st_mtime + 1)
    assert [one.name for one in tmp_path.iterdir()] == ["lives"]
    remove_old(tmp_path / "nowhere", [], before=0)


def test_a_slow_dashboard_is_asked_less_often() -> None:
    assert (pause_after(0.1), pause_after(10)) == (10, 190)


# ── the dashboard beside a collector ─────────────────────────────────────────────────────
def test_a_dashboard_is_asked_with_the_token_of_the_cluster() -> None:
    with serving({"timezone": b"{}"}, token="secret") as address:
        assert dashboard_fetcher(address, {"RAY_AUTH_TOKEN": "secret"})("timezone") == b"{}"
        assert dashboard_fetcher(address, {})("timezone") is None


def test_what_is_missing_too_large_or_not_there_is_no_answer() -> None:
    with serving({"large": b"x" * (MAX_ANSWER_BYTES + 1)}) as address:
        fetch = dashboard_fetcher(address, {})
        assert (fetch("large"), fetch("missing")) == (None, None)
    assert fetch("timezone") is None


@pytest.mark.parametrize("address", ["localhost:8265", "ftp://x", "http://"])
def test_an_address_that_is_no_url_is_refused(address: str) -> None:
    with pytest.raises(ValueError, match="write it as http://localhost:8265"):
        dashboard_fetcher(address, {})
