"""Leases."""

from __future__ import annotations

import msgspec

from manta.api.coordination import Lease


def test_a_lease_names_its_holder_and_its_times() -> None:
    text = (
        b'{"spec":{"holderIdentity":"me","leaseDurationSeconds":15,"leaseTransitions":2,'
        b'"acquireTime":null,"renewTime":"2026-11-15T08:30:00.000000Z"}}'
    )
    spec = msgspec.json.decode(text, type=Lease).spec
    assert (spec.holder_identity, spec.lease_duration_seconds) == ("me", 15)
    assert spec.acquire_time is None
    assert spec.renew_time == "2026-11-15T08:30:00.000000Z"
