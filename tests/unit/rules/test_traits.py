"""What a spec means: versions, addresses, names."""

from __future__ import annotations

from typing import Any

import pytest

from manta.rules.traits import (
    Creator,
    StorageBackend,
    creator,
    head_fqdn,
    head_port,
    is_managed_elsewhere,
    keeps_job_records,
    parse_ray_version,
    ray_version_at_least,
    service_account_name,
    storage_backend,
    storage_namespace,
)
from support.raycluster import ray_cluster, template
from support.raycluster_scenario import decode


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("2.53.0", (2, 53, 0)),
        ("v2.9", (2, 9, 0)),
        ("2.53.0rc1", (2, 53, 0)),
        ("2.53.0-py311", (2, 53, 0)),
        ("2.53.0+local", (2, 53, 0)),
        ("2.53.0.dev0", (2, 53, 0)),
        ("2.53.0.nightly", (2, 53, 0)),
        ("3", (3, 0, 0)),
        ("", None),
        ("nightly", None),
        ("2.x", None),
    ],
)
def test_versions_are_read_as_users_write_them(
    text: str, version: tuple[int, int, int] | None
) -> None:
    assert parse_ray_version(text) == version


def test_an_unknown_version_is_never_late_enough() -> None:
    assert not ray_version_at_least("nightly", (0, 0, 0))
    assert ray_version_at_least("2.53.1", (2, 53, 0))


def test_c79_the_cluster_domain_ends_the_heads_name() -> None:
    assert head_fqdn(decode(ray_cluster()), "app.pre") == "demo-head-svc.default.svc.app.pre"


def test_the_port_is_the_users_or_redis_old_one() -> None:
    assert head_port(decode(ray_cluster()).spec) == "6379"
    assert head_port(decode(ray_cluster(head={"rayStartParams": {"port": "7"}})).spec) == "7"


@pytest.mark.parametrize(
    ("manager", "elsewhere"),
    [(None, False), ("ray.io/kuberay-operator", False), ("kueue.x-k8s.io/multikueue", True)],
)
def test_c94_another_manager_is_recognised(manager: str | None, elsewhere: bool) -> None:
    assert is_managed_elsewhere(decode(ray_cluster(managedBy=manager)).spec.managed_by) is elsewhere


def test_the_creator_is_read_from_a_label_and_unknown_means_the_user() -> None:
    for kind, wanted in (
        ("RayJob", Creator.JOB),
        ("RayService", Creator.SERVICE),
        ("X", Creator.CLUSTER),
    ):
        cluster = decode(ray_cluster(labels={"ray.io/originated-from-crd": kind}))
        assert creator(cluster.metadata) is wanted


def test_fault_tolerance_is_switched_on_by_options_or_by_annotation() -> None:
    assert storage_backend(decode(ray_cluster())) is StorageBackend.NONE
    annotated = decode(ray_cluster(annotations={"ray.io/ft-enabled": "True"}))
    assert storage_backend(annotated) is StorageBackend.REDIS
    rocks = decode(ray_cluster(gcsFaultToleranceOptions={"backend": "rocksdb"}))
    assert storage_backend(rocks) is StorageBackend.ROCKSDB


def test_c69_the_storage_namespace_is_the_uid_unless_chosen() -> None:
    assert storage_namespace(decode(ray_cluster())) == "c1"
    key = "ray.io/external-storage-namespace"
    assert storage_namespace(decode(ray_cluster(annotations={key: "a"}))) == "a"
    chosen = {"externalStorageNamespace": "b"}
    assert storage_namespace(decode(ray_cluster(gcsFaultToleranceOptions=chosen))) == "b"


def test_a_long_account_of_the_user_keeps_its_name() -> None:
    long = "x" * 60
    cluster = decode(ray_cluster(head={"template": template(serviceAccountName=long)}))
    assert service_account_name(cluster) == long
    assert service_account_name(decode(ray_cluster("a" * 53))) == "a" * 50


@pytest.mark.parametrize(
    ("options", "kept"),
    [
        ({"redisAddress": "redis:6379"}, True),
        ({"backend": "redis", "redisAddress": "redis:6379"}, True),
        ({"redisPassword": {"value": "x"}}, False),
        ({}, False),
        ({"backend": "rocksdb"}, True),
        (None, False),
    ],
)
def test_redis_without_an_address_keeps_no_records_of_jobs(
    options: dict[str, object] | None, kept: bool
) -> None:
    fields: dict[str, Any] = {} if options is None else {"gcsFaultToleranceOptions": options}
    assert keeps_job_records(decode(ray_cluster(**fields))) is kept


def test_fault_tolerance_by_annotation_keeps_records_of_jobs() -> None:
    annotated = ray_cluster(annotations={"ray.io/ft-enabled": "true"})
    assert keeps_job_records(decode(annotated))
