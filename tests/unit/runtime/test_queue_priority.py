"""What was begun is finished before more is begun, and nobody starves."""

from __future__ import annotations

from random import Random

from manta.runtime.queue import MAX_PRIORITY_RUN, WorkQueue


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
    queue.add("begun", priority=True)
    assert await served(queue, 3) == ["begun", "a", "b"]


async def test_those_that_wait_are_served_between_those_ahead() -> None:
    queue: WorkQueue[str] = WorkQueue(Random(1))
    queue.add("waits")
    for number in range(MAX_PRIORITY_RUN + 10):
        queue.add(f"begun-{number}", priority=True)
    assert (await served(queue, MAX_PRIORITY_RUN + 11)).index("waits") == MAX_PRIORITY_RUN


async def test_a_key_added_while_it_runs_keeps_its_place_ahead() -> None:
    queue: WorkQueue[str] = WorkQueue(Random(1))
    queue.add("a")
    assert await queue.get() == "a"
    queue.add("b")
    queue.add("a", priority=True)
    queue.done("a")
    assert await served(queue, 2) == ["a", "b"]


async def test_a_key_that_waits_changes_lines_when_its_work_is_under_way() -> None:
    queue: WorkQueue[str] = WorkQueue(Random(1))
    for key in ("a", "b", "c"):
        queue.add(key)
    queue.add("c", priority=True)
    assert queue.depth == 3
    assert await served(queue, 3) == ["c", "a", "b"]


async def test_a_running_key_that_is_hurried_lines_up_ahead() -> None:
    queue: WorkQueue[str] = WorkQueue(Random(1))
    queue.add("a")
    assert await queue.get() == "a"
    queue.add("b")
    queue.add("a")
    queue.add("a", priority=True)
    queue.done("a")
    assert await served(queue, 2) == ["a", "b"]


async def test_a_key_waits_once_however_it_was_added() -> None:
    queue: WorkQueue[str] = WorkQueue(Random(1))
    queue.add("a")
    queue.add("a", priority=True)
    queue.add("b", priority=True)
    queue.add("b")
    assert queue.depth == 2
    assert await served(queue, 2) == ["a", "b"]
    assert queue.depth == 0
