//! The page of a placement: the version of each cluster, differences, history, runs, overrides. Also the list of placements.

use fleet_api::types::RolloutStrategyType;
use fleet_core::overview::state_labels::{of_cluster, of_placement, of_run};
use fleet_core::overview::{ClusterState, PlacedCluster, PlacementOverview, PlacementState, Version};
use jiff::Timestamp;
use maud::{Markup, html};

use crate::changes;
use crate::path;
use crate::run::Offers;
use crate::shell::breadcrumbs;
use crate::text::{ago, badge, class, count, for_time, plain, several_lines};

/// Maximum number of clusters in the table, unless all are asked for.
const CLUSTERS_SHOWN: usize = 200;

/// How a resource on a cluster differs from the hub.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    pub cluster: String,
    /// Somebody changed it on the cluster after it was applied.
    pub drifted: bool,
    pub resource: String,
    /// JSON pointer, value on the hub, value on the cluster.
    pub fields: Vec<(String, String, String)>,
}

/// Everything that the page shows.
#[derive(Debug, Clone)]
pub struct PlacementPage<'a> {
    pub placement: &'a PlacementOverview,
    /// Oldest first; `None` if the versions cannot be read.
    pub versions: Option<&'a [Version]>,
    pub differences: &'a [Difference],
    pub offers: Offers,
    pub read_only: bool,
    pub all: bool,
    pub now: Timestamp,
}

