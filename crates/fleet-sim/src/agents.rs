//! The agents of a fleet in one process, ready to run.
//!
//! Decides what hub and member agents are made of here; the parts are those of real agents. Never starts one.

use apiserver::auth::User;
use fleet_api::names::NameError;
use fleet_core::placement::SnapshotPace;
use fleet_hub::HubOptions;
use fleet_runtime::{Clock, Metrics, Options, Overlap, Ownership, Runtime, Seeds};

use crate::member::{self, SimulatedMember};

/// What an agent finds where it runs: time, chance, and how strictly writers are watched.
#[derive(Debug, Clone)]
pub struct Surroundings {
    pub clock: Clock,
    pub seeds: Seeds,
    /// Whether a write outside of the single-writer table fails.
    pub strict: bool,
    pub metrics: Metrics,
}

impl Surroundings {
    /// The real world.
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

/// Why an agent cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    #[error("two controllers own the same field: {}", .0.iter().map(Overlap::to_string).collect::<Vec<_>>().join("; "))]
    Owners(Vec<Overlap>),
    #[error(transparent)]
    Name(#[from] NameError),
}

/// What the hub agent is on the hub's API server.
pub fn hub_identity() -> User {
    User::authenticated("fleet-hub-agent", ["system:masters".to_owned()])
}

/// Options for a hub whose users wait for what they see: changes are taken up at once.
pub fn prompt_hub() -> HubOptions {
    HubOptions { snapshot_pace: SnapshotPace::AT_ONCE, ..HubOptions::default() }
}

/// The hub agent, behind a client of the hub.
pub fn hub_agent(hub: kube::Client, options: &HubOptions, around: &Surroundings) -> Result<Runtime, AgentError> {
    let ownership = Ownership::new(fleet_hub::ownership()).map_err(AgentError::Owners)?;
    let mut runtime = Runtime::new(hub, around.options("fleet-hub-agent", ownership));
    fleet_hub::install(&mut runtime, options);
    Ok(runtime)
}

/// The agent of a simulated member, behind a client of the hub that acts as `member::identity` and one of its own server.
pub fn member_agent(
    hub: kube::Client,
    own: kube::Client,
    member: &SimulatedMember,
    around: &Surroundings,
) -> Result<Runtime, AgentError> {
    let ownership = member::ownership(member.works).map_err(AgentError::Owners)?;
    let mut runtime = Runtime::new(hub, around.options("fleet-member-agent", ownership));
    let own = runtime.connect(own);
    member::install(&mut runtime, own, member)?;
    Ok(runtime)
}
