//! The agent processes: start, kill, and shutdown with SIGTERM.

use std::time::Duration;

use crate::agent::Agent;
use crate::costs;
use crate::servers::{Servers, until};

pub(crate) const MEMBERS: [&str; 3] = ["member1", "member2", "member3"];
/// Maximum duration of a shutdown on a busy machine.
const LONGEST_END: Duration = Duration::from_secs(2);

pub(crate) struct Fleet {
    pub(crate) servers: Servers,
    pub(crate) hub_agent: Agent,
    member_agents: Vec<Agent>,
}

impl Fleet {
    /// All members have joined.
    pub(crate) async fn start(flags: &[&str]) -> Self {
        let servers = Servers::start(&MEMBERS).await;
        let hub_agent = Agent::start(&servers.hub_agent_kubeconfig().await, flags);
        let mut member_agents = Vec::new();
        for member in MEMBERS {
            servers.invite(member).await;
            let mut command = servers.member_agent(member).await;
            if member == costs::MEMBER {
                costs::with_prices(&servers, &mut command);
            }
            member_agents.push(Agent::spawn(command));
        }
        let fleet = Self { servers, hub_agent, member_agents };
        for member in MEMBERS {
            until(&format!("{member} has joined"), || fleet.servers.has_joined(member)).await;
        }
        fleet
    }

    /// Kills the hub agent with SIGKILL and starts another process.
    pub(crate) fn kill_hub_agent(&mut self) {
        self.hub_agent.kill();
    }

    pub(crate) async fn start_hub_agent(&mut self, flags: &[&str]) {
        self.hub_agent = Agent::start(&self.servers.hub_agent_kubeconfig().await, flags);
    }

    /// Sends SIGTERM to all agents: they end quickly, without errors and without denied requests.
    pub(crate) async fn end(mut self) {
        let (_, metrics) = self.hub_agent.get_metrics("/metrics").await;
        assert!(metrics.contains("fleet_runtime_writes_total"), "{metrics}");
        had_its_rights(&metrics, &self.hub_agent.log());
        for mut agent in self.member_agents {
            let (_, metrics) = agent.get_metrics("/metrics").await;
            assert!(!metrics.contains("outcome=\"refused\""), "the rights of config/rbac are enough:\n{metrics}");
            ends_well(agent).await;
        }
        ends_well(self.hub_agent).await;
    }
}

/// No request of the hub agent was denied.
pub(crate) fn had_its_rights(metrics: &str, log: &str) {
    assert!(!metrics.contains("outcome=\"refused\""), "the rights of config/rbac are enough:\n{metrics}");
    assert!(!metrics.contains("fleet_runtime_events_total{outcome=\"dropped\"}"), "an event was refused:\n{metrics}");
    // The server creates nothing in a namespace that is being deleted, whatever the rights are.
    let lines: Vec<&str> = log.lines().filter(|line| !line.contains("because it is being terminated")).collect();
    for trouble in ["cannot list or watch", "cannot access the lease", "Forbidden", "forbidden"] {
        let line = lines.iter().find(|line| line.contains(trouble));
        assert!(line.is_none(), "the rights of config/rbac are enough: {line:?}");
    }
}

async fn ends_well(agent: Agent) {
    let (took, status, log) = agent.terminate().await;
    assert!(status.success() && took < LONGEST_END, "{took:?} {status}\n{log}");
    assert!(!log.contains("panicked"), "{log}");
}
