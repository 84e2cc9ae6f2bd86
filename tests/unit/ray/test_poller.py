"""Dashboards are polled often while something changes, seldom otherwise, and never by a worker."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from typing import TypeVar

import pytest

from manta.ray.poller import DashboardPoller, PollInterval
from support.virtual_time import run_virtual

K = TypeVar("K", bound=Hashable)


class FakeDashboard:
    """A dashboard whose answer can be changed, and that counts the polls."""

    def __init__(self, answer: str) -> None:
        self.answer = answer
        self.polls = 0

    async def fetch(self) -> str:
        self.polls += 1
        return self.answer


def a_poller(
    changed: Callable[[K], None], interval: PollInterval | None = None
) -> DashboardPoller[K, str]:
    return DashboardPoller(changed, interval, failed=lambda error: f"no answer: {error}")


async def turns(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_the_first_answer_enqueues_the_object() -> None:
    changed: list[str] = []
    poller: DashboardPoller[str, str] = a_poller(changed.append)
    dashboard = FakeDashboard("RUNNING")
    assert poller.latest("job", "id", dashboard.fetch, expecting_change=False) is None
    await turns(3)
    assert changed == ["job"]
    assert poller.latest("job", "id", dashboard.fetch, expecting_change=False) == "RUNNING"
    poller.close()


async def test_an_unchanged_answer_is_reported_once() -> None:
    changed: list[str] = []
    poller: DashboardPoller[str, str] = a_poller(changed.append, PollInterval(fast=0, slow=0))
    dashboard = FakeDashboard("RUNNING")
    poller.latest("job", "id", dashboard.fetch, expecting_change=True)
    while dashboard.polls < 5:
        await asyncio.sleep(0)
    assert changed == ["job"]
    poller.close()


async def test_poll_now_does_not_wait_for_the_next_interval() -> None:
    poller: DashboardPoller[str, str] = a_poller(lambda _: None, PollInterval(fast=3600, slow=3600))
    dashboard = FakeDashboard("PENDING")
    poller.latest("job", "id", dashboard.fetch, expecting_change=False)
    await turns(3)
    poller.poll_now("job")
    await turns(3)
    assert dashboard.polls == 2
    poller.close()


async def test_another_identity_starts_a_new_poll() -> None:
    poller: DashboardPoller[str, str] = a_poller(lambda _: None, PollInterval(fast=3600))
    first, second = FakeDashboard("old"), FakeDashboard("new")
    poller.latest("job", "id-1", first.fetch, expecting_change=False)
    await turns(3)
    assert poller.latest("job", "id-2", second.fetch, expecting_change=False) is None
    await turns(3)
    assert poller.latest("job", "id-2", second.fetch, expecting_change=False) == "new"
    poller.close()


async def test_a_dashboard_that_hangs_delays_no_other() -> None:
    changed: list[str] = []
    poller: DashboardPoller[str, str] = a_poller(changed.append)

    async def hang() -> str:
        await asyncio.Event().wait()
        return "never"

    for number in range(20):
        poller.latest(f"hanging-{number}", "id", hang, expecting_change=True)
    poller.latest("healthy", "id", FakeDashboard("RUNNING").fetch, expecting_change=True)
    await turns(5)
    assert changed == ["healthy"]
    poller.close()


async def test_forget_removes_the_poll() -> None:
    poller: DashboardPoller[str, str] = a_poller(lambda _: None)
    poller.latest("job", "id", FakeDashboard("x").fetch, expecting_change=False)
    poller.forget("job")
    assert len(poller) == 0


async def test_polling_stops_when_the_manager_ends() -> None:
    poller: DashboardPoller[str, str] = a_poller(lambda _: None, PollInterval(fast=0, slow=0))
    dashboard = FakeDashboard("RUNNING")
    service = asyncio.create_task(poller.run())
    poller.latest("job", "id", dashboard.fetch, expecting_change=True)
    await turns(5)
    service.cancel()
    await asyncio.gather(service, return_exceptions=True)
    polls = dashboard.polls
    await turns(10)
    assert dashboard.polls == polls > 0
    assert len(poller) == 0


def test_many_keys_that_expect_a_change_share_the_rate_limit() -> None:
    async def scenario() -> None:
        interval = PollInterval(fast=0.1, slow=10, max_per_second=50)
        poller: DashboardPoller[int, str] = a_poller(lambda _: None, interval)
        dashboards = [FakeDashboard("DEPLOYING") for _ in range(100)]
        for number, dashboard in enumerate(dashboards):
            poller.latest(number, "id", dashboard.fetch, expecting_change=True)
        await asyncio.sleep(20)
        polls = sum(dashboard.polls for dashboard in dashboards)
        assert 100 * 5 <= polls <= 100 * 12  # one each at once, then 50 a second
        for number in range(1, 100):
            poller.forget(number)
        before = dashboards[0].polls
        await asyncio.sleep(10)
        assert dashboards[0].polls >= before + 90, (
            "a single key is polled at the fast interval again"
        )
        poller.close()

    run_virtual(scenario())


class FailingDashboard(FakeDashboard):
    """A dashboard whose fetch raises while `broken`."""

    broken = True

    async def fetch(self) -> str:
        answer = await super().fetch()
        if self.broken:
            raise ValueError("unexpected")
        return answer


def test_an_unexpected_error_is_logged_once_and_polling_goes_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario() -> None:
        changed: list[str] = []
        interval = PollInterval(fast=1, slow=30)
        poller: DashboardPoller[str, str] = a_poller(changed.append, interval)
        dashboard = FailingDashboard("RUNNING")
        poller.latest("job", "id", dashboard.fetch, expecting_change=True)
        await asyncio.sleep(95)
        assert dashboard.polls == 4, "at the slow interval"
        assert (changed, caplog.text.count("polling job failed")) == (["job"], 1)
        assert "unexpected" in caplog.text
        silent = poller.latest("job", "id", dashboard.fetch, expecting_change=True)
        assert silent == "no answer: unexpected"
        dashboard.broken = False
        await asyncio.sleep(30)
        assert changed == ["job", "job"]
        assert poller.latest("job", "id", dashboard.fetch, expecting_change=True) == "RUNNING"
        poller.close()

    run_virtual(scenario())


def test_after_an_error_the_same_answer_restores_the_fast_interval() -> None:
    async def scenario() -> None:
        poller: DashboardPoller[str, str] = a_poller(lambda _: None, PollInterval(fast=1, slow=30))
        dashboard = FailingDashboard("DEPLOYING")
        dashboard.broken = False
        poller.latest("job", "id", dashboard.fetch, expecting_change=True)
        await asyncio.sleep(5.5)
        dashboard.broken = True
        await asyncio.sleep(5)
        dashboard.broken = False
        await asyncio.sleep(30)
        before = dashboard.polls
        await asyncio.sleep(10)
        assert dashboard.polls >= before + 9
        poller.close()

    run_virtual(scenario())
