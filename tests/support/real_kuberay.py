"""KubeRay's own operator as a process, where MANTA_KUBERAY_BINARY names it (`support.peers`).

`support.kuberay` imitates KubeRay; this runs the real program.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from support.contract import EXTERNAL
from support.operator_fixture import OperatorFixture
from support.peers import kuberay_binary


@asynccontextmanager
async def kuberay(operator_fixture: OperatorFixture, release: str) -> AsyncIterator[Path]:
    """Runs KubeRay in the namespace of the fixture, as its admin, until the end of the block. Yields its log."""
    log = operator_fixture.directory / f"kuberay-{release}.log"
    flags = (
        *(f"--watch-namespace={operator_fixture.namespace}", "--use-kubernetes-proxy"),
        *(f"--leader-election-namespace={operator_fixture.namespace}", "--metrics-addr=0"),
        "--health-probe-bind-address=0",
        "--feature-gates=RayServiceIncrementalUpgrade=false",  # it wants the kinds of a Gateway
    )
    environment = {**os.environ, "KUBECONFIG": os.environ[EXTERNAL]}
    with log.open("ab") as sink:
        process = await asyncio.create_subprocess_exec(
            *(str(kuberay_binary(release)), *flags), stdout=sink, stderr=sink, env=environment
        )
    try:
        yield log
        assert process.returncode is None, log.read_text()[-3000:]
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
        await process.wait()
