//! The page of a run: a pipeline of stages with gates and cluster tiles, what it waits for, actions, timeline and events. Also
//! the list of runs.

use fleet_api::conditions::run_message::reason;
use fleet_api::time::Time;
use fleet_api::types::UpdateRunState;
use fleet_core::overview::state_labels::{of_gate, of_run, of_stage, of_step};
use fleet_core::overview::{ClusterOverview, Gate, GateState, GateTask, RunOverview, StageOverview, Wait};
use fleet_core::updaterun::{ClusterStep, RunOutcome};
use jiff::Timestamp;
use maud::{Markup, html};

use crate::fleet::is_stuck;
use crate::path;
use crate::shell::breadcrumbs;
use crate::text::{age, ago, badge, class, count, for_time, left, plain, took, version};
use crate::timeline::timeline;

/// From this number of clusters on, the tiles of a stage are small.
const SMALL_TILES_FROM: usize = 30;
/// From this number of clusters on, a run shows only the clusters that are neither pending nor succeeded, unless all are asked for.
pub const SHORTENED_FROM: usize = 300;

/// What the viewer may do.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Offers {
    pub approve: bool,
    /// Stop and resume.
    pub change_runs: bool,
    /// Start and roll back.
    pub create_runs: bool,
}

/// Everything that the page of a run shows.
#[derive(Debug, Clone)]
pub struct RunPage<'a> {
    pub run: &'a RunOverview,
    pub offers: Offers,
    pub read_only: bool,
    pub events: &'a [Event],
    /// Whether all clusters of a large run are shown.
    pub all: bool,
    pub now: Timestamp,
}

/// An event of the hub about an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    pub warning: bool,
    pub reason: String,
    pub message: String,
    pub last: Option<Time>,
    pub count: i32,
}

