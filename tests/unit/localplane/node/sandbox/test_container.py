from __future__ import annotations

from pathlib import Path

import pytest

from manta.localplane.node.sandbox.container import find_program


def test_a_program_is_found_on_the_containers_own_path(tmp_path: Path) -> None:
    program = tmp_path / "tool"
    program.touch(mode=0o755)
    assert find_program("tool", f"/nowhere:{tmp_path}") == str(program)


def test_a_name_with_a_slash_is_taken_as_it_is() -> None:
    assert find_program("/no/such/program", "/bin") == "/no/such/program"


def test_a_missing_program_is_named_in_the_words_that_users_know() -> None:
    with pytest.raises(OSError, match=r'exec: "ryy": executable file not found in \$PATH'):
        find_program("ryy", "/bin")


def test_a_file_that_may_not_be_executed_is_not_a_program(tmp_path: Path) -> None:
    (tmp_path / "tool").touch(mode=0o644)
    with pytest.raises(OSError, match="not found"):
        find_program("tool", str(tmp_path))
