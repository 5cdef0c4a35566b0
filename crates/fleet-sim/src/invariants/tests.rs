//! Each invariant is violated by forbidden writes and not by allowed ones.

mod members;

use expect_test::{Expect, expect};
use fleet_api::well_known::{annotations, labels};
use serde_json::{Value, json};

use super::*;
use crate::network::HUB_SERVER;
use crate::simulation::{HUB, USER};

const API: &str = "/apis/placement.kubernetes-fleet.io/v1beta1";
const MEMBERS: &str = "/apis/cluster.kubernetes-fleet.io/v1beta1/memberclusters";
const BINDINGS: &str = "clusterresourcebindings";
const WORKS_OF_A: &str = "namespaces/fleet-member-a/works";

const LAG: Lag = Lag { skew: SignedDuration::from_secs(1), stale: Duration::from_secs(90) };

/// A sequence of writes that the invariants check.
struct Writes {
    invariants: Invariants,
    revision: u64,
    at: Duration,
}

impl Writes {
    /// Three members of a placement called `web`.
    fn of(spec: Value) -> Self {
        let mut writes = Self {
            invariants: Invariants::from(Timestamp::UNIX_EPOCH, LAG),
            revision: 0,
            at: Duration::from_secs(1000),
        };
        for member in ["a", "b", "c"] {
            writes.write(USER, HUB_SERVER, "POST", MEMBERS, json!({"metadata": {"name": member}}));
        }
        let placement = json!({"metadata": {"name": "web", "generation": 1}, "spec": spec});
        writes.on_hub(USER, "POST", "clusterresourceplacements", placement);
        writes
    }

    fn write(&mut self, actor: &str, server: &str, verb: &str, path: &str, mut object: Value) {
        self.revision += 1;
        object["metadata"]["resourceVersion"] = self.revision.to_string().into();
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        let path = if verb == "POST" { path.to_owned() } else { format!("{path}/{name}") };
        let answer = object.to_string();
        let (path, answer) = (path.as_str(), answer.as_bytes());
        self.invariants.observe(&CommittedWrite { at: self.at, actor, server, verb, path, answer });
    }

    fn on_hub(&mut self, actor: &str, verb: &str, plural: &str, object: Value) {
        self.write(actor, HUB_SERVER, verb, &format!("{API}/{plural}"), object);
    }

    fn binding(&mut self, verb: &str, binding: Value) {
        self.on_hub(HUB, verb, BINDINGS, binding);
    }

    fn on_member(&mut self, actor: &str, verb: &str, object: Value) {
        self.write(actor, "a", verb, "/api/v1/namespaces/shop/configmaps", object);
    }

    /// Restores the hub to these objects, given with their kinds.
    fn restore(&mut self, objects: &[(&str, Value)]) {
        let mut state = ClusterState::default();
        for (kind, object) in objects {
            let mut object = object.clone();
            object["metadata"]["resourceVersion"] = "backup".into();
            state.0.entry((*kind).to_owned()).or_default().push(object);
        }
        self.invariants.restore_hub(self.at, &state);
    }

    fn later(&mut self, seconds: u64) {
        self.at += Duration::from_secs(seconds);
    }

    /// The violations since the last call.
    fn violations(&mut self) -> String {
        let violations = std::mem::take(&mut self.invariants.violations);
        let words: Vec<&str> = violations
            .iter()
            .map(|one| {
                one.split_once(": ")
                    .map_or("", |(_, rest)| rest.rsplit_once(" (").map_or(rest, |(violation, _)| violation))
            })
            .collect();
        words.join("\n")
    }

    fn check(&mut self, expected: Expect) {
        expected.assert_eq(&self.violations());
    }
}

/// A binding that is only scheduled has no snapshot yet.
fn binding(cluster: &str, state: &str, snapshot: u32, generation: i64) -> Value {
    let snapshot = if state == "Scheduled" { String::new() } else { format!("web-{snapshot}-snapshot") };
    json!({
        "metadata": {
            "name": format!("web-{cluster}"), "uid": format!("uid-{cluster}"), "generation": generation, "finalizers": ["x"],
            "labels": {labels::PARENT_PLACEMENT: "web"},
        },
        "spec": {"targetCluster": cluster, "state": state, "resourceSnapshotName": snapshot},
    })
}

