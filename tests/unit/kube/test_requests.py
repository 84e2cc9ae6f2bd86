"""Paths, queries and bodies of the verbs."""

from __future__ import annotations

import pytest

from manta.api.meta import Key
from manta.api.resources import CLUSTER_ROLES, NODES, PODS
from manta.kube import requests


def test_paths_of_namespaced_and_of_cluster_scoped_objects() -> None:
    assert requests.object_path(PODS, Key("ns", "a"), "log") == "/api/v1/namespaces/ns/pods/a/log"
    assert requests.object_path(NODES, Key("", "n")) == "/api/v1/nodes/n"
    assert requests.path_of(PODS) == "/api/v1/pods"


def test_names_that_are_no_dns_names_are_encoded() -> None:
    path = requests.object_path(CLUSTER_ROLES, Key("", "system:größe 100%"))
    assert path.endswith("/clusterroles/system:gr%C3%B6%C3%9Fe%20100%25")


@pytest.mark.parametrize("key", [Key("ns", ""), Key("", "a")])
def test_half_a_key_never_addresses_a_collection(key: Key) -> None:
    with pytest.raises(ValueError, match="pods"):
        requests.object_path(PODS, key)


def test_parameters_that_say_nothing_are_not_sent() -> None:
    query = requests.query_of(
        labelSelector="", limit=None, watch=True, force=False, timeoutSeconds=5
    )
    assert query == (("watch", "true"), ("timeoutSeconds", "5"))


def test_a_streaming_list_names_the_match_that_servers_demand() -> None:
    query = dict(
        requests.watch_query(
            labels="a=b", fields="", resource_version="", initial_events=True, timeout_seconds=60
        )
    )
    assert query == {
        "watch": "true",
        "allowWatchBookmarks": "true",
        "labelSelector": "a=b",
        "resourceVersionMatch": "NotOlderThan",
        "sendInitialEvents": "true",
        "timeoutSeconds": "60",
    }


def test_delete_options_carry_only_what_was_given() -> None:
    plain = requests.delete_options(
        uid=None, resource_version=None, propagation="Background", grace_seconds=None
    )
    assert plain == {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"}
    exact = requests.delete_options(
        uid="u", resource_version="5", propagation="Foreground", grace_seconds=0
    )
    assert exact["preconditions"] == {"uid": "u", "resourceVersion": "5"}
    assert exact["gracePeriodSeconds"] == 0
