"""P6: the functions that Kubernetes adds to CEL.

`kubernetes_cel.json` is what the CEL environment of k8s.io/apiserver v0.35.4 answers: the value as Go
prints it, or null where the expression is refused or fails.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from manta.localplane.apiserver.schema.cel import (
    BadExpressionError,
    EvaluationError,
    compile_expression,
)

FACTS = json.loads((Path(__file__).parent / "kubernetes_cel.json").read_text())


def as_go_prints(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return "[" + " ".join(map(as_go_prints, value)) + "]"
    return str(value)


@pytest.mark.parametrize(("expression", "wanted"), FACTS)
def test_an_expression_has_the_value_that_kubernetes_gives_it(
    expression: str, wanted: str | None
) -> None:
    try:
        found = as_go_prints(compile_expression(expression).evaluate({}))
    except (BadExpressionError, EvaluationError):
        found = None
    assert found == wanted


@pytest.mark.parametrize(
    "expression",
    [
        'timestamp("9999-12-31T23:59:59Z") + duration("48h")',
        'timestamp("0001-01-01T00:00:00Z").getDate("-02:00")',
        'timestamp("2024-01-01T00:00:00")',
        'duration("99999999999999h")',
        "1" * 5000,
        "sets.contains(self, self)",
    ],
)
def test_what_cannot_be_computed_is_an_error_of_the_language(expression: str) -> None:
    """No exception of Python reaches the caller, which would be a 500."""
    with pytest.raises((BadExpressionError, EvaluationError)):
        compile_expression(expression).evaluate({"self": list(range(1000))})
