"""Ray's constants: words that others read must be valid where they are put."""

from __future__ import annotations

from manta.api.names import label_value_errors, qualified_name_errors
from manta.api.ray import names


def constants(prefix: str) -> dict[str, str]:
    return {name: value for name, value in vars(names).items() if name.startswith(prefix)}


def test_labels_annotations_and_finalizers_are_valid_keys() -> None:
    for prefix in ("LABEL_", "ANNOTATION_", "FINALIZER_"):
        found = constants(prefix)
        assert found
        assert [name for name, value in found.items() if qualified_name_errors(value)] == []


def test_no_two_labels_and_no_two_variables_have_the_same_word() -> None:
    for prefix in ("LABEL_", "ANNOTATION_", "FINALIZER_", "ENV_", "OPERATOR_ENV_"):
        values = list(constants(prefix).values())
        assert len(values) == len(set(values))


def test_values_of_labels_are_valid() -> None:
    for value in (names.NODE_HEAD, names.NODE_WORKER, names.NODE_REDIS_CLEANUP, names.HEAD_GROUP):
        assert not label_value_errors(value)
