"""Write docs/reference/*.md from the code.

    python -m tools.docs.generate [--check]

With --check nothing is written, and the exit code says whether the pages are up to date.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from manta.api.crds import crd_documents
from manta.cli.main import VERBS, module_of
from manta.cli.operator_options import OPTIONS
from manta.controllers.raycluster.events import EVENTS as CLUSTER_EVENTS
from manta.controllers.rayjob.events import EVENTS as JOB_EVENTS
from manta.controllers.rayservice.events import EVENTS as SERVICE_EVENTS
from manta.rules.settings import FeatureGates

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
    parts = [f"# Events\n\n{WRITTEN}"]
    tables = (
        ("RayCluster", CLUSTER_EVENTS),
        ("RayJob", JOB_EVENTS),
        ("RayService", SERVICE_EVENTS),
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


def commands_page() -> str:
    rows = [f"| `manta {verb}` | {about} |" for verb, about in VERBS.items() if module_of(verb)]
    return (
        f"# Commands\n\n{WRITTEN}| Command | What it does |\n|---|---|\n" + "\n".join(rows) + "\n"
    )


PAGES = {
    "fields.md": fields_page,
    "operator.md": operator_page,
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
    for path in stale:
        print(path)
    return 1 if stale and "--check" in arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
