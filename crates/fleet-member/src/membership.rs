//! The membership controller of the member agent; `fleet_core::membership::agent` plans.
//!
//! A heartbeat takes two reconciles: a plan requests it, the next reconcile collects health and properties, and its
//! plan reports them.

use std::sync::Arc;

use fleet_api::kinds::{InternalMemberCluster, Work};
use fleet_api::names::ClusterName;
use fleet_api::types::ClusterState;
use fleet_api::well_known::{finalizers, metrics};
use fleet_core::apply::finalize::with_accepted_status;
use fleet_core::membership::Counter;
use fleet_core::membership::agent::{
    AgentOutcome, FIRST_RETRY_AFTER, Failure, Heartbeat, InternalMemberClusterFacts, Memory, Observed, Plan,
    SpecGeneration, WorkFacts, Write as PlannedWrite, plan,
};
use fleet_runtime::{
    Actions, ClusterId, Controller, CounterName, Counters, Error, Event, KubeEvent, Needs, ObjectKey, PlanInput,
    ReconcileContext, Runtime, Triggers, Wake, Write, WriteResult,
};
use parking_lot::Mutex;

use crate::Caches;
use crate::applier::Switch;
use crate::collect::HealthAndProperties;
use crate::options::MemberOptions;
use crate::ownership::MEMBERSHIP;
use crate::provider_client::ProviderClient;

/// One agent serves one cluster.
const WORKERS: usize = 1;

/// Starts the controller and returns the counters of joins and leaves. It turns the work applier on and off.
pub(crate) fn start(
    runtime: &mut Runtime,
    member: ClusterId,
    options: &MemberOptions,
    caches: &Caches,
    applier: Switch,
) -> Counters {
    let counters = Counters::new([Counter::Joined, Counter::Left].map(counter_name));
    let own_key = ObjectKey::namespaced(options.namespace.as_str(), options.cluster.as_str());
    let agent = Agent {
        caches: caches.clone(),
        internal_member_cluster: own_key.clone(),
        member,
        provider: options.properties.provider().map(ProviderClient::new),
        applier,
        counters: counters.clone(),
        state: Mutex::default(),
    };
    let (cluster, leaver) = (options.cluster.clone(), options.cluster.clone());
    let (internal_member_clusters, wanted) = (caches.internal_member_clusters.clone(), own_key.clone());
    let triggers = Triggers::new()
        .on(&caches.internal_member_clusters, move |event| {
            (event.key() == own_key && is_spec_change(event)).then(|| cluster.clone())
        })
        .on(&caches.works, move |event| {
            let leaves = || {
                internal_member_clusters
                    .get(&wanted)
                    .is_some_and(|internal_member_cluster| internal_member_cluster.spec.state == ClusterState::Leave)
            };
            (event.changed(|work| WorkFacts::of(work).has_finalizer) && leaves()).then(|| leaver.clone())
        });
    runtime.controller(agent, triggers, WORKERS);
    counters
}

fn counter_name(counter: Counter) -> CounterName {
    let help = match counter {
        Counter::Joined => "Times that this member has joined",
        Counter::Left => "Times that this member has left",
    };
    CounterName { name: counter.name(), help, label: (metrics::RESULT_LABEL, metrics::RESULT_SUCCESS) }
}

/// Whether the hub has changed the spec. Status updates of agents do not count.
fn is_spec_change(event: Event<'_, InternalMemberCluster>) -> bool {
    event.changed(|internal_member_cluster| {
        (internal_member_cluster.metadata.generation, internal_member_cluster.metadata.uid.as_deref())
    })
}

struct Agent {
    caches: Caches,
    internal_member_cluster: ObjectKey,
    member: ClusterId,
    /// The property provider, if one is configured.
    provider: Option<ProviderClient>,
    applier: Switch,
    counters: Counters,
    state: Mutex<State>,
}

/// What the controller knows besides the memory of the core.
#[derive(Default)]
struct State {
    memory: Memory,
    /// Random bits of this process.
    seed: Option<u64>,
    /// Set if the current plan removes finalizers of Works: the generation that requested it.
    releasing_works_for: Option<SpecGeneration>,
    /// The counter to increment when the status of the current plan has been written.
    uncounted: Option<Counter>,
}

impl Controller for Agent {
    const NAME: &'static str = MEMBERSHIP;
    type Key = ClusterName;
    type Facts = HealthAndProperties;

    async fn fetch(&self, _: &ClusterName, context: &ReconcileContext<'_>) -> Result<HealthAndProperties, Error> {
        Ok(HealthAndProperties::collect(context, self.member, self.provider.as_ref()).await)
    }

