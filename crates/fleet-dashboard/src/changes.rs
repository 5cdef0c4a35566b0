//! Differences between two versions, by resource and field, with both values side by side.

use fleet_core::overview::state_labels::Tone;
use fleet_core::overview::{Change, ChangeSort, FieldChange};
use maud::{Markup, html};
use serde_json::Value;

use crate::text::{class, count, plain, several_lines};

/// Maximum number of resources and fields that are shown.
const RESOURCES_SHOWN: usize = 50;
const FIELDS_SHOWN: usize = 50;
/// Maximum length of a value in characters.
const VALUE_CHARACTERS: usize = 2000;

fn tone(sort: ChangeSort) -> (Tone, &'static str) {
    match sort {
        ChangeSort::Added => (Tone::Good, "added"),
        ChangeSort::Changed => (Tone::Waiting, "changed"),
        ChangeSort::Removed => (Tone::Bad, "removed"),
    }
}

fn value(value: Option<&Value>) -> Markup {
    let text = match value {
        None => return html! { span.faint { "not set" } },
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    };
    let shown: String = text.chars().take(VALUE_CHARACTERS).collect();
    html! { code { (several_lines(&shown)) @if shown.len() < text.len() { "…" } } }
}

fn fields(fields: &[FieldChange], (before, after): (&str, &str)) -> Markup {
    html! {
        div.scroll tabindex="0" role="region" aria-label="Changed fields" {
            table.difference {
                thead { tr { th { "Field" } th { (before) } th { (after) } } }
                tbody {
                    @for field in fields.iter().take(FIELDS_SHOWN) {
                        tr {
                            th scope="row" { code { (plain(&field.path)) } }
                            td.before { (value(field.before.as_ref())) }
                            td.after { (value(field.after.as_ref())) }
                        }
                    }
                }
            }
        }
        @if fields.len() > FIELDS_SHOWN { p.note { "and " (fields.len() - FIELDS_SHOWN) " more fields" } }
    }
}

/// All changes under headings for the old and the new value.
pub fn table(changes: &[Change], headings: (&str, &str)) -> Markup {
    html! {
        @if changes.is_empty() { p.empty { "No differences." } }
        @else {
            ul.changes {
                @for change in changes.iter().take(RESOURCES_SHOWN) {
                    @let (tone, word) = tone(change.sort);
                    li {
                        h4 { span.badge.(class(tone)) { (change.sort.sign()) " " (word) } " " (plain(&change.to_string())) }
                        @if !change.fields.is_empty() { (fields(&change.fields, headings)) }
                    }
                }
            }
            @if changes.len() > RESOURCES_SHOWN { p.note { "and " (changes.len() - RESOURCES_SHOWN) " more resources" } }
        }
    }
}

/// `2 changed, 1 added`.
pub fn summary(changes: &[Change]) -> String {
    let number = |sort: ChangeSort| changes.iter().filter(|change| change.sort == sort).count();
    let sorts = [ChangeSort::Changed, ChangeSort::Added, ChangeSort::Removed];
    let parts = sorts.map(|sort| (number(sort), tone(sort).1)).into_iter().filter(|(number, _)| *number > 0);
    let parts: Vec<String> = parts.map(|(number, word)| format!("{} {word}", count(number, "resource"))).collect();
    if parts.is_empty() { "no differences".to_owned() } else { parts.join(", ") }
}
