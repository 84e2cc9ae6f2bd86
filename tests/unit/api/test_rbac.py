"""Roles."""

from __future__ import annotations

import msgspec

from manta.api.rbac import Role


def test_a_role_without_rules_is_printed_with_null_and_read_as_empty() -> None:
    assert msgspec.json.decode(b'{"rules":null}', type=Role).rules == ()


def test_a_rule_names_groups_resources_and_verbs() -> None:
    rule = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "patch"]}
    [read] = msgspec.convert({"rules": [rule]}, Role).rules
    assert read.api_groups == ("",)
    assert read.verbs == ("get", "patch")
