from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from manta.localplane.node.images import ImageStore, PullError, find_python, write_shims

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


def test_another_python_than_asked_for_is_told(store: ImageStore) -> None:
    assert "offered with Python" in store.substitution("rayproject/ray:2.54.0-py21")
    assert store.substitution(f"rayproject/ray:2.54.0-py{OWN.replace('.', '')}") == ""


def test_our_own_python_is_always_found() -> None:
    found = find_python(OWN)
    assert found is not None
    assert Path(found).exists()


def test_the_stand_in_for_wget_fetches_and_fails_like_it(tmp_path: Path) -> None:
    page = tmp_path / "page"
    page.write_text("success")
    wget = str(write_shims(tmp_path / "shims") / "wget")
    words = ["--tries", "1", "-T", "2", "-q", "-O-"]
    good = subprocess.run([wget, *words, page.as_uri()], capture_output=True, check=False)
    assert (good.returncode, good.stdout) == (0, b"success")
    bad = subprocess.run([wget, *words, "file:///no/such"], capture_output=True, check=False)
    assert bad.returncode == 4
