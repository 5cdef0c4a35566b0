//! Placements by themselves (PL-*, UR-01).

use expect_test::{Expect, expect};

use super::fixture::{Fleet, fleet, told};
use crate::diagnose;

fn check(fleet: &Fleet, expected: Expect) {
    expected.assert_eq(&told(&diagnose::placement(&fleet.picture())));
}

/// The example, rolled out by rolling updates, with these conditions after `Scheduled`.
fn rolling(conditions: &str) -> Fleet {
    fleet().edit(
        "ClusterResourcePlacement",
        "example-placement",
        &format!(
            "{{spec: {{strategy: {{type: RollingUpdate}}}}, status: {{conditions: [
        'ClusterResourcePlacementScheduled=True SchedulingPolicyFulfilled: ' {conditions}]}}}}"
        ),
    )
}

/// The binding of `member2` with these conditions and failed resources.
fn with_binding(fleet: Fleet, conditions: &str, lists: &str) -> Fleet {
    let change = format!(
        "{{spec: {{state: Bound, resourceSnapshotName: example-placement-0-snapshot}}, status: {{{lists} conditions: ['RolloutStarted=True RolloutStarted: ', {conditions}]}}}}"
    );
    fleet.edit("ClusterResourceBinding", "example-placement-member2-2", &change)
}

const SYNCHRONIZED: &str = "'Overridden=True NoOverrideSpecified: ', 'WorkSynchronized=True AllWorkSynced: '";

#[test]
fn ur_01_nothing_is_rolled_out_without_a_run() {
    let words = [
        "RolloutControlledByExternalController: Rollout is controlled by an external controller and no resource snapshot name is observed across clusters, probably rollout has not started yet",
        "RolloutStartedUnknown: There are still 2 cluster(s) in the process of deciding whether to roll out the latest resources or not",
    ];
    let placed = words.map(|words| {
        fleet().edit(
            "ClusterResourcePlacement",
            "example-placement",
            &format!(
                "{{status: {{conditions: ['ClusterResourcePlacementScheduled=True SchedulingPolicyFulfilled: ',
            'ClusterResourcePlacementRolloutStarted=Unknown {words}']}}}}"
            ),
        )
    });
    check(&placed[0], expect![""]);
    assert_eq!(diagnose::placement(&placed[1].picture()).cause.unwrap().entry, "UR-01");
    let without_strategy = placed[0].clone().without("ClusterStagedUpdateStrategy", "example-strategy");
    let steps = diagnose::placement(&without_strategy.picture()).cause.unwrap().fixes.remove(0).steps;
    assert_eq!(steps.len(), 2, "a strategy is made first: {steps:?}");
}

#[test]
fn pl_s1_not_enough_clusters() {
    let term = "{labelSelector: {matchLabels: {env: prod}}}";
    let affinity = format!(
        "{{clusterAffinity: {{requiredDuringSchedulingIgnoredDuringExecution: {{clusterSelectorTerms: [{term}]}}}}}}"
    );
    let placement = format!("{{spec: {{policy: {{placementType: PickN, numberOfClusters: 2, affinity: {affinity}}}}}, status: {{conditions: [
        'ClusterResourcePlacementScheduled=False SchedulingPolicyUnfulfilled: could not find all clusters needed as specified by the scheduling policy, found 1 cluster(s) instead']}}}}");
    let reason = "'ClusterUnschedulable, cluster does not match with any of the required cluster affinity terms'";
    let decisions = format!(
        "{{status: {{targetClusters: [{{clusterName: member1, selected: true, reason: picked}}, {{clusterName: member2, selected: false, reason: {reason}}}]}}}}"
    );
    let fleet = fleet()
        .edit("ClusterResourcePlacement", "example-placement", &placement)
        .edit("ClusterSchedulingPolicySnapshot", "example-placement-0", &decisions)
        .without("ClusterResourceBinding", "example-placement-member2-2");
    check(&fleet, expect![""]);
}

#[test]
fn pl_s2_a_named_cluster_is_unknown() {
    let placement = "{spec: {policy: {placementType: PickFixed, clusterNames: [member1, membr2]}}, status: {conditions: [
        'ClusterResourcePlacementScheduled=False SchedulingPolicyUnfulfilled: could not find all the clusters needed as specified by the scheduling policy']}}";
    let decisions = "{status: {targetClusters: [{clusterName: member1, selected: true, reason: picked}, {clusterName: membr2, selected: false, reason: 'Specified cluster \"membr2\" is not found'}]}}";
    let fleet = fleet()
        .edit("ClusterResourcePlacement", "example-placement", placement)
        .edit("ClusterSchedulingPolicySnapshot", "example-placement-0", decisions)
        .without("ClusterResourceBinding", "example-placement-member2-2");
    check(&fleet, expect![""]);
}

