//! A whole fleet in virtual time: API server, network, hub agent, simulated members.
//!
//! Decides how the parts hang together and how an agent that died comes back. Must run on a current-thread runtime with
//! paused time: then the same seed gives the same world, request by request. Never decides what users do: that is
//! `story`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use apiserver::auth::User;
use apiserver::embedded::{Embedded, EmbeddedError, Options as ServerOptions, ROOT_CLUSTER};
use apiserver::server::{Server, Template};
use fleet_api::admission::Settings;
use fleet_hub::HubOptions;
use fleet_runtime::{Broken, Clock, Hand, Metrics, Seeds};
use jiff::{SignedDuration, Timestamp};
use tokio::task::JoinHandle;

use crate::Random;
use crate::admission::with_hub_checks;
use crate::agents::{AgentError, Surroundings, hub_agent, hub_identity, member_agent, prompt_hub};
use crate::member::{SimulatedMember, identity};
use crate::network::{HUB_SERVER, Network, Weather};
use crate::setup::{SetupError, add_nodes, furnish_any_member, prepare_hub};
use crate::workloads::Workloads;

/// The hub agent's name on the network.
pub const HUB: &str = "hub";
/// The name on the network of whoever uses the fleet.
pub const USER: &str = "user";
/// Who puts into a member's server what every cluster has.
const CARPENTER: &str = "carpenter";

