//! Topology spread: how evenly picked clusters are distributed over the values of labels.
//!
//! Domains are taken from the whole fleet, eligible or not. Clusters with the same domains form a group, because they
//! always score the same.

use std::collections::BTreeMap;

use fleet_api::types::{PlacementPolicy, TopologySpreadConstraint, UnsatisfiableConstraintAction};

use super::observed::ClusterFacts;
use super::report::Rejection;

/// The score for violating a soft constraint.
const BROKEN_SOFT_CONSTRAINT: i32 = -1000;

/// All constraints of a policy, and the number of copies in each domain.
#[derive(Debug)]
pub(super) struct Spread<'p> {
    /// Hard constraints first, each kind in the order of the policy.
    constraints: Vec<Constraint<'p>>,
    /// The domains of each group: those of all constraints for the first group, then for the next.
    places: Vec<Option<usize>>,
    group_count: usize,
    /// The group of each cluster in the fleet.
    groups: Vec<usize>,
}

#[derive(Debug)]
struct Constraint<'p> {
    key: &'p str,
    max_skew: i32,
    must_hold: bool,
    /// Copies per domain.
    copies: Vec<usize>,
    /// The number of domains with a given number of copies.
    places_by_copies: BTreeMap<usize, usize>,
    extremes: Extremes,
}

/// The ends of `places_by_copies`, cached because every group needs them before every pick.
#[derive(Debug, Clone, Copy, Default)]
struct Extremes {
    least: usize,
    most: usize,
    /// Whether only one domain has the fewest copies.
    one_emptiest: bool,
}

/// A violated hard constraint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Violation {
    constraint: usize,
}

impl<'p> Spread<'p> {
    /// `selected` are the clusters that already have a copy.
    pub(super) fn new(policy: Option<&'p PlacementPolicy>, fleet: &[&ClusterFacts<'_>], selected: &[bool]) -> Self {
        let given = policy.and_then(|policy| policy.topology_spread_constraints.as_deref()).unwrap_or_default();
        let (must, may): (Vec<_>, Vec<_>) = given.iter().map(Constraint::new).partition(|one| one.must_hold);
        let mut constraints: Vec<Constraint<'p>> = must.into_iter().chain(may).collect();
        let mut names: Vec<BTreeMap<&str, usize>> = vec![BTreeMap::new(); constraints.len()];
        let mut known: BTreeMap<Vec<Option<usize>>, usize> = BTreeMap::new();
        let mut groups = Vec::with_capacity(fleet.len());
        for (cluster, &has_copy) in fleet.iter().zip(selected) {
            let mut here = Vec::with_capacity(constraints.len());
            for (constraint, names) in constraints.iter_mut().zip(&mut names) {
                let place = cluster.labels.get(constraint.key).map(|value| {
                    let next = names.len();
                    *names.entry(value).or_insert(next)
                });
                if let Some(place) = place {
                    constraint.see(place, has_copy);
                }
                here.push(place);
            }
            let next = known.len();
            groups.push(*known.entry(here).or_insert(next));
        }
        for constraint in &mut constraints {
            constraint.count_places();
        }
        let (group_count, width) = (known.len(), constraints.len());
        let mut places = vec![None; group_count * width];
        for (here, group) in known {
            places[group * width..][..width].copy_from_slice(&here);
        }
        Self { constraints, places, group_count, groups }
    }

    pub(super) fn is_unconstrained(&self) -> bool {
        self.constraints.is_empty()
    }

    pub(super) fn group_count(&self) -> usize {
        self.group_count
    }

    pub(super) fn group_of(&self, cluster: usize) -> usize {
        self.groups.get(cluster).copied().unwrap_or_default()
    }

    fn places_of(&self, group: usize) -> &[Option<usize>] {
        let width = self.constraints.len();
        &self.places[group * width..][..width]
    }

    /// The score of one more copy on a cluster of this group.
    pub(super) fn score(&self, group: usize) -> Result<i32, Violation> {
        let mut score = 0_i32;
        for (index, (constraint, place)) in self.constraints.iter().zip(self.places_of(group)).enumerate() {
            let Some(place) = *place else { continue };
            match constraint.change_by_one_more(place) {
                Ok(change) => score = score.saturating_sub(change),
                Err(Broken) if constraint.must_hold => return Err(Violation { constraint: index }),
                Err(Broken) => score = score.saturating_add(BROKEN_SOFT_CONSTRAINT),
            }
        }
        Ok(score)
    }

    /// Counts one more copy on a cluster of this group.
    pub(super) fn place(&mut self, group: usize) {
        let width = self.constraints.len();
        let places = &self.places[group * width..][..width];
        for (constraint, place) in self.constraints.iter_mut().zip(places) {
            if let Some(place) = *place {
                constraint.add(place);
            }
        }
    }

    pub(super) fn rejection(&self, violation: Violation) -> Rejection {
        let constraint = &self.constraints[violation.constraint];
        Rejection::Spread { topology_key: constraint.key.to_owned(), max_skew: constraint.max_skew }
    }
}

