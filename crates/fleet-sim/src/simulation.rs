//! A whole fleet in virtual time: API servers, network, hub agent, simulated members.
//!
//! It must run on a current-thread runtime with paused time. Then the same seed gives the same sequence of requests.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use apiserver::{Builder, Embedded, EmbeddedError, Options as ServerOptions, ROOT_CLUSTER, Template, User};
use fleet_api::admission::Settings;
use fleet_api::names::MemberNamespace;
use fleet_hub::HubOptions;
use fleet_runtime::{Clock, ClockOffset, Metrics, Seeds, TaskPanicked};
use jiff::{SignedDuration, Timestamp};
use parking_lot::RwLock;
use tokio::task::JoinHandle;

use crate::Random;
use crate::admission::with_hub_checks;
use crate::agents::{AgentEnvironment, AgentError, hub_agent, hub_identity, immediate_hub_options, member_agent};
use crate::member::{SimulatedMember, identity};
use crate::network::{FaultRates, HUB_SERVER, Network};
use crate::setup::{SetupError, add_nodes, prepare_hub, set_up_any_member};
use crate::state::ClusterState;
use crate::workloads::Workloads;

/// The hub agent's name on the network.
pub const HUB: &str = "hub";
/// The name of the fleet's users on the network.
pub const USER: &str = "user";
/// The name on the network of an attacker with the credentials of a member's agent.
pub const INTRUDER: &str = "intruder";
/// How long a server takes to finish its requests when it is stopped.
const SERVER_STOPS: Duration = Duration::from_secs(10);
/// The name on the network of the client that sets up the API servers of members.
const SETUP: &str = "setup";

