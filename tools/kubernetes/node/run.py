"""Run a command beside a whole Kubernetes node, with real containers: root, Linux, nothing installed.

    python -m tools.kubernetes.node.run [--dir DIR] -- COMMAND ...

Starts etcd, kube-apiserver, kube-controller-manager, kube-scheduler, containerd, kubelet, kube-proxy and a DNS
server on a bridge of its own, imports the image that `prepare.sh` made, and takes all of it away at the end.
The command gets KUBECONFIG.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tools.kubernetes.run import HERE as PLANE
from tools.kubernetes.run import Authority, await_ready, free_port, running

HERE = Path(__file__).parent
ADDRESS, BRIDGE, NODE = "10.77.0.1", "mantak8s0", "node1"
PODS, SERVICES, FIRST_SERVICE = "10.77.0.0/24", "10.97.0.0/16", "10.97.0.1"
SYSCTLS = ("net/ipv4/ip_forward", "vm/overcommit_memory", "kernel/panic", "kernel/panic_on_oops")
IMAGES = {"docker.io/rayproject/ray:2.60.0": "docker.io/manta/operator:e2e"}
"""The image of Ray holds Manta too."""
PATIENCE = 120


class Node:
    def __init__(self, stack: ExitStack, directory: Path, cache: Path, binaries: Path) -> None:
        self.stack, self.dir, self.cache, self.binaries = stack, directory, cache, binaries
        self.socket = directory / "containerd.sock"
        unpacked = cache / "root"
        paths = [
            cache / "bin",
            binaries,
            *(unpacked / one for one in ("usr/bin", "usr/sbin", "bin")),
        ]
        libraries = unpacked / "usr/lib/x86_64-linux-gnu"
        self.env = {
            **os.environ,
            "PATH": os.pathsep.join([*map(str, paths), os.environ["PATH"]]),
            "LD_LIBRARY_PATH": str(libraries),
        }
        self.authority = Authority(directory / "pki")
        self.url = f"https://{ADDRESS}:{free_port()}"

    def start(self, name: str, *command: str) -> None:
        self.stack.enter_context(running(self.dir, name, list(command), self.env))

    def run(self, *command: str, check: bool = True) -> str:
        done = subprocess.run(
            command, env=self.env, capture_output=True, text=True, check=False, timeout=300
        )
        if check and done.returncode:
            raise RuntimeError(f"{' '.join(command)}: {done.stderr[-2000:]}")
        return done.stdout

    def kubeconfig(self, name: str, user: str, group: str = "") -> Path:
        return self.authority.kubeconfig(name, self.url, group=group, user=user)

    # ── the parts, in order ──────────────────────────────────────────────────────────────

    def control_plane(self) -> Path:
        pki, port = self.dir / "pki", self.url.rpartition(":")[2]
        self.authority.issue("apiserver", addresses=(ADDRESS, FIRST_SERVICE))
        self.authority.issue("to-kubelet", group="system:masters")
        self.authority.service_account_keys()
        admin = self.kubeconfig("admin", "admin", "system:masters")
        etcd, peer = (f"http://127.0.0.1:{free_port()}" for _ in range(2))
        self.start(
            "etcd",
            str(self.binaries / "etcd"),
            f"--data-dir={self.dir}/etcd",
            f"--listen-client-urls={etcd}",
            f"--advertise-client-urls={etcd}",
            f"--listen-peer-urls={peer}",
        )
        self.start(
            "kube-apiserver",
            str(self.binaries / "kube-apiserver"),
            f"--etcd-servers={etcd}",
            f"--bind-address={ADDRESS}",
            f"--advertise-address={ADDRESS}",
            f"--secure-port={port}",
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
        )
        await_ready(self.url, self.authority, self.dir)
        self._managers(pki)
        return admin

    def _managers(self, pki: Path) -> None:
        manager = self.kubeconfig("manager", "system:kube-controller-manager")
        scheduler = self.kubeconfig("scheduler", "system:kube-scheduler")
        local = ("--bind-address=127.0.0.1", "--leader-elect=false")
        self.start(
            "kube-controller-manager",
            str(self.binaries / "kube-controller-manager"),
            f"--kubeconfig={manager}",
            f"--service-account-private-key-file={pki}/sa.key",
            f"--root-ca-file={pki}/ca.crt",
            "--use-service-account-credentials",
            f"--secure-port={free_port()}",
            f"--cluster-cidr={PODS}",
            "--allocate-node-cidrs=false",
            f"--cert-dir={pki}/manager",
            *local,
        )
        self.start(
            "kube-scheduler",
            str(self.binaries / "kube-scheduler"),
            f"--kubeconfig={scheduler}",
            f"--secure-port={free_port()}",
            f"--cert-dir={pki}/scheduler",
            *local,
        )

    def containers(self) -> None:
        (self.dir / "cni").mkdir(exist_ok=True)
        (self.dir / "cni/10-manta.conflist").write_text(json.dumps(self._network()))
        (self.dir / "containerd.toml").write_text(self._containerd())
        self.start("containerd", "containerd", "--config", str(self.dir / "containerd.toml"))
        self.stack.callback(self._end_containers)
        self.until(lambda: self._ctr("version"), "containerd")
        for archive in ("pause.tar", "ray.tar"):
            self._ctr("-n", "k8s.io", "images", "import", str(self.cache / archive), check=True)
        for name, other in IMAGES.items():
            self._ctr("-n", "k8s.io", "images", "tag", "--force", name, other, check=True)

    def _ctr(self, *arguments: str, check: bool = False) -> str:
        return self.run("ctr", "-a", str(self.socket), *arguments, check=check)

    def _network(self) -> dict[str, object]:
        reach = {
            "subnet": PODS,
            "rangeStart": "10.77.0.10",
            "rangeEnd": "10.77.0.250",
            "gateway": ADDRESS,
        }
        addresses = {
            "type": "host-local",
            "dataDir": str(self.dir / "cni-state"),
            "ranges": [[reach]],
            "routes": [{"dst": "0.0.0.0/0"}],
        }
        bridge = {
            "type": "bridge",
            "bridge": BRIDGE,
            "isGateway": True,
            "hairpinMode": True,
            "ipMasq": False,
            "ipam": addresses,
        }
        return {"cniVersion": "0.4.0", "name": "manta", "plugins": [bridge]}

    def _containerd(self) -> str:
        return f"""version = 2
