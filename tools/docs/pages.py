"""Text that a generator writes into a page that people edit, between two marker comments."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class Section:
    """A generated section of a page."""

    page: Path
    begin: str
    end: str

    def replaced(self, page: str, text: str) -> str:
        """The page with `text` between the markers. Raises ValueError if a marker is missing."""
        before, begin, rest = page.partition(self.begin)
        _, end, after = rest.partition(self.end)
        if not begin or not end:
            raise ValueError(
                f"{self.page.name} must contain the lines {self.begin!r} and {self.end!r}"
            )
        return f"{before}{self.begin}\n\n{text}\n{self.end}{after}"
