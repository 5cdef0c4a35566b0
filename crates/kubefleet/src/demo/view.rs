//! A run as the demo shows it: a tree with bars that moves on a terminal, lines of what changes elsewhere.
//!
//! Decides form only; the tree is the one that every view of a run has. Never draws wider or higher than the terminal: what
//! was drawn could not be taken back.

use std::fmt::Write as _;
use std::io::{self, IsTerminal as _};
use std::time::Instant;

use fleet_core::overview::RunOverview;
use jiff::Timestamp;

use crate::cli::bar::{bar, of_stage};
use crate::cli::output::{Paint, Tone};
use crate::cli::status::tree::{stage_lines, wait_in_words};
use crate::cli::watch::news;
use crate::cli::words;
use crate::output::print;

/// Characters of a bar.
const BAR: usize = 12;
/// Where a terminal does not say how large it is: columns, lines.
const USUAL_SIZE: (u16, u16) = (80, 24);

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
        let (columns, rows) = ratatui::crossterm::terminal::size().unwrap_or(USUAL_SIZE);
        let mut lines = frame(seen, now, elapsed, usize::from(columns), self.paint);
        // What has left the screen at its top could not be drawn over; the cursor has a line of its own.
        lines.truncate(usize::from(rows).saturating_sub(1));
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
        paint.paint(Tone::Busy, &bar(seen.clusters_done, seen.clusters, BAR)),
        paint.paint(Tone::Faint, &format!("{elapsed:.1}s")),
    )];
    for mut line in stage_lines(seen, now, false) {
        if line.depth == 0 && line.cluster.is_none() {
            line.rest = seen.stages.get(line.stage).map_or_else(String::new, |stage| of_stage(stage, BAR));
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
    fn nothing_is_wider_than_the_terminal() {
        assert_eq!(fitted("cluster member3", 8), "cluster…");
        assert_eq!(fitted("cluster", 7), "cluster");
        assert_eq!(fitted("two\nlines", 20), "two");
        assert_eq!(fitted("", 0), "");
    }
}
