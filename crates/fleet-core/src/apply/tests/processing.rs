//! Processing one manifest with a simulated member.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::slice::from_ref;

use expect_test::{Expect, expect};
use fleet_api::types::{ApplyStrategy, PatchDetail};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::apply::adversarial;
use crate::apply::desired::Operation;
use crate::apply::ownership::Owner;
use crate::apply::process::{ApiFailure, ManifestOutcome, Process, Processed, Request, Step, Task};

/// Maximum number of requests.
const QUESTIONS_MAX: usize = 5;

fn owner() -> Owner {
    Owner { name: "w".into(), uid: "u-w".into() }
}

fn reference(name: &str, uid: &str) -> Value {
    json!({"apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "AppliedWork", "name": name, "uid": uid})
}

fn foreign() -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "boss", "uid": "u-boss"})
}

fn map(data: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "cm", "namespace": "app"}, "data": {"k": data}})
}

fn live(data: &str, owners: &[Value]) -> Value {
    let mut object = map(data);
    object["metadata"]["resourceVersion"] = json!("7");
    object["metadata"]["uid"] = json!("u-cm");
    object["metadata"]["ownerReferences"] = json!(owners);
    object
}

fn refused(code: u16, message: &str) -> ApiFailure {
    ApiFailure { code: Some(code), message: message.to_owned() }
}

/// A member that stores what it receives. A dry run returns the live object with the manifest's data, or the error.
struct Member {
    live: Option<Value>,
    dry_run_refused: Option<ApiFailure>,
    write_refused: Option<ApiFailure>,
    /// Works that exist on the hub but are not cached; or why the hub cannot be read.
    undiscovered: Result<BTreeSet<String>, ApiFailure>,
}

impl Member {
    fn with(live: Option<Value>) -> Self {
        Self { live, dry_run_refused: None, write_refused: None, undiscovered: Ok(BTreeSet::new()) }
    }

    fn answer(&mut self, request: Request) -> Result<Value, ApiFailure> {
        if let Request::DryRun(manifest) = &request {
            let mut answer = self.live.clone().unwrap_or_default();
            answer["data"] = manifest["data"].clone();
            return self.dry_run_refused.clone().map_or(Ok(answer), Err);
        }
        if let Some(refusal) = &self.write_refused {
            return Err(refusal.clone());
        }
        let stored = match request {
            Request::DryRun(_) | Request::Write(Operation::Nothing) => unreachable!("not a write"),
            Request::Replace(body) | Request::Write(Operation::Create(body) | Operation::Apply { body, .. }) => body,
            Request::Write(Operation::Patch(patch)) => {
                let mut stored = self.live.clone().unwrap();
                merge(&mut stored, &Value::Object(patch.body));
                stored
            }
        };
        self.live = Some(stored.clone());
        Ok(stored)
    }
}

/// RFC 7386.
fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(fields) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    for (key, value) in fields {
        if value.is_null() {
            target.as_object_mut().unwrap().remove(key);
        } else {
            merge(target.as_object_mut().unwrap().entry(key).or_insert(Value::Null), value);
        }
    }
}

fn word(request: &Request) -> &'static str {
    match request {
        Request::DryRun(_) => "dry-run",
        Request::Replace(_) => "take-over",
        Request::Write(Operation::Create(_)) => "create",
        Request::Write(Operation::Patch(_)) => "patch",
        Request::Write(Operation::Apply { force: true, .. }) => "apply-forced",
        Request::Write(Operation::Apply { force: false, .. }) => "apply",
        Request::Write(Operation::Nothing) => "nothing",
    }
}

