"""Errors of patches, with the messages and HTTP status of kube-apiserver."""

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
        """Whether the patch itself cannot be decoded; the error then shows it."""


def failed(message: str) -> PatchError:
    """A 500, as kube-apiserver answers here, with the reason."""
    return PatchError(message, status=500, message=message)


def malformed(message: str) -> PatchError:
    """A 400: the body is not a patch."""
    return PatchError(message, status=400, message=message)
