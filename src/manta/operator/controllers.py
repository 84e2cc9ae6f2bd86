"""The table of controllers, and how the operator builds them."""

from __future__ import annotations

import importlib
import importlib.util
import logging
from collections.abc import Callable, Sequence

from manta.client.dashboard import open_dashboard
from manta.rules.settings import FeatureGates, Settings
from manta.runtime.manager import Manager

log = logging.getLogger(__name__)

CONTROLLERS: Sequence[tuple[str, Callable[[FeatureGates], bool]]] = (
    ("raycluster", lambda _gates: True),
    ("rayjob", lambda _gates: True),
    ("rayservice", lambda _gates: True),
    ("raycronjob", lambda gates: gates.ray_cron_job),
    ("idlesuspend", lambda _gates: True),
)
"""Packages under `manta.controllers`, and whether the gates enable them. The `controller.py` of each
has `build(manager, settings)`."""

WITH_DASHBOARD = frozenset(("raycluster", "rayjob", "rayservice", "idlesuspend"))
"""Controllers whose `build` takes a dashboard client as third argument."""


def build_controllers(manager: Manager, settings: Settings) -> None:
    dashboard = open_dashboard(manager.client, settings)
    for name, enabled in CONTROLLERS:
        module = f"manta.controllers.{name}.controller"
        if not enabled(settings.gates):
            log.info("controller %s is disabled by its feature gate", name)
        elif not _exists(f"manta.controllers.{name}", module):
            log.warning("controller %s is not in this build", name)
        else:
            dashboards = (dashboard,) if name in WITH_DASHBOARD else ()
            importlib.import_module(module).build(manager, settings, *dashboards)


def _exists(*modules: str) -> bool:
    """Whether all modules exist. A package must come before its modules."""
    return all(importlib.util.find_spec(module) is not None for module in modules)
