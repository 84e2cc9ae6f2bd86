"""What the console of a plane's owner reads on this machine beside the API server."""

from __future__ import annotations

import argparse

from manta.cli.plane.history import recorded_url
from manta.cli.plane.history_server import read_server_record
from manta.cli.plane.operator import metrics_port
from manta.cli.server.operator_settings import planes_of
from manta.console.fetch import Fetch
from manta.console.history import History, HistoryError
from manta.console.operators import LocalMetrics, NoMetricsError


def plane_history(args: argparse.Namespace, fetch: Fetch) -> History | None:
    """The history server of `manta up --history`; None if the plane keeps none. Raises HistoryError."""
    directory = next(planes_of(args), None)
    if directory is None or not recorded_url(directory):
        return None

    def where(_token: str) -> tuple[str, str]:
        record = read_server_record(directory)
        if record is None:
            raise HistoryError("the history server of the plane does not run now")
        return f"http://127.0.0.1:{record.port}", record.secret

    return History(fetch, where)


def plane_metrics(args: argparse.Namespace, fetch: Fetch) -> LocalMetrics | None:
    """The metrics of the operator of `manta up`; None if the API server is no plane on this machine.

    Raises NoMetricsError.
    """
    directory = next(planes_of(args), None)
    if directory is None:
        return None

    async def read() -> str:
        port = metrics_port(directory)
        if port is None:
            raise NoMetricsError("the operator of the plane does not run now: see `manta status`")
        answer = await fetch("GET", f"http://127.0.0.1:{port}/metrics")
        if answer.status != 200:
            raise NoMetricsError(f"the operator's metrics: HTTP {answer.status}")
        return answer.body.decode("utf-8", "replace")

    return read
