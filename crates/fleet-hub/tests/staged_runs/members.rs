//! Members that say of what they are given what the test has told them to.
//!
//! They speak when the test lets them, one after the other in order of names, so that every run is the same.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::fleet::{Fleet, Kind, text};

/// How a member takes what it is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Manner {
    /// Everything is applied and available at once.
    #[default]
    Prompt,
    /// Applied, but never available.
    Unavailable,
    /// Cannot be applied.
    Refusing,
    /// Says nothing.
    Silent,
}

#[derive(Debug, Default)]
pub(crate) struct Members {
    manners: Mutex<BTreeMap<String, Manner>>,
}

impl Members {
    pub(crate) fn behave(&self, member: &str, manner: Manner) {
        self.manners.lock().insert(member.to_owned(), manner);
    }

    /// Each member says what it has to say now; how many did is returned.
    pub(crate) async fn act(&self, fleet: &Fleet) -> usize {
        let mut spoken = 0;
        for binding in fleet.list(Kind::Binding).await {
            let cluster = text(&binding["spec"]["targetCluster"]);
            let manner = self.manners.lock().get(&cluster).copied().unwrap_or_default();
            let Some(said) = acknowledgement(&binding, manner) else { continue };
            if said == binding["status"]["conditions"] {
                continue;
            }
            let path = format!("{}/{}/status", fleet.collection(Kind::Binding), text(&binding["metadata"]["name"]));
            fleet.patch_at(&path, json!({"status": {"conditions": said}})).await;
            spoken += 1;
        }
        spoken
    }
}

fn acknowledgement(binding: &Value, manner: Manner) -> Option<Value> {
    if binding["spec"]["state"] != "Bound" || !binding["metadata"]["deletionTimestamp"].is_null() {
        return None;
    }
    let note = text(&binding["metadata"]["annotations"]["kubernetes-fleet.io/moved-by-update-run"]);
    let (index, run) = note.split_once('/')?;
    let started = format!(
        "Detected the new changes on the resources and started the rollout process, resourceSnapshotIndex: {index}, updateRun: {run}"
    );
    let condition = |type_: &str, status: &str, reason: &str, message: &str| {
        json!({"type": type_, "status": status, "reason": reason, "message": message,
            "observedGeneration": binding["metadata"]["generation"], "lastTransitionTime": "2026-01-01T00:00:00Z"})
    };
    let mut said = vec![condition("RolloutStarted", "True", "RolloutStarted", &started)];
    if manner != Manner::Silent {
        said.push(condition(
            "Overridden",
            "True",
            "NoOverrideSpecified",
            "No override rules are configured for the selected resources",
        ));
        said.push(condition(
            "WorkSynchronized",
            "True",
            "AllWorkSynced",
            "All of the works are synchronized to the latest",
        ));
    }
    match manner {
        Manner::Silent => {}
        Manner::Refusing => {
            said.push(condition("Applied", "False", "NotAllWorkHaveBeenApplied", "Work object w has failed to apply"));
        }
        Manner::Prompt | Manner::Unavailable => {
            said.push(condition(
                "Applied",
                "True",
                "AllWorkHaveBeenApplied",
                "All corresponding work objects are applied",
            ));
            said.push(match manner {
                Manner::Prompt => condition(
                    "Available",
                    "True",
                    "AllWorkAreAvailable",
                    "All corresponding work objects are available",
                ),
                _ => condition("Available", "False", "NotAllWorkAreAvailable", "Work object w is not yet available"),
            });
        }
    }
    Some(Value::from(said))
}
