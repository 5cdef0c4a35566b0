//! `diff` and `history`: differences between versions of a placement's resources, and the list of versions.

use std::fmt::Write as _;

use fleet_api::kinds::Scope;
use fleet_core::overview::{Change, ChangeSort, Version, changes};
use fleet_core::placement::Propagation;
use fleet_runtime::Clock;
use jiff::Timestamp;
use serde::Serialize;

use super::changes::render;
use super::connection::{Hub, HubFlags};
use super::objects::in_scope;
use super::output::{Cell, OutputFlags, Table, Tone};
use super::propagation::PropagationFlags;
use super::status::ago;
use super::versions::{Revision, Versions, revision};
use crate::output::{Hinted, program};

/// Show the differences between two versions of a placement's resources
///
/// By default, between the deployed version and the current resources on the hub. Envelopes are expanded.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  kubefleet diff web                     from the deployed version to the current resources on the hub
  kubefleet diff web --from 0 --to 2     between two versions
  kubefleet diff web -o wide             do not truncate long values
  kubefleet diff web -n shop -o json")]
pub(crate) struct DiffArgs {
    /// The placement
    #[arg(value_name = "PLACEMENT")]
    placement: String,
    /// Index of the older version; defaults to the newest version on any cluster
    #[arg(long, value_name = "INDEX", value_parser = revision)]
    from: Option<Revision>,
    /// Index of the newer version, or `now` for the current resources on the hub
    #[arg(long, value_name = "INDEX", value_parser = revision, default_value = "now")]
    to: Revision,
    #[command(flatten)]
    propagation: PropagationFlags,
    #[command(flatten)]
    output: OutputFlags,
    #[command(flatten)]
    hub: HubFlags,
}

/// List the versions of a placement's resources with age, changes and clusters
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  kubefleet history web
  kubefleet history web -o wide         with the changes of each field
  kubefleet history web -n shop")]
pub(crate) struct HistoryArgs {
    /// The placement
    #[arg(value_name = "PLACEMENT")]
    placement: String,
    #[command(flatten)]
    output: OutputFlags,
    #[command(flatten)]
    hub: HubFlags,
}

pub(crate) async fn diff(args: &DiffArgs) -> anyhow::Result<()> {
    let hub = args.hub.connect().await?;
    in_scope!(hub, show_difference(&hub, args))
}

#[derive(Debug, Serialize)]
pub(super) struct Difference {
    placement: String,
    from: String,
    to: String,
    changes: Vec<Change>,
}

/// The differences between two versions of a placement; the older defaults to the newest on any cluster.
pub(super) async fn difference<S: Scope>(
    hub: &Hub,
    placement: &str,
    (from, to): (Option<Revision>, Revision),
    propagation: &Propagation,
) -> anyhow::Result<Difference> {
    let versions = Versions::<S>::read(hub, placement).await?;
    let Some(from) = from.or_else(|| versions.in_use().map(Revision::Snapshot)) else {
        return Err(Hinted {
            what: format!("placement {placement:?} is not rolled out to any cluster yet"),
            hint: format!(
                "use --from INDEX to compare with a version; {} history {placement}{} lists them",
                program(),
                versions.place()
            ),
        }
        .into());
    };
    let before = versions.resources(hub, from, propagation).await?;
    let after = versions.resources(hub, to, propagation).await?;
    Ok(Difference {
        placement: placement.to_owned(),
        from: describe_revision(from),
        to: describe_revision(to),
        changes: changes(&before, &after),
    })
}

async fn show_difference<S: Scope>(hub: &Hub, args: &DiffArgs) -> anyhow::Result<()> {
    let propagation = args.propagation.propagation();
    let difference = difference::<S>(hub, &args.placement, (args.from, args.to), &propagation).await?;
    args.output.show(&difference, |one, paint| {
        if one.changes.is_empty() {
            return format!("{} and {} are the same.\n", capitalised(&one.from), one.to);
        }
        format!("From {} to {}:\n\n{}", one.from, one.to, render(&one.changes, paint, 0, args.output.extent()))
    })
}

/// Describes a version.
pub(crate) fn describe_revision(revision: Revision) -> String {
    match revision {
        Revision::Snapshot(index) => format!("version {index}"),
        Revision::Current => "the current resources on the hub".to_owned(),
    }
}

fn capitalised(text: &str) -> String {
    let mut rest = text.chars();
    rest.next().map_or_else(String::new, |first| first.to_uppercase().chain(rest).collect())
}

pub(crate) async fn history(args: &HistoryArgs) -> anyhow::Result<()> {
    let hub = args.hub.connect().await?;
    in_scope!(hub, show_history(&hub, args))
}

async fn show_history<S: Scope>(hub: &Hub, args: &HistoryArgs) -> anyhow::Result<()> {
    let versions = Versions::<S>::read(hub, &args.placement).await?;
    let now = Clock::Real.now();
    args.output.show(&versions.all(), |all, paint| {
        if all.is_empty() {
            return format!("Placement {} has no resource snapshots yet; the first run creates one.\n", args.placement);
        }
        let mut out = table(all, now, args.output.is_wide()).render(paint);
        for version in all.iter().filter(|version| args.output.is_wide() && !version.changes.is_empty()) {
            let changes = render(&version.changes, paint, 1, args.output.extent());
            let _ = write!(out, "\nVersion {}:\n{changes}", version.index);
        }
        out
    })
}

/// Characters of a hash that are shown.
const HASH_CHARACTERS: usize = 8;

fn table(all: &[Version], now: Timestamp, wide: bool) -> Table {
    let mut table = Table::new(&["INDEX", "AGE", "HASH", "RESOURCES", "CHANGES", "CLUSTERS", "RUNS"]);
    for (place, version) in all.iter().enumerate() {
        let index = if version.latest { format!("{} (latest)", version.index) } else { version.index.to_string() };
        let count = |sort| version.changes.iter().filter(|change| change.sort == sort).count();
        let signs = [ChangeSort::Added, ChangeSort::Changed, ChangeSort::Removed];
        let counts: Vec<String> = signs
            .into_iter()
            .filter(|sort| count(*sort) > 0)
            .map(|sort| format!("{}{}", sort.sign(), count(sort)))
            .collect();
        let clusters = match version.clusters.len() {
            0..=3 => version.clusters.join(","),
            _ if wide => version.clusters.join(","),
            more => format!("{} and {} more", version.clusters[..2].join(","), more - 2),
        };
        let tone = if version.clusters.is_empty() { Tone::Faint } else { Tone::Good };
        table.row([
            Cell::from(index),
            Cell::from(ago(version.created, now)),
            Cell::from(version.hash.chars().take(HASH_CHARACTERS).collect::<String>()),
            Cell::from(version.resources.to_string()),
            Cell::from(if place == 0 { String::new() } else { counts.join(" ") }),
            Cell::toned(tone, clusters),
            Cell::from(version.runs.join(",")),
        ]);
    }
    table
}
