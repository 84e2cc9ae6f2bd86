"""Liveness and readiness probes of a Ray container, unless the user's template has its own.

Ray 2.53 and later report the health of raylet and GCS on one HTTP path, which needs no tool in the image. Older
versions need a command; each request in it times out before the probe does (C83).
"""

from __future__ import annotations

from manta.api.numbers import parse_int32
from manta.api.ray import names
from manta.manifests.containers import Json, find_port
from manta.manifests.ray_start import Params
from manta.rules.traits import ray_version_at_least

UNIFIED_HEALTH_SINCE = (2, 53, 0)
SERVE_FAILURES = 2
"""One late response on a busy machine must not take the only worker out of service."""


def add_probes(
    container: Json, params: Params, *, head: bool, serving: bool, ray_version: str
) -> None:
    """Add missing probes. `serving`: a worker of a RayService, ready only when its Serve proxy is."""
    check = _health_check(params, head=head, ray_version=ray_version)
    if container.get("livenessProbe") is None:
        container["livenessProbe"] = {**check, **_timing(head=head, delay=30, failures=120)}
    if container.get("readinessProbe") is None:
        failures = 10
        if serving and not head:
            check, failures = _serve_check(container), SERVE_FAILURES
        container["readinessProbe"] = {**check, **_timing(head=head, delay=10, failures=failures)}


def _timeout(*, head: bool) -> int:
    return 5 if head else 2


def _timing(*, head: bool, delay: int, failures: int) -> Json:
    return {
        "initialDelaySeconds": delay,
        "timeoutSeconds": _timeout(head=head),
        "periodSeconds": 5,
        "successThreshold": 1,
        "failureThreshold": failures,
    }


def _health_check(params: Params, *, head: bool, ray_version: str) -> Json:
    if ray_version_at_least(ray_version, UNIFIED_HEALTH_SINCE):
        return {"httpGet": {"path": "/api/healthz", "port": _agent_port(params)}}
    paths = [f"{_agent_port(params)}/api/local_raylet_healthz"]
    if head:
        port = _port(params, "dashboard-port", names.PORT_DASHBOARD)
        paths.append(f"{port}/api/gcs_healthz")
    return _exec(paths, timeout=_timeout(head=head))


def _serve_check(container: Json) -> Json:
    """Probes only the Serve proxy, so that neither a raylet that waits for a lost head (C53) nor an image
    without wget takes a worker out of service."""
    port = find_port(container, names.PORT_NAME_SERVE, names.PORT_SERVE)
    return {"httpGet": {"path": "/-/healthz", "port": port}}


def _agent_port(params: Params) -> int:
    return _port(params, "dashboard-agent-listen-port", names.PORT_DASHBOARD_AGENT)


def _port(params: Params, name: str, default: int) -> int:
    """The port; the default if it is no number (say, a shell expression), as in KubeRay."""
    port = parse_int32(params.get(name, ""))
    return default if port is None else port


def _exec(paths: list[str], *, timeout: int) -> Json:
    """A command that needs all paths to answer. It ends before the kubelet's timeout, which would leave its
    processes behind."""
    each = max(timeout // len(paths), 1)
    wget = f"wget --tries 1 -T {each} -q -O- http://localhost:"
    return {
        "exec": {
            "command": ["bash", "-c", " && ".join(f"{wget}{path} | grep success" for path in paths)]
        }
    }
