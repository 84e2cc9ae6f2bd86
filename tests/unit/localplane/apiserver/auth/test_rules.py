"""RBAC rules: what they allow, and what covers what."""

from __future__ import annotations

import pytest

from manta.localplane.apiserver.auth.rules import Attributes, Rule, allows, shown, uncovered

PODS = Rule(("get", "list"), ("",), ("pods", "pods/log"))
NAMED = Rule(("update",), ("",), ("configmaps",), ("mine",))
EVERYTHING = Rule(("*",), ("*",), ("*",))
SCALES = Rule(("patch",), ("*",), ("*/scale",))
URLS = Rule(("get",), non_resource_urls=("/healthz", "/api/*"))


@pytest.mark.parametrize(
    ("rule", "attempt", "allowed"),
    [
        (PODS, Attributes("get", "", "pods"), True),
        (PODS, Attributes("get", "", "pods", "log"), True),
        (PODS, Attributes("get", "", "pods", "exec"), False),
        (PODS, Attributes("delete", "", "pods"), False),
        (PODS, Attributes("get", "apps", "pods"), False),
        (NAMED, Attributes("update", "", "configmaps", name="mine"), True),
        (NAMED, Attributes("update", "", "configmaps", name="yours"), False),
        (NAMED, Attributes("update", "", "configmaps"), False),
        (EVERYTHING, Attributes("escalate", "x", "y", "z"), True),
        (EVERYTHING, Attributes("get", path="/api"), False),
        (SCALES, Attributes("patch", "apps", "deployments", "scale"), True),
        (SCALES, Attributes("patch", "apps", "deployments"), False),
        (URLS, Attributes("get", path="/api/v1"), True),
        (URLS, Attributes("get", path="/healthz"), True),
        (URLS, Attributes("get", path="/metrics"), False),
        (URLS, Attributes("post", path="/healthz"), False),
    ],
)
def test_rules_allow_what_they_say(rule, attempt, allowed) -> None:
    assert allows(rule, attempt) is allowed


def test_no_rule_covers_more_than_it_says() -> None:
    assert uncovered([PODS], [EVERYTHING]) == []
    assert uncovered([PODS], [PODS]) == []
    assert len(uncovered([Rule(("get", "delete"), ("",), ("pods",))], [PODS])) == 1
    assert uncovered([EVERYTHING], [PODS]) == [EVERYTHING]
    assert uncovered([Rule(("update",), ("",), ("configmaps",))], [NAMED])
    assert uncovered([NAMED], [NAMED]) == []
    assert uncovered([Rule(("patch",), ("apps",), ("deployments/scale",))], [SCALES]) == []
    assert uncovered([Rule(("get",), non_resource_urls=("/api/v1",))], [URLS]) == []
    assert uncovered([Rule(("get",), non_resource_urls=("/metrics",))], [URLS])


def test_rules_are_shown_as_people_know_them() -> None:
    assert shown(Rule(("get",), ("",), ("pods",))) == (
        '{APIGroups:[""], Resources:["pods"], Verbs:["get"]}'
    )
