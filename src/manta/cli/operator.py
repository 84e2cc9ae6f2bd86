"""`manta operator`: the controllers, against the current kubeconfig or the cluster around us."""

from __future__ import annotations

import argparse
import asyncio
import gc
import importlib
import importlib.util
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any

from manta import __version__
from manta.api.meta import Key
from manta.api.ray.cluster import RayCluster
from manta.api.ray.names import LEADER_LEASE_NAME
from manta.api.ray.resources import RAY_CLUSTERS
from manta.cli.operator_options import Options, add_flags, options_from
from manta.cli.operator_platform import (
    Platform,
    recognise_patiently,
    settings_on,
    watch_for_crds,
)
from manta.cli.usage import UsageError, examples
from manta.kube.calling import RequestObserver
from manta.kube.client import Client
from manta.kube.cluster import Cluster
from manta.kube.errors import CredentialsError
from manta.kube.ratelimit import Considerate, RateLimiter, TokenBucket
from manta.rules.settings import FeatureGates, Settings
from manta.runtime import logging as logs
from manta.runtime import tracing
from manta.runtime.clock import Clock, SystemClock
from manta.runtime.controller import Controller
from manta.runtime.election import Election, ElectionThread, Leadership
from manta.runtime.gate import GatedTransport, WriteGate
from manta.runtime.gauges import register_process
from manta.runtime.health import Address, Negotiated, Page, Pages, PageServer, ping
from manta.runtime.manager import Manager
from manta.runtime.metrics import ApiMetrics, Computed, Registry
from manta.runtime.recorder import Recorder

log = logging.getLogger(__name__)

LEASE_NAME = LEADER_LEASE_NAME
USER_AGENT = f"manta-operator/{__version__}"

CONTROLLERS: Sequence[tuple[str, Callable[[FeatureGates], bool]]] = (
    ("raycluster", lambda _gates: True),
    ("rayjob", lambda _gates: True),
    ("rayservice", lambda _gates: True),
    ("raycronjob", lambda gates: gates.ray_cron_job),
)
"""Packages under `manta.controllers`, and the gates that switch them on. Each has, in its
`controller.py`, `build(manager, settings) -> Controller`."""

ASK_RAY = frozenset(("rayjob", "rayservice"))
"""Controllers that talk to dashboards: their `build` takes one as third argument."""


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "operator",
        help="run the controllers",
        allow_abbrev=False,
        **examples(
            ("manta operator", "for the cluster of the kubeconfig, or of the Pod that it runs in"),
            ("manta operator --watch-namespace a,b", "for some namespaces only"),
            ("manta operator --feature-gates RayClusterMTLS=true", "with other features"),
        ),
    )
    parser.add_argument("--kubeconfig", type=Path, metavar="FILE", help="use this kubeconfig")
    parser.add_argument("--context", metavar="NAME", help="use this context of it")
    add_flags(parser)


def run(args: argparse.Namespace) -> int:
    from manta.kube.credentials import discover

    try:
        options = options_from(args, os.environ)
        cluster = discover(args.kubeconfig, args.context, environment=os.environ)
        _configure_logs(options)
        _configure_tracing(options)
    except (UsageError, CredentialsError) as error:
        print(f"manta operator: {error}", file=sys.stderr)
        return 2
    try:
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            return runner.run(operate(cluster, options))
    except CredentialsError as error:  # a file that is named there is broken, say
        print(f"manta operator: {error}", file=sys.stderr)
        return 2
    except OSError as error:  # an address that is in use, say
        log.error("cannot run: %s", error)  # noqa: TRY400  the reason says it all
        return 1
    finally:
        tracing.shutdown()


