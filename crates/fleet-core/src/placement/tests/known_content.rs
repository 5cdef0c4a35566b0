//! Plans made without the content: whoever calls knows its hash and has read only metadata.

use std::collections::BTreeSet;

use fleet_api::names::Index;
use jiff::SignedDuration;

use super::fixture::{ClusterWorld, SHOP};
use crate::placement::{
    Captured, Content, Fault, NoRunSnapshot, Observed, Outcome, Plan, SelectionError, SnapshotPace, WantedSnapshot,
    plan, select, snapshot_for_run,
};

/// What a caller that has remembered the hash brings.
fn remembered(world: &ClusterWorld) -> Result<Captured, SelectionError> {
    let observed = world.observe();
    let (placement, spec) = (observed.placement.key, observed.placement.spec);
    let selected = select(placement, &spec.resource_selectors, observed.inventory, observed.propagation)?;
    Ok(Captured::unchanged(&selected, Captured::of(&selected).hash))
}

fn plan_without_content(world: &ClusterWorld) -> Plan {
    let selection = remembered(world);
    plan(&Observed { selection: Some(&selection), ..world.observe() }, world.now)
}

fn world() -> ClusterWorld {
    ClusterWorld::new("web", "Namespace shop\nConfigMap shop/cm value=1", SHOP)
}

#[test]
fn nothing_is_read_to_find_that_nothing_changed() {
    let mut world = world();
    world.settle();
    assert!(plan_without_content(&world).is_idle());
    world.hub.set("Secret shop/s");
    world.pace = SnapshotPace { minimum_interval: SignedDuration::from_secs(30), collection: SignedDuration::ZERO };
    let waiting = plan_without_content(&world);
    assert_eq!(waiting, world.plan(), "a change that waits needs its hash only");
    assert!(matches!(waiting.report.content, Content::Delayed { .. }));
}

#[test]
fn what_is_to_be_frozen_must_be_read() {
    let mut world = world();
    let stopped = |plan: Plan| {
        assert_eq!(plan.report.outcome, Outcome::Stopped(Fault::ContentNotRead));
        assert_eq!(plan.status, None);
        let kinds: BTreeSet<_> = plan.writes.iter().map(|write| crate::plan::ObjectWrite::object(write).0).collect();
        assert!(!kinds.contains("resource snapshot"), "{:?}", plan.writes);
    };
    stopped(plan_without_content(&world));
    world.settle();
    world.hub.set("ConfigMap shop/cm value=2");
    stopped(plan_without_content(&world));
    let selection = remembered(&world);
    let run = snapshot_for_run(&Observed { selection: Some(&selection), ..world.observe() }, WantedSnapshot::Current);
    assert_eq!(run, Err(NoRunSnapshot::Stopped(Fault::ContentNotRead)));
    world.settle();
    assert!(plan_without_content(&world).is_idle());
}

#[test]
fn pieces_that_are_missing_must_be_read() {
    let mut world =
        ClusterWorld::new("web", "Namespace shop\nSecret shop/a size=700000\nSecret shop/b size=700000", SHOP);
    world.settle();
    assert!(plan_without_content(&world).is_idle());
    world.snapshots.retain(|snapshot| snapshot.metadata.name.as_deref() != Some("web-0-0"));
    let plan = plan_without_content(&world);
    assert_eq!(plan.report.outcome, Outcome::Stopped(Fault::ContentNotRead));
    world.settle();
    assert_eq!(plan_without_content(&world).report.content, Content::UpToDate { index: Index::FIRST });
}

#[test]
fn a_selection_that_was_found_wrong_is_reported_as_if_the_plan_had_found_it() {
    let mut world = world();
    world.edit(&SHOP.replace("shop", "kube-system"));
    assert_eq!(plan_without_content(&world), world.plan());
}
