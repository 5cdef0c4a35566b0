//! Says of every Work that it is applied and available.
//!
//! Decides from the Work and from whether the member belongs to the fleet: a Work is held by the agent's finalizer, reported
//! on at its present generation, and let go of when it is deleted or the member leaves. Never applies a manifest.

use fleet_api::conditions::work::{ManifestApplied, ManifestAvailable, WorkApplied, WorkAvailable};
use fleet_api::conditions::{ConditionState as _, put};
use fleet_api::kinds::{InternalMemberCluster, Work};
use fleet_api::names::{ClusterName, MemberNamespace};
use fleet_api::types::{ClusterState, EmbeddedObject, ManifestCondition, WorkResourceIdentifier, WorkStatus};
use fleet_api::well_known::finalizers;
use fleet_runtime::{Actions, Cache, Controller, Moment, ObjectKey, Write};
use jiff::Timestamp;

pub(super) const NAME: &str = "simulated-applier";

pub(super) struct Acknowledge {
    pub(super) member: ClusterName,
    pub(super) namespace: MemberNamespace,
    pub(super) mailboxes: Cache<InternalMemberCluster>,
    pub(super) works: Cache<Work>,
}

impl Controller for Acknowledge {
    const NAME: &'static str = NAME;
    type Key = ObjectKey;
    type Facts = ();

    fn plan(&self, key: &ObjectKey, (): (), moment: Moment) -> Actions {
        let mailbox = self.mailboxes.get(&ObjectKey::namespaced(self.namespace.as_str(), self.member.as_str()));
        let (Some(work), Some(mailbox)) = (self.works.get(key), mailbox) else { return Actions::none() };
        let staying = mailbox.spec.state == ClusterState::Join;
        if !staying || work.metadata.deletion_timestamp.is_some() {
            return Actions::none().with(Write::change(&*work, &released(&work)));
        }
        let held = held(&work);
        let reported = held.clone().with_status(acknowledged(&work, moment.now));
        Actions::none().with(Write::change(&*work, &held)).with(Write::status(&held, &reported))
    }
}

fn released(work: &Work) -> Work {
    let mut work = work.clone();
    if let Some(all) = &mut work.metadata.finalizers {
        all.retain(|finalizer| finalizer != finalizers::WORK);
    }
    work
}

fn held(work: &Work) -> Work {
    let mut work = work.clone();
    let all = work.metadata.finalizers.get_or_insert_default();
    if !all.iter().any(|finalizer| finalizer == finalizers::WORK) {
        all.push(finalizers::WORK.to_owned());
    }
    work
}

/// The status of a Work whose manifests are all there.
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
        // There is no cluster to ask; regular plurals do for what is reported here.
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
    fn what_is_acknowledged_stays_as_it_is() {
        let work = work();
        let first = acknowledged(&work, Timestamp::UNIX_EPOCH);
        let again = acknowledged(&work.with_status(first.clone()), Timestamp::MAX);
        assert_eq!(first, again);
    }

    #[test]
    fn holding_and_releasing_touch_our_finalizer_alone() {
        let mut foreign = work();
        foreign.metadata.finalizers = Some(vec!["other".to_owned()]);
        let held = held(&foreign);
        assert_eq!(held.metadata.finalizers, Some(vec!["other".to_owned(), finalizers::WORK.to_owned()]));
        assert_eq!(super::held(&held), held);
        assert_eq!(released(&held).metadata.finalizers, foreign.metadata.finalizers);
    }
}
