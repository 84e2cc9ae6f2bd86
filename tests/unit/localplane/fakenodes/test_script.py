"""The words of a script."""

from __future__ import annotations

from math import inf

import pytest

from manta.localplane.fakenodes.script import RUNS_FOREVER, Exit, Script, ScriptError, parse

DEFAULTS = Script(start=0.2)


@pytest.mark.parametrize(
    ("text", "script"),
    [
        ("", DEFAULTS),
        ("start=2 ready=never stop=20", Script(start=2, ready=inf, stop=20)),
        ("pull=error", Script(start=0.2, pull_error=inf)),
        ("pull=error:30", Script(start=0.2, pull_error=30)),
        ("init-exit=42", Script(start=0.2, init_exit=42)),
        ("evict@10", Script(start=0.2, evict=10)),
        ("oom@5", Script(start=0.2, exits=(Exit(5, 137, "OOMKilled"),))),
        ("exit=0@3/main", Script(start=0.2, exits=(Exit(3, 0, "", "main"),))),
        ("exit=1@3 run", Script(start=0.2, exits=(Exit(3, 1), RUNS_FOREVER))),
    ],
)
def test_words_are_read(text: str, script: Script) -> None:
    assert parse(text, DEFAULTS) == script


@pytest.mark.parametrize("word", ["dance", "start=soon", "exit=x@3", "pull=slowly", "start="])
def test_a_word_without_meaning_is_named(word: str) -> None:
    with pytest.raises(ScriptError, match=word.partition("=")[0]):
        parse(f"ready=1 {word}", DEFAULTS)


def test_the_last_ending_repeats() -> None:
    script = parse("exit=1@3 exit=2@4", DEFAULTS)
    assert [script.exit_after(starts).code for starts in range(4)] == [1, 2, 2, 2]
