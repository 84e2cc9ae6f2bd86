"""The operator of `manta up`: a child process, which is restarted when it ends.

It uses its own ServiceAccount with the same permissions as on any cluster, so that a missing one shows
here. `operator.json` records its state for `manta up`, `status` and `doctor`.
"""

from __future__ import annotations

import asyncio
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
from manta.cli.plane.child import child
from manta.cli.plane.process import log_path, start_ticks
from manta.install.plane import OPERATOR, install, operator_token
from manta.kube.client import Client
from manta.localplane.private_files import write_private_file
from manta.operator.deployed_options import parse_command_line
from manta.rules.history import HISTORY_BY_NODE

TOKEN_SECONDS = 3600
GATES = "GCSFaultToleranceEmbeddedStorage=true"
"""Enabled here: the plane provides a directory for every PersistentVolumeClaim."""
OPERATOR_ENVIRONMENT = {OPERATOR_ENV_INIT_CONTAINER: "false"}
"""Unless the user's environment sets it. Workers wait for their head anyway; the init container would
only poll more slowly and use a core."""
QUICK_RESTARTS, MAX_PAUSE = 3, 30.0
"""Restarts after one second; later the pause doubles up to the maximum, in seconds."""
STABLE_SECONDS = 60.0
"""An operator that ran longer than this is not in a crash loop."""
PROBE_SECONDS = 2.0


def operator_flags(gates: str, *, history: bool = False, idle_suspend: str = "") -> list[str]:
    """The flags of the operator. The API server's proxy reaches Pods in every isolation mode."""
    joined = ",".join(filter(None, (GATES, gates)))
    flags = ["--feature-gates", joined, "--use-kubernetes-proxy", "--enable-leader-election=false"]
    if idle_suspend:
        flags += ["--idle-suspend", idle_suspend]
    return [*flags, "--history-store", HISTORY_BY_NODE] if history else flags


def check_flags(gates: str, idle_suspend: str = "") -> tuple[str, ...]:
    """The warnings of the operator about its flags. Raises UsageError if it would refuse them."""
    flags = operator_flags(gates, idle_suspend=idle_suspend)
    return parse_command_line(flags, _environment()).warnings


def _environment() -> Mapping[str, str]:
    return {**OPERATOR_ENVIRONMENT, **os.environ}


# ── health ───────────────────────────────────────────────────────────────────────────────


class OperatorRecord(msgspec.Struct, frozen=True):
    """The content of `operator.json`."""

    pid: int = 0
    """0: it does not run."""
    ticks: int = 0
    port: int = 0
    """The port of /readyz on 127.0.0.1."""
    exits: int = 0
    """Number of exits in a row, each before `STABLE_SECONDS`."""
    last_exit: int | None = None
    last_exit_at: float = 0.0
    """Seconds since the epoch."""
    metrics: int = 0
    """The port of /metrics on 127.0.0.1."""


@dataclass(frozen=True, slots=True)
class OperatorHealth:
    ready: bool
    text: str
    exits: int = 0
    last_exit: int | None = None


def operator_log(directory: Path) -> Path:
    return log_path(directory).with_name("operator.log")


def operator_health(directory: Path) -> OperatorHealth:
    """The health of the operator of this plane, from its /readyz and its record."""
    record = _read(directory)
    if record is None:
        return OperatorHealth(ready=False, text="starting")
    before = _history(record)
    if not record.pid or start_ticks(record.pid) != record.ticks:
        words = f"not running{before}"
    else:
        ready, reply = _probe_readiness(record.port)
        if ready:
            return OperatorHealth(True, f"ready{before}", record.exits, record.last_exit)
        words = f"not ready: {reply}{before}"
    return OperatorHealth(False, words, record.exits, record.last_exit)


def metrics_port(directory: Path) -> int | None:
    """The port of the running operator's metrics on 127.0.0.1; None if none runs."""
    record = _read(directory)
    if record is None or not record.pid or start_ticks(record.pid) != record.ticks:
        return None
    return record.metrics or None


