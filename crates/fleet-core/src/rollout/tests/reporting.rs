//! The report of each cluster and its texts.

use expect_test::{Expect, expect};

use super::fixture::{RolloutFixture, snapshot};
use crate::rollout::{
    ClusterOverrides, ClusterPhase, ContentWait, LatestSnapshot, Observed, Report, RolloutOutcome, plan,
};

fn text(report: &Report) -> String {
    let mut lines = vec![format!("{:?}", report.outcome)];
    lines.extend(report.budget.map(|budget| budget.to_string()));
    for one in &report.clusters {
        let phase = match &one.phase {
            ClusterPhase::Waiting(wait) => format!("waits: {wait}"),
            other => format!("{other:?}"),
        };
        lines.push(format!("{} {:?} {phase}", one.binding, one.health));
    }
    lines.join("\n")
}

fn check(fixture: &RolloutFixture, expected: Expect) {
    expected.assert_eq(&text(&fixture.plan().report));
}

#[test]
fn every_cluster_reports_its_phase_and_what_it_waits_for() {
    let mut fixture = RolloutFixture::new(
        "n=5 u=1 s=0 period=30",
        "a Bound @0 failing
         b Bound @0 ready
         c Bound @1 untrackable
         d Scheduled
         e Unscheduled @1 ready
         f Unscheduled @1 ready deleting
         g Bound @0 ready name=g1
         g Bound @0 ready name=g2
         h Scheduled
         h Unscheduled @0 deleting name=h-old
         i Bound @0 ready
         j Parked
         k Bound @1 ready",
    );
    fixture.overrides.as_mut().unwrap().insert("i".to_owned(), ClusterOverrides::ClusterGone);
    fixture.pin("k", "limits-0");
    check(
        &fixture,
        expect![[r#"
            Moving { moved: 2, waiting: 7 }
            5 ready and 9 carrying of 5 wanted (maxUnavailable 1, maxSurge 0)
            g1 Ready waits: there is another binding of the same cluster, "g2"; delete one of the two
            g2 Ready waits: there is another binding of the same cluster, "g1"; delete one of the two
            h-old Unknown Deleting
            web-a Unavailable(Available) Updating(Snapshot)
            web-b Ready waits: maxUnavailable allows no update to the latest resources until more clusters are ready
            web-c InUnavailablePeriod { until: 2026-11-15T12:00:30Z } UpToDate
            web-d Unknown waits: maxSurge allows no further cluster until another one is cleaned up
            web-e Ready Removing
            web-f Unknown Deleting
            web-h Unknown waits: binding "h-old" of the same cluster is still being cleaned up
            web-i Ready waits: the cluster is no longer in the fleet, so no override can be matched
            web-j Unknown UnknownState
            web-k Ready waits: maxUnavailable allows no update to the latest overrides until more clusters are ready"#]],
    );
}

#[test]
fn a_removal_waits_for_others_to_be_ready() {
    let fixture = RolloutFixture::new("n=1 u=0", "a Bound @1 applying started\nb Unscheduled @1 ready");
    check(
        &fixture,
        expect![[r"
            Waiting { waiting: 1 }
            1 ready and 2 carrying of 1 wanted (maxUnavailable 0, maxSurge 1)
            web-a Unknown UpToDate
            web-b Ready waits: maxUnavailable allows no removal until more clusters are ready"]],
    );
}

#[test]
fn without_known_content_no_binding_moves() {
    let mut fixture = RolloutFixture::new("u=1", "a Bound @0 ready\nb Scheduled");
    fixture.latest = None;
    check(
        &fixture,
        expect![[r"
            AwaitingContent(NoSnapshot)
            1 ready and 1 carrying of 2 wanted (maxUnavailable 1, maxSurge 1)
            web-a Ready waits: there is no snapshot of the resources yet
            web-b Unknown waits: there is no snapshot of the resources yet"]],
    );
    fixture.latest = Some(1);
    fixture.overrides = None;
    check(
        &fixture,
        expect![[r"
            AwaitingContent(OverridesUnknown)
            1 ready and 1 carrying of 2 wanted (maxUnavailable 1, maxSurge 1)
            web-a Ready waits: the matching overrides are not known yet
            web-b Unknown waits: the matching overrides are not known yet"]],
    );
    let latest = Some(snapshot(1));
    let observed = Observed { snapshot: LatestSnapshot::Several(2), ..fixture.observe(latest.as_ref()) };
    let report = plan(&observed, fixture.now).report;
    assert_eq!(report.outcome, RolloutOutcome::AwaitingContent(ContentWait::AmbiguousSnapshot { snapshots: 2 }));
    assert_eq!(ContentWait::AmbiguousSnapshot { snapshots: 2 }.to_string(), "2 snapshots claim to be the latest");
}

#[test]
fn a_limit_that_cannot_be_read_stops_everything() {
    let mut fixture = RolloutFixture::new("u=1", "a Bound @0 ready");
    let limits = fixture.placement.spec.strategy.as_mut().unwrap().rolling_update.as_mut().unwrap();
    limits.max_surge = Some("some".into());
    let plan = fixture.plan();
    assert!(plan.is_idle());
    let RolloutOutcome::Stopped(fault) = plan.report.outcome else { panic!() };
    assert_eq!(fault.to_string(), "maxSurge \"some\" is neither a number nor a percentage");
}

#[test]
fn only_waits_for_limits_are_attributed_to_the_strategy() {
    let fixture = RolloutFixture::new("u=0 s=0", "a Bound @0 ready\nb Scheduled\nb Unscheduled @0 deleting name=old");
    let waits: Vec<_> = fixture
        .plan()
        .report
        .clusters
        .into_iter()
        .filter_map(|one| match one.phase {
            ClusterPhase::Waiting(wait) => Some((one.binding, wait.is_strategy())),
            _ => None,
        })
        .collect();
    assert_eq!(waits, [("web-a".to_owned(), true), ("web-b".to_owned(), false)]);
}

#[test]
fn the_latest_snapshot_is_the_one_marked_master() {
    use fleet_api::kinds::ClusterResourceSnapshot;
    use fleet_api::well_known::annotations;
    let named = |name: &str, master: bool| {
        let mut one = ClusterResourceSnapshot::named(name, fleet_api::types::ResourceSnapshotSpec::default());
        let note = (annotations::RESOURCE_HASH.to_owned(), "h".to_owned());
        one.metadata.annotations = Some(master.then_some(note).into_iter().collect());
        one
    };
    let (one, two, part) = (named("a", true), named("b", true), named("c", false));
    assert_eq!(LatestSnapshot::of(&[&part]), LatestSnapshot::Missing);
    assert_eq!(LatestSnapshot::of(&[&one, &part]), LatestSnapshot::One("a"));
    assert_eq!(LatestSnapshot::of(&[&one, &two]), LatestSnapshot::Several(2));
}
