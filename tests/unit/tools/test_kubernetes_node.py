"""Parts of the node of `make e2e-kubernetes` that need neither root nor containers."""

from __future__ import annotations

import hashlib
import json
import struct
import tarfile
from pathlib import Path
from typing import Any

import pytest
from tools.kubernetes.node.configuration import VOLUMES, volumes
from tools.kubernetes.node.dns import Names, reply
from tools.kubernetes.node.pack import pack

Json = dict[str, Any]


def known(*services: Json, slices: tuple[Json, ...] = ()) -> Names:
    names = Names()
    names.known["services"] = {one["metadata"]["name"]: one for one in services}
    names.known["endpointslices"] = {str(number): one for number, one in enumerate(slices)}
    return names


def service(name: str, address: str) -> Json:
    return {"metadata": {"name": name, "namespace": "default"}, "spec": {"clusterIP": address}}


def behind(name: str, **addresses: bool) -> Json:
    labels = {"kubernetes.io/service-name": name}
    endpoints = [
        {"addresses": [one.replace("_", ".").strip(".")], "conditions": {"ready": ready}}
        for one, ready in addresses.items()
    ]
    return {"metadata": {"namespace": "default", "labels": labels}, "endpoints": endpoints}


def query(name: str, kind: int = 1) -> bytes:
    labels = b"".join(bytes([len(one)]) + one.encode() for one in name.split("."))
    return (
        struct.pack(">HHHHHH", 7, 0x0100, 1, 0, 0, 0) + labels + b"\0" + struct.pack(">HH", kind, 1)
    )


def test_a_service_is_its_address_and_a_headless_one_its_ready_pods() -> None:
    names = known(
        service("plain", "10.97.0.9"),
        service("head", "None"),
        slices=(behind("head", _10_77_0_10=True, _10_77_0_11=False),),
    )
    assert names.addresses("plain.default.svc.cluster.local") == ["10.97.0.9"]
    assert names.addresses("head.default.svc.cluster.local") == ["10.77.0.10"]
    assert names.addresses("absent.default.svc.cluster.local") is None
    assert names.addresses("example.org") is None


@pytest.mark.parametrize(
    ("name", "kind", "code", "count"),
    [
        ("plain.default.svc.cluster.local", 1, 0, 1),
        ("plain.default.svc.cluster.local", 28, 0, 0),
        ("absent.default.svc.cluster.local", 1, 3, 0),
    ],
    ids=["address", "no IPv6 is not no such name", "no such name"],
)
def test_an_answer_repeats_the_question_and_has_its_addresses(
    name: str, kind: int, code: int, count: int
) -> None:
    asked = query(name, kind)
    answer = reply(asked, known(service("plain", "10.97.0.9")))
    identity, flags, questions, answers = struct.unpack(">HHHH", answer[:8])
    assert (identity, flags & 0xF, questions, answers) == (7, code, 1, count)
    assert answer[12 : len(asked)] == asked[12:]
    assert answer.endswith(bytes([10, 97, 0, 9])) == bool(count)


def test_an_image_archive_names_every_blob_by_its_digest(tmp_path: Path) -> None:
    layers = [tmp_path / "base.layer", tmp_path / "more.layer"]
    for path in layers:
        path.write_bytes(path.name.encode() * 1000)
    out = tmp_path / "image.tar"
    pack(out, "docker.io/some/image:tag", {"User": "1000"}, layers)
    with tarfile.open(out) as archive:
        files = {one.name: archive.extractfile(one) for one in archive.getmembers()}
        content = {name: file.read() for name, file in files.items() if file}
    for name, data in content.items():
        if name.startswith("blobs/"):
            assert name == f"blobs/sha256/{hashlib.sha256(data).hexdigest()}"

    def blob(described: Json) -> bytes:
        return content[f"blobs/{described['digest'].replace(':', '/')}"]

    [entry] = json.loads(content["index.json"])["manifests"]
    assert entry["annotations"]["io.containerd.image.name"] == "docker.io/some/image:tag"
    manifest = json.loads(blob(entry))
    assert [blob(one) for one in manifest["layers"]] == [one.read_bytes() for one in layers]
    config = json.loads(blob(manifest["config"]))
    assert config["config"] == {"User": "1000"}
    assert config["rootfs"]["diff_ids"] == [one["digest"] for one in manifest["layers"]]


def test_claims_without_a_class_find_a_volume(tmp_path: Path) -> None:
    default, *made = volumes(tmp_path)["items"]
    assert default["metadata"]["annotations"] == {
        "storageclass.kubernetes.io/is-default-class": "true"
    }
    assert len(made) == VOLUMES
    assert {one["spec"]["storageClassName"] for one in made} == {default["metadata"]["name"]}
    assert len({one["spec"]["hostPath"]["path"] for one in made}) == VOLUMES
