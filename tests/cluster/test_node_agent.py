"""The life of Pods on a node: what a kubelet promises, kept with real processes."""

from __future__ import annotations

import asyncio
import os
import re
from pathlib import Path
from typing import Any

import pytest

from manta.api.meta import Key
from manta.api.resources import CONFIG_MAPS, LEASES, NODES, PODS, SECRETS
from manta.localplane.apiserver.streaming.connector import ContainerUnavailable
from manta.localplane.node.host.plane_id import plane_id
from support.nodeplane import Pod, a_container, is_ready, node_plane, restarts, state

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root: namespaces and a bridge"),
]


async def test_the_node_registers_itself_and_renews_its_lease(tmp_path: Path) -> None:
    async with node_plane(tmp_path, cpus=4, memory=8 << 30) as node:
        found = await node.client.get(NODES, Key("", "manta"))
        assert found["status"]["allocatable"]["cpu"] == "4"
        assert found["status"]["allocatable"]["memory"] == "8Gi"
        ready = next(one for one in found["status"]["conditions"] if one["type"] == "Ready")
        assert ready["status"] == "True"
        lease = await node.client.get(LEASES, Key("kube-node-lease", "manta"))
        assert lease["spec"]["holderIdentity"] == "manta"


async def test_a_pod_runs_to_its_end_and_its_words_are_kept(tmp_path: Path) -> None:
    async with node_plane(tmp_path) as node:
        env = [{"name": "WHO", "value": "you"}]
        container = {"env": env, "args": ["echo hello $(WHO)"]}
        await node.run("pod", "sh", "-c", container=container, restartPolicy="Never")
        pod = await node.until_phase("Succeeded")
        assert state(pod)["terminated"]["reason"] == "Completed"
        assert await node.logs() == "hello you\n"


async def test_a_failing_pod_tells_its_code_and_last_words(tmp_path: Path) -> None:
    async with node_plane(tmp_path) as node:
        script = "echo why > /dev/termination-log; exit 7"
        await node.run("pod", "sh", "-c", script, restartPolicy="Never")
        ended = state(await node.until_phase("Failed"))["terminated"]
        assert (ended["exitCode"], ended["reason"], ended["message"]) == (7, "Error", "why\n")


async def test_a_crashing_container_is_restarted_and_then_held_back(tmp_path: Path) -> None:
    async with node_plane(tmp_path) as node:
        await node.run("pod", "sh", "-c", "echo once; exit 3")
        pod = await node.until(lambda pod: "waiting" in state(pod) and restarts(pod) == 1)
        assert state(pod)["waiting"]["reason"] == "CrashLoopBackOff"
        assert state(pod, last=True)["terminated"]["exitCode"] == 3
        assert pod["status"]["phase"] == "Running"
        assert await node.logs(previous=True) == "once\n"
        assert "BackOff" in await node.reasons()


async def test_a_command_that_is_not_there_is_named(tmp_path: Path) -> None:
    async with node_plane(tmp_path) as node:
        await node.run("pod", "nosuchcommand", restartPolicy="Never")
        ended = state(await node.until_phase("Failed"))["terminated"]
        assert (ended["exitCode"], ended["reason"]) == (128, "StartError")
        assert ended["message"] == 'exec: "nosuchcommand": executable file not found in $PATH'


async def test_an_image_that_nobody_mapped_says_how_to_map_it(tmp_path: Path) -> None:
    async with node_plane(tmp_path) as node:
        await node.run("pod", "true", container={"image": "company/thing:1"})
        pod = await node.until(lambda pod: state(pod).get("waiting", {}).get("message"))
        assert state(pod)["waiting"]["reason"] == "ErrImagePull"
        assert (
            f"Map it to an environment in {tmp_path}/images.yaml"
            in state(pod)["waiting"]["message"]
        )
        assert pod["status"]["phase"] == "Pending"
        pod = await node.until(
            lambda pod: state(pod).get("waiting", {}).get("reason") == "ImagePullBackOff"
        )
        with pytest.raises(ContainerUnavailable, match="is waiting to start"):
            await node.logs()


