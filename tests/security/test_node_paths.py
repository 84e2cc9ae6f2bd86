"""Paths that a tenant chooses never lead out of the directory that they belong to."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from manta.api.meta import Key
from manta.api.resources import PODS
from manta.kube.errors import Invalid
from manta.localplane.node.host import confined_files
from manta.localplane.node.host.confined_files import Directory, Escape, Links, open_beneath
from manta.localplane.node.sandbox.log_reader import last_lines, older_lines
from manta.localplane.node.sandbox.log_writer import LogFile
from manta.localplane.node.spec.environment import ConfigError, PodPlacement, Sources
from manta.localplane.node.storage.volume_files import Content, token_projections
from manta.localplane.node.storage.volumes import Volumes
from support.node import a_pod
from support.plane import memory_plane

PLACE = PodPlacement("manta", "10.88.0.1", "10.88.0.7", {})
SOURCES = Sources({"cm": {"key": b"tenant"}}, {"pw": {"key": b"tenant"}})
NAME = {"fieldRef": {"fieldPath": "metadata.name"}}
OUTSIDE = ["/{}/target", "../../../{}/target", "a/../../../../{}/target"]


def prepare(directory: Path, volume: dict[str, Any], sources: Sources = SOURCES) -> Path:
    pod = a_pod(volumes=[{"name": "v", **volume}])
    tokens = dict.fromkeys(token_projections(pod), b"tenant")
    content = Content(pod, PLACE, sources, tokens)
    volumes = Volumes(directory, directory / "claims")
    return volumes.prepare(directory / "pods/uid/volumes", content).paths["v"]


def volumes_with(path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    items = [{"key": "key", "path": path}]
    yield "configMap", {"configMap": {"name": "cm", "items": items}}
    yield "secret", {"secret": {"secretName": "pw", "items": items}}
    yield "downwardAPI", {"downwardAPI": {"items": [{"path": path, **NAME}]}}
    for source in (
        {"configMap": {"name": "cm", "items": items}},
        {"secret": {"name": "pw", "items": items}},
        {"downwardAPI": {"items": [{"path": path, **NAME}]}},
        {"serviceAccountToken": {"path": path}},
    ):
        yield f"projected {next(iter(source))}", {"projected": {"sources": [source]}}


# ── the agent writes nothing outside a volume ────────────────────────────────────────────
@pytest.mark.parametrize("pattern", OUTSIDE)
@pytest.mark.parametrize("kind", [kind for kind, _ in volumes_with("")])
def test_the_agent_refuses_a_file_outside_its_volume(
    tmp_path: Path, pattern: str, kind: str
) -> None:
    """X2: an object from before the server checked paths, or made on another server."""
    victim = tmp_path / "victim"
    victim.mkdir()
    absolute = pattern.startswith("/")
    path = pattern.format(str(victim).lstrip("/") if absolute else "../../victim")
    volume = dict(volumes_with(path))[kind]
    with pytest.raises(ConfigError, match="must be relative"):
        prepare(tmp_path / "plane", volume)
    assert list(victim.iterdir()) == []


def test_a_replaced_data_link_makes_the_agent_remove_nothing_outside(tmp_path: Path) -> None:
    """X13: a Pod that can write to its volume puts its own link in place of `..data`."""
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "kept").write_text("of the machine")
    volume = prepare(tmp_path / "plane", {"configMap": {"name": "cm"}})
    (volume / "..data").unlink()
    (volume / "..data").symlink_to(victim)
    changed = Sources({"cm": {"key": b"new"}}, {})
    prepare(tmp_path / "plane", {"configMap": {"name": "cm"}}, changed)
    assert (victim / "kept").read_text() == "of the machine"
    assert (volume / "key").read_text() == "new"


def test_links_in_place_of_a_volumes_files_are_replaced_and_not_followed(tmp_path: Path) -> None:
    """X13."""
    victim = tmp_path / "victim"
    victim.write_text("of the machine")
    volume = prepare(tmp_path / "plane", {"configMap": {"name": "cm"}})
    for name in ("..1", "..data_tmp"):
        (volume / name).symlink_to(tmp_path)
    generation = volume / (volume / "..data").readlink()
    (generation / "key").unlink()
    (generation / "key").symlink_to(victim)
    prepare(tmp_path / "plane", {"configMap": {"name": "cm"}})
    assert victim.read_text() == "of the machine"
    assert (volume / "key").read_text() == "tenant"
    assert {path.name for path in tmp_path.iterdir()} == {"plane", "victim"}


def test_a_claim_named_with_a_path_is_refused(tmp_path: Path) -> None:
    """X2: only the names of claims become directories."""
    volume = {"persistentVolumeClaim": {"claimName": "../../victim"}}
    with pytest.raises(ConfigError, match="not the name of a claim"):
        prepare(tmp_path / "plane", volume)
    assert not (tmp_path / "victim").exists()


@pytest.mark.parametrize("where", ["pki", "", "pods/uid"])
def test_a_host_path_into_the_planes_directory_is_refused(tmp_path: Path, where: str) -> None:
    """X13: also by way of a link."""
    plane = tmp_path / "plane"
    (plane / where).mkdir(parents=True)
    (tmp_path / "link").symlink_to(plane)
    for path in (plane / where, tmp_path / "link" / where):
        with pytest.raises(ConfigError, match="keeps its keys"):
            prepare(plane, {"hostPath": {"path": str(path)}})


@pytest.mark.parametrize("path", ["relative", "/a/../etc", "/nul\0"])
def test_a_host_path_that_is_no_plain_path_is_refused(tmp_path: Path, path: str) -> None:
    with pytest.raises(ConfigError, match="absolute path without"):
        prepare(tmp_path / "plane", {"hostPath": {"path": path, "type": "DirectoryOrCreate"}})


# ── resolution beneath a directory ───────────────────────────────────────────────────────
@pytest.fixture(params=["openat2", "by steps"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways of resolving must agree; the second is that of kernels before 5.6."""
    if request.param == "by steps":

        def absent(*_: object) -> int:
            raise NotImplementedError

        monkeypatch.setattr(confined_files, "_openat2", absent)
    return str(request.param)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    inside = tmp_path / "inside"
    (inside / "deep").mkdir(parents=True)
    (inside / "deep/file").write_text("inside")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/file").write_text("outside")
    (inside / "absolute").symlink_to(tmp_path / "outside")
    (inside / "relative").symlink_to("../outside")
    (inside / "good").symlink_to("deep/../deep")
    (inside / "rooted").symlink_to("/deep")
    (inside / "loop").symlink_to("loop")
    return inside


