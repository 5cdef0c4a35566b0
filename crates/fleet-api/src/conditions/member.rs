//! Conditions of member clusters: MemberCluster, the agents' reports in it, properties, ClusterProfile.
//!
//! Decides their words and sentences. Never judges a heartbeat.

use super::state::condition;

condition! {
    /// Whether the hub has prepared everything an agent needs to join.
    MemberReadyToJoin, MemberReadyToJoinReason: "ReadyToJoin" {
        True "MemberClusterReadyToJoin" => Ready {
            Ready: "Member cluster is ready to join the fleet";
        }
        False "MemberClusterNotReadyToJoin" => NotReady {
            NotReady: "Member cluster is not ready to join the fleet";
        }
    }
}

condition! {
    /// Whether all agents of the member have joined.
    MemberJoined, MemberJoinedReason: "Joined" {
        True "MemberClusterJoined" => Joined {
            Joined: "Member cluster has successfully joined the fleet";
        }
        False "MemberClusterLeft" => Left {
            Left: "Member cluster has left the fleet";
        }
        Unknown "MemberClusterJoinStateUnknown" => JoinStateUnknown {
            AgentsMissing { cluster: String, expected: usize, reported: usize }:
                "Member cluster {cluster} has not reported all the expected agents, expected {expected}, got {reported}";
            AgentSilent { cluster: String, agent: String }:
                "Member cluster {cluster} has not reported the join condition for agent {agent}";
            AgentsDisagree: "Member agents are not in a consistent state";
        }
    }
}

condition! {
    /// An agent's own word on whether it has joined.
    AgentJoined, AgentJoinedReason: "Joined" {
        True "InternalMemberClusterJoined" => Joined {
            Joined: "";
        }
        False "InternalMemberClusterLeft" => Left {
            Left: "";
        }
        Unknown "InternalMemberClusterFailedToJoin" => FailedToJoin {
            FailedToJoin { error: String }: "{error}";
        }
        Unknown "InternalMemberClusterFailedToLeave" => FailedToLeave {
            FailedToLeave { error: String }: "{error}";
        }
    }
}

condition! {
    /// Whether the agent found its cluster's API server ready.
    AgentHealthy, AgentHealthyReason: "Healthy" {
        True "InternalMemberClusterHealthy" => Healthy {
            Healthy: "";
        }
        False "InternalMemberClusterUnhealthy" => Unhealthy {
            ProbeFailed { status_code: u16 }: "health probe failed with status code {status_code}";
        }
    }
}

condition! {
    /// Whether the property provider could be started; tried once per agent process.
    PropertyProviderStarted, PropertyProviderStartedReason: "ClusterPropertyProviderStarted" {
        True "Started" => Started {
            Started: "The property provider has started successfully";
        }
        False "TimedOut" => TimedOut {
            TimedOut: "The property provider does not start up in time";
        }
        False "FailedToStart" => FailedToStart {
            FailedToStart { error: String }: "Failed to start the property provider: {error}";
        }
    }
}

condition! {
    /// Whether the last collection of properties gave an answer.
    PropertyCollectionSucceeded, PropertyCollectionSucceededReason: "ClusterPropertyCollectionSucceeded" {
        True "PropertiesCollected" => Collected {
            Collected: "The property provider has returned the latest cluster properties";
        }
        False "TimedOut" => TimedOut {
            TimedOut: "The property provider does not respond in time";
        }
        False "TooManyCalls" => TooManyCalls {
            TooManyCalls: "There are too many on-going calls to the property provider; will retry if some calls return";
        }
    }
}

condition! {
    /// Whether all namespaces of the member are listed. The list is used either way.
    NamespaceCollectionSucceeded, NamespaceCollectionSucceededReason: "NamespaceCollectionSucceeded" {
        True "Succeeded" => Succeeded {
            Succeeded: "All namespaces have been collected successfully";
        }
        False "Degraded" => Degraded {
            Degraded:
                "Namespaces are collected in a degraded mode since the number of namespaces reaches the track limit";
        }
    }
}

condition! {
    /// Whether the Azure provider could tell what the member costs.
    CostCollectionSucceeded, CostCollectionSucceededReason: "AKSClusterCostPropertiesCollectionSucceeded" {
        True "CostsCalculated" => Calculated {
            Calculated: "All cost properties have been collected successfully";
        }
        True "CostsCalculationDegraded" => Degraded {
            Degraded { warnings: String }:
                "Cost properties are collected in a degraded mode with the following warning(s): [{warnings}]";
        }
        False "CostsCalculationFailed" => Failed {
            Failed { error: String }: "An error has occurred when collecting cost properties: {error}";
        }
    }
}

condition! {
    /// A ClusterProfile's view of the member's API server.
    ControlPlaneHealthy, ControlPlaneHealthyReason: "ControlPlaneHealthy" {
        Unknown "MemberAgentReportedNoStatus" => NoStatus {
            NoStatus: "The Fleet member agent has not reported its status yet";
        }
        Unknown "MemberAgentReportedNoHealthInfo" => NoHealthInfo {
            HealthMissing: "The Fleet member agent has reported its status, but the health condition is missing";
            HealthUnknown: "The Fleet member agent health check result is out of date or unknown";
        }
        False "MemberAgentHeartbeatLost" => HeartbeatLost {
            HeartbeatLost: "The Fleet member agent has lost its heartbeat connection to the Fleet hub cluster";
        }
        False "MemberClusterAPIServerUnhealthy" => Unhealthy {
            Unhealthy: "The Fleet member agent reports that the API server is unhealthy";
        }
        True "MemberClusterAPIServerHealthy" => Healthy {
            Healthy: "The Fleet member agent reports that the API server is healthy";
        }
    }
}
