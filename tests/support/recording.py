"""What a server answered, word for word, beside what the real one answers.

A `Recording` is an `Api` that writes down every exchange. What differs from run to run (uids, times,
revisions, generated names, addresses) is replaced by a name for it, the same name for the same
value, so that two servers can be compared whole. The answers of a real kube-apiserver lie in
`tests/contract/recorded`; MANTA_RECORD=1 writes them again (only from an external server).
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import yaml

from support.contract import Answer, Api, Events

RECORDED = Path(__file__).parents[1] / "contract" / "recorded"

_UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_ADDRESS = re.compile(r"\b10\.\d+\.\d+\.\d+\b")
_JWT = re.compile(r"eyJ[\w-]+\.eyJ[\w-]+\.[\w-]+")
_VOLUME = re.compile(r"kube-api-access-[a-z0-9]{5}")
_REVISION = re.compile(r"(?<=current: )\d+|(?<=record \()\d+(?=\))|(?<=version: 1 \()\d+(?=\))")
_PARSER = re.compile(
    r"(?<=parse error: ).*|(?<=redacted>\": ).*"
    r"|(?<=key is not valid: ).*|(?<=error decoding patch: ).*|(?<=error decoding YAML: ).*",
    re.DOTALL,
)
"""Where the words are those of the parser that a server happens to use."""
_MANY = re.compile(r".*? is invalid: \[|Apply failed with \d+ conflicts: ")
_OBJECT = re.compile(r'(?<=Invalid value: ")\{.*\}(?=": )')
_AGE = re.compile(r"^(\d+[smhd])+$")

# What no client can rely on; every line here has its reason in docs/internals/api-differences.md.
UNTOLD = frozenset({"storageVersionHash", "continue"})


class Recording(Api):
    """An Api that remembers."""

    def __init__(self, api: Api) -> None:
        super().__init__(api.transport, embedded=api.embedded)
        self.namespace = api.namespace
        self.exchanges: list[dict[str, Any]] = []
        self._silent = False
        self._of_server = self._is_bookmark = False
        self._fixed = {api.namespace: "NS"}
        self._names: dict[tuple[str, str], str] = {}
        self._generated: list[str] = []

    def call(self, random: str, name: str) -> None:
        """Something is random in this run; every recording gives it this name."""
        self._fixed[random] = name

    def expect_generated(self, prefix: str) -> None:
        """Names that begin so end at random."""
        self._generated.append(prefix)

    def retell(self, body: Any) -> None:
        """Of the last answer, keep this on the record and nothing else."""
        self.exchanges[-1]["body"] = self._plain(body)

    @asynccontextmanager
    async def silent(self) -> AsyncIterator[None]:
        """What is asked here is not for the record: waiting, tidying."""
        self._silent = True
        try:
            yield
        finally:
            self._silent = False

    async def request(self, method: str, path: str, body: Any = None, **more: Any) -> Answer:
        answer = await super().request(method, path, body, **more)
        if not self._silent:
            asked = f"{method} {path}"
            query = more.get("query")
            if query:
                asked += "?" + "&".join(f"{name}={value}" for name, value in query.items())
            self._note(asked, answer)
        return answer

    def _note(self, asked: str, answer: Answer) -> None:
        noted: dict[str, Any] = {"asked": self._plain_text(asked), "status": answer.status}
        noted["type"] = answer.headers.get("content-type", "")
        if answer.headers.get("warning"):
            last = answer.headers["warning"].rpartition(", 299 - ")[2].removeprefix("299 - ")
            noted["warning"] = self._plain_text(last)
        body = _parsed(answer)
        self._of_server = isinstance(body, dict) and (
            "items" in body or body.get("kind") == "Table"
        )
        noted["body"] = in_order(self._plain(body))
        self._of_server = False
        self.exchanges.append(noted)

    @asynccontextmanager
    async def watch(self, *arguments: Any, **more: Any) -> AsyncIterator[Events]:
        async with super().watch(*arguments, **more) as events:
            yield events
        path, query = arguments[0], arguments[1] if len(arguments) > 1 else {}
        asked = f"WATCH {path}" + "".join(
            f" {name}={value}" for name, value in query.items() if name != "resourceVersion"
        )
        self.exchanges.append(
            {
                "asked": self._plain_text(asked),
                "status": events.status,
                "events": [self._event(event) for event in events.seen],
            }
        )

    def _event(self, event: dict[str, Any]) -> Any:
        self._is_bookmark = event["type"] == "BOOKMARK"
        recorded = {"type": event["type"], "object": self._plain(event["object"])}
        self._is_bookmark = False
        return recorded

    # ── making runs comparable ───────────────────────────────────────────────────────────
    def _plain(self, value: Any, at: tuple[str, ...] = ()) -> Any:
        if isinstance(value, dict):
            return {
                self._plain_text(name): self._plain(one, (*at, name))
                for name, one in value.items()
                if name not in UNTOLD
            }
        if isinstance(value, list):
            return [self._plain(one, at) for one in value]
        if isinstance(value, str):
            if at[-1:] == ("resourceVersion",) and value.isdigit():
                return self._revision(value, at)
            if at[-1:] == ("cells",) and _AGE.match(value):
                return "<age>"
            if at[-2:] == ("columnDefinitions", "description"):
                return "<words>"
            return self._plain_text(value)
        return value

    def _revision(self, value: str, at: tuple[str, ...]) -> str:
        """Objects keep theirs apart; a list's is the whole server's, where others write too, and so
        is a bookmark's, also in the row of a Table."""
        if self._is_bookmark or (at == ("metadata", "resourceVersion") and self._of_server):
            return "<revision>"
        return self._named("revision", value)

    def _named(self, kind: str, value: str) -> str:
        count = sum(1 for known, _ in self._names if known == kind)
        return self._names.setdefault((kind, value), f"<{kind}-{count + 1}>")

    def _plain_text(self, text: str) -> str:
        for random, name in self._fixed.items():
            text = text.replace(random, name)
        text = _UID.sub(lambda found: self._named("uid", found[0]), text)
        text = _TIME.sub(lambda found: "<microtime>" if found[1] else "<time>", text)
        text = _OBJECT.sub("<object>", text)
        text = _PARSER.sub("<parser's words>", text)
        text = _REVISION.sub("<revision>", text)
        text = _ADDRESS.sub("<address>", text)
        text = _JWT.sub("<token>", text)
        text = _VOLUME.sub("kube-api-access-<random>", text)
        for prefix in self._generated:
            text = re.sub(rf"{prefix}[a-z0-9]{{5}}\b", f"{prefix}<random>", text)
        return text

    # ── the record ───────────────────────────────────────────────────────────────────────
    def write(self, name: str) -> None:
        RECORDED.mkdir(exist_ok=True)
        text = json.dumps(self.exchanges, indent=1, sort_keys=True, ensure_ascii=False)
        (RECORDED / f"{name}.json").write_text(text + "\n")

    def differences(self, name: str) -> list[str]:
        """What is not as it was recorded, one line each."""
        recorded = json.loads((RECORDED / f"{name}.json").read_text())
        exchanges = json.loads(json.dumps(self.exchanges))
        found: list[str] = []
        for number, (theirs, ours) in enumerate(zip(recorded, exchanges, strict=False)):
            where = f"{number} {theirs['asked']}"
            if theirs["status"] != ours["status"]:
                found.append(f"{where}: real {_said(theirs)}, here {_said(ours)}")
            else:
                found += [f"{where}: {one}" for one in compared(theirs, ours, "")]
        if len(recorded) != len(self.exchanges):
            found.append(f"{len(recorded)} exchanges recorded, {len(self.exchanges)} now")
        return found


