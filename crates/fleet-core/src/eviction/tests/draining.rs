//! Scenarios of draining a cluster, and properties of every drain.

use expect_test::expect;
use fleet_api::kinds::{ClusterResourceBinding, ClusterResourcePlacementEviction};
use fleet_api::names::ClusterName;
use fleet_api::types::Taint;
use fleet_api::well_known::labels;

use super::fixture::{EvictionFixture, THREE_READY, budget};
use crate::eviction::drain::{Observed, Plan, Progress, Write, cordon_taint, cordoned, plan, uncordoned};
use crate::plan::lint;

/// One placement, a cluster `c1` to be drained, and its taints.
#[derive(Debug, Clone)]
struct Drain {
    fixture: EvictionFixture,
    cluster: ClusterName,
    taints: Vec<Taint>,
}

impl Drain {
    fn new(spec: &str, bindings: &str) -> Self {
        let mut fixture = EvictionFixture::new(spec, bindings);
        fixture.evictions.clear();
        fixture.placed.bindings.iter_mut().for_each(label);
        let other = Taint { key: "team".to_owned(), ..Taint::default() };
        Self { fixture, cluster: ClusterName::parse("c1").unwrap(), taints: vec![other] }
    }

    fn plan(&self) -> Plan {
        let placements: Vec<_> =
            self.fixture.placement_exists.then(|| self.fixture.placed.placement.clone()).into_iter().collect();
        let plan = plan(&Observed {
            cluster: &self.cluster,
            taints: &self.taints,
            bindings: &self.fixture.placed.bindings,
            placements: &placements,
            evictions: &self.fixture.evictions,
            suffix_seed: 7,
        });
        assert_eq!(lint(&plan), Vec::<String>::new());
        plan
    }

    fn execute(&mut self, plan: &Plan) {
        for write in &plan.writes {
            match write {
                Write::Cordon { taints } => self.taints.clone_from(taints),
                Write::CreateEviction(new) => {
                    let mut object: ClusterResourcePlacementEviction = new.object();
                    object.metadata.generation = Some(1);
                    assert!(self.fixture.evictions.iter().all(|one| one.metadata.name != object.metadata.name));
                    self.fixture.evictions.push(object);
                }
            }
        }
    }

    /// Executes plans, decides evictions and removes bindings until the drain is over. Returns the progress.
    fn run(&mut self) -> (Progress, bool) {
        for _ in 0..8 {
            let plan = self.plan();
            self.execute(&plan);
            assert!(self.plan().is_idle());
            if plan.report.is_over() {
                let progress = plan.report.placements.into_values().next().unwrap();
                let drained = self.plan().report.is_drained();
                return (progress, drained);
            }
            (0..self.fixture.evictions.len()).for_each(|index| drop(self.fixture.run(index)));
            self.fixture.placed.clean_up();
        }
        panic!("a drain does not end");
    }
}

fn label(binding: &mut ClusterResourceBinding) {
    binding.metadata.labels = Some([(labels::PARENT_PLACEMENT.to_owned(), "web".to_owned())].into());
}

#[test]
fn scheduling_48_a_cluster_is_drained_and_uncordoned() {
    let mut drain = Drain::new("", THREE_READY);
    let before = drain.taints.clone();
    assert_eq!(drain.run(), (Progress::Gone, true));
    let names: Vec<_> = drain.fixture.evictions.iter().filter_map(|one| one.metadata.name.as_deref()).collect();
    expect!["drain-eviction-web-c1-00000007"].assert_eq(&names.join("\n"));
    assert_eq!(drain.taints, [before[0].clone(), cordon_taint()]);
    assert_eq!(uncordoned(&drain.taints), Some(before));
}

#[test]
fn scheduling_49_a_budget_that_blocks_everything_leaves_the_cluster_cordoned() {
    let mut drain = Drain::new("n=3", THREE_READY);
    drain.fixture.budget = Some(budget("u=0"));
    let (progress, drained) = drain.run();
    assert!(!drained);
    let Progress::Refused { message } = progress else { panic!("{progress:?}") };
    expect!["Eviction is blocked by specified ClusterResourcePlacementDisruptionBudget, availablePlacements: 3, totalPlacements: 3"]
        .assert_eq(&message);
    assert_eq!(drain.fixture.evictions.len(), 2);
    assert!(drain.taints.contains(&cordon_taint()));
}

