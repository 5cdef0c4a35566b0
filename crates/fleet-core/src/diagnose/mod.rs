//! The rules of `kubefleet diagnose`: what is wrong with a run, a placement, a member cluster or an eviction, and how to fix it.
//!
//! The input is an `Inputs` of objects that were read before. The output is the root cause with evidence and fixes, followed by
//! other
//! findings. Rules follow the chain run, stage, cluster, binding, Work, object, Pod, and understand the wordings of older releases.
//! Never report an object as absent if it was not read.
//!
//! | file | what |
//! |---|---|
//! | `inputs` | the objects, and how to get from one to the next |
//! | `finding`, `commands` | findings and fixes as values; the commands of the fixes |
//! | `run/` | the rules about runs, in order of precedence |
//! | `placement/` | the rules about placements and their clusters, down to Pods |
//! | `members`, `eviction`, `refusal` | member clusters; evictions; requests that the API server refused |
//! | `new_run`, `strategy_fixes`, `stages`, `suggestions` | parts of fixes |
//! | `troubleshooting/` | the entries of docs/TROUBLESHOOTING.md |

mod commands;
mod eviction;
mod finding;
mod inputs;
mod members;
mod new_run;
mod placement;
mod refusal;
mod run;
mod stages;
mod strategy_fixes;
mod suggestions;
pub mod troubleshooting;

#[cfg(test)]
mod tests;

pub use commands::Kubectl;
pub use finding::{Action, Diagnosis, Evidence, Finding, Fix, ObjectRef, PatchType, Severity, Step, Unread};
pub use inputs::{Inputs, MemberInputs, ObservedObject, SnapshotMetadata};
pub use refusal::explain_refusal;

use fleet_api::kinds::{Eviction, Member, UpdateRun};

/// Placement entries that are redundant beside findings about a run: they say that a run is needed or in progress.
const ABOUT_RUNS: &[&str] = &["UR-01", "UR-81", "PL-R2"];

/// Diagnoses the run of the inputs.
pub fn run(inputs: &Inputs) -> Diagnosis {
    let name = inputs.run.clone().unwrap_or_default();
    let cause = run::cause(inputs);
    let mut notices = run::notices(inputs);
    notices.extend(placement::findings(inputs).into_iter().filter(|one| !ABOUT_RUNS.contains(&one.entry)));
    notices.extend(placement::drift(inputs));
    let subject = ObjectRef::of::<UpdateRun>(inputs.namespace.as_deref(), &name);
    let summary = run::summary(inputs).unwrap_or_else(|| format!("Run {name} was not found."));
    diagnosis(inputs, subject, summary, cause, notices)
}

/// Diagnoses the placement of the inputs. If its newest run waits or failed, that is the cause.
pub fn placement(inputs: &Inputs) -> Diagnosis {
    let name = inputs.placement.as_ref().map(|placement| placement.name().to_owned()).unwrap_or_default();
    let newest = inputs.runs_of(&name).first().map(|run| inputs.about_run(run.name()));
    let newest = newest.filter(|_| inputs.is_external());
    let of_run = newest.as_ref().and_then(run::cause);
    let succeeded = newest.as_ref().and_then(Inputs::the_run).is_some_and(run::has_succeeded);
    let mut found = placement::findings(inputs);
    if of_run.is_some() && !succeeded {
        found.retain(|one| !ABOUT_RUNS.contains(&one.entry));
    }
    // Findings about a succeeded run are not the cause; those about a waiting or failed run are.
    let (first, last) = if succeeded { (None, of_run) } else { (of_run, None) };
    let last = last.filter(|found| found.severity > Severity::Information);
    let mut all = first.into_iter().chain(found).chain(last);
    let cause = all.next();
    let mut notices: Vec<Finding> = all.collect();
    notices.extend(newest.iter().flat_map(run::notices));
    notices.extend(placement::drift(inputs));
    notices.extend(failed_evictions(inputs));
    let summary = placement::summary(inputs).unwrap_or_else(|| "The placement was not found.".to_owned());
    diagnosis(inputs, inputs.placement_reference(&name), summary, cause, notices)
}

