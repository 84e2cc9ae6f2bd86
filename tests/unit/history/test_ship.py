"""Shipping log files by inode and offset, and reading them back."""

from __future__ import annotations

import errno
import os
import resource
import shutil
from pathlib import Path
from typing import Any

import pytest

from manta.history import ship
from manta.history.catalog import Catalog
from manta.history.index import queries
from manta.history.logs import LogReader
from manta.history.prune import delete_session, stored_sessions
from manta.history.ship import CHUNK_BYTES, SessionShipper
from manta.history.store import Store, StoreError
from support.history import SESSION, WHO, file_store, write_session

KEY = WHO.session(SESSION)


def shipper(tmp_path: Path, store: Store, session: Path) -> SessionShipper:
    return SessionShipper(store, WHO, session, tmp_path / "state.json")


def content(tmp_path: Path, store: Store, path: str) -> bytes:
    database = Catalog(store, tmp_path / "cache").open_index(KEY)
    assert database is not None
    return b"".join(LogReader(store, database).read(WHO.pod, path))


def test_each_byte_is_shipped_once_also_after_a_restart(tmp_path: Path) -> None:
    store = file_store(tmp_path)
    session = write_session(tmp_path / "ray", {"a.log": b"one\n"})
    assert shipper(tmp_path, store, session).ship().bytes == 4
    assert shipper(tmp_path, store, session).ship().bytes == 0
    write_session(tmp_path / "ray", {"a.log": b"two\n", "deep/b.log": b"b"})
    assert shipper(tmp_path, store, session).ship().bytes == 5
    assert content(tmp_path, store, "a.log") == b"one\ntwo\n"
    assert content(tmp_path, store, "deep/b.log") == b"b"


def test_a_lost_state_ships_again_and_reads_the_same(tmp_path: Path) -> None:
    store = file_store(tmp_path)
    session = write_session(tmp_path / "ray", {"a.log": b"one\n"})
    shipper(tmp_path, store, session).ship()
    write_session(tmp_path / "ray", {"a.log": b"two\n"})
    (tmp_path / "state.json").write_text("not JSON")
    shipper(tmp_path, store, session).ship()
    assert content(tmp_path, store, "a.log") == b"one\ntwo\n"


def test_a_rotated_log_is_read_also_if_the_state_was_lost_after_it(tmp_path: Path) -> None:
    """The generations are counted from 0 again: two files have the same one, and the same range."""
    store = file_store(tmp_path)
    session = write_session(tmp_path / "ray", {"a.log": b"1111\n"})
    shipper(tmp_path, store, session).ship()
    (session / "logs/a.log").rename(session / "logs/a.log.1")
    write_session(tmp_path / "ray", {"a.log": b"2222\n"})
    (session / "logs/a.log.1").unlink()
    (tmp_path / "state.json").write_bytes(b"")  # as after a power cut
    shipper(tmp_path, store, session).ship()
    assert sorted(content(tmp_path, store, "a.log").split()) == [b"1111", b"2222"]


def test_a_rotated_file_is_a_new_generation(tmp_path: Path) -> None:
    store = file_store(tmp_path)
    session = write_session(tmp_path / "ray", {"a.log": b"old\n"})
    own = shipper(tmp_path, store, session)
    own.ship()
    (session / "logs/a.log").rename(session / "logs/a.log.1")
    write_session(tmp_path / "ray", {"a.log.1": b"end of old\n", "a.log": b"new\n"})
    own.ship()
    assert content(tmp_path, store, "a.log") == b"old\nend of old\nnew\n"


@pytest.mark.parametrize("new", ["a.log-20260131", "a.log.old", "a.log.bak", "arch/a.log", "b.log"])
def test_a_file_with_another_name_goes_on_as_what_it_was(tmp_path: Path, new: str) -> None:
    store = file_store(tmp_path)
    text = b"".join(b"line %06d\n" % number for number in range(100))
    session = write_session(tmp_path / "ray", {"a.log": text})
    own = shipper(tmp_path, store, session)
    own.ship()
    (session / "logs" / new).parent.mkdir(exist_ok=True)
    (session / "logs/a.log").rename(session / "logs" / new)
    assert own.ship().bytes == 0
    write_session(tmp_path / "ray", {new: b"end\n"})
    assert own.ship().bytes == 4
    assert content(tmp_path, store, "a.log") == text + b"end\n"


def move_as_ray_does(session: Path, name: str) -> None:
    """What the log monitor does with the log of a dead worker, once there are many."""
    (session / "logs/old").mkdir(exist_ok=True)
    (session / "logs" / name).rename(session / "logs/old" / name)


