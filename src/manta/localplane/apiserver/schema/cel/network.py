"""`url()`, `ip()` and `cidr()` of Kubernetes' CEL, by the rules of Go's net packages."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import (
    IPv4Address,
    IPv4Interface,
    IPv6Address,
    IPv6Interface,
    ip_address,
    ip_interface,
)
from typing import Any, TypeAlias
from urllib.parse import parse_qsl, quote

from manta.localplane.apiserver.schema.cel.errors import NO_OVERLOAD, EvaluationError

Function: TypeAlias = Callable[..., Any]
Address: TypeAlias = IPv4Address | IPv6Address
Range: TypeAlias = IPv4Interface | IPv6Interface

_URL = re.compile(
    r"(?:(?P<scheme>[A-Za-z][-+.A-Za-z0-9]*):)?(?://(?P<host>[^/?]*))?(?P<path>[^?]*)"
    r"(?:\?(?P<query>.*))?",
    re.DOTALL,
)
_HOST = re.compile(r"(?:\[(?P<v6>[0-9A-Fa-f:.]+)\]|(?P<name>[^\[\]:]*))(?::(?P<port>[0-9]*))?")
_HOST_CHARACTERS = re.compile(r"[-A-Za-z0-9._~!$&'()*+,;=:\[\]<>\"\x80-\U0010ffff]*")
_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_BITS = re.compile(r"0|[1-9][0-9]{0,2}")


# ── URLs ─────────────────────────────────────────────────────────────────────────────────
@dataclass(frozen=True, slots=True)
class Url:
    scheme: str
    host: str
    path: str
    query: str


def _url(text: Any) -> Url:
    """Read an absolute URI or path, as Go's `url.ParseRequestURI` does."""
    found = _parse_url(_text(text))
    if found is None:
        raise EvaluationError(f'URL parse error during conversion from string: parse "{text}"')
    return found


def _parse_url(text: str) -> Url | None:
    match = _URL.fullmatch(text.partition("#")[0])
    if match is None or not text or _CONTROL.search(text) or _BAD_ESCAPE.search(match["path"]):
        return None
    scheme, host, path = (match["scheme"] or "").lower(), match["host"] or "", match["path"]
    if not scheme and not text.startswith("/"):
        return None
    host = host.rpartition("@")[2]
    if not _HOST_CHARACTERS.fullmatch(host) or not _HOST.fullmatch(host):
        return None
    if match["host"] is None and not path.startswith("/"):  # opaque, such as mailto:a@b
        path = ""
    return Url(scheme, host, path, match["query"] or "")


def _hostname(url: Any) -> str:
    match = _HOST.fullmatch(_of(url, Url).host)
    return (match["v6"] or match["name"] or "") if match else ""


def _port(url: Any) -> str:
    match = _HOST.fullmatch(_of(url, Url).host)
    return (match["port"] or "") if match else ""


def _escaped_path(url: Any) -> str:
    return quote(_of(url, Url).path, safe="/%$&+,:;=@!'()*~[]-._")


def _query(url: Any) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, value in parse_qsl(_of(url, Url).query, keep_blank_values=True):
        found.setdefault(name, []).append(value)
    return found


# ── addresses ────────────────────────────────────────────────────────────────────────────
def _ip(text: Any) -> Address:
    found = _parse_ip(_text(text))
    if found is None:
        raise EvaluationError(f"IP Address {text!r} parse error during conversion from string")
    return found


def _parse_ip(text: str) -> Address | None:
    """Zones and IPv4-mapped IPv6 addresses are refused: one address would have two spellings."""
    try:
        found = ip_address(text)
    except ValueError:
        return None
    if isinstance(found, IPv6Address) and (found.scope_id is not None or found.ipv4_mapped):
        return None
    return found


def _is_canonical(text: Any) -> bool:
    return str(_ip(text)) == _text(text)


