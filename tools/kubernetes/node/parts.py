"""The parts of a node, started in order: control plane, containerd, kubelet, DNS, kube-proxy."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from tools.kubernetes.node import configuration
from tools.kubernetes.node.configuration import (
    ADDRESS,
    BRIDGE,
    FIRST_SERVICE,
    NODE,
    PODS,
    SERVICES,
    socket_of,
)
from tools.kubernetes.node.traces import MARK
from tools.kubernetes.run import HERE as PLANE
from tools.kubernetes.run import Authority, await_ready, free_port, running

IMAGES = ("pause.tar", "operator.tar", "redis.tar", "ray.tar")
RAY = "docker.io/rayproject/ray:2.60.0"
PATIENCE = 120


def environment(directory: Path, cache: Path, binaries: Path) -> dict[str, str]:
    """For the parts: what `prepare.sh` unpacked comes first."""
    unpacked = cache / "root"
    paths = [cache / "bin", binaries, *(unpacked / one for one in ("usr/bin", "usr/sbin", "bin"))]
    root = PLANE.parent.parent
    return {
        **os.environ,
        "PATH": os.pathsep.join([*map(str, paths), os.environ["PATH"]]),
        "LD_LIBRARY_PATH": str(unpacked / "usr/lib/x86_64-linux-gnu"),
        "PYTHONPATH": os.pathsep.join([str(root), str(root / "src")]),
        MARK: str(directory),
    }


class ImageStore:
    """Unpacked images, kept from run to run while every run closed what it opened."""

    def __init__(self, cache: Path) -> None:
        self.place, self._closed = cache / "containerd", cache / "containerd.closed"
        self._cache = cache

    def archives(self) -> dict[str, int]:
        paths = (self._cache / one for one in IMAGES)
        return {str(path): path.stat().st_mtime_ns for path in paths}

    def open(self) -> dict[str, int]:
        """The archives that it holds."""
        held: dict[str, int] = {}
        if self._closed.exists():
            held = json.loads(self._closed.read_text())
            self._closed.unlink()
        else:
            shutil.rmtree(self.place, ignore_errors=True)
        return held

    def close(self) -> None:
        self._closed.write_text(json.dumps(self.archives()))


class Node:
    def __init__(self, stack: ExitStack, directory: Path, cache: Path, env: dict[str, str]) -> None:
        self.dir = directory
        self._stack, self._cache, self._env = stack, cache, env
        self._authority = Authority(directory / "pki")
        self._url = f"https://{ADDRESS}:{free_port()}"
        self.admin = self._kubeconfig("admin", "admin", "system:masters")

    def start(self) -> None:
        self.run("ip", "link", "add", BRIDGE, "type", "bridge")
        self.run("ip", "addr", "add", f"{ADDRESS}/24", "dev", BRIDGE)
        self.run("ip", "link", "set", BRIDGE, "up")
        self._control_plane()
        self._containers()
        self._kubelet()
        self._names_and_services()
        path = "jsonpath={.status.conditions[?(@.type=='Ready')].status}"
        self._until(lambda: self.kubectl("get", "node", NODE, "-o", path) == "True", "kubelet")
        account = ("get", "serviceaccount", "default", "-o", "name")
        self._until(lambda: self.kubectl(*account), "kube-controller-manager")
        self._volumes()

    def run(self, *command: str, check: bool = True) -> str:
        done = subprocess.run(
            command, env=self._env, capture_output=True, text=True, check=False, timeout=300
        )
        if check and done.returncode:
            raise RuntimeError(f"{' '.join(command)}: {done.stderr[-2000:]}")
        return done.stdout

    def kubectl(self, *arguments: str, check: bool = False) -> str:
        return self.run("kubectl", f"--kubeconfig={self.admin}", *arguments, check=check)

    def empty(self) -> None:
        """The kubelet ends the Pods itself, as far as it can: it knows best how."""
        self.kubectl("delete", "pods", "--all", "-A", "--grace-period=0", "--force")
        deadline = time.monotonic() + 20
        while self._ctr("-n", "k8s.io", "tasks", "ls", "-q") and time.monotonic() < deadline:
            time.sleep(0.25)

    def _begin(self, name: str, *command: str) -> None:
        self._stack.enter_context(running(self.dir, name, list(command), self._env))

    def _until(self, done: Callable[[], object], part: str) -> None:
        deadline = time.monotonic() + PATIENCE
        while not done():
            if time.monotonic() > deadline:
                log = (self.dir / f"{part}.log").read_text(errors="replace")
                raise RuntimeError(f"not ready within {PATIENCE} s: {part}\n{log[-3000:]}")
            time.sleep(0.25)

    def _kubeconfig(self, name: str, user: str, group: str = "") -> Path:
        return self._authority.kubeconfig(name, self._url, group=group, user=user)

    # ── control plane ────────────────────────────────────────────────────────────────────

    def _control_plane(self) -> None:
        pki = self.dir / "pki"
        self._authority.issue("apiserver", addresses=(ADDRESS, FIRST_SERVICE))
        self._authority.issue("to-kubelet", group="system:masters")
        self._authority.service_account_keys()
        etcd, peer = (f"http://127.0.0.1:{free_port()}" for _ in range(2))
        self._begin(
            *("etcd", "etcd", f"--data-dir={self.dir}/etcd", f"--listen-peer-urls={peer}"),
            *(f"--listen-client-urls={etcd}", f"--advertise-client-urls={etcd}"),
        )
        self._begin("kube-apiserver", *self._apiserver(pki, etcd))
        await_ready(self._url, self._authority, self.dir)
        self._managers(pki)

    def _apiserver(self, pki: Path, etcd: str) -> list[str]:
        return [
            "kube-apiserver",
            f"--etcd-servers={etcd}",
            f"--bind-address={ADDRESS}",
            f"--advertise-address={ADDRESS}",
            f"--secure-port={self._url.rpartition(':')[2]}",
            f"--client-ca-file={pki}/ca.crt",
            f"--tls-cert-file={pki}/apiserver.crt",
            f"--tls-private-key-file={pki}/apiserver.key",
            f"--kubelet-client-certificate={pki}/to-kubelet.crt",
            f"--kubelet-client-key={pki}/to-kubelet.key",
            f"--kubelet-certificate-authority={pki}/ca.crt",
            "--kubelet-preferred-address-types=InternalIP",
            "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
            f"--service-account-key-file={pki}/sa.pub",
            f"--service-account-signing-key-file={pki}/sa.key",
            "--authorization-mode=Node,RBAC",
            "--enable-admission-plugins=NodeRestriction",
            f"--service-cluster-ip-range={SERVICES}",
            "--allow-privileged=true",
            f"--cert-dir={pki}/apiserver",
        ]

    def _managers(self, pki: Path) -> None:
        local = ("--bind-address=127.0.0.1", "--leader-elect=false")
        manager = self._kubeconfig("manager", "system:kube-controller-manager")
        self._begin(
            "kube-controller-manager",
            *("kube-controller-manager", f"--kubeconfig={manager}"),
            *(f"--secure-port={free_port()}", f"--cert-dir={pki}/manager", *local),
            f"--service-account-private-key-file={pki}/sa.key",
            f"--root-ca-file={pki}/ca.crt",
            "--use-service-account-credentials",
            f"--cluster-cidr={PODS}",
            "--allocate-node-cidrs=false",
        )
        scheduler = self._kubeconfig("scheduler", "system:kube-scheduler")
        self._begin(
            "kube-scheduler",
            *("kube-scheduler", f"--kubeconfig={scheduler}"),
            *(f"--secure-port={free_port()}", f"--cert-dir={pki}/scheduler", *local),
        )

    # ── node ─────────────────────────────────────────────────────────────────────────────

    def _containers(self) -> None:
        (self.dir / "cni").mkdir(exist_ok=True)
        network = json.dumps(configuration.network(self.dir))
        (self.dir / "cni/10-manta.conflist").write_text(network)
        settings = self.dir / "containerd.toml"
        store = ImageStore(self._cache)
        imported = store.open()
        text = configuration.containerd(self.dir, store.place, self._cache / "root")
        settings.write_text(text)
        self._begin("containerd", "containerd", "--config", str(settings))
        self._until(lambda: self._ctr("version"), "containerd")
        for archive, made in store.archives().items():
            if imported.get(archive) != made:
                self._ctr("-n", "k8s.io", "images", "import", archive, check=True)
        tag = ("images", "tag", "--force", RAY, f"{RAY}-py311")
        self._ctr("-n", "k8s.io", *tag, check=True)
        self._stack.callback(store.close)
        self._stack.callback(self._end_containers)

    def _ctr(self, *arguments: str, check: bool = False) -> str:
        return self.run("ctr", "-a", str(socket_of(self.dir)), *arguments, check=check)

    def _end_containers(self) -> None:
        for task in self._ctr("-n", "k8s.io", "tasks", "ls", "-q").split():
            self._ctr("-n", "k8s.io", "tasks", "kill", "-s", "9", "-a", task)
            self._ctr("-n", "k8s.io", "tasks", "rm", "-f", task)
        for container in self._ctr("-n", "k8s.io", "containers", "ls", "-q").split():
            self._ctr("-n", "k8s.io", "containers", "rm", container)

    def _kubelet(self) -> None:
        self._authority.issue("kubelet-server", user=NODE, addresses=(ADDRESS,))
        kubeconfig = self._kubeconfig("kubelet", f"system:node:{NODE}", "system:nodes")
        (self.dir / "resolv.conf").write_text("")
        settings = self.dir / "kubelet.json"
        settings.write_text(json.dumps(configuration.kubelet(self.dir)))
        self._begin(
            *("kubelet", "kubelet", f"--config={settings}", f"--kubeconfig={kubeconfig}"),
            *(f"--hostname-override={NODE}", f"--node-ip={ADDRESS}"),
            *(f"--root-dir={self.dir}/kubelet", f"--cert-dir={self.dir}/kubelet/pki"),
        )

    def _volumes(self) -> None:
        """Nothing makes volumes on demand here: claims find some that are there already."""
        for number in range(configuration.VOLUMES):
            place = self.dir / f"volumes/{number}"
            place.mkdir(parents=True)
            place.chmod(0o777)
        document = self.dir / "volumes.json"
        document.write_text(json.dumps(configuration.volumes(self.dir / "volumes")))
        self.kubectl("apply", "-f", str(document), check=True)

    def _names_and_services(self) -> None:
        dns = "tools.kubernetes.node.dns"
        self._begin("dns", sys.executable, "-m", dns, str(self.admin), ADDRESS)
        settings = self.dir / "proxy.json"
        kubeconfig = self._kubeconfig("proxy", "system:kube-proxy")
        settings.write_text(json.dumps(configuration.proxy(kubeconfig)))
        self._begin("kube-proxy", "kube-proxy", f"--config={settings}")
