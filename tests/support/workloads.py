"""The kinds of gang scheduling that Kubernetes 1.36 serves, as CustomResourceDefinitions of the embedded server."""

from __future__ import annotations

from typing import Any

from manta.api.resources import WORKLOAD_POD_GROUPS, WORKLOADS, Resource


def workload_crds() -> list[dict[str, Any]]:
    """Of Workload and PodGroup, whose specs are immutable."""
    return [_definition(WORKLOADS), _definition(WORKLOAD_POD_GROUPS)]


def _definition(resource: Resource) -> dict[str, Any]:
    spec = {
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": True,
        "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "is immutable"}],
    }
    schema = {"type": "object", "properties": {"spec": spec}}
    version = {"name": resource.version, "served": True, "storage": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": resource.group_resource,
            "annotations": {"api-approved.kubernetes.io": "unapproved, a test"},
        },
        "spec": {
            "group": resource.group,
            "scope": "Namespaced",
            "names": {"plural": resource.plural, "kind": resource.kind},
            "versions": [{**version, "schema": {"openAPIV3Schema": schema}}],
        },
    }