@pytest.mark.parametrize("shipped", [b"", b"first\n", b"first" * 100 + b"\n"])
def test_the_log_of_a_dead_worker_is_kept_whole_under_its_name(
    tmp_path: Path, shipped: bytes
) -> None:
    store = file_store(tmp_path)
    session = write_session(tmp_path / "ray", {"worker-a.out": shipped})
    own = shipper(tmp_path, store, session)
    if shipped:
        assert own.ship().bytes == len(shipped)
    write_session(tmp_path / "ray", {"worker-a.out": b"the last words\n"})
    move_as_ray_does(session, "worker-a.out")
    assert own.ship().bytes == len(b"the last words\n")
    assert own.ship().objects == 0
    assert content(tmp_path, store, "worker-a.out") == shipped + b"the last words\n"


def test_logs_of_dead_workers_that_a_round_cannot_see_are_not_shipped_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, real = file_store(tmp_path), os.open
    session = write_session(tmp_path / "ray", {"worker-a.out": b"one\n"})
    own = shipper(tmp_path, store, session)
    own.ship()
    move_as_ray_does(session, "worker-a.out")

    def out_of_files(path: str, *args: Any, **kwargs: Any) -> int:
        if Path(path).name == "old":
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), path)
        return real(path, *args, **kwargs)

    with monkeypatch.context() as broken:
        broken.setattr(os, "open", out_of_files)
        assert own.ship().dropped == {}
    assert own.ship().objects == 0
    assert content(tmp_path, store, "worker-a.out") == b"one\n"


@pytest.mark.parametrize("text", [b"short\n", b"long\n" * 100])
def test_a_file_with_two_names_is_shipped_once(tmp_path: Path, text: bytes) -> None:
    store = file_store(tmp_path)
    session = write_session(tmp_path / "ray", {"a.log": text})
    (session / "logs/b.log").hardlink_to(session / "logs/a.log")
    own = shipper(tmp_path, store, session)
    assert [own.ship().bytes for _ in range(3)] == [len(text), 0, 0]
    assert content(tmp_path, store, "a.log") == text


def test_a_short_file_with_the_inode_and_the_first_line_of_a_deleted_one_is_another(
    tmp_path: Path,
) -> None:
    """Ray begins the output of all workers of a job with the same line."""
    store = file_store(tmp_path)
    session = write_session(tmp_path / "ray", {"worker-a.out": b":job_id:01000000\n"})
    own = shipper(tmp_path, store, session)
    own.ship()
    (session / "logs/worker-a.out").rename(session / "logs/worker-b.out")
    write_session(tmp_path / "ray", {"worker-b.out": b"of b\n"})
    own.ship()
    assert content(tmp_path, store, "worker-a.out") == b":job_id:01000000\n"
    assert content(tmp_path, store, "worker-b.out") == b":job_id:01000000\nof b\n"


def test_a_truncated_file_starts_again(tmp_path: Path) -> None:
    store = file_store(tmp_path)
    session = write_session(tmp_path / "ray", {"a.log": b"a long first line\n"})
    own = shipper(tmp_path, store, session)
    own.ship()
    with (session / "logs/a.log").open("r+b") as file:
        file.truncate(0)
        file.write(b"new\n")
    own.ship()
    assert content(tmp_path, store, "a.log") == b"a long first line\nnew\n"


@pytest.mark.parametrize("new", ["other.log", "a.log"])
def test_a_new_file_with_the_inode_of_a_deleted_one_is_shipped_whole(
    tmp_path: Path, new: str
) -> None:
    """ext4 gives an inode to the next new file. Others do not: here the state is told of the new file's."""
    store = file_store(tmp_path)
    session = write_session(tmp_path / "ray", {"a.log": b"old\n"})
    own = shipper(tmp_path, store, session)
    own.ship()
    old = (session / "logs/a.log").stat().st_ino
    (session / "logs/a.log").rename(tmp_path / "deleted")
    write_session(tmp_path / "ray", {new: b"the first line of another file\n"})
    inode = (session / "logs" / new).stat().st_ino
    own._state.files[inode] = own._state.files.pop(old)
    assert own.ship().dropped == {}
    text = b"the first line of another file\n"
    assert content(tmp_path, store, new) == (b"old\n" + text if new == "a.log" else text)


