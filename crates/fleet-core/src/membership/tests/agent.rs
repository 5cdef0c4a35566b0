//! When a member's agent acts: joining, heartbeats, retries, leaving.

use expect_test::{Expect, expect};
use fleet_api::kinds::InternalMemberCluster;
use fleet_api::types::{ClusterState, InternalMemberClusterSpec};
use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;

use super::render::{agent_text, agents_text};
use super::world::{START, World};
use crate::membership::agent::{Collected, Memory, Order, Probe, Sounding, next_beat};
use crate::plan::Wake;

fn heartbeats(world: &World) -> String {
    agents_text(&world.mailbox.as_ref().unwrap().status.as_ref().unwrap().observed.agent_status)
}

#[test]
fn an_agent_looks_at_its_cluster_before_it_says_that_it_joined() {
    let mut world = World::new();
    world.hub_acts();
    let plan = world.agent_plan();
    assert_eq!(agent_text(&plan), "start applier\nlook\nSoundingDue");
    assert_eq!(plan.status, None);
    world.carry_out_agent(&plan);
    expect![[r#"
        event Normal InternalMemberClusterHealthy: internal member cluster healthy
        event Normal InternalMemberClusterJoined: internal member cluster joined
        count join_result_counter
        wake at 2026-11-15T12:01:00.542Z
        Joined { healthy: true, next_beat: 2026-11-15T12:01:00.542Z }"#]]
    .assert_eq(&agent_text(&world.agent_plan()));
}

#[test]
fn heartbeats_come_by_themselves_and_only_then() {
    let mut world = World::joined();
    let Wake::At(next) = world.agent_plan().wake else { panic!() };
    world.now = next - SignedDuration::from_millis(1);
    assert!(world.agent_plan().is_idle());
    world.now = next;
    assert_eq!(agent_text(&world.agent_plan()), "look\nSoundingDue");
    world.agent_acts();
    let beat = format!("MemberAgent {} ", fleet_api::time::Time::new(next));
    assert!(heartbeats(&world).starts_with(&beat), "{}", heartbeats(&world));
}

#[test]
fn a_member_that_lives_for_an_hour_sends_about_sixty_heartbeats() {
    let mut world = World::joined();
    let mut beats = 0;
    let mut last = heartbeats(&world);
    for _ in 0..360 {
        world.live(10);
        let now = heartbeats(&world);
        beats += usize::from(now != last);
        last = now;
    }
    assert!((57..=63).contains(&beats), "{beats}");
}

#[test]
fn a_new_order_of_the_hub_and_a_restart_are_answered_at_once() {
    let mut world = World::joined();
    world.pass(5);
    world.edit(|member| member.spec.heartbeat_period_seconds = Some(600));
    world.hub_acts();
    assert_eq!(agent_text(&world.agent_plan()), "look\nSoundingDue");
    expect![[r#"
        event Normal InternalMemberClusterJoined: internal member cluster joined
        count join_result_counter
        wake at 2026-11-15T12:10:17.989Z
        Joined { healthy: true, next_beat: 2026-11-15T12:10:17.989Z }"#]]
    .assert_eq(&agent_text(&world.run_agent()));
    world.pass(5);
    world.restart_agent();
    assert_eq!(agent_text(&world.agent_plan()), "start applier\nlook\nSoundingDue");
    let plan = world.run_agent();
    assert_eq!((plan.report.events, plan.report.counted), (Vec::new(), None), "nothing that the hub does not know");
}

#[test]
fn a_clock_that_was_set_back_does_not_silence_the_agent() {
    let mut world = World::joined();
    world.now -= SignedDuration::from_hours(5);
    assert_eq!(agent_text(&world.agent_plan()), "look\nSoundingDue");
}

/// Seconds from each look to the next.
fn check_waits(world: &mut World, expected: Expect) {
    let mut waits = Vec::new();
    for _ in 0..8 {
        let plan = world.run_agent();
        let Wake::At(next) = plan.wake else { panic!("{plan:#?}") };
        waits.push(next.duration_since(world.now).as_secs().to_string());
        world.now = next;
    }
    expected.assert_eq(&waits.join(" "));
}

#[test]
fn bad_news_are_looked_into_sooner_but_not_for_long() {
    let mut world = World::new();
    world.hub_acts();
    world.probe = Probe::Unreachable;
    check_waits(&mut world, expect!["1 2 4 8 16 32 58 58"]);
    world.restart_agent();
    world.probe = Probe::Answered { status_code: 200 };
    world.collected = Collected::Failed { error: "nodes are forbidden".to_owned() };
    check_waits(&mut world, expect!["1 2 4 8 16 32 58 57"]);
    world.collected = Collected::ProviderTimedOut;
    check_waits(&mut world, expect!["62 62 59 60 62 58 59 58"]);
}

#[test]
fn joining_that_fails_is_told_and_tried_again() {
    let mut world = World::new();
    world.hub_acts();
    world.obstacle = Some("the disk is full".to_owned());
    world.carry_out_agent(&world.agent_plan());
    expect![[r#"
        event Normal InternalMemberClusterFailedToJoin: internal member cluster failed to join
        wake at 2026-11-15T12:00:01Z
        SetBack { error: "the disk is full", retry_at: 2026-11-15T12:00:01Z }"#]]
    .assert_eq(&agent_text(&world.run_agent()));
    assert!(heartbeats(&world).starts_with("MemberAgent never Joined=Unknown@1"), "{}", heartbeats(&world));
    assert!(world.agent_plan().is_idle(), "it waits for its time");
    world.pass(1);
    world.carry_out_agent(&world.agent_plan());
    assert_eq!(world.agent_plan().wake, Wake::At(world.now + SignedDuration::from_secs(2)));
    world.pass(2);
    world.obstacle = None;
    world.settle();
    assert!(heartbeats(&world).contains("Joined=True@1"), "{}", heartbeats(&world));
    assert_eq!(world.memory.setback, None);
}

#[test]
fn leaving_stops_the_applier_before_it_gives_up_works_and_says_so_last() {
    let mut world = World::joined();
    world.place("b-work");
    world.place("a-work");
    world.works[0].metadata.finalizers = None;
    world.pass(10);
    world.order("Leave");
    let before = heartbeats(&world);
    expect![[r#"
        stop applier
        release work a-work
        event Normal InternalMemberClusterLeft: internal member cluster left
        count leave_result_counter
        Left"#]]
    .assert_eq(&agent_text(&world.run_agent()));
    assert_eq!(heartbeats(&world), before.replace("Joined=True@1", "Joined=False@2"), "no further heartbeat");
    world.pass(10_000);
    let plan = world.agent_plan();
    assert!(plan.is_idle() && plan.wake == Wake::OnChange, "{plan:#?}");
}

#[test]
fn leaving_that_fails_is_told_and_tried_again() {
    let mut world = World::joined();
    world.place("a-work");
    world.order("Leave");
    world.obstacle = Some("the hub is away".to_owned());
    world.carry_out_agent(&world.agent_plan());
    expect![[r#"
        event Normal InternalMemberClusterFailedToLeave: internal member cluster failed to leave
        wake at 2026-11-15T12:00:01Z
        SetBack { error: "the hub is away", retry_at: 2026-11-15T12:00:01Z }"#]]
    .assert_eq(&agent_text(&world.run_agent()));
    assert!(!world.memory.applier_running);
    world.obstacle = None;
    world.pass(1);
    expect![[r#"
        release work a-work
        event Normal InternalMemberClusterLeft: internal member cluster left
        count leave_result_counter
        Left"#]]
    .assert_eq(&agent_text(&world.agent_plan()));
    world.agent_acts();
    assert!(heartbeats(&world).contains("Joined=False@2"), "{}", heartbeats(&world));
}

#[test]
fn a_mailbox_that_was_made_anew_is_a_new_order() {
    let mut world = World::joined();
    world.pass(5);
    assert!(world.agent_plan().is_idle());
    // The same generation, and nothing told in it.
    let mailbox = world.mailbox.as_mut().unwrap();
    mailbox.metadata.uid = Some("another".to_owned());
    mailbox.status = None;
    assert_eq!(agent_text(&world.agent_plan()), "look\nSoundingDue");
    world.agent_acts();
    let beat = format!("MemberAgent {} ", fleet_api::time::Time::new(world.now));
    assert!(heartbeats(&world).starts_with(&beat), "{}", heartbeats(&world));
    // Nor does it wait because of what failed under the one before.
    world.order("Leave");
    world.place("a-work");
    world.obstacle = Some("the hub is away".to_owned());
    world.carry_out_agent(&world.agent_plan());
    assert!(world.agent_plan().writes.is_empty(), "it waits for its time");
    world.mailbox.as_mut().unwrap().metadata.uid = Some("yet another".to_owned());
    assert!(!world.agent_plan().writes.is_empty());
}

#[test]
fn a_collection_that_fails_is_news_once() {
    let failed = |error: &str| Collected::Failed { error: error.to_owned() };
    let with = |collected| Sounding { collected, ..sounding(Timestamp::UNIX_EPOCH, 0) };
    let (first, second, fine) = (with(failed("forbidden")), with(failed("away")), with(Collected::TooManyCalls));
    assert_eq!(first.new_failure(None), Some("forbidden"));
    assert_eq!(first.new_failure(Some(&fine)), Some("forbidden"));
    assert_eq!(first.new_failure(Some(&first)), None);
    assert_eq!(second.new_failure(Some(&first)), Some("away"));
    assert_eq!(fine.new_failure(Some(&first)), None);
}

#[test]
fn an_order_that_nobody_understands_changes_nothing() {
    let mut world = World::joined();
    world.order("Hibernate");
    assert_eq!(agent_text(&world.run_agent()), "UnknownState(\"Hibernate\")");
    assert!(world.memory.applier_running);
}

#[test]
fn without_a_mailbox_what_runs_goes_on() {
    let mut world = World::joined();
    world.mailbox = None;
    assert_eq!(agent_text(&world.run_agent()), "NoMailbox");
    assert!(world.memory.applier_running);
}

fn sounding(taken_at: Timestamp, failed_in_a_row: u32) -> Sounding {
    let probe = Probe::Answered { status_code: 200 };
    let collected = Collected::ProviderTimedOut;
    let spec = InternalMemberClusterSpec { state: ClusterState::Join, heartbeat_period_seconds: None };
    let order = Order::of(&InternalMemberCluster::named("m1", spec));
    let mut sounding = Sounding::next(&Memory::default(), order, taken_at, probe, None, collected);
    sounding.failed_in_a_row = failed_in_a_row;
    sounding
}

proptest! {
    #[test]
    fn heartbeats_are_a_twentieth_early_or_late_at_most(period in 1..=600_i32, seed: u64, second in 0..1_000_000_i64) {
        let at = Timestamp::from_second(second).unwrap();
        let wait = next_beat(&sounding(at, 0), period, seed).duration_since(at).as_millis();
        let period = i128::from(period) * 1000;
        prop_assert!(wait >= period - period / 20 && wait < period + period / 20, "{}", wait);
    }

    #[test]
    fn after_a_failure_nobody_waits_longer_than_without(period in -1..=600_i32, seed: u64, failures: u32) {
        let at = Timestamp::UNIX_EPOCH;
        let regular = next_beat(&sounding(at, 0), period, seed);
        let early = next_beat(&sounding(at, failures), period, seed);
        prop_assert!(early > at && early <= regular);
    }
}

#[test]
fn heartbeats_of_a_fleet_are_spread_over_a_tenth_of_the_period() {
    let at: Timestamp = START.parse().unwrap();
    let mut tenths = [0_usize; 10];
    for seed in 0..1000 {
        let wait = next_beat(&sounding(at, 0), 60, seed).duration_since(at) - SignedDuration::from_secs(57);
        tenths[usize::try_from(wait.as_millis() / 600).unwrap()] += 1;
    }
    assert!(tenths.iter().all(|count| (60..150).contains(count)), "{tenths:?}");
}
