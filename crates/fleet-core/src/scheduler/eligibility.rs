//! Whether a cluster is eligible: not leaving, joined, with recent heartbeats, and not unhealthy for long.
//!
//! Time can only end eligibility, and picked clusters stay picked, so no requeue is needed when a heartbeat grows
//! old.

use std::fmt;

use jiff::{SignedDuration, Timestamp};

use super::observed::{ClusterFacts, Health};

/// How long heartbeats may be missing, and health bad, before a cluster is not eligible.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EligibilityLimits {
    /// Maximum age of a heartbeat. Heartbeats are sent every minute by default.
    pub heartbeat_timeout: SignedDuration,
    /// How long an agent may report bad health; shorter times are restarts and upgrades.
    pub health_timeout: SignedDuration,
}

impl Default for EligibilityLimits {
    fn default() -> Self {
        Self { heartbeat_timeout: SignedDuration::from_mins(5), health_timeout: SignedDuration::from_mins(5) }
    }
}

/// Why a cluster is not eligible.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ineligible {
    Left,
    AgentNotOnline,
    /// `None` if there was never a heartbeat.
    NoRecentHeartbeat {
        since: Option<SignedDuration>,
    },
    NotJoined,
    HealthNotReported,
    Unhealthy {
        since: SignedDuration,
    },
}

/// The first reason why the cluster is not eligible, if any.
pub fn eligibility(cluster: &ClusterFacts<'_>, now: Timestamp, limits: EligibilityLimits) -> Result<(), Ineligible> {
    if cluster.leaving {
        return Err(Ineligible::Left);
    }
    let Some(agent) = cluster.agent else { return Err(Ineligible::AgentNotOnline) };
    let since = agent.heartbeat.map(|heartbeat| now.duration_since(heartbeat));
    if since.is_none_or(|since| since > limits.heartbeat_timeout) {
        return Err(Ineligible::NoRecentHeartbeat { since });
    }
    if !agent.joined {
        return Err(Ineligible::NotJoined);
    }
    match agent.health {
        Health::NotReported => Err(Ineligible::HealthNotReported),
        Health::Healthy => Ok(()),
        Health::NotHealthySince(instant) => {
            let since = now.duration_since(instant);
            if since > limits.health_timeout { Err(Ineligible::Unhealthy { since }) } else { Ok(()) }
        }
    }
}

/// The number of minutes that stands for "never": the longest duration in Go.
const NEVER_MINUTES: f64 = 153_722_867.28;

impl Ineligible {
    /// The text before the part of a reason that gives the age.
    pub(super) const AGE_OPENS: &str = " (last ";
}

impl fmt::Display for Ineligible {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let not_connected = "cluster is not connected to the fleet";
        let opens = Self::AGE_OPENS;
        match self {
            Ineligible::Left => f.write_str("cluster has left the fleet"),
            Ineligible::AgentNotOnline => write!(f, "{not_connected}: member agent not online yet"),
            Ineligible::NoRecentHeartbeat { since } => {
                let minutes = since.map_or(NEVER_MINUTES, minutes);
                write!(f, "{not_connected}: no recent heartbeat signals{opens}received {minutes:.2} minutes ago)")
            }
            Ineligible::NotJoined => write!(f, "{not_connected}: member agent not joined yet"),
            Ineligible::HealthNotReported => {
                write!(f, "{not_connected}: health condition from member agent is not available")
            }
            Ineligible::Unhealthy { since } => {
                let minutes = minutes(*since);
                write!(
                    f,
                    "{not_connected}: unhealthy for a prolonged period of time{opens}transitioned {minutes:.2} minutes ago)"
                )
            }
        }
    }
}

fn minutes(duration: SignedDuration) -> f64 {
    duration.as_secs_f64() / 60.0
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;
    use crate::scheduler::tests::fixture::{Fleet, now};

    fn check(line: &str, expected: Expect) {
        let fleet = Fleet::parse(line);
        let facts = fleet.facts();
        let verdict = eligibility(&facts[0], now(), EligibilityLimits::default());
        expected.assert_eq(&verdict.map_or_else(|why| why.to_string(), |()| "eligible".to_owned()));
    }

    #[test]
    fn checks_in_order() {
        check("m", expect!["eligible"]);
        check("m leaving silent", expect!["cluster has left the fleet"]);
        check("m silent", expect!["cluster is not connected to the fleet: member agent not online yet"]);
        check(
            "m heartbeat=301s joined=False",
            expect![
                "cluster is not connected to the fleet: no recent heartbeat signals (last received 5.02 minutes ago)"
            ],
        );
        check(
            "m heartbeat=never",
            expect![
                "cluster is not connected to the fleet: no recent heartbeat signals (last received 153722867.28 minutes ago)"
            ],
        );
        check(
            "m joined=False healthy=absent",
            expect!["cluster is not connected to the fleet: member agent not joined yet"],
        );
        check("m joined=absent", expect!["cluster is not connected to the fleet: member agent not joined yet"]);
        check(
            "m healthy=absent",
            expect!["cluster is not connected to the fleet: health condition from member agent is not available"],
        );
        check(
            "m healthy=False:6m",
            expect![
                "cluster is not connected to the fleet: unhealthy for a prolonged period of time (last transitioned 6.00 minutes ago)"
            ],
        );
    }

    #[test]
    fn a_cluster_is_eligible_up_to_and_including_the_limit() {
        check("m heartbeat=5m healthy=False:5m", expect!["eligible"]);
        check("m healthy=Unknown:10s", expect!["eligible"]);
    }
}
