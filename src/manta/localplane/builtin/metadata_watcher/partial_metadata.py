"""The metadata of an object without labels and annotations."""

from __future__ import annotations

from msgspec import field

from manta.api.meta import ObjectMeta, View

_NOTHING: dict[str, str] = {}
"""Shared, because thousands of empty dicts cost memory."""


class PartialMetadata(ObjectMeta, frozen=True, kw_only=True):
    """Without labels and annotations, which can be large.

    The fields exist, so that it can be used as ObjectMeta, but are decoded from names that no object
    has.
    """

    labels: dict[str, str] = field(name="-labels", default_factory=lambda: _NOTHING)
    annotations: dict[str, str] = field(name="-annotations", default_factory=lambda: _NOTHING)


class PartialObjectMetadata(View, frozen=True, kw_only=True):
    metadata: PartialMetadata = PartialMetadata()
