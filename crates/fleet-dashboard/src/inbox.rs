//! Everything in the fleet that waits for a person: approvals, stuck clusters, failed runs, stopped runs, failing placements,
//! held deletions, silent members.

use fleet_api::conditions::run_message::reason;
use fleet_api::time::Time;
use fleet_core::overview::state_labels::Tone;
use fleet_core::overview::{PlacementOverview, PlacementState, RunOverview, Wait};
use fleet_core::updaterun::RunOutcome;
use jiff::Timestamp;
use maud::{Markup, html};

use crate::fleet::{Fleet, Member, is_stuck};
use crate::path;
use crate::text::{ago, class, plain};

/// One thing to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    pub tone: Tone,
    pub title: String,
    pub detail: String,
    pub since: Option<Time>,
    /// The page to look at, and the name of its object.
    pub object: (String, String),
    /// The page of the action that ends it, and its label.
    pub action: Option<(String, &'static str)>,
}

/// All items: problems first, then what waits, the oldest first.
pub fn items(fleet: &Fleet) -> Vec<Item> {
    let mut items: Vec<Item> = Vec::new();
    for run in &fleet.runs {
        items.extend(of_run(fleet, run));
    }
    items.extend(fleet.placements.iter().filter_map(of_placement));
    items.extend(fleet.members.iter().filter_map(of_member));
    items.sort_by_key(|item| (item.tone != Tone::Bad, item.since, item.title.clone()));
    items
}

fn of_run(fleet: &Fleet, run: &RunOverview) -> Vec<Item> {
    let namespace = run.namespace.as_deref();
    let object = || (path::run(namespace, &run.name), format!("Run {}", run.name));
    let item = |tone, title: String, detail: String, since, action| Item {
        tone,
        title,
        detail,
        since,
        object: object(),
        action,
    };
    if run.state.is_final() {
        let failed = run.state != RunOutcome::Succeeded && fleet.is_newest(run);
        let text = reason(&run.message).to_owned();
        let failure = failed.then(|| item(Tone::Bad, format!("Run {} failed", run.name), text, run.since, None));
        return failure.into_iter().collect();
    }
    let what = |wait: &Wait| match wait {
        Wait::Approval { stage, request, since, .. } => Some(item(
            Tone::Waiting,
            format!("Approve stage {stage} of run {}", run.name),
            format!("{} of {} clusters are updated", run.clusters_done, run.clusters),
            *since,
            Some((path::approval(namespace, request), "Review and approve")),
        )),
        Wait::Cluster { cluster, step, since, problem, stuck, .. }
            if is_stuck(run, cluster, *stuck, problem.as_ref()) =>
        {
            Some(item(
                Tone::Bad,
                format!("Cluster {cluster} is stuck in run {}", run.name),
                problem.clone().unwrap_or_else(|| format!("not {step} yet")),
                *since,
                Some((path::of_run(namespace, &run.name, "diagnosis"), "Find the cause")),
            ))
        }
        Wait::User => Some(item(
            Tone::Waiting,
            match run.state {
                RunOutcome::Idle => format!("Run {} is prepared, but not started", run.name),
                _ => format!("Run {} is stopped", run.name),
            },
            format!("{} of {} clusters are updated", run.clusters_done, run.clusters),
            run.since,
            Some((path::of_run(namespace, &run.name, "resume"), "Resume")),
        )),
        _ => None,
    };
    let mut items: Vec<Item> = run.waits.iter().filter_map(what).collect();
    if run.state == RunOutcome::Releasing {
        let title = format!("The deletion of run {} is held", run.name);
        items.push(item(Tone::Waiting, title, "its finalizer is not removed yet".to_owned(), run.since, None));
    }
    items
}

fn of_placement(placement: &PlacementOverview) -> Option<Item> {
    let namespace = placement.namespace.as_deref();
    let name = &placement.name;
    let (tone, title, page) = match placement.state {
        PlacementState::Failing => (Tone::Bad, format!("Placement {name} fails on a cluster"), "diagnosis"),
        PlacementState::NotScheduled => (Tone::Bad, format!("Placement {name} is not scheduled"), "diagnosis"),
        PlacementState::Deleting => (Tone::Waiting, format!("The deletion of placement {name} is held"), "diagnosis"),
        PlacementState::UpToRuns if placement.runs.is_empty() && !placement.clusters.is_empty() => {
            (Tone::Waiting, format!("Placement {name} needs a run"), "plan")
        }
        _ => return None,
    };
    let label = if page == "plan" { "Plan a run" } else { "Find the cause" };
    Some(Item {
        tone,
        title,
        detail: placement.message.clone(),
        since: placement.since,
        object: (path::placement(namespace, name), format!("Placement {name}")),
        action: Some((path::of_placement(namespace, name, page, &[]), label)),
    })
}

fn of_member(member: &Member) -> Option<Item> {
    let cause = member.diagnosis.cause.as_ref()?;
    Some(Item {
        tone: if member.leaving { Tone::Waiting } else { Tone::Bad },
        title: cause.title.clone(),
        detail: cause.explanation.clone(),
        since: member.heartbeat,
        object: (path::cluster(&member.name), format!("Cluster {}", member.name)),
        action: None,
    })
}

/// The page.
pub fn page(items: &[Item], read_only: bool, now: Timestamp) -> Markup {
    html! {
        h1 { "Inbox" }
        p.lead { "What waits for a person, anywhere in the fleet." }
        (list(items, read_only, now))
    }
}

/// The items as a list.
pub fn list(items: &[Item], read_only: bool, now: Timestamp) -> Markup {
    html! {
        @if items.is_empty() { p.empty { "Nothing waits for you." } }
        @else {
            ul.inbox {
                @for item in items {
                    li.(class(item.tone)) {
                        div {
                            h3 { (plain(&item.title)) }
                            @if !item.detail.is_empty() { p { (plain(&item.detail)) } }
                            p.meta { a href=(item.object.0) { (plain(&item.object.1)) } @if item.since.is_some() { " · since " (ago(item.since, now)) } }
                        }
                        @if let Some((href, label)) = &item.action {
                            @if !read_only || *label == "Find the cause" || *label == "Plan a run" {
                                a.button.primary[item.tone == Tone::Waiting] href=(href) aria-label={ (label) ": " (plain(&item.title)) } { (label) }
                            }
                        }
                    }
                }
            }
        }
    }
}
