"""The cache of parsed texts stays within its size."""

from __future__ import annotations

from manta.rules.text_cache import TextParser


def test_the_oldest_texts_are_dropped_and_no_longer_counted() -> None:
    parser: TextParser[int] = TextParser(len, limit=5000)
    for number in range(20):
        assert parser(f"{number:1000d}") == 1000
    assert parser.knows(f"{19:1000d}")
    assert not parser.knows(f"{0:1000d}")
    assert 0 < parser.size <= 5000


def test_a_text_that_is_used_again_stays() -> None:
    parser: TextParser[int] = TextParser(len, limit=5000)
    for number in range(20):
        parser("often")
        parser(f"{number:1000d}")
    assert parser.knows("often")


def test_texts_that_just_fit_are_both_kept() -> None:
    probe: TextParser[int] = TextParser(len)
    for text in ("one", "two"):
        probe(text)
    parser: TextParser[int] = TextParser(len, limit=probe.size)
    for text in ("one", "two"):
        parser(text)
    assert parser.knows("one")
    assert parser.knows("two")
