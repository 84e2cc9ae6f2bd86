"""Every command of kubectl whose requests were recorded, run for real: it ends as it should.

The commands stand in the order in which they were recorded, on one plane with a fake node whose
containers are this machine (`support.connector`). A command that never ends by itself is ended
when it has said what it should.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import socket
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from manta.localplane.plane import Plane, PlaneOptions
from support.connector import LocalConnector
from support.peers import KUBECTL_REQUESTS

pytestmark = [
    pytest.mark.embedded_only,
    pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed"),
    pytest.mark.timeout(600),
]

CONFIG_MAP = """apiVersion: v1
kind: ConfigMap
metadata: {name: cm1, labels: {a: b}}
data: {k1: v1}
"""
POD = """apiVersion: v1
kind: Pod
metadata: {name: p1, labels: {app: x}}
spec:
  containers: [{name: c, image: i, ports: [{containerPort: 80}]}]
"""
DEPLOYMENT = """apiVersion: apps/v1
kind: Deployment
metadata: {name: d1}
spec:
  replicas: 1
  selector: {matchLabels: {app: d}}
  template:
    metadata: {labels: {app: d}}
    spec: {containers: [{name: c, image: i}]}
"""


@dataclass(frozen=True, slots=True)
class Step:
    """A recorded command, what it must say, and how it must end."""

    command: str
    says: tuple[str, ...] = ()
    code: int = 0
    endless: bool = False
    """It is ended when it has said everything."""
    stdin: bytes = b""


def ends(command: str, *says: str, code: int = 0, stdin: bytes = b"") -> Step:
    return Step(command, says, code, stdin=stdin)


def goes_on(command: str, *says: str) -> Step:
    return Step(command, says, endless=True)


WRITING = (
    ends("create -f ./cm.yaml", "configmap/cm1 created"),
    ends("create -f ./pod.yaml --validate=false", "pod/p1 created"),
    ends("apply -f ./cm.yaml", "is missing the kubectl", "configmap/cm1 configured"),
    ends("apply -f ./cm.yaml", "configmap/cm1 unchanged"),
    ends("!v2"),
    ends("apply -f ./cm.yaml", "configmap/cm1 configured"),
    ends("apply -f ./dep.yaml", "deployment.apps/d1 created"),
    ends("apply --server-side -f ./cm.yaml", "configmap/cm1 serverside-applied"),
    ends(
        "apply --server-side --force-conflicts --field-manager=me -f ./cm.yaml",
        "configmap/cm1 serverside-applied",
    ),
    ends("apply --dry-run=server -f ./cm.yaml", "configmap/cm1 ", "(server dry run)"),
    ends("diff -f ./cm.yaml"),
    ends("wait --for=condition=Ready pod/p1 --timeout=2s", "pod/p1 condition met"),
)
READING = (
    ends("get pods", "NAME", "READY", "STATUS", "RESTARTS", "AGE", "p1", "1/1", "Running"),
    ends(
        "get pods -A -l app=x --field-selector status.phase=Running", "NAMESPACE", "default", "p1"
    ),
    ends("get pod p1 -o json", '"kind": "Pod"', '"phase": "Running"'),
    ends("get pods -o wide", "NOMINATED NODE", "READINESS GATES", "fake-node-0"),
    ends("get pods -o name", "pod/p1\n"),
    ends("get pods,cm", "pod/p1", "configmap/cm1"),
    ends("get all", "pod/p1", "deployment.apps/d1", "replicaset.apps/d1-"),
    goes_on("get pods -w", "NAME", "p1"),
    goes_on("get pod p1 -w", "NAME", "p1"),
    goes_on("get pods -w -o json --output-watch-events", '"type":"ADDED"', '"name":"p1"'),
    ends("get pods --chunk-size=0", "p1"),
    ends("get pods --sort-by=.metadata.name", "p1"),
    ends("get --raw /healthz", "ok"),
    ends("get pod p1 --subresource=status -o name", "pod/p1"),
    ends("describe pod p1", "Name:             p1", "Node:             fake-node-0", "Events:"),
    ends("describe cm cm1", "k1:", "v2"),
    ends("describe pods", "Name:             p1"),
    ends("events", "Pod/p1", "Scheduled"),
    goes_on("events -w --for pod/p1", "Scheduled"),
    ends("get events", "pod/p1", "Scheduled"),
)
CHANGING = (
    ends("edit cm cm1", "configmap/cm1 edited"),
    ends("""patch cm cm1 -p '{"data":{"z":"1"}}'""", "configmap/cm1 patched"),
    ends("""patch cm cm1 --type=merge -p '{"data":{"z":"1"}}'""", "patched (no change)"),
    ends(
        """patch cm cm1 --type=json -p '[{"op":"add","path":"/data/q","value":"1"}]'""",
        "configmap/cm1 patched",
    ),
    ends(
        """patch pod p1 --subresource=status --type=merge -p '{"status":{"phase":"Running"}}'""",
        "pod/p1 patched",
    ),
    ends("label cm cm1 x=y", "configmap/cm1 labeled"),
    ends("label cm cm1 x=z --overwrite", "configmap/cm1 labeled"),
    ends("label cm --all x-", "configmap/cm1 unlabeled"),
    ends("annotate cm cm1 x=y", "configmap/cm1 annotated"),
    ends("scale deployment d1 --replicas=3", "deployment.apps/d1 scaled"),
    ends(
        "scale deployment d1 --replicas=3 --current-replicas=1",
        "Expected replicas to be 1, was 3",
        code=1,
    ),
    ends("rollout status deployment d1 --timeout=2s", 'deployment "d1" successfully rolled out'),
    ends("rollout restart deployment d1", "deployment.apps/d1 restarted"),
    ends("set image deployment/d1 c=j", "deployment.apps/d1 image updated"),
    ends(
        "wait --for=delete pod/p1 --timeout=2s",
        "timed out waiting for the condition on pods/p1",
        code=1,
    ),
    ends(
        "wait --for=jsonpath='{.status.phase}'=Running pod/p1 --timeout=2s", "pod/p1 condition met"
    ),
    ends("wait --for=create pod/p1 --timeout=2s", "pod/p1 condition met"),
    ends("wait --for=condition=Ready pod -l app=x --timeout=2s", "pod/p1 condition met"),
)
REACHING_IN = (
    ends("logs p1", "line 0\n", "line 4\n"),
    ends("logs -f p1 --tail=5 --since=10s --timestamps", "line 4\n"),
    ends("logs -l app=x --all-containers", "line 4\n"),
    ends("logs -p p1 -c c", 'previous terminated container "c" not found', code=1),
    ends("logs deployment/d1", "line 4\n"),
    ends("exec p1 -- ls", "cm.yaml"),
    ends("exec -it p1 -- sh", "typed", stdin=b"echo typed\nexit\n"),
    goes_on("port-forward p1 8080:80", "Forwarding from 127.0.0.1"),
    ends("port-forward svc/s1 8080:80", 'services "s1" not found', code=1),
    ends("attach p1", "attached"),
    ends("cp p1:/etc/x ./xx"),
    ends("debug p1 --image=busybox", "Defaulting debug container name to debugger-"),
)
ASKING = (
    ends("api-resources", "configmaps", "cm", "deployments", "apps/v1", "PriorityClass"),
    ends("api-versions", "apps/v1", "batch/v1", "v1\n"),
    ends("explain pod.spec.containers", "KIND:       Pod", "image", "<string>"),
    ends(
        "explain cm --output=plaintext-openapiv2",
        "the server could not find the requested resource",
        code=1,
    ),
    ends("cluster-info", "Kubernetes control plane", "is running at"),
    ends("version", "Server Version: v1.35"),
    ends("top pods", "Metrics API not available", code=1),
    ends("top nodes", "Metrics API not available", code=1),
    ends("auth can-i create pods", "yes"),
    ends("auth can-i --list", "Resources", "*.*"),
    ends("auth whoami", "ATTRIBUTE", "Username", "admin"),
)
ENDING = (
    ends("run foo --image=x --restart=Never", "pod/foo created"),
    ends("expose pod p1 --port=80", "service/p1 exposed"),
    ends("create job j1 --image=x", "job.batch/j1 created"),
    ends("create token default", "eyJ"),
    ends("create ns n1", "namespace/n1 created"),
    ends("cordon nx", 'nodes "nx" not found', code=1),
    ends("drain nx", 'nodes "nx" not found', code=1),
    ends("get nodes", "NAME", "STATUS", "ROLES", "VERSION", "fake-node-0", "Ready"),
    ends("delete pod foo --wait=false", 'pod "foo" deleted'),
    ends("delete cm cm1 --cascade=foreground", 'configmap "cm1" deleted'),
    ends("delete deployment d1 --cascade=orphan", 'deployment.apps "d1" deleted'),
    ends("delete pods --all", 'pod "p1" deleted'),
    ends("!pod"),
    ends("delete pod p1 --grace-period=0 --force", 'pod "p1" force deleted'),
    ends("!pod"),
    ends("delete pods -l app=x", 'pod "p1" deleted'),
    ends("delete ns n1", 'namespace "n1" deleted'),
    ends("delete -f ./pod.yaml --ignore-not-found"),
    ends("replace -f ./cm.yaml", 'configmaps "cm1" not found', code=1),
    ends("replace --force -f ./cm.yaml", "configmap/cm1 replaced"),
)
STEPS = WRITING + READING + CHANGING + REACHING_IN + ASKING + ENDING


class Terminal:
    """A directory, a plane and a kubectl."""

    def __init__(self, plane: Plane, home: Path, port: int) -> None:
        self._plane = plane
        self._home = home
        self._port = port

    def arrange(self, what: str) -> list[str]:
        """What happens between the recorded commands."""
        if what == "v2":
            (self._home / "cm.yaml").write_text(CONFIG_MAP.replace("v1}", "v2}"))
            return ["version", "--client"]
        return ["create", "-f", "./pod.yaml"]

    def arguments(self, command: str) -> list[str]:
        if command.startswith("!"):
            return self.arrange(command[1:])
        reported = command.replace("8080:", f"{self._port}:").replace(
            "/etc/x", f"{self._home}/pod.yaml"
        )
        if "--for=delete" not in reported:  # patience on a busy machine; the outcome is the same
            reported = reported.replace("--timeout=2s", "--timeout=60s")
        return shlex.split(reported)

    async def start(self, command: str) -> asyncio.subprocess.Process:
        environment = {
            **os.environ,
            "KUBECONFIG": str(self._plane.kubeconfig),
            "HOME": str(self._home),
            "KUBE_EDITOR": "sed -i s/v2/v3/",
        }
        return await asyncio.create_subprocess_exec(
            "kubectl",
            *self.arguments(command),
            env=environment,
            cwd=self._home,
            stdin=PIPE,
            stdout=PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )

    async def run(self, step: Step) -> None:
        process = await self.start(step.command)
        if step.endless:
            try:
                await self._listen(process, step)
            finally:
                process.kill()
                await process.wait()
            return
        async with asyncio.timeout(120):
            out, _ = await process.communicate(step.stdin)
        said = out.decode(errors="replace")
        assert process.returncode == step.code, (step.command, said)
        for text in step.says:
            assert text in said, (step.command, text, said)

    async def _listen(self, process: asyncio.subprocess.Process, step: Step) -> None:
        assert process.stdout is not None
        said = ""
        try:
            async with asyncio.timeout(60):
                while not all(text in said for text in step.says):
                    read = await process.stdout.read(4096)
                    assert read, (step.command, said)
                    said += read.decode(errors="replace")
        except TimeoutError:
            raise AssertionError((step.command, said)) from None


@pytest.fixture
async def terminal(tmp_path: Path) -> AsyncIterator[Terminal]:
    home = tmp_path / "home"
    home.mkdir()
    for name, text in (("cm", CONFIG_MAP), ("pod", POD), ("dep", DEPLOYMENT)):
        (home / f"{name}.yaml").write_text(text)
    with socket.socket() as chosen:
        chosen.bind(("127.0.0.1", 0))
        port = chosen.getsockname()[1]
    options = PlaneOptions(tmp_path / "plane", memory=True, fake_nodes=1)
    async with Plane(options) as plane:
        plane.connector = _Here(home)
        yield Terminal(plane, home, port)


class _Here(LocalConnector):
    """Containers begin in the directory of the test."""

    def __init__(self, home: Path) -> None:
        super().__init__()
        self._home = home

    async def exec(self, namespace, pod, container, command, *, stdin, tty):
        moved = ("sh", "-c", 'cd "$0" && exec "$@"', str(self._home), *command)
        return await super().exec(namespace, pod, container, moved, stdin=stdin, tty=tty)


async def test_every_recorded_command_ends_as_it_should(terminal: Terminal) -> None:
    for step in STEPS:
        await terminal.run(step)


@pytest.mark.skipif(
    not KUBECTL_REQUESTS.exists(), reason="the recorded commands are not on this machine"
)
def test_no_recorded_command_is_missing() -> None:
    text = KUBECTL_REQUESTS.read_text(errors="replace")
    recorded = [
        line.removeprefix("$ kubectl ").strip()
        for line in text.splitlines()
        if line.startswith("$ kubectl ")
    ]
    assert len(recorded) > 80
    run = [step.command for step in STEPS if not step.command.startswith("!")]
    assert [one for one in recorded if one not in run] == []
