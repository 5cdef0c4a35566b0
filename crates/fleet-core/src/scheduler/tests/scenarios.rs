//! Acceptance scenarios of PickAll and of scheduling in general. Test names contain the scenario's number.

use expect_test::{Expect, expect};
use fleet_api::kinds::ClusterResourcePlacement;
use fleet_api::names::PlacementKey;
use fleet_api::types::BindingState;
use fleet_api::well_known::annotations;
use serde_json::json;

use super::fixture::{Fixture, now};
use super::render::render;
use super::scenarios_pick_fixed::fixed;
use crate::scheduler::BindingFacts;

fn check(fixture: &mut Fixture, expected: Expect) {
    expected.assert_eq(&fixture.run());
}

fn required(terms: &str) -> String {
    format!(
        "{{placementType: PickAll, affinity: {{clusterAffinity: {{requiredDuringSchedulingIgnoredDuringExecution: {{clusterSelectorTerms: [{terms}]}}}}}}}}"
    )
}

const PROD_EAST_WEST: &str = "{labelSelector: {matchLabels: {env: prod}, matchExpressions: [{key: region, operator: In, values: [east, west]}]}}";

#[test]
fn scheduling_01_without_policy_every_eligible_cluster_is_picked() {
    check(
        &mut Fixture::with_policy(""),
        expect![[r#"
        hold placement
        create c1 Scheduled (0,0)
        create c2 Scheduled (0,0)
        create c3 Scheduled (0,0)
        create c4 Scheduled (0,0)
        create c5 Scheduled (0,0)
        create c6 Scheduled (0,0)
        create c7 Scheduled (0,0)
        status of generation 1
          Scheduled=True SchedulingPolicyFulfilled: found all cluster needed as specified by the scheduling policy, found 7 cluster(s)
          + c1 (0,0) … "c1" (affinity score: 0, topology spread score: 0): picked
          + c2 (0,0) … "c2" (affinity score: 0, topology spread score: 0): picked
          + c3 (0,0) … "c3" (affinity score: 0, topology spread score: 0): picked
          + c4 (0,0) … "c4" (affinity score: 0, topology spread score: 0): picked
          + c5 (0,0) … "c5" (affinity score: 0, topology spread score: 0): picked
          + c6 (0,0) … "c6" (affinity score: 0, topology spread score: 0): picked
          + c7 (0,0) … "c7" (affinity score: 0, topology spread score: 0): picked
          - c9 ClusterUnschedulable, cluster has left the fleet
          - c8 ClusterUnschedulable, cluster is not connected to the fleet: no recent heartbeat signals (last received 7.00 minutes ago)"#]],
    );
}

#[test]
fn scheduling_02_a_joining_cluster_gets_a_binding_and_the_others_keep_theirs() {
    let mut fixture = Fixture::with_policy("");
    fixture.run();
    fixture.set_clusters("new-cluster");
    check(
        &mut fixture,
        expect![[r#"
        create new-cluster Scheduled (0,0)
        status of generation 1
          Scheduled=True SchedulingPolicyFulfilled: found all cluster needed as specified by the scheduling policy, found 8 cluster(s)
          + new-cluster (0,0) … "new-cluster" (affinity score: 0, topology spread score: 0): picked
          + c1 (0,0) … "c1" (affinity score: 0, topology spread score: 0): picked
          + c2 (0,0) … "c2" (affinity score: 0, topology spread score: 0): picked
          + c3 (0,0) … "c3" (affinity score: 0, topology spread score: 0): picked
          + c4 (0,0) … "c4" (affinity score: 0, topology spread score: 0): picked
          + c5 (0,0) … "c5" (affinity score: 0, topology spread score: 0): picked
          + c6 (0,0) … "c6" (affinity score: 0, topology spread score: 0): picked
          + c7 (0,0) … "c7" (affinity score: 0, topology spread score: 0): picked
          - c9 ClusterUnschedulable, cluster has left the fleet
          - c8 ClusterUnschedulable, cluster is not connected to the fleet: no recent heartbeat signals (last received 7.00 minutes ago)"#]],
    );
}

#[test]
fn scheduling_03_an_old_heartbeat_removes_nothing() {
    let mut fixture = Fixture::with_policy("");
    fixture.run();
    fixture.change("c1", "heartbeat=6m");
    check(&mut fixture, expect![[""]]);
}

#[test]
fn scheduling_04_one_required_term() {
    check(
        &mut Fixture::with_policy(&required(PROD_EAST_WEST)),
        expect![[r#"
        hold placement
        create c1 Scheduled (0,0)
        create c2 Scheduled (0,0)
        create c6 Scheduled (0,0)
        status of generation 1
          Scheduled=True SchedulingPolicyFulfilled: found all cluster needed as specified by the scheduling policy, found 3 cluster(s)
          + c1 (0,0) … "c1" (affinity score: 0, topology spread score: 0): picked
          + c2 (0,0) … "c2" (affinity score: 0, topology spread score: 0): picked
          + c6 (0,0) … "c6" (affinity score: 0, topology spread score: 0): picked
          - c3 ClusterUnschedulable, cluster does not match with any of the required cluster affinity terms
          - c4 ClusterUnschedulable, cluster does not match with any of the required cluster affinity terms
          - c5 ClusterUnschedulable, cluster does not match with any of the required cluster affinity terms
          - c7 ClusterUnschedulable, cluster does not match with any of the required cluster affinity terms
          - c9 ClusterUnschedulable, cluster does not match with any of the required cluster affinity terms
          - c8 ClusterUnschedulable, cluster is not connected to the fleet: no recent heartbeat signals (last received 7.00 minutes ago)"#]],
    );
}

#[test]
fn scheduling_05_required_terms_are_alternatives() {
    let mut fixture = Fixture::with_policy(&required(
        "{labelSelector: {matchLabels: {region: west}}}, {labelSelector: {matchLabels: {env: canary, region: east}}}",
    ));
    expect![[r#"
        c3 Scheduled web-0 (0,0)
        c6 Scheduled web-0 (0,0)
        c7 Scheduled web-0 (0,0)"#]]
    .assert_eq(&fixture.run_to_bindings());
}

#[test]
fn scheduling_06_pick_all_that_finds_nothing_is_fulfilled() {
    check(
        &mut Fixture::with_policy(&required("{labelSelector: {matchLabels: {no: such}}}")),
        expect![[r#"
        hold placement
        status of generation 1
          Scheduled=True SchedulingPolicyFulfilled: found all cluster needed as specified by the scheduling policy, found 0 cluster(s)
          - c1 ClusterUnschedulable, cluster does not match with any of the required cluster affinity terms
          - c2 ClusterUnschedulable, cluster does not match with any of the required cluster affinity terms
          - c3 ClusterUnschedulable, cluster does not match with any of the required cluster affinity terms
          - c4 ClusterUnschedulable, cluster does not match with any of the required cluster affinity terms
          - c5 ClusterUnschedulable, cluster does not match with any of the required cluster affinity terms
          - c6 ClusterUnschedulable, cluster does not match with any of the required cluster affinity terms
          - c7 ClusterUnschedulable, cluster does not match with any of the required cluster affinity terms
          - c9 ClusterUnschedulable, cluster does not match with any of the required cluster affinity terms
          - c8 ClusterUnschedulable, cluster does not match with any of the required cluster affinity terms"#]],
    );
}

fn after_policy_change() -> Fixture {
    let mut fixture = Fixture::with_policy(&required(PROD_EAST_WEST));
    fixture.run();
    fixture.set_state(&["c1", "c6"], &BindingState::Bound);
    fixture.set_policy(&required("{labelSelector: {matchLabels: {region: west, env: prod}}}"));
    fixture
}

#[test]
fn scheduling_07_a_new_policy_keeps_the_state_of_clusters_that_still_match() {
    check(
        &mut after_policy_change(),
        expect![[r#"
        associate c6 Bound web-1 (0,0)
        unschedule c1 was Bound
        unschedule c2 was Scheduled
        status of generation 2
          Scheduled=True SchedulingPolicyFulfilled: found all cluster needed as specified by the scheduling policy, found 1 cluster(s)
          + c6 (0,0) … "c6" (affinity score: 0, topology spread score: 0): picked
          - c1 ClusterUnschedulable, cluster does not match with any of the required cluster affinity terms
          - c2 ClusterUnschedulable, cluster does not match with any of the required cluster affinity terms
          - c3 ClusterUnschedulable, cluster does not match with any of the required cluster affinity terms
          - c4 ClusterUnschedulable, cluster does not match with any of the required cluster affinity terms
          - c5 ClusterUnschedulable, cluster does not match with any of the required cluster affinity terms
          - c7 ClusterUnschedulable, cluster does not match with any of the required cluster affinity terms
          - c9 ClusterUnschedulable, cluster does not match with any of the required cluster affinity terms
          - c8 ClusterUnschedulable, cluster does not match with any of the required cluster affinity terms"#]],
    );
}

#[test]
fn scheduling_08_changing_back_revives_the_same_bindings() {
    let mut fixture = after_policy_change();
    fixture.run();
    fixture.set_policy(&required(PROD_EAST_WEST));
    check(
        &mut fixture,
        expect![[r#"
        associate c6 Bound web-2 (0,0)
        associate c1 Bound web-2 (0,0)
        associate c2 Scheduled web-2 (0,0)
        status of generation 3
          Scheduled=True SchedulingPolicyFulfilled: found all cluster needed as specified by the scheduling policy, found 3 cluster(s)
          + c6 (0,0) … "c6" (affinity score: 0, topology spread score: 0): picked
          + c1 (0,0) … "c1" (affinity score: 0, topology spread score: 0): picked
          + c2 (0,0) … "c2" (affinity score: 0, topology spread score: 0): picked
          - c3 ClusterUnschedulable, cluster does not match with any of the required cluster affinity terms
          - c4 ClusterUnschedulable, cluster does not match with any of the required cluster affinity terms
          - c5 ClusterUnschedulable, cluster does not match with any of the required cluster affinity terms
          - c7 ClusterUnschedulable, cluster does not match with any of the required cluster affinity terms
          - c9 ClusterUnschedulable, cluster does not match with any of the required cluster affinity terms
          - c8 ClusterUnschedulable, cluster is not connected to the fleet: no recent heartbeat signals (last received 7.00 minutes ago)"#]],
    );
    assert_eq!(fixture.bindings.len(), 3);
}

#[test]
fn scheduling_34_an_untolerated_taint_excludes_a_cluster() {
    let mut fixture = Fixture::with_policy(&required(PROD_EAST_WEST).replace(
        "placementType: PickAll",
        "placementType: PickAll, tolerations: [{key: a, operator: Exists}, {key: b, value: x, operator: Equal}]",
    ));
    fixture.change("c1", "taint=a:1");
    fixture.change("c2", "taint=b:x");
    fixture.change("c6", "taint=c:y");
    check(
        &mut fixture,
        expect![[r#"
        hold placement
        create c1 Scheduled (0,0)
        create c2 Scheduled (0,0)
        status of generation 1
          Scheduled=True SchedulingPolicyFulfilled: found all cluster needed as specified by the scheduling policy, found 2 cluster(s)
          + c1 (0,0) … "c1" (affinity score: 0, topology spread score: 0): picked
          + c2 (0,0) … "c2" (affinity score: 0, topology spread score: 0): picked
          - c3 ClusterUnschedulable, cluster does not match with any of the required cluster affinity terms
          - c4 ClusterUnschedulable, cluster does not match with any of the required cluster affinity terms
          - c5 ClusterUnschedulable, cluster does not match with any of the required cluster affinity terms
          - c6 ClusterUnschedulable, taint &{Key:c Value:y Effect:NoSchedule} cannot be tolerated
          - c7 ClusterUnschedulable, cluster does not match with any of the required cluster affinity terms
          - c9 ClusterUnschedulable, cluster does not match with any of the required cluster affinity terms
          - c8 ClusterUnschedulable, cluster is not connected to the fleet: no recent heartbeat signals (last received 7.00 minutes ago)"#]],
    );
}

#[test]
fn scheduling_35_a_new_taint_changes_nothing() {
    let mut fixture = Fixture::with_policy("");
    fixture.run();
    fixture.change("c1", "taint=a:b");
    let bindings = fixture.bindings.clone();
    // The duplicate decision of the picked cluster is left out, so there is nothing to write either.
    assert!(fixture.plan().is_idle());
    assert_eq!(fixture.bindings, bindings);
}

#[test]
fn scheduling_36_a_cluster_without_its_taint_is_picked() {
    let mut fixture = Fixture::with_policy("");
    fixture.change("c1", "taint=a:b");
    fixture.run();
    fixture.change("c1", "");
    check(
        &mut fixture,
        expect![[r#"
        create c1 Scheduled (0,0)
        status of generation 1
          Scheduled=True SchedulingPolicyFulfilled: found all cluster needed as specified by the scheduling policy, found 7 cluster(s)
          + c1 (0,0) … "c1" (affinity score: 0, topology spread score: 0): picked
          + c2 (0,0) … "c2" (affinity score: 0, topology spread score: 0): picked
          + c3 (0,0) … "c3" (affinity score: 0, topology spread score: 0): picked
          + c4 (0,0) … "c4" (affinity score: 0, topology spread score: 0): picked
          + c5 (0,0) … "c5" (affinity score: 0, topology spread score: 0): picked
          + c6 (0,0) … "c6" (affinity score: 0, topology spread score: 0): picked
          + c7 (0,0) … "c7" (affinity score: 0, topology spread score: 0): picked
          - c9 ClusterUnschedulable, cluster has left the fleet
          - c8 ClusterUnschedulable, cluster is not connected to the fleet: no recent heartbeat signals (last received 7.00 minutes ago)"#]],
    );
}

#[test]
fn scheduling_37_properties_are_evaluated_only_when_picking() {
    let mut fixture = Fixture::with_policy(&required(
        "{propertySelector: {matchExpressions: [{name: resources.kubernetes-fleet.io/available-cpu, operator: Ge, values: ['6']}]}}",
    ));
    expect![[r#"
        c3 Scheduled web-0 (0,0)
        c5 Scheduled web-0 (0,0)"#]]
    .assert_eq(&fixture.run_to_bindings());
    fixture.change("c3", "cpu=12/11/4");
    fixture.change("c5", "cpu=32/30/4");
    fixture.change("c7", "cpu=16/14/8");
    expect![[r#"
        c3 Scheduled web-0 (0,0)
        c5 Scheduled web-0 (0,0)
        c7 Scheduled web-0 (0,0)"#]]
    .assert_eq(&fixture.run_to_bindings());
}

#[test]
fn scheduling_38_a_namespaced_placement_is_scheduled_where_its_namespace_exists() {
    let mut fixture = Fixture::new("a ns=other,ns\nb ns=other\nc\nd ns=");
    fixture.set_policy("");
    fixture.key = PlacementKey::parse("ns/web").unwrap();
    check(
        &mut fixture,
        expect![[r#"
        hold placement
        create a Scheduled (0,0)
        create c Scheduled (0,0)
        status of generation 1
          Scheduled=True SchedulingPolicyFulfilled: found all cluster needed as specified by the scheduling policy, found 2 cluster(s)
          + a (0,0) … "a" (affinity score: 0, topology spread score: 0): picked
          + c (0,0) … "c" (affinity score: 0, topology spread score: 0): picked
          - b ClusterUnschedulable, target namespace does not exist on cluster
          - d ClusterUnschedulable, cluster has no namespace information available"#]],
    );
    fixture.set_clusters("b ns=ns");
    expect![[r#"
        a Scheduled web-0 (0,0)
        b Scheduled web-0 (0,0)
        c Scheduled web-0 (0,0)"#]]
    .assert_eq(&fixture.run_to_bindings());
    assert_eq!(fixture.bindings[0].metadata.namespace.as_deref(), Some("ns"));

    let mut cluster_scoped = Fixture::new("a ns=other,ns\nb ns=other\nc\nd ns=");
    cluster_scoped.set_policy("");
    expect![[r#"
        a Scheduled web-0 (0,0)
        b Scheduled web-0 (0,0)
        c Scheduled web-0 (0,0)
        d Scheduled web-0 (0,0)"#]]
    .assert_eq(&cluster_scoped.run_to_bindings());
}

#[test]
fn scheduling_39_a_deleted_cluster_loses_its_binding() {
    let mut fixture = Fixture::with_policy("{placementType: PickN, numberOfClusters: 2}");
    fixture.run();
    fixture.remove_cluster("c7");
    check(
        &mut fixture,
        expect![[r#"
            unschedule c7 was Scheduled
            explain 8 clusters
            create c5 Scheduled (0,0)
            status of generation 1
              Scheduled=True SchedulingPolicyFulfilled: found all cluster needed as specified by the scheduling policy, found 2 cluster(s)
              + c5 (0,0) … "c5" (affinity score: 0, topology spread score: 0): picked
              + c6 (0,0) … "c6" (affinity score: 0, topology spread score: 0): picked
              - c4 (0,0) Cluster "c4" does not score high enough (affinity score: 0, topology spread score: 0)
              - c3 (0,0) Cluster "c3" does not score high enough (affinity score: 0, topology spread score: 0)
              - c2 (0,0) Cluster "c2" does not score high enough (affinity score: 0, topology spread score: 0)
              - c1 (0,0) Cluster "c1" does not score high enough (affinity score: 0, topology spread score: 0)
              - c9 ClusterUnschedulable, cluster has left the fleet
              - c8 ClusterUnschedulable, cluster is not connected to the fleet: no recent heartbeat signals (last received 7.00 minutes ago)"#]],
    );
    // A plan made for another reason treats a leaving cluster in the same way.
    fixture.change("c6", "leaving");
    check(
        &mut fixture,
        expect![[r#"
            unschedule c6 was Scheduled
            explain 8 clusters
            create c4 Scheduled (0,0)
            status of generation 1
              Scheduled=True SchedulingPolicyFulfilled: found all cluster needed as specified by the scheduling policy, found 2 cluster(s)
              + c4 (0,0) … "c4" (affinity score: 0, topology spread score: 0): picked
              + c5 (0,0) … "c5" (affinity score: 0, topology spread score: 0): picked
              - c3 (0,0) Cluster "c3" does not score high enough (affinity score: 0, topology spread score: 0)
              - c2 (0,0) Cluster "c2" does not score high enough (affinity score: 0, topology spread score: 0)
              - c1 (0,0) Cluster "c1" does not score high enough (affinity score: 0, topology spread score: 0)
              - c6 ClusterUnschedulable, cluster has left the fleet
              - c9 ClusterUnschedulable, cluster has left the fleet
              - c8 ClusterUnschedulable, cluster is not connected to the fleet: no recent heartbeat signals (last received 7.00 minutes ago)"#]],
    );
}

#[test]
fn audit_20_a_binding_of_a_former_membership_is_unscheduled_until_its_cluster_is_picked_again() {
    let mut fixture = Fixture::new("m1 uid=1");
    fixture.set_policy("");
    fixture.run();
    fixture.set_state(&["m1"], &BindingState::Bound);
    // It has left and come back; its agent has not joined yet.
    fixture.set_clusters("m1 uid=2 joined=False");
    check(
        &mut fixture,
        expect![[r#"
        unschedule m1 was Bound
        status of generation 1
          Scheduled=True SchedulingPolicyFulfilled: found all cluster needed as specified by the scheduling policy, found 0 cluster(s)
          - m1 ClusterUnschedulable, cluster is not connected to the fleet: member agent not joined yet"#]],
    );
    fixture.set_clusters("m1 uid=2");
    check(
        &mut fixture,
        expect![[r#"
        associate m1 Bound web-0 (0,0)
        status of generation 1
          Scheduled=True SchedulingPolicyFulfilled: found all cluster needed as specified by the scheduling policy, found 1 cluster(s)
          + m1 (0,0) … "m1" (affinity score: 0, topology spread score: 0): picked"#]],
    );
    assert_eq!(BindingFacts::of(fixture.binding_mut("m1")).cluster_uid, Some("2"));
    // It has left and joined again since the last plan.
    fixture.set_clusters("m1 uid=3");
    check(&mut fixture, expect!["associate m1 Bound web-0 (0,0)"]);
    assert_eq!(BindingFacts::of(fixture.binding_mut("m1")).cluster_uid, Some("3"));
    // Other releases record no uid.
    fixture.binding_mut("m1").metadata.annotations = None;
    fixture.set_clusters("m1 uid=4");
    assert!(fixture.plan().is_idle());
}

#[test]
fn scheduling_40_deletion_removes_all_finalizers_without_waiting() {
    let mut fixture = Fixture::with_policy(&fixed(&["c1", "c4"]));
    fixture.run();
    fixture.binding_mut("c4").metadata.finalizers.as_mut().unwrap().push("example.com/other".to_owned());
    fixture.deleting = true;
    check(
        &mut fixture,
        expect![[r#"
        release c1
        delete c1
        release c4
        delete c4
        release placement
        Deleting"#]],
    );
    expect!["c4 Scheduled web-0 deleting"].assert_eq(&fixture.bindings_text());
}

#[test]
fn a_deleted_placement_that_abandons_keeps_its_bindings_until_they_are_annotated() {
    let mut fixture = Fixture::with_policy(&fixed(&["c1", "c4"]));
    fixture.run();
    (fixture.deleting, fixture.abandons) = (true, true);
    let abandon = |fixture: &mut Fixture, short: &str| {
        let note = (annotations::DELETE_PROPAGATION.to_owned(), "Abandon".to_owned());
        fixture.binding_mut(short).metadata.annotations.get_or_insert_default().extend([note]);
    };
    abandon(&mut fixture, "c1");
    check(&mut fixture, expect!["AwaitingAbandonment"]);
    abandon(&mut fixture, "c4");
    check(
        &mut fixture,
        expect![[r#"
        release c1
        delete c1
        release c4
        delete c4
        release placement
        Deleting"#]],
    );
}

#[test]
fn scheduling_42_an_evicted_cluster_that_still_fits_is_picked_again() {
    let mut fixture = Fixture::with_policy(&fixed(&["c1", "c4"]));
    fixture.run();
    let evicted = fixture.binding_mut("c1");
    evicted.metadata.deletion_timestamp = Some(serde_json::from_value(json!(now())).unwrap());
    evicted.metadata.finalizers.as_mut().unwrap().push("example.com/other".to_owned());
    check(
        &mut fixture,
        expect![[r#"
        release c1
        create c1 Scheduled"#]],
    );
    expect![[r#"
        c1 Scheduled web-0
        c1 Scheduled web-0 deleting
        c4 Scheduled web-0"#]]
    .assert_eq(&fixture.bindings_text());
}

#[test]
fn scheduling_58_audit_08_a_property_that_is_not_a_quantity_counts_as_absent() {
    let mut fixture = Fixture::with_policy("");
    fixture.run();
    fixture.set_policy(&required(
        "{propertySelector: {matchExpressions: [{name: kubernetes-fleet.io/node-count, operator: Ge, values: ['6']}]}}",
    ));
    fixture.change("c9", "nodes=many");
    fixture.remove_cluster("c1");
    let text = fixture.run();
    assert!(!text.contains("stopped"), "{text}");
    assert!(
        text.contains(
            "cluster does not match with any of the required cluster affinity terms: property \
         \"kubernetes-fleet.io/node-count\" has the value \"many\", which is not a quantity"
        ),
        "{text}"
    );
    assert!(text.contains("ignored because their values are not usable quantities: property"), "{text}");
}

#[test]
fn without_exactly_one_latest_policy_nothing_is_scheduled() {
    let mut fixture = Fixture::with_policy("");
    fixture.snapshots.push(fixture.snapshots[0].clone());
    check(&mut fixture, expect!["AmbiguousPolicy { snapshots: 2 }"]);
    fixture.snapshots.clear();
    check(&mut fixture, expect!["AwaitingPolicy"]);
}

#[test]
fn a_released_placement_is_not_planned() {
    let mut fixture = Fixture::with_policy("");
    fixture.deleting = true;
    check(&mut fixture, expect!["Deleting"]);
}

#[test]
fn a_policy_snapshot_without_a_generation_gets_bindings_but_no_status() {
    let mut fixture = Fixture::with_policy(&fixed(&["c1"]));
    fixture.annotate(annotations::PLACEMENT_GENERATION, Some("new".to_owned()));
    check(
        &mut fixture,
        expect![[r#"
        hold placement
        create c1 Scheduled
        stopped: policy snapshot "web-0" does not say which generation of the placement it reflects"#]],
    );
}

#[test]
fn an_unscheduled_binding_without_a_previous_state_stops_scheduling() {
    let mut fixture = after_policy_change();
    fixture.run();
    fixture.set_policy(&required(PROD_EAST_WEST));
    fixture.binding_mut("c1").metadata.annotations = None;
    check(
        &mut fixture,
        expect![[r#"stopped: unscheduled binding "web-c1-c0871431" does not say which state it had before"#]],
    );
    let annotation = (annotations::PREVIOUS_BINDING_STATE.to_owned(), "Unscheduled".to_owned());
    fixture.binding_mut("c1").metadata.annotations = Some([annotation].into());
    expect![[r#"
        associate c6 Bound web-2 (0,0)
        associate c1 Scheduled web-2 (0,0)
        associate c2 Scheduled web-2 (0,0)
        status of generation 3
          Scheduled=True SchedulingPolicyFulfilled: found all cluster needed as specified by the scheduling policy, found 3 cluster(s)
          + c6 (0,0) … "c6" (affinity score: 0, topology spread score: 0): picked
          + c1 (0,0) … "c1" (affinity score: 0, topology spread score: 0): picked
          + c2 (0,0) … "c2" (affinity score: 0, topology spread score: 0): picked
          - c3 ClusterUnschedulable, cluster does not match with any of the required cluster affinity terms
          - c4 ClusterUnschedulable, cluster does not match with any of the required cluster affinity terms
          - c5 ClusterUnschedulable, cluster does not match with any of the required cluster affinity terms
          - c7 ClusterUnschedulable, cluster does not match with any of the required cluster affinity terms
          - c9 ClusterUnschedulable, cluster does not match with any of the required cluster affinity terms
          - c8 ClusterUnschedulable, cluster is not connected to the fleet: no recent heartbeat signals (last received 7.00 minutes ago)"#]].assert_eq(&render(&fixture, &fixture.plan()));
}

#[test]
fn names_with_dots_cannot_be_bound() {
    let mut fixture = Fixture::new("a.b\nc");
    fixture.set_policy("");
    check(
        &mut fixture,
        expect![[r#"
        hold placement
        stopped: no binding can be named"#]],
    );
    fixture.set_clusters("a.b taint=a:b");
    check(
        &mut fixture,
        expect![[r#"
        create c Scheduled (0,0)
        status of generation 1
          Scheduled=True SchedulingPolicyFulfilled: found all cluster needed as specified by the scheduling policy, found 1 cluster(s)
          + c (0,0) … "c" (affinity score: 0, topology spread score: 0): picked
          - a.b ClusterUnschedulable, taint &{Key:a Value:b Effect:NoSchedule} cannot be tolerated"#]],
    );
}

#[test]
fn placement_facts_are_read_from_the_object() {
    let placement: ClusterResourcePlacement = serde_json::from_value(json!({
        "apiVersion": "placement.kubernetes-fleet.io/v1beta1",
        "kind": "ClusterResourcePlacement",
        "metadata": {
            "name": "web",
            "deletionTimestamp": now(),
            "finalizers": ["kubernetes-fleet.io/scheduler-cleanup"],
        },
        "spec": {"resourceSelectors": []},
    }))
    .unwrap();
    let key = PlacementKey::parse("web").unwrap();
    let facts = crate::scheduler::PlacementFacts::of(&key, &placement);
    assert!(facts.deleting && facts.has_finalizer);
}
