"""Logins over TLS in a real browser: which cookies it keeps and sends, and that no token shows anywhere."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from manta.cli.server.tls_files import tls_context
from manta.console.server import LIMITS
from manta.httpserver.server import HttpServer
from support.browser import CHROMIUM, Page, browser
from support.certificates import Authority
from support.shared_console import NAME, WRITE, account, shared_console
from unit.console.test_oidc import running

pytestmark = pytest.mark.skipif(not CHROMIUM, reason="needs Chromium: apt-get install chromium")


def certificate(directory: Path) -> tuple[Path, Path]:
    pair = Authority().issue(NAME, NAME)
    files = directory / "tls.crt", directory / "tls.key"
    for file, content in zip(files, (pair.certificate, pair.key), strict=True):
        file.write_bytes(content)
    return files


@asynccontextmanager
async def trusting(directory: Path) -> AsyncIterator[Page]:
    """A browser that takes the test's certificate."""
    async with browser(directory, {}) as [page]:
        await page.call("Security.setIgnoreCertificateErrors", ignore=True)
        yield page


async def cookies(page: Page) -> dict[str, dict[str, Any]]:
    found = await page.call("Network.getAllCookies")
    return {one["name"]: one for one in found["cookies"]}


async def shows(page: Page, words: str) -> None:
    async with asyncio.timeout(30):
        while words not in await page.text():
            await asyncio.sleep(0.1)


async def test_a_pasted_token_becomes_a_host_cookie_and_shows_nowhere(tmp_path: Path) -> None:
    cert, key = await asyncio.to_thread(certificate, tmp_path)
    flags = ("--tls-cert", str(cert), "--tls-key", str(key))
    async with (
        shared_console(tmp_path, *flags, url=f"https://{NAME}") as shared,
        trusting(tmp_path) as page,
    ):
        token = await account(shared.plane.client, "boss", WRITE)
        base = f"https://{NAME}:{shared.console.port}"
        await page.open(f"{base}/login", "Token of Kubernetes")
        typed = f"document.querySelector('[name=token]').value = '{token}'"
        await page.call("Runtime.evaluate", expression=typed)
        await page.call("Runtime.evaluate", expression="document.forms[0].submit()")
        await shows(page, "system:serviceaccount:default:boss")
        [one] = (await cookies(page)).values()
        assert one["name"] == "__Host-manta-console"
        assert (one["secure"], one["httpOnly"], one["sameSite"]) == (True, True, "Strict")
        seen = await page.call("Runtime.evaluate", expression="document.cookie + location.href")
        shown = [seen["result"]["value"], one["value"], *page.requests]
        assert not [text for text in shown if token.rpartition(".")[2] in text]
        assert page.failures == []


async def test_a_login_at_an_issuer_of_another_site_comes_back(tmp_path: Path) -> None:
    cert, key = await asyncio.to_thread(certificate, tmp_path)
    context = tls_context(cert, key)
    assert isinstance(context, ssl.SSLContext)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    base = f"https://{NAME}:{port}"
    async with running(base) as console, trusting(tmp_path) as page:
        server = HttpServer(console.handler, frozenset({NAME}), LIMITS)
        await server.start("127.0.0.1", port, context)
        try:
            await page.open(f"{base}/login", "You log in at")
            await page.call("Runtime.evaluate", expression="document.forms[0].submit()")
            await shows(page, "Fleet")
            found = await cookies(page)
            assert found["__Host-manta-login"]["sameSite"] == "Lax"
            assert found["__Host-manta-console"]["sameSite"] == "Strict"
            where = await page.call("Runtime.evaluate", expression="location.href")
            assert where["result"]["value"] == f"{base}/"
            assert "ada" in await page.text()
            [token] = set(console.tokens)
            assert not [one for one in page.requests if token.split(".")[1] in one]
            assert page.failures == []
        finally:
            await server.stop(grace_seconds=0.1)
