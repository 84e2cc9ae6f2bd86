"""Addresses: of this machine, and those that a Service may not have as endpoints."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address


def parse_address(text: str) -> IPv4Address | IPv6Address | None:
    """The address; None if it is not one. An IPv4-mapped IPv6 address becomes IPv4."""
    try:
        address = ip_address(text)
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


def is_local_host(host: str) -> bool:
    """Whether a host name or address means this machine."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def special_address(text: str) -> str:
    """Why an address cannot be an endpoint, in kube-apiserver's words; empty if it can."""
    address = parse_address(text)
    if address is None:
        return "must be a valid IP address"
    if address.is_unspecified:
        return f"may not be unspecified ({text})"
    if address.is_loopback:
        return "may not be in the loopback range (127.0.0.0/8, ::1/128)"
    if address.is_link_local:
        return "may not be in the link-local range (169.254.0.0/16, fe80::/10)"
    if _is_link_local_multicast(address):
        return "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)"
    return ""


def _is_link_local_multicast(address: IPv4Address | IPv6Address) -> bool:
    if isinstance(address, IPv4Address):
        return int(address) >> 8 == int(IPv4Address("224.0.0.0")) >> 8
    return address.packed[0] == 0xFF and address.packed[1] & 0x0F == 0x02
