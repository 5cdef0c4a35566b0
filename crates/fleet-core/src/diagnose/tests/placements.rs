//! Placements by themselves (PL-*, UR-01).

use expect_test::{Expect, expect};

use super::fixture::{Fleet, fleet, rendered};
use crate::diagnose::{self, Action};

fn check(fleet: &Fleet, expected: Expect) {
    expected.assert_eq(&rendered(&diagnose::placement(&fleet.inputs())));
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
    check(
        &placed[0],
        expect![[r#"
        Placement example-placement: ClusterResourcePlacementRolloutStarted is Unknown (RolloutControlledByExternalController).
        UR-01 Information: Placement example-placement waits for a run: nothing has been rolled out
          ClusterResourcePlacement example-placement spec.strategy.type = External
          ClusterResourcePlacement example-placement runs of the placement = none
          ClusterResourcePlacement example-placement status.conditions[ClusterResourcePlacementRolloutStarted] = Unknown RolloutControlledByExternalController: Rollout is controlled by an external controller and no resource snapshot name is observed across clusters, probably rollout has not started yet
        create a run:
          kubectl create -f - <<'EOF'
          apiVersion: placement.kubernetes-fleet.io/v1beta1
          kind: ClusterStagedUpdateRun
          metadata:
            name: example-placement-run
          spec:
            placementName: example-placement
            stagedRolloutStrategyName: example-strategy
            state: Run
          EOF
    "#]],
    );
    assert_eq!(diagnose::placement(&placed[1].inputs()).cause.unwrap().entry, "UR-01");
    let without_strategy = placed[0].clone().without("ClusterStagedUpdateStrategy", "example-strategy");
    let steps = diagnose::placement(&without_strategy.inputs()).cause.unwrap().fixes.remove(0).steps;
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
    check(
        &fleet,
        expect![[r#"
        Placement example-placement: ClusterResourcePlacementScheduled is False (SchedulingPolicyUnfulfilled).
        PL-S1 Error: Placement example-placement wants 2 clusters, and only 1 fit
          ClusterResourcePlacement example-placement status.conditions[ClusterResourcePlacementScheduled] = False SchedulingPolicyUnfulfilled: could not find all clusters needed as specified by the scheduling policy, found 1 cluster(s) instead
          ClusterSchedulingPolicySnapshot example-placement-0 status.targetClusters[member2] = ClusterUnschedulable, cluster does not match with any of the required cluster affinity terms
        label clusters so that they fit:
          kubectl label membercluster member2 env=prod --overwrite
        ask for fewer clusters, or let more join:
          kubectl patch crp example-placement --type=merge -p '{"spec":{"policy":{"numberOfClusters":1}}}'
    "#]],
    );
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
    check(
        &fleet,
        expect![[r#"
        Placement example-placement: ClusterResourcePlacementScheduled is False (SchedulingPolicyUnfulfilled).
        PL-S2 Error: Placement example-placement names clusters that cannot be used: membr2
          ClusterResourcePlacement example-placement status.conditions[ClusterResourcePlacementScheduled] = False SchedulingPolicyUnfulfilled: could not find all the clusters needed as specified by the scheduling policy
          ClusterSchedulingPolicySnapshot example-placement-0 status.targetClusters[membr2] = Specified cluster "membr2" is not found
          ClusterResourcePlacement example-placement spec.policy.clusterNames = member1, membr2
        name clusters that exist:
          kubectl patch crp example-placement --type=merge -p '{"spec":{"policy":{"clusterNames":["member1","member2"]}}}'
    "#]],
    );
}

#[test]
fn pl_s2_a_named_cluster_is_not_eligible() {
    let placement = "{spec: {policy: {placementType: PickFixed, clusterNames: [member2]}}, status: {conditions: ['ClusterResourcePlacementScheduled=False SchedulingPolicyUnfulfilled: ']}}";
    let decisions = "{status: {targetClusters: [{clusterName: member2, selected: false, reason: 'Cluster \"member2\" is not eligible for resource placement yet: cluster is not connected to the fleet'}]}}";
    let fleet = fleet()
        .edit("ClusterResourcePlacement", "example-placement", placement)
        .edit("ClusterSchedulingPolicySnapshot", "example-placement-0", decisions)
        .edit("MemberCluster", "member2", "{status: {conditions: []}}");
    let cause = diagnose::placement(&fleet.inputs()).cause.unwrap();
    assert_eq!((cause.entry, cause.title.as_str()), ("PL-S2", "Cluster member2 has not joined the fleet"));
}

#[test]
fn pl_s3_a_reserved_namespace_is_selected() {
    let placement = "{spec: {resourceSelectors: [{group: '', version: v1, kind: Namespace, name: kube-system}, {group: '', version: v1, kind: Namespace, name: shop}]},
        status: {conditions: ['ClusterResourcePlacementScheduled=False InvalidResourceSelectors: The resource selectors are invalid: namespace kube-system is not allowed to propagate']}}";
    check(
        &fleet().edit("ClusterResourcePlacement", "example-placement", placement),
        expect![[r#"
        Placement example-placement: ClusterResourcePlacementScheduled is False (InvalidResourceSelectors).
        PL-S3 Error: The resource selectors of placement example-placement are invalid
          ClusterResourcePlacement example-placement status.conditions[ClusterResourcePlacementScheduled] = False InvalidResourceSelectors: The resource selectors are invalid: namespace kube-system is not allowed to propagate
          ClusterResourcePlacement example-placement spec.resourceSelectors = v1 Namespace kube-system; v1 Namespace shop
        fix the selectors:
          kubectl patch crp example-placement --type=merge -p '{"spec":{"resourceSelectors":[{"group":"","kind":"Namespace","name":"shop","version":"v1"}]}}'
    "#]],
    );
}

#[test]
fn pl_s3_only_the_refused_selector_is_removed() {
    let kept = |complaint: &str| {
        let placement = format!(
            "{{spec: {{resourceSelectors: [{{group: '', version: v1, kind: Namespace, name: example-placement}}, {{group: '', version: v1, kind: Namespace, name: kube-system}},
              {{group: example.com, version: v1, kind: Gizmo, name: one}}]}},
            status: {{conditions: ['ClusterResourcePlacementScheduled=False InvalidResourceSelectors: The resource selectors are invalid: {complaint}']}}}}"
        );
        let fleet = fleet().edit("ClusterResourcePlacement", "example-placement", &placement);
        let fix = diagnose::placement(&fleet.inputs()).cause.unwrap().fixes.remove(0);
        let Some(Action::Patch { patch, .. }) = &fix.steps[0].action else { panic!("{fix:?}") };
        let names =
            patch["spec"]["resourceSelectors"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap());
        names.collect::<Vec<_>>().join(" ")
    };
    // The placement has the name of a namespace that it selects; reserved namespaces are removed in any case.
    let reserved =
        "invalid clusterRresourcePlacement example-placement: namespace kube-system is not allowed to propagate";
    assert_eq!(kept(reserved), "example-placement one");
    let unknown = "invalid placement /example-placement, failed to get GVR of the selector: no matches for kind \"Gizmo\" in version \"example.com/v1\"";
    assert_eq!(kept(unknown), "example-placement");
}

#[test]
fn pl_n1_too_few_clusters_have_the_namespace() {
    let placement = "{spec: {policy: {placementType: PickN, numberOfClusters: 2}}, status: {conditions: ['ResourcePlacementScheduled=False SchedulingPolicyUnfulfilled: ']}}";
    let decisions = "{status: {targetClusters: [{clusterName: member1, selected: true, reason: picked}, {clusterName: member2, selected: false, reason: 'ClusterUnschedulable, target namespace does not exist on cluster'}]}}";
    let mut inputs = fleet()
        .edit("ClusterResourcePlacement", "example-placement", placement)
        .edit("ClusterSchedulingPolicySnapshot", "example-placement-0", decisions)
        .without("ClusterResourceBinding", "example-placement-member2-2")
        .inputs();
    inputs.namespace = Some("shop".to_owned());
    expect![[r#"
        Placement example-placement: ResourcePlacementScheduled is False (SchedulingPolicyUnfulfilled).
        PL-S1 PL-N1 Error: Placement example-placement wants 2 clusters, and only 1 fit
          ResourcePlacement shop/example-placement status.conditions[ResourcePlacementScheduled] = False SchedulingPolicyUnfulfilled
          ClusterSchedulingPolicySnapshot example-placement-0 status.targetClusters[member2] = ClusterUnschedulable, target namespace does not exist on cluster
        create the namespace on the members, or place it by a ClusterResourcePlacement:
          kubectl --context member2 create -f - <<'EOF'
          apiVersion: v1
          kind: Namespace
          metadata:
            name: shop
          EOF
        ask for fewer clusters, or let more join:
          kubectl patch rp example-placement -n shop --type=merge -p '{"spec":{"policy":{"numberOfClusters":1}}}'
    "#]].assert_eq(&rendered(&diagnose::placement(&inputs)));
}

#[test]
fn audit_06_no_fix_creates_a_reserved_namespace() {
    let placement = "{spec: {policy: {placementType: PickN, numberOfClusters: 2}}, status: {conditions: ['ResourcePlacementScheduled=False SchedulingPolicyUnfulfilled: ']}}";
    let decisions = "{status: {targetClusters: [{clusterName: member2, selected: false, reason: 'ClusterUnschedulable, target namespace does not exist on cluster'}]}}";
    let mut inputs = fleet()
        .edit("ClusterResourcePlacement", "example-placement", placement)
        .edit("ClusterSchedulingPolicySnapshot", "example-placement-0", decisions)
        .without("ClusterResourceBinding", "example-placement-member2-2")
        .inputs();
    inputs.namespace = Some("fleet-member-member1".to_owned());
    let cause = diagnose::placement(&inputs).cause.unwrap();
    assert_eq!(
        (cause.entry, cause.title.as_str()),
        ("PL-S3", "Placement example-placement is in a reserved namespace, so the hub agent ignores it")
    );
    let found = diagnose::cluster(&inputs, "member2", std::slice::from_ref(&inputs));
    let creates = |one: &diagnose::Finding| {
        let mut steps = one.fixes.iter().flat_map(|fix| &fix.steps);
        steps.any(|step| matches!(step.action, Some(Action::Create { .. })))
    };
    assert!(!found.cause.iter().chain(&found.notices).any(creates) && !creates(&cause), "{found:?} {cause:?}");

    // A member's report must not lead to the creation of a reserved namespace either.
    let failed = "failedPlacements: [{version: v1, kind: ConfigMap, name: settings, namespace: kube-evil, condition: 'Applied=False ManifestApplyFailed: namespaces \"kube-evil\" not found'}],";
    let fleet =
        with_binding(rolling(""), &format!("{SYNCHRONIZED}, 'Applied=False NotAllWorkHaveBeenApplied: '"), failed);
    let cause = diagnose::placement(&fleet.inputs()).cause.unwrap();
    assert!(cause.entry == "PL-N1" && !creates(&cause), "{cause:?}");
}

#[test]
fn pl_n2_a_cluster_scoped_resource_is_selected() {
    let placement = "{spec: {resourceSelectors: [{group: '', version: v1, kind: Namespace, name: shop}]},
        status: {conditions: ['ClusterResourcePlacementScheduled=False InvalidResourceSelectors: invalid placement shop/p, cannot select cluster-scoped resource Namespace in a resourcePlacement']}}";
    let cause = diagnose::placement(&fleet().edit("ClusterResourcePlacement", "example-placement", placement).inputs())
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
    check(
        &fleet().edit("ClusterResourcePlacement", "example-placement", pending),
        expect![[r#"
        Placement example-placement: ClusterResourcePlacementScheduled is Unknown (SchedulePending).
        PL-S4 Warning: Placement example-placement has not been scheduled yet
          ClusterResourcePlacement example-placement status.conditions[ClusterResourcePlacementScheduled] = Unknown SchedulePending: Scheduling has not completed
        wait; if this persists, start the hub agent:
          kubectl get pods -A -l app.kubernetes.io/name=hub-agent
    "#]],
    );
}

#[test]
fn pl_s4_the_hub_agent_does_not_process_the_placement() {
    let at = |created: &str, edited: &str, status: &str| {
        let edits = format!(
            "[{{manager: kubectl, operation: Update, time: '{edited}'}}, {{manager: hub, operation: Update, subresource: status, time: '2026-01-01T12:29:59Z'}}]"
        );
        let change = format!(
            "{{metadata: {{generation: 2, creationTimestamp: '{created}', managedFields: {edits}}}, status: {{conditions: [{status}]}}}}"
        );
        fleet().edit("ClusterResourcePlacement", "example-placement", &change)
    };
    let (long_ago, just_now) = ("2026-01-01T12:00:00Z", "2026-01-01T12:29:30Z");
    check(
        &at(long_ago, long_ago, ""),
        expect![[r#"
        Placement example-placement has not been reconciled yet.
        PL-S4 Warning: The hub agent does not process placement example-placement
          ClusterResourcePlacement example-placement metadata.generation = 2 since 2026-01-01T12:00:00Z
          ClusterResourcePlacement example-placement status.conditions about scheduling = none
        wait; if this persists, start the hub agent:
          kubectl get pods -A -l app.kubernetes.io/name=hub-agent
    "#]],
    );
    let older = "'ClusterResourcePlacementScheduled=True SchedulingPolicyFulfilled: of the first generation'";
    check(
        &at(long_ago, long_ago, older),
        expect![[r#"
        Placement example-placement is being rolled out; clusters: 2.
        PL-S4 Warning: The hub agent does not process placement example-placement
          ClusterResourcePlacement example-placement metadata.generation = 2 since 2026-01-01T12:00:00Z
          ClusterResourcePlacement example-placement status.conditions about scheduling = True SchedulingPolicyFulfilled: of the first generation, about generation 1
        wait; if this persists, start the hub agent:
          kubectl get pods -A -l app.kubernetes.io/name=hub-agent
    "#]],
    );
    assert_eq!(diagnose::placement(&at(long_ago, just_now, older).inputs()).cause, None, "that takes a moment");
}

const PENDING: &str = "{status: {conditions: ['ClusterResourcePlacementScheduled=Unknown SchedulePending: Scheduling has not completed']}}";

#[test]
fn pl_s4_a_policy_that_names_no_cluster() {
    let policy = "{placementType: PickFixed, clusterNames: []}";
    let fleet = fleet()
        .edit("ClusterResourcePlacement", "example-placement", PENDING)
        .edit("ClusterResourcePlacement", "example-placement", &format!("{{spec: {{policy: {policy}}}}}"))
        .edit(
            "ClusterSchedulingPolicySnapshot",
            "example-placement-0",
            &format!("{{spec: {{policy: {policy}}}, status: null}}"),
        );
    check(
        &fleet,
        expect![[r#"
        Placement example-placement: ClusterResourcePlacementScheduled is Unknown (SchedulePending).
        PL-S4 Warning: Placement example-placement names no cluster
          ClusterResourcePlacement example-placement spec.policy.clusterNames = none
        name clusters:
          kubectl patch crp example-placement --type=merge -p '{"spec":{"policy":{"clusterNames":["<cluster>"]}}}'
    "#]],
    );
}

#[test]
fn pl_s4_a_policy_that_the_scheduler_cannot_apply() {
    let policy = "{placementType: PickAll, affinity: {clusterAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {clusterSelectorTerms: [
        {propertySelector: {matchExpressions: [{name: example.com/rating, operator: Ge, values: [high]}]}}]}}}}";
    let property =
        "{status: {properties: {example.com/rating: {value: '5', observationTime: '2026-01-01T12:00:00Z'}}}}";
    let fleet = fleet()
        .edit("ClusterResourcePlacement", "example-placement", PENDING)
        .edit("ClusterSchedulingPolicySnapshot", "example-placement-0", &format!("{{spec: {{policy: {policy}}}}}"))
        .edit("MemberCluster", "member1", property);
    check(
        &fleet,
        expect![[r#"
        Placement example-placement: ClusterResourcePlacementScheduled is Unknown (SchedulePending).
        PL-S4 Error: The scheduler cannot apply the policy of placement example-placement
          ClusterResourcePlacement example-placement what the scheduler says = property "example.com/rating" is compared with "high", which is no quantity: quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'
        fix the scheduling policy:
          kubectl edit crp example-placement
    "#]],
    );
}

#[test]
fn pl_s4_a_name_that_no_binding_can_carry() {
    let named = "{spec: {policy: {placementType: PickFixed, clusterNames: [member1, dotted.name]}}}";
    let dotted = "{kind: MemberCluster, metadata: {name: dotted.name}, spec: {identity: {kind: User, name: a}}, status: {
        conditions: ['Joined=True MemberClusterJoined: '],
        agentStatus: [{type: MemberAgent, conditions: ['Joined=True A: ', 'Healthy=True A: '], lastReceivedHeartbeat: '2026-01-01T12:29:30Z'}]}}";
    let fleet = fleet().with(dotted).edit("ClusterResourcePlacement", "example-placement", PENDING).edit(
        "ClusterSchedulingPolicySnapshot",
        "example-placement-0",
        named,
    );
    check(
        &fleet,
        expect![[r#"
        Placement example-placement: ClusterResourcePlacementScheduled is Unknown (SchedulePending).
        PL-S4 Error: The scheduler cannot apply the policy of placement example-placement
          ClusterResourcePlacement example-placement what the scheduler says = no binding can be named: "example-placement-dotted.name-7aa9d7a5" cannot be the name of a binding: must not contain dots
        create it again:
          by hand
    "#]],
    );
}

#[test]
fn pl_s4_invalid_snapshots() {
    let second = "{kind: ClusterSchedulingPolicySnapshot, metadata: {name: example-placement-1, labels: {
        kubernetes-fleet.io/is-latest-snapshot: 'true', kubernetes-fleet.io/policy-index: '1'}}, spec: {policyHash: ''}}";
    check(
        &fleet().with(second),
        expect![[r#"
        Placement example-placement is being rolled out; clusters: 2.
        PL-S4 Error: The hub agent has stopped at placement example-placement
          ClusterResourcePlacement example-placement what the hub agent says = 2 policy snapshots are marked as the latest
        mark only the newest snapshot as the latest:
          kubectl label clusterschedulingpolicysnapshot example-placement-0 kubernetes-fleet.io/is-latest-snapshot=false --overwrite
    "#]],
    );
    let unlabelled = "{metadata: {labels: {kubernetes-fleet.io/resource-index: null}}}";
    check(
        &fleet().edit("ClusterResourceSnapshot", "example-placement-0-snapshot", unlabelled),
        expect![[r#"
        Placement example-placement is being rolled out; clusters: 2.
        PL-S4 Error: The hub agent has stopped at placement example-placement
          ClusterResourcePlacement example-placement what the hub agent says = snapshot "example-placement-0-snapshot" does not say which index it has
        set its index label:
          kubectl label clusterresourcesnapshot example-placement-0-snapshot kubernetes-fleet.io/resource-index=0 --overwrite
    "#]],
    );
    let garbled = "{metadata: {annotations: {kubernetes-fleet.io/CRP-generation: second}}}";
    let hashed = fleet().edit(
        "ClusterSchedulingPolicySnapshot",
        "example-placement-0",
        &format!("{{spec: {{policyHash: {}}}}}", serde_json::to_value(fleet_api::hashes::policy_hash(None)).unwrap()),
    );
    check(
        &hashed.edit("ClusterSchedulingPolicySnapshot", "example-placement-0", garbled),
        expect![[r#"
        Placement example-placement is being rolled out; clusters: 2.
        PL-S4 Error: The hub agent has stopped at placement example-placement
          ClusterResourcePlacement example-placement what the hub agent says = policy snapshot "example-placement-0" has a malformed annotation "kubernetes-fleet.io/CRP-generation"
        remove the annotation; the hub agent writes it again:
          kubectl patch clusterschedulingpolicysnapshot example-placement-0 --type=merge -p '{"metadata":{"annotations":{"kubernetes-fleet.io/CRP-generation":null}}}'
    "#]],
    );
}

#[test]
fn pl_s4_a_placement_whose_name_is_too_long() {
    let name = "x".repeat(64);
    let mut inputs = fleet().inputs();
    inputs.placement.as_mut().unwrap().metadata.name = Some(name.clone());
    inputs.placement.as_mut().unwrap().status = None;
    let cause = diagnose::placement(&inputs).cause.unwrap();
    let title = format!("Nothing can be done for placement {name}");
    assert_eq!((cause.entry, &cause.title), ("PL-S4", &title));
    assert!(cause.evidence[0].value.contains("no more than 63 bytes"), "{cause:#?}");
}

#[test]
fn pl_r1_the_rolling_update_is_blocked() {
    let fleet = rolling(", 'ClusterResourcePlacementRolloutStarted=False RolloutNotStartedYet: The rollout is being blocked by the rollout strategy in 2 cluster(s)'")
        .edit("ClusterResourcePlacement", "example-placement", "{spec: {policy: {placementType: PickN, numberOfClusters: 3}}}");
    let held = "{spec: {state: Bound}, status: {conditions: ['RolloutStarted=False RolloutNotStartedYet: The resources cannot be updated to the latest because of the rollout strategy']}}";
    let fleet = fleet.edit("ClusterResourceBinding", "example-placement-member1-1", held).edit(
        "ClusterResourceBinding",
        "example-placement-member2-2",
        held,
    );
    check(
        &fleet,
        expect![[r#"
        Placement example-placement: ClusterResourcePlacementRolloutStarted is False (RolloutNotStartedYet).
        PL-R1 Warning: The rolling update of placement example-placement is blocked by its own limits
          ClusterResourcePlacement example-placement status.conditions[ClusterResourcePlacementRolloutStarted] = False RolloutNotStartedYet: The rollout is being blocked by the rollout strategy in 2 cluster(s)
          ClusterResourceBinding example-placement-member1-1 status.conditions[RolloutStarted] = False RolloutNotStartedYet: The resources cannot be updated to the latest because of the rollout strategy
          ClusterResourceBinding example-placement-member2-2 status.conditions[RolloutStarted] = False RolloutNotStartedYet: The resources cannot be updated to the latest because of the rollout strategy
          ClusterResourcePlacement example-placement spec.strategy.rollingUpdate.maxUnavailable = 25% (the default)
          ClusterResourcePlacement example-placement clusters = 3 wanted, 1 missing, 0 not available, 2 held back
        raise maxUnavailable, let the missing clusters join or fix those that fail:
          kubectl patch crp example-placement --type=merge -p '{"spec":{"strategy":{"rollingUpdate":{"maxUnavailable":2}}}}'
    "#]],
    );
}

#[test]
fn pl_r2_the_policy_changed_since_the_last_run() {
    let unknown = "{status: {conditions: ['ClusterResourcePlacementScheduled=True SchedulingPolicyFulfilled: ',
        'ClusterResourcePlacementRolloutStarted=Unknown RolloutControlledByExternalController: Rollout is controlled by an external controller and cluster member2 is in RolloutStarted Unknown state']}}";
    check(
        &fleet().edit("ClusterResourcePlacement", "example-placement", unknown),
        expect![[r#"
        Placement example-placement: ClusterResourcePlacementRolloutStarted is Unknown (RolloutControlledByExternalController).
        PL-R2 Warning: The selected clusters have changed since the last run
          ClusterResourcePlacement example-placement status.conditions[ClusterResourcePlacementRolloutStarted] = Unknown RolloutControlledByExternalController: Rollout is controlled by an external controller and cluster member2 is in RolloutStarted Unknown state
        create a run:
          kubectl create -f - <<'EOF'
          apiVersion: placement.kubernetes-fleet.io/v1beta1
          kind: ClusterStagedUpdateRun
          metadata:
            name: example-placement-run
          spec:
            placementName: example-placement
            stagedRolloutStrategyName: example-strategy
            state: Run
          EOF
    "#]],
    );
}

#[test]
fn pl_o1_an_override_does_not_fit() {
    let message = "Failed to apply the override rules on the resources: add operation does not apply: doc is missing path: \"/metadata/labels/new-label\": missing value";
    let fleet = with_binding(rolling(""), &format!("'Overridden=False OverriddenFailed: {message}'"), "")
        .edit("ClusterResourceBinding", "example-placement-member2-2", "{spec: {clusterResourceOverrideSnapshots: [cro-1-0]}}")
        .with("{kind: ClusterResourceOverride, metadata: {name: cro-1}, spec: {clusterResourceSelectors: [{group: '', version: v1, kind: Namespace, name: test-namespace}],
            policy: {overrideRules: [{clusterSelector: {clusterSelectorTerms: []}, jsonPatchOverrides: [{op: add, path: /metadata/labels/new-label, value: new}]}]}}}");
    check(
        &fleet,
        expect![[r#"
            Placement example-placement is being rolled out; clusters: 2.
            PL-O1 Error: ClusterResourceOverride cro-1 cannot be applied for cluster member2: there is nothing at /metadata/labels/new-label
              ClusterResourceBinding example-placement-member2-2 status.conditions[Overridden] for member2 = False OverriddenFailed: Failed to apply the override rules on the resources: add operation does not apply: doc is missing path: "/metadata/labels/new-label": missing value
              ClusterResourceOverride cro-1 spec.policy.overrideRules = {"op":"add","path":"/metadata/labels/new-label","value":"new"}
            fix the override:
              kubectl patch clusterresourceoverride cro-1 --type=merge -p '{"spec":{"policy":{"overrideRules":[{"clusterSelector":{"clusterSelectorTerms":[]},"jsonPatchOverrides":[{"op":"add","path":"/metadata/labels","value":{"new-label":"new"}}]}]}}}'
        "#]],
    );
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
    check(
        &fleet,
        expect![[r#"
            Placement example-placement is being rolled out; clusters: 2.
            PL-W1 Error: Cluster member2 is leaving the fleet
              ClusterResourceBinding example-placement-member2-2 status.conditions[WorkSynchronized] for member2 = False SyncWorkFailed: Failed to synchronize the work to the latest: works.placement.kubernetes-fleet.io "crp1-work" is forbidden
              MemberCluster member2 metadata.deletionTimestamp = 2026-01-01T12:20:00Z
            wait until it has left; it can join again afterwards:
              kubectl get membercluster member2 -o yaml
        "#]],
    );
}

#[test]
fn pl_w1_an_envelope_cannot_be_opened() {
    let message = "Failed to synchronize the work to the latest: a cluster scope object role.yaml (lost) has been wrapped in a resource envelope shop/letter";
    let fleet = with_binding(
        rolling(""),
        &format!("'Overridden=True NoOverrideSpecified: ', 'WorkSynchronized=False SyncWorkFailed: {message}'"),
        "",
    );
    check(
        &fleet,
        expect![[r#"
        Placement example-placement is being rolled out; clusters: 2.
        PL-W1 Error: ResourceEnvelope shop/letter cannot be opened: entry role.yaml cannot be in it
          ClusterResourceBinding example-placement-member2-2 status.conditions[WorkSynchronized] for member2 = False SyncWorkFailed: Failed to synchronize the work to the latest: a cluster scope object role.yaml (lost) has been wrapped in a resource envelope shop/letter
        take the entry out; place it by itself or in an envelope of the right kind:
          kubectl patch resourceenvelope letter -n shop --type=merge -p '{"data":{"role.yaml":null}}'
        fix the entry:
          kubectl edit resourceenvelope letter -n shop
    "#]],
    );
}

pub(super) fn not_applied(message: &str, reason: &str) -> Fleet {
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
        let cause = diagnose::placement(&not_applied(message, reason).inputs()).cause.unwrap();
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
    expect![[r#"
        PL-A1 ConfigMap shop/settings on member2 has other owners
          kubectl patch crp example-placement --type=merge -p '{"spec":{"strategy":{"applyStrategy":{"allowCoOwnership":true}}}}'
        PL-A1 ConfigMap shop/settings on member2 has other owners
          kubectl patch crp example-placement --type=merge -p '{"spec":{"strategy":{"applyStrategy":{"allowCoOwnership":true}}}}'
        PL-A1 ConfigMap shop/settings on member2 existed before, and the placement does not take over existing objects
          kubectl patch crp example-placement --type=merge -p '{"spec":{"strategy":{"applyStrategy":{"whenToTakeOver":"Always"}}}}'
        PL-A1 ConfigMap shop/settings on member2 existed before and differs from the hub, so it is not taken over
          kubectl patch crp example-placement --type=merge -p '{"spec":{"strategy":{"applyStrategy":{"whenToTakeOver":"Always"}}}}'
        PL-A1 ConfigMap shop/settings on member2 was changed on the member, so it is not applied
          kubectl patch crp example-placement --type=merge -p '{"spec":{"strategy":{"applyStrategy":{"whenToApply":"Always"}}}}'
        PL-A1 ConfigMap shop/settings on member2 is also placed by another placement
          kubectl --context member2 get appliedworks -o yaml
        PL-A1 Cluster member2 does not know the kind ConfigMap
          kubectl --context member2 api-resources
        PL-N1 Namespace shop does not exist on member2, so ConfigMap cannot be applied
          kubectl --context member2 create -f - <<'EOF'
        PL-A1 ConfigMap shop/settings on member2 could not be applied
          kubectl edit configmap settings -n shop"#]].assert_eq(&lines.join("\n"));
}

#[test]
fn pl_v1_something_is_not_available() {
    let failed = "failedPlacements: [{group: apps, version: v1, kind: Deployment, name: web, namespace: shop, condition: 'Available=False ManifestNotAvailableYet: not yet'}],";
    let conditions = format!(
        "{SYNCHRONIZED}, 'Applied=True AllWorkHaveBeenApplied: ', 'Available=False NotAllWorkAreAvailable: Work object web-work is not yet available'"
    );
    check(
        &with_binding(rolling(""), &conditions, failed),
        expect![[r#"
            Placement example-placement is being rolled out; clusters: 2.
            PL-V1 Error: Deployment shop/web on member2 is not available
              ClusterResourceBinding example-placement-member2-2 status.conditions[Available] for member2 = False NotAllWorkAreAvailable: Work object web-work is not yet available
              Deployment shop/web on member2 condition[Available] = False ManifestNotAvailableYet: not yet
            inspect the member, then fix the resource on the hub:
              kubectl --context member2 get deployment,pods,events -n shop
              kubectl edit deployment web -n shop
        "#]],
    );
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
    let cause = diagnose::placement(&fleet.inputs()).cause.unwrap();
    assert_eq!((cause.entry, cause.title.as_str()), ("PL-D1", "Differences on member2 are not reported"));
    // Bindings do not list objects that could not be compared; the Work has a condition per manifest.
    let told_by_work = |said: &str| {
        let work = format!(
            "{{kind: Work, metadata: {{name: web-work, namespace: fleet-member-member2}}, spec: {{}}, status: {{conditions: [], manifestConditions: [
              {{identifier: {{ordinal: 0, version: v1, kind: ConfigMap, name: a, namespace: shop}}, conditions: ['DiffReported=True NoDiffFound: ']}},
              {{identifier: {{ordinal: 1, group: example.com, version: v1, kind: Toy, name: bear, namespace: shop}}, conditions: ['DiffReported=False FailedToReportDiff: {said}']}}]}}}}"
        );
        diagnose::placement(&fleet.clone().with(&work).inputs()).cause.unwrap()
    };
    let cause = told_by_work("the server is tired");
    assert_eq!(cause.title, "Toy shop/bear on member2 cannot be compared with the hub");
    assert_eq!(cause.fixes[0].steps[0].command, "kubectl edit toy.example.com bear -n shop");
    let cause = told_by_work("no matches for kind \"Toy\" in version \"example.com/v1\"");
    assert_eq!((cause.entry, cause.title.as_str()), ("PL-D1", "Cluster member2 does not know the kind Toy"));
}

#[test]
fn pl_x1_pl_x2_drifts_and_differences_are_notices() {
    let drifted = "driftedPlacements: [{version: v1, kind: ConfigMap, name: settings, namespace: shop, observationTime: '2026-01-01T12:00:00Z', targetClusterObservedGeneration: 1,
        firstDriftedObservedTime: '2026-01-01T12:00:00Z', observedDrifts: [{path: /data/a, valueInMember: old, valueInHub: new}]}],
      diffedPlacements: [{version: v1, kind: ConfigMap, name: other, namespace: shop, observationTime: '2026-01-01T12:00:00Z', firstDiffedObservedTime: '2026-01-01T12:00:00Z',
        observedDiffs: [{path: /data/b, valueInHub: hub}]}],";
    let conditions =
        format!("{SYNCHRONIZED}, 'Applied=True AllWorkHaveBeenApplied: ', 'Available=True AllWorkAreAvailable: '");
    let fleet =
        with_binding(rolling(", 'ClusterResourcePlacementRolloutStarted=True RolloutStarted: '"), &conditions, drifted);
    check(
        &fleet,
        expect![[r#"
        Placement example-placement is being rolled out; clusters: 2.
        nothing
        also PL-X1 Warning: ConfigMap shop/settings on member2 was changed on the member
        also PL-X2 Information: ConfigMap shop/other on member2differs from the hub
    "#]],
    );
    let fixes = |strategy: &str| {
        let change = format!("{{spec: {{strategy: {{applyStrategy: {strategy}}}}}}}");
        let found =
            diagnose::placement(&fleet.clone().edit("ClusterResourcePlacement", "example-placement", &change).inputs());
        let commands = found.notices.iter().flat_map(|notice| &notice.fixes).flat_map(|fix| &fix.steps);
        commands.map(|step| step.command.clone()).collect::<Vec<_>>().join("\n")
    };
    assert_eq!(fixes("{}"), "");
    expect![[r#"kubectl patch crp example-placement --type=merge -p '{"spec":{"strategy":{"applyStrategy":{"whenToApply":"Always"}}}}'"#]].assert_eq(&fixes("{whenToApply: IfNotDrifted}"));
    expect![[r#"kubectl patch crp example-placement --type=merge -p '{"spec":{"strategy":{"applyStrategy":{"comparisonOption":"PartialComparison"}}}}'"#]].assert_eq(&fixes("{comparisonOption: FullComparison}"));
    expect![[r#"kubectl patch crp example-placement --type=merge -p '{"spec":{"strategy":{"applyStrategy":{"type":"ClientSideApply"}}}}'"#]].assert_eq(&fixes("{type: ReportDiff}"));
}
