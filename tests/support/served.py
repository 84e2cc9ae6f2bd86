"""What the embedded API server serves, for tests of its parts."""

from __future__ import annotations

from manta.localplane.apiserver.api_resources import ApiResource
from manta.localplane.apiserver.registry import Registry


def built_in(group: str, version: str, plural: str) -> ApiResource:
    found = Registry().find(group, version, plural)
    assert found is not None
    return found
