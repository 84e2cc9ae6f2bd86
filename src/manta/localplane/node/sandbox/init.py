"""PID 1 of a Pod: starts containers, records their output and exit codes, reaps orphans.

Like the shim of a container runtime it outlives the agent. A new agent finds the state in the Pod's
directory (`sandbox.json`, `containers/NAME/ATTEMPT/exit.json`, logs) and connects to `init.sock`. When the
init is killed, the kernel removes all processes of the Pod, its network namespace and its mounts.

Standard library only, one thread, no wake-ups when idle. The code avoids pathlib, json and the enums of
socket and signal: all inits share their memory pages until they write to them, and touching an object
writes to its reference count. That halves the memory of a Pod.
"""

from __future__ import annotations

import fcntl
import os
import select
import signal
import termios
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NoReturn

from manta.localplane.node.host import libc, wire
from manta.localplane.node.host.confined_files import Directory
from manta.localplane.node.sandbox import container
from manta.localplane.node.sandbox.log_writer import LogFile, Splitter

if TYPE_CHECKING:
    from _socket import socket as _Socket  # noqa: N812 - a type here

_READABLE = select.POLLIN | select.POLLHUP | select.POLLERR
_KILL = int(signal.SIGKILL)


class Running:
    """A container between its start and its end."""

    def __init__(self, brief: Mapping[str, Any], pid: int, stdin: int) -> None:
        self.id: str = brief["id"]
        self.record: str = brief["record"]
        self.oom_events: str = brief["oom_events"]
        self.own_pids: bool = brief["own_pids"]
        self.spec: Mapping[str, Any] = brief["exec"]
        """What a command inherits that is executed in the container."""
        self.pid = pid
        self.stdin = stdin
        self.started = time.time()
        self.log = LogFile(brief["log"])
        self.outputs: dict[int, tuple[str, Splitter]] = {}
        self.error = ""