async def test_init_containers_and_sidecars_come_in_order_and_go_in_order(tmp_path: Path) -> None:
    async with node_plane(tmp_path / "plane") as node:
        mount: dict[str, Any] = {"volumeMounts": [{"name": "v", "mountPath": "/v"}]}
        append = "echo {0} >> /v/order"
        side = (
            "trap 'echo side-gone >> /v/order; exit 0' TERM;"
            "echo side >> /v/order; while true; do sleep 0.02; done"
        )
        wait = "until grep -q side /v/order; do sleep 0.01; done; "
        await node.create(
            "pod",
            a_container("sh", "-c", wait + append.format("main"), **mount),
            initContainers=[
                a_container("sh", "-c", append.format("init"), name="init", **mount),
                a_container("bash", "-c", side, name="side", restartPolicy="Always", **mount),
            ],
            restartPolicy="Never",
            volumes=[{"name": "v", "hostPath": {"path": str(tmp_path / "v")}}],
        )
        await node.until_phase("Succeeded")
        order = (tmp_path / "v" / "order").read_text().split()
        assert order == ["init", "side", "main", "side-gone"]


async def test_config_maps_secrets_and_memory_are_mounted(tmp_path: Path) -> None:
    async with node_plane(tmp_path) as node:
        await node.client.create(
            CONFIG_MAPS, "default", {"metadata": {"name": "cm"}, "data": {"k": "v"}}
        )
        secret = {"metadata": {"name": "s"}, "data": {"password": "eA=="}}
        await node.client.create(SECRETS, "default", secret)
        script = "cat /cm/k /s/password; echo $PW; df /mem | tail -1; cat /sub"
        container = {
            "env": [
                {"name": "PW", "valueFrom": {"secretKeyRef": {"name": "s", "key": "password"}}}
            ],
            "volumeMounts": [
                {"name": "cm", "mountPath": "/cm"},
                {"name": "s", "mountPath": "/s"},
                {"name": "mem", "mountPath": "/mem"},
                {"name": "cm", "mountPath": "/sub", "subPath": "k"},
            ],
        }
        volumes = [
            {"name": "cm", "configMap": {"name": "cm"}},
            {"name": "s", "secret": {"secretName": "s"}},
            {"name": "mem", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}},
        ]
        await node.run(
            "pod", "sh", "-c", script, container=container, volumes=volumes, restartPolicy="Never"
        )
        await node.until_phase("Succeeded")
        assert re.fullmatch(r"vxx\ntmpfs +1024 .* /mem\nv", await node.logs())


