"""Names: what we cut always fits, and what is valid by a stricter rule is valid by a looser one."""

from __future__ import annotations

from hypothesis import assume, given
from hypothesis import strategies as st

from manta.api.names import (
    dns1123_label_errors,
    dns1123_subdomain_errors,
    is_dns1035_label,
    label_value_errors,
    qualified_name_errors,
)
from manta.api.ray.naming import check_label, check_name, check_route_name, pod_name_prefix

cluster_names = st.from_regex(r"[a-z]([-a-z0-9]{0,60}[a-z0-9])?", fullmatch=True)
anything = st.text(alphabet="abz019-._A", max_size=80)


@given(anything)
def test_rules_contain_each_other(text: str) -> None:
    if is_dns1035_label(text):
        assert not dns1123_label_errors(text)
    if not dns1123_label_errors(text):
        assert not dns1123_subdomain_errors(text)
        assert not label_value_errors(text)
        assert not qualified_name_errors(text)


@given(cluster_names)
def test_a_cut_name_of_a_valid_name_is_valid(name: str) -> None:
    assert is_dns1035_label(check_name(name))
    assert len(check_name(name)) <= 50
    assert check_name(check_name(name)) == check_name(name)


@given(cluster_names, st.sampled_from(["head", "worker"]))
def test_a_cut_label_of_a_valid_name_is_valid(name: str, node: str) -> None:
    assert not label_value_errors(check_label(f"{name}-{node}"))


@given(cluster_names, st.sampled_from(["head", "worker"]))
def test_a_pod_prefix_leaves_room_for_five_random_characters(name: str, node: str) -> None:
    assume(not name[:50].endswith("-"))
    assert not dns1123_label_errors(pod_name_prefix(name, node) + "bcdfg")


@given(cluster_names, cluster_names)
def test_a_route_and_its_namespace_fit_one_dns_label(name: str, namespace: str) -> None:
    assume(len(namespace) <= 50)
    assert len(f"{check_route_name(name, namespace)}-{namespace}") <= 63
