"""Reading scripts: what a fake Pod does, and when. Pure. The words are told in the package."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf

ANNOTATION = "fake.manta.io/script"


class ScriptError(ValueError):
    """A word that means nothing; the message names it."""


@dataclass(frozen=True, slots=True)
class Ending:
    """How one start of the containers ends."""

    after: float = inf
    code: int = 0
    reason: str = ""
    container: str = ""
    """Only this one ends; empty: all of them."""


RUN_ON = Ending()


@dataclass(frozen=True, slots=True)
class Script:
    start: float = 0.0
    """Seconds from being bound to running."""
    ready: float = 0.0
    """Seconds from running to ready."""
    stop: float = 0.0
    """Seconds from being told to stop to being gone."""
    pull_error: float = 0.0
    """Seconds for which the image cannot be pulled."""
    init_exit: int = 0
    evict: float = inf
    """Seconds from running to eviction."""
    endings: tuple[Ending, ...] = (RUN_ON,)

    def ending(self, starts: int) -> Ending:
        """How the containers end after they were started so many times before."""
        return self.endings[min(starts, len(self.endings) - 1)]


def parse(text: str, defaults: Script) -> Script:
    """The script that the words describe; what they do not mention is as in `defaults`."""
    script = defaults
    endings: list[Ending] = []
    for word in text.split():
        if ending := _ending(word):
            endings.append(ending)
        else:
            script = _setting(script, word)
    return replace(script, endings=tuple(endings)) if endings else script


def _ending(word: str) -> Ending | None:
    if word == "run":
        return RUN_ON
    what, _, when = word.partition("@")
    seconds, _, container = when.partition("/")
    if what == "oom":
        return Ending(_seconds(word, seconds or "0"), 137, "OOMKilled", container)
    if what.startswith("exit="):
        code = _whole(word, what.removeprefix("exit="))
        return Ending(_seconds(word, seconds or "0"), code, container=container)
    return None


def _setting(script: Script, word: str) -> Script:
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
        return replace(script, init_exit=_whole(word, text))
    if name == "pull" and text.partition(":")[0] == "error":
        until = text.partition(":")[2]
        return replace(script, pull_error=_seconds(word, until) if until else inf)
    raise ScriptError(f"{word!r} is no word of a fake Pod's script")


def _seconds(word: str, text: str) -> float:
    if text == "never":
        return inf
    try:
        return float(text)
    except ValueError:
        raise ScriptError(f"{text!r} in {word!r} is no number of seconds") from None


def _whole(word: str, text: str) -> int:
    if not text.isdigit():
        raise ScriptError(f"{text!r} in {word!r} is no exit code")
    return int(text)
