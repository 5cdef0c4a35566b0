//! A run as the demo shows it: a tree with bars that moves on a terminal, lines of what changes elsewhere.
//!
//! Decides form only; the tree is the one that every view of a run has. Never writes a line that is wider than the terminal:
//! what was drawn could not be taken back.

use std::fmt::Write as _;
use std::io::{self, IsTerminal as _};
use std::time::Instant;

use fleet_core::overview::{RunOverview, StageOverview};
use fleet_core::updaterun::ClusterStep;
use jiff::Timestamp;

use crate::cli::output::{Paint, Tone};
use crate::cli::status::tree::{stage_lines, wait_in_words};
use crate::cli::watch::news;
use crate::cli::words;
use crate::output::print;

/// Characters of a bar.
const BAR: usize = 12;
/// Where a terminal does not say how wide it is.
const USUAL_WIDTH: usize = 80;

pub(super) struct View {
    paint: Paint,
    begun: Instant,
    live: bool,
    /// Lines that stand on the screen and will be drawn over.
    drawn: usize,
    before: Option<RunOverview>,
}

impl View {
    pub(super) fn new(paint: Paint, begun: Instant, before: Option<RunOverview>) -> Self {
        let is_dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        Self { paint, begun, live: io::stdout().is_terminal() && !is_dumb, drawn: 0, before }
    }

    /// Whether it is drawn over and over.
    pub(super) fn is_live(&self) -> bool {
        self.live
    }

    pub(super) fn show(&mut self, seen: &RunOverview, now: Timestamp) -> anyhow::Result<()> {
        let elapsed = self.begun.elapsed().as_secs_f64();
        if !self.live {
            let lines = news(self.before.as_ref(), seen, now, self.paint);
            self.before = Some(seen.clone());
            return lines.iter().try_for_each(|line| print(&format!("{elapsed:>5.1}s  {line}\n")));
        }
        let width = ratatui::crossterm::terminal::size().map_or(USUAL_WIDTH, |(columns, _)| usize::from(columns));
        let lines = frame(seen, now, elapsed, width, self.paint);
        let mut out = if self.drawn == 0 { String::new() } else { format!("\x1b[{}A\x1b[J", self.drawn) };
        for line in &lines {
            let _ = writeln!(out, "{line}");
        }
        self.drawn = lines.len();
        print(&out)
    }
}

/// What stands on the screen: one line for the run, the tree, what is waited for.
fn frame(seen: &RunOverview, now: Timestamp, elapsed: f64, width: usize, paint: Paint) -> Vec<String> {
    let word = words::of_run(seen.state);
    let head = format!("{} {}", seen.name, word.text);
    let mut lines = vec![format!(
        "{}  {} {}",
        paint.paint(word.tone, &fitted(&head, width.saturating_sub(BAR + 20))),
        paint.paint(Tone::Busy, &bar(seen.clusters_done, seen.clusters)),
        paint.paint(Tone::Faint, &format!("{elapsed:.1}s")),
    )];
    for mut line in stage_lines(seen, now, false) {
        if line.depth == 0 && line.cluster.is_none() {
            let stage = seen.stages.get(line.stage);
            let (done, all) = stage.map_or((0, 0), |stage| (done(stage), stage.clusters.len()));
            line.rest = format!("{} {done}/{all}", bar(done, all));
        }
        let taken = line.render(Paint { coloured: false }).chars().count() - line.rest.chars().count();
        line.rest = fitted(&line.rest, width.saturating_sub(taken + 1));
        lines.push(line.render(paint));
    }
    let waits = seen
        .waits
        .iter()
        .map(|wait| paint.paint(Tone::Waiting, &fitted(&wait_in_words(wait, now), width.saturating_sub(1))));
    lines.extend(waits);
    lines
}

fn done(stage: &StageOverview) -> usize {
    stage.clusters.iter().filter(|cluster| cluster.state == ClusterStep::Succeeded).count()
}

fn bar(done: usize, all: usize) -> String {
    let filled = (done * BAR).checked_div(all).unwrap_or(0);
    format!("{}{}", "█".repeat(filled), "░".repeat(BAR - filled))
}

fn fitted(text: &str, width: usize) -> String {
    let line = text.lines().next().unwrap_or_default();
    if line.chars().count() <= width {
        return line.to_owned();
    }
    let kept: String = line.chars().take(width.saturating_sub(1)).collect();
    format!("{kept}…")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_fill_as_clusters_are_done() {
        assert_eq!(bar(0, 3), "░░░░░░░░░░░░");
        assert_eq!(bar(1, 3), "████░░░░░░░░");
        assert_eq!(bar(3, 3), "████████████");
        assert_eq!(bar(0, 0), "░░░░░░░░░░░░");
    }

    #[test]
    fn nothing_is_wider_than_the_terminal() {
        assert_eq!(fitted("cluster member3", 8), "cluster…");
        assert_eq!(fitted("cluster", 7), "cluster");
        assert_eq!(fitted("two\nlines", 20), "two");
        assert_eq!(fitted("", 0), "");
    }
}
