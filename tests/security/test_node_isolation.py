"""What a Pod can and cannot do to the machine and to the plane, as root and in a user namespace."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from manta.api.meta import Key
from manta.api.resources import CONFIG_MAPS
from manta.localplane.node.host import libc
from support.nodeplane import NodePlane, a_container, node_plane, state

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root: namespaces and a bridge"),
]


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory that containers see: /tmp, where pytest's are, is their own."""
    made = Path(tempfile.mkdtemp(prefix="manta-test-", dir="/var/tmp")).resolve()
    yield made
    shutil.rmtree(made, ignore_errors=True)


@pytest.fixture(params=[False, True], ids=["root", "rootless"])
def rootless(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


async def shell(node: NodePlane, script: str) -> str:
    """What a script prints in the running Pod; its errors too."""
    return (await node.execute("bash", "-c", f"({script}) 2>&1")).strip()


# ── the plane's own directory ────────────────────────────────────────────────────────────
async def test_a_pod_does_not_see_the_planes_directory(place: Path, rootless: bool) -> None:
    """X13: with its keys, whoever may create Pods would be the cluster's administrator."""
    plane = place / "plane"
    (plane / "pki").mkdir(parents=True)
    (plane / "pki/ca.key").write_text("the key")
    async with node_plane(
        plane / "node", plane=plane, rootless=rootless, cache=place / "images"
    ) as node:
        await node.run("pod", "sleep", "1000")
        await node.until_ready()
        assert "No such file" in await shell(node, f"cat {plane}/pki/ca.key")
        assert await shell(node, f"ls -A {plane}") == ""
        for command in (f"umount {plane}", f"umount -l {plane}", f"umount -l {place} /var /"):
            await shell(node, command)
            assert "No such file" in await shell(node, f"cat {plane}/pki/ca.key")
        inner = f"unshare -Urm sh -c 'umount -l {plane}; echo tried; cat {plane}/pki/ca.key'"
        found = await shell(node, inner)
        assert "tried" in found
        assert "the key" not in found


@pytest.mark.parametrize("above", ["", ".."])
async def test_a_host_path_above_the_planes_directory_does_not_show_it(
    place: Path,
    above: str,
    rootless: bool,
) -> None:
    """X13."""
    plane = place / "plane"
    (plane / "pki").mkdir(parents=True)
    (plane / "pki/ca.key").write_text("the key")
    (place / "shared").write_text("for Pods")
    source = (place / above).resolve()
    mounts = {"volumeMounts": [{"name": "v", "mountPath": "/machine"}]}
    volumes = [{"name": "v", "hostPath": {"path": str(source)}}]
    async with node_plane(
        plane / "node", plane=plane, rootless=rootless, cache=place / "images"
    ) as node:
        await node.run("pod", "sleep", "1000", container=mounts, volumes=volumes)
        await node.until_ready()
        there = f"/machine/{place.relative_to(source)}"
        assert await shell(node, f"cat {there}/shared") == "for Pods"
        assert await shell(node, f"ls -A {there}/plane") == ""


# ── volumes ──────────────────────────────────────────────────────────────────────────────
async def test_files_of_a_config_map_cannot_be_changed_by_the_pod(
    tmp_path: Path,
    rootless: bool,
) -> None:
    """X13: a Pod that replaces `..data` makes the agent follow its link."""
    async with node_plane(tmp_path, rootless=rootless) as node:
        config = {"metadata": {"name": "cm"}, "data": {"k": "old"}}
        await node.client.create(CONFIG_MAPS, "default", config)
        container = {"volumeMounts": [{"name": "v", "mountPath": "/v"}]}
        volumes = [{"name": "v", "configMap": {"name": "cm"}}]
        await node.run("pod", "sleep", "1000", container=container, volumes=volumes)
        await node.until_ready()
        assert "Read-only file system" in await shell(node, "LC_ALL=C ln -sfn /etc /v/..data")
        await shell(node, "mount -o remount,rw,bind /v")
        assert "Read-only file system" in await shell(node, "LC_ALL=C touch /v/x")
        await node.client.patch(CONFIG_MAPS, Key("default", "cm"), {"data": {"k": "new"}})
        worker = node.agent.worker("default", "pod")
        assert worker is not None
        await worker.refresh_volumes()
        assert await shell(node, "cat /v/k") == "new"


@pytest.mark.parametrize("start", ["", "../../../../../../../.."])
async def test_a_sub_path_behind_a_link_that_leaves_the_volume_is_refused(
    tmp_path: Path,
    start: str,
    rootless: bool,
) -> None:
    """X13."""
    victim = tmp_path / "victim"
    victim.mkdir()
    goal = f"{start}{victim}"
    volumes = [{"name": "v", "emptyDir": {}}]
    init = a_container(
        "ln", "-s", goal, "/v/out", name="init", volumeMounts=[{"name": "v", "mountPath": "/v"}]
    )
    main = a_container(
        "sleep", "1000", volumeMounts=[{"name": "v", "mountPath": "/v", "subPath": "out/new"}]
    )
    async with node_plane(tmp_path / "plane", rootless=rootless) as node:
        await node.create("pod", main, volumes=volumes, initContainers=[init])
        pod = await node.until(
            lambda pod: state(pod).get("waiting", {}).get("reason") == "CreateContainerConfigError"
        )
        assert "does not stay inside" in state(pod)["waiting"]["message"]
    assert list(victim.iterdir()) == []


async def test_a_sub_path_behind_a_link_inside_the_volume_is_mounted(tmp_path: Path) -> None:
    volumes = [{"name": "v", "emptyDir": {}}]
    script = "mkdir -p /v/data && echo good > /v/data/file && ln -s data /v/link"
    init = a_container(
        "sh", "-c", script, name="init", volumeMounts=[{"name": "v", "mountPath": "/v"}]
    )
    main = a_container(
        "cat", "/m", volumeMounts=[{"name": "v", "mountPath": "/m", "subPath": "link/file"}]
    )
    async with node_plane(tmp_path) as node:
        spec = {"volumes": volumes, "initContainers": [init], "restartPolicy": "Never"}
        await node.create("pod", main, **spec)
        await node.until_phase("Succeeded")
        assert await node.logs() == "good\n"


@pytest.mark.parametrize(
    "mount_path", ["/.host{}/made", "/../../..{}/made", "relative/../..{}/made"]
)
async def test_a_mount_path_makes_nothing_on_the_machine(place: Path, mount_path: str) -> None:
    """X13: `/.host` was the machine's root while volumes were mounted."""
    (place / "victim").mkdir()
    path = mount_path.format(place / "victim")
    container = {"volumeMounts": [{"name": "v", "mountPath": path}]}
    async with node_plane(place / "plane") as node:
        spec = {"volumes": [{"name": "v", "emptyDir": {}}], "restartPolicy": "Never"}
        await node.run("pod", "true", container=container, **spec)
        await node.until_phase("Succeeded")
    assert list((place / "victim").iterdir()) == []


async def test_a_mount_behind_a_link_of_another_volume_stays_in_the_container(place: Path) -> None:
    """X13."""
    (place / "victim").mkdir()
    volumes: list[Any] = [{"name": name, "emptyDir": {}} for name in ("a", "b")]
    init = a_container(
        "sh",
        "-c",
        f"ln -s {place}/victim /a/x; ln -s ../../../../..{place}/victim /a/y",
        name="init",
        volumeMounts=[{"name": "a", "mountPath": "/a"}],
    )
    mounts = [
        {"name": "a", "mountPath": "/a"},
        {"name": "b", "mountPath": "/a/x/one"},
        {"name": "b", "mountPath": "/a/y/two"},
    ]
    async with node_plane(place / "plane") as node:
        main = a_container("true", volumeMounts=mounts)
        spec = {"volumes": volumes, "initContainers": [init], "restartPolicy": "Never"}
        await node.create("pod", main, **spec)
        await node.until_phase("Succeeded")
    assert list((place / "victim").iterdir()) == []


async def test_a_mount_over_the_whole_root_is_refused(tmp_path: Path) -> None:
    container = {"volumeMounts": [{"name": "v", "mountPath": "/"}]}
    async with node_plane(tmp_path) as node:
        spec = {"volumes": [{"name": "v", "emptyDir": {}}], "restartPolicy": "Never"}
        await node.run("pod", "true", container=container, **spec)
        pod = await node.until_phase("Failed")
        assert "would cover the container's root" in state(pod)["terminated"]["message"]


# ── rights ───────────────────────────────────────────────────────────────────────────────
async def run_with(node: NodePlane, **security: Any) -> None:
    await node.run("pod", "sleep", "1000", container={"securityContext": security})
    await node.until_ready()


def rights(status: str) -> int:
    return int(status.rsplit(maxsplit=1)[-1], 16)


SYS_ADMIN, MKNOD = 1 << 21, 1 << 27


async def test_a_container_has_no_rights_over_the_machine(tmp_path: Path, rootless: bool) -> None:
    """X13: with CAP_SYS_ADMIN what hides the plane's directory could be taken away."""
    async with node_plane(tmp_path, rootless=rootless) as node:
        await run_with(node)
        for name in ("CapEff", "CapPrm", "CapBnd", "CapInh"):
            for process in ("1", "self"):  # the container's own, and one that exec starts
                found = rights(await shell(node, f"grep {name} /proc/{process}/status"))
                assert not found & (SYS_ADMIN | MKNOD)
        assert "denied" in await shell(node, "LC_ALL=C mount -t tmpfs x /mnt")
        assert "not permitted" in await shell(node, "LC_ALL=C mknod /disk b 8 0")


@pytest.mark.parametrize(
    "path", ["/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger", "/sys/kernel/uevent_helper"]
)
async def test_settings_of_the_machine_cannot_be_written(tmp_path: Path, path: str) -> None:
    """X13: each of them runs a program as root on the machine, or stops it."""
    if not Path(path).exists():
        pytest.skip(f"this kernel has no {path}")
    async with node_plane(tmp_path) as node:
        await run_with(node)
        found = await shell(
            node, f"LC_ALL=C python3 -c \"import os; os.open('{path}', os.O_WRONLY)\""
        )
        assert "Read-only file system" in found


async def test_a_pod_gets_the_rights_that_it_asks_for(tmp_path: Path) -> None:
    async with node_plane(tmp_path) as node:
        await run_with(node, capabilities={"drop": ["ALL"], "add": ["MKNOD"]})
        assert rights(await shell(node, "grep CapEff /proc/self/status")) == MKNOD
        await node.delete(grace=0)
        await node.until_gone()
        await run_with(node, privileged=True)
        assert rights(await shell(node, "grep CapEff /proc/self/status")) & SYS_ADMIN


async def test_a_pod_can_forbid_itself_more_rights(tmp_path: Path) -> None:
    async with node_plane(tmp_path) as node:
        await run_with(node, allowPrivilegeEscalation=False)
        assert (await shell(node, "grep NoNewPrivs /proc/1/status")).split()[-1] == "1"
        assert (await shell(node, "grep NoNewPrivs /proc/self/status")).split()[-1] == "1"


async def test_shared_processes_do_not_show_the_machine(place: Path) -> None:
    """X13: the Pod's first process, which they share, has the machine's root."""
    async with node_plane(place / "plane") as node:
        await node.run("pod", "sleep", "1000", shareProcessNamespace=True)
        await node.until_ready()
        assert "denied" in await shell(node, "LC_ALL=C ls /proc/1/root/")


# ── files ────────────────────────────────────────────────────────────────────────────────
async def test_a_read_only_root_is_read_only_everywhere_but_in_volumes(tmp_path: Path) -> None:
    """X13: only `/` itself was, not the directories in it."""
    container = {
        "securityContext": {"readOnlyRootFilesystem": True},
        "volumeMounts": [{"name": "v", "mountPath": "/data/v"}],
    }
    async with node_plane(tmp_path) as node:
        volumes = [{"name": "v", "emptyDir": {}}]
        await node.run("pod", "sleep", "1000", container=container, volumes=volumes)
        await node.until_ready()
        for directory in ("", "/etc", "/usr", "/tmp", "/run", "/data"):
            assert "Read-only file system" in await shell(node, f"LC_ALL=C touch {directory}/x")
        assert await shell(node, "touch /data/v/x /dev/shm/x && echo written") == "written"


async def test_file_systems_mounted_on_the_machine_are_not_written_to(place: Path) -> None:
    """X13: an overlay shows one file system; those below it were bound with write access."""
    (place / "disk").mkdir()
    libc.mount("tmpfs", str(place / "disk"), "tmpfs")
    try:
        (place / "disk/file").write_text("of the machine")
        async with node_plane(place / "plane") as node:
            await node.run("pod", "sleep", "1000")
            await node.until_ready()
            assert await shell(node, f"cat {place}/disk/file") == "of the machine"
            assert "Read-only" in await shell(node, f"LC_ALL=C touch {place}/disk/file")
    finally:
        libc.unmount(str(place / "disk"))


async def test_the_root_of_a_container_has_the_disks_space(place: Path) -> None:
    """U15: it was 64 MB of memory."""
    async with node_plane(place / "plane") as node:
        await node.run("pod", "sleep", "1000")
        await node.until_ready()
        size = await shell(node, "stat -f -c '%b %S' /")
    blocks, unit = map(int, size.split())
    found = os.statvfs(place)
    assert blocks * unit == found.f_blocks * found.f_frsize


# ── texts that the API server takes, as Kubernetes does, and no system call can ──────────
async def test_a_nul_character_stops_only_the_pod_that_has_it(tmp_path: Path) -> None:
    """X19: in a command, a variable, a directory or a mount."""
    empty = {"volumes": [{"name": "v", "emptyDir": {}}]}
    pods: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
        "command": ("true\0", {}, {}),
        "variable": ("true", {"env": [{"name": "A", "value": "a\0b"}]}, {}),
        "directory": ("true", {"workingDir": "/a\0"}, {}),
        "mount": ("true", {"volumeMounts": [{"name": "v", "mountPath": "/a\0b"}]}, empty),
    }
    async with node_plane(tmp_path) as node:
        for name, (command, container, spec) in pods.items():
            await node.run(name, command, container=container, restartPolicy="Never", **spec)
        for name in pods:
            pod = await node.until_phase("Failed", name)
            assert state(pod)["terminated"]["reason"] == "StartError"
            assert state(pod)["terminated"]["message"]
        volumes = [{"name": "v", "hostPath": {"path": "/tmp\0"}}]
        await node.run("volume", "true", volumes=volumes)
        await node.run("pod", "sleep", "1000")
        await node.until_ready()


async def test_a_relative_mount_path_begins_at_the_containers_root(tmp_path: Path) -> None:
    """X19: the API server takes it; kubelets put a slash before it, and so does the agent."""
    container = {
        "volumeMounts": [{"name": "v", "mountPath": "rel/dir"}],
        "workingDir": "/usr",
    }
    volumes = [{"name": "v", "emptyDir": {}}]
    async with node_plane(tmp_path) as node:
        await node.run("pod", "sleep", "1000", container=container, volumes=volumes)
        await node.until_ready()
        assert "/rel/dir" in await shell(node, "cut -d' ' -f2 /proc/mounts")
        assert "No such file" in await shell(node, "ls /usr/rel")