    fn plan(&self, _: &ClusterName, collected: Option<HealthAndProperties>, input: PlanInput) -> Actions {
        let mut state = self.state.lock();
        (state.releasing_works_for, state.uncounted) = (None, None);
        if self.caches.internal_member_clusters.is_unreadable(&self.internal_member_cluster) {
            let note = Some("waiting until the InternalMemberCluster can be read".to_owned());
            return Actions { note, ..Actions::none() };
        }
        let Some(internal_member_cluster) = self.caches.internal_member_clusters.get(&self.internal_member_cluster)
        else {
            return Actions::none();
        };
        if let Some(collected) = collected {
            let HealthAndProperties { probe, provider, collected } = collected;
            let heartbeat = Heartbeat::next(
                &state.memory,
                SpecGeneration::of(&internal_member_cluster),
                input.now,
                probe,
                provider,
                collected,
            );
            if let Some(error) = heartbeat.new_collection_error(state.memory.heartbeat.as_ref()) {
                tracing::warn!(error, "failed to collect properties; keeping the last reported ones");
            }
            state.memory.heartbeat = Some(heartbeat);
        }
        let seed = *state.seed.get_or_insert(input.seed);
        let works = self.works_if_leaving(&internal_member_cluster);
        let observed = Observed {
            internal_member_cluster: Some(InternalMemberClusterFacts::of(&internal_member_cluster)),
            works: works.iter().map(|work| WorkFacts::of(work)).collect(),
            memory: &state.memory,
            seed,
        };
        let plan = plan(&observed, input.now);
        self.execute(&mut state, &internal_member_cluster, &works, plan)
    }

    fn on_committed(&self, _: &ClusterName) {
        if let Some(counter) = self.state.lock().uncounted.take() {
            self.counters.count(counter.name());
        }
    }

    fn on_results(&self, _: &ClusterName, outcomes: Vec<WriteResult>, input: PlanInput) -> Option<Actions> {
        let mut state = self.state.lock();
        let requested_by = state.releasing_works_for.take()?;
        let failures: Vec<_> =
            outcomes.into_iter().filter_map(Result::err).filter(|error| !error.is_not_found()).collect();
        let failed = failures.iter().find(|error| !error.is_conflict());
        if let Some(error) = failed {
            state.memory.failure = Some(Failure::next(&state.memory, requested_by, error.with_causes(), input.now));
        } else if failures.is_empty() {
            state.memory.failure = None;
        }
        // The next plan reports the failure. After a conflict it waits, so that the other writer can finish.
        let fought = failed.is_none() && !failures.is_empty();
        let retry_at = if fought { input.now.checked_add(FIRST_RETRY_AFTER).ok() } else { None };
        Some(Actions::none().with_wake(Wake::At(retry_at.unwrap_or(input.now))))
    }
}

impl Agent {
    /// Works are needed only when the agent leaves: decoding them at every heartbeat would be wasted.
    fn works_if_leaving(&self, internal_member_cluster: &InternalMemberCluster) -> Vec<Arc<Work>> {
        if internal_member_cluster.spec.state == ClusterState::Leave { self.caches.works.list() } else { Vec::new() }
    }

    fn execute(
        &self,
        state: &mut State,
        internal_member_cluster: &InternalMemberCluster,
        works: &[Arc<Work>],
        plan: Plan,
    ) -> Actions {
        let mut actions = Actions { note: Some(format!("{:?}", plan.report.outcome)), ..Actions::none() };
        for planned in &plan.writes {
            match planned {
                PlannedWrite::StartApplier | PlannedWrite::StopApplier => {
                    let runs = *planned == PlannedWrite::StartApplier;
                    self.applier.turn(runs);
                    state.memory.applier_running = runs;
                }
                PlannedWrite::CollectHeartbeat => actions.needs = Some(Needs::Facts),
                PlannedWrite::RemoveWorkFinalizer { work } => actions.writes.extend(remove_finalizer(works, work)),
            }
        }
        if actions.needs.is_some() {
            return actions;
        }
        if !actions.writes.is_empty() {
            state.releasing_works_for = Some(SpecGeneration::of(internal_member_cluster));
            return actions;
        }
        if !matches!(plan.report.outcome, AgentOutcome::AwaitingRetry { .. }) {
            state.memory.failure = None;
        }
        if let Some(status) = plan.status {
            actions.write(Write::status(internal_member_cluster, &internal_member_cluster.clone().with_status(status)));
        }
        state.uncounted = plan.report.counted;
        actions.events =
            plan.report.events.iter().map(|event| KubeEvent::about(internal_member_cluster, event)).collect();
        actions.with_wake(plan.wake)
    }
}

/// Removes our finalizer from a Work. Before that, removes from its status what an API server would refuse. Writes
/// nothing for a Work that was not observed; a plan never refers to such a Work.
fn remove_finalizer(works: &[Arc<Work>], name: &str) -> Vec<Write> {
    let Some(work) = works.iter().find(|work| work.metadata.name.as_deref() == Some(name)) else { return Vec::new() };
    let accepted = with_accepted_status(work);
    let repair = accepted.as_ref().map(|accepted| Write::status(&**work, accepted));
    let work = accepted.as_ref().unwrap_or(work);
    let mut released = work.clone();
    released.metadata.finalizers.iter_mut().for_each(|all| all.retain(|one| one != finalizers::WORK));
    repair.into_iter().chain([Write::change(work, &released).best_effort()]).collect()
}
