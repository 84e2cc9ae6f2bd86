"""The guide does what it says: its YAML is taken by the server, and its commands are run.

Commands run on a plane of their own with fake nodes: `manta up`, or for the page about installing the
API server alone. A block that is not run says why, above itself or in `support/guide.py`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from support import helm
from support.cluster_api import running_plane
from support.contract import EXTERNAL, served_api
from support.guide import BLOCKS, ELSEWHERE, PAGES, Block
from support.raycrds import ray_crds

ROOT = Path(__file__).parents[2]
BARE = ("install.md",)
"""Pages that begin before there is an operator."""
COLLECTIONS = {
    "RayCluster": "/apis/ray.io/v1/namespaces/default/rayclusters",
    "RayJob": "/apis/ray.io/v1/namespaces/default/rayjobs",
    "RayService": "/apis/ray.io/v1/namespaces/default/rayservices",
    "RayCronJob": "/apis/ray.io/v1/namespaces/default/raycronjobs",
}
TYPED = [one for one in BLOCKS if one.language == "console" and not one.not_run]
WRITTEN = [one for one in BLOCKS if one.language == "yaml" and not one.not_run]
VALUES = [one for one in WRITTEN if one.text.startswith("# values.yaml")]
MANIFESTS = [one for one in WRITTEN if one not in VALUES]


def test_every_block_is_of_a_kind_that_is_tested() -> None:
    """What is no YAML and no command is something to look at: it holds no prompt.

    `tests/unit/sdk/test_guide.py` runs the Python.
    """
    unknown = [
        one
        for one in BLOCKS
        if one.language not in {"yaml", "console", "python", "text", "mermaid", ""}
    ]
    assert [str(one) for one in unknown] == []
    assert [str(one) for one in TYPED if not one.commands] == []
    shown = [one for one in BLOCKS if one.language in ("text", "") and not one.not_run]
    assert [str(one) for one in shown if one.commands] == []


def test_what_is_tested_elsewhere_is_there() -> None:
    begun = {(one.page, one.text) for one in BLOCKS}
    for (page, start), proof in ELSEWHERE.items():
        assert any(page == where and text.startswith(start) for where, text in begun), start
        assert (ROOT / proof).exists(), proof


@pytest.mark.parametrize("block", MANIFESTS, ids=str)
async def test_the_server_takes_what_the_guide_writes(block: Block) -> None:
    async with served_api() as api:
        for crd in ray_crds():
            await api.made("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd)
        for document in yaml.safe_load_all(block.text):
            query = {"dryRun": "All", "fieldValidation": "Strict"}
            answer = await api.create(COLLECTIONS[document["kind"]], document, query=query)
            assert answer.status == 201, answer.message


@pytest.mark.parametrize("block", VALUES, ids=str)
def test_the_chart_takes_the_values_that_the_guide_writes(block: Block, tmp_path: Path) -> None:
    """The first line names the chart, unless it is the operator's: `# values.yaml of charts/ray-job`."""
    file = tmp_path / "values.yaml"
    file.write_text(block.text)
    _, _, chart = block.text.splitlines()[0].partition(" of ")
    assert helm.rendered("-f", file, chart=ROOT / (chart or "charts/manta"))


@pytest.fixture
def plane(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """The kubeconfig of a fresh plane that suits the page."""
    if os.environ.get(EXTERNAL):
        pytest.skip("the guide's commands run on planes of their own")
    if request.getfixturevalue("page") in BARE:
        with running_plane(tmp_path, "--fake-nodes", "2") as kubeconfig:
            yield kubeconfig
        return
    directory = tmp_path / "manta"
    manta = [sys.executable, "-m", "manta.cli.main"]
    up = [*manta, "up", "--nodes", "0", "--fake-nodes", "4", "--dir", str(directory)]
    subprocess.run(up, check=True, capture_output=True)
    try:
        yield directory / "kubeconfig"
    finally:
        subprocess.run([*manta, "down", "--dir", str(directory)], check=True, capture_output=True)


def _needed(blocks: list[Block]) -> set[str]:
    return {word for one in blocks for command in one.commands for word in command.split()[:1]}


@pytest.mark.timeout(600)
@pytest.mark.parametrize("page", [one for one in PAGES if any(b.page == one for b in TYPED)])
def test_the_commands_of_a_page_work_in_their_order(page: str, plane: Path, tmp_path: Path) -> None:
    typed = [one for one in TYPED if one.page == page]
    needed = _needed(typed)
    if "kubectl" in needed and shutil.which("kubectl") is None:
        pytest.skip("no kubectl here")
    tools = [str(Path(sys.executable).parent)]
    tools += [str(helm.binary().parent)] if "helm" in needed else []
    environment = {
        **os.environ,
        "KUBECONFIG": str(plane),
        "HOME": str(tmp_path),
        "PATH": os.pathsep.join([*tools, os.environ["PATH"]]),
    }
    for block in typed:
        for command in block.commands:
            done = subprocess.run(
                ["bash", "-euc", command],
                cwd=ROOT,
                env=environment,
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode == 0, f"{block}: {command}\n{done.stdout}{done.stderr}"
