//! When the stages and clusters of a run were updated, as bars. Bars are SVG attributes: inline styles are not allowed.

use fleet_api::time::Time;
use fleet_core::overview::state_labels::{StateLabel, of_stage, of_step};
use fleet_core::overview::{RunOverview, StageOverview};
use jiff::Timestamp;
use maud::{Markup, html};

use crate::text::{class, plain, took};

/// Maximum number of clusters with a bar.
const CLUSTERS_SHOWN: usize = 60;
/// Width of the time axis in units of the drawing.
const WIDTH: i64 = 1000;

/// One bar.
struct Row<'a> {
    name: &'a str,
    is_stage: bool,
    label: StateLabel,
    started: Time,
    ended: Option<Time>,
}

fn rows(run: &RunOverview) -> Vec<Row<'_>> {
    let mut rows = Vec::new();
    let mut left = CLUSTERS_SHOWN;
    for stage in &run.stages {
        let Some(started) = stage.started else { continue };
        rows.push(Row { name: &stage.name, is_stage: true, label: of_stage(stage.state), started, ended: stage.ended });
        for row in clusters(stage).take(left).collect::<Vec<_>>() {
            left -= 1;
            rows.push(row);
        }
    }
    rows
}

fn clusters(stage: &StageOverview) -> impl Iterator<Item = Row<'_>> {
    stage.clusters.iter().filter_map(|one| {
        let label = of_step(&one.state, one.stuck);
        Some(Row { name: &one.name, is_stage: false, label, started: one.started?, ended: one.ended })
    })
}

/// Start and width of a bar.
fn extent(from: Timestamp, to: Timestamp, row: &Row<'_>) -> (i64, i64) {
    let all = to.as_second().saturating_sub(from.as_second()).max(1);
    let place =
        |at: Timestamp| at.as_second().saturating_sub(from.as_second()).clamp(0, all).saturating_mul(WIDTH) / all;
    let start = place(row.started.instant()).min(WIDTH - 8);
    let end = row.ended.map_or(WIDTH, |ended| place(ended.instant()));
    (start, end.saturating_sub(start).max(8))
}

/// The section, unless nothing has started.
pub fn timeline(run: &RunOverview, now: Timestamp) -> Markup {
    let rows = rows(run);
    let Some(from) = rows.iter().map(|row| row.started.instant()).min() else { return html! {} };
    let last = rows.iter().filter_map(|row| row.ended).map(Time::instant).max().unwrap_or(now);
    let to = if rows.iter().any(|row| row.ended.is_none()) { now } else { last };
    html! {
        section aria-label="Timeline" {
            h2 { "Timeline" }
            table.timeline {
                thead.unseen { tr { th { "Stage or cluster" } th { "State" } th { "Time" } } }
                tbody {
                    @for row in &rows {
                        @let (start, width) = extent(from, to, row);
                        tr.stage[row.is_stage] {
                            th scope="row" { (plain(row.name)) }
                            td.line {
                                svg.(class(row.label.tone)) viewBox="0 0 1000 10" preserveAspectRatio="none" aria-hidden="true" focusable="false" {
                                    rect x=(start) y="1" width=(width) height="8" {}
                                }
                                span.unseen { (row.label.text) }
                            }
                            td.time { (took(Some(row.started), row.ended, now)) }
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use fleet_core::overview::state_labels::Tone;

    use super::*;

    #[test]
    fn bars_stay_inside_the_axis_and_are_always_visible() {
        let at = |second: i64| Timestamp::from_second(second).unwrap();
        let label = StateLabel { text: "", tone: Tone::Plain, sign: ' ' };
        let bar = |started: i64, ended: Option<i64>| {
            let row = Row {
                name: "",
                is_stage: true,
                label,
                started: at(started).into(),
                ended: ended.map(|one| at(one).into()),
            };
            extent(at(100), at(200), &row)
        };
        assert_eq!(bar(100, Some(200)), (0, 1000));
        assert_eq!(bar(150, None), (500, 500));
        assert_eq!(bar(150, Some(150)), (500, 8));
        assert_eq!(bar(200, Some(200)), (992, 8));
        assert_eq!(bar(50, Some(300)), (0, 1000));
    }
}