root = "{self.dir}/containerd"
state = "{self.dir}/containerd-state"
disabled_plugins = ["io.containerd.internal.v1.opt", "io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.zfs", "io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.devmapper"]
[grpc]
  address = "{self.socket}"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "registry.k8s.io/pause:3.10"
  restrict_oom_score_adj = true
  disable_apparmor = true
  stream_server_address = "127.0.0.1"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{self.cache}/root/usr/lib/cni"
    conf_dir = "{self.dir}/cni"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      SystemdCgroup = false
      BinaryName = "{self.cache}/root/usr/sbin/runc"
"""

    def kubelet(self) -> None:
        self.authority.issue("kubelet-server", user=NODE, addresses=(ADDRESS,))
        kubeconfig = self.kubeconfig("kubelet", f"system:node:{NODE}", "system:nodes")
        (self.dir / "resolv.conf").write_text("")
        (self.dir / "kubelet.json").write_text(json.dumps(self._kubelet()))
        self.start(
            "kubelet",
            "kubelet",
            f"--config={self.dir}/kubelet.json",
            f"--kubeconfig={kubeconfig}",
            f"--hostname-override={NODE}",
            f"--node-ip={ADDRESS}",
            f"--root-dir={self.dir}/kubelet",
            f"--cert-dir={self.dir}/kubelet/pki",
        )

    def _kubelet(self) -> dict[str, object]:
        pki = self.dir / "pki"
        return {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "failCgroupV1": False,
            "cgroupDriver": "cgroupfs",
            "failSwapOn": False,
            "address": ADDRESS,
            "port": free_port(),
            "healthzPort": free_port(),
            "authentication": {
                "anonymous": {"enabled": False},
                "webhook": {"enabled": True},
                "x509": {"clientCAFile": str(pki / "ca.crt")},
            },
            "authorization": {"mode": "Webhook"},
            "tlsCertFile": str(pki / "kubelet-server.crt"),
            "tlsPrivateKeyFile": str(pki / "kubelet-server.key"),
            "clusterDomain": "cluster.local",
            "clusterDNS": [ADDRESS],
            "resolvConf": str(self.dir / "resolv.conf"),
            "containerRuntimeEndpoint": f"unix://{self.socket}",
            "imageGCHighThresholdPercent": 100,  # nothing could be pulled again
            "imageGCLowThresholdPercent": 99,
            "evictionHard": {
                "memory.available": "100Mi",
                "nodefs.available": "1%",
                "imagefs.available": "1%",
            },
            "oomScoreAdj": 0,
            "volumePluginDir": str(self.dir / "kubelet/plugins-exec"),
            "podLogsDir": str(self.dir / "pod-logs"),
            "makeIPTablesUtilChains": False,
        }

    def network(self, admin: Path) -> None:
        root = PLANE.parent.parent
        self.env["PYTHONPATH"] = os.pathsep.join([str(root), str(root / "src")])
        dns = "tools.kubernetes.node.dns"
        self.start("dns", sys.executable, "-m", dns, str(admin), ADDRESS)
        proxy = {
            "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
            "kind": "KubeProxyConfiguration",
            "mode": "nftables",
            "clientConnection": {"kubeconfig": str(self.kubeconfig("proxy", "system:kube-proxy"))},
            "hostnameOverride": NODE,
            "clusterCIDR": PODS,
            "bindAddress": ADDRESS,
            "healthzBindAddress": f"127.0.0.1:{free_port()}",
            "metricsBindAddress": f"127.0.0.1:{free_port()}",
            "nodePortAddresses": [f"{ADDRESS}/32"],
            "conntrack": {"maxPerCore": 0, "min": 0},
        }
        (self.dir / "proxy.json").write_text(json.dumps(proxy))
        self.stack.callback(self._end_proxy)
        self.start("kube-proxy", "kube-proxy", f"--config={self.dir}/proxy.json")

    def until(self, done: Callable[[], object], what: str) -> None:
        deadline = time.monotonic() + PATIENCE
        while not done():
            if time.monotonic() > deadline:
                raise RuntimeError(f"{what} was not ready within {PATIENCE} s: see {self.dir}")
            time.sleep(0.25)

    # ── taking it away ───────────────────────────────────────────────────────────────────

    def empty(self, admin: Path) -> None:
        """No Pod outlives the kubelet that knows how to stop it."""
        kubectl = ("kubectl", f"--kubeconfig={admin}", "delete", "pods", "--all", "-A")
        self.run(*kubectl, "--grace-period=0", "--force", check=False)
        time.sleep(3)

    def _end_containers(self) -> None:
        for task in self._ctr("-n", "k8s.io", "tasks", "ls", "-q").split():
            self._ctr("-n", "k8s.io", "tasks", "kill", "-s", "9", "-a", task)
            self._ctr("-n", "k8s.io", "tasks", "rm", "-f", task)
        for container in self._ctr("-n", "k8s.io", "containers", "ls", "-q").split():
            self._ctr("-n", "k8s.io", "containers", "rm", container)

    def _end_proxy(self) -> None:
        for family in ("ip", "ip6"):
            self.run("nft", "delete", "table", family, "kube-proxy", check=False)


@contextmanager
def bridge() -> Iterator[None]:
    subprocess.run(["ip", "link", "add", BRIDGE, "type", "bridge"], check=True)
    try:
        subprocess.run(["ip", "addr", "add", f"{ADDRESS}/24", "dev", BRIDGE], check=True)
        subprocess.run(["ip", "link", "set", BRIDGE, "up"], check=True)
        yield
    finally:
        subprocess.run(["ip", "link", "del", BRIDGE], check=False)


@contextmanager
def sysctls() -> Iterator[None]:
    """The kubelet sets some, and forwarding is needed: all are put back."""
    paths = [Path("/proc/sys") / one for one in SYSCTLS]
    before = [path.read_text() for path in paths]
    try:
        paths[0].write_text("1")
        yield
    finally:
        for path, text in zip(paths, before, strict=True):
            path.write_text(text)


def clear(directory: Path) -> None:
    """Mounts and cgroups that containers leave behind."""
    mounts = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
    for mount in sorted((one for one in mounts if one.startswith(f"{directory}/")), reverse=True):
        subprocess.run(["umount", "-l", mount], check=False)
    for group in Path("/sys/fs/cgroup").glob("*/kubepods"):
        for place in sorted(group.rglob("*/"), reverse=True):
            with contextlib.suppress(OSError):
                place.rmdir()
        with contextlib.suppress(OSError):
            group.rmdir()


def printed_by(script: Path) -> Path:
    done = subprocess.run(["bash", str(script)], stdout=subprocess.PIPE, text=True, check=True)
    return Path(done.stdout.strip().splitlines()[-1])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--dir", type=Path, help="keep certificates, data and logs here")
    parser.add_argument("command", nargs="+")
    args = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("a node needs root: namespaces, cgroups and a bridge")
    binaries, cache = printed_by(PLANE / "build.sh"), printed_by(HERE / "prepare.sh")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with ExitStack() as stack:
        directory = (args.dir or Path(tempfile.mkdtemp(prefix="manta-node-"))).resolve()
        directory.mkdir(parents=True, exist_ok=True)
        if args.dir is None:
            stack.callback(shutil.rmtree, directory, ignore_errors=True)
        stack.callback(clear, directory)
        stack.enter_context(sysctls())
        stack.enter_context(bridge())
        node = Node(stack, directory, cache, binaries)
        admin = node.control_plane()
        node.containers()
        node.kubelet()
        node.network(admin)
        stack.callback(node.empty, admin)
        ready = ("kubectl", f"--kubeconfig={admin}", "get", "node", NODE, "-o")
        path = "jsonpath={.status.conditions[?(@.type=='Ready')].status}"
        node.until(lambda: node.run(*ready, path, check=False) == "True", "the node")
        environment = {**node.env, "KUBECONFIG": str(admin)}
        environment.pop("LD_LIBRARY_PATH")
        return subprocess.run(args.command, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
