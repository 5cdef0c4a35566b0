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
use fleet_runtime::{Clock, Metrics, Seeds};
use jiff::Timestamp;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::Random;
use crate::agents::{AgentError, Surroundings, hub_agent, hub_identity, member_agent, prompt_hub};
use crate::member::{SimulatedMember, identity};
use crate::network::{CrashMoment, Network, Weather};
use crate::setup::{SetupError, furnish_member, prepare_hub};
use crate::workloads::Workloads;

/// The hub agent's name on the network.
pub const HUB: &str = "hub";
/// The name on the network of whoever uses the fleet.
pub const USER: &str = "user";

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
fn origin() -> Timestamp {
    Timestamp::UNIX_EPOCH + jiff::SignedDuration::from_hours(24 * 365 * 56)
}

/// A server that follows virtual time and whose choices come from a seed.
async fn server(clock: Clock, seed: u64, ground: &Template) -> Result<Embedded, EmbeddedError> {
    let builder = Server::builder().clock(Arc::new(move || clock.now())).seed(seed).from_template(ground);
    Embedded::with(builder, ServerOptions::default()).await
}

/// What a hub's server holds before anybody comes: our kinds, and nothing that anyone asked for. Worlds that share it
/// begin at once.
#[derive(Debug, Clone)]
pub struct Ground(Template);

impl Ground {
    /// Must run on a current-thread runtime with paused time, as worlds do.
    pub async fn lay() -> Result<Self, WorldError> {
        let clock = Clock::starting_at(origin());
        let server = server(clock, GROUND_SEED, &Template::default()).await?;
        let user = User::authenticated("admin", ["system:masters".to_owned()]);
        prepare_hub(&kube::Client::new(server.service(ROOT_CLUSTER, user), "default")).await?;
        // The server equips the new namespace in its own time.
        tokio::time::sleep(Duration::from_secs(1)).await;
        let ground = Self(server.template());
        server.close().await;
        Ok(ground)
    }
}

/// The uids of what is on the ground come from this seed, in every world.
const GROUND_SEED: u64 = 0;

/// A fleet in one process.
#[derive(Debug)]
pub struct World {
    server: Embedded,
    network: Network,
    clock: Clock,
    seeds: Seeds,
    hub_metrics: Metrics,
    agents: BTreeMap<String, JoinHandle<()>>,
    /// What goes on in the members, whether their agents run or not.
    workloads: BTreeMap<String, Workloads>,
}

impl World {
    /// A hub without members, whose agent does not run yet. The weather is calm. `hub_metrics` count for all lives of the
    /// hub agent.
    pub async fn new(ground: &Ground, seed: u64, hub_metrics: Metrics) -> Result<Self, WorldError> {
        let mut random = Random::new(seed);
        let clock = Clock::starting_at(origin());
        let server = server(clock, random.number(), &ground.0).await?;
        let network = Network::new(random.fork(), Weather::calm());
        let seeds = Seeds::starting_with(random.number());
        Ok(Self { server, network, clock, seeds, hub_metrics, agents: BTreeMap::new(), workloads: BTreeMap::new() })
    }

    pub fn network(&self) -> &Network {
        &self.network
    }

    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// A client that may do everything on the hub and that no fault touches.
    pub fn user(&self) -> kube::Client {
        let admin = User::authenticated("admin", ["system:masters".to_owned()]);
        self.network.steady_client(USER, self.server.service(ROOT_CLUSTER, admin))
    }

    fn surroundings(&self, metrics: Metrics) -> Surroundings {
        Surroundings { clock: self.clock, seeds: self.seeds.clone(), strict: true, metrics }
    }

    /// Starts the hub agent, or starts it anew after it was stopped or has died.
    pub fn start_hub(&mut self) -> Result<(), WorldError> {
        self.stop(HUB);
        let client = self.network.client(HUB, self.server.service(ROOT_CLUSTER, hub_identity()));
        let agent = hub_agent(client, &prompt_hub(), &self.surroundings(self.hub_metrics.clone()))?;
        self.agents.insert(HUB.to_owned(), tokio::spawn(agent.run(std::future::pending())));
        Ok(())
    }

    /// Starts a member's API server and agent. The hub must be told of the member by a user.
    pub async fn start_member(&mut self, member: &SimulatedMember) -> Result<(), WorldError> {
        let name = member.name.as_str();
        self.stop(name);
        let own = self.network.steady_client(&format!("{name}-own"), self.server.service(name, hub_identity()));
        let cluster = self.server.cluster(name);
        self.workloads.entry(name.to_owned()).or_insert_with(|| Workloads::start(&cluster, Arc::default()));
        furnish_member(&own, member).await?;
        let client = self.network.client(name, self.server.service(ROOT_CLUSTER, identity(&member.name)));
        let agent = member_agent(client, own, member, &self.surroundings(Metrics::default()))?;
        self.agents.insert(member.name.to_string(), tokio::spawn(agent.run(std::future::pending())));
        Ok(())
    }

    /// Kills an agent: nothing that it has sent and not yet got through arrives any more.
    pub fn stop(&mut self, actor: &str) {
        if let Some(task) = self.agents.remove(actor) {
            self.network.bury(actor);
            task.abort();
        }
    }

    /// Lets the hub agent die at one of its next writes.
    pub fn crash_hub_at(&self, writes_left: u64, moment: CrashMoment) -> oneshot::Receiver<()> {
        self.network.crash_at(HUB, writes_left, moment)
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
