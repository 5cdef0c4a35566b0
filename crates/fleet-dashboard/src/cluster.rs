//! The member clusters as tiles in groups, and the page of one of them.

use std::collections::BTreeMap;

use fleet_core::overview::state_labels::{StateLabel, of_cluster};
use fleet_core::overview::{PlacedCluster, PlacementOverview};
use jiff::Timestamp;
use maud::{Markup, html};

use crate::diagnosis;
use crate::fleet::{Fleet, Member};
use crate::path;
use crate::shell::breadcrumbs;
use crate::text::{ago, badge, class, count, plain};

/// From this number of members on, tiles are small.
const SMALL_TILES_FROM: usize = 60;

/// By what the members are grouped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Grouping {
    Health,
    Region,
    Label(String),
    /// The version of a placement, by namespace and name.
    Version(Option<String>, String),
}

impl Grouping {
    /// `health`, `region`, `label:KEY`, `version:NAME` or `version:NAMESPACE/NAME`; anything else is by health.
    pub fn parse(text: &str) -> Self {
        match text.split_once(':') {
            Some(("label", key)) => Grouping::Label(key.to_owned()),
            Some(("version", name)) => match name.split_once('/') {
                Some((namespace, name)) => Grouping::Version(Some(namespace.to_owned()), name.to_owned()),
                None => Grouping::Version(None, name.to_owned()),
            },
            _ if text == "region" => Grouping::Region,
            _ => Grouping::Health,
        }
    }

    fn of(&self, fleet: &Fleet, member: &Member) -> String {
        match self {
            Grouping::Health => member.label().text.to_owned(),
            Grouping::Region => member.region().unwrap_or("no region").to_owned(),
            Grouping::Label(key) => member.labels.get(key).cloned().unwrap_or_else(|| format!("no label {key}")),
            Grouping::Version(namespace, name) => {
                let placed = fleet.placement(namespace.as_deref(), name);
                let placed = placed.and_then(|one| one.clusters.iter().find(|one| one.name == member.name));
                match placed.map(|one| one.resource_index) {
                    None => format!("without {name}"),
                    Some(None) => "no version yet".to_owned(),
                    Some(Some(index)) => format!("version {index}"),
                }
            }
        }
    }
}

/// The choices of the form, with their labels.
fn groupings(fleet: &Fleet) -> Vec<(String, String)> {
    let mut all = vec![("health".to_owned(), "health".to_owned()), ("region".to_owned(), "region".to_owned())];
    let keys: std::collections::BTreeSet<&String> = fleet.members.iter().flat_map(|one| one.labels.keys()).collect();
    all.extend(keys.into_iter().take(30).map(|key| (format!("label:{key}"), format!("label {key}"))));
    let placements = fleet.placements.iter().take(100).map(|one| match &one.namespace {
        Some(namespace) => format!("{namespace}/{}", one.name),
        None => one.name.clone(),
    });
    all.extend(placements.map(|name| (format!("version:{name}"), format!("version of {name}"))));
    all
}

fn matches(member: &Member, filter: &str) -> bool {
    let filter = filter.to_lowercase();
    let has = |text: &str| text.to_lowercase().contains(&filter);
    has(&member.name) || member.labels.iter().any(|(key, value)| has(&format!("{key}={value}")))
}

/// The page of the fleet.
pub fn list_page(fleet: &Fleet, group: &str, filter: &str, now: Timestamp) -> Markup {
    html! {
        h1 { "Clusters" }
        form.choice method="get" action="/clusters" role="search" {
            label for="group" { "Group by" }
            select #group name="group" { @for (value, label) in groupings(fleet) { option value=(plain(&value)) selected[value == group] { (plain(&label)) } } }
            label for="q" { "Filter" }
            input #q type="search" name="q" value=(plain(filter)) placeholder="name or label" data-filter="tiles" autocomplete="off";
            button type="submit" { "Show" }
        }
        (tiles(fleet, &Grouping::parse(group), filter, now))
    }
}

/// Tiles in groups.
pub fn tiles(fleet: &Fleet, grouping: &Grouping, filter: &str, now: Timestamp) -> Markup {
    let mut groups: BTreeMap<String, Vec<&Member>> = BTreeMap::new();
    for member in fleet.members.iter().filter(|one| matches(one, filter)) {
        groups.entry(grouping.of(fleet, member)).or_default().push(member);
    }
    let small = fleet.members.len() >= SMALL_TILES_FROM;
    html! {
        @if fleet.members.is_empty() { p.empty { "No cluster has joined the fleet yet." } }
        @else if groups.is_empty() { p.empty { "No cluster matches the filter." } }
        @for (name, members) in &groups {
            section.group aria-label=(plain(name)) {
                h3 { (plain(name)) " " span.faint { (count(members.len(), "cluster")) } }
                ul.tiles.small[small] { @for member in members { (tile(member, small, now)) } }
            }
        }
    }
}

