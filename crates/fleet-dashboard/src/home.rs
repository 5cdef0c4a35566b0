//! The first page: what waits for a person, the active runs, and the health of the clusters.

use jiff::Timestamp;
use maud::{Markup, html};

use crate::cluster::{Grouping, tiles};
use crate::fleet::Fleet;
use crate::inbox::{self, Item};
use crate::run;
use crate::text::count;

/// Maximum number of items and finished runs on this page.
const ITEMS_SHOWN: usize = 5;
const FINISHED_SHOWN: usize = 3;

pub fn page(fleet: &Fleet, items: &[Item], read_only: bool, now: Timestamp) -> Markup {
    let runs = fleet.newest_runs();
    let (active, finished): (Vec<_>, Vec<_>) = runs.into_iter().partition(|run| !run.state.is_final());
    let shown: Vec<_> = active.into_iter().chain(finished.into_iter().take(FINISHED_SHOWN)).collect();
    html! {
        h1.unseen { "Overview" }
        section aria-label="Inbox" {
            div.head { h2 { "Waits for you" } a href="/inbox" { (count(items.len(), "item")) } }
            (inbox::list(&items[..items.len().min(ITEMS_SHOWN)], read_only, now))
        }
        section aria-label="Runs" {
            div.head { h2 { "Runs" } a href="/runs" { (count(fleet.runs.len(), "run")) } }
            (run::list(&shown, now))
        }
        section aria-label="Clusters" {
            div.head { h2 { "Clusters" } a href="/clusters" { (count(fleet.members.len(), "cluster")) } }
            (tiles(fleet, &Grouping::Health, "", now))
        }
    }
}
