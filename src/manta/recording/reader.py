"""Reads recordings, of this version and of others: unknown fields and lines are noted, not refused."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec

from manta.api.usage import UsageError
from manta.recording.recorder import FORMAT, FORMAT_VERSION
from manta.recording.ring import segments

Json = dict[str, Any]
MAX_LINE_BYTES: Final = 16 * 1024 * 1024
_KNOWN: Final = frozenset(
    (
        *("line", "number", "controller", "key", "snapshot", "plan", "blocked_by", "wake_in"),
        *("outcome", "status", "status_written", "error", "left_out"),
    )
)


@dataclass(slots=True)
class Segment:
    """One file: its header and the values that its reconciles refer to."""

    name: str
    header: Json
    values: dict[int, Any] = field(default_factory=dict)
    objects: dict[int, dict[str, int]] = field(default_factory=dict)

    def value(self, number: int) -> Any:
        """Raises KeyError if there is no such line."""
        return self.values[number]

    def object(self, number: int) -> Any:
        parts = self.objects.get(number)
        if parts is None:
            return self.values[number]
        return {name: self.values[at] for name, at in parts.items()}


@dataclass(frozen=True, slots=True)
class Recorded:
    """One reconcile of a recording."""

    segment: Segment
    line: Json
    notes: tuple[str, ...] = ()

    @property
    def number(self) -> int:
        return int(self.line.get("number", 0))

    @property
    def controller(self) -> str:
        return str(self.line["controller"])

    @property
    def key(self) -> str:
        return "/".join(self.line["key"])

    @property
    def plan(self) -> Json | None:
        """None: the planner raised."""
        found: Json | None = self.line.get("plan")
        return found


def files_of(paths: Sequence[Path]) -> list[Path]:
    """The files of these files and folders, oldest first. Raises UsageError if there is none."""
    found: list[Path] = []
    for path in paths:
        inside = segments(path) if path.is_dir() else [path]
        if not inside:
            raise UsageError(f"{path}: has no recording (recording-*.jsonl)")
        if not inside[0].exists():
            raise UsageError(f"{path}: there is no such file or folder")
        found += inside
    return found


def read_recording(path: Path) -> Iterator[Recorded | str]:
    """The reconciles of one file, and notes about what could not be read. Raises UsageError."""
    try:
        with path.open("rb") as file:
            yield from _read(path.name, file)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error


def _read(name: str, file: Any) -> Iterator[Recorded | str]:
    segment = Segment(name, _header(name, file.readline(MAX_LINE_BYTES)))
    version = segment.header.get("version")
    if version != FORMAT_VERSION:
        yield f"{name}: format version {version}, this Manta writes {FORMAT_VERSION}"
    unknown: set[str] = set()
    for text in iter(lambda: file.readline(MAX_LINE_BYTES), b""):
        if not text.endswith(b"\n"):
            yield f"{name}: the last line is incomplete (the process ended while it was written)"
            return
        try:
            line: Json = msgspec.json.decode(text, type=dict)
        except msgspec.DecodeError as error:
            yield f"{name}: a line cannot be read: {error}"
            continue
        match line.get("line"):
            case "value":
                segment.values[line["id"]] = line["value"]
            case "object":
                segment.objects[line["id"]] = line["parts"]
            case "reconcile":
                more = sorted(set(line) - _KNOWN)
                notes = (f"unknown fields: {', '.join(more)}",) if more else ()
                yield Recorded(segment, line, notes)
            case other:
                if str(other) not in unknown:
                    yield f"{name}: unknown lines {other!r} are left out"
                unknown.add(str(other))


def _header(name: str, text: bytes) -> Json:
    try:
        header: Json = msgspec.json.decode(text, type=dict)
    except msgspec.DecodeError:
        header = {}
    if header.get("format") != FORMAT:
        raise UsageError(f"{name}: is not a recording of `manta operator --record`")
    return header
