"""Write docs/reference/*.md and the table of docs/guide/migrating.md from the code.

    python -m tools.docs.generate [--check]

With --check nothing is written, and the exit code says whether the pages are up to date.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from random import Random
from typing import Any

from manta.api.crds import crd_documents
from manta.cli.main import VERBS, module_of
from manta.cli.operator import _register_leading, assemble, new_manager
from manta.cli.operator_options import OPTIONS, Options
from manta.cli.operator_platform import Platform
from manta.controllers.raycluster.events import EVENTS as CLUSTER_EVENTS
from manta.controllers.raycronjob.events import REASONS as CRON_EVENTS
from manta.controllers.rayjob.events import EVENTS as JOB_EVENTS
from manta.controllers.rayservice.events import EVENTS as SERVICE_EVENTS
from manta.kube.client import Client
from manta.kube.cluster import Cluster
from manta.kube.transport import HttpTransport
from manta.rules.settings import FeatureGates, Settings
from manta.runtime.clock import SystemClock
from manta.runtime.failures import CONDITION as RECONCILE_ERROR
from manta.runtime.failures import REASON as RECONCILE_FAILED
from manta.runtime.gate import WriteGate
from manta.runtime.gauges import register_process
from manta.runtime.metrics import ApiMetrics, Metric, Registry
from tools.docs import differences
from tools.docs.words import (
    COMMAND_ENVIRONMENT,
    FINALIZERS,
    OPERATOR_ENVIRONMENT,
    RAY_ENVIRONMENT,
    SCHEDULING_GATES,
    SET_BY_USERS,
    WRITTEN_BY_US,
)

OUTPUT = Path(__file__).parents[2] / "docs/reference"
WRITTEN = "<!-- Written by `make docs` from the code. Do not edit. -->\n\n"


# ── fields ───────────────────────────────────────────────────────────────────────────────


def fields_page() -> str:
    parts = [f"# Fields of the Ray kinds\n\n{WRITTEN}"]
    parts.append("Fields inside Pod templates and Services are Kubernetes' own and not listed.\n")
    for document in crd_documents():
        [stored] = [one for one in document["spec"]["versions"] if one["storage"]]
        schema = stored["schema"]["openAPIV3Schema"]["properties"]
        parts.append(f"\n## {document['spec']['names']['kind']}\n")
        for section in ("spec", "status"):
            parts.append(
                f"\n### {section}\n\n| Field | Type | Default | Meaning |\n|---|---|---|---|\n"
            )
            parts.extend(_rows(schema[section], section))
    return "".join(parts)


def _rows(schema: dict[str, Any], path: str) -> Iterator[str]:
    for name, field in sorted(schema.get("properties", {}).items()):
        if not field.get("description"):
            continue  # Kubernetes' own
        where = f"{path}.{name}"
        default = field.get("default", "")
        yield f"| `{where}` | {_type(field)} | {default!s} | {field['description']} |\n"
        inner = field.get("items", field)
        if isinstance(inner, dict) and inner.get("properties"):
            suffix = "[]" if "items" in field else ""
            yield from _rows(inner, where + suffix)


def _type(field: dict[str, Any]) -> str:
    if field.get("x-kubernetes-int-or-string"):
        return "integer or string"
    if values := field.get("enum"):
        return " \\| ".join(f"`{value}`" for value in values)
    return str(field.get("type", "any"))


# ── the operator and the command ─────────────────────────────────────────────────────────


def operator_page() -> str:
    rows = [
        f"| `--{option.flag}` | `{option.default}` | {option.about} | {option.key or '-'} |"
        for option in OPTIONS
    ]
    gates = [
        f"| {_camel(gate.name)} | {'on' if gate.default else 'off'} |"
        for gate in dataclasses.fields(FeatureGates)
    ]
    return (
        f"# The operator\n\n{WRITTEN}## Flags and configuration keys\n\n"
        "| Flag | Default | Meaning | Key in `--config` |\n|---|---|---|---|\n"
        + "\n".join(rows)
        + "\n\n## Feature gates\n\n| Gate | Default |\n|---|---|\n"
        + "\n".join(gates)
        + "\n"
    )


def _camel(name: str) -> str:
    words = {"gcs": "GCS", "mtls": "MTLS", "was": "WAS"}
    return "".join(words.get(part, part.capitalize()) for part in name.split("_"))


def events_page() -> str:
    parts = [
        f"# Events\n\n{WRITTEN}## All kinds\n\n| Reason | Type | Why |\n|---|---|---|\n",
        f"| {RECONCILE_FAILED} | Warning | a reconcile raised; condition `{RECONCILE_ERROR}` |\n\n",
    ]
    tables = (
        ("RayCluster", CLUSTER_EVENTS),
        ("RayJob", JOB_EVENTS),
        ("RayService", SERVICE_EVENTS),
        ("RayCronJob", CRON_EVENTS),
    )
    for kind, table in tables:
        parts.append(f"## {kind}\n\n| Reason | Type | Why |\n|---|---|---|\n")
        told = {
            (reason, type_): cause
            for cause, reasons in table.items()
            for reason, type_ in (
                (reasons.done, reasons.done_type),
                (reasons.failed, "Warning"),
                (reasons.taken, "Warning"),
            )
            if reason
        }
        parts.extend(
            f"| {reason} | {type_} | {cause} |\n" for (reason, type_), cause in sorted(told.items())
        )
        parts.append("\n")
    return "".join(parts)


# ── names and what they mean ─────────────────────────────────────────────────────────────


def annotations_page() -> str:
    parts = [f"# Annotations, finalizers and gates\n\n{WRITTEN}"]
    tables = (
        ("Yours to set", "On", SET_BY_USERS),
        ("Written by the operator", "On", WRITTEN_BY_US),
        ("Finalizers", "Of", FINALIZERS),
        ("Scheduling gates", "Of", SCHEDULING_GATES),
    )
    for title, where, table in tables:
        parts.append(f"## {title}\n\n| Name | {where} | Meaning |\n|---|---|---|\n")
        parts.extend(f"| `{name}` | {on} | {about} |\n" for name, (on, about) in table.items())
        parts.append("\n")
    return "".join(parts).rstrip() + "\n"


def environment_page() -> str:
    operator = [
        f"| `{name}` | {f'`{default}`' if default else '-'} | {about} |\n"
        for name, (default, about) in OPERATOR_ENVIRONMENT.items()
    ]
    parts = [
        f"# Environment variables\n\n{WRITTEN}## Of the operator and the webhook\n\n",
        "| Variable | Default | Meaning |\n|---|---|---|\n",
        *operator,
    ]
    for title, table in (
        ("Of Ray's containers", RAY_ENVIRONMENT),
        ("Of the command `manta`", COMMAND_ENVIRONMENT),
    ):
        parts.append(f"\n## {title}\n\n| Variable | Meaning |\n|---|---|\n")
        parts.extend(f"| `{name}` | {about} |\n" for name, about in table.items())
    return "".join(parts)


def metrics_page() -> str:
    rows = [
        f"| `{name}` | {one.type} | {', '.join(one.labels) or '-'} | {one.about} |\n"
        for name, one in sorted(operator_metrics().items())
    ]
    return (
        f"# Metrics\n\n{WRITTEN}Of `/metrics` of the operator. Those that begin with `kuberay_` are kept with"
        " `--enable-metrics`.\n\n| Name | Type | Labels | Meaning |\n|---|---|---|---|\n"
        + "".join(rows)
    )


def operator_metrics() -> Mapping[str, Metric]:
    """Of a whole operator, which asks nobody anything: it is only put together."""
    options, registry, clock = (
        Options(Settings(enable_metrics=True), None, None),
        Registry(),
        SystemClock(),
    )
    client = Client(HttpTransport(Cluster("https://nowhere.example")))
    manager = new_manager(client, clock, Random(1), options, registry)
    assemble(manager, options, Platform((1, 35), openshift=False, cert_manager=False))
    ApiMetrics(registry, "https://nowhere.example")
    register_process(registry)
    _register_leading(registry, WriteGate(clock))
    return registry.families


def commands_page() -> str:
    rows = [f"| `manta {verb}` | {about} |" for verb, about in VERBS.items() if module_of(verb)]
    return (
        f"# Commands\n\n{WRITTEN}| Command | What it does |\n|---|---|\n" + "\n".join(rows) + "\n"
    )


PAGES = {
    "fields.md": fields_page,
    "operator.md": operator_page,
    "annotations.md": annotations_page,
    "environment.md": environment_page,
    "metrics.md": metrics_page,
    "events.md": events_page,
    "commands.md": commands_page,
}


def main(arguments: list[str]) -> int:
    stale = []
    for name, write in PAGES.items():
        path, text = OUTPUT / name, write()
        if path.exists() and path.read_text() == text:
            continue
        stale.append(path)
        if "--check" not in arguments:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    page, text = differences.PAGE, differences.PAGE.read_text()
    if differences.written(text) != text:
        stale.append(page)
        if "--check" not in arguments:
            page.write_text(differences.written(text))
    for path in stale:
        print(path)
    return 1 if stale and "--check" in arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
