"""The operator of `manta up`: a child process that is started again when it ends, and its health.

It runs under its own ServiceAccount with the permissions that it has on any cluster, so that a
missing one shows here and not in production. What happened to it is written to `operator.json`,
where `manta up`, `status` and `doctor` read it.
"""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import os
import socket
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from manta.api.documents.reader import read_yaml
from manta.api.documents.writer import to_yaml
from manta.api.ray.names import OPERATOR_ENV_INIT_CONTAINER
from manta.cli.deployed_settings import words_to_options
from manta.cli.installation import OPERATOR, install, operator_token
from manta.cli.planeprocess import log_path, start_ticks
from manta.kube.client import Client
from manta.localplane.node.libc import end_with_parent

TOKEN_LIFE = 3600
GATES = "GCSFaultToleranceEmbeddedStorage=true"
"""On here although off by default: this plane has what it needs, a directory for every claim."""
OPERATOR_ENVIRONMENT = {OPERATOR_ENV_INIT_CONTAINER: "false"}
"""Unless the user's environment says otherwise. A worker waits for its head by itself: the init
container that asks beforehand would only ask more slowly, and use a core for it."""
QUICK_RESTARTS, LONGEST_PAUSE = 3, 30.0
"""Restarts after one second each; then the pause doubles."""
SETTLED = 60.0
"""Seconds after which an end is no part of a crash loop."""
PROBE_SECONDS = 2.0


def operator_flags(gates: str) -> list[str]:
    """Pods live on a bridge that the API server's proxy reaches in every isolation mode."""
    joined = ",".join(filter(None, (GATES, gates)))
    return ["--feature-gates", joined, "--use-kubernetes-proxy", "--enable-leader-election=false"]


def check_flags(gates: str) -> tuple[str, ...]:
    """What the operator would warn of. Raises UsageError for what it would refuse."""
    return words_to_options(operator_flags(gates), _environment()).warnings


def _environment() -> Mapping[str, str]:
    return {**OPERATOR_ENVIRONMENT, **os.environ}


# ── its health ───────────────────────────────────────────────────────────────────────────


class OperatorRecord(msgspec.Struct, frozen=True):
    """What the plane knows of its operator."""

    pid: int = 0
    """0: none runs at this moment."""
    ticks: int = 0
    port: int = 0
    """Of /readyz, on 127.0.0.1."""
    exits: int = 0
    """How often it ended in a row, without having run for a while."""
    last_exit: int | None = None
    last_exit_at: float = 0.0
    """Seconds since the epoch."""


@dataclass(frozen=True, slots=True)
class OperatorHealth:
    ready: bool
    text: str
    exits: int = 0
    last_exit: int | None = None


def operator_log(directory: Path) -> Path:
    return log_path(directory).with_name("operator.log")


def last_operator_lines(directory: Path, count: int = 10) -> str:
    try:
        lines = operator_log(directory).read_text(errors="replace").splitlines()
    except OSError:
        return "(no log was written)"
    return "\n".join(lines[-count:])


def operator_health(directory: Path) -> OperatorHealth:
    """Of the operator of the plane in this directory: asked now, with what happened before."""
    record = _read(directory)
    if record is None:
        return OperatorHealth(ready=False, text="starting")
    before = _history(record)
    if not record.pid or start_ticks(record.pid) != record.ticks:
        words = f"not running{before}"
    else:
        ready, said = _ask_readiness(record.port)
        if ready:
            return OperatorHealth(True, f"ready{before}", record.exits, record.last_exit)
        words = f"not ready: {said}{before}"
    return OperatorHealth(False, words, record.exits, record.last_exit)


def _history(record: OperatorRecord) -> str:
    if not record.exits:
        return ""
    times = "once" if record.exits == 1 else f"{record.exits} times"
    ago = max(time.time() - record.last_exit_at, 0)
    return f"; it ended {times}, the last time {ago:.0f} s ago with exit code {record.last_exit}"


