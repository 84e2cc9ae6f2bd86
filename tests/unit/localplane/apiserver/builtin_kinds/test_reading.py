from __future__ import annotations

import copy
import json
from pathlib import Path

import pytest

from manta.localplane.apiserver.builtin_kinds.reading import WrongTypeError, read_object

# What Go makes of objects of every kind; written by tools/protobuf/golden.
BODIES = json.loads((Path(__file__).parents[1] / "protobuf" / "bodies.json").read_bytes())


def read(kind, obj, api_version="v1"):
    unknown: list[str] = []
    return read_object(api_version, kind, obj, unknown), unknown


def test_unknown_fields_go_and_are_named() -> None:
    obj = {"kind": "Pod", "bogus": 1, "spec": {"containers": [{"name": "c", "foo": 1}]}}
    before = copy.deepcopy(obj)
    result, unknown = read("Pod", obj)
    assert unknown == ["bogus", "spec.containers[0].foo"]
    assert "bogus" not in result
    assert obj == before


def test_quantities_and_times_become_canonical() -> None:
    resources = {"limits": {"cpu": "1000m", "memory": "1024Mi"}, "requests": {"cpu": 0.5}}
    result, _ = read("Pod", {"spec": {"containers": [{"name": "c", "resources": resources}]}})
    assert result["spec"]["containers"][0]["resources"] == {
        "limits": {"cpu": "1", "memory": "1Gi"},
        "requests": {"cpu": "500m"},
    }
    lease, _ = read(
        "Lease",
        {"spec": {"renewTime": "2026-11-15T08:37:50.500000+02:00"}},
        "coordination.k8s.io/v1",
    )
    assert lease["spec"]["renewTime"] == "2026-11-15T06:37:50.500000Z"
    event, _ = read("Event", {"firstTimestamp": "2026-11-15T06:37:50.999Z"})
    assert event["firstTimestamp"] == "2026-11-15T06:37:50Z"


def test_empty_fields_appear_or_vanish_as_go_prints_them() -> None:
    pod, _ = read("Pod", {"spec": {"hostNetwork": False, "nodeName": "", "tolerations": []}})
    assert pod["spec"] == {"containers": None}
    assert pod["status"] == {}
    slice_, _ = read("EndpointSlice", {"addressType": "IPv4"}, "discovery.k8s.io/v1")
    assert (slice_["endpoints"], slice_["ports"]) == (None, None)
    service, _ = read("Service", {"spec": {}})
    assert service["status"] == {"loadBalancer": {}}


def test_a_zero_behind_a_pointer_is_kept() -> None:
    deployment, _ = read("Deployment", {"spec": {"replicas": 0}}, "apps/v1")
    assert deployment["spec"]["replicas"] == 0


def test_a_finished_object_is_returned_as_it_is() -> None:
    once, _ = read("Pod", {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c"}]}})
    twice, _ = read("Pod", once)
    assert twice is once


@pytest.mark.parametrize(
    ("kind", "obj", "message"),
    [
        (
            "ConfigMap",
            {"data": {"a": 1}},
            "json: cannot unmarshal number into Go struct field ConfigMap.data of type string",
        ),
        (
            "ConfigMap",
            {"data": []},
            (
                "json: cannot unmarshal array into Go struct field ConfigMap.data of type "
                "map[string]string"
            ),
        ),
        (
            "Pod",
            {"spec": {"containers": [{"name": 1}]}},
            (
                "json: cannot unmarshal number into Go struct field Container.spec.containers.name of type "
                "string"
            ),
        ),
        (
            "Pod",
            {"spec": {"activeDeadlineSeconds": "x"}},
            (
                "json: cannot unmarshal string into Go struct field PodSpec.spec.activeDeadlineSeconds of "
                "type int64"
            ),
        ),
        (
            "Pod",
            {"spec": {"priority": 3_000_000_000}},
            (
                "json: cannot unmarshal number 3000000000 into Go struct field PodSpec.spec.priority of "
                "type int32"
            ),
        ),
        (
            "Event",
            {"eventTime": "2026-11-15T06:37:50Z"},
            (
                'parsing time "2026-11-15T06:37:50Z" as "2006-01-02T15:04:05.000000Z07:00": '
                'cannot parse "Z" as ".000000"'
            ),
        ),
        ("Secret", {"data": {"a": "Y"}}, "illegal base64 data at input byte 1"),
        (
            "Pod",
            {"spec": {"containers": [{"resources": {"limits": {"cpu": "much"}}}]}},
            (
                "quantities must match the regular expression "
                "'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
            ),
        ),
    ],
)
def test_a_value_of_the_wrong_type_is_refused_in_the_words_of_go(kind, obj, message) -> None:
    with pytest.raises(WrongTypeError) as refused:
        read(kind, obj)
    assert str(refused.value) == message


def test_every_kind_is_read_as_go_reads_and_prints_it() -> None:
    for body in BODIES:
        sent, printed = body["sent"], body["printed"]
        assert read_object(sent["apiVersion"], sent["kind"], sent) == printed
        assert read_object(sent["apiVersion"], sent["kind"], printed) is printed


def test_kinds_that_are_not_built_in_are_left_alone() -> None:
    obj = {"anything": 1}
    assert read("RayCluster", obj, "ray.io/v1") == (obj, [])


def test_the_schema_of_a_definition_is_read_however_deep() -> None:
    crd = {
        "spec": {
            "versions": [
                {
                    "name": "v1",
                    "schema": {
                        "openAPIV3Schema": {
                            "type": "object",
                            "properties": {
                                "a": {"type": "array", "items": {"type": "string", "gone": 1}},
                                "b": {"type": "object", "additionalProperties": True, "frob": 1},
                            },
                        }
                    },
                }
            ]
        }
    }
    result, unknown = read("CustomResourceDefinition", crd, "apiextensions.k8s.io/v1")
    assert unknown == ["spec.versions[0].schema.openAPIV3Schema.properties.b.frob"]
    assert "gone" not in str(result)
