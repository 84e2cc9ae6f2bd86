"""Record what a real kube-apiserver makes of random writes, for the unit tests to repeat.

    python tools/kubernetes/run.py --without kube-controller-manager --without kube-scheduler \
        -- python tools/protobuf/record_histories.py

Deployments are created, replaced, patched and applied by three managers; custom resources, good
and bad, are created. Each step keeps the request and the whole answer; the live object of a step
is the answer of the one before it.
"""

from __future__ import annotations

import json
import os
import random
import ssl
import tempfile
import time
import urllib.error
import urllib.request
from base64 import b64decode
from pathlib import Path
from typing import Any

import yaml

TARGET = Path(__file__).parents[2] / "tests/unit/localplane/apiserver/patching/histories.json"
GROUP = "t.example.com"
WIDGETS = f"/apis/{GROUP}/v1/namespaces/default/widgets"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
JSON = "application/json"
APPLY = "application/apply-patch+yaml"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


class Server:
    def __init__(self, kubeconfig: str) -> None:
        config = yaml.safe_load(Path(kubeconfig).read_text())
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        self._url = cluster["server"]
        self._tls = ssl.create_default_context(cafile=_file(cluster, "certificate-authority"))
        self._tls.load_cert_chain(_file(user, "client-certificate"), _file(user, "client-key"))

    def ask(self, method: str, path: str, body: Any = None, media: str = JSON) -> tuple[int, Any]:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            self._url + path, data, {"Content-Type": media}, method=method
        )
        try:
            with urllib.request.urlopen(request, context=self._tls) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read() or b"null")


def _file(holder: dict[str, str], name: str) -> str:
    if name in holder:
        return holder[name]
    with tempfile.NamedTemporaryFile(delete=False) as file:
        file.write(b64decode(holder[f"{name}-data"]))
    return file.name


# ── Deployments ──────────────────────────────────────────────────────────────────────────
def some(chance: random.Random, items: str) -> list[str]:
    return chance.sample(items, chance.randint(1, len(items)))


def container(chance: random.Random, name: str) -> dict[str, Any]:
    made: dict[str, Any] = {"name": name, "image": chance.choice(["i:1", "i:2"])}
    if chance.random() < 0.5:
        made["env"] = [{"name": one, "value": chance.choice("12")} for one in some(chance, "AB")]
    if chance.random() < 0.4:
        protocol = {"protocol": "TCP"} if chance.random() < 0.5 else {}
        made["ports"] = [{"containerPort": int(one) + 80, **protocol} for one in some(chance, "12")]
    if chance.random() < 0.3:
        made["args"] = some(chance, "ab")
    return made


def deployment(chance: random.Random, name: str) -> dict[str, Any]:
    pod: dict[str, Any] = {"containers": [container(chance, one) for one in some(chance, "xyz")]}
    meta: dict[str, Any] = {"name": name}
    spec: dict[str, Any] = {
        "selector": {"matchLabels": {"a": "b"}},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": pod},
    }
    if chance.random() < 0.5:
        spec["replicas"] = chance.randint(0, 3)
    if chance.random() < 0.5:
        meta["labels"] = {one: chance.choice("12") for one in some(chance, "pqr")}
    if chance.random() < 0.3:
        meta["finalizers"] = [f"{one}/x" for one in some(chance, "abc")]
    if chance.random() < 0.3:
        pod["tolerations"] = [{"key": one, "operator": "Exists"} for one in some(chance, "mn")]
    if chance.random() < 0.2:
        pod["nodeSelector"] = dict.fromkeys(some(chance, "kl"), "1")
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta, "spec": spec}


