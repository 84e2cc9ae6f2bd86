"""Objects: create, read, replace, and every refusal in the words that clients know."""

from __future__ import annotations

from support.contract import Api, config_map, pod


async def test_a_created_object_has_an_identity(api: Api) -> None:
    made = await api.made(api.path("configmaps"), config_map("a"))
    meta = made["metadata"]
    assert (made["kind"], made["apiVersion"]) == ("ConfigMap", "v1")
    assert meta["uid"]
    assert int(meta["resourceVersion"]) > 0
    assert meta["creationTimestamp"].endswith("Z")
    assert "generation" not in meta


async def test_creating_twice_is_a_conflict(api: Api) -> None:
    await api.made(api.path("configmaps"), config_map("a"))
    again = await api.create(api.path("configmaps"), config_map("a"))
    assert (again.status, again.reason) == (409, "AlreadyExists")
    assert again.message == 'configmaps "a" already exists'
    assert again.body["details"] == {"name": "a", "kind": "configmaps"}


async def test_an_absent_object_is_not_found(api: Api) -> None:
    answer = await api.get(api.path("configmaps", "zz"))
    assert (answer.status, answer.reason) == (404, "NotFound")
    assert answer.message == 'configmaps "zz" not found'


async def test_an_unknown_resource_is_not_found(api: Api) -> None:
    answer = await api.get("/api/v1/foos")
    assert answer.status == 404
    assert answer.message == "the server could not find the requested resource"
    assert (await api.get("/apis/foo.example.com/v1")).text == b"404 page not found\n"


async def test_a_namespace_that_is_absent_takes_nothing(api: Api) -> None:
    answer = await api.create("/api/v1/namespaces/nons/configmaps", config_map("a"))
    assert answer.status == 404
    assert answer.message == 'namespaces "nons" not found'


async def test_the_namespace_of_body_and_path_must_agree(api: Api) -> None:
    answer = await api.create(api.path("configmaps"), config_map("a", namespace="other"))
    assert answer.status == 400
    assert "does not match the namespace sent on the request" in answer.message


async def test_a_stale_replacement_is_a_conflict(api: Api) -> None:
    made = await api.made(api.path("configmaps"), config_map("a"))
    where = api.path("configmaps", "a")
    assert (await api.replace(where, made | {"data": {"k": "2"}})).status == 200
    stale = await api.replace(where, made | {"data": {"k": "3"}})
    assert (stale.status, stale.reason) == (409, "Conflict")
    assert stale.message == (
        'Operation cannot be fulfilled on configmaps "a": the object has been modified; please '
        "apply your changes to the latest version and try again"
    )


async def test_a_replacement_without_version_is_unconditional(api: Api) -> None:
    await api.made(api.path("configmaps"), config_map("a"))
    answer = await api.replace(api.path("configmaps", "a"), config_map("a", {"k": "9"}))
    assert answer.status == 200
    assert answer.body["data"] == {"k": "9"}


async def test_a_replacement_of_another_uid_is_a_conflict(api: Api) -> None:
    await api.made(api.path("configmaps"), config_map("a"))
    body = config_map("a", uid="11111111-1111-1111-1111-111111111111")
    answer = await api.replace(api.path("configmaps", "a"), body)
    assert answer.status == 409
    assert "Precondition failed: UID in precondition" in answer.message


async def test_names_of_body_and_path_must_agree(api: Api) -> None:
    await api.made(api.path("configmaps"), config_map("a"))
    answer = await api.replace(api.path("configmaps", "a"), config_map("zz"))
    assert answer.status == 400
    assert answer.message == ("the name of the object (zz) does not match the name on the URL (a)")


async def test_replacing_what_is_absent_is_not_found(api: Api) -> None:
    answer = await api.replace(api.path("configmaps", "zz"), config_map("zz"))
    assert answer.status == 404


async def test_another_kind_is_refused(api: Api) -> None:
    answer = await api.create(api.path("configmaps"), pod("a"))
    assert answer.status == 400
    assert answer.message.startswith('Pod in version "v1" cannot be handled as a ConfigMap')


async def test_broken_json_is_refused(api: Api) -> None:
    answer = await api.create(api.path("configmaps"), b"{bad")
    assert (answer.status, answer.reason) == (400, "BadRequest")
    assert answer.message.startswith(
        "the object provided is unrecognized (must be of type ConfigMap): couldn't get version/kind"
    )


async def test_a_value_of_the_wrong_type_names_its_field(api: Api) -> None:
    body = config_map("a") | {"data": {"k": 1}}
    answer = await api.create(api.path("configmaps"), body)
    assert answer.status == 400
    assert "cannot unmarshal number into Go struct field ConfigMap.data of type string" in (
        answer.message
    )


