//! The steps of a container as a function of the time since its pod was bound to a node. There is no other state, so
//! the step is the same after a restart of the simulation.

use std::time::Duration;

use super::behaviour::{Behaviour, PodOutcome};

/// How long a failing pull takes.
const PULL: Duration = Duration::from_secs(1);
/// How long `ErrImagePull` is shown before `ImagePullBackOff`.
const PULL_ERROR_SHOWN: Duration = Duration::from_secs(5);
/// The first and the longest backoff; each is twice the one before.
const FIRST_PAUSE: Duration = Duration::from_secs(10);
const LONGEST_PAUSE: Duration = Duration::from_mins(5);

/// The restart policy.
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

/// The current step of a container. Times are since the pod was bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    Creating,
    /// The image cannot be pulled: first the error is shown, then the backoff.
    PullFailed,
    PullPause,
    Running {
        ready: bool,
        restarts: u32,
        since: Duration,
        before: Option<Run>,
    },
    /// It has failed and restarts after a backoff.
    Pause {
        restarts: u32,
        last: Run,
    },
    Ended {
        well: bool,
        run: Run,
    },
}

/// A completed run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) began: Duration,
    pub(super) ended: Duration,
}

/// A step and its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CurrentStep {
    pub(super) step: Step,
    pub(super) until: Option<Duration>,
}

impl CurrentStep {
    fn forever(step: Step) -> Self {
        Self { step, until: None }
    }

    fn until(step: Step, until: Duration) -> Self {
        Self { step, until: Some(until) }
    }
}

/// A container whose image exists.
pub(super) fn container(behaviour: Behaviour, restart: Restart, elapsed: Duration) -> CurrentStep {
    let Behaviour { ready_after, runs_for, outcome } = behaviour;
    if elapsed < ready_after {
        return CurrentStep::until(Step::Creating, ready_after);
    }
    let running = |ready| Step::Running { ready, restarts: 0, since: ready_after, before: None };
    let run = Run { began: ready_after, ended: ready_after.saturating_add(runs_for) };
    match (outcome, restart) {
        (PodOutcome::NeverReady, _) => CurrentStep::forever(running(false)),
        (PodOutcome::Works, Restart::Always) => CurrentStep::forever(running(true)),
        (PodOutcome::Crash | PodOutcome::Fail, Restart::Always | Restart::OnFailure) => crashing(run, elapsed),
        _ if elapsed < run.ended => CurrentStep::until(running(true), run.ended),
        _ => CurrentStep::forever(Step::Ended { well: outcome == PodOutcome::Works, run }),
    }
}

/// A container that fails before it is ready, again and again.
fn crashing(mut run: Run, elapsed: Duration) -> CurrentStep {
    let length = run.ended.saturating_sub(run.began);
    let (mut restarts, mut before, mut pause) = (0, None, FIRST_PAUSE);
    loop {
        if elapsed < run.ended {
            let step = Step::Running { ready: false, restarts, since: run.began, before };
            return CurrentStep::until(step, run.ended);
        }
        let again = run.ended.saturating_add(pause);
        if elapsed < again {
            return CurrentStep::until(Step::Pause { restarts, last: run }, again);
        }
        before = Some(run);
        run = Run { began: again, ended: again.saturating_add(length) };
        restarts += 1;
        pause = pause.saturating_mul(2).min(LONGEST_PAUSE);
    }
}

/// A container whose image does not exist.
pub(super) fn pulling(elapsed: Duration) -> CurrentStep {
    let (mut failed, mut pause) = (PULL, FIRST_PAUSE);
    if elapsed < failed {
        return CurrentStep::until(Step::Creating, failed);
    }
    loop {
        let shown = failed.saturating_add(PULL_ERROR_SHOWN);
        let again = failed.saturating_add(pause).saturating_add(PULL);
        if elapsed < shown {
            return CurrentStep::until(Step::PullFailed, shown);
        }
        if elapsed < again {
            return CurrentStep::until(Step::PullPause, again);
        }
        failed = again;
        pause = pause.saturating_mul(2).min(LONGEST_PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};

    /// Compares the steps of the first `seconds`, each with its first second.
    fn check(life: impl Fn(Duration) -> CurrentStep, seconds: u64, expected: Expect) {
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

    fn behaviour(outcome: PodOutcome) -> Behaviour {
        Behaviour { ready_after: Duration::from_secs(2), runs_for: Duration::from_secs(5), outcome }
    }

    #[test]
    fn a_working_container_runs_or_succeeds() {
        let works = |restart| move |elapsed| container(behaviour(PodOutcome::Works), restart, elapsed);
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
    fn a_crashing_container_has_growing_backoffs() {
        check(
            |elapsed| container(behaviour(PodOutcome::Crash), Restart::Always, elapsed),
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
            |elapsed| container(behaviour(PodOutcome::Crash), Restart::Never, elapsed),
            60,
            expect![[r#"
            0 Creating
            2 Running ready=true restarts=0
            7 Ended well=false"#]],
        );
    }

    #[test]
    fn a_container_that_is_never_ready_runs() {
        check(
            |elapsed| container(behaviour(PodOutcome::NeverReady), Restart::Always, elapsed),
            60,
            expect![[r#"
            0 Creating
            2 Running ready=false restarts=0"#]],
        );
    }

    #[test]
    fn a_missing_image_is_pulled_again_with_growing_backoffs() {
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
