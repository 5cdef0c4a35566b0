//! Members that say of what they are given what the test has told them to.
//!
//! They speak when the test lets them, one after the other in order of names, so that every run is the same.

use std::collections::BTreeMap;

use fleet_api::conditions::work::{ManifestApplied, ManifestAvailable, WorkApplied, WorkAvailable, WorkDiffReported};
use fleet_api::conditions::{Condition, ConditionState as _, put, remove};
use fleet_api::kinds::Work;
use fleet_api::types::{ApplyStrategyType, EmbeddedObject, ManifestCondition, WorkResourceIdentifier, WorkStatus};
use fleet_api::well_known::finalizers;
use jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::json;

use crate::staged_runs::fleet::Fleet;

const WORKS: &str = "/apis/placement.kubernetes-fleet.io/v1beta1/works";

/// How a member takes what it is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Manner {
    /// Everything is applied and available at once, or its differences are reported.
    #[default]
    Prompt,
    /// Applied, but never available.
    Unavailable,
    /// Cannot be applied, nor can differences be reported.
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
        for object in fleet.server.list(WORKS).await {
            let work: Work = serde_json::from_value(object).unwrap();
            if work.metadata.deletion_timestamp.is_some() && self.manner_of(&work) != Some(Manner::Silent) {
                spoken += usize::from(Self::let_go(&work, fleet).await);
                continue;
            }
            let Some(status) =
                self.answer(&work, fleet.server.clock.now()).filter(|said| work.status.as_ref() != Some(said))
            else {
                continue;
            };
            fleet.server.patch(&format!("{}/status", path_of(&work)), json!({"status": status})).await;
            spoken += 1;
        }
        spoken
    }

    fn manner_of(&self, work: &Work) -> Option<Manner> {
        let member = work.metadata.namespace.as_deref()?.strip_prefix("fleet-member-")?;
        Some(self.manners.lock().get(member).copied().unwrap_or_default())
    }

    fn answer(&self, work: &Work, now: Timestamp) -> Option<WorkStatus> {
        let manner = self.manner_of(work)?;
        let is_spoken_of = manner != Manner::Silent && work.metadata.deletion_timestamp.is_none();
        is_spoken_of.then(|| status(work, manner, now))
    }

    /// Of a Work that the hub deletes nothing is left. Says whether it was held.
    async fn let_go(work: &Work, fleet: &Fleet) -> bool {
        let mut finalizers = work.metadata.finalizers.clone().unwrap_or_default();
        let held = finalizers.len();
        finalizers.retain(|one| one != finalizers::WORK);
        if finalizers.len() == held {
            return false;
        }
        fleet.server.patch(&path_of(work), json!({"metadata": {"finalizers": finalizers}})).await;
        true
    }
}

fn path_of(work: &Work) -> String {
    let (namespace, name) = (work.metadata.namespace.as_deref().unwrap(), work.metadata.name.as_deref().unwrap());
    WORKS.replace("/works", &format!("/namespaces/{namespace}/works/{name}"))
}

fn status(work: &Work, manner: Manner, now: Timestamp) -> WorkStatus {
    let generation = work.generation();
    let before = work.status.clone().unwrap_or_default();
    let mut conditions = before.conditions;
    let strategy = work.spec.apply_strategy.as_ref().map(fleet_api::types::ApplyStrategy::strategy_type);
    if strategy == Some(ApplyStrategyType::ReportDiff) {
        let reported = match manner {
            Manner::Refusing => WorkDiffReported::SomeNotReported { reported: 0, manifests: 1 },
            _ => WorkDiffReported::AllReported,
        };
        put(&mut conditions, reported.finding(generation), now);
        return WorkStatus { conditions, manifest_conditions: Vec::new() };
    }
    let applied = match manner {
        Manner::Refusing => WorkApplied::SomeNotApplied { applied: 0, manifests: 1 },
        _ => WorkApplied::AllApplied,
    };
    put(&mut conditions, applied.finding(generation), now);
    match manner {
        Manner::Prompt => drop(put(&mut conditions, WorkAvailable::AllAvailable.finding(generation), now)),
        Manner::Unavailable => {
            let some = WorkAvailable::SomeNotAvailable { available: 0, manifests: 1 };
            put(&mut conditions, some.finding(generation), now);
        }
        Manner::Refusing | Manner::Silent => drop(remove(&mut conditions, "Available")),
    }
    let known: BTreeMap<_, _> =
        before.manifest_conditions.into_iter().map(|one| (one.identifier.ordinal, one.conditions)).collect();
    let manifests = (0..).zip(work.spec.manifests()).map(|(ordinal, manifest)| {
        let mut conditions = known.get(&ordinal).cloned().unwrap_or_default();
        say_of_manifest(&mut conditions, if ordinal == 0 { manner } else { Manner::Prompt }, generation, now);
        ManifestCondition { identifier: identifier(ordinal, manifest), conditions, ..ManifestCondition::default() }
    });
    WorkStatus { conditions, manifest_conditions: manifests.collect() }
}

fn say_of_manifest(conditions: &mut Vec<Condition>, manner: Manner, generation: i64, now: Timestamp) {
    let applied = match manner {
        Manner::Refusing => ManifestApplied::ApplyFailed { error: "refused by the member".to_owned() },
        _ => ManifestApplied::Applied,
    };
    put(conditions, applied.finding(generation), now);
    let available = match manner {
        Manner::Unavailable => ManifestAvailable::NotYet,
        _ => ManifestAvailable::Available,
    };
    put(conditions, available.finding(generation), now);
}

fn identifier(ordinal: i64, manifest: &EmbeddedObject) -> WorkResourceIdentifier {
    let (group, version) = manifest.api_version().split_once('/').unwrap_or(("", manifest.api_version()));
    WorkResourceIdentifier {
        ordinal,
        group: group.to_owned(),
        version: version.to_owned(),
        kind: manifest.kind().to_owned(),
        resource: format!("{}s", manifest.kind().to_lowercase()),
        namespace: manifest.namespace().to_owned(),
        name: manifest.name().to_owned(),
    }
}
