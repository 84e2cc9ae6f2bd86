"""Where Manta behaves differently from KubeRay 1.7, on purpose: the table of docs/guide/migrating.md.

Every row names the test that proves it; `tests/architecture/test_differences.py` checks that the test
exists and that the page holds this table. To add a row: append it to its group, then `make docs`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tools.docs.pages import ROOT, Section

SECTION = Section(
    ROOT / "docs/guide/migrating.md",
    "<!-- differences: written by `make docs` from tools/docs/differences.py -->",
    "<!-- end of differences -->",
)


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
        "an Event and a condition; fix it by an edit",
        "Events expire, a condition stays",
        "test_an_invalid_spec_is_an_event_and_a_condition_until_an_edit",
    ),
    Row(
        "reconcile-concurrency",
        "`--reconcile-concurrency`",
        "1",
        "can only raise the default of a controller (8 to 64)",
        "one slow dashboard must not delay every other object",
        "test_concurrency_raises_the_workers_of_a_controller_and_never_lowers_them",
    ),
    Row(
        "qps",
        "`--qps`",
        "100, burst 200",
        "0 (adaptive): the rate is halved when the API server answers 429 for load; a number is a fixed limit, as in KubeRay",
        "a fixed limit is either too low for a large fleet or too high for a small server",
        "test_the_rate_is_halved_by_a_429_unless_a_number_fixes_it",
    ),
    Row(
        "gang-schedulers",
        "gang schedulers (`--batch-scheduler`)",
        "Volcano, YuniKorn, KAI, scheduler-plugins",
        "the same; RayJobs also work with scheduler-plugins, and PodGroups are resized with the cluster",
        "an outdated PodGroup reserves too much or starts half a gang",
        "test_the_group_follows_the_size_of_the_cluster",
    ),
    Row(
        "kubernetes-was",
        "gate `KubernetesWAS` (gangs of Kubernetes 1.36)",
        "alpha",
        "the same kinds; what is sent fits the types of Kubernetes 1.36.2, but has not run with its scheduler",
        "the scheduler of 1.36 is not part of the tests: these build Kubernetes 1.35",
        "test_workload_pod_group_and_pods_are_those_of_kubernetes_1_36",
    ),
)

CLUSTER = (
    Row(
        "two-heads",
        "two heads",
        "an error; a person must act",
        "keeps the right one, deletes the other",
        "the cluster recovers by itself",
        "test_c01_a_second_head_made_by_hand_is_removed",
    ),
    Row(
        "blocked",
        "what a cluster waits for",
        "head container only",
        "the condition `Blocked` names Pod, container and cause, also for workers; a container that is not created, or not ready, within 5 minutes counts",
        "most clusters wait for workers",
        "test_a_container_that_needs_too_much_time_is_named",
    ),
    Row(
        "status-pace",
        "counts in a status while Pods start",
        "written at every step",
        "after 10 s, or 2 s once the cluster has been ready; state changes (ready, blocked, failed, suspended) at once",
        "starting 1,000 Pods takes a few writes instead of thousands",
        "test_progress_of_a_new_cluster_is_written_every_ten_seconds_and_its_end_at_once",
    ),
    Row(
        "own-objects",
        "Services, Route, RBAC",
        "created once; only an Ingress is updated",
        "updated when the spec or the object changes; fields, rules and subjects of others are preserved",
        "edits of the spec take effect, and manual damage is repaired",
        "test_drift_made_by_hand_is_corrected_once",
    ),
    Row(
        "running-head-first",
        "an edited label, port or `authOptions` of the head while the head runs",
        "the Service never changes, even for the next head; new workers get the edited port and token",
        "Services, Ingress, Route, `status.endpoints` and new workers are for the running head and change with the next one; an added port is exposed at once",
        "workers and clients always reach the head",
        "test_edited_ports_are_served_when_a_head_made_from_the_edit_is_there",
    ),
    Row(
        "start-params",
        "`rayStartParams` with spaces or quotes",
        "split by the shell",
        "quoted as one word; `$NAME`, `${NAME:-x}`, `$(command)` and backticks are still expanded",
        "Ray receives the value as written",
        "test_the_shell_expands_what_the_user_wrote_for_it",
    ),
    Row(
        "autoscaler-security-context",
        "the autoscaler's `securityContext`",
        "none, unless `autoscalerOptions` names one",
        "that of the Ray container; `autoscalerOptions.securityContext: {}` removes it",
        "a restricted namespace accepts a Pod only if every container complies",
        "test_empty_autoscaler_options_undo_the_defaults",
    ),
    Row(
        "recreate-older-crd",
        "`upgradeStrategy: Recreate` with an older CRD that prunes fields",
        "all Pods are replaced",
        "no Pod is replaced, because nobody edited the spec",
        "downgrading a CRD must not restart all clusters",
        "test_an_operator_under_an_older_definition_loses_no_pod",
    ),
    Row(
        "removed-group",
        "Pods of a removed worker group",
        "stay",
        "are deleted",
        "Pods that no spec names only cost money",
        "test_c14_pods_of_a_removed_group_are_deleted",
    ),
    Row(
        "failing-group",
        "one failing Pod of a worker group",
        "later groups wait",
        "other groups continue",
        "a missing image in one group must not block the others",
        "test_a_group_in_trouble_holds_up_no_other",
    ),
    Row(
        "provisioned",
        "`RayClusterProvisioned`",
        "when all existing Pods are ready",
        "when all desired Pods are ready",
        "a cluster without its workers is not provisioned",
        "test_c26_all_hosts_of_all_replicas_count",
    ),
    Row(
        "surplus-ready",
        "an autoscaled cluster with more workers than `replicas`",
        "not ready before the autoscaler has removed them",
        "ready once all its Pods are ready",
        "it has all that was wanted, and busy workers are not removed",
        "test_an_autoscaled_cluster_with_more_workers_than_replicas_is_ready",
    ),
    Row(
        "refused-extras",
        "the API server rejects the Ingress, Route or serve Service",
        "the cluster is not ready",
        "ready; `Blocked` names the missing object",
        "Ray works without them",
        "test_an_ingress_that_is_refused_for_ever_delays_no_news",
    ),
    Row(
        "autoscaler-v2-restart",
        "autoscaler v2 by `RAY_enable_autoscaler_v2`",
        "`restartPolicy` is not set",
        "`Never`, unless the template sets it",
        "autoscaler v2 does not recognise a restarted container",
        "test_c17_with_autoscaler_v2_pods_never_restart",
    ),
    Row(
        "redis-cleanup",
        "failed cleanup of Redis",
        "a log line",
        "a Warning that names the remaining keys",
        "a person has to remove them",
        "test_a_failed_job_lets_it_go_too_and_says_what_is_left",
    ),
    Row(
        "auth-without-mode",
        "`authOptions` without `mode`",
        "a Secret that nothing uses",
        "nothing",
        "an unused token suggests protection that does not exist",
        "test_what_is_not_ours_to_make_is_not_made",
    ),
    Row(
        "deleted-token",
        "a token Secret deleted while the head runs",
        "a new token at once",
        "a new token when a Pod waits for it, and a Warning: new Pods cannot join that head ([security](security.md))",
        "the running head keeps the old token, so a new one would silently split the cluster",
        "test_a_secret_that_was_deleted_comes_back_and_its_new_token_is_reported",
    ),
    Row(
        "duplicate-groups",
        "duplicate group names",
        "endless loop",
        "refused",
        "KubeRay creates and deletes Pods in an endless loop",
        "test_a_broken_rule_names_the_field_and_the_cure",
    ),
    Row(
        "failing-pods",
        "Pods that fail right after their start",
        "recreated in a tight loop",
        "recreated with back-off",
        "a broken image must not load the API server and the nodes",
        "test_c23_pods_that_fail_at_once_are_replaced_ever_more_slowly",
    ),
    Row(
        "head-name",
        "head Pod name (`ENABLE_DETERMINISTIC_HEAD_POD_NAME`)",
        "random suffix",
        "a suffix derived from the cluster's UID and the previous head's name, or the edit that resumed the cluster; `true` gives `<cluster>-head`, as in KubeRay",
        "every operator computes the same name, so the API server rejects a second head",
        "test_an_operator_that_dies_with_the_reply_makes_no_second_head",
    ),
    Row(
        "head-pod-name-in-status",
        "`status.head.podName` while there is no head",
        "empty",
        "the last head's name until there is a new head; empty in a suspended cluster",
        "the next head's name is derived from it, even after an operator crash",
        "test_the_status_names_the_last_head_until_the_next_one_is_there",
    ),
    Row(
        "network-policy-operator",
        "`networkPolicy` and the operator",
        "the policy blocks the operator, unless you add a rule",
        "the policy admits the operator to the dashboard, and to Serve of a RayService",
        "RayServices and RayJobs in HTTPMode work without an extra rule",
        "test_the_operator_is_let_in_to_what_it_asks",
    ),
    Row(
        "lost-pods",
        "a terminating Pod on a Node that is gone or out of service",
        "stays until a person deletes it",
        "force-deleted 30 s after its grace period, with a Warning; on a NotReady Node the operator waits, and `Blocked` says what to do",
        "the head recovers by itself, and two heads never run at once",
        "test_a_head_on_a_node_that_is_taken_out_of_service_is_replaced",
    ),
)

JOB = (
    Row(
        "job-validation",
        "RayJob `ValidationFailed`",
        "final",
        "recovers after an edit",
        "a typo needs an edit, not a new object",
        "test_an_edit_that_breaks_a_running_job_and_one_that_mends_it_run_nothing_twice",
    ),
    Row(
        "job-head-loss",
        "RayJob after head loss",
        "may stay Running",
        "Failed or retried, never silently rerun, even if the operator was down ([jobs](jobs.md))",
        "a job that runs twice may write twice",
        "test_c56_a_job_whose_head_is_lost_fails_soon_and_is_not_run_again",
    ),
    Row(
        "job-conditions",
        "RayJob conditions",
        "none",
        "`Ready`, `Complete`, `Failed`; KubeRay's CRD prunes them without further effect",
        "`kubectl wait` works, and the cause of a wait is visible",
        "test_complete_and_failed_can_be_waited_for",
    ),
    Row(
        "job-submitter-failed",
        "RayJob whose submitter fails or ends early",
        "Failed 30 s after the submitter ended, although Ray's job still runs",
        "the job's state in Ray decides",
        "a submitter ends when its log stream breaks or its Node is drained; with `shutdownAfterJobFinishes`"
        " KubeRay then deletes the cluster of a job that runs well (KubeRay issues 4921, 2317). KubeRay's"
        " timeout is for heads that restart and lose the job: these fail the job at once here, and"
        " `activeDeadlineSeconds` ends a job that hangs",
        "test_c57_a_submitter_that_loses_its_connection_fails_no_job_and_submits_once",
    ),
    Row(
        "sidecar-workers",
        "RayJob in `SidecarMode` whose workers never start",
        "`Initializing` forever",
        "runs, and its result is recorded",
        "the sidecar submits on its own: the job may already have succeeded",
        "test_c60_a_sidecars_success_is_recorded_although_workers_never_came",
    ),
    Row(
        "sidecar-last-worker",
        "RayCluster whose last worker comes after its `SidecarMode` job has succeeded",
        "never `ready`",
        "becomes `ready`",
        "the container that submitted the job has ended well, and everything else runs",
        "test_a_worker_that_comes_after_the_submitter_beside_the_head_has_ended",
    ),
    Row(
        "sidecar-gate",
        "head of a RayJob in `SidecarMode`",
        "runs at once",
        "has the scheduling gate `manta.ray.io/head-noted` until the status names it",
        "an unrecorded head could be replaced, and the job would run twice",
        "test_only_a_head_that_submits_has_a_gate",
    ),
    Row(
        "job-checked-early",
        "RayJob with an unknown `submissionMode`, unreadable `entrypointResources`, or (HTTPMode, SidecarMode) no"
        " `entrypoint`",
        "found by the submitter, or never",
        "`ValidationFailed` before a cluster is created",
        "no cluster is created that can run nothing",
        "test_it_is_reported_by_its_field_and_repaired_by_an_edit",
    ),
    Row(
        "job-waiting",
        "RayJob that waits for its user in InteractiveMode",
        "`suspend` and `activeDeadlineSeconds` have no effect",
        "both take effect",
        "its cluster also costs money",
        "test_a_job_that_waits_for_its_user_can_be_suspended_and_has_a_deadline",
    ),
    Row(
        "job-on-failure-deadline",
        "`deletionStrategy.onFailure` after a deadline",
        "nothing is deleted",
        "applies",
        "a job stopped by its deadline has failed",
        "test_a_deadline_counts_as_a_failure_for_the_older_form_too",
    ),
    Row(
        "job-deadline",
        "RayJob past `activeDeadlineSeconds`",
        "Failed; the job may continue",
        "Failed; the operator stops the job and confirms it",
        "on a shared cluster the job would keep using resources",
        "test_c63_a_deadline_stops_the_job_on_a_shared_cluster",
    ),
    Row(
        "stopped-deletion",
        "RayJob that was stopped, with `deletionStrategy`",
        "its cluster stays",
        "a Warning, and the cluster is deleted after the longest `ttlSeconds`",
        "no rule matches a stopped job, and its cluster would stay unnoticed",
        "test_what_each_end_leaves",
    ),
    Row(
        "delete-self-selector",
        "`DeleteSelf` with `clusterSelector`",
        "accepted, without effect",
        "done",
        "accepted settings take effect",
        "test_delete_self_works_on_a_borrowed_cluster_too",
    ),
)

SERVICE = (
    Row(
        "worker-readiness",
        "RayService worker readiness",
        "raylet and Serve proxy, by wget in the image, one failure",
        "only the proxy, by HTTP, two failures: workers stay ready when the head dies",
        "workers can serve without the head",
        "test_a_serving_worker_is_ready_with_its_proxy_whatever_the_head_does",
    ),
    Row(
        "head-only-proxies",
        "`proxy_location: HeadOnly`",
        "workers are never ready",
        "workers need no proxy to be ready",
        "such a service would never become ready",
        "test_c52_workers_without_a_proxy_do_not_keep_a_service_from_being_ready",
    ),
    Row(
        "pending-replaced",
        "pending cluster of a RayService whose spec changes again",
        "deleted after the deletion delay",
        "deleted at once",
        "it never served, and its successor needs the capacity",
        "test_a_spec_that_changes_again_replaces_the_pending_cluster_at_once",
    ),
    Row(
        "service-validation-status",
        "`serviceStatus` of a RayService with `ValidationFailed`",
        "unchanged",
        "empty",
        "the operator does not manage its Services until the spec is valid",
        "test_an_invalid_service_has_no_service_status",
    ),
    Row(
        "stable-services",
        "changed `serveService` or service type",
        "applied at the next switch",
        "at once",
        "edits take effect at once",
        "test_the_serve_service_follows_its_type_and_affinity",
    ),
    Row(
        "service-replicas",
        "`replicas` edited in a RayService without the autoscaler",
        "not applied to the running cluster",
        "applied; `replicas` that others set on the RayCluster are kept",
        "edits take effect, and an external scaler is not overridden",
        "test_replicas_that_others_set_on_the_cluster_are_left_alone",
    ),
    Row(
        "edit-while-operator-changes",
        "a RayService edited while an operator of another version starts",
        "adopted in place: the Pods keep the old spec",
        "rolled out as an upgrade",
        "an edit is never lost",
        "test_an_image_edited_while_the_operator_is_replaced_is_rolled_out",
    ),
    Row(
        "initializing-timeout",
        "RayService after its initializing timeout",
        "failed permanently: delete and create it again",
        "an edit of the spec starts it again (`observedGeneration` is that of the spec)",
        "until the edit it stays failed, as in KubeRay; kubectl and GitOps tools apply a fixed spec, and"
        " deleting the service would delete its Services and their addresses too",
        "test_c50_a_service_that_never_comes_up_times_out_and_an_edit_starts_it_again",
    ),
    Row(
        "dashboard-pace",
        "RayService dashboards",
        "polled every 2 s, as is the Serve proxy of the head",
        "polled often while something changes, every 25 s otherwise; the proxy every 2.5 s",
        "500 idle services use 6 % of a core for probes, and little else",
        "test_at_rest_nothing_is_written_and_little_is_asked",
    ),
)

CRON = (
    Row(
        "cron-missed",
        "RayCronJob",
        "off by default; starts all missed runs",
        "on by default; starts only the latest missed run",
        "downtime must not start a hundred jobs at once",
        "test_after_a_downtime_only_the_latest_missed_tick_is_caught_up",
    ),
    Row(
        "cron-zone",
        "RayCronJob without `timeZone`",
        "the local time of the operator's container",
        "UTC",
        "a schedule does not depend on where the operator runs",
        "test_without_a_zone_the_schedule_is_in_utc",
    ),
)

ROWS: tuple[Row, ...] = (*GENERAL, *CLUSTER, *JOB, *SERVICE, *CRON)


def text() -> str:
    """The rows as Markdown."""
    return "".join(_lines())


def _lines() -> Iterator[str]:
    yield "| | KubeRay 1.7 | Manta | Why |\n|---|---|---|---|\n"
    for row in ROWS:
        yield f"| {row.subject} | {row.kuberay} | {row.manta} | {row.why} |\n"
