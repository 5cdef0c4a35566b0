//! The run that most fixes end with: what its manifest says.
//!
//! Decides name, strategy and index of a run that takes the place of another or is the first. Never decides that one is
//! needed.

use std::collections::BTreeMap;

use fleet_api::kinds::{Family, UpdateRun, UpdateStrategy};
use fleet_api::names::RunName;
use serde_json::{Value, json};

use super::finding::{ObjectRef, Step, kind_of};
use super::picture::{Picture, Seen};
use super::stages;

/// Name of the strategy that is proposed where there is none.
const FIRST_STRATEGY: &str = "all-at-once";

/// A run like this one, of the same strategy; without an index it brings what is on the hub now.
pub(super) fn like(picture: &Picture, run: &Seen<UpdateRun>, index: Option<u32>) -> Step {
    of(picture, run.name(), &run.spec.placement_name, &run.spec.staged_update_strategy_name, index)
}

/// A run of another placement or strategy than the one whose name it is made from.
pub(super) fn of(picture: &Picture, base: &str, placement: &str, strategy: &str, index: Option<u32>) -> Step {
    let name = fresh_name(picture, base);
    let mut spec = json!({"placementName": placement, "stagedRolloutStrategyName": strategy, "state": "Run"});
    if let Some(index) = index {
        spec["resourceSnapshotIndex"] = json!(index.to_string());
    }
    let what = match index {
        Some(index) => format!("create the run {name}, which brings snapshot {index}"),
        None => format!("create the run {name}, which brings what is on the hub now"),
    };
    picture.kubectl.create(what, manifest::<UpdateRun>(picture, &name, spec))
}

/// What brings the placement's content to its clusters: a run in the place of one that still goes, or a new one. A strategy
/// is made where there is none. Empty for placements that roll out by themselves.
pub(super) fn propagate(picture: &Picture) -> Vec<Step> {
    let Some(placement) = picture.placement.as_ref().filter(|_| picture.is_external()) else { return Vec::new() };
    let newest = picture.runs_of(placement.name()).into_iter().next();
    let mut steps = Vec::new();
    if let Some(run) = newest.filter(|run| !super::run::is_final(run)) {
        steps.push(
            picture
                .kubectl
                .delete(format!("delete the run {}: it keeps the old content", run.name()), &run.reference()),
        );
    }
    match newest.filter(|run| picture.strategy(&run.spec.staged_update_strategy_name).is_some()) {
        Some(run) => steps.push(like(picture, run, None)),
        None => steps.extend(first(picture, placement.name())),
    }
    steps
}

/// The first run of a placement, by a strategy that fits its clusters; one is made if none does.
pub(super) fn first(picture: &Picture, placement: &str) -> Vec<Step> {
    let base = format!("{placement}-run");
    if let Some(strategy) = fitting_strategy(picture) {
        return vec![of(picture, &base, placement, strategy.name(), None)];
    }
    let taken = |name: &str| picture.strategy(name).is_some();
    let strategy = numbered(FIRST_STRATEGY, taken);
    vec![simple_strategy(picture, &strategy), of(picture, &base, placement, &strategy, None)]
}

/// A strategy of one stage with every cluster in it.
pub(super) fn simple_strategy(picture: &Picture, name: &str) -> Step {
    let spec = json!({"stages": [{"name": "all", "labelSelector": {}, "maxConcurrency": 1}]});
    strategy(picture, format!("create the strategy {name}: one stage, one cluster at a time"), name, spec)
}

pub(super) fn strategy(picture: &Picture, what: String, name: &str, spec: Value) -> Step {
    picture.kubectl.create(what, manifest::<UpdateStrategy>(picture, name, spec))
}

fn fitting_strategy(picture: &Picture) -> Option<&Seen<UpdateStrategy>> {
    let labels: Vec<BTreeMap<String, String>> = picture
        .bindings
        .iter()
        .filter_map(|binding| picture.member(&binding.spec.target_cluster))
        .map(Seen::labels)
        .collect();
    picture.strategies.iter().find(|strategy| !labels.is_empty() && stages::all_fit(&strategy.spec, labels.iter()))
}

fn manifest<F: Family>(picture: &Picture, name: &str, spec: Value) -> Value {
    let info = kind_of::<F>(picture.namespace.as_deref());
    let mut metadata = json!({"name": name});
    if let Some(namespace) = &picture.namespace {
        metadata["namespace"] = json!(namespace);
    }
    let ObjectRef { api_version, .. } = ObjectRef::of::<F>(picture.namespace.as_deref(), name);
    json!({"apiVersion": api_version, "kind": info.map(|info| info.kind), "metadata": metadata, "spec": spec})
}

/// `run-2` after `run`, `run-8` after `run-7`.
fn fresh_name(picture: &Picture, base: &str) -> String {
    numbered(base, |name| picture.runs.iter().any(|run| run.name() == name))
}

pub(super) fn numbered(base: &str, taken: impl Fn(&str) -> bool) -> String {
    if !taken(base) {
        return base.to_owned();
    }
    let (stem, mut number) = match base.rsplit_once('-') {
        Some((stem, digits)) if digits.len() < 6 && !digits.starts_with('0') => match digits.parse::<u32>() {
            Ok(number) => (stem, number + 1),
            Err(_) => (base, 2),
        },
        _ => (base, 2),
    };
    loop {
        let suffix = format!("-{number}");
        let room = RunName::MAX_BYTES.saturating_sub(suffix.len());
        let stem = stem.get(..room).unwrap_or(stem).trim_end_matches(['-', '.']);
        let name = format!("{stem}{suffix}");
        if !taken(&name) {
            return name;
        }
        number += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::numbered;

    #[test]
    fn a_name_that_is_taken_counts_on() {
        let check = |base: &str, taken: &[&str], expected: &str| {
            assert_eq!(numbered(base, |name| taken.contains(&name)), expected);
        };
        check("run", &[], "run");
        check("run", &["run"], "run-2");
        check("run", &["run", "run-2"], "run-3");
        check("run-7", &["run-7"], "run-8");
        check("run-04", &["run-04"], "run-04-2");
        let long = "r".repeat(63);
        check(&long, &[&long], &format!("{}-2", "r".repeat(61)));
    }
}
