"""Ingresses and NetworkPolicies."""

from __future__ import annotations

from typing import Any

import msgspec

from manta.api.networking import Ingress, NetworkPolicy


def test_rules_stay_raw() -> None:
    rule = {"host": "ray.example", "http": {"paths": [{"path": "/", "aFieldOfTomorrow": 1}]}}
    assert msgspec.convert({"spec": {"rules": [rule]}}, Ingress).spec.rules == (rule,)
    peer: dict[str, Any] = {"from": [{"podSelector": {}}]}
    assert msgspec.convert({"spec": {"ingress": [peer]}}, NetworkPolicy).spec.ingress == (peer,)


def test_no_class_and_an_empty_class_differ() -> None:
    assert msgspec.convert({"spec": {}}, Ingress).spec.ingress_class_name is None
    assert (
        msgspec.convert({"spec": {"ingressClassName": ""}}, Ingress).spec.ingress_class_name == ""
    )
