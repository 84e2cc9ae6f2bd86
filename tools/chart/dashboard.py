"""The Grafana dashboard: one line for each panel, spelt out as Grafana wants it."""

from __future__ import annotations

import json
from typing import Any, NamedTuple


class Panel(NamedTuple):
    title: str
    query: str
    legend: str = ""
    unit: str = "short"


def _p99(family: str, by: str) -> str:
    return f"histogram_quantile(0.99, sum by (le, {by}) (rate({family}_bucket[5m])))"


def _hours(what: str, by: str) -> str:
    """Each process of the operator counts while it leads: the hours are their sum."""
    return f"sum by ({by}, state) (increase(manta_cluster_{what}_hours_total[7d]))"


PANELS: tuple[Panel, ...] = (
    Panel("RayClusters", "count by (namespace) (kuberay_cluster_info)", "{{namespace}}"),
    Panel(
        "RayClusters that are not provisioned",
        'sum by (namespace) (kuberay_cluster_condition_provisioned{condition="false"})',
        "{{namespace}}",
    ),
    Panel(
        "Time until provisioned",
        "kuberay_cluster_provisioned_duration_seconds",
        "{{namespace}}/{{name}}",
        "s",
    ),
    Panel(
        "RayServices that are not ready",
        'sum by (namespace) (kuberay_service_condition_ready{condition="false"})',
        "{{namespace}}",
    ),
    Panel(
        "RayServices in an upgrade",
        'sum by (namespace) (kuberay_service_condition_upgrade_in_progress{condition="true"})',
        "{{namespace}}",
    ),
    Panel(
        "Reconciles",
        "sum by (controller, result) (rate(controller_runtime_reconcile_total[5m]))",
        "{{controller}} {{result}}",
        "ops",
    ),
    Panel(
        "Duration of a reconcile, p99",
        _p99("controller_runtime_reconcile_time_seconds", "controller"),
        "{{controller}}",
        "s",
    ),
    Panel("Keys that wait for a worker", "sum by (name) (workqueue_depth)", "{{name}}"),
    Panel(
        "Wait for a worker, p99", _p99("workqueue_queue_duration_seconds", "name"), "{{name}}", "s"
    ),
    Panel(
        "Requests to the API server",
        "sum by (verb, resource, code) (rate(manta_api_requests_total[5m]))",
        "{{verb}} {{resource}} {{code}}",
        "ops",
    ),
    Panel(
        "Duration of a request, p99",
        _p99("rest_client_request_duration_seconds", "verb"),
        "{{verb}}",
        "s",
    ),
    Panel("Objects in caches", "sum by (resource) (manta_cache_objects)", "{{resource}}"),
    Panel("Memory", "process_resident_memory_bytes", "{{pod}}", "bytes"),
    Panel("CPU", "rate(process_cpu_seconds_total[5m])", "{{pod}}", "short"),
    Panel("Who leads", "leader_election_master_status", "{{pod}}"),
    Panel("GPU-hours of 7 days", _hours("gpu", "namespace"), "{{namespace}} {{state}}"),
    Panel("CPU-hours of 7 days", _hours("cpu", "namespace"), "{{namespace}} {{state}}"),
    Panel(
        "Idle GPUs",
        'sum by (namespace) (rate(manta_cluster_gpu_hours_total{state="idle"}[1h]) * 3600)',
        "{{namespace}}",
    ),
    Panel("GPU-hours of 7 days by user", _hours("gpu", "user"), "{{user}} {{state}}"),
    Panel("CPU-hours of 7 days by user", _hours("cpu", "user"), "{{user}} {{state}}"),
    Panel(
        "GPU-hours of 7 days by cluster",
        _hours("gpu", "namespace, cluster"),
        "{{namespace}}/{{cluster}} {{state}}",
    ),
)


def dashboard() -> str:
    body = {
        "title": "Manta",
        "uid": "manta-operator",
        "tags": ["ray"],
        "schemaVersion": 39,
        "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "templating": {"list": [_source()]},
        "panels": [_panel(number, panel) for number, panel in enumerate(PANELS)],
    }
    return json.dumps(body, indent=1) + "\n"


def _source() -> dict[str, Any]:
    return {"name": "source", "label": "Prometheus", "type": "datasource", "query": "prometheus"}


def _panel(number: int, panel: Panel) -> dict[str, Any]:
    source = {"type": "prometheus", "uid": "${source}"}
    return {
        "id": number + 1,
        "type": "timeseries",
        "title": panel.title,
        "datasource": source,
        "gridPos": {"h": 8, "w": 8, "x": number % 3 * 8, "y": number // 3 * 8},
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "targets": [
            {
                "refId": "A",
                "datasource": source,
                "expr": panel.query,
                "legendFormat": panel.legend,
            }
        ],
    }
