"""One-time links: a file for each, which the console removes when the link is used.

Any process of this user can make one (`manta up` prints one without asking the console), the first use is the
only one, and that holds over a restart. The file has the hash of the token in its name, never the token.
"""

from __future__ import annotations

import hashlib
import secrets
from pathlib import Path
from typing import Final

SECONDS: Final = 3600.0
"""How long an unused link works."""


class OneTimeLinks:
    def __init__(self, directory: Path) -> None:
        """`directory`: of this user alone; it is made by the first link."""
        self._directory = directory

    def new(self, now: float) -> str:
        """A token for a link. Raises OSError if it cannot be kept."""
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        for old in self._directory.iterdir():
            if _age(old, now) > SECONDS:
                old.unlink(missing_ok=True)
        token = secrets.token_urlsafe(32)
        self._file(token).touch(mode=0o600)
        return token

    def redeem(self, token: str, now: float) -> bool:
        """Whether this is a link that nobody has used. It is used from now on."""
        file = self._file(token)
        fresh = _age(file, now) <= SECONDS
        try:
            file.unlink()  # only one of two requests succeeds
        except FileNotFoundError:
            return False
        return fresh

    def _file(self, token: str) -> Path:
        return self._directory / hashlib.sha256(token.encode()).hexdigest()


def _age(file: Path, now: float) -> float:
    try:
        return now - file.stat().st_mtime
    except FileNotFoundError:  # used in this moment
        return 0.0
