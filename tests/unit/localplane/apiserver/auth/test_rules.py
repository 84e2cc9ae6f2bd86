"""RBAC rules: what they allow, and what covers what."""

from __future__ import annotations

import pytest

from manta.localplane.apiserver.auth.rules import Attempt, Rule, allows, shown, uncovered

PODS = Rule(("get", "list"), ("",), ("pods", "pods/log"))
NAMED = Rule(("update",), ("",), ("configmaps",), ("mine",))
EVERYTHING = Rule(("*",), ("*",), ("*",))
SCALES = Rule(("patch",), ("*",), ("*/scale",))
URLS = Rule(("get",), non_resource_urls=("/healthz", "/api/*"))


@pytest.mark.parametrize(
    ("rule", "attempt", "allowed"),
    [
        (PODS, Attempt("get", "", "pods"), True),
        (PODS, Attempt("get", "", "pods", "log"), True),
        (PODS, Attempt("get", "", "pods", "exec"), False),
        (PODS, Attempt("delete", "", "pods"), False),
        (PODS, Attempt("get", "apps", "pods"), False),
        (NAMED, Attempt("update", "", "configmaps", name="mine"), True),
        (NAMED, Attempt("update", "", "configmaps", name="yours"), False),
        (NAMED, Attempt("update", "", "configmaps"), False),
        (EVERYTHING, Attempt("escalate", "x", "y", "z"), True),
        (EVERYTHING, Attempt("get", path="/api"), False),
        (SCALES, Attempt("patch", "apps", "deployments", "scale"), True),
        (SCALES, Attempt("patch", "apps", "deployments"), False),
        (URLS, Attempt("get", path="/api/v1"), True),
        (URLS, Attempt("get", path="/healthz"), True),
        (URLS, Attempt("get", path="/metrics"), False),
        (URLS, Attempt("post", path="/healthz"), False),
    ],
)
def test_rules_allow_what_they_say(rule, attempt, allowed):
    assert allows(rule, attempt) is allowed


def test_no_rule_covers_more_than_it_says():
    assert uncovered([PODS], [EVERYTHING]) == []
    assert uncovered([PODS], [PODS]) == []
    assert len(uncovered([Rule(("get", "delete"), ("",), ("pods",))], [PODS])) == 1
    assert uncovered([EVERYTHING], [PODS]) == [EVERYTHING]
    assert uncovered([Rule(("update",), ("",), ("configmaps",))], [NAMED])
    assert uncovered([NAMED], [NAMED]) == []
    assert uncovered([Rule(("patch",), ("apps",), ("deployments/scale",))], [SCALES]) == []
    assert uncovered([Rule(("get",), non_resource_urls=("/api/v1",))], [URLS]) == []
    assert uncovered([Rule(("get",), non_resource_urls=("/metrics",))], [URLS])


def test_rules_are_shown_as_people_know_them():
    assert shown(Rule(("get",), ("",), ("pods",))) == (
        '{APIGroups:[""], Resources:["pods"], Verbs:["get"]}'
    )
