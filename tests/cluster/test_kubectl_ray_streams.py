"""`kubectl ray session`, `log` and `job submit`, whose Pods are this machine."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from manta.api.meta import Key
from manta.api.ray.resources import RAY_CLUSTERS, RAY_JOBS
from manta.api.resources import ENDPOINT_SLICES, PODS, SERVICES
from support.kubectl_ray import PlaneThread, plane_thread

pytestmark = pytest.mark.timeout(120)


@dataclass
class FakeDashboard:
    """The parts of Ray's dashboard that a submission needs."""

    port: int = 0
    packages: dict[str, bytes] = field(default_factory=dict)
    jobs: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    exit_code: int = 0
    sockets: bool = True
    log: bytes = b"one\ntwo\nthree\n"

    @property
    def end(self) -> dict[str, Any]:
        status = "FAILED" if self.exit_code else "SUCCEEDED"
        message = f"Job entrypoint command failed with exit code {self.exit_code}"
        return {"status": status, "message": message if self.exit_code else "Job finished"}

    def app(self) -> web.Application:
        app = web.Application(client_max_size=10**8)
        app.router.add_get("/", self._page)
        app.router.add_get("/api/version", self._version)
        app.router.add_route("*", "/api/packages/gcs/{name}", self._package)
        app.router.add_post("/api/jobs/", self._submit)
        app.router.add_get("/api/jobs/{id}", self._job)
        app.router.add_get("/api/jobs/{id}/logs", self._logs)
        app.router.add_get("/api/jobs/{id}/logs/tail", self._tail)
        return app

    async def _page(self, request: web.Request) -> web.Response:
        return web.Response(text="the dashboard")

    async def _version(self, request: web.Request) -> web.Response:
        return web.json_response({"ray_version": "2.60.0"})

    async def _package(self, request: web.Request) -> web.Response:
        name = request.match_info["name"]
        if request.method == "PUT":
            self.packages[name] = await request.read()
        return web.Response(status=200 if name in self.packages else 404)

    async def _submit(self, request: web.Request) -> web.Response:
        self.headers.append({name.lower(): text for name, text in request.headers.items()})
        self.jobs.append(await request.json())
        return web.json_response({"submission_id": self.jobs[-1]["submission_id"]})

    async def _job(self, request: web.Request) -> web.Response:
        return web.json_response({"submission_id": request.match_info["id"], **self.end})

    async def _logs(self, request: web.Request) -> web.Response:
        return web.json_response({"logs": self.log.decode()})

    async def _tail(self, request: web.Request) -> web.StreamResponse:
        if not self.sockets:
            return web.Response(status=403)
        answer = web.WebSocketResponse()
        await answer.prepare(request)
        for line in self.log.splitlines(keepends=True)[:2]:  # the last line comes too late
            await answer.send_str(line.decode())
        await answer.close()
        return answer


