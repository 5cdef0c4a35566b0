//! The entries of docs/TROUBLESHOOTING.md, one per id that rules report. A test renders the page and keeps it up to date.
//!
//! To change the page, edit the entries here and run `UPDATE_EXPECT=1 cargo test -p fleet-core troubleshooting`.

mod evictions;
mod placements;
mod runs;

use std::fmt::Write as _;

/// The page, relative to the root of the repository.
const PAGE: &str = "docs/TROUBLESHOOTING.md";

/// One entry of the page. The texts are Markdown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// The id, such as `UR-01`.
    pub id: &'static str,
    pub title: &'static str,
    /// What the user sees.
    pub symptom: &'static str,
    pub cause: &'static str,
    /// What to check, with commands.
    pub check: &'static str,
    pub fix: &'static str,
}

/// A chapter of the page.
struct Chapter {
    title: &'static str,
    introduction: &'static str,
    entries: &'static [Entry],
}

const CHAPTERS: &[Chapter] = &[
    Chapter {
        title: "Staged update runs",
        introduction: "The conditions of a run follow each other: `Initialized`, then `Progressing`, then `Succeeded`. \
            `Initialized` is False: see UR-04 to UR-15. `Progressing` is False with reason `UpdateRunStuck`: UR-40 to UR-43, \
            `UpdateRunWaiting`: UR-50 to UR-55, `UpdateRunStopped`: UR-03 and UR-60. `Succeeded` is False: UR-20 to UR-30. \
            A run whose `Initialized` or `Succeeded` is False never continues; every fix creates a new run.",
        entries: runs::ENTRIES,
    },
    Chapter {
        title: "Placements",
        introduction: "The conditions of a placement follow each other: `Scheduled`, `RolloutStarted`, `Overridden`, \
            `WorkSynchronized`, `Applied`, `Available`; with apply strategy ReportDiff, `DiffReported` takes the place of the \
            last two. The types have the prefix `ClusterResourcePlacement` or `ResourcePlacement`. The first condition that \
            is not True shows the problem. `status.placementStatuses` has the same conditions per cluster.",
        entries: placements::ENTRIES,
    },
    Chapter {
        title: "Evictions",
        introduction: "An eviction is decided once and never retried. To try again, create a new eviction. If neither `Valid` \
            nor `Executed` is set, the hub agent is not running.",
        entries: evictions::ENTRIES,
    },
];

const INTRODUCTION: &str = "\
`kubefleet diagnose` finds the entry that applies, shows the evidence and prints the commands of the fix. Each entry below has
the id that the command prints.

Commands use the cluster-scoped kinds. For the namespaced kinds replace `csur` by `sur`, `crp` by `rp`, `careq` by `areq`,
`clusterresourcebinding` by `resourcebinding`, and add `-n NAMESPACE`. Words in capitals are placeholders.
";

/// All entries, in the order of the page.
pub fn entries() -> impl Iterator<Item = &'static Entry> {
    CHAPTERS.iter().flat_map(|chapter| chapter.entries)
}

/// The link to an entry, such as `docs/TROUBLESHOOTING.md#ur-01`.
pub fn link(id: &str) -> String {
    format!("{PAGE}#{}", id.to_lowercase())
}

/// The whole page as Markdown.
pub fn page() -> String {
    let mut out = format!("# Troubleshooting\n\n{INTRODUCTION}");
    for chapter in CHAPTERS {
        let _ = write!(out, "\n# {}\n\n{}\n\n", chapter.title, chapter.introduction);
        let _ = writeln!(out, "| entry | problem |\n|---|---|");
        for Entry { id, title, .. } in chapter.entries {
            let _ = writeln!(out, "| [{id}](#{}) | {title} |", id.to_lowercase());
        }
        for entry in chapter.entries {
            render(&mut out, entry);
        }
    }
    out
}

fn render(out: &mut String, Entry { id, title, symptom, cause, check, fix }: &Entry) {
    let _ = write!(out, "\n<a id=\"{}\"></a>\n\n## {id}: {title}\n\n", id.to_lowercase());
    for (name, text) in [("Symptom", symptom), ("Cause", cause), ("Check", check), ("Fix", fix)] {
        let _ = writeln!(out, "- **{name}.** {text}");
    }
}
