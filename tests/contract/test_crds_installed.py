"""`manta crds | kubectl apply --server-side -f -`, as the operator's own advice says."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from manta.api.crds import CRD_NAMES

pytestmark = pytest.mark.skipif(shutil.which("kubectl") is None, reason="no kubectl here")

CONTAINER = {"name": "ray", "image": "rayproject/ray:2.60.0"}
TEMPLATE = {
    "entrypoint": "python -c 1",
    "rayClusterSpec": {"headGroupSpec": {"template": {"spec": {"containers": [CONTAINER]}}}},
}


class Kubectl:
    def __init__(self, kubeconfig: Path, home: Path) -> None:
        self._environment = {**os.environ, "KUBECONFIG": str(kubeconfig), "HOME": str(home)}

    def __call__(self, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["kubectl", *arguments],
            input=stdin,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=90,
            check=False,
        )


def a_cron(**spec: Any) -> str:
    return json.dumps(
        {
            "apiVersion": "ray.io/v1",
            "kind": "RayCronJob",
            "metadata": {"name": "demo", "namespace": "default"},
            "spec": {"schedule": "@hourly", "jobTemplate": TEMPLATE, **spec},
        }
    )


@pytest.fixture
def kubectl(kubeconfig: Path, tmp_path: Path) -> Iterator[Kubectl]:
    run = Kubectl(kubeconfig, tmp_path)
    yield run
    run("delete", "crd", "--ignore-not-found", "--timeout=60s", *CRD_NAMES)


def test_the_printed_crds_are_installed_and_their_schemas_hold(kubectl: Kubectl) -> None:
    printed = subprocess.run(
        [sys.executable, "-m", "manta.cli.main", "crds"], capture_output=True, text=True, check=True
    )
    applied = kubectl("apply", "--server-side", "-f", "-", stdin=printed.stdout)
    assert applied.stdout.count("serverside-applied") == len(CRD_NAMES), applied.stderr
    ready = kubectl("wait", "--for=condition=established", "crd", *CRD_NAMES, "--timeout=60s")
    assert ready.stdout.count("condition met") == len(CRD_NAMES), ready.stderr

    assert "created" in kubectl("create", "-f", "-", stdin=a_cron()).stdout
    columns = kubectl("get", "raycronjobs", "demo").stdout.splitlines()[0].split()
    assert columns == ["NAME", "SCHEDULE", "TIMEZONE", "LAST", "SCHEDULE", "AGE", "SUSPEND"]
    refused = kubectl("apply", "-f", "-", stdin=a_cron(successfulJobsHistoryLimit=-1))
    assert "successfulJobsHistoryLimit" in refused.stderr
    assert "should be greater than or equal to 0" in refused.stderr
