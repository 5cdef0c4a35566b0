//! Runs membership on the member: joins, keeps the hub informed, leaves.
//!
//! Decides what wakes the agent and how each act of a plan is carried out. A look at the cluster takes two rounds: a plan
//! asks for it, the next `converse` takes it, and the plan after that makes the report. Never decides when to look or what
//! to report: that is `fleet_core::membership::agent`.

use std::sync::Arc;

use fleet_api::kinds::{InternalMemberCluster, Work};
use fleet_api::names::ClusterName;
use fleet_api::types::ClusterState;
use fleet_api::well_known::{finalizers, metrics};
use fleet_core::membership::Counter;
use fleet_core::membership::agent::{
    FIRST_RETRY_AFTER, MailboxFacts, Memory, Observed, Order, Outcome as Stand, Plan, Setback, Sounding, WorkFacts,
    Write as Act, plan,
};
use fleet_core::plan::Wake as Until;
use fleet_runtime::{
    Actions, Controller, CounterName, Counters, Error, Event, Hands, KubeEvent, Moment, Next, ObjectKey, Outcome,
    Runtime, Side, Triggers, Write,
};
use parking_lot::Mutex;

use crate::Caches;
use crate::applier::Switch;
use crate::asking::Asking;
use crate::look::Look;
use crate::options::MemberOptions;
use crate::ownership::MEMBERSHIP;

/// One agent looks after one cluster.
const WORKERS: usize = 1;

/// Starts the agent; gives the counters of joins and leaves. It turns the work applier on and off.
pub(crate) fn start(
    runtime: &mut Runtime,
    member: Side,
    options: &MemberOptions,
    caches: &Caches,
    applier: Switch,
) -> Counters {
    let counters = Counters::new([Counter::Joined, Counter::Left].map(shown));
    let own_mailbox = ObjectKey::namespaced(options.namespace.as_str(), options.cluster.as_str());
    let agent = Agent {
        caches: caches.clone(),
        mailbox: own_mailbox.clone(),
        member,
        provider: options.properties.provider().map(Asking::new),
        applier,
        counters: counters.clone(),
        state: Mutex::default(),
    };
    let (cluster, leaver) = (options.cluster.clone(), options.cluster.clone());
    let (mailboxes, wanted) = (caches.mailboxes.clone(), own_mailbox.clone());
    let triggers = Triggers::new()
        .on(&caches.mailboxes, move |event| (event.key() == own_mailbox && is_order(event)).then(|| cluster.clone()))
        .on(&caches.works, move |event| {
            let leaves = || mailboxes.get(&wanted).is_some_and(|mailbox| mailbox.spec.state == ClusterState::Leave);
            (event.changed(|work| WorkFacts::of(work).held) && leaves()).then(|| leaver.clone())
        });
    runtime.controller(agent, triggers, WORKERS);
    counters
}

fn shown(counter: Counter) -> CounterName {
    let help = match counter {
        Counter::Joined => "Times that this member has joined",
        Counter::Left => "Times that this member has left",
    };
    CounterName { name: counter.name(), help, label: (metrics::RESULT_LABEL, metrics::RESULT_SUCCESS) }
}

/// Whether the hub asks for something else now. What agents report in the same object is no order.
fn is_order(event: Event<'_, InternalMemberCluster>) -> bool {
    event.changed(|mailbox| (mailbox.metadata.generation, mailbox.metadata.uid.as_deref()))
}

struct Agent {
    caches: Caches,
    mailbox: ObjectKey,
    member: Side,
    /// The property provider, if there is one.
    provider: Option<Asking>,
    applier: Switch,
    counters: Counters,
    state: Mutex<State>,
}

/// What the agent knows beside its memory.
#[derive(Default)]
struct State {
    memory: Memory,
    /// Whether the last plan asked for a look at the cluster.
    look_due: bool,
    /// The random bits of this process.
    seed: Option<u64>,
    /// Set if the plan in hand lets go of Works: for this order of the hub.
    releases_for: Option<Order>,
    /// What counts once the report of the plan in hand is written.
    uncounted: Option<Counter>,
}

impl Controller for Agent {
    const NAME: &'static str = MEMBERSHIP;
    type Key = ClusterName;
    type Facts = Option<Look>;

    async fn converse(&self, _: &ClusterName, hands: &Hands<'_>) -> Result<Option<Look>, Error> {
        if !self.state.lock().look_due {
            return Ok(None);
        }
        Ok(Some(Look::take(hands, self.member, self.provider.as_ref()).await))
    }

