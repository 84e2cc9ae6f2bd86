"""P11: completion, asked as bash asks it, on a plane with objects."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import subprocess
import sys
from asyncio.subprocess import DEVNULL
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from manta.api.ray.resources import RAY_CLUSTERS
from manta.api.resources import NAMESPACES, PODS
from manta.cli.completion import SHELLS
from manta.cli.main import VERBS, main
from manta.localplane.plane import Plane, PlaneOptions
from support.contract import pod
from support.raycluster import ray_cluster
from support.raycrds import ray_crds

pytestmark = pytest.mark.timeout(120)


async def proposals(line: str, tmp_path: Path, **environment: str) -> list[str]:
    answers = tmp_path / "answers"
    unset = ("KUBECONFIG", "MANTA_DIR", "KUBERNETES_SERVICE_HOST")
    kept = {name: value for name, value in os.environ.items() if name not in unset}
    asked = {
        "_ARGCOMPLETE": "1",
        "_ARGCOMPLETE_STDOUT_FILENAME": str(answers),
        "COMP_LINE": line,
        "COMP_POINT": str(len(line)),
        "HOME": str(tmp_path),
    }
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "manta.cli.main"),
        env={**kept, **asked, **environment},
        stdin=DEVNULL,
    )
    assert await process.wait() == 0
    return [one.strip() for one in answers.read_text().split("\013") if one.strip()]


@pytest.fixture
async def plane(tmp_path: Path) -> AsyncIterator[Plane]:
    options = PlaneOptions(tmp_path / "plane", memory=True, controllers=False)
    async with Plane(options) as plane:
        for crd in ray_crds():
            plane.app.put("apiextensions.k8s.io/v1", "CustomResourceDefinition", dict(crd))
        await plane.client.create(NAMESPACES, "", {"metadata": {"name": "team"}})
        for namespace, name in (("default", "web-1"), ("default", "web-2"), ("team", "other")):
            body = pod(name)
            body["metadata"].pop("namespace", None)
            await plane.client.create(PODS, namespace, body)
        await plane.client.create(RAY_CLUSTERS, "default", ray_cluster("demo"))
        yield plane


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ("get rayc", ["rayclusters", "raycronjobs"]),
        ("get pods we", ["web-1", "web-2"]),
        ("get pods web-1 we", ["web-2"]),
        ("get pod/we", ["pod/web-1", "pod/web-2"]),
        ("get pods,raycl", ["pods,rayclusters"]),
        ("get pods -n te", ["team"]),
        ("get -n team pods ", ["other"]),
        ("exec ", ["demo", "web-1", "web-2"]),
        ("exec web-1 -c ", ["c"]),
        ("logs cl", ["cluster/demo"]),
        ("submit --cluster ", ["demo"]),
        ("describe raycluster ", ["demo"]),
    ],
)
async def test_names_come_from_the_server(
    words: str, wanted: list[str], plane: Plane, tmp_path: Path
) -> None:
    found = await proposals(f"manta {words}", tmp_path, KUBECONFIG=str(plane.kubeconfig))
    assert found == wanted
    first, _, rest = words.partition(" ")
    by_flag = f"manta {first} --dir {plane.options.dir} {rest}"
    assert await proposals(by_flag, tmp_path) == wanted


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("manta des", ["describe"]),
        ("manta get --all", ["--all-namespaces"]),
        ("manta completion ", list(SHELLS)),
        ("manta get pods ", []),
    ],
)
async def test_verbs_and_flags_need_no_server(line: str, wanted: list[str], tmp_path: Path) -> None:
    assert await proposals(line, tmp_path) == wanted


async def test_every_verb_is_proposed(tmp_path: Path) -> None:
    assert await proposals("manta ", tmp_path) == list(VERBS)


async def test_a_server_that_does_not_answer_costs_no_error(tmp_path: Path) -> None:
    silent = socket.create_server(("127.0.0.1", 0))
    host, port = silent.getsockname()
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(
        "current-context: c\ncontexts: [{name: c, context: {cluster: c}}]\nclusters:\n"
        f"- {{name: c, cluster: {{server: 'http://{host}:{port}'}}}}\n"
    )
    environment = {"KUBECONFIG": str(kubeconfig)}
    with silent:
        assert await proposals("manta get pods ", tmp_path, **environment) == []
    assert await proposals("manta get --context ", tmp_path, **environment) == ["c"]


@pytest.mark.parametrize("shell", SHELLS)
def test_the_script_is_for_the_shell_that_is_named(
    shell: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert "manta" in script
    if program := shutil.which(shell):
        subprocess.run([program, "-n"], input=script, text=True, check=True)


def test_bash_itself_completes_a_line(tmp_path: Path) -> None:
    """The whole way: the script, bash's variables, the answer."""
    (tmp_path / "manta").write_text(f'#!/bin/sh\nexec {sys.executable} -m manta.cli.main "$@"\n')
    (tmp_path / "manta").chmod(0o755)
    ask = (
        'eval "$(manta completion bash)"; COMP_LINE="manta des" COMP_POINT=9 COMP_TYPE=9 '
        "COMP_WORDS=(manta des) COMP_CWORD=1; _python_argcomplete manta des manta; "
        'echo "${COMPREPLY[@]}"'
    )
    path = f"{tmp_path}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", ask],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PATH": path},
    )
    assert done.stdout.split() == ["describe"], done.stderr


def test_nothing_of_it_is_loaded_when_no_shell_asks() -> None:
    """The start of every command must stay fast."""
    code = (
        "import sys; from manta.cli.main import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: print([one for one in sys.modules if 'complet' in one])"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.splitlines()[-1] == "[]"
