from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from manta.localplane.node.host.confined_files import Directory
from manta.localplane.node.spec.environment import ConfigError, PodPlacement, Sources
from manta.localplane.node.storage.volume_files import Content, VolumeFile, token_projections
from manta.localplane.node.storage.volumes import (
    MemoryVolume,
    Volumes,
    prepare_host_path,
    write_files,
)
from support.node import a_pod

PLACE = PodPlacement("manta", "10.88.0.1", "10.88.0.7", {})
SOURCES = Sources({"cm": {"a": b"1", "b": b"2"}}, {"pw": {"key": b"s"}})


def prepare(tmp_path: Path, *volumes: dict[str, Any], sources: Sources = SOURCES) -> Any:
    pod = a_pod(volumes=list(volumes), metadata={"labels": {"x": "y"}})
    tokens = dict.fromkeys(token_projections(pod), b"token")
    content = Content(pod, PLACE, sources, tokens)
    return Volumes(tmp_path / "plane", tmp_path / "claims").prepare(tmp_path / "volumes", content)


def test_a_config_map_becomes_files(tmp_path: Path) -> None:
    made = prepare(tmp_path, {"name": "v", "configMap": {"name": "cm"}})
    assert (made.paths["v"] / "a").read_text() == "1"
    assert (made.paths["v"] / "b").read_text() == "2"


def test_items_choose_keys_paths_and_modes(tmp_path: Path) -> None:
    items = [{"key": "b", "path": "deep/file", "mode": 0o400}]
    made = prepare(tmp_path, {"name": "v", "configMap": {"name": "cm", "items": items}})
    file = made.paths["v"] / "deep" / "file"
    assert file.read_text() == "2"
    assert file.stat().st_mode & 0o777 == 0o400
    assert not (made.paths["v"] / "a").exists()


def test_a_projected_volume_joins_its_sources(tmp_path: Path) -> None:
    labels = {"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}
    sources = [
        {"serviceAccountToken": {"path": "token"}},
        {"configMap": {"name": "cm", "items": [{"key": "a", "path": "ca.crt"}]}},
        {"secret": {"name": "pw"}},
        {"downwardAPI": {"items": [labels]}},
    ]
    made = prepare(tmp_path, {"name": "v", "projected": {"sources": sources}})
    found = {path.name: path.read_text() for path in made.paths["v"].glob("[!.]*")}
    assert found == {"token": "token", "ca.crt": "1", "key": "s", "labels": 'x="y"'}


@pytest.mark.parametrize(
    ("volume", "message"),
    [
        ({"configMap": {"name": "no"}}, 'configmap "no" not found'),
        ({"secret": {"secretName": "no"}}, 'secret "no" not found'),
        (
            {"configMap": {"name": "cm", "items": [{"key": "z", "path": "z"}]}},
            "references non-existent configmap key: z",
        ),
    ],
)
def test_a_volume_made_from_nothing_is_named(tmp_path: Path, volume: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        prepare(tmp_path, {"name": "v", **volume})


def test_an_optional_volume_made_from_nothing_is_empty(tmp_path: Path) -> None:
    made = prepare(tmp_path, {"name": "v", "configMap": {"name": "no", "optional": True}})
    assert [path.name for path in made.paths["v"].glob("[!.]*")] == []


def test_a_change_replaces_all_files_at_once(tmp_path: Path) -> None:
    volume = tmp_path / "v"
    volume.mkdir()
    with Directory.at(volume) as own:
        assert write_files(own, [VolumeFile("a", b"1", 0o644), VolumeFile("old", b"x", 0o644)])
        before = (volume / "..data").resolve()
        assert write_files(own, [VolumeFile("a", b"2", 0o644)])
    assert (volume / "a").read_text() == "2"
    assert not (volume / "old").is_symlink()
    assert not before.exists()


def test_files_that_did_not_change_are_left_alone(tmp_path: Path) -> None:
    files = [VolumeFile("a", b"1", 0o644)]
    with Directory.at(tmp_path) as volume:
        assert write_files(volume, files)
        assert not write_files(volume, files)


def test_an_empty_directory_in_memory_is_left_to_the_pods_init(tmp_path: Path) -> None:
    empty = {"medium": "Memory", "sizeLimit": "1Mi"}
    made = prepare(tmp_path, {"name": "v", "emptyDir": empty}, {"name": "w", "emptyDir": {}})
    assert made.memory == (MemoryVolume(tmp_path / "volumes" / "v", 1 << 20),)
    assert made.paths["w"].is_dir()


def test_a_claim_is_a_directory_that_outlives_the_pod(tmp_path: Path) -> None:
    volume = {"name": "v", "persistentVolumeClaim": {"claimName": "data"}}
    first = prepare(tmp_path, volume).paths["v"]
    (first / "kept").touch()
    assert (prepare(tmp_path, volume).paths["v"] / "kept").exists()


@pytest.mark.parametrize("kind", ["Directory", "File", "Socket", "CharDevice", "BlockDevice"])
def test_a_host_path_that_is_not_what_it_should_be_is_refused(tmp_path: Path, kind: str) -> None:
    with pytest.raises(ConfigError, match="hostPath type check failed"):
        prepare_host_path(tmp_path / "no", kind)


def test_a_host_path_is_made_where_that_was_asked_for(tmp_path: Path) -> None:
    prepare_host_path(tmp_path / "a" / "b", "DirectoryOrCreate")
    prepare_host_path(tmp_path / "a" / "file", "FileOrCreate")
    assert (tmp_path / "a" / "b").is_dir()
    assert (tmp_path / "a" / "file").is_file()
