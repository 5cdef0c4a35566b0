//! Acceptance scenarios of PickN. Test names contain the scenario's number.

use expect_test::{Expect, expect};
use fleet_api::types::BindingState;
use fleet_api::well_known::annotations;

use super::fixture::{Fixture, old_binding};
use super::render::report_text;

fn check(fixture: &mut Fixture, expected: Expect) {
    expected.assert_eq(&fixture.run());
}

/// A policy for this number of clusters; `rest` are further fields.
fn pick_n(number: usize, rest: &str) -> String {
    format!("{{placementType: PickN, numberOfClusters: {number}, {rest}}}")
}

fn preferred(terms: &str) -> String {
    format!("affinity: {{clusterAffinity: {{preferredDuringSchedulingIgnoredDuringExecution: [{terms}]}}}}")
}

fn labelled(weight: i32, labels: &str) -> String {
    format!("{{weight: {weight}, preference: {{labelSelector: {{matchLabels: {{{labels}}}}}}}}}")
}

fn sorted(weight: i32, property: &str, order: &str) -> String {
    format!("{{weight: {weight}, preference: {{propertySorter: {{name: {property}, sortOrder: {order}}}}}}}")
}

fn spread(constraints: &[(&str, i32, &str)]) -> String {
    let constraint = |(key, skew, action): &(&str, i32, &str)| {
        format!("{{topologyKey: {key}, maxSkew: {skew}, whenUnsatisfiable: {action}}}")
    };
    let all: Vec<String> = constraints.iter().map(constraint).collect();
    format!("topologySpreadConstraints: [{}]", all.join(", "))
}

const NODE_COUNT: &str = "kubernetes-fleet.io/node-count";
const RATING: &str = "test.only/energy-efficiency-rating";

fn scores(fixture: &Fixture) -> String {
    report_text(&fixture.plan())
}

