"""External access to the dashboard: an Ingress, or a Route on OpenShift."""

from __future__ import annotations

from manta.api.core import Pod
from manta.api.ray import names
from manta.api.ray.cluster import IngressOptions, IngressPathType, RayCluster
from manta.api.ray.naming import check_label, check_name, check_route_name
from manta.api.well_known import ANNOTATION_INGRESS_CLASS, LABEL_APP_CREATED_BY, LABEL_APP_NAME
from manta.manifests.containers import Json, copy_json
from manta.manifests.head_target import head_ports
from manta.manifests.ownership import owned_by
from manta.manifests.propagated_metadata import propagated_metadata
from manta.rules.traits import head_service_name


def ingress_name(cluster: RayCluster) -> str:
    return check_name(f"{cluster.metadata.name}-head-ingress")


def build_ingress(cluster: RayCluster, head: Pod | None = None) -> Json:
    """The Ingress. The annotations of the RayCluster are copied, for Ingress controllers, except the class,
    which has a field of its own."""
    annotations = _annotations(cluster)
    class_name = annotations.pop(ANNOTATION_INGRESS_CLASS, None)
    options = cluster.spec.head_group_spec.ingress_options or IngressOptions()
    spec: Json = {"rules": [_rule(cluster, options, head)]}
    if class_name is not None:
        spec["ingressClassName"] = class_name
    if options.tls:
        spec["tls"] = copy_json(options.tls)
    meta = {
        "name": ingress_name(cluster),
        "namespace": cluster.metadata.namespace,
        "labels": _labels(cluster),
    }
    return owned_by(
        cluster,
        {
            "apiVersion": "networking.k8s.io/v1",
            "kind": "Ingress",
            "metadata": propagated_metadata(meta, annotations, {}),
            "spec": spec,
        },
    )


def _annotations(cluster: RayCluster) -> dict[str, str]:
    """All but our own notes, which change while the cluster runs."""
    given = cluster.metadata.annotations.items()
    notes = (*names.IDLE_MARKS, names.ANNOTATION_USAGE)
    return {name: value for name, value in given if name not in notes}


def _dashboard_port(cluster: RayCluster, head: Pod | None) -> int:
    return head_ports(cluster, head).get(names.PORT_NAME_DASHBOARD, names.PORT_DASHBOARD)


def _rule(cluster: RayCluster, options: IngressOptions, head: Pod | None) -> Json:
    port = {"number": _dashboard_port(cluster, head)}
    service = {"name": head_service_name(cluster), "port": port}
    path = {
        "path": options.path or "/",
        "pathType": str(options.path_type or IngressPathType.PREFIX),
        "backend": {"service": service},
    }
    rule: Json = {"http": {"paths": [path]}}
    return {"host": options.host, **rule} if options.host else rule


def route_name(cluster: RayCluster) -> str:
    return check_route_name(f"{cluster.metadata.name}-head-route", cluster.metadata.namespace)


def build_route(cluster: RayCluster, head: Pod | None = None) -> Json:
    target = {"kind": "Service", "name": head_service_name(cluster), "weight": 100}
    meta = {
        "name": route_name(cluster),
        "namespace": cluster.metadata.namespace,
        "labels": _labels(cluster),
    }
    annotations = _annotations(cluster)
    return owned_by(
        cluster,
        {
            "apiVersion": "route.openshift.io/v1",
            "kind": "Route",
            "metadata": propagated_metadata(meta, annotations, {}),
            "spec": {
                "to": target,
                "port": {"targetPort": _dashboard_port(cluster, head)},
                "wildcardPolicy": "None",
            },
        },
    )


def _labels(cluster: RayCluster) -> dict[str, str]:
    return {
        names.LABEL_CLUSTER: cluster.metadata.name,
        names.LABEL_IDENTIFIER: check_label(f"{cluster.metadata.name}-head"),
        LABEL_APP_NAME: names.APPLICATION_NAME,
        LABEL_APP_CREATED_BY: names.OPERATOR_NAME,
    }
