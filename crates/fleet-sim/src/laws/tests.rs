//! Every law can be broken, and is not broken by what is allowed.

use expect_test::{Expect, expect};
use fleet_api::well_known::labels;
use serde_json::{Value, json};

use super::*;
use crate::network::HUB_SERVER;
use crate::world::{HUB, USER};

const API: &str = "/apis/placement.kubernetes-fleet.io/v1beta1";
const MEMBERS: &str = "/apis/cluster.kubernetes-fleet.io/v1beta1/memberclusters";
const BINDINGS: &str = "clusterresourcebindings";

/// Agents are no further behind than this.
const LAG: Lag = Lag { skew: SignedDuration::from_secs(1), stale: Duration::from_secs(90) };

/// Writes that laws look at, one after the other.
struct Told {
    laws: Laws,
    revision: u64,
    at: Duration,
}

impl Told {
    /// Three members of a placement called `web`.
    fn of(spec: Value) -> Self {
        let mut told =
            Self { laws: Laws::from(Timestamp::UNIX_EPOCH, LAG), revision: 0, at: Duration::from_secs(1000) };
        for member in ["a", "b", "c"] {
            told.write(USER, HUB_SERVER, "POST", MEMBERS, json!({"metadata": {"name": member}}));
        }
        let placement = json!({"metadata": {"name": "web", "generation": 1}, "spec": spec});
        told.on_hub(USER, "POST", "clusterresourceplacements", placement);
        told
    }

