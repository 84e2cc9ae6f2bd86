from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from manta.localplane.node.images import toolchain
from manta.localplane.node.images.shims import write_shims
from manta.localplane.node.images.store import ImageStore, PullError
from manta.localplane.node.images.toolchain import find_python, find_uv

OWN = f"{sys.version_info.major}.{sys.version_info.minor}"


@pytest.fixture
def store(tmp_path: Path) -> ImageStore:
    return ImageStore(tmp_path / "cache", tmp_path / "images.yaml")


def test_an_image_of_the_machine_is_there_at_once(store: ImageStore) -> None:
    found = store.present("busybox:1.36")
    assert found is not None
    assert found.command == ("sh",)
    assert "/usr/bin" in found.env["PATH"]


def test_an_environment_that_was_not_made_yet_is_not_there(store: ImageStore) -> None:
    assert store.present("rayproject/ray:2.54.0") is None


def test_the_users_table_comes_first_and_is_read_again_when_it_changes(
    store: ImageStore, tmp_path: Path
) -> None:
    with pytest.raises(PullError, match="no rule of this machine matches it"):
        store.present("company/thing:1")
    table = tmp_path / "images.yaml"
    table.write_text("images: [{image: 'company/.*', command: [thing]}]")
    found = store.present("company/thing:1")
    assert found is not None
    assert found.command == ("thing",)


def test_a_table_that_cannot_be_read_is_named(store: ImageStore, tmp_path: Path) -> None:
    (tmp_path / "images.yaml").write_text("images: {")
    with pytest.raises(PullError, match=r"images\.yaml"):
        store.present("busybox")


def test_a_program_that_is_not_installed_is_named_with_the_cure(
    store: ImageStore, tmp_path: Path
) -> None:
    (tmp_path / "images.yaml").write_text("images: [{image: db, programs: [no-such-db]}]")
    with pytest.raises(PullError, match="apt-get install no-such-db"):
        store.present("db")


def test_a_name_that_is_none_is_refused(store: ImageStore) -> None:
    with pytest.raises(PullError) as caught:
        store.present("not an image")
    assert caught.value.reason == "InvalidImageName"


def a_uv(directory: Path, script: str) -> Path:
    """A stand-in for uv that writes down how it was called."""
    uv = directory / "uv"
    uv.write_text(f'#!/bin/sh\necho "$@" >> {directory}/calls\n{script}\n')
    uv.chmod(0o755)
    return uv


@pytest.fixture
def fake_uv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    def use(script: str) -> Path:
        uv = a_uv(tmp_path, script)

        async def found(_: Path) -> str:
            return str(uv)

        monkeypatch.setattr("manta.localplane.node.images.store.find_uv", found)
        return tmp_path / "calls"

    return use


async def test_a_python_that_cannot_be_had_is_an_error_and_no_other_is_taken(
    store: ImageStore, fake_uv: Callable[[str], Path]
) -> None:
    """U15: the image ran with another Python than it names."""
    calls = fake_uv("echo no route to the index >&2; exit 1")
    with pytest.raises(PullError) as caught:
        await store.ensure("rayproject/ray:2.60.0-py399")
    message = str(caught.value)
    assert "names Python 3.99, which is not on this machine and could not be downloaded" in message
    assert f"-py{OWN.replace('.', '')}" in message
    assert "no route to the index" in message
    assert calls.read_text().splitlines() == ["python install 3.99"]


async def test_the_python_that_an_image_names_is_downloaded(
    store: ImageStore, tmp_path: Path, fake_uv: Callable[[str], Path]
) -> None:
    """U15."""
    bring = 'mkdir -p "$UV_PYTHON_INSTALL_DIR/cpython-3.99.1/bin" && touch "$UV_PYTHON_INSTALL_DIR/cpython-3.99.1/bin/python3.99"'
    calls = fake_uv(
        f'case "$1 $2" in "python install") {bring};; "venv --seed") mkdir -p "$5";; esac'
    )
    found = await store.ensure("rayproject/ray:2.60.0-py399")
    interpreter = tmp_path / "cache/pythons/cpython-3.99.1/bin/python3.99"
    assert f"venv --seed --python {interpreter} " in calls.read_text()
    assert "py3.99" in found.image_id
    assert str(tmp_path / "cache/pythons") in found.paths


def test_our_own_python_is_always_found() -> None:
    found = find_python(OWN)
    assert found is not None
    assert Path(found).exists()


# ── tools ────────────────────────────────────────────────────────────────────────────────
async def test_uv_comes_with_the_extra_up(tmp_path: Path) -> None:
    """P8."""
    uv = pytest.importorskip("uv")
    assert await find_uv(tmp_path) == uv.find_uv_bin()


async def test_uv_is_installed_in_the_version_that_was_tested(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P8: whatever was newest that day was installed."""
    calls: list[tuple[str, ...]] = []

    async def run(*command: str, **_: object) -> None:
        calls.append(command)

    monkeypatch.setattr(toolchain, "run_tool", run)
    monkeypatch.setattr(toolchain, "_of_the_package", lambda: None)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "venv"))
    monkeypatch.setenv("PATH", str(tmp_path))
    await find_uv(tmp_path / "cache")
    assert calls[-1][-1] == f"uv=={toolchain.UV_VERSION}"
    lock = Path(__file__).parents[5] / "requirements.lock"
    assert f"\nuv=={toolchain.UV_VERSION} " in lock.read_text()


def test_each_installation_has_its_own_scripts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P8: when the installation that wrote the shared one was removed, wget probes of all others failed."""
    first = write_shims(tmp_path)
    monkeypatch.setattr(sys, "executable", "/removed/installation/bin/python")
    second = write_shims(tmp_path)
    assert "/removed/" in (second / "wget").read_text()
    assert subprocess.run([first / "wget", "-O-", "file:///dev/null"], check=False).returncode == 0


def test_the_stand_in_for_wget_fetches_and_fails_like_it(tmp_path: Path) -> None:
    page = tmp_path / "page"
    page.write_text("success")
    wget = str(write_shims(tmp_path / "shims") / "wget")
    words = ["--tries", "1", "-T", "2", "-q", "-O-"]
    good = subprocess.run([wget, *words, page.as_uri()], capture_output=True, check=False)
    assert (good.returncode, good.stdout) == (0, b"success")
    bad = subprocess.run([wget, *words, "file:///no/such"], capture_output=True, check=False)
    assert bad.returncode == 4