def content(root: Path, path: str, links: Links) -> str:
    with Directory.at(root) as directory:
        fd = open_beneath(directory.fd, path, os.O_RDONLY, links=links)
        with os.fdopen(fd) as file:
            return file.read()


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("links", [Links.REFUSED, Links.INSIDE])
@pytest.mark.parametrize(
    "path",
    [
        "../outside/file",
        "/etc/passwd",
        "absolute/file",
        "relative/file",
        "deep/../../outside/file",
        "loop",
        "rooted/file",
    ],
)
def test_what_leads_out_is_refused(tree: Path, path: str, links: Links) -> None:
    """X13."""
    with pytest.raises(Escape, match="does not stay inside"):
        content(tree, path, links)


@pytest.mark.usefixtures("way")
def test_links_that_stay_inside_are_followed_only_where_that_is_asked_for(tree: Path) -> None:
    assert content(tree, "good/file", Links.INSIDE) == "inside"
    with pytest.raises(Escape):
        content(tree, "good/file", Links.REFUSED)


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("path", ["/deep/file", "rooted/file", "../../deep/file", "good/file"])
def test_a_directory_can_be_taken_for_the_root(tree: Path, path: str) -> None:
    """How a container sees it: `..` at the top stays, absolute links begin there."""
    assert content(tree, path, Links.IN_ROOT) == "inside"


@pytest.mark.usefixtures("way")
def test_the_root_of_a_container_leads_to_nothing_outside(tree: Path) -> None:
    with pytest.raises(FileNotFoundError):
        content(tree, "relative/file", Links.IN_ROOT)


def test_directories_are_made_inside_also_behind_links_that_lead_nowhere(tree: Path) -> None:
    with Directory.at(tree) as directory:
        directory.make("relative/new", links=Links.IN_ROOT).close()
        directory.touch("rooted/touched", links=Links.IN_ROOT)
    assert (tree / "outside/new").is_dir()
    assert (tree / "deep/touched").is_file()
    assert [path.name for path in (tree.parent / "outside").iterdir()] == ["file"]


