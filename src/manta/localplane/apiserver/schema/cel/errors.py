"""Errors of expressions, at compile time and at run time."""

from __future__ import annotations


class BadExpressionError(ValueError):
    """The text is not a valid expression."""

    def __init__(self, message: str, at: int = 0) -> None:
        super().__init__(message)
        self.at = at

    def shown_in(self, text: str) -> str:
        """Return the message with the position marked, as cel-go prints it."""
        before = text[: self.at]
        line, column = before.count("\n"), self.at - (before.rfind("\n") + 1)
        source = text.split("\n")[line]
        mark = "." * column + "^"
        return f"ERROR: <input>:{line + 1}:{column + 1}: {self}\n | {source}\n | {mark}"


class EvaluationError(Exception):
    """The expression fails for this input."""


NO_OVERLOAD = "no such overload"
