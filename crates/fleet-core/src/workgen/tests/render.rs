//! Plans, Works and statuses as short texts, for inline expectations.

use std::fmt::Write as _;

use fleet_api::conditions::Condition;
use fleet_api::kinds::Scope;
use fleet_api::types::{EmbeddedObject, ResourceBindingStatus, ResourceIdentifier};
use fleet_api::well_known::labels;

use super::fixture::WorkgenFixture;
use crate::envelope::reference;
use crate::workgen::{Plan, Write};

/// The writes of a plan, one per line, and its outcome.
pub(crate) fn plan_text(plan: &Plan) -> String {
    let mut text = String::new();
    for write in &plan.writes {
        writeln!(text, "{}", write_text(write)).unwrap();
    }
    if let Some(new) = &plan.status {
        writeln!(text, "status{}", if new.defer.is_some() { " (deferrable)" } else { "" }).unwrap();
    }
    write!(text, "{:?}", plan.report.outcome).unwrap();
    text
}

fn write_text(write: &Write) -> String {
    match write {
        Write::AddFinalizer => "hold binding".to_owned(),
        Write::RemoveFinalizer => "release binding".to_owned(),
        Write::CreateWork(new) => format!("create {}: {}", new.name, manifests_text(&new.manifests)),
        Write::ChangeWork(change) => match &change.content {
            Some(content) => format!("change {}: {}", change.name, manifests_text(&content.manifests)),
            None => format!("change strategies of {}", change.name),
        },
        Write::AbandonWork { work } => format!("abandon {work}"),
        Write::DeleteWork { work } => format!("delete {work}"),
    }
}

fn manifests_text(manifests: &[EmbeddedObject]) -> String {
    let text = |one: &EmbeddedObject| format!("{} {}", one.kind(), reference(one.namespace(), one.name()));
    if manifests.is_empty() { "nothing".to_owned() } else { manifests.iter().map(text).collect::<Vec<_>>().join(", ") }
}

/// The Works with their content; `-` marks those that are being deleted.
pub(crate) fn works_text<S: Scope>(fixture: &WorkgenFixture<S>) -> String {
    let mut lines: Vec<String> = Vec::new();
    for work in &fixture.works {
        let going = if work.metadata.deletion_timestamp.is_some() { "-" } else { "" };
        let index = &work.metadata.labels.as_ref().unwrap()[labels::PARENT_RESOURCE_SNAPSHOT_INDEX];
        let name = work.metadata.name.as_deref().unwrap();
        lines.push(format!("{going}{name} index={index}: {}", manifests_text(work.spec.manifests())));
    }
    lines.sort();
    lines.join("\n")
}

/// Conditions and lists. Transition times are left out.
pub(crate) fn status_text(status: &ResourceBindingStatus) -> String {
    let mut lines: Vec<String> = status.conditions.iter().map(condition_text).collect();
    let mut list = |what: &str, resources: Vec<&ResourceIdentifier>| {
        lines.extend(resources.into_iter().map(|one| format!("{what} {}", resource_text(one))));
    };
    list("failed", status.failed_placements.iter().map(|one| &one.resource).collect());
    list("drifted", status.drifted_placements.iter().map(|one| &one.resource).collect());
    list("diffed", status.diffed_placements.iter().map(|one| &one.resource).collect());
    lines.join("\n")
}

fn condition_text(condition: &Condition) -> String {
    let Condition { type_, status, observed_generation, reason, message, .. } = condition;
    format!("{type_}={status}@{observed_generation} {reason}: {message}")
}

pub(crate) fn resource_text(one: &ResourceIdentifier) -> String {
    let inside = one
        .envelope
        .as_ref()
        .map(|envelope| format!(" in {} {}", envelope.type_.unwrap(), reference(&envelope.namespace, &envelope.name)));
    format!("{} {}{}", one.kind, reference(&one.namespace, &one.name), inside.unwrap_or_default())
}

/// Types and statuses only, as `Applied=True`.
pub(crate) fn short_status(status: &ResourceBindingStatus) -> String {
    let words = status.conditions.iter().map(|one| format!("{}={}", one.type_, one.status));
    words.collect::<Vec<_>>().join(" ")
}
