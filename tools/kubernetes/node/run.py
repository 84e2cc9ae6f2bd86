"""Run a command beside a whole Kubernetes node, with real containers: root, Linux, nothing installed.

    python -m tools.kubernetes.node.run -- COMMAND ...
    python -m tools.kubernetes.node.run --clean

Starts etcd, kube-apiserver, kube-controller-manager, kube-scheduler, containerd, kubelet, kube-proxy and a DNS
server on a bridge of its own, imports the images that `prepare.sh` made, and takes all of it away at the end.
The command gets KUBECONFIG. Logs of the last run stay in the cache. --clean takes away what a run left that was
killed; the next run does so by itself.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tools.kubernetes.node.parts import Node, environment
from tools.kubernetes.node.traces import Traces
from tools.kubernetes.run import HERE as PLANE

HERE = Path(__file__).parent
DIRECTORY = Path("/var/lib/manta-node")


def printed_by(script: Path) -> Path:
    done = subprocess.run(["bash", str(script)], stdout=subprocess.PIPE, text=True, check=True)
    return Path(done.stdout.strip().splitlines()[-1])


@contextmanager
def alone(cache: Path) -> Iterator[None]:
    """A machine has one node at most: names and cgroups are fixed."""
    with (cache / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            sys.exit("another node runs on this machine")
        yield


def keep_logs(cache: Path) -> None:
    kept = cache / "logs"
    shutil.rmtree(kept, ignore_errors=True)
    kept.mkdir()
    for log in DIRECTORY.glob("*.log"):
        shutil.copy(log, kept)
    if (DIRECTORY / "pod-logs").exists():
        shutil.copytree(DIRECTORY / "pod-logs", kept / "pods")


def with_node(traces: Traces, cache: Path, env: dict[str, str], command: list[str]) -> int:
    with ExitStack() as stack:
        stack.callback(traces.take_away)
        traces.begin()
        stack.callback(keep_logs, cache)
        node = Node(stack, DIRECTORY, cache, env)
        node.start()
        stack.callback(node.empty)
        given = {**os.environ, "PATH": env["PATH"], "KUBECONFIG": str(node.admin)}
        return subprocess.run(command, env=given, check=False).returncode


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--clean", action="store_true", help="only take away what a run left")
    parser.add_argument("command", nargs="*")
    args = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("a node needs root: namespaces, cgroups and a bridge")
    binaries, cache = printed_by(PLANE / "build.sh"), printed_by(HERE / "prepare.sh")
    env = environment(DIRECTORY, cache, binaries)
    traces = Traces(DIRECTORY, env)
    with alone(cache):
        traces.take_away()
        if args.clean or not args.command:
            return 0
        if why := traces.another_node():
            sys.exit(f"this machine is a node of somebody's already: {why}")
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
        return with_node(traces, cache, env, args.command)


if __name__ == "__main__":
    sys.exit(main())
