"""The ports of the Services: ours are kept true, those of others are left alone, and the server
never has a reason to refuse what we make of both."""

from __future__ import annotations

import copy
from itertools import count
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manta.api.resources import SERVICES
from manta.controllers.raycluster.events import Cause
from manta.localplane.apiserver.builtin_kinds.checks.services import check_service
from manta.manifests.head_pod import build_head_pod
from manta.rules.settings import Settings
from support.raycluster import container, ray_cluster, template
from support.raycluster_scenario import Scenario, decode
from support.strategies import strategy_of

Json = dict[str, Any]
NOTE = "manta.ray.io/passed-on"
STRATEGY = strategy_of("v1", "Service")
SERVE = {"ray.io/enable-serve-service": "true"}


class Server:
    """What the embedded API server makes of a Service that it is sent, or why it will not."""

    def __init__(self) -> None:
        self._node_ports = count()
        self._context: Any = self

    def cluster_ip(self, metadata: Any, wanted: str) -> str:
        return wanted or "10.0.0.1"

    def node_port(self, metadata: Any, wanted: int) -> int:
        return wanted or 31000 + next(self._node_ports) % 1700

    def created(self, service: Json) -> Json:
        return self._checked(STRATEGY.prepare_create(service, self._context), None)

    def updated(self, old: Json, new: Json) -> Json:
        return self._checked(STRATEGY.prepare_update(old, new, self._context, ""), old)

    @staticmethod
    def _checked(service: Json, old: Json | None) -> Json:
        refusals = [f"{one.field}: {one.message}" for one in check_service(service, old)]
        assert refusals == []
        return service


SERVER = Server()


def a_scenario(*ports: Json, settings: Settings | None = None, **spec: Any) -> Scenario:
    """A cluster whose Services are there, as the server keeps them."""
    scenario = Scenario(decode(with_ports(*ports, **spec)), settings or Settings())
    scenario.settle()
    for (resource, name), one in scenario.objects.items():
        if resource == SERVICES:
            scenario.objects[resource, name] = SERVER.created(one)
    assert planned(scenario) == []
    return scenario


def with_ports(*ports: Json, **spec: Any) -> Json:
    head = {"template": template(container(ports=list(ports))), **spec.pop("head", {})}
    return ray_cluster(head=head, **spec)


def planned(scenario: Scenario) -> list[Any]:
    return [one.cause for one in scenario.plan().actions]


def corrected(scenario: Scenario, name: str = "demo-head-svc") -> dict[str, Json]:
    """The ports after a round. The server takes what we send, and then there is nothing to do."""
    before = scenario.objects[SERVICES, name]
    assert planned(scenario) == [Cause.SERVICE_DRIFT]
    scenario.reconcile()
    scenario.objects[SERVICES, name] = SERVER.updated(before, scenario.objects[SERVICES, name])
    assert planned(scenario) == []
    return ports_of(scenario, name)


def ports_of(scenario: Scenario, name: str = "demo-head-svc") -> dict[str, Json]:
    return {one["name"]: one for one in scenario.objects[SERVICES, name]["spec"]["ports"]}


def add(scenario: Scenario, port: Json, name: str = "demo-head-svc") -> None:
    """By hand, as a user does with kubectl."""
    before = scenario.objects[SERVICES, name]
    spec = {**before["spec"], "ports": [*before["spec"]["ports"], port]}
    scenario.objects[SERVICES, name] = SERVER.updated(before, {**before, "spec": spec})


def edit_and_replace_head(scenario: Scenario, manifest: Json) -> None:
    """The spec is edited, and the head is one that was made from it: its ports count."""
    scenario.set_spec(manifest)
    [head] = scenario.heads()
    made = build_head_pod(scenario.cluster, scenario.settings, spec_hash="")
    head["spec"]["containers"] = made["spec"]["containers"]


def port(name: str, number: int) -> Json:
    return {"name": name, "containerPort": number}


# ── what the spec names ──────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("head", [{}, {"serviceType": "NodePort"}], ids=["headless", "node port"])
def test_a_port_that_is_renamed_is_replaced_and_not_doubled(head: Json) -> None:
    scenario = a_scenario(port("web", 8265), head=head)
    node_port = ports_of(scenario)["web"].get("nodePort")
    edit_and_replace_head(scenario, with_ports(port("dashboard", 8265), head=head))
    after = corrected(scenario)
    assert set(after) == {"dashboard", "metrics"}
    assert after["dashboard"].get("nodePort") == node_port


