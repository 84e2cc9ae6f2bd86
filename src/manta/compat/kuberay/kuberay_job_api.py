"""KubeRay's `RayjobApi`."""

from __future__ import annotations

from typing import Any, Final

from manta.api.ray.manifest import Document
from manta.api.ray.resources import RAY_JOBS
from manta.compat.kuberay.connection import Connection

TERMINAL_JOB_STATUSES: Final = ["STOPPED", "SUCCEEDED", "FAILED"]
_FINISHED: Final = ("Complete", "Failed")
_NOT_RUNNING: Final = (*_FINISHED, "Suspended")


class RayjobApi(Connection):
    """Submit, read, wait for, suspend and delete RayJobs."""

    resource = RAY_JOBS

    def submit_job(self, k8s_namespace: str = "default", job: Any = None) -> Any:
        """The created RayJob as a dict; None after an error."""
        return self._answer("submit rayjob", self._create(job or {}, k8s_namespace))

    def get_job_status(
        self,
        name: str,
        k8s_namespace: str = "default",
        timeout: int = 60,
        delay_between_attempts: int = 5,  # a watch needs no delay
    ) -> Any:
        """The status, once the operator has written one; None after `timeout` seconds or an error."""
        work = self._status_when(name, k8s_namespace, timeout, lambda _: True)
        return self._answer(f"status of rayjob {name}", work)

    def wait_until_job_finished(
        self,
        name: str,
        k8s_namespace: str = "default",
        timeout: int = 60,
        delay_between_attempts: int = 5,  # a watch needs no delay
    ) -> bool:
        """Whether the job ends within `timeout` seconds, successfully or not."""
        work = self._status_when(name, k8s_namespace, timeout, _has_ended)
        return self._answer(f"wait for rayjob {name}", work) is not None

    def wait_until_job_running(
        self,
        name: str,
        k8s_namespace: str = "default",
        timeout: int = 60,
        delay_between_attempts: int = 5,  # a watch needs no delay
    ) -> bool:
        """Whether the job runs within `timeout` seconds. A job that ended or is suspended does not."""
        work = self._status_when(
            name,
            k8s_namespace,
            timeout,
            lambda status: status.get("jobDeploymentStatus") in ("Running", *_NOT_RUNNING),
        )
        status = self._answer(f"wait for rayjob {name}", work) or {}
        return status.get("jobDeploymentStatus") == "Running"

    def suspend_job(self, name: str, k8s_namespace: str = "default") -> bool:
        """Stop a job and delete its cluster. Whether it succeeded."""
        return self._set_suspend(name, k8s_namespace, value=True)

    def resubmit_job(self, name: str, k8s_namespace: str = "default") -> bool:
        """Run a suspended job again. Whether it succeeded."""
        return self._set_suspend(name, k8s_namespace, value=False)

    def delete_job(self, name: str, k8s_namespace: str = "default") -> bool:
        """Delete a job and its cluster. Whether it succeeded; False if it is gone already."""
        work = self._delete(name, k8s_namespace)
        return self._answer(f"delete rayjob {name}", work) is not None

    def get_job(self, name: str, k8s_namespace: str = "default") -> Any:
        """The RayJob as a dict; None if it does not exist or after an error."""
        return self._answer(f"get rayjob {name}", self._get(name, k8s_namespace))

    def list_jobs(self, k8s_namespace: str = "default") -> Any:
        """The RayJobList as a dict; None after an error."""
        return self._answer("list rayjobs", self._list(k8s_namespace))

    def _set_suspend(self, name: str, namespace: str, *, value: bool) -> bool:
        work = self._patch(name, {"spec": {"suspend": value}}, namespace)
        return self._answer(f"patch rayjob {name}", work) is not None


def _has_ended(status: Document) -> bool:
    stage, job = status.get("jobDeploymentStatus"), status.get("jobStatus")
    return stage in _FINISHED or job in TERMINAL_JOB_STATUSES
