"""The fields of a Pod that the node agent reads."""

from __future__ import annotations

from typing import Any

import msgspec

from manta.api import core
from manta.api.core import Resources
from manta.api.meta import Object, View

Port = int | str
Quantities = dict[str, str | int | float]


# ── environment ──────────────────────────────────────────────────────────────────────────
class KeySelector(View, frozen=True, kw_only=True):
    """A key of a ConfigMap or Secret."""

    name: str = ""
    key: str = ""
    optional: bool = False


class FieldRef(View, frozen=True, kw_only=True):
    field_path: str = ""


class ResourceFieldRef(View, frozen=True, kw_only=True):
    container_name: str = ""
    resource: str = ""
    divisor: str | int | float = "0"


class EnvSource(View, frozen=True, kw_only=True):
    field_ref: FieldRef | None = None
    resource_field_ref: ResourceFieldRef | None = None
    config_map_key_ref: KeySelector | None = None
    secret_key_ref: KeySelector | None = None


class EnvVar(View, frozen=True, kw_only=True):
    name: str
    value: str = ""
    value_from: EnvSource | None = None


class NamedSource(View, frozen=True, kw_only=True):
    name: str = ""
    optional: bool = False


class EnvFrom(View, frozen=True, kw_only=True):
    prefix: str = ""
    config_map_ref: NamedSource | None = None
    secret_ref: NamedSource | None = None


# ── probes and hooks ─────────────────────────────────────────────────────────────────────
class ExecAction(View, frozen=True, kw_only=True):
    command: tuple[str, ...] = ()


class HttpHeader(View, frozen=True, kw_only=True):
    name: str
    value: str = ""


class HttpAction(View, frozen=True, kw_only=True):
    port: Port
    path: str = "/"
    host: str = ""
    scheme: str = "HTTP"
    http_headers: tuple[HttpHeader, ...] = ()


class TcpAction(View, frozen=True, kw_only=True):
    port: Port
    host: str = ""


class GrpcAction(View, frozen=True, kw_only=True):
    port: int
    service: str = ""


class SleepAction(View, frozen=True, kw_only=True):
    seconds: int = 0


class Handler(View, frozen=True, kw_only=True):
    """The action of a probe or hook; exactly one field is set."""

    exec: ExecAction | None = None
    http_get: HttpAction | None = None
    tcp_socket: TcpAction | None = None
    grpc: GrpcAction | None = None
    sleep: SleepAction | None = None


class Probe(Handler, frozen=True, kw_only=True):
    initial_delay_seconds: int = 0
    timeout_seconds: int = 1
    period_seconds: int = 10
    success_threshold: int = 1
    failure_threshold: int = 3
    termination_grace_period_seconds: int | None = None


class Lifecycle(View, frozen=True, kw_only=True):
    post_start: Handler | None = None
    pre_stop: Handler | None = None


# ── containers ───────────────────────────────────────────────────────────────────────────
class ContainerPort(View, frozen=True, kw_only=True):
    container_port: int
    name: str = ""
    protocol: str = "TCP"
    host_port: int = 0
    host_ip: str = msgspec.field(default="", name="hostIP")


class VolumeMount(View, frozen=True, kw_only=True):
    name: str
    mount_path: str
    read_only: bool = False
    sub_path: str = ""
    sub_path_expr: str = ""


class Capabilities(View, frozen=True, kw_only=True):
    add: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()


class SecurityContext(View, frozen=True, kw_only=True):
    """The security context of a container or of a Pod; fields of the container have precedence."""

    privileged: bool = False
    allow_privilege_escalation: bool = True
    capabilities: Capabilities = Capabilities()

    run_as_user: int | None = None
    run_as_group: int | None = None
    run_as_non_root: bool | None = None
    read_only_root_filesystem: bool = False
    fs_group: int | None = None
    supplemental_groups: tuple[int, ...] = ()


class Container(View, frozen=True, kw_only=True):
    name: str
    image: str = ""
    image_pull_policy: str = "IfNotPresent"
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    working_dir: str = ""
    env: tuple[EnvVar, ...] = ()
    env_from: tuple[EnvFrom, ...] = ()
    ports: tuple[ContainerPort, ...] = ()
    resources: Resources = Resources()
    volume_mounts: tuple[VolumeMount, ...] = ()
    startup_probe: Probe | None = None
    readiness_probe: Probe | None = None
    liveness_probe: Probe | None = None
    lifecycle: Lifecycle = Lifecycle()
    security_context: SecurityContext = SecurityContext()
    restart_policy: str = ""
    """`Always` on an init container makes it a sidecar."""
    target_container_name: str = ""
    """The container whose processes an ephemeral container sees."""
    stdin: bool = False
    tty: bool = False
    termination_message_path: str = "/dev/termination-log"
    termination_message_policy: str = "File"

    def port_number(self, port: Port) -> int | None:
        """The number of a port given by number or name; None if the name is unknown."""
        if isinstance(port, int):
            return port
        named = next((known for known in self.ports if known.name == port), None)
        if named is not None:
            return named.container_port
        return int(port) if port.isdigit() else None


