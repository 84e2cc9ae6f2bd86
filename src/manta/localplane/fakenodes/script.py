"""Parses the script of a fake Pod. The package docstring lists the words. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf


class ScriptError(ValueError):
    """The script has an unknown word; the message names it."""


@dataclass(frozen=True, slots=True)
class Exit:
    """How the containers end after one start."""

    after: float = inf
    code: int = 0
    reason: str = ""
    container: str = ""
    """Only this container ends; empty: all containers end."""


RUNS_FOREVER = Exit()


@dataclass(frozen=True, slots=True)
class Script:
    start: float = 0.0
    """Seconds from binding to Running."""
    ready: float = 0.0
    """Seconds from Running to Ready."""
    stop: float = 0.0
    """Seconds from deletion to the end of the containers."""
    pull_error: float = 0.0
    """Seconds for which pulling the image fails."""
    init_exit: int = 0
    evict: float = inf
    """Seconds from Running to eviction."""
    exits: tuple[Exit, ...] = (RUNS_FOREVER,)

    def exit_after(self, restarts: int) -> Exit:
        """How the containers end after this many restarts; the last entry repeats."""
        return self.exits[min(restarts, len(self.exits) - 1)]


def parse(text: str, defaults: Script) -> Script:
    """The script in `text`, with `defaults` for what it does not mention. Raises ScriptError."""
    script = defaults
    exits: list[Exit] = []
    for word in text.split():
        if parsed := _parse_exit(word):
            exits.append(parsed)
        else:
            script = _parse_setting(script, word)
    return replace(script, exits=tuple(exits)) if exits else script


def _parse_exit(word: str) -> Exit | None:
    if word == "run":
        return RUNS_FOREVER
    what, _, when = word.partition("@")
    seconds, _, container = when.partition("/")
    if what == "oom":
        return Exit(_seconds(word, seconds or "0"), 137, "OOMKilled", container)
    if what.startswith("exit="):
        code = _exit_code(word, what.removeprefix("exit="))
        return Exit(_seconds(word, seconds or "0"), code, container=container)
    return None


def _parse_setting(script: Script, word: str) -> Script:
    name, _, text = word.partition("=")
    if word.startswith("evict@"):
        return replace(script, evict=_seconds(word, word.removeprefix("evict@")))
    if name == "start" and text:
        return replace(script, start=_seconds(word, text))
    if name == "ready" and text:
        return replace(script, ready=_seconds(word, text))
    if name == "stop" and text:
        return replace(script, stop=_seconds(word, text))
    if name == "init-exit":
        return replace(script, init_exit=_exit_code(word, text))
    if name == "pull" and text.partition(":")[0] == "error":
        until = text.partition(":")[2]
        return replace(script, pull_error=_seconds(word, until) if until else inf)
    raise ScriptError(f"{word!r} is not a word of a fake Pod's script")


def _seconds(word: str, text: str) -> float:
    if text == "never":
        return inf
    try:
        return float(text)
    except ValueError:
        raise ScriptError(f"{text!r} in {word!r} is not a number of seconds") from None


def _exit_code(word: str, text: str) -> int:
    if not text.isdigit():
        raise ScriptError(f"{text!r} in {word!r} is not an exit code")
    return int(text)
