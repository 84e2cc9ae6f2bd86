"""The files /etc/hosts and /etc/resolv.conf of a Pod. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from manta.localplane.node.spec.pod_spec import NodePod


@dataclass(frozen=True, slots=True)
class Dns:
    """The DNS settings of this node."""

    server: str
    domain: str
    machine: str
    """The machine's own resolv.conf, for Pods with dnsPolicy Default."""


def hosts_file(pod: NodePod, address: str, domain: str) -> str:
    lines = [
        "# Kubernetes-managed hosts file.",
        "127.0.0.1\tlocalhost",
        "::1\tlocalhost ip6-localhost ip6-loopback",
    ]
    if address:
        names = pod.hostname
        if pod.spec.subdomain:
            full = f"{pod.hostname}.{pod.spec.subdomain}.{pod.metadata.namespace}.svc.{domain}"
            names = f"{full}\t{names}"
        lines.append(f"{address}\t{names}")
    lines += ["\t".join([alias.ip, *alias.hostnames]) for alias in pod.spec.host_aliases]
    return "\n".join(lines) + "\n"


def resolv_conf(pod: NodePod, dns: Dns) -> str:
    """The file for the Pod's dnsPolicy, with its dnsConfig added."""
    config = pod.spec.dns_config
    policy = pod.spec.dns_policy
    if policy == "ClusterFirst" and pod.spec.host_network:
        policy = "Default"
    lines: list[str] = []
    searches: list[str] = []
    options = {"ndots": "5"}
    if policy == "Default":
        lines, options = dns.machine.strip().splitlines(), {}
    elif policy != "None":
        lines = [f"nameserver {dns.server}"]
        namespace = pod.metadata.namespace
        searches = [f"{namespace}.svc.{dns.domain}", f"svc.{dns.domain}", dns.domain]
    else:
        options = {}
    lines += [f"nameserver {server}" for server in config.nameservers]
    searches += config.searches
    for option in config.options:
        options[option.name] = option.value or ""
    if searches:
        lines.append("search " + " ".join(searches))
    if options:
        words = (f"{name}:{value}" if value else name for name, value in options.items())
        lines.append("options " + " ".join(words))
    return "\n".join(lines) + "\n"
