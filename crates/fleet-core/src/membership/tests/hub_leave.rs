//! How a member leaves: who is waited for, how long, and what is taken away.

use expect_test::expect;
use fleet_api::conditions::member::MemberJoined;
use fleet_api::conditions::{ConditionStatus, decode};
use jiff::SignedDuration;

use super::render::hub_text;
use super::world::World;
use crate::membership::hub::{Clearance, Leaving, NAMESPACE_STUCK_AFTER, Outcome};
use crate::plan::Wake;

fn leaving() -> World {
    let mut world = World::joined();
    world.place("b-work");
    world.place("a-work");
    world.delete_member();
    world
}

#[test]
fn a_member_that_we_do_not_hold_is_none_of_our_business() {
    let mut world = leaving();
    world.member().metadata.finalizers = Some(vec!["example.com/other".to_owned()]);
    assert_eq!(hub_text(&world.run_hub()), "Leaving(NotHeld)");
}

#[test]
fn the_agent_is_asked_and_waited_for_from_then_on() {
    let mut world = leaving();
    world.settings.force_delete_after = SignedDuration::from_mins(5);
    world.pass(60);
    expect![[r#"
        update mailbox m1 Leave 60s
        event Normal InternalMemberClusterSpecUpdated: internal member cluster spec updated
        wake at 2026-11-15T12:06:00Z
        Leaving(AwaitingAgent { forced_at: 2026-11-15T12:06:00Z })"#]]
    .assert_eq(&hub_text(&world.run_hub()));
    world.pass(60);
    expect![[r#"
        wake at 2026-11-15T12:06:00Z
        Leaving(AwaitingAgent { forced_at: 2026-11-15T12:06:00Z })"#]]
    .assert_eq(&hub_text(&world.run_hub()));
}

#[test]
fn an_agent_that_another_release_has_asked_is_waited_for_from_the_moment_of_deletion() {
    let mut world = leaving();
    world.hub_acts();
    world.mailbox.as_mut().unwrap().metadata.annotations = None;
    world.pass(60);
    expect![[r#"
        wake at 2026-11-15T12:15:00Z
        Leaving(AwaitingAgent { forced_at: 2026-11-15T12:15:00Z })"#]]
    .assert_eq(&hub_text(&world.run_hub()));
    world.pass(14 * 60);
    assert_eq!(world.run_hub().report.outcome, Outcome::Leaving(Leaving::Clearing(Clearance::Forced)));
}

#[test]
fn without_a_mailbox_nobody_can_be_asked() {
    let mut world = leaving();
    world.mailbox = None;
    expect![[r#"
        release work a-work
        release work b-work
        delete namespace fleet-member-m1
        Leaving(Clearing(NoMailbox))"#]]
    .assert_eq(&hub_text(&world.run_hub()));
}

#[test]
fn a_hub_that_was_away_for_longer_than_the_waiting_time_asks_and_waits_all_the_same() {
    let mut world = leaving();
    world.pass(3600);
    expect![[r#"
        update mailbox m1 Leave 60s
        event Normal InternalMemberClusterSpecUpdated: internal member cluster spec updated
        wake at 2026-11-15T13:15:00Z
        Leaving(AwaitingAgent { forced_at: 2026-11-15T13:15:00Z })"#]]
    .assert_eq(&hub_text(&world.run_hub()));
    let mut answered = world.clone();
    answered.agent_acts();
    assert_eq!(answered.run_hub().report.outcome, Outcome::Leaving(Leaving::Clearing(Clearance::AgentsLeft)));
    world.pass(15 * 60);
    expect![[r#"
        release work a-work
        release work b-work
        delete namespace fleet-member-m1
        Leaving(Clearing(Forced))"#]]
    .assert_eq(&hub_text(&world.run_hub()));
}

#[test]
fn that_the_agents_left_is_said_of_the_generation_of_the_deletion() {
    let mut world = leaving();
    world.hub_acts();
    world.agent_acts();
    let plan = world.run_hub();
    assert_eq!(plan.report.outcome, Outcome::Leaving(Leaving::Clearing(Clearance::AgentsLeft)));
    let generation = world.member().generation();
    assert_eq!(generation, 2);
    assert_eq!(decode::<MemberJoined>(&world.status().conditions, generation).status(), ConditionStatus::False);
}

#[test]
fn all_expected_agents_must_have_left() {
    let mut world = leaving();
    world.settings.networking_agents = true;
    world.hub_acts();
    world.agent_acts();
    let plan = world.run_hub();
    assert!(matches!(plan.report.outcome, Outcome::Leaving(Leaving::AwaitingAgent { .. })), "{plan:#?}");
}

#[test]
fn a_work_that_comes_to_light_late_does_not_keep_the_namespace() {
    let mut world = leaving();
    world.hub_acts();
    world.agent_acts();
    world.hub_acts();
    world.place("late-work");
    expect![[r#"
        release work late-work
        wake at 2026-11-15T12:15:00Z
        Leaving(AwaitingNamespace { since: 2026-11-15T12:00:00Z, stuck: false })"#]]
    .assert_eq(&hub_text(&world.run_hub()));
    world.settle();
    assert!(world.member.is_none());
}

#[test]
fn a_namespace_that_does_not_go_is_reported_once_its_time_is_up() {
    let mut world = leaving();
    world.terminate_namespace();
    let plan = world.run_hub();
    let since = world.now;
    let stuck = |stuck| Outcome::Leaving(Leaving::AwaitingNamespace { since, stuck });
    assert_eq!(plan.report.outcome, stuck(false));
    assert_eq!(plan.wake, Wake::At(since + NAMESPACE_STUCK_AFTER));
    world.now += NAMESPACE_STUCK_AFTER;
    let plan = world.run_hub();
    assert_eq!((plan.report.outcome, plan.wake), (stuck(true), Wake::OnChange));
}

#[test]
fn the_member_stays_while_the_inventory_holds_it() {
    let mut world = leaving();
    world.hub_acts();
    world.agent_acts();
    world.hub_acts();
    world.collect_garbage();
    assert_eq!(hub_text(&world.run_hub()), "release member\nLeaving(Released)");
    assert!(world.member.is_some());
    assert_eq!(hub_text(&world.run_hub()), "Leaving(NotHeld)");
    world.inventory_acts();
    assert!(world.member.is_none());
}
