//! `watch` as lines, for pipes and logs. Prints each change once; quick successive changes may be combined.

use fleet_api::kinds::Scope;
use fleet_api::safe_text::line;
use fleet_core::overview::RunOverview;
use fleet_core::overview::state_labels;
use jiff::Timestamp;

use super::follow::Following;
use super::{deleted, look, outcome};
use crate::cli::output::Paint;
use crate::cli::status::tree::{describe_wait, remedy, stage_lines};
use crate::output::{print, progress};

pub(super) async fn show<S: Scope>(following: &mut Following<S>) -> anyhow::Result<()> {
    let paint = Paint::for_stdout();
    let mut before: Option<RunOverview> = None;
    let mut error = None;
    loop {
        let Some(seen) = look(following) else { return Err(deleted()) };
        let now = fleet_runtime::Clock::Real.now();
        for one in news(before.as_ref(), &seen, now, paint) {
            print(&format!("{one}\n"))?;
        }
        if seen.state.is_final() {
            return outcome(&seen);
        }
        if following.error != error {
            error.clone_from(&following.error);
            if let Some(what) = &error {
                progress(&format!("note: {what}; retrying"));
            }
        }
        before = Some(seen);
        following.changed().await;
    }
}

/// Lines for the changes since `before`; without it, for everything that has started.
pub(crate) fn news(before: Option<&RunOverview>, seen: &RunOverview, now: Timestamp, paint: Paint) -> Vec<String> {
    let mut lines = Vec::new();
    let known = before.map(|before| stage_lines(before, now, false)).unwrap_or_default();
    for one in stage_lines(seen, now, false) {
        let old = known.iter().find(|old| (old.depth, &old.name, old.stage) == (one.depth, &one.name, one.stage));
        let is_news = match old {
            Some(old) => old.label != one.label,
            None => one.is_under_way(),
        };
        if is_news {
            lines.push(one.render(paint));
        }
    }
    if before.is_none_or(|before| before.state != seen.state) {
        let label = state_labels::of_run(seen.state);
        lines.push(format!("run {} {}", line(&seen.name), paint.paint(label.tone, label.text)));
    }
    for wait in &seen.waits {
        let is_old = before.is_some_and(|before| before.waits.iter().any(|old| is_same(old, wait)));
        if let (false, Some(command)) = (is_old, remedy(seen, wait)) {
            lines.push(describe_wait(wait, now));
            lines.push(format!("→ {command}"));
        }
    }
    lines
}

/// Whether two waits have the same cause, regardless of their progress.
fn is_same(one: &fleet_core::overview::Wait, other: &fleet_core::overview::Wait) -> bool {
    use fleet_core::overview::Wait;
    match (one, other) {
        (
            Wait::Cluster { cluster: one, problem: before, stuck: was_stuck, .. },
            Wait::Cluster { cluster: other, problem: after, stuck, .. },
        ) => one == other && before == after && was_stuck == stuck,
        (one, other) => one == other,
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use fleet_core::overview::{GateState, Wait};
    use fleet_core::updaterun::{ClusterStep, RunOutcome, StageStep};

    use super::super::samples::overview;
    use super::*;

    fn check(before: Option<&RunOverview>, seen: &RunOverview, expected: Expect) {
        let lines = news(before, seen, "2026-01-01T00:00:00Z".parse().unwrap(), Paint::PLAIN);
        expected.assert_eq(&lines.join("\n"));
    }

    #[test]
    fn only_changes_are_printed() {
        let start = overview();
        check(None, &start, expect!["run web-1 progressing"]);
        let mut under_way = start.clone();
        under_way.stages[0].state = StageStep::Updating;
        under_way.stages[0].clusters[0].state = ClusterStep::Updating;
        check(
            Some(&start),
            &under_way,
            expect![[r"
            ● stage canary                  updating
              ● a                           updating"]],
        );
        check(Some(&under_way), &under_way, expect![""]);
        let mut waiting = under_way.clone();
        waiting.state = RunOutcome::Waiting;
        waiting.stages[0].state = StageStep::AwaitingEnd;
        waiting.stages[0].after[0].state = GateState::Closed;
        waiting.waits = vec![Wait::Approval {
            stage: "canary".to_owned(),
            request: "web-1-after-canary".to_owned(),
            since: None,
            approved_generation: None,
        }];
        check(
            Some(&under_way),
            &waiting,
            expect![[r"
            ◐ stage canary                  waiting to end
              ◐ after: approval             waiting, web-1-after-canary
            run web-1 waiting
            waiting for an approval of stage canary
            → kubefleet approve web-1 canary"]],
        );
    }
}
