//! Conditions of member clusters: MemberCluster, agent reports, properties and ClusterProfile.

use super::state::condition;

condition! {
    /// Whether the hub has created everything that an agent needs to join.
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
    /// Whether the scheduler can use the reported properties. Written only after it could not.
    MemberPropertiesUsable, MemberPropertiesUsableReason: "ClusterPropertiesUsable" {
        True "PropertiesUsable" => Usable {
            Usable: "All properties are usable by the scheduler";
        }
        False "PropertiesNotQuantities" => NotQuantities {
            NotQuantities { properties: String }:
                "These properties are not quantities, so the scheduler treats the cluster as one that does not report them: {properties}";
        }
    }
}

condition! {
    /// Whether this agent has joined.
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
    /// Whether the API server of the agent's cluster is ready.
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
    /// Whether the last collection of properties succeeded.
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
    /// Whether all namespaces of the member are listed. The list is used in any case.
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
    /// Whether the Azure provider could compute the costs of the member.
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
    /// The health of the member's API server in a ClusterProfile.
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
