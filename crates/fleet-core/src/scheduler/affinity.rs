//! Required and preferred cluster affinity: which clusters are allowed, and how each scores.
//!
//! Ranges of ranked properties cover the whole fleet, eligible or not. Terms and expressions are evaluated in order
//! and only as far as needed, so a malformed one may go unnoticed.

use std::collections::BTreeSet;

use fleet_api::types::{
    ClusterAffinity, ClusterSelectorTerm, LabelSelector, PlacementPolicy, PlacementType, PreferredClusterSelector,
    SortOrder,
};
use k8s_values::Selector;

use super::observed::ClusterFacts;
use super::properties::{Expression, Holds, Property, Reading};
use super::report::Fault;

fn cluster_affinity(policy: Option<&PlacementPolicy>) -> Option<&ClusterAffinity> {
    policy?.affinity.as_ref()?.cluster_affinity.as_ref()
}

fn required_terms(policy: Option<&PlacementPolicy>) -> &[ClusterSelectorTerm] {
    let required = cluster_affinity(policy)
        .and_then(|affinity| affinity.required_during_scheduling_ignored_during_execution.as_ref());
    required.map_or(&[], |selector| &selector.cluster_selector_terms)
}

fn preferences(policy: Option<&PlacementPolicy>) -> &[PreferredClusterSelector] {
    cluster_affinity(policy).map_or(&[], |affinity| &affinity.preferred_during_scheduling_ignored_during_execution)
}

/// Properties that the policy compares or ranks by, and that the cluster reports with unusable values. Depends only
/// on the policy and the reported values.
pub fn unusable_properties<'p>(policy: Option<&'p PlacementPolicy>, cluster: &ClusterFacts<'_>) -> BTreeSet<&'p str> {
    let expressions = required_terms(policy).iter().filter_map(|term| term.property_selector.as_ref());
    let compared = expressions.flat_map(|selector| &selector.match_expressions).map(|one| one.name.as_str());
    let compared = compared.filter(|name| matches!(Property::named(name).of(cluster), Ok(Reading::Unusable(_))));
    let ranks = policy.is_some_and(|policy| policy.placement_type() == PlacementType::PickN);
    let sorters = preferences(policy).iter().filter(|_| ranks);
    let ranked = sorters.filter_map(|term| term.preference.property_sorter.as_ref()).map(|sorter| sorter.name.as_str());
    let ranked = ranked.filter(|name| matches!(Property::named(name).rank(cluster), Ok(Err(_))));
    compared.chain(ranked).collect()
}

/// A label selector; an absent one matches every cluster.
#[derive(Debug)]
struct Labels(Option<Result<Selector, Fault>>);

impl Labels {
    fn new(selector: Option<&LabelSelector>) -> Self {
        Self(selector.map(|selector| Selector::new(Some(selector)).map_err(Fault::Selector)))
    }

    fn match_cluster(&self, cluster: &ClusterFacts<'_>) -> Result<bool, Fault> {
        match &self.0 {
            None => Ok(true),
            Some(Ok(selector)) => Ok(selector.matches(cluster.labels)),
            Some(Err(fault)) => Err(fault.clone()),
        }
    }
}

/// The required terms, one of which must match.
#[derive(Debug)]
pub(super) struct Required<'p>(Vec<RequiredTerm<'p>>);

#[derive(Debug)]
struct RequiredTerm<'p> {
    labels: Labels,
    expressions: Vec<Expression<'p>>,
}

impl<'p> Required<'p> {
    pub(super) fn new(policy: Option<&'p PlacementPolicy>) -> Self {
        let read = required_terms(policy).iter().map(|term| RequiredTerm {
            labels: Labels::new(term.label_selector.as_ref()),
            expressions: term
                .property_selector
                .iter()
                .flat_map(|selector| &selector.match_expressions)
                .map(Expression::new)
                .collect(),
        });
        Self(read.collect())
    }

    /// Whether a required term matches; without terms, every cluster does.
    pub(super) fn admits(&self, cluster: &ClusterFacts<'_>) -> Result<Holds, Fault> {
        let mut unusable = None;
        for term in &self.0 {
            match term.matches(cluster)? {
                Holds::Yes => return Ok(Holds::Yes),
                Holds::No => {}
                Holds::Unusable(value) => unusable = unusable.or(Some(value)),
            }
        }
        Ok(match unusable {
            Some(value) => Holds::Unusable(value),
            None if self.0.is_empty() => Holds::Yes,
            None => Holds::No,
        })
    }
}

impl RequiredTerm<'_> {
    fn matches(&self, cluster: &ClusterFacts<'_>) -> Result<Holds, Fault> {
        if !self.labels.match_cluster(cluster)? {
            return Ok(Holds::No);
        }
        for expression in &self.expressions {
            match expression.holds(cluster)? {
                Holds::Yes => {}
                other => return Ok(other),
            }
        }
        Ok(Holds::Yes)
    }
}