def test_a_port_that_was_renamed_under_kuberay_is_replaced_at_the_take_over() -> None:
    """KubeRay never touches its Services again, and leaves no note on them."""
    scenario = a_scenario(port("web", 8265), port("extra", 9000))
    del scenario.objects[SERVICES, "demo-head-svc"]["metadata"]["annotations"]
    scenario.set_spec(with_ports(port("dashboard", 8265)))
    assert set(corrected(scenario)) == {"dashboard", "metrics", "extra"}


def test_two_ports_that_swap_their_names_are_taken_and_keep_their_node_ports() -> None:
    head = {"serviceType": "NodePort"}
    scenario = a_scenario(port("a", 1000), port("b", 2000), head=head)
    before = {name: one["nodePort"] for name, one in ports_of(scenario).items()}
    edit_and_replace_head(scenario, with_ports(port("a", 2000), port("b", 1000), head=head))
    assert {name: one["nodePort"] for name, one in corrected(scenario).items()} == before


def test_a_chain_of_renamed_ports_shares_no_node_port() -> None:
    head = {"serviceType": "NodePort"}
    scenario = a_scenario(port("a", 1000), port("b", 2000), head=head)
    before = ports_of(scenario)
    edit_and_replace_head(scenario, with_ports(port("a", 2000), port("c", 1000), head=head))
    after = corrected(scenario)
    assert after["a"]["nodePort"] == before["a"]["nodePort"]
    assert len({one["nodePort"] for one in after.values()}) == 3


def test_what_the_spec_no_longer_names_goes_and_what_others_added_stays() -> None:
    scenario = a_scenario(port("dashboard", 8265), port("extra", 9000))
    add(scenario, {"name": "mine", "port": 7777})
    edit_and_replace_head(scenario, with_ports(port("dashboard", 8265)))
    assert set(corrected(scenario)) == {"dashboard", "metrics", "mine"}
    note = scenario.objects[SERVICES, "demo-head-svc"]["metadata"]["annotations"][NOTE]
    assert note == "port:dashboard"


def test_when_nothing_is_declared_any_more_the_note_goes_too() -> None:
    scenario = a_scenario(port("extra", 9000))
    edit_and_replace_head(scenario, ray_cluster())
    assert set(corrected(scenario)) == {"client", "dashboard", "gcs-server", "metrics", "serve"}
    assert NOTE not in scenario.objects[SERVICES, "demo-head-svc"]["metadata"].get(
        "annotations", {}
    )


def test_the_note_of_annotations_and_the_note_of_ports_are_one() -> None:
    scenario = a_scenario(port("extra", 9000), headServiceAnnotations={"a": "1"})
    meta = scenario.objects[SERVICES, "demo-head-svc"]["metadata"]
    assert meta["annotations"] == {"a": "1", NOTE: "a,port:extra"}
    edit_and_replace_head(scenario, with_ports(port("extra", 9000)))
    corrected(scenario)
    meta = scenario.objects[SERVICES, "demo-head-svc"]["metadata"]
    assert meta["annotations"] == {NOTE: "port:extra"}


def test_a_first_declared_port_closes_none_of_rays_own() -> None:
    """It listens on them whether they are declared or not."""
    scenario = a_scenario()
    scenario.set_spec(with_ports(port("jupyter", 8888)))
    own = {"client", "dashboard", "gcs-server", "metrics", "serve"}
    assert set(corrected(scenario)) == {"jupyter", *own}


def test_no_edit_closes_the_way_to_the_gcs() -> None:
    scenario = a_scenario(port("gcs-server", 6379), port("client", 10001))
    edit_and_replace_head(scenario, with_ports(port("jupyter", 8888)))
    assert set(corrected(scenario)) == {"jupyter", "metrics", "gcs-server"}


def test_a_port_of_the_users_own_head_service_goes_with_the_spec() -> None:
    def custom(*ports: Json) -> Json:
        return {"headService": {"spec": {"type": "NodePort", "ports": list(ports)}}}

    first = {"name": "dashboard", "port": 80, "targetPort": 8265, "appProtocol": "http"}
    scenario = a_scenario(head=custom(first, {"name": "own", "port": 7000, "nodePort": 30500}))
    assert ports_of(scenario)["own"]["nodePort"] == 30500
    scenario.set_spec(with_ports(head=custom(first)))
    assert "own" not in corrected(scenario)


