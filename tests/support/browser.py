"""Headless Chromium over its DevTools protocol: pages, the requests they make, and screenshots."""

from __future__ import annotations

import asyncio
import base64
import json
import shutil
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from websockets.asyncio.client import ClientConnection, connect

CHROMIUM = shutil.which("chromium") or ""
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--remote-debugging-port=0", "--window-size=1400,1000", "--hide-scrollbars",
)  # fmt: skip


class Page:
    def __init__(self, connection: ClientConnection) -> None:
        self._connection = connection
        self._number = 0
        self._replies: dict[int, asyncio.Future[Any]] = {}
        self.requests: list[str] = []
        self.failures: list[str] = []
        self._reading = asyncio.create_task(self._read())

    async def _read(self) -> None:
        async for text in self._connection:
            message = json.loads(text)
            if "id" in message:
                self._replies.pop(message["id"]).set_result(message)
            elif message["method"] == "Network.requestWillBeSent":
                self.requests.append(message["params"]["request"]["url"])
            elif message["method"] == "Runtime.exceptionThrown":
                self.failures.append(str(message["params"]["exceptionDetails"])[:500])

    async def close(self) -> None:
        self._reading.cancel()
        await self._connection.close()

    async def call(self, method: str, **params: Any) -> Any:
        self._number += 1
        reply: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._replies[self._number] = reply
        await self._connection.send(
            json.dumps({"id": self._number, "method": method, "params": params})
        )
        return (await reply).get("result", {})

    async def text(self) -> str:
        found = await self.call("Runtime.evaluate", expression="document.body.innerText")
        return str(found.get("result", {}).get("value", ""))

    async def open(self, url: str, shows: str, seconds: float = 60) -> str:
        """Go to a page, and wait until it shows a text."""
        await self.call("Page.navigate", url="about:blank")
        await self.call("Page.navigate", url=url)
        text = ""
        try:
            async with asyncio.timeout(seconds):
                while shows not in (text := await self.text()):
                    await asyncio.sleep(0.2)
        except TimeoutError:
            raise AssertionError(
                f"{url} never showed {shows!r}:\n{text}\n{self.failures}"
            ) from None
        return text

    async def screenshot(self, path: Path) -> None:
        found = await self.call("Page.captureScreenshot", format="png")
        path.write_bytes(base64.b64decode(found["data"]))


def devtools_port(profile: Path) -> str:
    """The port that Chromium listens on; empty until it has written it."""
    try:
        port, *rest = (profile / "DevToolsActivePort").read_text().splitlines()
    except (FileNotFoundError, ValueError):
        return ""
    return port if rest else ""


@asynccontextmanager
async def browser(
    directory: Path, headers: dict[str, str], tabs: int = 1
) -> AsyncIterator[list[Page]]:
    """Tabs of a fresh Chromium that send these headers."""
    profile = directory / "profile"
    process = await asyncio.create_subprocess_exec(
        CHROMIUM, *FLAGS, f"--user-data-dir={profile}", "about:blank",
        stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    pages: list[Page] = []
    try:
        async with asyncio.timeout(60):
            while not (port := devtools_port(profile)):
                await asyncio.sleep(0.1)
        for _ in range(tabs):
            made = urllib.request.Request(
                f"http://127.0.0.1:{port}/json/new?about:blank", method="PUT"
            )
            target = json.loads(urllib.request.urlopen(made).read())
            page = Page(await connect(target["webSocketDebuggerUrl"], max_size=None))
            for domain in ("Page", "Network", "Runtime"):
                await page.call(f"{domain}.enable")
            await page.call("Network.setExtraHTTPHeaders", headers=headers)
            pages.append(page)
        yield pages
    finally:
        for page in pages:
            await page.close()
        process.terminate()
        await process.wait()
