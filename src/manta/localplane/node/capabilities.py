"""Which of root's rights a container keeps: those that container runtimes leave, and what its Pod says.

Without CAP_SYS_ADMIN a container cannot take away the mounts that hide the plane's directory, nor make
read-only ones writable. CAP_MKNOD, which runtimes leave because they filter devices, is not kept: with it
a container would open the machine's disks. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable

from manta.localplane.node.podspec import SecurityContext

_NAMES = [
    "CHOWN",
    "DAC_OVERRIDE",
    "DAC_READ_SEARCH",
    "FOWNER",
    "FSETID",
    "KILL",
    "SETGID",
    "SETUID",
    "SETPCAP",
    "LINUX_IMMUTABLE",
    "NET_BIND_SERVICE",
    "NET_BROADCAST",
    "NET_ADMIN",
    "NET_RAW",
    "IPC_LOCK",
    "IPC_OWNER",
    "SYS_MODULE",
    "SYS_RAWIO",
    "SYS_CHROOT",
    "SYS_PTRACE",
    "SYS_PACCT",
    "SYS_ADMIN",
    "SYS_BOOT",
    "SYS_NICE",
    "SYS_RESOURCE",
    "SYS_TIME",
    "SYS_TTY_CONFIG",
    "MKNOD",
    "LEASE",
    "AUDIT_WRITE",
    "AUDIT_CONTROL",
    "SETFCAP",
    "MAC_OVERRIDE",
    "MAC_ADMIN",
    "SYSLOG",
    "WAKE_ALARM",
    "BLOCK_SUSPEND",
    "AUDIT_READ",
    "PERFMON",
    "BPF",
    "CHECKPOINT_RESTORE",
]
"""In the kernel's order: the place in the list is the number."""
_DEFAULT = frozenset(
    [
        "CHOWN",
        "DAC_OVERRIDE",
        "FOWNER",
        "FSETID",
        "KILL",
        "SETGID",
        "SETUID",
        "SETPCAP",
        "NET_BIND_SERVICE",
        "NET_RAW",
        "SYS_CHROOT",
        "AUDIT_WRITE",
        "SETFCAP",
    ]
)


def kept_capabilities(security: SecurityContext) -> list[int] | None:
    """The numbers of the capabilities that a container keeps; None: all (a privileged container)."""
    if security.privileged:
        return None
    add, drop = _known(security.capabilities.add), _known(security.capabilities.drop)
    kept = (set(_DEFAULT) - drop) | add
    return sorted(_NAMES.index(name) for name in kept)


def _known(names: Iterable[str]) -> set[str]:
    """`ALL` stands for every one; names may begin with CAP_. Unknown ones are those of newer kernels."""
    found = {name.upper().removeprefix("CAP_") for name in names}
    return set(_NAMES) if "ALL" in found else found & set(_NAMES)