# ── volumes ──────────────────────────────────────────────────────────────────────────────
class KeyToPath(View, frozen=True, kw_only=True):
    key: str
    path: str
    mode: int | None = None


class EmptyDir(View, frozen=True, kw_only=True):
    medium: str = ""
    size_limit: str | int | float | None = None


class ConfigMapVolume(View, frozen=True, kw_only=True):
    name: str = ""
    items: tuple[KeyToPath, ...] = ()
    default_mode: int = 0o644
    optional: bool = False


class SecretVolume(View, frozen=True, kw_only=True):
    secret_name: str = ""
    name: str = ""
    """Projected Secrets are named by this field."""
    items: tuple[KeyToPath, ...] = ()
    default_mode: int = 0o644
    optional: bool = False


class DownwardFile(View, frozen=True, kw_only=True):
    path: str
    field_ref: FieldRef | None = None
    resource_field_ref: ResourceFieldRef | None = None
    mode: int | None = None


class DownwardVolume(View, frozen=True, kw_only=True):
    items: tuple[DownwardFile, ...] = ()
    default_mode: int = 0o644


class TokenProjection(View, frozen=True, kw_only=True):
    path: str
    audience: str = ""
    expiration_seconds: int = 3600


class Projection(View, frozen=True, kw_only=True):
    config_map: ConfigMapVolume | None = None
    secret: SecretVolume | None = None
    downward_api: DownwardVolume | None = msgspec.field(default=None, name="downwardAPI")
    service_account_token: TokenProjection | None = None


class ProjectedVolume(View, frozen=True, kw_only=True):
    sources: tuple[Projection, ...] = ()
    default_mode: int = 0o644


class HostPath(View, frozen=True, kw_only=True):
    path: str
    type: str = ""


class ClaimVolume(View, frozen=True, kw_only=True):
    claim_name: str
    read_only: bool = False


class Volume(View, frozen=True, kw_only=True):
    name: str
    empty_dir: EmptyDir | None = None
    config_map: ConfigMapVolume | None = None
    secret: SecretVolume | None = None
    downward_api: DownwardVolume | None = msgspec.field(default=None, name="downwardAPI")
    projected: ProjectedVolume | None = None
    host_path: HostPath | None = None
    persistent_volume_claim: ClaimVolume | None = None
    ephemeral: dict[str, Any] | None = None

    @property
    def is_read_only(self) -> bool:
        """True for volumes made from API objects: only the agent writes to those."""
        if self.persistent_volume_claim is not None:
            return self.persistent_volume_claim.read_only
        return any((self.config_map, self.secret, self.downward_api, self.projected))


# ── the Pod ──────────────────────────────────────────────────────────────────────────────
class HostAlias(View, frozen=True, kw_only=True):
    ip: str
    hostnames: tuple[str, ...] = ()


class DnsOption(View, frozen=True, kw_only=True):
    name: str = ""
    value: str | None = None


class DnsConfig(View, frozen=True, kw_only=True):
    nameservers: tuple[str, ...] = ()
    searches: tuple[str, ...] = ()
    options: tuple[DnsOption, ...] = ()


class ReadinessGate(View, frozen=True, kw_only=True):
    condition_type: str


class PodSpec(View, frozen=True, kw_only=True):
    node_name: str = ""
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    ephemeral_containers: tuple[Container, ...] = ()
    """Added to a running Pod by `kubectl debug`; run once, and do not count for the Pod's phase."""
    volumes: tuple[Volume, ...] = ()
    restart_policy: str = "Always"
    termination_grace_period_seconds: int = 30
    active_deadline_seconds: int | None = None
    service_account_name: str = "default"
    hostname: str = ""
    subdomain: str = ""
    host_network: bool = False
    host_aliases: tuple[HostAlias, ...] = ()
    share_process_namespace: bool = False
    dns_policy: str = "ClusterFirst"
    dns_config: DnsConfig = DnsConfig()
    security_context: SecurityContext = SecurityContext()
    enable_service_links: bool = True
    readiness_gates: tuple[ReadinessGate, ...] = ()


class PodCondition(core.PodCondition, frozen=True, kw_only=True):
    last_probe_time: str | None = None


class PodStatus(View, frozen=True, kw_only=True):
    phase: str = "Pending"
    reason: str = ""
    message: str = ""
    pod_ip: str = msgspec.field(default="", name="podIP")
    start_time: str | None = None
    conditions: tuple[PodCondition, ...] = ()
    container_statuses: tuple[dict[str, Any], ...] = ()
    init_container_statuses: tuple[dict[str, Any], ...] = ()


class NodePod(Object, frozen=True, kw_only=True):
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def hostname(self) -> str:
        """At most 63 characters, the limit of the kernel and of DNS."""
        return (self.spec.hostname or self.metadata.name)[:63].rstrip("-.")

    def containers(self) -> tuple[Container, ...]:
        """All containers, in the order in which they start."""
        spec = self.spec
        return spec.init_containers + spec.containers + spec.ephemeral_containers

    def is_sidecar(self, container: Container) -> bool:
        return container.restart_policy == "Always" and container in self.spec.init_containers