async def test_unknown_media_types_are_refused(api: Api) -> None:
    created = await api.create(api.path("configmaps"), b"x", content_type="text/plain")
    assert (created.status, created.reason) == (415, "UnsupportedMediaType")
    read = await api.get(api.path("configmaps"), accept="application/xml")
    assert (read.status, read.reason) == (406, "NotAcceptable")


async def test_clients_that_prefer_protobuf_are_answered(api: Api) -> None:
    answer = await api.get(api.path("configmaps"), accept="application/json, */*")
    assert answer.status == 200


async def test_a_bad_name_is_invalid(api: Api) -> None:
    answer = await api.create(api.path("configmaps"), config_map("Bad_Name"))
    assert (answer.status, answer.reason) == (422, "Invalid")
    assert answer.causes == [("metadata.name", "FieldValueInvalid")]
    assert answer.message.startswith(
        'ConfigMap "Bad_Name" is invalid: metadata.name: Invalid value: "Bad_Name": a lowercase '
        "RFC 1123 subdomain must consist of"
    )


async def test_a_bad_label_is_invalid(api: Api) -> None:
    answer = await api.create(api.path("configmaps"), config_map("a", labels={"a": "b c"}))
    assert answer.causes == [("metadata.labels", "FieldValueInvalid")]


async def test_an_object_without_name_is_invalid(api: Api) -> None:
    answer = await api.create(api.path("configmaps"), {"metadata": {}})
    assert answer.status == 422
    assert answer.causes == [("metadata.name", "FieldValueRequired")]
    assert "name or generateName is required" in answer.message


async def test_a_new_object_must_not_carry_a_version(api: Api) -> None:
    body = config_map("a", resourceVersion="7")
    answer = await api.create(api.path("configmaps"), body)
    assert answer.status == 500
    assert answer.message == "resourceVersion should not be set on objects to be created"


async def test_generated_names_follow_the_prefix(api: Api) -> None:
    body = {"metadata": {"generateName": "gen-"}}
    names = {(await api.made(api.path("configmaps"), body))["metadata"]["name"] for _ in range(5)}
    assert len(names) == 5
    assert all(name.startswith("gen-") and len(name) == 9 for name in names)
    long = await api.made(api.path("configmaps"), {"metadata": {"generateName": "x" * 80}})
    assert len(long["metadata"]["name"]) == 63


async def test_system_fields_cannot_be_chosen(api: Api) -> None:
    body = config_map(
        "a",
        uid="mine",
        creationTimestamp="2001-01-01T00:00:00Z",
        deletionTimestamp="2001-01-01T00:00:00Z",
        generation=99,
    )
    meta = (await api.made(api.path("configmaps"), body))["metadata"]
    assert meta["uid"] != "mine"
    assert not meta["creationTimestamp"].startswith("2001")
    assert "deletionTimestamp" not in meta


async def test_too_many_bytes_of_annotations_are_invalid(api: Api) -> None:
    body = config_map("a", annotations={"big": "x" * 262145})
    answer = await api.create(api.path("configmaps"), body)
    assert answer.status == 422
    assert answer.causes == [("metadata.annotations", "FieldValueTooLong")]


async def test_owners_must_be_complete_and_have_one_controller(api: Api) -> None:
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "x", "uid": "1", "controller": True}
    nameless = config_map("a", ownerReferences=[owner | {"uid": ""}])
    answer = await api.create(api.path("configmaps"), nameless)
    assert ("metadata.ownerReferences.uid", "FieldValueInvalid") in answer.causes
    both = config_map("a", ownerReferences=[owner, owner | {"name": "y", "uid": "2"}])
    answer = await api.create(api.path("configmaps"), both)
    assert answer.causes == [("metadata.ownerReferences", "FieldValueInvalid")]
    assert "Only one reference can have Controller set to true" in answer.message


async def test_yaml_is_read_and_written(api: Api) -> None:
    text = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: yaml}\ndata: {a: 'b'}\n"
    made = await api.create(api.path("configmaps"), text, content_type="application/yaml")
    assert made.status == 201
    assert made.body["data"] == {"a": "b"}
    shown = await api.get(api.path("configmaps", "yaml"), accept="application/yaml")
    assert shown.headers["content-type"] == "application/yaml"
    assert b"\ndata:\n  a: b\n" in shown.text


async def test_health_and_version_answer(api: Api) -> None:
    assert (await api.get("/healthz")).text == b"ok"
    assert (await api.get("/readyz")).status == 200
    version = (await api.get("/version")).body
    assert version["major"].isdigit()
    assert version["minor"].rstrip("+").isdigit()
