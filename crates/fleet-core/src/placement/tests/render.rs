//! Plans, snapshots and statuses as short texts, for inline expectations.

use std::fmt::Write as _;

use fleet_api::conditions::Condition;
use fleet_api::kinds::Scope;
use fleet_api::types::{PlacementStatus, ResourceIdentifier};
use fleet_api::well_known::{annotations, labels};

use super::fixture::{Fixture, is_marked};
use crate::placement::{NewPart, Plan, Write};

/// The writes of a plan, one per line, and its outcome.
pub(crate) fn writes_text(plan: &Plan) -> String {
    let mut text = String::new();
    for write in &plan.writes {
        writeln!(text, "{}", write_text(write)).unwrap();
    }
    if let Some(copy) = plan.status.as_ref().and_then(|update| update.copy.as_ref()) {
        writeln!(text, "copy status to {}", copy.namespace).unwrap();
    }
    write!(text, "{:?}", plan.report.outcome).unwrap();
    text
}

pub(crate) fn write_text(write: &Write) -> String {
    match write {
        Write::AddPlacementFinalizer => "hold placement".to_owned(),
        Write::RemovePlacementFinalizer => "release placement".to_owned(),
        Write::CreatePolicySnapshot(new) => {
            let number = new.number_of_clusters.map(|number| format!(" n={number}")).unwrap_or_default();
            format!("create policy {} generation={}{number}", new.name, new.placement_generation)
        }
        Write::RefreshPolicySnapshot { snapshot, placement_generation, number_of_clusters } => {
            let number = number_of_clusters.map(|number| format!(" n={number}")).unwrap_or_default();
            format!("refresh policy {snapshot} generation={placement_generation}{number}")
        }
        Write::RetirePolicySnapshot { snapshot } => format!("retire policy {snapshot}"),
        Write::DeletePolicySnapshot { snapshot } => format!("delete policy {snapshot}"),
        Write::CreateResourceSnapshot(new) => {
            let names: Vec<_> = new.resources.iter().map(|one| format!("{} {}", one.kind(), one.name())).collect();
            let of = match &new.part {
                NewPart::Master { snapshots, envelopes, .. } => format!("1 of {snapshots}, {envelopes} envelopes"),
                NewPart::Sub(_) => "more".to_owned(),
            };
            format!("create {} ({of}): {}", new.name, names.join(", "))
        }
        Write::MarkResourceSnapshot { snapshot, latest } => format!("mark {snapshot} latest={latest}"),
        Write::RecordContentChange { snapshot, seen } => format!("note on {snapshot} change seen {seen}"),
        Write::DeleteResourceSnapshot { snapshot } => format!("delete {snapshot}"),
    }
}

/// Existing snapshots, `*` on the latest ones.
pub(crate) fn snapshots_text<S: Scope>(fixture: &Fixture<S>) -> String {
    let mut lines: Vec<String> = Vec::new();
    for policy in &fixture.policies {
        let notes = policy.metadata.annotations.as_ref().unwrap();
        let number = notes.get(annotations::NUMBER_OF_CLUSTERS).map(|n| format!(" n={n}")).unwrap_or_default();
        let star = if is_marked(policy) { "*" } else { "" };
        let generation = &notes[annotations::PLACEMENT_GENERATION];
        lines.push(format!("policy {}{star} generation={generation}{number}", policy.metadata.name.as_ref().unwrap()));
    }
    for snapshot in &fixture.snapshots {
        let star = if is_marked(snapshot) { "*" } else { "" };
        let index = &snapshot.metadata.labels.as_ref().unwrap()[labels::RESOURCE_INDEX];
        let notes = snapshot.metadata.annotations.as_ref().unwrap();
        let count = notes.get(annotations::NUMBER_OF_RESOURCE_SNAPSHOTS).map(|n| format!(" of {n}"));
        let name = snapshot.metadata.name.as_ref().unwrap();
        let resources = snapshot.spec.selected_resources.len();
        lines.push(format!("{name}{star} index={index}{} resources={resources}", count.unwrap_or_default()));
    }
    lines.sort();
    lines.join("\n")
}

pub(crate) fn resource_text(one: &ResourceIdentifier) -> String {
    if one.namespace.is_empty() {
        format!("{} {}", one.kind, one.name)
    } else {
        format!("{} {}/{}", one.kind, one.namespace, one.name)
    }
}

fn content_text(all: &[ResourceIdentifier]) -> String {
    if all.is_empty() { "nothing".to_owned() } else { resources_text(all) }
}

pub(crate) fn resources_text(all: &[ResourceIdentifier]) -> String {
    all.iter().map(resource_text).collect::<Vec<_>>().join(", ")
}

/// The whole status without transition times.
pub(crate) fn status_text(status: &PlacementStatus) -> String {
    let index = &status.observed_resource_index;
    let mut text = format!("index {index:?}: {}\n", content_text(&status.selected_resources));
    for condition in &status.conditions {
        writeln!(text, "{}", condition_text(condition)).unwrap();
    }
    for entry in &status.placement_statuses {
        write!(text, "{:?} index {:?}", entry.cluster_name, entry.observed_resource_index).unwrap();
        let overrides = entry.applicable_resource_overrides.len() + entry.applicable_cluster_resource_overrides.len();
        for (what, count) in [
            ("overrides", overrides),
            ("failed", entry.failed_placements.len()),
            ("drifted", entry.drifted_placements.len()),
            ("diffed", entry.diffed_placements.len()),
        ] {
            if count > 0 {
                write!(text, " {what}={count}").unwrap();
            }
        }
        text.push('\n');
        for condition in &entry.conditions {
            writeln!(text, "  {}", condition_text(condition)).unwrap();
        }
    }
    text.trim_end().to_owned()
}

/// Types and statuses only, as `Scheduled=True@1`.
pub(crate) fn short_status(status: &PlacementStatus) -> String {
    let words = |conditions: &[Condition]| -> String {
        let words = conditions
            .iter()
            .map(|one| format!("{}={}@{}", short_type(&one.type_), one.status, one.observed_generation));
        words.collect::<Vec<_>>().join(" ")
    };
    let mut lines =
        vec![format!("index {:?}: {}", status.observed_resource_index, content_text(&status.selected_resources))];
    lines.push(words(&status.conditions));
    for entry in &status.placement_statuses {
        lines.push(format!(
            "{:?} {:?}: {}",
            entry.cluster_name,
            entry.observed_resource_index,
            words(&entry.conditions)
        ));
    }
    lines.join("\n")
}

fn short_type(type_: &str) -> &str {
    let type_ = type_.strip_prefix("Cluster").unwrap_or(type_);
    type_.strip_prefix("ResourcePlacement").unwrap_or(type_)
}

fn condition_text(condition: &Condition) -> String {
    let Condition { type_, status, observed_generation, reason, message, .. } = condition;
    format!("{}={status}@{observed_generation} {reason}: {message}", short_type(type_))
}
