"""Volumes on disk: emptyDir, files made from API objects, claims, host paths.

The files of a ConfigMap or Secret are replaced atomically, as a kubelet does: readers follow the link
`..data` and see either the old files or the new ones.

A Pod can write to most of these directories. Access their content only by `confined_files.Directory`.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from manta.api.quantity import Quantity
from manta.localplane.node.host.confined_files import Directory, Escape, Links
from manta.localplane.node.spec.environment import ConfigError
from manta.localplane.node.spec.pod_spec import HostPath, NodePod, Volume
from manta.localplane.node.storage.volume_files import Content, VolumeFile, files_of

_DATA, _NEW_DATA = "..data", "..data_tmp"
_GENERATION = re.compile(r"\.\.\d+")


@dataclass(frozen=True, slots=True)
class MemoryVolume:
    """A tmpfs that the Pod's init mounts at `path`; it ends with the sandbox."""

    path: Path
    size: int | None


@dataclass(frozen=True, slots=True)
class PreparedVolumes:
    paths: dict[str, Path]
    """Where each volume is on the machine."""
    memory: tuple[MemoryVolume, ...]


class Volumes:
    def __init__(self, plane: Path, claims: Path) -> None:
        self._plane = plane
        self._claims = claims

    def prepare(self, directory: Path, content: Content) -> PreparedVolumes:
        """Create all volumes of the Pod below `directory`. Blocking; can be repeated. Raises ConfigError."""
        directory.mkdir(parents=True, exist_ok=True)
        paths: dict[str, Path] = {}
        memory: list[MemoryVolume] = []
        with Directory.at(directory) as volumes:
            for volume in content.pod.spec.volumes:
                path = directory / volume.name
                claim = _claim_of(volume, content.pod)
                files = files_of(volume, content)
                if files is not None:
                    with volumes.make(volume.name) as own:
                        write_files(own, files)
                elif volume.host_path is not None:
                    path = self.host_path(volume.host_path)
                elif claim is not None:
                    path = self.claim_directory(content.pod.metadata.namespace, claim)
                else:
                    made = _make_empty_dir(volumes, path, volume, content.pod)
                    memory.extend([made] if made else [])
                paths[volume.name] = path
        return PreparedVolumes(paths, tuple(memory))

    def host_path(self, volume: HostPath) -> Path:
        """The resolved path on the machine. Raises ConfigError, also for the plane's own directory."""
        path = resolved_host_path(volume.path)
        if path.is_relative_to(self._plane):
            raise ConfigError(
                f"hostPath {volume.path} is inside {self._plane}, where the plane keeps its keys:"
                " choose a directory of your own"
            )
        prepare_host_path(path, volume.type)
        return path

    def claim_directory(self, namespace: str, claim: str) -> Path:
        self._claims.mkdir(parents=True, exist_ok=True)
        with (
            Directory.at(self._claims) as claims,
            claims.make(f"{_one_name(namespace)}/{_one_name(claim)}") as own,
        ):
            Path(own.proc_path).chmod(0o777)
        return self._claims / namespace / claim

    def remove_claim(self, namespace: str, claim: str) -> None:
        if self._claims.is_dir():
            with Directory.at(self._claims) as claims:
                claims.remove(f"{_one_name(namespace)}/{_one_name(claim)}")


def _one_name(name: str) -> str:
    if name in ("", ".", "..") or "/" in name:
        raise ConfigError(f"{name!r} is not the name of a claim or namespace")
    return name


def _claim_of(volume: Volume, pod: NodePod) -> str | None:
    if volume.persistent_volume_claim is not None:
        return volume.persistent_volume_claim.claim_name
    return ephemeral_claim(pod, volume) if volume.ephemeral is not None else None


def ephemeral_claim(pod: NodePod, volume: Volume) -> str:
    """The name of the claim of a generic ephemeral volume, which is removed with the Pod."""
    return f"{pod.metadata.name}-{volume.name}"


def _make_empty_dir(
    volumes: Directory, path: Path, volume: Volume, pod: NodePod
) -> MemoryVolume | None:
    with volumes.make(volume.name) as own:
        here = Path(own.proc_path)
        here.chmod(0o777)
        group = pod.spec.security_context.fs_group
        if group is not None and os.geteuid() == 0:
            os.chown(here, -1, group)
            here.chmod(0o2777)
    if volume.empty_dir is None or volume.empty_dir.medium != "Memory":
        return None
    limit = volume.empty_dir.size_limit
    return MemoryVolume(path, Quantity.parse(limit).value() if limit is not None else None)


