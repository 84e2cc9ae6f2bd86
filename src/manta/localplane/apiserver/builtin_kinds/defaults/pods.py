"""Defaults of Pods and Pod templates."""

from __future__ import annotations

from typing import Any

from manta.api.quantity import Quantity

Json = dict[str, Any]

_DEFAULT_MODE = 420  # 0644


def default_pod(pod: Json) -> None:
    """A Pod: its spec, and defaults that templates do not get."""
    spec = pod.setdefault("spec", {})
    spec.setdefault("enableServiceLinks", True)
    for container in (spec.get("containers") or []) + (spec.get("initContainers") or []):
        _default_requests(container)
        if spec.get("hostNetwork"):
            _default_host_ports(container)
    default_pod_spec(spec)


def default_template(holder: Json) -> None:
    """The Pod template in a spec."""
    template = holder.setdefault("template", {})
    template.setdefault("metadata", {})
    default_pod_spec(template.setdefault("spec", {}))


def default_pod_spec(spec: Json) -> None:
    spec.setdefault("restartPolicy", "Always")
    set_default(spec, "terminationGracePeriodSeconds", 30)
    if spec["terminationGracePeriodSeconds"] < 0:
        spec["terminationGracePeriodSeconds"] = 1
    spec.setdefault("dnsPolicy", "ClusterFirst")
    set_default(spec, "securityContext", {})
    spec.setdefault("schedulerName", "default-scheduler")
    if spec.get("serviceAccountName") or spec.get("serviceAccount"):
        account = spec.get("serviceAccountName") or spec["serviceAccount"]
        spec["serviceAccountName"] = spec["serviceAccount"] = account
    for volume in spec.get("volumes") or []:
        _default_volume(volume)
    for name in ("containers", "initContainers", "ephemeralContainers"):
        for container in spec.get(name) or []:
            default_container(container)


def set_default(holder: Json, name: str, value: Any) -> None:
    if holder.get(name) is None:
        holder[name] = value


def default_container(container: Json) -> None:
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    if not container.get("imagePullPolicy"):
        container["imagePullPolicy"] = pull_policy(container.get("image") or "")
    container.setdefault("resources", {})
    for amounts in ("limits", "requests"):
        round_up((container["resources"] or {}).get(amounts))
    for port in container.get("ports") or []:
        if not port.get("protocol"):
            port["protocol"] = "TCP"
    for variable in container.get("env") or []:
        _default_field_ref((variable.get("valueFrom") or {}).get("fieldRef"))
    for name in ("livenessProbe", "readinessProbe", "startupProbe"):
        if container.get(name) is not None:
            _default_probe(container[name])
    for handler in (container.get("lifecycle") or {}).values():
        if isinstance(handler, dict):
            _default_http(handler.get("httpGet"))


def round_up(amounts: Json | None) -> None:
    """Round amounts up to a thousandth."""
    for name, text in (amounts or {}).items():
        amount = _parsed(text)
        if amount is not None and amount.nano % 10**6 and amounts is not None:
            amounts[name] = str(Quantity(amount.milli() * 10**6, amount.family))


def _parsed(text: Any) -> Quantity | None:
    """The amount, if it is written in units below a thousandth."""
    if not isinstance(text, str) or text[-1:] not in {"u", "n"}:
        return None
    return Quantity.parse_or_none(text)


def pull_policy(image: str) -> str:
    """`Always` for the tag `latest` and for no tag."""
    path, _, digest = image.partition("@")
    _, colon, tag = path.rpartition("/")[2].partition(":")
    if digest and not colon:
        return "IfNotPresent"
    return "Always" if not colon or tag == "latest" else "IfNotPresent"


def _default_requests(container: Json) -> None:
    """A limit without a request is also the request."""
    resources = container.get("resources") or {}
    limits = resources.get("limits")
    if not limits:
        return
    requests = dict(resources.get("requests") or {})
    for name, amount in limits.items():
        requests.setdefault(name, amount)
    container["resources"] = {**resources, "requests": requests}


def _default_host_ports(container: Json) -> None:
    for port in container.get("ports") or []:
        if not port.get("hostPort"):
            port["hostPort"] = port.get("containerPort")


def _default_probe(probe: Json) -> None:
    for name, value in (
        ("timeoutSeconds", 1),
        ("periodSeconds", 10),
        ("successThreshold", 1),
        ("failureThreshold", 3),
    ):
        if not probe.get(name):
            probe[name] = value
    _default_http(probe.get("httpGet"))
    if probe.get("grpc") is not None:
        set_default(probe["grpc"], "service", "")


def _default_http(action: Json | None) -> None:
    if action is None:
        return
    if not action.get("path"):
        action["path"] = "/"
    if not action.get("scheme"):
        action["scheme"] = "HTTP"


def _default_field_ref(reference: Json | None) -> None:
    if reference is not None and not reference.get("apiVersion"):
        reference["apiVersion"] = "v1"


def _default_volume(volume: Json) -> None:
    if not any(value is not None for name, value in volume.items() if name != "name"):
        volume["emptyDir"] = {}
    for name in ("secret", "configMap", "downwardAPI", "projected"):
        if volume.get(name) is not None:
            set_default(volume[name], "defaultMode", _DEFAULT_MODE)
    if volume.get("hostPath") is not None:
        set_default(volume["hostPath"], "type", "")
    _default_downward((volume.get("downwardAPI") or {}).get("items"))
    for source in (volume.get("projected") or {}).get("sources") or []:
        if source.get("serviceAccountToken") is not None:
            set_default(source["serviceAccountToken"], "expirationSeconds", 3600)
        _default_downward((source.get("downwardAPI") or {}).get("items"))
    claim = (volume.get("ephemeral") or {}).get("volumeClaimTemplate")
    if claim is not None:
        set_default(claim.setdefault("spec", {}), "volumeMode", "Filesystem")


def _default_downward(items: list[Json] | None) -> None:
    for item in items or []:
        _default_field_ref(item.get("fieldRef"))


# ── quality of service ───────────────────────────────────────────────────────────────────
def quality_of_service(spec: Json) -> str:
    """Guaranteed if all containers request their limits of cpu and memory; BestEffort if none requests."""
    requested: dict[str, Quantity] = {}
    limited: dict[str, Quantity] = {}
    guaranteed = True
    for container in (spec.get("containers") or []) + (spec.get("initContainers") or []):
        resources = container.get("resources") or {}
        limits = _compute(resources.get("limits"))
        _add(requested, _compute(resources.get("requests")))
        _add(limited, limits)
        guaranteed = guaranteed and limits.keys() == {"cpu", "memory"}
    if not requested and not limited:
        return "BestEffort"
    if guaranteed and requested.keys() == limited.keys():
        guaranteed = all(requested[name] == limited[name] for name in requested)
        return "Guaranteed" if guaranteed else "Burstable"
    return "Burstable"


def _compute(amounts: Json | None) -> dict[str, Quantity]:
    found = {name: Quantity.parse((amounts or {}).get(name, 0)) for name in ("cpu", "memory")}
    return {name: amount for name, amount in found.items() if amount.nano > 0}


def _add(total: dict[str, Quantity], amounts: dict[str, Quantity]) -> None:
    for name, amount in amounts.items():
        total[name] = total[name] + amount if name in total else amount
