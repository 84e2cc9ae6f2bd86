"""The little that is kept of an object of which only its place in the graph of owners matters."""

from __future__ import annotations

from msgspec import field

from manta.api.meta import ObjectMeta, View

_NOTHING: dict[str, str] = {}
"""Shared by all traces: thousands of empty dicts would cost more than they say."""


class TraceMeta(ObjectMeta, frozen=True, kw_only=True):
    """Metadata without labels and annotations: these can be large, and nobody asks for them here.

    The fields exist, so that a trace can stand where metadata is expected, but they are read
    from names that no object has.
    """

    labels: dict[str, str] = field(name="-labels", default_factory=lambda: _NOTHING)
    annotations: dict[str, str] = field(name="-annotations", default_factory=lambda: _NOTHING)


class Trace(View, frozen=True, kw_only=True):
    metadata: TraceMeta = TraceMeta()
