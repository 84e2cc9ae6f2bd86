"""A dashboard is asked often while something changes, seldom when it rests, and in nobody's turn."""

from __future__ import annotations

import asyncio

import pytest

from manta.ray.watch import DashboardWatch, Pace
from manta.runtime.simulation import run_virtual


class Speaker:
    """A dashboard whose answer can be changed, and which counts how often it was asked."""

    def __init__(self, answer: str) -> None:
        self.answer = answer
        self.asked = 0

    async def ask(self) -> str:
        self.asked += 1
        return self.answer


async def turns(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_the_first_answer_enqueues_the_object() -> None:
    changed: list[str] = []
    watch: DashboardWatch[str, str] = DashboardWatch(changed.append)
    speaker = Speaker("RUNNING")
    assert watch.answer("job", "id", speaker.ask, expecting=False) is None
    await turns(3)
    assert changed == ["job"]
    assert watch.answer("job", "id", speaker.ask, expecting=False) == "RUNNING"
    watch.close()


async def test_an_answer_that_rests_is_told_once_however_often_it_is_asked() -> None:
    changed: list[str] = []
    watch: DashboardWatch[str, str] = DashboardWatch(changed.append, Pace(busy=0, calm=0))
    speaker = Speaker("RUNNING")
    watch.answer("job", "id", speaker.ask, expecting=True)
    while speaker.asked < 5:
        await asyncio.sleep(0)
    assert changed == ["job"]
    watch.close()


async def test_ask_now_does_not_wait_for_the_next_turn() -> None:
    watch: DashboardWatch[str, str] = DashboardWatch(lambda _: None, Pace(busy=3600, calm=3600))
    speaker = Speaker("PENDING")
    watch.answer("job", "id", speaker.ask, expecting=False)
    await turns(3)
    watch.ask_now("job")
    await turns(3)
    assert speaker.asked == 2
    watch.close()


async def test_a_question_about_another_job_starts_anew() -> None:
    watch: DashboardWatch[str, str] = DashboardWatch(lambda _: None, Pace(busy=3600))
    first, second = Speaker("old"), Speaker("new")
    watch.answer("job", "id-1", first.ask, expecting=False)
    await turns(3)
    assert watch.answer("job", "id-2", second.ask, expecting=False) is None
    await turns(3)
    assert watch.answer("job", "id-2", second.ask, expecting=False) == "new"
    watch.close()


async def test_a_dashboard_that_hangs_delays_no_other() -> None:
    changed: list[str] = []
    watch: DashboardWatch[str, str] = DashboardWatch(changed.append)

    async def hang() -> str:
        await asyncio.Event().wait()
        return "never"

    for number in range(20):
        watch.answer(f"hanging-{number}", "id", hang, expecting=True)
    watch.answer("healthy", "id", Speaker("RUNNING").ask, expecting=True)
    await turns(5)
    assert changed == ["healthy"]
    watch.close()


async def test_nothing_is_kept_of_an_object_that_is_gone() -> None:
    watch: DashboardWatch[str, str] = DashboardWatch(lambda _: None)
    watch.answer("job", "id", Speaker("x").ask, expecting=False)
    watch.forget("job")
    assert len(watch) == 0


async def test_nobody_is_asked_once_the_manager_has_ended() -> None:
    watch: DashboardWatch[str, str] = DashboardWatch(lambda _: None, Pace(busy=0, calm=0))
    speaker = Speaker("RUNNING")
    service = asyncio.create_task(watch.run())
    watch.answer("job", "id", speaker.ask, expecting=True)
    await turns(5)
    service.cancel()
    await asyncio.gather(service, return_exceptions=True)
    asked = speaker.asked
    await turns(10)
    assert speaker.asked == asked > 0
    assert len(watch) == 0


def test_a_fleet_that_starts_at_once_is_asked_no_more_often_than_its_asker_can_bear() -> None:
    async def scenario() -> None:
        pace = Pace(busy=0.1, calm=10, most_per_second=50)
        watch: DashboardWatch[int, str] = DashboardWatch(lambda _: None, pace)
        speakers = [Speaker("DEPLOYING") for _ in range(100)]
        for number, speaker in enumerate(speakers):
            watch.answer(number, "id", speaker.ask, expecting=True)
        await asyncio.sleep(20)
        asked = sum(speaker.asked for speaker in speakers)
        assert 100 * 5 <= asked <= 100 * 12  # one each at once, then 50 a second
        for number in range(1, 100):
            watch.forget(number)
        before = speakers[0].asked
        await asyncio.sleep(10)
        assert speakers[0].asked >= before + 90, "who is alone is asked at the busy pace again"
        watch.close()

    run_virtual(scenario())


class Stumbler(Speaker):
    """A dashboard about which asking itself goes wrong, for as long as `broken`."""

    broken = True

    async def ask(self) -> str:
        answer = await super().ask()
        if self.broken:
            raise ValueError("nobody foresaw this")
        return answer


def test_an_error_that_nobody_foresaw_is_told_once_and_does_not_end_the_watch(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario() -> None:
        changed: list[str] = []
        pace = Pace(busy=1, calm=30)
        watch: DashboardWatch[str, str] = DashboardWatch(changed.append, pace)
        speaker = Stumbler("RUNNING")
        watch.answer("job", "id", speaker.ask, expecting=True)
        await asyncio.sleep(95)
        assert speaker.asked == 4, "at the calm pace"
        assert (changed, caplog.text.count("asking about job failed")) == ([], 1)
        assert "nobody foresaw this" in caplog.text
        speaker.broken = False
        await asyncio.sleep(30)
        assert changed == ["job"]
        assert watch.answer("job", "id", speaker.ask, expecting=True) == "RUNNING"
        watch.close()

    run_virtual(scenario())


def test_who_stumbled_and_says_the_same_as_before_is_asked_at_the_busy_pace_again() -> None:
    async def scenario() -> None:
        watch: DashboardWatch[str, str] = DashboardWatch(lambda _: None, Pace(busy=1, calm=30))
        speaker = Stumbler("DEPLOYING")
        speaker.broken = False
        watch.answer("job", "id", speaker.ask, expecting=True)
        await asyncio.sleep(5.5)
        speaker.broken = True
        await asyncio.sleep(5)
        speaker.broken = False
        await asyncio.sleep(30)
        before = speaker.asked
        await asyncio.sleep(10)
        assert speaker.asked >= before + 9
        watch.close()

    run_virtual(scenario())
