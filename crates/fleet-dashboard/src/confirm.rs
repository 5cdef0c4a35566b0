//! What an action will do and as whom, before it is done. The button of the form does it.

use fleet_api::types::UpdateRunState;
use fleet_core::overview::{Change, RunOverview, StageOverview};
use fleet_core::updaterun::ClusterStep;
use maud::{Markup, html};

use crate::changes;
use crate::path;
use crate::shell::{Shell, breadcrumbs};
use crate::text::{count, plain, version};

/// Maximum number of clusters that are listed by name.
const NAMES_SHOWN: usize = 40;

/// A form with one button.
fn form(shell: &Shell, action: &str, fields: &[(&str, &str)], label: &str, cancel: &str) -> Markup {
    html! {
        p { "This will be done as " strong { (shell.user.as_deref().map_or_else(|| "the user of the kubeconfig".into(), plain)) } " on " (plain(&shell.hub)) "." }
        form.confirm method="post" action=(action) {
            (shell.form_token())
            @for (name, value) in fields { input type="hidden" name=(name) value=(plain(value)); }
            button.primary type="submit" { (label) }
            a.button href=(cancel) { "Cancel" }
        }
    }
}

/// Names of clusters.
fn names<'a>(clusters: impl Iterator<Item = &'a str>) -> Markup {
    let all: Vec<&str> = clusters.collect();
    html! {
        ul.names {
            @for name in all.iter().take(NAMES_SHOWN) { li { a href=(path::cluster(name)) { (plain(name)) } } }
            @if all.len() > NAMES_SHOWN { li { "and " (all.len() - NAMES_SHOWN) " more" } }
        }
    }
}

/// The clusters of a stage that are not updated yet.
fn pending(stage: &StageOverview) -> impl Iterator<Item = &str> {
    stage.clusters.iter().filter(|one| one.state != ClusterStep::Succeeded).map(|one| one.name.as_str())
}

/// The gate of a request.
fn gate_of<'a>(run: &'a RunOverview, request: &str) -> Option<(usize, &'a StageOverview, bool)> {
    use fleet_core::overview::GateTask;
    run.stages.iter().enumerate().find_map(|(index, stage)| {
        let is = |gate: &fleet_core::overview::Gate| matches!(&gate.task, GateTask::Approval { request: one } if one == request);
        if stage.before.iter().any(is) {
            return Some((index, stage, true));
        }
        stage.after.iter().any(is).then_some((index, stage, false))
    })
}

/// Approve a gate. `differences` are those of the version from what the next clusters have.
pub fn approve(shell: &Shell, run: &RunOverview, request: &str, differences: Option<&[Change]>) -> Markup {
    let namespace = run.namespace.as_deref();
    let back = path::run(namespace, &run.name);
    let gate = gate_of(run, request);
    let next: Option<&StageOverview> =
        gate.and_then(|(index, stage, before)| if before { Some(stage) } else { run.stages.get(index + 1) });
    html! {
        (breadcrumbs(&[("Runs", "/runs".to_owned()), (&run.name, back.clone())]))
        @match gate {
            Some((_, stage, before)) => { h1 { "Approve stage " (plain(&stage.name)) @if before { " before it starts" } "?" } },
            None => { h1 { "Approve " (plain(request)) "?" } },
        }
        @match next {
            Some(stage) if stage.removes => {
                p.lead { "The run continues: the resources are removed from " (count(pending(stage).count(), "cluster")) "." }
                (names(pending(stage)))
            },
            Some(stage) => {
                p.lead {
                    "The run continues with stage " strong { (plain(&stage.name)) } ": "
                    (count(pending(stage).count(), "cluster")) " will be updated to " (version(run.resource_index))
                    @if let Some(limit) = &stage.max_concurrency { ", " (plain(limit)) " at a time" } "."
                }
                (names(pending(stage)))
            },
            None => { p.lead { "It is the last gate: the run ends. No more clusters are updated." } },
        }
        @if let Some(differences) = differences {
            section { h2 { "What changes there" } (changes::table(differences, ("now", "after"))) }
        }
        (form(shell, &path::approval(namespace, request), &[], "Approve", &back))
    }
}