/// The preferred terms.
#[derive(Debug)]
pub(super) struct Preferred(Vec<PreferredTerm>);

#[derive(Debug)]
struct PreferredTerm {
    weight: i32,
    labels: Labels,
    ranking: Option<Ranking>,
}

/// A property of all clusters, in the order of the fleet, with its range.
#[derive(Debug)]
struct Ranking {
    order: SortOrder,
    values: Vec<Option<f64>>,
    least: f64,
    most: f64,
}

impl Preferred {
    pub(super) fn new(policy: Option<&PlacementPolicy>, fleet: &[&ClusterFacts<'_>]) -> Result<Self, Fault> {
        preferences(policy).iter().map(|term| PreferredTerm::new(term, fleet)).collect::<Result<_, _>>().map(Self)
    }

    /// The score of the cluster at `position` in the fleet.
    pub(super) fn score(&self, position: usize, cluster: &ClusterFacts<'_>) -> Result<i32, Fault> {
        let mut score = 0_i32;
        for term in self.0.iter().filter(|term| term.weight != 0) {
            if term.labels.match_cluster(cluster)? {
                let worth = term.ranking.as_ref().map_or(term.weight, |it| it.share(position, term.weight));
                score = score.saturating_add(worth);
            }
        }
        Ok(score)
    }
}

impl PreferredTerm {
    fn new(term: &PreferredClusterSelector, fleet: &[&ClusterFacts<'_>]) -> Result<Self, Fault> {
        let sorter = term.preference.property_sorter.as_ref();
        Ok(Self {
            weight: term.weight,
            labels: Labels::new(term.preference.label_selector.as_ref()),
            ranking: sorter.map(|sorter| Ranking::new(&sorter.name, sorter.sort_order, fleet)).transpose()?,
        })
    }
}

impl Ranking {
    fn new(name: &str, order: SortOrder, fleet: &[&ClusterFacts<'_>]) -> Result<Self, Fault> {
        let property = Property::named(name);
        let read = |cluster: &&ClusterFacts<'_>| Ok(property.rank(cluster)?.unwrap_or_default());
        let values: Vec<Option<f64>> = fleet.iter().map(read).collect::<Result<_, Fault>>()?;
        let least = values.iter().flatten().copied().fold(f64::INFINITY, f64::min);
        let most = values.iter().flatten().copied().fold(f64::NEG_INFINITY, f64::max);
        Ok(Self { order, values, least, most })
    }

    /// The share of `weight` for the position of the value between the least and the greatest.
    #[allow(clippy::cast_possible_truncation, reason = "a share of an i32 is no larger than the i32")]
    fn share(&self, position: usize, weight: i32) -> i32 {
        let Some(value) = self.values.get(position).copied().flatten() else { return 0 };
        let range = self.most - self.least;
        if range <= 0.0 {
            return 0;
        }
        let place = (value - self.least) / range;
        let share = match self.order {
            SortOrder::Descending => place,
            SortOrder::Ascending => 1.0 - place,
        };
        (share * f64::from(weight)).round() as i32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scheduler::tests::fixture::{Fleet, policy};

    fn scores(fleet: &str, preference: &str) -> String {
        let fleet = Fleet::parse(fleet);
        let facts = fleet.facts();
        let clusters: Vec<_> = facts.iter().collect();
        let policy = policy(&format!(
            "{{placementType: PickN, numberOfClusters: 1, affinity: {{clusterAffinity: {{preferredDuringSchedulingIgnoredDuringExecution: [{preference}]}}}}}}"
        ));
        let preferred = match Preferred::new(Some(&policy), &clusters) {
            Ok(preferred) => preferred,
            Err(fault) => return fault.to_string(),
        };
        let score = |(position, cluster): (usize, &&ClusterFacts<'_>)| match preferred.score(position, cluster) {
            Ok(score) => format!("{}={score}", cluster.name),
            Err(fault) => format!("{}: {fault}", cluster.name),
        };
        clusters.iter().enumerate().map(score).collect::<Vec<_>>().join(" ")
    }

    const RANGE: &str = "a nodes=10\nb nodes=20\nc nodes=100\nd";

    #[test]
    fn shares_of_a_range() {
        let sorter = |order: &str, weight: i32| {
            format!(
                "{{weight: {weight}, preference: {{propertySorter: {{name: kubernetes-fleet.io/node-count, sortOrder: {order}}}}}}}"
            )
        };
        assert_eq!(scores(RANGE, &sorter("Descending", 100)), "a=0 b=11 c=100 d=0");
        assert_eq!(scores(RANGE, &sorter("Ascending", 100)), "a=100 b=89 c=0 d=0");
        assert_eq!(scores(RANGE, &sorter("Ascending", -100)), "a=-100 b=-89 c=0 d=0");
        assert_eq!(scores(RANGE, &sorter("Ascending", 0)), "a=0 b=0 c=0 d=0");
    }

    #[test]
    fn halves_are_rounded_away_from_zero() {
        let fleet = "a nodes=0\nb nodes=1\nc nodes=2";
        let sorter = "preference: {propertySorter: {name: kubernetes-fleet.io/node-count, sortOrder: Descending}}";
        assert_eq!(scores(fleet, &format!("{{weight: 5, {sorter}}}")), "a=0 b=3 c=5");
        assert_eq!(scores(fleet, &format!("{{weight: -5, {sorter}}}")), "a=0 b=-3 c=-5");
    }

    #[test]
    fn each_term_is_rounded_for_itself() {
        let fleet = "a nodes=0\nb nodes=1\nc nodes=2";
        let term =
            "{weight: 5, preference: {propertySorter: {name: kubernetes-fleet.io/node-count, sortOrder: Descending}}}";
        assert_eq!(scores(fleet, &format!("{term}, {term}")), "a=0 b=6 c=10");
    }

    #[test]
    fn audit_08_values_that_cannot_be_ranked_count_as_absent() {
        let sorter =
            "{weight: 5, preference: {propertySorter: {name: kubernetes-fleet.io/node-count, sortOrder: Descending}}}";
        assert_eq!(scores("a nodes=1\nb nodes=1e999\nc\nd nodes=2", sorter), "a=0 b=0 c=0 d=5");
        assert_eq!(scores("a nodes=1\nb nodes=x\nc nodes=2", sorter), "a=0 b=0 c=5");
        // A range that does not fit a floating point number ranks no cluster and causes no error.
        assert_eq!(scores("a nodes=-1e308\nb nodes=1e308", sorter), "a=0 b=0");
    }

    #[test]
    fn a_zero_weight_hides_a_malformed_selector_but_not_a_malformed_sorter() {
        let selector = "preference: {labelSelector: {matchExpressions: [{key: a, operator: Is}]}}";
        assert_eq!(scores("a", &format!("{{weight: 0, {selector}}}")), "a=0");
        assert_eq!(
            scores("a", &format!("{{weight: 1, {selector}}}")),
            "a: a label selector of the policy cannot be used"
        );
        let sorter = "preference: {propertySorter: {name: resources.kubernetes-fleet.io/cpu, sortOrder: Ascending}}";
        assert_eq!(
            scores("a", &format!("{{weight: 0, {sorter}}}")),
            r#""resources.kubernetes-fleet.io/cpu" names no property; one of a resource is <total|allocatable|available>-<resource>"#
        );
    }

    fn admitted(fleet: &str, terms: &str) -> String {
        let fleet = Fleet::parse(fleet);
        let policy = policy(&format!(
            "{{affinity: {{clusterAffinity: {{requiredDuringSchedulingIgnoredDuringExecution: {{clusterSelectorTerms: [{terms}]}}}}}}}}"
        ));
        let required = Required::new(Some(&policy));
        let verdict = |cluster: &ClusterFacts<'_>| match required.admits(cluster) {
            Ok(Holds::Yes) => Some(cluster.name.to_string()),
            Ok(Holds::No | Holds::Unusable(_)) => None,
            Err(fault) => Some(format!("{}: {fault}", cluster.name)),
        };
        fleet.facts().iter().filter_map(verdict).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn one_term_is_enough_and_all_parts_of_it_must_match() {
        let fleet = "a x=1\nb y=1\nc x=1 nodes=3\nd";
        assert_eq!(admitted(fleet, ""), "a b c d");
        assert_eq!(admitted(fleet, "{}"), "a b c d");
        assert_eq!(admitted(fleet, "{labelSelector: {matchLabels: {x: '1'}}}"), "a c");
        let both = "{labelSelector: {matchLabels: {x: '1'}}, propertySelector: {matchExpressions: [{name: kubernetes-fleet.io/node-count, operator: Ge, values: ['3']}]}}";
        assert_eq!(admitted(fleet, both), "c");
        assert_eq!(admitted(fleet, &format!("{both}, {{labelSelector: {{matchLabels: {{y: '1'}}}}}}")), "b c");
    }

    #[test]
    fn a_malformed_term_after_a_matching_one_is_not_evaluated() {
        let malformed = "{labelSelector: {matchExpressions: [{key: x, operator: Is}]}}";
        assert_eq!(
            admitted("a x=1\nb", &format!("{{labelSelector: {{matchLabels: {{x: '1'}}}}}}, {malformed}")),
            "a b: a label selector of the policy cannot be used"
        );
    }
}