/// The skew would exceed the maximum.
#[derive(Debug, PartialEq, Eq)]
struct Broken;

impl<'p> Constraint<'p> {
    fn new(given: &'p TopologySpreadConstraint) -> Self {
        Self {
            key: &given.topology_key,
            max_skew: given.max_skew(),
            must_hold: given.when_unsatisfiable() != UnsatisfiableConstraintAction::ScheduleAnyway,
            copies: Vec::new(),
            places_by_copies: BTreeMap::new(),
            extremes: Extremes::default(),
        }
    }

    fn see(&mut self, place: usize, has_copy: bool) {
        if place == self.copies.len() {
            self.copies.push(0);
        }
        self.copies[place] += usize::from(has_copy);
    }

    fn count_places(&mut self) {
        for copies in &self.copies {
            *self.places_by_copies.entry(*copies).or_default() += 1;
        }
        self.find_extremes();
    }

    fn find_extremes(&mut self) {
        let (emptiest, fullest) = (self.places_by_copies.first_key_value(), self.places_by_copies.last_key_value());
        if let (Some((&least, &places)), Some((&most, _))) = (emptiest, fullest) {
            self.extremes = Extremes { least, most, one_emptiest: places == 1 };
        }
    }

    fn add(&mut self, place: usize) {
        let before = self.copies[place];
        self.copies[place] = before + 1;
        if let Some(places) = self.places_by_copies.get_mut(&before) {
            *places -= 1;
            if *places == 0 {
                self.places_by_copies.remove(&before);
            }
        }
        *self.places_by_copies.entry(before + 1).or_default() += 1;
        self.find_extremes();
    }

    /// How the difference between the fullest and the emptiest domain would change.
    fn change_by_one_more(&self, place: usize) -> Result<i32, Broken> {
        let Extremes { least, most, one_emptiest } = self.extremes;
        let here = self.copies[place];
        let change = if most == least {
            1
        } else if here == least && one_emptiest {
            -1
        } else {
            i32::from(here == most)
        };
        let skew = i64::try_from(most - least).unwrap_or(i64::MAX).saturating_add(i64::from(change));
        if skew > i64::from(self.max_skew) { Err(Broken) } else { Ok(change) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Copies per domain, in order.
    fn change(copies: &[usize], place: usize, max_skew: i32) -> Result<i32, Broken> {
        let given = TopologySpreadConstraint {
            max_skew: Some(max_skew),
            topology_key: "zone".to_owned(),
            when_unsatisfiable: None,
        };
        let mut constraint = Constraint { copies: vec![0; copies.len()], ..Constraint::new(&given) };
        constraint.count_places();
        for (place, copies) in copies.iter().enumerate() {
            for _ in 0..*copies {
                constraint.add(place);
            }
        }
        constraint.change_by_one_more(place)
    }

    #[test]
    fn the_first_case_that_applies_decides() {
        assert_eq!(change(&[0], 0, 1), Ok(1), "a single place only gets fuller");
        assert_eq!(change(&[2, 2, 2], 1, 1), Ok(1), "all equal");
        assert_eq!(change(&[1, 2, 2], 0, 1), Ok(-1), "the one emptiest place is filled up");
        assert_eq!(change(&[1, 1, 2], 0, 1), Ok(0), "another place is as empty");
        assert_eq!(change(&[1, 2, 2], 1, 2), Ok(1), "the fullest place gets fuller");
        assert_eq!(change(&[0, 1, 2], 1, 2), Ok(0), "neither the emptiest nor the fullest");
    }

    #[test]
    fn the_limit_may_be_reached_but_not_passed() {
        assert_eq!(change(&[1, 2], 1, 1), Err(Broken));
        assert_eq!(change(&[1, 2], 1, 2), Ok(1));
        assert_eq!(change(&[0, 3], 0, 1), Err(Broken), "better, but still too far apart");
        assert_eq!(change(&[0, 2], 0, 1), Ok(-1));
        assert_eq!(change(&[0, 1, 3], 1, 2), Err(Broken), "no change where it is too far apart already");
    }
}
