"""What is kept of a Pod survives an error, or a crash, at every step."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from manta.api.well_known import ANNOTATION_KEEP_VOLUME
from manta.localplane.node.machine import Machine
from manta.localplane.node.pod.kept import POSTS, RECORD, VOLUME, KeptPod, kept_pods
from manta.localplane.node.pod.leftovers import keep_and_remove


def pod_directory(tmp_path: Path) -> Path:
    directory = tmp_path / "pods" / "uid"
    (directory / "volumes" / "logs").mkdir(parents=True)
    (directory / "volumes" / "logs" / "a.log").write_text("kept")
    (directory / POSTS).write_text("[]\n")
    record = KeptPod("default", "pod", "uid", {}, {ANNOTATION_KEEP_VOLUME: "logs"})
    (directory / RECORD).write_bytes(msgspec.json.encode(record))
    return directory


def machine(tmp_path: Path, seen: list[int]) -> Machine:
    options = SimpleNamespace(on_kept=lambda: seen.append(1))
    return cast(Machine, SimpleNamespace(options=options, kept_directory=tmp_path / "kept"))


@pytest.mark.parametrize("step", range(5))
def test_what_failed_half_way_is_kept_by_the_next_try(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    """The steps: a directory, the volume, the posts, the record, and the name at the end."""
    directory, seen = pod_directory(tmp_path), list[int]()
    steps = 0

    def failing(real: Any) -> Any:
        def call(self: Path, *args: Any, **kwargs: Any) -> Any:
            nonlocal steps
            if self != tmp_path / "kept":
                steps += 1
                if steps == step + 1:
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self))
            return real(self, *args, **kwargs)

        return call

    with monkeypatch.context() as full:
        for name in ("mkdir", "rename"):
            full.setattr(Path, name, failing(getattr(Path, name)))
        keep_and_remove(machine(tmp_path, seen), directory)
    assert steps == step + 1
    assert (kept_pods(tmp_path / "kept"), seen, directory.exists()) == ([], [], True)
    keep_and_remove(machine(tmp_path, seen), directory)
    [kept] = kept_pods(tmp_path / "kept")
    assert (kept / VOLUME / "a.log").read_text() == "kept"
    assert sorted(one.name for one in kept.iterdir()) == sorted((VOLUME, POSTS, RECORD))
    assert (seen, directory.exists()) == ([1], False)
