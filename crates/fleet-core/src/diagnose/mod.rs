//! What is wrong with a run, a placement, a member cluster or an eviction: the troubleshooting guides as rules.
//!
//! Decides from a `Picture` of the objects that somebody has read: the one root cause first, with evidence and with a fix
//! that can be pasted or carried out, then what else was noticed. The chain goes from run to stage, cluster, binding, Work, object and
//! Pod. Wordings of older releases are understood. Never reads, writes or prints, and never calls absent what was not read.
//!
//! | file | what |
//! |---|---|
//! | `picture` | the objects, and how to get from one to the next |
//! | `finding`, `commands` | findings and fixes as values; the commands that carry them out |
//! | `run/` | the rules about runs, in the order of the rule base |
//! | `placement/` | the rules about placements and their clusters, down to Pods |
//! | `members`, `eviction`, `refusal` | member clusters; evictions; requests that the API server refused |
//! | `new_run`, `mend`, `stages`, `similar` | what fixes are made of |

mod commands;
mod eviction;
mod finding;
mod members;
mod mend;
mod new_run;
mod picture;
mod placement;
mod refusal;
mod run;
mod similar;
mod stages;

#[cfg(test)]
mod tests;

pub use commands::Kubectl;
pub use finding::{Action, Diagnosis, Evidence, Finding, Fix, ObjectRef, PatchType, Severity, Step, Unread};
pub use picture::{MemberSide, Picture, Seen, SnapshotSeen};
pub use refusal::explain_refusal;

use fleet_api::kinds::{Eviction, Member, UpdateRun};

/// Entries about placements that a run's own findings make superfluous: they say that a run is needed or under way.
const ABOUT_RUNS: &[&str] = &["UR-01", "UR-81", "PL-R2"];

/// What is wrong with the run of the picture.
pub fn run(picture: &Picture) -> Diagnosis {
    let name = picture.run.clone().unwrap_or_default();
    let cause = run::look(picture);
    let mut notices = run::notices(picture);
    notices.extend(placement::look(picture).into_iter().filter(|one| !ABOUT_RUNS.contains(&one.entry)));
    notices.extend(placement::drift(picture));
    let subject = ObjectRef::of::<UpdateRun>(picture.namespace.as_deref(), &name);
    let summary = run::summary(picture).unwrap_or_else(|| format!("Run {name} was not found."));
    diagnosis(picture, subject, summary, cause, notices)
}

/// What is wrong with the placement of the picture. What a run of it waits for or failed on is the cause, if there is one.
pub fn placement(picture: &Picture) -> Diagnosis {
    let name = picture.placement.as_ref().map(|placement| placement.name().to_owned()).unwrap_or_default();
    let newest = picture.runs_of(&name).first().map(|run| picture.about_run(run.name()));
    let newest = newest.filter(|_| picture.is_external());
    let of_run = newest.as_ref().and_then(run::look);
    let succeeded = newest.as_ref().and_then(Picture::the_run).is_some_and(run::has_succeeded);
    let mut found = placement::look(picture);
    if of_run.is_some() && !succeeded {
        found.retain(|one| !ABOUT_RUNS.contains(&one.entry));
    }
    // What is odd about a run that went through explains nothing; what holds one up, or has ended it, does.
    let (first, last) = if succeeded { (None, of_run) } else { (of_run, None) };
    let last = last.filter(|found| found.severity > Severity::Information);
    let mut all = first.into_iter().chain(found).chain(last);
    let cause = all.next();
    let mut notices: Vec<Finding> = all.collect();
    notices.extend(newest.iter().flat_map(run::notices));
    notices.extend(placement::drift(picture));
    notices.extend(failed_evictions(picture));
    let summary = placement::summary(picture).unwrap_or_else(|| "The placement was not found.".to_owned());
    diagnosis(picture, picture.placement_reference(&name), summary, cause, notices)
}

/// What is wrong with a member cluster, and with each placement on it. `fleet` has the members and evictions.
pub fn cluster(fleet: &Picture, name: &str, placements: &[Picture]) -> Diagnosis {
    let mut all: Vec<Finding> = members::trouble(fleet, name).into_iter().collect();
    all.extend(placements.iter().filter_map(|picture| placement::cluster(picture, name)));
    let mut all = all.into_iter();
    let cause = all.next();
    let mut notices: Vec<Finding> = all.collect();
    notices.extend(fleet.member(name).and_then(|member| members::tainted(fleet, member)));
    notices.extend(placements.iter().filter_map(|picture| placement::not_selected(picture, name)));
    let evictions = fleet.evictions.iter().filter(|one| one.spec.cluster_name == name);
    for one in evictions {
        let about = placements.iter().find(|picture| is_about(picture, one)).unwrap_or(fleet);
        notices.extend(eviction::look(about, one).filter(|found| found.severity > Severity::Information));
    }
    let here = placements.iter().filter(|picture| picture.binding_to(name).is_some()).count();
    let summary = match fleet.member(name) {
        Some(_) => format!("Cluster {name}; placements on it: {here}."),
        None => format!("Cluster {name} was not found."),
    };
    let mut found = diagnosis(fleet, ObjectRef::of::<Member>(None, name), summary, cause, notices);
    found.unread.extend(placements.iter().flat_map(|picture| picture.unread.iter().cloned()));
    found.unread.sort();
    found.unread.dedup();
    found
}

/// What became of an eviction; the picture is of the placement that it names.
pub fn eviction(picture: &Picture, name: &str) -> Diagnosis {
    let found = picture.evictions.iter().find(|one| one.name() == name);
    let cause = found.and_then(|one| eviction::look(picture, one));
    let summary = match (&found, &cause) {
        (None, _) => format!("Eviction {name} was not found."),
        (Some(_), None) => {
            format!("Eviction {name} has not been decided yet; if that lasts, the hub agent does not run.")
        }
        (Some(one), Some(_)) => format!(
            "Eviction {name} of placement {} from {} is decided.",
            one.spec.placement_name, one.spec.cluster_name
        ),
    };
    diagnosis(picture, ObjectRef::of::<Eviction>(None, name), summary, cause, Vec::new())
}

fn is_about(picture: &Picture, eviction: &Seen<Eviction>) -> bool {
    let placement = picture.placement.as_ref().filter(|_| picture.namespace.is_none());
    placement.is_some_and(|placement| placement.name() == eviction.spec.placement_name)
}

fn failed_evictions(picture: &Picture) -> Vec<Finding> {
    let evictions = picture.evictions.iter().filter(|one| is_about(picture, one));
    evictions
        .filter_map(|one| eviction::look(picture, one))
        .filter(|one| one.severity > Severity::Information)
        .collect()
}

/// The notices without what the cause says already, the worst first.
fn diagnosis(
    picture: &Picture,
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
    Diagnosis { subject, summary, cause, notices: kept, unread: picture.unread.clone() }
}
