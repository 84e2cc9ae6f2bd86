"""Which Pods stand behind which Services."""

from __future__ import annotations

import msgspec

from manta.api.meta import Key
from manta.localplane.builtin.endpoints.membership import Membership
from manta.localplane.builtin.views import Service
from support.plane_objects import a_pod

SERVICE = Key("default", "s")


def a_service(**selector: str) -> Service:
    meta = {"name": "s", "namespace": "default"}
    return msgspec.convert({"metadata": meta, "spec": {"selector": selector}}, Service)


def test_a_service_finds_the_pods_that_were_there_before_it() -> None:
    membership = Membership()
    pods = [a_pod("a", labels={"app": "x", "b": "c"}), a_pod("b", labels={"app": "y"})]
    membership.set_service(a_service(app="x"), pods)
    assert membership.members(SERVICE) == (Key("default", "a"),)


def test_a_pod_finds_the_services_that_were_there_before_it() -> None:
    membership = Membership()
    membership.set_service(a_service(app="x", tier="web"), ())
    assert membership.change_pod(None, a_pod("a", labels={"app": "x"})) == ()
    assert membership.change_pod(None, a_pod("b", labels={"app": "x", "tier": "web"})) == (SERVICE,)
    assert membership.members(SERVICE) == (Key("default", "b"),)


def test_a_pod_that_is_relabelled_or_gone_leaves() -> None:
    membership = Membership()
    membership.set_service(a_service(app="x"), ())
    inside, outside = a_pod("a", labels={"app": "x"}), a_pod("a", labels={"app": "y"})
    membership.change_pod(None, inside)
    assert membership.change_pod(inside, outside) == (SERVICE,)
    assert membership.members(SERVICE) == ()
    membership.change_pod(outside, inside)
    assert membership.change_pod(inside, None) == (SERVICE,)
    assert membership.members(SERVICE) == ()


def test_a_new_selector_is_a_new_beginning() -> None:
    membership = Membership()
    pods = [a_pod("a", labels={"app": "x"}), a_pod("b", labels={"app": "y"})]
    membership.set_service(a_service(app="x"), pods)
    membership.set_service(a_service(app="y"), pods)
    assert membership.members(SERVICE) == (Key("default", "b"),)
    assert membership.change_pod(None, pods[0]) == ()


def test_a_service_without_a_selector_has_no_members() -> None:
    membership = Membership()
    membership.set_service(a_service(), [a_pod("a")])
    assert membership.members(SERVICE) == ()
    membership.drop_service(SERVICE)
    assert membership.change_pod(None, a_pod("a", labels={"app": "x"})) == ()
