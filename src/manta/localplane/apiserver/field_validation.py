"""The `fieldValidation` parameter: unknown and duplicate fields are refused, warned about or ignored."""

from __future__ import annotations

from typing import Any, Final

from manta.localplane.apiserver import decoding
from manta.localplane.apiserver.core import Call
from manta.localplane.apiserver.options import WriteOptions
from manta.localplane.apiserver.status_errors import bad_request

_MAX_ERRORS: Final = 100
"""The number of fields that one answer names, as in kube-apiserver."""


def canonical(call: Call, obj: dict[str, Any], options: WriteOptions) -> dict[str, Any]:
    """The object in canonical form.

    Raises a 400 for unknown or duplicate fields if the client asks for `Strict`; warns of them if it
    asks for `Warn`.
    """
    strategy = call.resource.strategy
    unknown: list[str] = []
    read = strategy.canonicalize(obj, unknown)
    if options.validation == "Ignore":
        return read
    errors = decoding.duplicate_fields(call.request, obj) if call.verb != "patch" else []
    if not strategy.reports_unknown_duplicates:
        skipped = {f'duplicate field "{path}"' for path in unknown}
        errors = [error for error in errors if error not in skipped]
    errors += [f'unknown field "{path}"' for path in unknown]
    errors = errors[:_MAX_ERRORS]
    if errors and options.validation == "Strict":
        resource = call.resource
        raise bad_request(
            f'{resource.kind} in version "{resource.version}" cannot be handled as a '
            f"{resource.kind}: strict decoding error: {', '.join(errors)}"
        )
    for error in errors:
        call.warn(error)
    return read
