"""The address of the console of this machine, and how a browser is sent there."""

from __future__ import annotations

import html
import time
import webbrowser
from pathlib import Path

from manta.api.usage import UsageError
from manta.cli.dashboard import has_display
from manta.console.login.links import OneTimeLinks
from manta.localplane.private_files import write_private_file

HOST = "manta-console.localhost"
"""Browsers resolve it to this machine. A name of its own, because ports share the cookies of a host, and Ray
dashboards, which run their users' content, are opened on 127.0.0.1 and localhost."""


def links_of(directory: Path) -> OneTimeLinks:
    return OneTimeLinks(directory / "console-links")


def new_link(directory: Path, port: int) -> str:
    """An address that logs one browser in, once. Raises UsageError if it cannot be kept."""
    try:
        token = links_of(directory).new(time.time())
    except OSError as error:
        raise UsageError(
            f"--dir {directory}: {error.strerror}; choose another directory"
        ) from error
    return f"http://{HOST}:{port}/login?token={token}"


def open_in_browser(directory: Path, link: str) -> bool:
    """Open a file that leads to the link: every user of this machine can read the arguments of a browser,
    and only this user the file. False if there is no display or no browser."""
    if not has_display():
        return False
    page = directory / "console-open.html"
    write_private_file(
        page, f'<!doctype html><meta http-equiv="refresh" content="0; url={html.escape(link)}">\n'
    )
    return webbrowser.open(page.as_uri())
