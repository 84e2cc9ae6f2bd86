"""`manta up` and `manta down` as a user runs them, without Ray: what they say, and what they leave."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from manta.cli.plane.process import plane_processes
from manta.localplane.node.cleanup import marked_processes
from manta.localplane.node.host.plane_id import interface_prefix
from support.disks import fill, small_disk

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root: namespaces and a bridge"),
]


@dataclass(frozen=True)
class Shell:
    """The `manta` command on one plane directory."""

    directory: Path

    def try_to(self, verb: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "manta.cli.main", verb, "--dir", str(self.directory)]
        environment = {k: v for k, v in os.environ.items() if k != "KUBECONFIG"}
        return subprocess.run(
            [*command, *arguments], capture_output=True, text=True, env=environment, check=False
        )

    def manta(self, verb: str, *arguments: str, code: int = 0) -> str:
        done = self.try_to(verb, *arguments)
        said = done.stdout + done.stderr
        assert done.returncode == code, said
        return said

    def remains(self) -> list[str]:
        prefix = interface_prefix(self.directory / "node")
        return [
            *(f"process {pid}" for pid in plane_processes(self.directory)),
            *(f"process {pid}" for pid in marked_processes(self.directory / "node")),
            *(name for _, name in socket.if_nameindex() if name.startswith(prefix)),
        ]


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    made = Shell(tmp_path / "one")
    try:
        yield made
    finally:
        made.manta("down", "--purge")


def remove_under_a_running_plane(directory: Path) -> None:
    """It may write a file while we remove: then once more."""
    while (directory / "node" / "network.json").exists():
        shutil.rmtree(directory, ignore_errors=True)


def says_of_a_lost_plane(shell: Shell, other: Shell, verb: str, expected: str) -> bool:
    """Whether `verb` of `other` says so of a plane whose directory was deleted.

    Any plane that starts on this machine removes the lost plane first, for example that of a test
    in another process. Then there is nothing to say, and the plane is lost again.
    """
    for _ in range(5):
        shell.manta("up")
        remove_under_a_running_plane(shell.directory)
        said = other.manta(verb)
        if expected in said and str(shell.directory) in said:
            return True
    return False


def kubernetes_address(shell: Shell) -> str:
    found = json.loads(shell.manta("get", "service", "kubernetes", "-o", "json"))
    address: str = found["spec"]["clusterIP"]
    return address


def test_the_machine_reaches_both_of_two_planes(shell: Shell, tmp_path: Path) -> None:
    other = Shell(tmp_path / "two")
    try:
        shell.manta("up")
        other.manta("up")
        addresses = [kubernetes_address(one) for one in (shell, other)]
        assert len(set(addresses)) == 2
        for address in addresses:
            socket.create_connection((address, 443), 10).close()
    finally:
        other.manta("down", "--purge")
    assert other.remains() == []


def test_a_plane_keeps_its_addresses_when_it_is_stopped_and_started(shell: Shell) -> None:
    shell.manta("up")
    before = kubernetes_address(shell)
    shell.manta("down")
    shell.manta("up")
    assert kubernetes_address(shell) == before


def test_a_plane_that_is_up_knows_the_kinds_of_ray(shell: Shell) -> None:
    """A script that applies at once has nothing to wait for."""
    shell.manta("up", "--nodes", "0")
    for kind in ("rayclusters", "rayjobs", "rayservices", "raycronjobs"):
        shell.manta("get", kind)


SLOW = """
apiVersion: v1
kind: Pod
metadata: {name: slow}
spec:
  containers:
  - name: main
    image: busybox
    command: [sh, -c, "sleep 1; touch /tmp/ready; sleep 1000"]
    readinessProbe: {exec: {command: [test, -e, /tmp/ready]}, periodSeconds: 1}
