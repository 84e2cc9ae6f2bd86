"""Every client verb of `manta` and `kubectl ray` against a server, as on Windows and on macOS."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from manta.cli.main import VERBS
from manta.cli.plugin.main import VERBS as PLUGIN_VERBS
from support.kubectl_ray import PlaneThread, plane_thread
from support.other_platform import run_elsewhere

pytestmark = pytest.mark.timeout(120)
NOT_OF_CLIENTS = frozenset(
    ("up", "down", "apiserver", "operator", "webhook", "backup", "collect", "activator")
)
"""They run a part of the control plane, or of a Pod."""
BY_OTHER_TESTS = frozenset(
    ("exec", "console", "dashboard", "session", "log", "logs", "job", "history", "top")
)
"""They need a Pod that answers, or a terminal: here only their imports and flags are tried (tests/unit/cli/test_portable.py)."""

RUN = """
import contextlib, io, json
from manta.cli.main import main as manta
from manta.cli.plugin.main import main as plugin

def ran(words):
    program, *words = words
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding=sys.stdout.encoding) for _ in range(2))
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = {"manta": manta, "ray": plugin}[program](words)
        except SystemExit as stop:
            code = stop.code
        except BaseException as error:
            code = repr(error)
    texts = [(stream.flush(), stream.buffer.getvalue().decode("utf-8"))[1] for stream in (out, err)]
    return [code, *texts]

print(json.dumps([ran(words) for words in json.loads(sys.argv[1])]))
"""
CLUSTER = """\
apiVersion: ray.io/v1
kind: RayCluster
metadata: {name: applied, annotations: {note: "größer"}}
spec:
  headGroupSpec: {template: {spec: {containers: [{name: ray, image: i}]}}}
"""
MANTA: tuple[tuple[str, str], ...] = (
    ("version", "server "),
    ("crds", "rayclusters.ray.io"),
    ("completion fish", "manta"),
    ("apply -f {dir}/cluster.yaml", "applied"),
    ("get raycluster applied -o yaml", "größer"),
    ("get rayclusters,rayjobs -o wide", "demo"),
    ("get raycluster demo -o jsonpath={{.metadata.name}}", "demo"),
    ("describe raycluster applied", "größer"),
    ("events", ""),
    ("status", "operator   Manta is not installed"),
    ("scale demo --group gpu --replicas 3", "demo"),
    ("suspend demo", "demo"),
    ("resume demo", "demo"),
    ("suspend rayservice/web", "rayservice/web suspended"),
    ("resume rayservice/web", "rayservice/web resumed"),
    ("plan -f {dir}/cluster.yaml --offline", "applied"),
    ("upgrade web --image reg/ray:2", "web"),
    ("rollout history demo", "demo"),
    ("usage", "idle"),
    ("submit --dry-run -- python -c 1", "RayJob"),
    ("replay {dir}", "has no recording"),
    ("bugreport {dir}/report.tar.gz", "report.tar.gz"),
    ("doctor", "Windows|Darwin"),
    ("install --image reg/manta:1 --dry-run", "deployment/manta created"),
    ("uninstall --dry-run", ""),
    ("delete raycluster applied", "applied"),
)
PLUGIN: tuple[tuple[str, str], ...] = (
    ("get cluster", "demo"),
    ("get cluster -l team=a -o name", "raycluster.ray.io/demo"),
    ("get workergroup -c demo -o json", "gpu"),
    ("get node -A", "demo-head"),
    ("get token locked", "s3cret"),
    ("get rayjob -o yaml", "train"),
    ("get raycronjob", "nightly"),
    ("create cluster new --worker-replicas 2", "new"),
    ("create workergroup more -c demo", "demo"),
    ("scale cluster demo -w gpu -r 2", "demo"),
    ("suspend rayjob/train", "train"),
    ("resume rayjob/train", "train"),
    ("status rayservice/web", "HEALTHY"),
    ("upgrade web --image reg/ray:2", "web"),
    ("apply -f {dir}/cluster.yaml", "applied"),
    ("describe raycluster demo", "demo"),
    ("events", ""),
    ("plan -f {dir}/cluster.yaml --offline", "applied"),
    ("version", "plugin version"),
    ("completion bash", "kubectl-ray"),
    ("delete demo rayservice/web -y", "Deleted rayservice web"),
)


@pytest.fixture(scope="module")
def plane() -> Iterator[PlaneThread]:
    with tempfile.TemporaryDirectory() as folder, plane_thread(Path(folder) / "plane") as plane:
        yield plane


def test_no_client_verb_is_left_out() -> None:
    for verbs, lines in ((VERBS, MANTA), (PLUGIN_VERBS, PLUGIN)):
        assert {line.split()[0] for line, _ in lines} == set(
            verbs
        ) - NOT_OF_CLIENTS - BY_OTHER_TESTS


@pytest.mark.parametrize("system", ["win32", "darwin"])
@pytest.mark.parametrize(("program", "lines"), [("manta", MANTA), ("ray", PLUGIN)])
def test_every_verb_runs(
    plane: PlaneThread, tmp_path: Path, system: str, program: str, lines: Any
) -> None:
    plane.namespace(f"{program}-{system}")
    (tmp_path / "cluster.yaml").write_text(CLUSTER, encoding="utf-8")
    config: Mapping[str, Any] = json.loads(json.dumps(read(plane.kubeconfig)))
    for context in config["contexts"]:
        context["context"]["namespace"] = f"{program}-{system}"
    (tmp_path / "config").write_text(json.dumps(config), encoding="utf-8")
    words = [[program, *line.format(dir=tmp_path).split(" ")] for line, _ in lines]
    environment = {"KUBECONFIG": str(tmp_path / "config"), "HOME": str(tmp_path)}
    ran = run_elsewhere(RUN, json.dumps(words), system=system, **environment)
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout.splitlines()[-1])
    wrong = [
        (line, result)
        for (line, text), result in zip(lines, found, strict=True)
        if not good(result, text)
    ]
    assert not wrong, "\n".join(f"{line}: {result}"[:400] for line, result in wrong)


def good(result: list[Any], text: str) -> bool:
    code, out, err = result
    return (
        code in (0, 1, 2)
        and "Traceback" not in err
        and any(one in out + err for one in text.split("|"))
    )


def read(path: Path) -> Any:
    import yaml

    return yaml.safe_load(path.read_text(encoding="utf-8"))
