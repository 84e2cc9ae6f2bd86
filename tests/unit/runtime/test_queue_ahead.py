"""What was begun is finished before more is begun, and nobody starves."""

from __future__ import annotations

from random import Random

from manta.runtime.queue import MOST_AHEAD, WorkQueue


async def served(queue: WorkQueue[str], count: int) -> list[str]:
    found = []
    for _ in range(count):
        key = await queue.get()
        queue.done(key)
        found.append(key)
    return found


async def test_a_key_that_is_ahead_goes_before_those_that_wait() -> None:
    queue: WorkQueue[str] = WorkQueue(Random(1))
    for key in ("a", "b"):
        queue.add(key)
    queue.add("begun", ahead=True)
    assert await served(queue, 3) == ["begun", "a", "b"]


async def test_those_that_wait_are_served_between_those_ahead() -> None:
    queue: WorkQueue[str] = WorkQueue(Random(1))
    queue.add("waits")
    for number in range(MOST_AHEAD + 10):
        queue.add(f"begun-{number}", ahead=True)
    assert (await served(queue, MOST_AHEAD + 11)).index("waits") == MOST_AHEAD


async def test_a_key_added_while_it_runs_keeps_its_place_ahead() -> None:
    queue: WorkQueue[str] = WorkQueue(Random(1))
    queue.add("a")
    assert await queue.get() == "a"
    queue.add("b")
    queue.add("a", ahead=True)
    queue.done("a")
    assert await served(queue, 2) == ["a", "b"]


async def test_a_key_that_waits_changes_lines_when_its_work_is_under_way() -> None:
    queue: WorkQueue[str] = WorkQueue(Random(1))
    for key in ("a", "b", "c"):
        queue.add(key)
    queue.add("c", ahead=True)
    assert queue.depth == 3
    assert await served(queue, 3) == ["c", "a", "b"]


async def test_a_running_key_that_is_hurried_lines_up_ahead() -> None:
    queue: WorkQueue[str] = WorkQueue(Random(1))
    queue.add("a")
    assert await queue.get() == "a"
    queue.add("b")
    queue.add("a")
    queue.add("a", ahead=True)
    queue.done("a")
    assert await served(queue, 2) == ["a", "b"]


async def test_a_key_waits_once_however_it_was_added() -> None:
    queue: WorkQueue[str] = WorkQueue(Random(1))
    queue.add("a")
    queue.add("a", ahead=True)
    queue.add("b", ahead=True)
    queue.add("b")
    assert queue.depth == 2
    assert await served(queue, 2) == ["a", "b"]
    assert queue.depth == 0
