"""The way to log in that the flags of `manta console` name, and what it needs."""

from __future__ import annotations

import argparse
import hashlib
import logging
import re
import secrets
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

from manta.api.addresses import is_local_host
from manta.api.usage import UsageError
from manta.console.fetch import Fetch
from manta.console.login.issuer import Client, Issuer
from manta.console.login.method import Login
from manta.console.login.oidc import OidcLogin
from manta.console.login.proxy import MIN_SECRET, Proxy, ProxyLogin
from manta.console.login.token import TokenLogin
from manta.console.sessions import KEY_BYTES, Cookies

log = logging.getLogger(__name__)

_MIN_KEY = 32
_PRINTABLE = re.compile(r"[!-~]+")
_PATH = re.compile(r"/(?![/\\])[!-~]*")


def login_of(args: argparse.Namespace, key: bytes, url: SplitResult, fetch: Fetch) -> Login:
    """Raises UsageError, which names the flag."""
    if args.login == "token":
        return TokenLogin()
    if args.login == "proxy":
        secret = secret_of(args.proxy_secret_file, "--proxy-secret-file", MIN_SECRET)
        only = frozenset(filter(None, map(str.strip, args.proxy_groups.split(","))))
        headers = (args.proxy_user_header, args.proxy_groups_header)
        return ProxyLogin(Proxy(secret, *headers, only, logout_of(args.proxy_logout)))
    for name in ("issuer", "client_id"):
        if not getattr(args, f"oidc_{name}"):
            raise UsageError(f"--login oidc: --oidc-{name.replace('_', '-')} is missing")
    address_of(args.oidc_issuer, "--oidc-issuer", path=True)
    if "openid" not in args.oidc_scopes.split():
        raise UsageError(f"--oidc-scopes {args.oidc_scopes}: `openid` is missing")
    file = args.oidc_client_secret_file
    secret = secret_of(file, "--oidc-client-secret-file") if file else ""
    client = Client(args.oidc_issuer, args.oidc_client_id, secret, args.oidc_scopes)
    cookies = cookies_of(key, url, "login")
    return OidcLogin(Issuer(client, fetch), cookies, url.geturl())


def logout_of(text: str) -> str:
    """A path of this host, or an address with TLS. Raises UsageError."""
    if not text or _PATH.fullmatch(text):
        return text
    if not _PRINTABLE.fullmatch(text):
        raise UsageError(f"--proxy-logout {text!r}: must be a path or an address")
    address_of(text.partition("?")[0], "--proxy-logout", path=True)
    return text


def address_of(text: str, flag: str, *, path: bool = False) -> SplitResult:
    """An address with TLS, or of this machine. Raises UsageError."""
    if not text:
        raise UsageError(f"{flag} is missing: the address in browsers, such as https://ray.example")
    try:
        url = urlsplit(text)
        url.port  # noqa: B018 - raises for a wrong one
    except ValueError as error:
        raise UsageError(f"{flag} {text}: {error}") from error
    if url.scheme not in ("http", "https") or not url.hostname or url.username is not None:
        raise UsageError(f"{flag} {text}: must be https://NAME, without a user")
    if url.scheme == "http" and not is_local_host(url.hostname):
        raise UsageError(
            f"{flag} {text}: without TLS, tokens could be read on the way: use https, or a name of this machine"
        )
    if url.query or url.fragment or (url.path not in ("", "/") and not path):
        raise UsageError(f"{flag} {text}: must not have a path or a query")
    return url


def cookies_of(
    key: bytes, url: SplitResult, about: str = "console", *, encrypted: bool = True
) -> Cookies:
    """With TLS their names begin with `__Host-`: no other name or path of the site can set them."""
    secure = url.scheme == "https"
    return Cookies(key, port=url.port or 80, secure=secure, about=about, encrypted=encrypted)


def secret_of(file: Path | None, flag: str, least: int = 1) -> str:
    """The text of a file. Raises UsageError."""
    if file is None:
        raise UsageError(f"{flag} is missing")
    try:
        text = file.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{flag} {file}: {getattr(error, 'strerror', '') or error}") from error
    if len(text) < least:
        raise UsageError(f"{flag} {file}: {len(text)} characters; at least {least} are needed")
    return text


def key_of(file: Path | None) -> bytes:
    """The key of the cookies. Without the file, a new one: a restart then logs everybody out."""
    if file is None or not file.exists():
        log.warning("no key of the cookies is kept: a restart logs everybody out")
        return secrets.token_bytes(KEY_BYTES)
    return hashlib.sha256(secret_of(file, "--cookie-key-file", _MIN_KEY).encode()).digest()