def _history(record: OperatorRecord) -> str:
    if not record.exits:
        return ""
    times = "once" if record.exits == 1 else f"{record.exits} times"
    ago = max(time.time() - record.last_exit_at, 0)
    return f"; it exited {times}, the last time {ago:.0f} s ago with exit code {record.last_exit}"


def _probe_readiness(port: int) -> tuple[bool, str]:
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


# ── process ──────────────────────────────────────────────────────────────────────────────


async def operate(client: Client, directory: Path, flags: list[str]) -> None:
    """Install what the operator needs, then run it with these flags, and restart it whenever it exits."""
    _path(directory).unlink(missing_ok=True)
    await install(client)
    token_file = directory / "operator.token"
    kubeconfig = _operator_kubeconfig(directory, token_file)
    write_private_file(token_file, await operator_token(client, TOKEN_SECONDS))
    refresher = asyncio.create_task(_keep_token_fresh(client, token_file))
    record = OperatorRecord()
    try:
        while True:
            began = time.monotonic()
            code = await _run_once(kubeconfig, directory, flags, record)
            record = _after_end(record, code, time.monotonic() - began)
            _write(directory, record)
            pause = pause_after(record.exits)
            words = f"the operator exited with code {code}; restarting it in {pause:.0f} s"
            print(words, file=sys.stderr, flush=True)
            await asyncio.sleep(pause)
    finally:
        refresher.cancel()
        await asyncio.gather(refresher, return_exceptions=True)


def _after_end(record: OperatorRecord, code: int, lived: float) -> OperatorRecord:
    exits = 1 if lived > STABLE_SECONDS else record.exits + 1
    return OperatorRecord(exits=exits, last_exit=code, last_exit_at=time.time())


def pause_after(exits: int) -> float:
    """Seconds until the next start, after this number of exits in a row."""
    return float(min(2 ** max(exits - QUICK_RESTARTS, 0), MAX_PAUSE))


def _write(directory: Path, record: OperatorRecord) -> None:
    write_private_file(_path(directory), msgspec.json.encode(record).decode())


async def _keep_token_fresh(client: Client, token_file: Path) -> None:
    while True:
        await asyncio.sleep(TOKEN_SECONDS / 2)
        write_private_file(token_file, await operator_token(client, TOKEN_SECONDS))


def _operator_kubeconfig(directory: Path, token_file: Path) -> Path:
    """The admin's kubeconfig with the credentials of the operator."""
    document = read_yaml((directory / "kubeconfig").read_bytes())
    document["users"] = [{"name": OPERATOR, "user": {"tokenFile": str(token_file)}}]
    for context in document["contexts"]:
        context["context"]["user"] = OPERATOR
    path = directory / "operator.kubeconfig"
    write_private_file(path, to_yaml(document))
    return path


def _free_ports() -> tuple[int, int]:
    """Two free ports. If another program takes one first, the operator exits, and its restart chooses again."""
    with socket.socket() as one, socket.socket() as other:
        for probe in (one, other):
            probe.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1]), int(other.getsockname()[1])


async def _run_once(
    kubeconfig: Path, directory: Path, flags: list[str], record: OperatorRecord
) -> int:
    port, metrics = _free_ports()
    command = [sys.executable, "-m", "manta.cli.main", "operator", "--kubeconfig", str(kubeconfig)]
    command += [*flags, "--metrics-addr", f"127.0.0.1:{metrics}"]
    command += ["--health-probe-bind-address", f"127.0.0.1:{port}"]
    async with child(command, operator_log(directory), _environment()) as process:
        ticks = start_ticks(process.pid) or 0
        running = msgspec.structs.replace(
            record, pid=process.pid, ticks=ticks, port=port, metrics=metrics
        )
        _write(directory, running)
        return await process.wait()
