"""Keeps a volume of a Pod, and what the Pod posted, when the Pod goes.

Everything is moved by rename, so that keeping a volume costs nothing, whatever its size:

    kept/<uid>/pod.json     namespace, name, labels and annotations
    kept/<uid>/volume       the volume that the annotation names
    kept/<uid>/posts.jsonl  the bodies that the Pod posted, one a line
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import msgspec

from manta.api.well_known import ANNOTATION_KEEP_VOLUME
from manta.localplane.node.host.confined_files import Directory, remove_tree
from manta.localplane.node.spec.pod_spec import NodePod

RECORD: Final = "pod.json"
VOLUME: Final = "volume"
POSTS: Final = "posts.jsonl"


class KeptPod(msgspec.Struct, frozen=True):
    """The content of `pod.json`."""

    namespace: str
    name: str
    uid: str
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}


def is_kept(pod: NodePod) -> bool:
    """Whether the Pod names one of its own emptyDirs: nothing else is the Pod's alone."""
    name = pod.metadata.annotations.get(ANNOTATION_KEEP_VOLUME, "")
    return any(one.name == name and one.empty_dir is not None for one in pod.spec.volumes)


def write_record(directory: Path, pod: NodePod) -> None:
    """Note whose Pod it is: the object may be gone when the volume is kept."""
    meta = pod.metadata
    record = KeptPod(meta.namespace, meta.name, meta.uid, dict(meta.labels), dict(meta.annotations))
    with Directory.at(directory) as own:
        own.write(RECORD, msgspec.json.encode(record))


def keep(directory: Path, kept: Path) -> bool:
    """Move what is to be kept of the Pod in `directory` to `kept/<uid>`. False: there is nothing.

    The directory appears complete or not at all. A call that ended half-way is continued by the next one. Raises OSError.
    """
    fresh = kept / f".{directory.name}"
    if not (fresh / VOLUME).is_dir():
        volume = _volume(directory)
        if volume is None:
            return False
        kept.mkdir(parents=True, exist_ok=True, mode=0o700)
        remove_tree(fresh)
        fresh.mkdir(mode=0o700)
        volume.rename(fresh / VOLUME)
    for name in (POSTS, RECORD):
        if (directory / name).exists():
            (directory / name).rename(fresh / name)
    fresh.rename(kept / directory.name)
    return True


def _volume(directory: Path) -> Path | None:
    """The volume of a Pod that is to be kept; None if there is none."""
    try:
        record = msgspec.json.decode((directory / RECORD).read_bytes(), type=KeptPod)
    except (FileNotFoundError, msgspec.MsgspecError):
        return None
    volume = directory / "volumes" / record.annotations.get(ANNOTATION_KEEP_VOLUME, "")
    if volume.parent != directory / "volumes" or volume.is_symlink() or not volume.is_dir():
        return None
    return volume


def kept_pods(kept: Path) -> list[Path]:
    """The directories that are complete."""
    try:
        names = sorted(os.listdir(kept))  # noqa: PTH208 - names only
    except FileNotFoundError:
        return []
    return [kept / name for name in names if not name.startswith(".")]
