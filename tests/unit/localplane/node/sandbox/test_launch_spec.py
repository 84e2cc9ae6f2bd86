from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from manta.localplane.node.images.store import Environment
from manta.localplane.node.sandbox.launch_spec import AttemptPaths, Launch, container_spec
from manta.localplane.node.spec.environment import ConfigError
from support.node import a_pod

IMAGE = Environment(
    "ray",
    "manta://ray",
    {"PATH": "/env/bin", "HOME": "/home/ray"},
    ("entry",),
    ("word",),
    "/home/ray",
)


def spec(container: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    launch = {name: more.pop(name) for name in ("isolated", "userns") if name in more}
    pod = a_pod(containers=[{"name": "main", **(container or {})}], **more)
    paths = AttemptPaths(Path("/pod"), Path("/pod/containers/main/0"))
    volumes = {"v": Path("/volumes/v")}
    env = {"OWN": "1"}
    return container_spec(
        Launch(pod, pod.spec.containers[0], 0, env, IMAGE, volumes, paths, **launch)
    )


def mounts(made: dict[str, Any]) -> dict[str, str]:
    return {mount["target"]: mount["source"] for mount in made["mounts"]}


def test_the_image_lies_below_what_the_pod_says() -> None:
    made = spec({"workingDir": "/work"})
    assert made["argv"] == ["entry", "word"]
    assert made["cwd"] == "/work"
    assert made["env"] == {
        "HOSTNAME": "pod",
        "PATH": "/env/bin",
        "HOME": "/home/ray",
        "OWN": "1",
    }


def test_an_image_that_lies_where_a_container_sees_its_own_is_mounted() -> None:
    hidden = replace(IMAGE, paths=("/tmp/cache/env", "/root/.cache/env"))
    pod = a_pod()
    paths = AttemptPaths(Path("/pod"), Path("/pod/containers/main/0"))
    made = mounts(container_spec(Launch(pod, pod.spec.containers[0], 0, {}, hidden, {}, paths)))
    assert made["/tmp/cache/env"] == "/tmp/cache/env"
    assert "/root/.cache/env" not in made


def test_every_container_has_the_pods_files() -> None:
    made = mounts(spec())
    assert made["/etc/hosts"] == "/pod/hosts"
    assert made["/etc/resolv.conf"] == "/pod/resolv.conf"
    assert made["/dev/termination-log"] == "/pod/containers/main/0/termination-log"


@pytest.mark.parametrize(
    ("mount", "sub_path"),
    [({}, ""), ({"subPath": "a/b"}, "a/b"), ({"subPathExpr": "$(OWN)/x"}, "1/x")],
)
def test_volumes_are_mounted_from_where_they_are(mount: dict[str, str], sub_path: str) -> None:
    """The path inside the volume stays apart: it is resolved when it is mounted, beneath the volume."""
    made = spec({"volumeMounts": [{"name": "v", "mountPath": "/m", **mount}]})
    assert mounts(made)["/m"] == "/volumes/v"
    assert made["mounts"][-1]["sub_path"] == sub_path


@pytest.mark.parametrize("kind", ["configMap", "secret", "downwardAPI", "projected"])
def test_files_made_from_api_objects_are_mounted_read_only(kind: str) -> None:
    """X13."""
    mount = {"volumeMounts": [{"name": "v", "mountPath": "/m"}]}
    made = spec(mount, volumes=[{"name": "v", kind: {}}])
    assert made["mounts"][-1]["read_only"]
    assert not spec(mount, volumes=[{"name": "v", "emptyDir": {}}])["mounts"][-1]["read_only"]


def test_an_image_inside_a_hidden_directory_is_mounted() -> None:
    hidden = replace(IMAGE, paths=("/plane/images/env", "/other/env"))
    pod = a_pod()
    paths = AttemptPaths(Path("/pod"), Path("/pod/containers/main/0"))
    launch = Launch(pod, pod.spec.containers[0], 0, {}, hidden, {}, paths, hidden=("/plane",))
    made = mounts(container_spec(launch))
    assert made["/plane/images/env"] == "/plane/images/env"
    assert "/other/env" not in made


@pytest.mark.parametrize("path", ["/etc", "../x", "a/../../x"])
def test_a_sub_path_must_stay_inside(path: str) -> None:
    with pytest.raises(ConfigError, match="must stay inside its volume"):
        spec({"volumeMounts": [{"name": "v", "mountPath": "/m", "subPath": path}]})


def test_the_containers_user_wins_over_the_pods() -> None:
    pod_wide = {"runAsUser": 1, "runAsGroup": 2, "fsGroup": 3}
    made = spec({"securityContext": {"runAsUser": 9}}, securityContext=pod_wide)
    assert (made["uid"], made["gid"], made["groups"]) == (9, 2, [3])


def test_root_is_refused_where_the_pod_must_not_be_root() -> None:
    with pytest.raises(ConfigError, match="non-root policy"):
        spec({"securityContext": {"runAsUser": 0, "runAsNonRoot": True}})


def test_a_user_namespace_knows_no_other_users() -> None:
    assert "uid" not in spec({"securityContext": {"runAsUser": 9}}, userns=True)


def test_without_isolation_home_is_the_scratch_directory() -> None:
    made = spec(isolated=False)
    assert made["cwd"] == made["env"]["HOME"] == "/pod/containers/main/0/scratch"
