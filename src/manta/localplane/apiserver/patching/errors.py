"""Why a patch was refused, in the words and with the HTTP status of the real server."""

from __future__ import annotations

REJECTED = "the server rejected our request due to an error in our request"


class PatchError(Exception):
    """A patch that cannot be applied. `why` is for logs; the client sees `message`."""

    def __init__(
        self, why: str, *, status: int = 422, message: str = REJECTED, unreadable: bool = False
    ) -> None:
        super().__init__(why)
        self.status = status
        self.message = message
        self.unreadable = unreadable
        """Whether it is the patch itself that cannot be read, which is then shown."""


def failed(message: str) -> PatchError:
    """The real server has no better answer than 500 here, and says why."""
    return PatchError(message, status=500, message=message)


def malformed(message: str) -> PatchError:
    """The body is no patch at all: 400 BadRequest."""
    return PatchError(message, status=400, message=message)