def test_a_port_that_the_head_service_gets_beside_a_running_head_goes_with_the_spec_too() -> None:
    def custom(*ports: Json) -> Json:
        return with_ports(head={"headService": {"spec": {"ports": list(ports)}}})

    first = {"name": "dashboard", "port": 80, "targetPort": 8265}
    scenario = a_scenario(head=custom(first)["spec"]["headGroupSpec"])
    scenario.set_spec(custom(first, {"name": "own", "port": 7000}))
    assert "own" in corrected(scenario)
    scenario.set_spec(custom(first))
    assert "own" not in corrected(scenario)


def test_the_serve_service_follows_the_serve_ports() -> None:
    scenario = a_scenario(port("serve", 8000), port("serve-grpc", 9000), annotations=SERVE)
    edit_and_replace_head(scenario, with_ports(port("serve", 8000)))
    scenario.objects[SERVICES, "demo-head-svc"]["spec"]["ports"] = []
    scenario.reconcile()
    assert set(ports_of(scenario, "demo-serve-svc")) == {"serve"}


# ── what somebody changed ────────────────────────────────────────────────────────────────


def test_a_lost_port_comes_back_and_a_foreign_one_stays_with_its_node_port() -> None:
    scenario = a_scenario(head={"serviceType": "NodePort"})
    add(scenario, {"name": "mine", "port": 1, "nodePort": 30001})
    service = scenario.objects[SERVICES, "demo-head-svc"]["spec"]
    service["ports"] = [one for one in service["ports"] if one["name"] != "serve"]
    kept = ports_of(scenario)["client"]["nodePort"]
    after = corrected(scenario)
    assert after["mine"]["nodePort"] == 30001
    assert after["client"]["nodePort"] == kept
    assert set(after) == {"mine", "client", "dashboard", "gcs-server", "metrics", "serve"}


@pytest.mark.parametrize(
    "change",
    [
        {"appProtocol": "kubernetes.io/h2c"},
        {"appProtocol": None},
        {"targetPort": 1},
        {"targetPort": "ray"},
        {"port": 1},
        {"protocol": "UDP"},
        {"name": "else"},
    ],
)
def test_a_port_of_ours_that_somebody_changed_comes_back(change: Json) -> None:
    scenario = a_scenario()
    before = copy.deepcopy(ports_of(scenario))
    changed = ports_of(scenario)["dashboard"]
    changed.update(change)
    for field in [name for name, value in change.items() if value is None]:
        del changed[field]
    assert corrected(scenario) == before


def test_a_port_of_ours_is_as_we_made_it() -> None:
    scenario = a_scenario()
    made = {
        "name": "dashboard",
        "port": 8265,
        "protocol": "TCP",
        "targetPort": 8265,
        "appProtocol": "tcp",
    }
    assert ports_of(scenario)["dashboard"] == made


def test_an_app_protocol_of_which_we_say_nothing_is_the_users() -> None:
    scenario = a_scenario(annotations=SERVE, head={"serviceType": "NodePort"})
    serve = ports_of(scenario, "demo-serve-svc")["serve"]
    serve["appProtocol"] = "kubernetes.io/h2c"
    assert planned(scenario) == []
    serve["targetPort"] = 1
    node_port = serve["nodePort"]
    after = corrected(scenario, "demo-serve-svc")["serve"]
    assert (after["appProtocol"], after["nodePort"]) == ("kubernetes.io/h2c", node_port)


def test_a_node_port_that_the_spec_asks_for_is_taken_from_whom_has_it() -> None:
    def custom(**fields: Any) -> Json:
        asked = {"name": "dashboard", "port": 8265, **fields}
        return {"headService": {"spec": {"type": "NodePort", "ports": [asked]}}}

    scenario = a_scenario(head=custom())
    add(scenario, {"name": "mine", "port": 1, "nodePort": 30001})
    scenario.set_spec(with_ports(head=custom(nodePort=30001)))
    after = corrected(scenario)
    assert after["dashboard"]["nodePort"] == 30001
    assert after["mine"]["nodePort"] != 30001


