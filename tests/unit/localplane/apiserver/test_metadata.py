"""Metadata: given, kept, checked."""

from __future__ import annotations

import random

import pytest

from manta.localplane.apiserver import metadata
from support.served import built_in

CONFIG_MAPS = built_in("", "v1", "configmaps")
PODS = built_in("", "v1", "pods")
NAMESPACES = built_in("", "v1", "namespaces")
SERVICES = built_in("", "v1", "services")
ROLES = built_in("rbac.authorization.k8s.io", "v1", "roles")


def test_generated_names_are_short_enough() -> None:
    chance = random.Random(1)
    name = metadata.generated_name("p-", chance)
    assert name.startswith("p-")
    assert len(name) == 7
    assert len(metadata.generated_name("x" * 100, chance)) == 63


def test_a_new_object_gets_what_it_may_not_choose() -> None:
    meta = metadata.new_metadata(
        {"name": "a", "uid": "mine", "labels": {}, "generation": 9}, PODS, "now", random.Random(1)
    )
    assert meta["uid"] != "mine"
    assert (meta["creationTimestamp"], meta["generation"]) == ("now", 1)
    assert "labels" not in meta
    plain = metadata.new_metadata({"name": "a"}, CONFIG_MAPS, "now", random.Random(1))
    assert "generation" not in plain


def test_an_update_keeps_what_it_may_not_change() -> None:
    old = {
        "metadata": {
            "name": "a",
            "namespace": "n",
            "uid": "u",
            "resourceVersion": "7",
            "generation": 3,
            "creationTimestamp": "then",
        }
    }
    new = {"metadata": {"name": "a", "generation": 9, "creationTimestamp": "now", "labels": {}}}
    assert metadata.updated_metadata(old, new) == old["metadata"]


@pytest.mark.parametrize(
    ("resource", "name", "good"),
    [
        (CONFIG_MAPS, "a.b-c", True),
        (CONFIG_MAPS, "A", False),
        (NAMESPACES, "a.b", False),
        (SERVICES, "1a", False),
        (SERVICES, "a1", True),
        (ROLES, "system:Admin", True),
        (ROLES, "a/b", False),
        (ROLES, "..", False),
    ],
)
def test_names_follow_the_rules_of_their_kind(resource, name, good) -> None:
    assert (metadata.check({"metadata": {"name": name}}, resource) == []) is good


@pytest.mark.parametrize(
    ("meta", "field"),
    [
        ({}, "metadata.name"),
        ({"labels": {"-": "x"}}, "metadata.labels"),
        ({"labels": {"a": "b c"}}, "metadata.labels"),
        ({"annotations": {"a b": ""}}, "metadata.annotations"),
        ({"annotations": {"a": "x" * 262145}}, "metadata.annotations"),
        ({"finalizers": ["plain"]}, "metadata.finalizers[0]"),
        ({"ownerReferences": [{}]}, "metadata.ownerReferences.uid"),
    ],
)
def test_causes_name_the_field(meta, field) -> None:
    given = {"metadata": ({"name": "a"} if meta else {}) | meta}
    assert field in [cause.field for cause in metadata.check(given, CONFIG_MAPS)]


def test_annotations_may_have_capitals() -> None:
    meta = {"name": "a", "annotations": {"Example.com/A": "x"}}
    assert metadata.check({"metadata": meta}, CONFIG_MAPS) == []