class Init:
    def __init__(self, directory: str, *, isolated: bool) -> None:
        self._isolated = isolated
        self._poll = select.poll()
        self._agents: dict[int, _Socket] = {}
        self._running: dict[int, Running] = {}
        self._outputs: dict[int, Running] = {}
        self._reports: dict[int, Running] = {}
        self._execs: dict[int, tuple[int, str]] = {}
        """pid of an exec -> (socket of the agent that requested it, ID)"""
        self._wakeup, self._wakeup_writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._own_pids = os.open("/proc/self/ns/pid", os.O_RDONLY) if isolated else -1
        self._listener = wire.listen(directory, "init.sock")

    def run(self) -> NoReturn:
        # The launcher has set the signal handlers before the fork; here they only wake the poll.
        signal.set_wakeup_fd(self._wakeup_writer, warn_on_full_buffer=False)
        self._poll.register(self._wakeup, select.POLLIN)
        self._poll.register(self._listener.fileno(), select.POLLIN)
        while True:
            for fd, _ in self._poll.poll():
                self._dispatch(fd)

    def _dispatch(self, fd: int) -> None:
        if fd == self._wakeup:
            os.read(self._wakeup, 4096)
            self._reap()
        elif fd == self._listener.fileno():
            channel = wire.accept(self._listener)
            self._agents[channel.fileno()] = channel
            self._poll.register(channel.fileno(), _READABLE)
        elif fd in self._agents:
            self._handle(fd)
        elif fd in self._reports:
            self._read_report(fd)
        elif fd in self._outputs:
            self._copy_output(fd)

    # ── the agent ──────────────────────────────────────────────────────────────────────
    def _handle(self, fd: int) -> None:
        received = wire.receive(self._agents[fd])
        if received is None:
            self._poll.unregister(fd)
            self._agents.pop(fd).close()
            return
        message, fds = received
        try:
            reply = self._execute(fd, message, fds)
        except (OSError, KeyError, ValueError) as error:
            reply = {"error": str(error)}
        finally:
            for passed in fds:
                os.close(passed)
        self._send(fd, {"reply": message.get("seq"), **reply})

    def _execute(self, fd: int, message: dict[str, Any], fds: list[int]) -> dict[str, Any]:
        match message["op"]:
            case "memory":
                mount_memory(message["path"], message["size"])
            case "start":
                self._start(message)
            case "signal":
                self._signal(message["id"], message["signal"])
            case "exec":
                self._exec(fd, message, fds)
            case "kill-exec":
                self._kill_exec(message["id"], message["signal"])
            case "list":
                return {"running": {each.id: each.started for each in self._running.values()}}
            case "stdin":
                self._pass_stdin(fd, message["id"])
            case unknown:
                return {"error": f"unknown operation {unknown!r}"}
        return {}

    def _send(self, fd: int, message: dict[str, Any], fds: tuple[int, ...] = ()) -> None:
        channel = self._agents.get(fd)
        if channel is not None:
            try:
                wire.send(channel, message, fds)
            except OSError:
                return  # the agent has ended; the next one reads the records

    def _send_all(self, message: dict[str, Any]) -> None:
        for fd in list(self._agents):
            self._send(fd, message)

    # ── containers ─────────────────────────────────────────────────────────────────────
    def _start(self, brief: Mapping[str, Any]) -> None:
        """`brief` is the part of the container spec that the init needs; the child reads all of it."""
        stdio, ours = _open_stdio(brief)
        report, report_child = os.pipe2(os.O_CLOEXEC)
        pid = self._fork(own_pids=brief["own_pids"])
        if pid == 0:
            container.run(brief["spec"], stdio, report_child)
        for fd in {*stdio, report_child}:
            os.close(fd)
        started = Running(brief, pid, ours.pop("stdin", -1))
        for stream, fd in ours.items():
            started.outputs[fd] = (stream, Splitter())
            self._outputs[fd] = started
            self._poll.register(fd, _READABLE)
        self._running[pid] = started
        self._reports[report] = started
        self._poll.register(report, _READABLE)

    def _fork(self, *, own_pids: bool) -> int:
        """Fork; with `own_pids` the child is PID 1 of a new namespace and still our own child."""
        if not own_pids:
            return os.fork()
        libc.unshare(libc.CLONE_NEWPID)
        pid = os.fork()
        if pid:
            self._return_to_own_pids()
        return pid

    def _return_to_own_pids(self) -> None:
        """Create later children in the init's own pid namespace again."""
        libc.setns(self._own_pids, libc.CLONE_NEWPID)

    def _read_report(self, fd: int) -> None:
        """Read the report pipe: text is the error of exec, end of file means success."""
        started = self._reports[fd]
        if text := os.read(fd, 4096):
            started.error += text.decode(errors="replace")
            return
        self._poll.unregister(fd)
        del self._reports[fd]
        os.close(fd)
        if not started.error:
            wire.write_text(f"{started.record}/start.json", f'{{"started": {started.started!r}}}')
            self._send_all({"event": "started", "id": started.id, "started": started.started})

    def _copy_output(self, fd: int) -> None:
        running = self._outputs[fd]
        stream, splitter = running.outputs[fd]
        try:
            data = os.read(fd, 65536)
        except OSError:
            data = b""  # a pty returns EIO when its last user has closed it
        if data:
            running.log.write(stream, splitter.feed(data))
            return
        running.log.write(stream, splitter.flush())
        self._poll.unregister(fd)
        del self._outputs[fd], running.outputs[fd]
        os.close(fd)
        if not running.outputs and running.pid not in self._running:
            running.log.close()

    def _signal(self, container_id: str, number: int) -> None:
        for running in self._running.values():
            if running.id != container_id:
                continue
            os.kill(running.pid, number)
            if number == _KILL and not running.own_pids:
                _kill_group(running.pid)

    # ── exec ───────────────────────────────────────────────────────────────────────────
    def _exec(self, agent: int, message: dict[str, Any], fds: list[int]) -> None:
        target = next((r for r in self._running.values() if r.id == message["container"]), None)
        if target is None:
            raise ValueError(f"container {message['container']} is not running")
        spec = {**target.spec, **message["spec"]}
        report, report_child = os.pipe2(os.O_CLOEXEC)
        mounts = pids = -1
        if self._isolated:
            mounts = os.open(f"/proc/{target.pid}/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
            pids = os.open(f"/proc/{target.pid}/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
            libc.setns(pids, libc.CLONE_NEWPID)
        pid = os.fork()
        if pid == 0:
            container.enter(spec, (fds[0], fds[1], fds[2]), report_child, mounts)
        if self._isolated:
            self._return_to_own_pids()
            os.close(mounts)
            os.close(pids)
        os.close(report_child)
        self._execs[pid] = (agent, message["id"])
        error = os.read(report, 4096)  # short: exec follows within milliseconds, without mounts
        os.close(report)
        if error:
            raise ValueError(error.decode(errors="replace"))

    def _kill_exec(self, exec_id: str, number: int) -> None:
        for pid, (_, known) in self._execs.items():
            if known == exec_id:
                os.kill(pid, number)

    def _pass_stdin(self, agent: int, container_id: str) -> None:
        for running in self._running.values():
            if running.id == container_id and running.stdin >= 0:
                self._send(agent, {"event": "stdin", "id": container_id}, (running.stdin,))
                return
        raise ValueError(f"container {container_id} has no stdin")

    # ── the end ────────────────────────────────────────────────────────────────────────
    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if running := self._running.pop(pid, None):
                self._record_exit(running, status)
            elif known := self._execs.pop(pid, None):
                agent, exec_id = known
                code = exit_code(status)
                self._send(agent, {"event": "exec-exit", "id": exec_id, "code": code})

    def _record_exit(self, running: Running, status: int) -> None:
        if not running.own_pids:
            _kill_group(running.pid)
        self._drain(running)
        if running.stdin >= 0:
            os.close(running.stdin)
        record = {
            "code": exit_code(status),
            "signal": os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0,
            "started": running.started,
            "finished": time.time(),
            "oom": _has_oom_kills(running.oom_events),
            "error": running.error,
        }
        wire.write_text(f"{running.record}/exit.json", _as_json(record))
        self._send_all({"event": "exited", "id": running.id, **record})

    def _drain(self, running: Running) -> None:
        """Write what is still in the pipes to the log before the end is reported. Does not wait for a
        grandchild that holds a pipe open."""
        for report in [fd for fd, each in self._reports.items() if each is running]:
            self._read_report(report)
            if report in self._reports:
                self._read_report(report)
        for fd in list(running.outputs):
            while fd in running.outputs and select.select([fd], [], [], 0)[0]:
                self._copy_output(fd)


def exit_code(status: int) -> int:
    """The exit code as Kubernetes shows it: 128 + signal for a killed process."""
    return 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def mount_memory(path: str, size: int | None) -> None:
    """Mount a tmpfs that all containers of the Pod see, and that ends with the init."""
    limit = f",size={size}" if size else ""
    flags = libc.MS_NOSUID | libc.MS_NODEV
    with Directory.at("/") as root, root.enter(path.lstrip("/")) as place:
        libc.mount("tmpfs", place.proc_path, "tmpfs", flags, f"mode=1777{limit}")


def _open_stdio(spec: Mapping[str, Any]) -> tuple[tuple[int, int, int], dict[str, int]]:
    """The child's descriptors, and the ends that the init keeps by name."""
    if spec.get("tty"):
        ours, theirs = os.openpty()
        fcntl.ioctl(ours, termios.TIOCSWINSZ, b"\x18\0\x50\0\0\0\0\0")  # 24 rows, 80 columns
        stdin = {"stdin": os.dup(ours)} if spec.get("stdin") else {}
        return (theirs, theirs, theirs), {"stdout": ours, **stdin}
    out, out_child = os.pipe2(os.O_CLOEXEC)
    err, err_child = os.pipe2(os.O_CLOEXEC)
    kept = {"stdout": out, "stderr": err}
    if spec.get("stdin"):
        in_child, kept["stdin"] = os.pipe2(os.O_CLOEXEC)
    else:
        in_child = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    return (in_child, out_child, err_child), kept


def _has_oom_kills(events: str) -> bool:
    """Whether the cgroup counts OOM kills (`oom_kill N` in both versions of cgroups)."""
    if not events:
        return False
    try:
        fd = os.open(events, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    lines = os.read(fd, 4096).splitlines()
    os.close(fd)
    return any(line.startswith(b"oom_kill ") and line != b"oom_kill 0" for line in lines)


def _as_json(record: Mapping[str, Any]) -> str:
    """JSON without the json module, unless there is an error text (rare)."""
    if record["error"]:
        import json

        return json.dumps(record)
    words = {True: "true", False: "false"}
    fields = (
        f'"{name}": {words[value] if isinstance(value, bool) else repr(value)}'
        for name, value in record.items()
        if name != "error"
    )
    return "{" + ", ".join(fields) + ', "error": ""}'


def _kill_group(pid: int) -> None:
    try:
        os.killpg(pid, _KILL)
    except (ProcessLookupError, PermissionError):
        return