@pytest.mark.parametrize("text", [b"another text that is longer\n", b"new\n"])
def test_a_file_that_is_truncated_and_grows_as_long_is_shipped_whole(
    tmp_path: Path, text: bytes
) -> None:
    store = file_store(tmp_path)
    session = write_session(tmp_path / "ray", {"a.log": b"old\n"})
    own = shipper(tmp_path, store, session)
    own.ship()
    (session / "logs/a.log").write_bytes(text)
    os.utime(session / "logs/a.log", ns=(1, 1))
    assert own.ship().bytes == len(text)
    assert content(tmp_path, store, "a.log") == b"old\n" + text
    assert own.ship().objects == 0


def test_what_was_not_shipped_before_an_inode_was_used_again_is_reported(tmp_path: Path) -> None:
    store = FailingStore(file_store(tmp_path))
    store.fails = False
    session = write_session(tmp_path / "ray", {"a.log": b"old\n"})
    own = shipper(tmp_path, store, session)
    own.ship()
    write_session(tmp_path / "ray", {"a.log": b"never shipped\n"})
    store.fails = True
    with pytest.raises(StoreError):
        own.ship()
    store.fails = False
    (session / "logs/a.log").write_bytes(b"another text, which is even longer than that\n")
    assert own.ship().dropped == {"a.log": 14}


def test_links_and_pipes_are_left_out(tmp_path: Path) -> None:
    store = file_store(tmp_path)
    session = write_session(tmp_path / "ray", {"a.log": b"a"})
    (session / "logs/link.log").symlink_to("/etc/passwd")
    (session / "logs/directory").symlink_to("/etc")
    os.mkfifo(session / "logs/pipe")
    assert shipper(tmp_path, store, session).ship().objects == 1


def test_a_file_that_cannot_be_read_stops_no_other_and_is_said_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The sidecar has another user than Ray."""
    real, refused = os.open, {"b.log", "private"}

    def for_another_user(path: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None):
        if Path(path).name in refused:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        return real(path, flags, mode, dir_fd=dir_fd)

    store = file_store(tmp_path)
    logs = {"a.log": b"a\n", "b.log": b"b\n", "c.log": b"c\n", "private/d.log": b"d\n"}
    session = write_session(tmp_path / "ray", logs)
    own = shipper(tmp_path, store, session)
    monkeypatch.setattr(os, "open", for_another_user)
    first, second = own.ship(), own.ship()
    assert (first.objects, first.skipped, second.skipped) == (2, 2, 0)
    assert content(tmp_path, store, "c.log") == b"c\n"
    assert caplog.text.count("b.log is not kept") == caplog.text.count("private is not kept") == 1
    refused.clear()
    assert own.ship().objects == 2
    assert content(tmp_path, store, "b.log") == b"b\n"


@pytest.mark.parametrize(("where", "name"), [("open", "deep"), ("scandir", ""), ("stat", "b.log")])
def test_files_that_a_round_cannot_see_are_not_shipped_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str, name: str
) -> None:
    real = getattr(os, where)

    def out_of_files(path: str | int, *args: Any, **kwargs: Any) -> Any:
        if not name or Path(str(path)).name == name:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), path)
        return real(path, *args, **kwargs)

    store = file_store(tmp_path)
    session = write_session(tmp_path / "ray", {"a.log": b"a\n", "deep/b.log": b"b\n"})
    own = shipper(tmp_path, store, session)
    own.ship()
    with monkeypatch.context() as broken:
        broken.setattr(os, where, out_of_files)
        found = own.ship()
    assert (found.bytes, found.dropped, found.skipped) == (0, {}, 1)
    assert found.failed is not None
    again = own.ship()
    assert (again.objects, again.failed) == (0, None)
    assert content(tmp_path, store, "deep/b.log") == b"b\n"


def test_a_file_below_a_removed_directory_is_forgotten_beside_one_that_cannot_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.open

    def for_another_user(path: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None):
        if Path(path).name == "private":
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        return real(path, flags, mode, dir_fd=dir_fd)

    logs = {"gone/a.log": b"a\n", "private/b.log": b"b\n"}
    session = write_session(tmp_path / "ray", logs)
    own = shipper(tmp_path, file_store(tmp_path), session)
    own.ship()
    shutil.rmtree(session / "logs/gone")
    monkeypatch.setattr(os, "open", for_another_user)
    assert own.ship().failed is None
    assert [one.path for one in own._state.files.values()] == ["private/b.log"]


def test_a_deep_directory_stops_no_other_file(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A walk through 1,000 of them raises RecursionError."""
    store = file_store(tmp_path)
    deep = "d/" * (ship.MAX_DEPTH + 1)
    logs = {"a.log": b"a\n", f"{deep}b.log": b"b\n", f"{deep}d/c.log": b"c\n", "z.log": b"z\n"}
    session = write_session(tmp_path / "ray", logs)
    done = shipper(tmp_path, store, session).ship()
    assert (done.objects, done.skipped) == (3, 1)
    assert "it is nested too deeply" in caplog.text