async def operate(cluster: Cluster, options: Options) -> int:
    """Run until told to stop."""
    clock, random, registry = SystemClock(), Random(), Registry()  # noqa: S311  jitter only
    gate = WriteGate(clock)
    client = Client(
        GatedTransport(_transport(cluster, clock), gate),
        user_agent=USER_AGENT,
        limiter=_brake(options),
        observer=_observed(ApiMetrics(registry, cluster.server)),
        chance=random,
    )
    try:
        for warning in options.warnings:
            log.warning(warning)
        stop = _stop_on_signals()
        register_process(registry)
        _register_leading(registry, gate)
        manager = new_manager(client, clock, random, options, registry, gate)
        manager.begin(manager.informer(RAY_CLUSTERS, RayCluster))
        platform = await _unless(stop, recognise_patiently(client, random))
        if platform is None:
            return 0
        if why := unsuitable(platform, options.settings.gates):
            log.error(why)
            return 1
        assemble(manager, options, platform)
        log.info(introduction(cluster, options, platform))
        _spare_the_collector()
        leadership = _lead(manager, cluster, options, gate)
        _serve_pages(manager, options)
        stopper = asyncio.create_task(_stop_when(stop, manager))
        try:
            await manager.run(leadership)
        finally:
            stopper.cancel()
        return 0
    finally:
        await client.close()


def new_manager(
    client: Client,
    clock: Clock,
    random: Random,
    options: Options,
    registry: Registry | None = None,
    gate: WriteGate | None = None,
) -> Manager:
    return Manager(
        client,
        clock,
        random,
        namespaces=options.namespaces,
        registry=registry,
        recorder=Recorder(client, clock, random, instance=socket.gethostname()),
        gate=gate,
        concurrency=options.concurrency,
    )


def assemble(manager: Manager, options: Options, platform: Platform) -> None:
    """Give the manager its controllers: the operator without signals, pages and election."""
    for controller in build_controllers(manager, settings_on(platform, options.settings)):
        manager.add(controller)
    manager.add_service("CRD check", lambda: watch_for_crds(manager.client))


def build_controllers(manager: Manager, settings: Settings) -> Sequence[Controller]:
    from manta.cli.dashboards import open_dashboard

    built = []
    dashboard = open_dashboard(manager.client, settings)
    for name, enabled in CONTROLLERS:
        module = f"manta.controllers.{name}.controller"
        if not enabled(settings.gates):
            log.info("controller %s is switched off by its feature gate", name)
        elif not _exists(f"manta.controllers.{name}", module):
            log.warning("controller %s is not in this build", name)
        else:
            with_ray = (dashboard,) if name in ASK_RAY else ()
            built.append(importlib.import_module(module).build(manager, settings, *with_ray))
    return built


def _exists(*modules: str) -> bool:
    """Whether each is there; a package must be asked for before what is in it."""
    return all(importlib.util.find_spec(module) is not None for module in modules)


def introduction(cluster: Cluster, options: Options, platform: Platform) -> str:
    """Who runs, where, and for what: the first line that someone who looks for a fault needs."""
    version = ".".join(map(str, platform.version))
    names = [name for name, enabled in CONTROLLERS if enabled(options.settings.gates)]
    return (
        f"manta {__version__} on {cluster.server} (Kubernetes {version}), for "
        f"{', '.join(names)} in {', '.join(options.namespaces) or 'all namespaces'}"
    )


def unsuitable(platform: Platform, gates: FeatureGates) -> str | None:
    """Why the operator must not start on this server, if so."""
    if gates.sidecar_submitter_restart and platform.version < (1, 35):
        return (
            "feature gate SidecarSubmitterRestart needs Kubernetes 1.35 or newer, "
            f"and this server is {platform.version[0]}.{platform.version[1]}"
        )
    return None


def _brake(options: Options) -> RateLimiter | None:
    """A rate that someone has set; else as many requests as the server takes."""
    if options.qps > 0:
        return TokenBucket(options.qps, options.burst)
    return None if options.qps < 0 else Considerate()


def _transport(cluster: Cluster, clock: Clock) -> Any:
    from manta.kube.transport import HttpTransport

    return HttpTransport(cluster, now=clock.now)


# ── leading ──────────────────────────────────────────────────────────────────────────────


