"""Views of cert-manager's kinds: the fields that the operator sets or waits for."""

from __future__ import annotations

from typing import Any

import msgspec

from manta.api.conditions import find
from manta.api.meta import Condition, Object, View


class CertificateSpec(View, frozen=True, kw_only=True):
    secret_name: str = ""
    dns_names: tuple[str, ...] = ()
    ip_addresses: tuple[str, ...] = ()
    issuer_ref: dict[str, Any] = msgspec.field(default_factory=dict)


class CertificateStatus(View, frozen=True, kw_only=True):
    conditions: tuple[Condition, ...] = ()
    not_after: str | None = None
    revision: int = 0


class Certificate(Object, frozen=True, kw_only=True):
    spec: CertificateSpec = CertificateSpec()
    status: CertificateStatus = CertificateStatus()

    @property
    def has_been_issued(self) -> bool:
        """Whether its Secret exists, maybe from an earlier generation."""
        ready = find(self.status.conditions, "Ready")
        return self.status.revision > 0 or (ready is not None and ready.status == "True")

    @property
    def is_current(self) -> bool:
        """Whether its Secret matches its current spec."""
        ready = find(self.status.conditions, "Ready")
        if ready is None or ready.status != "True":
            return False
        return ready.observed_generation in (0, self.metadata.generation)

    @property
    def trouble(self) -> str:
        """Why it is not ready, from cert-manager."""
        ready = find(self.status.conditions, "Ready")
        return ready.message if ready is not None and ready.status != "True" else ""
