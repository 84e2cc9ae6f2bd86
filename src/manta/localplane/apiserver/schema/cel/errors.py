"""What can go wrong with an expression, before and while it runs."""

from __future__ import annotations


class BadExpressionError(ValueError):
    """The text is no expression that we can run."""


class EvaluationError(Exception):
    """The expression has no value for this input."""


NO_OVERLOAD = "no such overload"
