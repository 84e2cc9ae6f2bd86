"""The image's Dockerfile and its release, read: what they must and must not do.

`tests/cluster/test_image.py` runs the steps.
"""

from __future__ import annotations

import re

import yaml
from tools.image.lock import main as lock_is_stale

from manta.install.operator_manifests import NAME
from support.dockerfile import IGNORED, ROOT, STEPS, sources, stages

RELEASE = (ROOT / ".github/workflows/release.yml").read_text()


def test_nothing_of_the_build_stage_is_left_but_what_is_copied() -> None:
    build, final = stages()
    assert build[0][1].endswith("AS build")
    copied = [rest for keyword, rest in final if keyword in ("COPY", "ADD")]
    assert copied == ["--from=build /opt/manta /opt/manta"]


def test_the_image_runs_as_a_user_who_owns_nothing() -> None:
    _, final = stages()
    [user] = [rest for keyword, rest in final if keyword == "USER"]
    assert user == "65532:65532"
    after = [keyword for keyword, _ in final[[one for one, _ in final].index("USER") :]]
    assert not {"RUN", "COPY", "ADD"} & set(after)


def test_libraries_are_installed_by_hash_and_never_compiled() -> None:
    installs = [
        one
        for keyword, rest in STEPS
        if keyword == "RUN"
        for one in rest.split("&&")
        if "pip" in one and " install " in one
    ]
    assert len(installs) == 3
    for one in installs:
        assert "--no-deps" in one
        assert "--no-index" in one or ("--require-hashes" in one and "--only-binary :all:" in one)


def test_no_step_fetches_anything_else_or_installs_a_compiler() -> None:
    for keyword, rest in STEPS:
        assert keyword != "ADD"
        assert not re.search(r"apt|apk|curl|wget|git |gcc|build-essential|https?://", rest), rest


def test_the_base_can_be_replaced_and_is_slim_and_has_a_version() -> None:
    [base] = [rest for keyword, rest in STEPS if keyword == "ARG" and "PYTHON_IMAGE" in rest]
    assert re.fullmatch(r"PYTHON_IMAGE=python:3\.\d+-slim-[a-z]+", base)
    assert [rest.split()[0] for keyword, rest in STEPS if keyword == "FROM"] == [
        "${PYTHON_IMAGE}"
    ] * 2


def test_the_chart_starts_what_the_image_starts() -> None:
    assert ("ENTRYPOINT", f'["{NAME}"]') in STEPS
    assert ("CMD", '["operator"]') in STEPS


def test_everything_that_is_copied_reaches_the_builder() -> None:
    assert "*" in IGNORED
    build, _ = stages()
    copied = {
        one
        for keyword, rest in build
        if keyword == "COPY"
        for one in rest.split()[:-1]
        if not one.startswith("-")
    }
    assert copied == set(sources())
    assert all((ROOT / one).exists() for one in copied)


def test_the_images_lock_is_a_part_of_the_lock() -> None:
    assert lock_is_stale(["--check"]) == 0, "run `python -m tools.image.lock`"


def test_a_release_carries_its_bill_of_materials_and_its_provenance() -> None:
    jobs = yaml.safe_load(RELEASE)["jobs"]
    [build] = [one for one in jobs["image"]["steps"] if one.get("id") == "build"]
    assert build["with"]["sbom"] is True
    assert build["with"]["provenance"] == "mode=max"
    assert "rewrite-timestamp=true" in build["with"]["outputs"]
    uses = [one.get("uses", "") for one in jobs["image"]["steps"]]
    assert any(one.startswith("actions/attest-build-provenance@") for one in uses)


def test_every_action_of_the_release_is_named_by_a_commit() -> None:
    """A tag can be moved by whoever takes over its repository; these run with our credentials."""
    used = re.findall(r"uses: (.*)", RELEASE)
    assert used
    for one in used:
        assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}  # v\d+\.\d+\.\d+", one), one
