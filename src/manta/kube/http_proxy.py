"""Which HTTP proxy to use for a server, by HTTPS_PROXY, HTTP_PROXY and NO_PROXY."""

from __future__ import annotations

import re
from collections.abc import Mapping
from ipaddress import ip_address, ip_network
from urllib.parse import urlsplit

from manta.api.addresses import is_local_host
from manta.kube.errors import CredentialsError

DEFAULT_PORTS = {"http": 80, "https": 443}


def proxy_for(server: str, environment: Mapping[str, str]) -> str:
    """The proxy for `server`; '' when none is set or NO_PROXY exempts it. Raises CredentialsError."""
    url = urlsplit(server)
    host = (url.hostname or "").lower()
    port = url.port or DEFAULT_PORTS.get(url.scheme, 0)
    proxy = _variable(environment, f"{url.scheme}_proxy")
    if (
        not proxy
        or is_local_host(host)
        or _is_exempt(host, port, _variable(environment, "no_proxy"))
    ):
        return ""
    return checked(proxy if "://" in proxy else f"http://{proxy}", f"{url.scheme.upper()}_PROXY")


def checked(proxy: str, field: str) -> str:
    """`proxy`, if it is supported. Raises CredentialsError, which names `field`."""
    if not is_http_url(proxy):
        shown = re.sub(r"//.*@", "//...@", proxy)  # a password is before the @
        raise CredentialsError(
            f"{field} is {shown!r}: use an http:// or https:// proxy with a host; "
            "SOCKS proxies are not supported"
        )
    return proxy


def is_http_url(text: str) -> bool:
    """Whether `text` is an http or https URL with a host and a valid port."""
    try:
        url = urlsplit(text)
        _ = url.port  # raises ValueError for an invalid port
    except ValueError:
        return False
    return url.scheme in DEFAULT_PORTS and bool(url.hostname)


def _variable(environment: Mapping[str, str], name: str) -> str:
    return environment.get(name.upper()) or environment.get(name) or ""


def _is_exempt(host: str, port: int, rules: str) -> bool:
    return any(
        _matches(host, port, rule.strip().lower()) for rule in rules.split(",") if rule.strip()
    )


def _matches(host: str, port: int, rule: str) -> bool:
    if rule == "*":
        return True
    if "/" in rule:
        return _inside(host, rule)
    name, _, only_port = rule.rpartition(":") if rule.count(":") == 1 else (rule, "", "")
    if only_port and only_port != str(port):
        return False
    # `.example.com` exempts its subdomains; `example.com` also exempts itself.
    return host == name or host.endswith(name if name.startswith(".") else f".{name}")


def _inside(host: str, network: str) -> bool:
    try:
        return ip_address(host) in ip_network(network, strict=False)
    except ValueError:
        return False
