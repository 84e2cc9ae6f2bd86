"""EndpointSlices."""

from __future__ import annotations

import msgspec

from manta.api.discovery import EndpointSlice


def test_an_empty_slice_is_printed_with_nulls_and_read_as_empty() -> None:
    text = b'{"addressType":"IPv4","endpoints":null,"ports":null}'
    empty = msgspec.json.decode(text, type=EndpointSlice)
    assert empty.endpoints == ()
    assert empty.ports == ()


def test_an_endpoint_of_unknown_readiness_counts_as_ready() -> None:
    found = msgspec.convert(
        {
            "endpoints": [
                {"addresses": ["10.0.0.1"], "conditions": {"ready": True}},
                {"addresses": ["10.0.0.2"], "conditions": {}},
                {"addresses": ["10.0.0.3"], "conditions": {"ready": False}},
            ]
        },
        EndpointSlice,
    )
    assert [one.ready for one in found.endpoints] == [True, True, False]
