"""Ages as people write them on a command line: `30d`, `12h`."""

from __future__ import annotations

from manta.api.usage import UsageError


def parse_age(flag: str, text: str) -> float:
    """Seconds of `30d`, `12h`, `5m` or `90s`. Raises UsageError."""
    unit = {"d": 86_400, "h": 3600, "m": 60, "s": 1}.get(text[-1:])
    if unit is None or not text[:-1].isdecimal() or len(text) > 12:
        raise UsageError(f"{flag} {text}: write it as 30d, 12h, 5m or 90s")
    return float(int(text[:-1]) * unit)
