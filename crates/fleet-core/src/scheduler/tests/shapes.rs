//! The exact writes: a new binding, the texts of decisions, limits of the status.

use expect_test::expect;
use fleet_api::kinds::ResourceBinding;
use fleet_api::names::PlacementKey;
use fleet_api::types::BindingState;
use jiff::SignedDuration;

use super::fixture::{Fixture, now, old_binding};
use crate::scheduler::{Write, plan};

fn fleet(count: usize, words: &str) -> String {
    (0..count).map(|number| format!("m{number:04} {words}")).collect::<Vec<_>>().join("\n") + "\n"
}

#[test]
fn a_new_binding() {
    let mut fixture = Fixture::new("member-with-a-name-of-more-than-27-bytes");
    fixture.key = PlacementKey::parse("shop/a-placement-with-a-rather-long-name").unwrap();
    fixture.set_policy("");
    let plan = fixture.plan();
    let Some(Write::CreateBinding(new)) = plan.writes.get(1) else { panic!("{:?}", plan.writes) };
    let object: ResourceBinding = new.object(&fixture.key);
    expect![[r#"
        apiVersion: placement.kubernetes-fleet.io/v1beta1
        kind: ResourceBinding
        metadata:
          finalizers:
          - kubernetes-fleet.io/scheduler-crb-cleanup
          - kubernetes-fleet.io/work-cleanup
          labels:
            kubernetes-fleet.io/parent-CRP: a-placement-with-a-rather-long-name
          name: a-placement-with-a-rather--member-with-a-name-of-more--73613759
          namespace: shop
        spec:
          state: Scheduled
          resourceSnapshotName: ""
          schedulingPolicySnapshotName: web-0
          targetCluster: member-with-a-name-of-more-than-27-bytes
          clusterDecision:
            clusterName: member-with-a-name-of-more-than-27-bytes
            selected: true
            clusterScore:
              affinityScore: 0
              priorityScore: 0
            reason: "Successfully scheduled resources for placement in \"member-with-a-name-of-more-than-27-bytes\" (affinity score: 0, topology spread score: 0): picked by scheduling policy"
    "#]].assert_eq(&fleet_api::yaml::to_string(&object));
}

#[test]
fn an_existing_binding_name_is_not_reused() {
    let mut fixture = Fixture::new("a");
    fixture.set_policy("");
    fixture.run();
    let first = fixture.bindings[0].metadata.name.clone();
    fixture.bindings[0].metadata.deletion_timestamp = Some(serde_json::from_value(serde_json::json!(now())).unwrap());
    fixture.seed = 0;
    let plan = fixture.plan();
    let created = plan.writes.iter().find_map(|write| match write {
        Write::CreateBinding(new) => Some(new.name.to_string()),
        _ => None,
    });
    assert!(created.is_some() && created != first, "{created:?}");
}

#[test]
fn sentences_of_decisions() {
    let mut fixture = Fixture::new("a\nb\nc taint=x:y");
    fixture.set_policy("{placementType: PickN, numberOfClusters: 1}");
    let status = fixture.plan().status.unwrap();
    let reasons: Vec<&str> = status.target_clusters.iter().map(|decision| decision.reason.as_str()).collect();
    expect![[r#"
        Successfully scheduled resources for placement in "b" (affinity score: 0, topology spread score: 0): picked by scheduling policy
        Cluster "a" does not score high enough (affinity score: 0, topology spread score: 0)
        ClusterUnschedulable, taint &{Key:x Value:y Effect:NoSchedule} cannot be tolerated"#]].assert_eq(&reasons.join("\n"));
    fixture.set_policy("{placementType: PickFixed, clusterNames: [a]}");
    expect![[r#"Successfully scheduled resources for placement in "a": picked by scheduling policy"#]]
        .assert_eq(&fixture.plan().status.unwrap().target_clusters[0].reason);
}

#[test]
fn at_most_twenty_clusters_are_explained() {
    let mut fixture = Fixture::new(&format!("{}{}", fleet(15, ""), fleet(30, "taint=x:y").replace('m', "t")));
    fixture.set_policy("{placementType: PickN, numberOfClusters: 2}");
    let status = fixture.plan().status.unwrap();
    let count = |selected: bool| status.target_clusters.iter().filter(|one| one.selected == selected).count();
    assert_eq!((count(true), count(false)), (2, 20));
    assert_eq!(status.target_clusters[14].cluster_name, "m0000");
    assert_eq!(status.target_clusters[15].cluster_name, "t0000");
}

#[test]
fn picked_clusters_that_no_longer_match_count_among_the_explained() {
    let mut fixture = Fixture::new(&fleet(3, ""));
    fixture.set_policy("");
    fixture.run();
    fixture.set_clusters(&fleet(30, "taint=x:y"));
    fixture.run();
    let status = fixture.snapshots[0].status.as_ref().unwrap();
    let explained: Vec<_> = status.target_clusters.iter().filter(|one| !one.selected).collect();
    assert_eq!(explained.len(), 17);
    assert_eq!(explained[0].cluster_name, "m0003");
}

#[test]
fn a_status_lists_at_most_a_thousand_clusters() {
    let mut fixture = Fixture::new(&format!("{}z taint=x:y", fleet(1100, "")));
    fixture.set_policy("{placementType: PickN, numberOfClusters: 1050}");
    fixture.run();
    let status = fixture.snapshots[0].status.as_mut().unwrap();
    assert_eq!(status.target_clusters.len(), 1000);
    assert!(status.target_clusters.iter().all(|one| one.selected));
    assert!(status.conditions[0].message.ends_with("found 1050 cluster(s)"));
    status.target_clusters[500].reason = "other".to_owned();
    assert!(fixture.plan().status.is_some());
}

#[test]
fn only_a_change_of_status_moves_the_transition_time() {
    let mut fixture = Fixture::new("a");
    fixture.set_policy("{placementType: PickN, numberOfClusters: 1}");
    fixture.run();
    let before: fleet_api::time::Time = serde_json::from_str(r#""2020-01-01T00:00:00Z""#).unwrap();
    fixture.snapshots[0].status.as_mut().unwrap().conditions[0].last_transition_time = before;
    fixture.set_number(1);
    assert_eq!(fixture.plan().status.unwrap().conditions[0].last_transition_time, before);
    fixture.set_number(2);
    assert_ne!(fixture.plan().status.unwrap().conditions[0].last_transition_time, before);
}

#[test]
fn later_plans_of_the_same_facts_write_nothing() {
    let mut fixture = Fixture::with_policy("");
    fixture.run();
    let later = now() + SignedDuration::from_mins(2);
    assert!(plan(&fixture.observe(), later).is_idle());
    fixture.change("c8", "silent");
    assert!(plan(&fixture.observe(), later).status.is_some());
}

#[test]
fn a_binding_in_a_state_of_another_release_is_neither_counted_nor_touched() {
    let mut fixture = Fixture::new("a\nb");
    fixture.set_policy("{placementType: PickN, numberOfClusters: 1}");
    fixture.bindings.push(old_binding("web-a-1", "a", &BindingState::Other("Paused".to_owned()), "web-0"));
    expect![[r#"
        a Paused web-0 (0,0)
        b Scheduled web-0 (0,0)"#]]
    .assert_eq(&fixture.run_to_bindings());
}

#[test]
fn a_cluster_that_is_named_twice_is_one_cluster() {
    let mut fixture = Fixture::new("a");
    fixture.set_policy("{placementType: PickFixed, clusterNames: [a, b, a, b]}");
    expect![[r#"
        hold placement
        create a Scheduled
        status of generation 1
          Scheduled=False SchedulingPolicyUnfulfilled: could not find all clusters needed as specified by the scheduling policy, found 1 cluster(s) instead
          + a … "a": picked
          - b Specified cluster "b" is not found"#]].assert_eq(&fixture.run());
}

fn new_names(fixture: &Fixture) -> Vec<String> {
    let name = |write: &Write| match write {
        Write::CreateBinding(new) => Some(new.name.to_string()),
        _ => None,
    };
    fixture.plan().writes.iter().filter_map(name).collect()
}

#[test]
fn a_binding_has_the_same_name_whatever_else_is_picked() {
    let mut fixture = Fixture::new("m1\nm2\nm3");
    fixture.set_policy("");
    let all = new_names(&fixture);
    fixture.remove_cluster("m1");
    assert_eq!(new_names(&fixture), all[1..]);
    let mut leaving = old_binding(&all[1], "m2", &BindingState::Bound, "web-0");
    leaving.metadata.deletion_timestamp = Some(serde_json::from_value(serde_json::json!(now())).unwrap());
    fixture.bindings.push(leaving);
    let beside_the_leaving_one = new_names(&fixture);
    assert_ne!(beside_the_leaving_one[0], all[1], "a name that is taken is not used again");
    assert_eq!(beside_the_leaving_one[1], all[2]);
}
