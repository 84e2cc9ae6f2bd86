"""The operator process: client, manager, leader election, metrics and probes."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random
from typing import Any

from manta import __version__
from manta.api.meta import Key
from manta.api.ray.cluster import RayCluster
from manta.api.ray.names import LEADER_LEASE_NAME
from manta.api.ray.resources import RAY_CLUSTERS
from manta.api.resources import WORKLOADS
from manta.api.usage import UsageError
from manta.httpserver.address import Address
from manta.httpserver.messages import HttpRequest, HttpResponse, text_response
from manta.kube.client import Client
from manta.kube.cluster import Cluster
from manta.kube.rate_limiter import AdaptiveRateLimiter, RateLimiter, TokenBucket
from manta.kube.request_executor import RequestObserver
from manta.operator.controllers import CONTROLLERS, build_controllers
from manta.operator.options import Options
from manta.operator.platform import Platform, detect_with_retries, settings_on, watch_for_crds
from manta.reconcile.observer import ReconcileObserver
from manta.rules.settings import FeatureGates
from manta.runtime import logging as logs
from manta.runtime import tracing
from manta.runtime.clock import Clock, SystemClock
from manta.runtime.controller_metrics import ApiMetrics
from manta.runtime.election import Election, ElectionThread, Leadership
from manta.runtime.gate import GatedTransport, WriteGate
from manta.runtime.gauges import register_process
from manta.runtime.health import Pages, PageServer, ping
from manta.runtime.manager import Manager
from manta.runtime.metrics import Computed, Registry
from manta.runtime.process import stop_on_signals
from manta.runtime.recorder import Recorder

log = logging.getLogger(__name__)

USER_AGENT = f"manta-operator/{__version__}"


async def operate(cluster: Cluster, options: Options) -> int:
    """Run until SIGTERM or SIGINT. Returns the exit code."""
    clock, random, registry = SystemClock(), Random(), Registry()  # noqa: S311  jitter only
    gate = WriteGate(clock)
    client = Client(
        GatedTransport(_transport(cluster, clock), gate),
        user_agent=USER_AGENT,
        limiter=rate_limiter(options),
        observer=_observed(ApiMetrics(registry, cluster.server)),
        rng=random,
    )
    try:
        for warning in options.warnings:
            log.warning(warning)
        stop = stop_on_signals()
        register_process(registry)
        register_leader_metric(registry, gate)
        manager = new_manager(client, clock, random, options, registry, gate)
        manager.start_informer(manager.informer(RAY_CLUSTERS, RayCluster))
        platform = await _unless(stop, detect_with_retries(client, random))
        if platform is None:
            return 0
        if why := unsupported(platform, options.settings.gates):
            log.error(why)
            return 1
        assemble(manager, options, platform)
        log.info(introduction(cluster, options, platform))
        _freeze_garbage_collector()
        leadership = _start_election(manager, cluster, options, gate)
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
        observer=_flight_recorder(options, clock),
    )


def _flight_recorder(options: Options, clock: Clock) -> ReconcileObserver | None:
    """The observer that --record asks for. Raises UsageError if its folder cannot be made."""
    if not options.record:
        return None
    from manta.recording.recorder import FlightRecorder

    try:
        return FlightRecorder(Path(options.record), clock, options.record_mib * 1024 * 1024)
    except OSError as error:
        why = f"--record: cannot use the folder {options.record}: {error.strerror}"
        raise UsageError(why) from error


def assemble(manager: Manager, options: Options, platform: Platform) -> None:
    """Add the controllers and the CRD check to the manager."""
    build_controllers(manager, settings_on(platform, options.settings))
    manager.add_service("CRD check", lambda: watch_for_crds(manager.client))


def introduction(cluster: Cluster, options: Options, platform: Platform) -> str:
    """The first log line: version, API server, controllers and namespaces."""
    version = ".".join(map(str, platform.version))
    names = [name for name, enabled in CONTROLLERS if enabled(options.settings.gates)]
    return (
        f"manta {__version__} on {cluster.server} (Kubernetes {version}), for "
        f"{', '.join(names)} in {', '.join(options.namespaces) or 'all namespaces'}"
    )


def unsupported(platform: Platform, gates: FeatureGates) -> str | None:
    """Why the operator cannot run on this API server; None if it can."""
    if gates.sidecar_submitter_restart and platform.version < (1, 35):
        return (
            "feature gate SidecarSubmitterRestart needs Kubernetes 1.35 or newer, "
            f"but this server has {platform.version[0]}.{platform.version[1]}"
        )
    if gates.kubernetes_was and not platform.workloads:
        return (
            f"feature gate KubernetesWAS needs {WORKLOADS.api_version}, which this server does not serve: "
            f"use Kubernetes 1.36 with --runtime-config={WORKLOADS.api_version}=true and its gates "
            "GenericWorkload and GangScheduling, or leave the gate out"
        )
    return None


def rate_limiter(options: Options) -> RateLimiter | None:
    """A fixed rate if --qps sets one; by default a rate that adapts to the API server."""
    if options.qps > 0:
        return TokenBucket(options.qps, options.burst)
    return None if options.qps < 0 else AdaptiveRateLimiter()


def _transport(cluster: Cluster, clock: Clock) -> Any:
    from manta.kube.transport import HttpTransport

    return HttpTransport(cluster, now=clock.now)


# ── leader election ──────────────────────────────────────────────────────────────────────


def _start_election(
    manager: Manager, cluster: Cluster, options: Options, gate: WriteGate
) -> Leadership | None:
    """Run the election in a thread of its own; without election, allow writes at once."""
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
            lease=Key(namespace, LEADER_LEASE_NAME),
            identity=identity,
            on_change=on_change,
        )

    leadership = Leadership()
    manager.add_service("election", ElectionThread(connect, election, leadership).run)
    return leadership


def register_leader_metric(registry: Registry, gate: WriteGate) -> None:
    def value() -> list[tuple[tuple[str, ...], float]]:
        return [((LEADER_LEASE_NAME,), float(gate.remaining > 0))]

    registry.register(
        Computed(
            "leader_election_master_status", "1 while this replica is the leader.", ("name",), value
        )
    )


# ── process ──────────────────────────────────────────────────────────────────────────────


def _serve_pages(manager: Manager, options: Options) -> None:
    def metrics(request: HttpRequest) -> HttpResponse:
        text, content_type = manager.registry.rendered(request.headers.get("accept", ""))
        return HttpResponse(200, text.encode(), content_type=content_type)

    def ready(_: HttpRequest) -> HttpResponse:
        if manager.ready:
            return text_response(200, "ok")
        return text_response(503, "\n".join(manager.watch_errors) or "caches are being filled")

    probes: Pages = {"/healthz": ping, "/readyz": ready}
    pages: dict[Address | None, Pages] = {
        options.metrics: {"/metrics": metrics},
        options.probes: {},
    }
    if options.probes is not None:
        pages[options.probes] = {**pages.get(options.probes, {}), **probes}
    for address, served in pages.items():
        if address is not None and served:
            manager.add_service(f"pages on {address.port}", PageServer(address, served).run)


async def _stop_when(stop: asyncio.Event, manager: Manager) -> None:
    await stop.wait()
    log.info("stopping: waiting for running reconciles")
    manager.stop()


async def _unless(stop: asyncio.Event, work: Any) -> Any:
    """The result of `work`; None if the process is stopped first."""
    task, stopped = asyncio.ensure_future(work), asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait([task, stopped], return_when=asyncio.FIRST_COMPLETED)
        return task.result() if task.done() else None
    finally:
        task.cancel()
        stopped.cancel()


def configure_logs(options: Options) -> None:
    """Log as the options say. Raises UsageError if the log file cannot be written."""
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


def configure_tracing(options: Options, environment: Mapping[str, str]) -> None:
    """Send traces if the options or OTEL variables ask for it. Raises UsageError."""
    from manta.runtime import otel

    if not otel.is_wanted(environment, flag=options.tracing):
        return
    try:
        tracing.use(otel.open_tracer(__version__, SystemClock()))
    except otel.TracingError as error:
        if options.tracing:
            raise UsageError(f"--tracing: {error}") from error
        log.warning("no traces are exported: %s", error)


def _freeze_garbage_collector() -> None:
    """Objects that exist now live as long as the process: exclude them from collections."""
    gc.collect()
    gc.freeze()