async def test_a_pod_waits_for_a_secret_and_starts_when_it_comes(tmp_path: Path) -> None:
    async with node_plane(tmp_path) as node:
        env = [{"name": "PW", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]
        await node.run("pod", "sh", "-c", "echo $PW", container={"env": env}, restartPolicy="Never")
        pod = await node.until(lambda pod: state(pod).get("waiting", {}).get("message"))
        assert state(pod)["waiting"] == {
            "reason": "CreateContainerConfigError",
            "message": 'secret "s" not found',
        }
        secret = {"metadata": {"name": "s"}, "data": {"k": "aGVyZQ=="}}
        await node.client.create(SECRETS, "default", secret)
        await node.until_phase("Succeeded")
        assert await node.logs() == "here\n"


async def test_a_missing_volume_is_reported_in_an_event(tmp_path: Path) -> None:
    async with node_plane(tmp_path) as node:
        await node.run("pod", "true", volumes=[{"name": "v", "configMap": {"name": "no"}}])
        await node.until(lambda pod: state(pod).get("waiting"))
        while "FailedMount" not in await node.reasons():
            await asyncio.sleep(0.02)
        assert 'configmap "no" not found' in (await node.reasons())["FailedMount"]


async def test_readiness_follows_its_probe(tmp_path: Path) -> None:
    async with node_plane(tmp_path) as node:
        probe = {
            "exec": {"command": ["test", "-e", "/tmp/open"]},
            "periodSeconds": 1,
            "failureThreshold": 1,
        }
        await node.run("pod", "sleep", "1000", container={"readinessProbe": probe})
        await node.until_phase("Running")
        await node.until_ready(ready=False)
        await node.execute("touch", "/tmp/open")
        await node.until_ready()
        await node.execute("rm", "/tmp/open")
        await node.until_ready(ready=False)
        assert "Unhealthy" in await node.reasons()


async def test_http_and_tcp_probes_reach_the_pod_by_its_address(tmp_path: Path) -> None:
    async with node_plane(tmp_path) as node:
        container = {
            "ports": [{"name": "web", "containerPort": 8000}],
            "readinessProbe": {"httpGet": {"port": "web", "path": "/"}, "periodSeconds": 1},
            "startupProbe": {"tcpSocket": {"port": 8000}, "periodSeconds": 1},
        }
        await node.run("pod", "python3", "-m", "http.server", "8000", container=container)
        pod = await node.until_ready()
        assert pod["status"]["containerStatuses"][0]["started"]


async def test_a_failed_liveness_probe_restarts_the_container(tmp_path: Path) -> None:
    async with node_plane(tmp_path) as node:
        probe = {
            "exec": {"command": ["test", "-e", "/tmp/alive"]},
            "periodSeconds": 1,
            "failureThreshold": 1,
            "terminationGracePeriodSeconds": 1,
        }
        await node.run("pod", "sleep", "1000", container={"livenessProbe": probe})
        pod = await node.until(lambda pod: restarts(pod) == 1)
        assert state(pod, last=True)["terminated"]["exitCode"] == 137
        assert "failed liveness probe" in (await node.reasons())["Killing"]


async def test_hooks_run_after_the_start_and_before_the_stop(tmp_path: Path) -> None:
    async with node_plane(tmp_path / "plane") as node:
        mark = "echo {0} >> /v/hooks"
        container = {
            "volumeMounts": [{"name": "v", "mountPath": "/v"}],
            "lifecycle": {
                "postStart": {"exec": {"command": ["sh", "-c", mark.format("start")]}},
                "preStop": {"exec": {"command": ["sh", "-c", mark.format("stop")]}},
            },
        }
        volumes = [{"name": "v", "hostPath": {"path": str(tmp_path / "v")}}]
        script = "trap 'echo term >> /v/hooks; exit 0' TERM; while true; do sleep 0.02; done"
        await node.run("pod", "bash", "-c", script, container=container, volumes=volumes)
        hooks = tmp_path / "v" / "hooks"
        await node.until(lambda _: hooks.exists())
        await node.delete()
        await node.until_gone()
        assert hooks.read_text().split() == ["start", "stop", "term"]


async def test_a_deleted_pod_leaves_nothing_behind(tmp_path: Path) -> None:
    async with node_plane(tmp_path) as node:
        await node.run("pod", "sleep", "1000")
        pod = await node.until_ready()
        uid = pod["metadata"]["uid"]
        await node.delete(grace=0)
        await node.until_gone()
        while (tmp_path / "pods" / uid).exists():
            await asyncio.sleep(0.02)
        assert not list(Path("/sys/fs/cgroup").glob(f"*/**/manta-{plane_id(tmp_path)}/{uid}"))


async def test_a_container_over_its_memory_limit_is_oom_killed(tmp_path: Path) -> None:
    async with node_plane(tmp_path) as node:
        if not node.agent._machine.cgroups.works:
            pytest.skip("this machine does not let us make memory cgroups")
        container = {"resources": {"limits": {"memory": "32Mi"}}}
        eat = "x = bytearray(200 << 20)"
        await node.run("pod", "python3", "-c", eat, container=container, restartPolicy="Never")
        ended = state(await node.until_phase("Failed"))["terminated"]
        assert (ended["reason"], ended["exitCode"]) == ("OOMKilled", 137)


async def test_running_pods_are_adopted_by_the_next_agent(tmp_path: Path) -> None:
    async with node_plane(tmp_path) as node:
        await node.run("pod", "sh", "-c", "echo born; exec sleep 1000")
        before = await node.until_ready()
        await node.run("short", "sh", "-c", "sleep 0.3; exit 5", restartPolicy="Never")
        await node.until_phase("Running", "short")
        await node.restart_agent()
        ended = state(await node.until_phase("Failed", "short"))["terminated"]
        assert ended["exitCode"] == 5
        after = await node.until_ready()
        assert after["status"]["containerStatuses"] == before["status"]["containerStatuses"]
        assert after["status"]["podIP"] == before["status"]["podIP"]
        assert await node.logs() == "born\n"
        assert (await node.execute("hostname")).strip() == "pod"


async def test_a_pod_deleted_while_no_agent_ran_is_removed_by_the_next(tmp_path: Path) -> None:
    async with node_plane(tmp_path) as node:
        await node.run("pod", "sleep", "1000")
        await node.until_ready()
        node.task.cancel()
        await asyncio.gather(node.task, return_exceptions=True)
        await node.delete(grace=0)
        await node.restart_agent()
        await node.until_gone()
        while any((tmp_path / "pods").iterdir()):
            await asyncio.sleep(0.02)


async def test_a_pod_whose_init_is_killed_gets_a_new_sandbox(tmp_path: Path) -> None:
    async with node_plane(tmp_path) as node:
        await node.run("pod", "sleep", "1000")
        await node.until_ready()
        worker = node.agent.worker("default", "pod")
        assert worker is not None
        worker.runtime.sandbox.kill()
        pod = await node.until(lambda pod: restarts(pod) == 1 and "running" in state(pod))
        assert state(pod, last=True)["terminated"]["exitCode"] == 137
        assert "SandboxChanged" in await node.reasons()


async def test_a_pod_past_its_deadline_is_ended(tmp_path: Path) -> None:
    async with node_plane(tmp_path) as node:
        await node.run(
            "pod", "sleep", "1000", activeDeadlineSeconds=1, terminationGracePeriodSeconds=0
        )
        pod = await node.until_phase("Failed")
        assert pod["status"]["reason"] == "DeadlineExceeded"


async def test_limits_are_changed_in_place(tmp_path: Path) -> None:
    async with node_plane(tmp_path) as node:
        if not node.agent._machine.cgroups.works:
            pytest.skip("this machine does not let us make cgroups")
        container = {"resources": {"limits": {"memory": "64Mi"}, "requests": {"memory": "64Mi"}}}
        await node.run("pod", "sleep", "1000", container=container)
        pod = await node.until_ready()
        assert pod["status"]["containerStatuses"][0]["resources"]["limits"] == {"memory": "64Mi"}
        bigger = {"limits": {"memory": "128Mi"}, "requests": {"memory": "128Mi"}}
        change = {"spec": {"containers": [{"name": "main", "resources": bigger}]}}
        await node.client.patch(
            PODS, Key("default", "pod"), change, kind="strategic", subresource="resize"
        )
        await node.until(lambda pod: pod["status"]["containerStatuses"][0]["resources"] == bigger)
        files = "/sys/fs/cgroup/memory.max /sys/fs/cgroup/memory/memory.limit_in_bytes"
        assert (await node.execute("sh", "-c", f"cat {files}")).strip() == str(128 << 20)


async def test_several_nodes_on_one_machine_each_run_their_pods(tmp_path: Path) -> None:
    async with node_plane(tmp_path, nodes=2, cpus=1) as node:
        assert len((await node.client.list(NODES)).items) == 2
        for name in ("manta-1", "manta-2"):
            where = [{"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}]
            container = {"env": where, "args": ["echo $NODE"]}
            await node.run(
                name, "sh", "-c", container=container, nodeName=name, restartPolicy="Never"
            )
            await node.until_phase("Succeeded", name)
            assert await node.logs(name) == f"{name}\n"


async def test_a_node_can_be_lost_and_found(tmp_path: Path) -> None:
    async with node_plane(tmp_path, nodes=2) as node:
        for name in ("manta-1", "manta-2"):
            await node.run(name, "sleep", "1000", nodeName=name)
            await node.until_ready(name)
        lost = {"metadata": {"annotations": {"manta.dev/lost": "true"}}}
        await node.client.patch(NODES, Key("", "manta-2"), lost)
        while node.agent.worker("default", "manta-2"):
            await asyncio.sleep(0.02)
        assert (await node.get("manta-2"))["status"]["phase"] == "Running"  # no watch event yet
        assert (await node.execute("hostname", name="manta-1")).strip() == "manta-1"
        found = {"metadata": {"annotations": {"manta.dev/lost": None}}}
        await node.client.patch(NODES, Key("", "manta-2"), found)
        pod = await node.until(
            lambda pod: restarts(pod) == 1 and "running" in state(pod), "manta-2"
        )
        assert state(pod, last=True)["terminated"]["exitCode"] == 137


async def test_an_ephemeral_container_looks_at_a_running_pod_and_runs_once(tmp_path: Path) -> None:
    async with node_plane(tmp_path) as node:
        await node.run("pod", "sleep", "987654")
        await node.until_ready()
        look = "grep -l -a 987654 /proc/[0-9]*/cmdline | wc -l; exit 3"
        debugger = {
            **a_container("bash", "-c", look, name="debugger"),
            "targetContainerName": "main",
        }
        body = {"spec": {"ephemeralContainers": [debugger]}}
        key = Key("default", "pod")
        await node.client.patch(PODS, key, body, subresource="ephemeralcontainers")

        def ended(pod: Pod) -> bool:
            found = pod["status"].get("ephemeralContainerStatuses") or [{}]
            return found[0].get("state", {}).get("terminated", {}).get("exitCode") == 3

        pod = await node.until(ended)
        assert is_ready(pod)
        assert pod["status"]["phase"] == "Running"
        assert int(await node.logs(container="debugger")) >= 1


async def test_a_success_counts_before_the_initial_delay_of_a_probe_is_over(tmp_path: Path) -> None:
    async with node_plane(tmp_path) as node:
        serve = "import socket; s = socket.create_server(('', 8000)); import time; time.sleep(1000)"
        probe = {"tcpSocket": {"port": 8000}, "initialDelaySeconds": 3600}
        await node.create("pod", a_container("python3", "-c", serve, readinessProbe=probe))
        await node.until_ready()
        assert "Unhealthy" not in await node.reasons()


async def test_a_deleted_node_is_not_registered_again_by_a_change_of_its_status(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """U7: as with a kubelet, only its next start registers it."""
    async with node_plane(tmp_path, nodes=2) as node:
        await node.client.delete(NODES, Key("", "manta-2"))
        monkeypatch.setattr("manta.localplane.node.registration.RENEW_SECONDS", 0.01)
        full = {"DiskPressure": ("KubeletHasDiskPressure", "the disk is full")}
        monkeypatch.setattr("manta.localplane.node.registration.pressures", lambda *_: full)
        await node.restart_agent()  # which registers both
        await node.client.delete(NODES, Key("", "manta-2"))
        monkeypatch.setattr("manta.localplane.node.registration.pressures", lambda *_: {})

        async def is_relieved() -> bool:
            found = await node.client.get(NODES, Key("", "manta-1"))
            conditions = {one["type"]: one["status"] for one in found["status"]["conditions"]}
            return conditions["DiskPressure"] == "False"

        async with asyncio.timeout(10):
            while not await is_relieved():
                await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)  # the second node has its turn after the first
        names = {one["metadata"]["name"] for one in (await node.client.list(NODES)).items}
        assert names == {"manta-1"}