fn lead(manifest: &Value, strategy: Value, works: &[&str], member: &mut Member) -> (Vec<&'static str>, Processed) {
    let strategy: ApplyStrategy = serde_json::from_value(strategy).unwrap();
    let works: BTreeSet<String> = works.iter().map(|&work| work.to_owned()).collect();
    let owner = owner();
    let task = Task { manifest, strategy: &strategy, owner: &owner, works: &works };
    let (mut process, mut step) = Process::begin(task, Ok(member.live.clone()));
    let mut asked = Vec::new();
    loop {
        match step {
            Step::Done(processed) => return (asked, processed),
            Step::Ask(request) => {
                asked.push(word(&request));
                step = process.answered(member.answer(request));
            }
            Step::FindWorks(names) => {
                asked.push("find-works");
                step = process.found(member.undiscovered.clone().map(|undiscovered| &undiscovered & &names));
            }
        }
        assert!(asked.len() <= QUESTIONS_MAX, "{asked:?}");
    }
}

fn check(manifest: &Value, strategy: Value, works: &[&str], mut member: Member, expected: Expect) {
    let (asked, processed) = lead(manifest, strategy, works, &mut member);
    let mut text = format!("{}\n{:?}\n", asked.join(" "), processed.outcome);
    for (what, details) in [("drift", &processed.drifts), ("diff", &processed.diffs)] {
        for detail in details {
            let PatchDetail { path, value_in_member, value_in_hub } = detail;
            writeln!(text, "{what} {path} {value_in_member:?} {value_in_hub:?}").unwrap();
        }
    }
    expected.assert_eq(&text);
}

#[test]
fn an_absent_object_is_created_and_then_left_alone() {
    let mut member = Member::with(None);
    let (asked, _) = lead(&map("a"), json!({}), &["w"], &mut member);
    assert_eq!(asked, ["create"]);
    let made = member.live.clone().unwrap();
    assert_eq!(made["metadata"]["ownerReferences"], json!([owner().reference()]));
    let (asked, processed) = lead(&map("a"), json!({}), &["w"], &mut member);
    assert_eq!(
        (asked, processed.outcome),
        (vec![], ManifestOutcome::Applied),
        "an object without a difference is not written to"
    );
    assert_eq!(member.live, Some(made));
}