@pytest.mark.parametrize("path", ["relative/x", "../x", "absolute/x", "/tmp/x"])
def test_nothing_is_made_written_or_removed_outside(tree: Path, path: str) -> None:
    with Directory.at(tree) as directory:
        for action in (directory.make, directory.touch, directory.remove):
            with pytest.raises(Escape):
                action(path)
        with pytest.raises(Escape):
            directory.write(path, b"x")
        with pytest.raises(Escape):
            directory.link(path, "goal")
    assert [one.name for one in (tree.parent / "outside").iterdir()] == ["file"]


def test_removing_a_tree_removes_links_and_not_what_they_lead_to(tree: Path) -> None:
    (tree / "deep/out").symlink_to(tree.parent / "outside")
    with Directory.at(tree) as directory:
        directory.remove("deep")
        directory.remove("absolute")
    assert not (tree / "deep").exists()
    assert (tree.parent / "outside/file").exists()


def test_a_second_name_of_a_foreign_file_is_replaced_and_not_written_to(tree: Path) -> None:
    os.link(tree.parent / "outside/file", tree / "deep/hard")
    with Directory.at(tree) as directory:
        directory.write("deep/hard", b"new")
    assert (tree.parent / "outside/file").read_text() == "outside"


def test_a_pipe_in_place_of_a_file_is_refused_and_does_not_block(tree: Path) -> None:
    os.mkfifo(tree / "pipe")
    with Directory.at(tree) as directory, pytest.raises(OSError, match="not a regular file"):
        directory.read("pipe")


@pytest.mark.parametrize("name", ["log", "log.1"])
def test_a_link_in_place_of_a_log_shows_no_file_of_the_machine(tmp_path: Path, name: str) -> None:
    secret = tmp_path / "secret"
    secret.write_text("2026-11-16T00:00:00.000000000Z stdout F secret\n")
    record = tmp_path / "record"
    record.mkdir()
    (record / name).symlink_to(secret)
    read = (
        (lambda: list(older_lines(record / "log")))
        if name == "log.1"
        else (lambda: last_lines(record / "log", lines=9, limit=99))
    )
    with pytest.raises(Escape):
        read()
    if name == "log":
        with pytest.raises(OSError, match="symbolic links"):
            LogFile(str(record / "log"))


# ── the server refuses such Pods ─────────────────────────────────────────────────────────
async def refused(spec: dict[str, Any]) -> str:
    container = {"name": "main", "image": "busybox", **spec.pop("container", {})}
    body = {"metadata": {"name": "pod"}, "spec": {"containers": [container], **spec}}
    async with memory_plane() as plane:
        with pytest.raises(Invalid) as error:
            await plane.client.create(PODS, "default", body)
    return str(error.value)


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/etc/cron.d/x", '"/etc/cron.d/x": must be a relative path'),
        ("../x", "\"../x\": must not contain '..'"),
        ("a/../x", "\"a/../x\": must not contain '..'"),
        ("..data/x", "\"..data/x\": must not start with '..'"),
        ("..", "\"..\": must not contain '..'"),
    ],
)
@pytest.mark.parametrize(
    ("kind", "field"),
    [
        ("configMap", "configMap.items[0].path"),
        ("secret", "secret.items[0].path"),
        ("downwardAPI", "downwardAPI.path"),
        ("projected configMap", "projected.sources[0].configMap.items[0].path"),
        ("projected secret", "projected.sources[0].secret.items[0].path"),
        ("projected downwardAPI", "projected.sources[0].downwardAPI.path"),
        ("projected serviceAccountToken", "projected.path"),
    ],
)
async def test_the_server_refuses_files_outside_their_volume(
    kind: str, field: str, path: str, words: str
) -> None:
    """X2: field and words as the real server's."""
    volume = {"name": "v", **dict(volumes_with(path))[kind]}
    assert f"spec.volumes[0].{field}: Invalid value: {words}" in await refused(
        {"volumes": [volume]}
    )


