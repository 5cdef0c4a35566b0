//! Shows a run in the demo: on a terminal a tree that is redrawn, otherwise a line per change. Output must never be wider or
//! higher than the terminal, because such output cannot be redrawn.

use std::fmt::Write as _;
use std::io::{self, IsTerminal as _};
use std::time::Instant;

use fleet_core::overview::RunOverview;
use fleet_core::overview::state_labels;
use jiff::Timestamp;

use crate::cli::output::{Paint, Tone};
use crate::cli::progress_bar::{progress_bar, stage_progress_bar};
use crate::cli::status::tree::{describe_wait, stage_lines};
use crate::cli::watch::news;
use crate::output::{print, sequence};

/// Width of a bar in characters.
const BAR: usize = 12;
/// Default size of a terminal: columns, lines.
const USUAL_SIZE: (u16, u16) = (80, 24);

pub(super) struct View {
    paint: Paint,
    begun: Instant,
    live: bool,
    /// Lines on the screen that will be overwritten.
    drawn: usize,
    before: Option<RunOverview>,
}

impl View {
    pub(super) fn new(paint: Paint, begun: Instant, before: Option<RunOverview>) -> Self {
        let is_dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        Self { paint, begun, live: io::stdout().is_terminal() && !is_dumb, drawn: 0, before }
    }

    /// Whether the view is redrawn.
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
        // Lines that scrolled off cannot be overwritten; the cursor takes one line.
        lines.truncate(usize::from(rows).saturating_sub(1));
        let mut out = if self.drawn == 0 {
            String::new()
        } else {
            format!("{}{}", sequence(&format!("[{}A", self.drawn)), sequence("[J"))
        };
        for line in &lines {
            let _ = writeln!(out, "{line}");
        }
        self.drawn = lines.len();
        print(&out)
    }
}

/// The screen: one line for the run, the tree, the waits.
fn frame(seen: &RunOverview, now: Timestamp, elapsed: f64, width: usize, paint: Paint) -> Vec<String> {
    let label = state_labels::of_run(seen.state);
    let head = format!("{} {}", seen.name, label.text);
    let mut lines = vec![format!(
        "{}  {} {}",
        paint.paint(label.tone, &fitted(&head, width.saturating_sub(BAR + 20))),
        paint.paint(Tone::Busy, &progress_bar(seen.clusters_done, seen.clusters, BAR)),
        paint.paint(Tone::Faint, &format!("{elapsed:.1}s")),
    )];
    for mut line in stage_lines(seen, now, false) {
        if line.depth == 0 && line.cluster.is_none() {
            line.rest = seen.stages.get(line.stage).map_or_else(String::new, |stage| stage_progress_bar(stage, BAR));
        }
        let taken = line.render(Paint { coloured: false }).chars().count() - line.rest.chars().count();
        line.rest = fitted(&line.rest, width.saturating_sub(taken + 1));
        lines.push(line.render(paint));
    }
    let waits = seen
        .waits
        .iter()
        .map(|wait| paint.paint(Tone::Waiting, &fitted(&describe_wait(wait, now), width.saturating_sub(1))));
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
    fn lines_are_truncated_to_the_terminal_width() {
        assert_eq!(fitted("cluster member3", 8), "cluster…");
        assert_eq!(fitted("cluster", 7), "cluster");
        assert_eq!(fitted("two\nlines", 20), "two");
        assert_eq!(fitted("", 0), "");
    }
}
