"""The annotation that `manta apply` shares with kubectl."""

from __future__ import annotations

import json

from manta.api.well_known import ANNOTATION_LAST_APPLIED
from manta.cli.server.field_ownership import with_last_applied


def test_the_annotation_holds_the_object_as_it_was_applied() -> None:
    document = {"kind": "ConfigMap", "metadata": {"name": "x"}, "data": {"a": "b"}}
    noted = with_last_applied(document)["metadata"]["annotations"][ANNOTATION_LAST_APPLIED]
    assert json.loads(noted)["data"] == {"a": "b"}


def test_an_object_too_large_for_an_annotation_is_applied_without_it() -> None:
    document = {"kind": "ConfigMap", "metadata": {"name": "x"}, "data": {"a": "b" * 900_000}}
    assert with_last_applied(document) == document
    marked = {**document, "metadata": {"name": "x", "annotations": {"k": "v"}}}
    assert with_last_applied(marked)["metadata"]["annotations"] == {"k": "v"}