#[test]
fn pl_s2_a_named_cluster_is_not_eligible() {
    let placement = "{spec: {policy: {placementType: PickFixed, clusterNames: [member2]}}, status: {conditions: ['ClusterResourcePlacementScheduled=False SchedulingPolicyUnfulfilled: ']}}";
    let decisions = "{status: {targetClusters: [{clusterName: member2, selected: false, reason: 'Cluster \"member2\" is not eligible for resource placement yet: cluster is not connected to the fleet'}]}}";
    let fleet = fleet()
        .edit("ClusterResourcePlacement", "example-placement", placement)
        .edit("ClusterSchedulingPolicySnapshot", "example-placement-0", decisions)
        .edit("MemberCluster", "member2", "{status: {conditions: []}}");
    let cause = diagnose::placement(&fleet.picture()).cause.unwrap();
    assert_eq!((cause.entry, cause.title.as_str()), ("PL-S2", "Cluster member2 has not joined the fleet"));
}

#[test]
fn pl_s3_a_reserved_namespace_is_selected() {
    let placement = "{spec: {resourceSelectors: [{group: '', version: v1, kind: Namespace, name: kube-system}, {group: '', version: v1, kind: Namespace, name: shop}]},
        status: {conditions: ['ClusterResourcePlacementScheduled=False InvalidResourceSelectors: The resource selectors are invalid: namespace kube-system is not allowed to propagate']}}";
    check(&fleet().edit("ClusterResourcePlacement", "example-placement", placement), expect![""]);
}

#[test]
fn pl_n2_a_cluster_scoped_resource_is_selected() {
    let placement = "{spec: {resourceSelectors: [{group: '', version: v1, kind: Namespace, name: shop}]},
        status: {conditions: ['ClusterResourcePlacementScheduled=False InvalidResourceSelectors: invalid placement shop/p, cannot select cluster-scoped resource Namespace in a resourcePlacement']}}";
    let cause =
        diagnose::placement(&fleet().edit("ClusterResourcePlacement", "example-placement", placement).picture())
            .cause
            .unwrap();
    assert_eq!(
        (cause.entry, cause.fixes[0].steps[0].fill_in.join(" ")),
        ("PL-N2", "<group> <kind> <name> <version>".to_owned())
    );
}

#[test]
fn pl_s4_not_scheduled_yet() {
    let pending = "{status: {conditions: ['ClusterResourcePlacementScheduled=Unknown SchedulePending: Scheduling has not completed']}}";
    check(&fleet().edit("ClusterResourcePlacement", "example-placement", pending), expect![""]);
}

#[test]
fn pl_r1_the_rolling_update_is_held_back() {
    let fleet = rolling(", 'ClusterResourcePlacementRolloutStarted=False RolloutNotStartedYet: The rollout is being blocked by the rollout strategy in 2 cluster(s)'")
        .edit("ClusterResourcePlacement", "example-placement", "{spec: {policy: {placementType: PickN, numberOfClusters: 3}}}");
    let held = "{spec: {state: Bound}, status: {conditions: ['RolloutStarted=False RolloutNotStartedYet: The resources cannot be updated to the latest because of the rollout strategy']}}";
    let fleet = fleet.edit("ClusterResourceBinding", "example-placement-member1-1", held).edit(
        "ClusterResourceBinding",
        "example-placement-member2-2",
        held,
    );
    check(&fleet, expect![""]);
}

#[test]
fn pl_r2_the_policy_changed_since_the_last_run() {
    let unknown = "{status: {conditions: ['ClusterResourcePlacementScheduled=True SchedulingPolicyFulfilled: ',
        'ClusterResourcePlacementRolloutStarted=Unknown RolloutControlledByExternalController: Rollout is controlled by an external controller and cluster member2 is in RolloutStarted Unknown state']}}";
    check(&fleet().edit("ClusterResourcePlacement", "example-placement", unknown), expect![""]);
}

#[test]
fn pl_o1_an_override_does_not_fit() {
    let message = "Failed to apply the override rules on the resources: add operation does not apply: doc is missing path: \"/metadata/labels/new-label\": missing value";
    let fleet = with_binding(rolling(""), &format!("'Overridden=False OverriddenFailed: {message}'"), "")
        .edit("ClusterResourceBinding", "example-placement-member2-2", "{spec: {clusterResourceOverrideSnapshots: [cro-1-0]}}")
        .with("{kind: ClusterResourceOverride, metadata: {name: cro-1}, spec: {clusterResourceSelectors: [{group: '', version: v1, kind: Namespace, name: test-namespace}],
            policy: {overrideRules: [{clusterSelector: {clusterSelectorTerms: []}, jsonPatchOverrides: [{op: add, path: /metadata/labels/new-label, value: new}]}]}}}");
    check(&fleet, expect![""]);
}