#[test]
fn scheduling_49_a_second_eviction_succeeds_once_the_budget_allows_it() {
    let mut drain = Drain::new("n=3", THREE_READY);
    drain.fixture.budget = Some(budget("u=0"));
    let first = drain.plan();
    drain.execute(&first);
    drop(drain.fixture.run(0));
    drain.fixture.budget = None;
    assert_eq!(drain.run(), (Progress::Gone, true));
}

#[test]
fn taints_are_the_cordon_taint_or_not() {
    let near = Taint { value: "other".to_owned(), ..cordon_taint() };
    assert_eq!(cordoned(std::slice::from_ref(&near)), Some(vec![near.clone(), cordon_taint()]));
    assert_eq!(cordoned(&[cordon_taint()]), None);
    assert_eq!(uncordoned(std::slice::from_ref(&near)), None);
    assert_eq!(uncordoned(&[cordon_taint(), near.clone(), cordon_taint()]), Some(vec![near]));
    expect![[r#"{"key":"cordon-key","value":"cordon-value","effect":"NoSchedule"}"#]]
        .assert_eq(&serde_json::to_string(&cordon_taint()).unwrap());
}

#[test]
fn placements_that_cannot_be_evicted_are_skipped() {
    let mut fixed = Drain::new("fixed=c1", "c1 Bound @1 ready");
    assert_eq!(fixed.run(), (Progress::FixedClusters, false));
    assert!(fixed.fixture.evictions.is_empty());

    let mut going = Drain::new("", "c1 Bound @1 ready");
    going.fixture.placed.placement.metadata.deletion_timestamp =
        Some(serde_json::from_value(serde_json::json!(going.fixture.placed.now)).unwrap());
    assert_eq!(going.run(), (Progress::PlacementDeleting, true));

    let mut gone = Drain::new("", "c1 Bound @1 ready");
    gone.fixture.placement_exists = false;
    assert_eq!(gone.run(), (Progress::PlacementDeleting, true));
}

#[test]
fn a_placement_that_vanished_in_between_counts_as_gone() {
    let mut drain = Drain::new("", "c1 Bound @1 ready");
    let plan = drain.plan();
    drain.execute(&plan);
    drain.fixture.placement_exists = false;
    drain.fixture.placed.bindings.clear();
    assert_eq!(drain.run(), (Progress::Gone, true));
}

#[test]
fn a_placement_that_tolerates_the_taint_is_evicted_a_limited_number_of_times() {
    let mut drain = Drain::new("", "c1 Bound @1 ready");
    for _ in 0..2 {
        let plan = drain.plan();
        assert_eq!(plan.report.placements.values().next(), Some(&Progress::Evicting));
        drain.execute(&plan);
        let last = drain.fixture.evictions.len() - 1;
        drop(drain.fixture.run(last));
        drain.fixture.placed.clean_up();
        drain.fixture.placed.add("c1 Bound @1 ready");
        drain.fixture.placed.bindings.iter_mut().for_each(label);
    }
    assert_eq!(drain.run(), (Progress::Returned, false));
}

#[test]
fn other_clusters_and_deleted_bindings_are_ignored() {
    let mut drain = Drain::new("", "c2 Bound @1 ready\nc1 Bound @1 ready deleting");
    let plan = drain.plan();
    assert!(plan.report.placements.is_empty());
    assert!(plan.report.is_over() && plan.report.is_drained());
    drain.execute(&plan);
    assert!(drain.plan().is_idle());
}

#[test]
fn a_binding_without_placement_is_reported() {
    let mut drain = Drain::new("", "c1 Bound @1 ready");
    drain.fixture.placed.bindings[0].metadata.labels = None;
    let plan = drain.plan();
    assert_eq!(plan.report.without_placement, ["web-c1"]);
    assert!(plan.report.is_over() && !plan.report.is_drained());
}