def _ask_readiness(port: int) -> tuple[bool, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PROBE_SECONDS)
    try:
        connection.request("GET", "/readyz")
        answer = connection.getresponse()
        text = " ".join(answer.read(2000).decode(errors="replace").split())
    except (OSError, http.client.HTTPException):
        return False, "it does not answer yet"
    finally:
        connection.close()
    return answer.status == 200, text


def _path(directory: Path) -> Path:
    return directory / "operator.json"


def _read(directory: Path) -> OperatorRecord | None:
    try:
        return msgspec.json.decode(_path(directory).read_bytes(), type=OperatorRecord)
    except (FileNotFoundError, msgspec.MsgspecError):
        return None


# ── running it ───────────────────────────────────────────────────────────────────────────


async def operate(client: Client, directory: Path, gates: str) -> None:
    """Install what the operator needs, then keep one running."""
    _path(directory).unlink(missing_ok=True)
    await install(client)
    token_file = directory / "operator.token"
    kubeconfig = _operator_kubeconfig(directory, token_file)
    write_privately(token_file, await operator_token(client, TOKEN_LIFE))
    refresher = asyncio.create_task(_keep_token_fresh(client, token_file))
    record = OperatorRecord()
    try:
        while True:
            began = time.monotonic()
            code = await _run_once(kubeconfig, directory, gates, record)
            record = _after_end(record, code, time.monotonic() - began)
            _write(directory, record)
            pause = pause_after(record.exits)
            words = f"the operator ended with exit code {code}; starting it again in {pause:.0f} s"
            print(words, file=sys.stderr, flush=True)
            await asyncio.sleep(pause)
    finally:
        refresher.cancel()
        await asyncio.gather(refresher, return_exceptions=True)


def _after_end(record: OperatorRecord, code: int, lived: float) -> OperatorRecord:
    exits = 1 if lived > SETTLED else record.exits + 1
    return OperatorRecord(exits=exits, last_exit=code, last_exit_at=time.time())


def pause_after(exits: int) -> float:
    """Seconds until the next start."""
    return float(min(2 ** max(exits - QUICK_RESTARTS, 0), LONGEST_PAUSE))


def _write(directory: Path, record: OperatorRecord) -> None:
    write_privately(_path(directory), msgspec.json.encode(record).decode())


async def _keep_token_fresh(client: Client, token_file: Path) -> None:
    while True:
        await asyncio.sleep(TOKEN_LIFE / 2)
        write_privately(token_file, await operator_token(client, TOKEN_LIFE))


def write_privately(path: Path, text: str) -> None:
    fresh = path.with_suffix(".new")
    fresh.touch(mode=0o600)
    fresh.write_text(text)
    fresh.replace(path)


def _operator_kubeconfig(directory: Path, token_file: Path) -> Path:
    """The admin's kubeconfig with the operator's own credentials in place of the admin's."""
    document = read_yaml((directory / "kubeconfig").read_bytes())
    document["users"] = [{"name": OPERATOR, "user": {"tokenFile": str(token_file)}}]
    for context in document["contexts"]:
        context["context"]["user"] = OPERATOR
    path = directory / "operator.kubeconfig"
    write_privately(path, to_yaml(document))
    return path


def _free_port() -> int:
    """If another program takes it first, the operator ends and the next start chooses again."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


async def _run_once(kubeconfig: Path, directory: Path, gates: str, record: OperatorRecord) -> int:
    log, port = operator_log(directory), _free_port()
    log.parent.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "manta.cli.main", "operator", "--kubeconfig", str(kubeconfig)]
    command += [*operator_flags(gates), "--metrics-addr", "127.0.0.1:0"]
    command += ["--health-probe-bind-address", f"127.0.0.1:{port}"]
    with log.open("ab") as sink:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=sink,
            stderr=sink,
            env=_environment(),
            preexec_fn=end_with_parent,  # a plane that is killed takes its operator along
        )
    ticks = start_ticks(process.pid) or 0
    _write(directory, msgspec.structs.replace(record, pid=process.pid, ticks=ticks, port=port))
    try:
        return await process.wait()
    finally:
        if process.returncode is None:
            process.terminate()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(10):
                    await process.wait()
            if process.returncode is None:
                process.kill()
                await process.wait()
