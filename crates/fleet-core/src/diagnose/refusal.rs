//! Explains error messages of the API server about runs and strategies (UR-70).

use super::finding::Finding;

/// A text in the error message, what it means and what to do.
struct Refusal {
    text: &'static str,
    meaning: &'static str,
    remedy: &'static str,
}

const REFUSALS: &[Refusal] = &[
    Refusal {
        text: "cannot transition from Initialize to Stop",
        meaning: "A run that was never started cannot be stopped.",
        remedy: "leave it in state Initialize, or delete it",
    },
    Refusal {
        text: "invalid state transition: cannot transition from",
        meaning: "A run that was started or stopped cannot go back to Initialize.",
        remedy: "set the state to Stop, or to Run to go on",
    },
    Refusal {
        text: "placementName is immutable",
        meaning: "The placement of a run cannot be changed.",
        remedy: "create another run for the other placement",
    },
    Refusal {
        text: "resourceSnapshotIndex is immutable",
        meaning: "The resource snapshot of a run cannot be changed.",
        remedy: "create another run with the other index",
    },
    Refusal {
        text: "stagedRolloutStrategyName is immutable",
        meaning: "The strategy of a run cannot be changed.",
        remedy: "create another run with the other strategy",
    },
    Refusal {
        text: "metadata.name max length is 63",
        meaning: "The name becomes a label value, which has at most 63 characters.",
        remedy: "choose a shorter name",
    },
    Refusal {
        text: "maxConcurrency must be at least 1",
        meaning: "With no cluster at a time, a stage would never end.",
        remedy: "set maxConcurrency to 1 or more, or to a percentage from 1% to 100%",
    },
    Refusal {
        text: "AfterStageTaskType is Approval, waitTime is not allowed",
        meaning: "An approval waits for a person, not for time.",
        remedy: "remove waitTime, or add a task of type TimedWait after the stage",
    },
    Refusal {
        text: "AfterStageTaskType is TimedWait, waitTime is required",
        meaning: "A timed wait needs a duration.",
        remedy: "add waitTime, such as 1h",
    },
    Refusal {
        text: "BeforeStageTaskType cannot be TimedWait",
        meaning: "Only an approval can precede a stage.",
        remedy: "put the wait after the previous stage",
    },
    Refusal {
        text: "The spec field is immutable",
        meaning: "The spec of an approval request cannot be changed, so that an approval refers to exactly what was requested.",
        remedy: "approve by its status, or delete the request so that the run creates a new one",
    },
    Refusal {
        text: "cannot change rollout strategy type from 'External' to other types",
        meaning: "A placement with strategy External cannot use another strategy.",
        remedy: "keep External, or create another placement",
    },
];

/// Explains an error message of the API server; `None` if it is not known.
pub fn explain_refusal(text: &str) -> Option<Finding> {
    let refusal = REFUSALS.iter().find(|refusal| text.contains(refusal.text))?;
    let finding = Finding::error("UR-70", format!("The API server has refused the request: {}", refusal.text));
    Some(finding.because(refusal.meaning).fix(refusal.remedy, vec![super::commands::by_hand(refusal.remedy)]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ur_70_every_refusal_is_explained_and_nothing_else() {
        for refusal in REFUSALS {
            let text =
                format!("Error from server (Invalid): is invalid: spec: Invalid value: \"object\": {}", refusal.text);
            let finding = explain_refusal(&text).unwrap();
            assert_eq!((finding.entry, finding.explanation.as_str()), ("UR-70", refusal.meaning));
        }
        let back = "invalid state transition: cannot transition from Stop to Initialize";
        assert!(explain_refusal(back).unwrap().explanation.contains("cannot go back to Initialize"));
        assert_eq!(explain_refusal("the server could not find the requested resource"), None);
    }
}
