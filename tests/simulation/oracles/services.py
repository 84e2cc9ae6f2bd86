"""About RayServices."""

from __future__ import annotations

from collections.abc import Iterator

from manta.api.ray import names
from simulation.oracles.oracle import CLUSTERS, Object, Oracle, controller_of, is_operator
from simulation.plane import Written


class ServesOnly(Oracle):
    """A serve Service never points at a cluster whose applications do not run, and no HTTPRoute gives more requests to
    one."""

    name = "serves-only"

    def written(self, written: Written) -> Iterator[str]:
        owner = controller_of(written.object)
        if written.type == "DELETED" or not is_operator(written.by):
            return
        if owner is None or owner["kind"] != "RayService":
            return
        before = self.world.live.get(written.resource, {}).get(
            f"{written.metadata['namespace']}/{written.name}"
        )
        old, new = self._chosen(written.resource, before), self._chosen(written.resource, written)
        for cluster in sorted(new):
            last = self.world.ray.served_at.get(cluster, -1e9)
            serves = self.world.ray.runs(cluster) or written.at - last <= self.history.window
            if new[cluster] > old.get(cluster, 0) and not serves:
                yield f"{written.resource} {written.name} was pointed at {cluster}, which does not serve"

    def _chosen(self, resource: str, found: Written | Object | None) -> dict[str, int]:
        """The clusters that get requests, with their weights."""
        one = found.object if isinstance(found, Written) else found or {"metadata": {"name": ""}}
        spec = one.get("spec") or {}
        if resource == "services" and _is_serve(one["metadata"]["name"]):
            return {name: 1 for name in [cluster_of(one)] if name}
        if resource != "httproutes.gateway.networking.k8s.io":
            return {}
        weights: dict[str, int] = {}
        for backend in (each for rule in spec.get("rules") or () for each in rule["backendRefs"]):
            service = self.world.live["services"].get(
                f"{one['metadata']['namespace']}/{backend['name']}"
            )
            if service is not None:
                weights[cluster_of(service)] = backend.get("weight", 1)
        return weights


def cluster_of(service: Object) -> str:
    return str((service["spec"].get("selector") or {}).get(names.LABEL_CLUSTER, ""))


def _is_serve(name: str) -> bool:
    return name.endswith("-serve-svc")


class TwoClusters(Oracle):
    """A RayService never has more than two clusters, beside those that wait for their deletion."""

    name = "two-clusters"

    def written(self, written: Written) -> Iterator[str]:
        owner = controller_of(written.object)
        if written.resource != CLUSTERS or written.type != "ADDED" or owner is None:
            return
        if owner["kind"] != "RayService":
            return
        alive = [
            one["metadata"]["name"]
            for one in [*self.world.all(CLUSTERS), written.object]
            if (controller_of(one) or {}).get("uid") == owner["uid"]
            and not one["metadata"].get("deletionTimestamp")
            and names.ANNOTATION_DELETE_AFTER not in (one["metadata"].get("annotations") or {})
        ]
        if len(alive) > 2:
            yield f"RayService {owner['name']} has {len(alive)} clusters: {', '.join(alive)}"


class ConfigOnce(Oracle):
    """A dashboard that answers gets the Serve config that it already has at most ten times."""

    name = "config-once"

    def ended(self) -> Iterator[str]:
        for (cluster, session), times in sorted(self.world.ray.repeated.items()):
            if times > 10:
                yield f"{cluster} ({session}) got the same config {times} times"
