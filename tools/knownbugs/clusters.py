"""The guards of the RayCluster controller and of what all kinds share: C01 to C42, C69 to C96."""

from __future__ import annotations

from tools.knownbugs.guard import Guard, guard

_CLUSTER = "controllers/raycluster"
_PLANNERS = f"{_CLUSTER}/planners"

GUARDS: tuple[Guard, ...] = (
    guard(
        1,
        "two heads",
        "of several head Pods only one is kept",
        (f"{_PLANNERS}/head_pod.py", "if len(live) > 1:", "if len(live) > 9:"),
    ),
    guard(
        2,
        "extra Pods from a stale cache",
        "no reconcile on a cache older than our own writes",
        ("runtime/controller.py", "if not freshness.is_fresh(owner):", "if False:"),
    ),
    guard(
        2,
        "a Pod made twice after a lost reply",
        "a lost reply counts as unknown; the object is read",
        (
            "reconcile/executor.py",
            "        self._freshness.note_unknown(owner, action.resource, action.key, named=named)",
            "        assert named is not None",
        ),
    ),
    guard(
        3,
        "expectations that expire",
        "if the watch stays silent, the object is read",
        (
            "runtime/freshness.py",
            "                    await self._read_namespace(write)",
            "                    pass",
        ),
        (
            "runtime/freshness.py",
            "                    await self._read_one(write)",
            "                    pass",
        ),
    ),
    guard(
        4,
        "more Pods are deleted than requested",
        "terminating Pods do not count as surplus",
        (
            f"{_PLANNERS}/worker_group.py",
            "    living = [pod for pod in kept if not is_terminating(pod)]",
            "    living = list(kept)",
        ),
    ),
    guard(
        4,
        "a terminating Pod is deleted again",
        "only Pods that are not terminating are deleted",
        (
            f"{_PLANNERS}/pod_deletions.py",
            "        for pod in pods\n        if not is_terminating(pod)\n    ]",
            "        for pod in pods\n    ]",
        ),
    ),
    guard(
        5,
        "the operator chooses workers to delete although an autoscaler does",
        "with the autoscaler enabled, only the autoscaler chooses",
        (
            f"{_CLUSTER}/facts.py",
            "    return not autoscaling(snapshot.cluster.spec) or snapshot.settings.random_pod_delete",
            "    return True",
        ),
    ),
    guard(
        5,
        "workers to delete are chosen at random",
        "a documented order",
        (
            f"{_PLANNERS}/scale_down_order.py",
            "    return sorted(by_age, key=readiness_rank)",
            "    return list(by_age)",
        ),
    ),
    guard(
        6,
        "a worker in workersToDelete is counted twice",
        "Pods in workersToDelete do not count as kept",
        (
            f"{_PLANNERS}/worker_group.py",
            "    kept = [pod for pod in pods if pod.metadata.name not in asked_for]",
            "    kept = list(pods)",
        ),
    ),
    guard(
        7,
        "scale-up waits for a worker that is already gone",
        "names without a Pod are ignored",
        (
            f"{_PLANNERS}/worker_group.py",
            "    if wanted > occupied:",
            "    if wanted > occupied and not group.scale_strategy.workers_to_delete:",
        ),
    ),
    guard(
        8,
        "a Pod that no longer exists stops the reconcile",
        "NotFound of a delete is success",
        ("kube/client.py", "        except NotFound:\n", "        except TimeoutError:\n"),
    ),
    guard(
        9,
        "a RayService overwrites the autoscaler's replicas",
        "a RayService passes `replicas` on only without autoscaler",
        (
            "controllers/rayservice/planners/clusters.py",
            "    if autoscaling(cluster.spec) or before is None:\n        return ()",
            '    if autoscaling(cluster.spec) or before is None:\n        return ("replicas",)',
        ),
    ),
    guard(
        10,
        "GitOps and the autoscaler overwrite each other",
        "worker groups are a map by name for server-side apply",
        (
            "api/schemas/rayclusters.ray.io.json",
            '"x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["groupName"]',
            '"x-kubernetes-list-type":"atomic"',
        ),
    ),
    guard(
        11,
        "changed minReplicas and maxReplicas are ignored",
        "they are patched into the live cluster",
        (
            "controllers/rayservice/planners/clusters.py",
            'for field in ("minReplicas", "maxReplicas", *_edited_replicas(cluster, goal))',
            "for field in _edited_replicas(cluster, goal)",
        ),
    ),
    guard(
        12,
        "replicas outside minReplicas and maxReplicas",
        "clamped between both",
        (
            "rules/scaling.py",
            "    return min(max(wanted, min_replicas(group)), max_replicas(group))",
            "    return wanted",
        ),
    ),
    guard(
        12,
        "replicas are clamped without a message",
        "one warning Event",
        (
            "rules/advice.py",
            "if group.replicas and not low <= group.replicas <= high:",
            "if False:",
        ),
    ),
    guard(
        13,
        "two groups of one name",
        "group names are unique, also with KubeRay's CRD",
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
            "    plans = [plan_removed_groups(snapshot)]",
            "    plans = []",
        ),
    ),
    guard(
        15,
        "headGroupSpec.replicas creates two heads",
        "the field is dropped; there is always one head",
        (
            f"{_PLANNERS}/head_pod.py",
            "    return plan_auth_secret(snapshot).then(do(Create(PODS, pod, Cause.NO_HEAD)))",
            (
                '    two = {**pod, "metadata": {**pod["metadata"], "name": "second"}}\n'
                "    pods = do(Create(PODS, pod, Cause.NO_HEAD), Create(PODS, two, Cause.NO_HEAD))\n"
                "    return plan_auth_secret(snapshot).then(pods)"
            ),
        ),
    ),
    guard(
        16,
        "a failed list is taken for an empty one",
        "an error is never an empty list",
        (
            "runtime/reflector.py",
            "        self._sink.on_watch_error(self._scope, self._reason(error))\n",
            (
                "        self._sink.on_watch_error(self._scope, self._reason(error))\n"
                '        if not self._version and self._selection.resource.plural == "pods":\n'
                '            self._sink.on_list(self._scope, (), "")\n'
            ),
        ),
    ),
    guard(
        17,
        "restarted workers confuse autoscaler v2",
        "with v2, restartPolicy is Never",
        (
            "rules/traits.py",
            "    return autoscaling(spec) and runs_autoscaler_v2(spec)",
            "    return False",
        ),
    ),
    guard(
        18,
        "running Pods are deleted before pending ones",
        "pending Pods are deleted first",
        (
            f"{_PLANNERS}/scale_down_order.py",
            "    return 1 if pod.spec.node_name else 0",
            "    return 3",
        ),
        (f"{_PLANNERS}/scale_down_order.py", "    if is_ready(pod):\n        return 3\n", ""),
    ),
    guard(
        19,
        "the status reports a new replica count too late",
        "a change of the desired count is written at once",
        (
            f"{_CLUSTER}/status_throttle.py",
            (
                "    if (old.state, old.desired_worker_replicas) != (new.state, new.desired_worker_replicas):\n"
                "        return True\n"
            ),
            "",
        ),
        (
            f"{_CLUSTER}/status_throttle.py",
            "PROGRESS_DELAY: Final = timedelta(seconds=2)",
            "PROGRESS_DELAY: Final = timedelta(seconds=400)",
        ),
    ),
    guard(
        20,
        "an idle worker is not removed",
        "Pods in workersToDelete are always deleted",
        (
            f"{_PLANNERS}/worker_group.py",
            '    going = do(*deletions(named, Cause.NAMED_FOR_DELETION, "named in workersToDelete"))',
            "    going = NOTHING",
        ),
        real=True,
        seen="2026-11-19",
    ),
    guard(
        21,
        "Ray gets no CPUs when a container has no limits",
        "requests are used instead of limits",
        ("manifests/ray_start.py", ' or _nonzero(requests.get("cpu"))', ""),
    ),
    guard(
        22,
        "an injected sidecar makes the operator re-create Pods forever",
        "hashes of submitted specs are compared, never live Pods",
        (
            f"{_CLUSTER}/facts.py",
            "    return bool(known) and known != spec_hash(snapshot.cluster.spec)",
            (
                '    made = snapshot.cluster.spec.head_group_spec.template["spec"]["containers"]\n'
                "    return bool(known) and len(made) != len(head.spec.containers)"
            ),
        ),
        (
            f"{_PLANNERS}/recreate.py",
            "    if not snapshot.is_edited:",
            "    if False:",
        ),
    ),
    guard(
        23,
        "failing Pods are re-created without pause",
        "exponential back-off",
        (
            f"{_PLANNERS}/backoff.py",
            "    return ended + _pause(ended - since)",
            "    return ended",
        ),
    ),
    guard(
        24,
        "the cluster is ready while a Pod is Pending",
        "ready requires that every Pod is ready",
        (
            f"{_CLUSTER}/facts.py",
            "    return len(pods) == wanted and all(_is_ready(snapshot, pod) for pod in pods)",
            "    return len(pods) == wanted",
        ),
    ),
    guard(
        25,
        "an exceeded quota shows only in the log",
        "the condition ReplicaFailure",
        (
            f"{_CLUSTER}/status.py",
            "    reason = _REPLICA_FAILURES.get(failure.action.cause)",
            "    reason = None",
        ),
    ),
    guard(
        26,
        "numOfHosts is not counted",
        "the count is replicas times hosts",
        (
            "rules/scaling.py",
            "    return desired_replicas(group) * hosts(group)",
            "    return desired_replicas(group)",
        ),
    ),
    guard(
        27,
        "an error changes the state of a ready cluster",
        "a ready cluster stays ready until it is suspended",
        (
            f"{_CLUSTER}/status.py",
            "    return ClusterState.READY if pods_ready else old",
            '    return ClusterState.READY if pods_ready else ""',
        ),
    ),
    guard(
        28,
        "the RayService's copy of the cluster status is out of date",
        "the nested status is copied from the RayCluster",
        (
            "controllers/rayjob/transitions.py",
            '    return {"ray_cluster_status": snapshot.cluster.status} if snapshot.cluster else {}',
            "    return {}",
        ),
    ),
    guard(
        29,
        "an image that cannot be pulled is invisible",
        "the status names the waiting container",
        (
            "rules/pod_health.py",
            "    if waiting and waiting.reason not in _NORMAL_WAITS:",
            "    if False and waiting:",
        ),
    ),
    guard(
        30,
        "a rejected Pod shows only in the log and is retried without pause",
        "a Warning Event, and back-off",
        (
            "reconcile/reconciler.py",
            "            return Retry(shown_error(outcome.failure), due, error)",
            "            return Done(timedelta(milliseconds=100))",
        ),
    ),
    guard(
        31,
        "a conflict loses a status",
        "the reconcile runs again",
        (
            "reconcile/reconciler.py",
            '            return Retry(f"{why}: {error}", due, error)',
            "            assert why\n            return Done()",
        ),
    ),
    guard(
        31,
        "a lost reply to a status write is taken for a failure",
        "the object is read before the next reconcile",
        (
            "reconcile/status_writer.py",
            "                self._freshness.note_unknown(owner, resource, metadata.key)",
            "                pass",
        ),
    ),
    guard(
        32,
        "a suspended cluster is reconciled forever",
        "a suspended cluster is not reconciled",
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
        "one Event for each new problem; repeats are counted in a series",
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
        "foreign Pods wake the operator",
        "only Pods with our label are watched",
        (
            f"{_CLUSTER}/controller.py",
            "    return (Key(pod.metadata.namespace, name),) if name else ()",
            '    return (Key(pod.metadata.namespace, name or "demo"),)',
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
        "no write without the leader lease",
        ("runtime/gate.py", "        self._gate.check()\n", ""),
        (
            "runtime/manager.py",
            "asyncio.wait([term, lost], return_when",
            "asyncio.wait([term], return_when",
        ),
    ),
    guard(
        36,
        "a large cluster delays a small one",
        "several concurrent reconciles, with few requests each",
        (f"{_CLUSTER}/controller.py", "WORKERS: Final = 8", "WORKERS: Final = 1"),
        ("reconcile/concurrency.py", "MAX_CONCURRENT = 16", "MAX_CONCURRENT = 1"),
    ),
    guard(
        37,
        "labels of a template hide Pods from the operator",
        "a template cannot override our three labels",
        (
            "manifests/pod_metadata.py",
            "        **user,\n        names.LABEL_CLUSTER: name,\n        names.LABEL_NODE_TYPE: node_type,\n        names.LABEL_GROUP: group,\n",
            "        names.LABEL_CLUSTER: name,\n        names.LABEL_NODE_TYPE: node_type,\n        names.LABEL_GROUP: group,\n        **user,\n",
        ),
    ),
    guard(
        38,
        "memory grows with deleted objects",
        "deleted objects are removed from every map",
        (
            f"{_CLUSTER}/controller.py",
            "        if snapshot is None:\n            self._held_since.pop(key, None)\n",
            "        if snapshot is None:\n",
        ),
    ),
    guard(
        39,
        "a dashboard that hangs delays other objects",
        "dashboards are polled outside of reconciles, and many reconciles may wait",
        (
            "controllers/rayjob/controller.py",
            "WORKERS = 64",
            "WORKERS = 1",
        ),
        (
            "controllers/rayjob/observe.py",
            "        return replace(snapshot, answer=self._answer(key, snapshot))",
            """\
        query = due_query(snapshot)
        if query is not None:
            await self.query_dashboard(query)
        return replace(snapshot, answer=self._answer(key, snapshot))""",
        ),
    ),
    guard(
        40,
        "a dashboard that stays down blocks the job forever",
        "after 300 seconds the job fails",
        (
            "controllers/rayjob/stages/dashboard_timeout.py",
            "    limit = snapshot.settings.job_status_check_timeout\n",
            "    limit = 99 * snapshot.settings.job_status_check_timeout\n",
        ),
    ),
    guard(
        41,
        "a resync costs requests",
        "a resync reads caches only",
        (
            f"{_CLUSTER}/stale_cache.py",
            "    if all_pods_ready(snapshot):\n        return False\n",
            "",
        ),
    ),
    guard(
        42,
        "a restart of the operator writes every status",
        "a status that differs only in times and resources is not written",
        (f"{_CLUSTER}/status.py", "    return _compared(old) != _compared(new)", "    return True"),
    ),
    guard(
        69,
        "a new cluster reads the old cluster's tables in Redis",
        "the RayCluster's UID is the storage namespace",
        (
            "rules/traits.py",
            "    return chosen or annotated or cluster.metadata.uid",
            "    return chosen or annotated or cluster.metadata.name",
        ),
    ),
    guard(
        70,
        "a failing cleanup keeps the finalizer",
        "at most until its timeout",
        (
            f"{_PLANNERS}/deletion.py",
            "    if _time_left(snapshot) <= timedelta(0):",
            "    if False:",
        ),
    ),
    guard(
        71,
        "the finalizer stays after fault tolerance is disabled",
        "the finalizer is removed",
        (
            f"{_PLANNERS}/deletion.py",
            "    if not _cleans_redis(snapshot):\n        # The option",
            "    if False:\n        # The option",
        ),
    ),
    guard(
        72,
        "the head writes to Redis during the cleanup",
        "the cleanup Job starts after the head is gone",
        (f"{_PLANNERS}/deletion.py", "    if snapshot.head_pods:\n", "    if False:\n"),
    ),
    guard(
        73,
        "the Redis password stands in the Pod as text",
        "a reference to the user's Secret",
        (
            "manifests/gcs_fault_tolerance.py",
            "    if credential.value_from:\n        return",
            "    if False:\n        return",
        ),
    ),
    guard(
        74,
        "owner references that the garbage collector cannot resolve",
        "apiVersion, kind, name, UID, controller and block",
        (
            "api/resources.py",
            '            "apiVersion": self.api_version,',
            '            "apiVersion": "v1",',
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
            "        if owner is None or owner.uid == snapshot.cluster.metadata.uid:",
            "        if True:",
        ),
    ),
    guard(
        76,
        "the user's ServiceAccount gets a RayCluster as owner",
        "a ServiceAccount that the user names is never created",
        (
            f"{_PLANNERS}/autoscaler_rbac.py",
            "    if names_own_service_account(snapshot.cluster):\n        return NOTHING\n",
            "",
        ),
    ),
    guard(
        77,
        "OpenShift rejects owner references",
        "RBAC allows to update finalizers",
        (
            "install/permissions.py",
            '    _may("ray.io", _sub(RAY_KINDS, "finalizers"), "update", held_for=TO_OWN),\n',
            "",
        ),
    ),
    guard(
        78,
        "names are truncated silently",
        "validation limits the length, so that all derived names fit",
        (
            "api/ray/naming.py",
            "MAX_RAY_CLUSTER_NAME: Final = 53",
            "MAX_RAY_CLUSTER_NAME: Final = 63",
        ),
    ),
    guard(
        79,
        "a cluster domain other than cluster.local",
        "the setting is the suffix of the head's name",
        (
            "rules/traits.py",
            '    return f"{head_service_name(cluster)}.{cluster.metadata.namespace}.svc.{domain}"',
            '    return f"{head_service_name(cluster)}.{cluster.metadata.namespace}.svc.cluster.local"',
        ),
    ),
    guard(
        80,
        "workers wait for a head that is not ready",
        "the head Service publishes addresses that are not ready",
        (
            "manifests/services.py",
            '        spec |= {"clusterIP": "None", "publishNotReadyAddresses": True}',
            '        spec |= {"clusterIP": "None"}',
        ),
    ),
    guard(
        81,
        "workers never connect to the new head",
        "workers use the Service name, and failed workers are replaced",
        (
            "manifests/worker_pod.py",
            '    return complete_worker(params, head_address=f"{node.fqdn}:{node.port}")',
            '    return complete_worker(params, head_address=f"127.0.0.1:{node.port}")',
        ),
        real=True,
        seen="2026-11-19",
    ),
    guard(
        82,
        "a failed Pod is restarted and replaced",
        "the restart policy decides",
        (
            "rules/pod_health.py",
            '    if is_running(pod) and ray and ended and pod.spec.restart_policy == "Never":',
            "    if is_running(pod) and ray and ended:",
        ),
    ),
    guard(
        83,
        "a probe takes longer than its timeout",
        "one attempt per probe, all within the kubelet's timeout",
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
        "the shell splits values of rayStartParams",
        "values are quoted",
        ("manifests/shell_words.py", "        return shlex.quote(text)\n", "        return text\n"),
    ),
    guard(
        85,
        "an Ingress points to a Service that does not exist",
        "its rules are corrected",
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
        "certificates lack the names of the Pods",
        "they contain the head's name and every Pod's address",
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
        "Pods start before their certificates exist",
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
        "no Secret is created if the user names one or Kubernetes issues tokens",
        (
            "rules/traits.py",
            "    return token_auth(spec) and not own and not kubernetes_token_auth(spec)",
            "    assert own is not None\n    return token_auth(spec)",
        ),
    ),
    guard(
        90,
        "one Service is created per port",
        "one Service unless the spec asks for more",
        (
            "manifests/services.py",
            "    return any(group.num_of_hosts > 1 for group in cluster.spec.worker_group_specs)",
            "    return True",
        ),
    ),
    guard(
        91,
        "validation only by a webhook",
        "an invalid object is reported and not changed",
        (
            f"{_CLUSTER}/plan.py",
            "    if not snapshot.violations:\n        return NOTHING\n",
            "    if snapshot:\n        return NOTHING\n",
        ),
    ),
    guard(
        92,
        "a multi-host replica stays incomplete",
        "if one host is lost, the whole replica is replaced",
        (
            f"{_PLANNERS}/multi_host_group.py",
            "        elif len(replica) < size:",
            "        elif False:",
        ),
    ),
    guard(
        93,
        "Pods without replica labels are created twice",
        "they are assigned to replicas by age",
        (
            "controllers/raycluster/facts.py",
            "    for start in range(0, len(older), size):",
            "    for start in range(0, 0, size):",
        ),
    ),
    guard(
        94,
        "objects of another manager are changed",
        "the operator ignores them",
        (
            "rules/traits.py",
            "    return bool(managed_by) and managed_by != names.MANAGED_BY_OPERATOR",
            "    return False",
        ),
    ),
    guard(
        95,
        "Kueue suspends the cleanup Job forever",
        "the queue labels are not copied to the Job",
        (
            "manifests/redis_cleanup.py",
            "        if not key.startswith(names.PREFIX_KUEUE)\n",
            "",
        ),
    ),
    guard(
        96,
        "the head is evicted",
        "an annotation adds a PodDisruptionBudget",
        (
            f"{_CLUSTER}/plan.py",
            "    plan_head_pdb,\n    plan_certificates,",
            "    plan_certificates,",
        ),
    ),
    guard(
        96,
        "workers are deleted before their tasks finish",
        "a preStop hook and a longer grace period",
        (
            "manifests/worker_pod.py",
            "    add_drain(cluster, spec, container)\n",
            "    assert add_drain\n",
        ),
    ),
)
