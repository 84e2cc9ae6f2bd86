"""Paths through the API server to a Service or Pod."""

from __future__ import annotations

import pytest

from manta.kube.proxy import ProxyNameError, pod_proxy_path, service_proxy_path


def test_a_service_is_reached_by_port_number_or_name() -> None:
    expected = "/api/v1/namespaces/ns/services/head:8265/proxy/api/jobs/"
    assert service_proxy_path("ns", "head", 8265, "/api/jobs/") == expected
    assert service_proxy_path("ns", "head", "dashboard").endswith("/head:dashboard/proxy/")


def test_a_scheme_stands_before_the_name() -> None:
    path = service_proxy_path("ns", "head", 443, "x", scheme="https")
    assert path == "/api/v1/namespaces/ns/services/https:head:443/proxy/x"


def test_a_pod_is_reached_alike() -> None:
    assert pod_proxy_path("ns", "p", 80, "x") == "/api/v1/namespaces/ns/pods/p:80/proxy/x"


@pytest.mark.parametrize(
    "name", ["", "..", "a/b", "x/../../../secrets/s", "a:b", "A", "a%2fb", "a?b"]
)
def test_a_name_that_leads_elsewhere_is_refused(name: str) -> None:
    """The status of a cluster names its head Service: whoever writes it must not choose what others ask for."""
    for path in (service_proxy_path, pod_proxy_path):
        with pytest.raises(ProxyNameError):
            path("ns", name, 80)
