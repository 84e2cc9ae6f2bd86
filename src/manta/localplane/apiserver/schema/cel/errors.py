"""What can go wrong with an expression, before and while it runs."""

from __future__ import annotations


class BadExpressionError(ValueError):
    """The text is no expression that we can run."""

    def __init__(self, message: str, at: int = 0) -> None:
        super().__init__(message)
        self.at = at

    def shown_in(self, text: str) -> str:
        """The complaint with the place marked, as the real compiler prints it."""
        before = text[: self.at]
        line, column = before.count("\n"), self.at - (before.rfind("\n") + 1)
        source = text.split("\n")[line]
        mark = "." * column + "^"
        return f"ERROR: <input>:{line + 1}:{column + 1}: {self}\n | {source}\n | {mark}"


class EvaluationError(Exception):
    """The expression has no value for this input."""


NO_OVERLOAD = "no such overload"
