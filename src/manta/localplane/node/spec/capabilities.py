"""Which capabilities a container has: the usual default of container runtimes, changed by its Pod. Pure.

Without CAP_SYS_ADMIN a container can neither remove the mounts that hide the plane's directory nor make
read-only mounts writable. CAP_MKNOD is not in the default: there is no device filter here, so a container
could open the machine's disks.
"""

from __future__ import annotations

from collections.abc import Iterable

from manta.localplane.node.spec.pod_spec import SecurityContext

_NAMES = """
    CHOWN DAC_OVERRIDE DAC_READ_SEARCH FOWNER FSETID KILL SETGID SETUID SETPCAP LINUX_IMMUTABLE
    NET_BIND_SERVICE NET_BROADCAST NET_ADMIN NET_RAW IPC_LOCK IPC_OWNER SYS_MODULE SYS_RAWIO
    SYS_CHROOT SYS_PTRACE SYS_PACCT SYS_ADMIN SYS_BOOT SYS_NICE SYS_RESOURCE SYS_TIME
    SYS_TTY_CONFIG MKNOD LEASE AUDIT_WRITE AUDIT_CONTROL SETFCAP MAC_OVERRIDE MAC_ADMIN SYSLOG
    WAKE_ALARM BLOCK_SUSPEND AUDIT_READ PERFMON BPF CHECKPOINT_RESTORE
""".split()  # noqa: SIM905 - short
"""In the kernel's order: the index is the number."""
_DEFAULT = frozenset(
    """
    CHOWN DAC_OVERRIDE FOWNER FSETID KILL SETGID SETUID SETPCAP NET_BIND_SERVICE NET_RAW
    SYS_CHROOT AUDIT_WRITE SETFCAP
    """.split()  # noqa: SIM905 - short
)


def kept_capabilities(security: SecurityContext) -> list[int] | None:
    """The numbers of the capabilities that a container has; None for a privileged one (all)."""
    if security.privileged:
        return None
    add, drop = _known(security.capabilities.add), _known(security.capabilities.drop)
    kept = (set(_DEFAULT) - drop) | add
    return sorted(_NAMES.index(name) for name in kept)


def _known(names: Iterable[str]) -> set[str]:
    """`ALL` means every capability; the prefix CAP_ is optional; unknown names are ignored."""
    found = {name.upper().removeprefix("CAP_") for name in names}
    return set(_NAMES) if "ALL" in found else found & set(_NAMES)
