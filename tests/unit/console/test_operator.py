"""The page of the operator: metrics become numbers, rates and plots, with the visitor's rights."""

from __future__ import annotations

from datetime import timedelta
from math import isnan
from typing import cast

import msgspec
import pytest

from manta.console.operator_metrics import Reading, quantile, rates, reading_of
from manta.console.operators import Operators, OperatorView, operator_pods
from manta.console.pages.operator import operator_page
from manta.console.views import Pod
from manta.kube.client import Client
from manta.kube.errors import MantaError
from manta.kube.retry import RetryPolicy
from manta.kube.transport import Request, Response
from manta.runtime.clock import SystemClock
from support.console import NOW, running_console, snapshot

TEXT = """# HELP workqueue_depth Keys ready to run.
workqueue_depth{{name="raycluster"}} {queued}
manta_queue_delayed{{controller="raycluster"}} 7
controller_runtime_active_workers{{controller="raycluster"}} 2
controller_runtime_reconcile_total{{controller="raycluster",result="success"}} {done}
controller_runtime_reconcile_total{{controller="raycluster",result="error"}} {failed}
controller_runtime_reconcile_errors_total{{controller="raycluster"}} {failed}
controller_runtime_reconcile_time_seconds_bucket{{controller="raycluster",le="0.1"}} {done}
controller_runtime_reconcile_time_seconds_bucket{{controller="raycluster",le="1"}} {done}
controller_runtime_reconcile_time_seconds_bucket{{controller="raycluster",le="+Inf"}} {done}
manta_watch_trouble{{resource="pods"}} {trouble}
another_metric{{controller="raycluster"}} nonsense
"""


def text(queued: int = 3, done: int = 100, failed: int = 0, trouble: int = 0) -> str:
    return TEXT.format(queued=queued, done=done, failed=failed, trouble=trouble)


def test_metrics_become_numbers_of_controllers() -> None:
    found = reading_of([text(failed=2, trouble=1)], NOW)
    [one] = found.controllers
    assert (one.name, one.queued, one.delayed, one.running) == ("raycluster", 3, 7, 2)
    assert (one.reconciles, one.failures) == (102, 2)
    assert found.troubles == ("pods",)


def test_the_pods_of_several_operators_are_added_up() -> None:
    [one] = reading_of([text(queued=1, done=10), text(queued=2, done=20)], NOW).controllers
    assert (one.queued, one.reconciles) == (3, 30)


def test_rates_are_between_two_readings() -> None:
    before = reading_of([text(done=100)], NOW)
    after = reading_of([text(done=150, failed=5)], NOW + timedelta(seconds=10))
    found = rates(before, after)
    assert found is not None
    assert (found.reconciles, found.failures) == (5.5, 0.5)
    assert found.p95 == pytest.approx(0.095)
    assert rates(None, after) is None
    idle = rates(after, reading_of([text(done=150, failed=5)], NOW + timedelta(seconds=20)))
    assert idle is not None
    assert idle.p95 is None


def test_an_operator_that_started_again_counts_from_zero() -> None:
    before = reading_of([text(done=1000)], NOW)
    after = reading_of([text(done=20)], NOW + timedelta(seconds=10))
    found = rates(before, after)
    assert found is not None
    assert found.reconciles == 2.0


def test_the_sums_of_other_pods_are_not_compared() -> None:
    both = reading_of([text(done=1000), text(done=10)], NOW, frozenset("ab"))
    one = reading_of([text(done=11)], NOW + timedelta(seconds=10), frozenset("b"))
    assert rates(both, one) is None
    assert rates(one, both) is None


def test_the_quantile_is_that_of_prometheus() -> None:
    buckets = {0.1: 50.0, 0.5: 90.0, 1.0: 100.0, float("inf"): 100.0}
    assert quantile(0.95, buckets) == pytest.approx(0.75)
    assert quantile(0.5, buckets) == pytest.approx(0.1)
    assert quantile(0.5, {float("inf"): 0.0}) is None
    assert quantile(0.5, {}) is None


def test_odd_text_is_no_error() -> None:
    for odd in ("", "\x00", "workqueue_depth", 'workqueue_depth{name="} 1', "workqueue_depth x"):
        assert isinstance(reading_of([odd], NOW), Reading)


