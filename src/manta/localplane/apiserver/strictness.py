"""What becomes of fields that nobody knows or that are given twice: refused, warned of or let through."""

from __future__ import annotations

from typing import Any, Final

from manta.localplane.apiserver import decoding, machinery
from manta.localplane.apiserver.core import Call
from manta.localplane.apiserver.options import WriteOptions
from manta.localplane.apiserver.status_errors import bad_request

_MOST_FAULTS: Final = 100
"""Unknown and doubled fields that one answer names, as in kube-apiserver."""


def checked(call: Call, obj: dict[str, Any], options: WriteOptions) -> dict[str, Any]:
    """The object in canonical form. Unknown and doubled fields are refused, warned of or let
    through, as the client wishes."""
    unknown: list[str] = []
    read = machinery.canonical(call.served, obj, unknown)
    if options.validation == "Ignore":
        return read
    faults = decoding.duplicate_fields(call.request, obj) if call.verb != "patch" else []
    if call.served.custom is None:  # what no kind knows is not looked at twice
        skipped = {f'duplicate field "{path}"' for path in unknown}
        faults = [fault for fault in faults if fault not in skipped]
    faults += [f'unknown field "{path}"' for path in unknown]
    faults = faults[:_MOST_FAULTS]
    if faults and options.validation == "Strict":
        served = call.served
        raise bad_request(
            f'{served.kind} in version "{served.version}" cannot be handled as a '
            f"{served.kind}: strict decoding error: {', '.join(faults)}"
        )
    for fault in faults:
        call.warn(fault)
    return read
