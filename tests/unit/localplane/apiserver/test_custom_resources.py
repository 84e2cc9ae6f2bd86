"""Definitions: checked, filled in, turned into served resources."""

from __future__ import annotations

import json
from typing import Any

from manta.localplane.apiserver.custom_resources import Schemas, defined_resources
from manta.localplane.apiserver.definition_checks import check_definition
from manta.localplane.apiserver.strategies.definition import established, terminating
from support.contract import widget_definition
from support.strategies import strategy_of

NOW = "2026-11-15T08:00:00Z"


def test_names_that_may_be_left_out_are_filled_in() -> None:
    crd = {"spec": {"names": {"kind": "Widget", "plural": "widgets"}}}
    filled = strategy_of("apiextensions.k8s.io/v1", "CustomResourceDefinition").default(crd)["spec"]
    assert filled["names"]["singular"] == "widget"
    assert filled["names"]["listKind"] == "WidgetList"
    assert filled["conversion"] == {"strategy": "None"}


def test_a_sound_definition_has_no_causes() -> None:
    assert check_definition(widget_definition("")) == []


def test_unsound_definitions_are_reported() -> None:
    crd = widget_definition("")
    crd["spec"]["scope"] = "Everywhere"
    crd["spec"]["versions"][0]["storage"] = False
    fields = [cause.field for cause in check_definition(crd)]
    assert fields == ["spec.scope", "spec.versions", "status.storedVersions"]
    crd["spec"]["versions"][0].pop("schema")
    assert "spec.versions[0].schema.openAPIV3Schema" in [
        cause.field for cause in check_definition(crd)
    ]


def test_conditions_keep_their_times() -> None:
    crd = established(widget_definition(""), NOW)
    again = established(crd, "later")
    assert again["status"] == crd["status"]
    assert crd["status"]["storedVersions"] == ["v1"]
    gone = terminating(crd, "later")
    assert gone["status"]["conditions"][-1]["type"] == "Terminating"


def test_a_definition_becomes_a_served_resource() -> None:
    raw = json.dumps(widget_definition("")).encode()
    schemas = Schemas()
    (resource,) = defined_resources(raw, schemas)
    assert (resource.group_resource, resource.api_version) == (
        "widgets.t.example.com",
        "t.example.com/v1",
    )
    assert resource.short_names == ("wd",)
    assert {sub.name for sub in resource.subresources} == {"status", "scale"}
    assert resource.fields == ("spec.mode",)
    strategy: Any = resource.strategy
    assert strategy.scale.spec_replicas == ("spec", "replicas")
    assert [column["name"] for column in strategy.table.columns] == ["Name", "Replicas", "Age"]
    assert strategy.openapi()["required"] == ["spec"]
    again: Any = defined_resources(raw, schemas)[0]
    assert again.strategy.schema is strategy.schema


def test_without_columns_there_is_an_age() -> None:
    crd = widget_definition("")
    crd["spec"]["versions"][0].pop("additionalPrinterColumns")
    crd["spec"]["versions"][0]["deprecated"] = True
    (resource,) = defined_resources(json.dumps(crd).encode(), Schemas())
    assert [column["name"] for column in resource.strategy.table.columns] == ["Name", "Age"]
    assert resource.warning == "t.example.com/v1 Widget is deprecated"


def test_schemas_that_nobody_uses_are_let_go() -> None:
    schemas = Schemas()
    epoch, schema = schemas.get({"type": "object"})
    schemas.keep_only({epoch})
    assert schemas.get({"type": "object"})[1] is schema
    schemas.keep_only(set())
    assert schemas.get({"type": "object"})[1] is not schema
