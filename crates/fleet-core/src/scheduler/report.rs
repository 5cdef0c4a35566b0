//! The result of scheduling as values: the outcome, the verdict on each cluster, and faults. Decisions, events and
//! `diagnose` render them.

use std::fmt;

use fleet_api::names::{ClusterName, NameError};
use fleet_api::types::Taint;
use k8s_values::quantity::QuantityError;
use k8s_values::selector::SelectorError;

use super::eligibility::Ineligible;
use super::score::Score;

#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    pub outcome: SchedulingOutcome,
    /// The verdict on each examined cluster, by name.
    pub clusters: Vec<(ClusterName, Verdict)>,
    /// Clusters that the policy names and that do not exist.
    pub not_found: Vec<String>,
}

impl Report {
    pub(super) fn without_clusters(outcome: SchedulingOutcome) -> Self {
        Self { outcome, clusters: Vec::new(), not_found: Vec::new() }
    }
}

/// The outcome of a plan.
#[derive(Debug, Clone, PartialEq)]
pub enum SchedulingOutcome {
    /// The placement is being deleted; the finalizers of its bindings are removed.
    Deleting,
    /// The placement is being deleted and leaves its resources; not every binding records that yet. After a binding
    /// is gone it could not be recorded any more.
    AwaitingAbandonment,
    /// There is no policy snapshot yet.
    AwaitingPolicy,
    /// Several snapshots are marked as latest.
    AmbiguousPolicy { snapshots: usize },
    /// The policy names no cluster, so that clusters picked before are not changed.
    NothingNamed,
    /// `wanted` is `None` if every cluster that fits is wanted.
    Decided { found: usize, wanted: Option<usize> },
    /// Only a change of policy, cluster or binding can fix the fault.
    Stopped(Fault),
}

/// The decision about one cluster.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// Picked by this plan; named clusters have no score.
    Picked(Option<Score>),
    /// Picked earlier under this policy, and kept whatever happened to the cluster.
    Kept,
    /// Picked earlier and no longer wanted, because fewer clusters are.
    Dropped,
    /// It fits, but others score better.
    NotPicked(Score),
    Rejected(Rejection),
}

/// Longest part of a value that a status repeats, in characters. Members may report anything.
const SHOWN_VALUE_CHARACTERS: usize = 64;

/// A reported value that is not a usable number. The cluster counts as one without the property, so that a member can
/// mislead placements only about itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unusable {
    pub property: String,
    /// At most the beginning of the value.
    pub value: String,
    pub why: UnusableWhy,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnusableWhy {
    NotAQuantity,
    /// Clusters are ranked by floating point numbers.
    TooLargeToRank,
}

impl Unusable {
    pub(super) fn new(property: &str, value: &str, why: UnusableWhy) -> Self {
        let value = value.chars().take(SHOWN_VALUE_CHARACTERS).collect();
        Self { property: property.to_owned(), value, why }
    }
}

impl fmt::Display for Unusable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { property, value, why } = self;
        let why = match why {
            UnusableWhy::NotAQuantity => "not a quantity",
            UnusableWhy::TooLargeToRank => "too large to be ranked",
        };
        write!(f, "property {property:?} has the value {value:?}, which is {why}")
    }
}

/// Why a cluster does not fit.
#[derive(Debug, Clone, PartialEq)]
pub enum Rejection {
    NoTermMatches,
    /// No term matches, but one might if this were a quantity.
    Unusable(Unusable),
    Ineligible(Ineligible),
    NamespacesUnknown,
    NamespaceMissing,
    Taint(Taint),
    Spread {
        topology_key: String,
        max_skew: i32,
    },
}

impl Rejection {
    /// Name of the plugin that rejected the cluster.
    pub fn plugin(&self) -> &'static str {
        match self {
            Rejection::NoTermMatches | Rejection::Unusable(_) => "ClusterAffinity",
            Rejection::Ineligible(_) => "ClusterEligibility",
            Rejection::NamespacesUnknown | Rejection::NamespaceMissing => "NamespaceAffinity",
            Rejection::Taint(_) => "TaintToleration",
            Rejection::Spread { .. } => "TopologySpreadConstraints",
        }
    }
}

const NO_TERM_MATCHES: &str = "cluster does not match with any of the required cluster affinity terms";

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Rejection::NoTermMatches => f.write_str(NO_TERM_MATCHES),
            Rejection::Unusable(value) => write!(f, "{NO_TERM_MATCHES}: {value}"),
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
    #[error("property {property:?} is compared with {count} values instead of one")]
    ValueCount { property: String, count: usize },
    #[error("property {property:?} is compared with {value:?}, which is no quantity")]
    ExpectedQuantity { property: String, value: String, source: QuantityError },
    #[error("property {property:?} is compared by {operator:?}, which is none of Gt, Ge, Lt, Le, Eq and Ne")]
    Operator { property: String, operator: String },
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