def strategic(chance: random.Random) -> dict[str, Any]:
    changed = container(chance, chance.choice("xyzw"))
    order = [{"name": one} for one in chance.sample("xyzw", 4)]
    gone = {"$patch": "delete", "name": chance.choice("xyz")}
    inner = {"name": "x", "env": [{"name": "A", "$patch": "delete"}, {"name": "Q", "value": "1"}]}
    pods = (
        {"containers": [changed]},
        {"$setElementOrder/containers": order, "containers": [changed]},
        {"containers": [gone]},
        {"containers": [{"$patch": "replace"}, changed]},
        {"containers": [inner]},
        {"tolerations": [{"key": "zz", "operator": "Exists"}]},
    )
    patches: list[dict[str, Any]] = [{"spec": {"template": {"spec": pod}}} for pod in pods]
    patches += [
        {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a/x"]}},
        {"metadata": {"finalizers": ["c/x"]}},
        {"metadata": {"labels": {"$patch": "replace", "z": "1"}}},
        {"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}},
    ]
    return chance.choice(patches)


def merging(chance: random.Random) -> dict[str, Any]:
    labels = {chance.choice("pqr"): chance.choice(["1", None])}
    pod = {"containers": [container(chance, "x")]}
    return chance.choice(
        [
            {"metadata": {"labels": labels}},
            {"spec": {"replicas": chance.randint(0, 3)}},
            {"spec": {"template": {"spec": pod}}},
        ]
    )


def deployment_history(server: Server, name: str, length: int, seed: int) -> list[dict[str, Any]]:
    chance = random.Random(seed)
    history: list[dict[str, Any]] = []
    while len(history) < length:
        verb = chance.choice(["apply", "apply", "put", "strategic", "merge"]) if history else "post"
        manager, force = chance.choice(["m1", "m2", "m3"]), chance.random() < 0.5
        body = {"strategic": strategic, "merge": merging}.get(
            verb, lambda _: deployment(chance, name)
        )(chance)
        path = f"{DEPLOYMENTS}{'' if verb == 'post' else '/' + name}?fieldManager={manager}"
        method, media = {
            "post": ("POST", JSON),
            "put": ("PUT", JSON),
            "apply": ("PATCH", APPLY),
            "merge": ("PATCH", MERGE),
            "strategic": ("PATCH", STRATEGIC),
        }[verb]
        if verb == "apply":
            path += f"&force={str(force).lower()}"
        status, answer = server.ask(method, path, body, media)
        if status in {200, 201, 409}:
            history.append(
                {"verb": verb, "manager": manager, "force": force, "body": body}
                | {"status": status, "answer": answer}
            )
    return history


# ── custom resources ─────────────────────────────────────────────────────────────────────
def widget_schema() -> dict[str, Any]:
    item = {
        "type": "object",
        "required": ["k"],
        "properties": {
            "k": {"type": "string"},
            "p": {"type": "integer", "default": 5},
            "v": {"type": "string", "default": "dv"},
        },
    }
    limits = {
        "rule": "!has(self.lo) || !has(self.hi) || self.lo <= self.hi",
        "messageExpression": "self.lo > 3 ? 'lo high' : 'lo low'",
        "fieldPath": ".lo",
    }
    pair = {"lo": {"type": "integer"}, "hi": {"type": "integer"}}
    text = {"type": "string"}
    spec = {
        "type": "object",
        "required": ["mode"],
        "properties": {
            "mode": {"type": "string", "enum": ["a", "b"]},
            "n": {"type": "integer", "minimum": 0, "maximum": 10, "default": 1},
            "f": {"type": "number", "maximum": 1.5},
            "s": {"type": "string", "minLength": 2, "maxLength": 4, "pattern": "^[a-c]+$"},
            "when": {"type": "string", "format": "date-time"},
            "host": {"type": "string", "format": "hostname"},
            "cpu": {
                "x-kubernetes-int-or-string": True,
                "anyOf": [{"type": "integer"}, {"type": "string"}],
                "pattern": "^[0-9]+m?$",
            },
            "nul": {"type": "string", "nullable": True, "default": "dd"},
            "set": {"type": "array", "items": text, "x-kubernetes-list-type": "set"},
            "at": {"type": "array", "items": {"type": "integer"}, "maxItems": 2, "minItems": 1},
            "items": {
                "type": "array",
                "items": item,
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["k", "p"],
            },
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
            "labels": {
                "type": "object",
                "additionalProperties": {"type": "string", "maxLength": 3},
            },
            "one": {
                "type": "object",
                "properties": {"a": text, "b": text},
                "oneOf": [{"required": ["a"]}, {"required": ["b"]}],
            },
            "cel": {"type": "object", "properties": pair, "x-kubernetes-validations": [limits]},
        },
    }
    return {"type": "object", "required": ["spec"], "properties": {"spec": spec}}


CHOICES: dict[str, list[Any]] = {
    "mode": ["a", "b", "z", 1],
    "n": [0, 10, 11, "x", None],
    "f": [1, 0.5, 1.6, 0.3],
    "s": ["ab", "a", "abcca", "xx", True],
    "when": ["2026-11-15T06:37:50Z", "nope", 1],
    "host": ["a.example", "a.b", "-a"],
    "cpu": [5, "5m", "x", True, 1.5],
    "nul": [None, "x", 1],
    "set": [["a", "b"], ["a", "a"], []],
    "at": [[1], [1, 2, 3], [], ["x"]],
    "items": [
        [{"k": "1"}],
        [{"k": "1"}, {"k": "1", "p": 6, "zz": 1}],
        [{"k": "1"}, {"k": "1", "p": 5}],
        [{"p": 1}],
        ["x"],
    ],
    "free": [{"q": {"r": 1}}, {}, []],
    "labels": [{"a": "1"}, {"a": "long"}, {"a": 1}, {"a": None}],
    "one": [{"a": "1"}, {}, {"a": "1", "b": "1"}],
    "cel": [{"lo": 1, "hi": 2}, {"lo": 3, "hi": 2}, {"lo": 9, "hi": 2}],
    "bogus": [1],
}


def widget_history(server: Server, schema: dict[str, Any], length: int, seed: int) -> list[Any]:
    chance = random.Random(seed)
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": "widgets", "kind": "Widget"}
    crd = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"widgets.{GROUP}"},
        "spec": {"group": GROUP, "scope": "Namespaced", "names": names, "versions": [version]},
    }
    status, answer = server.ask("POST", CRDS, crd)
    assert status == 201, answer
    time.sleep(5)  # established, and known to the part that decodes
    history = []
    for number in range(length):
        fields = chance.sample(sorted(CHOICES), chance.randint(1, 6))
        spec = {"mode": "a"} | {name: chance.choice(CHOICES[name]) for name in fields}
        body = {
            "apiVersion": f"{GROUP}/v1",
            "kind": "Widget",
            "metadata": {"name": f"w{number}"},
            "spec": spec,
        }
        status, answer = server.ask("POST", f"{WIDGETS}?fieldManager=m1", body)
        history.append({"body": body, "status": status, "answer": answer})
    return history


def main() -> None:
    server = Server(os.environ["KUBECONFIG"])
    schema = widget_schema()
    recorded = {
        "deployments": [deployment_history(server, f"d{n}", 20, n) for n in range(4)],
        "schema": schema,
        "widgets": widget_history(server, schema, 120, 0),
    }
    TARGET.write_text(json.dumps(recorded, separators=(",", ":")) + "\n")
    print(f"{TARGET}: {TARGET.stat().st_size} bytes")


if __name__ == "__main__":
    main()
