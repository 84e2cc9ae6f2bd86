"""The style sheet, the script and the picture: files of this package, with their hash in the address."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from importlib import resources
from typing import Final

from manta.httpserver.messages import HttpResponse, text_response

_TYPES: Final[Mapping[str, str]] = {
    "console.css": "text/css; charset=utf-8",
    "console.js": "text/javascript; charset=utf-8",
    "manta.svg": "image/svg+xml",
}
_CACHED: Final = (("Cache-Control", "public, max-age=86400"),)


class Assets:
    def __init__(self) -> None:
        folder = resources.files("manta.console") / "static"
        self._files = {name: (folder / name).read_bytes() for name in _TYPES}

    def address(self, name: str) -> str:
        """The address changes with the content, so that a browser may keep it."""
        return f"/static/{name}?{hashlib.sha256(self._files[name]).hexdigest()[:12]}"

    def response(self, name: str) -> HttpResponse:
        if name not in self._files:
            return text_response(404, "no such file\n")
        return HttpResponse(200, self._files[name], _CACHED, _TYPES[name])
