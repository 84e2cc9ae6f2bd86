"""The fuzzer of the operator: odd but mostly valid custom resources on a cluster in this process, under virtual time.

Every batch is a fresh cluster with a canary that must become ready whatever its neighbours say.
"""

from __future__ import annotations

import asyncio
import copy
import json
import logging
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from fuzz.values import NUMBERS, TEXTS, mutated, odd
from manta.api.crds import crd_documents
from manta.api.documents.reader import read_documents
from manta.api.meta import Key
from manta.api.ray.resources import RAY_RESOURCES
from manta.api.resources import EVENTS, Resource
from manta.kube.client import Client
from manta.kube.errors import ApiError, NotFound
from manta.localplane.inprocess import InProcessTransport
from support.fakenodes import FakeCluster, fake_cluster
from support.faults import FaultTransport
from support.raycluster import NAMESPACE, ray_cluster
from support.raycrds import ray_crds
from support.rayservice import GATEWAY_CRDS
from support.reconcile_failures import operated
from support.virtual_time import run_virtual

BATCH = 25
LARGEST = 12
"""Of replicas and hosts: that large numbers are bounded is tests/security/test_bounded_work.py."""
COUNTED = frozenset(("replicas", "minReplicas", "maxReplicas", "numOfHosts"))
TIMEOUT = 180.0
MAX_REQUESTS = 400
"""Of one object in a minute of virtual time: more is a loop without back-off."""
UNDECODABLE = "Expected `int"
"""The schema takes -0.0 for an integer, and no client decodes it as one: that the object says so is all one can ask."""
EXAMPLES = Path(__file__).parents[2] / "examples"
BY_KIND: dict[str, Resource] = {one.kind: one for one in RAY_RESOURCES}
Json = dict[str, Any]


@cache
def corpus() -> tuple[Json, ...]:
    """The Ray objects of all examples."""
    found: list[Json] = []
    for path in sorted(EXAMPLES.glob("*.yaml")):
        found += read_documents(path.read_bytes())
    return tuple(one for one in found if one and one.get("apiVersion") == "ray.io/v1")


@cache
def schema_of(kind: str) -> Json:
    [definition] = [one for one in crd_documents() if one["spec"]["names"]["kind"] == kind]
    [version] = [one for one in definition["spec"]["versions"] if one["name"] == "v1"]
    spec: Json = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
    return spec


def generate(seed: int, number: int) -> Json:
    """The resource of this number in the run of this seed, whoever asks."""
    rng = Random(f"{seed}/{number}")
    document = copy.deepcopy(rng.choice(corpus()))
    document["metadata"]["name"] = f"fz-{number}"
    document["metadata"].pop("namespace", None)
    return change(rng, document)


def change(rng: Random, document: Json) -> Json:
    """Some fields set that the schema knows; now and then something that it does not."""
    for _ in range(rng.choice((0, 1, 2, 3, 6))):
        _set_field(rng, schema_of(document["kind"]), document["spec"])
    if rng.random() < 0.15:
        kept = {"name": document["metadata"]["name"]}
        document["spec"] = mutated(rng, document["spec"], rng.randrange(1, 4), deep=False)
        document["metadata"] |= kept
    if rng.random() < 0.1:
        named = rng.choice(
            ("manta.ray.io/drain", "ray.io/ft-enabled", "ray.io/overwrite-container-cmd")
        )
        document["metadata"].setdefault("annotations", {})[named] = rng.choice(TEXTS)
    return document


def _set_field(rng: Random, schema: Json, holder: Any) -> None:
    """Walk down to a random field of the schema and give it a value of its type."""
    while True:
        properties = schema.get("properties")
        if not isinstance(holder, dict) or not properties:
            return
        name = rng.choice(sorted(properties))
        schema = properties[name]
        if schema.get("type") == "object" and schema.get("properties") and rng.random() < 0.8:
            if not isinstance(holder.get(name), dict):
                holder[name] = {}
            holder = holder[name]
            continue
        if schema.get("type") == "array" and rng.random() < 0.6:
            items = holder.get(name)
            if isinstance(items, list) and items:
                holder, schema = rng.choice(items), schema["items"]
                continue
        holder[name] = _value(rng, name, schema)
        return


def _value(rng: Random, name: str, schema: Json) -> Any:
    if "enum" in schema and rng.random() < 0.9:
        return rng.choice(schema["enum"])
    match schema.get("type"):
        case "integer":
            most = LARGEST if name in COUNTED else 2**31 - 1
            return min(int(rng.choice(NUMBERS)) if abs(rng.choice(NUMBERS)) < 2**62 else 1, most)
        case "number":
            return rng.choice(NUMBERS)
        case "boolean":
            return rng.random() < 0.5
        case "string":
            return rng.choice(TEXTS)
        case "array":
            return [_value(rng, name, schema["items"]) for _ in range(rng.randrange(3))]
        case "object":
            inner: Json = {}
            for one in schema.get("required", ()):
                inner[one] = _value(rng, one, schema["properties"][one])
            if isinstance(schema.get("additionalProperties"), dict):
                inner[rng.choice(TEXTS)[:60]] = _value(rng, name, schema["additionalProperties"])
            return inner
        case _:
            return odd(rng)


@dataclass
class Tally:
    counts: Counter[str] = field(default_factory=Counter)
    findings: list[str] = field(default_factory=list)


