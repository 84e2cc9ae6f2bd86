"""The fuzzer of the webhook: every odd resource, and damaged forms of it, as reviews."""

from __future__ import annotations

import json
from collections import Counter
from random import Random
from typing import Any

from fuzz.resources import generate
from fuzz.values import damaged, mutated, nested
from manta.admission.review import InvalidReview, review
from manta.rules.settings import Settings

UID = "705ab4f5-6393-11e8-b7cc-42010a800002"


def review_of(rng: Random, document: dict[str, Any]) -> bytes:
    """An AdmissionReview as kube-apiserver sends it, or what a mutation makes of one."""
    asked = {
        "kind": "AdmissionReview",
        "apiVersion": "admission.k8s.io/v1",
        "request": {
            "uid": UID,
            "kind": {"group": "ray.io", "version": "v1", "kind": document["kind"]},
            "operation": rng.choice(("CREATE", "UPDATE", "DELETE", "CONNECT")),
            "object": document,
            "oldObject": rng.choice((None, document)),
        },
    }
    if rng.random() < 0.3:
        asked = mutated(rng, asked, rng.randrange(1, 4), deep=False)
    if rng.random() < 0.05:
        asked = {"request": {"uid": UID, "object": nested(rng)}}
    try:
        body = json.dumps(asked).encode()
    except (RecursionError, ValueError):
        body = b'{"request":{"uid":"' + UID.encode() + b'","object":' + b"[" * 9000
    return damaged(rng, body) if rng.random() < 0.1 else body


def fuzz_reviews(seed: int, count: int) -> tuple[dict[str, Any], list[str]]:
    """How the reviews ended, and what is wrong: an exception, or an answer that is none."""
    counts: Counter[str] = Counter()
    findings: list[str] = []
    for number in range(count):
        rng = Random(f"{seed}/{number}/review")
        body = review_of(rng, generate(seed, number))
        bugs: list[Any] = []
        try:
            response = json.loads(review(body, Settings(), bugs.append))["response"]
        except InvalidReview:
            counts["not a review"] += 1
            continue
        except Exception as error:  # noqa: BLE001 - whatever it is, it is the finding
            findings.append(f"seed {seed}, review {number}: {error!r}")
            continue
        counts["allowed" if response["allowed"] else "denied"] += 1
        # The API server checks the schema first: a rule may raise on what no schema allows, and the
        # object is refused. It must never be let through.
        counts["refused because a rule raised"] += bool(bugs)
        if bugs and response["allowed"]:
            findings.append(f"seed {seed}, review {number}: let through although {bugs[0]!r}")
    return {"tried": count, **counts}, findings
