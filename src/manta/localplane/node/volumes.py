"""Volumes on disk: a Pod's own directories, files made from API objects, claims, paths of the machine.

Files of a ConfigMap or Secret are replaced all at once, as a kubelet does: readers follow the link
`..data` and see the old set or the new one, never a mixture.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from manta.api.quantity import Quantity
from manta.localplane.node.environment import ConfigError
from manta.localplane.node.podspec import HostPath, NodePod, Volume
from manta.localplane.node.volumefiles import Content, VolumeFile, files_of


@dataclass(frozen=True, slots=True)
class MemoryVolume:
    """A tmpfs that the Pod's init mounts at `path`: it lives and dies with the sandbox."""

    path: Path
    size: int | None


@dataclass(frozen=True, slots=True)
class PreparedVolumes:
    paths: dict[str, Path]
    """Where each volume is on the machine."""
    memory: tuple[MemoryVolume, ...]


class Volumes:
    def __init__(self, claims: Path) -> None:
        self._claims = claims

    def prepare(self, directory: Path, content: Content) -> PreparedVolumes:
        """Make every volume of the Pod below `directory`. Blocking; safe to repeat."""
        paths: dict[str, Path] = {}
        memory: list[MemoryVolume] = []
        for volume in content.pod.spec.volumes:
            path = directory / volume.name
            files = files_of(volume, content)
            if files is not None:
                write_files(path, files)
            elif volume.host_path is not None:
                path = host_directory(volume.host_path)
            elif volume.persistent_volume_claim is not None:
                claim = volume.persistent_volume_claim.claim_name
                path = self.claim_directory(content.pod.metadata.namespace, claim)
            elif volume.ephemeral is not None:
                claim = ephemeral_claim(content.pod, volume)
                path = self.claim_directory(content.pod.metadata.namespace, claim)
            else:
                made = _make_empty(path, volume, content.pod)
                memory.extend([made] if made else [])
            paths[volume.name] = path
        return PreparedVolumes(paths, tuple(memory))

    def claim_directory(self, namespace: str, claim: str) -> Path:
        path = self._claims / namespace / claim
        path.mkdir(parents=True, exist_ok=True)
        path.chmod(0o777)
        return path

    def remove_claim(self, namespace: str, claim: str) -> None:
        shutil.rmtree(self._claims / namespace / claim, ignore_errors=True)


def ephemeral_claim(pod: NodePod, volume: Volume) -> str:
    """The claim that stands for a generic ephemeral volume: it lives and dies with the Pod."""
    return f"{pod.metadata.name}-{volume.name}"


def _make_empty(path: Path, volume: Volume, pod: NodePod) -> MemoryVolume | None:
    path.mkdir(parents=True, exist_ok=True)
    path.chmod(0o777)
    group = pod.spec.security_context.fs_group
    if group is not None and os.geteuid() == 0:
        os.chown(path, -1, group)
        path.chmod(0o2777)
    if volume.empty_dir is None or volume.empty_dir.medium != "Memory":
        return None
    limit = volume.empty_dir.size_limit
    return MemoryVolume(path, Quantity.parse(limit).value() if limit is not None else None)


def host_directory(volume: HostPath) -> Path:
    path = Path(volume.path)
    match volume.type:
        case "DirectoryOrCreate":
            path.mkdir(parents=True, exist_ok=True)
        case "FileOrCreate":
            path.touch(exist_ok=True)
        case "Directory" if not path.is_dir():
            raise ConfigError(f"hostPath type check failed: {path} is not a directory")
        case "File" if not path.is_file():
            raise ConfigError(f"hostPath type check failed: {path} is not a file")
        case "Socket" if not path.is_socket():
            raise ConfigError(f"hostPath type check failed: {path} is not a socket file")
        case "":
            if not path.exists():
                path.mkdir(parents=True)
        case _:
            pass
    return path


def write_files(directory: Path, files: Sequence[VolumeFile]) -> bool:
    """Put exactly these files into `directory`, all at once. False: they were there already."""
    directory.mkdir(parents=True, exist_ok=True)
    current = directory / "..data"
    if _holds(current, files):
        return False
    number = 0
    while (fresh := directory / f"..{number}").exists():
        number += 1
    for file in files:
        path = fresh / file.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(file.content)
        path.chmod(file.mode)
    fresh.mkdir(exist_ok=True)
    old = current.resolve() if current.is_symlink() else None
    link = directory / "..data_tmp"
    link.unlink(missing_ok=True)
    link.symlink_to(fresh.name)
    link.rename(current)
    _link_names(directory, {Path(file.path).parts[0] for file in files})
    if old is not None:
        shutil.rmtree(old, ignore_errors=True)
    return True


def _holds(current: Path, files: Sequence[VolumeFile]) -> bool:
    if not current.is_symlink():
        return False
    found = {str(path.relative_to(current)) for path in current.rglob("*") if not path.is_dir()}
    if found != {file.path for file in files}:
        return False
    return all((current / file.path).read_bytes() == file.content for file in files)


def _link_names(directory: Path, names: set[str]) -> None:
    for entry in directory.iterdir():
        if not entry.name.startswith("..") and entry.name not in names:
            entry.unlink()
    for name in names:
        link = directory / name
        if not link.is_symlink():
            link.symlink_to(f"..data/{name}")