class _Errors(logging.Handler):
    """Log records that carry an exception which nobody expected."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info and record.exc_info[0] is not None:
            where = record.exc_info[2]
            while where is not None and where.tb_next is not None:
                where = where.tb_next
            place = f"{where.tb_frame.f_code.co_filename}:{where.tb_lineno}" if where else ""
            self.found.append(f"{record.getMessage()}: {record.exc_info[1]!r} at {place}")


@contextmanager
def _errors() -> Iterator[_Errors]:
    handler, root = _Errors(), logging.getLogger("manta")
    root.addHandler(handler)
    try:
        yield handler
    finally:
        root.removeHandler(handler)


@asynccontextmanager
async def _cluster() -> AsyncIterator[tuple[FakeCluster, FaultTransport]]:
    async with fake_cluster(4, crds=[*ray_crds(), *GATEWAY_CRDS]) as cluster:
        transport = FaultTransport(InProcessTransport(cluster.plane.app))
        async with operated(cluster.plane, Client(transport)):
            yield cluster, transport


async def _batch(seed: int, numbers: range, tally: Tally) -> None:
    async with _cluster() as (cluster, transport):
        await cluster.client.create(BY_KIND["RayCluster"], NAMESPACE, ray_cluster("canary"))
        living: dict[str, Json] = {}
        for number in numbers:
            document = generate(seed, number)
            if await _create(cluster, document, tally):
                living[document["metadata"]["name"]] = document
        await asyncio.sleep(30)
        await _look(cluster, living, tally)
        for name, document in list(living.items()):
            await _edit(cluster, Random(f"{seed}/{name}/edit"), document, tally)
        before = len(transport.log)
        await asyncio.sleep(60)
        if living and (len(transport.log) - before) / len(living) > MAX_REQUESTS:
            tally.findings.append(
                f"batch {numbers}: {len(transport.log) - before} requests a minute"
            )
        await _look(cluster, living, tally)
        await _check_canary(cluster, numbers, tally)
        for document in living.values():
            await _delete(cluster, document)


async def _create(cluster: FakeCluster, document: Json, tally: Tally) -> bool:
    try:
        await cluster.client.create(
            BY_KIND[document["kind"]], NAMESPACE, json.dumps(document).encode()
        )
    except ApiError as error:
        tally.counts[f"refused with {error.status}"] += 1
        if error.status >= 500:
            tally.findings.append(f"{document['metadata']['name']}: the server said {error}")
        return False
    tally.counts[f"accepted {document['kind']}"] += 1
    return True


async def _edit(cluster: FakeCluster, rng: Random, document: Json, tally: Tally) -> None:
    changed = change(rng, copy.deepcopy(document))
    key = Key(NAMESPACE, document["metadata"]["name"])
    try:
        await cluster.client.patch(
            BY_KIND[document["kind"]], key, json.dumps({"spec": changed["spec"]}).encode()
        )
    except NotFound:
        pass
    except ApiError as error:
        tally.counts["edits refused"] += 1
        if error.status >= 500:
            tally.findings.append(f"{key}: the server said {error}")
    else:
        tally.counts["edits"] += 1


async def _delete(cluster: FakeCluster, document: Json) -> None:
    key = Key(NAMESPACE, document["metadata"]["name"])
    await cluster.client.delete(BY_KIND[document["kind"]], key)


async def _look(cluster: FakeCluster, living: dict[str, Json], tally: Tally) -> None:
    """No object failed inside the operator, and none is passed over in silence."""
    events = (await cluster.client.list(EVENTS, NAMESPACE)).items
    spoken = {one["regarding"].get("name") for one in events}
    for name, document in living.items():
        found = await cluster.get(BY_KIND[document["kind"]], name)
        if found is None:
            continue
        status = found.get("status") or {}
        for one in status.get("conditions") or ():
            if one["type"] != "ReconcileError" or one["status"] != "True":
                continue
            if UNDECODABLE in one["message"]:
                tally.counts["shown as undecodable"] += 1
            else:
                tally.findings.append(f"{document['kind']} {name}: {one['message']}")
        silent = not status and name not in spoken and document["kind"] != "RayCronJob"
        if silent and not document["spec"].get("managedBy"):
            tally.findings.append(f"{document['kind']} {name}: neither status nor Event after 30 s")


async def _check_canary(cluster: FakeCluster, numbers: range, tally: Tally) -> None:
    found = await cluster.get(BY_KIND["RayCluster"], "canary")
    if found is None or (found.get("status") or {}).get("state") != "ready":
        tally.findings.append(
            f"batch {numbers}: the canary is not ready: {(found or {}).get('status')}"
        )


def fuzz_resources(seed: int, count: int) -> tuple[dict[str, Any], list[str]]:
    """How many of each kind were accepted and refused, and what is wrong."""
    tally = Tally()
    with _errors() as errors:
        for start in range(0, count, BATCH):
            numbers = range(start, min(start + BATCH, count))
            run_virtual(_batch(seed, numbers, tally))
            tally.findings += [
                f"seed {seed}, {numbers}: {one}" for one in errors.found if UNDECODABLE not in one
            ]
            errors.found.clear()
    return {"tried": count, **tally.counts}, list(dict.fromkeys(tally.findings))
