"""The spec of one container that the Pod's init starts. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from manta.localplane.node.host.cgroups import Cgroup
from manta.localplane.node.images.store import Environment
from manta.localplane.node.spec.capabilities import kept_capabilities
from manta.localplane.node.spec.environment import ConfigError, command_line, expand
from manta.localplane.node.spec.pod_spec import Container, NodePod, VolumeMount

_PRIVATE = ("/tmp/", "/run/", "/dev/")  # noqa: S108 - of the container, not of ours


@dataclass(frozen=True, slots=True)
class AttemptPaths:
    """The directories of one attempt of a container."""

    pod: Path
    record: Path

    @property
    def log(self) -> Path:
        return self.record / "log"

    @property
    def termination_message(self) -> Path:
        return self.record / "termination-log"


@dataclass(frozen=True, slots=True)
class Launch:
    pod: NodePod
    container: Container
    attempt: int
    env: Mapping[str, str]
    """The variables of the Pod; they override those of the image."""
    environment: Environment
    volumes: Mapping[str, Path]
    paths: AttemptPaths
    cgroup: Cgroup = field(default_factory=Cgroup)
    isolated: bool = True
    userns: bool = False
    hidden: tuple[str, ...] = ()
    """Directories of planes, which no container may see."""
    accelerators: Mapping[str, Any] = field(default_factory=dict)
    """Device nodes: `given` are shown, others that begin with one of `families` are not."""


def container_spec(launch: Launch) -> dict[str, Any]:
    """What the launcher must know to start the container. Raises ConfigError."""
    container = launch.container
    env = {"HOSTNAME": launch.pod.hostname, **launch.environment.env, **launch.env}
    workdir = launch.environment.workdir
    if not launch.isolated:
        # Without its own root file system, the container's home is its scratch directory.
        workdir = str(launch.paths.record / "scratch")
        env["HOME"] = launch.env.get("HOME", workdir)
    argv = command_line(container, launch.environment.entrypoint, launch.environment.command, env)
    if not argv:
        raise ConfigError(f'no command specified for container "{container.name}"')
    security, pod_security = container.security_context, launch.pod.spec.security_context
    return {
        "id": f"{container.name}/{launch.attempt}",
        "argv": argv,
        "env": env,
        "cwd": container.working_dir or workdir,
        "record": str(launch.paths.record),
        "log": str(launch.paths.log),
        "scratch": str(launch.paths.record / "scratch"),
        "shm": str(launch.paths.pod / "shm"),
        "mounts": [*_image(launch), *_pod_files(launch), *_volume_mounts(launch, env)],
        "symlinks": dict(launch.environment.links),
        "cgroups": list(launch.cgroup.paths),
        "cgroup_views": dict(launch.cgroup.views),
        "oom_events": launch.cgroup.oom_events,
        "tty": container.tty,
        "stdin": container.stdin,
        "share_pids": launch.pod.spec.share_process_namespace
        or bool(container.target_container_name),
        "isolated": launch.isolated,
        "userns": launch.userns,
        "read_only": security.read_only_root_filesystem,
        "hidden": list(launch.hidden),
        "accelerators": dict(launch.accelerators),
        "capabilities": kept_capabilities(security) if launch.isolated else None,
        "no_new_privs": launch.isolated and not security.allow_privilege_escalation,
        **_user(launch, security.run_as_user, pod_security.run_as_user),
    }


def _user(launch: Launch, own: int | None, pod_wide: int | None) -> dict[str, Any]:
    """The user and groups of the container; ignored in a user namespace, which has one user only."""
    uid = own if own is not None else pod_wide
    own_rule = launch.container.security_context.run_as_non_root
    pod_rule = launch.pod.spec.security_context.run_as_non_root
    if uid == 0 and (own_rule if own_rule is not None else pod_rule):
        raise ConfigError("container's runAsUser breaks non-root policy")
    if launch.userns or not launch.isolated:
        return {}
    pod_security = launch.pod.spec.security_context
    gid = launch.container.security_context.run_as_group
    gid = gid if gid is not None else pod_security.run_as_group
    extra = [*pod_security.supplemental_groups]
    if pod_security.fs_group is not None:
        extra.append(pod_security.fs_group)
    user: dict[str, Any] = {}
    if uid is not None:
        user |= {"uid": uid, "gid": gid if gid is not None else 0, "groups": extra}
    elif gid is not None or extra:
        user |= {"gid": gid if gid is not None else 0, "groups": extra}
    return user


def _image(launch: Launch) -> Iterator[dict[str, Any]]:
    """Mounts for parts of the image that are in a hidden directory or in one of the container's own."""
    for path in launch.environment.paths:
        inside = any(Path(path).is_relative_to(place) for place in launch.hidden)
        if inside or path.startswith(_PRIVATE):
            yield {"source": str(Path(path).resolve()), "target": path, "read_only": True}


def _pod_files(launch: Launch) -> Iterator[dict[str, Any]]:
    for name in ("hosts", "resolv.conf", "hostname"):
        if not (launch.pod.spec.host_network and name == "hostname"):
            yield {"source": str(launch.paths.pod / name), "target": f"/etc/{name}"}
    path = launch.container.termination_message_path
    yield {"source": str(launch.paths.termination_message), "target": path}


def _volume_mounts(launch: Launch, env: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    read_only = {volume.name for volume in launch.pod.spec.volumes if volume.is_read_only}
    for mount in launch.container.volume_mounts:
        if mount.name not in launch.volumes:
            raise ConfigError(f'volume "{mount.name}" is not one of the Pod')
        yield {
            "source": str(launch.volumes[mount.name]),
            "sub_path": sub_path_of(mount, env),
            "target": mount.mount_path,
            "read_only": mount.read_only or mount.name in read_only,
        }


def sub_path_of(mount: VolumeMount, env: Mapping[str, str]) -> str:
    """The subPath of a mount, with variables expanded. Raises ConfigError."""
    sub_path = mount.sub_path or expand(mount.sub_path_expr, env)
    if sub_path.startswith("/") or ".." in sub_path.split("/"):
        raise ConfigError(f"subPath {sub_path!r} must stay inside its volume")
    return sub_path