@pytest.mark.parametrize(
    ("volume", "words"),
    [
        (
            {"hostPath": {"path": "/a/../etc"}},
            "spec.volumes[0].hostPath.path: Invalid value: \"/a/../etc\": must not contain '..'",
        ),
        (
            {"hostPath": {"path": "/a", "type": "Any"}},
            (
                'spec.volumes[0].hostPath.type: Unsupported value: "Any": supported values: "",'
                ' "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File",'
                ' "FileOrCreate", "Socket"'
            ),
        ),
        (
            {"configMap": {"name": "cm", "defaultMode": 0o1000}},
            (
                "spec.volumes[0].configMap.defaultMode: Invalid value: 512: must be a number between 0"
                " and 0777 (octal), both inclusive"
            ),
        ),
        (
            {"configMap": {"name": "cm", "items": [{"key": "", "path": ""}]}},
            "spec.volumes[0].configMap.items[0].path: Required value",
        ),
        (
            {
                "projected": {
                    "sources": [
                        {"configMap": {"name": "cm", "items": [{"key": "a", "path": "same"}]}},
                        {"secret": {"name": "pw", "items": [{"key": "a", "path": "same"}]}},
                    ]
                }
            },
            'spec.volumes[0].projected: Invalid value: "pw": conflicting duplicate paths',
        ),
        (
            {"projected": {"sources": [{"configMap": {"name": "a"}, "secret": {"name": "b"}}]}},
            (
                "spec.volumes[0].projected.sources[0]: Forbidden: may not specify more than 1 volume"
                " type per source"
            ),
        ),
        (
            {
                "projected": {
                    "sources": [{"serviceAccountToken": {"path": "t", "expirationSeconds": 5}}]
                }
            },
            (
                "spec.volumes[0].projected.sources[0].serviceAccountToken.expirationSeconds: Invalid"
                " value: 5: may not specify a duration less than 10 minutes"
            ),
        ),
        (
            {"downwardAPI": {"items": [{"path": "name"}]}},
            (
                "spec.volumes[0].downwardAPI: Required value: one of fieldRef and resourceFieldRef is"
                " required"
            ),
        ),
    ],
)
async def test_the_server_checks_volumes_in_the_real_servers_words(
    volume: dict[str, Any], words: str
) -> None:
    """X2."""
    assert words in await refused({"volumes": [{"name": "v", **volume}]})


@pytest.mark.parametrize(
    ("mount", "words"),
    [
        ({"subPath": "/etc"}, 'volumeMounts.subPath: Invalid value: "/etc": must be a relative'),
        ({"subPath": "a/.."}, 'volumeMounts.subPath: Invalid value: "a/..": must not contain'),
        ({"subPathExpr": "/$(A)"}, 'volumeMounts.subPathExpr: Invalid value: "/$(A)": must be a'),
        ({"subPathExpr": "../x"}, 'volumeMounts.subPathExpr: Invalid value: "../x": must not'),
        (
            {"subPath": "a", "subPathExpr": "b"},
            (
                'volumeMounts[0].subPathExpr: Invalid value: "b": subPathExpr and subPath are mutually'
                " exclusive"
            ),
        ),
    ],
)
async def test_the_server_refuses_sub_paths_outside_their_volume(
    mount: dict[str, Any], words: str
) -> None:
    """X13."""
    spec = {
        "volumes": [{"name": "v", "emptyDir": {}}],
        "container": {"volumeMounts": [{"name": "v", "mountPath": "/v", **mount}]},
    }
    assert words in await refused(spec)


@pytest.mark.parametrize(
    ("mount", "words"),
    [
        ({"name": "no"}, 'ephemeralContainers[0].volumeMounts[0].name: Not found: "no"'),
        ({"subPath": "a"}, "volumeMounts[0].subPath: Forbidden: cannot be set for an Ephemeral"),
        ({"subPathExpr": "a"}, "volumeMounts[0].subPathExpr: Forbidden: cannot be set for an"),
    ],
)
async def test_the_server_checks_mounts_of_ephemeral_containers(
    mount: dict[str, Any], words: str
) -> None:
    """X13: they were not checked at all."""
    container = {"name": "main", "image": "busybox"}
    spec = {"containers": [container], "volumes": [{"name": "v", "emptyDir": {}}]}
    debug = {
        "name": "debug",
        "image": "busybox",
        "volumeMounts": [{"name": "v", "mountPath": "/v", **mount}],
    }
    async with memory_plane() as plane:
        await plane.client.create(PODS, "default", {"metadata": {"name": "pod"}, "spec": spec})
        patch = {"spec": {"ephemeralContainers": [debug]}}
        with pytest.raises(Invalid) as error:
            await plane.client.patch(
                PODS, Key("default", "pod"), patch, subresource="ephemeralcontainers"
            )
    assert words in str(error.value)
