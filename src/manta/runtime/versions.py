"""Order between resourceVersions of one resource.

Kubernetes promises decimal numbers that grow with every write. For a server with another form, no version
counts as older, and freshness falls back to live reads.
"""

from __future__ import annotations


def number(resource_version: str) -> int | None:
    """The version as a number; None if it is not one."""
    return int(resource_version) if resource_version.isdecimal() else None


def is_newer(one: str, other: str) -> bool:
    """Whether `one` was certainly written after `other`."""
    first, second = number(one), number(other)
    return first is not None and second is not None and first > second


def is_older(one: str, other: str) -> bool:
    """Whether `one` was certainly or possibly written before `other`; equal is not older."""
    if one == other:
        return False
    first, second = number(one), number(other)
    return first is None or second is None or first < second