/// Why a world cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum WorldError {
    #[error(transparent)]
    Server(#[from] EmbeddedError),
    #[error(transparent)]
    Setup(#[from] SetupError),
    #[error(transparent)]
    Agent(#[from] AgentError),
}

/// The instant at which all worlds begin: a whole second, far from any leap.
pub fn origin() -> Timestamp {
    Timestamp::UNIX_EPOCH + jiff::SignedDuration::from_hours(24 * 365 * 56)
}

/// A server that follows virtual time and whose choices come from a seed.
async fn server(clock: Clock, seed: u64, ground: &Ground) -> Result<Embedded, EmbeddedError> {
    let builder = Server::builder().clock(Arc::new(move || clock.now())).seed(seed).from_template(&ground.held);
    Embedded::with(with_hub_checks(builder, &ground.checks), ServerOptions::default()).await
}

fn admin() -> User {
    User::authenticated("admin", ["system:masters".to_owned()])
}

/// What servers hold before anybody comes: a hub's our kinds, a member's what its agent needs, and nothing that anyone asked
/// for. Worlds that share it begin at once.
#[derive(Debug, Clone, Default)]
pub struct Ground {
    held: Template,
    /// What the hub refuses.
    checks: Settings,
}

impl Ground {
    /// Must run on a current-thread runtime with paused time, as worlds do.
    pub async fn lay() -> Result<Self, WorldError> {
        let clock = Clock::starting_at(origin());
        let server = server(clock, GROUND_SEED, &Self::default()).await?;
        prepare_hub(&kube::Client::new(server.service(ROOT_CLUSTER, admin()), "default")).await?;
        furnish_any_member(&kube::Client::new(server.service(ANY_MEMBER, admin()), "default")).await?;
        // The server equips the new namespace in its own time.
        tokio::time::sleep(Duration::from_secs(1)).await;
        let held = server.template().with_newcomers_like(ANY_MEMBER);
        server.close().await;
        Ok(Self { held, checks: Settings::default() })
    }

    /// For a hub that refuses nothing but what its schemas refuse, as one whose webhooks are not installed.
    #[must_use]
    pub fn without_checks(mut self) -> Self {
        self.checks.enable_webhook = false;
        self
    }
}

/// The cluster that all members begin as.
const ANY_MEMBER: &str = "any-member";

/// The uids of what is on the ground come from this seed, in every world.
const GROUND_SEED: u64 = 0;

/// What agents count, over all their lives.
#[derive(Debug, Clone, Default)]
pub struct AgentMetrics {
    pub hub: Metrics,
    /// Of all members together.
    pub members: Metrics,
}

/// A fleet in one process.
#[derive(Debug)]
pub struct World {
    server: Embedded,
    network: Network,
    clock: Clock,
    hub: HubOptions,
    /// Of the agents' own clocks.
    hands: BTreeMap<String, Hand>,
    seeds: Seeds,
    metrics: AgentMetrics,
    agents: BTreeMap<String, JoinHandle<Result<(), Broken>>>,
    /// Whoever was a member once, as it was when it last came.
    members: BTreeMap<String, SimulatedMember>,
    /// What goes on in the members, whether their agents run or not.
    workloads: BTreeMap<String, Workloads>,
}

impl World {
    /// A hub without members, whose agent does not run yet. The weather is calm.
    pub async fn new(ground: &Ground, seed: u64, metrics: AgentMetrics) -> Result<Self, WorldError> {
        let mut random = Random::new(seed);
        let clock = Clock::starting_at(origin());
        let server = server(clock.clone(), random.number(), ground).await?;
        let network = Network::new(random.fork(), Weather::calm());
        let seeds = Seeds::starting_with(random.number());
        let (hands, agents, members, workloads) = Default::default();
        Ok(Self { server, network, clock, hub: prompt_hub(), hands, seeds, metrics, agents, members, workloads })
    }

    /// The same with a hub agent that behaves so. Otherwise it takes up every change at once.
    #[must_use]
    pub fn with_hub(mut self, options: HubOptions) -> Self {
        self.hub = options;
        self
    }

    pub fn network(&self) -> &Network {
        &self.network
    }

    pub fn clock(&self) -> Clock {
        self.clock.clone()
    }

    /// The names of all that were members once.
    pub fn members(&self) -> Vec<String> {
        self.members.keys().cloned().collect()
    }

    /// A client that may do everything on the hub and that no fault touches.
    pub fn user(&self) -> kube::Client {
        self.network.steady_client(USER, HUB_SERVER, self.server.service(ROOT_CLUSTER, admin()))
    }

    /// The same on a member's own server.
    pub fn user_of(&self, member: &str) -> kube::Client {
        self.network.steady_client(USER, member, self.server.service(member, admin()))
    }

    /// Sets the clock of an agent, which may be running: from now on it is fast by so much.
    pub fn set_clock(&mut self, agent: &str, fast: SignedDuration) {
        self.hands.entry(agent.to_owned()).or_default().set(fast);
    }

    fn surroundings(&mut self, agent: &str, metrics: &Metrics) -> Surroundings {
        let clock = self.clock.moved_by(self.hands.entry(agent.to_owned()).or_default());
        Surroundings { clock, seeds: self.seeds.clone(), strict: true, metrics: metrics.clone() }
    }

    /// Starts the hub agent, or starts it anew after it was stopped or has died.
    pub fn start_hub(&mut self) -> Result<(), WorldError> {
        self.stop(HUB);
        let client = self.network.client(HUB, self.server.service(ROOT_CLUSTER, hub_identity()));
        let metrics = self.metrics.hub.clone();
        let agent = hub_agent(client, &self.hub.clone(), &self.surroundings(HUB, &metrics))?;
        self.agents.insert(HUB.to_owned(), tokio::spawn(agent.run(std::future::pending())));
        Ok(())
    }

    /// Starts a member's API server and agent. The hub must be told of the member by a user.
    pub async fn start_member(&mut self, member: &SimulatedMember) -> Result<(), WorldError> {
        self.receive(member, false).await
    }

    /// The same, but for an agent that may live on: one that still runs since it was a member before is left alone.
    pub async fn receive(&mut self, member: &SimulatedMember, lives_on: bool) -> Result<(), WorldError> {
        let name = member.name.as_str();
        let own = self.network.steady_client(CARPENTER, name, self.server.service(name, hub_identity()));
        let cluster = self.server.cluster(name);
        self.workloads.entry(name.to_owned()).or_insert_with(|| Workloads::start(&cluster, Arc::default()));
        add_nodes(&own, member).await?;
        self.members.insert(name.to_owned(), member.clone());
        if lives_on && self.agents.contains_key(name) {
            return Ok(());
        }
        self.restart_member(name)
    }

    /// Starts the agent of somebody who was a member once, anew.
    pub fn restart_member(&mut self, name: &str) -> Result<(), WorldError> {
        self.stop(name);
        let metrics = self.metrics.members.clone();
        let surroundings = self.surroundings(name, &metrics);
        let Some(member) = self.members.get(name) else { return Ok(()) };
        let hub = self.network.client(name, self.server.service(ROOT_CLUSTER, identity(&member.name)));
        let own = self.network.client_of(name, name, self.server.service(name, hub_identity()));
        let agent = member_agent(hub, own, member, &surroundings)?;
        self.agents.insert(name.to_owned(), tokio::spawn(agent.run(std::future::pending())));
        Ok(())
    }

    /// Kills an agent: nothing that it has sent and not yet got through arrives any more.
    pub fn stop(&mut self, actor: &str) {
        if let Some(task) = self.agents.remove(actor) {
            self.network.bury(actor);
            task.abort();
        }
    }

    /// Lets this much virtual time pass.
    pub async fn pass(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }

    /// Ends everything that runs.
    pub async fn end(mut self) {
        let actors: Vec<String> = self.agents.keys().cloned().collect();
        for actor in actors {
            self.stop(&actor);
        }
        self.workloads.clear();
        self.server.close().await;
    }
}
