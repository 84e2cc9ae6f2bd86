"""Help with examples, and hints for words that are nearly right (U17, U18)."""

from __future__ import annotations

import pytest

from manta.api.usage import UsageError, did_you_mean
from manta.cli.main import VERBS, main
from manta.cli.server.discovery import Kinds
from support.plane import memory_plane
from support.raycrds import ray_crds


@pytest.mark.parametrize("verb", VERBS)
def test_the_help_of_every_verb_has_examples(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([verb, "--help"])
    assert ended.value.code == 0
    _, _, examples = capsys.readouterr().out.partition("\nexamples:\n")
    assert examples.count(f"manta {verb}") >= 2


def test_every_flag_of_up_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    """P11: `--with` had no help text."""
    with pytest.raises(SystemExit):
        main(["up", "--help"])
    shown = " ".join(capsys.readouterr().out.split())
    assert "--with FILE apply this manifest" in shown


def test_a_verb_that_is_nearly_one_gets_a_hint(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["statsu"])
    assert ended.value.code == 2
    assert "unknown command 'statsu'; did you mean 'status'?" in capsys.readouterr().err


async def test_a_kind_that_is_nearly_one_gets_a_hint_and_kubectls_words_keep_their_meaning() -> (
    None
):
    async with memory_plane(crds=ray_crds()) as plane:
        kinds = await Kinds.discover(plane.client)
        with pytest.raises(UsageError, match="did you mean 'rayclusters'"):
            kinds.named("rayclustrs")
        groups = {word: kinds.named(word).group for word in ("jobs", "services", "cronjobs")}
        assert groups == {"jobs": "batch", "services": "", "cronjobs": "batch"}
        assert kinds.named("clusters").group == "ray.io"


def test_nothing_is_suggested_for_a_word_that_is_like_none() -> None:
    assert did_you_mean("xyzzy", VERBS) == ""