def operator_pod(name: str = "manta-1", /, **labels: str) -> Pod:
    chosen = labels or {"component": "kuberay-operator"}
    return msgspec.convert(
        {
            "metadata": {
                "name": name,
                "namespace": "manta-system",
                "uid": f"uid-{name}",
                "labels": {f"app.kubernetes.io/{one}": text for one, text in chosen.items()},
            },
            "spec": {
                "containers": [{"name": "o", "ports": [{"name": "metrics", "containerPort": 9090}]}]
            },
        },
        Pod,
    )


class _Server:
    """Answers requests to the proxy of Pods."""

    def __init__(self, status: int = 200) -> None:
        self.status = status
        self.paths: list[str] = []

    async def send(self, request: Request) -> Response:
        self.paths.append(request.path)
        if "bad" in request.path:
            return Response(500, {}, b"this Pod is broken")
        return Response(self.status, {}, text(done=10 * len(self.paths)).encode())

    async def close(self) -> None:
        return


async def test_the_operators_pods_are_asked_through_the_api_server() -> None:
    server = _Server()
    operators = Operators(Client(server), SystemClock())  # type: ignore[arg-type]
    seen = snapshot(pods=(operator_pod(),))
    for _ in range(3):
        await operators.read(seen)
    assert server.paths[0] == "/api/v1/namespaces/manta-system/pods/manta-1:9090/proxy/metrics"
    view = operators.view(seen)
    assert len(view.samples) == 3
    page = operator_page(seen, view)
    assert "manta-1" in page.body()
    assert "raycluster" in page.body()


def test_the_pods_of_other_operators_are_not_counted() -> None:
    pods = (
        operator_pod("kuberay", component="kuberay-operator", name="kuberay-operator"),
        operator_pod("manta", component="operator", name="manta"),
        operator_pod("prometheus", component="operator", name="prometheus-operator"),
        operator_pod("database", component="operator"),
    )
    found = operator_pods(snapshot(pods=pods))
    assert [one.metadata.name for one in found] == ["kuberay", "manta"]


async def test_one_pod_that_does_not_answer_hides_no_other() -> None:
    operators = Operators(Client(_Server(), retry=RetryPolicy(attempts=1)), SystemClock())  # type: ignore[arg-type]
    seen = snapshot(pods=(operator_pod("bad"), operator_pod("good")))
    for _ in range(2):
        await operators.read(seen)
    page = operator_page(seen, operators.view(seen)).body()
    assert "The numbers are not those of all Pods" in page
    assert "this Pod is broken" in page
    assert "raycluster" in page


async def test_where_nothing_ran_the_plot_has_no_line() -> None:
    class Idle(_Server):
        async def send(self, request: Request) -> Response:
            self.paths.append(request.path)
            done = 10 if len(self.paths) != 3 else 20
            return Response(
                200, {}, text(done=max(done, 20 if len(self.paths) > 2 else 0)).encode()
            )

    operators = Operators(Client(Idle()), SystemClock())  # type: ignore[arg-type]
    seen = snapshot(pods=(operator_pod(),))
    for _ in range(4):
        await operators.read(seen)
    values = [one.values[4] for one in operators.view(seen).samples]
    assert [isnan(one) for one in values] == [True, True, False, True]


async def test_who_may_not_ask_sees_the_reason() -> None:
    operators = Operators(Client(_Server(403)), SystemClock())  # type: ignore[arg-type]
    with pytest.raises(MantaError):
        await operators.read(snapshot(pods=(operator_pod(),)))
    with pytest.raises(MantaError, match="no Pod of an operator"):
        await operators.read(snapshot())
    with pytest.raises(MantaError, match="you may not list pods"):
        await operators.read(snapshot(hidden={"pods": "you may not list pods"}))


async def test_the_page_says_why_there_are_no_numbers() -> None:
    async with running_console(kinds=False) as console:
        answer = await console.get("/operator")
        assert answer.status == 200
        assert b"no Pod of an operator" in cast("bytes", answer.body)


def test_failing_watches_and_names_are_shown_as_text() -> None:
    evil = text(trouble=1).replace("pods", "<script>")
    page = operator_page(snapshot(), OperatorView((reading_of([evil], NOW),)))
    assert "&lt;script&gt;" in page.body()
    assert "<script>" not in page.body()
