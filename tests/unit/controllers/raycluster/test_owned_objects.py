"""Services, Ingress, RBAC, Secret and claim: created once, corrected, objects of others left alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from manta.api.resources import (
    INGRESSES,
    PERSISTENT_VOLUME_CLAIMS,
    ROLE_BINDINGS,
    ROLES,
    SECRETS,
    SERVICE_ACCOUNTS,
    SERVICES,
)
from manta.api.well_known import ANNOTATION_INGRESS_CLASS
from manta.controllers.raycluster.events import Cause
from manta.controllers.raycluster.status_events import spec_warnings
from manta.kube.errors import ApiError
from manta.reconcile.actions import Create, Patch
from manta.rules.settings import FeatureGates, Settings
from support.raycluster import container, group, ray_cluster, template
from support.raycluster_scenario import Scenario, decode

NOTE = "manta.ray.io/passed-on"
"""Where an object notes which of its keys the user asked for."""


def settled(settings: Settings | None = None, **spec: Any) -> Scenario:
    scenario = Scenario(decode(ray_cluster(**spec)), settings or Settings())
    scenario.settle()
    return scenario


def causes(scenario: Scenario) -> list[Any]:
    return [action.cause for action in scenario.plan().actions]


def corrected(scenario: Scenario) -> None:
    """The drift is corrected in one round, and then nothing more happens."""
    assert scenario.plan().actions
    scenario.reconcile()
    assert scenario.plan().actions == ()


def service(scenario: Scenario) -> dict[str, Any]:
    return scenario.objects[SERVICES, "demo-head-svc"]


# ── Services ─────────────────────────────────────────────────────────────────────────────


def test_c90_a_plain_cluster_has_one_service_with_few_ports() -> None:
    scenario = settled()
    assert [one["metadata"]["name"] for one in scenario.of("Service")] == ["demo-head-svc"]
    assert len(service(scenario)["spec"]["ports"]) <= 8


def test_c80_workers_find_a_head_that_is_not_ready_yet() -> None:
    spec = service(settled())["spec"]
    assert spec["clusterIP"] == "None"
    assert spec["publishNotReadyAddresses"] is True


def test_a_changed_selector_is_corrected() -> None:
    scenario = settled()
    service(scenario)["spec"]["selector"] = {"ray.io/cluster": "other", "foreign": "key"}
    corrected(scenario)
    assert service(scenario)["spec"]["selector"]["ray.io/cluster"] == "demo"
    assert "foreign" not in service(scenario)["spec"]["selector"]


def test_a_lost_port_comes_back_and_a_foreign_one_stays_with_its_node_port() -> None:
    scenario = settled(head={"serviceType": "NodePort"})
    ports = service(scenario)["spec"]["ports"]
    ports[0]["nodePort"] = 30000
    service(scenario)["spec"]["ports"] = [
        ports[0],
        {"name": "mine", "port": 1, "targetPort": 1, "nodePort": 30001, "protocol": "TCP"},
    ]
    corrected(scenario)
    after = {one["name"]: one for one in service(scenario)["spec"]["ports"]}
    assert after["mine"]["nodePort"] == 30001
    assert after[ports[0]["name"]]["nodePort"] == 30000
    assert set(after) == {"mine", "client", "dashboard", "gcs-server", "metrics", "serve"}


def test_foreign_labels_and_annotations_stay_and_ours_come_back() -> None:
    scenario = settled(headServiceAnnotations={"a": "b"})
    meta = service(scenario)["metadata"]
    meta["labels"] = {"foreign": "yes"}
    meta["annotations"] = {"other": "x"}
    corrected(scenario)
    meta = service(scenario)["metadata"]
    assert meta["labels"]["foreign"] == "yes"
    assert meta["labels"]["ray.io/cluster"] == "demo"
    assert meta["annotations"] == {"other": "x", "a": "b", NOTE: "a"}


def test_a_new_annotation_in_the_spec_reaches_the_service() -> None:
    scenario = settled()
    scenario.set_spec(ray_cluster(headServiceAnnotations={"new": "one"}))
    corrected(scenario)
    assert service(scenario)["metadata"]["annotations"] == {"new": "one", NOTE: "new"}


def test_what_the_spec_no_longer_asks_for_goes_and_what_others_added_stays() -> None:
    custom = {"metadata": {"labels": {"team": "a", "floor": "2"}}}
    scenario = settled(headServiceAnnotations={"a": "1", "b": "2"}, head={"headService": custom})
    service(scenario)["metadata"]["annotations"]["other"] = "x"
    custom = {"metadata": {"labels": {"team": "a"}}}
    scenario.set_spec(ray_cluster(headServiceAnnotations={"a": "1"}, head={"headService": custom}))
    corrected(scenario)
    meta = service(scenario)["metadata"]
    assert meta["annotations"] == {"a": "1", "other": "x", NOTE: "a,label:team"}
    assert meta["labels"]["team"] == "a"
    assert "floor" not in meta["labels"]
    scenario.set_spec(ray_cluster())
    corrected(scenario)
    meta = service(scenario)["metadata"]
    assert meta["annotations"] == {"other": "x"}
    assert "team" not in meta["labels"]


def test_an_object_without_a_note_is_not_written_for_the_note_alone() -> None:
    scenario = settled(headServiceAnnotations={"a": "1"})
    del service(scenario)["metadata"]["annotations"][NOTE]
    assert scenario.plan().actions == ()


def test_c47_what_cannot_be_changed_is_never_tried() -> None:
    scenario = settled()
    scenario.set_spec(ray_cluster(head={"serviceType": "NodePort"}))
    assert causes(scenario) == []  # headless for life
    scenario = settled(head={"serviceType": "NodePort"})
    scenario.set_spec(ray_cluster())
    assert causes(scenario) == []  # and never without an address again


def test_a_type_that_can_be_changed_is() -> None:
    scenario = settled(head={"serviceType": "NodePort"})
    scenario.set_spec(ray_cluster(head={"serviceType": "LoadBalancer"}))
    corrected(scenario)
    assert service(scenario)["spec"]["type"] == "LoadBalancer"


def test_a_service_that_nobody_owns_is_used_as_it_is() -> None:
    scenario = settled()
    del service(scenario)["metadata"]["ownerReferences"]
    service(scenario)["spec"]["selector"] = {"own": "idea"}
    assert causes(scenario) == []


def test_c75_a_service_of_an_earlier_object_is_waited_for() -> None:
    scenario = settled()
    service(scenario)["metadata"]["ownerReferences"][0]["uid"] = "earlier"
    plan = scenario.plan()
    assert plan.actions == ()
    assert plan.wait is not None
    assert "earlier RayCluster" in plan.wait.why


def test_a_service_of_somebody_else_is_tried_so_that_the_refusal_is_seen() -> None:
    scenario = settled()
    service(scenario)["metadata"]["ownerReferences"][0].update(uid="x", kind="Other")
    assert causes(scenario) == [Cause.HEAD_SERVICE]


def test_c47_a_failing_serve_service_stops_nothing_else() -> None:
    annotations = {"ray.io/enable-serve-service": "true"}
    scenario = Scenario(decode(ray_cluster(annotations=annotations)))

    def no_serve(action: Any) -> Exception | None:
        refused = action.cause == Cause.SERVE_SERVICE
        return ApiError(422, "Invalid", "no") if refused else None

    scenario.reconcile(no_serve)
    assert len(scenario.pods) == 2


def test_a_failing_head_service_stops_the_pods() -> None:
    scenario = Scenario(decode(ray_cluster()))
    scenario.reconcile(lambda action: ApiError(422, "Invalid", "no"))
    assert scenario.pods == {}


def test_no_serve_service_without_a_serve_port() -> None:
    ports = [{"name": "dashboard", "containerPort": 8265}]
    head = {"template": template(container(ports=ports))}
    scenario = settled(annotations={"ray.io/enable-serve-service": "true"}, head=head)
    assert [one["metadata"]["name"] for one in scenario.of("Service")] == ["demo-head-svc"]


def test_a_head_template_that_renames_its_labels_is_still_found() -> None:
    labels = {
        "app.kubernetes.io/name": "a",
        "app.kubernetes.io/created-by": "b",
        "ray.io/identifier": "c",
    }
    head = {"template": {"metadata": {"labels": labels}, "spec": {"containers": [container()]}}}
    scenario = settled(head=head)
    selector = service(scenario)["spec"]["selector"]
    assert selector.items() <= scenario.heads()[0]["metadata"]["labels"].items()


# ── RBAC ─────────────────────────────────────────────────────────────────────────────────


def test_the_autoscaler_gets_its_account_role_and_binding_before_the_head() -> None:
    scenario = Scenario(decode(ray_cluster(enableInTreeAutoscaling=True)))
    stages = [[one.cause for one in stage.actions] for stage in scenario.plan().stages]
    first = {Cause.AUTOSCALER_ACCOUNT, Cause.AUTOSCALER_ROLE, Cause.AUTOSCALER_BINDING}
    assert set(stages[0]) == {*first, Cause.HEAD_SERVICE}
    assert stages[1] == [Cause.NO_HEAD]


def test_changed_rules_and_subjects_are_corrected() -> None:
    scenario = settled(enableInTreeAutoscaling=True)
    scenario.objects[ROLES, "demo"]["rules"] = None
    scenario.objects[ROLE_BINDINGS, "demo"]["subjects"] = []
    corrected(scenario)
    assert len(scenario.objects[ROLES, "demo"]["rules"]) == 3
    assert scenario.objects[ROLE_BINDINGS, "demo"]["subjects"][0]["name"] == "demo"


def test_rules_and_subjects_that_the_user_added_stay() -> None:
    """R21."""
    scenario = settled(enableInTreeAutoscaling=True)
    role, binding = scenario.objects[ROLES, "demo"], scenario.objects[ROLE_BINDINGS, "demo"]
    rule = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}
    subject = {"kind": "User", "name": "ann", "apiGroup": "rbac.authorization.k8s.io"}
    role["rules"].append(rule)
    binding["subjects"].append(subject)
    assert causes(scenario) == []
    needed = role["rules"].pop(0)
    binding["subjects"].pop(0)
    scenario.settle()
    assert rule in scenario.objects[ROLES, "demo"]["rules"]
    assert needed in scenario.objects[ROLES, "demo"]["rules"]
    subjects = scenario.objects[ROLE_BINDINGS, "demo"]["subjects"]
    assert [one["name"] for one in subjects] == ["ann", "demo"]


@pytest.mark.parametrize(
    ("rules", "is_enough"),
    [
        ([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}], True),
        (
            [
                {
                    "apiGroups": ["", "ray.io"],
                    "resources": ["pods", "pods/resize", "rayclusters"],
                    "verbs": ["get", "list", "watch", "patch"],
                    "resourceNames": ["one"],
                }
            ],
            False,
        ),
    ],
    ids=["everything", "only-one-object"],
)
def test_a_role_of_other_words_is_enough_if_it_allows_as_much(
    rules: list[dict[str, Any]], is_enough: bool
) -> None:
    """R21."""
    scenario = settled(enableInTreeAutoscaling=True)
    scenario.objects[ROLES, "demo"]["rules"] = rules
    assert (causes(scenario) == []) is is_enough


def test_a_binding_to_another_role_is_made_again() -> None:
    scenario = settled(enableInTreeAutoscaling=True)
    scenario.objects[ROLE_BINDINGS, "demo"]["roleRef"]["name"] = "admin"
    scenario.settle()
    assert scenario.objects[ROLE_BINDINGS, "demo"]["roleRef"]["name"] == "demo"


def test_c76_the_users_own_account_is_bound_but_never_made_or_owned() -> None:
    head = {"template": template(serviceAccountName="mine")}
    scenario = Scenario(decode(ray_cluster(enableInTreeAutoscaling=True, head=head)))
    scenario.put(SERVICE_ACCOUNTS, {"kind": "ServiceAccount", "metadata": {"name": "mine"}})
    scenario.settle()
    assert scenario.of("ServiceAccount")[0]["metadata"].get("ownerReferences") is None
    assert scenario.objects[ROLE_BINDINGS, "demo"]["subjects"][0]["name"] == "mine"
    assert scenario.heads()[0]["spec"]["serviceAccountName"] == "mine"


def test_c76_an_account_that_another_cluster_owns_may_still_be_named() -> None:
    head = {"template": template(serviceAccountName="mine")}
    scenario = Scenario(decode(ray_cluster(enableInTreeAutoscaling=True, head=head)))
    owner = {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "name": "b",
        "uid": "b",
        "controller": True,
    }
    meta = {"name": "mine", "ownerReferences": [owner]}
    scenario.put(SERVICE_ACCOUNTS, {"kind": "ServiceAccount", "metadata": meta})
    assert Cause.AUTOSCALER_ACCOUNT not in causes(scenario)


def test_c76_a_missing_account_of_the_user_is_reported_and_waited_for() -> None:
    head = {"template": template(serviceAccountName="mine")}
    scenario = Scenario(decode(ray_cluster(enableInTreeAutoscaling=True, head=head)))
    scenario.reconcile()
    assert scenario.pods == {}
    [event] = spec_warnings(scenario.snapshot())
    assert event.reason == "AutoscalerServiceAccountNotFound"
    assert "mine" in str(scenario.cluster.status.conditions)


# ── Ingress ──────────────────────────────────────────────────────────────────────────────


def test_c85_a_changed_ingress_is_corrected_and_a_chosen_class_adopted() -> None:
    scenario = settled(head={"enableIngress": True})
    ingress = scenario.objects[INGRESSES, "demo-head-ingress"]
    ingress["spec"]["ingressClassName"] = "default-of-the-cluster"
    assert causes(scenario) == []
    ingress["spec"]["rules"] = []
    corrected(scenario)
    assert scenario.objects[INGRESSES, "demo-head-ingress"]["spec"]["rules"]


def test_c85_a_single_value_that_somebody_changed_comes_back() -> None:
    scenario = settled(head={"enableIngress": True})
    [rule] = scenario.objects[INGRESSES, "demo-head-ingress"]["spec"]["rules"]
    rule["http"]["paths"][0]["path"] = "/elsewhere"
    corrected(scenario)
    [rule] = scenario.objects[INGRESSES, "demo-head-ingress"]["spec"]["rules"]
    assert rule["http"]["paths"][0]["path"] == "/"


def test_another_class_and_other_certificates_reach_the_ingress() -> None:
    head = {"enableIngress": True, "ingressOptions": {"tls": [{"secretName": "old"}]}}
    scenario = settled(head=head, annotations={ANNOTATION_INGRESS_CLASS: "nginx"})
    ingress = scenario.objects[INGRESSES, "demo-head-ingress"]
    ingress["spec"]["ingressClassName"] = "other"
    corrected(scenario)
    options = {"tls": [{"secretName": "new", "hosts": ["ray.example.com"]}]}
    scenario.set_spec(ray_cluster(head={"enableIngress": True, "ingressOptions": options}))
    corrected(scenario)
    spec = scenario.objects[INGRESSES, "demo-head-ingress"]["spec"]
    assert spec["ingressClassName"] == "nginx"
    assert spec["tls"] == options["tls"]


def test_an_ingress_stays_when_it_is_switched_off() -> None:
    scenario = settled(head={"enableIngress": True})
    scenario.set_spec(ray_cluster())
    scenario.settle()
    assert (INGRESSES, "demo-head-ingress") in scenario.objects


def test_a_failing_ingress_stops_nothing() -> None:
    scenario = Scenario(decode(ray_cluster(head={"enableIngress": True})))

    def no_ingress(action: Any) -> Exception | None:
        refused = action.cause == Cause.INGRESS
        return ApiError(403, "Forbidden", "no") if refused else None

    scenario.reconcile(no_ingress)
    assert len(scenario.pods) == 2
    scenario.run_pods()
    scenario.reconcile(no_ingress)
    assert scenario.cluster.status.state == "ready"
    assert "demo-head-ingress" in str(scenario.cluster.status.conditions)


# ── token ────────────────────────────────────────────────────────────────────────────────


def test_no_plan_ever_holds_a_token() -> None:
    scenario = Scenario(decode(ray_cluster(authOptions={"mode": "token"})))
    [secret] = [one for one in scenario.plan().actions if one.cause == Cause.AUTH_SECRET]
    assert isinstance(secret, Create)
    assert secret.secret_data == ("auth_token",)
    assert "data" not in secret.manifest


@pytest.mark.parametrize(
    ("options", "made"),
    [
        ({"mode": "token"}, 1),
        ({"mode": "token", "secretName": "own"}, 0),
        ({"mode": "token", "enableK8sTokenAuth": True}, 0),
        ({"mode": "disabled"}, 0),
        ({}, 0),
    ],
)
@pytest.mark.parametrize("autoscaling", [True, False])
def test_c89_the_secret_and_the_environment_follow_the_mode(
    options: dict[str, Any], made: int, autoscaling: bool
) -> None:
    scenario = settled(authOptions=options, enableInTreeAutoscaling=autoscaling)
    assert len([key for key in scenario.objects if key[0] == SECRETS]) == made
    spec, worker = scenario.heads()[0]["spec"], scenario.workers()[0]["spec"]
    containers = [*spec["containers"], *worker["containers"], *worker["initContainers"]]
    wanted = {
        "own": ("secret", "own"),
        "": ("secret", "demo"),
    }[options.get("secretName", "")]
    for one in containers:
        env = {entry["name"]: entry for entry in one["env"]}
        if options.get("mode") != "token":
            assert "RAY_AUTH_MODE" not in env
        elif options.get("enableK8sTokenAuth"):
            assert env["RAY_ENABLE_K8S_TOKEN_AUTH"]["value"] == "true"
            assert "ray-token" in [mount["name"] for mount in one["volumeMounts"]]
        else:
            reference = env["RAY_AUTH_TOKEN"]["valueFrom"]["secretKeyRef"]
            assert reference == {"name": wanted[1], "key": "auth_token"}


# ── embedded store ───────────────────────────────────────────────────────────────────────

EMBEDDED = Settings(gates=FeatureGates(gcs_fault_tolerance_embedded_storage=True))


def rocksdb(**storage: Any) -> dict[str, Any]:
    return {"gcsFaultToleranceOptions": {"backend": "rocksdb", "storage": storage}}


def test_a_claim_goes_with_its_cluster_unless_it_is_retained() -> None:
    scenario = settled(EMBEDDED, **rocksdb())
    [claim] = scenario.of("PersistentVolumeClaim")
    assert claim["metadata"]["ownerReferences"][0]["uid"] == "c1"
    scenario.set_spec(ray_cluster(**rocksdb(deletionPolicy="Retain")))
    corrected(scenario)
    assert scenario.of("PersistentVolumeClaim")[0]["metadata"]["ownerReferences"] == []
    scenario.set_spec(ray_cluster(**rocksdb()))
    corrected(scenario)
    assert scenario.of("PersistentVolumeClaim")[0]["metadata"]["ownerReferences"][0]["uid"] == "c1"


def test_an_existing_claim_that_differs_is_reported_and_kept() -> None:
    scenario = settled(EMBEDDED, **rocksdb(size="1Gi"))
    different = rocksdb(size="9Gi", storageClassName="x", accessModes=["ReadWriteMany"])
    scenario.set_spec(ray_cluster(**different))
    assert causes(scenario) == []
    [event] = spec_warnings(scenario.snapshot())
    assert (event.type, event.reason, event.action) == ("Warning", "FailedToCreatePVC", "Create")
    assert "size, storageClassName, accessModes" in event.note


def test_the_users_own_claim_is_never_made() -> None:
    scenario = Scenario(decode(ray_cluster(**rocksdb(claimName="mine"))), EMBEDDED)
    [event] = spec_warnings(scenario.snapshot())
    assert "mine does not exist" in event.note
    scenario.settle()
    assert not [key for key in scenario.objects if key[0] == PERSISTENT_VOLUME_CLAIMS]


# ── network policies ─────────────────────────────────────────────────────────────────────

CLOSED = Settings(gates=FeatureGates(ray_cluster_network_policy=True))


def policies(scenario: Scenario) -> list[str]:
    return [one["metadata"]["name"] for one in scenario.of("NetworkPolicy")]


def test_policies_are_made_before_the_pods_listen() -> None:
    scenario = Scenario(decode(ray_cluster(networkPolicy={})), CLOSED)
    stages = [{one.cause for one in stage.actions} for stage in scenario.plan().stages]
    assert Cause.NETWORK_POLICY in stages[0]
    assert stages[1] == {Cause.NO_HEAD}


def test_policies_follow_the_groups_and_go_when_not_asked_for() -> None:
    scenario = settled(CLOSED, networkPolicy={}, groups=[group("a"), group("b")])
    assert policies(scenario) == ["demo-head", "demo-workers-a", "demo-workers-b"]
    scenario.set_spec(ray_cluster(networkPolicy={}, groups=[group("a")]))
    scenario.settle()
    assert policies(scenario) == ["demo-head", "demo-workers-a"]
    scenario.set_spec(ray_cluster(groups=[group("a")]))
    scenario.settle()
    assert policies(scenario) == []


@pytest.mark.parametrize("direction", ["ingress", "egress"])
def test_a_policy_that_somebody_opened_is_closed_again(direction: str) -> None:
    scenario = settled(CLOSED, networkPolicy={})
    scenario.of("NetworkPolicy")[0]["spec"][direction] = [{}]
    corrected(scenario)


@pytest.mark.parametrize(
    "more",
    [
        {"matchLabels": {"app": "else"}},
        {"matchExpressions": [{"key": "app", "operator": "Exists"}]},
    ],
)
def test_a_policy_that_selects_fewer_pods_selects_all_again(more: dict[str, Any]) -> None:
    """Found by the simulation: the Pods that it no longer selects are open to everybody."""
    scenario = settled(CLOSED, networkPolicy={})
    selector = scenario.of("NetworkPolicy")[0]["spec"]["podSelector"]
    for name, entries in more.items():
        selector[name] = {**selector[name], **entries} if name in selector else entries
    corrected(scenario)


def test_a_policy_of_somebody_else_is_never_deleted() -> None:
    scenario = settled(CLOSED, networkPolicy={})
    foreign = scenario.of("NetworkPolicy")[0]
    foreign["metadata"]["ownerReferences"][0].update(uid="x", kind="Other")
    scenario.set_spec(ray_cluster())
    scenario.settle()
    assert policies(scenario) == ["demo-head"]


# ── Recreate ─────────────────────────────────────────────────────────────────────────────

RECREATE: dict[str, Any] = {"upgradeStrategy": {"type": "Recreate"}}


def test_recreate_replaces_all_pods_when_the_spec_changes() -> None:
    scenario = settled(**RECREATE)
    scenario.set_spec(ray_cluster(rayVersion="2.61.0", **RECREATE))
    assert causes(scenario) == [Cause.SPEC_CHANGED] * 2
    scenario.settle()
    assert causes(scenario) == []


def test_recreate_leaves_no_worker_whose_deletion_failed_at_first() -> None:
    """R23."""
    scenario = settled(groups=[group(replicas=3)], **RECREATE)
    old = {one["metadata"]["uid"] for one in scenario.of("Pod")}
    stuck = scenario.workers()[-1]["metadata"]["name"]
    scenario.set_spec(ray_cluster(rayVersion="2.61.0", groups=[group(replicas=3)], **RECREATE))

    def fault(action: Any) -> Exception | None:
        return ApiError(500, "InternalError", "no") if action.key.name == stuck else None

    scenario.reconcile(fault)
    scenario.remove_deleted()
    scenario.settle()
    assert len(scenario.pods) == 4
    assert not old & {one["metadata"]["uid"] for one in scenario.of("Pod")}


@pytest.mark.parametrize(
    "change",
    [
        {"replicas": 1, "minReplicas": 1},
        {"replicas": 1, "maxReplicas": 3},
        {"replicas": 1, "scaleStrategy": {"workersToDelete": ["absent"]}},
        {"replicas": 2},
    ],
)
def test_recreate_ignores_what_scaling_changes(change: dict[str, Any]) -> None:
    scenario = settled(**RECREATE)
    scenario.set_spec(ray_cluster(groups=[group(**change)], **RECREATE))
    assert Cause.SPEC_CHANGED not in causes(scenario)


def test_without_the_strategy_a_changed_spec_replaces_nothing() -> None:
    scenario = settled()
    scenario.set_spec(ray_cluster(rayVersion="2.61.0"))
    assert causes(scenario) == []


def test_c22_sidecars_and_defaults_that_others_add_are_no_change() -> None:
    scenario = settled(**RECREATE)
    for pod in scenario.pods.values():
        pod["spec"]["containers"].append({"name": "injected", "image": "mesh"})
        pod["spec"]["tolerations"] = [{"key": "x"}]
    assert causes(scenario) == []


def test_another_version_of_the_operator_takes_note_and_replaces_nothing() -> None:
    scenario = settled(**RECREATE)
    scenario.settings = replace(scenario.settings, version="next")
    scenario.set_spec(ray_cluster(rayVersion="2.61.0", **RECREATE))
    [patch] = scenario.plan().actions
    assert isinstance(patch, Patch)
    assert patch.cause == Cause.OPERATOR_CHANGED
    corrected(scenario)
