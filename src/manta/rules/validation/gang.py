"""Validation for gang schedulers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from manta.api.numbers import parse_count
from manta.api.ray import names
from manta.api.ray.job import RayJob, SubmissionMode
from manta.rules.settings import Settings
from manta.rules.validation.violation import Violation


def gang_label_violations(labels: Mapping[str, str], settings: Settings) -> Iterator[Violation]:
    tier = labels.get(names.LABEL_VOLCANO_TOPOLOGY_TIER, "")
    if settings.batch_scheduler == "volcano" and tier and parse_count(tier) is None:
        field = f"metadata.labels[{names.LABEL_VOLCANO_TOPOLOGY_TIER}]"
        yield Violation(field, tier, "must be a whole number, such as 2")


def gang_job_violations(job: RayJob, settings: Settings) -> Iterator[Violation]:
    yield from gang_label_violations(job.metadata.labels, settings)
    mode = job.spec.submission_mode or SubmissionMode.K8S_JOB
    if settings.batch_scheduler == "kai-scheduler" and mode == SubmissionMode.K8S_JOB:
        cure = (
            "the KAI scheduler cannot gang a submitter Pod that starts after its cluster: use "
            "HTTPMode, SidecarMode or InteractiveMode"
        )
        yield Violation("spec.submissionMode", mode, cure)
