"""Damage to the store: found at the start, or harmless. Never served.

X17: damage is done to the files of a plane that was stopped, or killed, and the plane starts again. It
must refuse with a message that says how to recover, or serve exactly what was acknowledged.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest

from manta.localplane.plane import Plane, PlaneOptions
from manta.localplane.store import journal as journals
from manta.localplane.store.database import JournalError, open_database
from manta.localplane.store.headfile import HeadFile, head_path, read_head
from manta.localplane.store.store import StoreFailed
from support.disks import fill as fill_disk
from support.disks import small_disk
from support.journals import NAME, closed_store, killed_store, open_store, read_state, state_of
from support.tenants import Ask, Tenants, named

PAGE = 4096
Mutation = Callable[[Path], object]


# ── mutations ────────────────────────────────────────────────────────────────────────────
def cut(name: str, share: float) -> Mutation:
    return lambda directory: os.truncate(
        directory / name, int((directory / name).stat().st_size * share)
    )


def shorten(name: str, count: int) -> Mutation:
    return lambda directory: os.truncate(
        directory / name, (directory / name).stat().st_size - count
    )


def overwrite(name: str, offset: int, content: bytes) -> Mutation:
    def mutate(directory: Path) -> None:
        with (directory / name).open("r+b") as file:
            file.seek(offset if offset >= 0 else max(0, _size(directory / name) + offset))
            file.write(content)

    return mutate


def append(name: str, content: bytes) -> Mutation:
    def mutate(directory: Path) -> None:
        with (directory / name).open("ab") as file:
            file.write(content)

    return mutate


def flip(name: str, offset: int) -> Mutation:
    def mutate(directory: Path) -> None:
        path = directory / name
        place = offset if offset >= 0 else _size(path) + offset
        content = bytearray(path.read_bytes())
        content[place] ^= 0x10
        path.write_bytes(content)

    return mutate


def exchange_pages(first: int, second: int) -> Mutation:
    def mutate(directory: Path) -> None:
        content = bytearray((directory / NAME).read_bytes())
        one, two = (slice(number * PAGE, (number + 1) * PAGE) for number in (first, second))
        content[one], content[two] = content[two], content[one]
        (directory / NAME).write_bytes(content)

    return mutate


def repeat_page(source: int, target: int) -> Mutation:
    def mutate(directory: Path) -> None:
        content = bytearray((directory / NAME).read_bytes())
        page = content[source * PAGE : (source + 1) * PAGE]
        content[target * PAGE : (target + 1) * PAGE] = page
        (directory / NAME).write_bytes(content)

    return mutate


def remove(name: str) -> Mutation:
    return lambda directory: (directory / name).unlink()


def sql(statement: str) -> Mutation:
    def mutate(directory: Path) -> None:
        database = sqlite3.connect(directory / NAME)
        database.executescript(statement)
        database.commit()
        database.close()

    return mutate


def _size(path: Path) -> int:
    return path.stat().st_size


WAL, SHM, HEAD = f"{NAME}-wal", f"{NAME}-shm", "store.head"
FIRST_KEPT = "(SELECT key FROM objects LIMIT 1)"
OF_A_STOPPED_PLANE: dict[str, Mutation] = {
    "the file emptied": cut(NAME, 0),
    "half of the file": cut(NAME, 0.5),
    "one byte less": shorten(NAME, 1),
    "one page less": shorten(NAME, PAGE),
    "the first page alone": lambda directory: os.truncate(directory / NAME, PAGE),
    "no file": remove(NAME),
    "no file and no head": lambda directory: [remove(NAME)(directory), remove(HEAD)(directory)],
    "the first page zeroed": overwrite(NAME, 0, bytes(PAGE)),
    "a page in the middle zeroed": overwrite(NAME, 5 * PAGE, bytes(PAGE)),
    "the last page zeroed": overwrite(NAME, -PAGE, bytes(PAGE)),
    "the whole file zeroed": overwrite(NAME, 0, bytes(20 * PAGE)),
    "noise in a page": overwrite(NAME, 6 * PAGE + 100, bytes(range(256)) * 4),
    "text in place of the file": overwrite(NAME, 0, b"not a database" * 20),
    "two pages exchanged": exchange_pages(4, 9),
    "a page over another": repeat_page(4, 9),
    "another page size": overwrite(NAME, 16, (8192).to_bytes(2)),
    "another journal mode": overwrite(NAME, 18, b"\x01\x01"),
    "noise behind the end": append(NAME, b"x" * 999),
    "a changed object": sql("UPDATE objects SET raw = replace(raw, 'uid-', 'UID-')"),
    "one changed byte of an object": sql(
        f"UPDATE objects SET raw = CAST(replace(raw, 'uid', 'uie') AS BLOB) WHERE key = {FIRST_KEPT}"
    ),
    "a renamed object": sql(f"UPDATE objects SET key = 'ns/other' WHERE key = {FIRST_KEPT}"),
    "an object of another resource": sql(
        f"UPDATE objects SET shelf='nodes' WHERE key={FIRST_KEPT}"
    ),
    "an object of another revision": sql(f"UPDATE objects SET revision=1 WHERE key={FIRST_KEPT}"),
    "an object of another schema": sql(f"UPDATE objects SET epoch = 9 WHERE key = {FIRST_KEPT}"),
    "a lost object": sql(f"DELETE FROM objects WHERE key = {FIRST_KEPT}"),
    "an object twice": sql(
        "INSERT INTO objects SELECT shelf, 'ns/twin', revision, epoch, raw, checksum FROM objects "
        "LIMIT 1"
    ),
    "a number for an object": sql(f"UPDATE objects SET raw = 7 WHERE key = {FIRST_KEPT}"),
    "a changed change": sql("UPDATE changes SET raw = 'x' WHERE revision = 20"),
    "a changed earlier state": sql("UPDATE changes SET previous = x'7b7d' WHERE revision = 3"),
    "a lost change": sql("DELETE FROM changes WHERE revision = 20"),
    "another last revision": sql("UPDATE facts SET value = value + 1 WHERE name = 'revision'"),
    "an earlier last revision": sql("UPDATE facts SET value = 5 WHERE name = 'revision'"),
    "no facts": sql("DELETE FROM facts"),
    "an older format claimed": sql("UPDATE facts SET value = 1 WHERE name = 'schema'"),
    "a newer format claimed": sql("UPDATE facts SET value = 3 WHERE name = 'schema'"),
    "a table gone": sql("DROP TABLE objects"),
    "a table emptied": sql("DELETE FROM objects; DELETE FROM changes"),
    "a log of noise": lambda directory: (directory / WAL).write_bytes(os.urandom(9000)),
}
OF_A_KILLED_PLANE: dict[str, Mutation] = {
    "no log": remove(WAL),
    "the log emptied": cut(WAL, 0),
    "half of the log": cut(WAL, 0.5),
    "a byte less of the log": shorten(WAL, 1),
    "a bit in the first frame": flip(WAL, 100),
    "a bit in the last frame": flip(WAL, -100),
    "a bit in the log's head": flip(WAL, 20),
    "the log zeroed": overwrite(WAL, 0, bytes(64 * 1024)),
    "the file emptied": cut(NAME, 0),
    "no file": remove(NAME),
    "a page of the file zeroed": overwrite(NAME, 5 * PAGE, bytes(PAGE)),
}
HARMLESS_OF_A_KILLED_PLANE: dict[str, Mutation] = {
    "no index of the log": remove(SHM),
    "noise in the index of the log": overwrite(SHM, 0, b"\xff" * 4096),
    "another journal mode (the log has the first page too)": overwrite(NAME, 18, b"\x01\x01"),
    "no head": remove(HEAD),
    "noise in the head": overwrite(HEAD, 0, b"noise"),
    "the head emptied": cut(HEAD, 0),
}


def outcome(directory: Path, truth: dict[tuple[str, str], bytes]) -> str:
    """`refused` or `the same`; anything else is damage that is served."""
    try:
        found = read_state(directory)
    except JournalError as error:
        said = str(error)
    else:
        return "the same" if found == truth else "changed data is served"
    assert "To recover: `manta up --restore" in said
    assert str(directory / NAME) in said
    return "refused"


HARMLESS = {"noise behind the end", "another journal mode", "a log of noise"}


@pytest.mark.parametrize("name", OF_A_STOPPED_PLANE)
async def test_damage_to_a_stopped_plane_is_found(tmp_path, name) -> None:
    """X17."""
    truth = await closed_store(tmp_path / "plane")
    keys = tmp_path / "plane" / "keys"
    keys.touch()
    OF_A_STOPPED_PLANE[name](tmp_path / "plane")
    if name == "no file and no head":
        with pytest.raises(JournalError, match="there was a plane here"):
            open_store(tmp_path / "plane", keys=(keys,))
        return
    found = outcome(tmp_path / "plane", truth)
    assert found == ("the same" if name in HARMLESS else "refused")


@pytest.mark.parametrize("name", OF_A_KILLED_PLANE)
async def test_damage_to_a_killed_plane_is_found(tmp_path, name) -> None:
    """X17: SQLite takes what is left of its log for the whole; the head file knows better."""
    truth = await killed_store(tmp_path / "plane")
    OF_A_KILLED_PLANE[name](tmp_path / "plane")
    assert outcome(tmp_path / "plane", truth) == "refused"


@pytest.mark.parametrize("name", HARMLESS_OF_A_KILLED_PLANE)
async def test_what_can_be_made_again_is_not_missed(tmp_path, name) -> None:
    truth = await killed_store(tmp_path / "plane")
    HARMLESS_OF_A_KILLED_PLANE[name](tmp_path / "plane")
    assert outcome(tmp_path / "plane", truth) == "the same"


async def test_an_undamaged_journal_opens(tmp_path) -> None:
    assert outcome(tmp_path / "a", await closed_store(tmp_path / "a")) == "the same"
    assert outcome(tmp_path / "b", await killed_store(tmp_path / "b")) == "the same"


async def test_the_log_of_another_moment_is_refused(tmp_path) -> None:
    """X17."""
    truth = await killed_store(tmp_path / "plane")
    await killed_store(tmp_path / "other", count=90)
    shutil.copy(tmp_path / "other" / WAL, tmp_path / "plane" / WAL)
    (tmp_path / "plane" / SHM).unlink()
    assert outcome(tmp_path / "plane", truth) == "refused"


@pytest.mark.parametrize("parts", [(NAME,), (NAME, WAL)])
async def test_an_earlier_state_beside_a_newer_head_is_refused(tmp_path, parts) -> None:
    """X17: a file system that forgot what the plane has acknowledged."""
    early, late = tmp_path / "early", tmp_path / "late"
    await closed_store(early)
    shutil.copytree(early, late)
    store = open_store(late)
    store.put("pods", "ns/late", named("late"))
    await store.wait_durable(store.revision)
    truth = state_of(store)
    await store.close()
    for part in parts:
        (late / part).unlink(missing_ok=True)
        if (early / part).exists():
            shutil.copy(early / part, late / part)
    assert outcome(late, truth) == "refused"


async def test_the_journal_of_another_plane_is_refused(tmp_path) -> None:
    """X17."""
    truth = await closed_store(tmp_path / "plane")
    await closed_store(tmp_path / "other")
    shutil.copy(tmp_path / "other" / NAME, tmp_path / "plane" / NAME)
    assert outcome(tmp_path / "plane", truth) == "refused"


async def test_no_flipped_bit_is_served(tmp_path) -> None:
    """X17: 400 bits spread over the whole file; each is found, or lies where nothing is kept."""
    truth = await closed_store(tmp_path / "plane")
    whole = (tmp_path / "plane" / NAME).read_bytes()
    outcomes = []
    for number in range(400):
        content = bytearray(whole)
        content[number * len(whole) // 400] ^= 1 << number % 8
        (tmp_path / "plane" / NAME).write_bytes(content)
        outcomes.append(outcome(tmp_path / "plane", truth))
        for part in (WAL, SHM):
            (tmp_path / "plane" / part).unlink(missing_ok=True)
    assert set(outcomes) == {"refused", "the same"}
    assert outcomes.count("refused") > 200


async def test_writes_that_a_power_loss_took_are_reported_and_the_rest_is_served(
    tmp_path, caplog
) -> None:
    """Without --durable a commit may be lost with the machine, but only then."""
    early, late = tmp_path / "early", tmp_path / "late"
    await closed_store(early)
    shutil.copytree(early, late)
    truth = read_state(early)
    head = read_head(early / NAME)
    writer = HeadFile(late / NAME, head.store)
    writer.write(head.revision + 3)
    writer.close()
    assert outcome(late, truth) == "refused"  # the machine has not been down since
    text = head_path(late / NAME).read_text()
    assert outcome_after_reboot(late, text) == truth
    assert f"revision {head.revision + 3} was acknowledged" in caplog.text


def outcome_after_reboot(directory, text):
    """Pretend that the head was written before the machine was started again."""
    boot = read_head(directory / NAME).boot
    changed = text.rpartition("}")[0].replace(boot, "0" * len(boot)) + "}"
    head_path(directory / NAME).write_text(f"{changed} {crc32(changed.encode())}\n")
    return read_state(directory)


# ── journals of older versions ───────────────────────────────────────────────────────────────────
OLD_SCHEMA = """
CREATE TABLE objects (
    shelf TEXT NOT NULL, key TEXT NOT NULL, revision INTEGER NOT NULL, epoch INTEGER NOT NULL,
    raw BLOB NOT NULL, PRIMARY KEY (shelf, key)
) WITHOUT ROWID;
CREATE TABLE changes (
    revision INTEGER PRIMARY KEY, shelf TEXT NOT NULL, key TEXT NOT NULL, type TEXT NOT NULL,
    epoch INTEGER NOT NULL, raw BLOB NOT NULL, previous BLOB, previous_revision INTEGER
);
CREATE TABLE facts (name TEXT PRIMARY KEY, value INTEGER NOT NULL);
INSERT INTO facts VALUES ('schema', 1), ('revision', 3);
"""
OLD = b'{"metadata":{"name":"a","resourceVersion":"%d"}}'


def old_journal(directory: Path, *, stored: bytes = OLD % 3) -> None:
    directory.mkdir()
    database = sqlite3.connect(directory / NAME)
    database.executescript(OLD_SCHEMA)
    database.execute("INSERT INTO objects VALUES ('pods', 'ns/a', 3, 4, ?)", (stored,))
    rows = [
        (2, "pods", "ns/a", "ADDED", 4, OLD % 2, None, None),
        (3, "pods", "ns/a", "MODIFIED", 4, OLD % 3, OLD % 2, 2),
    ]
    database.executemany("INSERT INTO changes VALUES (?, ?, ?, ?, ?, ?, ?, ?)", rows)
    database.commit()
    database.close()


async def test_a_journal_without_checksums_is_brought_up_to_date(tmp_path) -> None:
    """X17."""
    old_journal(tmp_path / "plane")
    store = open_store(tmp_path / "plane")
    assert state_of(store) == {("pods", "ns/a"): OLD % 3}
    assert len(store.watch("pods", 1).take()) == 2
    store.put("pods", "ns/b", named("b"))
    await store.wait_durable(store.revision)
    truth = state_of(store)
    await store.close()
    assert outcome(tmp_path / "plane", truth) == "the same"
    sql("UPDATE objects SET epoch = 5 WHERE key = 'ns/a'")(tmp_path / "plane")
    assert outcome(tmp_path / "plane", truth) == "refused"


@pytest.mark.parametrize("stored", [b"{", OLD % 2, b'{"metadata":{"name":"b"}}', b"\xff\xfe"])
def test_a_damaged_journal_without_checksums_is_refused_and_left_alone(tmp_path, stored) -> None:
    """X17."""
    old_journal(tmp_path / "plane", stored=stored)
    assert outcome(tmp_path / "plane", {}) == "refused"
    database = sqlite3.connect(tmp_path / "plane" / NAME)
    assert database.execute("SELECT value FROM facts WHERE name = 'schema'").fetchone() == (1,)
    database.close()


# ── a whole plane ────────────────────────────────────────────────────────────────────────
def options(directory: Path, **more) -> PlaneOptions:
    return PlaneOptions(dir=directory, controllers=False, **more)


@pytest.mark.parametrize("harm", [cut(NAME, 0), remove(NAME)])
async def test_a_plane_without_its_store_does_not_start_empty(tmp_path, harm) -> None:
    """X17."""
    async with Plane(options(tmp_path)):
        pass
    harm(tmp_path)
    (tmp_path / HEAD).unlink()
    with pytest.raises(JournalError, match="there was a plane here"):
        async with Plane(options(tmp_path)):
            pytest.fail("an empty plane is served")


async def test_a_plane_that_kept_nothing_may_keep_something_from_now_on(tmp_path) -> None:
    async with Plane(options(tmp_path, memory=True)):
        pass
    for _ in range(2):
        async with Plane(options(tmp_path)):
            pass


def refused_start(directory: Path, *arguments: str) -> str:
    """What the command says of a start that must not happen."""
    command = [sys.executable, "-m", "manta.cli.main", *arguments, "--dir", str(directory)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1, done
    assert "Traceback" not in done.stderr + done.stdout
    return done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("apiserver", "--no-controllers"),
        ("up", "--foreground", "--nodes", "0"),
    ],
)
@pytest.mark.parametrize("harm", ["the file emptied", "a page in the middle zeroed", "no facts"])
async def test_a_refused_start_says_how_to_recover(tmp_path, arguments, harm) -> None:
    """X17."""
    await closed_store(tmp_path / "plane")
    OF_A_STOPPED_PLANE[harm](tmp_path / "plane")
    said = refused_start(tmp_path / "plane", *arguments)
    assert str(tmp_path / "plane" / NAME) in said
    assert "To recover: `manta up --restore FILE --replace-state`" in said


# ── a full disk ──────────────────────────────────────────────────────────────────────────
class Disk:
    """Lets writes through, or refuses them as a full disk does."""

    def __init__(self, monkeypatch) -> None:
        self.full = False
        self._write = journals._write
        self._is_writable = journals.SqliteJournal._is_writable
        monkeypatch.setattr(journals, "_RETRY_PAUSE_SECONDS", 0.01)
        monkeypatch.setattr(journals, "_write", self.write)
        monkeypatch.setattr(
            journals.SqliteJournal,
            "_is_writable",
            lambda journal, database: not self.full and self._is_writable(journal, database),
        )

    def write(self, *arguments) -> None:
        if self.full:
            raise sqlite3.OperationalError("database or disk is full")
        self._write(*arguments)


@pytest.fixture
def disk(monkeypatch):
    return Disk(monkeypatch)


async def until_writable(store) -> None:
    async with asyncio.timeout(30):
        while store.failure is not None:
            await asyncio.sleep(0.01)


async def test_what_is_stored_can_be_read_while_the_disk_is_full(tmp_path, disk) -> None:
    """X19: and nothing of what was refused is seen."""
    (tmp_path / "plane").mkdir()
    store = open_store(tmp_path / "plane")
    store.put("pods", "ns/a", named("a"))
    await store.wait_durable(store.revision)
    kept, revision = state_of(store), store.revision
    disk.full = True
    refused = store.put("pods", "ns/a", named("a") | {"x": 1})
    store.put("pods", "ns/b", named("b"))
    with pytest.raises(StoreFailed, match="disk is full"):
        await store.wait_durable(refused.revision)
    assert (state_of(store), store.revision) == (kept, revision)
    await store.wait_durable(store.revision)
    with pytest.raises(StoreFailed):
        store.put("pods", "ns/c", named("c"))
    disk.full = False
    await until_writable(store)
    store.remove("pods", "ns/a", named("a"))
    store.put("pods", "ns/d", named("d"))
    await store.wait_durable(store.revision)
    truth = state_of(store)
    await store.close()
    assert set(truth) == {("pods", "ns/d")}
    assert outcome(tmp_path / "plane", truth) == "the same"


async def test_a_store_can_be_closed_while_the_disk_is_full(tmp_path, disk) -> None:
    (tmp_path / "plane").mkdir()
    store = open_store(tmp_path / "plane")
    store.put("pods", "ns/a", named("a"))
    await store.wait_durable(store.revision)
    truth = state_of(store)
    disk.full = True
    store.put("pods", "ns/b", named("b"))
    await store.close()
    assert outcome(tmp_path / "plane", truth) == "the same"


CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


def a_definition() -> dict[str, Any]:
    schema = {"openAPIV3Schema": {"type": "object"}}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema}
    names = {"plural": "widgets", "kind": "Widget"}
    spec = {"group": "example.com", "names": names, "scope": "Cluster", "versions": [version]}
    return named("widgets.example.com") | {"spec": spec}


async def test_the_api_serves_reads_while_the_disk_is_full(tmp_path, disk) -> None:
    """X19: reads answered 500 until a restart."""
    async with Plane(options(tmp_path)) as plane:
        client = Tenants.of(plane.app)
        await client.create(CONFIG_MAPS, named("kept"))
        disk.full = True
        assert (await client.ask(Ask("POST", CONFIG_MAPS, named("lost")))).status == 500
        assert (await client.ask(Ask("POST", CRDS, a_definition()))).status == 500
        assert (await client.ask(Ask("GET", f"{CONFIG_MAPS}/kept"))).status == 200
        assert (await client.ask(Ask("GET", f"{CONFIG_MAPS}/lost"))).status == 404
        listed = await client.ask(Ask("GET", CONFIG_MAPS))
        assert [one["metadata"]["name"] for one in listed.body["items"]] == ["kept"]
        assert (await client.ask(Ask("GET", "/apis/example.com/v1/widgets"))).status == 404
        assert (await client.ask(Ask("GET", "/readyz"))).status == 500
        disk.full = False
        await until_writable(plane.app.store)
        assert (await client.ask(Ask("GET", "/readyz"))).status == 200
        await client.create(CONFIG_MAPS, named("later"))
    async with Plane(options(tmp_path)) as again:
        listed = await Tenants.of(again.app).ask(Ask("GET", CONFIG_MAPS))
        assert [one["metadata"]["name"] for one in listed.body["items"]] == ["kept", "later"]


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small disk takes root")
async def test_a_disk_that_is_really_full_is_outlasted(tmp_path, monkeypatch) -> None:
    """X19."""
    monkeypatch.setattr(journals, "_RETRY_PAUSE_SECONDS", 0.01)
    with small_disk(tmp_path / "disk", "8m") as place:
        async with Plane(options(place / "plane")) as plane:
            client = Tenants.of(plane.app)
            await client.create(CONFIG_MAPS, named("kept"))
            fill_disk(place)
            answer = await client.ask(
                Ask("POST", CONFIG_MAPS, named("big") | {"data": {"x": "y" * 500_000}})
            )
            assert answer.status == 500
            assert (await client.ask(Ask("GET", f"{CONFIG_MAPS}/kept"))).status == 200
            (place / "full").unlink()
            await until_writable(plane.app.store)
            await client.create(CONFIG_MAPS, named("later"))


def test_a_journal_is_never_half_made(tmp_path) -> None:
    """A crash while a journal is made leaves none, so that an empty file is always damage."""
    open_database(tmp_path / NAME, durable=False).close()
    assert (tmp_path / NAME).stat().st_mode & 0o777 == 0o600
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]
