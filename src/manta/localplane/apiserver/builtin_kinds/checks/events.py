"""Events of both groups; those of events.k8s.io are checked more strictly."""

from __future__ import annotations

from manta.api.names import qualified_name_errors
from manta.localplane.apiserver.builtin_kinds.checks import rules
from manta.localplane.apiserver.builtin_kinds.checks.rules import Causes, Json
from manta.localplane.apiserver.schema.causes import invalid, required

_LIMITED = ("reportingInstance", "action", "reason")
_MAX_WORD_BYTES = 128
_MAX_NOTE_BYTES = 1024
_DEPRECATED = (
    ("deprecatedFirstTimestamp", "firstTimestamp"),
    ("deprecatedLastTimestamp", "lastTimestamp"),
    ("deprecatedCount", "count"),
)
_FIXED = (
    ("regarding", "involvedObject"),
    ("reason", "reason"),
    ("note", "message"),
    ("type", "type"),
    ("eventTime", "eventTime"),
    ("action", "action"),
    ("related", "related"),
    ("reportingController", "reportingController"),
    ("reportingInstance", "reportingInstance"),
)
"""Immutable fields: their names in the API, and in the errors of kube-apiserver."""


def check_core_event(event: Json, _: Json | None) -> Causes:
    """An Event is about an object of its own namespace, or about a cluster-scoped one."""
    about = event.get("involvedObject") or {}
    yield from _check_common(event, about, "reportingComponent", event.get("message", ""))


def check_event(event: Json, old: Json | None) -> Causes:
    """The stricter rules of events.k8s.io."""
    about = event.get("regarding") or {}
    yield from _check_common(event, about, "reportingController", event.get("note", ""))
    if old is None:
        yield from _check_series(event)
        if not event.get("eventTime"):
            yield required("eventTime")
        if event.get("type") not in {"Normal", "Warning"}:
            yield invalid("type", "", f"has invalid value: {event.get('type', '')}")
        yield from _check_deprecated(event)
        return
    if event.get("series") != old.get("series"):
        yield from _check_series(event)
    for name, shown in _FIXED:
        yield from rules.immutable(shown, event.get(name), old.get(name))


def _check_common(event: Json, about: Json, controller: str, note: str) -> Causes:
    namespace = (event.get("metadata") or {}).get("namespace", "")
    other = about.get("namespace", "")
    detail = "does not match event.namespace"
    if not event.get("eventTime"):
        if (other and other != namespace) or (not other and namespace not in {"", "default"}):
            yield invalid("involvedObject.namespace", other, detail)
        return
    if not other and namespace not in {"default", "kube-system"}:
        yield invalid("involvedObject.namespace", other, detail)
    name = event.get(controller, "")
    if not name:
        yield required(controller)
    yield from rules.all_invalid(controller, name, qualified_name_errors(name))
    for member in _LIMITED:
        value = event.get(member, "")
        if not value:
            yield required(member)
        elif len(value.encode()) > _MAX_WORD_BYTES:
            yield invalid(member, "", f"can have at most {_MAX_WORD_BYTES} characters")
    if len(note.encode()) > _MAX_NOTE_BYTES:
        yield invalid("message", "", f"can have at most {_MAX_NOTE_BYTES} characters")


def _check_series(event: Json) -> Causes:
    series = event.get("series")
    if series is None:
        return
    if series.get("count", 0) < 2:
        yield invalid("series.count", "", "should be at least 2")
    if not series.get("lastObservedTime"):
        yield required("series.lastObservedTime")


def _check_deprecated(event: Json) -> Causes:
    for member, shown in _DEPRECATED:
        if event.get(member):
            yield invalid(shown, "", "needs to be unset")
    source = event.get("deprecatedSource") or {}
    if source.get("component") or source.get("host"):
        yield invalid("source", "", "needs to be unset")
