"""Write the generated parts of charts/manta: permissions, CRDs, and the schema of its values.

python -m tools.chart.generate [--check]
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from manta.api.crds import CRD_NAMES, crd_json
from manta.cli.installation import RULES

CHART = Path(__file__).parents[2] / "charts/manta"


def rules() -> str:
    head = "# Written by `make chart` from src/manta/cli/installation.py. Do not edit.\n"
    return head + str(
        yaml.safe_dump(list(RULES), sort_keys=False, default_flow_style=None, width=200)
    )


def values_schema() -> str:
    """The types of values.yaml, so that a misspelt value is an error and not a surprise."""
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    schema = {"$schema": "http://json-schema.org/draft-07/schema#", **_schema(values)}
    schema["properties"]["featureGates"]["items"] = {
        "type": "object",
        "required": ["name", "enabled"],
        "properties": {"name": {"type": "string"}, "enabled": {"type": "boolean"}},
    }
    schema["properties"]["global"] = {"type": "object"}
    return json.dumps(schema, indent=2) + "\n"


FREE_FORM = frozenset(
    (
        "resources",
        "podSecurityContext",
        "securityContext",
        "livenessProbe",
        "readinessProbe",
        "labels",
    )
)
"""Values that are passed on to Kubernetes as they are."""


def _schema(value: Any, name: str = "") -> dict[str, Any]:
    if isinstance(value, Mapping) and value and name not in FREE_FORM:
        properties = {key: _schema(item, key) for key, item in value.items()}
        return {"type": "object", "properties": properties, "additionalProperties": False}
    kinds = {bool: "boolean", int: "integer", float: "number", str: "string", list: "array"}
    return {"type": kinds.get(type(value), "object")}


def files() -> dict[Path, str]:
    made = {CHART / "rbac/rules.yaml": rules(), CHART / "values.schema.json": values_schema()}
    for name in CRD_NAMES:
        made[CHART / "crds-json" / f"{name}.json"] = crd_json(name).decode()
    return made


def main(arguments: list[str]) -> int:
    stale = [p for p, text in files().items() if not p.exists() or p.read_text() != text]
    for path in stale:
        print(path)
        if "--check" not in arguments:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(files()[path])
    return 1 if stale and "--check" in arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
