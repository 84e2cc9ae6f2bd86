"""The string formats that kube-apiserver checks; it ignores all others."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from datetime import date
from urllib.parse import urlsplit

from manta.api.durations import DurationError, parse_nanoseconds

_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_TIME = re.compile(
    r"([0-9]{2}):([0-9]{2}):([0-9]{2})(\.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))", re.ASCII
)
_BASE64 = re.compile(
    r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})"
)
_EMAIL = re.compile(r"[^@\s<>]+@[^@\s<>]+\Z", re.ASCII)
_LABEL = r"[^\W_](?:[^\W_]|-(?!\.|$)){0,62}"
_HOSTNAME = re.compile(rf"{_LABEL}|(?:{_LABEL}\.)+[^\W\d_]{{2,63}}")
_UUID = re.compile(r"(?i)[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}")
_LOOSE_DURATION = re.compile(
    r"(?i)\d+\s*(ns|nano|us|µs|micro|ms|milli|s|m|h|hr|d|w|wk|(sec|min|hour|day|week)\w*)\b"
)
_SHORT_NAME = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_MAC = re.compile(r"(?i)([0-9a-f]{2}[:-]){5}([0-9a-f]{2})|([0-9a-f]{4}\.){2}[0-9a-f]{4}")


def _is_date(text: str) -> bool:
    if not _DATE.fullmatch(text):
        return False
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True


def _is_date_time(text: str) -> bool:
    day, _, clock = text.lower().partition("t")
    found = _TIME.match(clock)
    return (
        _is_date(day)
        and found is not None
        and found[1] <= "23"
        and found[2] <= "59"
        and found[3] <= "59"
    )


def _is_duration(text: str) -> bool:
    try:
        parse_nanoseconds(text)
    except DurationError:
        return _LOOSE_DURATION.search(text) is not None
    return True


def _is_uri(text: str) -> bool:
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    return bool(text) and (text.startswith("/") or bool(parts.scheme)) and " " not in text


def _is_ipv4(text: str) -> bool:
    parts = text.split(".")
    return len(parts) == 4 and all(part.isdigit() and int(part) < 256 for part in parts)


def _is_ipv6(text: str) -> bool:
    try:
        ipaddress.IPv6Address(text)
    except ValueError:
        return False
    return True


def _is_cidr(text: str) -> bool:
    try:
        ipaddress.ip_network(text, strict=False)
    except ValueError:
        return False
    return "/" in text


def _matches(pattern: str | re.Pattern[str], limit: int = 0) -> Callable[[str], bool]:
    compiled = re.compile(pattern)
    return lambda text: compiled.fullmatch(text) is not None and (not limit or len(text) <= limit)


def _uuid_of_version(version: str) -> str:
    variant = "[0-9a-f]" if version == "3" else "[89ab]"
    return (
        rf"(?i)[0-9a-f]{{8}}-?[0-9a-f]{{4}}-?{version}[0-9a-f]{{3}}-?{variant}[0-9a-f]{{3}}-?"
        "[0-9a-f]{12}"
    )


# Names are compared without dashes: `date-time` and `datetime` are one format.
FORMATS: dict[str, Callable[[str], bool]] = {
    "date": _is_date,
    "datetime": _is_date_time,
    "duration": _is_duration,
    "byte": _matches(_BASE64),
    "uri": _is_uri,
    "email": _matches(_EMAIL),
    "hostname": _matches(_HOSTNAME, 255),
    "ipv4": _is_ipv4,
    "ipv6": _is_ipv6,
    "cidr": _is_cidr,
    "mac": _matches(_MAC),
    "uuid": _matches(_UUID),
    "uuid3": _matches(_uuid_of_version("3")),
    "uuid4": _matches(_uuid_of_version("4")),
    "uuid5": _matches(_uuid_of_version("5")),
    "hexcolor": _matches(r"#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})"),
    "k8sshortname": _matches(_SHORT_NAME, 63),
    "k8slongname": _matches(rf"{_SHORT_NAME}(\.{_SHORT_NAME})*", 253),
}


def known_format(name: str) -> Callable[[str], bool] | None:
    """Return the check of a format; None if kube-apiserver does not check it."""
    return FORMATS.get(name.replace("-", ""))
