"""`manta collect` as a process, into an S3 server on loopback: kill -9, an outage, SIGTERM."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from manta.history.catalog import Catalog
from manta.history.index import queries
from manta.history.logs import LogReader
from manta.history.store import open_store
from support.dashboard import serving
from support.history import SESSION, WHO, generated_lines, write_session
from support.s3 import s3_server

KEY = WHO.session(SESSION)


class Process:
    """The sidecar of one Pod."""

    def __init__(
        self, tmp_path: Path, url: str, environment: dict[str, str], *more: str, ready: bool = True
    ) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.log = tmp_path / "collect.log"
        flags = {
            "store": url, "root": str(tmp_path / "ray"), "port": str(self.port), "interval": "0.5",
            "namespace": WHO.namespace, "cluster": WHO.cluster, "owner-kind": "RayJob", "owner-name": WHO.name,
            "pod": WHO.pod, "role": "Head", "ray-version": "2.60.0",
        }  # fmt: skip
        words = [word for name, value in flags.items() for word in (f"--{name}", value)]
        words += more
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "manta.cli.main", "collect", *words],
                env={**os.environ, **environment}, stdout=log, stderr=log,
            )  # fmt: skip
        if ready:
            self.until(lambda: self.get("/healthz"))

    def get(self, path: str) -> bool:
        try:
            return bool(urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}").status == 200)
        except urllib.error.URLError:
            return False

    def post(self, body: bytes) -> None:
        urllib.request.urlopen(f"http://127.0.0.1:{self.port}/v1/events", data=body)

    def until(self, check: object) -> None:
        assert callable(check)
        deadline = time.monotonic() + 60
        while not check():
            assert self.process.poll() is None, self.log.read_text()
            assert time.monotonic() < deadline, self.log.read_text()
            time.sleep(0.05)

    def end(self, number: int) -> None:
        self.process.send_signal(number)
        self.process.wait(60)


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    with s3_server("collected") as environment:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        yield environment


def test_what_was_posted_and_logged_reaches_s3_through_kill_9_and_sigterm(
    tmp_path: Path, s3: dict[str, str]
) -> None:
    url = "s3://collected/ray"
    lines = list(generated_lines(600))
    write_session(tmp_path / "ray", {"job-driver-x.log": b"one\n"})
    first = Process(tmp_path, url, s3)
    store = open_store(url, s3)
    first.post(lines[0])
    first.until(lambda: any("/events/" in one.key for one in store.objects(KEY.prefix)))
    first.post(lines[1])
    first.end(signal.SIGKILL)  # its spool has the second post
    write_session(tmp_path / "ray", {"job-driver-x.log": b"two\n"})
    second = Process(tmp_path, url, s3)
    second.post(lines[2])
    write_session(tmp_path / "ray", {"job-driver-x.log": b"three\n"})
    second.end(signal.SIGTERM)
    assert second.process.returncode == 0, second.log.read_text()
    database = Catalog(store, tmp_path / "cache").open_index(KEY)
    assert database is not None
    assert queries.tasks(database).total == 600
    reader = LogReader(store, database)
    assert b"".join(reader.read(WHO.pod, "job-driver-x.log")) == b"one\ntwo\nthree\n"


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("ftp://nowhere", "must start with file://"),
        ("file:///dev/null/x", "history store file:///dev/null/x"),
    ],
)
def test_a_sidecar_that_cannot_collect_says_why_and_stays(
    tmp_path: Path, url: str, words: str
) -> None:
    """A container that ends makes its Pod not ready."""
    own = Process(tmp_path, url, {}, "--never-exit", ready=False)
    own.until(lambda: words in own.log.read_text())
    own.end(signal.SIGTERM)
    assert own.process.returncode == 0, own.log.read_text()


def test_what_came_while_the_store_was_down_is_there_when_it_is_back(tmp_path: Path) -> None:
    held = (
        socket.socket()
    )  # bound, not listening: nobody else gets the port, and connects are refused
    held.bind(("127.0.0.1", 0))
    port = held.getsockname()[1]
    keys = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_REGION": "us-east-1"}
    endpoint = {"AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}", **keys}
    write_session(tmp_path / "ray", {"job-driver-x.log": b"one\n"})
    own = Process(tmp_path, "s3://outage/ray", endpoint)
    for line in generated_lines(600):
        own.post(line)
    own.until(lambda: "not shipped, trying again" in own.log.read_text())
    held.close()
    with s3_server("outage", port=port) as environment, pytest.MonkeyPatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        store = open_store("s3://outage/ray", environment)
        own.until(lambda: any("/logs/" in one.key for one in store.objects(KEY.prefix)))
        own.end(signal.SIGTERM)
        database = Catalog(store, tmp_path / "cache").open_index(KEY)
        assert database is not None
        assert queries.tasks(database).total == 600


def test_a_store_that_never_answers_does_not_hold_the_end(tmp_path: Path) -> None:
    write_session(tmp_path / "ray", {"raylet.out": b"x"})
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(60)
        endpoint = f"http://127.0.0.1:{silent.getsockname()[1]}"
        keys = {"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x", "AWS_REGION": "x"}
        own = Process(tmp_path, "s3://b", {"AWS_ENDPOINT_URL": endpoint, **keys}, "--budget", "1")
        taken, _ = silent.accept()
        with taken:
            own.end(signal.SIGTERM)
    assert own.process.returncode == 0, own.log.read_text()
    assert "did not take everything within 1 s" in own.log.read_text()


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ([], "--store URL"),
        (["--store", "s3://x", "--namespace", "../x"], "namespace '../x'"),
        (["--store", "s3://x", "--interval", "0"], "--interval 0.0: must be more than 0"),
        (["--store", "s3://x", "--interval", "nan"], "--interval nan: must be more than 0"),
        (["--store", "s3://x", "--port", "65536"], "--port 65536: must be 0 to 65535"),
        (["--store", "s3://x", "--owner-kind", "Pod"], "kind 'pod'"),
    ],
)
def test_bad_flags_are_named(
    flags: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    from manta.cli.main import main

    good = ["--namespace", "default", "--cluster", "demo", "--pod", "demo-head"]
    assert main(["collect", *good, *flags]) == 2
    assert words in capsys.readouterr().err


def test_the_last_answers_of_a_dashboard_that_ended_are_in_the_store(tmp_path: Path) -> None:
    """Its head may be killed: what it answered last is shipped as soon as it answers no more, or on SIGTERM."""
    write_session(tmp_path / "ray", {"raylet.out": b"x"})
    answers = {
        "api/version": b'{"session_name": "%s"}' % SESSION.encode(),
        "api/serve/applications/": b'{"applications": {"app": {"status": "RUNNING"}}}',
        "nodes?view=summary": b'{"data": {"summary": []}}',
    }
    store = open_store((tmp_path / "store").as_uri(), {})
    with serving(answers) as address:
        own = Process(tmp_path, store.url, {}, "--dashboard", address)
        place = f"{KEY.prefix}/answers"
        own.until(lambda: len(list(store.objects(place))) == 2)
    own.end(signal.SIGTERM)
    database = Catalog(store, tmp_path / "cache").open_index(KEY)
    assert database is not None
    kept = database.execute("SELECT body FROM answers WHERE path = 'api/serve/applications'")
    assert bytes(kept.fetchone()[0]) == answers["api/serve/applications/"]
