//! Snapshots for staged runs.

use expect_test::{Expect, expect};
use fleet_api::names::Index;

use super::fixture::{ClusterFixture, SHOP};
use super::render::{snapshots_text, write_text};
use crate::placement::{NoRunSnapshot, SelectionError, SnapshotIntervals, WantedSnapshot, snapshot_for_run};

fn fixture() -> ClusterFixture {
    let mut fixture =
        ClusterFixture::new("web", "Namespace shop", &SHOP.replace("}]}", "}], strategy: {type: External}}"));
    fixture.snapshot_intervals = SnapshotIntervals::default();
    fixture.settle();
    fixture
}

const ZERO: WantedSnapshot = WantedSnapshot::Index(Index::FIRST);

fn check(fixture: &mut ClusterFixture, wanted: WantedSnapshot, expected: Expect) {
    let snapshot = snapshot_for_run(&fixture.observe(), wanted).unwrap();
    for write in &snapshot.writes {
        fixture.write(write);
    }
    let again = snapshot_for_run(&fixture.observe(), wanted).unwrap();
    assert_eq!((again.writes, again.index), (Vec::new(), snapshot.index));
    let mut lines: Vec<_> = snapshot.writes.iter().map(write_text).collect();
    lines.push(format!("index {} in {}", snapshot.index, snapshot.master));
    expected.assert_eq(&lines.join("\n"));
}

#[test]
fn index_0_of_a_placement_without_snapshots_is_its_current_content() {
    let mut fixture = fixture();
    check(
        &mut fixture,
        ZERO,
        expect![[r#"
        create web-0-snapshot (1 of 1, 0 envelopes): Namespace shop
        index 0 in web-0-snapshot"#]],
    );
    // From then on it does not change.
    fixture.hub.set("ConfigMap shop/cm value=1");
    check(&mut fixture, ZERO, expect!["index 0 in web-0-snapshot"]);
    let missing = Index(1);
    let found = snapshot_for_run(&fixture.observe(), WantedSnapshot::Index(missing));
    assert_eq!(found, Err(NoRunSnapshot::Missing { index: missing }));
}

#[test]
fn another_index_of_a_placement_without_snapshots_is_missing() {
    let found = snapshot_for_run(&fixture().observe(), WantedSnapshot::Index(Index(1)));
    assert_eq!(found, Err(NoRunSnapshot::Missing { index: Index(1) }));
}

#[test]
fn current_content_is_snapshotted_at_once_and_reused_while_it_is_the_same() {
    let mut fixture = fixture();
    check(
        &mut fixture,
        WantedSnapshot::Current,
        expect![[r#"
        create web-0-snapshot (1 of 1, 0 envelopes): Namespace shop
        index 0 in web-0-snapshot"#]],
    );
    check(&mut fixture, WantedSnapshot::Current, expect!["index 0 in web-0-snapshot"]);
    fixture.hub.set("ConfigMap shop/cm value=1");
    check(
        &mut fixture,
        WantedSnapshot::Current,
        expect![[r#"
        mark web-0-snapshot latest=false
        create web-1-snapshot (1 of 1, 0 envelopes): Namespace shop, ConfigMap cm
        index 1 in web-1-snapshot"#]],
    );
    expect![[r#"
        policy web-0* generation=1
        web-0-snapshot index=0 of 1 resources=1
        web-1-snapshot* index=1 of 1 resources=2"#]]
    .assert_eq(&snapshots_text(&fixture));
    // A run with an old index does not change the latest mark.
    check(&mut fixture, ZERO, expect!["index 0 in web-0-snapshot"]);
}

#[test]
fn an_incomplete_snapshot_group_is_completed() {
    let mut fixture = fixture();
    fixture.hub.set("Secret shop/a size=700000\nSecret shop/b size=700000");
    let snapshot = snapshot_for_run(&fixture.observe(), ZERO).unwrap();
    fixture.write(&snapshot.writes[0]);
    let mut cut_short = fixture.clone();
    check(
        &mut fixture,
        ZERO,
        expect![[r#"
        create web-0-0 (more): Secret b
        index 0 in web-0-snapshot"#]],
    );
    cut_short.hub.set("Secret shop/b size=700001");
    check(&mut cut_short, ZERO, expect!["index 0 in web-0-snapshot"]);
}

#[test]
fn invalid_selectors_make_no_snapshot() {
    let mut fixture = fixture();
    fixture.edit(&SHOP.replace("shop", "kube-system"));
    let found = snapshot_for_run(&fixture.observe(), WantedSnapshot::Current);
    assert!(matches!(found, Err(NoRunSnapshot::Selection(SelectionError::User(_)))));
}

#[test]
fn a_group_without_master_is_no_snapshot() {
    let mut fixture = fixture();
    fixture.hub.set("Secret shop/a size=700000\nSecret shop/b size=700000");
    for write in snapshot_for_run(&fixture.observe(), ZERO).unwrap().writes {
        fixture.write(&write);
    }
    fixture.snapshots.remove(0);
    let found = snapshot_for_run(&fixture.observe(), ZERO);
    assert_eq!(found, Err(NoRunSnapshot::WithoutMaster { index: Index::FIRST }));
}