"""


def test_what_an_earlier_plane_said_is_not_believed_before_it_is_true_again(
    shell: Shell, tmp_path: Path
) -> None:
    (tmp_path / "slow.yaml").write_text(SLOW)
    shell.manta("up", "--with", str(tmp_path / "slow.yaml"))
    shell.manta("down")
    assert "ready after" in shell.manta("up", "--with", str(tmp_path / "slow.yaml"))
    shell.manta("exec", "slow", "--", "test", "-e", "/tmp/ready")


LARGE = {"apiVersion": "v1", "kind": "ConfigMap"}
"""More than the files of a store that was just written to have room for."""


def apply_until_full(shell: Shell, disk: Path, tmp_path: Path) -> subprocess.CompletedProcess[str]:
    """A plane that is at work may give back a little of what it has, right after all was taken."""
    for number in range(10):
        large = tmp_path / f"large-{number}.json"
        meta = {"name": f"large-{number}"}
        much = {"much": "x" * 900_000}
        large.write_text(json.dumps({**LARGE, "metadata": meta, "data": much}))
        fill(disk)
        done = shell.try_to("apply", "-f", str(large))
        if done.returncode:
            return done
    raise AssertionError("the disk takes ten large objects")


def test_a_plane_whose_disk_is_full_says_so_and_goes_on_when_there_is_space(
    tmp_path: Path,
) -> None:
    """X19: reads are served meanwhile, and nobody has to start the plane again."""
    (tmp_path / "slow.yaml").write_text(SLOW)
    with small_disk(tmp_path / "disk", "64m") as disk:
        shell = Shell(disk / "plane")
        try:
            shell.manta("up", "--with", str(tmp_path / "slow.yaml"))
            assert "disk is full" in apply_until_full(shell, disk, tmp_path).stderr
            # A write that failed gives back a little: the store may be well again for small ones.
            said = shell.try_to("status")
            assert said.returncode == (1 if "disk is full" in said.stdout else 0)
            assert "slow" in shell.manta("get", "pods")
            (disk / "full").unlink()
            while "disk is full" in shell.try_to("status").stdout:
                time.sleep(0.05)
            shell.manta("apply", "-f", str(tmp_path / "large-0.json"))
            shell.manta("exec", "slow", "--", "test", "-e", "/tmp/ready")
        finally:
            shell.manta("down", "--purge")


def test_services_follow_a_range_that_the_user_names(shell: Shell) -> None:
    shell.manta("up")
    shell.manta("down")
    shell.manta("up", "--service-cidr", "10.44.0.0/20", "--pod-cidr", "10.45.0.0/22")
    assert kubernetes_address(shell) == "10.44.0.1"
    shell.manta("down")
    assert shell.remains() == []


def test_a_plane_whose_directory_was_removed_is_found_and_cleared(
    shell: Shell, tmp_path: Path
) -> None:
    elsewhere = Shell(tmp_path / "elsewhere")
    assert says_of_a_lost_plane(shell, elsewhere, "doctor", "`manta down` removes them")
    assert says_of_a_lost_plane(shell, elsewhere, "down", "removed")
    assert shell.remains() == []


def test_a_plane_starts_where_an_earlier_one_lost_its_directory(shell: Shell) -> None:
    shell.manta("up")
    remove_under_a_running_plane(shell.directory)
    assert "removed the rest of" in shell.manta(
        "up"
    )  # the plane may have created the directory again
    shell.manta("down")
    assert shell.remains() == []


def test_two_that_start_the_same_plane_at_once_get_one(shell: Shell) -> None:
    command = [sys.executable, "-m", "manta.cli.main", "up", "--dir", str(shell.directory)]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    said = [one.communicate(timeout=100)[0] for one in both]
    assert [one.returncode for one in both] == [0, 0], said
    planes = [pid for pid in plane_processes(shell.directory) if "--foreground" in words(pid)]
    assert len(planes) == 1


def words(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/cmdline").read_text().split("\0")


def test_a_port_that_is_taken_is_named(shell: Shell) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said = shell.manta("up", "--port", str(port), code=2)
        assert "Address already in use" in said or "address already in use" in said
        assert str(port) in said


def test_a_directory_that_cannot_be_made_is_named() -> None:
    said = Shell(Path("/proc/nowhere")).manta("up", code=2)
    assert "--dir /proc/nowhere: " in said


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--service-cidr", "10.96.0.1/16"), "--service-cidr 10.96.0.1/16: "),
        (("--pod-cidr", "10.96.0.0/30"), "choose a prefix between /8 and /26"),
        (("--pod-cidr", "127.0.0.0/24"), "--pod-cidr 127.0.0.0/24 overlaps 127.0.0.0/8"),
        (("--nodes", "-1"), "--nodes -1: must be 0 or more"),
        (("--port", "99999"), "--port 99999: must be between 1 and 65535"),
        (("--with", "/no/such/file"), "/no/such/file"),
        (("--cpus", "0"), "--cpus 0: must be more than 0"),
        (("--memory", "lots"), "--memory lots: "),
    ],
)
def test_a_value_that_cannot_be_is_refused_in_words(
    shell: Shell, arguments: tuple[str, ...], words: str
) -> None:
    assert words in shell.manta("up", *arguments, code=2)
    assert shell.remains() == []
