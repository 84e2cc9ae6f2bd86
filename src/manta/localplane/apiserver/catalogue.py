"""The built-in resources: names, scopes, short names and subresources as discovery shows them."""

from __future__ import annotations

from collections.abc import Iterator

from manta.localplane.apiserver.served import READ_WRITE, Served, Subresource

_CONNECT = ("create", "get")
_ANY = ("create", "delete", "get", "patch", "update")
_STATUS = ("get", "patch", "update")


def _status(kind: str) -> Subresource:
    return Subresource("status", kind, _STATUS)


_SCALE = Subresource("scale", "Scale", _STATUS, "autoscaling", "v1")

_POD_SUBRESOURCES = (
    Subresource("attach", "PodAttachOptions", _CONNECT),
    Subresource("binding", "Binding", ("create",)),
    Subresource("ephemeralcontainers", "Pod", _STATUS),
    Subresource("eviction", "Eviction", ("create",), "policy", "v1"),
    Subresource("exec", "PodExecOptions", _CONNECT),
    Subresource("log", "Pod", ("get",)),
    Subresource("portforward", "PodPortForwardOptions", _CONNECT),
    Subresource("proxy", "PodProxyOptions", _ANY),
    Subresource("resize", "Pod", _STATUS),
    _status("Pod"),
)

_POD_FIELDS = (
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.schedulerName",
    "spec.serviceAccountName",
    "spec.hostNetwork",
    "status.phase",
    "status.podIP",
    "status.podIPs",
    "status.nominatedNodeName",
)

_EVENT_FIELDS = (
    "involvedObject.kind",
    "involvedObject.namespace",
    "involvedObject.name",
    "involvedObject.uid",
    "involvedObject.apiVersion",
    "involvedObject.resourceVersion",
    "involvedObject.fieldPath",
    "reason",
    "reportingComponent",
    "source",
    "type",
)


_NEW_EVENT_FIELDS = (
    *(name.replace("involvedObject", "regarding") for name in _EVENT_FIELDS),
    "reportingController",
)

ALL_EVENT_FIELDS = tuple(dict.fromkeys((*_EVENT_FIELDS, *_NEW_EVENT_FIELDS)))


def _core() -> Iterator[Served]:
    def core(plural: str, kind: str, *short: str, **more: object) -> Served:
        return Served("", "v1", plural, kind, short_names=short, **more)  # type: ignore[arg-type]

    everywhere = {"namespaced": False}
    yield Served("", "v1", "bindings", "Binding", verbs=("create",))
    yield core("configmaps", "ConfigMap", "cm")
    yield core(
        "endpoints",
        "Endpoints",
        "ep",
        warning="v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice",
    )
    yield core("events", "Event", "ev", fields=_EVENT_FIELDS)
    yield core("limitranges", "LimitRange", "limits")
    yield core(
        "namespaces",
        "Namespace",
        "ns",
        **everywhere,
        fields=("status.phase",),
        verbs=("create", "delete", "get", "list", "patch", "update", "watch"),
        subresources=(Subresource("finalize", "Namespace", ("update",)), _status("Namespace")),
        graceful=True,
    )
    yield core(
        "nodes",
        "Node",
        "no",
        **everywhere,
        fields=("spec.unschedulable",),
        subresources=(Subresource("proxy", "NodeProxyOptions", _ANY), _status("Node")),
    )
    yield core(
        "persistentvolumeclaims",
        "PersistentVolumeClaim",
        "pvc",
        subresources=(_status("PersistentVolumeClaim"),),
        graceful=True,
    )
    yield core(
        "persistentvolumes",
        "PersistentVolume",
        "pv",
        **everywhere,
        subresources=(_status("PersistentVolume"),),
        graceful=True,
    )
    yield core(
        "pods",
        "Pod",
        "po",
        categories=("all",),
        fields=_POD_FIELDS,
        subresources=_POD_SUBRESOURCES,
        generation=True,
        graceful=True,
    )
    yield core("podtemplates", "PodTemplate", generation=True, graceful=True)
    yield core(
        "replicationcontrollers",
        "ReplicationController",
        "rc",
        categories=("all",),
        subresources=(_SCALE, _status("ReplicationController")),
        generation=True,
        fields=("status.replicas",),
    )
    yield core(
        "resourcequotas",
        "ResourceQuota",
        "quota",
        subresources=(_status("ResourceQuota"),),
        graceful=True,
    )
    yield core("secrets", "Secret", fields=("type",))
    yield core(
        "serviceaccounts",
        "ServiceAccount",
        "sa",
        subresources=(
            Subresource("token", "TokenRequest", ("create",), "authentication.k8s.io", "v1"),
        ),
        graceful=True,
    )
    yield core(
        "services",
        "Service",
        "svc",
        categories=("all",),
        fields=("spec.clusterIP", "spec.type"),
        subresources=(Subresource("proxy", "ServiceProxyOptions", _ANY), _status("Service")),
        graceful=True,
    )