class Known:
    """Differences that are known, each with its reason: a line `test | place | reason`.

    The place is the number of the exchange, or the beginning of what is said about it. Reasons
    are the headings of docs/internals/api-differences.md.
    """

    path = RECORDED / "differences.txt"

    def __init__(self, test: str) -> None:
        lines = self.path.read_text().splitlines() if self.path.exists() else []
        parts = [line.split(" | ") for line in lines if line and not line.startswith("#")]
        self.places = [place for name, place, _ in parts if name == test]

    def new(self, found: list[str]) -> list[str]:
        return [one for one in found if not any(_is_at(one, place) for place in self.places)]

    def past(self, found: list[str]) -> list[str]:
        return [
            f"as recorded now: remove {place!r} from {self.path.name}"
            for place in self.places
            if not any(_is_at(one, place) for one in found)
        ]


def place_of(difference: str) -> str:
    where, _, said = difference.partition(": ")
    path = said.partition(": ")[0] if said.startswith(".") else ""
    return f"{where.split(' ')[0]} {path}".strip()


def _is_at(difference: str, place: str) -> bool:
    """`7` is all of the seventh exchange, `7 .body.metadata` a part of it."""
    number, _, path = place.partition(" ")
    where, _, said = difference.partition(": ")
    return where.split(" ")[0] == number and (not path or said.startswith(path))


def _parsed(answer: Answer) -> Any:
    kind = answer.headers.get("content-type", "")
    if kind.startswith("application/json"):
        return json.loads(answer.text)
    if kind.startswith("application/yaml"):
        return yaml.load(answer.text, yaml.CBaseLoader)
    return answer.text.decode(errors="replace")


def in_order(body: Any) -> Any:
    """Several causes come in no order; the message tells them once more."""
    if not isinstance(body, dict) or body.get("kind") != "Status":
        return body
    causes = (body.get("details") or {}).get("causes")
    if not causes or len(causes) < 2:
        return body
    causes.sort(key=lambda cause: (cause.get("field", ""), cause["message"]))
    head = _MANY.match(body["message"])
    if head:
        body["message"] = head[0] + "<the causes>"
    return body


def _manager(entry: dict[str, Any]) -> tuple[str, ...]:
    return tuple(entry.get(name, "") for name in ("operation", "manager", "subresource"))


def compared(theirs: Any, ours: Any, at: str) -> Iterator[str]:
    """Every place where the two differ."""
    if isinstance(theirs, dict) and isinstance(ours, dict):
        for name in sorted(theirs.keys() | ours.keys()):
            if name not in ours:
                yield f"{at}.{name}: real {_short(theirs[name])}, here nothing"
            elif name not in theirs:
                yield f"{at}.{name}: real nothing, here {_short(ours[name])}"
            else:
                yield from compared(theirs[name], ours[name], f"{at}.{name}")
    elif isinstance(theirs, list) and isinstance(ours, list) and len(theirs) == len(ours):
        if at.endswith(
            ".managedFields"
        ):  # by time, to the second: it may change between two writes
            theirs, ours = sorted(theirs, key=_manager), sorted(ours, key=_manager)
        for index, (one, other) in enumerate(zip(theirs, ours, strict=True)):
            yield from compared(one, other, f"{at}[{index}]")
    elif theirs != ours:
        yield f"{at}: real {_short(theirs)}, here {_short(ours)}"


def _said(exchange: dict[str, Any]) -> str:
    body = exchange.get("body")
    message = body.get("message", body.get("kind")) if isinstance(body, dict) else body
    return f"{exchange['status']} {_short(message)}"


def _short(value: Any) -> str:
    text = json.dumps(value, sort_keys=True)
    return text if len(text) <= 600 else f"{text[:600]}…"
