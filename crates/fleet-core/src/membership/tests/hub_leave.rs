//! How a member leaves: the wait for its agents, and what is deleted.

use expect_test::expect;
use fleet_api::conditions::member::MemberJoined;
use fleet_api::conditions::{ConditionStatus, decode};
use jiff::SignedDuration;

use super::fixture::Fixture;
use super::render::hub_text;
use crate::membership::hub::{
    Leaving, MemberOutcome, NAMESPACE_STUCK_AFTER, NamespaceFacts, RemovalReason, WorkFacts, plan_without_member,
};
use crate::plan::Wake;

fn leaving() -> Fixture {
    let mut fixture = Fixture::joined();
    fixture.place("b-work");
    fixture.place("a-work");
    fixture.delete_member();
    fixture
}

#[test]
fn a_member_without_our_finalizer_is_ignored() {
    let mut fixture = leaving();
    fixture.member().metadata.finalizers = Some(vec!["example.com/other".to_owned()]);
    assert_eq!(hub_text(&fixture.run_hub()), "Leaving(NoFinalizer)");
}

#[test]
fn the_agent_is_asked_to_leave_and_the_wait_starts() {
    let mut fixture = leaving();
    fixture.settings.force_delete_after = SignedDuration::from_mins(5);
    fixture.pass(60);
    expect![[r#"
        update InternalMemberCluster m1 Leave 60s
        event Normal InternalMemberClusterSpecUpdated: internal member cluster spec updated
        wake at 2026-11-15T12:06:00Z
        Leaving(AwaitingAgent { forced_at: 2026-11-15T12:06:00Z })"#]]
    .assert_eq(&hub_text(&fixture.run_hub()));
    fixture.pass(60);
    expect![[r#"
        wake at 2026-11-15T12:06:00Z
        Leaving(AwaitingAgent { forced_at: 2026-11-15T12:06:00Z })"#]]
    .assert_eq(&hub_text(&fixture.run_hub()));
}

#[test]
fn without_a_recorded_request_the_wait_starts_at_the_deletion() {
    let mut fixture = leaving();
    fixture.hub_acts();
    fixture.internal_member_cluster.as_mut().unwrap().metadata.annotations = None;
    fixture.pass(60);
    expect![[r#"
        wake at 2026-11-15T12:15:00Z
        Leaving(AwaitingAgent { forced_at: 2026-11-15T12:15:00Z })"#]]
    .assert_eq(&hub_text(&fixture.run_hub()));
    fixture.pass(14 * 60);
    assert_eq!(fixture.run_hub().report.outcome, MemberOutcome::Leaving(Leaving::Removing(RemovalReason::Forced)));
}

#[test]
fn without_an_internal_member_cluster_no_agent_can_be_asked_to_leave() {
    let mut fixture = leaving();
    fixture.internal_member_cluster = None;
    expect![[r#"
        release work a-work
        release work b-work
        delete namespace fleet-member-m1
        Leaving(Removing(NoInternalMemberCluster))"#]]
    .assert_eq(&hub_text(&fixture.run_hub()));
}

#[test]
fn a_hub_that_was_down_for_longer_than_the_wait_still_asks_and_waits() {
    let mut fixture = leaving();
    fixture.pass(3600);
    expect![[r#"
        update InternalMemberCluster m1 Leave 60s
        event Normal InternalMemberClusterSpecUpdated: internal member cluster spec updated
        wake at 2026-11-15T13:15:00Z
        Leaving(AwaitingAgent { forced_at: 2026-11-15T13:15:00Z })"#]]
    .assert_eq(&hub_text(&fixture.run_hub()));
    let mut answered = fixture.clone();
    answered.agent_acts();
    assert_eq!(answered.run_hub().report.outcome, MemberOutcome::Leaving(Leaving::Removing(RemovalReason::AgentsLeft)));
    fixture.pass(15 * 60);
    expect![[r#"
        release work a-work
        release work b-work
        delete namespace fleet-member-m1
        Leaving(Removing(Forced))"#]]
    .assert_eq(&hub_text(&fixture.run_hub()));
}

#[test]
fn the_left_condition_has_the_generation_of_the_deletion() {
    let mut fixture = leaving();
    fixture.hub_acts();
    fixture.agent_acts();
    let plan = fixture.run_hub();
    assert_eq!(plan.report.outcome, MemberOutcome::Leaving(Leaving::Removing(RemovalReason::AgentsLeft)));
    let generation = fixture.member().generation();
    assert_eq!(generation, 2);
    assert_eq!(decode::<MemberJoined>(&fixture.status().conditions, generation).status(), ConditionStatus::False);
}

#[test]
fn all_expected_agents_must_have_left() {
    let mut fixture = leaving();
    fixture.settings.networking_agents = true;
    fixture.hub_acts();
    fixture.agent_acts();
    let plan = fixture.run_hub();
    assert!(matches!(plan.report.outcome, MemberOutcome::Leaving(Leaving::AwaitingAgent { .. })), "{plan:#?}");
}

#[test]
fn a_work_that_is_observed_late_does_not_keep_the_namespace() {
    let mut fixture = leaving();
    fixture.hub_acts();
    fixture.agent_acts();
    fixture.hub_acts();
    fixture.place("late-work");
    expect![[r#"
        release work late-work
        wake at 2026-11-15T12:15:00Z
        Leaving(AwaitingNamespace { since: 2026-11-15T12:00:00Z, stuck: false })"#]]
    .assert_eq(&hub_text(&fixture.run_hub()));
    fixture.settle();
    assert!(fixture.member.is_none());
}

#[test]
fn a_stuck_namespace_is_reported_after_its_time() {
    let mut fixture = leaving();
    fixture.terminate_namespace();
    let plan = fixture.run_hub();
    let since = fixture.now;
    let stuck = |stuck| MemberOutcome::Leaving(Leaving::AwaitingNamespace { since, stuck });
    assert_eq!(plan.report.outcome, stuck(false));
    assert_eq!(plan.wake, Wake::At(since + NAMESPACE_STUCK_AFTER));
    fixture.now += NAMESPACE_STUCK_AFTER;
    let plan = fixture.run_hub();
    assert_eq!((plan.report.outcome, plan.wake), (stuck(true), Wake::OnChange));
}

#[test]
fn the_member_stays_while_the_profile_finalizer_is_set() {
    let mut fixture = leaving();
    fixture.hub_acts();
    fixture.agent_acts();
    fixture.hub_acts();
    fixture.collect_garbage();
    assert_eq!(hub_text(&fixture.run_hub()), "release member\nLeaving(Released)");
    assert!(fixture.member.is_some());
    assert_eq!(hub_text(&fixture.run_hub()), "Leaving(NoFinalizer)");
    fixture.inventory_acts();
    assert!(fixture.member.is_none());
}

#[test]
fn last_01_a_terminating_namespace_is_released_once_the_member_lost_our_finalizer() {
    let mut fixture = leaving();
    fixture.member().metadata.finalizers = Some(vec!["example.com/other".to_owned()]);
    fixture.terminate_namespace();
    expect![[r#"
        release work a-work
        release work b-work
        Leaving(AbandonedNamespace { since: 2026-11-15T12:00:00Z })"#]]
    .assert_eq(&hub_text(&fixture.run_hub()));
    fixture.collect_garbage();
    assert!(fixture.namespace.is_none());
}

#[test]
fn last_01_a_terminating_namespace_is_released_once_the_member_is_gone() {
    let mut fixture = leaving();
    fixture.member().metadata.finalizers = None;
    fixture.collect_garbage();
    assert!(fixture.member.is_none());
    let plan_for = |fixture: &Fixture| {
        let works: Vec<_> = fixture.works.iter().map(WorkFacts::of).collect();
        plan_without_member(&NamespaceFacts::of(fixture.namespace.as_ref(), None), &works)
    };
    let untouched = plan_for(&fixture);
    assert!(untouched.is_idle(), "a namespace that stays keeps its Works: {untouched:#?}");
    fixture.terminate_namespace();
    expect![[r#"
        release work a-work
        release work b-work
        Leaving(AbandonedNamespace { since: 2026-11-15T12:00:00Z })"#]]
    .assert_eq(&hub_text(&plan_for(&fixture)));
}

#[test]
fn last_01_a_member_that_rejoins_finalizes_the_namespace_of_its_predecessor() {
    let mut fixture = leaving();
    fixture.member().metadata.finalizers = None;
    fixture.collect_garbage();
    fixture.terminate_namespace();
    fixture.recreate_member();
    fixture.member().metadata.uid = Some("another".to_owned());
    expect![[r#"
        hold member
        release work a-work
        release work b-work
        event Normal MemberClusterJoined: member cluster joined
        count join_result_counter
        NamespaceTerminating"#]]
    .assert_eq(&hub_text(&fixture.run_hub()));
    fixture.collect_garbage();
    fixture.settle();
    assert_eq!(decode::<MemberJoined>(&fixture.status().conditions, 1).status(), ConditionStatus::True);
}

#[test]
fn last_01_works_of_a_staying_member_are_left_to_its_agent_if_its_namespace_is_deleted() {
    let mut fixture = Fixture::joined();
    fixture.place("a-work");
    fixture.terminate_namespace();
    assert_eq!(hub_text(&fixture.run_hub()), "NamespaceTerminating");
}
