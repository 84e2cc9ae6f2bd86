"""`manta status` on a Kubernetes cluster: the connection flags of every other verb."""

from __future__ import annotations

import contextlib
import io
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from manta.api.resources import Resource
from manta.cli.main import main
from support.kubectl_ray import PlaneThread, plane_thread

pytestmark = pytest.mark.timeout(60)


@pytest.fixture(scope="module")
def plane() -> Iterator[PlaneThread]:
    with tempfile.TemporaryDirectory() as folder, plane_thread(Path(folder) / "plane") as plane:
        plane.namespace("team-a")
        plane.namespace("team-b")
        yield plane


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.delenv("MANTA_DIR", raising=False)
    return tmp_path


def status(*words: str) -> tuple[int, str]:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        code = main(("status", *words))
    return code, out.getvalue()


def test_a_kubeconfig_names_the_cluster(plane: PlaneThread) -> None:
    code, text = status("--kubeconfig", str(plane.kubeconfig))
    assert code == 1, "no operator is installed there"
    assert text.startswith("server     https://127.0.0.1:")
    assert "operator   Manta is not installed" in text
    assert {"team-a", "team-b", "demo", "demo-head"} <= set(text.split())


def test_the_variable_kubeconfig_names_the_cluster(
    plane: PlaneThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(plane.kubeconfig))
    assert status()[1].startswith("server     https://127.0.0.1:")


def test_kubectls_own_file_is_used_if_no_plane_runs(plane: PlaneThread, home: Path) -> None:
    (home / ".kube").mkdir()
    (home / ".kube" / "config").write_bytes(plane.kubeconfig.read_bytes())
    assert status()[1].startswith("server     https://127.0.0.1:")


def test_a_directory_without_a_plane_is_not_replaced_by_a_cluster(
    plane: PlaneThread, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(plane.kubeconfig))
    code, text = status("--dir", str(tmp_path / "none"))
    assert (code, text.startswith("no plane runs in ")) == (1, True)


def test_a_namespace_selects_objects_and_pods(plane: PlaneThread) -> None:
    words = ("--kubeconfig", str(plane.kubeconfig), "--namespace", "team-a", "-o", "json")
    report = json.loads(status(*words)[1])
    assert report["plane"] is None
    assert {one["namespace"] for one in (*report["objects"], *report["pods"])} == {"team-a"}


def test_what_the_user_may_not_see_is_named(plane: PlaneThread) -> None:
    """A user without rights: nodes and the operator are not shown, and the reason is."""
    from manta.cli.status import of_cluster
    from manta.kube.client import Client
    from manta.kube.errors import Forbidden

    class Restricted(Client):
        async def list(self, resource: Resource, *args: Any, **options: Any) -> Any:
            if resource.kind in ("Node", "Deployment"):
                raise Forbidden(403, "Forbidden", f"{resource.plural} is forbidden")
            return await super().list(resource, *args, **options)

    client = Restricted(plane.plane.client.transport)
    report = plane.wait(of_cluster(client, "https://there", "team-a"))
    assert (report.is_well, list(report.nodes)) == (True, [])
    assert "nodes is forbidden" in report.hidden[0]
    assert "deployments is forbidden" in report.operator["state"]
    assert report.objects
