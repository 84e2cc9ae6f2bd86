"""The guards of RayService and RayJob: C43 to C68."""

from __future__ import annotations

from tools.knownbugs.guard import Guard, guard

_SERVICE = "controllers/rayservice"
_JOB = "controllers/rayjob"

GUARDS: tuple[Guard, ...] = (
    guard(
        43,
        "an autoscaler's edit makes a new cluster",
        "the hash ignores replicas",
        ("rules/spec_hash.py", "        replicas=None,\n", ""),
    ),
    guard(
        43,
        "what a queue adds looks like a change",
        "tolerations and gates are not hashed",
        (
            "rules/spec_hash.py",
            '_ADDED_BY_QUEUES = ("tolerations", "schedulingGates")',
            "_ADDED_BY_QUEUES = ()",
        ),
    ),
    guard(
        44,
        "a config is submitted again and again",
        "what was submitted is written down, with its head",
        (
            f"{_SERVICE}/planners/serve.py",
            "    if is_told(sight, order):\n        return _after_submission(seen, sight, order)",
            "    if not order.config:\n        return _after_submission(seen, sight, order)",
        ),
        (
            f"{_SERVICE}/planners/serve.py",
            "    if same_config and _knows_some(sight, order):",
            "    if not order.config:",
        ),
    ),
    guard(
        45,
        "a worker's agent is asked",
        "only the head Service's dashboard is",
        (
            f"{_SERVICE}/inquire.py",
            "        service=head_service_name(cluster),",
            '        service=f"{cluster.metadata.name}-serve-svc",',
        ),
    ),
    guard(
        46,
        "a fixed name of the head Service blocks an upgrade",
        "it is refused",
        ("rules/validation/service.py", '    if custom.get("name"):', "    if False:"),
    ),
    guard(
        47,
        "one Service that cannot be changed stops the switch",
        "each stands alone",
        (
            f"{_SERVICE}/planners/services.py",
            "    return do(action, independent=True) if action else NOTHING",
            "    return do(action) if action else NOTHING",
        ),
        (
            f"{_SERVICE}/planners/services.py",
            "    plan = _alone(serve).then(plan_head_service(seen, target))",
            "    plan = plan_head_service(seen, target).then(_alone(serve))",
        ),
    ),
    guard(
        48,
        "old clusters pile up",
        "who serves no more goes",
        (
            f"{_SERVICE}/planners/old_clusters.py",
            "    return (one for one in seen.clusters if _stays(one) and one.metadata.name not in wanted)",
            "    return (one for one in () if wanted)",
        ),
    ),
    guard(
        49,
        "a lost event of the head stops the promotion",
        "who waits for long looks at the server",
        (
            f"{_SERVICE}/observe.py",
            "        if await self._has_looked(key, doubtful(seen)):",
            "        if False and doubtful:",
        ),
        (
            "controllers/raycluster/doubts.py",
            "        if not is_stalled(seen) or (",
            "        if True or (",
        ),
    ),
    guard(
        50,
        "it initializes for ever",
        "the user's limit",
        (
            f"{_SERVICE}/plan.py",
            "    return left is not None and left <= timedelta(0)",
            "    return left is not None and False",
        ),
    ),
    guard(
        51,
        "a dead proxy for ever",
        "its worker is replaced, where the user asks for it",
        (f"{_SERVICE}/plan.py", "        plan_unserving(seen),\n", ""),
    ),
    guard(
        51,
        "workers replaced while Serve deploys",
        "only where all applications run",
        (
            f"{_SERVICE}/planners/unserving.py",
            "    if not _is_well_otherwise(seen, active) or any(",
            "    if any(",
        ),
    ),
    guard(
        52,
        "workers without a proxy are never ready",
        "nobody asks it of them",
        (
            "rules/serve_config.py",
            "    return of_service and meta.annotations.get(SERVE_PROXIES) != ON_HEAD_ONLY",
            "    return of_service",
        ),
    ),
    guard(
        53,
        "requests to a head without a proxy",
        "it is in service while its proxy answers",
        (
            f"{_SERVICE}/planners/serve.py",
            "    serves = not excluded and sight.proxy_answers is True and _has_something_to_serve(seen, sight)",
            "    serves = not excluded",
        ),
    ),
    guard(
        54,
        "suspended in mid-upgrade, traffic to nobody",
        "the ways in are closed first",
        (
            f"{_SERVICE}/planners/suspension.py",
            "    return Step(do(*ways_in).then(do(*clusters)), timer=timer)",
            "    return Step(do(*clusters), timer=timer if ways_in else None)",
        ),
    ),
    guard(
        55,
        "the cluster outlives the job",
        "deletions by rule, to the second",
        (
            f"{_JOB}/stages/ending.py",
            "    if found is not None:\n        return stay(seen, do(*_carry_out",
            "    if False:\n        return stay(seen, do(*_carry_out",
        ),
    ),
    guard(
        56,
        "running for ever after the head was lost",
        "a lost head is a failure",
        (
            f"{_JOB}/stages/running.py",
            "    if gone := lost(seen):\n        return gone\n",
            "    assert lost\n",
        ),
    ),
    guard(
        57,
        "a submitter's failure fails the job",
        "Ray's word is the truth",
        (
            f"{_JOB}/stages/running.py",
            "    if gone := lost(seen):\n        return gone\n",
            """\
    if gone := lost(seen):
        return gone
    if seen.submitter is not None and seen.submitter.finished == "Failed":
        return fail(seen, JobFailedReason.SUBMISSION_FAILED, "the submitter failed")
""",
        ),
    ),
    guard(
        58,
        "a submitter's exit code saves a failed job",
        "Ray's word is the truth",
        (
            f"{_JOB}/stages/running.py",
            "    if told.status == JobStatus.FAILED:\n",
            "    if told.status == JobStatus.FAILED and _submitter_works(seen):\n",
        ),
    ),
    guard(
        59,
        "a sidecar's exit ends the job",
        "only Ray's word does",
        (
            f"{_JOB}/stages/running.py",
            "    if gone := lost(seen):\n        return gone\n",
            """\
    if gone := lost(seen):
        return gone
    if _sidecar_end(seen) is not None:
        return fail(seen, JobFailedReason.SUBMISSION_FAILED, "the sidecar ended")
""",
        ),
    ),
    guard(
        60,
        "a sidecar's success is not heard while workers are missing",
        "it is listened to when its head is up",
        (
            f"{_JOB}/stages/initializing.py",
            "    alone = seen.mode is SubmissionMode.SIDECAR and seen.sidecar_began and seen.head_is_ready",
            "    alone = False",
        ),
    ),
    guard(
        61,
        "one odd object stops all",
        "a bug ends its round, not the process",
        (
            "runtime/controller.py",
            "        except Exception as error:",
            "        except ZeroDivisionError as error:",
        ),
    ),
    guard(
        62,
        "a resumed job is never submitted",
        "a new attempt has a new id, and a clean status",
        (f"{_JOB}/step.py", '        job_id="",\n', ""),
    ),
    guard(
        63,
        "a deadline does not stop the job",
        "Ray is asked to stop it",
        (
            f"{_JOB}/stages/running.py",
            '    if late := missed_active_deadline(seen, _give_up(seen, "activeDeadlineSeconds has passed")):',
            "    if late := missed_active_deadline(seen, NOTHING):",
        ),
    ),
    guard(
        63,
        "a stop that got lost",
        "until Ray confirms it",
        (
            f"{_JOB}/stages/ending.py",
            "    return _confirm_stop(seen, step) if still_to_stop(seen) else step",
            "    return step",
        ),
    ),
    guard(
        64,
        "a deleted job waits for its dashboard",
        "the stop may fail",
        (
            f"{_JOB}/stages/running.py",
            "arguments, must_succeed=False), independent=True",
            "arguments)",
        ),
    ),
    guard(
        65,
        "Pods of the submitter are orphaned",
        "propagation is said",
        (
            "reconcile/actions.py",
            '    propagation: Propagation = "Background"',
            '    propagation: Propagation = "Orphan"',
        ),
    ),
    guard(
        66,
        "pre-running for ever",
        "preRunningDeadlineSeconds",
        (
            f"{_JOB}/stages/initializing.py",
            "    if limit is not None and _since_start(seen) >= timedelta(seconds=limit):",
            "    if limit is not None and False:",
        ),
    ),
    guard(
        67,
        "a deadline is retried",
        "it never is",
        (f"{_JOB}/step.py", " and reason not in NOT_RETRIED", ""),
    ),
    guard(
        68,
        "the PodGroup goes before the cluster",
        "it keeps its size while the cluster lives",
        (
            f"{_JOB}/gang.py",
            '    wanted = groups.build(leader)["spec"] if busy or _lives_on(seen) else EMPTY',
            '    wanted = groups.build(leader)["spec"] if busy else EMPTY',
        ),
    ),
)
