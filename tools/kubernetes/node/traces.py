"""What a node changes on its machine, and taking all of it away: also what a killed run left.

Everything is found by what it is, not by what was remembered: processes with our mark in their environment,
members of the kubepods cgroups, mounts below the directory, the bridge, kube-proxy's tables. Only the kernel's
settings have to be written down before they change.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tools.kubernetes.node.configuration import BRIDGE

SETTINGS = ("net/ipv4/ip_forward", "vm/overcommit_memory", "kernel/panic", "kernel/panic_on_oops")
"""kubelet sets the last three; Pods reach each other through the first."""
MARK = "MANTA_NODE"
"""In the environment of all parts of a node: its directory."""
PLACES = ("/run/containerd", "/run/netns", "/var/lib/cni", "/var/lib/kubelet")
"""Directories that the parts create whatever their configured directories are."""
TABLES = ("ip", "ip6")
CGROUPS = Path("/sys/fs/cgroup")


class Traces:
    def __init__(self, directory: Path, env: Mapping[str, str]) -> None:
        self._dir, self._env = directory, env
        self._before = directory / "before.json"

    def another_node(self) -> str | None:
        """Why this machine is a node of somebody's already; ask after `take_away`."""
        if self._pod_groups():
            return "it has kubepods cgroups"
        if any("kube-proxy" in self._nft("list", "tables", one) for one in TABLES):
            return "it has tables of kube-proxy"
        return None

    def begin(self) -> None:
        """Write down what the node will change."""
        self._dir.mkdir(parents=True, exist_ok=True)
        self._dir.chmod(0o700)
        before = {
            "settings": {one: (Path("/proc/sys") / one).read_text() for one in SETTINGS},
            "namespaces": self._namespaces(),
            "places": [one for one in PLACES if Path(one).exists()],
        }
        self._before.write_text(json.dumps(before))
        (Path("/proc/sys") / SETTINGS[0]).write_text("1")

    def take_away(self) -> None:
        for _ in range(50):
            processes = self._processes()
            for process in processes:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
            if not processes:
                break
            time.sleep(0.1)
        self._unmount()
        subprocess.run(["ip", "link", "del", BRIDGE], check=False, stderr=subprocess.DEVNULL)
        if self._before.exists():
            self._as_before(json.loads(self._before.read_text()))
        shutil.rmtree(self._dir, ignore_errors=True)

    def _as_before(self, before: dict[str, Any]) -> None:
        for name in set(self._namespaces()) - set(before["namespaces"]):
            subprocess.run(["ip", "netns", "del", name], check=False)
        for one, text in before["settings"].items():
            (Path("/proc/sys") / one).write_text(text)
        for place in set(PLACES) - set(before["places"]):
            self._remove(Path(place))
        for family in TABLES:
            self._nft("delete", "table", family, "kube-proxy")
        for group in self._pod_groups():
            for inner in (*sorted(group.rglob("*/"), reverse=True), group):
                with contextlib.suppress(OSError):
                    inner.rmdir()

    @staticmethod
    def _remove(place: Path) -> None:
        if place.name != "netns":
            shutil.rmtree(place, ignore_errors=True)
        elif place.exists() and not any(place.iterdir()):  # others may have come to use it
            place.rmdir()

    def _processes(self) -> list[int]:
        """Parts of the node, containerd's shims, and whatever runs in its containers."""
        found: set[int] = set()
        if self._before.exists():
            for group in self._pod_groups():
                for file in group.rglob("cgroup.procs"):
                    with contextlib.suppress(OSError):
                        found.update(map(int, file.read_text().split()))
        mark = f"{MARK}={self._dir}".encode()
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                with contextlib.suppress(OSError):
                    if mark in (entry / "environ").read_bytes().split(b"\0"):
                        found.add(int(entry.name))
        return sorted(found)

    def _unmount(self) -> None:
        mounts = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
        ours = [one for one in mounts if one.startswith(f"{self._dir}/")]
        for mount in sorted(ours, reverse=True):
            subprocess.run(["umount", "-l", mount], check=False)

    @staticmethod
    def _pod_groups() -> list[Path]:
        return [*CGROUPS.glob("*/kubepods"), *CGROUPS.glob("kubepods")]

    @staticmethod
    def _namespaces() -> list[str]:
        place = Path("/run/netns")
        return [one.name for one in place.glob("cni-*")] if place.exists() else []

    def _nft(self, *arguments: str) -> str:
        done = subprocess.run(
            ["nft", *arguments], env=self._env, capture_output=True, text=True, check=False
        )
        return done.stdout