def make_sub_path(volume: Path, sub_path: str) -> None:
    """Create the directory of a subPath with the volume's permissions, unless something exists there.
    Raises ConfigError if a link leads out of the volume."""
    try:
        with Directory.at(volume) as own:
            if not own.exists(sub_path, Links.INSIDE):
                with own.make(sub_path, links=Links.INSIDE) as made:
                    Path(made.proc_path).chmod(stat.S_IMODE(own.mode(".") or 0o755))
    except OSError as error:
        raise ConfigError(f"failed to prepare subPath {sub_path!r}: {error.strerror}") from error


# ── paths of the machine ─────────────────────────────────────────────────────────────────
_TYPES = {
    "Directory": (stat.S_ISDIR, "a directory"),
    "File": (stat.S_ISREG, "a file"),
    "Socket": (stat.S_ISSOCK, "a socket file"),
    "CharDevice": (stat.S_ISCHR, "a character device"),
    "BlockDevice": (stat.S_ISBLK, "a block device"),
}


def resolved_host_path(path: str) -> Path:
    """The path without symbolic links. Raises ConfigError."""
    if "\0" in path or not path.startswith("/") or ".." in Path(path).parts:
        raise ConfigError(f"hostPath {path!r} must be an absolute path without '..'")
    try:
        return Path(path).resolve()
    except (OSError, RuntimeError) as error:
        raise ConfigError(f"hostPath {path}: {error}") from error


def prepare_host_path(path: Path, kind: str) -> None:
    """Check that a resolved path has the given type, or create it. Raises ConfigError. A link that was put
    there meanwhile is refused."""
    below = str(path).lstrip("/")
    with Directory.at("/") as root:
        if kind == "DirectoryOrCreate" or (kind == "" and not root.exists(below)):
            root.make(below).close()
        elif kind == "FileOrCreate":
            with root.enter(str(path.parent).lstrip("/")) as parent:
                parent.touch(path.name)
        elif kind in _TYPES:
            is_kind, words = _TYPES[kind]
            mode = root.mode(below)
            if mode is None or not is_kind(mode):
                raise ConfigError(f"hostPath type check failed: {path} is not {words}")


# ── files made from API objects ──────────────────────────────────────────────────────────
def write_files(volume: Directory, files: Sequence[VolumeFile]) -> bool:
    """Replace the files of `volume` atomically. Returns False if they are there already."""
    wanted = {_path_of(file): file for file in files}
    old = volume.link_target(_DATA)
    if old is not None and not _GENERATION.fullmatch(old):
        old = None  # not our link: leave its target alone
    if old is not None and _holds(volume, old, wanted):
        return False
    fresh = _free_name(volume)
    with volume.make(fresh) as generation:
        for path, file in wanted.items():
            generation.write(path, file.content, file.mode)
    volume.remove(_NEW_DATA)
    volume.link(_NEW_DATA, fresh)
    volume.rename(_NEW_DATA, _DATA)
    _link_names(volume, {path.partition("/")[0] for path in wanted})
    if old is not None:
        volume.remove(old)
    return True


def _path_of(file: VolumeFile) -> str:
    """The API server refuses invalid paths, but an older object may still have one. Raises ConfigError."""
    parts = file.path.split("/")
    if file.path.startswith("/") or ".." in parts or file.path.startswith(".."):
        raise ConfigError(f"path {file.path!r} must be relative and must not contain '..'")
    clean = "/".join(part for part in parts if part not in ("", "."))
    if not clean:
        raise ConfigError(f"path {file.path!r} names no file")
    return clean


def _free_name(volume: Directory) -> str:
    taken = set(volume.names())
    number = 0
    while f"..{number}" in taken:
        number += 1
    return f"..{number}"


def _holds(volume: Directory, name: str, wanted: Mapping[str, VolumeFile]) -> bool:
    try:
        with volume.enter(name) as current:
            return set(current.files()) == set(wanted) and all(
                current.read(path) == file.content for path, file in wanted.items()
            )
    except (FileNotFoundError, NotADirectoryError, Escape):
        return False


def _link_names(volume: Directory, names: set[str]) -> None:
    for name in volume.names():
        if not name.startswith("..") and name not in names:
            volume.remove(name)
    for name in names:
        if volume.link_target(name) is None:
            volume.remove(name)
            volume.link(name, f"{_DATA}/{name}")
