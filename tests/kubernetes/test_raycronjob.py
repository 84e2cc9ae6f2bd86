"""A RayCronJob on a whole control plane: the clock is the real one, and so is the minute."""

from __future__ import annotations

from typing import Any

import pytest

from manta.api.ray.resources import RAY_CRON_JOBS, RAY_JOBS
from support.operator_fixture import OperatorFixture, until
from support.operator_objects import a_job

Json = dict[str, Any]


@pytest.mark.timeout(240)
async def test_every_minute_makes_one_ray_job_until_it_is_suspended(
    operated: OperatorFixture, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("support.operator_fixture.TIMEOUT", 90.0)
    template = a_job(operated, name, submissionMode="HTTPMode")["spec"]
    spec = {"schedule": "* * * * *", "jobTemplate": template}
    await operated.make(RAY_CRON_JOBS, {"metadata": {"name": name}, "spec": spec} | KIND)

    async def children() -> list[Json]:
        return await operated.all(RAY_JOBS, f"ray.io/cronjob-name={name}")

    [child] = await until(children)
    tick = child["metadata"]["annotations"]["ray.io/cronjob-scheduled-timestamp"]
    await operated.edit(RAY_CRON_JOBS, name, {"spec": {"suspend": True}})
    cron = await operated.until(RAY_CRON_JOBS, name, lambda one: one.get("lastScheduleTime"))
    assert cron["status"]["lastScheduleTime"] == tick
    [owner] = child["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"]) == ("RayCronJob", cron["metadata"]["uid"])
    job = child["metadata"]["name"]
    await operated.until(RAY_JOBS, job, lambda one: one.get("jobStatus") == "RUNNING")
    await operated.delete(RAY_CRON_JOBS, name)
    await operated.until_gone(RAY_JOBS, job)


KIND = {"apiVersion": "ray.io/v1", "kind": "RayCronJob"}
