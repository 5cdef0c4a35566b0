//! The priority of changed Works in the queue: new and failing Works come before healthy ones.

use fleet_api::conditions::decode;
use fleet_api::conditions::work::{WorkApplied, WorkAvailable, WorkDiffReported};
use fleet_api::kinds::Work;
use fleet_api::types::ApplyStrategyType;
use jiff::Timestamp;

/// The highest priority: new Works, deleted ones, and those that were not healthy.
pub const HIGHEST: i32 = 100;

/// How the priority of a healthy Work falls with its age: `slope` × whole minutes + `start`, between 0 and `HIGHEST`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PriorityDecay {
    /// -100 to -1.
    pub slope: i32,
    /// 1 to 1000.
    pub start: i32,
}

impl Default for PriorityDecay {
    fn default() -> Self {
        Self { slope: -3, start: 100 }
    }
}

/// The priority of a change; `before` is the Work before it, or `None` if it is new or gone.
pub fn of_change(before: Option<&Work>, priority_decay: PriorityDecay, now: Timestamp) -> i32 {
    let Some(before) = before.filter(|work| was_healthy(work)) else { return HIGHEST };
    let created = before.metadata.creation_timestamp.as_ref().map_or(now, |time| time.0);
    let minutes = i32::try_from(now.duration_since(created).as_mins().max(0)).unwrap_or(i32::MAX);
    priority_decay.slope.saturating_mul(minutes).saturating_add(priority_decay.start).clamp(0, HIGHEST)
}

fn was_healthy(work: &Work) -> bool {
    let conditions = work.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    let generation = work.generation();
    let strategy = work.spec.apply_strategy.as_ref();
    if strategy.is_some_and(|strategy| strategy.strategy_type() == ApplyStrategyType::ReportDiff) {
        return decode::<WorkDiffReported>(conditions, generation).is_true();
    }
    decode::<WorkApplied>(conditions, generation).is_true() && decode::<WorkAvailable>(conditions, generation).is_true()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    const CREATED: &str = "2026-01-01T00:00:00Z";

    fn work(generation: i64, conditions: &[(&str, &str)], strategy: Value) -> Work {
        let condition = |(type_, status): &(&str, &str)| {
            json!({
                "type": type_, "status": status, "reason": "Any", "message": "", "observedGeneration": 1,
                "lastTransitionTime": CREATED,
            })
        };
        serde_json::from_value(json!({
            "metadata": {"name": "w", "generation": generation, "creationTimestamp": CREATED},
            "spec": {"applyStrategy": strategy},
            "status": {"conditions": conditions.iter().map(condition).collect::<Vec<_>>()},
        }))
        .unwrap()
    }

    fn after(minutes: i64) -> Timestamp {
        CREATED.parse::<Timestamp>().unwrap() + jiff::SignedDuration::from_mins(minutes)
    }

    #[test]
    fn applier_s69_healthy_works_come_later_the_older_they_are() {
        let priority_decay = PriorityDecay { slope: -10, start: 120 };
        let well = work(1, &[("Applied", "True"), ("Available", "True")], json!({}));
        let priorities = [0, 5, 8, 15].map(|minutes| of_change(Some(&well), priority_decay, after(minutes)));
        assert_eq!(priorities, [100, 70, 40, 0]);
        for troubled in [
            work(1, &[("Applied", "False")], json!({})),
            work(1, &[("Applied", "True"), ("Available", "False")], json!({})),
            work(2, &[("Applied", "True"), ("Available", "True")], json!({})),
            work(1, &[], json!({})),
        ] {
            assert_eq!(of_change(Some(&troubled), priority_decay, after(15)), 100);
        }
        assert_eq!(of_change(None, priority_decay, after(15)), 100);
        let reported = work(1, &[("DiffReported", "True")], json!({"type": "ReportDiff"}));
        assert_eq!(of_change(Some(&reported), priority_decay, after(15)), 0);
        assert_eq!(of_change(Some(&well), PriorityDecay::default(), after(10)), 70);
    }
}