    fn plan(&self, _: &ClusterName, look: Option<Look>, moment: Moment) -> Actions {
        let mut state = self.state.lock();
        (state.releases_for, state.uncounted) = (None, None);
        if self.caches.mailboxes.is_broken(&self.mailbox) {
            let note = Some("waits until the mailbox can be read".to_owned());
            return Actions { note, ..Actions::none() };
        }
        let Some(mailbox) = self.caches.mailboxes.get(&self.mailbox) else { return Actions::none() };
        if let Some(look) = look {
            let Look { probe, provider, collected } = look;
            let sounding = Sounding::next(&state.memory, Order::of(&mailbox), moment.now, probe, provider, collected);
            if let Some(error) = sounding.new_failure(state.memory.sounding.as_ref()) {
                tracing::warn!(error, "what the cluster has cannot be collected; what was told of it last stays");
            }
            state.memory.sounding = Some(sounding);
        }
        state.look_due = false;
        let seed = *state.seed.get_or_insert(moment.seed);
        let works = self.works_to_release(&mailbox);
        let observed = Observed {
            mailbox: Some(MailboxFacts::of(&mailbox)),
            works: works.iter().map(|work| WorkFacts::of(work)).collect(),
            memory: &state.memory,
            seed,
        };
        let plan = plan(&observed, moment.now);
        self.carry_out(&mut state, &mailbox, &works, plan, moment)
    }

    fn performed(&self, _: &ClusterName) {
        if let Some(counter) = self.state.lock().uncounted.take() {
            self.counters.count(counter.name());
        }
    }

    fn conclude(&self, _: &ClusterName, outcomes: Vec<Outcome>, moment: Moment) -> Option<Actions> {
        let mut state = self.state.lock();
        let order = state.releases_for.take()?;
        let failures: Vec<_> =
            outcomes.into_iter().filter_map(Result::err).filter(|error| !error.is_not_found()).collect();
        let failed = failures.iter().find(|error| !error.is_conflict());
        if let Some(error) = failed {
            state.memory.setback = Some(Setback::next(&state.memory, order, error.with_causes(), moment.now));
        } else if failures.is_empty() {
            state.memory.setback = None;
        }
        // The next plan reports it. Somebody who writes the same Work gets a moment to finish.
        let fought = failed.is_none() && !failures.is_empty();
        let retry_at = if fought { moment.now.checked_add(FIRST_RETRY_AFTER).ok() } else { None };
        Some(Actions::none().then(Next::At(retry_at.unwrap_or(moment.now))))
    }
}

impl Agent {
    /// Works are looked at only when the agent leaves: decoding them at every heartbeat would be for nothing.
    fn works_to_release(&self, mailbox: &InternalMemberCluster) -> Vec<Arc<Work>> {
        if mailbox.spec.state == ClusterState::Leave { self.caches.works.list() } else { Vec::new() }
    }

    fn carry_out(
        &self,
        state: &mut State,
        mailbox: &InternalMemberCluster,
        works: &[Arc<Work>],
        plan: Plan,
        moment: Moment,
    ) -> Actions {
        let mut actions = Actions { note: Some(format!("{:?}", plan.report.outcome)), ..Actions::none() };
        for act in &plan.writes {
            match act {
                Act::StartApplier | Act::StopApplier => {
                    let runs = *act == Act::StartApplier;
                    self.applier.turn(runs);
                    state.memory.applier_running = runs;
                }
                Act::TakeSounding => state.look_due = true,
                Act::ReleaseWork { work } => actions.writes.extend(release(works, work)),
            }
        }
        if state.look_due {
            return actions.then(Next::At(moment.now));
        }
        if !actions.writes.is_empty() {
            state.releases_for = Some(Order::of(mailbox));
            return actions;
        }
        if !matches!(plan.report.outcome, Stand::SetBack { .. }) {
            state.memory.setback = None;
        }
        if let Some(status) = plan.status {
            actions.write(Write::status(mailbox, &mailbox.clone().with_status(status)));
        }
        state.uncounted = plan.report.counted;
        actions.events = plan.report.events.iter().map(|event| KubeEvent::about(mailbox, event)).collect();
        actions.then(match plan.wake {
            Until::OnChange => Next::OnChange,
            Until::At(instant) => Next::At(instant),
        })
    }
}

/// Takes our finalizer from a Work. `None` for one that was not observed, of which no plan speaks.
fn release(works: &[Arc<Work>], name: &str) -> Option<Write> {
    let work = works.iter().find(|work| work.metadata.name.as_deref() == Some(name))?;
    let mut released = Work::clone(work);
    released.metadata.finalizers.iter_mut().for_each(|all| all.retain(|one| one != finalizers::WORK));
    Some(Write::change(&**work, &released).observed())
}
