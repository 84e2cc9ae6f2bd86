"""What the console shares with `manta plan` and `manta apply`."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from manta.api.meta import Key
from manta.cli.apply import apply_document, server_side_apply
from manta.cli.output.plan_report import describe
from manta.cli.plan import previewer_of
from manta.cli.server.discovery import Kinds
from manta.cli.server.manifests import Document, parse_manifests
from manta.cli.server.operator_settings import find_origins, origin_for
from manta.console.action_executor import Commands
from manta.console.pages.forecast import Forecast
from manta.kube.client import Client
from manta.operator.plan_check import checked_preview
from manta.operator.platform import detect, settings_on
from manta.reconcile.preview import Preview
from manta.runtime.clock import SystemClock


def commands(args: argparse.Namespace) -> Commands:
    """With the settings of the operator that manages the namespace, as `manta plan` finds them."""

    async def plan(
        client: Client, kind: str, key: Key, manifest: Mapping[str, Any] | None
    ) -> Forecast:
        origin = origin_for(await find_origins(args, client), key.namespace)
        settings = settings_on(await detect(client), origin.options.settings)

        async def preview(
            kind: str, key: Key, manifest: Mapping[str, Any] | None
        ) -> Preview | None:
            return await previewer_of(kind)(client, settings, SystemClock(), key, manifest)

        found = await checked_preview(client, preview, kind, key, manifest)
        return forecast_of(kind, key, found)

    return Commands(plan, apply, dry_apply, read)


def forecast_of(kind: str, key: Key, found: Preview | None) -> Forecast:
    first, *lines = describe(kind, key, found)
    problems = () if found is None else found.violations
    invalid = tuple(f"  invalid  {one}" for one in problems)
    return Forecast(
        first, tuple(one.strip() for one in lines if one not in invalid), tuple(problems)
    )


async def apply(client: Client, document: Mapping[str, Any]) -> str:
    return await apply_document(client, await Kinds.discover(client), dict(document))


async def dry_apply(
    client: Client, document: Mapping[str, Any]
) -> tuple[Document | None, Document]:
    kinds = await Kinds.discover(client)
    resource, key = kinds.locate(dict(document), "default")
    advice = "press Edit on the page of the object: an edit also changes fields of others"
    return await server_side_apply(
        client, resource, key, dict(document), dry_run=True, conflict_advice=advice
    )


def read(text: str) -> list[Document]:
    return list(parse_manifests(text.encode(), "the text"))
