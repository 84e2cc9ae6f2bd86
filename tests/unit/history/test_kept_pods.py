"""From a directory that the node agent kept to the store."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from manta.api.ray import names
from manta.history.catalog import Catalog
from manta.history.index import queries
from manta.history.kept_pods import import_pod
from manta.history.logs import LogReader
from manta.localplane.node.pod.kept import KeptPod
from support.history import (
    DEEP_POST,
    RECORDED,
    SESSION,
    WHO,
    file_store,
    generated_lines,
    write_session,
)

ANNOTATIONS = {
    names.ANNOTATION_HISTORY: "rayjob/train/train-abc",
    names.ANNOTATION_HISTORY_RAY_VERSION: "2.60.0",
}


def kept(tmp_path: Path, annotations: dict[str, str] = ANNOTATIONS) -> Path:
    directory = tmp_path / "kept" / "uid"
    write_session(directory / "volume", {"job-driver-x.log": b"hello\n"})
    labels = {names.LABEL_NODE_TYPE: "head"}
    record = KeptPod("default", WHO.pod, "uid", labels, annotations)
    (directory / "pod.json").write_bytes(msgspec.json.encode(record))
    return directory


def test_logs_and_posts_are_taken_and_the_directory_is_removed(tmp_path: Path) -> None:
    directory, store = kept(tmp_path), file_store(tmp_path)
    cut = next(iter(generated_lines(200)))[:100]
    (directory / "posts.jsonl").write_bytes(RECORDED.read_bytes() + b"not JSON\n" + cut)
    import_pod(store, directory, tmp_path / "answers")
    assert not directory.exists()
    database = Catalog(store, tmp_path / "cache").open_index(WHO.session(SESSION))
    assert database is not None
    summary = queries.summary(database)
    assert summary["tasks"]["FAILED"] == 1
    assert (summary["log_files"], summary["ray_version"]) == (1, "2.60.0")


def test_a_log_that_takes_many_rounds_is_taken_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("manta.history.ship.ROUND_BYTES", 2)
    directory, store = kept(tmp_path), file_store(tmp_path)
    import_pod(store, directory, tmp_path / "answers")
    database = Catalog(store, tmp_path / "cache").open_index(WHO.session(SESSION))
    assert database is not None
    [found] = LogReader(store, database).files()
    assert b"".join(LogReader(store, database).read(WHO.pod, found.path)) == b"hello\n"


@pytest.mark.parametrize("code", [errno.EMFILE, errno.EIO])
def test_a_huge_log_that_cannot_be_read_now_is_tried_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    monkeypatch.setattr("manta.history.ship.ROUND_BYTES", 2)
    directory, store = kept(tmp_path), file_store(tmp_path)
    monkeypatch.setattr(os, "open", raising("open", "job-driver-x.log", code))
    with pytest.raises(OSError, match=os.strerror(code)):
        import_pod(store, directory, tmp_path / "answers")


def test_a_post_that_is_nested_too_deeply_costs_only_itself(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    directory, store = kept(tmp_path), file_store(tmp_path)
    (directory / "posts.jsonl").write_bytes(DEEP_POST + RECORDED.read_bytes())
    import_pod(store, directory, tmp_path / "answers")
    database = Catalog(store, tmp_path / "cache").open_index(WHO.session(SESSION))
    assert database is not None
    assert queries.summary(database)["tasks"]["FAILED"] == 1
    assert "1 posts that are no events of Ray are not kept" in caplog.text


def test_taking_again_after_a_crash_before_the_removal_gives_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, directory = file_store(tmp_path), kept(tmp_path)
    (directory / "posts.jsonl").write_bytes(RECORDED.read_bytes())
    with monkeypatch.context() as crash:
        crash.setattr("manta.history.kept_pods.remove_tree", lambda _: None)
        import_pod(store, directory, tmp_path / "answers")
    before = sorted(store.objects(""))
    import_pod(store, directory, tmp_path / "answers")
    assert sorted(store.objects("")) == before
    assert not directory.exists()


def raising(where: str, name: str, code: int) -> Any:
    """A function of `os` for which a file of this name has an error."""
    real = getattr(os, where)

    def odd(path: Any, *args: Any, **kwargs: Any) -> Any:
        if not isinstance(path, int) and Path(path).name == name:
            raise OSError(code, os.strerror(code), str(path))
        return real(path, *args, **kwargs)

    return odd


@pytest.mark.parametrize(
    ("where", "name"),
    [("open", "job-driver-x.log"), ("open", "logs"), ("scandir", "volume"), ("listdir", SESSION)],
)
@pytest.mark.parametrize("code", [errno.EMFILE, errno.EIO])
def test_files_that_cannot_be_read_now_are_kept_until_they_are_shipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str, name: str, code: int
) -> None:
    directory, store = kept(tmp_path), file_store(tmp_path)
    with monkeypatch.context() as broken:
        broken.setattr(os, where, raising(where, name, code))
        with pytest.raises(OSError, match=os.strerror(code)):
            import_pod(store, directory, tmp_path / "answers")
    assert directory.exists()
    import_pod(store, directory, tmp_path / "answers")
    assert not directory.exists()
    database = Catalog(store, tmp_path / "cache").open_index(WHO.session(SESSION))
    assert database is not None
    assert queries.summary(database)["log_files"] == 1


def test_a_file_that_cannot_be_read_now_delays_no_posts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory, store = kept(tmp_path), file_store(tmp_path)
    (directory / "posts.jsonl").write_bytes(RECORDED.read_bytes())
    monkeypatch.setattr(os, "open", raising("open", "job-driver-x.log", errno.EIO))
    with pytest.raises(OSError, match="Input/output error"):
        import_pod(store, directory, tmp_path / "answers")
    database = Catalog(store, tmp_path / "cache").open_index(WHO.session(SESSION))
    assert database is not None
    assert queries.summary(database)["tasks"]["FAILED"] == 1


def test_a_file_that_nobody_may_read_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    directory, store = kept(tmp_path), file_store(tmp_path)
    monkeypatch.setattr(os, "open", raising("open", "job-driver-x.log", errno.EACCES))
    import_pod(store, directory, tmp_path / "answers")
    assert not directory.exists()
    assert "job-driver-x.log is not kept" in caplog.text


@pytest.mark.parametrize(
    "annotations",
    [{}, {names.ANNOTATION_HISTORY: "../../x/y"}, {names.ANNOTATION_HISTORY: "pod/a/b"}],
)
def test_what_is_no_pod_of_a_ray_cluster_is_removed(
    tmp_path: Path, annotations: dict[str, str]
) -> None:
    directory, store = kept(tmp_path, annotations), file_store(tmp_path)
    import_pod(store, directory, tmp_path / "answers")
    assert not directory.exists()
    assert list(store.objects("")) == []
