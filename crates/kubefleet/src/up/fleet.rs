//! A hub and simulated members in this process, on a socket: start order and shutdown.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;

use anyhow::Context as _;
use apiserver::{Builder, ContextEntry, Credentials, Embedded, Listening, Options, ROOT_CLUSTER, User, kubeconfig};
use fleet_api::admission::Settings;
use fleet_hub::HubOptions;
use fleet_runtime::{Runtime, TaskPanicked};
use fleet_sim::admission::with_hub_checks;
use fleet_sim::agents::{AgentEnvironment, hub_agent, hub_identity, member_agent};
use fleet_sim::member::identity;
use fleet_sim::setup::{add_member, all_joined, known_members, prepare_hub, set_up_member};
use fleet_sim::workloads::Workloads;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::blueprint::{Blueprint, Planned};
use super::start_errors::explain;

/// The context of the hub in the kubeconfig.
pub(crate) const HUB: &str = "hub";
/// Members that are set up concurrently: enough to share disk writes, few enough that the first ones join before the last start.
const STARTING_AT_ONCE: usize = 16;

/// A running fleet.
pub(crate) struct Fleet {
    server: Embedded,
    listening: Listening,
    /// The names of the members, in the requested order.
    members: Vec<String>,
    agents: JoinSet<Result<(), TaskPanicked>>,
    workloads: Vec<Workloads>,
    stop: watch::Sender<bool>,
}

impl Fleet {
    /// Starts the API server and installs the hub, without agents and members.
    pub(crate) async fn open(listen: SocketAddr, data_dir: Option<PathBuf>) -> anyhow::Result<Self> {
        let options = Options { data_dir: data_dir.clone(), ..Options::default() };
        let builder = with_hub_checks(Builder::default(), &Settings::default());
        let server = Embedded::with(builder, options).await.map_err(|error| explain(error, data_dir.as_deref()))?;
        let listening = server.listen(listen, &[]).await.map_err(|error| explain(error, data_dir.as_deref()))?;
        let (stop, _) = watch::channel(false);
        let (members, agents, workloads) = (Vec::new(), JoinSet::new(), Vec::new());
        let fleet = Self { server, listening, members, agents, workloads, stop };
        prepare_hub(&fleet.client(HUB)).await?;
        Ok(fleet)
    }

    /// Starts the hub agent, the requested members and those that the hub already has. They may not have joined yet.
    pub(crate) async fn start(&mut self, blueprint: Blueprint, hub: &HubOptions) -> anyhow::Result<()> {
        let client = kube::Client::new(self.server.service(ROOT_CLUSTER, hub_identity()), "default");
        let agent = hub_agent(client, hub, &AgentEnvironment::real())?;
        self.agents.spawn(agent.run(self.stopped()));
        let blueprint = blueprint.with_known(known_members(&self.client(HUB)).await?)?;
        self.members = blueprint.members.iter().map(|planned| planned.member.name.to_string()).collect();
        let mut waiting = blueprint.members.into_iter();
        let mut starting = JoinSet::new();
        loop {
            for planned in waiting.by_ref().take(STARTING_AT_ONCE - starting.len()) {
                starting.spawn(start_member(self.server.clone(), planned));
            }
            let Some(started) = starting.join_next().await else { return Ok(()) };
            let (agent, workloads) = started.context("starting a member failed")??;
            self.workloads.push(workloads);
            self.agents.spawn(agent.run(self.stopped()));
        }
    }

    fn stopped(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut stop = self.stop.subscribe();
        // The sender lives as long as the fleet; if it is dropped, stop too.
        async move { drop(stop.wait_for(|stop| *stop).await) }
    }

    pub(crate) fn members(&self) -> &[String] {
        &self.members
    }

    /// An administrator client of the hub or a member, by context name.
    pub(crate) fn client(&self, context: &str) -> kube::Client {
        let cluster = if context == HUB { ROOT_CLUSTER } else { context };
        kube::Client::new(self.server.service(cluster, administrator()), "default")
    }

    /// Waits until all members have joined, except leaving ones.
    pub(crate) async fn joined(&self, progress: impl FnMut(usize)) -> anyhow::Result<()> {
        let names: Vec<&str> = self.members.iter().map(String::as_str).collect();
        Ok(all_joined(&self.client(HUB), &names, progress).await?)
    }

    /// The kubeconfig: the hub first, then every member.
    pub(crate) fn kubeconfig(&self) -> String {
        let address = reachable(self.listening.address());
        let entry = |name: &str, cluster: &str| ContextEntry {
            name: name.to_owned(),
            server: self.server.url(address, cluster),
            namespace: None,
            credentials: Credentials::Token(self.server.issue_token(cluster, administrator())),
        };
        let hub = entry(HUB, ROOT_CLUSTER);
        let members = self.members.iter().map(|member| entry(member, member));
        let contexts: Vec<ContextEntry> = std::iter::once(hub).chain(members).collect();
        kubeconfig(self.server.authority().ca_pem(), &contexts).expose().to_owned()
    }

    /// Completes when an agent has failed.
    pub(crate) async fn agent_failure(&mut self) -> anyhow::Error {
        while let Some(ended) = self.agents.join_next().await {
            match ended {
                Ok(Ok(())) => {}
                Ok(Err(broken)) => return broken.into(),
                Err(error) => return error.into(),
            }
        }
        std::future::pending().await
    }

    /// Stops the agents, then the server.
    pub(crate) async fn end(mut self) {
        self.stop.send_replace(true);
        while self.agents.join_next().await.is_some() {}
        self.workloads.clear();
        self.listening.shutdown().await;
        self.server.close().await;
    }
}

/// Prepares the API server of a member, starts its workloads, creates the MemberCluster unless it exists, and builds the agent.
async fn start_member(server: Embedded, planned: Planned) -> anyhow::Result<(Runtime, Workloads)> {
    let Planned { member, behaviours, is_known } = planned;
    let name = member.name.as_str();
    let own = kube::Client::new(server.service(name, administrator()), "default");
    set_up_member(&own, &member).await?;
    let workloads = Workloads::start(&server.cluster(name), behaviours);
    if !is_known {
        let admin = kube::Client::new(server.service(ROOT_CLUSTER, administrator()), "default");
        add_member(&admin, &member).await?;
    }
    let client = kube::Client::new(server.service(ROOT_CLUSTER, identity(&member.name)), "default");
    Ok((member_agent(client, own, &member, &AgentEnvironment::real())?, workloads))
}

fn administrator() -> User {
    User::authenticated("kubernetes-admin", ["system:masters".to_owned()])
}

/// An address that a client on this machine can use.
fn reachable(address: SocketAddr) -> SocketAddr {
    let loopback: IpAddr = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(loopback, address.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unspecified_addresses_become_loopback_addresses() {
        let reach = |address: &str| reachable(address.parse().unwrap()).to_string();
        assert_eq!(reach("0.0.0.0:6443"), "127.0.0.1:6443");
        assert_eq!(reach("[::]:6443"), "[::1]:6443");
        assert_eq!(reach("10.0.0.7:6443"), "10.0.0.7:6443");
    }
}
