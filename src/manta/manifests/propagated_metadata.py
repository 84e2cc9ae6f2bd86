"""Labels and annotations that a user's spec asks for on an object of the operator.

An annotation of the object lists them: when the user removes one from the spec, the operator removes it from
the object too. Labels and annotations of others are not listed, and stay.
"""

from __future__ import annotations

from collections.abc import Mapping

from manta.api.ray import names
from manta.manifests.containers import Json

_LABEL = "label:"


def propagated_metadata(
    meta: Json, annotations: Mapping[str, str], labels: Mapping[str, str]
) -> Json:
    """The metadata with the user's labels and annotations, and the list of them. The operator's labels win."""
    if not annotations and not labels:
        return meta
    keys = [*sorted(annotations), *(f"{_LABEL}{key}" for key in sorted(labels))]
    with_list = {**annotations, names.ANNOTATION_PROPAGATED: ",".join(keys)}
    return {**meta, "labels": {**labels, **(meta.get("labels") or {})}, "annotations": with_list}


def annotation_changes(live: Mapping[str, str], wanted: Mapping[str, str]) -> dict[str, str | None]:
    """A merge patch of the annotations; None for those that the spec no longer asks for."""
    ours = {*propagated_annotations(live), names.ANNOTATION_PROPAGATED}
    gone = dict.fromkeys(key for key in live if key in ours and key not in wanted)
    return {**gone, **{key: text for key, text in wanted.items() if live.get(key) != text}}


def propagated_annotations(annotations: Mapping[str, str]) -> list[str]:
    return [key for key in _keys(annotations) if not key.startswith(_LABEL)]


def propagated_labels(annotations: Mapping[str, str]) -> list[str]:
    return [key.removeprefix(_LABEL) for key in _keys(annotations) if key.startswith(_LABEL)]


def _keys(annotations: Mapping[str, str]) -> list[str]:
    return [key for key in annotations.get(names.ANNOTATION_PROPAGATED, "").split(",") if key]
