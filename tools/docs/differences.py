"""Where Manta behaves differently from KubeRay 1.7, on purpose: the table of docs/guide/migrating.md.

Every row names the test that proves it; `tests/architecture/test_differences.py` checks that the test
exists and that the page holds this table. To add a row: append it to its group, then `make docs`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs/guide/migrating.md"
BEGIN = "<!-- differences: written by `make docs` from tools/docs/differences.py -->"
END = "<!-- end of differences -->"


@dataclass(frozen=True, slots=True)
class Row:
    id: str
    """Stable, lower case with dashes: tests and findings refer to it."""
    subject: str
    kuberay: str
    manta: str
    why: str
    test: str
    """The name of a test function anywhere under tests/."""


GENERAL = (
    Row(
        "invalid-spec",
        "invalid spec",
        "an Event",
        "an Event and a condition; recoverable by an edit",
        "Events expire; a condition is there when somebody looks",
        "test_c13_an_invalid_cluster_is_told_by_event_and_condition_and_touched_by_nothing",
    ),
    Row(
        "reconcile-concurrency",
        "`--reconcile-concurrency`",
        "1, and no more than that",
        "only raises what a controller takes by itself (8 to 64)",
        "one slow dashboard must not delay every other object",
        "test_concurrency_raises_the_workers_of_a_controller_and_never_lowers_them",
    ),
    Row(
        "qps",
        "`--qps`",
        "100, burst 200",
        "0: as many as the server takes, half of it when it says 429 for load; a number is still obeyed",
        "a fixed limit is either too low for a large fleet or too high for a small server",
        "test_a_burst_passes_at_once_and_then_the_rate_holds",
    ),
    Row(
        "gang-schedulers",
        "gang schedulers (`--batch-scheduler`)",
        "Volcano, YuniKorn, KAI, scheduler-plugins",
        "the same; a RayJob also works with scheduler-plugins, and PodGroups follow the size of the cluster",
        "a PodGroup of yesterday's size holds capacity back or starts half a gang",
        "test_the_group_follows_the_size_of_the_cluster",
    ),
)

CLUSTER = (
    Row(
        "two-heads",
        "two heads",
        "an error that asks a human",
        "keeps the right one, removes the other",
        "the cluster heals without a person",
        "test_c01_a_second_head_made_by_hand_is_removed",
    ),
    Row(
        "blocked",
        "what waits",
        "head container only",
        "condition `Blocked` names Pod, container and cause, for workers too",
        "most waits are waits for workers",
        "test_c29_a_waiting_container_is_named_at_once",
    ),
    Row(
        "status-pace",
        "counts in a status while Pods start",
        "written at every step",
        "after 10 s, 2 s once the cluster was ready; what is news (ready, blocked, failed, suspended) at once",
        "a start of 1,000 Pods costs a few writes instead of thousands",
        "test_progress_of_a_new_cluster_is_written_every_ten_seconds_and_its_end_at_once",
    ),
    Row(
        "own-objects",
        "Services, Route, RBAC",
        "made once; only an Ingress is updated",
        "kept true; foreign fields, rules and subjects are left alone",
        "an edit of the spec reaches them, and damage by hand is repaired",
        "test_drift_made_by_hand_is_corrected_once",
    ),
    Row(
        "running-head-first",
        "an edited label or port of the head's template, while its head runs",
        "the Service stays as it was made, also for the next head",
        "Services, Ingress, Route and `status.endpoints` lead to the head that runs, and change with the next one; a port that was added is served at once",
        "workers and clients always find the head, before and after it is replaced",
        "test_edited_ports_are_served_when_a_head_made_from_the_edit_is_there",
    ),
    Row(
        "start-params",
        "`rayStartParams` with spaces or quotes",
        "split by the shell",
        "one word; `$NAME`, `${NAME:-x}`, `$(command)` and backticks in it are expanded as by KubeRay",
        "Ray gets the text that was written",
        "test_the_shell_expands_what_the_user_wrote_for_it",
    ),
    Row(
        "autoscaler-security-context",
        "the autoscaler's `securityContext`",
        "none, unless `autoscalerOptions` names one",
        "that of the Ray container; `autoscalerOptions.securityContext: {}` undoes it",
        "a restricted namespace admits the Pod only if every container complies",
        "test_empty_autoscaler_options_undo_the_defaults",
    ),
    Row(
        "recreate-older-crd",
        "`upgradeStrategy: Recreate` under an older CRD that hides fields",
        "all Pods are replaced",
        "none is: nobody edited the spec",
        "a downgrade of the CRD must not restart a fleet",
        "test_an_operator_under_an_older_definition_loses_no_pod",
    ),
    Row(
        "removed-group",
        "Pods of a removed worker group",
        "stay",
        "are deleted",
        "nobody pays for Pods that no spec names",
        "test_c14_pods_of_a_removed_group_are_deleted",
    ),
    Row(
        "failing-group",
        "one failing Pod of a worker group",
        "the groups behind it wait",
        "every group goes on",
        "a missing image in one group does not cost the others their workers",
        "test_a_group_in_trouble_holds_up_no_other",
    ),
    Row(
        "provisioned",
        "`RayClusterProvisioned`",
        "when all Pods that are there are ready",
        "when all Pods that are wanted are",
        "a cluster that lacks workers is not called complete",
        "test_c26_all_hosts_of_all_replicas_count",
    ),
    Row(
        "refused-extras",
        "an Ingress, Route or serve Service that is refused",
        "the cluster is not ready",
        "ready; `Blocked` says what it lacks",
        "Ray works without them",
        "test_an_ingress_that_is_refused_for_ever_delays_no_news",
    ),
    Row(
        "autoscaler-v2-restart",
        "autoscaler v2 by `RAY_enable_autoscaler_v2`",
        "`restartPolicy` is left to you",
        "`Never`, unless your template says otherwise",
        "autoscaler v2 takes a restarted container for a node that it does not know",
        "test_c17_with_autoscaler_v2_pods_never_restart",
    ),
    Row(
        "redis-cleanup",
        "a cleanup of Redis that failed",
        "a line in the log",
        "a Warning that names what is left",
        "what is left has to be removed by a person, who must learn of it",
        "test_a_failed_job_lets_it_go_too_and_says_what_is_left",
    ),
    Row(
        "auth-without-mode",
        "`authOptions` without `mode`",
        "a Secret that nothing uses",
        "nothing",
        "a Secret that protects nothing looks like protection",
        "test_what_is_not_ours_to_make_is_not_made",
    ),
    Row(
        "deleted-token",
        "a token Secret that was deleted under a running head",
        "a new token at once",
        "a new token when a Pod waits for it, and a Warning: new Pods cannot join that head ([security](security.md))",
        "the running head keeps the old token; a new one silently splits the cluster",
        "test_a_secret_that_was_deleted_comes_back_and_its_new_token_is_told",
    ),
    Row(
        "duplicate-groups",
        "duplicate group names",
        "endless loop",
        "refused",
        "the loop creates and deletes Pods without end",
        "test_a_broken_rule_names_the_field_and_the_cure",
    ),
    Row(
        "failing-pods",
        "instantly failing Pods",
        "recreated in a tight loop",
        "backed off",
        "a broken image must not load the API server and the nodes",
        "test_c23_pods_that_fail_at_once_are_replaced_ever_more_slowly",
    ),
    Row(
        "head-name",
        "head Pod name (`ENABLE_DETERMINISTIC_HEAD_POD_NAME`)",
        "random suffix",
        "a suffix that follows from the cluster's UID and the name of the head before it; `true` gives `<cluster>-head`, as there",
        "every operator computes the same name for the same head, so that the API server refuses a second one",
        "test_an_operator_that_dies_with_the_reply_makes_no_second_head",
    ),
    Row(
        "head-pod-name-in-status",
        "`status.head.podName` while there is no head",
        "empty",
        "the last head's, until the next one is there; empty in a suspended cluster",
        "the name of the next head follows from it, also after a crash of the operator",
        "test_the_status_names_the_last_head_until_the_next_one_is_there",
    ),
    Row(
        "network-policy-operator",
        "`networkPolicy` and the operator",
        "is kept out, unless you let it in",
        "is let in to the dashboard, and to Serve of a RayService",
        "a RayService or a RayJob in HTTPMode works without a rule for it",
        "test_the_operator_is_let_in_to_what_it_asks",
    ),
    Row(
        "lost-pods",
        "a Pod that is being deleted on a Node that is gone or out of service",
        "waits until somebody removes it",
        "is removed 30 s after its grace period, with a Warning; on a Node that is only NotReady it is waited for, and `Blocked` says what to do",
        "the head comes back without a person, and two heads never run at once",
        "test_a_head_on_a_node_that_is_taken_out_of_service_is_replaced",
    ),
)

JOB = (
    Row(
        "job-validation",
        "RayJob `ValidationFailed`",
        "final",
        "left by an edit",
        "a typo costs an edit, not a new object",
        "test_an_edit_that_breaks_a_running_job_and_one_that_mends_it_run_nothing_twice",
    ),
    Row(
        "job-head-loss",
        "RayJob after head loss",
        "may stay Running",
        "Failed or retried, not silently run again, also if the operator was down ([jobs](jobs.md))",
        "a job that ran twice may have written twice",
        "test_c56_a_job_whose_head_is_lost_fails_soon_and_is_not_run_again",
    ),
    Row(
        "job-conditions",
        "RayJob conditions",
        "none",
        "`Ready`, `Complete`, `Failed`; on KubeRay's CRD the server drops them, and nothing else changes",
        "`kubectl wait` works, and a wait names its cause",
        "test_complete_and_failed_can_be_waited_for",
    ),
    Row(
        "job-submitter-failed",
        "RayJob whose submitter fails or ends early",
        "Failed, 30 s after its end, although Ray's job still runs",
        "what Ray says of the job counts",
        "a submitter ends when its log stream breaks; with `shutdownAfterJobFinishes` KubeRay then deletes"
        " the cluster, and hours of work that went well (KubeRay issues 4285, 2154)",
        "test_c57_a_submitter_that_loses_its_connection_fails_no_job_and_submits_once",
    ),
    Row(
        "sidecar-workers",
        "RayJob in `SidecarMode` whose workers never come",
        "`Initializing` for ever",
        "runs, and its end is recorded",
        "the sidecar submits by itself: the job may have succeeded long ago",
        "test_c60_a_sidecars_success_is_recorded_although_workers_never_came",
    ),
    Row(
        "sidecar-gate",
        "head of a RayJob in `SidecarMode`",
        "runs as soon as it is made",
        "has the scheduling gate `manta.ray.io/head-noted` until the status names it, so that none is forgotten",
        "a head that nobody noted could be replaced, and the job run twice",
        "test_only_a_head_that_submits_has_a_gate",
    ),
    Row(
        "job-checked-early",
        "RayJob with an unknown `submissionMode`, unreadable `entrypointResources`, or (HTTPMode, SidecarMode) no"
        " `entrypoint`",
        "found out by the submitter, or never",
        "`ValidationFailed`, before a cluster is made",
        "no cluster is paid for that can run nothing",
        "test_it_is_told_by_its_field_and_mended_by_an_edit",
    ),
    Row(
        "job-waiting",
        "RayJob that waits for its user (InteractiveMode)",
        "`suspend` and `activeDeadlineSeconds` have no effect",
        "both are obeyed",
        "its cluster costs as much as any other",
        "test_a_job_that_waits_for_its_user_can_be_suspended",
    ),
    Row(
        "job-on-failure-deadline",
        "`deletionStrategy.onFailure` after a deadline",
        "nothing is deleted",
        "applies",
        "a job that was stopped by its deadline has failed",
        "test_a_deadline_counts_as_a_failure_for_the_older_form_too",
    ),
    Row(
        "job-deadline",
        "RayJob past `activeDeadlineSeconds`",
        "Failed; the job may go on",
        "Failed; the job is stopped, and that is confirmed",
        "on a shared cluster the job would go on using its resources",
        "test_c63_a_deadline_stops_the_job_on_a_shared_cluster",
    ),
    Row(
        "stopped-deletion",
        "RayJob that was stopped, with `deletionStrategy`",
        "its cluster stays",
        "a Warning, and the cluster goes after the longest `ttlSeconds`",
        "no rule matches a stopped job, and nobody would pay attention to its cluster",
        "test_what_each_end_leaves",
    ),
    Row(
        "delete-self-selector",
        "`DeleteSelf` with `clusterSelector`",
        "accepted, never done",
        "done",
        "what is accepted is done",
        "test_delete_self_works_on_a_borrowed_cluster_too",
    ),
)

SERVICE = (
    Row(
        "worker-readiness",
        "RayService worker readiness",
        "raylet and Serve proxy, by wget in the image, one miss",
        "the proxy alone, by HTTP, two misses: a dead head takes no worker out of service",
        "workers can serve without their head",
        "test_a_serving_worker_is_ready_with_its_proxy_whatever_the_head_does",
    ),
    Row(
        "head-only-proxies",
        "`proxy_location: HeadOnly`",
        "workers are never ready",
        "workers are not asked for a proxy",
        "such a service would never be complete",
        "test_c52_workers_without_a_proxy_do_not_keep_a_service_from_being_ready",
    ),
    Row(
        "pending-replaced",
        "pending cluster of a RayService whose spec changes once more",
        "goes after the deletion delay",
        "goes at once",
        "it never served, and holds capacity that its successor needs",
        "test_a_spec_that_changes_again_replaces_the_pending_cluster_at_once",
    ),
    Row(
        "service-validation-status",
        "`serviceStatus` of a RayService with `ValidationFailed`",
        "stays as it was",
        "empty",
        "nobody looks after its Services until the spec is valid again",
        "test_an_invalid_spec_is_said_and_recovered_from",
    ),
    Row(
        "stable-services",
        "changed `serveService` or service type",
        "reaches the Services at the next switch",
        "at once",
        "what is asked for is done when it is asked for",
        "test_the_serve_service_follows_its_type_and_affinity",
    ),
    Row(
        "service-replicas",
        "`replicas` edited in a RayService without the autoscaler",
        "reach no running cluster",
        "reach it; `replicas` that others set on the RayCluster stay",
        "an edit has an effect, and an outside scaler keeps its own",
        "test_replicas_that_others_set_on_the_cluster_are_left_alone",
    ),
    Row(
        "edit-while-operator-changes",
        "a RayService edited while another operator version starts",
        "taken over in place: the Pods keep the old spec",
        "rolled out as an upgrade",
        "an edit is never swallowed",
        "test_an_image_edited_while_the_operator_is_replaced_is_rolled_out",
    ),
    Row(
        "initializing-timeout",
        "RayService after its initializing timeout",
        "failed for good: delete and make it again",
        "an edit of the spec starts it again (its `observedGeneration` is that of the spec, because adding"
        " a finalizer does not change the spec here)",
        "the edit that repairs the spec is enough",
        "test_c50_a_service_that_never_comes_up_times_out_and_an_edit_starts_it_anew",
    ),
    Row(
        "dashboard-pace",
        "RayService dashboards",
        "asked every 2 s for ever, with the Serve proxy of the head",
        "often while something changes, every 25 s at rest; the proxy every 2.5 s",
        "500 services at rest cost 6 % of a core for probes, and almost nothing else",
        "test_at_rest_nothing_is_written_and_little_is_asked",
    ),
)

CRON = (
    Row(
        "cron-missed",
        "RayCronJob",
        "off; replays all missed ticks",
        "on; the latest missed tick only",
        "a night of downtime must not start a hundred jobs at once",
        "test_after_a_downtime_only_the_latest_missed_tick_is_caught_up",
    ),
    Row(
        "cron-zone",
        "RayCronJob without `timeZone`",
        "the local time of the operator's container",
        "UTC",
        "a schedule means the same wherever the operator runs",
        "test_without_a_zone_the_schedule_is_in_utc",
    ),
)

ROWS: tuple[Row, ...] = (*GENERAL, *CLUSTER, *JOB, *SERVICE, *CRON)


def table() -> str:
    """The rows as Markdown."""
    return "".join(_lines())


def _lines() -> Iterator[str]:
    yield "| | KubeRay 1.7 | Manta | Why |\n|---|---|---|---|\n"
    for row in ROWS:
        yield f"| {row.subject} | {row.kuberay} | {row.manta} | {row.why} |\n"


def written(page: str) -> str:
    """The page with the table between its two markers. Raises ValueError where they are missing."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{PAGE.name} must hold the lines {BEGIN!r} and {END!r}")
    return f"{before}{BEGIN}\n\n{table()}\n{END}{after}"
