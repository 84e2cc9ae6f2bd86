"""The submitter's command: KubeRay's, with one question more, and readable by a shell."""

from __future__ import annotations

import re
import subprocess
from typing import Any

import msgspec
import pytest

from manta.api.ray import names
from manta.manifests.job_cluster import build_job_cluster
from manta.manifests.submitter import Submission, build_sidecar, build_submitter_job
from support.raycluster import ray_cluster
from support.rayjob import a_cluster, a_job

WAITS = (
    "until python -c \"import urllib.request; r=urllib.request.urlopen('http://demo:8265/api/gcs_healthz', "
    "timeout=10); exit(0 if b'success' in r.read() else 1)\" >/dev/null 2>&1 ; "
    'do echo "Waiting for Ray Dashboard GCS to become healthy at http://demo:8265 ..." ; sleep 2 ; done ;'
)
SUBMITS = (
    "ray job submit --address http://demo:8265 --no-wait --submission-id demo-1 -- python main.py"
)
KUBERAYS = (
    f"{WAITS} if ! ray job status --address http://demo:8265 demo-1 >/dev/null 2>&1 ; then {SUBMITS} ; fi ; "
    "ray job logs --address http://demo:8265 --follow demo-1"
)
GUARD = re.compile(
    r'python -c "\nimport json.*?" http://demo:8265 demo-1 (\S+) \|\| exit \$\? ; ', re.DOTALL
)


def a_container(session: str = "", **spec: Any) -> dict[str, Any]:
    handed_over = Submission("demo-1", "demo:8265", {}, session=session)
    job = build_submitter_job(a_job(**spec), a_cluster(), handed_over)
    [container] = job["spec"]["template"]["spec"]["containers"]
    found: dict[str, Any] = container
    return found


def env_of(container: dict[str, Any]) -> dict[str, str]:
    return {one["name"]: one.get("value", "") for one in container["env"]}


def test_without_a_session_the_command_is_kuberays() -> None:
    container = a_container()
    assert container["command"] == ["/bin/bash", "-ce", "--"]
    assert container["args"] == [KUBERAYS]
    assert names.ENV_SESSION not in env_of(container)


def test_with_a_session_one_question_stands_before_the_submission_and_nothing_else_changes() -> (
    None
):
    [text] = a_container("session_1")["args"]
    [guard] = GUARD.finditer(text)
    assert guard[1] == "session_1"
    assert text[guard.end() :].startswith(SUBMITS)
    assert text[: guard.start()] + text[guard.end() :] == KUBERAYS


@pytest.mark.parametrize("session", ["", "session_1", "session'; reboot #", '$(reboot) "`x`'])
def test_a_shell_reads_the_command_whatever_the_session_is_called(session: str) -> None:
    [text] = a_container(session)["args"]
    read = subprocess.run(["bash", "-n"], input=text, capture_output=True, text=True, check=False)
    assert (read.returncode, read.stderr) == (0, "")
    if session:
        stand_ins = 'python() { echo "${@: -1}"; return 1; }; '
        guard = text[text.index('python -c "\nimport json') :].partition("; ray job submit")[0]
        ran = subprocess.run(
            ["bash", "-c", stand_ins + guard], capture_output=True, text=True, check=False
        )
        assert (ran.returncode, ran.stdout) == (1, f"{session}\n")


def test_a_command_of_the_users_own_is_left_alone_and_is_reported_the_session() -> None:
    mine = {"name": "mine", "image": "x", "command": ["./submit.sh"]}
    container = a_container("session_1", submitterPodTemplate={"spec": {"containers": [mine]}})
    assert container["command"] == ["./submit.sh"]
    assert "args" not in container
    assert env_of(container)[names.ENV_SESSION] == "session_1"


def test_a_submitter_beside_the_head_lives_and_dies_with_it_and_asks_for_no_session() -> None:
    sidecar = build_sidecar(
        a_job(submissionMode="SidecarMode"), a_cluster(), Submission("demo-1", "127.0.0.1:8265", {})
    )
    assert "/api/version" not in sidecar["args"][0]


@pytest.mark.parametrize(
    ("config", "limit"), [({}, 2), ({"submitterConfig": {"backoffLimit": 5}}, 5)]
)
def test_a_submitter_is_started_again_as_often_as_its_config_says(
    config: dict[str, Any], limit: int
) -> None:
    handed_over = Submission("demo-1", "demo:8265", {})
    job = build_submitter_job(a_job(**config), a_cluster(), handed_over)
    assert job["spec"]["backoffLimit"] == limit


def test_beside_a_submitter_ray_is_not_started_again_whatever_its_container_says() -> None:
    spec = ray_cluster()["spec"]
    [ray] = spec["headGroupSpec"]["template"]["spec"]["containers"]
    ray |= {"restartPolicy": "Always", "restartPolicyRules": [{"action": "Restart"}]}
    job = a_job(submissionMode="SidecarMode", rayClusterSpec=spec)
    handed_over = Submission("demo-1", "127.0.0.1:8265", {}, restarts=True)
    made = build_job_cluster(job, spec, handed_over, a_cluster())
    pod = made["spec"]["headGroupSpec"]["template"]["spec"]
    assert pod["restartPolicy"] == "Never"
    assert [one.get("restartPolicy") for one in pod["containers"]] == [None, "OnFailure"]
    assert "restartPolicyRules" not in pod["containers"][0]


def _submitted(**spec: Any) -> list[str]:
    """The arguments that `ray job submit` gets from a real shell."""
    handed_over = Submission("demo-1", "demo:8265", spec.pop("runtime_env", {}))
    job = build_submitter_job(a_job(**spec), a_cluster(), handed_over)
    [text] = job["spec"]["template"]["spec"]["containers"][0]["args"]
    stand_ins = (
        'python() { return 0; }; ray() { [ "$2" = submit ] || return 1; printf "%s\\n" "$@"; }; '
    )
    shell = ["/bin/bash", "-c", stand_ins + text]
    environment = {"TOKEN": "secret", "PATH": "/usr/bin:/bin"}
    done = subprocess.run(shell, capture_output=True, text=True, env=environment, check=False)
    return done.stdout.splitlines()


def test_variables_of_the_submitter_are_expanded_as_in_kuberay() -> None:
    """S7: quotes and backslashes arrive as they were written."""
    reported = _submitted(
        runtime_env={"env_vars": {"A": "$TOKEN", "B": 'say "hi" \\ there'}},
        metadata={"owner": "${TOKEN}"},
        entrypointResources='{"gpu_$TOKEN": 1}',
    )
    assert msgspec.json.decode(reported[reported.index("--runtime-env-json") + 1]) == {
        "env_vars": {"A": "secret", "B": 'say "hi" \\ there'}
    }
    assert reported[reported.index("--metadata-json") + 1] == '{"owner":"secret"}'
    assert reported[reported.index("--entrypoint-resources") + 1] == '{"gpu_secret": 1}'


@pytest.mark.parametrize(
    ("address", "asked"),
    [
        ("demo:8265", "http://demo:8265"),
        ("http://demo:8265", "http://demo:8265"),
        ("https://ray.example", "https://ray.example"),
    ],
)
def test_an_address_is_asked_over_http_unless_it_says_otherwise(address: str, asked: str) -> None:
    job = build_submitter_job(a_job(), a_cluster(), Submission("demo-1", address, {}))
    [text] = job["spec"]["template"]["spec"]["containers"][0]["args"]
    assert f"ray job submit --address {asked} " in text
