"""Python code run as on a machine without Unix: a process without the modules, calls and signals that others lack."""

from __future__ import annotations

import subprocess
import sys

BLOCK = """
import asyncio, asyncio.unix_events, builtins, importlib, os, platform, signal, ssl, subprocess, sys
import sysconfig, tempfile

sysconfig.get_config_vars()
NOT_ON_WINDOWS = {"fcntl", "termios", "tty", "pty", "pwd", "grp", "resource", "uvloop", "syslog", "readline",
    "posix", "ctypes.util", "curses", "re2"}
CALLS = ("fork", "forkpty", "getuid", "geteuid", "getgid", "setsid", "killpg", "getpgid", "uname",
    "sched_getaffinity", "pidfd_open", "memfd_create", "mkfifo", "chown", "openpty")
SIGNALS = ("SIGKILL", "SIGHUP", "SIGWINCH", "SIGCHLD", "SIGUSR1", "SIGUSR2", "SIGQUIT", "SIGALRM",
    "pthread_sigmask")
SYSTEM = os.environ.get("PRETEND", "win32")
ON_MAC = {"fcntl", "termios", "tty", "pty", "pwd", "grp", "resource", "syslog", "readline", "posix", "curses",
    "ctypes.util", "re2"}
if SYSTEM == "darwin":
    NOT_ON_WINDOWS -= ON_MAC
    CALLS = ("sched_getaffinity", "pidfd_open", "memfd_create")
    SIGNALS = ()

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name in NOT_ON_WINDOWS:
            raise ModuleNotFoundError(f"No module named {name!r} on this platform", name=name)

sys.meta_path.insert(0, Blocked())
for name in NOT_ON_WINDOWS - {"posix"}:
    sys.modules.pop(name, None)
for module, gone in ((os, CALLS), (signal, SIGNALS)):
    for name in gone:
        if hasattr(module, name):
            delattr(module, name)
if SYSTEM == "win32":
    ssl.enum_certificates = lambda store: ()

    def not_here(*_, **__):
        raise NotImplementedError
    for name in ("add_signal_handler", "remove_signal_handler", "add_reader", "add_writer", "create_unix_server",
                 "create_unix_connection"):
        setattr(asyncio.unix_events._UnixSelectorEventLoop, name, not_here)
sys.platform = SYSTEM
platform.system = lambda: {"win32": "Windows", "darwin": "Darwin"}[SYSTEM]
"""


def run_elsewhere(
    code: str, *arguments: str, system: str = "win32", **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run Python code as on Windows, or with `system` darwin as on macOS."""
    names = {"PATH": "/nonexistent", "HOME": "/nonexistent", "PRETEND": system}
    if system == "win32":
        names |= {"PYTHONIOENCODING": "cp1252", "PYTHONUTF8": "0", "LC_ALL": "C"}
    return subprocess.run(
        [sys.executable, "-c", BLOCK + code, *arguments],
        capture_output=True,
        encoding="cp1252" if system == "win32" else "utf-8",
        env={**names, **environment},
        timeout=100,
        check=False,
    )