def _is_link_local_multicast(ip: Any) -> bool:
    raw = _address(ip).packed
    if len(raw) == 4:
        return raw[:3] == b"\xe0\x00\x00"
    return raw[0] == 0xFF and raw[1] & 0x0F == 2


def _is_global_unicast(ip: Any) -> bool:
    found = _address(ip)
    special = (found.is_unspecified, found.is_loopback, found.is_multicast, found.is_link_local)
    return not any(special) and found.packed != b"\xff" * 4


def _address(value: Any) -> Address:
    if isinstance(value, IPv4Address | IPv6Address) and not isinstance(
        value, IPv4Interface | IPv6Interface
    ):
        return value
    raise EvaluationError(NO_OVERLOAD)


# ── ranges ───────────────────────────────────────────────────────────────────────────────
def _cidr(text: Any) -> Range:
    found = _parse_cidr(_text(text))
    if found is None:
        raise EvaluationError(f"network address parse error during conversion from string {text!r}")
    return found


def _parse_cidr(text: str) -> Range | None:
    address, _, bits = text.rpartition("/")
    if not _BITS.fullmatch(bits) or _parse_ip(address) is None:
        return None
    try:
        return ip_interface(text)
    except ValueError:
        return None


def _range(value: Any) -> Range:
    if isinstance(value, IPv4Interface | IPv6Interface):
        return value
    raise EvaluationError(NO_OVERLOAD)


def _contains_ip(range_: Any, ip: Any) -> bool:
    found = _ip(ip) if isinstance(ip, str) else _address(ip)
    network = _range(range_).network
    return found.version == network.version and found in network


def _contains_cidr(range_: Any, other: Any) -> bool:
    inner = _cidr(other) if isinstance(other, str) else _range(other)
    outer = _range(range_).network
    same = outer.version == inner.version
    return same and outer.prefixlen <= inner.network.prefixlen and inner.ip in outer


def _masked(range_: Any) -> Range:
    network = _range(range_).network
    return ip_interface((network.network_address, network.prefixlen))


# ── shared ───────────────────────────────────────────────────────────────────────────────
def _text(value: Any) -> str:
    return str(_of(value, str))


def _of(value: Any, kind: Any) -> Any:
    if not isinstance(value, kind):
        raise EvaluationError(NO_OVERLOAD)
    return value


GLOBALS: dict[tuple[str, int], Function] = {
    ("url", 1): _url,
    ("isURL", 1): lambda text: _parse_url(_text(text)) is not None,
    ("ip", 1): _ip,
    ("isIP", 1): lambda text: _parse_ip(_text(text)) is not None,
    ("ip.isCanonical", 1): _is_canonical,
    ("cidr", 1): _cidr,
    ("isCIDR", 1): lambda text: _parse_cidr(_text(text)) is not None,
}
METHODS: dict[tuple[str, int], Function] = {
    ("getScheme", 0): lambda url: _of(url, Url).scheme,
    ("getHost", 0): lambda url: _of(url, Url).host,
    ("getHostname", 0): _hostname,
    ("getPort", 0): _port,
    ("getEscapedPath", 0): _escaped_path,
    ("getQuery", 0): _query,
    ("family", 0): lambda ip: _address(ip).version,
    ("isUnspecified", 0): lambda ip: _address(ip).is_unspecified,
    ("isLoopback", 0): lambda ip: _address(ip).is_loopback,
    ("isLinkLocalMulticast", 0): _is_link_local_multicast,
    ("isLinkLocalUnicast", 0): lambda ip: _address(ip).is_link_local,
    ("isGlobalUnicast", 0): _is_global_unicast,
    ("containsIP", 1): _contains_ip,
    ("containsCIDR", 1): _contains_cidr,
    ("ip", 0): lambda range_: _range(range_).ip,
    ("masked", 0): _masked,
    ("prefixLength", 0): lambda range_: _range(range_).network.prefixlen,
}