def test_a_long_name_stops_no_other_file(tmp_path: Path) -> None:
    store = file_store(tmp_path)
    name = "日" * 80 + ".log"
    session = write_session(tmp_path / "ray", {"a.log": b"a\n", name: b"long\n"})
    assert shipper(tmp_path, store, session).ship().objects == 2
    database = Catalog(store, tmp_path / "cache").open_index(KEY)
    assert database is not None
    [kept] = [one.path for one in LogReader(store, database).files() if one.path != "a.log"]
    assert kept.startswith("日" * 20)
    assert content(tmp_path, store, kept) == b"long\n"


def test_files_whose_names_are_no_utf8_are_kept(tmp_path: Path) -> None:
    store = file_store(tmp_path)
    session = write_session(tmp_path / "ray", {"\udcff/\udcfe.log": b"one\n"})
    write_session(tmp_path / "ray", {"\udcff/\udcfd.log": b"two\n"})
    done = shipper(tmp_path, store, session).ship()
    assert (done.objects, done.skipped) == (2, 0)
    write_session(tmp_path / "ray", {"\udcff/\udcfe.log": b"more\n"})
    assert shipper(tmp_path, store, session).ship().bytes == 5
    assert sorted(content(tmp_path, store, "�/�.log").split()) == [b"more", b"one", b"two"]


def test_a_file_whose_name_is_no_utf8_and_that_cannot_be_read_can_be_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    session = write_session(tmp_path / "ray", {"\udcff": b"odd\n"})

    def refuse(path: object, *_: object) -> int:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)

    own = shipper(tmp_path, file_store(tmp_path), session)
    monkeypatch.setattr(ship.SessionShipper, "_ship_file", refuse)
    assert own.ship().skipped == 1
    assert caplog.text.encode()  # whoever writes the log can do so
    assert r"\udcff is not kept" in caplog.text


class FailingStore(Store):
    def __init__(self, inner: Store) -> None:
        self._real = inner
        self.url = "failing"
        self.fails = True

    def create(self, key: str, content: bytes) -> bool:
        if self.fails:
            raise StoreError("the store is down")
        return self._real.create(key, content)


def test_nothing_is_lost_while_the_store_is_down(tmp_path: Path) -> None:
    inner = file_store(tmp_path)
    store = FailingStore(inner)
    session = write_session(tmp_path / "ray", {"a.log": b"one\n"})
    own = shipper(tmp_path, store, session)
    with pytest.raises(StoreError):
        own.ship()
    write_session(tmp_path / "ray", {"a.log": b"two\n"})
    store.fails = False
    assert own.ship().bytes == 8
    assert content(tmp_path, inner, "a.log") == b"one\ntwo\n"


def test_bytes_that_rotation_deleted_before_they_were_shipped_are_reported(tmp_path: Path) -> None:
    inner = file_store(tmp_path)
    store = FailingStore(inner)
    session = write_session(tmp_path / "ray", {"a.log": b"one\n"})
    own = shipper(tmp_path, store, session)
    store.fails = False
    own.ship()
    write_session(tmp_path / "ray", {"a.log": b"never shipped\n"})
    store.fails = True
    with pytest.raises(StoreError):
        own.ship()
    (session / "logs/a.log").unlink()
    store.fails = False
    assert own.ship().dropped == {"a.log": 14}


def test_beyond_the_limit_of_files_the_known_ones_are_followed_and_the_others_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(ship, "MAX_FILES", 2)
    store = file_store(tmp_path)
    session = write_session(tmp_path / "ray", {"c.out": b"c\n", "d.out": b"d\n"})
    own = shipper(tmp_path, store, session)
    own.ship()
    write_session(tmp_path / "ray", {"a.out": b"a\n", "b.out": b"b\n", "d.out": b"more\n"})
    found = own.ship()
    assert (found.skipped, found.dropped) == (2, {})
    assert own.ship().skipped == 0
    assert content(tmp_path, store, "d.out") == b"d\nmore\n"
    assert caplog.text.count("more than 2 files; 2 that came after them are not kept") == 1
    (session / "logs/c.out").unlink()
    own.ship()
    own.ship()
    assert content(tmp_path, store, "a.out") == b"a\n"


