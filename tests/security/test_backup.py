"""Backups: one consistent moment, private, whole or not at all; a file that is not good changes nothing."""

from __future__ import annotations

import io
import os
import tarfile
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from manta.cli.main import main
from manta.localplane.plane import Plane, PlaneOptions
from manta.localplane.store.backup import BackupError, make_backup, restore_backup
from manta.localplane.store.database import JournalError
from support.journals import NAME, closed_store, fill, open_store, read_state, state_of
from support.tenants import Ask, Tenants, named

NOW = datetime(2026, 11, 16, 8, tzinfo=UTC)
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


def made(directory: Path, target: Path) -> Path:
    make_backup(directory, target, version="1", now=NOW)
    return target


def restored(source: Path, directory: Path, *, replace: bool = False):
    return restore_backup(source, directory, replace=replace, now=NOW)


def tree(directory: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in directory.rglob("*")
        if path.is_file()
    }


@pytest.fixture
async def plane(tmp_path):
    """A stopped plane's directory, with keys."""
    directory = tmp_path / "plane"
    await closed_store(directory)
    (directory / "pki").mkdir(mode=0o700)
    for name in ("ca.key", "ca.crt", "sa.key", "admin.token"):
        (directory / "pki" / name).write_text(f"the {name}")
    return directory


async def test_what_was_backed_up_comes_back(plane, tmp_path) -> None:
    truth = read_state(plane)
    file = made(plane, tmp_path / "file.tar")
    restored(file, tmp_path / "new")
    assert read_state(tmp_path / "new") == truth
    assert (tmp_path / "new" / "pki" / "sa.key").read_text() == "the sa.key"


async def test_a_backup_is_its_owners_alone(plane, tmp_path) -> None:
    file = made(plane, tmp_path / "file.tar")
    restored(file, tmp_path / "new")
    private = [file, tmp_path / "new" / NAME, tmp_path / "new" / "pki" / "sa.key"]
    assert [path.stat().st_mode & 0o777 for path in private] == [0o600] * 3
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


async def test_a_backup_of_a_plane_that_writes_is_one_moment(tmp_path) -> None:
    """Every object is there as it was at one revision, and the plane goes on."""
    directory = tmp_path / "plane"
    directory.mkdir()
    store = open_store(directory)
    await fill(store, 50)
    first = state_of(store)
    file = made(directory, tmp_path / "file.tar")
    await fill(store, 50, "later")
    await store.close()
    restored(file, tmp_path / "new")
    assert read_state(tmp_path / "new") == first


async def test_a_restored_store_goes_on(plane, tmp_path) -> None:
    restored(made(plane, tmp_path / "file.tar"), tmp_path / "new")
    for _ in range(2):
        store = open_store(tmp_path / "new")
        await fill(store, 5, "more")
        truth = state_of(store)
        await store.close()
        assert read_state(tmp_path / "new") == truth


async def test_a_state_is_not_replaced_unless_one_says_so(plane, tmp_path) -> None:
    file = made(plane, tmp_path / "file.tar")
    before = tree(plane)
    with pytest.raises(BackupError, match="--replace-state"):
        restored(file, plane)
    assert tree(plane) == before


async def test_a_replaced_state_is_kept_aside(plane, tmp_path) -> None:
    file = made(plane, tmp_path / "file.tar")
    before = tree(plane)
    store = open_store(plane)
    await fill(store, 5, "later")
    await store.close()
    later = read_state(plane)
    done = restored(file, plane, replace=True)
    assert done.replaced.parent == plane
    assert read_state(done.replaced) == later
    assert tree(done.replaced / "pki") == {
        name.removeprefix("pki/"): content
        for name, content in before.items()
        if name.startswith("pki/")
    }


@pytest.mark.parametrize("place", [0.001, 0.1, 0.3, 0.5, 0.7, 0.9])
async def test_a_damaged_backup_changes_nothing(plane, tmp_path, place) -> None:
    file = made(plane, tmp_path / "file.tar")
    content = bytearray(file.read_bytes())
    content[int(len(content) * place)] ^= 0xFF
    file.write_bytes(content)
    before = tree(plane)
    with pytest.raises((BackupError, JournalError)):
        restored(file, plane, replace=True)
    assert tree(plane) == before


@pytest.mark.parametrize("share", [0, 0.01, 0.5, 0.8])
async def test_a_backup_that_was_cut_short_changes_nothing(plane, tmp_path, share) -> None:
    file = made(plane, tmp_path / "file.tar")
    os.truncate(file, int(file.stat().st_size * share))
    before = tree(plane)
    with pytest.raises(BackupError):
        restored(file, plane, replace=True)
    assert tree(plane) == before


