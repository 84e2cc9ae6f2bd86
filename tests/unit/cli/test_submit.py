"""`manta submit`: from a command line to the manifests of a RayJob, and from its end to a code."""

from __future__ import annotations

import argparse
import asyncio
import base64
import io
import os
import random
import re
import signal
import subprocess
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
from manta.api.usage import UsageError
from manta.cli import main, submit
from manta.client.package import LARGEST_IN_CONFIGMAPS, PART_SIZE, Package, pack, script_of
from manta.client.submission import Submission, build_job, build_packages, exit_code, job_name
from manta.rules.settings import Settings
from manta.rules.validation.job import validate_job


def parsed(*words: str) -> argparse.Namespace:
    return main.parse(["submit", *words])


def submission(*words: str) -> Submission:
    return submit.submission_from(parsed(*words))


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
    one = submission(*words)
    document = build_job(one, pack(one.command, None))
    spec = msgspec.convert(document["spec"], RayJobSpec)
    job = RayJob(metadata=ObjectMeta(name=one.name, namespace="default"), spec=spec)
    assert validate_job(job, Settings()) == []


def spec_of(*words: str) -> dict[str, Any]:
    one = submission(*words)
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
    one = submission("--env", "A=b", "--", "python", "train.py")
    package = pack(one.command, None)
    assert package is not None
    spec = build_job(one, package)["spec"]
    environment = yaml.safe_load(spec["runtimeEnvYAML"])
    pod = spec["submitterPodTemplate"]["spec"]
    [mount] = pod["containers"][0]["volumeMounts"]
    [volume] = pod["volumes"]
    [carried] = build_packages(one, package)
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
    one = submission("--cluster", "shared", "--", "python", "train.py")
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
        ((), "the command is missing"),
        (("--cluster", "a", "--image", "b", "--", "true"), "--image"),
        (("--cluster", "a", "--retries", "1", "--", "true"), "--retries"),
        (("--env", "A", "--", "true"), "NAME=VALUE"),
        (("--workers", "-1", "--", "true"), "negative"),
    ],
)
def test_flags_that_make_no_sense_are_refused(words: Sequence[str], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        submission(*words)


def test_a_dry_run_prints_manifests_and_needs_no_server(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main.main(["submit", "--dry-run", "--", "python", "train.py"]) == 0
    kinds = [one["kind"] for one in yaml.safe_load_all(capsys.readouterr().out)]
    assert kinds == ["ConfigMap", "RayJob"]


# ── before anything is created (U14) ─────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("python", "nosuch.py"), "nosuch.py: no such file in"),
        (("python3.11", "-u", "-X", "dev", "nosuch.py"), "nosuch.py: no such file in"),
        (("bash", "-e", "nosuch.sh"), "nosuch.sh: no such file in"),
        (("./nosuch",), "./nosuch: no such file in"),
        (("train.py",), "python train.py"),
    ],
)
def test_a_script_that_is_not_there_costs_no_cluster(
    words: Sequence[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """U14."""
    monkeypatch.setattr(submit, "open_client", None)
    with pytest.raises(UsageError, match=said):
        submit.run(parsed("--", *words))
    (tmp_path / "lib/nosuch.py").write_text("")
    with pytest.raises(UsageError):
        submit.run(parsed("--working-dir", str(tmp_path), "--", *words))


@pytest.mark.parametrize(
    ("command", "script"),
    [
        (("python", "a.py", "b.py"), "a.py"),
        (("python", "-O", "a.py"), "a.py"),
        (("python", "-W", "ignore", "a.py"), "a.py"),
        (("/usr/bin/python3", "a.py"), "a.py"),
        (("python", "-m", "pkg"), ""),
        (("python", "-um", "pkg"), ""),
        (("python", "-c", "x.py"), ""),
        (("sh", "-ec", "x"), ""),
        (("python", "-"), ""),
        (("ray", "status"), ""),
        (("torchrun", "a.py"), ""),
    ],
)
def test_the_script_of_a_command_is_known_without_running_it(
    command: Sequence[str], script: str
) -> None:
    assert script_of(command) == script


@pytest.mark.parametrize(
    "command", [("python", "/app/a.py"), ("/bin/ls",), ("/usr/bin/env", "true")]
)
def test_what_the_image_has_is_not_looked_for_here(command: Sequence[str]) -> None:
    assert pack(command, None) is None


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("python", "train.py", "--dry-run"), "manta submit [flags] -- python train.py"),
        (("python", "train.py", "--epochs", "3"), "a command and its flags go after --"),
        (("--name", "Bad_Name", "--", "true"), "--name Bad_Name: must begin with a letter"),
        (("--name", "a" * 60, "--", "true"), "shorten it to at most 47"),
        (("--memory", "4GB", "--", "true"), "did you mean 4Gi?"),
        (("--memory", "4g", "--", "true"), "did you mean 4Gi?"),
        (("--memory", "4", "--", "true"), "--memory 4: this is 4 B"),
        (("--cpus", "many", "--", "true"), "--cpus many: not a Kubernetes quantity"),
        (("--cpus", "0", "--", "true"), "more than 0"),
        (("--gpus", "-1", "--", "true"), "--gpus -1: must not be negative"),
        (("--timeout", "0", "--", "true"), "--timeout 0"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_the_cure(
    words: Sequence[str],
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """U14: `submit python train.py --dry-run` ran."""
    monkeypatch.setattr(submit, "open_client", None)
    try:
        code: object = main.main(["submit", *words])
    except SystemExit as ended:
        code = ended.code
    assert code == 2
    assert said in capsys.readouterr().err


def noise(size: int) -> bytes:
    return random.Random(1).randbytes(size)


def test_a_directory_of_megabytes_needs_no_cluster_that_is_there(tmp_path: Path) -> None:
    """U14: more than 900 kB travel in several ConfigMaps, which an init container joins."""
    (tmp_path / "blob").write_bytes(noise(2 * PART_SIZE))
    one = submission("--working-dir", ".", "--", "python", "train.py")
    package = pack(one.command, tmp_path)
    assert package is not None
    carried = build_packages(one, package)
    parts = {key: text for each in carried for key, text in each["binaryData"].items()}
    assert len(carried) == len(parts) == 3
    joined = b"".join(base64.b64decode(parts[key]) for key in sorted(parts))
    assert joined == package.data
    spec = build_job(one, package)["spec"]
    pod = spec["submitterPodTemplate"]["spec"]
    [joiner] = pod["initContainers"]
    names = [source["configMap"]["name"] for source in pod["volumes"][0]["projected"]["sources"]]
    assert names == [each["metadata"]["name"] for each in carried]
    made = joiner["command"][-1].rpartition("> ")[2]
    assert yaml.safe_load(spec["runtimeEnvYAML"])["working_dir"] == made
    assert max(len(yaml.safe_dump(each)) for each in carried) < 1.4 * 2**20


def test_the_joining_command_makes_the_package_again(tmp_path: Path) -> None:
    package = Package(noise(12 * PART_SIZE + 1), "a directory")
    one = submission("--", "true")
    [joiner] = build_job(one, package)["spec"]["submitterPodTemplate"]["spec"]["initContainers"]
    for name in ("parts", "package"):
        (tmp_path / "manta" / name).mkdir(parents=True)
    for document in build_packages(one, package):
        for key, text in document["binaryData"].items():
            (tmp_path / "manta/parts" / key).write_bytes(base64.b64decode(text))
    script = joiner["command"][-1].replace("/manta/", f"{tmp_path}/manta/")
    subprocess.run([*joiner["command"][:-1], script], check=True)
    assert (tmp_path / "manta/package/package.zip").read_bytes() == package.data


def test_what_is_too_large_is_refused_before_anything_is_created(tmp_path: Path) -> None:
    (tmp_path / "blob").write_bytes(noise(LARGEST_IN_CONFIGMAPS))
    with pytest.raises(UsageError, match="--cluster NAME"):
        submit.run(parsed("--working-dir", str(tmp_path), "--", "python", "train.py"))


# ── ignore files (P9) ────────────────────────────────────────────────────────────────────


def select_names(directory: Path, **flags: Any) -> list[str]:
    package = pack(["true"], directory, **flags)
    assert package is not None
    return names_in(package)


@pytest.mark.parametrize("name", [".gitignore", ".rayignore"])
def test_what_is_ignored_stays_here(name: str, tmp_path: Path) -> None:
    """P9."""
    (tmp_path / name).write_text("# data\n*.csv\n!keep.csv\n/lib/secret/\n")
    (tmp_path / "lib/secret").mkdir()
    for path in ("a.csv", "keep.csv", "lib/b.csv", "lib/secret/x", "lib/c.txt"):
        (tmp_path / path).write_text("")
    (tmp_path / "lib" / name).write_text("c.txt\n!b.csv\n")
    wanted_names = [name, "keep.csv", f"lib/{name}", "lib/b.csv", "lib/model.py", "train.py"]
    assert select_names(tmp_path) == wanted_names
    everything = select_names(tmp_path, include_ignored=True)
    assert set(everything) - set(wanted_names) == {"a.csv", "lib/secret/x", "lib/c.txt"}


def test_the_ignore_files_of_the_repository_above_hold_too(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("*.csv\nlib/big/\n")
    (tmp_path / "lib/big").mkdir()
    (tmp_path / "lib/big/x").write_text("")
    (tmp_path / "lib/a.csv").write_text("")
    assert select_names(tmp_path / "lib") == ["model.py"]
    assert select_names(tmp_path / "lib/big") == ["x"], "named, so meant"


def test_environments_and_caches_never_travel(tmp_path: Path) -> None:
    for path in (
        "my-env/pyvenv.cfg",
        "my-env/lib/x.py",
        "lib/__pycache__/m.pyc",
        ".tox/x",
        ".venv/y",
    ):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("")
    assert select_names(tmp_path, include_ignored=True) == ["lib/model.py", "train.py"]


def test_files_that_look_like_secrets_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """P9."""
    for name in (".env", ".env.example", "lib/server.pem", "id_rsa", "key.py"):
        (tmp_path / name).write_text("x")
    words = ["submit", "--dry-run", "--working-dir", ".", "--", "python", "train.py"]
    assert main.main(words) == 0
    said = capsys.readouterr().err
    assert "look like secrets" in said
    assert ": .env, id_rsa, lib/server.pem (" in said


def test_a_package_says_how_much_it_is(tmp_path: Path) -> None:
    (tmp_path / ".rayignore").write_text("lib/\n")
    package = pack([], tmp_path)
    assert package is not None
    assert re.search(r"\(2 files, 1 ignored, 14 B, \d+ B zipped\)$", package.what)


def test_a_script_that_is_ignored_is_missed_here_and_not_on_the_cluster(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("train.py\n")
    with pytest.raises(UsageError, match=r"train\.py is not in the package"):
        pack(["python", "train.py"], tmp_path)
    assert pack(["python", "./train.py"], tmp_path, include_ignored=True) is not None


def test_what_cannot_be_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path) -> bytes:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "read_bytes", refuse)
    with pytest.raises(UsageError, match=r"lib/model\.py: Permission denied; exclude it with"):
        pack(["true"], tmp_path)


def test_a_pattern_that_is_none_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"--exclude: .*'!'"):
        pack(["true"], tmp_path, exclude=["!"])
    (tmp_path / "lib/.gitignore").write_text("!\n")
    with pytest.raises(UsageError, match=r"lib/.*gitignore.*'!'"):
        pack(["true"], tmp_path)


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
