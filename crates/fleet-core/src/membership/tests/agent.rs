//! When a member's agent acts: joining, heartbeats, retries, leaving.

use expect_test::{Expect, expect};
use fleet_api::kinds::InternalMemberCluster;
use fleet_api::types::{ClusterState, InternalMemberClusterSpec};
use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;

use super::fixture::{Fixture, START};
use super::render::{agent_text, agents_text};
use crate::membership::agent::{Collected, Heartbeat, Memory, Probe, SpecGeneration, next_heartbeat};
use crate::plan::Wake;

fn heartbeats(fixture: &Fixture) -> String {
    agents_text(&fixture.internal_member_cluster.as_ref().unwrap().status.as_ref().unwrap().observed.agent_status)
}

#[test]
fn an_agent_collects_a_heartbeat_before_it_reports_joined() {
    let mut fixture = Fixture::new();
    fixture.hub_acts();
    let plan = fixture.agent_plan();
    assert_eq!(agent_text(&plan), "start applier\ncollect heartbeat\nHeartbeatDue");
    assert_eq!(plan.status, None);
    fixture.carry_out_agent(&plan);
    expect![[r#"
        event Normal InternalMemberClusterHealthy: internal member cluster healthy
        event Normal InternalMemberClusterJoined: internal member cluster joined
        count join_result_counter
        wake at 2026-11-15T12:01:00.542Z
        Joined { healthy: true, next_heartbeat: 2026-11-15T12:01:00.542Z }"#]]
    .assert_eq(&agent_text(&fixture.agent_plan()));
}

#[test]
fn heartbeats_are_sent_only_when_they_are_due() {
    let mut fixture = Fixture::joined();
    let Wake::At(next) = fixture.agent_plan().wake else { panic!() };
    fixture.now = next - SignedDuration::from_millis(1);
    assert!(fixture.agent_plan().is_idle());
    fixture.now = next;
    assert_eq!(agent_text(&fixture.agent_plan()), "collect heartbeat\nHeartbeatDue");
    fixture.agent_acts();
    let beat = format!("MemberAgent {} ", fleet_api::time::Time::new(next));
    assert!(heartbeats(&fixture).starts_with(&beat), "{}", heartbeats(&fixture));
}

#[test]
fn a_member_that_lives_for_an_hour_sends_about_sixty_heartbeats() {
    let mut fixture = Fixture::joined();
    let mut beats = 0;
    let mut last = heartbeats(&fixture);
    for _ in 0..360 {
        fixture.live(10);
        let now = heartbeats(&fixture);
        beats += usize::from(now != last);
        last = now;
    }
    assert!((57..=63).contains(&beats), "{beats}");
}

#[test]
fn a_new_request_of_the_hub_and_a_restart_cause_a_heartbeat_at_once() {
    let mut fixture = Fixture::joined();
    fixture.pass(5);
    fixture.edit(|member| member.spec.heartbeat_period_seconds = Some(600));
    fixture.hub_acts();
    assert_eq!(agent_text(&fixture.agent_plan()), "collect heartbeat\nHeartbeatDue");
    expect![[r#"
        event Normal InternalMemberClusterJoined: internal member cluster joined
        count join_result_counter
        wake at 2026-11-15T12:10:17.989Z
        Joined { healthy: true, next_heartbeat: 2026-11-15T12:10:17.989Z }"#]]
    .assert_eq(&agent_text(&fixture.run_agent()));
    fixture.pass(5);
    fixture.restart_agent();
    assert_eq!(agent_text(&fixture.agent_plan()), "start applier\ncollect heartbeat\nHeartbeatDue");
    let plan = fixture.run_agent();
    assert_eq!((plan.report.events, plan.report.counted), (Vec::new(), None), "nothing that the hub does not know");
}

#[test]
fn a_clock_that_was_set_back_does_not_stop_heartbeats() {
    let mut fixture = Fixture::joined();
    fixture.now -= SignedDuration::from_hours(5);
    assert_eq!(agent_text(&fixture.agent_plan()), "collect heartbeat\nHeartbeatDue");
}

/// Seconds between heartbeats.
fn check_waits(fixture: &mut Fixture, expected: Expect) {
    let mut waits = Vec::new();
    for _ in 0..8 {
        let plan = fixture.run_agent();
        let Wake::At(next) = plan.wake else { panic!("{plan:#?}") };
        waits.push(next.duration_since(fixture.now).as_secs().to_string());
        fixture.now = next;
    }
    expected.assert_eq(&waits.join(" "));
}

#[test]
fn failed_heartbeats_are_repeated_sooner_at_first() {
    let mut fixture = Fixture::new();
    fixture.hub_acts();
    fixture.probe = Probe::Unreachable;
    check_waits(&mut fixture, expect!["1 2 4 8 16 32 58 58"]);
    fixture.restart_agent();
    fixture.probe = Probe::Answered { status_code: 200 };
    fixture.collected = Collected::Failed { error: "nodes are forbidden".to_owned() };
    check_waits(&mut fixture, expect!["1 2 4 8 16 32 58 57"]);
    fixture.collected = Collected::ProviderTimedOut;
    check_waits(&mut fixture, expect!["62 62 59 60 62 58 59 58"]);
}

#[test]
fn a_failed_join_is_reported_and_retried() {
    let mut fixture = Fixture::new();
    fixture.hub_acts();
    fixture.obstacle = Some("the disk is full".to_owned());
    fixture.carry_out_agent(&fixture.agent_plan());
    expect![[r#"
        event Normal InternalMemberClusterFailedToJoin: internal member cluster failed to join
        wake at 2026-11-15T12:00:01Z
        AwaitingRetry { error: "the disk is full", retry_at: 2026-11-15T12:00:01Z }"#]]
    .assert_eq(&agent_text(&fixture.run_agent()));
    assert!(heartbeats(&fixture).starts_with("MemberAgent never Joined=Unknown@1"), "{}", heartbeats(&fixture));
    assert!(fixture.agent_plan().is_idle(), "it waits for its time");
    fixture.pass(1);
    fixture.carry_out_agent(&fixture.agent_plan());
    assert_eq!(fixture.agent_plan().wake, Wake::At(fixture.now + SignedDuration::from_secs(2)));
    fixture.pass(2);
    fixture.obstacle = None;
    fixture.settle();
    assert!(heartbeats(&fixture).contains("Joined=True@1"), "{}", heartbeats(&fixture));
    assert_eq!(fixture.memory.failure, None);
}

#[test]
fn leaving_stops_the_applier_then_removes_finalizers_then_reports() {
    let mut fixture = Fixture::joined();
    fixture.place("b-work");
    fixture.place("a-work");
    fixture.works[0].metadata.finalizers = None;
    fixture.pass(10);
    fixture.request("Leave");
    let before = heartbeats(&fixture);
    expect![[r#"
        stop applier
        release work a-work
        event Normal InternalMemberClusterLeft: internal member cluster left
        count leave_result_counter
        Left"#]]
    .assert_eq(&agent_text(&fixture.run_agent()));
    assert_eq!(heartbeats(&fixture), before.replace("Joined=True@1", "Joined=False@2"), "no further heartbeat");
    fixture.pass(10_000);
    let plan = fixture.agent_plan();
    assert!(plan.is_idle() && plan.wake == Wake::OnChange, "{plan:#?}");
}

#[test]
fn a_failed_leave_is_reported_and_retried() {
    let mut fixture = Fixture::joined();
    fixture.place("a-work");
    fixture.request("Leave");
    fixture.obstacle = Some("the hub is away".to_owned());
    fixture.carry_out_agent(&fixture.agent_plan());
    expect![[r#"
        event Normal InternalMemberClusterFailedToLeave: internal member cluster failed to leave
        wake at 2026-11-15T12:00:01Z
        AwaitingRetry { error: "the hub is away", retry_at: 2026-11-15T12:00:01Z }"#]]
    .assert_eq(&agent_text(&fixture.run_agent()));
    assert!(!fixture.memory.applier_running);
    fixture.obstacle = None;
    fixture.pass(1);
    expect![[r#"
        release work a-work
        event Normal InternalMemberClusterLeft: internal member cluster left
        count leave_result_counter
        Left"#]]
    .assert_eq(&agent_text(&fixture.agent_plan()));
    fixture.agent_acts();
    assert!(heartbeats(&fixture).contains("Joined=False@2"), "{}", heartbeats(&fixture));
}

#[test]
fn a_recreated_internal_member_cluster_is_a_new_request() {
    let mut fixture = Fixture::joined();
    fixture.pass(5);
    assert!(fixture.agent_plan().is_idle());
    // The same generation of a new object, without a status.
    let internal_member_cluster = fixture.internal_member_cluster.as_mut().unwrap();
    internal_member_cluster.metadata.uid = Some("another".to_owned());
    internal_member_cluster.status = None;
    assert_eq!(agent_text(&fixture.agent_plan()), "collect heartbeat\nHeartbeatDue");
    fixture.agent_acts();
    let beat = format!("MemberAgent {} ", fleet_api::time::Time::new(fixture.now));
    assert!(heartbeats(&fixture).starts_with(&beat), "{}", heartbeats(&fixture));
    // A failure under the previous object does not delay it either.
    fixture.request("Leave");
    fixture.place("a-work");
    fixture.obstacle = Some("the hub is away".to_owned());
    fixture.carry_out_agent(&fixture.agent_plan());
    assert!(fixture.agent_plan().writes.is_empty(), "it waits for its time");
    fixture.internal_member_cluster.as_mut().unwrap().metadata.uid = Some("yet another".to_owned());
    assert!(!fixture.agent_plan().writes.is_empty());
}

#[test]
fn a_failed_collection_is_reported_once() {
    let failed = |error: &str| Collected::Failed { error: error.to_owned() };
    let with = |collected| Heartbeat { collected, ..heartbeat(Timestamp::UNIX_EPOCH, 0) };
    let (first, second, fine) = (with(failed("forbidden")), with(failed("away")), with(Collected::TooManyCalls));
    assert_eq!(first.new_collection_error(None), Some("forbidden"));
    assert_eq!(first.new_collection_error(Some(&fine)), Some("forbidden"));
    assert_eq!(first.new_collection_error(Some(&first)), None);
    assert_eq!(second.new_collection_error(Some(&first)), Some("away"));
    assert_eq!(fine.new_collection_error(Some(&first)), None);
}

#[test]
fn an_unknown_requested_state_changes_nothing() {
    let mut fixture = Fixture::joined();
    fixture.request("Hibernate");
    assert_eq!(agent_text(&fixture.run_agent()), "UnknownState(\"Hibernate\")");
    assert!(fixture.memory.applier_running);
}

#[test]
fn without_an_internal_member_cluster_the_applier_keeps_its_state() {
    let mut fixture = Fixture::joined();
    fixture.internal_member_cluster = None;
    assert_eq!(agent_text(&fixture.run_agent()), "NoInternalMemberCluster");
    assert!(fixture.memory.applier_running);
}

fn heartbeat(collected_at: Timestamp, failed_in_a_row: u32) -> Heartbeat {
    let probe = Probe::Answered { status_code: 200 };
    let collected = Collected::ProviderTimedOut;
    let spec = InternalMemberClusterSpec { state: ClusterState::Join, heartbeat_period_seconds: None };
    let requested_by = SpecGeneration::of(&InternalMemberCluster::named("m1", spec));
    let mut heartbeat = Heartbeat::next(&Memory::default(), requested_by, collected_at, probe, None, collected);
    heartbeat.failed_in_a_row = failed_in_a_row;
    heartbeat
}

proptest! {
    #[test]
    fn heartbeats_are_a_twentieth_early_or_late_at_most(period in 1..=600_i32, seed: u64, second in 0..1_000_000_i64) {
        let at = Timestamp::from_second(second).unwrap();
        let wait = next_heartbeat(&heartbeat(at, 0), period, seed).duration_since(at).as_millis();
        let period = i128::from(period) * 1000;
        prop_assert!(wait >= period - period / 20 && wait < period + period / 20, "{}", wait);
    }

    #[test]
    fn a_failure_never_delays_the_next_heartbeat(period in -1..=600_i32, seed: u64, failures: u32) {
        let at = Timestamp::UNIX_EPOCH;
        let regular = next_heartbeat(&heartbeat(at, 0), period, seed);
        let early = next_heartbeat(&heartbeat(at, failures), period, seed);
        prop_assert!(early > at && early <= regular);
    }
}

#[test]
fn heartbeats_of_a_fleet_are_spread_over_a_tenth_of_the_period() {
    let at: Timestamp = START.parse().unwrap();
    let mut tenths = [0_usize; 10];
    for seed in 0..1000 {
        let wait = next_heartbeat(&heartbeat(at, 0), 60, seed).duration_since(at) - SignedDuration::from_secs(57);
        tenths[usize::try_from(wait.as_millis() / 600).unwrap()] += 1;
    }
    assert!(tenths.iter().all(|count| (60..150).contains(count)), "{tenths:?}");
}
