//! A second scheduler that shares no code with the first: it runs round after round over the whole fleet, as in the
//! specification, without memory between rounds and without regard for speed.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use fleet_api::kinds::MemberCluster;
use fleet_api::types::{
    BindingState, ClusterSelectorTerm, PlacementPolicy, PlacementType, SortOrder, TolerationOperator,
    UnsatisfiableConstraintAction,
};

use super::fixture::Fixture;
use super::naive_cluster::{ineligible, is_leaving, labels_match, property, term_matches, unusable};

/// The compared fields of a binding.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Row {
    pub(super) cluster: String,
    pub(super) state: String,
    pub(super) snapshot: String,
    pub(super) reason: String,
    pub(super) score: Option<(i32, i32)>,
    /// Only while unscheduled.
    pub(super) previous: Option<String>,
    pub(super) deleting: bool,
}

/// Cluster, selected, score (affinity, topology), reason.
pub(super) type Decision = (String, bool, Option<(i32, i32)>, String);

#[derive(Debug, Clone)]
pub(super) struct Status {
    pub(super) fulfilled: bool,
    pub(super) decisions: Vec<Decision>,
    /// Whether clusters were examined, so that unselected ones are explained.
    pub(super) examined: bool,
}

#[derive(Debug, Clone)]
pub(super) struct End {
    pub(super) rows: Vec<Row>,
    /// `None` if scheduling stopped or the status does not change.
    pub(super) status: Option<Status>,
    pub(super) stopped: bool,
}

/// Scheduling stopped.
pub(super) struct Stop;

/// Cluster and reason.
type Refusal = (String, String);

enum Next {
    Again,
    Done(Option<Status>),
}

struct Naive<'w> {
    fixture: &'w Fixture,
    clusters: Vec<(&'w str, &'w MemberCluster)>,
    policy: PlacementPolicy,
    snapshot: &'w str,
    number: Option<i64>,
    rows: Vec<Row>,
}

/// The bindings of a fixture in the form that is compared.
pub(super) fn rows(fixture: &Fixture) -> Vec<Row> {
    let row = |binding: &fleet_api::kinds::ClusterResourceBinding| {
        let decision = &binding.spec.cluster_decision;
        let unscheduled = binding.spec.state == BindingState::Unscheduled;
        let annotations = binding.metadata.annotations.as_ref();
        Row {
            cluster: binding.spec.target_cluster.clone(),
            state: binding.spec.state.to_string(),
            snapshot: binding.spec.scheduling_policy_snapshot_name.clone(),
            reason: decision.reason.clone(),
            score: decision.cluster_score.map(|it| (it.affinity_score.unwrap(), it.topology_spread_score.unwrap())),
            previous: annotations
                .and_then(|all| all.get("kubernetes-fleet.io/previous-binding-state"))
                .filter(|_| unscheduled)
                .cloned(),
            deleting: binding.metadata.deletion_timestamp.is_some(),
        }
    };
    let mut all: Vec<Row> = fixture.bindings.iter().map(row).collect();
    all.sort();
    all
}

/// Runs rounds until there is nothing more to do.
pub(super) fn run(fixture: &Fixture) -> End {
    let snapshot = &fixture.snapshots[0];
    let mut naive = Naive {
        fixture,
        clusters: fixture.fleet.clusters.iter().map(|(name, cluster)| (name.as_str(), cluster)).collect(),
        policy: snapshot.spec.policy.clone().unwrap_or_default(),
        snapshot: snapshot.metadata.name.as_deref().unwrap(),
        number: snapshot
            .metadata
            .annotations
            .as_ref()
            .and_then(|all| all.get("kubernetes-fleet.io/number-of-clusters").and_then(|text| text.parse().ok())),
        rows: rows(fixture),
    };
    for _ in 0..1000 {
        let next = naive.round();
        naive.rows.sort();
        match next {
            Ok(Next::Again) => {}
            Ok(Next::Done(status)) => return End { rows: naive.rows, status, stopped: false },
            Err(Stop) => return End { rows: naive.rows, status: None, stopped: true },
        }
    }
    panic!("the rounds do not come to an end");
}

