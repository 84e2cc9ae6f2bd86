"""Accept and Content-Type, read."""

from __future__ import annotations

import pytest

from manta.localplane.apiserver.negotiation import (
    PLAIN,
    Answer,
    body_format,
    negotiate,
    wants_aggregated_discovery,
)
from manta.localplane.apiserver.status_errors import StatusError

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


@pytest.mark.parametrize(
    ("accept", "answer"),
    [
        ("", PLAIN),
        ("*/*", PLAIN),
        ("application/json", PLAIN),
        ("application/vnd.kubernetes.protobuf, */*", PLAIN),
        ("application/vnd.kubernetes.protobuf,application/json", PLAIN),
        (f"{TABLE},application/json", Answer("Table")),
        ("application/json;as=Table;v=v9;g=meta.k8s.io,application/json", PLAIN),
        ("application/json;q=0.5,application/yaml", Answer(yaml=True)),
        (
            "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
            Answer("PartialObjectMetadata"),
        ),
        ("application/json;stream=watch", PLAIN),
        ("application/json;q=x", PLAIN),
    ],
)
def test_the_first_wish_that_can_be_met_is_met(accept, answer) -> None:
    assert negotiate(accept) == answer


@pytest.mark.parametrize("accept", ["application/xml", "application/vnd.kubernetes.protobuf"])
def test_what_cannot_be_answered_is_refused(accept) -> None:
    with pytest.raises(StatusError) as refused:
        negotiate(accept)
    assert refused.value.code == 406


@pytest.mark.parametrize(
    ("accept", "version"),
    [
        (AGGREGATED, "v2"),
        (f"{AGGREGATED},application/json", "v2"),
        ("application/json", ""),
        (f"application/json,{AGGREGATED}", ""),
        ("", ""),
    ],
)
def test_aggregated_discovery_is_given_when_it_is_asked_for_first(accept, version) -> None:
    assert wants_aggregated_discovery(accept) == version


def test_bodies_are_json_unless_said_otherwise() -> None:
    assert body_format("") == body_format("application/json; charset=utf-8") == "json"
    assert body_format("application/yaml") == "yaml"
    assert body_format("application/vnd.kubernetes.protobuf") == "protobuf"
    with pytest.raises(StatusError) as refused:
        body_format("text/plain")
    assert refused.value.code == 415
