"""The guards of RayService and RayJob: C43 to C68."""

from __future__ import annotations

from tools.knownbugs.guard import Guard, guard

_SERVICE = "controllers/rayservice"
_JOB = "controllers/rayjob"

GUARDS: tuple[Guard, ...] = (
    guard(
        43,
        "an edit of the autoscaler starts a new cluster",
        "the hash ignores replicas",
        ("rules/spec_hash.py", "        replicas=None,\n", ""),
    ),
    guard(
        43,
        "what Kueue adds looks like a change of the spec",
        "tolerations and gates are not hashed",
        (
            "rules/spec_hash.py",
            'ADDED_BY_QUEUES = ("tolerations", "schedulingGates")',
            "ADDED_BY_QUEUES = ()",
        ),
    ),
    guard(
        44,
        "a config is submitted again and again",
        "the submitted config and its head are recorded",
        (
            f"{_SERVICE}/planners/serve.py",
            "    if is_submitted(view, desired):\n        return _after_submission(snapshot, view, desired)",
            "    if not desired.config:\n        return _after_submission(snapshot, view, desired)",
        ),
        (
            f"{_SERVICE}/planners/serve.py",
            "    if knows_any_application(view, desired):\n        # The head is new",
            "    if not desired.config:\n        # The head is new",
        ),
    ),
    guard(
        45,
        "a worker's agent is queried",
        "only the dashboard of the head Service is queried",
        (
            f"{_SERVICE}/dashboard_query.py",
            "        service=head_service_name(cluster),",
            '        service=f"{cluster.metadata.name}-serve-svc",',
        ),
    ),
    guard(
        46,
        "a fixed name of the head Service blocks an upgrade",
        "validation rejects it",
        ("rules/validation/service.py", '    if custom.get("name"):', "    if False:"),
    ),
    guard(
        47,
        "one Service that cannot be updated stops the switch",
        "each Service is updated independently",
        (
            f"{_SERVICE}/planners/services.py",
            "    return do(action, independent=True) if action else NOTHING",
            "    return do(action) if action else NOTHING",
        ),
        (
            f"{_SERVICE}/planners/services.py",
            "    plan = _independent(serve).then(plan_head_service(snapshot, target))",
            "    plan = plan_head_service(snapshot, target).then(_independent(serve))",
        ),
    ),
    guard(
        48,
        "old clusters are not deleted",
        "clusters without traffic are deleted",
        (
            f"{_SERVICE}/planners/old_clusters.py",
            "        if cluster.metadata.name in wanted:",
            "        if wanted:",
        ),
    ),
    guard(
        49,
        "a lost watch event of the head stops the promotion",
        "after a while the head is read from the API server",
        (
            f"{_SERVICE}/observe.py",
            "        if await self._recheck_pods(key, pods_to_recheck(snapshot)):",
            "        if False and pods_to_recheck:",
        ),
        (
            "controllers/raycluster/stale_cache.py",
            "        if not is_stalled(snapshot) or (",
            "        if True or (",
        ),
    ),
    guard(
        50,
        "a RayService initializes forever",
        "after the timeout of an annotation it fails",
        (
            f"{_SERVICE}/facts/phase.py",
            "    return left is not None and left <= timedelta(0)",
            "    return left is not None and False",
        ),
    ),
    guard(
        51,
        "a dead Serve proxy is never replaced",
        "its worker is replaced if an annotation enables it",
        (f"{_SERVICE}/plan.py", "        plan_worker_replacement(snapshot),\n", ""),
    ),
    guard(
        51,
        "workers replaced while Serve deploys",
        "only while all applications run",
        (
            f"{_SERVICE}/planners/worker_replacement.py",
            "    if not _serve_is_healthy(snapshot, active) or any(",
            "    if any(",
        ),
    ),
    guard(
        52,
        "workers without a proxy are never ready",
        "only workers with a proxy are probed",
        (
            "rules/serve_config.py",
            "    return of_service and meta.annotations.get(ANNOTATION_SERVE_PROXIES) != ON_HEAD_ONLY",
            "    return of_service",
        ),
    ),
    guard(
        53,
        "requests are sent to a head without a proxy",
        "the head has the serve label only while its proxy answers",
        (
            f"{_SERVICE}/planners/head_label.py",
            "    serves = not excluded and view.proxy_healthy is True and _has_something_to_serve(snapshot, view)",
            "    serves = not excluded",
        ),
    ),
    guard(
        54,
        "suspension during an upgrade leaves routes without backends",
        "routes are deleted first",
        (
            f"{_SERVICE}/planners/suspension.py",
            "    return Step(do(*entrances).then(do(*clusters)), wake_in=wake_in)",
            "    return Step(do(*clusters), wake_in=wake_in if entrances else None)",
        ),
    ),
    guard(
        55,
        "the cluster outlives the job",
        "deletion rules are applied on time",
        (
            f"{_JOB}/stages/finished.py",
            "    if found is not None:\n        actions = ",
            "    if found is not None and False:\n        actions = ",
        ),
    ),
    guard(
        56,
        "the job runs forever after its head was lost",
        "a lost head fails the job",
        (
            f"{_JOB}/stages/running.py",
            "    if gone := head_lost(snapshot):\n        return gone\n",
            "    assert head_lost\n",
        ),
    ),
    guard(
        57,
        "a submitter's failure fails the job",
        "only Ray's job status decides",
        (
            f"{_JOB}/stages/running.py",
            "    if gone := head_lost(snapshot):\n        return gone\n",
            """\
    if gone := head_lost(snapshot):
        return gone
    if snapshot.submitter is not None and snapshot.submitter.finished == "Failed":
        return fail(snapshot, JobFailedReason.SUBMISSION_FAILED, "the submitter failed")
""",
        ),
    ),
    guard(
        58,
        "a submitter's exit code saves a failed job",
        "only Ray's job status decides",
        (
            f"{_JOB}/stages/running.py",
            "    if reply.status == JobStatus.FAILED:\n",
            "    if reply.status == JobStatus.FAILED and is_submitter_running(snapshot):\n",
        ),
    ),
    guard(
        59,
        "a sidecar's exit ends the job",
        "only Ray's job status decides",
        (
            f"{_JOB}/stages/running.py",
            "    if gone := head_lost(snapshot):\n        return gone\n",
            """\
    if gone := head_lost(snapshot):
        return gone
    if sidecar_end(snapshot) is not None:
        return fail(snapshot, JobFailedReason.SUBMISSION_FAILED, "the sidecar ended")
""",
        ),
    ),
    guard(
        60,
        "a sidecar's success is ignored while workers are missing",
        "it counts as soon as the head is ready",
        (
            f"{_JOB}/stages/initializing.py",
            "    if snapshot.cluster_is_ready or submits_alone:",
            "    if snapshot.cluster_is_ready:",
        ),
    ),
    guard(
        61,
        "one invalid object stops all others",
        "an exception ends its reconcile, not the process",
        (
            "runtime/controller.py",
            "        except Exception as error:",
            "        except ZeroDivisionError as error:",
        ),
    ),
    guard(
        62,
        "a resumed job is never submitted",
        "a new attempt has a new submission id and an empty status",
        (f"{_JOB}/transitions.py", '        job_id="",\n', ""),
    ),
    guard(
        63,
        "a deadline does not stop the job",
        "the operator asks Ray to stop it",
        (
            f"{_JOB}/stages/running.py",
            '    given_up = _stop_and_withdraw(snapshot, "activeDeadlineSeconds has passed")\n',
            "    given_up = NOTHING\n",
        ),
    ),
    guard(
        63,
        "the request to stop gets lost",
        "it is repeated until Ray confirms it",
        (
            f"{_JOB}/stages/finished.py",
            "    return _confirm_stop(snapshot, step) if is_stop_unconfirmed(snapshot) else step",
            "    return step",
        ),
    ),
    guard(
        64,
        "a deleted job waits for its dashboard",
        "deletion continues when the stop fails",
        (
            f"{_JOB}/stages/running.py",
            "arguments, must_succeed=False), independent=True",
            "arguments)",
        ),
    ),
    guard(
        65,
        "Pods of the submitter are orphaned",
        "every delete states its propagation policy",
        (
            "reconcile/actions.py",
            '    propagation: Propagation = "Background"',
            '    propagation: Propagation = "Orphan"',
        ),
    ),
    guard(
        66,
        "the job waits forever before it runs",
        "preRunningDeadlineSeconds",
        (
            f"{_JOB}/stages/initializing.py",
            '    if not _is_missed(snapshot, "preRunningDeadlineSeconds"):',
            "    if True:",
        ),
    ),
    guard(
        67,
        "a deadline is retried",
        "a passed deadline is final",
        (f"{_JOB}/transitions.py", " and reason not in NOT_RETRIED", ""),
    ),
    guard(
        68,
        "the PodGroup is deleted before the cluster",
        "it keeps its size while the cluster exists",
        (
            f"{_JOB}/gang.py",
            '    wanted = groups.build(gang)["spec"] if active or is_cluster_live(snapshot) else EMPTY',
            '    wanted = groups.build(gang)["spec"] if active else EMPTY',
        ),
    ),
)