def _workloads() -> Iterator[Served]:
    def apps(plural: str, kind: str, short: str, *more: Subresource) -> Served:
        return Served(
            "apps",
            "v1",
            plural,
            kind,
            short_names=(short,),
            categories=("all",),
            subresources=(*more, _status(kind)),
            generation=True,
        )

    yield Served("apps", "v1", "controllerrevisions", "ControllerRevision")
    yield apps("daemonsets", "DaemonSet", "ds")
    yield apps("deployments", "Deployment", "deploy", _SCALE)
    yield apps("replicasets", "ReplicaSet", "rs", _SCALE)
    yield apps("statefulsets", "StatefulSet", "sts", _SCALE)
    yield Served(
        "batch",
        "v1",
        "cronjobs",
        "CronJob",
        short_names=("cj",),
        categories=("all",),
        subresources=(_status("CronJob"),),
        generation=True,
    )
    yield Served(
        "batch",
        "v1",
        "jobs",
        "Job",
        categories=("all",),
        subresources=(_status("Job"),),
        generation=True,
        fields=("status.successful",),
    )
    yield Served(
        "autoscaling",
        "v2",
        "horizontalpodautoscalers",
        "HorizontalPodAutoscaler",
        short_names=("hpa",),
        categories=("all",),
        subresources=(_status("HorizontalPodAutoscaler"),),
    )


def _cluster_services() -> Iterator[Served]:
    net = "networking.k8s.io"
    yield Served("coordination.k8s.io", "v1", "leases", "Lease")
    yield Served("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice", generation=True)
    yield Served(
        "events.k8s.io",
        "v1",
        "events",
        "Event",
        short_names=("ev",),
        fields=_NEW_EVENT_FIELDS,
        shelf="events",
    )
    yield Served(
        net,
        "v1",
        "ingresses",
        "Ingress",
        short_names=("ing",),
        subresources=(_status("Ingress"),),
        generation=True,
    )
    yield Served(net, "v1", "ingressclasses", "IngressClass", namespaced=False, generation=True)
    yield Served(
        net, "v1", "networkpolicies", "NetworkPolicy", short_names=("netpol",), generation=True
    )
    yield Served(
        "policy",
        "v1",
        "poddisruptionbudgets",
        "PodDisruptionBudget",
        short_names=("pdb",),
        subresources=(_status("PodDisruptionBudget"),),
        generation=True,
    )
    yield Served(
        "scheduling.k8s.io",
        "v1",
        "priorityclasses",
        "PriorityClass",
        namespaced=False,
        short_names=("pc",),
        generation=True,
    )
    yield Served(
        "storage.k8s.io", "v1", "storageclasses", "StorageClass", False, short_names=("sc",)
    )
    yield Served("node.k8s.io", "v1", "runtimeclasses", "RuntimeClass", namespaced=False)
    yield Served(
        "apiextensions.k8s.io",
        "v1",
        "customresourcedefinitions",
        "CustomResourceDefinition",
        namespaced=False,
        short_names=("crd", "crds"),
        categories=("api-extensions",),
        subresources=(_status("CustomResourceDefinition"),),
        generation=True,
        graceful=True,
    )


def _security() -> Iterator[Served]:
    rbac = "rbac.authorization.k8s.io"
    yield Served(rbac, "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False)
    yield Served(rbac, "v1", "clusterroles", "ClusterRole", namespaced=False)
    yield Served(rbac, "v1", "rolebindings", "RoleBinding")
    yield Served(rbac, "v1", "roles", "Role")
    for plural, kind in (
        ("selfsubjectreviews", "SelfSubjectReview"),
        ("tokenreviews", "TokenReview"),
    ):
        yield Served("authentication.k8s.io", "v1", plural, kind, False, verbs=("create",))
    for plural, kind, namespaced in (
        ("localsubjectaccessreviews", "LocalSubjectAccessReview", True),
        ("selfsubjectaccessreviews", "SelfSubjectAccessReview", False),
        ("selfsubjectrulesreviews", "SelfSubjectRulesReview", False),
        ("subjectaccessreviews", "SubjectAccessReview", False),
    ):
        yield Served("authorization.k8s.io", "v1", plural, kind, namespaced, verbs=("create",))


def builtin_resources() -> tuple[Served, ...]:
    return (*_core(), *_workloads(), *_cluster_services(), *_security())


__all__ = ["READ_WRITE", "builtin_resources"]
