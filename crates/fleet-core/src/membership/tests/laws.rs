//! What holds for every plan of hub, agent and inventory, over random histories of one member: it leaves nothing to do,
//! it may be cut short anywhere, it depends on nothing but the facts, and whatever happened, a member comes to rest.

use std::collections::{BTreeSet, VecDeque};

use proptest::prelude::*;

use super::render::status_text;
use super::world::World;
use crate::membership::agent::{self, Probe};
use crate::membership::{hub, profile};
use crate::plan::Wake;

/// Enough for every retry and for a deletion that has to be forced.
const LONG_ENOUGH_SECONDS: i64 = 20 * 60;

/// What may happen between two plans.
#[derive(Debug, Clone, Copy)]
enum Step {
    Hub,
    /// The hub is stopped after so many writes.
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

fn take(world: &mut World, step: Step) {
    match step {
        Step::Hub => take(world, Step::HubStopped(usize::MAX)),
        Step::HubStopped(after) if world.member.is_some() => {
            let plan = world.hub_plan();
            if after >= plan.writes.len() {
                world.carry_out_hub(&plan);
            } else {
                plan.writes[..after].iter().for_each(|write| world.write_hub(write));
            }
        }
        Step::Agent => take(world, Step::AgentStopped(usize::MAX)),
        Step::AgentStopped(after) if world.agent_alive => {
            let plan = world.agent_plan();
            if after >= plan.writes.len() {
                world.carry_out_agent(&plan);
            } else {
                plan.writes[..after].iter().for_each(|write| _ = world.write_agent(write));
                world.restart_agent();
            }
        }
        Step::AgentRestarts => world.restart_agent(),
        Step::AgentGoes(alive) => world.agent_alive = alive,
        Step::Inventory => world.carry_out_profile(&world.profile_plan()),
        Step::Kubernetes => world.collect_garbage(),
        Step::Place(name) if world.namespace.is_some() => {
            world.works.retain(|work| work.metadata.name != Some(name.to_string()));
            world.place(&name.to_string());
        }
        Step::Probe(status_code) => world.probe = Probe::Answered { status_code },
        Step::Obstacle(there) => world.obstacle = there.then(|| "an obstacle".to_owned()),
        Step::Tamper(what) => tamper(world, what),
        Step::EditMember if world.member.is_some() => world.edit(|member| {
            let period = member.spec.heartbeat_period_seconds();
            member.spec.heartbeat_period_seconds = Some(period % 90 + 10);
        }),
        Step::DeleteMember if world.member.is_some() => world.delete_member(),
        Step::Pass(seconds) => world.pass(seconds),
        Step::HubStopped(_) | Step::AgentStopped(_) | Step::Place(_) | Step::EditMember | Step::DeleteMember => {}
    }
}

/// Somebody changes what is not theirs.
fn tamper(world: &mut World, what: u8) {
    match what {
        0 => world.role = None,
        1 => world.role_binding.iter_mut().for_each(|one| one.role_ref.name = "admin".to_owned()),
        2 => world.mailbox = None,
        3 if world.mailbox.is_some() => world.order("Leave"),
        4 if world.namespace.is_some() => world.terminate_namespace(),
        5 => world.profile = None,
        6 => world.profile.iter_mut().for_each(|one| one.spec.display_name = "edited".to_owned()),
        _ => {}
    }
}

fn world() -> impl Strategy<Value = World> {
    (any::<bool>(), prop::collection::vec(step(), 0..20)).prop_map(|(joined, steps)| {
        let mut world = if joined { World::joined() } else { World::new() };
        for step in steps {
            take(&mut world, step);
        }
        world
    })
}

/// Where a world stands. Times of transitions belong to it.
fn place(world: &World) -> String {
    let World { member, namespace, role, role_binding, mailbox, works, profile, memory, .. } = world;
    format!("{member:?}\n{namespace:?}\n{role:?}\n{role_binding:?}\n{mailbox:?}\n{works:?}\n{profile:?}\n{memory:?}")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn a_plan_of_the_hub_leaves_nothing_to_do_before_it_wakes(mut world in world()) {
        prop_assume!(world.member.is_some());
        let plan = world.hub_plan();
        world.carry_out_hub(&plan);
        prop_assume!(world.member.is_some());
        let again = world.hub_plan();
        prop_assert!(again.is_idle(), "{:#?}", again);
        match again.wake {
            Wake::OnChange => world.pass(1_000_000),
            Wake::At(instant) => {
                prop_assert!(instant > world.now);
                world.now = instant - jiff::SignedDuration::from_nanos(1);
            }
        }
        prop_assert!(world.hub_plan().is_idle(), "{:#?}", world.hub_plan());
    }

    #[test]
    fn a_plan_of_the_hub_may_be_cut_short_after_any_write(world in world()) {
        prop_assume!(world.member.is_some());
        let whole = world.hub_plan();
        let mut end = world.clone();
        end.carry_out_hub(&whole);
        let mut cut_short = world.clone();
        for write in &whole.writes {
            cut_short.write_hub(write);
            let mut resumed = cut_short.clone();
            if resumed.member.is_some() {
                resumed.carry_out_hub(&resumed.hub_plan());
            }
            prop_assert_eq!(place(&resumed), place(&end), "after {:?}", write);
        }
    }

    #[test]
    fn a_plan_of_the_agent_leaves_nothing_to_do_before_it_wakes(mut world in world()) {
        world.obstacle = None;
        world.memory.setback = None;
        for _ in 0..2 {
            let plan = world.agent_plan();
            world.carry_out_agent(&plan);
        }
        let again = world.agent_plan();
        prop_assert!(again.is_idle(), "{:#?}", again);
        match again.wake {
            Wake::OnChange => world.pass(1_000_000),
            Wake::At(instant) => {
                prop_assert!(instant > world.now);
                world.now = instant - jiff::SignedDuration::from_nanos(1);
            }
        }
        prop_assert!(world.agent_plan().is_idle(), "{:#?}", world.agent_plan());
    }

    #[test]
    fn a_plan_of_the_agent_may_be_cut_short_after_any_write(mut world in world()) {
        world.obstacle = None;
        let rest = |world: &mut World| (0..3).for_each(|_| world.carry_out_agent(&world.agent_plan()));
        let whole = world.agent_plan();
        let mut end = world.clone();
        rest(&mut end);
        let mut cut_short = world.clone();
        for write in &whole.writes {
            prop_assert!(cut_short.write_agent(write).is_ok());
            let mut resumed = cut_short.clone();
            rest(&mut resumed);
            resumed.memory.setback = None;
            end.memory.setback = None;
            prop_assert_eq!(place(&resumed), place(&end), "after {:?}", write);
        }
    }

    #[test]
    fn a_plan_of_the_inventory_leaves_nothing_to_do_and_may_be_cut_short(mut world in world()) {
        let whole = world.profile_plan();
        let mut cut_short = world.clone();
        world.carry_out_profile(&whole);
        for write in &whole.writes {
            cut_short.write_profile(write);
            let mut resumed = cut_short.clone();
            resumed.carry_out_profile(&resumed.profile_plan());
            prop_assert_eq!(place(&resumed), place(&world), "after {:?}", write);
        }
        let again = world.profile_plan();
        prop_assert!(again.is_idle(), "{:#?}", again);
        if let Wake::At(instant) = again.wake {
            prop_assert!(instant > world.now);
            world.now = instant - jiff::SignedDuration::from_nanos(1);
        }
        prop_assert!(world.profile_plan().is_idle());
    }

    #[test]
    fn the_same_facts_give_the_same_plans_in_whatever_order(world in world()) {
        let mut reversed = world.observe_agent();
        reversed.works.reverse();
        prop_assert_eq!(agent::plan(&reversed, world.now), world.agent_plan());
        prop_assert_eq!(profile::plan(&world.observe_profile(), world.now), world.profile_plan());
        prop_assume!(world.member.is_some());
        let mut reversed = world.observe_hub();
        reversed.works.reverse();
        prop_assert_eq!(hub::plan(&reversed, world.now), world.hub_plan());
    }

    #[test]
    fn whatever_happened_a_member_that_stays_joins_and_one_that_goes_is_gone(mut world in world()) {
        world.agent_alive = true;
        world.obstacle = None;
        // Those who hold Works in a namespace that somebody deletes let go of them.
        world.works.iter_mut().for_each(|work| work.metadata.finalizers = None);
        world.live(LONG_ENOUGH_SECONDS);
        match &world.member {
            None => prop_assert!(world.namespace.is_none() && world.profile.is_none() && world.works.is_empty()),
            Some(member) => {
                prop_assert!(member.metadata.deletion_timestamp.is_none());
                let text = status_text(&world);
                prop_assert!(text.contains("ReadyToJoin=True") && text.contains("MemberClusterJoined"), "{}", text);
                prop_assert!(world.memory.applier_running && world.profile.is_some());
            }
        }
    }
}

/// Every order in which hub, agent, inventory and Kubernetes can take the steps of a leave, each stopped after any write.
#[test]
fn every_interleaving_of_a_leave_ends_with_nothing_left() {
    let mut start = World::joined();
    start.place("web-work");
    start.delete_member();
    let steps = [Step::HubStopped(1), Step::Hub, Step::AgentStopped(1), Step::Agent, Step::Inventory, Step::Kubernetes];
    let mut seen = BTreeSet::from([place(&start)]);
    let mut queue = VecDeque::from([start]);
    while let Some(world) = queue.pop_front() {
        let gone = world.member.is_none();
        assert!(!gone || (world.namespace.is_none() && world.profile.is_none()), "{world:#?}");
        for step in steps {
            let mut next = world.clone();
            take(&mut next, step);
            if seen.insert(place(&next)) {
                queue.push_back(next);
            }
        }
        let mut end = world;
        end.live(LONG_ENOUGH_SECONDS);
        assert!(end.member.is_none() && end.works.is_empty(), "{end:#?}");
    }
    assert!(seen.len() > 20, "{}", seen.len());
}
