//! What the scheduler found out, as values: the outcome, the verdict on each cluster, and what stopped it.
//!
//! Decides the vocabulary and the sentence of every reason; decisions in statuses, events and diagnosis all render from
//! here. Never decides which verdict a cluster gets.

use std::fmt;

use fleet_api::names::{ClusterName, NameError};
use fleet_api::quantity::QuantityError;
use fleet_api::selector::SelectorError;
use fleet_api::types::Taint;

use super::eligibility::Ineligible;
use super::score::Score;

/// What a plan rests on.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    pub outcome: Outcome,
    /// The verdict on each cluster that was looked at, by name.
    pub clusters: Vec<(ClusterName, Verdict)>,
    /// Clusters that the policy names and the fleet does not have.
    pub not_found: Vec<String>,
}

impl Report {
    pub(super) fn without_clusters(outcome: Outcome) -> Self {
        Self { outcome, clusters: Vec::new(), not_found: Vec::new() }
    }
}

/// How planning ended.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// The placement is being deleted; its bindings are let go.
    Releasing,
    /// The placement is being deleted and leaves its resources; not every binding says so yet. Once a binding is gone nobody
    /// could note on it what becomes of its resources.
    AwaitingAbandonment,
    /// There is no policy snapshot yet.
    AwaitingPolicy,
    /// Several snapshots claim to be the latest.
    AmbiguousPolicy { snapshots: usize },
    /// The policy names no cluster, which says nothing about those picked before.
    NothingNamed,
    /// `wanted` is absent where every cluster that fits is.
    Decided { found: usize, wanted: Option<usize> },
    /// Scheduling stopped at something that only a change of policy, cluster or binding can mend.
    Stopped(Fault),
}

/// What was decided about one cluster.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// Chosen by this plan; named clusters have no score.
    Picked(Option<Score>),
    /// Chosen earlier under this policy, and kept whatever became of the cluster.
    Kept,
    /// Chosen earlier and no longer wanted, because fewer clusters are.
    Dropped,
    /// It fits, but others fit better.
    NotPicked(Score),
    Rejected(Rejection),
}

/// Why a cluster does not fit.
#[derive(Debug, Clone, PartialEq)]
pub enum Rejection {
    NoTermMatches,
    Ineligible(Ineligible),
    NamespacesUnknown,
    NamespaceMissing,
    Taint(Taint),
    Spread { topology_key: String, max_skew: i32 },
}

impl Rejection {
    /// Name of the rule that turned the cluster away.
    pub fn plugin(&self) -> &'static str {
        match self {
            Rejection::NoTermMatches => "ClusterAffinity",
            Rejection::Ineligible(_) => "ClusterEligibility",
            Rejection::NamespacesUnknown | Rejection::NamespaceMissing => "NamespaceAffinity",
            Rejection::Taint(_) => "TaintToleration",
            Rejection::Spread { .. } => "TopologySpreadConstraints",
        }
    }
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Rejection::NoTermMatches => {
                f.write_str("cluster does not match with any of the required cluster affinity terms")
            }
            Rejection::Ineligible(why) => write!(f, "{why}"),
            Rejection::NamespacesUnknown => f.write_str("cluster has no namespace information available"),
            Rejection::NamespaceMissing => f.write_str("target namespace does not exist on cluster"),
            Rejection::Taint(Taint { key, value, effect }) => {
                write!(f, "taint &{{Key:{key} Value:{value} Effect:{effect}}} cannot be tolerated")
            }
            Rejection::Spread { topology_key, max_skew } => {
                write!(f, "violated doNotSchedule topology spread constraint \"{topology_key}\" (max skew {max_skew})")
            }
        }
    }
}

/// Why scheduling stopped.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Fault {
    #[error("policy snapshot {snapshot:?} does not say how many clusters are wanted")]
    NumberOfClusters { snapshot: String },
    #[error("policy snapshot {snapshot:?} does not say which generation of the placement it reflects")]
    PlacementGeneration { snapshot: String },
    #[error("no binding can be named")]
    BindingName(#[source] NameError),
    #[error("unscheduled binding {binding:?} does not say which state it had before")]
    PreviousState { binding: String },
    #[error("a label selector of the policy cannot be used")]
    Selector(#[source] SelectorError),
    #[error("{name:?} names no property; one of a resource is <total|allocatable|available>-<resource>")]
    PropertyName { name: String },
    #[error("property {property:?} of cluster {cluster:?} has the value {value:?}, which is no quantity")]
    ObservedQuantity { cluster: ClusterName, property: String, value: String, source: QuantityError },
    #[error("property {property:?} is compared with {count} values instead of one")]
    ValueCount { property: String, count: usize },
    #[error("property {property:?} is compared with {value:?}, which is no quantity")]
    ExpectedQuantity { property: String, value: String, source: QuantityError },
    #[error("property {property:?} is compared by {operator:?}, which is none of Gt, Ge, Lt, Le, Eq and Ne")]
    Operator { property: String, operator: String },
    #[error("values of property {property:?} are too large to be ranked")]
    Unrankable { property: String },
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use fleet_api::types::TaintEffect;

    use super::*;

    #[test]
    fn rejections_say_rule_and_reason() {
        let taint = Taint { key: "dedicated".to_owned(), value: "db".to_owned(), effect: TaintEffect::NoSchedule };
        let all = [
            Rejection::NoTermMatches,
            Rejection::Ineligible(Ineligible::Left),
            Rejection::NamespacesUnknown,
            Rejection::NamespaceMissing,
            Rejection::Taint(taint),
            Rejection::Spread { topology_key: "region".to_owned(), max_skew: 2 },
        ];
        let lines: Vec<_> = all.iter().map(|one| format!("{}: {one}", one.plugin())).collect();
        expect![[r#"
            ClusterAffinity: cluster does not match with any of the required cluster affinity terms
            ClusterEligibility: cluster has left the fleet
            NamespaceAffinity: cluster has no namespace information available
            NamespaceAffinity: target namespace does not exist on cluster
            TaintToleration: taint &{Key:dedicated Value:db Effect:NoSchedule} cannot be tolerated
            TopologySpreadConstraints: violated doNotSchedule topology spread constraint "region" (max skew 2)"#]]
        .assert_eq(&lines.join("\n"));
    }
}
