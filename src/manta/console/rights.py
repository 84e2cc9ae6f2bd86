"""What a user may do: Kubernetes answers, the console only asks.

`Rights` is the answer of a SelfSubjectRulesReview, as a value; pages show a button only if it allows the request
behind it. The request itself is sent with the user's own credentials, so a wrong answer here grants nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from manta.api.ray.resources import RAY_RESOURCES
from manta.api.resources import (
    NODES,
    SELF_SUBJECT_ACCESS_REVIEWS,
    SELF_SUBJECT_REVIEWS,
    SELF_SUBJECT_RULES_REVIEWS,
    SERVICES,
    Resource,
)
from manta.kube.client import Client
from manta.kube.errors import Forbidden, NotFound

EVERYTHING = "*"
Question = tuple[str, Resource, str]
"""A verb, what it is done to, and a subresource."""
_QUESTIONS: Final[tuple[Question, ...]] = (
    *((verb, one, "") for verb in ("patch", "create", "delete") for one in RAY_RESOURCES),
    ("get", SERVICES, "proxy"),
    ("create", SERVICES, "proxy"),
    ("get", NODES, "proxy"),
)
"""What pages ask `Rights`."""


@dataclass(frozen=True, slots=True)
class Rule:
    verbs: frozenset[str]
    groups: frozenset[str]
    resources: frozenset[str]
    names: frozenset[str]

    def allows(self, verb: str, resource: Resource, name: str, subresource: str) -> bool:
        plural = f"{resource.plural}/{subresource}" if subresource else resource.plural
        return (
            not self.verbs.isdisjoint((verb, EVERYTHING))
            and not self.groups.isdisjoint((resource.group, EVERYTHING))
            and not self.resources.isdisjoint((plural, EVERYTHING, f"*/{subresource}"))
            and (not self.names or name in self.names)
        )


@dataclass(frozen=True, slots=True)
class Rights:
    """The rights of one user in one namespace."""

    rules: tuple[Rule, ...] = ()

    def allows(self, verb: str, resource: Resource, name: str = "", subresource: str = "") -> bool:
        return any(one.allows(verb, resource, name, subresource) for one in self.rules)


def rights_of(review: Mapping[str, Any]) -> Rights:
    """The rights in the status of a SelfSubjectRulesReview."""
    rules = (review.get("status") or {}).get("resourceRules") or ()
    return Rights(
        tuple(
            Rule(
                _texts(one.get("verbs")),
                _texts(one.get("apiGroups")),
                _texts(one.get("resources")),
                _texts(one.get("resourceNames")),
            )
            for one in rules
        )
    )


def _texts(values: Sequence[str] | None) -> frozenset[str]:
    return frozenset(values or ())


async def ask_rights(
    client: Client, namespace: str, questions: Sequence[Question] = _QUESTIONS
) -> Rights:
    """The review may be incomplete: an authorizer behind a webhook, as those of cloud providers, knows no rules. Then
    each question is asked by itself."""
    body = {"spec": {"namespace": namespace}}
    review = await client.create(SELF_SUBJECT_RULES_REVIEWS, "", body, into=dict[str, Any])
    found = rights_of(review)
    if not (review.get("status") or {}).get("incomplete"):
        return found
    open_questions = [one for one in questions if not found.allows(one[0], one[1], "", one[2])]
    answers = await asyncio.gather(
        *(
            may(client, verb, one, namespace if one.namespaced else "", part)
            for verb, one, part in open_questions
        )
    )
    more = (
        Rule(
            frozenset((verb,)),
            frozenset((one.group,)),
            frozenset((f"{one.plural}/{part}" if part else one.plural,)),
            frozenset(),
        )
        for (verb, one, part), allowed in zip(open_questions, answers, strict=True)
        if allowed
    )
    return Rights((*found.rules, *more))


async def may(
    client: Client, verb: str, resource: Resource, namespace: str = "", subresource: str = ""
) -> bool:
    """Whether this user may; an empty namespace means all of them."""
    attributes = {
        "subresource": subresource,
        "verb": verb,
        "group": resource.group,
        "resource": resource.plural,
        "namespace": namespace,
    }
    body = {"spec": {"resourceAttributes": attributes}}
    answer = await client.create(SELF_SUBJECT_ACCESS_REVIEWS, "", body, into=dict[str, Any])
    return bool((answer.get("status") or {}).get("allowed"))


async def user_name(client: Client) -> str:
    """Who the API server says that this is; empty if it does not say (Kubernetes before 1.28)."""
    try:
        answer = await client.create(SELF_SUBJECT_REVIEWS, "", {}, into=dict[str, Any])
    except (NotFound, Forbidden):
        return ""
    return str(((answer.get("status") or {}).get("userInfo") or {}).get("username", ""))
