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
        """Exceptions of scripts, and errors on the console of the browser."""
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
            elif message["method"] == "Runtime.consoleAPICalled":
                if message["params"]["type"] in ("error", "assert"):
                    self.failures.append(str(message["params"]["args"])[:500])
            elif message["method"] == "Log.entryAdded":
                entry = message["params"]["entry"]
                if entry["level"] == "error":
                    self.failures.append(f"{entry['text']} {entry.get('url', '')}"[:500])

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

    async def run(self, script: str) -> Any:
        """The value of an expression, or of the promise that it gives."""
        found = await self.call(
            "Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True
        )
        if "exceptionDetails" in found:
            raise AssertionError(f"{script[:200]}: {found['exceptionDetails']}")
        return found.get("result", {}).get("value")

    async def shows(self, words: str, seconds: float = 60) -> None:
        """Wait until the page shows a text."""
        try:
            async with asyncio.timeout(seconds):
                while words not in await self.text():
                    await asyncio.sleep(0.1)
        except TimeoutError:
            raise AssertionError(
                f"never showed {words!r}:\n{await self.text()}\n{self.failures}"
            ) from None

    async def click(self, words: str) -> None:
        """Click the link or button with exactly this text, as a person does, and wait for the next page."""
        name = json.dumps(words)
        find = f"""(() => {{ const found = [...document.querySelectorAll('button'), ...document.querySelectorAll('a')]
          .filter((one) => one.innerText.trim() === {name} && one.offsetParent);
          if (!found.length) return null;
          found[0].scrollIntoView({{block: 'center'}});
          const box = found[0].getBoundingClientRect();
          window.leaving = false;
          addEventListener('click', (event) => {{
            const what = event.target.closest('a,button');
            window.leaving = Boolean(what) && what.innerText.trim() === {name};
          }}, {{capture: true, once: true}});
          return [box.x + box.width / 2, box.y + box.height / 2]; }})()"""
        for _ in range(5):  # the page may have moved in between
            place = await self.run(find)
            assert place, f"there is no link or button {words!r}:\n{await self.text()}"
            for kind in ("mousePressed", "mouseReleased"):
                await self.call(
                    "Input.dispatchMouseEvent", type=kind, x=place[0], y=place[1], button="left", clickCount=1,
                )  # fmt: skip
            if await self._clicked():
                break
        await self._next_page()

    async def _clicked(self) -> bool:
        """Whether the click arrived: it is handled later on a busy machine. A new page has no `leaving`."""
        for _ in range(20):
            found = await self.call("Runtime.evaluate", expression="String(window.leaving)")
            if found.get("result", {}).get("value") != "false":
                return True
            await asyncio.sleep(0.1)
        return False

    async def _next_page(self) -> None:
        async with asyncio.timeout(60):
            while True:
                found = await self.call(
                    "Runtime.evaluate", expression="!window.leaving && document.readyState"
                )
                if found.get("result", {}).get("value") == "complete":
                    return
                await asyncio.sleep(0.05)

    async def fill(self, selector: str, value: str) -> None:
        """Replace what a field holds by typing."""
        script = f"document.querySelector({json.dumps(selector)}).focus(); document.activeElement.select && document.activeElement.select()"
        await self.run(script)
        await self.call("Input.insertText", text=value)

    async def press(self, key: str) -> None:
        code = {"Tab": 9, "Enter": 13}[key]
        text = {"text": "\r"} if key == "Enter" else {}
        for kind in ("keyDown", "keyUp"):
            await self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code, **(text if kind == "keyDown" else {}))  # fmt: skip

    async def resize(
        self, width: int, height: int = 900, *, zoom: float = 1, dark: bool = False
    ) -> None:
        """`zoom`: as a person zooms with Ctrl and +: fewer pixels of CSS, each larger."""
        await self.call(
            "Emulation.setDeviceMetricsOverride", width=round(width / zoom), height=round(height / zoom),
            deviceScaleFactor=zoom, mobile=False,
        )  # fmt: skip
        scheme = "dark" if dark else "light"
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        await self.call("Emulation.setEmulatedMedia", features=features)

    async def screenshot(self, path: Path, clip: dict[str, float] | None = None) -> None:
        """Of what the window shows, or of a part of the page."""
        part = {"clip": clip, "captureBeyondViewport": True} if clip else {}
        found = await self.call("Page.captureScreenshot", format="png", **part)
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
            for domain in ("Page", "Network", "Runtime", "Log"):
                await page.call(f"{domain}.enable")
            await page.call("Network.setExtraHTTPHeaders", headers=headers)
            pages.append(page)
        yield pages
    finally:
        for page in pages:
            await page.close()
        process.terminate()
        await process.wait()
