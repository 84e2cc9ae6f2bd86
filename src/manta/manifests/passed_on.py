"""Labels and annotations that a user's spec asks for on an object of ours.

The object notes which they were: when the user removes one from the spec, it is known as ours and
goes from the object too (R4). What others put there bears no such note, and stays.
"""

from __future__ import annotations

from collections.abc import Mapping

from manta.api.ray import names
from manta.manifests.containers import Json

_LABEL = "label:"


def passed_on(meta: Json, annotations: Mapping[str, str], labels: Mapping[str, str]) -> Json:
    """The metadata with what the user asked for, and the note. Operator's own labels win."""
    if not annotations and not labels:
        return meta
    keys = [*sorted(annotations), *(f"{_LABEL}{key}" for key in sorted(labels))]
    noted = {**annotations, names.ANNOTATION_PASSED_ON: ",".join(keys)}
    return {**meta, "labels": {**labels, **(meta.get("labels") or {})}, "annotations": noted}


def annotation_changes(live: Mapping[str, str], wanted: Mapping[str, str]) -> dict[str, str | None]:
    """A merge patch: what is missing or different, and None for what a spec no longer asks for."""
    ours = {*noted_annotations(live), names.ANNOTATION_PASSED_ON}
    gone = dict.fromkeys(key for key in live if key in ours and key not in wanted)
    return {**gone, **{key: text for key, text in wanted.items() if live.get(key) != text}}


def noted_annotations(annotations: Mapping[str, str]) -> list[str]:
    return [key for key in _noted(annotations) if not key.startswith(_LABEL)]


def noted_labels(annotations: Mapping[str, str]) -> list[str]:
    return [key.removeprefix(_LABEL) for key in _noted(annotations) if key.startswith(_LABEL)]


def _noted(annotations: Mapping[str, str]) -> list[str]:
    return [key for key in annotations.get(names.ANNOTATION_PASSED_ON, "").split(",") if key]