@contextlib.asynccontextmanager
async def served(dashboard: FakeDashboard) -> AsyncIterator[FakeDashboard]:
    runner = web.AppRunner(dashboard.app(), access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    dashboard.port = runner.addresses[0][1]
    try:
        yield dashboard
    finally:
        await runner.cleanup()


@pytest.fixture(scope="module")
def plane() -> Iterator[PlaneThread]:
    with (
        tempfile.TemporaryDirectory() as folder,
        plane_thread(Path(folder) / "plane") as plane,
    ):
        plane.namespace("demo")
        yield plane


@pytest.fixture
def dashboard(plane: PlaneThread) -> Iterator[FakeDashboard]:
    stop = asyncio.Event()
    found = FakeDashboard()

    async def serve() -> None:
        async with served(found):
            plane.connector.ports[8265] = found.port
            ready.set()
            await stop.wait()

    import threading

    ready = threading.Event()
    serving = plane.start(serve())
    assert ready.wait(10)
    yield found
    plane.loop.call_soon_threadsafe(stop.set)
    serving.result(10)


# ── session ──────────────────────────────────────────────────────────────────────────────


@contextlib.contextmanager
def session(plane: PlaneThread, *words: str) -> Iterator[dict[str, int]]:
    """`kubectl ray session` as a process. Yields the local ports by name."""
    process = subprocess.Popen(
        [sys.executable, "-m", "manta.cli.plugin.main", "session", *words],
        env={**os.environ, "KUBECONFIG": str(plane.kubeconfig)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        lines = []
        while line := process.stdout.readline().strip():
            lines.append(line)
        found = (re.fullmatch(r"(.*): http://localhost:(\d+)", line) for line in lines)
        yield {one[1]: int(one[2]) for one in found if one}
    finally:
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=20)
    assert (process.returncode, "Traceback" in errors) == (0, False), errors


def read(port: int) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=10) as answer:
        return str(answer.read().decode())


def test_two_sessions_at_once_get_ports_of_their_own(
    plane: PlaneThread, dashboard: FakeDashboard
) -> None:
    with (
        session(plane, "demo", "-n", "demo") as one,
        session(plane, "rayservice/web", "-n", "demo", "-v") as two,
    ):
        assert set(one) == {"Ray Dashboard", "Ray Interactive Client"}
        assert set(two) == {"Ray Dashboard", "Ray Serve"}
        assert len({*one.values(), *two.values()}) == 4
        assert read(one["Ray Dashboard"]) == read(two["Ray Dashboard"]) == "the dashboard"


def test_a_session_uses_the_port_of_the_flag(plane: PlaneThread, dashboard: FakeDashboard) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = ("rayjob/train", "-n", "demo", "--dashboard-port", str(port))
    with session(plane, *words) as ports:
        assert ports == {"Ray Dashboard": port}
        assert [read(port) for _ in range(3)] == ["the dashboard"] * 3


def test_a_taken_port_that_was_asked_for_is_refused(plane: PlaneThread) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        ran = plane.ours("session", "demo", "-n", "demo", "--client-port", port)
    assert (ran.code, port in ran.err) == (2, True)


def test_a_session_needs_a_head(plane: PlaneThread) -> None:
    ran = plane.ours("session", "other", "-n", "demo")
    assert (ran.code, "has no head yet" in ran.err) == (1, True)


# ── log ──────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def ray_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The log files of two sessions, where Ray keeps them."""
    root = tmp_path / "ray"
    for name, size in (("session_1", 10), ("session_2", 3 * 1024 * 1024)):
        logs = root / name / "logs" / "old"
        logs.mkdir(parents=True)
        (logs.parent / "raylet.out").write_bytes(name.encode() * (size // 10))
        (logs / "worker.err").write_text(name)
        (logs.parent / "leak").symlink_to("/etc/passwd")
    (root / "session_latest").symlink_to("session_2")
    monkeypatch.setenv("RAY_TMPDIR", str(root))
    return root


def test_log_downloads_all_containers_and_all_sessions(
    plane: PlaneThread, ray_files: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    ran = plane.ours("log", "demo", "-n", "demo", "--out-dir", str(out))
    assert (ran.code, ran.err) == (0, "")
    assert {one.name for one in out.iterdir()} == {"demo-head", "demo-gpu-1", "demo-gpu-2"}
    head = out / "demo-head"
    assert (head / "stdout.log").read_text().startswith("line 0\n")
    assert (head / "sidecar.log").read_text().startswith("line 0\n")
    assert (head / "raylet.out").stat().st_size > 2_000_000
    assert (head / "old" / "worker.err").read_text() == "session_2"
    assert (head / "session_1" / "old" / "worker.err").read_text() == "session_1"
    assert not (head / "leak").exists()


@pytest.mark.parametrize(("kind", "pods"), [("head", 1), ("worker", 2), ("all", 3)])
def test_node_type_selects_pods(
    plane: PlaneThread, ray_files: Path, tmp_path: Path, kind: str, pods: int
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    words = ("logs", "rayjob/train", "-n", "demo", f"--node-type={kind}", "--out-dir", str(out))
    assert plane.ours(*words).code == 0
    assert len(list(out.iterdir())) == pods


def test_without_a_directory_one_with_the_name_is_made(
    plane: PlaneThread, ray_files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert plane.ours("log", "rayservice/web", "-n", "demo", "--node-type", "head").code == 0
    assert (tmp_path / "web" / "demo-head" / "stdout.log").exists()
    ran = plane.ours("log", "other", "-n", "demo")
    assert (ran.code, (tmp_path / "other").exists()) == (1, False)


def test_an_error_of_one_pod_does_not_hide_the_others(
    plane: PlaneThread, ray_files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")  # no Python in the containers
    ran = plane.ours("log", "demo", "-n", "demo", "--out-dir", str(tmp_path))
    assert (ran.code, ran.err.count("files of Ray")) == (1, 3)
    assert (tmp_path / "demo-gpu-1" / "stdout.log").exists()


def test_log_follows_with_names(plane: PlaneThread) -> None:
    ran = plane.ours("log", "demo", "-n", "demo", "--node-type", "head", "-f")
    assert ran.code == 0
    assert "[demo-head ray-head] line 4\n" in ran.out
    assert "[demo-head sidecar] line 0\n" in ran.out


def test_the_link_of_gke_is_a_query(plane: PlaneThread) -> None:
    ran = plane.ours("log", "demo", "-n", "demo", "--link", "gke", "--node-type", "head")
    assert ran.out.startswith("https://console.cloud.google.com/logs/query;query=")
    assert "%22demo%22" in ran.out
    assert "node-type%22%3D%22head%22" in ran.out


# ── job submit ───────────────────────────────────────────────────────────────────────────


async def operate(plane: PlaneThread, name: str, *, token: str = "") -> None:
    """What the operator does for a RayJob: a cluster, a head, a Service; then the result of Ray."""
    client, namespace = plane.plane.client, "demo"
    while True:
        jobs = (await client.list(RAY_JOBS, namespace)).items
        job = next((one for one in jobs if one["metadata"]["name"] == name), None)
        if job is not None:
            break
        await asyncio.sleep(0.05)
    labels = {"ray.io/cluster": name}
    spec = dict(job["spec"]["rayClusterSpec"])
    body: dict[str, Any] = {"apiVersion": "ray.io/v1", "kind": "RayCluster", "spec": spec}
    # As the operator: the name is in the status before the cluster exists.
    named = {"status": {"rayClusterName": name, "jobDeploymentStatus": "Initializing"}}
    await client.patch(RAY_JOBS, Key(namespace, name), named, subresource="status")
    await asyncio.sleep(0.5)
    await client.create(RAY_CLUSTERS, namespace, {**body, "metadata": {"name": name}})
    pod = {"containers": [{"name": "ray", "image": "i"}], "nodeName": "n1"}
    await client.create(
        PODS, namespace, {"metadata": {"name": name, "labels": labels}, "spec": pod}
    )
    status: dict[str, Any] = {"phase": "Running", "podIP": "127.0.0.1"}
    status["conditions"] = [{"type": "Ready", "status": "True"}]
    await client.patch(PODS, Key(namespace, name), {"status": status}, subresource="status")
    ports = [{"name": "dashboard", "port": 8265}]
    await client.create(
        SERVICES,
        namespace,
        {"metadata": {"name": f"{name}-svc"}, "spec": {"selector": labels, "ports": ports}},
    )
    await client.create(ENDPOINT_SLICES, namespace, endpoints(name))
    head = {"head": {"serviceName": f"{name}-svc"}}
    for resource, change in (
        (RAY_JOBS, {"rayClusterName": name, "jobDeploymentStatus": "Running"}),
        (RAY_CLUSTERS, {"state": "ready", **head}),
        (RAY_JOBS, {"jobStatus": "SUCCEEDED", "jobDeploymentStatus": "Complete"}),
    ):
        await asyncio.sleep(0.2 if resource == RAY_CLUSTERS else 0)
        if "jobStatus" in change:
            await _until(lambda: name in plane.made)
        key = Key(namespace, name)
        await client.patch(resource, key, {"status": change}, subresource="status")


def endpoints(name: str) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "labels": {"kubernetes.io/service-name": f"{name}-svc"}},
        "addressType": "IPv4",
        "ports": [{"name": "dashboard", "port": 8265}],
        "endpoints": [
            {
                "addresses": ["127.0.0.1"],
                "conditions": {"ready": True},
                "targetRef": {"kind": "Pod", "name": name},
            }
        ],
    }


async def _until(true: Any) -> None:
    while not true():
        await asyncio.sleep(0.05)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "train.py").write_text("print(1)\n")
    (tmp_path / "requirements.txt").write_text("# more\nemoji==2.0\n\nsix\n")
    env = f"pip: {tmp_path / 'requirements.txt'}\nenv_vars: {{A: b}}\n"
    (tmp_path / "env.yaml").write_text(env)
    return tmp_path


def submit(plane: PlaneThread, name: str, dashboard: FakeDashboard, *flags: str) -> Any:
    """The command, with a stand-in for the operator beside it."""

    async def finish_with_the_job() -> None:
        await _until(lambda: dashboard.jobs)
        plane.made.add(name)

    work = [plane.start(operate(plane, name)), plane.start(finish_with_the_job())]
    ran = plane.ours(
        *("job", "submit", "--name", name, "-n", "demo", *flags),
        *("--", "python", "train.py", "--text", "two words"),
    )
    for one in work:
        one.result(20)
    return ran


def test_a_directory_and_its_requirements_are_submitted_without_a_local_ray(
    plane: PlaneThread, dashboard: FakeDashboard, project: Path
) -> None:
    env = ("--runtime-env", str(project / "env.yaml"))
    ran = submit(plane, "sent", dashboard, "--working-dir", str(project), *env, "--verbose")
    assert (ran.code, ran.out) == (0, "one\ntwo\nthree\n")
    [(name, data)] = dashboard.packages.items()
    assert b"train.py" in data
    [job] = dashboard.jobs
    assert job["entrypoint"] == "python train.py --text 'two words'"
    assert job["runtime_env"] == {
        "pip": ["emoji==2.0", "six"],
        "env_vars": {"A": "b"},
        "working_dir": f"gcs://{name}",
    }
    assert plane.get(RAY_JOBS, "demo", "sent")["spec"]["jobId"] == job["submission_id"]


def test_the_exit_code_is_that_of_the_job(
    plane: PlaneThread, dashboard: FakeDashboard, project: Path
) -> None:
    dashboard.exit_code = 7
    ran = submit(plane, "bad", dashboard, "--working-dir", str(project))
    assert (ran.code, "exit code 7" in ran.err) == (7, True)


def test_flags_of_ray_reach_the_dashboard(
    plane: PlaneThread, dashboard: FakeDashboard, project: Path
) -> None:
    dashboard.sockets = False  # the log is then polled
    env = json.dumps({"working_dir": str(project), "env_vars": {"X": "1"}})
    flags = (
        *("--runtime-env-json", env, "--submission-id", "mine"),
        *("--entrypoint-num-cpus", "1.5", "--entrypoint-num-gpus", "1"),
        *("--entrypoint-memory", "1000", "--entrypoint-resources", '{"a": 1}'),
        *("--metadata-json", '{"who": "me"}', "--log-style", "record", "--log-color=true"),
        *("--address", f"http://127.0.0.1:{dashboard.port}", "--headers", '{"X-Team": "a"}'),
        *("--verify", "true"),
    )
    ran = submit(plane, "flags", dashboard, *flags)
    assert (ran.code, ran.out) == (0, "one\ntwo\nthree\n")
    [job] = dashboard.jobs
    assert {name: job[name] for name in job if name not in ("runtime_env", "entrypoint")} == {
        "submission_id": "mine",
        "entrypoint_num_cpus": 1.5,
        "entrypoint_num_gpus": 1.0,
        "entrypoint_memory": 1000,
        "entrypoint_resources": {"a": 1},
        "metadata": {"who": "me"},
    }
    assert dashboard.headers[0]["x-team"] == "a"
    assert "\tINFO kubectl-ray -- " in ran.err
    assert "\x1b[1m" in ran.err


def test_no_wait_returns_when_ray_has_the_job(
    plane: PlaneThread, dashboard: FakeDashboard, project: Path
) -> None:
    ran = submit(plane, "quick", dashboard, "--working-dir", str(project), "--no-wait")
    assert (ran.code, ran.out) == (0, "")
    assert "Ray job submitted with ID raysubmit_" in ran.err


def test_a_rayjob_that_fails_first_is_reported_and_kept(plane: PlaneThread, project: Path) -> None:
    async def refuse() -> None:
        client = plane.plane.client
        while not any(
            one["metadata"]["name"] == "doomed"
            for one in (await client.list(RAY_JOBS, "demo")).items
        ):
            await asyncio.sleep(0.05)
        status = {"jobDeploymentStatus": "ValidationFailed", "message": "no such thing"}
        key = Key("demo", "doomed")
        await client.patch(RAY_JOBS, key, {"status": status}, subresource="status")

    done = plane.start(refuse())
    words = ("job", "submit", "--name", "doomed", "--working-dir", str(project), "-n", "demo")
    ran = plane.ours(*words, "--", "python", "train.py")
    done.result(10)
    assert (ran.code, "no such thing" in ran.err) == (1, True)
    assert plane.exists(RAY_JOBS, "demo", "doomed")
    ran = plane.ours(*words, "--", "python", "train.py")
    assert (ran.code, "already exists" in ran.err) == (2, True)


def test_a_file_with_its_runtime_env_is_submitted(
    plane: PlaneThread, dashboard: FakeDashboard, project: Path
) -> None:
    (project / "job.yaml").write_text(
        "apiVersion: ray.io/v1\nkind: RayJob\nmetadata: {name: filed}\nspec:\n"
        "  submissionMode: InteractiveMode\n"
        f"  runtimeEnvYAML: 'working_dir: {project}'\n"
        "  rayClusterSpec:\n    headGroupSpec:\n"
        "      template: {spec: {containers: [{name: ray, image: i}]}}\n"
    )

    async def finish_with_the_job() -> None:
        await _until(lambda: dashboard.jobs)
        plane.made.add("filed")

    work = [plane.start(operate(plane, "filed")), plane.start(finish_with_the_job())]
    flags = (
        "--filename",
        str(project / "job.yaml"),
        "-n",
        "demo",
        "--ttl-seconds-after-finished",
        "9",
    )
    ran = plane.ours("job", "submit", *flags, "--", "python", "train.py")
    for one in work:
        one.result(20)
    assert ran.code == 0
    spec = plane.get(RAY_JOBS, "demo", "filed")["spec"]
    assert (spec["ttlSecondsAfterFinished"], spec["shutdownAfterJobFinishes"]) == (9, True)
    assert len(dashboard.packages) == 1


# ── watches ──────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "words", [("get", "cluster"), ("get", "workergroup"), ("get", "cluster", "-o", "name")]
)
def test_a_watch_prints_what_changes(plane: PlaneThread, words: tuple[str, ...]) -> None:
    namespace = plane.namespace(f"watch-{len(' '.join(words))}")
    process = subprocess.Popen(
        [sys.executable, "-m", "manta.cli.plugin.main", *words, "-n", namespace, "-w"],
        env={**os.environ, "KUBECONFIG": str(plane.kubeconfig)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        while "other" not in process.stdout.readline():
            pass
        assert plane.ours("create", "cluster", "late", "-n", namespace).code == 0
        while "late" not in (line := process.stdout.readline()):
            pass
        assert "NAME" not in line
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=20)
    assert process.returncode == 0