impl Naive<'_> {
    fn round(&mut self) -> Result<Next, Stop> {
        // No other finalizer blocks deleted bindings here.
        self.rows.retain(|row| !row.deleting);
        let present: Vec<String> =
            self.clusters.iter().filter(|(_, it)| !is_leaving(it)).map(|(name, _)| (*name).to_owned()).collect();
        for row in self.rows.iter_mut().filter(|row| row.state != "Unscheduled" && !present.contains(&row.cluster)) {
            unschedule(row);
        }
        match self.policy.placement_type.unwrap_or_default() {
            PlacementType::PickAll => self.pick_all(),
            PlacementType::PickFixed => self.pick_fixed(),
            PlacementType::PickN => self.pick_n(),
        }
    }

    fn latest(&self, state: &str) -> Vec<Row> {
        self.rows.iter().filter(|row| row.state == state && row.snapshot == self.snapshot).cloned().collect()
    }

    fn is_obsolete(&self, row: &Row) -> bool {
        row.state != "Unscheduled" && row.snapshot != self.snapshot
    }

    fn has_latest(&self, cluster: &str) -> bool {
        self.rows
            .iter()
            .any(|row| row.cluster == cluster && row.state != "Unscheduled" && row.snapshot == self.snapshot)
    }

    fn pick_all(&mut self) -> Result<Next, Stop> {
        let (passing, filtered) = self.filter(false)?;
        let picks: Vec<(String, i32, i32)> = passing.into_iter().map(|name| (name, 0, 0)).collect();
        let (created, patched) = self.cross_reference(&picks)?;
        let mut decisions = self.selected(&created, &patched);
        explain(&mut decisions, &[], &filtered);
        Ok(Next::Done(Some(Status { fulfilled: true, decisions, examined: true })))
    }

    fn pick_fixed(&mut self) -> Result<Next, Stop> {
        let names = self.policy.cluster_names.clone().unwrap_or_default();
        if names.is_empty() {
            return Ok(Next::Done(None));
        }
        let (mut valid, mut invalid, mut missing) = (Vec::new(), Vec::new(), Vec::new());
        for name in &names {
            match self.clusters.iter().find(|(other, _)| other == name).map(|(_, cluster)| ineligible(cluster)) {
                None => missing.push((name.clone(), false, None, format!("Specified cluster \"{name}\" is not found"))),
                Some(Some(why)) => invalid.push((
                    name.clone(),
                    false,
                    None,
                    format!("Cluster \"{name}\" is not eligible for resource placement yet: {why}"),
                )),
                Some(None) => valid.push(name.clone()),
            }
        }
        let reason = |name: &str| {
            format!("Successfully scheduled resources for placement in \"{name}\": picked by scheduling policy")
        };
        let mut rows = self.rows.clone();
        for name in &valid {
            if self.has_latest(name) {
                continue;
            }
            let mut found = false;
            for row in rows.iter_mut().filter(|row| row.cluster == *name) {
                found = true;
                if row.state == "Unscheduled" {
                    row.state = row.previous.take().ok_or(Stop)?;
                }
                row.snapshot = self.snapshot.to_owned();
                row.reason = reason(name);
                row.score = None;
            }
            if !found {
                rows.push(self.new_row(name, None, reason(name)));
            }
        }
        for row in rows.iter_mut().filter(|row| self.is_obsolete(row) && !valid.contains(&row.cluster)) {
            unschedule(row);
        }
        self.rows = rows;
        let mut decisions: Vec<Decision> = valid.iter().map(|name| (name.clone(), true, None, reason(name))).collect();
        decisions.extend(invalid);
        decisions.extend(missing);
        Ok(Next::Done(Some(Status { fulfilled: valid.len() == names.len(), decisions, examined: true })))
    }

    fn pick_n(&mut self) -> Result<Next, Stop> {
        let wanted = self.number.and_then(|number| usize::try_from(number).ok()).ok_or(Stop)?;
        let (scheduled, bound) = (self.latest("Scheduled"), self.latest("Bound"));
        let present = scheduled.len() + bound.len();
        if wanted <= present {
            return Ok(Next::Done(Some(self.downscale(present - wanted, scheduled, bound))));
        }
        let spread = self.policy.topology_spread_constraints.clone().unwrap_or_default();
        let desired = wanted - present;
        let limit = if spread.is_empty() { desired } else { 1 };
        let (passing, filtered) = self.filter(true)?;
        let ranges = self.ranges()?;
        let mut ranked = Vec::new();
        for name in passing {
            let topology = self.topology(&name).unwrap();
            let obsolete = self.rows.iter().any(|row| row.cluster == name && self.is_obsolete(row));
            ranked.push((topology, self.affinity(&name, &ranges)?, obsolete, name));
        }
        ranked.sort_by_key(|one| Reverse(one.clone()));
        let rest = ranked.split_off(limit.min(ranked.len()));
        let picks: Vec<_> =
            ranked.into_iter().map(|(topology, affinity, _, name)| (name, affinity, topology)).collect();
        let (created, patched) = self.cross_reference(&picks)?;
        if desired > limit && created.len() + patched.len() == limit {
            return Ok(Next::Again);
        }
        let mut decisions = self.selected(&created, &patched);
        let fulfilled = decisions.len() >= wanted;
        let rest: Vec<_> = rest.into_iter().map(|(topology, affinity, _, name)| (name, affinity, topology)).collect();
        explain(&mut decisions, &rest, &filtered);
        Ok(Next::Done(Some(Status { fulfilled, decisions, examined: true })))
    }

    fn downscale(&mut self, mut surplus: usize, scheduled: Vec<Row>, bound: Vec<Row>) -> Status {
        let snapshot = self.snapshot.to_owned();
        for row in self.rows.iter_mut().filter(|row| row.state != "Unscheduled" && row.snapshot != snapshot) {
            unschedule(row);
        }
        let mut dropped = Vec::new();
        for mut group in [scheduled, bound] {
            group.sort_by_key(|row| (row.score.map(|(affinity, topology)| (topology, affinity)), row.cluster.clone()));
            let count = surplus.min(group.len());
            surplus -= count;
            dropped.extend(group.drain(..count));
        }
        for row in self.rows.iter_mut().filter(|row| dropped.contains(row)) {
            unschedule(row);
        }
        let decisions = self.selected(&[], &[]);
        Status { fulfilled: true, decisions, examined: false }
    }

    /// Created ones, those taken over, scheduled, bound.
    fn selected(&self, created: &[String], patched: &[String]) -> Vec<Decision> {
        let decision = |row: &Row| (row.cluster.clone(), true, row.score, row.reason.clone());
        let named = |name: &String| self.rows.iter().find(|row| row.cluster == *name && row.state != "Unscheduled");
        let fresh = created.iter().chain(patched).map(|name| decision(named(name).unwrap()));
        let older = ["Scheduled", "Bound"].into_iter().flat_map(|state| self.latest(state));
        let older = older.filter(|row| !created.contains(&row.cluster) && !patched.contains(&row.cluster));
        fresh.chain(older.map(|row| decision(&row))).collect()
    }

    /// Names created and names taken over.
    fn cross_reference(&mut self, picks: &[(String, i32, i32)]) -> Result<(Vec<String>, Vec<String>), Stop> {
        let reason = |(name, affinity, topology): &(String, i32, i32)| {
            format!(
                "Successfully scheduled resources for placement in \"{name}\" (affinity score: {affinity}, topology spread score: {topology}): picked by scheduling policy"
            )
        };
        let mut rows = self.rows.clone();
        let (mut kept, mut revived, mut created) = (Vec::new(), Vec::new(), Vec::new());
        for row in &mut rows {
            let pick = picks.iter().find(|(name, ..)| *name == row.cluster);
            match (self.is_obsolete(row), row.state == "Unscheduled", pick) {
                (true, _, None) => unschedule(row),
                (true, _, Some(_)) => kept.push(row.cluster.clone()),
                (_, true, Some(_)) => {
                    row.state = row.previous.take().ok_or(Stop)?;
                    revived.push(row.cluster.clone());
                }
                _ => continue,
            }
            if let Some(pick) = pick {
                row.snapshot = self.snapshot.to_owned();
                row.reason = reason(pick);
                row.score = Some((pick.1, pick.2));
            }
        }
        for pick in picks {
            if !kept.contains(&pick.0) && !revived.contains(&pick.0) {
                if pick.0.contains('.') {
                    return Err(Stop);
                }
                rows.push(self.new_row(&pick.0, Some((pick.1, pick.2)), reason(pick)));
                created.push(pick.0.clone());
            }
        }
        self.rows = rows;
        kept.extend(revived);
        Ok((created, kept))
    }

    fn new_row(&self, cluster: &str, score: Option<(i32, i32)>, reason: String) -> Row {
        Row {
            cluster: cluster.to_owned(),
            state: "Scheduled".to_owned(),
            snapshot: self.snapshot.to_owned(),
            reason,
            score,
            previous: None,
            deleting: false,
        }
    }

    /// Names that pass, and those that do not with their reasons.
    fn filter(&self, spread: bool) -> Result<(Vec<String>, Vec<Refusal>), Stop> {
        let (mut passing, mut filtered) = (Vec::new(), Vec::new());
        for (name, cluster) in &self.clusters {
            let reason = match self.rejection(cluster)? {
                Some(reason) => Some(reason),
                None if self.has_latest(name) => continue,
                None if spread => self.topology(name).err(),
                None => None,
            };
            match reason {
                Some(reason) => filtered.push(((*name).to_owned(), format!("ClusterUnschedulable, {reason}"))),
                None => passing.push((*name).to_owned()),
            }
        }
        Ok((passing, filtered))
    }

    fn rejection(&self, cluster: &MemberCluster) -> Result<Option<String>, Stop> {
        let affinity = self.policy.affinity.clone().and_then(|affinity| affinity.cluster_affinity).unwrap_or_default();
        let terms = affinity
            .required_during_scheduling_ignored_during_execution
            .map(|selector| selector.cluster_selector_terms)
            .unwrap_or_default();
        let mut matches = terms.is_empty();
        for term in &terms {
            if term_matches(term, cluster)? {
                matches = true;
                break;
            }
        }
        if !matches {
            let why = unusable(&terms, cluster)?.map(|why| format!(": {why}")).unwrap_or_default();
            return Ok(Some(format!("cluster does not match with any of the required cluster affinity terms{why}")));
        }
        if let Some(why) = ineligible(cluster) {
            return Ok(Some(why));
        }
        if let Some(namespace) = &self.fixture.key.namespace {
            let status = cluster.status.as_ref().unwrap();
            if status.conditions.iter().any(|condition| condition.type_ == "NamespaceCollectionSucceeded") {
                if status.observed.namespaces.is_empty() {
                    return Ok(Some("cluster has no namespace information available".to_owned()));
                }
                if status.observed.namespaces.keys().all(|key| key != namespace.as_str()) {
                    return Ok(Some("target namespace does not exist on cluster".to_owned()));
                }
            }
        }
        for taint in &cluster.spec.taints {
            let tolerated = self.policy.tolerations.iter().flatten().any(|toleration| match toleration.operator {
                Some(TolerationOperator::Exists) => toleration.key.is_empty() || toleration.key == taint.key,
                _ => toleration.key == taint.key && toleration.value == taint.value,
            });
            if !tolerated {
                return Ok(Some(format!(
                    "taint &{{Key:{} Value:{} Effect:NoSchedule}} cannot be tolerated",
                    taint.key, taint.value
                )));
            }
        }
        Ok(None)
    }

    /// The score, or the reason why the spread is broken.
    fn topology(&self, name: &str) -> Result<i32, String> {
        let constraints = self.policy.topology_spread_constraints.clone().unwrap_or_default();
        let soft = |one: &fleet_api::types::TopologySpreadConstraint| {
            one.when_unsatisfiable == Some(UnsatisfiableConstraintAction::ScheduleAnyway)
        };
        let mut score = 0;
        for pass in [false, true] {
            for constraint in constraints.iter().filter(|one| soft(one) == pass) {
                let key = &constraint.topology_key;
                let label =
                    |cluster: &MemberCluster| cluster.metadata.labels.as_ref().and_then(|all| all.get(key).cloned());
                let cluster = self.clusters.iter().find(|(other, _)| *other == name).unwrap().1;
                let Some(place) = label(cluster) else { continue };
                let mut counts: BTreeMap<String, i32> = BTreeMap::new();
                for (other, cluster) in &self.clusters {
                    if let Some(place) = label(cluster) {
                        *counts.entry(place).or_default() += i32::from(self.has_latest(other));
                    }
                }
                let here = counts[&place];
                let mut sorted: Vec<i32> = counts.into_values().collect();
                sorted.sort_unstable();
                let (least, second) = (sorted[0], sorted.get(1).copied().unwrap_or(sorted[0]));
                let most = sorted[sorted.len() - 1];
                let change = if most == least {
                    1
                } else if here == least && least != second {
                    -1
                } else {
                    i32::from(here == most)
                };
                let max_skew = constraint.max_skew.unwrap_or(1);
                let violated = most - least + change > max_skew;
                match (violated, pass) {
                    (true, false) => {
                        return Err(format!(
                            "violated doNotSchedule topology spread constraint \"{key}\" (max skew {max_skew})"
                        ));
                    }
                    (true, true) => score -= 1000,
                    (false, _) => score -= change,
                }
            }
        }
        Ok(score)
    }

    fn preferred(&self) -> Vec<(i32, ClusterSelectorTerm)> {
        let affinity = self.policy.affinity.clone().and_then(|affinity| affinity.cluster_affinity).unwrap_or_default();
        let terms = affinity.preferred_during_scheduling_ignored_during_execution;
        terms.into_iter().map(|term| (term.weight, term.preference)).collect()
    }

    /// Per preferred term, the least and the most value in the fleet.
    fn ranges(&self) -> Result<Vec<Option<(f64, f64)>>, Stop> {
        let mut ranges = Vec::new();
        for (_, term) in self.preferred() {
            let mut range: Option<(f64, f64)> = None;
            if let Some(sorter) = &term.property_sorter {
                for (_, cluster) in &self.clusters {
                    if let Some(value) = property(cluster, &sorter.name)? {
                        let value = value.as_f64();
                        let (least, most) = range.unwrap_or((value, value));
                        range = Some((least.min(value), most.max(value)));
                    }
                }
            }
            ranges.push(range);
        }
        Ok(ranges)
    }

    fn affinity(&self, name: &str, ranges: &[Option<(f64, f64)>]) -> Result<i32, Stop> {
        let cluster = self.clusters.iter().find(|(other, _)| *other == name).unwrap().1;
        let mut score = 0;
        for ((weight, term), range) in self.preferred().into_iter().zip(ranges) {
            if weight == 0 || !labels_match(term.label_selector.as_ref(), cluster)? {
                continue;
            }
            let Some(sorter) = &term.property_sorter else {
                score += weight;
                continue;
            };
            let Some(value) = property(cluster, &sorter.name)? else { continue };
            let (least, most) = range.unwrap();
            if least < most {
                let place = (value.as_f64() - least) / (most - least);
                let share = if sorter.sort_order == SortOrder::Descending { place } else { 1.0 - place };
                #[allow(clippy::cast_possible_truncation, reason = "weights are small")]
                let worth = (share * f64::from(weight)).round() as i32;
                score += worth;
            }
        }
        Ok(score)
    }
}

fn unschedule(row: &mut Row) {
    row.previous = Some(std::mem::replace(&mut row.state, "Unscheduled".to_owned()));
}

/// Appends decisions on clusters that were not selected, twenty at most.
fn explain(decisions: &mut Vec<Decision>, rest: &[(String, i32, i32)], filtered: &[Refusal]) {
    let selected: Vec<String> = decisions.iter().map(|decision| decision.0.clone()).collect();
    let mut allowance = 20;
    for (name, affinity, topology) in rest {
        if allowance == 0 {
            break;
        }
        let reason = format!(
            "Cluster \"{name}\" does not score high enough (affinity score: {affinity}, topology spread score: {topology})"
        );
        decisions.push((name.clone(), false, Some((*affinity, *topology)), reason));
        allowance -= 1;
    }
    for (name, reason) in filtered {
        if allowance == 0 {
            break;
        }
        allowance -= 1;
        if !selected.contains(name) {
            decisions.push((name.clone(), false, None, reason.clone()));
        }
    }
}
