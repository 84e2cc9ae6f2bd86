"""RayServices as objects and as snapshots, for tests that need no server."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import msgspec

from manta.api.core import (
    Container,
    ContainerPort,
    ContainerStatus,
    Pod,
    PodCondition,
    PodSpec,
    PodStatus,
)
from manta.api.meta import Condition, ObjectMeta, Uid
from manta.api.ray import names
from manta.api.ray.cluster import RayCluster, RayClusterStatus
from manta.api.ray.service import (
    AppStatus,
    RayService,
    RayServiceSpec,
    RayServiceStatuses,
    ServeSubmission,
)
from manta.controllers.rayservice.facts.serve import desired_serve
from manta.controllers.rayservice.plan import plan
from manta.controllers.rayservice.snapshot import (
    ClusterView,
    DashboardReply,
    ServiceSnapshot,
)
from manta.controllers.rayservice.status import next_status
from manta.manifests.service_cluster import build_service_cluster
from manta.reconcile.outcome import UNTRIED, Outcome
from manta.reconcile.plan import Plan
from manta.rules.serve_config import config_hash, parse_serve_config
from manta.rules.settings import Settings
from manta.rules.validation.violation import Violation
from support.raycluster import NAMESPACE, ray_cluster

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
CONFIG = "applications:\n  - name: app\n    import_path: demo.app\n"


# ── objects ──────────────────────────────────────────────────────────────────────────────


def cluster_config(image: str = "rayproject/ray:2.60.0", **spec: Any) -> dict[str, Any]:
    """A cluster spec; another image makes it another spec."""
    config: dict[str, Any] = ray_cluster(**spec)["spec"]
    config["headGroupSpec"]["template"]["spec"]["containers"][0]["image"] = image
    return config


def scaled_config(image: str = "rayproject/ray:2.60.0", **spec: Any) -> dict[str, Any]:
    return cluster_config(image, enableInTreeAutoscaling=True, **spec)


def ray_service(name: str = "demo", *, annotations: Any = None, **spec: Any) -> dict[str, Any]:
    body = {"serveConfigV2": CONFIG, "rayClusterConfig": cluster_config(), **spec}
    meta: dict[str, Any] = {"name": name, "namespace": NAMESPACE}
    meta |= {"annotations": annotations} if annotations else {}
    return {"apiVersion": "ray.io/v1", "kind": "RayService", "metadata": meta, "spec": body}


def incremental(step: int = 25, surge: int = 50, interval: int = 10) -> dict[str, Any]:
    options = {
        "stepSizePercent": step,
        "maxSurgePercent": surge,
        "intervalSeconds": interval,
        "gatewayClassName": "manta",
    }
    return {"type": "NewClusterWithIncrementalUpgrade", "clusterUpgradeOptions": options}


# ── snapshots ────────────────────────────────────────────────────────────────────────────


def a_service(status: dict[str, Any] | None = None, **spec: Any) -> RayService:
    return RayService(
        metadata=ObjectMeta(
            name="demo",
            namespace=NAMESPACE,
            uid=Uid("service-uid"),
            generation=1,
            finalizers=(names.FINALIZER_RAY_SERVICE,),
            annotations=spec.pop("annotations", {}),
        ),
        spec=msgspec.convert(ray_service(**spec)["spec"], RayServiceSpec),
        status=msgspec.convert(status or {}, RayServiceStatuses),
    )


def a_cluster(name: str, annotations: dict[str, str] | None = None, **spec: Any) -> RayCluster:
    """As a RayService with this spec creates it."""
    service = a_service(**spec)
    raw = ray_service(**spec)["spec"]["rayClusterConfig"]
    document = build_service_cluster(service, raw, name, Settings().version)
    document["metadata"] |= {"uid": f"{name}-uid", "resourceVersion": "7"}
    document["metadata"]["annotations"] |= annotations or {}
    ready = Condition(type="HeadPodReady", status="True")
    cluster = msgspec.convert(document, RayCluster)
    return msgspec.structs.replace(cluster, status=RayClusterStatus(conditions=(ready,)))


def a_pod(name: str, *, head: bool = False, serves: bool = True, ready: bool = True) -> Pod:
    labels = {
        names.LABEL_NODE_TYPE: names.NODE_HEAD if head else names.NODE_WORKER,
        names.LABEL_SERVE: names.SERVE_TRUE if serves else names.SERVE_FALSE,
    }
    status = PodStatus(
        phase="Running",
        pod_ip="10.0.0.1",
        conditions=(PodCondition(type="Ready", status="True" if ready else "False"),),
        container_statuses=(ContainerStatus(name="ray"),),
    )
    meta = ObjectMeta(name=name, namespace=NAMESPACE, uid=Uid(f"{name}-uid"), labels=labels)
    return Pod(metadata=meta, status=status)


def listening(port: int) -> Pod:
    """A head whose Serve listens here."""
    ray = Container(name="ray-head", ports=(ContainerPort(name="serve", container_port=port),))
    return msgspec.structs.replace(a_pod("head", head=True), spec=PodSpec(containers=(ray,)))


def running(*applications: str) -> DashboardReply:
    return DashboardReply({name: AppStatus(status="RUNNING") for name in applications or ("app",)})


def a_view(name: str, cluster: RayCluster | None = None, **facts: Any) -> ClusterView:
    """A cluster that serves, unless the facts say otherwise."""
    head = a_pod(f"{name}-head", head=True)
    base: dict[str, Any] = {
        "head_pod": head,
        "pods": (head, a_pod(f"{name}-worker")),
        "answer": running(),
        "proxy_healthy": True,
    }
    return ClusterView(cluster or a_cluster(name), **{**base, **facts})


def with_submission(
    snapshot: ServiceSnapshot, view: ClusterView, percent: int | None = None
) -> ClusterView:
    """The same cluster, with a record that its config was submitted."""
    desired = desired_serve(snapshot, view, percent)
    config = msgspec.json.encode(desired.config).decode()
    given = ServeSubmission(
        config_hash=config_hash(desired.document), head=view.head, config=config
    )
    return replace(view, submission=given)


def a_snapshot(
    status: dict[str, Any] | None = None, *, spec: dict[str, Any] | None = None, **facts: Any
) -> ServiceSnapshot:
    """A snapshot at NOW; facts override."""
    service = a_service(status, **(spec or {}))
    raw = ray_service(**(spec or {}))["spec"]
    config = parse_serve_config(service.spec.serve_config_v2)
    base: dict[str, Any] = {
        "settings": Settings(),
        "now": NOW,
        "seed": 7,
        "cluster_spec": raw["rayClusterConfig"],
        "serve_config": {} if isinstance(config, Violation) else config,
    }
    views = [one for one in (facts.get("active"), facts.get("pending")) if one is not None]
    base["clusters"] = tuple(one.cluster for one in views)
    return ServiceSnapshot(service, **{**base, **facts})


def serving(**facts: Any) -> ServiceSnapshot:
    """One healthy active cluster `demo-a`."""
    spec, status = facts.pop("spec", None), facts.pop("status", {})
    body = {"activeServiceStatus": {"rayClusterName": "demo-a"}, **status}
    made_of = {key: value for key, value in (spec or {}).items() if key != "annotations"}
    facts.setdefault("active", a_view("demo-a", a_cluster("demo-a", **made_of)))
    snapshot = a_snapshot(body, spec=spec, **facts)
    if snapshot.active is not None and not snapshot.active.submitted:
        snapshot = replace(snapshot, active=with_submission(snapshot, snapshot.active))
    return snapshot


def upgrading(**facts: Any) -> ServiceSnapshot:
    """`demo-a` serves, and `demo-b` of a newer spec is pending."""
    newer = {"rayClusterConfig": cluster_config("rayproject/ray:2.61.0")}
    spec = {**newer, **facts.pop("spec", {})}
    status = {
        "activeServiceStatus": {"rayClusterName": "demo-a"},
        "pendingServiceStatus": {"rayClusterName": "demo-b"},
        **facts.pop("status", {}),
    }
    made_of = {key: value for key, value in spec.items() if key == "rayClusterConfig"}
    facts.setdefault("active", a_view("demo-a"))
    facts.setdefault("pending", a_view("demo-b", a_cluster("demo-b", **made_of)))
    return a_snapshot(status, spec=spec, **facts)


def planned(snapshot: ServiceSnapshot) -> Plan:
    return plan(snapshot).plan


def status_after(snapshot: ServiceSnapshot, outcome: Outcome = UNTRIED) -> RayServiceStatuses:
    return next_status(snapshot, plan(snapshot), outcome)