def _lead(
    manager: Manager, cluster: Cluster, options: Options, gate: WriteGate
) -> Leadership | None:
    """Strive for the lease in a thread of its own; without election, write at once."""
    if not options.leader_election:
        gate.open()
        return None
    clock = SystemClock()
    namespace = options.leader_election_namespace or cluster.namespace or "default"
    identity = f"{socket.gethostname()}_{os.getpid()}_{os.urandom(4).hex()}"

    async def connect() -> Client:
        return Client(_transport(cluster, clock), user_agent=f"{USER_AGENT} (election)", timeout=5)

    def election(on_change: Callable[[bool], None]) -> Election:
        return Election(
            clock,
            Random(),  # noqa: S311  jitter only
            gate,
            lease=Key(namespace, LEASE_NAME),
            identity=identity,
            on_change=on_change,
        )

    leadership = Leadership()
    manager.add_service("election", ElectionThread(connect, election, leadership).run)
    return leadership


def _register_leading(registry: Registry, gate: WriteGate) -> None:
    def leading() -> list[tuple[tuple[str, ...], float]]:
        return [((LEASE_NAME,), float(gate.remaining > 0))]

    registry.register(
        Computed("leader_election_master_status", "1 while we lead.", ("name",), leading)
    )


# ── the process ──────────────────────────────────────────────────────────────────────────


def _serve_pages(manager: Manager, options: Options) -> None:
    def metrics(accept: str) -> Page:
        return Page(200, *manager.registry.rendered(accept))

    def ready() -> Page:
        if manager.ready:
            return Page(200, "ok")
        return Page(503, "\n".join(manager.troubles) or "caches are being filled")

    probes: Pages = {"/healthz": ping, "/readyz": ready}
    pages: dict[Address | None, Pages] = {
        options.metrics: {"/metrics": Negotiated(metrics)},
        options.probes: {},
    }
    if options.probes is not None:
        pages[options.probes] = {**pages.get(options.probes, {}), **probes}
    for address, served in pages.items():
        if address is not None and served:
            manager.add_service(f"pages on {address.port}", PageServer(address, served).run)


def _stop_on_signals() -> asyncio.Event:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    return stop


async def _stop_when(stop: asyncio.Event, manager: Manager) -> None:
    await stop.wait()
    log.info("told to stop: finishing the running rounds")
    manager.stop()


async def _unless(stop: asyncio.Event, work: Any) -> Any:
    """The result of `work`; None when we were told to stop first."""
    task, stopped = asyncio.ensure_future(work), asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait([task, stopped], return_when=asyncio.FIRST_COMPLETED)
        return task.result() if task.done() else None
    finally:
        task.cancel()
        stopped.cancel()


def _configure_logs(options: Options) -> None:
    logs.configure(options.stdout_encoder, options.log_level)
    if options.log_file:
        try:
            logs.add_file(options.log_file, options.file_encoder)
        except OSError as error:
            why = f"--log-file-path: cannot write to {options.log_file}: {error.strerror}"
            raise UsageError(why) from error


def _observed(metrics: ApiMetrics) -> RequestObserver:
    def observe(verb: str, resource: str, code: int, seconds: float) -> None:
        metrics(verb, resource, code, seconds)
        tracing.request(verb, resource, code, seconds)

    return observe


def _configure_tracing(options: Options) -> None:
    from manta.runtime import otel

    if not otel.is_wanted(os.environ, flag=options.tracing):
        return
    try:
        tracing.use(otel.open_tracer(__version__, SystemClock()))
    except otel.TracingError as error:
        if options.tracing:
            raise UsageError(f"--tracing: {error}") from error
        log.warning("no traces are exported: %s", error)


def _spare_the_collector() -> None:
    """What was loaded by now lives as long as the process: no use to look at it again."""
    gc.collect()
    gc.freeze()


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    if importlib.util.find_spec("uvloop") is None:
        return None
    import uvloop

    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory
