//! Builds the hub agent and the agents of simulated members, with the controllers of the real agents. Does not start
//! them.

use apiserver::User;
use fleet_api::names::NameError;
use fleet_core::placement::SnapshotIntervals;
use fleet_hub::HubOptions;
use fleet_runtime::{Clock, Metrics, Options, Overlap, Ownership, Runtime, Seeds};

use crate::member::{self, SimulatedMember};

/// What an agent gets from the place where it runs: clock, random seeds, strictness, metrics.
#[derive(Debug, Clone)]
pub struct AgentEnvironment {
    pub clock: Clock,
    pub seeds: Seeds,
    /// Whether writes outside of the single-writer table fail.
    pub strict: bool,
    pub metrics: Metrics,
}

impl AgentEnvironment {
    /// Real time and random seeds.
    pub fn real() -> Self {
        Self { clock: Clock::Real, seeds: Seeds::Random, strict: false, metrics: Metrics::default() }
    }

    fn options(&self, component: &str, ownership: Ownership) -> Options {
        Options {
            component: component.to_owned(),
            clock: self.clock.clone(),
            seeds: self.seeds.clone(),
            ownership,
            strict: self.strict,
            metrics: self.metrics.clone(),
            ..Options::default()
        }
    }
}

/// Why an agent cannot be built.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    #[error("two controllers own the same field: {}", .0.iter().map(Overlap::to_string).collect::<Vec<_>>().join("; "))]
    Owners(Vec<Overlap>),
    #[error(transparent)]
    Name(#[from] NameError),
}

/// The identity of the hub agent on the hub's API server.
pub fn hub_identity() -> User {
    User::authenticated("fleet-hub-agent", ["system:masters".to_owned()])
}

/// Options of a hub that makes snapshots immediately, because users wait for the result.
pub fn immediate_hub_options() -> HubOptions {
    HubOptions { snapshot_intervals: SnapshotIntervals::NONE, ..HubOptions::default() }
}

/// The hub agent.
pub fn hub_agent(
    hub: kube::Client,
    options: &HubOptions,
    environment: &AgentEnvironment,
) -> Result<Runtime, AgentError> {
    let ownership = Ownership::new(fleet_hub::ownership()).map_err(AgentError::Owners)?;
    let mut runtime = Runtime::new(hub, environment.options("fleet-hub-agent", ownership));
    fleet_hub::install(&mut runtime, options);
    Ok(runtime)
}

/// The agent of a simulated member. `hub` must act as `member::identity`; `own` is a client of the member's API server.
pub fn member_agent(
    hub: kube::Client,
    own: kube::Client,
    member: &SimulatedMember,
    environment: &AgentEnvironment,
) -> Result<Runtime, AgentError> {
    let ownership = member::ownership(member.works).map_err(AgentError::Owners)?;
    let mut runtime = Runtime::new(hub, environment.options("fleet-member-agent", ownership));
    let own = runtime.connect(own);
    member::install(&mut runtime, own, member)?;
    Ok(runtime)
}
