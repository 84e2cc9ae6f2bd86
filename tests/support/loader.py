"""Calls one URL without a pause, and keeps what went wrong: a user who never looks away.

    python loader.py URL [--callers 4] [--pause 0.05] [--host NAME] [--until FILE] [--requests N]

Stands on the standard library alone, so that the same file runs beside a test, in a network namespace
and as the program of a Pod. Once a second, and at its end, it prints what it has seen so far as one
line of JSON; it ends when FILE exists, after N requests, or on SIGTERM. A request fails when it cannot be sent, is not
answered in time, or is answered with anything but 200: nothing is tried twice.
"""

from __future__ import annotations

import argparse
import http.client
import json
import signal
import sys
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

TIMEOUT = 30.0
MAX_TOLD = 20
"""Of ten thousand failures the first ones say most."""


@dataclass
class Tally:
    """What all callers have seen."""

    answers: Counter[str] = field(default_factory=Counter)
    """How often each answer came, by its text."""
    failed: int = 0
    failures: list[str] = field(default_factory=list)
    longest: float = 0.0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def answered(self, text: str, took: float) -> None:
        with self.lock:
            self.answers[text] += 1
            self.longest = max(self.longest, took)

    def lost(self, why: str) -> None:
        with self.lock:
            self.failed += 1
            if len(self.failures) < MAX_TOLD:
                self.failures.append(f"{time.strftime('%H:%M:%S', time.gmtime())} {why}")

    def total(self) -> int:
        with self.lock:
            return self.answers.total() + self.failed

    def line(self) -> str:
        with self.lock:
            document = {
                "at": round(time.time(), 2),
                "requests": self.answers.total() + self.failed,
                "failed": self.failed,
                "answers": dict(self.answers),
                "longest_seconds": round(self.longest, 3),
                "failures": list(self.failures),
            }
        return json.dumps(document)


@dataclass(frozen=True)
class Errand:
    url: str
    host: str = ""
    """What to say as Host, where it is not the one that is dialled."""
    pause: float = 0.05
    requests: int = 0
    """After so many of all callers each makes its last one; 0: without an end."""

    def run(self, tally: Tally, ended: threading.Event) -> None:
        while not ended.wait(self.pause):
            if self.requests and tally.total() >= self.requests:
                ended.set()
                return
            began = time.monotonic()
            try:
                tally.answered(self._call(), time.monotonic() - began)
            except (OSError, http.client.HTTPException, ValueError) as error:
                took = time.monotonic() - began
                tally.lost(f"after {took:.2f} s: {type(error).__name__}: {error}")

    def _call(self) -> str:
        parts = urlsplit(self.url)
        port = parts.port or 80
        connection = http.client.HTTPConnection(parts.hostname or "", port, timeout=TIMEOUT)
        headers = {"Connection": "close"} | ({"Host": self.host} if self.host else {})
        try:
            connection.request("GET", parts.path or "/", headers=headers)
            with connection.getresponse() as answer:
                text = answer.read().decode("utf-8", "replace").strip()
        finally:
            connection.close()
        if answer.status != http.HTTPStatus.OK:
            raise ValueError(f"{answer.status} {text[:200]}")
        return text[:100]


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("url")
    parser.add_argument("--callers", type=int, default=4)
    parser.add_argument(
        "--pause", type=float, default=0.05, help="seconds between two calls of one"
    )
    parser.add_argument("--host", default="")
    parser.add_argument("--until", type=Path, help="ends when this file exists")
    parser.add_argument("--requests", type=int, default=0, help="ends after so many")
    args = parser.parse_args(arguments)
    tally, ended = Tally(), threading.Event()
    errand = Errand(args.url, args.host, args.pause, args.requests)

    def stop(*_: Any) -> None:
        ended.set()

    signal.signal(signal.SIGTERM, stop)
    callers = [
        threading.Thread(target=errand.run, args=(tally, ended)) for _ in range(args.callers)
    ]
    for caller in callers:
        caller.start()
    while not ended.wait(1.0):
        say(tally.line())
        if args.until and args.until.exists():
            ended.set()
    for caller in callers:
        caller.join()
    say(tally.line())
    return 0


if __name__ == "__main__":
    sys.exit(main())