/// Stop or resume a run.
pub fn turn(shell: &Shell, run: &RunOverview, wanted: UpdateRunState) -> Markup {
    let namespace = run.namespace.as_deref();
    let back = path::run(namespace, &run.name);
    let stop = wanted == UpdateRunState::Stop;
    let updating =
        || run.stages.iter().flat_map(|stage| &stage.clusters).filter(|one| one.state == ClusterStep::Updating);
    let waiting =
        || run.stages.iter().flat_map(|stage| &stage.clusters).filter(|one| one.state == ClusterStep::Pending);
    html! {
        (breadcrumbs(&[("Runs", "/runs".to_owned()), (&run.name, back.clone())]))
        @if stop {
            h1 { "Stop run " (plain(&run.name)) "?" }
            p.lead { (count(updating().count(), "cluster")) " being updated will finish. " (count(waiting().count(), "cluster")) " will not start. The run can be resumed later." }
            @if updating().next().is_some() { h2 { "Will finish" } (names(updating().map(|one| one.name.as_str()))) }
            (form(shell, &path::of_run(namespace, &run.name, "stop"), &[], "Stop the run", &back))
        } @else {
            h1 { "Resume run " (plain(&run.name)) "?" }
            p.lead { (count(waiting().count(), "cluster")) " will be updated to " (version(run.resource_index)) ", stage by stage; gates still wait for approvals." }
            @if waiting().next().is_some() { (names(waiting().map(|one| one.name.as_str()))) }
            (form(shell, &path::of_run(namespace, &run.name, "resume"), &[], "Resume the run", &back))
        }
    }
}

/// A rollback as the command prepares it.
#[derive(Debug, Clone, PartialEq)]
pub struct Rollback {
    pub namespace: Option<String>,
    pub placement: String,
    pub strategy: String,
    pub from: u32,
    pub to: u32,
    pub changes: Vec<Change>,
    /// The versions that exist.
    pub versions: Vec<u32>,
    /// The clusters that have another version than the target.
    pub clusters: Vec<String>,
    /// Runs of the placement that are still active.
    pub active_runs: Vec<String>,
}

pub fn rollback(shell: &Shell, plan: &Rollback) -> Markup {
    let namespace = plan.namespace.as_deref();
    let back = path::placement(namespace, &plan.placement);
    let (from, to) = (plan.from.to_string(), plan.to.to_string());
    let (before, after) = (format!("version {from}"), format!("version {to}"));
    html! {
        (breadcrumbs(&[("Placements", "/placements".to_owned()), (&plan.placement, back.clone())]))
        h1 { "Roll " (plain(&plan.placement)) @if plan.to > plan.from { " forward" } @else { " back" } " to version " (plan.to) "?" }
        p.lead {
            "A new run with strategy " strong { (plain(&plan.strategy)) } " brings " (count(plan.clusters.len(), "cluster"))
            " from version " (plan.from) " to version " (plan.to) ": " (changes::summary(&plan.changes)) "."
        }
        @if !plan.active_runs.is_empty() {
            p.banner.waiting { "Still active: " (plain(&plan.active_runs.join(", "))) ". Two runs of a placement can interfere; stop the other one first." }
        }
        (names(plan.clusters.iter().map(String::as_str)))
        section { h2 { "What changes" } (changes::table(&plan.changes, (before.as_str(), after.as_str()))) }
        @if plan.versions.len() > 2 {
            form.choice method="get" action=(path::of_placement(namespace, &plan.placement, "rollback", &[])) {
                @if let Some(namespace) = namespace { input type="hidden" name="ns" value=(plain(namespace)); }
                label for="to" { "Another version" }
                select #to name="to" { @for version in &plan.versions { option value=(version) selected[*version == plan.to] { (version) } } }
                button type="submit" { "Show" }
            }
        }
        (form(shell, &path::of_placement(namespace, &plan.placement, "rollback", &[]),
              &[("from", from.as_str()), ("to", to.as_str()), ("strategy", plan.strategy.as_str())], "Create the run", &back))
    }
}
