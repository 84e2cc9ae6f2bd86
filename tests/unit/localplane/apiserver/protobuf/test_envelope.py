from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from manta.localplane.apiserver.protobuf import ProtobufError, decode

# What Go's own encoder makes of objects.yaml; written by tools/protobuf/golden.
BODIES = json.loads(Path(__file__).with_name("bodies.json").read_bytes())


@pytest.mark.parametrize("body", BODIES, ids=lambda body: body["sent"]["kind"])
def test_a_body_of_a_go_client_is_the_object_that_go_prints(body) -> None:
    assert decode(base64.b64decode(body["protobuf"])) == body["printed"]


def field(number: int, content: bytes) -> bytes:
    return bytes([number << 3 | 2, len(content)]) + content


def envelope(api_version: bytes, kind: bytes, raw: bytes, *more: bytes) -> bytes:
    type_meta = field(1, api_version) + field(2, kind)
    return b"k8s\x00" + field(1, type_meta) + field(2, raw) + b"".join(more)


def test_fields_of_a_newer_client_are_skipped() -> None:
    raw = field(1, field(1, b"n")) + field(15, b"??") + bytes([14 << 3, 1])
    assert decode(envelope(b"v1", b"ConfigMap", raw)) == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "n"},
    }


def test_options_are_known_in_every_group() -> None:
    options = decode(envelope(b"apps/v1", b"DeleteOptions", field(4, b"Orphan")))
    assert options["propagationPolicy"] == "Orphan"


def test_an_envelope_may_hold_json() -> None:
    body = envelope(b"ray.io/v1", b"RayCluster", b'{"spec":{}}', field(4, b"application/json"))
    assert decode(body) == {"apiVersion": "ray.io/v1", "kind": "RayCluster", "spec": {}}


def test_times_and_durations_before_the_epoch_and_beyond_reason_are_read_or_refused() -> None:
    huge = bytes([1 << 3]) + b"\xff" * 8 + b"\x7f"
    raw = field(1, field(8, huge))
    with pytest.raises(ProtobufError):
        decode(envelope(b"v1", b"ConfigMap", raw))


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        b"k8s\x00\xff",
        b"k8s\x00" + bytes([1 << 3, 5]),
        envelope(b"v1", b"ConfigMap", b"\x0a\x7f"),
        envelope(b"v1", b"ConfigMap", field(1, field(1, b"\xff"))),
        envelope(b"v1", b"ConfigMap", bytes([1 << 3, 1])),
        envelope(b"v1", b"ConfigMap", bytes([1 << 3 | 3])),
        envelope(b"v1", b"ConfigMap", b"\x00"),
        envelope(b"v1", b"ConfigMap", b"\xff" * 11),
        envelope(b"ray.io/v1", b"RayCluster", b""),
        envelope(b"ray.io/v1", b"RayCluster", b"[]", field(4, b"application/json")),
        envelope(b"v1", b"Pod", field(2, b"\x12")),
    ],
)
def test_what_is_no_protobuf_body_is_refused(body) -> None:
    with pytest.raises(ProtobufError):
        decode(body)
