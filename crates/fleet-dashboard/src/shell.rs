//! What surrounds every page: head, navigation, notices, problems with the hub.

use jiff::Timestamp;
use maud::{DOCTYPE, Markup, html};

use crate::text::plain;

/// The circumstances of a page view.
#[derive(Debug, Clone)]
pub struct Shell {
    pub now: Timestamp,
    /// The address of the hub.
    pub hub: String,
    /// The user as whom the viewer reads and writes, if the hub says it.
    pub user: Option<String>,
    /// No action is offered.
    pub read_only: bool,
    /// Must be in every form.
    pub token: String,
    /// The number of items in the inbox.
    pub inbox: usize,
    /// The result of the action that led here.
    pub notice: Option<Notice>,
    pub problems: Vec<HubProblem>,
}

/// The result of an action.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    pub text: String,
}

/// What cannot be read at the moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HubProblem {
    pub what: String,
    pub hint: String,
}

/// The entry of the navigation that a page belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Section {
    Home,
    Inbox,
    Runs,
    Placements,
    Clusters,
    Diagnosis,
}

const ENTRIES: [(Section, &str, &str); 6] = [
    (Section::Home, "/", "Overview"),
    (Section::Inbox, "/inbox", "Inbox"),
    (Section::Runs, "/runs", "Runs"),
    (Section::Placements, "/placements", "Placements"),
    (Section::Clusters, "/clusters", "Clusters"),
    (Section::Diagnosis, "/diagnosis", "Diagnosis"),
];

impl Shell {
    /// A page with its surroundings.
    pub fn page(&self, section: Section, title: &str, content: Markup) -> String {
        let body = html! {
            a.skip href="#main" { "Skip to content" }
            header #top {
                a.brand href="/" { img src="/assets/icon.svg" alt="" width="24" height="24"; "KubeFleet" }
                nav aria-label="Pages" {
                    @for (entry, href, name) in ENTRIES {
                        a href=(href) aria-current=[(entry == section).then_some("page")] {
                            (name)
                            @if entry == Section::Inbox && self.inbox > 0 {
                                " " span.count { (self.inbox) span.unseen { " waiting" } }
                            }
                        }
                    }
                }
                p.identity {
                    @if self.read_only { span.badge.faint { "read-only" } " " }
                    @if let Some(user) = &self.user { span.user { (plain(user)) } " on " }
                    span.hub { (plain(&self.hub)) }
                }
            }
            p #connection.banner.bad hidden role="alert" { "The connection to the dashboard is lost. It reconnects by itself." }
            main #main tabindex="-1" {
                @if let Some(notice) = &self.notice { p.banner.good role="status" { (plain(&notice.text)) } }
                @for problem in &self.problems {
                    div.banner.bad role="alert" {
                        p { strong { (plain(&problem.what)) } }
                        @if !problem.hint.is_empty() { p { (plain(&problem.hint)) } }
                    }
                }
                (content)
            }
            footer { p { "kubefleet " (env!("CARGO_PKG_VERSION")) } }
        };
        document(title, true, body)
    }

    /// The hidden field of a form that proves where it comes from.
    pub fn form_token(&self) -> Markup {
        html! { input type="hidden" name="token" value=(self.token); }
    }
}

/// A page without navigation, for viewers who are not signed in.
pub fn bare(title: &str, content: Markup) -> String {
    document(title, false, html! { main #main.bare tabindex="-1" { (content) } })
}

/// `live` pages follow changes.
fn document(title: &str, live: bool, body: Markup) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" data-live=[live.then_some("yes")] {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (plain(title)) " · KubeFleet" }
                link rel="icon" href="/assets/icon.svg" type="image/svg+xml";
                link rel="stylesheet" href="/assets/dashboard.css";
                script src="/assets/dashboard.js" defer {}
            }
            body { (body) }
        }
    };
    page.into_string()
}

/// The path to a page, above its heading.
pub fn breadcrumbs(parents: &[(&str, String)]) -> Markup {
    html! {
        nav.breadcrumbs aria-label="Breadcrumbs" {
            @for (name, href) in parents { a href=(href) { (plain(name)) } " / " }
        }
    }
}