impl RunPage<'_> {
    fn namespace(&self) -> Option<&str> {
        self.run.namespace.as_deref()
    }

    /// Whether the cause of a problem is worth showing at once.
    pub fn needs_diagnosis(&self) -> bool {
        let failed =
            matches!(self.run.state, RunOutcome::Stuck | RunOutcome::Failed | RunOutcome::InitializationFailed);
        let has_problem = |wait: &Wait| matches!(wait, Wait::Cluster { problem: Some(_), .. });
        failed || self.run.would_fail.is_some() || self.run.waits.iter().any(has_problem)
    }

    pub fn content(&self) -> Markup {
        let run = self.run;
        html! {
            (breadcrumbs(&[("Runs", "/runs".to_owned())]))
            div.title {
                h1 { (plain(&run.name)) }
                p.state role="status" { (badge(of_run(run.state))) (for_time(run.since, self.now)) }
                (self.actions())
            }
            (self.facts())
            (self.waits())
            @if self.needs_diagnosis() {
                section.diagnosis #diagnosis aria-label="Diagnosis" data-load=(path::of_run(self.namespace(), &run.name, "diagnosis")) {
                    h2 { "Why?" }
                    p { a href=(path::of_run(self.namespace(), &run.name, "diagnosis")) { "Find the cause" } }
                }
            }
            section aria-label="Stages" {
                h2 { "Stages" }
                (self.pipeline())
            }
            (timeline(run, self.now))
            (events(self.events, self.now))
        }
    }

    fn facts(&self) -> Markup {
        let run = self.run;
        let ended = run.since.filter(|_| run.state.is_final());
        html! {
            @if run.clusters > 0 {
                div.progress {
                    progress max=(run.clusters) value=(run.clusters_done) aria-label="Updated clusters" {}
                    span { (run.clusters_done) " of " (count(run.clusters, "cluster")) }
                }
            }
            dl.facts {
                div { dt { "Placement" } dd { a href=(path::placement(self.namespace(), &run.placement)) { (plain(&run.placement)) } } }
                @if let Some(namespace) = self.namespace() { div { dt { "Namespace" } dd { (plain(namespace)) } } }
                div { dt { "Rolls out" } dd { (version(run.resource_index)) } }
                div { dt { "Strategy" } dd { (plain(&run.strategy)) } }
                div { dt { @if ended.is_some() { "Took" } @else { "Elapsed" } } dd { (took(run.created, ended, self.now)) } }
                div { dt { "Created" } dd { (ago(run.created, self.now)) } }
            }
            @if !run.message.is_empty() && matches!(run.state, RunOutcome::Failed | RunOutcome::InitializationFailed) {
                p.banner.bad { (plain(reason(&run.message))) }
            }
            @if let Some(failure) = &run.would_fail { p.banner.bad { "If it were resumed, it would fail: " (plain(reason(failure))) } }
        }
    }

    fn actions(&self) -> Markup {
        let run = self.run;
        let to = |page: &str| path::of_run(self.namespace(), &run.name, page);
        let active = !run.state.is_final() && run.state != RunOutcome::Releasing;
        html! {
            @if !self.read_only {
                div.actions {
                    @if self.offers.change_runs && active {
                        @match run.asked {
                            UpdateRunState::Run => { a.button href=(to("stop")) { "Stop" } },
                            UpdateRunState::Stop => { a.button.primary href=(to("resume")) { "Resume" } },
                            UpdateRunState::Initialize => { a.button.primary href=(to("resume")) { "Start" } },
                        }
                    }
                    @if self.offers.create_runs {
                        a.button href=(path::of_placement(self.namespace(), &run.placement, "rollback", &[])) { "Roll back" }
                    }
                }
            }
        }
    }

    fn waits(&self) -> Markup {
        html! {
            @if !self.run.waits.is_empty() {
                section aria-label="What it waits for" {
                    h2 { "Waits for" }
                    ul.waits {
                        @for wait in self.run.waits.iter().take(20) { (self.wait(wait)) }
                        @if self.run.waits.len() > 20 { li { "and " (self.run.waits.len() - 20) " more" } }
                    }
                }
            }
        }
    }

    fn wait(&self, wait: &Wait) -> Markup {
        let offered = !self.read_only && self.offers.approve;
        match wait {
            Wait::Approval { stage, request, since, approved_generation } => html! {
                li.waiting {
                    p {
                        "An approval of stage " strong { (plain(stage)) } (for_time(*since, self.now))
                        @if let Some(generation) = approved_generation {
                            ". " (plain(request)) " was approved for its generation " (generation) ", which is not the current one."
                        }
                    }
                    @if offered {
                        a.button.primary href=(path::approval(self.namespace(), request)) { "Review and approve" span.unseen { " stage " (plain(stage)) } }
                    }
                }
            },
            Wait::Time { stage, until } => html! {
                li.waiting { p { "The wait after stage " strong { (plain(stage)) } ", " (left(*until, self.now)) " left" } }
            },
            Wait::Cluster { cluster, step, since, problem, stuck, .. } => html! {
                @let stuck = is_stuck(self.run, cluster, *stuck, problem.as_ref());
                li.(if stuck { "bad" } else { "busy" }) {
                    p {
                        "Cluster " a href=(path::cluster(cluster)) { (plain(cluster)) }
                        @if stuck { " is stuck" } @else { " is being updated" } (for_time(*since, self.now)) ", not " (step) " yet"
                    }
                    @if let Some(problem) = problem { p.problem { (plain(problem)) } }
                }
            },
            Wait::Removal { cluster } => html! {
                li.busy { p { "The removal of the resources from cluster " a href=(path::cluster(cluster)) { (plain(cluster)) } } }
            },
            Wait::User => html! { li.waiting { p { "Somebody who starts or resumes it" } } },
            Wait::Moment { message } => html! { li.busy { p { (plain(message)) } } },
        }
    }

    fn pipeline(&self) -> Markup {
        let run = self.run;
        let shortened = run.clusters >= SHORTENED_FROM && !self.all;
        html! {
            @if run.stages.is_empty() { p.empty { "The stages are known once the run is initialized." } }
            @if run.clusters >= SHORTENED_FROM {
                p.note {
                    @if shortened {
                        "This run has " (run.clusters) " clusters. Those that are pending or succeeded are counted, not shown. "
                        a href={ (path::run(self.namespace(), &run.name)) (if self.namespace().is_some() { "&" } else { "?" }) "all=yes" } { "Show all" }
                    } @else {
                        a href=(path::run(self.namespace(), &run.name)) { "Show only clusters that need attention" }
                    }
                }
            }
            ol.pipeline {
                @for stage in &run.stages {
                    @for gate in &stage.before { (self.gate(gate, stage, "before")) }
                    (self.stage(stage, shortened))
                    @for gate in &stage.after { (self.gate(gate, stage, "after")) }
                }
            }
        }
    }

    fn stage(&self, stage: &StageOverview, shortened: bool) -> Markup {
        let label = of_stage(stage.state);
        let done = stage.clusters.iter().filter(|one| one.state == ClusterStep::Succeeded).count();
        let total = stage.clusters.len();
        let shown =
            |one: &&ClusterOverview| !shortened || !matches!(one.state, ClusterStep::Pending | ClusterStep::Succeeded);
        let tiles: Vec<&ClusterOverview> = stage.clusters.iter().filter(shown).collect();
        let pending = stage.clusters.iter().filter(|one| one.state == ClusterStep::Pending).count();
        let size = if tiles.len() >= SMALL_TILES_FROM { "tiles small" } else { "tiles" };
        html! {
            li.stage.(class(label.tone)) id={ "stage-" (plain(&stage.name)) } {
                div.head {
                    h3 { @if stage.removes { "Removal" } @else { (plain(&stage.name)) } }
                    (badge(label))
                }
                p.meta {
                    (done) " of " (count(total, "cluster"))
                    @if let Some(limit) = &stage.max_concurrency { ", " (plain(limit)) " at a time" }
                    @if stage.started.is_some() { ", " (took(stage.started, stage.ended, self.now)) }
                }
                @if total > 0 { progress max=(total) value=(done) aria-label={ "Updated clusters of stage " (plain(&stage.name)) } {} }
                @if shortened {
                    p.meta { (done) " succeeded, " (pending) " pending" }
                }
                @if !tiles.is_empty() {
                    ul class=(size) {
                        @for cluster in tiles { (self.tile(cluster)) }
                    }
                } @else if total == 0 { p.empty { "No clusters" } }
            }
        }
    }

    fn tile(&self, cluster: &ClusterOverview) -> Markup {
        let stuck = is_stuck(self.run, &cluster.name, cluster.stuck, cluster.problem.as_ref());
        let label = of_step(&cluster.state, stuck);
        html! {
            li.tile.(class(label.tone)) data-name=(plain(&cluster.name)) {
                a href=(path::cluster(&cluster.name)) title={ (plain(&cluster.name)) ": " (label.text) } {
                    span.sign aria-hidden="true" { (label.sign) }
                    span.name { (plain(&cluster.name)) }
                    span.what {
                        (label.text)
                        @if cluster.started.is_some() { ", " (took(cluster.started, cluster.ended, self.now)) }
                        @if let Some(step) = cluster.step { ", not " (step) " yet" }
                    }
                }
                @if let Some(problem) = &cluster.problem { p.problem { (plain(problem)) } }
            }
        }
    }

    fn gate(&self, gate: &Gate, stage: &StageOverview, side: &str) -> Markup {
        let label = of_gate(gate.state);
        html! {
            li.gate.(class(label.tone)) {
                span.sign aria-hidden="true" { (label.sign) }
                @match &gate.task {
                    GateTask::Approval { request } => {
                        span.name { "Approval " span.unseen { (side) " stage " (plain(&stage.name)) } }
                        @if gate.state == GateState::Closed && self.offers.approve && !self.read_only {
                            a.button.primary.little href=(path::approval(self.namespace(), request)) { "Approve" span.unseen { " " (side) " stage " (plain(&stage.name)) } }
                        }
                    },
                    GateTask::TimedWait { wait_time } => {
                        span.name { "Wait " (plain(wait_time)) }
                    },
                }
                span.what {
                    @match (gate.state, gate.until) {
                        (GateState::Closed, Some(until)) => { (left(until, self.now)) " left" },
                        (GateState::Closed, None) => { "waiting" (for_time(gate.since, self.now)) },
                        (GateState::Open, _) => { "passed " @if gate.since.is_some() { (ago(gate.since, self.now)) } },
                        (GateState::NotReached, _) => "not reached",
                    }
                }
            }
        }
    }
}

