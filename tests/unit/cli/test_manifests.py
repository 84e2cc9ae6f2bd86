"""Files of manifests: what is wrong with one is said with its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from manta.api.usage import UsageError
from manta.cli.main import main
from manta.cli.server.manifests import read_manifests

CONFIG_MAP = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"


def test_many_documents_and_lists_come_out_flat(tmp_path: Path) -> None:
    file = tmp_path / "all.yaml"
    listed = (
        "apiVersion: v1\nkind: List\nitems: [{apiVersion: v1, kind: Pod, metadata: {name: b}}]\n"
    )
    file.write_text(f"{CONFIG_MAP}---\n---\n{listed}")
    assert [d["metadata"]["name"] for d in read_manifests([str(file)])] == ["a", "b"]


def test_a_directory_gives_its_manifests_in_order(tmp_path: Path) -> None:
    for name in ("2.yaml", "1.yaml"):
        (tmp_path / name).write_text(CONFIG_MAP.replace("name: a", f"name: n{name[0]}"))
    (tmp_path / "notes.txt").write_text("no manifest")
    assert [d["metadata"]["name"] for d in read_manifests([str(tmp_path)])] == ["n1", "n2"]


@pytest.mark.parametrize(
    ("text", "reported"),
    [
        ("a: [", "is not valid YAML"),
        ("just words", "expected an object with apiVersion and kind"),
        ("kind: Pod\nmetadata: {name: x}", "apiVersion is missing"),
        ("apiVersion: v1\nkind: Pod\nmetadata:", "metadata.name is missing"),
        ("apiVersion: v1\nkind: Pod\nmetadata: x", "metadata.name is missing"),
        ("kind: Pod\nkind: Job", 'line 2: key "kind" already set'),
        ("a: " + "[" * 40_000, "nested more than 100 levels"),
    ],
)
def test_bad_files_name_the_field_and_the_place(tmp_path: Path, text: str, reported: str) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text(text)
    with pytest.raises(UsageError, match=reported) as caught:
        read_manifests([str(file)])
    assert "bad.yaml" in str(caught.value)


def test_invalid_utf_8_names_file_line_byte_and_cure(tmp_path: Path) -> None:
    """U9: it was a traceback."""
    file = tmp_path / "latin1.yaml"
    file.write_bytes(b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: caf\xe9}\n")
    with pytest.raises(UsageError) as caught:
        read_manifests([str(file)])
    for part in (str(file), "line 3", "byte 0xe9", "save the text as UTF-8"):
        assert part in str(caught.value)


def test_values_are_those_that_kubectl_would_send(tmp_path: Path) -> None:
    """P5."""
    file = tmp_path / "pod.yaml"
    file.write_text(f"{CONFIG_MAP}data: {{ports: 22:22, day: 2020-01-01}}\nmode: 0o14\non: y\n")
    [found] = read_manifests([str(file)])
    assert found["data"] == {"ports": "22:22", "day": "2020-01-01"}
    assert (found["mode"], found["true"]) == (12, True)


def test_a_missing_file_is_reported_in_plain_words() -> None:
    with pytest.raises(UsageError, match=r"cannot read nowhere\.yaml: No such file"):
        read_manifests(["nowhere.yaml"])


def test_a_file_without_objects_is_said_and_ends_with_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """U16: it was applied in silence, with rc 0."""
    file = tmp_path / "empty.yaml"
    file.write_text("# nothing yet\n---\n")
    assert main(["apply", "-f", str(file), "--server", "http://127.0.0.1:1"]) == 2
    assert "no objects in" in capsys.readouterr().err
