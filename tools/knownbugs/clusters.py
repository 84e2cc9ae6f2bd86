"""The guards of the RayCluster controller and of what all kinds share: C01 to C42, C69 to C96."""

from __future__ import annotations

from tools.knownbugs.guard import Guard, guard

_CLUSTER = "controllers/raycluster"
_PLANNERS = f"{_CLUSTER}/planners"

GUARDS: tuple[Guard, ...] = (
    guard(
        1,
        "two heads",
        "of several heads one is kept",
        (f"{_PLANNERS}/head_pod.py", "if len(live) > 1:", "if len(live) > 9:"),
    ),
    guard(
        2,
        "extra Pods from a stale cache",
        "no round on a cache older than our own writes",
        ("runtime/controller.py", "if not freshness.is_fresh(owner):", "if False:"),
    ),
    guard(
        2,
        "a Pod made twice after a lost reply",
        "a lost reply is unknown, and looked up",
        (
            "reconcile/perform.py",
            "        self._freshness.note_unknown(owner, action.resource, action.key, named=named)",
            "        assert named is not None",
        ),
    ),
    guard(
        3,
        "expectations that expire",
        "a watch that stays silent is not believed: the object is read",
        (
            "runtime/freshness.py",
            "                    await self._read_namespace(doubt)",
            "                    pass",
        ),
        (
            "runtime/freshness.py",
            "                    await self._read_one(doubt)",
            "                    pass",
        ),
    ),
    guard(
        4,
        "more deleted than asked",
        "Pods on their way out are no surplus",
        (
            f"{_PLANNERS}/worker_group.py",
            "    living = [pod for pod in kept if not is_terminating(pod)]",
            "    living = list(kept)",
        ),
    ),
    guard(
        4,
        "a Pod deleted again while it goes",
        "one Delete for each Pod that is not going",
        (
            f"{_PLANNERS}/worker_group.py",
            "        for pod in pods\n        if not is_terminating(pod)\n    ]",
            "        for pod in pods\n    ]",
        ),
    ),
    guard(
        5,
        "the operator picks victims of an autoscaler",
        "with the autoscaler on, only it chooses",
        (
            f"{_PLANNERS}/worker_group.py",
            "    return not autoscaling(seen.cluster.spec) or seen.settings.random_pod_delete",
            "    return True",
        ),
    ),
    guard(
        5,
        "victims by chance",
        "a documented order",
        (
            f"{_PLANNERS}/victims.py",
            "    return sorted(by_age, key=usefulness)",
            "    return list(by_age)",
        ),
    ),
    guard(
        6,
        "a named worker counted twice",
        "named Pods are not among those that are kept",
        (
            f"{_PLANNERS}/worker_group.py",
            "    kept = [pod for pod in pods if pod.metadata.name not in asked_for]",
            "    kept = list(pods)",
        ),
    ),
    guard(
        7,
        "growth waits for a worker that went by itself",
        "absent names count for nothing",
        (
            f"{_PLANNERS}/worker_group.py",
            "    if wanted > occupied:",
            "    if wanted > occupied and not group.scale_strategy.workers_to_delete:",
        ),
    ),
    guard(
        8,
        "a Pod that is gone stops the loop",
        "NotFound is success",
        ("kube/client.py", "        except NotFound:\n", "        except TimeoutError:\n"),
    ),
    guard(
        9,
        "the parent undoes the autoscaler",
        "a RayService passes `replicas` on only without autoscaler",
        (
            "controllers/rayservice/planners/clusters.py",
            "    if autoscaling(cluster.spec) or before is None:\n        return ()",
            '    if autoscaling(cluster.spec) or before is None:\n        return ("replicas",)',
        ),
    ),
    guard(
        10,
        "GitOps against autoscaler",
        "worker groups are a map by name for server-side apply",
        (
            "api/schemas/rayclusters.ray.io.json",
            '"x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["groupName"]',
            '"x-kubernetes-list-type":"atomic"',
        ),
    ),
    guard(
        11,
        "changed bounds get lost",
        "bounds are patched into the live cluster",
        (
            "controllers/rayservice/planners/clusters.py",
            'for field in ("minReplicas", "maxReplicas", *_edited_replicas(cluster, goal))',
            "for field in _edited_replicas(cluster, goal)",
        ),
    ),
    guard(
        12,
        "replicas beyond the bounds",
        "held between min and max",
        (
            "rules/scaling.py",
            "    return min(max(wanted, min_replicas(group)), max_replicas(group))",
            "    return wanted",
        ),
    ),
    guard(
        12,
        "and nobody says so",
        "a warning, once",
        (
            "rules/advice.py",
            "if group.replicas and not low <= group.replicas <= high:",
            "if False:",
        ),
    ),
    guard(
        13,
        "two groups of one name",
        "names are unique, also under KubeRay's definition",
        (
            "rules/validation/cluster_groups.py",
            "        if times[group.group_name] > 1:",
            "        if False:",
        ),
    ),
    guard(
        14,
        "Pods of a removed group stay",
        "they are deleted",
        (
            f"{_PLANNERS}/worker_group.py",
            "    plans = [_plan_removed_groups(seen)]",
            "    plans = []",
        ),
    ),
    guard(
        15,
        "headGroupSpec.replicas makes two heads",
        "a head is one: the field is not even kept",
        (
            f"{_PLANNERS}/head_pod.py",
            "    return plan_auth_secret(seen).then(do(Create(PODS, pod, Cause.NO_HEAD)))",
            (
                '    two = {**pod, "metadata": {**pod["metadata"], "name": "second"}}\n'
                "    pods = do(Create(PODS, pod, Cause.NO_HEAD), Create(PODS, two, Cause.NO_HEAD))\n"
                "    return plan_auth_secret(seen).then(pods)"
            ),
        ),
    ),
    guard(
        16,
        "a failed list read as an empty one",
        "an error is never an empty list",
        (
            "runtime/reflector.py",
            "        self._sink.trouble_in(self._scope, self._reason(error))\n",
            (
                "        self._sink.trouble_in(self._scope, self._reason(error))\n"
                '        if not self._version and self._selection.resource.plural == "pods":\n'
                '            self._sink.listed(self._scope, (), "")\n'
            ),
        ),
    ),
    guard(
        17,
        "restarted workers confuse autoscaler v2",
        "its Pods never restart",
        (
            "rules/traits.py",
            "    return autoscaling(spec) and runs_autoscaler_v2(spec)",
            "    return False",
        ),
    ),
    guard(
        18,
        "pending Pods outlive running ones",
        "those that serve nobody go first",
        (f"{_PLANNERS}/victims.py", "    return 1 if pod.spec.node_name else 0", "    return 3"),
        (f"{_PLANNERS}/victims.py", "    if is_ready(pod):\n        return 3\n", ""),
    ),
    guard(
        19,
        "acknowledgements come too late",
        "a change of the wanted number is news, and written at once",
        (
            f"{_CLUSTER}/pacing.py",
            (
                "    if (old.state, old.desired_worker_replicas) != (new.state, new.desired_worker_replicas):\n"
                "        return True\n"
            ),
            "",
        ),
        (
            f"{_CLUSTER}/pacing.py",
            "PROGRESS_WAITS: Final = timedelta(seconds=2)",
            "PROGRESS_WAITS: Final = timedelta(seconds=400)",
        ),
    ),
    guard(
        20,
        "an idle worker is not removed",
        "Pods named in workersToDelete go always",
        (
            f"{_PLANNERS}/worker_group.py",
            '    going = do(*deletions(named, Cause.NAMED_FOR_DELETION, "named in workersToDelete"))',
            "    going = NOTHING",
        ),
        real=True,
        seen="2026-11-15",
    ),
    guard(
        21,
        "no limits, no CPUs",
        "requests stand in for limits",
        ("manifests/ray_start.py", ' or _nonzero(requests.get("cpu"))', ""),
    ),
    guard(
        22,
        "a sidecar that others inject recreates for ever",
        "hashes of what we submitted are compared, never live Pods",
        (
            f"{_PLANNERS}/recreate.py",
            "    return bool(known) and known != spec_hash(seen.cluster.spec)",
            (
                '    made = seen.cluster.spec.head_group_spec.template["spec"]["containers"]\n'
                "    return bool(known) and len(made) != len(head.spec.containers)"
            ),
        ),
        (
            f"{_PLANNERS}/recreate.py",
            "    if not seen.is_edited:",
            "    if False:",
        ),
    ),
    guard(
        23,
        "failing Pods made all the time",
        "ever longer pauses",
        (
            f"{_PLANNERS}/backoff.py",
            "    return ended + _pause(ended - since)",
            "    return ended",
        ),
    ),
    guard(
        24,
        "ready while Pending",
        "ready means that every Pod is",
        (
            f"{_CLUSTER}/status.py",
            "    return len(pods) == wanted and all_ready(pods)",
            "    return len(pods) == wanted",
        ),
    ),
    guard(
        25,
        "a quota is only in the log",
        "the condition ReplicaFailure",
        (
            f"{_CLUSTER}/status.py",
            "    reason = _REPLICA_FAILURES.get(Cause(failure.action.cause))",
            "    reason = None",
        ),
    ),
    guard(
        26,
        "hosts are not counted",
        "replicas times hosts",
        (
            "rules/scaling.py",
            "    return desired_replicas(group) * hosts(group)",
            "    return desired_replicas(group)",
        ),
    ),
    guard(
        27,
        "an error flips the state",
        "once ready, ready until suspended",
        (
            f"{_CLUSTER}/status.py",
            "    return ClusterState.READY if whole else old",
            '    return ClusterState.READY if whole else ""',
        ),
    ),
    guard(
        28,
        "the parent's copy is out of date",
        "the nested status is the cluster's own",
        (
            "controllers/rayjob/step.py",
            '    return {"ray_cluster_status": seen.cluster.status} if seen.cluster else {}',
            "    return {}",
        ),
    ),
    guard(
        29,
        "an image that cannot be pulled is invisible",
        "the container that waits is named",
        (
            "rules/pod_health.py",
            "    if waiting and waiting.reason not in _NORMAL_WAITS:",
            "    if False and waiting:",
        ),
    ),
    guard(
        30,
        "a refused Pod is only in the log, and tried for ever",
        "a Warning, and a key's backoff",
        (
            "reconcile/loop.py",
            "        return Retry(str(outcome.failure.error), due, unwritten)",
            "        return Done(timedelta(milliseconds=100))",
        ),
    ),
    guard(
        31,
        "a conflict loses a status",
        "the round is run again",
        (
            "reconcile/loop.py",
            '        return Retry(f"{why}: {unwritten}", due, unwritten)',
            "        assert why\n        return Done()",
        ),
    ),
    guard(
        31,
        "a lost reply to a status write is taken for a failure",
        "the object is read before the next round",
        (
            "reconcile/report.py",
            "                self._freshness.note_unknown(owner, resource, seen.key)",
            "                pass",
        ),
    ),
    guard(
        32,
        "a suspended cluster is looked at for ever",
        "who rests is left alone",
        (
            f"{_CLUSTER}/snapshot.py",
            "        return self.condition(ClusterConditionType.SUSPENDED) and bool(self.cluster.spec.suspend)",
            "        return False",
        ),
        (f"{_CLUSTER}/status.py", "    return _compared(old) != _compared(new)", "    return True"),
    ),
    guard(
        33,
        "a flood of Events",
        "told once for each new trouble, and put together",
        (
            "runtime/recorder.py",
            "        if known and now - known.seen_at <= self._limits.forget_after:",
            "        if known and False:",
        ),
        (
            "runtime/recorder.py",
            "        if bucket.tokens < 1 and bucket.last is not None:",
            "        if False:",
        ),
    ),
    guard(
        34,
        "strangers' Pods wake the operator",
        "only Pods with our label have a key",
        (
            f"{_CLUSTER}/observe.py",
            "    return (str(Key(one.metadata.namespace, name)),) if name else ()",
            '    return (str(Key(one.metadata.namespace, name or "demo")),)',
        ),
        (
            "rules/selection.py",
            'RAY_PODS: Final = (\n    f"{names.LABEL_NODE_TYPE} in ({names.NODE_HEAD},{names.NODE_WORKER},{names.NODE_REDIS_CLEANUP})"\n)',
            'RAY_PODS: Final = ""',
        ),
    ),
    guard(
        35,
        "two replicas write",
        "no write without the lease",
        ("runtime/gate.py", "        self._gate.check()\n", ""),
        (
            "runtime/manager.py",
            "asyncio.wait([term, lost], return_when",
            "asyncio.wait([term], return_when",
        ),
    ),
    guard(
        36,
        "a big cluster holds up a small one",
        "several rounds at once, and few requests of each",
        (f"{_CLUSTER}/controller.py", "WORKERS: Final = 8", "WORKERS: Final = 1"),
        ("reconcile/pace.py", "MOST_AT_ONCE = 16", "MOST_AT_ONCE = 1"),
    ),
    guard(
        37,
        "a template's labels hide Pods",
        "three labels are ours alone",
        (
            "manifests/pod_metadata.py",
            "        **user,\n        names.LABEL_CLUSTER: name,\n        names.LABEL_NODE_TYPE: node_type,\n        names.LABEL_GROUP: group,\n",
            "        names.LABEL_CLUSTER: name,\n        names.LABEL_NODE_TYPE: node_type,\n        names.LABEL_GROUP: group,\n        **user,\n",
        ),
    ),
    guard(
        38,
        "what is gone is remembered",
        "who is gone is forgotten everywhere",
        (
            f"{_CLUSTER}/controller.py",
            "        if seen is None:\n            shop.noticed.pop(key, None)\n",
            "",
        ),
    ),
    guard(
        39,
        "a dashboard that hangs holds up the others",
        "dashboards are asked beside the rounds, and many rounds may wait",
        (
            "controllers/rayjob/controller.py",
            "WORKERS = 64",
            "WORKERS = 1",
        ),
        (
            "controllers/rayjob/observe.py",
            "        return replace(seen, answer=self._answer(key, seen))",
            """\
        asked = question(seen)
        if asked is not None:
            await self._ask(asked)
        return replace(seen, answer=self._answer(key, seen))""",
        ),
    ),
    guard(
        40,
        "a dashboard that is down for ever",
        "borne for 300 seconds, then the job fails",
        (
            "controllers/rayjob/stages/silence.py",
            "    limit = seen.settings.job_status_check_timeout\n",
            "    limit = 99 * seen.settings.job_status_check_timeout\n",
        ),
    ),
    guard(
        41,
        "a resync costs requests",
        "a whole cluster is never read",
        (
            f"{_CLUSTER}/doubts.py",
            "or seen.is_being_deleted or is_whole(seen):",
            "or seen.is_being_deleted:",
        ),
    ),
    guard(
        42,
        "a restart writes",
        "times and resources alone are not worth a write",
        (f"{_CLUSTER}/status.py", "    return _compared(old) != _compared(new)", "    return True"),
    ),
    guard(
        69,
        "a new cluster finds old tables",
        "its UID is their namespace",
        (
            "rules/traits.py",
            "    return chosen or annotated or cluster.metadata.uid",
            "    return chosen or annotated or cluster.metadata.name",
        ),
    ),
    guard(
        70,
        "a failing cleanup holds the finalizer",
        "never longer than its timeout",
        (f"{_PLANNERS}/deletion.py", "    if _time_left(seen) <= timedelta(0):", "    if False:"),
    ),
    guard(
        71,
        "fault tolerance switched off, finalizer stays",
        "it is let go",
        (
            f"{_PLANNERS}/deletion.py",
            "    if not _cleans_redis(seen):\n        # The option",
            "    if False:\n        # The option",
        ),
    ),
    guard(
        72,
        "the head writes while it is cleaned",
        "the Job waits until it is gone",
        (f"{_PLANNERS}/deletion.py", "    if seen.head_pods:\n", "    if False:\n"),
    ),
    guard(
        73,
        "the Redis password as text",
        "a reference to the user's Secret",
        (
            "manifests/gcs_fault_tolerance.py",
            "    if credential.value_from:\n        return",
            "    if False:\n        return",
        ),
    ),
    guard(
        74,
        "owners that no collector understands",
        "apiVersion, kind, name, UID, controller and block",
        (
            "manifests/ownership.py",
            '        "apiVersion": RAY_CLUSTERS.api_version,',
            '        "apiVersion": "v1",',
        ),
    ),
    guard(
        75,
        "old objects of the same name are adopted",
        "owners are compared by UID",
        (
            f"{_CLUSTER}/observe.py",
            "    return owner is None or owner.uid == cluster.metadata.uid",
            "    return True",
        ),
        (
            f"{_PLANNERS}/ensure.py",
            "        if owner is None or owner.uid == seen.cluster.metadata.uid:",
            "        if True:",
        ),
    ),
    guard(
        76,
        "the user's account is owned by a cluster",
        "an account that the user named is never made",
        (
            f"{_PLANNERS}/autoscaler_rbac.py",
            "    if names_own_service_account(seen.cluster):\n        return NOTHING\n",
            "",
        ),
    ),
    guard(
        77,
        "OpenShift refuses owners",
        "the right to update finalizers",
        (
            "cli/permissions.py",
            '    _may("ray.io", _sub(RAY_KINDS, "finalizers"), "update", held_for=TO_OWN),\n',
            "",
        ),
    ),
    guard(
        78,
        "names are cut in silence",
        "a limit that all derived names keep",
        (
            "api/ray/naming.py",
            "MAX_RAY_CLUSTER_NAME: Final = 53",
            "MAX_RAY_CLUSTER_NAME: Final = 63",
        ),
    ),
    guard(
        79,
        "another cluster domain",
        "the setting ends the head's name",
        (
            "rules/traits.py",
            '    return f"{head_service_name(cluster)}.{cluster.metadata.namespace}.svc.{domain}"',
            '    return f"{head_service_name(cluster)}.{cluster.metadata.namespace}.svc.cluster.local"',
        ),
    ),
    guard(
        80,
        "workers wait for a head that is not ready",
        "addresses that are not ready are published",
        (
            "manifests/services.py",
            '        spec |= {"clusterIP": "None", "publishNotReadyAddresses": True}',
            '        spec |= {"clusterIP": "None"}',
        ),
    ),
    guard(
        81,
        "workers never find the new head",
        "they know it by name, and a failed one is replaced",
        (
            "manifests/worker_pod.py",
            '    return complete_worker(params, head_address=f"{node.fqdn}:{node.port}")',
            '    return complete_worker(params, head_address=f"127.0.0.1:{node.port}")',
        ),
        real=True,
    ),
    guard(
        82,
        "restart or replace, or both",
        "by the restart policy",
        (
            "rules/pod_health.py",
            '    if is_running(pod) and ray and ended and pod.spec.restart_policy == "Never":',
            "    if is_running(pod) and ray and ended:",
        ),
    ),
    guard(
        83,
        "a probe that outlasts itself",
        "one try, and all tries within the kubelet's time",
        ("manifests/probes.py", "wget --tries 1 -T {each}", "wget -T {timeout}"),
    ),
    guard(
        83,
        "a probe that needs wget",
        "HTTP for Ray 2.53 and later",
        (
            "manifests/probes.py",
            "    if ray_version_at_least(ray_version, UNIFIED_HEALTH_SINCE):",
            "    if False:",
        ),
    ),
    guard(
        84,
        "the shell splits values",
        "quoted where it would",
        ("manifests/shell_words.py", "        return shlex.quote(text)\n", "        return text\n"),
    ),
    guard(
        85,
        "an Ingress that leads nowhere",
        "its rules are kept true",
        (
            f"{_PLANNERS}/ingress.py",
            '    if not holds(plain.get("rules", []), spec["rules"]):',
            "    if False:",
        ),
    ),
    guard(
        86,
        "IPv6 is compared as text",
        "openssl compares the addresses",
        (
            "manifests/tls.py",
            '-noout -checkip "${{POD_IP}}" 2>/dev/null \\\\\n  | grep -F "does match certificate" >/dev/null',
            '-noout -text 2>/dev/null \\\\\n  | grep -Fw "IP Address:${{POD_IP}}" >/dev/null',
        ),
    ),
    guard(
        87,
        "certificates that name nobody",
        "the head's name and every Pod's address",
        (
            "manifests/certificates.py",
            '    hosts = ["localhost", *([head_fqdn(cluster, domain)] if head else [])]',
            '    hosts = ["localhost"]\n    assert domain and head_fqdn',
        ),
    ),
    guard(
        88,
        "the autoscaler has no certificates",
        "every container that talks to Ray gets them",
        (
            "manifests/autoscaler.py",
            "    if tls(cluster.spec):\n        add_tls(container)\n",
            "    assert tls and add_tls\n",
        ),
    ),
    guard(
        88,
        "Pods before their certificates",
        "no Pod starts before they are issued",
        (
            f"{_PLANNERS}/certificates.py",
            "    return Plan(wait=Wait(missing, NOT_ISSUED_RETRY)) if missing else NOTHING",
            "    assert missing is not None and Wait and NOT_ISSUED_RETRY\n    return NOTHING",
        ),
    ),
    guard(
        89,
        "the user's Secret is ignored",
        "no Secret is made where the user names one, or Kubernetes issues tokens",
        (
            "rules/traits.py",
            "    return token_auth(spec) and not own and not kubernetes_token_auth(spec)",
            "    assert own is not None\n    return token_auth(spec)",
        ),
    ),
    guard(
        90,
        "many Services with many ports",
        "one Service unless more are asked for",
        (
            "manifests/services.py",
            "    return any(group.num_of_hosts > 1 for group in cluster.spec.worker_group_specs)",
            "    return True",
        ),
    ),
    guard(
        91,
        "validation only by a webhook",
        "an invalid object is told and left alone",
        (
            f"{_PLANNERS}/validity.py",
            "    if not seen.violations:\n        return NOTHING\n",
            "    if seen:\n        return NOTHING\n",
        ),
    ),
    guard(
        92,
        "half a replica",
        "one host lost, the whole replica replaced",
        (
            f"{_PLANNERS}/multi_host_group.py",
            "        elif len(replica) < hosts(group):",
            "        elif False:",
        ),
    ),
    guard(
        93,
        "Pods without labels are made twice",
        "they are counted by their age",
        (
            f"{_PLANNERS}/multi_host_group.py",
            "    for start in range(0, len(older), size):",
            "    for start in range(0, 0, size):",
        ),
    ),
    guard(
        94,
        "another manager's objects",
        "hands off entirely",
        (
            "rules/traits.py",
            "    return bool(spec.managed_by) and spec.managed_by != names.MANAGED_BY_OPERATOR",
            "    return False",
        ),
    ),
    guard(
        95,
        "a queue gates the cleanup for ever",
        "its labels are not passed on to the Job",
        (
            "manifests/redis_cleanup.py",
            "        if not key.startswith(names.PREFIX_KUEUE)\n",
            "",
        ),
    ),
    guard(
        96,
        "the head is evicted",
        "a budget, where it is asked for",
        (
            f"{_CLUSTER}/plan.py",
            "    plan_head_budget,\n    plan_certificates,",
            "    plan_certificates,",
        ),
    ),
    guard(
        96,
        "workers are not given the time",
        "a hook and a longer grace period",
        (
            "manifests/worker_pod.py",
            "    add_drain(cluster, spec, container)\n",
            "    assert add_drain\n",
        ),
    ),
)
