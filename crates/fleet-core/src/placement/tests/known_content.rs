//! Plans without the content: the caller knows its hash and has read only metadata.

use std::collections::BTreeSet;

use fleet_api::names::Index;
use jiff::SignedDuration;

use super::fixture::{ClusterFixture, SHOP};
use crate::placement::{
    Content, Fault, NoRunSnapshot, Observed, PlacementOutcome, Plan, SelectedContent, SelectionError,
    SnapshotIntervals, WantedSnapshot, plan, select, snapshot_for_run,
};

/// The selection of a caller that has remembered the hash.
fn remembered(fixture: &ClusterFixture) -> Result<SelectedContent, SelectionError> {
    let observed = fixture.observe();
    let (placement, spec) = (observed.placement.key, observed.placement.spec);
    let selected = select(placement, &spec.resource_selectors, observed.inventory, observed.propagation)?;
    Ok(SelectedContent::unchanged(&selected, SelectedContent::of(&selected).hash))
}

fn plan_without_content(fixture: &ClusterFixture) -> Plan {
    let selection = remembered(fixture);
    plan(&Observed { selection: Some(&selection), ..fixture.observe() }, fixture.now)
}

fn fixture() -> ClusterFixture {
    ClusterFixture::new("web", "Namespace shop\nConfigMap shop/cm value=1", SHOP)
}

#[test]
fn known_hashes_are_compared_without_reading() {
    let mut fixture = fixture();
    fixture.settle();
    assert!(plan_without_content(&fixture).is_idle());
    fixture.hub.set("Secret shop/s");
    fixture.snapshot_intervals =
        SnapshotIntervals { minimum_interval: SignedDuration::from_secs(30), collection: SignedDuration::ZERO };
    let waiting = plan_without_content(&fixture);
    assert_eq!(waiting, fixture.plan(), "a change that waits needs its hash only");
    assert!(matches!(waiting.report.content, Content::Delayed { .. }));
}

#[test]
fn content_for_a_snapshot_must_be_read() {
    let mut fixture = fixture();
    let stopped = |plan: Plan| {
        assert_eq!(plan.report.outcome, PlacementOutcome::Stopped(Fault::ContentNotRead));
        assert_eq!(plan.status, None);
        let kinds: BTreeSet<_> = plan.writes.iter().map(|write| crate::plan::ObjectWrite::object(write).0).collect();
        assert!(!kinds.contains("resource snapshot"), "{:?}", plan.writes);
    };
    stopped(plan_without_content(&fixture));
    fixture.settle();
    fixture.hub.set("ConfigMap shop/cm value=2");
    stopped(plan_without_content(&fixture));
    let selection = remembered(&fixture);
    let run = snapshot_for_run(&Observed { selection: Some(&selection), ..fixture.observe() }, WantedSnapshot::Current);
    assert_eq!(run, Err(NoRunSnapshot::Stopped(Fault::ContentNotRead)));
    fixture.settle();
    assert!(plan_without_content(&fixture).is_idle());
}

#[test]
fn missing_parts_must_be_read() {
    let mut fixture =
        ClusterFixture::new("web", "Namespace shop\nSecret shop/a size=700000\nSecret shop/b size=700000", SHOP);
    fixture.settle();
    assert!(plan_without_content(&fixture).is_idle());
    fixture.snapshots.retain(|snapshot| snapshot.metadata.name.as_deref() != Some("web-0-0"));
    let plan = plan_without_content(&fixture);
    assert_eq!(plan.report.outcome, PlacementOutcome::Stopped(Fault::ContentNotRead));
    fixture.settle();
    assert_eq!(plan_without_content(&fixture).report.content, Content::UpToDate { index: Index::FIRST });
}

#[test]
fn an_invalid_selection_found_before_planning_is_reported_alike() {
    let mut fixture = fixture();
    fixture.edit(&SHOP.replace("shop", "kube-system"));
    assert_eq!(plan_without_content(&fixture), fixture.plan());
}
