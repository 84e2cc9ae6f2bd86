"""Views of the coordination group: the Lease behind leader election and node heartbeats."""

from __future__ import annotations

from manta.api.meta import Object, View


class LeaseSpec(View, frozen=True, kw_only=True):
    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class Lease(Object, frozen=True, kw_only=True):
    spec: LeaseSpec = LeaseSpec()
