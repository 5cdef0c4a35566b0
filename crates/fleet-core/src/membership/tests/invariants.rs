//! Properties of every plan of hub, agent and profile, over random histories of one member: it leaves nothing to do,
//! it may be interrupted after any write, it depends only on the facts, and the member always settles.

use std::collections::{BTreeSet, VecDeque};

use proptest::prelude::*;

use super::fixture::Fixture;
use super::render::status_text;
use crate::membership::agent::{self, Probe};
use crate::membership::{hub, profile};
use crate::plan::Wake;
use crate::plan::testing::{Replan, check_every_prefix};

/// Enough for every retry and for a forced deletion.
const LONG_ENOUGH_SECONDS: i64 = 20 * 60;

/// What may happen between two plans.
#[derive(Debug, Clone, Copy)]
enum Step {
    Hub,
    /// The hub stops after this many writes.
    HubStopped(usize),
    Agent,
    AgentStopped(usize),
    AgentRestarts,
    AgentGoes(bool),
    Inventory,
    Kubernetes,
    Place(char),
    Probe(u16),
    Obstacle(bool),
    Tamper(u8),
    EditMember,
    DeleteMember,
    Pass(i64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => Just(Step::Hub),
        2 => (0..5_usize).prop_map(Step::HubStopped),
        4 => Just(Step::Agent),
        2 => (0..3_usize).prop_map(Step::AgentStopped),
        1 => Just(Step::AgentRestarts),
        1 => any::<bool>().prop_map(Step::AgentGoes),
        2 => Just(Step::Inventory),
        2 => Just(Step::Kubernetes),
        1 => prop::char::range('a', 'c').prop_map(Step::Place),
        1 => prop::sample::select(vec![200, 500]).prop_map(Step::Probe),
        1 => any::<bool>().prop_map(Step::Obstacle),
        2 => (0..7_u8).prop_map(Step::Tamper),
        1 => Just(Step::EditMember),
        1 => Just(Step::DeleteMember),
        2 => (1..400_i64).prop_map(Step::Pass),
    ]
}

fn take(fixture: &mut Fixture, step: Step) {
    match step {
        Step::Hub => take(fixture, Step::HubStopped(usize::MAX)),
        Step::HubStopped(after) if fixture.member.is_some() => {
            let plan = fixture.hub_plan();
            if after >= plan.writes.len() {
                fixture.carry_out_hub(&plan);
            } else {
                plan.writes[..after].iter().for_each(|write| fixture.write_hub(write));
            }
        }
        Step::Agent => take(fixture, Step::AgentStopped(usize::MAX)),
        Step::AgentStopped(after) if fixture.agent_alive => {
            let plan = fixture.agent_plan();
            if after >= plan.writes.len() {
                fixture.carry_out_agent(&plan);
            } else {
                plan.writes[..after].iter().for_each(|write| _ = fixture.write_agent(write));
                fixture.restart_agent();
            }
        }
        Step::AgentRestarts => fixture.restart_agent(),
        Step::AgentGoes(alive) => fixture.agent_alive = alive,
        Step::Inventory => fixture.carry_out_profile(&fixture.profile_plan()),
        Step::Kubernetes => fixture.collect_garbage(),
        Step::Place(name) if fixture.namespace.is_some() => {
            fixture.works.retain(|work| work.metadata.name != Some(name.to_string()));
            fixture.place(&name.to_string());
        }
        Step::Probe(status_code) => fixture.probe = Probe::Answered { status_code },
        Step::Obstacle(there) => fixture.obstacle = there.then(|| "an obstacle".to_owned()),
        Step::Tamper(what) => tamper(fixture, what),
        Step::EditMember if fixture.member.is_some() => fixture.edit(|member| {
            let period = member.spec.heartbeat_period_seconds();
            member.spec.heartbeat_period_seconds = Some(period % 90 + 10);
        }),
        Step::DeleteMember if fixture.member.is_some() => fixture.delete_member(),
        Step::Pass(seconds) => fixture.pass(seconds),
        Step::HubStopped(_) | Step::AgentStopped(_) | Step::Place(_) | Step::EditMember | Step::DeleteMember => {}
    }
}

