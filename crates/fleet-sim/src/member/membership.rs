//! How a simulated member joins, sends heartbeats and leaves: the shell of `fleet_core::membership::agent`.
//!
//! Decides nothing about membership. Looking at its cluster takes no time and always succeeds, because the cluster is made
//! up.

use std::sync::Arc;

use fleet_api::kinds::{InternalMemberCluster, Work};
use fleet_api::names::{ClusterName, MemberNamespace};
use fleet_core::membership::agent::{self, MailboxFacts, Memory, Observed, Probe, Sounding, WorkFacts};
use fleet_core::membership::properties::{NodeFacts, built_in};
use fleet_core::plan::Wake;
use fleet_runtime::{Actions, Cache, Controller, Moment, Next, ObjectKey, Write};
use jiff::Timestamp;
use parking_lot::Mutex;

use super::SimulatedMember;

pub(super) const NAME: &str = "simulated-membership";

pub(super) struct Membership {
    pub(super) member: SimulatedMember,
    pub(super) namespace: MemberNamespace,
    pub(super) mailboxes: Cache<InternalMemberCluster>,
    pub(super) works: Cache<Work>,
    pub(super) memory: Arc<Mutex<Memory>>,
    pub(super) seed: u64,
}

impl Controller for Membership {
    const NAME: &'static str = NAME;
    type Key = ClusterName;
    type Facts = ();

    fn plan(&self, _: &ClusterName, (): (), moment: Moment) -> Actions {
        let key = ObjectKey::namespaced(self.namespace.as_str(), self.member.name.as_str());
        let mailbox = self.mailboxes.get(&key);
        let works = self.works.in_namespace(self.namespace.as_str());
        let mut memory = self.memory.lock();
        let facts = mailbox.as_deref().map(MailboxFacts::of);
        let mut plan = plan(facts, &works, &memory, self.seed, moment.now);
        // What is done to the made-up cluster is done at once; the second plan then sees it.
        if self.carry_out(&plan.writes, facts.map_or(0, |facts| facts.generation), &mut memory, moment.now) {
            plan = self::plan(facts, &works, &memory, self.seed, moment.now);
        }
        let mut actions = Actions::none();
        if let (Some(old), Some(status)) = (&mailbox, plan.status) {
            let new = InternalMemberCluster::clone(old).with_status(status);
            actions.write(Write::status(&**old, &new));
        }
        actions.then(match plan.wake {
            Wake::OnChange => Next::OnChange,
            Wake::At(instant) => Next::At(instant),
        })
    }
}

fn plan(
    mailbox: Option<MailboxFacts<'_>>,
    works: &[Arc<Work>],
    memory: &Memory,
    seed: u64,
    now: Timestamp,
) -> agent::Plan {
    let works = works.iter().map(|work| WorkFacts::of(work)).collect();
    agent::plan(&Observed { mailbox, works, memory, seed }, now)
}

impl Membership {
    /// Does what concerns the cluster itself; tells whether there was anything. Works are let go of by whoever holds them.
    fn carry_out(&self, writes: &[agent::Write], generation: i64, memory: &mut Memory, now: Timestamp) -> bool {
        for write in writes {
            match write {
                agent::Write::StartApplier => memory.applier_running = true,
                agent::Write::StopApplier => memory.applier_running = false,
                agent::Write::TakeSounding => memory.sounding = Some(self.look(generation, memory, now)),
                agent::Write::ReleaseWork { .. } => {}
            }
        }
        !writes.is_empty()
    }

    fn look(&self, generation: i64, memory: &Memory, now: Timestamp) -> Sounding {
        let nodes = self.member.node_objects();
        let facts: Vec<NodeFacts<'_>> = nodes.iter().map(NodeFacts::of).collect();
        let collected = built_in(&facts, &[], None, now);
        Sounding::next(memory, generation, now, Probe::Answered { status_code: 200 }, None, collected)
    }
}