fn tile(member: &Member, small: bool, now: Timestamp) -> Markup {
    let label = member.label();
    let labels: Vec<String> = member.labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let labels = labels.join(" ");
    html! {
        li.tile.(class(label.tone)) data-name=(plain(&member.name)) data-labels=[(!small).then_some(plain(&labels))] {
            a href=(path::cluster(&member.name)) title={ (plain(&member.name)) ": " (label.text) } {
                span.sign aria-hidden="true" { (label.sign) }
                span.name { (plain(&member.name)) }
                span.what {
                    (label.text)
                    @if !small {
                        @if let Some(region) = member.region() { ", " (plain(region)) }
                        @if member.heartbeat.is_some() { ", heartbeat " (ago(member.heartbeat, now)) }
                    }
                }
            }
        }
    }
}

/// A placement on the cluster.
fn placed<'a>(fleet: &'a Fleet, name: &str) -> Vec<(&'a PlacementOverview, &'a PlacedCluster)> {
    let on = |one: &'a PlacementOverview| Some((one, one.clusters.iter().find(|cluster| cluster.name == name)?));
    fleet.placements.iter().filter_map(on).collect()
}

/// The page of one member.
pub fn page(fleet: &Fleet, member: &Member, actions: bool, now: Timestamp) -> Markup {
    let label: StateLabel = member.label();
    let placed = placed(fleet, &member.name);
    html! {
        (breadcrumbs(&[("Clusters", "/clusters".to_owned())]))
        div.title { h1 { (plain(&member.name)) } p.state role="status" { (badge(label)) } }
        dl.facts {
            div { dt { "Has joined" } dd { @if member.joined { "yes" } @else { "no" } } }
            div { dt { "Last heartbeat" } dd { @if member.heartbeat.is_some() { (ago(member.heartbeat, now)) } @else { "none" } } }
            div { dt { "Created" } dd { (ago(member.created, now)) } }
            @if let Some(region) = member.region() { div { dt { "Region" } dd { (plain(region)) } } }
            @if !member.taints.is_empty() { div { dt { "Taints" } dd { (plain(&member.taints.join(", "))) } } }
        }
        @if member.diagnosis.cause.is_some() || !member.diagnosis.notices.is_empty() {
            section.diagnosis aria-label="Diagnosis" { h2 { "Diagnosis" } (diagnosis::content(&member.diagnosis, "member", actions)) }
        }
        section aria-label="Placements on the cluster" {
            h2 { "Placements here" }
            @if placed.is_empty() { p.empty { "Nothing is placed on this cluster." } }
            @else {
                div.scroll tabindex="0" role="region" aria-label="Placements here" {
                    table {
                        thead { tr { th { "Placement" } th { "Version" } th { "State" } th { "Since" } th { "Says" } } }
                        tbody {
                            @for (placement, cluster) in placed {
                                tr {
                                    th scope="row" {
                                        a href=(path::placement(placement.namespace.as_deref(), &placement.name)) { (plain(&placement.name)) }
                                        @if let Some(namespace) = &placement.namespace { span.faint { " in " (plain(namespace)) } }
                                    }
                                    td { @if let Some(index) = cluster.resource_index { (index) } @else { "none" } }
                                    td { (badge(of_cluster(cluster.state))) }
                                    td { @if cluster.since.is_some() { (ago(cluster.since, now)) } }
                                    td { @if let Some(problem) = &cluster.problem { (plain(problem)) } }
                                }
                            }
                        }
                    }
                }
            }
        }
        p { a.button href={ (path::cluster(&member.name)) "/diagnosis" } { "Diagnose everything on this cluster" } }
        section aria-label="Labels and properties" {
            h2 { "Labels" }
            (pairs(&member.labels))
            h2 { "Properties" }
            (pairs(&member.properties))
        }
    }
}

fn pairs(pairs: &BTreeMap<String, String>) -> Markup {
    html! {
        @if pairs.is_empty() { p.empty { "none" } }
        @else { dl.pairs { @for (key, value) in pairs { div { dt { (plain(key)) } dd { (plain(value)) } } } } }
    }
}
