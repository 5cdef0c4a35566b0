//! What a run would do before it starts, and the button that starts it.

use std::collections::BTreeMap;

use fleet_api::conditions::run_message::reason;
use fleet_core::overview::{Change, ClusterForecast, Forecast, Gate, GateTask, StageForecast};
use maud::{Markup, html};

use crate::changes;
use crate::fleet::Strategy;
use crate::path;
use crate::shell::{Shell, breadcrumbs};
use crate::text::{count, plain};

/// Maximum number of clusters of a stage that are listed.
const CLUSTERS_SHOWN: usize = 100;

/// What the page of a plan shows.
#[derive(Debug, Clone)]
pub struct PlanPage<'a> {
    pub namespace: Option<&'a str>,
    pub placement: &'a str,
    pub strategies: &'a [Strategy],
    /// The chosen strategy and version.
    pub strategy: Option<&'a str>,
    pub index: Option<u32>,
    pub versions: &'a [u32],
    pub forecast: Option<&'a Forecast>,
    /// Whether the viewer may start it.
    pub may_start: bool,
}

impl PlanPage<'_> {
    pub fn content(&self, shell: &Shell) -> Markup {
        let back = path::placement(self.namespace, self.placement);
        html! {
            (breadcrumbs(&[("Placements", "/placements".to_owned()), (self.placement, back)]))
            h1 { "Plan a run of " (plain(self.placement)) }
            (self.choice())
            @if let Some(forecast) = self.forecast { (self.forecast(shell, forecast)) }
        }
    }

    fn choice(&self) -> Markup {
        let own = self.strategies.iter().filter(|one| one.namespace.as_deref() == self.namespace);
        html! {
            form.choice method="get" action=(path::of_placement(self.namespace, self.placement, "plan", &[])) {
                @if let Some(namespace) = self.namespace { input type="hidden" name="ns" value=(plain(namespace)); }
                label for="strategy" { "Strategy" }
                select #strategy name="strategy" {
                    @for one in own { option value=(plain(&one.name)) selected[self.strategy == Some(&one.name)] { (plain(&one.name)) ": " (plain(&one.stages.join(", "))) } }
                }
                label for="index" { "Version" }
                select #index name="index" {
                    option value="" selected[self.index.is_none()] { "current resources on the hub" }
                    @for version in self.versions.iter().rev() { option value=(version) selected[self.index == Some(*version)] { (version) } }
                }
                button type="submit" { "Show the plan" }
            }
        }
    }

    fn forecast(&self, shell: &Shell, forecast: &Forecast) -> Markup {
        let mut shown = Differences { first: BTreeMap::new() };
        html! {
            @match (&forecast.problem, forecast.resource_index) {
                (Some(problem), _) => {
                    div.banner.bad role="alert" {
                        p { "The run could not start: " (plain(reason(problem))) }
                        @if let Some(remedy) = &forecast.remedy { p { (plain(remedy)) } }
                    }
                },
                (None, Some(index)) => {
                    p.lead { "It rolls out " @if forecast.captures { "the current resources on the hub, which become version " (index) } @else { "version " (index) } "." }
                },
                (None, None) => {},
            }
            @for stage in &forecast.stages { (stage_section(stage, forecast, &mut shown)) }
            @if forecast.problem.is_none() && self.may_start && !shell.read_only {
                p { "The run will be created as " strong { (shell.user.as_deref().map_or_else(|| "the user of the kubeconfig".into(), plain)) } " on " (plain(&shell.hub)) "." }
                form.confirm method="post" action=(path::of_placement(self.namespace, self.placement, "plan", &[])) {
                    (shell.form_token())
                    input type="hidden" name="strategy" value=(plain(&forecast.strategy));
                    @if let Some(index) = self.index { input type="hidden" name="index" value=(index); }
                    button.primary type="submit" { "Start the run" }
                    a.button href=(path::placement(self.namespace, self.placement)) { "Cancel" }
                }
            }
        }
    }
}

/// Changes that were shown already, with the cluster they were shown for.
struct Differences {
    first: BTreeMap<String, String>,
}

impl Differences {
    fn of(&mut self, cluster: &str, changes: &[Change]) -> Markup {
        if changes.is_empty() {
            return html! { "no changes" };
        }
        let key = serde_json::to_string(changes).unwrap_or_default();
        if let Some(first) = self.first.get(&key) {
            return html! { "the same changes as " (plain(first)) };
        }
        self.first.insert(key, cluster.to_owned());
        html! { details { summary { (changes::summary(changes)) } (changes::table(changes, ("now", "after"))) } }
    }
}

fn gate(gate: &Gate) -> String {
    match &gate.task {
        GateTask::Approval { .. } => "an approval".to_owned(),
        GateTask::TimedWait { wait_time } => format!("a wait of {}", plain(wait_time)),
    }
}

fn stage_section(stage: &StageForecast, forecast: &Forecast, shown: &mut Differences) -> Markup {
    let gates = |gates: &[Gate]| gates.iter().map(gate).collect::<Vec<_>>().join(" and ");
    html! {
        section.card {
            h2 { @if stage.removes { "Removal" } @else { "Stage " (plain(&stage.name)) } }
            p.meta {
                (count(stage.clusters.len(), "cluster"))
                @if let Some(limit) = &stage.max_concurrency { ", " (plain(limit)) " at a time" }
                @if !stage.before.is_empty() { ", after " (gates(&stage.before)) }
                @if !stage.after.is_empty() { ", then " (gates(&stage.after)) }
            }
            ul.forecast {
                @for cluster in stage.clusters.iter().take(CLUSTERS_SHOWN) { (cluster_line(cluster, stage.removes, forecast, shown)) }
            }
            @if stage.clusters.len() > CLUSTERS_SHOWN { p.note { "and " (stage.clusters.len() - CLUSTERS_SHOWN) " more" } }
        }
    }
}

fn cluster_line(cluster: &ClusterForecast, removes: bool, forecast: &Forecast, shown: &mut Differences) -> Markup {
    html! {
        li {
            a href=(path::cluster(&cluster.name)) { (plain(&cluster.name)) } ": "
            (cluster.from.map_or_else(|| "nothing".to_owned(), |index| format!("version {index}"))) " → "
            @match (removes, forecast.resource_index) {
                (true, _) => "removed",
                (false, Some(index)) => { "version " (index) },
                (false, None) => "?",
            }
            @if !cluster.overrides.is_empty() { ", overrides " (plain(&cluster.overrides.join(", "))) }
            @match &cluster.problem {
                Some(problem) => { p.problem { (plain(problem)) } },
                None if removes || forecast.resource_index.is_none() => {},
                None => { ", " (shown.of(&cluster.name, &cluster.changes)) },
            }
        }
    }
}
