//! A hub and simulated members in this process, on a socket.
//!
//! Decides what is started in which order, and how it ends. Never decides what the user is told.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use apiserver::auth::User;
use apiserver::embedded::{Embedded, EmbeddedError, Options, ROOT_CLUSTER};
use apiserver::http::Listening;
use apiserver::http::kubeconfig::{ContextEntry, Credentials, kubeconfig};
use fleet_sim::agents::{Surroundings, hub_agent, hub_identity, member_agent, prompt_hub};
use fleet_sim::member::{SimulatedMember, identity};
use fleet_sim::setup::{add_member, all_joined, furnish_member, known_members, prepare_hub};
use fleet_sim::workloads::{Behaviours, Workloads};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::output::Hinted;

/// The context of the hub in the kubeconfig.
const HUB: &str = "hub";
/// Labels of the first members, so that examples with stages have something to select.
const LABELS: [&[(&str, &str)]; 3] = [
    &[("environment", "canary"), ("order", "2")],
    &[("environment", "staging")],
    &[("environment", "canary"), ("order", "1")],
];

/// A running fleet.
pub(super) struct Fleet {
    server: Embedded,
    listening: Listening,
    members: Vec<SimulatedMember>,
    agents: JoinSet<()>,
    workloads: Vec<Workloads>,
    stop: watch::Sender<bool>,
}

impl Fleet {
    /// Starts server, hub agent and members. Members may not have joined yet.
    pub(super) async fn start(
        listen: SocketAddr,
        data_dir: Option<PathBuf>,
        members: u16,
        behaviours: Behaviours,
    ) -> anyhow::Result<Self> {
        let options = Options { data_dir: data_dir.clone(), ..Options::default() };
        let server = Embedded::start(options).await.map_err(|error| explain(error, data_dir.as_deref()))?;
        let listening = server.listen(listen, &[]).await.map_err(|error| explain(error, data_dir.as_deref()))?;
        let admin = kube::Client::new(server.service(ROOT_CLUSTER, administrator()), "default");
        prepare_hub(&admin).await?;
        let members = all_members(&admin, members).await?;
        let (stop, _) = watch::channel(false);
        let mut fleet = Self { server, listening, members, agents: JoinSet::new(), workloads: Vec::new(), stop };
        fleet.start_agents(&admin, &Arc::new(behaviours)).await?;
        Ok(fleet)
    }

    async fn start_agents(&mut self, admin: &kube::Client, behaviours: &Arc<Behaviours>) -> anyhow::Result<()> {
        let around = Surroundings::real();
        let client = kube::Client::new(self.server.service(ROOT_CLUSTER, hub_identity()), "default");
        let hub = hub_agent(client, &prompt_hub(), &around)?;
        self.agents.spawn(hub.run(self.stopped()));
        for member in &self.members {
            let own = kube::Client::new(self.server.service(member.name.as_str(), administrator()), "default");
            furnish_member(&own, member).await?;
            self.workloads.push(Workloads::start(&self.server.cluster(member.name.as_str()), behaviours.clone()));
            add_member(admin, member).await?;
            let client = kube::Client::new(self.server.service(ROOT_CLUSTER, identity(&member.name)), "default");
            let agent = member_agent(client, own, member, &Surroundings::real())?;
            self.agents.spawn(agent.run(self.stopped()));
        }
        Ok(())
    }

    fn stopped(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut stop = self.stop.subscribe();
        // The sender lives as long as the fleet; when it is gone, stopping is right too.
        async move { drop(stop.wait_for(|stop| *stop).await) }
    }

    pub(super) fn members(&self) -> usize {
        self.members.len()
    }

    /// Waits until all members have joined.
    pub(super) async fn joined(&self, progress: impl FnMut(usize)) -> anyhow::Result<()> {
        let admin = kube::Client::new(self.server.service(ROOT_CLUSTER, administrator()), "default");
        let names: Vec<&str> = self.members.iter().map(|member| member.name.as_str()).collect();
        Ok(all_joined(&admin, &names, progress).await?)
    }

    /// The kubeconfig's content: the hub first, then every member.
    pub(super) fn kubeconfig(&self) -> String {
        let address = reachable(self.listening.address());
        let entry = |name: &str, cluster: &str| ContextEntry {
            name: name.to_owned(),
            server: self.server.url(address, cluster),
            namespace: None,
            credentials: Credentials::Token(self.server.issue_token(cluster, administrator())),
        };
        let hub = entry(HUB, ROOT_CLUSTER);
        let members = self.members.iter().map(|member| entry(member.name.as_str(), member.name.as_str()));
        let contexts: Vec<ContextEntry> = std::iter::once(hub).chain(members).collect();
        kubeconfig(self.server.authority().ca_pem(), &contexts).expose().to_owned()
    }

    /// Ends agents, then the server. What was written is durable if there is a data directory.
    pub(super) async fn end(mut self) {
        self.stop.send_replace(true);
        while self.agents.join_next().await.is_some() {}
        self.workloads.clear();
        self.listening.shutdown().await;
        self.server.close().await;
    }
}

fn administrator() -> User {
    User::authenticated("kubernetes-admin", ["system:masters".to_owned()])
}

/// The members that were asked for, and those that a hub in a data directory knows from before.
async fn all_members(admin: &kube::Client, count: u16) -> anyhow::Result<Vec<SimulatedMember>> {
    let asked_for = (1..=count).map(|number| format!("member{number}"));
    let names: BTreeSet<String> = asked_for.chain(known_members(admin).await?).collect();
    let mut members = Vec::new();
    for name in names {
        let number = name.strip_prefix("member").and_then(|digits| digits.parse::<usize>().ok());
        let labels = number.and_then(|number| LABELS.get(number.checked_sub(1)?)).copied().unwrap_or_default();
        let member = SimulatedMember::new(&name).with_context(|| format!("the member {name} cannot be simulated"))?;
        members.push((number.unwrap_or(usize::MAX), member.labelled(labels)));
    }
    members.sort_by_key(|(number, _)| *number);
    Ok(members.into_iter().map(|(_, member)| member).collect())
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

/// What usually goes wrong at a start, with what to do about it.
fn explain(error: EmbeddedError, data_dir: Option<&Path>) -> anyhow::Error {
    match error {
        EmbeddedError::Listen { address, source } => {
            let hint = match source.kind() {
                std::io::ErrorKind::AddrInUse => {
                    "another program (perhaps another `kubefleet up`) has that port; try --listen 127.0.0.1:0"
                }
                std::io::ErrorKind::PermissionDenied => "ports below 1024 need privileges; try --listen 127.0.0.1:6443",
                _ => "try --listen 127.0.0.1:6443",
            };
            Hinted { what: format!("cannot listen on {address}: {source}"), hint: hint.to_owned() }.into()
        }
        other => {
            let what = format!("{:#}", anyhow::Error::new(other));
            match data_dir {
                Some(_) if what.contains("in use by process") => {
                    let hint = "end that process, or choose another directory with --data-dir".to_owned();
                    Hinted { what, hint }.into()
                }
                Some(path) => {
                    let hint =
                        format!("choose another directory than {} with --data-dir, or use --in-memory", path.display());
                    Hinted { what, hint }.into()
                }
                None => anyhow::anyhow!(what),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_on_this_machine_get_an_address_that_works() {
        let reach = |address: &str| reachable(address.parse().unwrap()).to_string();
        assert_eq!(reach("0.0.0.0:6443"), "127.0.0.1:6443");
        assert_eq!(reach("[::]:6443"), "[::1]:6443");
        assert_eq!(reach("10.0.0.7:6443"), "10.0.0.7:6443");
    }
}
