"""History in the chart: off unless asked for; the server may ask who a caller is, and little else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from manta.cli.main import parse
from support.helm import CHART, helm, rendered
from unit.charts.test_rendering import of, understood

Json = dict[str, Any]
NAME = "manta-history"
ON = ("--set", "history.store=s3://b/ray,history.server.enabled=true")


def objects(*options: str) -> dict[str, Json]:
    """The server's, by kind."""
    found = rendered("--set", "installCRDs=false", *ON, *options)
    return {one["kind"]: one for one in found if one["metadata"]["name"] == NAME}


def pod(*options: str) -> Json:
    return dict(objects(*options)["Deployment"]["spec"]["template"]["spec"])


def test_nothing_of_it_is_there_unless_asked_for() -> None:
    assert "history" not in str(rendered("--set", "installCRDs=false"))


@pytest.mark.parametrize("by_file", ["false", "true"])
@pytest.mark.parametrize("command", ["operator", "webhook"])
def test_the_sidecars_run_from_the_operators_image(
    tmp_path: Path, by_file: str, command: str
) -> None:
    values = f"history.store=s3://b,configuration.enabled={by_file},webhook.enabled=true"
    values += ",image.repository=r.example/m,image.tag=v1"
    settings = understood(of("", "--set", values), tmp_path, command).settings
    assert (settings.history_store, settings.history_image) == ("s3://b", "r.example/m:v1")


def test_the_server_may_review_and_see_namespaces_and_nothing_else() -> None:
    rules = objects()["ClusterRole"]["rules"]
    assert [(rule["resources"], rule["verbs"]) for rule in rules] == [
        (["tokenreviews"], ["create"]),
        (["subjectaccessreviews"], ["create"]),
        (["namespaces"], ["get"]),
    ]


def test_the_server_reads_its_arguments() -> None:
    values = "history.server.goneNamespacesGroup=g,history.server.tlsSecret=t,"
    values += r"history.server.dashboards=https://h/\{namespace\}/\{name\}"
    [container] = pod("--set", values)["containers"]
    args = parse([*container["command"][1:], *container["args"]])
    assert (args.store, args.kubernetes, args.gone_namespaces_group) == ("s3://b/ray", True, "g")
    assert args.dashboards == "https://h/{namespace}/{name}"
    assert str(args.tls_cert) == "/etc/manta/tls/tls.crt"


def test_credentials_are_a_reference_to_a_secret() -> None:
    [container] = pod("--set", "history.server.credentialsSecret=keys")["containers"]
    assert container["envFrom"] == [{"secretRef": {"name": "keys"}}]


def test_a_claim_is_mounted_where_the_store_is() -> None:
    values = "history.store=file:///history,history.server.existingClaim=kept"
    spec = pod("--set", values)
    assert {"name": "store", "mountPath": "/history"} in spec["containers"][0]["volumeMounts"]
    claim = {"name": "store", "persistentVolumeClaim": {"claimName": "kept"}}
    assert claim in spec["volumes"]


def test_retention_is_a_cron_job_that_deletes_what_the_values_say() -> None:
    values = "history.store=s3://b/ray,history.retention.olderThan=90d,"
    values += "history.retention.largerThan=500Gi,history.retention.credentialsSecret=keys"
    found = rendered("--set", "installCRDs=false", "--set", values)
    [job] = [one for one in found if one["kind"] == "CronJob"]
    spec = job["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    [container] = spec["containers"]
    args = parse([*container["command"][1:], *container["args"]])
    assert (args.action, args.store, args.all_namespaces) == ("prune", "s3://b/ray", True)
    assert (args.older_than, args.larger_than, args.keep_at_least) == ("90d", "500Gi", "1d")
    assert args.dry_run is False
    assert container["envFrom"] == [{"secretRef": {"name": "keys"}}]
    assert spec["automountServiceAccountToken"] is False
    roles = [one for one in found if one["kind"].endswith("Binding")]
    assert job["metadata"]["name"] not in str(roles)


def test_nothing_is_deleted_unless_asked_for() -> None:
    found = rendered("--set", "installCRDs=false", *ON)
    assert "CronJob" not in {one["kind"] for one in found}


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ("history.server.enabled=true", "history.store is missing"),
        ("history.retention.olderThan=30d", "history.retention: history.store is missing"),
        ("history.store=s3://b,history.retention.olderThan=soon", "olderThan"),
        ("history.store=bucket", "history"),
        ("history.store=s3://key:secret@b", "history"),
        ("history.store=s3://b,history.server.existingClaim=x", "must be file:///PATH"),
    ],
)
def test_values_that_make_no_sense_are_refused(values: str, words: str) -> None:
    refused = helm("template", "manta", CHART, "--set", values, check=False)
    assert refused.returncode
    assert words in refused.stderr