#[test]
fn applier_s24_s25_existing_objects_are_taken_over_as_the_strategy_says() {
    let there = || Member::with(Some(live("old", &[])));
    check(
        &map("new"),
        json!({}),
        &["w"],
        there(),
        expect![[r#"
        take-over patch
        Applied
    "#]],
    );
    check(
        &map("new"),
        json!({"whenToTakeOver": "IfNoDiff"}),
        &["w"],
        there(),
        expect![[r#"
        dry-run
        NotApplied { reason: FailedToTakeOver, error: "cannot take over object: configuration differences are found between the manifest object and the corresponding object in the member cluster" }
        diff /data/k "old" "new"
    "#]],
    );
    check(
        &map("old"),
        json!({"whenToTakeOver": "IfNoDiff"}),
        &["w"],
        there(),
        expect![[r#"
        dry-run take-over patch
        Applied
    "#]],
    );
    check(
        &map("new"),
        json!({"whenToTakeOver": "IfNoDiff", "comparisonOption": "FullComparison"}),
        &["w"],
        there(),
        expect![[r#"

        NotApplied { reason: FailedToTakeOver, error: "cannot take over object: configuration differences are found between the manifest object and the corresponding object in the member cluster" }
        diff /data/k "old" "new"
    "#]],
    );
    check(
        &map("new"),
        json!({"whenToTakeOver": "Never"}),
        &["w"],
        there(),
        expect![[r#"

        NotApplied { reason: NotTakenOver, error: "no ownership of the object in the member cluster; takeover is needed" }
    "#]],
    );
}

#[test]
fn applier_s31_s33_s34_owners_decide_who_may_take_over() {
    let owned_by = |owners: &[Value]| Member::with(Some(live("a", owners)));
    check(
        &map("a"),
        json!({}),
        &["w"],
        owned_by(&[foreign()]),
        expect![[r#"

        NotApplied { reason: FailedToTakeOver, error: "failed to take over a pre-existing object: the object is already owned by some other sources(s) and co-ownership is disallowed (existingOwnerRefs: [{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"name\":\"boss\",\"uid\":\"u-boss\"}])" }
    "#]],
    );
    check(
        &map("a"),
        json!({"allowCoOwnership": true}),
        &["w"],
        owned_by(&[foreign()]),
        expect![[r#"
        take-over patch
        Applied
    "#]],
    );
    let other = reference("other", "u-other");
    check(
        &map("a"),
        json!({"allowCoOwnership": true}),
        &["w", "other"],
        owned_by(from_ref(&other)),
        expect![[r#"

        NotApplied { reason: FailedToTakeOver, error: "failed to take over a pre-existing object: the object is already owned by another Fleet AppliedWork object" }
    "#]],
    );
    check(
        &map("a"),
        json!({}),
        &["w"],
        owned_by(&[other]),
        expect![[r#"
        find-works take-over patch
        Applied
    "#]],
    );
}

#[test]
fn applier_s35_s37_s38_drift_stops_the_same_manifest_and_no_other() {
    let mut member = Member::with(None);
    let heeding = json!({"whenToApply": "IfNotDrifted"});
    lead(&map("a"), heeding.clone(), &["w"], &mut member);
    member.live.as_mut().unwrap()["data"]["k"] = json!("drifted");
    let drifted = || Member::with(member.live.clone());
    check(
        &map("a"),
        heeding.clone(),
        &["w"],
        drifted(),
        expect![[r#"
        dry-run
        NotApplied { reason: FoundDrifts, error: "cannot apply manifest: drifts are found between the manifest and the object from the member cluster" }
        drift /data/k "drifted" "a"
    "#]],
    );
    check(
        &map("b"),
        heeding,
        &["w"],
        drifted(),
        expect![[r#"
        patch
        Applied
    "#]],
    );
    check(
        &map("a"),
        json!({}),
        &["w"],
        drifted(),
        expect![[r#"
        patch
        Applied
    "#]],
    );
}

#[test]
fn applier_s43_a_manifest_that_the_member_rejects_is_compared_in_full() {
    let mut member = Member::with(None);
    let heeding = json!({"whenToApply": "IfNotDrifted"});
    lead(&map("a"), heeding.clone(), &["w"], &mut member);
    let live = member.live.as_mut().unwrap();
    live["data"]["k"] = json!("drifted");
    live["immutable"] = json!(true);
    member.dry_run_refused = Some(refused(422, "data is immutable"));
    check(
        &map("a"),
        heeding,
        &["w"],
        member,
        expect![[r#"
        dry-run
        NotApplied { reason: FoundDriftsInDegradedMode, error: "cannot apply manifest: drifts are found between the manifest and the object from the member cluster in degraded mode (full comparison is performed instead of partial comparison, as the manifest object is considered to be invalid by the member cluster API server)" }
        drift /data/k "drifted" "a"
        drift /immutable "true" ""
    "#]],
    );
}

#[test]
fn applier_s47_s48_s52_differences_are_reported_and_nothing_is_applied() {
    let reporting = |take_over: &str| json!({"type": "ReportDiff", "whenToTakeOver": take_over});
    check(
        &map("a"),
        reporting("Always"),
        &["w"],
        Member::with(None),
        expect![[r#"

        FoundDiff
        diff / "" "(the whole object)"
    "#]],
    );
    check(
        &map("a"),
        reporting("Always"),
        &["w"],
        Member::with(Some(live("b", &[]))),
        expect![[r#"
        take-over dry-run
        FoundDiff
        diff /data/k "b" "a"
    "#]],
    );
    check(
        &map("a"),
        reporting("Never"),
        &["w"],
        Member::with(Some(live("a", &[]))),
        expect![[r#"
        dry-run
        NoDiffFound
    "#]],
    );
    let mut invalid = Member::with(Some(live("b", &[])));
    invalid.dry_run_refused = Some(refused(422, "no"));
    check(
        &map("a"),
        reporting("Never"),
        &["w"],
        invalid,
        expect![[r#"
        dry-run
        FoundDiffInDegradedMode
        diff /data/k "b" "a"
    "#]],
    );
    let mut broken = Member::with(Some(live("b", &[])));
    broken.dry_run_refused = Some(refused(500, "etcd is away"));
    check(
        &map("a"),
        reporting("Never"),
        &["w"],
        broken,
        expect![[r#"
        dry-run
        FailedToReportDiff { error: "failed to calculate configuration diffs between the manifest object and the object from the member cluster: failed to apply the manifest in dry-run mode: failed to apply the manifest object: an error is returned by the API server: etcd is away" }
    "#]],
    );
}

#[test]
fn applier_s72_a_conflict_is_reported_and_retried() {
    let mut member = Member::with(Some(live("old", &[owner().reference()])));
    let strategy: ApplyStrategy = serde_json::from_value(json!({"whenToApply": "IfNotDrifted"})).unwrap();
    let (manifest, owner, works) = (map("new"), owner(), BTreeSet::new());
    let task = Task { manifest: &manifest, strategy: &strategy, owner: &owner, works: &works };
    let (_, step) = Process::begin(task, Ok(member.live.clone()));
    let Step::Ask(Request::Write(Operation::Patch(patch))) = step else { panic!("{step:?}") };
    assert_eq!(patch.body["metadata"]["resourceVersion"], "7", "the version that was looked at is a precondition");
    assert_eq!(patch.body["metadata"]["uid"], "u-cm", "and so is the object");
    member.write_refused = Some(refused(409, "the object has been modified"));
    check(
        &map("new"),
        json!({"whenToApply": "IfNotDrifted"}),
        &["w"],
        member,
        expect![[r#"
        patch
        NotApplied { reason: ApplyFailed, error: "failed to apply the manifest: failed to patch the manifest object: error returned by the API server: the object has been modified" }
    "#]],
    );
}

#[test]
fn writes_have_the_uid_of_the_object_that_was_read_under_every_strategy() {
    for (strategy, versioned) in [
        (json!({}), false),
        (json!({"type": "ServerSideApply"}), false),
        (json!({"type": "ServerSideApply", "whenToApply": "IfNotDrifted"}), true),
    ] {
        let strategy: ApplyStrategy = serde_json::from_value(strategy).unwrap();
        let (manifest, owner, works) = (map("new"), owner(), BTreeSet::new());
        let task = Task { manifest: &manifest, strategy: &strategy, owner: &owner, works: &works };
        let (_, step) = Process::begin(task, Ok(Some(live("old", &[owner.reference()]))));
        let body = match step {
            Step::Ask(Request::Write(Operation::Patch(patch))) => Value::Object(patch.body),
            Step::Ask(Request::Write(Operation::Apply { body, .. })) => body,
            other => panic!("{other:?}"),
        };
        assert_eq!((&body["metadata"]["uid"], body["metadata"]["resourceVersion"] == "7"), (&json!("u-cm"), versioned));
    }
}

#[test]
fn errors_of_the_api_server_are_reported_with_their_class() {
    let away = || Some(refused(500, "etcd is away"));
    let mut creating = Member::with(None);
    creating.write_refused = away();
    check(
        &map("a"),
        json!({}),
        &["w"],
        creating,
        expect![[r#"
        create
        NotApplied { reason: ApplyFailed, error: "failed to apply the manifest: failed to create manifest object: error returned by the API server: etcd is away" }
    "#]],
    );
    let mut taking_over = Member::with(Some(live("a", &[])));
    taking_over.write_refused = away();
    check(
        &map("a"),
        json!({}),
        &["w"],
        taking_over,
        expect![[r#"
        take-over
        NotApplied { reason: FailedToTakeOver, error: "failed to take over a pre-existing object: failed to take over the object: error returned by the API server: etcd is away" }
    "#]],
    );
    // Server-side apply has an error prefix of its own.
    let mut applying = Member::with(Some(live("old", &[owner().reference()])));
    applying.write_refused = away();
    check(
        &map("a"),
        json!({"type": "ServerSideApply"}),
        &["w"],
        applying,
        expect![[r#"
        apply-forced
        NotApplied { reason: ApplyFailed, error: "failed to apply the manifest: failed to apply the manifest object: an error is returned by the API server: etcd is away" }
    "#]],
    );
}

#[test]
fn an_owner_whose_work_is_not_cached_is_kept() {
    let owned = || Member::with(Some(live("a", &[reference("old", "u-old")])));
    let mut undiscovered = owned();
    undiscovered.undiscovered = Ok(["old".to_owned()].into());
    check(
        &map("a"),
        json!({}),
        &["w"],
        undiscovered,
        expect![[r#"
        find-works
        NotApplied { reason: FailedToTakeOver, error: "failed to take over a pre-existing object: the object is already owned by some other sources(s) and co-ownership is disallowed (existingOwnerRefs: [{\"apiVersion\":\"placement.kubernetes-fleet.io/v1beta1\",\"kind\":\"AppliedWork\",\"name\":\"old\",\"uid\":\"u-old\"}])" }
    "#]],
    );
    let mut silent = owned();
    silent.undiscovered = Err(refused(503, "the hub is away"));
    check(
        &map("a"),
        json!({}),
        &["w"],
        silent,
        expect![[r#"
        find-works
        NotApplied { reason: FailedToTakeOver, error: "failed to take over a pre-existing object: failed to remove left-behind AppliedWork owner references: failed to get the Work object: error returned by the API server: the hub is away" }
    "#]],
    );
}

#[test]
fn applier_s73_s76_other_owners_need_co_ownership() {
    let mut manifest = map("a");
    manifest["metadata"]["ownerReferences"] = json!([foreign()]);
    check(
        &manifest,
        json!({}),
        &["w"],
        Member::with(None),
        expect![[r#"

        NotApplied { reason: ApplyFailed, error: "failed to apply the manifest: failed to validate owner references: manifest is set to have owner references but co-ownership is disallowed" }
    "#]],
    );
    manifest["metadata"]["ownerReferences"] = json!([reference("x", "u-x")]);
    check(
        &manifest,
        json!({"allowCoOwnership": true}),
        &["w"],
        Member::with(None),
        expect![[r#"

        NotApplied { reason: ApplyFailed, error: "failed to apply the manifest: failed to validate owner references: an AppliedWork object is unexpectedly added as an owner in the manifest object" }
    "#]],
    );
    let shared = || Member::with(Some(live("a", &[owner().reference(), foreign()])));
    check(
        &map("b"),
        json!({}),
        &["w"],
        shared(),
        expect![[r#"

        NotApplied { reason: ApplyFailed, error: "failed to apply the manifest: failed to validate owner references: object is co-owned by multiple objects but co-ownership has been disallowed" }
    "#]],
    );
    let mut member = shared();
    lead(&map("b"), json!({"allowCoOwnership": true}), &["w"], &mut member);
    assert_eq!(member.live.unwrap()["metadata"]["ownerReferences"].as_array().unwrap().len(), 2);
}

#[test]
fn applier_s21_s22_s23_conflicts_are_forced_only_with_ourselves_or_on_demand() {
    let managed = |managers: &[&str]| {
        let mut object = live("old", &[owner().reference()]);
        let entries: Vec<Value> = managers.iter().map(|manager| json!({"manager": manager})).collect();
        object["metadata"]["managedFields"] = json!(entries);
        Member::with(Some(object))
    };
    let applies = |strategy: Value, member: &mut Member| lead(&map("new"), strategy, &["w"], member).0;
    let server_side = json!({"type": "ServerSideApply"});
    assert_eq!(applies(server_side.clone(), &mut managed(&["work-api-agent", "before-first-apply"])), ["apply-forced"]);
    assert_eq!(applies(server_side.clone(), &mut managed(&[])), ["apply-forced"]);
    assert_eq!(applies(server_side, &mut managed(&["work-api-agent", "kubectl"])), ["apply"]);
    let forced = json!({"type": "ServerSideApply", "serverSideApplyConfig": {"force": true}});
    assert_eq!(applies(forced, &mut managed(&["kubectl"])), ["apply-forced"]);
}

#[test]
fn applier_s19_s20_manifests_too_large_for_the_annotation_use_server_side_apply() {
    let large = map(&"x".repeat(300_000));
    let mut member = Member::with(None);
    assert_eq!(lead(&large, json!({}), &["w"], &mut member).0, ["create"]);
    let texts = |member: &Member| member.live.clone().unwrap()["metadata"]["annotations"].clone();
    assert_eq!(texts(&member)["kubernetes-fleet.io/last-applied-configuration"], "");
    assert_eq!(lead(&map(&"y".repeat(300_000)), json!({}), &["w"], &mut member).0, ["apply-forced"]);
    assert_eq!(lead(&map("small"), json!({}), &["w"], &mut member).0, ["patch"]);
    assert_ne!(texts(&member)["kubernetes-fleet.io/last-applied-configuration"], "");
}

#[test]
fn a_failed_read_does_not_count_as_a_missing_object() {
    let (strategy, works) = (ApplyStrategy::default(), BTreeSet::new());
    let (manifest, owner) = (map("a"), owner());
    let task = Task { manifest: &manifest, strategy: &strategy, owner: &owner, works: &works };
    let (_, step) = Process::begin(task, Err(refused(500, "etcd is away")));
    let Step::Done(processed) = step else { panic!("{step:?}") };
    let error = "failed to find the corresponding object for the manifest object in the member cluster: \
                 error returned by the API server: etcd is away";
    let reason = fleet_api::conditions::work::ManifestAppliedReason::FailedToFindObject;
    assert_eq!(processed.outcome, ManifestOutcome::NotApplied { reason, error: error.into() });
}

fn any_strategy() -> impl Strategy<Value = Value> {
    let types = prop::sample::select(vec!["ClientSideApply", "ServerSideApply", "ReportDiff"]);
    let compare = prop::sample::select(vec!["PartialComparison", "FullComparison"]);
    let when = prop::sample::select(vec!["Always", "IfNotDrifted"]);
    let take = prop::sample::select(vec!["Always", "IfNoDiff", "Never"]);
    (types, compare, when, take, any::<bool>(), any::<bool>()).prop_map(|(types, compare, when, take, co, force)| {
        json!({
            "type": types, "comparisonOption": compare, "whenToApply": when, "whenToTakeOver": take,
            "allowCoOwnership": co, "serverSideApplyConfig": {"force": force},
        })
    })
}

proptest! {
    /// Whatever the hub sends and the member holds: it ends, and nothing that is not ours is written to unless taken over.
    #[test]
    fn processing_neither_panics_nor_loops(
        manifest in adversarial::object(),
        there in prop::option::of(adversarial::object()),
        strategy in any_strategy(),
        answers in prop::collection::vec(prop::result::maybe_err(adversarial::value(), 400_u16..600), QUESTIONS_MAX + 1),
    ) {
        let parsed: ApplyStrategy = serde_json::from_value(strategy).unwrap();
        let (owner, works) = (owner(), BTreeSet::new());
        let task = Task { manifest: &manifest, strategy: &parsed, owner: &owner, works: &works };
        let (mut process, mut step) = Process::begin(task, Ok(there));
        for answer in answers {
            match step {
                Step::Done(_) => return Ok(()),
                Step::Ask(_) => step = process.answered(answer.map_err(|code| refused(code, "no"))),
                Step::FindWorks(names) => step = process.found(answer.map(|_| names).map_err(|code| refused(code, "no"))),
            }
        }
        prop_assert!(matches!(step, Step::Done(_)), "it does not end");
    }

    #[test]
    fn take_over_never_is_respected(there in adversarial::object(), manifest in adversarial::object()) {
        prop_assume!(there.is_object());
        let mut member = Member::with(Some(there.clone()));
        let (asked, _) = lead(&manifest, json!({"whenToTakeOver": "Never"}), &[], &mut member);
        prop_assert!(asked.is_empty());
        prop_assert_eq!(member.live, Some(there));
    }
}
