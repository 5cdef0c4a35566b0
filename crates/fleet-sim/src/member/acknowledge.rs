//! Reports every Work as applied and available at its current generation, and removes the finalizer of deleted Works.
//! Applies nothing. Works are acknowledged only while the member has joined and does not leave.

use fleet_api::conditions::work::{ManifestApplied, ManifestAvailable, WorkApplied, WorkAvailable};
use fleet_api::conditions::{ConditionState as _, put};
use fleet_api::kinds::Work;
use fleet_api::types::{EmbeddedObject, ManifestCondition, WorkResourceIdentifier, WorkStatus};
use fleet_api::well_known::finalizers;
use fleet_core::apply::finalize::with_accepted_status;
use fleet_member::Member;
use fleet_runtime::{Actions, Cache, Controller, ObjectKey, PlanInput, Runtime, Triggers, Write};
use jiff::Timestamp;
use tokio::sync::watch;

pub(super) const NAME: &str = "simulated-applier";
/// Works that are reconciled concurrently. Each costs one small write.
const WORKS_AT_ONCE: usize = 4;

struct Acknowledge {
    works: Cache<Work>,
    applying: watch::Receiver<bool>,
}

pub(super) fn start(runtime: &mut Runtime, member: &Member) {
    let works = member.caches.works.clone();
    let acknowledge = Acknowledge { works: works.clone(), applying: member.applying.clone() };
    let triggers = Triggers::new()
        .on(&member.caches.works, |event| [event.key()])
        // The status of the InternalMemberCluster says that the agent has joined.
        .on(&member.caches.internal_member_clusters, move |_| works.keys());
    runtime.controller(acknowledge, triggers, WORKS_AT_ONCE);
}

impl Controller for Acknowledge {
    const NAME: &'static str = NAME;
    type Key = ObjectKey;
    type Facts = ();

    fn plan(&self, key: &ObjectKey, _: Option<()>, input: PlanInput) -> Actions {
        let Some(work) = self.works.get(key).filter(|_| *self.applying.borrow()) else { return Actions::none() };
        if work.is_deleting() {
            return released(&work);
        }
        let reported = Work::clone(&work).with_status(acknowledged(&work, input.now));
        Actions::none().with(Write::status(&*work, &reported))
    }
}

/// Removes our finalizer from a deleted Work. Like the real agent, first removes from its status what an API server would
/// refuse.
fn released(work: &Work) -> Actions {
    let accepted = with_accepted_status(work);
    let repair = accepted.as_ref().map(|accepted| Write::status(work, accepted));
    let work = accepted.as_ref().unwrap_or(work);
    let mut free = work.clone();
    free.metadata.finalizers.iter_mut().for_each(|all| all.retain(|one| one != finalizers::WORK));
    let mut actions = Actions::none();
    actions.writes.extend(repair);
    actions.with(Write::change(work, &free))
}

/// The status of a Work whose manifests are all applied and available.
fn acknowledged(work: &Work, now: Timestamp) -> WorkStatus {
    let generation = work.generation();
    let before = work.status.clone().unwrap_or_default();
    let mut conditions = before.conditions;
    put(&mut conditions, WorkApplied::AllApplied.finding(generation), now);
    put(&mut conditions, WorkAvailable::AllAvailable.finding(generation), now);
    let manifests = work.spec.manifests().iter().enumerate();
    let manifest_conditions = manifests
        .map(|(ordinal, manifest)| {
            let identifier = identifier(ordinal, manifest);
            let known = before.manifest_conditions.iter().find(|known| known.identifier == identifier);
            let mut conditions = known.map(|known| known.conditions.clone()).unwrap_or_default();
            put(&mut conditions, ManifestApplied::Applied.finding(generation), now);
            put(&mut conditions, ManifestAvailable::Available.finding(generation), now);
            ManifestCondition { identifier, conditions, ..ManifestCondition::default() }
        })
        .collect();
    WorkStatus { conditions, manifest_conditions }
}

fn identifier(ordinal: usize, manifest: &EmbeddedObject) -> WorkResourceIdentifier {
    let (group, version) = manifest.api_version().split_once('/').unwrap_or(("", manifest.api_version()));
    let kind = manifest.kind();
    WorkResourceIdentifier {
        ordinal: i64::try_from(ordinal).unwrap_or(i64::MAX),
        group: group.to_owned(),
        version: version.to_owned(),
        kind: kind.to_owned(),
        // There is no discovery; a regular plural is sufficient here.
        resource: format!("{}s", kind.to_lowercase()),
        namespace: manifest.namespace().to_owned(),
        name: manifest.name().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;
    use fleet_api::types::{WorkSpec, Workload};
    use serde_json::json;

    fn work() -> Work {
        let manifest =
            json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a", "namespace": "b"}});
        let workload = Workload { manifests: vec![EmbeddedObject(manifest)] };
        let mut work = Work::named("w", WorkSpec { workload: Some(workload), ..WorkSpec::default() });
        work.metadata.generation = Some(3);
        work
    }

    #[test]
    fn a_work_is_reported_applied_and_available_at_its_generation() {
        let status = acknowledged(&work(), Timestamp::UNIX_EPOCH);
        let line = |condition: &fleet_api::conditions::Condition| {
            format!(
                "{} {:?} {} {:?}",
                condition.type_, condition.status, condition.reason, condition.observed_generation
            )
        };
        let all = status.conditions.iter().chain(&status.manifest_conditions[0].conditions);
        expect![[r#"
            Applied True AllManifestsApplied 3
            Available True AllManifestsAvailable 3
            Applied True Applied 3
            Available True Available 3"#]]
        .assert_eq(&all.map(line).collect::<Vec<_>>().join("\n"));
        let identifier = &status.manifest_conditions[0].identifier;
        assert_eq!((identifier.group.as_str(), identifier.resource.as_str()), ("apps", "deployments"));
    }

    #[test]
    fn audit_20_a_deleted_work_is_released_by_the_simulated_applier_although_its_status_was_forged() {
        let mut work = work();
        work.metadata.finalizers = Some(vec![finalizers::WORK.to_owned()]);
        let verbs = |work: &Work| released(work).writes.iter().map(Write::verb).collect::<Vec<_>>();
        assert_eq!(verbs(&work), ["patch"]);
        let status = |embedded: serde_json::Value| -> WorkStatus {
            let report = json!({"observationTime": "2026-01-01T00:00:00Z", "observedStatus": embedded});
            let manifest = json!({"identifier": {"ordinal": 0}, "conditions": [], "backReportedStatus": report});
            serde_json::from_value(json!({"conditions": [], "manifestConditions": [manifest]})).unwrap()
        };
        let reported = status(json!({"apiVersion": "v1", "kind": "ConfigMap", "status": {}}));
        assert_eq!(verbs(&work.clone().with_status(reported)), ["patch"]);
        let forged = work.with_status(status(json!({"status": "x"})));
        assert_eq!(
            verbs(&forged),
            ["status", "patch"],
            "an API server refuses the patch before the status is repaired"
        );
    }

    #[test]
    fn an_acknowledged_status_does_not_change() {
        let work = work();
        let first = acknowledged(&work, Timestamp::UNIX_EPOCH);
        let again = acknowledged(&work.with_status(first.clone()), Timestamp::MAX);
        assert_eq!(first, again);
    }
}
