"""The Events of a Pod, with a kubelet's reasons."""

from __future__ import annotations

from dataclasses import dataclass

from manta.api.resources import PODS
from manta.localplane.node.spec.pod_spec import NodePod
from manta.runtime.recorder import EventType, ObjectReference, Recorder


@dataclass(frozen=True, slots=True)
class Reason:
    name: str
    action: str
    type: EventType = "Normal"


PULLING = Reason("Pulling", "Pulling")
PULLED = Reason("Pulled", "Pulling")
PULL_FAILED = Reason("Failed", "Pulling", "Warning")
PULL_BACK_OFF = Reason("BackOff", "Pulling")
CREATED = Reason("Created", "Starting")
STARTED = Reason("Started", "Starting")
START_FAILED = Reason("Failed", "Starting", "Warning")
RESTART_BACK_OFF = Reason("BackOff", "Starting", "Warning")
KILLING = Reason("Killing", "Stopping")
UNHEALTHY = Reason("Unhealthy", "Probing", "Warning")
HOOK_FAILED = Reason("FailedPostStartHook", "Starting", "Warning")
STOP_HOOK_FAILED = Reason("FailedPreStopHook", "Stopping", "Warning")
MOUNT_FAILED = Reason("FailedMount", "Mounting", "Warning")
NOT_MOUNTED = Reason("VolumesNotMounted", "Mounting", "Warning")
SANDBOX_FAILED = Reason("FailedCreatePodSandBox", "Starting", "Warning")
SANDBOX_CHANGED = Reason("SandboxChanged", "Starting")
GPU_UNAVAILABLE = Reason("GpuUnavailable", "Running", "Warning")
DNS_UNAVAILABLE = Reason("DnsUnavailable", "Starting", "Warning")


class PodEvents:
    """Records Events that refer to one Pod."""

    def __init__(self, recorder: Recorder, pod: NodePod) -> None:
        self._recorder = recorder
        self._reference = ObjectReference.to(PODS, pod.metadata)

    def record(self, reason: Reason, note: str) -> None:
        self._recorder.event(
            self._reference, reason.type, reason.name, reason.action, note, controller="kubelet"
        )
