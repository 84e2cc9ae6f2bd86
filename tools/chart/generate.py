"""Write the parts of charts/manta that follow from the code: permissions, schema, dashboard, page.

The CRDs are a link to those of the package.

python -m tools.chart.generate [--check]
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import yaml

from manta.cli.permissions import LEASE_PERMISSIONS, PERMISSIONS, default_features
from tools.chart.dashboard import dashboard
from tools.chart.values import page_of, schema_of

CHART = Path(__file__).parents[2] / "charts/manta"


def rules() -> str:
    """By the setting or feature gate that needs them."""
    table: dict[str, Any] = {
        "always": [one.rule for one in PERMISSIONS if not one.when],
        "leader": [one.rule for one in LEASE_PERMISSIONS],
        "onByDefault": sorted(default_features() & {one.when for one in PERMISSIONS}),
        "when": {},
    }
    for one in PERMISSIONS:
        if one.when:
            table["when"].setdefault(one.when, []).append(one.rule)
    head = "# Written by `make chart` from src/manta/cli/permissions.py. Do not edit.\n"
    body: str = yaml.safe_dump(table, sort_keys=False, default_flow_style=None, width=200)
    return head + body


def page(values: str) -> str:
    head = "# The chart's values\n\n<!-- Written by `make chart`. Do not edit. -->\n\n"
    return f"{head}How to install: [docs/guide/install.md](../../docs/guide/install.md).\n\n{page_of(values)}"


def files() -> dict[Path, str]:
    values = (CHART / "values.yaml").read_text()
    return {
        CHART / "rbac/rules.yaml": rules(),
        CHART / "values.schema.json": schema_of(values),
        CHART / "monitoring/dashboard.json": dashboard(),
        CHART / "README.md": page(values),
    }


def stale() -> list[Path]:
    return [path for path, text in files().items() if not path.exists() or path.read_text() != text]


def main(arguments: list[str]) -> int:
    texts, old = files(), stale()
    for path in old:
        print(path)
        if "--check" not in arguments:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(texts[path])
    return 1 if old and "--check" in arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
