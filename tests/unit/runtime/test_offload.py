"""Large texts are parsed off the event loop, one after the other."""

from __future__ import annotations

import asyncio
import time
from threading import Lock

from manta.runtime.offload import parse_ahead


class CountingParser:
    """Counts how many texts are parsed at the same time."""

    def __init__(self) -> None:
        self.most = self._now = 0
        self.parsed: list[str] = []
        self._lock = Lock()

    def __call__(self, text: str, /) -> object:
        with self._lock:
            self._now += 1
            self.most = max(self.most, self._now)
        time.sleep(0.01)
        with self._lock:
            self._now -= 1
            self.parsed.append(text)
        return text

    def knows(self, text: str) -> bool:
        return text in self.parsed


async def test_one_large_text_is_parsed_at_a_time() -> None:
    """Parsing holds the interpreter's lock: many threads would leave the event loop a small share of
    it, and a bounded cache would drop results before anybody read them."""
    parser = CountingParser()
    texts = [f"text {number}" for number in range(12)]
    await asyncio.gather(*(parse_ahead(parser, text, large=3) for text in texts))
    assert parser.most == 1
    assert sorted(parser.parsed) == sorted(texts)


async def test_a_small_or_known_text_needs_no_thread() -> None:
    parser = CountingParser()
    parser.parsed.append("known before")
    await parse_ahead(parser, "abc", large=3)
    await parse_ahead(parser, "known before", large=3)
    assert parser.parsed == ["known before"]