#[test]
fn scheduling_15_ties_go_to_the_last_of_the_alphabet() {
    check(
        &mut Fixture::with_policy(&pick_n(3, "")),
        expect![[r#"
            hold placement
            explain 9 clusters
            create c7 Scheduled (0,0)
            create c6 Scheduled (0,0)
            create c5 Scheduled (0,0)
            status of generation 1
              Scheduled=True SchedulingPolicyFulfilled: found all cluster needed as specified by the scheduling policy, found 3 cluster(s)
              + c7 (0,0) … "c7" (affinity score: 0, topology spread score: 0): picked
              + c6 (0,0) … "c6" (affinity score: 0, topology spread score: 0): picked
              + c5 (0,0) … "c5" (affinity score: 0, topology spread score: 0): picked
              - c4 (0,0) Cluster "c4" does not score high enough (affinity score: 0, topology spread score: 0)
              - c3 (0,0) Cluster "c3" does not score high enough (affinity score: 0, topology spread score: 0)
              - c2 (0,0) Cluster "c2" does not score high enough (affinity score: 0, topology spread score: 0)
              - c1 (0,0) Cluster "c1" does not score high enough (affinity score: 0, topology spread score: 0)
              - c9 ClusterUnschedulable, cluster has left the fleet
              - c8 ClusterUnschedulable, cluster is not connected to the fleet: no recent heartbeat signals (last received 7.00 minutes ago)"#]],
    );
}

#[test]
fn scheduling_16_too_few_clusters_leave_the_policy_unfulfilled() {
    check(
        &mut Fixture::with_policy(&pick_n(10, "")),
        expect![[r#"
            hold placement
            explain 9 clusters
            create c7 Scheduled (0,0)
            create c6 Scheduled (0,0)
            create c5 Scheduled (0,0)
            create c4 Scheduled (0,0)
            create c3 Scheduled (0,0)
            create c2 Scheduled (0,0)
            create c1 Scheduled (0,0)
            status of generation 1
              Scheduled=False SchedulingPolicyUnfulfilled: could not find all clusters needed as specified by the scheduling policy, found 7 cluster(s) instead
              + c7 (0,0) … "c7" (affinity score: 0, topology spread score: 0): picked
              + c6 (0,0) … "c6" (affinity score: 0, topology spread score: 0): picked
              + c5 (0,0) … "c5" (affinity score: 0, topology spread score: 0): picked
              + c4 (0,0) … "c4" (affinity score: 0, topology spread score: 0): picked
              + c3 (0,0) … "c3" (affinity score: 0, topology spread score: 0): picked
              + c2 (0,0) … "c2" (affinity score: 0, topology spread score: 0): picked
              + c1 (0,0) … "c1" (affinity score: 0, topology spread score: 0): picked
              - c9 ClusterUnschedulable, cluster has left the fleet
              - c8 ClusterUnschedulable, cluster is not connected to the fleet: no recent heartbeat signals (last received 7.00 minutes ago)"#]],
    );
}

#[test]
fn scheduling_17_zero_clusters_is_fulfilled() {
    check(
        &mut Fixture::with_policy(&pick_n(0, "")),
        expect![[r#"
        hold placement
        status of generation 1
          Scheduled=True SchedulingPolicyFulfilled: found all cluster needed as specified by the scheduling policy, found 0 cluster(s)"#]],
    );
}

#[test]
fn scheduling_18_scaling_up_keeps_the_picked_clusters() {
    let mut fixture = Fixture::with_policy(&pick_n(1, ""));
    fixture.run();
    fixture.set_number(3);
    check(
        &mut fixture,
        expect![[r#"
            explain 9 clusters
            create c6 Scheduled (0,0)
            create c5 Scheduled (0,0)
            status of generation 2
              Scheduled=True SchedulingPolicyFulfilled: found all cluster needed as specified by the scheduling policy, found 3 cluster(s)
              + c6 (0,0) … "c6" (affinity score: 0, topology spread score: 0): picked
              + c5 (0,0) … "c5" (affinity score: 0, topology spread score: 0): picked
              + c7 (0,0) … "c7" (affinity score: 0, topology spread score: 0): picked
              - c4 (0,0) Cluster "c4" does not score high enough (affinity score: 0, topology spread score: 0)
              - c3 (0,0) Cluster "c3" does not score high enough (affinity score: 0, topology spread score: 0)
              - c2 (0,0) Cluster "c2" does not score high enough (affinity score: 0, topology spread score: 0)
              - c1 (0,0) Cluster "c1" does not score high enough (affinity score: 0, topology spread score: 0)
              - c9 ClusterUnschedulable, cluster has left the fleet
              - c8 ClusterUnschedulable, cluster is not connected to the fleet: no recent heartbeat signals (last received 7.00 minutes ago)"#]],
    );
}

#[test]
fn scheduling_19_scaling_down_drops_the_smallest_names() {
    let mut fixture = Fixture::with_policy(&pick_n(3, ""));
    fixture.run();
    fixture.set_number(1);
    expect![[r#"
        c5 dropped
        c6 dropped
        c7 kept"#]]
    .assert_eq(&report_text(&fixture.plan()));
    check(
        &mut fixture,
        expect![[r#"
        unschedule c5 was Scheduled
        unschedule c6 was Scheduled
        status of generation 2
          Scheduled=True SchedulingPolicyFulfilled: found all cluster needed as specified by the scheduling policy, found 1 cluster(s)
          + c7 (0,0) … "c7" (affinity score: 0, topology spread score: 0): picked"#]],
    );
}

#[test]
fn scheduling_20_scheduled_clusters_are_dropped_before_bound_ones() {
    let mut fixture = Fixture::with_policy(&pick_n(3, ""));
    fixture.run();
    fixture.set_state(&["c5", "c6"], &BindingState::Bound);
    fixture.set_number(1);
    check(
        &mut fixture,
        expect![[r#"
        unschedule c7 was Scheduled
        unschedule c5 was Bound
        status of generation 2
          Scheduled=True SchedulingPolicyFulfilled: found all cluster needed as specified by the scheduling policy, found 1 cluster(s)
          + c6 (0,0) … "c6" (affinity score: 0, topology spread score: 0): picked"#]],
    );
}

#[test]
fn scheduling_21_a_preference() {
    let terms = preferred(&labelled(10, "region: central, env: prod"));
    expect![[r#"
        c4 Scheduled web-0 (10,0)
        c5 Scheduled web-0 (10,0)
        c6 Scheduled web-0 (0,0)
        c7 Scheduled web-0 (0,0)"#]]
    .assert_eq(&Fixture::with_policy(&pick_n(4, &terms)).run_to_bindings());
}

#[test]
fn scheduling_22_two_preferences() {
    let terms = [labelled(10, "region: central, env: prod"), labelled(20, "region: east, env: canary")];
    expect![[r#"
        c3 Scheduled web-0 (20,0)
        c4 Scheduled web-0 (10,0)
        c5 Scheduled web-0 (10,0)
        c7 Scheduled web-0 (0,0)"#]]
    .assert_eq(&Fixture::with_policy(&pick_n(4, &preferred(&terms.join(", ")))).run_to_bindings());
}

#[test]
fn scheduling_23_few_nodes_first() {
    let terms = preferred(&sorted(100, NODE_COUNT, "Ascending"));
    expect![[r#"
        c1 picked (86,0)
        c2 not picked (57,0)
        c3 not picked (29,0)
        c4 picked (86,0)
        c5 not picked (0,0)
        c6 picked (86,0)
        c7 not picked (0,0)
        c9 rejected by ClusterEligibility
        c8 rejected by ClusterEligibility"#]]
    .assert_eq(&scores(&Fixture::with_policy(&pick_n(3, &terms))));
}

#[test]
fn scheduling_24_many_nodes_first() {
    let terms = preferred(&sorted(100, NODE_COUNT, "Descending"));
    expect![[r#"
        c1 not picked (14,0)
        c2 not picked (43,0)
        c3 picked (71,0)
        c4 not picked (14,0)
        c5 picked (100,0)
        c6 not picked (14,0)
        c7 picked (100,0)
        c9 rejected by ClusterEligibility
        c8 rejected by ClusterEligibility"#]]
    .assert_eq(&scores(&Fixture::with_policy(&pick_n(3, &terms))));
}

#[test]
fn scheduling_25_three_sorters_add_up() {
    let terms = [
        sorted(100, NODE_COUNT, "Ascending"),
        sorted(80, RATING, "Descending"),
        sorted(60, "resources.kubernetes-fleet.io/allocatable-memory", "Descending"),
    ];
    expect![[r#"
        c1 picked (168,0)
        c2 not picked (108,0)
        c3 not picked (68,0)
        c4 picked (146,0)
        c5 not picked (46,0)
        c6 picked (135,0)
        c7 not picked (60,0)
        c9 rejected by ClusterEligibility
        c8 rejected by ClusterEligibility"#]]
    .assert_eq(&scores(&Fixture::with_policy(&pick_n(3, &preferred(&terms.join(", "))))));
}

#[test]
fn scheduling_26_a_sorter_among_labelled_clusters() {
    let term = "{weight: 100, preference: {labelSelector: {matchLabels: {env: canary}}, propertySorter: {name: resources.kubernetes-fleet.io/available-cpu, sortOrder: Descending}}}";
    expect![[r#"
        c1 not picked (0,0)
        c2 not picked (0,0)
        c3 picked (75,0)
        c4 not picked (0,0)
        c5 picked (0,0)
        c6 picked (0,0)
        c7 picked (50,0)
        c9 rejected by ClusterEligibility
        c8 rejected by ClusterEligibility"#]]
    .assert_eq(&scores(&Fixture::with_policy(&pick_n(4, &preferred(term)))));
}

#[test]
fn scheduling_27_a_property_that_is_equal_everywhere() {
    let nowhere = preferred(&sorted(100, "example.com/nowhere", "Descending"));
    expect![[r#"
        c5 Scheduled web-0 (0,0)
        c6 Scheduled web-0 (0,0)
        c7 Scheduled web-0 (0,0)"#]]
    .assert_eq(&Fixture::with_policy(&pick_n(3, &nowhere)).run_to_bindings());
    let same = preferred(&sorted(100, NODE_COUNT, "Descending"));
    let mut fixture = Fixture::new("a nodes=3\nb nodes=3\nc nodes=3000m\nd nodes=3");
    fixture.set_policy(&pick_n(3, &same));
    expect![[r#"
        b Scheduled web-0 (0,0)
        c Scheduled web-0 (0,0)
        d Scheduled web-0 (0,0)"#]]
    .assert_eq(&fixture.run_to_bindings());
}

#[test]
fn scheduling_28_do_not_schedule_spread() {
    check(
        &mut Fixture::with_policy(&pick_n(2, &spread(&[("region", 1, "DoNotSchedule")]))),
        expect![[r#"
            hold placement
            explain 9 clusters
            create c7 Scheduled (0,-1)
            create c5 Scheduled (0,0)
            status of generation 1
              Scheduled=True SchedulingPolicyFulfilled: found all cluster needed as specified by the scheduling policy, found 2 cluster(s)
              + c5 (0,0) … "c5" (affinity score: 0, topology spread score: 0): picked
              + c7 (0,-1) … "c7" (affinity score: 0, topology spread score: -1): picked
              - c4 (0,0) Cluster "c4" does not score high enough (affinity score: 0, topology spread score: 0)
              - c3 (0,0) Cluster "c3" does not score high enough (affinity score: 0, topology spread score: 0)
              - c2 (0,0) Cluster "c2" does not score high enough (affinity score: 0, topology spread score: 0)
              - c1 (0,0) Cluster "c1" does not score high enough (affinity score: 0, topology spread score: 0)
              - c6 ClusterUnschedulable, violated doNotSchedule topology spread constraint "region" (max skew 1)
              - c9 ClusterUnschedulable, cluster has left the fleet
              - c8 ClusterUnschedulable, cluster is not connected to the fleet: no recent heartbeat signals (last received 7.00 minutes ago)"#]],
    );
}

#[test]
fn scheduling_29_schedule_anyway_spread() {
    let fixture = Fixture::with_policy(&pick_n(2, &spread(&[("region", 1, "ScheduleAnyway")])));
    expect![[r#"
        c1 not picked (0,0)
        c2 not picked (0,0)
        c3 not picked (0,0)
        c4 not picked (0,0)
        c5 picked (0,0)
        c6 not picked (0,-1000)
        c7 picked (0,-1)
        c9 rejected by ClusterEligibility
        c8 rejected by ClusterEligibility"#]]
    .assert_eq(&scores(&fixture));
}

#[test]
fn scheduling_30_two_spreads_add_up() {
    let both = spread(&[("region", 1, "ScheduleAnyway"), ("env", 1, "ScheduleAnyway")]);
    expect![[r#"
        c1 not picked (0,1)
        c2 not picked (0,1)
        c3 not picked (0,-1000)
        c4 not picked (0,1)
        c5 picked (0,1)
        c6 not picked (0,-999)
        c7 picked (0,-2)
        c9 rejected by ClusterEligibility
        c8 rejected by ClusterEligibility"#]]
    .assert_eq(&scores(&Fixture::with_policy(&pick_n(2, &both))));
}

fn scenario_31() -> Fixture {
    let affinity = "affinity: {clusterAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {clusterSelectorTerms: [{labelSelector: {matchLabels: {env: prod}}}]}, preferredDuringSchedulingIgnoredDuringExecution: [{weight: 40, preference: {labelSelector: {matchLabels: {region: east}}}}]}}";
    let spread = spread(&[("env", 2, "ScheduleAnyway"), ("region", 1, "DoNotSchedule")]);
    Fixture::with_policy(&pick_n(3, &format!("{affinity}, {spread}")))
}

#[test]
fn scheduling_31_required_preferred_and_spread_together() {
    check(
        &mut scenario_31(),
        expect![[r#"
            hold placement
            explain 9 clusters
            create c2 Scheduled (40,-2)
            create c6 Scheduled (0,-1)
            create c5 Scheduled (0,-999)
            status of generation 1
              Scheduled=True SchedulingPolicyFulfilled: found all cluster needed as specified by the scheduling policy, found 3 cluster(s)
              + c5 (0,-999) … "c5" (affinity score: 0, topology spread score: -999): picked
              + c2 (40,-2) … "c2" (affinity score: 40, topology spread score: -2): picked
              + c6 (0,-1) … "c6" (affinity score: 0, topology spread score: -1): picked
              - c4 (0,-999) Cluster "c4" does not score high enough (affinity score: 0, topology spread score: -999)
              - c1 ClusterUnschedulable, violated doNotSchedule topology spread constraint "region" (max skew 1)
              - c3 ClusterUnschedulable, cluster does not match with any of the required cluster affinity terms
              - c7 ClusterUnschedulable, cluster does not match with any of the required cluster affinity terms
              - c9 ClusterUnschedulable, cluster has left the fleet
              - c8 ClusterUnschedulable, cluster is not connected to the fleet: no recent heartbeat signals (last received 7.00 minutes ago)"#]],
    );
}

#[test]
fn scheduling_32_clusters_of_the_older_policy_win_ties_in_the_first_round() {
    let mut fixture = scenario_31();
    fixture.run();
    let spread = spread(&[("env", 2, "ScheduleAnyway")]);
    fixture.set_policy(&pick_n(3, &format!("{}, {spread}", preferred(&labelled(50, "region: central")))));
    check(
        &mut fixture,
        expect![[r#"
            explain 9 clusters
            associate c5 Scheduled web-1 (50,-1)
            create c7 Scheduled (0,1)
            create c4 Scheduled (50,-1)
            unschedule c2 was Scheduled
            unschedule c6 was Scheduled
            status of generation 2
              Scheduled=True SchedulingPolicyFulfilled: found all cluster needed as specified by the scheduling policy, found 3 cluster(s)
              + c4 (50,-1) … "c4" (affinity score: 50, topology spread score: -1): picked
              + c5 (50,-1) … "c5" (affinity score: 50, topology spread score: -1): picked
              + c7 (0,1) … "c7" (affinity score: 0, topology spread score: 1): picked
              - c6 (0,-1) Cluster "c6" does not score high enough (affinity score: 0, topology spread score: -1)
              - c3 (0,-1) Cluster "c3" does not score high enough (affinity score: 0, topology spread score: -1)
              - c2 (0,-1) Cluster "c2" does not score high enough (affinity score: 0, topology spread score: -1)
              - c1 (0,-1) Cluster "c1" does not score high enough (affinity score: 0, topology spread score: -1)
              - c9 ClusterUnschedulable, cluster has left the fleet
              - c8 ClusterUnschedulable, cluster is not connected to the fleet: no recent heartbeat signals (last received 7.00 minutes ago)"#]],
    );
}

#[test]
fn scheduling_33_a_new_cluster_in_the_emptier_region_makes_room_in_the_fuller_one() {
    let mut fixture = Fixture::new("a1 region=a\na2 region=a\nb1 region=b");
    fixture.set_policy(&pick_n(5, &spread(&[("region", 1, "DoNotSchedule")])));
    expect![[r#"
        a1 Scheduled web-0 (0,-1)
        a2 Scheduled web-0 (0,1)
        b1 Scheduled web-0 (0,-1)"#]]
    .assert_eq(&fixture.run_to_bindings());
    fixture.set_clusters("a3 region=a");
    expect![[r#"
        a1 Scheduled web-0 (0,-1)
        a2 Scheduled web-0 (0,1)
        b1 Scheduled web-0 (0,-1)"#]]
    .assert_eq(&fixture.run_to_bindings());
    fixture.set_clusters("b2 region=b");
    expect![[r#"
        a1 Scheduled web-0 (0,-1)
        a2 Scheduled web-0 (0,1)
        a3 Scheduled web-0 (0,-1)
        b1 Scheduled web-0 (0,-1)
        b2 Scheduled web-0 (0,1)"#]]
    .assert_eq(&fixture.run_to_bindings());
}

#[test]
fn explanations_stay_when_only_the_generation_changes() {
    let mut fixture = Fixture::with_policy(&pick_n(3, ""));
    fixture.run();
    assert!(fixture.plan().is_idle());
    fixture.set_number(3);
    check(
        &mut fixture,
        expect![[r#"
            status of generation 2
              Scheduled=True SchedulingPolicyFulfilled: found all cluster needed as specified by the scheduling policy, found 3 cluster(s)
              + c5 (0,0) … "c5" (affinity score: 0, topology spread score: 0): picked
              + c6 (0,0) … "c6" (affinity score: 0, topology spread score: 0): picked
              + c7 (0,0) … "c7" (affinity score: 0, topology spread score: 0): picked
              - c4 (0,0) Cluster "c4" does not score high enough (affinity score: 0, topology spread score: 0)
              - c3 (0,0) Cluster "c3" does not score high enough (affinity score: 0, topology spread score: 0)
              - c2 (0,0) Cluster "c2" does not score high enough (affinity score: 0, topology spread score: 0)
              - c1 (0,0) Cluster "c1" does not score high enough (affinity score: 0, topology spread score: 0)
              - c9 ClusterUnschedulable, cluster has left the fleet
              - c8 ClusterUnschedulable, cluster is not connected to the fleet: no recent heartbeat signals (last received 7.00 minutes ago)"#]],
    );
}

#[test]
fn a_policy_without_a_number_stops_scheduling() {
    for number in [None, Some("-1"), Some("three")] {
        let mut fixture = Fixture::with_policy(&pick_n(3, ""));
        fixture.annotate(annotations::NUMBER_OF_CLUSTERS, number.map(str::to_owned));
        check(
            &mut fixture,
            expect![[r#"
                hold placement
                stopped: policy snapshot "web-0" does not say how many clusters are wanted"#]],
        );
    }
}

#[test]
fn an_error_in_a_later_round_keeps_earlier_picks() {
    let mut fixture = Fixture::new("a.1 region=a\nb1 region=b\nc1 region=b");
    fixture.set_policy(&pick_n(1, ""));
    fixture.run();
    fixture.set_policy(&pick_n(
        3,
        &format!("{}, {}", spread(&[("region", 1, "DoNotSchedule")]), preferred(&labelled(10, "region: b"))),
    ));
    fixture.set_clusters("c1 region=b taint=x:y\nc2 region=b");
    check(
        &mut fixture,
        expect![[r#"
        unschedule c1 was Scheduled
        create c2 Scheduled (10,-1)
        stopped: no binding can be named"#]],
    );
}

#[test]
fn a_malformed_preference_matters_only_where_a_cluster_is_scored() {
    let malformed = "{weight: 1, preference: {labelSelector: {matchExpressions: [{key: a, operator: Is}]}}}";
    let required = "requiredDuringSchedulingIgnoredDuringExecution: {clusterSelectorTerms: [{labelSelector: {matchLabels: {env: x}}}]}";
    let affinity = format!(
        "affinity: {{clusterAffinity: {{{required}, preferredDuringSchedulingIgnoredDuringExecution: [{malformed}]}}}}"
    );
    let policy = pick_n(2, &format!("{affinity}, {}", spread(&[("region", 1, "DoNotSchedule")])));
    let mut fixture = Fixture::new("a1 region=a env=x\na2 region=a env=x\nb1 region=b");
    fixture.set_policy(&policy);
    check(
        &mut fixture,
        expect![[r#"
        hold placement
        stopped: a label selector of the policy cannot be used"#]],
    );
    fixture.bindings.push(old_binding("web-a1-0", "a1", &BindingState::Bound, "web-0"));
    check(
        &mut fixture,
        expect![[r#"
        status of generation 1
          Scheduled=False SchedulingPolicyUnfulfilled: could not find all clusters needed as specified by the scheduling policy, found 1 cluster(s) instead
          + a1 (0,0) picked earlier
          - a2 ClusterUnschedulable, violated doNotSchedule topology spread constraint "region" (max skew 1)
          - b1 ClusterUnschedulable, cluster does not match with any of the required cluster affinity terms"#]],
    );
}

/// The condition that the policy snapshot has.
fn message(fixture: &Fixture) -> &str {
    &fixture.snapshots[0].status.as_ref().unwrap().conditions[0].message
}

#[test]
fn audit_08_a_fulfilled_policy_names_the_same_unusable_values_in_every_pass() {
    let policy = pick_n(1, &preferred(&sorted(10, NODE_COUNT, "Descending")));
    let mut fixture = Fixture::new("a nodes=9\nb nodes=none\nc nodes=1e999\nd nodes=1");
    fixture.set_policy(&policy);
    let picks = fixture.run();
    assert!(
        picks.contains("create a Scheduled (10,0)"),
        "the other two count as clusters without the property: {picks}"
    );
    let named = "found all cluster needed as specified by the scheduling policy, found 1 cluster(s); ignored because their \
                 values are not usable quantities: property \"kubernetes-fleet.io/node-count\" of cluster \"b\", property \
                 \"kubernetes-fleet.io/node-count\" of cluster \"c\"";
    assert_eq!(message(&fixture), named);

    // The policy is fulfilled, so later plans examine no cluster.
    assert!(fixture.plan().is_idle());
    fixture.set_clusters("b nodes=3");
    fixture.run();
    assert!(!message(&fixture).contains("cluster \"b\""), "{}", message(&fixture));
    fixture.set_clusters("c nodes=4");
    fixture.run();
    assert!(!message(&fixture).contains("ignored"), "{}", message(&fixture));
    fixture.set_clusters("b nodes=none");
    fixture.set_clusters("c nodes=1e999");
    fixture.run();
    assert_eq!(message(&fixture), named);
}

#[test]
fn audit_08_a_message_names_three_values_and_counts_the_others() {
    let fleet: Vec<String> = ('a'..='f').map(|name| format!("{name} nodes=none")).collect();
    let mut fixture = Fixture::new(&fleet.join("\n"));
    fixture.set_policy(&pick_n(1, &preferred(&sorted(10, NODE_COUNT, "Descending"))));
    fixture.run();
    assert!(message(&fixture).ends_with("of cluster \"c\" and 3 more"), "{}", message(&fixture));
    assert_eq!(message(&fixture).matches("node-count").count(), 3);
}
