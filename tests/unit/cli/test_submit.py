"""`manta submit`: from a command line to the manifests of a RayJob, and from its end to a code."""

from __future__ import annotations

import argparse
import asyncio
import base64
import io
import os
import signal
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from manta.api.meta import Key, ObjectMeta
from manta.api.ray.job import RayJob, RayJobSpec
from manta.api.ray.naming import MAX_RAY_JOB_NAME
from manta.cli import main, submit
from manta.cli.package import LARGEST_IN_CONFIGMAP, Package, pack
from manta.cli.submission import Wanted, build_job, build_package, exit_code, job_name
from manta.cli.usage import UsageError
from manta.rules.settings import Settings
from manta.rules.validation.job import validate_job


def parsed(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    submit.add_parser(parser.add_subparsers(dest="verb"))
    return parser.parse_args(["submit", *words])


def wanted(*words: str) -> Wanted:
    return submit.wanted_from(parsed(*words))


def names_in(package: Package) -> list[str]:
    return zipfile.ZipFile(io.BytesIO(package.data)).namelist()


@pytest.fixture(autouse=True)
def _in_a_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("print(1)\n")
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib/model.py").write_text("x = 1\n")
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git/config").write_text("")


# ── what goes along ──────────────────────────────────────────────────────────────────────


def test_a_script_goes_alone() -> None:
    package = pack(["python", "train.py"], None)
    assert package is not None
    assert names_in(package) == ["train.py"]


def test_a_directory_goes_without_what_is_not_source(tmp_path: Path) -> None:
    package = pack(["python", "train.py"], tmp_path, exclude=["model*"])
    assert package is not None
    assert names_in(package) == ["train.py"]
    whole = pack([], tmp_path)
    assert whole is not None
    assert names_in(whole) == ["lib/model.py", "train.py"]


def test_a_command_without_a_local_file_takes_nothing_along() -> None:
    assert pack(["python", "-c", "print(1)"], None) is None


def test_equal_files_make_equal_packages(tmp_path: Path) -> None:
    assert pack([], tmp_path) == pack([], tmp_path)


@pytest.mark.parametrize("directory", ["nowhere", "train.py"])
def test_a_working_directory_must_be_one(directory: str) -> None:
    with pytest.raises(UsageError, match=directory):
        pack(["true"], Path(directory))


def test_a_script_elsewhere_needs_a_working_directory(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--working-dir"):
        pack(["python", str(tmp_path / "train.py")], None)


# ── the RayJob ───────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "words",
    [
        ("--", "python", "train.py"),
        ("--cluster", "shared", "--", "python", "train.py"),
        (
            "--image",
            "me/ray:2.54.0",
            "--workers",
            "0",
            "--retries",
            "2",
            "--",
            "python",
            "train.py",
        ),
        ("--timeout", "60", "--env", "A=b=c", "--pip", "x", "--keep", "--gpus", "1", "--", "true"),
    ],
)
def test_what_is_made_is_valid(words: Sequence[str]) -> None:
    one = wanted(*words)
    document = build_job(one, pack(one.command, None))
    spec = msgspec.convert(document["spec"], RayJobSpec)
    job = RayJob(metadata=ObjectMeta(name=one.name, namespace="default"), spec=spec)
    assert validate_job(job, Settings()) == []


def spec_of(*words: str) -> dict[str, Any]:
    one = wanted(*words)
    spec: dict[str, Any] = build_job(one, pack(one.command, None))["spec"]
    return spec


def test_a_job_of_its_own_gives_its_cluster_back() -> None:
    spec = spec_of("--image", "me/ray:2.54.0-py311", "--workers", "3", "--", "python", "train.py")
    assert spec["shutdownAfterJobFinishes"] is True
    assert spec["rayClusterSpec"]["rayVersion"] == "2.54.0"
    [group] = spec["rayClusterSpec"]["workerGroupSpecs"]
    assert (group["replicas"], group["maxReplicas"]) == (3, 3)


def test_a_borrowed_cluster_is_only_named() -> None:
    spec = spec_of("--cluster", "shared", "--", "python", "train.py")
    assert spec["clusterSelector"] == {"ray.io/cluster": "shared"}
    assert "rayClusterSpec" not in spec
    assert "shutdownAfterJobFinishes" not in spec


def test_the_package_is_mounted_where_the_runtime_env_looks_for_it() -> None:
    one = wanted("--env", "A=b", "--", "python", "train.py")
    package = pack(one.command, None)
    assert package is not None
    spec = build_job(one, package)["spec"]
    environment = yaml.safe_load(spec["runtimeEnvYAML"])
    pod = spec["submitterPodTemplate"]["spec"]
    [mount] = pod["containers"][0]["volumeMounts"]
    [volume] = pod["volumes"]
    carried = build_package(one, package)
    [file] = carried["binaryData"]
    assert environment == {
        "env_vars": {"A": "b"},
        "working_dir": f"{mount['mountPath']}/{file}",
    }
    assert volume["configMap"]["name"] == carried["metadata"]["name"]
    assert base64.b64decode(carried["binaryData"][file]) == package.data


def test_words_of_the_command_stay_words() -> None:
    spec = spec_of("--", "python", "-c", "print('a b')")
    assert spec["entrypoint"] == """python -c 'print('"'"'a b'"'"')'"""


def test_an_uploaded_package_needs_no_volume() -> None:
    one = wanted("--cluster", "shared", "--", "python", "train.py")
    spec = build_job(one, pack(one.command, None), "gcs://_ray_pkg_1.zip")["spec"]
    assert "submitterPodTemplate" not in spec
    assert yaml.safe_load(spec["runtimeEnvYAML"]) == {"working_dir": "gcs://_ray_pkg_1.zip"}


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (["python", "train.py"], "train-abcde"),
        (["python", "-u", "src/My_Model.py"], "my-model-abcde"),
        (["python", "7.py"], "job-7-abcde"),
        (["./run"], "run-abcde"),
        (["python", f"{'long' * 30}.py"], f"{('long' * 30)[:41]}-abcde"),
    ],
)
def test_a_name_is_made_from_the_script(command: list[str], name: str) -> None:
    assert job_name(command, "abcde") == name
    assert len(name) <= MAX_RAY_JOB_NAME


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "what is to be run"),
        (("--cluster", "a", "--image", "b", "--", "true"), "--image"),
        (("--cluster", "a", "--retries", "1", "--", "true"), "--retries"),
        (("--env", "A", "--", "true"), "NAME=VALUE"),
        (("--workers", "-1", "--", "true"), "negative"),
    ],
)
def test_flags_that_make_no_sense_are_refused(words: Sequence[str], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        wanted(*words)


def test_a_dry_run_prints_manifests_and_needs_no_server(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main.main(["submit", "--dry-run", "--", "python", "train.py"]) == 0
    kinds = [one["kind"] for one in yaml.safe_load_all(capsys.readouterr().out)]
    assert kinds == ["ConfigMap", "RayJob"]


def test_what_is_too_large_for_a_configmap_is_known_before(tmp_path: Path) -> None:
    import random

    (tmp_path / "blob").write_bytes(random.Random(1).randbytes(LARGEST_IN_CONFIGMAP))
    package = pack([], tmp_path)
    assert package is not None
    assert not package.fits_configmap


# ── how it ended ─────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("status", "code"),
    [
        ({"jobDeploymentStatus": "Complete", "jobStatus": "SUCCEEDED"}, 0),
        ({"jobDeploymentStatus": "Complete", "jobStatus": "STOPPED"}, 1),
        ({"jobDeploymentStatus": "ValidationFailed"}, 2),
        (
            {
                "jobDeploymentStatus": "Failed",
                "jobStatus": "FAILED",
                "message": "Job entrypoint command failed with exit code 3, last logs",
            },
            3,
        ),
        ({"jobDeploymentStatus": "Failed", "message": "failed with exit code -9"}, 1),
        ({"jobDeploymentStatus": "Failed", "message": "the head is gone"}, 1),
    ],
)
def test_the_exit_code_is_the_jobs_own(status: dict[str, Any], code: int) -> None:
    assert exit_code(status) == code


def test_ctrl_c_while_it_follows_leads_to_the_question(monkeypatch: pytest.MonkeyPatch) -> None:
    """A real signal, in the middle of it."""
    # Whoever runs the tests in the background has it ignored.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)

    async def follows(*_: object) -> int:
        os.kill(os.getpid(), signal.SIGINT)
        await asyncio.Event().wait()
        raise AssertionError

    asked: list[Key] = []

    async def interrupted(_: object, key: Key) -> int:
        asked.append(key)
        return 130

    monkeypatch.setattr(submit, "_submit", follows)
    monkeypatch.setattr(submit, "_interrupted", interrupted)
    try:
        assert submit.run(parsed("--name", "mine", "--", "true")) == 130
    finally:
        signal.signal(signal.SIGINT, before)
    assert [key.name for key in asked] == ["mine"]
