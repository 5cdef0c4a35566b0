//! A diagnosis: the cause first, the evidence folded, fixes with a button that copies the command, or that does it if it is one of our
//! actions.

use fleet_core::diagnose::{Action, Diagnosis, Finding, Fix, ObjectRef, Severity, Step};
use fleet_core::overview::state_labels::Tone;
use maud::{Markup, html};

use crate::path;
use crate::text::{class, plain, several_lines};

/// Address of the troubleshooting guide.
const GUIDE: &str = "docs/TROUBLESHOOTING.md";

/// One page for the whole fleet or one object.
pub fn page(title: &str, diagnoses: &[Diagnosis], actions: bool) -> Markup {
    html! {
        h1 { (plain(title)) }
        @if diagnoses.is_empty() { p.banner.good { "No problem found." } }
        @for (index, one) in diagnoses.iter().enumerate() {
            section.diagnosis aria-label={ "Diagnosis of " (plain(&one.subject.to_string())) } {
                h2 { (subject(&one.subject)) }
                (content(one, &format!("d{index}"), actions))
            }
        }
    }
}

/// The object as a link to its page, if it has one.
fn subject(object: &ObjectRef) -> Markup {
    let namespace = object.namespace.as_deref();
    let text = object.to_string();
    let href = match object.kind.as_str() {
        _ if object.member.is_some() => None,
        kind if kind.ends_with("UpdateRun") => Some(path::run(namespace, &object.name)),
        "ClusterResourcePlacement" | "ResourcePlacement" => Some(path::placement(namespace, &object.name)),
        "MemberCluster" => Some(path::cluster(&object.name)),
        _ => None,
    };
    html! { @match href { Some(href) => { a href=(href) { (plain(&text)) } }, None => { (plain(&text)) } } }
}

/// The diagnosis without its heading. `id` distinguishes several on one page.
pub fn content(one: &Diagnosis, id: &str, actions: bool) -> Markup {
    html! {
        p.lead { (plain(&one.summary)) }
        @match &one.cause {
            Some(cause) => { (finding(cause, &format!("{id}-0"), actions, true)) },
            None if one.notices.is_empty() => { p.banner.good { "No problem found." } },
            None => {},
        }
        @if !one.notices.is_empty() {
            @if one.cause.is_some() { h3 { "Also noticed" } }
            @for (index, notice) in one.notices.iter().enumerate() {
                (finding(notice, &format!("{id}-{}", index + 1), actions, false))
            }
        }
        @if !one.unread.is_empty() {
            details {
                summary { "Could not be read (" (one.unread.len()) ")" }
                ul { @for unread in &one.unread { li { (plain(&unread.what)) ": " (plain(&unread.why)) } } }
            }
        }
    }
}

fn severity(severity: Severity) -> (Tone, &'static str) {
    match severity {
        Severity::Error => (Tone::Bad, "Error"),
        Severity::Warning => (Tone::Waiting, "Warning"),
        Severity::Information => (Tone::Busy, "Note"),
    }
}

fn finding(finding: &Finding, id: &str, actions: bool, is_cause: bool) -> Markup {
    let (tone, word) = severity(finding.severity);
    html! {
        article.finding.(class(tone)) {
            h3 { span.badge.(class(tone)) { (word) } " " (plain(&finding.title)) }
            @if !finding.explanation.is_empty() { p { (plain(&finding.explanation)) } }
            @for (index, one) in finding.fixes.iter().enumerate() {
                (fix(one, if index == 0 { "Fix" } else { "Or" }, &format!("{id}-{index}"), actions, is_cause && index == 0))
            }
            @if !finding.evidence.is_empty() {
                details id={ "evidence-" (id) } {
                    summary { "Evidence (" (finding.evidence.len()) ")" }
                    dl.evidence {
                        @for evidence in &finding.evidence {
                            div {
                                dt { (plain(&evidence.object.to_string())) " " code { (plain(&evidence.field)) } }
                                dd { (plain(&evidence.value)) }
                            }
                        }
                    }
                }
            }
            p.meta { "See " (GUIDE) ", " (finding.entry) @if let Some(root) = finding.because_of { @if root != finding.entry { " and " (root) } } }
        }
    }
}

fn fix(fix: &Fix, word: &str, id: &str, actions: bool, is_first: bool) -> Markup {
    html! {
        div.fix {
            p { strong { (word) ": " } (plain(&fix.what)) }
            @for (index, one) in fix.steps.iter().enumerate() {
                (step(one, &format!("fix-{id}-{index}"), fix, actions, is_first))
            }
        }
    }
}

fn step(step: &Step, id: &str, fix: &Fix, actions: bool, is_first: bool) -> Markup {
    html! {
        @if step.what != fix.what { p.meta { (plain(&step.what)) } }
        @if let Some((href, label)) = step.action.as_ref().filter(|_| actions && step.fill_in.is_empty()).and_then(page_of) {
            p { a.button.primary[is_first] href=(href) { (label) } }
        }
        @if !step.command.is_empty() {
            div.command {
                pre tabindex="0" { code id=(id) { (several_lines(&step.command)) } }
                button type="button" data-copy=(id) hidden { "Copy" span.unseen { " the command" } }
            }
        }
        @if !step.fill_in.is_empty() { p.meta { "Replace " (plain(&step.fill_in.join(", "))) " first." } }
    }
}

/// The page of our action that does the same, with the label of its button.
fn page_of(action: &Action) -> Option<(String, &'static str)> {
    let Action::Patch { object, subresource, patch, .. } = action else { return None };
    let namespace = object.namespace.as_deref();
    if object.member.is_some() {
        return None;
    }
    if object.kind.ends_with("UpdateRun") && subresource.is_none() {
        return match patch["spec"]["state"].as_str()? {
            "Run" => Some((path::of_run(namespace, &object.name, "resume"), "Resume the run")),
            "Stop" => Some((path::of_run(namespace, &object.name, "stop"), "Stop the run")),
            _ => None,
        };
    }
    let is_approval = object.kind.ends_with("ApprovalRequest") && *subresource == Some("status");
    is_approval.then(|| (path::approval(namespace, &object.name), "Review and approve"))
}