impl PlacementPage<'_> {
    fn namespace(&self) -> Option<&str> {
        self.placement.namespace.as_deref()
    }

    fn to(&self, page: &str) -> String {
        path::of_placement(self.namespace(), &self.placement.name, page, &[])
    }

    pub fn content(&self) -> Markup {
        let placement = self.placement;
        let by_runs = placement.rollout == RolloutStrategyType::External;
        let failing = matches!(placement.state, PlacementState::Failing | PlacementState::NotScheduled);
        html! {
            (breadcrumbs(&[("Placements", "/placements".to_owned())]))
            div.title {
                h1 { (plain(&placement.name)) }
                p.state role="status" { (badge(of_placement(placement.state))) (for_time(placement.since, self.now)) }
                div.actions {
                    @if by_runs {
                        a.button.primary href=(self.to("plan")) { "Plan a run" }
                        @if self.offers.create_runs && !self.read_only { a.button href=(self.to("rollback")) { "Roll back" } }
                    }
                    a.button href=(self.to("diagnosis")) { "Diagnose" }
                }
            }
            @if !placement.message.is_empty() { p.lead { (plain(&placement.message)) } }
            dl.facts {
                @if let Some(namespace) = self.namespace() { div { dt { "Namespace" } dd { (plain(namespace)) } } }
                div { dt { "Policy" } dd { (placement.picks) } }
                div { dt { "Rolled out by" } dd { @if by_runs { "staged update runs" } @else { "the hub (RollingUpdate)" } } }
                div { dt { "Clusters" } dd { (placement.clusters.len()) } }
                div { dt { "Created" } dd { (ago(placement.created, self.now)) } }
            }
            @if failing {
                section.diagnosis #diagnosis aria-label="Diagnosis" data-load=(self.to("diagnosis")) {
                    h2 { "Why?" }
                    p { a href=(self.to("diagnosis")) { "Find the cause" } }
                }
            }
            section aria-label="Clusters" { h2 { "Clusters" } (self.clusters()) }
            (self.differences())
            (self.runs())
            section aria-label="Versions" { h2 { "Versions" } (self.history()) }
        }
    }

    fn clusters(&self) -> Markup {
        let all = &self.placement.clusters;
        let limit = if self.all { all.len() } else { CLUSTERS_SHOWN };
        // Clusters that need attention first, so that a limit does not hide them.
        let mut sorted: Vec<&PlacedCluster> = all.iter().collect();
        sorted.sort_by_key(|one| (one.state != ClusterState::Failing, one.state == ClusterState::Available));
        html! {
            @if all.is_empty() { p.empty { "No cluster is picked." } }
            @else {
                div.scroll tabindex="0" role="region" aria-label="Clusters" {
                    table {
                        thead { tr { th { "Cluster" } th { "Version" } th { "State" } th { "Since" } th { "Overrides" } th { "Says" } } }
                        tbody { @for one in sorted.iter().take(limit) { (self.cluster(one)) } }
                    }
                }
                @if all.len() > limit { p.note { "and " (all.len() - limit) " more. " a href=(path::of_placement(self.namespace(), &self.placement.name, "", &[("all", Some("yes"))])) { "Show all" } } }
            }
        }
    }

    fn cluster(&self, one: &PlacedCluster) -> Markup {
        html! {
            tr {
                th scope="row" { a href=(path::cluster(&one.name)) { (plain(&one.name)) } }
                td { @if let Some(index) = one.resource_index { (index) } @else { "none" } }
                td { (badge(of_cluster(one.state))) }
                td { @if one.since.is_some() { (ago(one.since, self.now)) } }
                td { (plain(&one.overrides.join(", "))) }
                td {
                    @if let Some(step) = one.step { "not " (step) " yet" }
                    @if let Some(problem) = &one.problem { p.problem { (plain(problem)) } }
                    @for (number, word) in [(one.failed, "failed"), (one.drifted, "drifted"), (one.diffed, "differing")] {
                        @if number > 0 { span.badge.waiting { (count(number, "resource")) " " (word) } " " }
                    }
                }
            }
        }
    }

    fn differences(&self) -> Markup {
        html! {
            @if !self.differences.is_empty() {
                section aria-label="Drift and differences" {
                    h2 { "Drift and differences" }
                    @for one in self.differences {
                        details open[self.differences.len() < 4] {
                            summary { (plain(&one.resource)) " on " (plain(&one.cluster)) @if one.drifted { " drifted" } @else { " differs" } }
                            div.scroll tabindex="0" role="region" aria-label="Fields" {
                                table.difference {
                                    thead { tr { th { "Field" } th { "On the hub" } th { "On the cluster" } } }
                                    tbody {
                                        @for (field, hub, member) in &one.fields {
                                            tr { th scope="row" { code { (plain(field)) } } td.before { code { (several_lines(hub)) } } td.after { code { (several_lines(member)) } } }
                                        }
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    }

    fn runs(&self) -> Markup {
        html! {
            @if !self.placement.runs.is_empty() {
                section aria-label="Runs" {
                    h2 { "Runs" }
                    div.scroll tabindex="0" role="region" aria-label="Runs" {
                        table {
                            thead { tr { th { "Run" } th { "Version" } th { "Updated" } th { "State" } th { "Created" } } }
                            tbody {
                                @for run in &self.placement.runs {
                                    tr {
                                        th scope="row" { a href=(path::run(self.namespace(), &run.name)) { (plain(&run.name)) } }
                                        td { @if let Some(index) = run.resource_index { (index) } @else { "none" } }
                                        td { (run.clusters_done) " of " (run.clusters) }
                                        td { (badge(of_run(run.state))) }
                                        td { (ago(run.created, self.now)) }
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    }

    fn history(&self) -> Markup {
        html! {
            @match self.versions {
                None => { p.empty { "The versions cannot be read." } },
                Some([]) => { p.empty { "No version yet. The first rollout creates one." } },
                Some(versions) => {
                    ol.versions reversed {
                        @for version in versions.iter().rev() {
                            li value=(version.index) {
                                h3 { "Version " (version.index) @if version.latest { " " span.badge.busy { "latest" } } }
                                p.meta {
                                    (count(version.resources, "resource")) ", created " (ago(version.created, self.now))
                                    @if !version.clusters.is_empty() { ", on " (count(version.clusters.len(), "cluster")) }
                                    @if !version.runs.is_empty() { ", rolled out by " @for (index, run) in version.runs.iter().enumerate() { @if index > 0 { ", " } a href=(path::run(self.namespace(), run)) { (plain(run)) } } }
                                }
                                @if !version.changes.is_empty() {
                                    details { summary { (changes::summary(&version.changes)) } (changes::table(&version.changes, ("before", "in this version"))) }
                                }
                            }
                        }
                    }
                },
            }
        }
    }
}

/// The list of placements.
pub fn list_page(placements: &[PlacementOverview], now: Timestamp) -> Markup {
    html! {
        h1 { "Placements" }
        @if placements.is_empty() { p.empty { "No placements yet. A placement says which resources go to which clusters." } }
        @else {
            ul.cards {
                @for one in placements {
                    @let label = of_placement(one.state);
                    @let ready = one.clusters.iter().filter(|cluster| cluster.state == ClusterState::Available).count();
                    li.card.(class(label.tone)) {
                        div.head { h3 { a href=(path::placement(one.namespace.as_deref(), &one.name)) { (plain(&one.name)) } } (badge(label)) }
                        p.meta {
                            @if let Some(namespace) = &one.namespace { "in " (plain(namespace)) ", " }
                            "available on " (ready) " of " (count(one.clusters.len(), "cluster")) (for_time(one.since, now))
                        }
                        @if !one.clusters.is_empty() {
                            div.progress { progress max=(one.clusters.len()) value=(ready) aria-label={ "Available clusters of " (plain(&one.name)) } {} }
                        }
                        @if !one.message.is_empty() && label.tone != fleet_core::overview::state_labels::Tone::Good { p { (plain(&one.message)) } }
                    }
                }
            }
        }
    }
}
