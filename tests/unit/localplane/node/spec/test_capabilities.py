from __future__ import annotations

import msgspec

from manta.localplane.node.spec.capabilities import kept_capabilities
from manta.localplane.node.spec.pod_spec import SecurityContext

SYS_ADMIN, SYS_PTRACE, MKNOD, CHOWN, NET_BIND = 21, 19, 27, 0, 10


def kept(**security: object) -> list[int] | None:
    return kept_capabilities(msgspec.convert(security, SecurityContext))


def test_a_container_keeps_what_runtimes_leave_and_nothing_that_rules_the_machine() -> None:
    found = kept()
    assert found is not None
    assert {CHOWN, NET_BIND} <= set(found)
    assert not {SYS_ADMIN, SYS_PTRACE, MKNOD} & set(found)


def test_a_pod_adds_and_drops() -> None:
    assert kept(capabilities={"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]}) == [NET_BIND]
    added = kept(capabilities={"add": ["CAP_SYS_PTRACE"]})
    assert added is not None
    assert SYS_PTRACE in added
    everything = kept(capabilities={"add": ["ALL"]})
    assert everything is not None
    assert SYS_ADMIN in everything


def test_a_capability_of_a_kernel_to_come_is_passed_over() -> None:
    assert kept(capabilities={"add": ["TIME_TRAVEL"]}) == kept()


def test_a_privileged_container_keeps_all() -> None:
    assert kept(privileged=True) is None
