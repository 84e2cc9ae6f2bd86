"""Stores: a directory, and servers of S3 and Azure on loopback."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from manta.api.usage import UsageError
from manta.history.store import Store, StoreError, check_url, open_store
from support.azure import azure_server
from support.s3 import s3_server

SERVERS = {
    "s3": ("s3://history/below", lambda _: s3_server("history")),
    "az": ("az://history/below", lambda directory: azure_server("history", directory)),
}


@pytest.fixture(scope="module", params=["file", *SERVERS])
def store(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Store]:
    directory = tmp_path_factory.mktemp(request.param)
    if request.param == "file":
        yield open_store(directory.as_uri(), {})
        return
    url, server = SERVERS[request.param]
    with pytest.MonkeyPatch.context() as patch, server(directory) as environment:
        for name, value in environment.items():
            patch.setenv(name, value)
        yield open_store(url, environment)


def test_an_object_is_created_once_and_never_changed(store: Store) -> None:
    assert store.create("once/a%2F b:c", b"first")
    assert not store.create("once/a%2F b:c", b"second")
    assert store.read("once/a%2F b:c") == b"first"


def test_a_missing_object_is_none(store: Store, tmp_path: Path) -> None:
    assert store.read("missing/x") is None
    assert not store.copy_to_file("missing/x", tmp_path / "copy")


def test_objects_are_listed_and_deleted(store: Store, tmp_path: Path) -> None:
    store.create("list/a/1", b"1")
    store.create("list/b/2", b"22")
    assert {(one.key, one.size) for one in store.objects("list")} == {
        ("list/a/1", 1),
        ("list/b/2", 2),
    }
    assert store.directories("list") == ["a", "b"]
    assert store.directories("nothing") == []
    assert store.copy_to_file("list/b/2", tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == b"22"
    store.delete(["list/a/1", "list/gone"])
    assert store.directories("list") == ["b"]


def test_what_can_be_built_again_is_sent_in_parts_and_replaced(
    store: Store, tmp_path: Path
) -> None:
    index = tmp_path / "index"
    for content in (bytes(range(256)) * 48 * 1024, b"newer"):
        index.write_bytes(content)
        store.write_derived("derived/index", index)
        assert store.copy_to_file("derived/index", tmp_path / "copy")
        assert (tmp_path / "copy").read_bytes() == content
    assert store.read_range("derived/index", 1, 3) == b"ew"
    assert store.read_range("derived/missing", 1, 3) is None


def test_a_store_that_does_not_answer_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "a")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "b")
    store = open_store("s3://bucket", {"AWS_ENDPOINT_URL": "http://127.0.0.1:9"})
    with pytest.raises(StoreError, match="s3://bucket: cannot read x"):
        store.read("x")


@pytest.mark.parametrize(
    ("url", "cure"),
    [
        ("/var/history", "must start with file://"),
        ("ftp://x/y", "must start with file://"),
        ("s3://", "names no bucket"),
        ("file://var/history", "three slashes"),
        ("s3://key:secret@bucket", "must hold no credentials"),
    ],
)
def test_an_invalid_url_names_its_cure(url: str, cure: str) -> None:
    with pytest.raises(UsageError, match=cure) as caught:
        check_url(url)
    assert "secret@" not in str(caught.value)


def test_nothing_of_the_extra_is_imported_by_the_other_commands() -> None:
    code = "import sys, manta.cli.up, manta.cli.operator, manta.cli.logs; print('obstore' in sys.modules, 'manta.history.store' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]
