"""Definitions: checked, filled in, turned into served resources."""

from __future__ import annotations

import json

from manta.localplane.apiserver import custom_resources
from manta.localplane.apiserver.custom_resources import Schemas, served_versions
from support.contract import widget_definition

NOW = "2026-11-15T08:00:00Z"


def test_names_that_may_be_left_out_are_filled_in():
    crd = {"spec": {"names": {"kind": "Widget", "plural": "widgets"}}}
    filled = custom_resources.with_defaults(crd)["spec"]
    assert filled["names"]["singular"] == "widget"
    assert filled["names"]["listKind"] == "WidgetList"
    assert filled["conversion"] == {"strategy": "None"}


def test_a_sound_definition_has_no_causes():
    assert custom_resources.check(widget_definition("")) == []


def test_unsound_definitions_are_told():
    crd = widget_definition("")
    crd["spec"]["scope"] = "Everywhere"
    crd["spec"]["versions"][0]["storage"] = False
    fields = [cause.field for cause in custom_resources.check(crd)]
    assert fields == ["spec.scope", "spec.versions", "status.storedVersions"]
    crd["spec"]["versions"][0].pop("schema")
    assert "spec.versions[0].schema.openAPIV3Schema" in [
        cause.field for cause in custom_resources.check(crd)
    ]


def test_conditions_keep_their_times():
    crd = custom_resources.established(custom_resources.with_defaults(widget_definition("")), NOW)
    again = custom_resources.established(crd, "later")
    assert again["status"] == crd["status"]
    assert crd["status"]["storedVersions"] == ["v1"]
    gone = custom_resources.terminating(crd, "later")
    assert gone["status"]["conditions"][-1]["type"] == "Terminating"


def test_a_definition_becomes_a_served_resource():
    raw = json.dumps(widget_definition("")).encode()
    schemas = Schemas()
    (served,) = served_versions(raw, schemas)
    assert (served.group_resource, served.api_version) == (
        "widgets.t.example.com",
        "t.example.com/v1",
    )
    assert served.short_names == ("wd",)
    assert {sub.name for sub in served.subresources} == {"status", "scale"}
    assert served.fields == ("spec.mode",)
    custom = served.custom
    assert custom.scale.spec_replicas == ("spec", "replicas")
    assert [column.name for column in custom.columns] == ["Replicas", "Age"]
    assert custom.openapi()["required"] == ["spec"]
    (again,) = served_versions(raw, schemas)
    assert again.custom.schema is custom.schema


def test_without_columns_there_is_an_age():
    crd = widget_definition("")
    crd["spec"]["versions"][0].pop("additionalPrinterColumns")
    crd["spec"]["versions"][0]["deprecated"] = True
    (served,) = served_versions(json.dumps(crd).encode(), Schemas())
    assert [column.name for column in served.custom.columns] == ["Age"]
    assert served.custom.warning == "t.example.com/v1 Widget is deprecated"


def test_schemas_that_nobody_uses_are_let_go():
    schemas = Schemas()
    epoch, schema = schemas.get({"type": "object"})
    schemas.keep_only({epoch})
    assert schemas.get({"type": "object"})[1] is schema
    schemas.keep_only(set())
    assert schemas.get({"type": "object"})[1] is not schema
