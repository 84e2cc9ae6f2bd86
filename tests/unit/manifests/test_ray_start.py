"""The `ray start` line: its parameters, its bytes, and what a real shell makes of it."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from manta.manifests.ray_start import (
    complete_head,
    complete_worker,
    container_args,
    render,
    with_container_resources,
    with_group_labels,
    with_group_resources,
)

BASH = shutil.which("bash") or "/bin/bash"
SHOW = "ray() { printf '%s\\0' \"$@\"; }; ulimit() { :; }; "


def argv(script: str, **env: str) -> list[str]:
    """What `ray` is called with when bash runs this."""
    done = subprocess.run(
        [BASH, "-c", "--", SHOW + script], capture_output=True, check=True, env=env
    )
    return done.stdout.decode().split("\0")[:-1]


def limits(**amounts: Any) -> dict[str, Any]:
    return {"resources": {"limits": amounts}}


def test_a_plain_head_is_written_byte_for_byte_as_kuberay_does() -> None:
    params = with_container_resources(
        complete_head({"num-gpus": "3"}, autoscaling=False), limits(cpu="1", memory="1Gi")
    )
    assert render(params, head=True) == (
        "ray start --head  --block  --dashboard-agent-listen-port=52365"
        "  --dashboard-host=0.0.0.0  --memory=1073741824  --metrics-export-port=8080"
        "  --num-cpus=1  --num-gpus=3 "
    )


def test_a_worker_joins_the_heads_address() -> None:
    params = complete_worker({}, head_address="h.ns.svc.cluster.local:6379")
    assert "--address=h.ns.svc.cluster.local:6379" in argv(render(params, head=False))


def test_block_is_forced_and_the_monitor_stays_off_with_the_autoscaler() -> None:
    params = complete_head({"block": "false", "no-monitor": "false"}, autoscaling=True)
    assert {"--block", "--no-monitor"} <= set(argv(render(params, head=True)))


def test_what_the_user_says_wins_over_defaults() -> None:
    params = complete_head({"dashboard-host": "::", "metrics-export-port": "1"}, autoscaling=False)
    assert params["dashboard-host"] == "::"
    assert params["metrics-export-port"] == "1"


@pytest.mark.parametrize("key", ["log-color", "include-dashboard", "include-log-monitor"])
@pytest.mark.parametrize("value", ["true", "False"])
def test_three_parameters_keep_their_truth_value(key: str, value: str) -> None:
    assert argv(render({key: value}, head=False)) == ["start", f"--{key}={value}"]


def test_other_truth_values_become_flags_or_nothing() -> None:
    assert argv(render({"a": "TRUE", "b": "false"}, head=False)) == ["start", "--a"]


# ── C21: requests fall back, integers are rounded up ─────────────────────────────────────


@pytest.mark.parametrize(
    ("resources", "wanted"),
    [
        ({"limits": {"cpu": "500m"}}, {"num-cpus": "1"}),
        ({"requests": {"cpu": "1500m"}}, {"num-cpus": "2"}),
        ({"limits": {"cpu": "2"}, "requests": {"cpu": "1"}}, {"num-cpus": "2"}),
        ({"limits": {"memory": "1Gi"}, "requests": {"memory": "2Gi"}}, {"memory": "1073741824"}),
        ({"requests": {"memory": "2Gi"}}, {}),
        ({"limits": {"nvidia.com/gpu": 2}}, {"num-gpus": "2"}),
        ({"limits": {"amd.com/gpu": "0", "nvidia.com/gpu": "1"}}, {"num-gpus": "1"}),
        ({"limits": {"nvidia.com/mig-1g.5gb": "3"}}, {"num-gpus": "3"}),
        ({"requests": {"nvidia.com/gpu": "2"}}, {}),
        ({"limits": {"google.com/tpu": "4"}}, {"resources": "'{\"TPU\":4}'"}),
        (
            {"limits": {"aws.amazon.com/neuroncore": "2"}},
            {"resources": "'{\"neuron_cores\":2}'"},
        ),
        ({"limits": {"cpu": "not a number"}}, {}),
        ({}, {}),
        (None, {}),
    ],
)
def test_c21_resources_are_read_off_the_container(
    resources: Any, wanted: Mapping[str, str]
) -> None:
    assert with_container_resources({}, {"resources": resources}) == wanted


def test_what_the_user_counted_is_not_counted_again() -> None:
    reported = {"num-cpus": "0", "memory": "1", "num-gpus": "0"}
    assert (
        with_container_resources(reported, limits(cpu="4", memory="1Gi", **{"a/gpu": 1}))
        == reported
    )


@pytest.mark.parametrize(
    "text", ["'{\"Custom\": 1}'", '{"Custom": 1}', '"{\\"Custom\\": 1}"', ' `{"Custom": 1}` ']
)
def test_an_accelerator_joins_the_users_own_resources(text: str) -> None:
    params = with_container_resources({"resources": text}, limits(**{"google.com/tpu": "4"}))
    assert params["resources"] == '\'{"Custom":1,"TPU":4}\''


@pytest.mark.parametrize("text", ["'{\"TPU\": 8}'", "no json"])
def test_an_accelerator_that_is_named_or_cannot_be_added_is_left_alone(text: str) -> None:
    params = with_container_resources({"resources": text}, limits(**{"google.com/tpu": "4"}))
    assert params["resources"] == text


def test_group_resources_become_parameters() -> None:
    params = with_group_resources(
        {"num-cpus": "9"},
        {"CPU": "0", "memory": "1Ki", "nvidia.com/GPU": "1", "b": "500m", "a": "2"},
    )
    assert params == {
        "num-cpus": "0",
        "memory": "1024",
        "num-gpus": "1",
        "resources": '\'{"a":2,"b":0.5}\'',
    }


def test_group_labels_are_sorted() -> None:
    assert with_group_labels({}, {"b": "2", "a": "1"}) == {"labels": "a=1,b=2"}
    assert with_group_labels({}, {}) == {}


# ── C84: a real shell ────────────────────────────────────────────────────────────────────


@given(
    st.dictionaries(
        st.from_regex(r"[a-z][a-z-]{0,8}", fullmatch=True),
        st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=12),
        max_size=4,
    )
)
@settings(max_examples=60, deadline=None)
def test_c84_bash_parses_every_value_to_the_text_that_was_meant(params: dict[str, str]) -> None:
    # A quoted word and a reference mean what they mean to a shell: they have their own cases.
    params = {k: v for k, v in params.items() if v[:1] not in ("'", '"') and not {"$", "`"} & {*v}}
    wanted = [
        f"--{key}" if value.lower() == "true" and key != "log-color" else f"--{key}={value}"
        for key, value in sorted(params.items())
        if value.lower() != "false"
    ]
    assert argv(render(params, head=False)) == ["start", *wanted]


@pytest.mark.parametrize(
    ("value", "meant"),
    [
        ('{"a": 1, "b": "c d"}', '{"a": 1, "b": "c d"}'),
        ("'{\"a\": 1}'", '{"a": 1}'),
        ('"{\\"a\\": 1}"', '{"a": 1}'),
        ("$PASSWORD", "s3cret"),
        ("${PASSWORD}", "s3cret"),
        ("$PASSWORD:6379", "s3cret:6379"),
        ("it's", "it's"),
        ("a;b|c&d>e", "a;b|c&d>e"),
        ("*", "*"),
        ("~", "~"),
        ("a`b", "a`b"),
        ("$(", "$("),
        ("${PASSWORD", "${PASSWORD"),
        ("[fd00::1]:6379", "[fd00::1]:6379"),
        ("", ""),
    ],
)
def test_c84_a_value_reaches_ray_as_it_was_meant(value: str, meant: str) -> None:
    assert argv(render({"x": value}, head=False), PASSWORD="s3cret") == ["start", f"--x={meant}"]


@pytest.mark.parametrize(
    ("value", "meant"),
    [
        ("$(echo 10.0.0.1)", "10.0.0.1"),
        ("$(echo $(echo nested))", "nested"),
        ("$(echo ')')", ")"),
        ("${PORT:-6379}", "6379"),
        ("${PASSWORD:-6379}", "s3cret"),
        ("$((1024*1024))", "1048576"),
        ("`echo 10.0.0.1`", "10.0.0.1"),
        ("host-$(echo a):$((1+1))", "host-a:2"),
        ("two words: $(echo a b) $PASSWORD", "two words: a b s3cret"),
        ('{"a": $((2 * 3))}', '{"a": 6}'),
    ],
)
def test_the_shell_expands_what_the_user_wrote_for_it(value: str, meant: str) -> None:
    """R6: as under KubeRay."""
    assert argv(render({"x": value}, head=False), PASSWORD="s3cret") == ["start", f"--x={meant}"]


@pytest.mark.parametrize(
    "value", ["$(hostname -i)", "${X:-6379}", "$((1024*1024))", "`hostname`", "a-$X:$(date)"]
)
def test_a_value_that_is_one_word_is_written_as_kuberay_writes_it(value: str) -> None:
    """R6."""
    assert render({"x": value}, head=False) == f"ray start  --x={value} "


def test_a_resource_name_with_a_quote_stays_one_word() -> None:
    params = with_group_resources({}, {"it's": "1"})
    assert argv(render(params, head=False)) == ["start", '--resources={"it\\u0027s":1}']


def test_the_users_own_words_run_first() -> None:
    script = container_args(render({"block": "true"}, head=True), ["echo", "hello"])
    done = subprocess.run([BASH, "-c", SHOW + script], capture_output=True, check=True, text=True)
    assert done.stdout == "hello\nstart\0--head\0--block\0"


def test_the_limit_of_open_files_can_be_set_by_environment() -> None:
    show = "ray() { :; }; ulimit() { echo $2; }; " + container_args("ray start", [])
    for env, wanted in (({}, "65536\n"), ({"RAY_START_ULIMIT_OPEN_FILES": "7"}, "7\n")):
        done = subprocess.run(
            [BASH, "-c", show], capture_output=True, check=True, text=True, env=env
        )
        assert done.stdout == wanted
