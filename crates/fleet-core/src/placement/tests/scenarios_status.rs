//! Acceptance scenarios of the status, of placements with staged runs, and of deletion. Test names contain the
//! scenario's number.

use expect_test::{Expect, expect};
use fleet_api::conditions::Condition;
use fleet_api::kinds::Scope;
use jiff::SignedDuration;
use serde_json::json;

use super::fixture::{ALL_GOOD, ClusterFixture, Fixture, NamespacedFixture, SHOP};
use super::render::{short_status, status_text, writes_text};
use crate::placement::{External, PlacementOutcome, PlacementProgress, Progress, StatusUpdate};
use crate::plan::Wake;

fn fixture(more: &str) -> ClusterFixture {
    ClusterFixture::new("web", "Namespace shop", &with(more))
}

/// The shop's placement with more fields.
fn with(more: &str) -> String {
    SHOP.replace("}]}", &format!("}}]{more}}}"))
}

fn check<S: Scope>(fixture: &mut Fixture<S>, expected: Expect) {
    fixture.settle();
    expected.assert_eq(&short_status(fixture.status()));
}

fn placed(more: &str) -> ClusterFixture {
    let mut fixture = fixture(more);
    fixture.settle();
    fixture.schedule("c1 c2 c3", true);
    fixture.roll_out("c1 c2 c3", "web-0-snapshot", ALL_GOOD);
    fixture.settle();
    fixture
}