/// The events of an object.
pub fn events(events: &[Event], now: Timestamp) -> Markup {
    html! {
        @if !events.is_empty() {
            section aria-label="Events" {
                h2 { "Events" }
                div.scroll tabindex="0" role="region" aria-label="Events" {
                    table {
                        thead { tr { th { "When" } th { "Reason" } th { "What" } } }
                        tbody {
                            @for event in events {
                                tr.bad[event.warning] {
                                    td { (ago(event.last, now)) @if event.count > 1 { " (" (event.count) " times)" } }
                                    td { (plain(&event.reason)) }
                                    td { (plain(&event.message)) }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// The list of runs.
pub fn list_page(runs: &[&RunOverview], now: Timestamp) -> Markup {
    html! {
        h1 { "Runs" }
        (list(runs, now))
    }
}

pub fn list(runs: &[&RunOverview], now: Timestamp) -> Markup {
    html! {
        @if runs.is_empty() { p.empty { "No staged update runs yet. A run rolls a version of a placement out, stage by stage." } }
        @else {
            ul.cards {
                @for run in runs { (card(run, now)) }
            }
        }
    }
}

fn card(run: &RunOverview, now: Timestamp) -> Markup {
    let label = of_run(run.state);
    let namespace = run.namespace.as_deref();
    html! {
        li.card.(class(label.tone)) {
            div.head {
                h3 { a href=(path::run(namespace, &run.name)) { (plain(&run.name)) } }
                (badge(label))
            }
            p.meta {
                "Placement " a href=(path::placement(namespace, &run.placement)) { (plain(&run.placement)) }
                @if let Some(namespace) = namespace { " in " (plain(namespace)) }
                ", " (version(run.resource_index))
                @if let Some(created) = run.created { ", " (age(created, now)) " old" }
            }
            ol.steps aria-label="Stages" {
                @for stage in &run.stages {
                    @let step = of_stage(stage.state);
                    li.(class(step.tone)) { span.sign aria-hidden="true" { (step.sign) } " " (plain(&stage.name)) span.unseen { ": " (step.text) } }
                }
            }
            @if run.clusters > 0 {
                div.progress {
                    progress max=(run.clusters) value=(run.clusters_done) aria-label={ "Updated clusters of " (plain(&run.name)) } {}
                    span { (run.clusters_done) " of " (count(run.clusters, "cluster")) }
                }
            }
        }
    }
}
