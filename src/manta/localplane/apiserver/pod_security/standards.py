"""The Pod Security Standards: the checks of the levels `baseline` and `restricted`. Pure.

Each check has a level and a range of Kubernetes versions. It yields the messages of kube-apiserver, as
`reason (detail)`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from manta.api.well_known import ANNOTATION_SECCOMP_POD
from manta.localplane.apiserver.pod_security.policy import Standard

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Violation:
    reason: str
    detail: str

    def __str__(self) -> str:
        return f"{self.reason} ({self.detail})"


@dataclass(frozen=True, slots=True)
class Pod:
    """A Pod or Pod template to check."""

    metadata: Json
    spec: Json
    minor: int

    @property
    def context(self) -> Json:
        return self.spec.get("securityContext") or {}

    @property
    def containers(self) -> Iterator[tuple[str, Json, Json]]:
        """Yield name, container and security context, of init and ephemeral containers too."""
        for member in ("initContainers", "containers", "ephemeralContainers"):
            for container in self.spec.get(member) or ():
                yield container.get("name", ""), container, container.get("securityContext") or {}

    @property
    def in_user_namespace(self) -> bool:
        return self.spec.get("hostUsers") is False

    @property
    def is_windows(self) -> bool:
        return (self.spec.get("os") or {}).get("name") == "windows"

    def setters(self, bad: Callable[[Json], bool]) -> list[str]:
        """Return `pod` and `containers "a", "b"`: those with a forbidden security context."""
        found = ["pod"] if bad(self.context) else []
        named = [name for name, _, context in self.containers if bad(context)]
        return [*found, _containers(named)] if named else found


Check = Callable[[Pod], Iterator[Violation]]


def _quoted(names: Iterable[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)


def _many(word: str, names: Iterable[Any]) -> str:
    return word if len(list(names)) == 1 else f"{word}s"


def _containers(names: list[str]) -> str:
    return f"{_many('container', names)} {_quoted(names)}"


# ── baseline ─────────────────────────────────────────────────────────────────────────────
_CAPABILITIES: Final = frozenset(
    (
        "AUDIT_WRITE",
        "CHOWN",
        "DAC_OVERRIDE",
        "FOWNER",
        "FSETID",
        "KILL",
        "MKNOD",
        "NET_BIND_SERVICE",
        "SETFCAP",
        "SETGID",
        "SETPCAP",
        "SETUID",
        "SYS_CHROOT",
    )
)
_SYSCTLS: Final = {
    "kernel.shm_rmid_forced": 0,
    "net.ipv4.ip_local_port_range": 0,
    "net.ipv4.tcp_syncookies": 0,
    "net.ipv4.ping_group_range": 0,
    "net.ipv4.ip_unprivileged_port_start": 0,
    "net.ipv4.ip_local_reserved_ports": 27,
    "net.ipv4.tcp_keepalive_time": 29,
    "net.ipv4.tcp_fin_timeout": 29,
    "net.ipv4.tcp_keepalive_intvl": 29,
    "net.ipv4.tcp_keepalive_probes": 29,
    "net.ipv4.tcp_rmem": 32,
    "net.ipv4.tcp_wmem": 32,
}
"""By sysctl: the minor version since which it is allowed."""
_SELINUX: Final = {
    "": 0,
    "container_t": 0,
    "container_init_t": 0,
    "container_kvm_t": 0,
    "container_engine_t": 31,
}
_PROFILES: Final = ("RuntimeDefault", "Localhost")
_APPARMOR: Final = "container.apparmor.security.beta.kubernetes.io/"


def app_armor(pod: Pod) -> Iterator[Violation]:
    def kind(context: Json) -> str | None:
        profile = context.get("appArmorProfile")
        return None if profile is None else str(profile.get("type", ""))

    setters = pod.setters(lambda context: kind(context) not in (None, *_PROFILES))
    values = {kind(context) or "" for context in _contexts(pod)} - {"", *_PROFILES}
    annotations = sorted(
        f'{name}="{value}"'
        for name, value in (pod.metadata.get("annotations") or {}).items()
        if name.startswith(_APPARMOR)
        and value not in ("", "runtime/default")
        and not value.startswith("localhost/")
    )
    if annotations:
        setters.append(_many("annotation", annotations))
    if setters:
        listed = [*sorted(values), *annotations]
        what = f"{' and '.join(setters)} must not set AppArmor profile type to {_quoted(listed)}"
        yield Violation(_many("forbidden AppArmor profile", listed), what)


def _contexts(pod: Pod) -> list[Json]:
    return [pod.context, *(context for _, _, context in pod.containers)]


def capabilities(pod: Pod) -> Iterator[Violation]:
    added = _added_capabilities(pod, _CAPABILITIES)
    if added:
        yield Violation("non-default capabilities", _must_not_add(added))


def _added_capabilities(pod: Pod, allowed: frozenset[str]) -> dict[str, set[str]]:
    found = {
        name: set((context.get("capabilities") or {}).get("add") or ()) - allowed
        for name, _, context in pod.containers
    }
    return {name: added for name, added in found.items() if added}


def _must_not_add(added: dict[str, set[str]]) -> str:
    names = sorted(set().union(*added.values()))
    where = "securityContext.capabilities.add"
    return f"{_containers([*added])} must not include {_quoted(names)} in {where}"


def host_namespaces(pod: Pod) -> Iterator[Violation]:
    names = [name for name in ("hostNetwork", "hostPID", "hostIPC") if pod.spec.get(name)]
    if names:
        yield Violation("host namespaces", ", ".join(f"{name}=true" for name in names))


def host_path_volumes(pod: Pod) -> Iterator[Violation]:
    names = [one.get("name", "") for one in pod.spec.get("volumes") or () if one.get("hostPath")]
    if names:
        yield Violation("hostPath volumes", f"{_many('volume', names)} {_quoted(names)}")


def host_ports(pod: Pod) -> Iterator[Violation]:
    found = {
        name: [port["hostPort"] for port in container.get("ports") or () if port.get("hostPort")]
        for name, container, _ in pod.containers
    }
    bad = [name for name, ports in found.items() if ports]
    ports = sorted({str(port) for used in found.values() for port in used})
    if bad:
        uses = "uses" if len(bad) == 1 else "use"
        yield Violation(
            "hostPort", f"{_containers(bad)} {uses} {_many('hostPort', ports)} {', '.join(ports)}"
        )


def host_probes(pod: Pod) -> Iterator[Violation]:
    found = {name: _hosts(container) for name, container, _ in pod.containers}
    bad = sorted(name for name, hosts in found.items() if hosts)
    hosts = sorted({host for listed in found.values() for host in listed})
    if bad:
        uses = "uses" if len(bad) == 1 else "use"
        what = f"{_many('probe or lifecycle host', hosts)} {_quoted(hosts)}"
        yield Violation("probe or lifecycle host", f"{_containers(bad)} {uses} {what}")


def _hosts(container: Json) -> list[str]:
    lifecycle = container.get("lifecycle") or {}
    handlers = [
        *(container.get(name) for name in ("livenessProbe", "readinessProbe", "startupProbe")),
        *(lifecycle.get(name) for name in ("postStart", "preStop")),
    ]
    found = [
        (handler.get(way) or {}).get("host", "")
        for handler in handlers
        if handler
        for way in ("httpGet", "tcpSocket")
    ]
    return [host for host in found if host]


def privileged(pod: Pod) -> Iterator[Violation]:
    bad = [name for name, _, context in pod.containers if context.get("privileged")]
    if bad:
        yield Violation(
            "privileged", f"{_containers(bad)} must not set securityContext.privileged=true"
        )


def proc_mount(pod: Pod) -> Iterator[Violation]:
    kinds = {name: context.get("procMount") for name, _, context in pod.containers}
    bad = {name: kind for name, kind in kinds.items() if kind not in (None, "Default")}
    if bad:
        kind = _quoted(sorted({str(one) for one in bad.values()}))
        yield Violation(
            "procMount", f"{_containers([*bad])} must not set securityContext.procMount to {kind}"
        )


def proc_mount_unless_in_user_namespace(pod: Pod) -> Iterator[Violation]:
    if not (pod.minor >= 35 and pod.in_user_namespace):
        yield from proc_mount(pod)


def selinux(pod: Pod) -> Iterator[Violation]:
    def options(context: Json) -> Json:
        return context.get("seLinuxOptions") or {}

    def bad_type(context: Json) -> bool:
        return _SELINUX.get(options(context).get("type") or "", 99) > pod.minor

    def bad(context: Json) -> bool:
        chosen = options(context)
        return bad_type(context) or bool(chosen.get("user") or chosen.get("role"))

    setters = pod.setters(bad)
    if not setters:
        return
    contexts = _contexts(pod)
    types = sorted({options(one).get("type") or "" for one in contexts if bad_type(one)})
    data = [f"{_many('type', types)} {_quoted(types)}"] if types else []
    data += [
        f"{part} may not be set"
        for part in ("user", "role")
        if any(options(one).get(part) for one in contexts)
    ]
    what = f"set forbidden securityContext.seLinuxOptions: {'; '.join(data)}"
    yield Violation("seLinuxOptions", f"{' and '.join(setters)} {what}")


def _seccomp(context: Json) -> str | None:
    profile = context.get("seccompProfile")
    return None if profile is None else str(profile.get("type", ""))


def seccomp(pod: Pod) -> Iterator[Violation]:
    if pod.minor < 19:
        yield from _seccomp_annotations(pod)
        return
    setters = pod.setters(lambda context: _seccomp(context) not in (None, *_PROFILES))
    if setters:
        values = {_seccomp(context) for context in _contexts(pod)} - {None, *_PROFILES}
        kinds = _quoted(sorted(str(one) for one in values))
        what = f"must not set securityContext.seccompProfile.type to {kinds}"
        yield Violation("seccompProfile", f"{' and '.join(setters)} {what}")


def _seccomp_annotations(pod: Pod) -> Iterator[Violation]:
    found = pod.metadata.get("annotations") or {}
    names = [
        ANNOTATION_SECCOMP_POD,
        *(f"container.{ANNOTATION_SECCOMP_POD[:-3]}{name}" for name, _, _ in pod.containers),
    ]
    bad = sorted(
        f'{name}="{found[name]}"'
        for name in names
        if name in found
        and found[name] not in ("runtime/default", "docker/default")
        and not found[name].startswith("localhost/")
    )
    if bad:
        yield Violation("seccompProfile", f"forbidden {_many('annotation', bad)} {', '.join(bad)}")


def sysctls(pod: Pod) -> Iterator[Violation]:
    names = [one.get("name", "") for one in pod.context.get("sysctls") or ()]
    bad = [name for name in names if _SYSCTLS.get(name, 99) > pod.minor]
    if bad:
        yield Violation("forbidden sysctls", ", ".join(bad))


def windows_host_process(pod: Pod) -> Iterator[Violation]:
    setters = pod.setters(
        lambda context: bool((context.get("windowsOptions") or {}).get("hostProcess"))
    )
    if setters:
        what = "must not set securityContext.windowsOptions.hostProcess=true"
        yield Violation("hostProcess", f"{' and '.join(setters)} {what}")


# ── restricted ───────────────────────────────────────────────────────────────────────────
_VOLUMES: Final = frozenset(
    (
        "configMap",
        "csi",
        "downwardAPI",
        "emptyDir",
        "ephemeral",
        "image",
        "persistentVolumeClaim",
        "projected",
        "secret",
    )
)


def _linux(pod: Pod) -> bool:
    """Since 1.25 Windows Pods are exempt from checks of Linux fields."""
    return not (pod.minor >= 25 and pod.is_windows)


def privilege_escalation(pod: Pod) -> Iterator[Violation]:
    bad = [
        name
        for name, _, context in pod.containers
        if context.get("allowPrivilegeEscalation") is not False
    ]
    if bad and _linux(pod):
        what = "must set securityContext.allowPrivilegeEscalation=false"
        yield Violation("allowPrivilegeEscalation != false", f"{_containers(bad)} {what}")


def dropped_capabilities(pod: Pod) -> Iterator[Violation]:
    if not _linux(pod):
        return
    missing = [
        name
        for name, _, context in pod.containers
        if "ALL" not in ((context.get("capabilities") or {}).get("drop") or ())
    ]
    added = _added_capabilities(pod, frozenset(("NET_BIND_SERVICE",)))
    details = []
    if missing:
        what = 'must set securityContext.capabilities.drop=["ALL"]'
        details.append(f"{_containers(missing)} {what}")
    if added:
        details.append(_must_not_add(added))
    if details:
        yield Violation("unrestricted capabilities", "; ".join(details))


def restricted_volumes(pod: Pod) -> Iterator[Violation]:
    bad = {
        volume.get("name", ""): _volume_kind(volume)
        for volume in pod.spec.get("volumes") or ()
        if not any(volume.get(kind) is not None for kind in _VOLUMES)
    }
    if bad:
        uses = "uses" if len(bad) == 1 else "use"
        kinds = sorted(set(bad.values()))
        what = f"{uses} {_many('restricted volume type', kinds)} {_quoted(kinds)}"
        yield Violation("restricted volume types", f"{_many('volume', bad)} {_quoted(bad)} {what}")


def _volume_kind(volume: Json) -> str:
    return next(
        (key for key, value in volume.items() if key != "name" and value is not None), "unknown"
    )


def non_root(pod: Pod) -> Iterator[Violation]:
    if pod.minor >= 35 and pod.in_user_namespace:
        return
    reason = "runAsNonRoot != true"
    setters = pod.setters(lambda context: context.get("runAsNonRoot") is False)
    if setters:
        what = "must not set securityContext.runAsNonRoot=false"
        yield Violation(reason, f"{' and '.join(setters)} {what}")
        return
    if pod.context.get("runAsNonRoot"):
        return
    bad = [name for name, _, context in pod.containers if context.get("runAsNonRoot") is None]
    if bad:
        what = "must set securityContext.runAsNonRoot=true"
        yield Violation(reason, f"pod or {_containers(bad)} {what}")


def user_zero(pod: Pod) -> Iterator[Violation]:
    if pod.minor < 23 or (pod.minor >= 35 and pod.in_user_namespace):
        return
    setters = pod.setters(lambda context: context.get("runAsUser") == 0)
    if setters:
        yield Violation("runAsUser=0", f"{' and '.join(setters)} must not set runAsUser=0")


def seccomp_set(pod: Pod) -> Iterator[Violation]:
    if not _linux(pod):
        return
    bad = list(seccomp(pod))
    yield from bad
    if bad or _seccomp(pod.context) is not None:
        return
    unset = [name for name, _, context in pod.containers if _seccomp(context) is None]
    if unset:
        what = 'must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost"'
        yield Violation("seccompProfile", f"pod or {_containers(unset)} {what}")


@dataclass(frozen=True, slots=True)
class _Rule:
    check: Check
    since: int = 0
    replaces: Check | None = None
    """The restricted check that replaces this baseline check."""


# In the order of kube-apiserver's messages.
_BASELINE: Final = (
    _Rule(app_armor),
    _Rule(capabilities),
    _Rule(host_namespaces),
    _Rule(host_path_volumes),
    _Rule(host_ports),
    _Rule(host_probes, since=34),
    _Rule(privileged),
    _Rule(proc_mount_unless_in_user_namespace),
    _Rule(selinux),
    _Rule(seccomp),
    _Rule(sysctls),
    _Rule(windows_host_process),
)
_RESTRICTED: Final = (
    _Rule(privilege_escalation, since=8),
    _Rule(dropped_capabilities, since=22, replaces=capabilities),
    _Rule(proc_mount, since=35, replaces=proc_mount_unless_in_user_namespace),
    _Rule(restricted_volumes, replaces=host_path_volumes),
    _Rule(non_root),
    _Rule(user_zero, since=23),
    _Rule(seccomp_set, since=19, replaces=seccomp),
)


def violations(standard: Standard, metadata: Json, spec: Json) -> list[Violation]:
    """Return the reasons why a level forbids a Pod; empty if it is allowed."""
    if standard.level == "privileged":
        return []
    pod = Pod(metadata, spec, standard.version)
    rules = [rule for rule in _BASELINE if rule.since <= pod.minor]
    if standard.level == "restricted":
        more = [rule for rule in _RESTRICTED if rule.since <= pod.minor]
        replaced = {rule.replaces for rule in more}
        rules = [rule for rule in rules if rule.check not in replaced] + more
    return [found for rule in rules for found in rule.check(pod)]