/// Why a simulation cannot start.
#[derive(Debug, thiserror::Error)]
pub enum SimulationError {
    #[error(transparent)]
    Server(#[from] EmbeddedError),
    #[error(transparent)]
    Setup(#[from] SetupError),
    #[error(transparent)]
    Agent(#[from] AgentError),
    #[error("the restored objects cannot be read: {0}")]
    Restored(#[from] kube::Error),
}

/// The instant at which all simulations begin: a whole second, far from any leap.
pub fn epoch() -> Timestamp {
    const YEARS: jiff::SignedDuration = jiff::SignedDuration::from_hours(24 * 365 * 56);
    Timestamp::from_duration(YEARS).unwrap_or(Timestamp::UNIX_EPOCH)
}

/// A server in virtual time with the objects of a template. Its random values come from the seed.
async fn server(clock: Clock, seed: u64, stored: &Template, checks: &Settings) -> Result<Embedded, EmbeddedError> {
    let builder = Builder::default().clock(Arc::new(move || clock.now())).seed(seed).from_template(stored);
    Embedded::with(with_hub_checks(builder, checks), ServerOptions::default()).await
}

fn admin() -> User {
    User::authenticated("admin", ["system:masters".to_owned()])
}

/// The objects of API servers before the first request of a user: CustomResourceDefinitions and namespaces of the hub
/// and of members. Simulations that share a template start without installing them.
#[derive(Debug, Clone, Default)]
pub struct SimulationTemplate {
    stored: Template,
    /// Settings of the hub's admission checks.
    checks: Settings,
}

impl SimulationTemplate {
    /// Must run on a current-thread runtime with paused time.
    pub async fn build() -> Result<Self, SimulationError> {
        let clock = Clock::starting_at(epoch());
        let server = server(clock, TEMPLATE_SEED, &Template::default(), &Settings::default()).await?;
        prepare_hub(&kube::Client::new(server.service(ROOT_CLUSTER, admin()), "default")).await?;
        set_up_any_member(&kube::Client::new(server.service(MEMBER_TEMPLATE, admin()), "default")).await?;
        // The server creates the default objects of the new namespace asynchronously.
        tokio::time::sleep(Duration::from_secs(1)).await;
        let stored = server.template().with_new_clusters_like(MEMBER_TEMPLATE);
        server.close().await;
        Ok(Self { stored, checks: Settings::default() })
    }

    /// Disables the admission checks, as on a hub without webhooks.
    #[must_use]
    pub fn without_checks(mut self) -> Self {
        self.checks.enable_webhook = false;
        self
    }
}

/// The cluster whose objects all members start with.
const MEMBER_TEMPLATE: &str = "any-member";

/// The uids of the template's objects come from this seed.
const TEMPLATE_SEED: u64 = 0;

/// Metrics of agents, over all restarts.
#[derive(Debug, Clone, Default)]
pub struct AgentMetrics {
    pub hub: Metrics,
    /// Of all members.
    pub members: Metrics,
}

/// The objects of the hub's API server at one moment.
#[derive(Debug, Clone)]
pub struct Backup(Template);

impl Backup {
    /// The same for a restore that raises the revision of the server beyond those that clients know, and ends their
    /// watches. Otherwise the revisions of a restored server begin again at the backup.
    #[must_use]
    pub fn with_raised_revision(self) -> Self {
        Self(self.0.with_revisions_raised_by(RAISED_BY))
    }
}

/// More than the number of writes in a simulation.
const RAISED_BY: u64 = 1_000_000;

#[derive(Debug)]
struct Servers {
    hub: Embedded,
    /// Serves all members.
    members: Embedded,
    /// Servers of the hub before its restarts.
    stopped: Vec<Embedded>,
}

/// A fleet in one process.
#[derive(Debug)]
pub struct Simulation {
    servers: Arc<RwLock<Servers>>,
    /// Settings of the hub's admission checks.
    checks: Settings,
    /// For servers that start later.
    server_seeds: Random,
    network: Network,
    clock: Clock,
    hub: HubOptions,
    /// Offsets of the agents' clocks.
    clock_offsets: BTreeMap<String, ClockOffset>,
    seeds: Seeds,
    metrics: AgentMetrics,
    agents: BTreeMap<String, JoinHandle<Result<(), TaskPanicked>>>,
    /// Present and former members, as of their last join.
    members: BTreeMap<String, SimulatedMember>,
    /// Simulated controllers and kubelets of members. They run independently of the agents.
    workloads: BTreeMap<String, Workloads>,
}

impl Simulation {
    /// A hub without members and without faults. Its agent does not run yet.
    pub async fn new(template: &SimulationTemplate, seed: u64, metrics: AgentMetrics) -> Result<Self, SimulationError> {
        let mut random = Random::new(seed);
        let clock = Clock::starting_at(epoch());
        let server = server(clock.clone(), random.number(), &template.stored, &template.checks).await?;
        let servers = Arc::new(RwLock::new(Servers { hub: server.clone(), members: server, stopped: Vec::new() }));
        let network = Network::new(random.fork(), FaultRates::none());
        let seeds = Seeds::starting_with(random.number());
        let (clock_offsets, agents, members, workloads) = Default::default();
        let (checks, server_seeds, hub) = (template.checks.clone(), random.fork(), immediate_hub_options());
        Ok(Self {
            servers,
            checks,
            server_seeds,
            network,
            clock,
            hub,
            clock_offsets,
            seeds,
            metrics,
            agents,
            members,
            workloads,
        })
    }

    /// Sets the options of the hub agent. By default it makes snapshots immediately.
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

    /// The names of present and former members.
    pub fn members(&self) -> Vec<String> {
        self.members.keys().cloned().collect()
    }

    /// A client of the hub without faults and with all rights.
    pub fn user(&self) -> kube::Client {
        self.connect(USER, HUB_SERVER, admin(), true)
    }

    /// A client of a member's API server without faults and with all rights.
    pub fn user_of(&self, member: &str) -> kube::Client {
        self.connect(USER, member, admin(), true)
    }

    /// A client of the hub without faults and with the rights of a member's agent, and the member's namespace.
    pub fn intruder(&self, member: &str) -> Option<(kube::Client, String)> {
        let name = &self.members.get(member)?.name;
        let namespace = MemberNamespace::of(name).ok()?.to_string();
        Some((self.connect(INTRUDER, HUB_SERVER, identity(name), true), namespace))
    }

    /// A client that sends each request to the server of this name that runs at that time.
    fn connect(&self, actor: &str, name: &str, user: User, without_faults: bool) -> kube::Client {
        let (servers, cluster) = (self.servers.clone(), name.to_owned());
        let source = move || {
            let servers = servers.read();
            match cluster.as_str() {
                HUB_SERVER => servers.hub.service(ROOT_CLUSTER, user.clone()),
                member => servers.members.service(member, user.clone()),
            }
        };
        self.network.connect_to(actor, name, Arc::new(source), without_faults)
    }

    /// Restarts the hub's API server with all its objects. Its history of watch events is lost.
    pub async fn restart_hub_server(&mut self) -> Result<(), SimulationError> {
        self.network.stop_server(HUB_SERVER, true);
        self.advance(SERVER_STOPS).await;
        let stored = self.hub_backup();
        self.start_hub_server(&stored).await?;
        Ok(())
    }

    /// The current objects of the hub's API server.
    pub fn hub_backup(&self) -> Backup {
        Backup(self.servers.read().hub.template().only(ROOT_CLUSTER))
    }

    /// Restarts the hub's API server with the objects of a backup, and returns them. Members keep their objects.
    pub async fn restore_hub_server(&mut self, backup: &Backup) -> Result<ClusterState, SimulationError> {
        self.network.stop_server(HUB_SERVER, true);
        self.advance(SERVER_STOPS).await;
        self.start_hub_server(backup).await
    }

    async fn start_hub_server(&mut self, backup: &Backup) -> Result<ClusterState, SimulationError> {
        let seed = self.server_seeds.number();
        let started = server(self.clock.clone(), seed, &backup.0, &self.checks).await?;
        let state = ClusterState::read(&kube::Client::new(started.service(ROOT_CLUSTER, admin()), "default")).await?;
        {
            let mut servers = self.servers.write();
            let before = std::mem::replace(&mut servers.hub, started);
            servers.stopped.push(before);
        }
        self.network.stop_server(HUB_SERVER, false);
        Ok(state)
    }

    /// Skews the clock of an agent, which may be running.
    pub fn set_clock(&mut self, agent: &str, fast: SignedDuration) {
        self.clock_offsets.entry(agent.to_owned()).or_default().set(fast);
    }

    fn environment(&mut self, agent: &str, metrics: &Metrics) -> AgentEnvironment {
        let clock = self.clock.with_offset(self.clock_offsets.entry(agent.to_owned()).or_default());
        AgentEnvironment { clock, seeds: self.seeds.clone(), strict: true, metrics: metrics.clone() }
    }

    /// Starts or restarts the hub agent.
    pub fn start_hub(&mut self) -> Result<(), SimulationError> {
        self.stop(HUB);
        let client = self.connect(HUB, HUB_SERVER, hub_identity(), false);
        let metrics = self.metrics.hub.clone();
        let agent = hub_agent(client, &self.hub.clone(), &self.environment(HUB, &metrics))?;
        self.agents.insert(HUB.to_owned(), tokio::spawn(agent.run(std::future::pending())));
        Ok(())
    }

    /// Starts a member's API server and agent. A user must create the MemberCluster.
    pub async fn start_member(&mut self, member: &SimulatedMember) -> Result<(), SimulationError> {
        self.prepare_member(member).await?;
        self.start_member_agent(member.name.as_str(), false)
    }

    /// Starts a member's API server and creates its nodes, which a cluster has before it joins.
    pub async fn prepare_member(&mut self, member: &SimulatedMember) -> Result<(), SimulationError> {
        let name = member.name.as_str();
        let own = self.connect(SETUP, name, hub_identity(), true);
        let cluster = self.servers.read().members.cluster(name);
        self.workloads.entry(name.to_owned()).or_insert_with(|| Workloads::start(&cluster, Arc::default()));
        add_nodes(&own, member).await?;
        self.members.insert(name.to_owned(), member.clone());
        Ok(())
    }

    /// Starts the agent of a prepared member. With `keeps_agent`, an agent that still runs is not restarted.
    pub fn start_member_agent(&mut self, name: &str, keeps_agent: bool) -> Result<(), SimulationError> {
        if keeps_agent && self.agents.contains_key(name) {
            return Ok(());
        }
        self.restart_member(name)
    }

    /// Restarts the agent of a present or former member.
    pub fn restart_member(&mut self, name: &str) -> Result<(), SimulationError> {
        self.stop(name);
        let metrics = self.metrics.members.clone();
        let environment = self.environment(name, &metrics);
        let Some(member) = self.members.get(name) else { return Ok(()) };
        let hub = self.connect(name, HUB_SERVER, identity(&member.name), false);
        let own = self.connect(name, name, hub_identity(), false);
        let agent = member_agent(hub, own, member, &environment)?;
        self.agents.insert(name.to_owned(), tokio::spawn(agent.run(std::future::pending())));
        Ok(())
    }

    /// Kills an agent. Its requests that are still on the way are dropped.
    pub fn stop(&mut self, actor: &str) {
        if let Some(task) = self.agents.remove(actor) {
            self.network.disconnect(actor);
            task.abort();
        }
    }

    /// Advances virtual time.
    pub async fn advance(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }

    /// Stops all agents, workloads and servers.
    pub async fn shut_down(mut self) {
        let actors: Vec<String> = self.agents.keys().cloned().collect();
        for actor in actors {
            self.stop(&actor);
        }
        self.workloads.clear();
        let all = {
            let servers = self.servers.read();
            [&servers.stopped[..], &[servers.hub.clone(), servers.members.clone()]].concat()
        };
        for server in all {
            server.close().await;
        }
    }
}
