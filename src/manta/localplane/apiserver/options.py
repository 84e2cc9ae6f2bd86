"""Reads and checks the query of a request: list, watch, write and delete options."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from manta.httpserver.messages import HttpRequest
from manta.localplane.apiserver.schema.causes import Cause, too_long
from manta.localplane.apiserver.schema.causes import invalid as invalid_value
from manta.localplane.apiserver.status_errors import bad_request, invalid_options, plain_failure

_INTEGER = re.compile("[-+]?[0-9]+")
_INT64 = 1 << 63
MANAGER_BYTES: Final = 128


@dataclass(frozen=True, slots=True)
class WriteOptions:
    dry_run: bool = False
    manager: str = "unknown"
    validation: str = "Warn"
    force: bool = False


def write_options(request: HttpRequest, kind: str) -> WriteOptions:
    """Return the options of a write. Raises StatusError.

    `kind` is CreateOptions, UpdateOptions or PatchOptions, for the error message.
    """
    dry_run = _dry_run(request.params("dryRun"), kind)
    validation = request.param("fieldValidation")
    if validation not in ("", "Ignore", "Strict", "Warn"):
        message = (
            f'Unsupported value: "{validation}": supported values: "", "Ignore", "Strict", "Warn"'
        )
        raise invalid_options(kind, Cause("FieldValueNotSupported", message, "fieldValidation"))
    named = request.param("fieldManager")
    if causes := list(_manager_faults(named)):
        raise invalid_options(kind, *causes)
    manager = named or manager_of(request.headers.get("user-agent", ""))
    return WriteOptions(dry_run, manager, validation or "Warn", request.flag("force"))


def _manager_faults(manager: str) -> Iterator[Cause]:
    if len(manager.encode()) > MANAGER_BYTES:
        yield too_long("fieldManager", MANAGER_BYTES)
    position = 0
    for character in manager:
        if not character.isprintable():
            why = f"invalid character U+{ord(character):04X} (at position {position})"
            yield invalid_value("fieldManager", manager, why)
        position += len(character.encode())


def manager_of(user_agent: str) -> str:
    """Return the default field manager: the user agent up to the first slash."""
    word = user_agent.partition("/")[0]
    return "".join(one for one in word if one.isprintable())[:MANAGER_BYTES] or "unknown"


def _dry_run(values: list[str], kind: str) -> bool:
    values = [value for value in values if value]
    if any(value != "All" for value in values):
        listed = ",".join(f'"{value}"' for value in values)
        message = f'Unsupported value: [{listed}]: supported values: "All"'
        raise invalid_options(kind, Cause("FieldValueNotSupported", message, "dryRun"))
    return bool(values)


@dataclass(frozen=True, slots=True)
class ListOptions:
    labels: str = ""
    fields: str = ""
    limit: int = 0
    token: str = ""
    """`continue`: from the previous page."""
    revision: int | None = None
    match: str = ""
    watch: bool = False
    bookmarks: bool = False
    initial_events: bool | None = None
    timeout: float | None = None


def list_options(request: HttpRequest, *, watch: bool) -> ListOptions:
    """Return the options of a list or watch. Raises StatusError."""
    match = request.param("resourceVersionMatch")
    resource_version = request.param("resourceVersion")
    initial = request.param("sendInitialEvents")
    options = ListOptions(
        labels=request.param("labelSelector"),
        fields=request.param("fieldSelector"),
        limit=_number(request, "limit"),
        token=request.param("continue"),
        revision=_revision(resource_version, watch=watch),
        match=match,
        watch=watch,
        bookmarks=request.flag("allowWatchBookmarks"),
        initial_events=initial.lower() in ("true", "1") if initial else None,
        timeout=float(_number(request, "timeoutSeconds")) or None,
    )
    _check_match(options, resource_version)
    return options


def _check_match(options: ListOptions, resource_version: str) -> None:
    if options.watch:
        _check_watch(options)
        return
    if options.initial_events is not None:
        message = "Forbidden: sendInitialEvents is forbidden for list"
        cause = Cause("FieldValueForbidden", message, "sendInitialEvents")
        raise invalid_options("ListOptions", cause)
    message, reason = _list_fault(options, resource_version)
    if message:
        cause = Cause(reason, message, "resourceVersionMatch")
        raise invalid_options("ListOptions", cause)


def _check_watch(options: ListOptions) -> None:
    field, forbidden = "resourceVersionMatch", "FieldValueForbidden"
    causes = []
    if options.initial_events is not None and options.match != "NotOlderThan":
        need = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
        causes.append(Cause(forbidden, f"Forbidden: {need}", field))
        if options.match:
            message = f'Unsupported value: "{options.match}": supported values: "NotOlderThan"'
            causes.append(Cause("FieldValueNotSupported", message, field))
    elif options.match and options.initial_events is None:
        need = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
        causes.append(Cause(forbidden, f"Forbidden: {need}", field))
    if causes:
        raise invalid_options("ListOptions", *causes)


def _list_fault(options: ListOptions, resource_version: str) -> tuple[str, str]:
    reason, match = "FieldValueForbidden", options.match
    if not match:
        return "", ""
    if not resource_version:
        need = "resourceVersionMatch is forbidden unless resourceVersion is provided"
        return f"Forbidden: {need}", reason
    if options.token:
        return "Forbidden: resourceVersionMatch is forbidden when continue is provided", reason
    if match not in ("Exact", "NotOlderThan"):
        supported = '"Exact", "NotOlderThan", ""'
        message = f'Unsupported value: "{match}": supported values: {supported}'
        return message, "FieldValueNotSupported"
    if match == "Exact" and options.revision == 0:
        return (
            'Forbidden: resourceVersionMatch "exact" is forbidden for resourceVersion "0"',
            reason,
        )
    return "", ""


def get_revision(request: HttpRequest) -> int:
    """Return the minimum revision of a get; 0 if none is given. Raises StatusError."""
    return _revision(request.param("resourceVersion"), watch=True) or 0


def _revision(text: str, *, watch: bool) -> int | None:
    if not text:
        return None
    is_number = text.isascii() and text.isdigit()
    digits = text.lstrip("0")
    if is_number and len(digits) <= 20 and int(digits or "0") < 1 << 64:
        return int(digits or "0")
    why = f'resourceVersion: Invalid value: "{text}": strconv.ParseUint: parsing "{text}": '
    why += "value out of range" if is_number else "invalid syntax"
    if watch:
        raise plain_failure(why)
    raise bad_request(f"invalid resource version: {why}")


def _number(request: HttpRequest, name: str) -> int:
    text = request.param(name)
    if not text:
        return 0
    if not _INTEGER.fullmatch(text):
        raise bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax')
    if len(text) > 20 or not -_INT64 <= int(text) < _INT64:
        raise bad_request(f'strconv.ParseInt: parsing "{text}": value out of range')
    return max(0, int(text))


@dataclass(frozen=True, slots=True)
class DeleteOptions:
    propagation: str = ""
    grace_seconds: int | None = None
    uid: str | None = None
    resource_version: str | None = None
    dry_run: bool = False


def delete_options(request: HttpRequest, body: dict[str, Any]) -> DeleteOptions:
    """Return the options of a delete, from the body or else from the query. Raises StatusError."""
    if not body:
        return _checked_delete(
            {
                "propagationPolicy": request.param("propagationPolicy") or None,
                "gracePeriodSeconds": _optional_number(request, "gracePeriodSeconds"),
                "orphanDependents": (
                    request.flag("orphanDependents") if request.param("orphanDependents") else None
                ),
                "dryRun": request.params("dryRun"),
            }
        )
    return _checked_delete(body)


def _optional_number(request: HttpRequest, name: str) -> int | None:
    return _number(request, name) if request.param(name) else None


def _checked_delete(body: dict[str, Any]) -> DeleteOptions:
    policy = body.get("propagationPolicy")
    orphan = body.get("orphanDependents")

    def error(reason: str, message: str) -> Exception:
        return invalid_options("DeleteOptions", Cause(reason, message, "propagationPolicy"))

    if policy not in (None, "", "Foreground", "Background", "Orphan"):
        supported = '"Foreground", "Background", "Orphan", "nil"'
        message = f'Unsupported value: "{policy}": supported values: {supported}'
        raise error("FieldValueNotSupported", message)
    if policy and orphan is not None:
        message = (
            f'Invalid value: "{policy}": orphanDependents and deletionPropagation cannot be '
            "both set"
        )
        raise error("FieldValueInvalid", message)
    if orphan is not None:
        policy = "Orphan" if orphan else "Background"
    conditions = body.get("preconditions") or {}
    return DeleteOptions(
        propagation=policy or "",
        grace_seconds=body.get("gracePeriodSeconds"),
        uid=conditions.get("uid"),
        resource_version=conditions.get("resourceVersion"),
        dry_run=_dry_run(list(body.get("dryRun") or ()), "DeleteOptions"),
    )