def test_a_nameless_port_cannot_stay_beside_ours() -> None:
    scenario = a_scenario()
    lonely = {"port": 1, "targetPort": 1, "protocol": "TCP"}
    scenario.objects[SERVICES, "demo-head-svc"]["spec"]["ports"] = [lonely]
    assert set(corrected(scenario)) == {"client", "dashboard", "gcs-server", "metrics", "serve"}


def test_node_ports_are_not_kept_where_the_type_has_none() -> None:
    settings = Settings(head_cluster_ip_service=True)
    scenario = a_scenario(port("a", 1000), head={"serviceType": "NodePort"}, settings=settings)
    scenario.set_spec(with_ports(port("b", 1000)))
    assert "nodePort" not in corrected(scenario)["b"]


# ── any edit, by anybody ─────────────────────────────────────────────────────────────────

names = st.sampled_from(["a", "b", "c", "dashboard", "gcs-server", "client", "serve", "serve-a"])
numbers = st.sampled_from([1, 2, 3, 6379, 8265, 10001, 8000])
declared = st.lists(
    st.builds(port, names, numbers),
    max_size=4,
    unique_by=(lambda one: one["name"], lambda one: one["containerPort"]),
)
by_hand = st.lists(
    st.fixed_dictionaries(
        {"name": names, "port": numbers, "protocol": st.sampled_from(["TCP", "TCP", "UDP"])},
        optional={
            "targetPort": numbers | names,
            "appProtocol": st.sampled_from(["tcp", "http"]),
        },
    ),
    max_size=4,
    unique_by=(lambda one: one["name"], lambda one: (one["protocol"], one["port"])),
)
types = st.sampled_from(["ClusterIP", "NodePort", "LoadBalancer"])
edits = st.lists(st.tuples(declared, by_hand | st.none(), types), min_size=1, max_size=4)


@given(first=declared, type_=types, edits=edits, noted=st.booleans())
def test_after_any_edit_one_round_is_enough_and_the_server_takes_it(
    first: list[Json],
    type_: str,
    edits: list[tuple[list[Json], list[Json] | None, str]],
    noted: bool,
) -> None:
    settings = Settings(head_cluster_ip_service=True)
    scenario = a_scenario(*first, head={"serviceType": type_}, annotations=SERVE, settings=settings)
    for wanted, hand, then in edits:
        if hand:
            _edit(scenario, hand)
        if not noted:
            scenario.objects[SERVICES, "demo-head-svc"]["metadata"].pop("annotations", None)
        before = {key: one for key, one in scenario.objects.items() if key[0] == SERVICES}
        edit_and_replace_head(scenario, with_ports(*wanted, head={"serviceType": then}))
        scenario.reconcile()
        for key, old in before.items():
            scenario.objects[key] = SERVER.updated(old, scenario.objects[key])
        assert planned(scenario) == []
        found = ports_of(scenario)
        for one in wanted:
            made = found[one["name"]]
            assert made["port"] == made["targetPort"] == one["containerPort"]
            assert (made["protocol"], made["appProtocol"]) == ("TCP", "tcp")


def _edit(scenario: Scenario, ports: list[Json]) -> None:
    """Somebody replaces the ports of the head Service by others."""
    before = scenario.objects[SERVICES, "demo-head-svc"]
    spec = {**before["spec"], "ports": ports}
    scenario.objects[SERVICES, "demo-head-svc"] = SERVER.updated(before, {**before, "spec": spec})


@pytest.mark.parametrize(
    "ports",
    [
        [{"containerPort": 6379, "name": "gcs"}, {"containerPort": 8080, "name": "stats"}],
        [
            {"containerPort": 6379, "name": "gcs"},
            {"containerPort": 9000, "name": "tcp"},
            {"containerPort": 9000, "name": "udp", "protocol": "UDP"},
        ],
    ],
    ids=["metrics-by-another-name", "one-number-twice"],
)
def test_a_number_that_the_head_names_twice_or_otherwise_stands_in_its_service_once(
    ports: list[Json],
) -> None:
    scenario = a_scenario(*ports)  # the server has taken it
    [service] = scenario.of("Service")
    numbers = [one["port"] for one in service["spec"]["ports"]]
    assert sorted(numbers) == sorted({6379, 8080, *(one["containerPort"] for one in ports)})
