//! What a container goes through, as a function of the time since its pod was taken up by a node.
//!
//! Decides which step it is in and when the next one comes. Nothing is remembered: whoever asks later gets the same answer as
//! one who had watched. Never looks at objects.

use std::time::Duration;

use super::behaviour::{Behaviour, Outcome};

/// How long a pull takes that fails.
const PULL: Duration = Duration::from_secs(1);
/// How long a failed pull is shown as such before it is shown as waited for.
const PULL_ERROR_SHOWN: Duration = Duration::from_secs(5);
/// The first pause before another try, and the longest; each is twice the one before.
const FIRST_PAUSE: Duration = Duration::from_secs(10);
const LONGEST_PAUSE: Duration = Duration::from_mins(5);

/// When a container is started again after it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Restart {
    Always,
    OnFailure,
    Never,
}

impl Restart {
    pub(super) fn of(policy: &str) -> Self {
        match policy {
            "Never" => Self::Never,
            "OnFailure" => Self::OnFailure,
            _ => Self::Always,
        }
    }
}

/// Where a container is in its life. Times are since the pod was taken up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    Creating,
    /// Its image cannot be pulled; a failed try is shown first, then the pause before the next.
    PullFailed,
    PullPause,
    Running {
        ready: bool,
        restarts: u32,
        since: Duration,
        /// The run before this one.
        before: Option<Run>,
    },
    /// It has failed and is started again after a pause.
    Pause {
        restarts: u32,
        last: Run,
    },
    Ended {
        well: bool,
        run: Run,
    },
}

/// A run that is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) began: Duration,
    pub(super) ended: Duration,
}

/// A step, and when it is over if it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Now {
    pub(super) step: Step,
    pub(super) until: Option<Duration>,
}

impl Now {
    fn for_ever(step: Step) -> Self {
        Self { step, until: None }
    }

    fn until(step: Step, until: Duration) -> Self {
        Self { step, until: Some(until) }
    }
}

/// A container whose image exists.
pub(super) fn container(behaviour: Behaviour, restart: Restart, elapsed: Duration) -> Now {
    let Behaviour { ready_after, runs_for, outcome } = behaviour;
    if elapsed < ready_after {
        return Now::until(Step::Creating, ready_after);
    }
    let running = |ready| Step::Running { ready, restarts: 0, since: ready_after, before: None };
    let run = Run { began: ready_after, ended: ready_after + runs_for };
    match (outcome, restart) {
        (Outcome::NeverReady, _) => Now::for_ever(running(false)),
        (Outcome::Works, Restart::Always) => Now::for_ever(running(true)),
        (Outcome::Crash | Outcome::Fail, Restart::Always | Restart::OnFailure) => crashing(run, elapsed),
        _ if elapsed < run.ended => Now::until(running(true), run.ended),
        _ => Now::for_ever(Step::Ended { well: outcome == Outcome::Works, run }),
    }
}

/// Runs, fails, pauses, and again. It fails before it is ready.
fn crashing(mut run: Run, elapsed: Duration) -> Now {
    let length = run.ended.saturating_sub(run.began);
    let (mut restarts, mut before, mut pause) = (0, None, FIRST_PAUSE);
    loop {
        if elapsed < run.ended {
            let step = Step::Running { ready: false, restarts, since: run.began, before };
            return Now::until(step, run.ended);
        }
        let again = run.ended + pause;
        if elapsed < again {
            return Now::until(Step::Pause { restarts, last: run }, again);
        }
        before = Some(run);
        run = Run { began: again, ended: again + length };
        restarts += 1;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// A container whose image no registry has.
pub(super) fn pulling(elapsed: Duration) -> Now {
    let (mut failed, mut pause) = (PULL, FIRST_PAUSE);
    if elapsed < failed {
        return Now::until(Step::Creating, failed);
    }
    loop {
        let (shown, again) = (failed + PULL_ERROR_SHOWN, failed + pause + PULL);
        if elapsed < shown {
            return Now::until(Step::PullFailed, shown);
        }
        if elapsed < again {
            return Now::until(Step::PullPause, again);
        }
        failed = again;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};

    /// The steps of the first so many seconds, each with the second at which it begins.
    fn check(life: impl Fn(Duration) -> Now, seconds: u64, expected: Expect) {
        let (mut at, mut lines) = (Duration::ZERO, Vec::new());
        loop {
            let now = life(at);
            let word = match now.step {
                Step::Running { ready, restarts, .. } => format!("Running ready={ready} restarts={restarts}"),
                Step::Pause { restarts, .. } => format!("Pause restarts={restarts}"),
                Step::Ended { well, .. } => format!("Ended well={well}"),
                other => format!("{other:?}"),
            };
            lines.push(format!("{} {word}", at.as_secs()));
            match now.until {
                Some(until) if until.as_secs() <= seconds => {
                    assert!(until > at, "time goes on");
                    at = until;
                }
                _ => break,
            }
        }
        expected.assert_eq(&lines.join("\n"));
    }

    fn behaviour(outcome: Outcome) -> Behaviour {
        Behaviour { ready_after: Duration::from_secs(2), runs_for: Duration::from_secs(5), outcome }
    }

    #[test]
    fn what_works_runs_on_or_ends_well() {
        let works = |restart| move |elapsed| container(behaviour(Outcome::Works), restart, elapsed);
        check(
            works(Restart::Always),
            100,
            expect![[r#"
            0 Creating
            2 Running ready=true restarts=0"#]],
        );
        check(
            works(Restart::OnFailure),
            100,
            expect![[r#"
            0 Creating
            2 Running ready=true restarts=0
            7 Ended well=true"#]],
        );
    }

    #[test]
    fn what_crashes_pauses_longer_each_time() {
        check(
            |elapsed| container(behaviour(Outcome::Crash), Restart::Always, elapsed),
            60,
            expect![[r#"
            0 Creating
            2 Running ready=false restarts=0
            7 Pause restarts=0
            17 Running ready=false restarts=1
            22 Pause restarts=1
            42 Running ready=false restarts=2
            47 Pause restarts=2"#]],
        );
        check(
            |elapsed| container(behaviour(Outcome::Crash), Restart::Never, elapsed),
            60,
            expect![[r#"
            0 Creating
            2 Running ready=true restarts=0
            7 Ended well=false"#]],
        );
    }

    #[test]
    fn what_is_never_ready_runs_all_the_same() {
        check(
            |elapsed| container(behaviour(Outcome::NeverReady), Restart::Always, elapsed),
            60,
            expect![[r#"
            0 Creating
            2 Running ready=false restarts=0"#]],
        );
    }

    #[test]
    fn a_missing_image_is_tried_again_with_longer_pauses() {
        check(
            pulling,
            60,
            expect![[r#"
            0 Creating
            1 PullFailed
            6 PullPause
            12 PullFailed
            17 PullPause
            33 PullFailed
            38 PullPause"#]],
        );
        let day = pulling(Duration::from_hours(24));
        assert!(day.until.is_some_and(|until| until <= Duration::from_hours(24) + LONGEST_PAUSE + PULL));
    }
}
