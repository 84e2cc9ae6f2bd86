"""Rules for names that are not those of a DNS subdomain."""

from __future__ import annotations

from manta.api.names import dns1123_label_errors


def namespace_name_errors(name: str) -> tuple[str, ...]:
    return ("must not contain dots",) if "." in name else dns1123_label_errors(name)


def path_segment_errors(name: str) -> tuple[str, ...]:
    """The errors of a name that may hold whatever one segment of a path can hold."""
    if name in (".", ".."):
        return (f"may not be '{name}'",)
    return tuple(f"may not contain '{sign}'" for sign in "/%" if sign in name)