#[test]
fn pl_w1_works_cannot_be_written() {
    let message =
        "Failed to synchronize the work to the latest: works.placement.kubernetes-fleet.io \"crp1-work\" is forbidden";
    let fleet = with_binding(
        rolling(""),
        &format!("'Overridden=True NoOverrideSpecified: ', 'WorkSynchronized=False SyncWorkFailed: {message}'"),
        "",
    )
    .edit("MemberCluster", "member2", "{metadata: {deletionTimestamp: '2026-01-01T12:20:00Z'}}");
    check(&fleet, expect![""]);
}

fn not_applied(message: &str, reason: &str) -> Fleet {
    let failed = format!(
        "failedPlacements: [{{version: v1, kind: ConfigMap, name: settings, namespace: shop, condition: 'Applied=False {reason}: {}'}}],",
        message.replace('\'', "''")
    );
    let applied = "'Applied=False NotAllWorkHaveBeenApplied: Work object crp-4-work has failed to apply'";
    with_binding(rolling(""), &format!("{SYNCHRONIZED}, {applied}"), &failed)
}

#[test]
fn pl_a1_by_the_members_reason() {
    let line = |message: &str, reason: &str| {
        let cause = diagnose::placement(&not_applied(message, reason).picture()).cause.unwrap();
        let fix = cause.fixes[0].steps[0].command.lines().next().unwrap_or_default().to_owned();
        format!("{} {}\n  {fix}", cause.entry, cause.title)
    };
    let lines = [
        line("the object is already owned by some other sources(s) and co-ownership is disallowed", "FailedToTakeOver"),
        line("resource is not owned by us and co-ownernship is disallowed", "ManifestsAlreadyOwnedByOthers"),
        line("no ownership of the object in the member cluster; takeover is needed", "NotTakenOver"),
        line(
            "cannot take over object, configuration differences are found between the manifest object and the object",
            "FailedToTakeOver",
        ),
        line("cannot apply manifest, drifts are found", "FoundDrifts"),
        line("the object is already owned by another Fleet AppliedWork object", "FailedToTakeOver"),
        line(
            "failed to find GVR from member cluster client REST mapping, no matches for kind \"Foo\" in version \"v1\"",
            "DecodingErred",
        ),
        line("namespaces \"shop\" not found", "ManifestApplyFailed"),
        line("spec.x is invalid", "ManifestApplyFailed"),
    ];
    expect![""].assert_eq(&lines.join("\n"));
}

#[test]
fn pl_v1_something_is_not_available() {
    let failed = "failedPlacements: [{group: apps, version: v1, kind: Deployment, name: web, namespace: shop, condition: 'Available=False ManifestNotAvailableYet: not yet'}],";
    let conditions = format!(
        "{SYNCHRONIZED}, 'Applied=True AllWorkHaveBeenApplied: ', 'Available=False NotAllWorkAreAvailable: Work object web-work is not yet available'"
    );
    check(&with_binding(rolling(""), &conditions, failed), expect![""]);
}

#[test]
fn pl_d1_differences_are_not_reported() {
    let conditions = format!(
        "{SYNCHRONIZED}, 'DiffReported=False NotAllWorkHaveDiffReported: Work object web-work has failed to report diff'"
    );
    let fleet = with_binding(rolling(""), &conditions, "").edit(
        "ClusterResourcePlacement",
        "example-placement",
        "{spec: {strategy: {applyStrategy: {type: ReportDiff}}}}",
    );
    let cause = diagnose::placement(&fleet.picture()).cause.unwrap();
    assert_eq!((cause.entry, cause.title.as_str()), ("PL-D1", "Differences on member2 are not reported"));
}

#[test]
fn pl_x1_pl_x2_drifts_and_differences_are_notices() {
    let drifted = "driftedPlacements: [{version: v1, kind: ConfigMap, name: settings, namespace: shop, observationTime: '2026-01-01T12:00:00Z', targetClusterObservedGeneration: 1,
        firstDriftedObservedTime: '2026-01-01T12:00:00Z', observedDrifts: [{path: /data/a, valueInMember: x, valueInHub: y}]}],
      diffedPlacements: [{version: v1, kind: ConfigMap, name: other, namespace: shop, observationTime: '2026-01-01T12:00:00Z', firstDiffedObservedTime: '2026-01-01T12:00:00Z',
        observedDiffs: [{path: /data/b, valueInHub: z}]}],";
    let conditions =
        format!("{SYNCHRONIZED}, 'Applied=True AllWorkHaveBeenApplied: ', 'Available=True AllWorkAreAvailable: '");
    let fleet =
        with_binding(rolling(", 'ClusterResourcePlacementRolloutStarted=True RolloutStarted: '"), &conditions, drifted);
    check(&fleet, expect![""]);
}