def test_a_session_that_is_pruned_while_it_is_written_is_listed_and_read_again(
    tmp_path: Path,
) -> None:
    store, now = file_store(tmp_path), [0.0]
    catalog = Catalog(store, tmp_path / "cache")
    session = write_session(tmp_path / "ray", {"a.log": b"one\n"})
    own = SessionShipper(store, WHO, session, tmp_path / "state", lambda: now[0])
    own.ship()
    [stored] = stored_sessions(catalog, [KEY.namespace])
    assert delete_session(catalog, stored)
    own.ship()
    assert list(store.objects("")) == []  # what is over stays deleted
    write_session(tmp_path / "ray", {"a.log": b"two\n"})
    now[0] += 3600
    own.ship()
    assert content(tmp_path, store, "a.log").endswith(b"two\n")
    database = catalog.open_index(KEY)
    assert database is not None
    assert queries.summary(database)["ray_version"] == "2.60.0"
    assert database.execute("SELECT pod FROM pods").fetchall()[0][0] == WHO.pod


def test_the_tail_and_ranges_of_a_large_file(tmp_path: Path) -> None:
    store = file_store(tmp_path)
    lines = b"".join(b"line %06d\n" % number for number in range(300_000))
    session = write_session(tmp_path / "ray", {"a.log": lines})
    done = shipper(tmp_path, store, session).ship()
    assert done.objects == -(-len(lines) // CHUNK_BYTES)
    database = Catalog(store, tmp_path / "cache").open_index(KEY)
    assert database is not None
    reader = LogReader(store, database)
    assert reader.tail(WHO.pod, "a.log", 2) == b"line 299998\nline 299999\n"
    assert len(reader.tail(WHO.pod, "a.log", 100_000).splitlines()) == 100_000
    middle = CHUNK_BYTES - 6
    assert (
        b"".join(reader.read(WHO.pod, "a.log", middle, middle + 12)) == lines[middle : middle + 12]
    )
    assert reader.tail(WHO.pod, "a.log", 1, (0, 24)) == b"line 000001\n"


def test_the_tail_of_a_file_of_many_chunks_is_found_with_few_queries(tmp_path: Path) -> None:
    """A file that grows by a line in each round has a chunk for each line."""
    store = file_store(tmp_path)
    own = shipper(tmp_path, store, write_session(tmp_path / "ray", {}))
    for number in range(50):
        write_session(tmp_path / "ray", {"a.log": b"line %02d\n" % number})
        own.ship()
    database = Catalog(store, tmp_path / "cache").open_index(KEY)
    assert database is not None
    queries_sent: list[str] = []
    database.set_trace_callback(queries_sent.append)
    tail = LogReader(store, database).tail(WHO.pod, "a.log", 40)
    assert tail.splitlines() == [b"line %02d" % number for number in range(10, 50)]
    assert len(queries_sent) <= 2


def test_a_huge_file_holds_up_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ship, "ROUND_BYTES", 2 * CHUNK_BYTES)
    store, huge = file_store(tmp_path), bytes(range(256)) * (5 * CHUNK_BYTES // 256) + b"end\n"
    session = write_session(tmp_path / "ray", {"a.log": huge, "b.log": b"b"})
    own = shipper(tmp_path, store, session)
    rounds = [own.ship() for _ in range(4)]
    assert [(one.objects, one.has_more) for one in rounds] == [(3, True), (2, True), (2, False), (0, False)]  # fmt: skip
    assert content(tmp_path, store, "a.log") == huge
    assert content(tmp_path, store, "b.log") == b"b"


def test_a_huge_file_is_shipped_in_bounded_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sparse file of 256 MiB; `make history` uses 10 GB."""

    class Counting(Store):
        def __init__(self) -> None:
            self.url, self.bytes, self.largest = "nowhere", 0, 0

        def create(self, key: str, content: bytes) -> bool:
            self.bytes += len(content)
            self.largest = max(self.largest, len(content))
            return True

    monkeypatch.setattr(ship, "_COMPRESSION", 0)
    session = write_session(tmp_path / "ray", {"a.log": b"x"})
    with (session / "logs/a.log").open("r+b") as file:
        file.truncate(256 * 1024**2)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    store = Counting()
    own = SessionShipper(store, WHO, session, tmp_path / "s")
    done = own.ship()
    while done.has_more:
        done = own.ship()
    assert store.bytes >= 256 * 1024**2
    assert store.largest < 2 * CHUNK_BYTES
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 48 * 1024
