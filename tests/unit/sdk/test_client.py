"""Client: the same as AsyncClient, for programs without an event loop, and in notebooks that have one."""

from __future__ import annotations

import asyncio
import inspect
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import manta
from manta.sdk.async_objects import AsyncCollection, AsyncObject
from manta.sdk.loop_thread import AHEAD, LoopThread
from manta.sdk.objects import Collection, Object
from support.sdk import a_client


def test_the_example_of_the_readme_runs(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("print(1)")
    with a_client(finish_after=1) as (ray, scenario):
        with ray.clusters.create(name="demo", workers=manta.WorkerGroup(replicas=2, cpu=4)) as made:
            made.wait_ready()
            assert made.status.ready_worker_replicas == 2
            job = made.submit("python train.py", working_dir=tmp_path)
            assert job.result().job_status == "SUCCEEDED"
            assert [line for line in job.logs(follow=True) if "Traceback" in line] == []
        assert len(scenario.ray.executions) == 1
        assert ray.clusters.list() == [] or made.refresh().object.metadata.deletion_timestamp


async def test_it_works_where_an_event_loop_runs() -> None:
    """As in a cell of a notebook."""
    with a_client() as (ray, _):
        assert ray.clusters.create(name="demo", suspend=True).name == "demo"
        assert [one.name for one in ray.clusters.list()] == ["demo"]
    await asyncio.sleep(0)


def test_progress_is_shown_in_the_callers_thread() -> None:
    seen: list[tuple[str, threading.Thread]] = []
    with a_client() as (ray, _):
        cluster = ray.clusters.create(name="demo")
        cluster.wait_ready(progress=lambda line: seen.append((line, threading.current_thread())))
    assert seen
    assert seen[0][0].startswith("RayCluster default/demo: ")
    assert {thread for _, thread in seen} == {threading.current_thread()}


def test_a_closed_client_says_so_and_closes_again() -> None:
    ray = manta.Client(server="http://127.0.0.1:1", token="secret")
    ray.close()
    ray.close()
    with pytest.raises(RuntimeError, match="this client is closed"):
        ray.clusters.list()


def test_a_client_that_sends_nothing_starts_no_thread() -> None:
    before = threading.active_count()
    ray = manta.Client(server="http://127.0.0.1:1")
    assert threading.active_count() == before
    ray._loop.close()


def test_a_server_that_is_not_there_is_an_error_with_its_name() -> None:
    with (
        manta.Client(server="http://127.0.0.1:1", token="s3cret") as ray,
        pytest.raises(manta.Unreachable, match=r"127\.0\.0\.1:1") as unreachable,
    ):
        ray.clusters.list()
    assert "s3cret" not in str(unreachable.value)


# ── both clients are the same ────────────────────────────────────────────────────────────

PAIRS = [
    (getattr(manta, name), getattr(manta, f"Async{name}"))
    for name in (
        "Client", "Cluster", "Clusters", "Job", "Jobs", "Service", "Services", "CronJob", "CronJobs",
    )
]  # fmt: skip
ONLY_ASYNC = {"create_from", "from_kube", "kind", "reasons", "submit_to", "succeeded_status"}
ONLY_SYNC = {"from_async"}


def public(cls: type) -> dict[str, Any]:
    return {name: value for name, value in inspect.getmembers(cls) if not name.startswith("_")}


@pytest.mark.parametrize(("sync", "core"), PAIRS, ids=lambda cls: cls.__name__)
def test_every_method_exists_in_both_with_the_same_parameters_and_words(
    sync: type, core: type
) -> None:
    ours, theirs = public(sync), public(core)
    assert ours.keys() - ONLY_SYNC == theirs.keys() - ONLY_ASYNC
    for name in (ours.keys() & theirs.keys()) - {"handle"}:
        one, other = ours[name], theirs[name]
        assert inspect.getdoc(one) == inspect.getdoc(other), name
        if callable(one):
            parameters = list(inspect.signature(one).parameters.values())
            assert parameters == list(inspect.signature(other).parameters.values()), name


def test_the_collections_are_those_of_the_four_kinds() -> None:
    assert len(Object.__subclasses__()) == len(AsyncObject.__subclasses__()) == 4
    assert len(Collection.__subclasses__()) == len(AsyncCollection.__subclasses__()) == 4


# ── notebooks ────────────────────────────────────────────────────────────────────────────


def test_objects_and_lists_are_tables_with_escaped_text() -> None:
    with a_client() as (ray, _):
        evil = "<script>alert(1)</script>"
        cluster = ray.clusters.create(name="demo", suspend=True)
        cluster._core._document["status"] = {"state": evil, "head": {"podName": evil}}
        for html in (cluster._repr_html_(), ray.clusters.list()._repr_html_()):
            assert "demo" in html
            assert "<script" not in html
        assert "&lt;script&gt;" in cluster._repr_html_()
        assert ray.jobs.list()._repr_html_() == "<i>none</i>"
        assert repr(cluster) == "<Cluster default/demo>"


def test_a_notebook_gets_one_line_that_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    from manta.sdk.progress import reporter

    shown: list[str] = []

    class Display:
        def update(self, html: str) -> None:
            shown.append(f"update {html}")

    def display(html: str, *, display_id: bool) -> Display:
        shown.append(f"display {html}")
        return Display()

    fake = SimpleNamespace(get_ipython=lambda: SimpleNamespace(kernel=1))
    monkeypatch.setitem(sys.modules, "IPython", fake)
    monkeypatch.setitem(
        sys.modules,
        "IPython.display",
        SimpleNamespace(HTML=str, display=display),
    )
    report = reporter(None)
    report("a < b")
    report("c")
    assert shown == ["display <code>a &lt; b</code>", "update <code>c</code>"]


def test_elsewhere_progress_is_silent_unless_it_is_wanted(
    capsys: pytest.CaptureFixture[str],
) -> None:
    from manta.sdk.progress import reporter

    reporter(None)("quiet")
    reporter(False)("quiet")
    reporter(True)("loud")
    assert capsys.readouterr() == ("", "loud\n")


# ── the thread ───────────────────────────────────────────────────────────────────────────


def test_an_iteration_is_at_most_a_queue_ahead_and_ends_with_its_reader() -> None:
    made: list[int] = []
    ended = threading.Event()

    async def numbers():
        try:
            for number in range(100_000):
                made.append(number)
                yield number
        finally:
            ended.set()

    loop = LoopThread()
    items = loop.iterate(numbers())
    assert [next(items), next(items)] == [0, 1]
    loop.run(asyncio.sleep(0.05))
    assert len(made) <= AHEAD + 4
    items.close()  # type: ignore[attr-defined]
    assert ended.wait(10)
    loop.close()


def test_an_error_of_an_iteration_comes_after_its_items() -> None:
    async def numbers():
        yield 1
        raise ValueError("of the generator")

    loop = LoopThread()
    items = loop.iterate(numbers())
    assert next(items) == 1
    with pytest.raises(ValueError, match="of the generator"):
        next(items)
    loop.close()


def test_close_cancels_what_still_runs() -> None:
    cancelled = threading.Event()

    async def forever() -> None:
        try:
            await asyncio.sleep(1000)
        except asyncio.CancelledError:
            cancelled.set()
            raise

    loop = LoopThread()
    started = loop.start(forever())
    loop.run(asyncio.sleep(0))
    loop.close()
    assert cancelled.is_set()
    assert started.cancelled()