def forged(path: Path, files: dict[str, str], *members: tarfile.TarInfo, format_: int = 1) -> Path:
    manifest = {"format": format_, "version": "1", "created": "", "revision": 0, "objects": 0}
    text = msgspec.json.encode(manifest | {"files": files})
    with tarfile.open(path, "w") as archive:
        head = tarfile.TarInfo("manifest.json")
        head.size = len(text)
        archive.addfile(head, io.BytesIO(text))
        for member in members:
            archive.addfile(member, io.BytesIO(b"x" * member.size))
    return path


def member(name: str, **attributes) -> tarfile.TarInfo:
    one = tarfile.TarInfo(name)
    for attribute, value in attributes.items():
        setattr(one, attribute, value)
    return one


@pytest.mark.parametrize(
    "name", ["../evil", "/etc/evil", "pki/../../evil", "pki/a/b", "pki/..", "node/x", "lock"]
)
def test_a_backup_writes_nowhere_else(tmp_path, name) -> None:
    file = forged(tmp_path / "f", {NAME: "", name: ""}, member(NAME), member(name))
    with pytest.raises(BackupError):
        restored(file, tmp_path / "new")
    assert tree(tmp_path / "new") == {}
    assert not (tmp_path / "evil").exists()


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE])
def test_a_backup_holds_plain_files_only(tmp_path, kind) -> None:
    odd = member(NAME, type=kind, linkname="/etc/passwd")
    with pytest.raises(BackupError):
        restored(forged(tmp_path / "f", {NAME: ""}, odd), tmp_path / "new")
    assert tree(tmp_path / "new") == {}


def test_a_backup_of_another_format_is_refused(tmp_path) -> None:
    with pytest.raises(BackupError, match="format 9"):
        restored(forged(tmp_path / "f", {NAME: ""}, format_=9), tmp_path / "new")


@pytest.mark.parametrize("content", [b"", b"hello", os.urandom(4096), b"{}" * 999])
def test_any_other_file_is_refused(tmp_path, content) -> None:
    (tmp_path / "f").write_bytes(content)
    with pytest.raises(BackupError):
        restored(tmp_path / "f", tmp_path / "new")


async def test_a_damaged_plane_does_not_replace_a_good_backup(plane, tmp_path) -> None:
    file = made(plane, tmp_path / "file.tar")
    good = file.read_bytes()
    content = bytearray((plane / NAME).read_bytes())
    content[5 * 4096 : 6 * 4096] = bytes(4096)
    (plane / NAME).write_bytes(content)
    with pytest.raises((BackupError, JournalError)):
        made(plane, file)
    assert file.read_bytes() == good
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


# ── the commands ─────────────────────────────────────────────────────────────────────────
async def test_a_running_plane_is_backed_up_by_command_and_restored(tmp_path, capsys) -> None:
    options = PlaneOptions(dir=tmp_path / "plane", controllers=False)
    file = tmp_path / "file.tar"
    async with Plane(options) as plane:
        await Tenants.of(plane.app).create(CONFIG_MAPS, named("kept"))
        assert main(["backup", str(file), "--dir", str(options.dir)]) == 0
        busy = ["up", "--foreground", "--nodes", "0", "--restore", str(file)]
        assert main([*busy, "--dir", str(options.dir), "--replace-state"]) == 2
        assert "`manta down` first" in capsys.readouterr().err
        authority, token = plane.authority.certificate, (options.dir / "pki" / "admin.token")
        token_text = token.read_text()
    restored(file, tmp_path / "new")
    async with Plane(PlaneOptions(dir=tmp_path / "new", controllers=False)) as again:
        answer = await Tenants.of(again.app).ask(Ask("GET", f"{CONFIG_MAPS}/kept"))
        assert answer.status == 200
        assert again.authority.certificate == authority
        assert (tmp_path / "new" / "pki" / "admin.token").read_text() == token_text


def test_a_backup_of_nothing_says_where_to_look(tmp_path, capsys) -> None:
    assert main(["backup", str(tmp_path / "f"), "--dir", str(tmp_path / "none")]) == 1
    assert "name its directory: --dir" in capsys.readouterr().err
    assert not (tmp_path / "f").exists()


def test_replacing_needs_a_file(tmp_path, capsys) -> None:
    command = ["up", "--foreground", "--nodes", "0", "--replace-state", "--dir", str(tmp_path)]
    assert main(command) == 2
    assert "--restore FILE" in capsys.readouterr().err