#[test]
fn placement_26_named_clusters_that_are_not_eligible() {
    let mut fixture = fixture(", policy: {placementType: PickFixed, clusterNames: [a, b, c]}");
    fixture.settle();
    fixture.schedule("-a -b -c", false);
    fixture.settle();
    expect![[r#"
        index "0": Namespace shop
        Scheduled=False@1 SchedulingPolicyUnfulfilled: found 0
        "" index ""
          Scheduled=False@1 ScheduleFailed: a does not fit
        "" index ""
          Scheduled=False@1 ScheduleFailed: b does not fit
        "" index ""
          Scheduled=False@1 ScheduleFailed: c does not fit"#]]
    .assert_eq(&status_text(fixture.status()));
}

#[test]
fn placement_27_too_few_clusters_are_rolled_out_to() {
    let mut fixture = fixture(", policy: {placementType: PickN, numberOfClusters: 4}");
    fixture.settle();
    fixture.schedule("c1 c2 c3 -c4 -c5", false);
    fixture.roll_out("c1 c2 c3", "web-0-snapshot", ALL_GOOD);
    check(
        &mut fixture,
        expect![[r#"
        index "0": Namespace shop
        Scheduled=False@1 RolloutStarted=True@1 Overridden=True@1 WorkSynchronized=True@1 Applied=True@1 Available=True@1
        "c1" "0": Scheduled=True@1 RolloutStarted=True@1 Overridden=True@1 WorkSynchronized=True@1 Applied=True@1 Available=True@1
        "c2" "0": Scheduled=True@1 RolloutStarted=True@1 Overridden=True@1 WorkSynchronized=True@1 Applied=True@1 Available=True@1
        "c3" "0": Scheduled=True@1 RolloutStarted=True@1 Overridden=True@1 WorkSynchronized=True@1 Applied=True@1 Available=True@1
        "" "": Scheduled=False@1"#]],
    );
    assert_eq!(fixture.plan().report.outcome, PlacementOutcome::TooFewClusters);
}

#[test]
fn placement_28_no_cluster_matches_and_scheduling_is_complete() {
    let mut fixture = fixture("");
    fixture.settle();
    fixture.schedule("-c1 -c2", true);
    check(
        &mut fixture,
        expect![[r#"
        index "0": Namespace shop
        Scheduled=True@1"#]],
    );
    assert_eq!(fixture.plan().report.outcome, PlacementOutcome::NoClusters { as_wanted: false });
}

#[test]
fn placement_29_scaled_to_zero() {
    let pick = |number: i32| with(&format!(", policy: {{placementType: PickN, numberOfClusters: {number}}}"));
    let mut fixture = ClusterFixture::new("web", "Namespace shop", &pick(2));
    fixture.settle();
    fixture.schedule("c1 c2", true);
    fixture.roll_out("c1 c2", "web-0-snapshot", ALL_GOOD);
    fixture.settle();
    fixture.edit(&pick(0));
    check(
        &mut fixture,
        expect![[r#"
        index "0": Namespace shop
        Scheduled=Unknown@2 RolloutStarted=True@1 Overridden=True@1 WorkSynchronized=True@1 Applied=True@1 Available=True@1"#]],
    );
    fixture.schedule("-c1 -c2", true);
    check(
        &mut fixture,
        expect![[r#"
        index "0": Namespace shop
        Scheduled=True@2"#]],
    );
    assert_eq!(fixture.plan().report.outcome, PlacementOutcome::NoClusters { as_wanted: true });
}

#[test]
fn the_first_condition_that_is_not_true_is_the_progress_of_a_placement() {
    let standing = |fixture: &mut ClusterFixture| {
        fixture.settle();
        let PlacementProgress { at, said, reached } =
            PlacementProgress::of(&fixture.placement, fixture.placement.status.as_ref());
        let words = |one: Option<&Condition>| one.map(|one| format!("{} {}", one.status, one.reason));
        format!("{at:?}: {:?} after {:?}", words(said), words(reached))
    };
    let mut fixture = placed("");
    expect![[r#"None: None after Some("True ResourceAvailable")"#]].assert_eq(&standing(&mut fixture));
    fixture.roll_out("c1", "", "RolloutStarted Overridden=False");
    expect![[r#"Some(Step(Overridden)): Some("False OverriddenFailed") after Some("True RolloutStarted")"#]]
        .assert_eq(&standing(&mut fixture));
    fixture.edit(SHOP);
    expect![[r#"Some(Scheduled): Some("Unknown SchedulePending") after None"#]].assert_eq(&standing(&mut fixture));
    fixture.edit(SHOP);
    fixture.hub.incomplete.insert("Namespace".to_owned());
    expect![[r#"Some(Scheduled): None after None"#]].assert_eq(&standing(&mut fixture));
}

#[test]
fn more_clusters_than_desired_stop_the_plan() {
    let mut fixture = fixture(", policy: {placementType: PickN, numberOfClusters: 1}");
    fixture.settle();
    fixture.schedule("c1 c2", true);
    expect!["Stopped(MoreClustersThanWanted { picked: 2, wanted: 1 })"].assert_eq(&writes_text(&fixture.run()));
}

#[test]
fn placement_30_failures_are_named_where_they_happened() {
    let mut fixture = placed("");
    fixture.roll_out("c1", "", "RolloutStarted Overridden WorkSynchronized Applied=False");
    let resource = json!({"version": "v1", "kind": "Namespace", "name": "shop"});
    let mut failed = resource.clone();
    failed["condition"] = json!({"type": "Applied", "status": "False", "reason": "Owned", "message": "", "lastTransitionTime": fixture.now});
    fixture.binding("c1").status.as_mut().unwrap().failed_placements = vec![serde_json::from_value(failed).unwrap()];
    fixture.settle();
    expect![[r#"
        index "0": Namespace shop
        Scheduled=True@1 SchedulingPolicyFulfilled: found 3
        RolloutStarted=True@1 RolloutStarted: All 3 cluster(s) start rolling out the latest resource
        Overridden=True@1 NoOverrideSpecified: No override rules are configured for the selected resources
        WorkSynchronized=True@1 WorkSynchronized: Work(s) are successfully created or updated in 3 target cluster(s)' namespaces
        Applied=False@1 ApplyFailed: Failed to apply resources to 1 cluster(s), please check the `failedPlacements` status
        "c1" index "0" failed=1
          Scheduled=True@1 Scheduled: picked c1
          RolloutStarted=True@1 RolloutStartedTrue: said by c1
          Overridden=True@1 OverriddenTrue: said by c1
          WorkSynchronized=True@1 WorkSynchronizedTrue: said by c1
          Applied=False@1 AppliedFalse: said by c1
        "c2" index "0"
          Scheduled=True@1 Scheduled: picked c2
          RolloutStarted=True@1 RolloutStartedTrue: said by c2
          Overridden=True@1 OverriddenTrue: said by c2
          WorkSynchronized=True@1 WorkSynchronizedTrue: said by c2
          Applied=True@1 AppliedTrue: said by c2
          Available=True@1 AvailableTrue: said by c2
        "c3" index "0"
          Scheduled=True@1 Scheduled: picked c3
          RolloutStarted=True@1 RolloutStartedTrue: said by c3
          Overridden=True@1 OverriddenTrue: said by c3
          WorkSynchronized=True@1 WorkSynchronizedTrue: said by c3
          Applied=True@1 AppliedTrue: said by c3
          Available=True@1 AvailableTrue: said by c3"#]].assert_eq(&status_text(fixture.status()));
    let plan = fixture.plan();
    assert_eq!(
        plan.report.clusters[0],
        ("c1".to_owned(), Progress::Failed(fleet_api::conditions::per_cluster::RolloutStep::Applied))
    );
    assert_eq!(plan.report.clusters[1], ("c2".to_owned(), Progress::Arrived));
}

const DIFF: &str = ", strategy: {applyStrategy: {type: ReportDiff}}";

#[test]
fn placement_32_report_diff_has_only_its_own_condition() {
    let mut fixture = fixture(DIFF);
    fixture.settle();
    fixture.schedule("c1", true);
    fixture.roll_out("c1", "web-0-snapshot", "RolloutStarted Overridden WorkSynchronized DiffReported");
    let diff = json!({"version": "v1", "kind": "Namespace", "name": "shop", "observationTime": fixture.now, "firstDiffedObservedTime": fixture.now});
    fixture.binding("c1").status.as_mut().unwrap().diffed_placements = vec![serde_json::from_value(diff).unwrap()];
    let plan = fixture.run();
    expect![[r#"
        index "0": Namespace shop
        Scheduled=True@1 SchedulingPolicyFulfilled: found 1
        RolloutStarted=True@1 RolloutStarted: All 1 cluster(s) start rolling out the latest resource
        Overridden=True@1 NoOverrideSpecified: No override rules are configured for the selected resources
        WorkSynchronized=True@1 WorkSynchronized: Work(s) are successfully created or updated in 1 target cluster(s)' namespaces
        DiffReported=True@1 DiffReportingCompleted: Diff reporting in 1 cluster(s) has been completed
        "c1" index "0" diffed=1
          Scheduled=True@1 Scheduled: picked c1
          RolloutStarted=True@1 RolloutStartedTrue: said by c1
          Overridden=True@1 OverriddenTrue: said by c1
          WorkSynchronized=True@1 WorkSynchronizedTrue: said by c1
          DiffReported=True@1 DiffReportedTrue: said by c1"#]].assert_eq(&status_text(fixture.status()));
    expect!["[RolloutStarted, Overridden, WorkSynchronized, DiffReported, RolloutCompleted]"]
        .assert_eq(&format!("{:?}", plan.report.events));
}

#[test]
fn placement_33_conditions_follow_the_strategy() {
    let mut fixture = placed("");
    fixture.edit(&with(DIFF));
    check(
        &mut fixture,
        expect![[r#"
        index "0": Namespace shop
        Scheduled=Unknown@2 RolloutStarted=True@1 Overridden=True@1 WorkSynchronized=True@1 Applied=True@1 Available=True@1"#]],
    );
    fixture.schedule("c1 c2 c3", true);
    check(
        &mut fixture,
        expect![[r#"
        index "0": Namespace shop
        Scheduled=True@2 RolloutStarted=True@2 Overridden=True@2 WorkSynchronized=True@2 DiffReported=Unknown@2
        "c1" "0": Scheduled=True@2 RolloutStarted=True@2 Overridden=True@2 WorkSynchronized=True@2 DiffReported=Unknown@2
        "c2" "0": Scheduled=True@2 RolloutStarted=True@2 Overridden=True@2 WorkSynchronized=True@2 DiffReported=Unknown@2
        "c3" "0": Scheduled=True@2 RolloutStarted=True@2 Overridden=True@2 WorkSynchronized=True@2 DiffReported=Unknown@2"#]],
    );
    fixture.roll_out("c1 c2 c3", "", "RolloutStarted Overridden WorkSynchronized DiffReported");
    check(
        &mut fixture,
        expect![[r#"
        index "0": Namespace shop
        Scheduled=True@2 RolloutStarted=True@2 Overridden=True@2 WorkSynchronized=True@2 DiffReported=True@2
        "c1" "0": Scheduled=True@2 RolloutStarted=True@2 Overridden=True@2 WorkSynchronized=True@2 DiffReported=True@2
        "c2" "0": Scheduled=True@2 RolloutStarted=True@2 Overridden=True@2 WorkSynchronized=True@2 DiffReported=True@2
        "c3" "0": Scheduled=True@2 RolloutStarted=True@2 Overridden=True@2 WorkSynchronized=True@2 DiffReported=True@2"#]],
    );
}

#[test]
fn placement_34_drifts_are_listed_whether_or_not_they_fail() {
    let mut fixture = placed("");
    let drift = json!({"version": "v1", "kind": "Namespace", "name": "shop", "observationTime": fixture.now, "targetClusterObservedGeneration": 1, "firstDriftedObservedTime": fixture.now});
    for cluster in ["c1", "c2"] {
        let status = fixture.binding(cluster).status.as_mut().unwrap();
        status.drifted_placements = vec![serde_json::from_value(drift.clone()).unwrap()];
    }
    let conditions = &mut fixture.binding("c1").status.as_mut().unwrap().conditions;
    conditions[3].status = fleet_api::conditions::ConditionStatus::False;
    fixture.settle();
    let drifted: Vec<_> = fixture.status().placement_statuses.iter().map(|one| one.drifted_placements.len()).collect();
    assert_eq!(drifted, [1, 1, 0]);
}

#[test]
fn placement_35_a_deleted_placement_deletes_its_snapshots() {
    let mut fixture = placed("");
    fixture.placement.metadata.deletion_timestamp = Some(serde_json::from_value(json!(fixture.now)).unwrap());
    expect![[r#"
        delete policy web-0
        delete web-0-snapshot
        release placement
        Deleting"#]]
    .assert_eq(&writes_text(&fixture.run()));
    assert!(fixture.plan().is_idle());
}

const COPIED: &str = ", statusReportingScope: NamespaceAccessible";

#[test]
fn placement_36_the_status_is_copied_and_the_copy_kept() {
    let mut fixture = fixture(COPIED);
    expect![[r#"
        hold placement
        create policy web-0 generation=1
        create web-0-snapshot (1 of 1, 0 envelopes): Namespace shop
        copy status to shop
        AwaitingScheduler"#]]
    .assert_eq(&writes_text(&fixture.run()));
    fixture.schedule("c1", true);
    expect![[r#"
        copy status to shop
        Undecided { step: RolloutStarted, clusters: 1 }"#]]
    .assert_eq(&writes_text(&fixture.run()));
    expect![[r#"
        index "0": Namespace shop
        Scheduled=True@1 SchedulingPolicyFulfilled: found 1
        StatusSynced=True@1 StatusSyncSucceeded: Successfully created or updated ClusterResourcePlacementStatus in namespace 'shop'
        RolloutStarted=Unknown@1 RolloutStartedUnknown: There are still 1 cluster(s) in the process of deciding whether to roll out the latest resources or not
        "c1" index "0"
          Scheduled=True@1 Scheduled: picked c1
          RolloutStarted=Unknown@1 RolloutStartedUnknown: In the process of deciding whether to roll out some version of the resources or not"#]].assert_eq(&status_text(fixture.status()));
    let mut copied = fixture.status().clone();
    copied.conditions.retain(|one| one.type_ != "ClusterResourcePlacementStatusSynced");
    assert_eq!(fixture.copies["shop"].spec, copied);
    fixture.copies.clear();
    expect![[r#"
        copy status to shop
        Undecided { step: RolloutStarted, clusters: 1 }"#]]
    .assert_eq(&writes_text(&fixture.run()));
}

#[test]
fn a_refused_copy_delays_nothing_and_is_reported() {
    let mut fixture = fixture(COPIED);
    fixture.settle();
    fixture.schedule("c1", true);
    let plan = fixture.plan();
    let Some(StatusUpdate { status: Some(status), copy: Some(_), .. }) = plan.status.clone() else {
        panic!("{plan:#?}")
    };
    fixture.placement.status = Some(status.status);
    assert!(short_status(fixture.status()).contains("StatusSynced=True@1"), "nothing is known of the new copy yet");
    fixture.copied(Err("exceeded quota: copies".to_owned()));
    fixture.copy_failed_until = Some(fixture.now + SignedDuration::from_secs(60));
    let synced = |fixture: &ClusterFixture| {
        let text = status_text(fixture.status());
        text.lines().find(|line| line.starts_with("StatusSynced")).unwrap_or_default().to_owned()
    };
    expect!["StatusSynced=False@1 StatusSyncFailed: Failed to create or update ClusterResourcePlacementStatus: exceeded quota: copies"]
        .assert_eq(&synced(&fixture));
    let again = fixture.plan();
    assert!(again.is_idle(), "{again:#?}");
    assert_eq!(Some(again.wake), fixture.copy_failed_until.map(Wake::At));

    fixture.roll_out("c1", "web-0-snapshot", ALL_GOOD);
    fixture.settle();
    assert!(short_status(fixture.status()).contains("Available=True@1"), "the status itself goes on");
    expect!["StatusSynced=False@1 StatusSyncFailed: Failed to create or update ClusterResourcePlacementStatus: exceeded quota: copies"]
        .assert_eq(&synced(&fixture));

    fixture.pass(60);
    let plan = fixture.run();
    expect![[r#"
        copy status to shop
        Complete"#]]
    .assert_eq(&writes_text(&plan));
    expect!["StatusSynced=True@1 StatusSyncSucceeded: Successfully created or updated ClusterResourcePlacementStatus in namespace 'shop'"].assert_eq(&synced(&fixture));
}

#[test]
fn placement_37_without_the_namespace_there_is_no_copy() {
    let mut fixture = fixture(COPIED);
    fixture.settle();
    fixture.schedule("c1", true);
    fixture.settle();
    fixture.hub.set("Namespace shop deleting");
    fixture.copies.clear();
    fixture.settle();
    expect![[r#"
        index "1": nothing
        Scheduled=True@1 SchedulingPolicyFulfilled: found 1
        StatusSynced=False@1 StatusSyncFailed: Failed to create or update ClusterResourcePlacementStatus: clusterresourceplacementstatuses.placement.kubernetes-fleet.io "web" is forbidden: unable to create new content in namespace shop because it is being terminated
        RolloutStarted=Unknown@1 RolloutStartedUnknown: There are still 1 cluster(s) in the process of deciding whether to roll out the latest resources or not
        "c1" index "1"
          Scheduled=True@1 Scheduled: picked c1
          RolloutStarted=Unknown@1 RolloutStartedUnknown: In the process of deciding whether to roll out some version of the resources or not"#]].assert_eq(&status_text(fixture.status()));
    fixture.hub.remove("Namespace shop");
    fixture.settle();
    expect![[r#"
        index "1": nothing
        Scheduled=True@1 SchedulingPolicyFulfilled: found 1
        StatusSynced=False@1 StatusSyncFailed: Failed to create or update ClusterResourcePlacementStatus: namespaces "shop" not found
        RolloutStarted=Unknown@1 RolloutStartedUnknown: There are still 1 cluster(s) in the process of deciding whether to roll out the latest resources or not
        "c1" index "1"
          Scheduled=True@1 Scheduled: picked c1
          RolloutStarted=Unknown@1 RolloutStartedUnknown: In the process of deciding whether to roll out some version of the resources or not"#]].assert_eq(&status_text(fixture.status()));
    fixture.hub.set("Namespace shop");
    check(
        &mut fixture,
        expect![[r#"
        index "2": Namespace shop
        Scheduled=True@1 StatusSynced=True@1 RolloutStarted=Unknown@1
        "c1" "2": Scheduled=True@1 RolloutStarted=Unknown@1"#]],
    );
}

#[test]
fn placement_38_the_namespace_of_a_copied_status_is_immutable() {
    let mut fixture = placed(COPIED);
    let before = fixture.status().clone();
    fixture.edit(&with(COPIED).replace("shop", "bank"));
    expect![[r#"Refused(NamespaceChanged { chosen: "bank", original: "shop" })"#]]
        .assert_eq(&writes_text(&fixture.run()));
    expect!["Scheduled=False@2 InvalidResourceSelectors: namespace resource selector is choosing a different namespace 'bank' from what was originally picked 'shop'. This is not allowed for NamespaceAccessible ClusterResourcePlacement"].assert_eq(status_text(fixture.status()).lines().nth(1).unwrap_or_default());
    assert_eq!(fixture.status().placement_statuses, before.placement_statuses);
    assert_eq!(fixture.status().conditions[1..], before.conditions[1..]);
    fixture.edit(&with(COPIED));
    fixture.settle();
    fixture.schedule("c1 c2 c3", true);
    check(
        &mut fixture,
        expect![[r#"
        index "0": Namespace shop
        Scheduled=True@3 StatusSynced=True@3 RolloutStarted=True@3 Overridden=True@3 WorkSynchronized=True@3 Applied=True@3 Available=True@3
        "c1" "0": Scheduled=True@3 RolloutStarted=True@3 Overridden=True@3 WorkSynchronized=True@3 Applied=True@3 Available=True@3
        "c2" "0": Scheduled=True@3 RolloutStarted=True@3 Overridden=True@3 WorkSynchronized=True@3 Applied=True@3 Available=True@3
        "c3" "0": Scheduled=True@3 RolloutStarted=True@3 Overridden=True@3 WorkSynchronized=True@3 Applied=True@3 Available=True@3"#]],
    );
}

#[test]
fn placement_38_a_copy_needs_a_namespace_with_a_name() {
    let mut fixture = fixture(COPIED);
    fixture.edit(&with(COPIED).replace("name: shop", "labelSelector: {matchLabels: {team: a}}"));
    expect![[r#"
        hold placement
        Refused(NoNamespaceSelected)"#]]
    .assert_eq(&writes_text(&fixture.run()));
    expect![[r#"
        index "": nothing
        Scheduled=False@2 InvalidResourceSelectors: NamespaceAccessible ClusterResourcePlacement doesn't specify a resource selector which selects a namespace"#]].assert_eq(&status_text(fixture.status()));
}

#[test]
fn placement_39_without_status_reporting_scope_there_is_no_copy() {
    let fixture = placed("");
    assert!(fixture.copies.is_empty());
    assert!(!fixture.status().conditions.iter().any(|one| one.type_.ends_with("StatusSynced")));
}

#[test]
fn placement_40_clusters_that_wait_for_others() {
    let mut fixture = placed("");
    fixture.hub.set("ConfigMap shop/cm value=1");
    fixture.settle();
    fixture.roll_out("c1", "web-1-snapshot", "RolloutStarted Overridden WorkSynchronized Applied Available=False");
    fixture.roll_out("c2", "", "RolloutStarted=False");
    fixture.roll_out("c3", "", "RolloutStarted=False");
    fixture.settle();
    expect![[r#"
        index "1": Namespace shop, ConfigMap shop/cm
        Scheduled=True@1 SchedulingPolicyFulfilled: found 3
        RolloutStarted=False@1 RolloutNotStartedYet: The rollout is being blocked by the rollout strategy in 2 cluster(s)
        "c1" index "1"
          Scheduled=True@1 Scheduled: picked c1
          RolloutStarted=True@1 RolloutStartedTrue: said by c1
          Overridden=True@1 OverriddenTrue: said by c1
          WorkSynchronized=True@1 WorkSynchronizedTrue: said by c1
          Applied=True@1 AppliedTrue: said by c1
          Available=False@1 AvailableFalse: said by c1
        "c2" index "1"
          Scheduled=True@1 Scheduled: picked c2
          RolloutStarted=False@1 RolloutNotStartedYet: The rollout is being blocked by the rollout strategy
        "c3" index "1"
          Scheduled=True@1 Scheduled: picked c3
          RolloutStarted=False@1 RolloutNotStartedYet: The rollout is being blocked by the rollout strategy"#]].assert_eq(&status_text(fixture.status()));
    let progress: Vec<_> = fixture.plan().report.clusters.into_iter().map(|(_, progress)| progress).collect();
    assert_eq!(progress[1..], [Progress::HeldBack, Progress::HeldBack]);
}

#[test]
fn conditions_of_an_older_binding_generation_are_ignored() {
    let mut fixture = placed("");
    fixture.binding("c2").metadata.generation = Some(2);
    fixture.binding("c3").metadata.deletion_timestamp = Some(serde_json::from_value(json!(fixture.now)).unwrap());
    check(
        &mut fixture,
        expect![[r#"
        index "0": Namespace shop
        Scheduled=True@1 RolloutStarted=Unknown@1
        "c1" "0": Scheduled=True@1 RolloutStarted=True@1 Overridden=True@1 WorkSynchronized=True@1 Applied=True@1 Available=True@1
        "c2" "0": Scheduled=True@1 RolloutStarted=Unknown@1
        "c3" "": Scheduled=True@1 RolloutStarted=Unknown@1"#]],
    );
}

#[test]
fn placement_49_clusters_that_leave_and_rejoin() {
    let mut fixture = placed("");
    fixture.schedule("", true);
    check(
        &mut fixture,
        expect![[r#"
        index "0": Namespace shop
        Scheduled=True@1"#]],
    );
    fixture.schedule("c1", true);
    fixture.roll_out("c1", "web-0-snapshot", ALL_GOOD);
    check(
        &mut fixture,
        expect![[r#"
        index "0": Namespace shop
        Scheduled=True@1 RolloutStarted=True@1 Overridden=True@1 WorkSynchronized=True@1 Applied=True@1 Available=True@1
        "c1" "0": Scheduled=True@1 RolloutStarted=True@1 Overridden=True@1 WorkSynchronized=True@1 Applied=True@1 Available=True@1"#]],
    );
}

const EXTERNAL: &str = ", strategy: {type: External}";

#[test]
fn placement_50_51_52_staged_runs() {
    let mut fixture = fixture(EXTERNAL);
    expect![[r#"
        hold placement
        create policy web-0 generation=1
        AwaitingScheduler"#]]
    .assert_eq(&writes_text(&fixture.run()));
    expect![[r#"
        index "": Namespace shop
        Scheduled=Unknown@1"#]]
    .assert_eq(&short_status(fixture.status()));
    fixture.schedule("c1 c2", true);
    fixture.settle();
    expect![[r#"
        index "": nothing
        Scheduled=True@1 SchedulingPolicyFulfilled: found 2
        RolloutStarted=Unknown@1 RolloutControlledByExternalController: Rollout is controlled by an external controller and no resource snapshot name is observed across clusters, probably rollout has not started yet. To determine rollout status, check the ClusterStagedUpdateRun resources with spec.placementName matching this placement
        "c1" index ""
          Scheduled=True@1 Scheduled: picked c1
          RolloutStarted=Unknown@1 RolloutStartedUnknown: In the process of deciding whether to roll out some version of the resources or not
        "c2" index ""
          Scheduled=True@1 Scheduled: picked c2
          RolloutStarted=Unknown@1 RolloutStartedUnknown: In the process of deciding whether to roll out some version of the resources or not"#]].assert_eq(&status_text(fixture.status()));
    let selected_content =
        crate::placement::snapshot_for_run(&fixture.observe(), crate::placement::WantedSnapshot::Current);
    for write in selected_content.unwrap().writes {
        fixture.write(&write);
    }
    fixture.roll_out("c2", "web-0-snapshot", ALL_GOOD);
    fixture.settle();
    expect![[r#"
        index "": nothing
        Scheduled=True@1 SchedulingPolicyFulfilled: found 2
        RolloutStarted=Unknown@1 RolloutControlledByExternalController: Rollout is controlled by an external controller and different resource snapshot versions are observed across clusters
        "c1" index ""
          Scheduled=True@1 Scheduled: picked c1
          RolloutStarted=Unknown@1 RolloutStartedUnknown: In the process of deciding whether to roll out some version of the resources or not
        "c2" index "0"
          Scheduled=True@1 Scheduled: picked c2
          RolloutStarted=True@1 RolloutStartedTrue: said by c2
          Overridden=True@1 OverriddenTrue: said by c2
          WorkSynchronized=True@1 WorkSynchronizedTrue: said by c2
          Applied=True@1 AppliedTrue: said by c2
          Available=True@1 AvailableTrue: said by c2"#]].assert_eq(&status_text(fixture.status()));
    fixture.roll_out("c1", "web-0-snapshot", "");
    let plan = fixture.run();
    assert_eq!(
        plan.report.outcome,
        PlacementOutcome::LeftToRuns(External::ClusterUndecided { cluster: "c1".to_owned() })
    );
    expect![[r#"
        index "0": Namespace shop
        Scheduled=True@1 RolloutStarted=Unknown@1
        "c1" "0": Scheduled=True@1 RolloutStarted=Unknown@1
        "c2" "0": Scheduled=True@1 RolloutStarted=True@1 Overridden=True@1 WorkSynchronized=True@1 Applied=True@1 Available=True@1"#]].assert_eq(&short_status(fixture.status()));
    fixture.roll_out("c1", "", ALL_GOOD);
    check(
        &mut fixture,
        expect![[r#"
        index "0": Namespace shop
        Scheduled=True@1 RolloutStarted=True@1 Overridden=True@1 WorkSynchronized=True@1 Applied=True@1 Available=True@1
        "c1" "0": Scheduled=True@1 RolloutStarted=True@1 Overridden=True@1 WorkSynchronized=True@1 Applied=True@1 Available=True@1
        "c2" "0": Scheduled=True@1 RolloutStarted=True@1 Overridden=True@1 WorkSynchronized=True@1 Applied=True@1 Available=True@1"#]],
    );
    fixture.hub.set("ConfigMap shop/cm value=1");
    assert!(fixture.plan().is_idle());
    fixture.roll_out("c1 c2", "web-9-snapshot", ALL_GOOD);
    assert_eq!(fixture.plan().report.outcome, PlacementOutcome::LeftToRuns(External::NoSnapshot));
}

#[test]
fn placement_50_the_hint_names_the_kind_of_run() {
    let spec = "{resourceSelectors: [{group: '', version: v1, kind: ConfigMap}], strategy: {type: External}}";
    let mut fixture = NamespacedFixture::new("shop/web", "", spec);
    fixture.settle();
    fixture.schedule("c1", true);
    fixture.settle();
    expect!["Rollout is controlled by an external controller and no resource snapshot name is observed across clusters, probably rollout has not started yet. To determine rollout status, check the StagedUpdateRun resources with spec.placementName matching this placement"].assert_eq(&fixture.status().conditions[1].message);
}

#[test]
fn placement_62_73_overrides_are_listed_and_counted() {
    let mut fixture = placed("");
    fixture.binding("c2").spec.cluster_resource_override_snapshots = Some(vec!["cro-0".to_owned()]);
    fixture.settle();
    let status = fixture.status();
    let overridden = status.conditions.iter().find(|one| one.type_.ends_with("Overridden")).unwrap();
    expect!["OverriddenSucceeded: The selected resources are successfully overridden in 3 cluster(s)"]
        .assert_eq(&format!("{}: {}", overridden.reason, overridden.message));
    let listed: Vec<_> =
        status.placement_statuses.iter().map(|one| one.applicable_cluster_resource_overrides.len()).collect();
    assert_eq!(listed, [0, 1, 0]);
}

#[test]
fn placement_78_a_missing_cluster_leaves_the_placement_unfulfilled() {
    let spec = "{resourceSelectors: [{group: '', version: v1, kind: ConfigMap}], policy: {placementType: PickN, numberOfClusters: 3}}";
    let mut fixture = NamespacedFixture::new("shop/web", "ConfigMap shop/cm", spec);
    fixture.settle();
    fixture.schedule("c1 c2 -c3", false);
    fixture.settle();
    expect![[r#"
        index "0": ConfigMap shop/cm
        Scheduled=False@1 SchedulingPolicyUnfulfilled: found 2
        RolloutStarted=Unknown@1 RolloutStartedUnknown: There are still 2 cluster(s) in the process of deciding whether to roll out the latest resources or not
        "c1" index "0"
          Scheduled=True@1 Scheduled: picked c1
          RolloutStarted=Unknown@1 RolloutStartedUnknown: In the process of deciding whether to roll out some version of the resources or not
        "c2" index "0"
          Scheduled=True@1 Scheduled: picked c2
          RolloutStarted=Unknown@1 RolloutStartedUnknown: In the process of deciding whether to roll out some version of the resources or not
        "" index ""
          Scheduled=False@1 ScheduleFailed: c3 does not fit"#]].assert_eq(&status_text(fixture.status()));
    // The entry of the open slot does not change with time.
    fixture.pass(60);
    assert!(fixture.plan().is_idle());
}