    fn write(&mut self, actor: &str, server: &str, verb: &str, path: &str, mut object: Value) {
        self.revision += 1;
        object["metadata"]["resourceVersion"] = self.revision.to_string().into();
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        let path = if verb == "POST" { path.to_owned() } else { format!("{path}/{name}") };
        let answer = object.to_string();
        let (path, answer) = (path.as_str(), answer.as_bytes());
        self.laws.observe(&Carried { at: self.at, actor, server, verb, path, answer });
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

    fn later(&mut self, seconds: u64) {
        self.at += Duration::from_secs(seconds);
    }

    /// What was broken since this was last asked.
    fn check(&mut self, expected: Expect) {
        let broken = std::mem::take(&mut self.laws.broken);
        let words: Vec<&str> = broken
            .iter()
            .map(|one| one.split_once(": ").map_or("", |(_, rest)| rest.rsplit_once(" (").map_or(rest, |(law, _)| law)))
            .collect();
        expected.assert_eq(&words.join("\n"));
    }
}

/// One that is only scheduled has nothing yet.
fn binding(cluster: &str, state: &str, snapshot: u32, generation: i64) -> Value {
    let snapshot = if state == "Scheduled" { String::new() } else { format!("web-{snapshot}-snapshot") };
    json!({
        "metadata": {
            "name": format!("web-{cluster}"), "generation": generation, "finalizers": ["x"],
            "labels": {labels::PARENT_PLACEMENT: "web"},
        },
        "spec": {"targetCluster": cluster, "state": state, "resourceSnapshotName": snapshot},
    })
}

fn saying(mut object: Value, type_: &str, status: &str) -> Value {
    let generation = object["metadata"]["generation"].clone();
    object["status"] = json!({"conditions": [{"type": type_, "status": status, "observedGeneration": generation}]});
    object
}

fn available(binding: Value) -> Value {
    saying(binding, "Available", "True")
}

fn going(mut object: Value) -> Value {
    object["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    object
}

fn three_available(told: &mut Told) {
    for cluster in ["a", "b", "c"] {
        told.binding("POST", binding(cluster, "Bound", 0, 1));
        told.binding("PATCH", available(binding(cluster, "Bound", 0, 1)));
    }
}

fn rolling(limits: Value) -> Value {
    json!({"policy": {"placementType": "PickN", "numberOfClusters": 3}, "strategy": {"rollingUpdate": limits}})
}

#[test]
fn no_more_clusters_are_disturbed_than_may_be_unavailable() {
    let mut told = Told::of(rolling(json!({"maxUnavailable": 1})));
    three_available(&mut told);
    told.binding("PATCH", binding("a", "Bound", 1, 2));
    told.check(expect![""]);
    told.binding("PATCH", binding("b", "Bound", 1, 2));
    told.check(expect!["maxUnavailable: web is disturbed on b and only 1 others of 2 are ready"]);
    told.binding("PATCH", available(binding("a", "Bound", 1, 2)));
    told.binding("PATCH", available(binding("b", "Bound", 1, 2)));
    told.binding("PATCH", binding("c", "Unscheduled", 0, 2));
    told.binding("DELETE", going(binding("c", "Unscheduled", 0, 2)));
    told.check(expect![""]);
    told.binding("PATCH", binding("a", "Unscheduled", 1, 3));
    told.binding("PATCH", available(binding("a", "Unscheduled", 1, 3)));
    told.binding("DELETE", going(binding("a", "Unscheduled", 1, 3)));
    told.check(expect!["maxUnavailable: web is disturbed on a and only 1 others of 2 are ready"]);
}

#[test]
fn whoever_fails_on_its_own_counts_for_a_while_and_whoever_has_failed_may_be_moved() {
    let mut told = Told::of(rolling(json!({"maxUnavailable": 1})));
    three_available(&mut told);
    let failed = || saying(binding("b", "Bound", 0, 1), "Available", "False");
    told.binding("PATCH", failed());
    told.later(10);
    told.binding("PATCH", binding("a", "Bound", 1, 2));
    told.check(expect![""]);
    told.binding("PATCH", available(binding("a", "Bound", 1, 2)));
    told.later(100);
    told.binding("PATCH", binding("c", "Bound", 1, 2));
    told.check(expect!["maxUnavailable: web is disturbed on c and only 1 others of 2 are ready"]);
    told.binding("PATCH", binding("b", "Bound", 1, 2));
    told.check(expect![""]);
}

#[test]
fn whoever_is_not_done_with_a_step_is_not_known_to_have_failed() {
    let mut told = Told::of(rolling(json!({"maxUnavailable": 1})));
    told.binding("POST", binding("a", "Bound", 0, 1));
    let mut said = saying(binding("a", "Bound", 0, 1), "Applied", "False");
    said["status"]["conditions"][0]["message"] = "Work object web-work has failed to apply".into();
    told.binding("PATCH", said);
    told.binding("PATCH", binding("a", "Bound", 1, 2));
    told.check(expect![""]);
    let mut said = saying(binding("a", "Bound", 1, 2), "Applied", "False");
    said["status"]["conditions"][0]["message"] = "Resources are being applied".into();
    told.binding("PATCH", said);
    told.binding("PATCH", binding("a", "Bound", 2, 3));
    told.check(expect!["maxUnavailable: web is disturbed on a and only 0 others of 2 are ready"]);
}

#[test]
fn whoever_is_given_up_counts_until_the_hub_should_have_looked_at_it() {
    let told_after = |seconds: u64| {
        let mut told = Told::of(rolling(json!({"maxUnavailable": 2})));
        three_available(&mut told);
        told.binding("PATCH", binding("c", "Unscheduled", 0, 2));
        told.binding("DELETE", going(binding("c", "Unscheduled", 0, 2)));
        told.binding("PATCH", available(binding("a", "Unscheduled", 0, 2)));
        told.binding("PATCH", binding("b", "Unscheduled", 0, 2));
        told.later(seconds);
        told.binding("DELETE", going(available(binding("a", "Unscheduled", 0, 2))));
        told
    };
    told_after(1).check(expect![""]);
    told_after(100).check(expect!["maxUnavailable: web is disturbed on a and only 0 others of 1 are ready"]);
}

#[test]
fn no_more_clusters_get_the_resources_than_may_have_them() {
    let mut told = Told::of(json!({
        "policy": {"placementType": "PickN", "numberOfClusters": 1}, "strategy": {"rollingUpdate": {"maxSurge": 1}},
    }));
    for cluster in ["a", "b", "c"] {
        told.binding("POST", binding(cluster, "Scheduled", 0, 1));
    }
    let first = |cluster: &str| binding(cluster, "Bound", 1, 2);
    told.binding("PATCH", first("a"));
    told.binding("PATCH", first("b"));
    told.check(expect![""]);
    let mut comparing = first("c");
    comparing["spec"]["applyStrategy"] = json!({"type": "ReportDiff"});
    told.binding("PATCH", comparing);
    told.check(expect![""]);
    told.binding("PATCH", binding("c", "Scheduled", 0, 3));
    told.binding("PATCH", first("c"));
    told.check(expect!["maxSurge: 3 clusters have web and 2 may"]);
}

#[test]
fn limits_that_were_changed_count_as_they_were_for_a_while() {
    let mut told = Told::of(rolling(json!({"maxUnavailable": 3})));
    three_available(&mut told);
    let strict = json!({"metadata": {"name": "web"}, "spec": rolling(json!({"maxUnavailable": 1}))});
    told.on_hub(USER, "PATCH", "clusterresourceplacements", strict);
    told.binding("PATCH", binding("a", "Bound", 1, 2));
    told.binding("PATCH", binding("b", "Bound", 1, 2));
    told.check(expect![""]);
    told.later(100);
    told.binding("PATCH", binding("c", "Bound", 1, 2));
    told.check(expect!["maxUnavailable: web is disturbed on c and only 0 others of 2 are ready"]);
}

#[test]
fn whoever_is_wanted_goes_only_by_an_eviction_that_the_budget_allows() {
    let mut told = Told::of(rolling(json!({})));
    three_available(&mut told);
    let gone = |cluster: &str| going(available(binding(cluster, "Bound", 0, 1)));
    told.binding("DELETE", gone("a"));
    told.check(expect!["web is taken off a, which nobody asked for"]);
    let evictions = "clusterresourceplacementevictions";
    for cluster in ["b", "c"] {
        let spec = json!({"placementName": "web", "clusterName": cluster});
        let eviction = json!({"metadata": {"name": cluster, "generation": 1}, "spec": spec});
        told.on_hub(HUB, "POST", evictions, saying(eviction, "Valid", "True"));
    }
    told.binding("DELETE", gone("b"));
    told.check(expect![""]);
    let budget = json!({"metadata": {"name": "web"}, "spec": {"minAvailable": 1}});
    told.on_hub(USER, "POST", "clusterresourceplacementdisruptionbudgets", budget);
    told.binding("DELETE", gone("c"));
    told.check(expect![[r#"web is taken off c with 0 others available: {"minAvailable":1}"#]]);
}

#[test]
fn no_binding_is_doubled_or_orphaned_and_no_snapshot_lost() {
    let mut told = Told::of(json!({"revisionHistoryLimit": 2}));
    told.binding("POST", binding("a", "Scheduled", 0, 1));
    let mut second = binding("a", "Scheduled", 0, 1);
    second["metadata"]["name"] = "web-a-again".into();
    told.binding("POST", second);
    told.check(expect!["web has a second binding for a beside web-a"]);
    let mut orphan = binding("b", "Scheduled", 0, 1);
    orphan["metadata"]["labels"][labels::PARENT_PLACEMENT] = "other".into();
    told.binding("POST", orphan);
    told.check(expect!["a binding is made for other, which is not there"]);
    let snapshot = |number: u32| json!({"metadata": {"name": format!("web-{number}-snapshot"), "labels": {labels::PARENT_PLACEMENT: "web"}}});
    for number in 0..3 {
        told.on_hub(HUB, "POST", "clusterresourcesnapshots", snapshot(number));
    }
    told.on_hub(HUB, "DELETE", "clusterresourcesnapshots", snapshot(0));
    told.check(expect![""]);
    told.on_hub(HUB, "DELETE", "clusterresourcesnapshots", snapshot(1));
    told.check(expect!["web has only 1 of 2 snapshots left"]);
}

fn map(value: &str, owned: bool) -> Value {
    let owners = if owned { json!([{"kind": "AppliedWork", "name": "w"}]) } else { json!([]) };
    json!({"kind": "ConfigMap", "metadata": {"name": "m", "namespace": "shop", "ownerReferences": owners}, "data": {"k": value}})
}

/// A member with a Work that names a map, applied in this way.
fn with_work(strategy: Value) -> Told {
    let mut told = Told::of(json!({}));
    told.write(HUB, HUB_SERVER, "POST", &format!("{API}/namespaces/fleet-member-a/works"), work(strategy));
    told
}

fn work(strategy: Value) -> Value {
    json!({
        "metadata": {"name": "w", "namespace": "fleet-member-a", "finalizers": ["x"]},
        "spec": {"applyStrategy": strategy, "workload": {"manifests": [map("1", false)]}},
    })
}

#[test]
fn nothing_is_deleted_that_the_hub_did_not_ask_to_delete() {
    let mut told = with_work(json!({}));
    told.later(100);
    told.on_member("a", "POST", map("1", true));
    told.on_member("a", "DELETE", map("1", true));
    told.check(expect!["configmaps shop/m is deleted on a, which the hub wants"]);
    told.on_member(USER, "POST", map("1", true));
    told.on_member(USER, "DELETE", map("1", true));
    told.check(expect![""]);
    let mut other = map("1", false);
    other["metadata"]["name"] = "other".into();
    told.on_member("a", "DELETE", other);
    told.check(expect!["configmaps shop/other is deleted on a and was never placed there"]);
    let ledger = json!({"metadata": {"name": "w", "finalizers": ["x"]}});
    told.write("a", "a", "POST", &format!("{API}/appliedworks"), ledger.clone());
    told.write("a", "a", "DELETE", &format!("{API}/appliedworks"), going(ledger.clone()));
    told.check(expect!["the ledger of w is deleted on a, which the hub wants"]);
    told.write(HUB, HUB_SERVER, "DELETE", &format!("{API}/namespaces/fleet-member-a/works"), going(work(json!({}))));
    told.write("a", "a", "DELETE", &format!("{API}/appliedworks"), going(ledger));
    told.on_member("a", "DELETE", map("1", true));
    told.check(expect![""]);
}

#[test]
fn nothing_is_given_another_spec_without_need() {
    let mut told = with_work(json!({}));
    let in_generation = |generation: u32| {
        let mut map = map("1", true);
        map["metadata"]["generation"] = generation.into();
        map
    };
    let quiet = 2 * LAG.stale.as_secs() + 10;
    told.on_member("a", "POST", in_generation(1));
    told.on_member("a", "PATCH", in_generation(2));
    told.later(quiet);
    told.on_member(USER, "PATCH", in_generation(3));
    told.on_member("a", "PATCH", in_generation(4));
    told.later(quiet);
    let mut other = work(json!({}));
    other["spec"]["workload"]["manifests"][0]["data"]["k"] = "2".into();
    told.write(HUB, HUB_SERVER, "PATCH", &format!("{API}/namespaces/fleet-member-a/works"), other);
    told.on_member("a", "PATCH", in_generation(5));
    told.on_member("a", "PATCH", in_generation(5));
    told.check(expect![""]);
    told.later(quiet);
    // One of the same name that is made anew is another.
    told.on_member("a", "POST", in_generation(1));
    told.on_member("a", "PATCH", in_generation(2));
    told.check(expect![""]);
    told.later(quiet);
    told.on_member("a", "PATCH", in_generation(3));
    told.check(expect!["configmaps shop/m is given another spec on a, and nothing has changed"]);
}

#[test]
fn nothing_is_taken_over_or_applied_against_the_strategy() {
    for (strategy, there, expected) in [
        (json!({"whenToTakeOver": "Always"}), "other", expect![""]),
        (json!({"whenToTakeOver": "IfNoDiff"}), "1", expect![""]),
        (
            json!({"whenToTakeOver": "IfNoDiff"}),
            "other",
            expect!["configmaps shop/m is changed on a and may not be taken over"],
        ),
        (
            json!({"whenToTakeOver": "Never"}),
            "1",
            expect!["configmaps shop/m is changed on a and may not be taken over"],
        ),
    ] {
        let mut told = with_work(strategy);
        told.on_member(USER, "POST", map(there, false));
        told.on_member("a", "PATCH", map("1", true));
        told.check(expected);
    }
    let mut told = with_work(json!({"whenToTakeOver": "Never"}));
    told.on_member(USER, "POST", map("other", false));
    told.on_member("a", "POST", map("1", true));
    told.check(expect![""]);
    let mut told = with_work(json!({"type": "ReportDiff"}));
    told.on_member("a", "POST", map("1", true));
    told.check(expect!["configmaps shop/m is changed on a where differences are only to be reported"]);
    told.write(HUB, HUB_SERVER, "PATCH", &format!("{API}/namespaces/fleet-member-a/works"), work(json!({})));
    told.on_member("a", "PATCH", map("2", true));
    told.check(expect![""]);
}

/// A run over stages `first` (a, b) and `second` (c); per cluster what it has come to.
fn run(state: &str, clusters: [&str; 3], stages: Value, rest: Value) -> Value {
    let cluster = |name: &str, come_to: &str| {
        let conditions: &[&str] = match come_to {
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

fn staged() -> Told {
    Told::of(json!({"strategy": {"type": "External"}}))
}

#[test]
fn stages_come_in_order_and_clusters_not_all_at_once() {
    let stages = || json!([{"maxConcurrency": 1}, {}]);
    let mut told = staged();
    let mut write = |clusters: [&str; 3], rest: Value, expected: Expect| {
        told.on_hub(HUB, "PATCH", "clusterstagedupdateruns", run("Run", clusters, stages(), rest));
        told.check(expected);
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
        expect!["run, stage second starts before the one before it has ended"],
    );
    write(["done", "done", "started"], json!({"/status/stagesStatus/0/conditions": done()}), expect![""]);
}

#[test]
fn what_has_ended_stays_as_it_is_and_what_is_stopped_starts_nothing() {
    let mut told = staged();
    let write = |told: &mut Told, state: &str, clusters: [&str; 3], rest: Value| {
        told.on_hub(
            HUB,
            "PATCH",
            "clusterstagedupdateruns",
            run(state, clusters, json!([{"maxConcurrency": 2}, {}]), rest),
        );
    };
    let progress = |reason: &str| json!({"/status/conditions": [{"type": "Progressing", "reason": reason}]});
    write(&mut told, "Stop", ["started", "pending", "pending"], progress("UpdateRunStopping"));
    write(&mut told, "Stop", ["started", "started", "pending"], progress("UpdateRunStopping"));
    told.check(expect![""]);
    write(&mut told, "Stop", ["started", "pending", "pending"], progress("UpdateRunStopped"));
    write(&mut told, "Stop", ["started", "started", "pending"], progress("UpdateRunStopped"));
    told.check(expect!["run, stage first starts a cluster of a run that is stopped"]);
    write(&mut told, "Run", ["started", "pending", "pending"], progress("UpdateRunProgressing"));
    write(&mut told, "Stop", ["started", "pending", "pending"], progress("UpdateRunStopping"));
    told.later(100);
    write(&mut told, "Stop", ["started", "started", "pending"], progress("UpdateRunStopping"));
    told.check(expect!["run, stage first starts a cluster of a run that is stopped"]);
    let ended = || json!({"/status/conditions": [{"type": "Succeeded", "status": "False"}]});
    write(&mut told, "Run", ["done", "started", "pending"], ended());
    write(&mut told, "Run", ["done", "started", "pending"], ended());
    told.check(expect![""]);
    write(&mut told, "Run", ["done", "done", "pending"], ended());
    told.check(expect!["run changes after its end"]);
}

#[test]
fn gates_are_passed_only_by_approval_and_by_waiting() {
    let stages = || {
        json!([
            {"maxConcurrency": 2, "beforeStageTasks": [{"type": "Approval"}],
             "afterStageTasks": [{"type": "TimedWait", "waitTime": "1m"}]},
            {},
        ])
    };
    let mut told = staged();
    let runs = "clusterstagedupdateruns";
    told.on_hub(HUB, "PATCH", runs, run("Run", ["started", "pending", "pending"], stages(), json!({})));
    told.check(expect!["run, stage first goes on without Approval"]);
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
    told.on_hub(HUB, "PATCH", runs, run("Run", ["pending"; 3], stages(), passed.clone()));
    told.check(expect!["run, stage first says that run-before-first is approved, which nobody did"]);
    told.on_hub(HUB, "PATCH", runs, run("Run", ["pending"; 3], stages(), json!({})));
    let request = json!({"metadata": {"name": "run-before-first", "generation": 1}});
    told.on_hub(USER, "PATCH", "clusterapprovalrequests", saying(request, "Approved", "True"));
    told.on_hub(HUB, "PATCH", runs, run("Run", ["done", "done", "pending"], stages(), passed.clone()));
    told.check(expect![""]);
    told.on_hub(HUB, "PATCH", runs, run("Run", ["done", "done", "pending"], stages(), waited(990)));
    told.check(expect!["run, stage first has not waited for 1m"]);
    told.on_hub(HUB, "PATCH", runs, run("Run", ["done", "done", "pending"], stages(), passed));
    told.on_hub(HUB, "PATCH", runs, run("Run", ["done", "done", "pending"], stages(), waited(930)));
    told.check(expect![""]);
}

#[test]
fn bindings_move_by_a_run_in_the_order_of_its_stages() {
    let stages = || json!([{"maxConcurrency": 1}, {"beforeStageTasks": [{"type": "Approval"}]}]);
    let mut told = staged();
    let told_run = |told: &mut Told, state: &str| {
        told.on_hub(HUB, "PATCH", "clusterstagedupdateruns", run(state, ["pending"; 3], stages(), json!({})));
    };
    for cluster in ["a", "b", "c"] {
        told.binding("POST", binding(cluster, "Scheduled", 0, 1));
    }
    told.binding("PATCH", binding("a", "Bound", 1, 2));
    told.check(expect!["web is moved to web-1-snapshot on a by no run"]);
    told_run(&mut told, "Run");
    told.binding("PATCH", binding("b", "Bound", 1, 2));
    told.check(expect!["run moves 2 clusters at once and may 1"]);
    told.binding("PATCH", available(binding("a", "Bound", 1, 2)));
    told.binding("PATCH", binding("c", "Bound", 1, 2));
    told.check(expect!["run moves c while b of an earlier stage is not done"]);
    told.binding("PATCH", available(binding("b", "Bound", 1, 2)));
    told.binding("PATCH", binding("c", "Scheduled", 0, 3));
    told.binding("PATCH", binding("c", "Bound", 1, 4));
    told.check(expect!["run moves c before run-before-second is approved"]);
    let request = json!({"metadata": {"name": "run-before-second", "generation": 1}});
    told.on_hub(USER, "PATCH", "clusterapprovalrequests", saying(request, "Approved", "True"));
    told.binding("PATCH", binding("c", "Unscheduled", 1, 5));
    told.binding("DELETE", going(binding("c", "Unscheduled", 1, 5)));
    let mut again = binding("c", "Scheduled", 0, 1);
    again["metadata"]["name"] = "web-c-2".into();
    told.binding("POST", again.clone());
    again["spec"]["resourceSnapshotName"] = "web-1-snapshot".into();
    told.binding("PATCH", again);
    told.check(expect![""]);
}
