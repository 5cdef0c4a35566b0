//! Builds the manifest of the run that most fixes end with: its name, strategy and index.

use std::collections::BTreeMap;

use fleet_api::kinds::{Family, UpdateRun, UpdateStrategy};
use fleet_api::names::RunName;
use serde_json::{Value, json};

use super::finding::{ObjectRef, Step, kind_of};
use super::inputs::{Inputs, ObservedObject};
use super::stages;

/// Name of the proposed strategy if there is none.
const FIRST_STRATEGY: &str = "all-at-once";

/// A run with the same placement and strategy; without an index it rolls out what is on the hub now.
pub(super) fn like(inputs: &Inputs, run: &ObservedObject<UpdateRun>, index: Option<u32>) -> Step {
    of(inputs, run.name(), &run.spec.placement_name, &run.spec.staged_update_strategy_name, index)
}

/// A run whose name is derived from `base`.
pub(super) fn of(inputs: &Inputs, base: &str, placement: &str, strategy: &str, index: Option<u32>) -> Step {
    let name = fresh_name(inputs, base);
    let mut spec = json!({"placementName": placement, "stagedRolloutStrategyName": strategy, "state": "Run"});
    if let Some(index) = index {
        spec["resourceSnapshotIndex"] = json!(index.to_string());
    }
    let what = match index {
        Some(index) => format!("create the run {name}, which rolls out snapshot {index}"),
        None => format!("create the run {name}, which rolls out what is on the hub now"),
    };
    inputs.kubectl.create(what, manifest::<UpdateRun>(inputs, &name, spec))
}

/// Steps that roll out the placement's content: a new run, which replaces a live one. Adds a strategy if there is none. Empty
/// for placements with rolling updates.
pub(super) fn propagate(inputs: &Inputs) -> Vec<Step> {
    let Some(placement) = inputs.placement.as_ref().filter(|_| inputs.is_external()) else { return Vec::new() };
    let newest = inputs.runs_of(placement.name()).into_iter().next();
    let mut steps = Vec::new();
    if let Some(run) = newest.filter(|run| !super::run::is_final(run)) {
        steps.push(
            inputs.kubectl.delete(format!("delete the run {}: it keeps the old content", run.name()), &run.reference()),
        );
    }
    match newest.filter(|run| inputs.strategy(&run.spec.staged_update_strategy_name).is_some()) {
        Some(run) => steps.push(like(inputs, run, None)),
        None => steps.extend(first(inputs, placement.name())),
    }
    steps
}

/// The first run of a placement, with a strategy that fits its clusters; creates one if none fits.
pub(super) fn first(inputs: &Inputs, placement: &str) -> Vec<Step> {
    let base = format!("{placement}-run");
    if let Some(strategy) = fitting_strategy(inputs) {
        return vec![of(inputs, &base, placement, strategy.name(), None)];
    }
    let taken = |name: &str| inputs.strategy(name).is_some();
    let strategy = numbered(FIRST_STRATEGY, taken);
    vec![simple_strategy(inputs, &strategy), of(inputs, &base, placement, &strategy, None)]
}

/// A strategy with one stage for all clusters.
pub(super) fn simple_strategy(inputs: &Inputs, name: &str) -> Step {
    let spec = json!({"stages": [{"name": "all", "labelSelector": {}, "maxConcurrency": 1}]});
    strategy(inputs, format!("create the strategy {name}: one stage, one cluster at a time"), name, spec)
}

pub(super) fn strategy(inputs: &Inputs, what: String, name: &str, spec: Value) -> Step {
    inputs.kubectl.create(what, manifest::<UpdateStrategy>(inputs, name, spec))
}

fn fitting_strategy(inputs: &Inputs) -> Option<&ObservedObject<UpdateStrategy>> {
    let labels: Vec<BTreeMap<String, String>> = inputs
        .bindings
        .iter()
        .filter_map(|binding| inputs.member(&binding.spec.target_cluster))
        .map(ObservedObject::labels)
        .collect();
    inputs.strategies.iter().find(|strategy| !labels.is_empty() && stages::all_fit(&strategy.spec, labels.iter()))
}

fn manifest<F: Family>(inputs: &Inputs, name: &str, spec: Value) -> Value {
    let info = kind_of::<F>(inputs.namespace.as_deref());
    let mut metadata = json!({"name": name});
    if let Some(namespace) = &inputs.namespace {
        metadata["namespace"] = json!(namespace);
    }
    let ObjectRef { api_version, .. } = ObjectRef::of::<F>(inputs.namespace.as_deref(), name);
    json!({"apiVersion": api_version, "kind": info.map(|info| info.kind), "metadata": metadata, "spec": spec})
}

/// `run-2` after `run`, `run-8` after `run-7`.
fn fresh_name(inputs: &Inputs, base: &str) -> String {
    numbered(base, |name| inputs.runs.iter().any(|run| run.name() == name))
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
    fn a_new_run_gets_the_next_free_number() {
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