fn work(cluster: &str, snapshot: u32) -> Value {
    json!({"metadata": {
        "name": "web-work", "generation": 1, "labels": {labels::PARENT_BINDING: format!("web-{cluster}")},
        "annotations": {annotations::PARENT_RESOURCE_SNAPSHOT: format!("web-{snapshot}-snapshot")},
    }})
}

fn with_condition(mut object: Value, type_: &str, status: &str) -> Value {
    let generation = object["metadata"]["generation"].clone();
    object["status"] = json!({"conditions": [{"type": type_, "status": status, "observedGeneration": generation}]});
    object
}

fn available(binding: Value) -> Value {
    with_condition(binding, "Available", "True")
}

/// An eviction that has begun to remove the binding of a cluster.
fn eviction_of(cluster: &str, spec: Value) -> Value {
    let recorded = json!({annotations::EVICTED_BINDING_UID: format!("uid-{cluster}")});
    json!({"metadata": {"name": cluster, "generation": 1, "annotations": recorded}, "spec": spec})
}

fn deleting(mut object: Value) -> Value {
    object["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    object
}

fn three_available(writes: &mut Writes) {
    for cluster in ["a", "b", "c"] {
        writes.binding("POST", binding(cluster, "Bound", 0, 1));
        writes.binding("PATCH", available(binding(cluster, "Bound", 0, 1)));
    }
}

fn rolling(limits: Value) -> Value {
    json!({"policy": {"placementType": "PickN", "numberOfClusters": 3}, "strategy": {"rollingUpdate": limits}})
}

#[test]
fn an_update_leaves_enough_clusters_available() {
    let mut writes = Writes::of(rolling(json!({"maxUnavailable": 1})));
    three_available(&mut writes);
    writes.binding("PATCH", binding("a", "Bound", 1, 2));
    writes.check(expect![""]);
    writes.binding("PATCH", binding("b", "Bound", 1, 2));
    writes.check(expect!["maxUnavailable: web is updated on b with only 1 of 2 other clusters ready"]);
    writes.binding("PATCH", available(binding("a", "Bound", 1, 2)));
    writes.binding("PATCH", available(binding("b", "Bound", 1, 2)));
    writes.binding("PATCH", binding("c", "Unscheduled", 0, 2));
    writes.binding("DELETE", deleting(binding("c", "Unscheduled", 0, 2)));
    writes.check(expect![""]);
    writes.binding("PATCH", binding("a", "Unscheduled", 1, 3));
    writes.binding("PATCH", available(binding("a", "Unscheduled", 1, 3)));
    writes.binding("DELETE", deleting(binding("a", "Unscheduled", 1, 3)));
    writes.check(expect!["maxUnavailable: web is updated on a with only 1 of 2 other clusters ready"]);
}

#[test]
fn a_cluster_that_fails_by_itself_counts_as_ready_for_a_while_and_may_be_updated() {
    let mut writes = Writes::of(rolling(json!({"maxUnavailable": 1})));
    three_available(&mut writes);
    let failed = || with_condition(binding("b", "Bound", 0, 1), "Available", "False");
    writes.binding("PATCH", failed());
    writes.later(10);
    writes.binding("PATCH", binding("a", "Bound", 1, 2));
    writes.check(expect![""]);
    writes.binding("PATCH", available(binding("a", "Bound", 1, 2)));
    writes.later(100);
    writes.binding("PATCH", binding("c", "Bound", 1, 2));
    writes.check(expect!["maxUnavailable: web is updated on c with only 1 of 2 other clusters ready"]);
    writes.binding("PATCH", binding("b", "Bound", 1, 2));
    writes.check(expect![""]);
}

#[test]
fn a_step_in_progress_does_not_count_as_failed() {
    let mut writes = Writes::of(rolling(json!({"maxUnavailable": 1})));
    writes.binding("POST", binding("a", "Bound", 0, 1));
    let mut failing = with_condition(binding("a", "Bound", 0, 1), "Applied", "False");
    failing["status"]["conditions"][0]["message"] = "Work object web-work has failed to apply".into();
    writes.binding("PATCH", failing);
    writes.binding("PATCH", binding("a", "Bound", 1, 2));
    writes.check(expect![""]);
    let mut failing = with_condition(binding("a", "Bound", 1, 2), "Applied", "False");
    failing["status"]["conditions"][0]["message"] = "Resources are being applied".into();
    writes.binding("PATCH", failing);
    writes.binding("PATCH", binding("a", "Bound", 2, 3));
    writes.check(expect!["maxUnavailable: web is updated on a with only 0 of 2 other clusters ready"]);
}

#[test]
fn a_failure_that_only_a_work_of_the_same_content_reports_counts() {
    let updated = |snapshot: u32, available: &str, seconds_later: u64, recovers: bool| {
        let mut writes = Writes::of(rolling(json!({"maxUnavailable": 1})));
        writes.binding("POST", binding("a", "Bound", 0, 1));
        let mut reported = with_condition(work("a", snapshot), "Available", available);
        writes.on_hub("a", "PATCH", WORKS_OF_A, reported.clone());
        if recovers {
            reported = with_condition(reported, "Available", "True");
            writes.on_hub("a", "PATCH", WORKS_OF_A, reported);
        }
        writes.later(seconds_later);
        writes.binding("PATCH", binding("a", "Bound", 1, 2));
        writes.violations()
    };
    let violation = "maxUnavailable: web is updated on a with only 0 of 2 other clusters ready";
    assert_eq!(updated(0, "False", 100, false), "");
    assert_eq!(updated(0, "Unknown", 0, false), violation);
    // The Work has not received the content of the binding yet.
    assert_eq!(updated(7, "False", 0, false), violation);
    // The hub may not have received the recovery yet.
    assert_eq!(updated(0, "False", 10, true), "");
    assert_eq!(updated(0, "False", 100, true), violation);
}

#[test]
fn an_unscheduled_binding_counts_as_ready_until_the_hub_should_have_reconciled_it() {
    let writes_after = |seconds: u64| {
        let mut writes = Writes::of(rolling(json!({"maxUnavailable": 2})));
        three_available(&mut writes);
        writes.binding("PATCH", binding("c", "Unscheduled", 0, 2));
        writes.binding("DELETE", deleting(binding("c", "Unscheduled", 0, 2)));
        writes.binding("PATCH", available(binding("a", "Unscheduled", 0, 2)));
        writes.binding("PATCH", binding("b", "Unscheduled", 0, 2));
        writes.later(seconds);
        writes.binding("DELETE", deleting(available(binding("a", "Unscheduled", 0, 2))));
        writes
    };
    writes_after(1).check(expect![""]);
    writes_after(100).check(expect!["maxUnavailable: web is updated on a with only 0 of 1 other clusters ready"]);
}

#[test]
fn no_more_clusters_get_the_resources_than_max_surge_allows() {
    let mut writes = Writes::of(json!({
        "policy": {"placementType": "PickN", "numberOfClusters": 1}, "strategy": {"rollingUpdate": {"maxSurge": 1}},
    }));
    for cluster in ["a", "b", "c"] {
        writes.binding("POST", binding(cluster, "Scheduled", 0, 1));
    }
    let first = |cluster: &str| binding(cluster, "Bound", 1, 2);
    writes.binding("PATCH", first("a"));
    writes.binding("PATCH", first("b"));
    writes.check(expect![""]);
    let mut comparing = first("c");
    comparing["spec"]["applyStrategy"] = json!({"type": "ReportDiff"});
    writes.binding("PATCH", comparing);
    writes.check(expect![""]);
    writes.binding("PATCH", binding("c", "Scheduled", 0, 3));
    writes.binding("PATCH", first("c"));
    writes.check(expect!["maxSurge: 3 clusters have web and 2 may"]);
}

#[test]
fn old_limits_are_accepted_for_a_while() {
    let mut writes = Writes::of(rolling(json!({"maxUnavailable": 3})));
    three_available(&mut writes);
    let strict = json!({"metadata": {"name": "web"}, "spec": rolling(json!({"maxUnavailable": 1}))});
    writes.on_hub(USER, "PATCH", "clusterresourceplacements", strict);
    writes.binding("PATCH", binding("a", "Bound", 1, 2));
    writes.binding("PATCH", binding("b", "Bound", 1, 2));
    writes.check(expect![""]);
    writes.later(100);
    writes.binding("PATCH", binding("c", "Bound", 1, 2));
    writes.check(expect!["maxUnavailable: web is updated on c with only 0 of 2 other clusters ready"]);
}

#[test]
fn a_changed_unavailable_period_counts_for_clusters_that_are_waiting() {
    for (period, violation) in
        [(120, "maxUnavailable: web is updated on a with only 0 of 2 other clusters ready"), (1, "")]
    {
        let mut writes = Writes::of(rolling(json!({"maxUnavailable": 1, "unavailablePeriodSeconds": 120})));
        for cluster in ["a", "b", "c"] {
            writes.binding("POST", binding(cluster, "Bound", 0, 1));
            let mut untracked = available(binding(cluster, "Bound", 0, 1));
            untracked["status"]["conditions"][0]["reason"] = "NotAllWorkAreAvailabilityTrackable".into();
            untracked["status"]["conditions"][0]["lastTransitionTime"] = "1970-01-01T00:16:40Z".into();
            writes.binding("PATCH", untracked);
        }
        let limits = rolling(json!({"maxUnavailable": 1, "unavailablePeriodSeconds": period}));
        let changed = json!({"metadata": {"name": "web"}, "spec": limits});
        writes.on_hub(USER, "PATCH", "clusterresourceplacements", changed);
        writes.later(5);
        writes.binding("PATCH", binding("a", "Bound", 1, 2));
        assert_eq!(writes.violations(), violation, "{period} s");
    }
}

#[test]
fn a_bound_binding_is_deleted_only_by_an_eviction_that_the_budget_allows() {
    let mut writes = Writes::of(rolling(json!({})));
    three_available(&mut writes);
    let deleted = |cluster: &str| deleting(available(binding(cluster, "Bound", 0, 1)));
    writes.binding("DELETE", deleted("a"));
    writes.check(expect!["web is removed from a without an eviction"]);
    let evictions = "clusterresourceplacementevictions";
    for cluster in ["b", "c"] {
        let spec = json!({"placementName": "web", "clusterName": cluster});
        writes.on_hub(HUB, "POST", evictions, eviction_of(cluster, spec));
    }
    writes.binding("DELETE", deleted("b"));
    writes.check(expect![""]);
    let budget = json!({"metadata": {"name": "web"}, "spec": {"minAvailable": 1}});
    writes.on_hub(USER, "POST", "clusterresourceplacementdisruptionbudgets", budget);
    writes.binding("DELETE", deleted("c"));
    writes.check(expect![[r#"web is removed from c with 0 other clusters available: {"minAvailable":1}"#]]);
}

#[test]
fn audit_20_an_eviction_does_not_count_clusters_that_failed_before_its_decision() {
    for (ago, expected) in [
        (20, expect![""]),
        (40, expect![[r#"web is removed from c with 0 other clusters available: {"minAvailable":1}"#]]),
    ] {
        let mut writes = Writes::of(rolling(json!({})));
        writes.binding("POST", binding("a", "Bound", 0, 1));
        writes.binding("POST", binding("c", "Bound", 0, 1));
        writes.binding("PATCH", available(binding("a", "Bound", 0, 1)));
        writes.binding("PATCH", available(binding("c", "Bound", 0, 1)));
        let budget = json!({"metadata": {"name": "web"}, "spec": {"minAvailable": 1}});
        writes.on_hub(USER, "POST", "clusterresourceplacementdisruptionbudgets", budget);
        let spec = json!({"placementName": "web", "clusterName": "c"});
        writes.on_hub(HUB, "POST", "clusterresourceplacementevictions", eviction_of("c", spec));
        writes.binding("PATCH", with_condition(binding("a", "Bound", 0, 1), "Available", "False"));
        writes.later(ago);
        writes.binding("DELETE", deleting(available(binding("c", "Bound", 0, 1))));
        writes.check(expected);
    }
}

#[test]
fn no_binding_is_duplicated_or_orphaned_and_no_snapshot_is_lost() {
    let mut writes = Writes::of(json!({"revisionHistoryLimit": 2}));
    writes.binding("POST", binding("a", "Scheduled", 0, 1));
    let mut second = binding("a", "Scheduled", 0, 1);
    second["metadata"]["name"] = "web-a-again".into();
    writes.binding("POST", second);
    writes.check(expect!["web has a second binding for a beside web-a"]);
    let mut orphan = binding("b", "Scheduled", 0, 1);
    orphan["metadata"]["labels"][labels::PARENT_PLACEMENT] = "other".into();
    writes.binding("POST", orphan);
    writes.check(expect!["a binding is created for other, which does not exist"]);
    let snapshot = |number: u32| json!({"metadata": {"name": format!("web-{number}-snapshot"), "labels": {labels::PARENT_PLACEMENT: "web"}}});
    for number in 0..3 {
        writes.on_hub(HUB, "POST", "clusterresourcesnapshots", snapshot(number));
    }
    writes.on_hub(HUB, "DELETE", "clusterresourcesnapshots", snapshot(0));
    writes.check(expect![""]);
    writes.on_hub(HUB, "DELETE", "clusterresourcesnapshots", snapshot(1));
    writes.check(expect!["web has only 1 of 2 snapshots left"]);
}

/// A run over stages `first` (a, b) and `second` (c), with the progress of each cluster.
fn run(state: &str, clusters: [&str; 3], stages: Value, rest: Value) -> Value {
    let cluster = |name: &str, progress: &str| {
        let conditions: &[&str] = match progress {
            "pending" => &[],
            "started" => &["Started"],
            _ => &["Started", "Succeeded"],
        };
        let conditions: Vec<Value> = conditions.iter().map(|type_| json!({"type": type_, "status": "True"})).collect();
        json!({"clusterName": name, "conditions": conditions})
    };
    let [a, b, c] = clusters;
    let mut run = json!({
        "metadata": {"name": "run", "generation": 1},
        "spec": {"placementName": "web", "state": state},
        "status": {
            "resourceSnapshotIndexUsed": "1", "stagedUpdateStrategySnapshot": {"stages": stages},
            "stagesStatus": [
                {"stageName": "first", "clusters": [cluster("a", a), cluster("b", b)]},
                {"stageName": "second", "clusters": [cluster("c", c)]},
            ],
        },
    });
    for (pointer, value) in rest.as_object().into_iter().flatten() {
        let (front, last) = pointer.rsplit_once('/').unwrap_or_default();
        run.pointer_mut(front).unwrap()[last] = value.clone();
    }
    run
}

fn done() -> Value {
    json!([{"type": "Succeeded", "status": "True"}])
}

fn staged() -> Writes {
    Writes::of(json!({"strategy": {"type": "External"}}))
}

#[test]
fn runs_respect_the_order_of_stages_and_concurrency() {
    let stages = || json!([{"maxConcurrency": 1}, {}]);
    let mut writes = staged();
    let mut write = |clusters: [&str; 3], rest: Value, expected: Expect| {
        writes.on_hub(HUB, "PATCH", "clusterstagedupdateruns", run("Run", clusters, stages(), rest));
        writes.check(expected);
    };
    write(["started", "pending", "pending"], json!({}), expect![""]);
    write(
        ["started", "started", "pending"],
        json!({}),
        expect!["run, stage first updates 2 clusters at once and may 1"],
    );
    write(["done", "started", "pending"], json!({}), expect![""]);
    write(
        ["done", "done", "started"],
        json!({}),
        expect!["run, stage second starts before the previous stage has ended"],
    );
    write(["done", "done", "started"], json!({"/status/stagesStatus/0/conditions": done()}), expect![""]);
}

#[test]
fn an_ended_run_does_not_change_and_a_stopped_run_starts_nothing() {
    let mut writes = staged();
    let write = |writes: &mut Writes, state: &str, clusters: [&str; 3], rest: Value| {
        writes.on_hub(
            HUB,
            "PATCH",
            "clusterstagedupdateruns",
            run(state, clusters, json!([{"maxConcurrency": 2}, {}]), rest),
        );
    };
    let progress = |reason: &str| json!({"/status/conditions": [{"type": "Progressing", "reason": reason}]});
    write(&mut writes, "Stop", ["started", "pending", "pending"], progress("UpdateRunStopping"));
    write(&mut writes, "Stop", ["started", "started", "pending"], progress("UpdateRunStopping"));
    writes.check(expect![""]);
    write(&mut writes, "Stop", ["started", "pending", "pending"], progress("UpdateRunStopped"));
    write(&mut writes, "Stop", ["started", "started", "pending"], progress("UpdateRunStopped"));
    writes.check(expect!["run, stage first starts a cluster of a run that is stopped"]);
    write(&mut writes, "Run", ["started", "pending", "pending"], progress("UpdateRunProgressing"));
    write(&mut writes, "Stop", ["started", "pending", "pending"], progress("UpdateRunStopping"));
    writes.later(100);
    write(&mut writes, "Stop", ["started", "started", "pending"], progress("UpdateRunStopping"));
    writes.check(expect!["run, stage first starts a cluster of a run that is stopped"]);
    let ended = || json!({"/status/conditions": [{"type": "Succeeded", "status": "False"}]});
    write(&mut writes, "Run", ["done", "started", "pending"], ended());
    write(&mut writes, "Run", ["done", "started", "pending"], ended());
    writes.check(expect![""]);
    write(&mut writes, "Run", ["done", "done", "pending"], ended());
    writes.check(expect!["run changes after its end"]);
}

#[test]
fn audit_20_an_approval_that_a_restore_took_back_opens_no_gate() {
    let stages = || json!([{"maxConcurrency": 2, "beforeStageTasks": [{"type": "Approval"}]}, {}]);
    let approved = json!([{"approvalRequestName": "run-before-first",
        "conditions": [{"type": "ApprovalRequestApproved", "status": "True"}]}]);
    let passed = json!({"/status/stagesStatus/0/beforeStageTaskStatus": approved});
    let request = |status: &str| {
        with_condition(json!({"metadata": {"name": "run-before-first", "generation": 1}}), "Approved", status)
    };
    let runs = "clusterstagedupdateruns";
    for (of_backup, expected) in [
        ("True", expect![""]),
        ("False", expect!["run, stage first reports that run-before-first is approved, but no user approved it"]),
    ] {
        let mut writes = staged();
        writes.on_hub(HUB, "PATCH", runs, run("Run", ["pending"; 3], stages(), json!({})));
        writes.on_hub(USER, "PATCH", "clusterapprovalrequests", request("True"));
        let run_then = run("Run", ["pending"; 3], stages(), json!({}));
        writes.restore(&[("ClusterApprovalRequest", request(of_backup)), ("ClusterStagedUpdateRun", run_then)]);
        writes.violations();
        writes.on_hub(HUB, "PATCH", runs, run("Run", ["pending"; 3], stages(), passed.clone()));
        writes.check(expected);
    }
}

#[test]
fn gates_are_passed_only_after_approval_or_wait() {
    let stages = || {
        json!([
            {"maxConcurrency": 2, "beforeStageTasks": [{"type": "Approval"}],
             "afterStageTasks": [{"type": "TimedWait", "waitTime": "1m"}]},
            {},
        ])
    };
    let mut writes = staged();
    let runs = "clusterstagedupdateruns";
    writes.on_hub(HUB, "PATCH", runs, run("Run", ["started", "pending", "pending"], stages(), json!({})));
    writes.check(expect!["run, stage first continues without Approval"]);
    let approved = json!([{"approvalRequestName": "run-before-first",
        "conditions": [{"type": "ApprovalRequestApproved", "status": "True"}]}]);
    let waited = |since: u64| {
        let since = Timestamp::UNIX_EPOCH + SignedDuration::from_secs(i64::try_from(since).unwrap());
        json!({
            "/status/stagesStatus/0/beforeStageTaskStatus": approved.clone(),
            "/status/stagesStatus/0/afterStageTaskStatus": [{"conditions": [{"type": "WaitTimeElapsed", "status": "True"}]}],
            "/status/stagesStatus/0/conditions": [{"type": "Progressing", "lastTransitionTime": since.to_string()}],
        })
    };
    let passed = json!({"/status/stagesStatus/0/beforeStageTaskStatus": approved.clone()});
    writes.on_hub(HUB, "PATCH", runs, run("Run", ["pending"; 3], stages(), passed.clone()));
    writes.check(expect!["run, stage first reports that run-before-first is approved, but no user approved it"]);
    writes.on_hub(HUB, "PATCH", runs, run("Run", ["pending"; 3], stages(), json!({})));
    let request = json!({"metadata": {"name": "run-before-first", "generation": 1}});
    writes.on_hub(USER, "PATCH", "clusterapprovalrequests", with_condition(request, "Approved", "True"));
    writes.on_hub(HUB, "PATCH", runs, run("Run", ["done", "done", "pending"], stages(), passed.clone()));
    writes.check(expect![""]);
    writes.on_hub(HUB, "PATCH", runs, run("Run", ["done", "done", "pending"], stages(), waited(990)));
    writes.check(expect!["run, stage first has not waited for 1m"]);
    writes.on_hub(HUB, "PATCH", runs, run("Run", ["done", "done", "pending"], stages(), passed));
    writes.on_hub(HUB, "PATCH", runs, run("Run", ["done", "done", "pending"], stages(), waited(930)));
    writes.check(expect![""]);
}

#[test]
fn bindings_are_moved_by_a_run_in_the_order_of_its_stages() {
    let stages = || json!([{"maxConcurrency": 1}, {"beforeStageTasks": [{"type": "Approval"}]}]);
    let mut writes = staged();
    let write_run = |writes: &mut Writes, state: &str| {
        writes.on_hub(HUB, "PATCH", "clusterstagedupdateruns", run(state, ["pending"; 3], stages(), json!({})));
    };
    for cluster in ["a", "b", "c"] {
        writes.binding("POST", binding(cluster, "Scheduled", 0, 1));
    }
    writes.binding("PATCH", binding("a", "Bound", 1, 2));
    writes.check(expect!["web is moved to web-1-snapshot on a by no run"]);
    write_run(&mut writes, "Run");
    writes.binding("PATCH", binding("b", "Bound", 1, 2));
    writes.check(expect!["run moves 2 clusters at once and may 1"]);
    writes.binding("PATCH", available(binding("a", "Bound", 1, 2)));
    writes.binding("PATCH", binding("c", "Bound", 1, 2));
    writes.check(expect!["run moves c while b of an earlier stage is not done"]);
    writes.binding("PATCH", available(binding("b", "Bound", 1, 2)));
    writes.binding("PATCH", binding("c", "Scheduled", 0, 3));
    writes.binding("PATCH", binding("c", "Bound", 1, 4));
    writes.check(expect!["run moves c before run-before-second is approved"]);
    let request = json!({"metadata": {"name": "run-before-second", "generation": 1}});
    writes.on_hub(USER, "PATCH", "clusterapprovalrequests", with_condition(request, "Approved", "True"));
    writes.binding("PATCH", binding("c", "Unscheduled", 1, 5));
    writes.binding("DELETE", deleting(binding("c", "Unscheduled", 1, 5)));
    let mut again = binding("c", "Scheduled", 0, 1);
    again["metadata"]["name"] = "web-c-2".into();
    writes.binding("POST", again.clone());
    again["spec"]["resourceSnapshotName"] = "web-1-snapshot".into();
    writes.binding("PATCH", again);
    writes.check(expect![""]);
}
