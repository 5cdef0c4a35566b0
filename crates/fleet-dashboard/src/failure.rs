//! Pages for what went wrong: each says what happened and what to do.

use maud::{Markup, html};

use crate::text::plain;

/// A page about a failure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    pub title: String,
    pub what: String,
    pub hint: String,
    /// Similar names with their pages.
    pub near: Vec<(String, String)>,
    /// Where to continue.
    pub next: Option<(String, String)>,
}

impl Failure {
    pub fn new(title: &str, what: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { title: title.to_owned(), what: what.into(), hint: hint.into(), near: Vec::new(), next: None }
    }

    #[must_use]
    pub fn next(mut self, href: impl Into<String>, label: impl Into<String>) -> Self {
        self.next = Some((href.into(), label.into()));
        self
    }

    pub fn content(&self) -> Markup {
        html! {
            div.failure {
                h1 { (plain(&self.title)) }
                p.lead { (plain(&self.what)) }
                @if !self.near.is_empty() {
                    p { "Did you mean " @for (index, (name, href)) in self.near.iter().enumerate() { @if index > 0 { ", " } a href=(href) { (plain(name)) } } "?" }
                }
                @if !self.hint.is_empty() { p { (plain(&self.hint)) } }
                @if let Some((href, label)) = &self.next { p { a.button href=(href) { (plain(label)) } } }
            }
        }
    }
}

/// For a viewer without a session.
pub fn signed_out() -> Failure {
    Failure::new(
        "Open the link in the terminal",
        "This page shows a fleet with the rights of the person who started the dashboard, so it needs the link that was printed there.",
        "The link works once. A new one was printed to the terminal where the dashboard runs. If this tab was open before, the dashboard was \
         restarted meanwhile.",
    )
}

/// For a form of another session.
pub fn stale_form() -> Failure {
    Failure::new(
        "This tab is out of date",
        "The form was made before the dashboard was restarted, or by another page. Nothing was changed.",
        "Go back, reload the page and try again.",
    )
}

/// For a write in a read-only dashboard.
pub fn read_only() -> Failure {
    Failure::new(
        "This dashboard is read-only",
        "It was started with --read-only. Nothing was changed.",
        "Use the commands of kubefleet, or start the dashboard without --read-only.",
    )
}
