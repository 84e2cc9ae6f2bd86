"""Configuration of the parts of a node: containerd, its network, kubelet and kube-proxy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tools.kubernetes.run import free_port

ADDRESS, BRIDGE, NODE = "10.77.0.1", "mantak8s0", "node1"
PODS, SERVICES, FIRST_SERVICE = "10.77.0.0/24", "10.97.0.0/16", "10.97.0.1"
PAUSE = "registry.k8s.io/pause:3.10"
VOLUMES = 20
Json = dict[str, Any]


def socket_of(directory: Path) -> Path:
    return directory / "containerd.sock"


def containerd(directory: Path, store: Path, unpacked: Path) -> str:
    kept_out = ", ".join(
        f'"io.containerd.{one}"'
        for one in (
            "internal.v1.opt",
            "snapshotter.v1.aufs",
            "snapshotter.v1.btrfs",
            "snapshotter.v1.devmapper",
            "snapshotter.v1.zfs",
        )
    )
    cri = 'plugins."io.containerd.grpc.v1.cri"'
    return f"""version = 2
root = "{store}"
state = "{directory}/containerd-state"
disabled_plugins = [{kept_out}]
[grpc]
  address = "{socket_of(directory)}"
[{cri}]
  sandbox_image = "{PAUSE}"
  restrict_oom_score_adj = true
  disable_apparmor = true
  stream_server_address = "127.0.0.1"
[{cri}.cni]
  bin_dir = "{unpacked}/usr/lib/cni"
  conf_dir = "{directory}/cni"
[{cri}.containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
[{cri}.containerd.runtimes.runc.options]
  SystemdCgroup = false
  BinaryName = "{unpacked}/usr/sbin/runc"
"""


def network(directory: Path) -> Json:
    """The bridge that exists already; Pods get addresses of its network."""
    addresses = {
        "type": "host-local",
        "dataDir": str(directory / "cni-state"),
        "ranges": [
            [
                {
                    "subnet": PODS,
                    "rangeStart": "10.77.0.10",
                    "rangeEnd": "10.77.0.250",
                    "gateway": ADDRESS,
                }
            ]
        ],
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


def kubelet(directory: Path) -> Json:
    pki = directory / "pki"
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
        "resolvConf": str(directory / "resolv.conf"),
        "containerRuntimeEndpoint": f"unix://{socket_of(directory)}",
        "imageGCHighThresholdPercent": 100,  # nothing could be pulled again
        "imageGCLowThresholdPercent": 99,
        "evictionHard": {
            "memory.available": "100Mi",
            "nodefs.available": "1%",
            "imagefs.available": "1%",
        },
        "oomScoreAdj": 0,
        "volumePluginDir": str(directory / "kubelet/plugins-exec"),
        "podLogsDir": str(directory / "pod-logs"),
        "makeIPTablesUtilChains": False,
    }


def proxy(kubeconfig: Path) -> Json:
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "nftables",
        "clientConnection": {"kubeconfig": str(kubeconfig)},
        "hostnameOverride": NODE,
        "clusterCIDR": PODS,
        "bindAddress": ADDRESS,
        "healthzBindAddress": f"127.0.0.1:{free_port()}",
        "metricsBindAddress": f"127.0.0.1:{free_port()}",
        "nodePortAddresses": [f"{ADDRESS}/32"],
        # The machine's limits of connections stay as they are.
        "conntrack": {
            "maxPerCore": 0,
            "min": 0,
            "tcpEstablishedTimeout": "0s",
            "tcpCloseWaitTimeout": "0s",
        },
    }


def volumes(directory: Path) -> Json:
    """A class that is the default, and directories of the node for who claims one."""
    default = {"storageclass.kubernetes.io/is-default-class": "true"}
    storage_class = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": "here", "annotations": default},
        "provisioner": "kubernetes.io/no-provisioner",
    }
    made = [
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": f"here-{number}"},
            "spec": {
                "storageClassName": "here",
                "capacity": {"storage": "10Gi"},
                "accessModes": ["ReadWriteOnce"],
                "hostPath": {"path": str(directory / str(number)), "type": "Directory"},
            },
        }
        for number in range(VOLUMES)
    ]
    return {"apiVersion": "v1", "kind": "List", "items": [storage_class, *made]}
