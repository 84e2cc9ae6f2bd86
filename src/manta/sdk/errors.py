"""What the SDK raises beside the errors of the API server (`manta.kube.errors`).

MantaError
├── WaitError         a wait ended without what it waited for
│   ├── WaitTimeout   the time is over; also a TimeoutError
│   ├── WaitFailed    the object has failed and will not become ready
│   └── Deleted       the object was deleted meanwhile
└── JobFailed         a job ended, but not successfully
InvalidValue          an argument or a manifest is wrong; also a ValueError. Nothing was changed.
"""

# ruff: noqa: N818  # these read well without the suffix Error

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from manta.api.ray.job import RayJobStatus
from manta.api.usage import InvalidValue, UsageError
from manta.client.connection import NoServerError
from manta.kube.errors import MantaError

__all__ = ["Deleted", "JobFailed", "WaitError", "WaitFailed", "WaitTimeout", "as_invalid_value"]


class WaitError(MantaError):
    """A wait ended without what it waited for."""

    def __init__(self, message: str, why: str = "") -> None:
        super().__init__(message)
        self.why = why
        """What the object waited for last."""


class WaitTimeout(WaitError, TimeoutError):
    """The object did not become ready in time. It may still do so later."""


class WaitFailed(WaitError):
    """The object has failed and will not become ready."""


class Deleted(WaitError):
    """The object was deleted while the program waited for it."""


class JobFailed(MantaError):
    """A job ended, but not successfully."""

    def __init__(self, name: str, status: RayJobStatus, exit_code: int, message: str) -> None:
        super().__init__(f"RayJob {name}: {message}")
        self.status = status
        """The last status of the RayJob."""
        self.exit_code = exit_code
        """The exit code of the entrypoint; 1 if Ray reports none, 2 if the spec is invalid."""


_FLAG = re.compile(r"--([a-z][a-z-]*)")
_FIELD = re.compile(r"--([a-z][a-z-]*) (\S+): (.*)", re.DOTALL)


@contextmanager
def as_invalid_value(field: str, value: object) -> Iterator[None]:
    """Turn the UsageError of code that commands share into InvalidValue, with names of parameters.

    Raises InvalidValue.
    """
    try:
        yield
    except (InvalidValue, NoServerError):
        raise
    except UsageError as error:
        text = str(error)
        if found := _FIELD.fullmatch(text):
            field, value, text = _parameter(found[1]), found[2], found[3]
        raise InvalidValue(field, value, _FLAG.sub(lambda one: _parameter(one[1]), text)) from None


def _parameter(flag: str) -> str:
    return flag.replace("-", "_")
