from __future__ import annotations

from manta.localplane.node.pod.api_reader import source_names
from support.node import a_pod


def test_every_place_that_names_a_config_map_or_a_secret_is_seen() -> None:
    container = {
        "name": "main",
        "env": [
            {"name": "A", "valueFrom": {"secretKeyRef": {"name": "s1", "key": "k"}}},
            {"name": "B", "valueFrom": {"configMapKeyRef": {"name": "c1", "key": "k"}}},
            {"name": "C", "value": "x"},
        ],
        "envFrom": [{"secretRef": {"name": "s2"}}, {"configMapRef": {"name": "c2"}}],
    }
    volumes = [
        {"name": "a", "secret": {"secretName": "s3"}},
        {"name": "b", "configMap": {"name": "c3"}},
        {
            "name": "c",
            "projected": {"sources": [{"secret": {"name": "s4"}}, {"configMap": {"name": "c4"}}]},
        },
        {"name": "d", "emptyDir": {}},
    ]
    init = {"name": "init", "envFrom": [{"secretRef": {"name": "s5"}}]}
    names = source_names(a_pod(containers=[container], initContainers=[init], volumes=volumes))
    assert names.secrets == {"s1", "s2", "s3", "s4", "s5"}
    assert names.config_maps == {"c1", "c2", "c3", "c4"}
