//! The agents on their servers: started, killed, and ended as a cluster ends its pods.

use std::time::Duration;

use crate::agent::Agent;
use crate::servers::{Servers, until};

pub(crate) const MEMBERS: [&str; 3] = ["member1", "member2", "member3"];
/// What agents promise, on a machine that may be busy with building.
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
            member_agents.push(Agent::spawn(servers.member_agent(member).await));
        }
        let fleet = Self { servers, hub_agent, member_agents };
        for member in MEMBERS {
            until(&format!("{member} has joined"), || fleet.servers.has_joined(member)).await;
        }
        fleet
    }

    /// SIGKILL for the hub agent; what runs afterwards is another process.
    pub(crate) fn kill_hub_agent(&mut self) {
        self.hub_agent.kill();
    }

    pub(crate) async fn start_hub_agent(&mut self, flags: &[&str]) {
        self.hub_agent = Agent::start(&self.servers.hub_agent_kubeconfig().await, flags);
    }

    /// SIGTERM for all: they end at once and without a complaint, and none was ever refused what it needs.
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

/// The hub agent was refused nothing: no read and no write of a controller or a webhook, no event, no list or watch, no lease.
pub(crate) fn had_its_rights(metrics: &str, log: &str) {
    assert!(!metrics.contains("outcome=\"refused\""), "the rights of config/rbac are enough:\n{metrics}");
    assert!(!metrics.contains("fleet_runtime_events_total{outcome=\"dropped\"}"), "an event was refused:\n{metrics}");
    for trouble in ["cannot be followed", "the lease cannot be reached", "Forbidden", "forbidden"] {
        let line = log.lines().find(|line| line.contains(trouble));
        assert!(line.is_none(), "the rights of config/rbac are enough: {line:?}");
    }
}

async fn ends_well(agent: Agent) {
    let (took, status, log) = agent.terminate().await;
    assert!(status.success() && took < LONGEST_END, "{took:?} {status}\n{log}");
    assert!(!log.contains("panicked"), "{log}");
}