/// Diagnoses a member cluster and each placement on it. `fleet` has the members and evictions.
pub fn cluster(fleet: &Inputs, name: &str, placements: &[Inputs]) -> Diagnosis {
    let mut all: Vec<Finding> = members::problem(fleet, name).into_iter().collect();
    all.extend(placements.iter().filter_map(|inputs| placement::cluster(inputs, name)));
    let mut all = all.into_iter();
    let cause = all.next();
    let mut notices: Vec<Finding> = all.collect();
    notices.extend(fleet.member(name).and_then(|member| members::tainted(fleet, member)));
    notices.extend(placements.iter().filter_map(|inputs| placement::not_selected(inputs, name)));
    let evictions = fleet.evictions.iter().filter(|one| one.spec.cluster_name == name);
    for one in evictions {
        let about = placements.iter().find(|inputs| is_about(inputs, one)).unwrap_or(fleet);
        notices.extend(eviction::finding(about, one).filter(|found| found.severity > Severity::Information));
    }
    let here = placements.iter().filter(|inputs| inputs.binding_to(name).is_some()).count();
    let summary = match fleet.member(name) {
        Some(_) => format!("Cluster {name}; placements on it: {here}."),
        None => format!("Cluster {name} was not found."),
    };
    let mut found = diagnosis(fleet, ObjectRef::of::<Member>(None, name), summary, cause, notices);
    found.unread.extend(placements.iter().flat_map(|inputs| inputs.unread.iter().cloned()));
    found.unread.sort();
    found.unread.dedup();
    found
}

/// The result of an eviction. The inputs are those of the placement that it names.
pub fn eviction(inputs: &Inputs, name: &str) -> Diagnosis {
    let found = inputs.evictions.iter().find(|one| one.name() == name);
    let cause = found.and_then(|one| eviction::finding(inputs, one));
    let summary = match (&found, &cause) {
        (None, _) => format!("Eviction {name} was not found."),
        (Some(_), None) => {
            format!("Eviction {name} has not been decided yet. If this persists, the hub agent is not running.")
        }
        (Some(one), Some(_)) => format!(
            "Eviction {name} of placement {} from {} is decided.",
            one.spec.placement_name, one.spec.cluster_name
        ),
    };
    diagnosis(inputs, ObjectRef::of::<Eviction>(None, name), summary, cause, Vec::new())
}

fn is_about(inputs: &Inputs, eviction: &ObservedObject<Eviction>) -> bool {
    let placement = inputs.placement.as_ref().filter(|_| inputs.namespace.is_none());
    placement.is_some_and(|placement| placement.name() == eviction.spec.placement_name)
}

fn failed_evictions(inputs: &Inputs) -> Vec<Finding> {
    let evictions = inputs.evictions.iter().filter(|one| is_about(inputs, one));
    evictions
        .filter_map(|one| eviction::finding(inputs, one))
        .filter(|one| one.severity > Severity::Information)
        .collect()
}

/// Removes notices that repeat the cause, and sorts the rest by severity.
fn diagnosis(
    inputs: &Inputs,
    subject: ObjectRef,
    summary: String,
    cause: Option<Finding>,
    notices: Vec<Finding>,
) -> Diagnosis {
    let mut kept: Vec<Finding> = Vec::new();
    for notice in notices {
        let known =
            |one: &Finding| one.title == notice.title || (one.entry == notice.entry && one.evidence == notice.evidence);
        if !cause.iter().chain(&kept).any(known) {
            kept.push(notice);
        }
    }
    kept.sort_by_key(|notice| std::cmp::Reverse(notice.severity));
    Diagnosis { subject, summary, cause, notices: kept, unread: inputs.unread.clone() }
}
