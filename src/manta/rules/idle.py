"""How long nobody may use a RayCluster before it is suspended: by its annotations, or by the operator's default."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from manta.api.durations import DurationError, parse_duration
from manta.api.meta import ObjectMeta
from manta.api.ray import names
from manta.rules.validation.violation import Violation

SHORTEST: Final = timedelta(seconds=10)
LONGEST: Final = timedelta(days=3650)
DEFAULT_WARNING: Final = timedelta(minutes=10)
_CURE: Final = "must be a duration of at least 10s and at most 87600h such as 30m, or 0 for never"
_WARNING_CURE: Final = "must be a duration such as 10m that is not negative"


@dataclass(frozen=True, slots=True)
class IdleLimit:
    after: timedelta
    warning: timedelta
    """How long before the suspension it is announced; at most `after`."""
    is_default: bool = False
    """The operator's default: the cluster itself says nothing."""


@dataclass(frozen=True, slots=True)
class IdleDefault:
    after: timedelta
    namespace: str = ""
    label: str = ""
    value: str = ""

    def selects(self, meta: ObjectMeta) -> bool:
        if self.label:
            return meta.labels.get(self.label) == self.value
        return not self.namespace or self.namespace == meta.namespace


def idle_limit(meta: ObjectMeta, defaults: str) -> IdleLimit | Violation | None:
    """The limit of this cluster. None: it is never suspended. `defaults`: `Settings.idle_suspend`."""
    text = meta.annotations.get(names.ANNOTATION_IDLE_SUSPEND_AFTER, "")
    if text:
        after = _limit(text)
        if after is None:
            return Violation(_field(names.ANNOTATION_IDLE_SUSPEND_AFTER), text, _CURE)
    else:
        after = next((one.after for one in idle_defaults(defaults) if one.selects(meta)), None)
    if not after:
        return None
    warning = _warning(meta)
    if isinstance(warning, Violation):
        return warning
    return IdleLimit(after, min(warning, after), is_default=not text)


@functools.lru_cache(maxsize=4)
def idle_defaults(text: str) -> tuple[IdleDefault, ...]:
    """The defaults as rules, in order. Raises ValueError."""
    parts = filter(None, (one.strip() for one in text.split(",")))
    return tuple(_default(part) for part in parts)


def checked_idle_defaults(text: str) -> str:
    """The text itself. Raises ValueError if it is invalid."""
    idle_defaults(text)
    return text


def _default(part: str) -> IdleDefault:
    duration, at, which = part.partition("@")
    after = _limit(duration)
    if after is None:
        raise ValueError(f"idle suspend {part!r}: the duration {duration!r} {_CURE}")
    label, is_label, value = which.partition("=")
    if at and not label:
        raise ValueError(f"idle suspend {part!r}: name a namespace or LABEL=VALUE after the @")
    return IdleDefault(after, label=label, value=value) if is_label else IdleDefault(after, which)


def _limit(text: str) -> timedelta | None:
    """Zero: never. None: invalid."""
    try:
        found = parse_duration(text)
    except DurationError:
        return None
    return found if not found or SHORTEST <= found <= LONGEST else None


def _warning(meta: ObjectMeta) -> timedelta | Violation:
    text = meta.annotations.get(names.ANNOTATION_IDLE_SUSPEND_WARNING, "")
    if not text:
        return DEFAULT_WARNING
    try:
        found = parse_duration(text)
    except DurationError:
        found = timedelta(-1)
    if found < timedelta(0):
        return Violation(_field(names.ANNOTATION_IDLE_SUSPEND_WARNING), text, _WARNING_CURE)
    return found


def _field(annotation: str) -> str:
    return f"metadata.annotations[{annotation}]"
