"""Which keys a change concerns."""

from __future__ import annotations

from manta.api.meta import Key, Object, ObjectMeta, OwnerReference, Uid
from manta.runtime.controller import own_key, owner_keys


def one(owner: str = "", *, controller: bool = True, api_version: str = "ray.io/v1") -> Object:
    owners = (
        (
            OwnerReference(
                api_version=api_version,
                kind="RayCluster",
                name=owner,
                uid=Uid("u"),
                controller=controller,
            ),
        )
        if owner
        else ()
    )
    return Object(metadata=ObjectMeta(name="p", namespace="ns", owner_references=owners))


KEYS = owner_keys("RayCluster", "ray.io")


def test_a_change_concerns_the_object_itself_also_when_it_is_gone() -> None:
    assert own_key(None, one()) == (Key("ns", "p"),)
    assert own_key(one(), None) == (Key("ns", "p"),)


def test_a_child_concerns_its_owner_before_and_after() -> None:
    assert KEYS(None, one("a")) == (Key("ns", "a"),)
    assert KEYS(one("a"), one("b")) == (Key("ns", "a"), Key("ns", "b"))
    assert KEYS(one("a"), one("a")) == (Key("ns", "a"),)


def test_foreign_objects_concern_nobody() -> None:
    assert KEYS(None, one()) == ()
    assert KEYS(None, one("a", controller=False)) == ()
    assert KEYS(None, one("a", api_version="example.com/v1")) == ()
