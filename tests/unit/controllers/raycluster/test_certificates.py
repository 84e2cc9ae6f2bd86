"""The operator takes only those Secrets for its own that its own Certificates name."""

from __future__ import annotations

from copy import deepcopy
from datetime import timedelta
from typing import Any

import pytest

from manta.api.ray import names
from manta.api.resources import CERTIFICATES, SECRETS
from manta.api.times import format_time
from manta.controllers.raycluster.status_events import spec_warnings
from manta.rules.settings import FeatureGates, Settings
from support.raycluster import ray_cluster
from support.raycluster_scenario import Scenario, decode

GUARDED = Settings(gates=FeatureGates(ray_cluster_mtls=True), cert_manager=True)
AUTHORITY = "ray-ca-certificate-demo"
FOREIGN = "database-password"


@pytest.fixture
def scenario() -> Scenario:
    made = Scenario(decode(ray_cluster(tlsOptions={"enabled": True})), GUARDED)
    made.settle()
    made.put(SECRETS, {"metadata": {"name": FOREIGN, "namespace": "default"}})
    return made


def owners(scenario: Scenario, secret: str) -> list[str]:
    references = scenario.objects[SECRETS, secret]["metadata"].get("ownerReferences", ())
    return [one["name"] for one in references]


def pointed_at_a_foreign_secret(certificate: dict[str, Any]) -> dict[str, Any]:
    certificate["metadata"]["annotations"].pop(names.ANNOTATION_SECRET_OWNER)
    certificate["spec"]["secretName"] = FOREIGN
    return certificate


def test_the_secrets_of_all_three_certificates_have_an_owner(scenario: Scenario) -> None:
    secrets = [one["spec"]["secretName"] for one in scenario.of("Certificate")]
    assert len(secrets) == 3
    assert all(owners(scenario, secret) for secret in secrets)


def test_a_certificate_that_is_not_renewed_in_time_is_warned_of(scenario: Scenario) -> None:
    [certificate] = [one for one in scenario.of("Certificate") if "head" in one["metadata"]["name"]]
    certificate["status"]["notAfter"] = format_time(scenario.now + timedelta(minutes=5))
    [event] = spec_warnings(scenario.snapshot())
    assert (event.type, event.reason) == ("Warning", "MTLSCertificateExpiringSoon")
    assert certificate["metadata"]["name"] in event.note


def test_a_certificate_that_someone_slipped_in_gets_no_secret(scenario: Scenario) -> None:
    slipped_in = pointed_at_a_foreign_secret(deepcopy(scenario.objects[CERTIFICATES, AUTHORITY]))
    slipped_in["metadata"] |= {"name": "slipped-in", "uid": "slipped-in"}
    scenario.objects[CERTIFICATES, "slipped-in"] = slipped_in
    scenario.settle()
    assert owners(scenario, FOREIGN) == []


def test_our_certificate_that_someone_pointed_elsewhere_gets_no_secret(scenario: Scenario) -> None:
    pointed_at_a_foreign_secret(scenario.objects[CERTIFICATES, AUTHORITY])
    scenario.settle()
    assert owners(scenario, FOREIGN) == []