/// Another writer changes the member's objects.
fn tamper(fixture: &mut Fixture, what: u8) {
    match what {
        0 => fixture.role = None,
        1 => fixture.role_binding.iter_mut().for_each(|one| one.role_ref.name = "admin".to_owned()),
        2 => fixture.internal_member_cluster = None,
        3 if fixture.internal_member_cluster.is_some() => fixture.request("Leave"),
        4 if fixture.namespace.is_some() => fixture.terminate_namespace(),
        5 => fixture.profile = None,
        6 => fixture.profile.iter_mut().for_each(|one| one.spec.display_name = "edited".to_owned()),
        _ => {}
    }
}

fn fixture() -> impl Strategy<Value = Fixture> {
    (any::<bool>(), prop::collection::vec(step(), 0..20)).prop_map(|(joined, steps)| {
        let mut fixture = if joined { Fixture::joined() } else { Fixture::new() };
        for step in steps {
            take(&mut fixture, step);
        }
        fixture
    })
}

/// The state of a fixture, including transition times.
fn place(fixture: &Fixture) -> String {
    let Fixture { member, namespace, role, role_binding, internal_member_cluster, works, profile, memory, .. } =
        fixture;
    format!(
        "{member:?}\n{namespace:?}\n{role:?}\n{role_binding:?}\n{internal_member_cluster:?}\n{works:?}\n{profile:?}\n{memory:?}"
    )
}

/// The fixture as the hub plans for it.
#[derive(Clone)]
struct HubPlans(Fixture);

impl Replan for HubPlans {
    type Write = hub::Write;
    type Place = String;

    fn writes(&self) -> Vec<hub::Write> {
        self.0.hub_plan().writes
    }

    fn execute(&mut self, write: &hub::Write) {
        self.0.write_hub(write);
    }

    fn reconcile(&mut self) {
        if self.0.member.is_some() {
            self.0.carry_out_hub(&self.0.hub_plan());
        }
    }

    fn place(&self) -> String {
        place(&self.0)
    }
}

/// The fixture as the agent plans for it.
#[derive(Clone)]
struct AgentPlans(Fixture);

impl Replan for AgentPlans {
    type Write = agent::Write;
    type Place = String;

    fn writes(&self) -> Vec<agent::Write> {
        self.0.agent_plan().writes
    }

    fn execute(&mut self, write: &agent::Write) {
        assert!(self.0.write_agent(write).is_ok());
    }

    fn reconcile(&mut self) {
        for _ in 0..3 {
            self.0.carry_out_agent(&self.0.agent_plan());
        }
        self.0.memory.failure = None;
    }

    fn place(&self) -> String {
        place(&self.0)
    }
}

/// The fixture as the cluster inventory plans for it.
#[derive(Clone)]
struct InventoryPlans(Fixture);

impl Replan for InventoryPlans {
    type Write = profile::Write;
    type Place = String;

    fn writes(&self) -> Vec<profile::Write> {
        self.0.profile_plan().writes
    }

    fn execute(&mut self, write: &profile::Write) {
        self.0.write_profile(write);
    }

    fn reconcile(&mut self) {
        self.0.carry_out_profile(&self.0.profile_plan());
    }

