"""What the preparation of an object needs from the rest of the server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol


class AdmissionDeniedError(Exception):
    """Admission denies the request: 403 Forbidden with this reason."""


class Context(Protocol):
    """Questions about the state of the server. None of them changes it."""

    def now(self) -> str:
        """The time as the API writes it."""

    def cluster_ip(self, metadata: Mapping[str, Any], wanted: str) -> str:
        """The address of a Service: the wanted one, the one it has, or a free one."""

    def node_port(self, metadata: Mapping[str, Any], wanted: int) -> int:
        """A port on every node: the wanted one or a free one, from 30000 to 32767."""

    def service_account(self, namespace: str, name: str) -> Mapping[str, Any] | None:
        """The ServiceAccount, or None if it does not exist."""

    def priority_class(self, name: str) -> Mapping[str, Any] | None:
        """The PriorityClass, or None if it does not exist."""

    def default_priority_class(self) -> Mapping[str, Any] | None:
        """The PriorityClass marked globalDefault, if any."""

    def random_suffix(self) -> str:
        """Five letters and digits for the name of a volume."""
