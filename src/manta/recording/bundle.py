"""A bug report: files without secrets in one archive of bounded size."""

from __future__ import annotations

import io
import os
import tarfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import msgspec

from manta.api.documents.writer import to_yaml
from manta.recording.redaction import Redactor
from manta.recording.ring import segments

MAX_LOG_BYTES: Final = 2 * 1024 * 1024
"""How much of each log is included, from its end."""


@dataclass
class Bundle:
    """Collects the files of a report. What would make it too large is left out, and listed as such."""

    redactor: Redactor
    max_bytes: int
    files: dict[str, bytes] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)

    @property
    def size(self) -> int:
        return sum(map(len, self.files.values()))

    def add(self, name: str, body: bytes) -> None:
        """A file that has no secrets already."""
        if self.size + len(body) > self.max_bytes:
            self.left_out.append(f"{name}: {len(body)} bytes, too large")
        else:
            self.files[name] = body

    def add_json(self, name: str, value: Any) -> None:
        body, _ = self.redactor.encode(value)
        self.add(name, msgspec.json.format(body, indent=2) + b"\n")

    def add_objects(self, name: str, objects: Iterable[Mapping[str, Any]]) -> None:
        """Kubernetes objects as one YAML stream."""
        clean = [self.redactor.redact(_without_managers(one)) for one in objects]
        self.add(name, "---\n".join(to_yaml(one) for one in clean).encode())

    def add_text(self, name: str, text: str) -> None:
        """A log, searched for credentials."""
        self.add(name, (self.redactor.log(text) + "\n").encode())

    def add_log(self, name: str, path: Path) -> None:
        """The end of a file; nothing if it is not there."""
        try:
            with path.open("rb") as file:
                size = file.seek(0, os.SEEK_END)
                file.seek(max(0, size - MAX_LOG_BYTES))
                body = file.read()
        except OSError as error:
            self.left_out.append(f"{name}: {error.strerror}")
            return
        if size > MAX_LOG_BYTES:
            body = body.partition(b"\n")[2]  # the first line may be incomplete
        self.add_text(name, body.decode("utf-8", "replace"))

    def add_recording(self, path: Path) -> None:
        """The newest files of a recording, which have no secrets, as far as there is room."""
        for one in reversed(segments(path) if path.is_dir() else [path]):
            self.add(f"recording/{one.name}", one.read_bytes())

    def write(self, path: Path, now: datetime) -> None:
        """Write the archive, readable by its owner only. Raises OSError."""
        self.add("CONTENTS.txt", "\n".join(self.contents()).encode() + b"\n")
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        with (
            os.fdopen(os.open(path, flags, 0o600), "wb") as file,
            tarfile.open(fileobj=file, mode="w:gz") as archive,
        ):
            for name, body in self.files.items():
                entry = tarfile.TarInfo(f"manta-bugreport/{name}")
                entry.size, entry.mtime, entry.mode = len(body), int(now.timestamp()), 0o600
                archive.addfile(entry, io.BytesIO(body))

    def contents(self) -> Sequence[str]:
        """What is inside, and what is not."""
        found = [f"{len(body):>10,}  {name}" for name, body in self.files.items()]
        return [*found, *(f"  left out  {one}" for one in self.left_out)]


def _without_managers(one: Mapping[str, Any]) -> dict[str, Any]:
    meta = {key: value for key, value in one.get("metadata", {}).items() if key != "managedFields"}
    return {**one, "metadata": meta}