    fn place(&self) -> String {
        place(&self.0)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn a_plan_of_the_hub_leaves_nothing_to_do_before_it_wakes(mut fixture in fixture()) {
        prop_assume!(fixture.member.is_some());
        let plan = fixture.hub_plan();
        fixture.carry_out_hub(&plan);
        prop_assume!(fixture.member.is_some());
        let again = fixture.hub_plan();
        prop_assert!(again.is_idle(), "{:#?}", again);
        match again.wake {
            Wake::OnChange => fixture.pass(1_000_000),
            Wake::At(instant) => {
                prop_assert!(instant > fixture.now);
                fixture.now = instant - jiff::SignedDuration::from_nanos(1);
            }
        }
        prop_assert!(fixture.hub_plan().is_idle(), "{:#?}", fixture.hub_plan());
    }

    #[test]
    fn a_plan_of_the_hub_may_be_cut_short_after_any_write(fixture in fixture()) {
        prop_assume!(fixture.member.is_some());
        check_every_prefix(&HubPlans(fixture))?;
    }

    #[test]
    fn a_plan_of_the_agent_leaves_nothing_to_do_before_it_wakes(mut fixture in fixture()) {
        fixture.obstacle = None;
        fixture.memory.failure = None;
        for _ in 0..2 {
            let plan = fixture.agent_plan();
            fixture.carry_out_agent(&plan);
        }
        let again = fixture.agent_plan();
        prop_assert!(again.is_idle(), "{:#?}", again);
        match again.wake {
            Wake::OnChange => fixture.pass(1_000_000),
            Wake::At(instant) => {
                prop_assert!(instant > fixture.now);
                fixture.now = instant - jiff::SignedDuration::from_nanos(1);
            }
        }
        prop_assert!(fixture.agent_plan().is_idle(), "{:#?}", fixture.agent_plan());
    }

    #[test]
    fn a_plan_of_the_agent_may_be_cut_short_after_any_write(mut fixture in fixture()) {
        fixture.obstacle = None;
        check_every_prefix(&AgentPlans(fixture))?;
    }

    #[test]
    fn a_plan_of_the_inventory_leaves_nothing_to_do_and_may_be_cut_short(mut fixture in fixture()) {
        check_every_prefix(&InventoryPlans(fixture.clone()))?;
        let plan = fixture.profile_plan();
        fixture.carry_out_profile(&plan);
        let again = fixture.profile_plan();
        prop_assert!(again.is_idle(), "{:#?}", again);
        if let Wake::At(instant) = again.wake {
            prop_assert!(instant > fixture.now);
            fixture.now = instant - jiff::SignedDuration::from_nanos(1);
        }
        prop_assert!(fixture.profile_plan().is_idle());
    }

    #[test]
    fn the_same_facts_give_the_same_plans_in_whatever_order(fixture in fixture()) {
        let mut reversed = fixture.observe_agent();
        reversed.works.reverse();
        prop_assert_eq!(agent::plan(&reversed, fixture.now), fixture.agent_plan());
        prop_assert_eq!(profile::plan(&fixture.observe_profile(), fixture.now), fixture.profile_plan());
        prop_assume!(fixture.member.is_some());
        let mut reversed = fixture.observe_hub();
        reversed.works.reverse();
        prop_assert_eq!(hub::plan(&reversed, fixture.now), fixture.hub_plan());
    }

    #[test]
    fn from_any_state_a_member_joins_or_is_removed(mut fixture in fixture()) {
        fixture.agent_alive = true;
        fixture.obstacle = None;
        // The owners of other finalizers remove them in a terminating namespace.
        fixture.works.iter_mut().for_each(|work| work.metadata.finalizers = None);
        fixture.live(LONG_ENOUGH_SECONDS);
        match &fixture.member {
            None => prop_assert!(fixture.namespace.is_none() && fixture.profile.is_none() && fixture.works.is_empty()),
            Some(member) => {
                prop_assert!(member.metadata.deletion_timestamp.is_none());
                let text = status_text(&fixture);
                prop_assert!(text.contains("ReadyToJoin=True") && text.contains("MemberClusterJoined"), "{}", text);
                prop_assert!(fixture.memory.applier_running && fixture.profile.is_some());
            }
        }
    }
}

/// Every order in which hub, agent, profile and Kubernetes can take the steps of a leave, each interrupted after any
/// write.
#[test]
fn every_interleaving_of_a_leave_ends_with_nothing_left() {
    let mut start = Fixture::joined();
    start.place("web-work");
    start.delete_member();
    let steps = [Step::HubStopped(1), Step::Hub, Step::AgentStopped(1), Step::Agent, Step::Inventory, Step::Kubernetes];
    let mut seen = BTreeSet::from([place(&start)]);
    let mut queue = VecDeque::from([start]);
    while let Some(fixture) = queue.pop_front() {
        let gone = fixture.member.is_none();
        assert!(!gone || (fixture.namespace.is_none() && fixture.profile.is_none()), "{fixture:#?}");
        for step in steps {
            let mut next = fixture.clone();
            take(&mut next, step);
            if seen.insert(place(&next)) {
                queue.push_back(next);
            }
        }
        let mut end = fixture;
        end.live(LONG_ENOUGH_SECONDS);
        assert!(end.member.is_none() && end.works.is_empty(), "{end:#?}");
    }
    assert!(seen.len() > 20, "{}", seen.len());
}
