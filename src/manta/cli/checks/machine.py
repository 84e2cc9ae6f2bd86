"""Checks of `manta doctor` on this machine: kernel, cgroups, memory, disk, leftovers of planes."""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from manta.api.text import bytes_text
from manta.cli.checks.egress import check_egress
from manta.cli.checks.finding import Finding, Level
from manta.cli.checks.gpus import check_gpus

GIB = 1024**3


def check_kernel(_: argparse.Namespace) -> Finding:
    if platform.system() != "Linux":
        return Finding(
            Level.WARN,
            f"{platform.system()} {platform.release()}",
            "Only `manta up` needs Linux, for the namespaces of Pods: run it in a Linux virtual machine. "
            "Commands for a Kubernetes cluster work here.",
        )
    return Finding(Level.OK, f"Linux {platform.release()}, {platform.machine()}")


def check_python(_: argparse.Namespace) -> Finding:
    return Finding(Level.OK, f"{platform.python_version()} ({sys.executable})")


def check_namespaces(_: argparse.Namespace) -> Finding:
    """Create the namespaces of a Pod in a child process."""
    if os.geteuid() == 0:
        flags, who = "os.CLONE_NEWNET | os.CLONE_NEWNS | os.CLONE_NEWPID", "root"
    else:
        flags, who = "os.CLONE_NEWUSER | os.CLONE_NEWNET | os.CLONE_NEWNS", "user namespace"
    outcome = subprocess.run(  # noqa: S603 - our own interpreter
        [sys.executable, "-c", _UNSHARE.format(flags=flags)],
        capture_output=True,
        text=True,
        check=False,
    )
    if outcome.returncode == 0:
        return Finding(Level.OK, f"network, mount and pid namespaces work ({who})")
    return Finding(
        Level.FAIL,
        f"cannot create namespaces ({who}): {outcome.stderr.strip()}",
        "Run as root, or allow user namespaces: `sysctl kernel.unprivileged_userns_clone=1`; on "
        "Ubuntu 24.04 and newer `sysctl kernel.apparmor_restrict_unprivileged_userns=0`. In a "
        "container, run it privileged.",
    )


# os.unshare exists from Python 3.12 on; this works on older versions too.
_UNSHARE = """
import ctypes, os, sys
class os_flags: CLONE_NEWNS=0x20000; CLONE_NEWUSER=0x10000000; CLONE_NEWPID=0x20000000; CLONE_NEWNET=0x40000000
os_, os = os, os_flags
libc = ctypes.CDLL(None, use_errno=True)
if libc.unshare({flags}):
    sys.exit(os_.strerror(ctypes.get_errno()))
"""


def check_cgroups(_: argparse.Namespace) -> Finding:
    root = Path("/sys/fs/cgroup")
    controllers = root / "cgroup.controllers"
    if controllers.exists():
        names = controllers.read_text().split()
        found = f"v2 with {', '.join(names) or 'no controllers'}"
        usable = "memory" in names and os.access(root, os.W_OK)
    else:
        found, usable = "v1", os.access(root / "memory", os.W_OK)
    if usable:
        return Finding(Level.OK, found)
    return Finding(
        Level.WARN,
        f"{found}, not writable",
        "Pods run without memory and CPU limits. Run as root, or delegate a cgroup to your user "
        "(`systemd-run --user --scope -p Delegate=yes manta up`).",
    )


def check_memory(_: argparse.Namespace) -> Finding:
    available = _meminfo("MemAvailable")
    if available is None:
        return Finding(Level.WARN, "cannot read /proc/meminfo")
    if available < 2 * GIB:
        return Finding(
            Level.FAIL,
            f"{bytes_text(available)} free",
            "A Ray head takes 0.7 to 1.1 GiB and a worker 0.3 GiB: free some memory first.",
        )
    return Finding(Level.OK, f"{bytes_text(available)} free, {os.cpu_count()} cores")


def _meminfo(field: str) -> int | None:
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return None
    found = [line for line in lines if line.startswith(f"{field}:")]
    return int(found[0].split()[1]) * 1024 if found else None


def check_disk(args: argparse.Namespace) -> Finding:
    place = args.dir
    while not place.exists():
        place = place.parent
    free = shutil.disk_usage(place).free
    if free < 2 * GIB:
        return Finding(
            Level.FAIL,
            f"{bytes_text(free)} free at {place}",
            "One Ray environment takes 0.3 to 1 GiB: free some space, or choose another --dir.",
        )
    return Finding(Level.OK, f"{bytes_text(free)} free at {place}")


def check_port(args: argparse.Namespace) -> Finding:
    if not args.port:
        return Finding(Level.OK, "any free port")
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", args.port))
        except OSError as error:
            return Finding(
                Level.FAIL,
                f"{args.port}: {error.strerror}",
                "Stop the program that uses it, or choose another --port.",
            )
    return Finding(Level.OK, f"{args.port} is free")


def check_leftovers(args: argparse.Namespace) -> Finding:
    """Planes whose directory was deleted: their bridge and processes may still exist."""
    from manta.cli.plane.cleanup import left_processes, lost_directories
    from manta.cli.plane.process import read_record

    lost = [str(directory) for directory in lost_directories()]
    if read_record(args.dir) is None and left_processes(args.dir.resolve()):
        lost.append(str(args.dir))
    if not lost:
        return Finding(Level.OK, "none of earlier planes")
    return Finding(
        Level.WARN,
        f"processes or interfaces of deleted planes: {', '.join(lost)}",
        "`manta down` removes them; the next `manta up` does so too.",
    )


def check_tools(_: argparse.Namespace) -> Finding:
    present = [name for name in ("kubectl", "helm", "redis-server") if shutil.which(name)]
    if "kubectl" in present:
        return Finding(Level.OK, ", ".join(present))
    return Finding(
        Level.WARN,
        ", ".join(present) or "no kubectl",
        "kubectl is optional: manta get, apply, delete, logs and exec replace it.",
    )


MACHINE_CHECKS: tuple[tuple[str, Callable[[argparse.Namespace], Finding]], ...] = (
    ("kernel", check_kernel),
    ("python", check_python),
    ("namespaces", check_namespaces),
    ("egress", check_egress),
    ("cgroups", check_cgroups),
    ("memory", check_memory),
    ("disk", check_disk),
    ("port", check_port),
    ("leftovers", check_leftovers),
    ("gpus", check_gpus),
    ("tools", check_tools),
)
CLIENT_CHECKS = tuple(one for one in MACHINE_CHECKS if one[0] in ("kernel", "python", "tools"))


def check_machine(args: argparse.Namespace) -> list[tuple[str, Finding]]:
    """What `manta up` needs; where there is no Linux, what a client needs."""
    checks = MACHINE_CHECKS if platform.system() == "Linux" else CLIENT_CHECKS
    return [(name, check(args)) for name, check in checks]
