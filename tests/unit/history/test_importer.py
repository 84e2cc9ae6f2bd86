"""The task of `manta up` that ships kept Pods: one Pod stops neither the others nor the plane."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from manta.api.ray import names
from manta.cli.plane import history
from manta.cli.plane.history import HistoryImporter
from manta.cli.plane.history_answers import kept_directory
from manta.history import kept_pods
from manta.history.store import Store, StoreError
from manta.localplane.node.pod.kept import KeptPod
from support.history import DEEP_POST, write_session


def keep(plane: Path, uid: str, posts: bytes = b"") -> Path:
    directory = kept_directory(plane) / uid
    write_session(directory / "volume", {"job-driver-x.log": b"important\n"})
    annotations = {names.ANNOTATION_HISTORY: "raycluster/demo/demo"}
    record = KeptPod("default", f"demo-{uid}", uid, {}, annotations)
    (directory / "pod.json").write_bytes(msgspec.json.encode(record))
    (directory / "posts.jsonl").write_bytes(posts)
    return directory


async def until(importer: HistoryImporter, done: Callable[[], bool]) -> None:
    """Run it until `done`. Fails if it ends by itself."""
    running = asyncio.create_task(importer.run())
    async with asyncio.timeout(30):
        while not done() and not running.done():
            await asyncio.sleep(0.02)
    assert not running.done(), running.exception()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_a_post_that_is_nested_too_deeply_ends_neither_the_plane_nor_the_next_pod(
    tmp_path: Path,
) -> None:
    bad, good = keep(tmp_path, "a", DEEP_POST), keep(tmp_path, "b")
    importer = HistoryImporter(tmp_path, (tmp_path / "store").as_uri())
    await until(importer, lambda: not bad.exists() and not good.exists())
    assert len(list((tmp_path / "store").rglob("pods/*/logs/*/*.gz"))) == 2


async def test_a_pod_that_cannot_be_shipped_is_set_aside_and_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(history, "RETRY_SECONDS", 0.01)
    bad, good = keep(tmp_path, "a"), keep(tmp_path, "b")
    real, tried = kept_pods.import_pod, []

    def odd(store: Store, directory: Path, answers: Path) -> None:
        tried.append(directory.name)
        if directory == bad:
            raise RuntimeError("nobody thought of this")
        if tried.count("b") < 3:
            raise StoreError("the store is down")  # so that there are three rounds
        real(store, directory, answers)

    monkeypatch.setattr(kept_pods, "import_pod", odd)
    importer = HistoryImporter(tmp_path, (tmp_path / "store").as_uri())
    await until(importer, lambda: not good.exists())
    assert bad.exists()
    assert tried == ["a", "b", "b", "b"]
    said = capsys.readouterr().err
    assert said.count("set aside until the next start: RuntimeError: nobody thought of this") == 1


async def test_a_store_that_fails_for_one_pod_is_tried_again_and_the_next_pod_is_shipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(history, "RETRY_SECONDS", 0.01)
    bad, good = keep(tmp_path, "a"), keep(tmp_path, "b")
    real = kept_pods.import_pod

    def failing(store: Store, directory: Path, answers: Path) -> None:
        if directory == bad and good.exists():
            raise StoreError("the store is down")
        real(store, directory, answers)

    monkeypatch.setattr(kept_pods, "import_pod", failing)
    importer = HistoryImporter(tmp_path, (tmp_path / "store").as_uri())
    await until(importer, lambda: not bad.exists() and not good.exists())
    assert "the store is down; trying again" in capsys.readouterr().err
