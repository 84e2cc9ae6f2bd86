"""Probes: no tool is needed by newer Ray, and older checks give up in time (C83)."""

from __future__ import annotations

import re
from typing import Any

import pytest

from manta.manifests.probes import add_probes


def probes(**fields: Any) -> dict[str, Any]:
    container: dict[str, Any] = {}
    wanted = {"head": True, "serving": False, "ray_version": "2.53.0", **fields}
    add_probes(container, {}, **wanted)
    return container


@pytest.mark.parametrize("head", [True, False])
def test_c83_newer_ray_is_asked_over_http(head: bool) -> None:
    made = probes(head=head)
    for probe in made.values():
        assert probe["httpGet"] == {"path": "/api/healthz", "port": 52365}


@pytest.mark.parametrize("version", ["2.52.9", "", "nightly"])
def test_older_or_unknown_ray_is_asked_by_command(version: str) -> None:
    command = probes(ray_version=version)["livenessProbe"]["exec"]["command"][2]
    assert "api/local_raylet_healthz" in command
    assert "api/gcs_healthz" in command
    assert "gcs_healthz" not in str(probes(ray_version=version, head=False))


@pytest.mark.parametrize("head", [True, False])
@pytest.mark.parametrize("serving", [True, False])
def test_c83_a_command_tries_once_and_gives_up_before_the_kubelet_does(
    head: bool, serving: bool
) -> None:
    made = probes(ray_version="2.10.0", head=head, serving=serving).values()
    for probe in (one for one in made if "exec" in one):
        command = probe["exec"]["command"][2]
        assert command.count("--tries 1") == command.count("wget")
        inner = sum(int(one) for one in re.findall(r"-T (\d+)", command))
        assert inner <= probe["timeoutSeconds"]


def test_a_serving_worker_is_ready_with_its_proxy_whatever_the_head_does() -> None:
    made = probes(head=False, serving=True)
    assert made["readinessProbe"]["httpGet"] == {"path": "/-/healthz", "port": 8000}
    assert "exec" not in made["readinessProbe"]
    assert made["livenessProbe"]["httpGet"]["path"] == "/api/healthz"


def test_one_late_answer_does_not_take_a_serving_worker_out_of_service() -> None:
    assert probes(head=False, serving=True)["readinessProbe"]["failureThreshold"] == 2


def test_a_serving_head_is_not_asked_for_its_proxy() -> None:
    assert "httpGet" in probes(serving=True)["readinessProbe"]


def test_ports_come_from_the_parameters() -> None:
    container: dict[str, Any] = {"ports": [{"name": "serve", "containerPort": 9999}]}
    params = {"dashboard-agent-listen-port": "7"}
    add_probes(container, params, head=False, serving=True, ray_version="2.53.0")
    assert container["livenessProbe"]["httpGet"]["port"] == 7
    assert container["readinessProbe"]["httpGet"]["port"] == 9999
