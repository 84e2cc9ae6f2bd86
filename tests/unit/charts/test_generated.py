"""What the chart takes from the code is what the code says. Needs no Helm."""

from __future__ import annotations

import json
import re
from random import Random

import pytest
import yaml
from tools.chart.generate import CHART, stale

from manta.operator.options import Options
from manta.operator.platform import Platform
from manta.operator.process import assemble, new_manager, register_leader_metric
from manta.rules.settings import Settings
from manta.runtime.controller_metrics import ApiMetrics
from manta.runtime.gate import WriteGate
from manta.runtime.gauges import register_process
from manta.runtime.metrics import Registry
from support.plane import memory_plane

ALERTS = yaml.safe_load((CHART / "monitoring/alerts.yaml").read_text())["groups"]
DASHBOARD = json.loads((CHART / "monitoring/dashboard.json").read_text())
RULES = [rule for group in ALERTS for rule in group["rules"]]
QUERIES = [rule["expr"] for rule in RULES] + [
    target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]
]
METRIC = re.compile(r"\b[a-z]+_[a-z_]+\b")
FUNCTIONS = {"histogram_quantile"}
TARGETS = {"le", "pod"}
"""Labels that Prometheus itself adds."""


def test_the_generated_files_are_up_to_date() -> None:
    assert stale() == [], "run `make chart` and commit the files"


@pytest.fixture
async def families() -> dict[str, set[str]]:
    """The labels of every metric of a whole operator."""
    options = Options(Settings(enable_metrics=True), None, None)
    registry = Registry()
    async with memory_plane() as plane:
        manager = new_manager(plane.client, plane.clock, Random(1), options, registry)
        assemble(manager, options, Platform((1, 35), openshift=False, cert_manager=False))
        ApiMetrics(registry, "https://server")
        register_process(registry)
        register_leader_metric(registry, WriteGate(plane.clock))
        return {name: set(one.labels) for name, one in registry.families.items()}


def test_every_query_asks_for_metrics_and_labels_that_the_operator_has(
    families: dict[str, set[str]],
) -> None:
    for query in QUERIES:
        metrics = set(METRIC.findall(query)) - FUNCTIONS
        assert metrics, query
        [name] = {one.removesuffix("_bucket") for one in metrics}
        assert name in families, query
        asked = [one for part in re.findall(r"by \(([^)]*)\)", query) for one in part.split(", ")]
        asked += re.findall(r"(\w+)=", query)
        assert set(asked) <= families[name] | TARGETS, query


def test_every_label_that_an_alert_or_a_legend_prints_is_there(
    families: dict[str, set[str]],
) -> None:
    texts = [(rule["expr"], rule["annotations"]["summary"]) for rule in RULES]
    for panel in DASHBOARD["panels"]:
        texts += [(one["expr"], one["legendFormat"]) for one in panel["targets"]]
    for query, text in texts:
        [name] = {one.removesuffix("_bucket") for one in METRIC.findall(query)} - FUNCTIONS
        printed = re.findall(r"\$labels\.(\w+)", text) + re.findall(r"\{\{(\w+)\}\}", text)
        kept = re.search(r"by \(([^)]*)\)", query)
        there = set(kept[1].split(", ")) if kept else families[name] | TARGETS
        assert set(printed) <= there, (query, text)


def test_every_value_is_explained() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())

    def silent(node: dict[str, object], path: str) -> list[str]:
        inner = node.get("properties")
        if isinstance(inner, dict):
            return [name for key, one in inner.items() for name in silent(one, f"{path}.{key}")]
        return [] if node.get("description") else [path]

    assert silent(schema, "") == []


def test_the_dashboard_shows_hours_by_namespace_user_and_cluster() -> None:
    hours = [one for one in QUERIES if "gpu_hours_total[7d]" in one]
    by = [re.findall(r"by \(([^)]*), state\)", one) for one in hours]
    assert by == [["namespace"], ["user"], ["namespace, cluster"]]
