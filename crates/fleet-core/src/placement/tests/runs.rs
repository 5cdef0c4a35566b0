//! Snapshots for staged runs.

use expect_test::{Expect, expect};
use fleet_api::names::Index;

use super::fixture::{ClusterWorld, SHOP};
use super::render::{snapshots_text, write_text};
use crate::placement::{NoRunSnapshot, SelectionError, SnapshotPace, WantedSnapshot, snapshot_for_run};

fn world() -> ClusterWorld {
    let mut world = ClusterWorld::new("web", "Namespace shop", &SHOP.replace("}]}", "}], strategy: {type: External}}"));
    world.pace = SnapshotPace::default();
    world.settle();
    world
}

const ZERO: WantedSnapshot = WantedSnapshot::Index(Index::FIRST);

fn check(world: &mut ClusterWorld, wanted: WantedSnapshot, expected: Expect) {
    let snapshot = snapshot_for_run(&world.observe(), wanted).unwrap();
    for write in &snapshot.writes {
        world.write(write);
    }
    let again = snapshot_for_run(&world.observe(), wanted).unwrap();
    assert_eq!((again.writes, again.index), (Vec::new(), snapshot.index));
    let mut lines: Vec<_> = snapshot.writes.iter().map(write_text).collect();
    lines.push(format!("index {} in {}", snapshot.index, snapshot.master));
    expected.assert_eq(&lines.join("\n"));
}

#[test]
fn index_0_of_a_placement_without_snapshots_is_its_current_content() {
    let mut world = world();
    check(
        &mut world,
        ZERO,
        expect![[r#"
        create web-0-snapshot (1 of 1, 0 envelopes): Namespace shop
        index 0 in web-0-snapshot"#]],
    );
    // From then on it is what it was.
    world.hub.set("ConfigMap shop/cm value=1");
    check(&mut world, ZERO, expect!["index 0 in web-0-snapshot"]);
    let missing = Index(1);
    let found = snapshot_for_run(&world.observe(), WantedSnapshot::Index(missing));
    assert_eq!(found, Err(NoRunSnapshot::Missing { index: missing }));
}

#[test]
fn another_index_of_a_placement_without_snapshots_is_missing() {
    let found = snapshot_for_run(&world().observe(), WantedSnapshot::Index(Index(1)));
    assert_eq!(found, Err(NoRunSnapshot::Missing { index: Index(1) }));
}

#[test]
fn current_content_is_frozen_at_once_and_reused_while_it_is_the_same() {
    let mut world = world();
    check(
        &mut world,
        WantedSnapshot::Current,
        expect![[r#"
        create web-0-snapshot (1 of 1, 0 envelopes): Namespace shop
        index 0 in web-0-snapshot"#]],
    );
    check(&mut world, WantedSnapshot::Current, expect!["index 0 in web-0-snapshot"]);
    world.hub.set("ConfigMap shop/cm value=1");
    check(
        &mut world,
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
    .assert_eq(&snapshots_text(&world));
    // Pinning an old index moves no mark.
    check(&mut world, ZERO, expect!["index 0 in web-0-snapshot"]);
}

#[test]
fn a_group_that_was_cut_short_is_completed() {
    let mut world = world();
    world.hub.set("Secret shop/a size=700000\nSecret shop/b size=700000");
    let snapshot = snapshot_for_run(&world.observe(), ZERO).unwrap();
    world.write(&snapshot.writes[0]);
    let mut cut_short = world.clone();
    check(
        &mut world,
        ZERO,
        expect![[r#"
        create web-0-0 (more): Secret b
        index 0 in web-0-snapshot"#]],
    );
    cut_short.hub.set("Secret shop/b size=700001");
    check(&mut cut_short, ZERO, expect!["index 0 in web-0-snapshot"]);
}

#[test]
fn selectors_that_cannot_be_used_give_no_snapshot() {
    let mut world = world();
    world.edit(&SHOP.replace("shop", "kube-system"));
    let found = snapshot_for_run(&world.observe(), WantedSnapshot::Current);
    assert!(matches!(found, Err(NoRunSnapshot::Selection(SelectionError::User(_)))));
}

#[test]
fn a_group_without_master_is_no_snapshot() {
    let mut world = world();
    world.hub.set("Secret shop/a size=700000\nSecret shop/b size=700000");
    for write in snapshot_for_run(&world.observe(), ZERO).unwrap().writes {
        world.write(&write);
    }
    world.snapshots.remove(0);
    let found = snapshot_for_run(&world.observe(), ZERO);
    assert_eq!(found, Err(NoRunSnapshot::WithoutMaster { index: Index::FIRST }));
}
