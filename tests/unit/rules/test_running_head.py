"""The port and the token of the head that runs, whatever the spec says by now."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from manta.api.core import Pod
from manta.api.meta import ObjectMeta
from manta.api.ray import names
from manta.api.ray.cluster import RayCluster
from manta.manifests.head_pod import build_head_pod
from manta.rules.running_head import as_it_runs, token_secret
from manta.rules.settings import Settings
from manta.rules.traits import head_port, kubernetes_token_auth, token_auth
from support.raycluster import ray_cluster
from support.raycluster_scenario import decode

TOKEN = {"mode": "token"}
OWN = {**TOKEN, "secretName": "own"}
KUBERNETES = {**TOKEN, "enableK8sTokenAuth": True}


def cluster(port: str = "", **spec: Any) -> RayCluster:
    head = {"rayStartParams": {"port": port}} if port else {}
    return decode(ray_cluster(head=head, **spec))


def head_of(started: RayCluster) -> Pod:
    return msgspec.convert(build_head_pod(started, Settings(), spec_hash=""), Pod)


@pytest.mark.parametrize(
    ("before", "after"), [("", "6380"), ("6380", ""), ("6380", "6381"), ("", "")]
)
def test_the_port_is_that_of_the_head(before: str, after: str) -> None:
    running = as_it_runs(cluster(after), head_of(cluster(before)))
    assert head_port(running.spec) == (before or "6379")


@pytest.mark.parametrize(
    ("before", "after", "secret"),
    [
        (TOKEN, None, "demo"),
        (TOKEN, OWN, "demo"),
        (OWN, TOKEN, "own"),
        (None, OWN, ""),
        (KUBERNETES, None, "demo"),
        (None, None, ""),
    ],
)
def test_the_token_is_that_of_the_head(before: Any, after: Any, secret: str) -> None:
    edited, head = cluster(authOptions=after), head_of(cluster(authOptions=before))
    assert token_secret(edited, head) == secret
    running = as_it_runs(edited, head)
    assert token_auth(running.spec) is bool(secret)
    assert kubernetes_token_auth(running.spec) is (before is KUBERNETES)


@pytest.mark.parametrize("text", [None, "", "{", "[]", '{"port":6379}', "{}"])
def test_a_head_that_does_not_say_it_is_as_the_spec_says(text: str | None) -> None:
    annotations = {} if text is None else {names.ANNOTATION_STARTED_WITH: text}
    head = Pod(metadata=ObjectMeta(annotations=annotations))
    edited = cluster("6380", authOptions=OWN)
    assert as_it_runs(edited, head) is edited
    assert token_secret(edited, head) == "own"
    assert as_it_runs(edited, None) is edited
