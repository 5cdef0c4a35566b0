//! A binding with its related objects. Plans are executed; the fixture acts as the other controllers, the API server
//! and the member.

use fleet_api::conditions::binding::BindingRolloutStarted;
use fleet_api::conditions::{ConditionState, put};
use fleet_api::kinds::{Binding, Cluster, Namespaced, Obj, Scope, Snapshot, Work};
use fleet_api::names::{ClusterName, Index, MemberNamespace, PlacementKey, ResourceSnapshotName, SnapshotPart};
use fleet_api::types::{
    BindingState, EmbeddedObject, ManifestCondition, NamespacedName, ResourceBindingStatus, WorkResourceIdentifier,
    WorkStatus,
};
use fleet_api::well_known::{annotations, finalizers, label_values, labels};
use jiff::{SignedDuration, Timestamp};
use k8s_values::merge_patch;
use serde_json::{Value, json};

use crate::overrides::Scopes;
use crate::overrides::tests::fixture::{KnownKinds, Member, Overrides, apply_strategy};
use crate::placement::{NewPart, NewResourceSnapshot, ResourceSnapshotFacts};
use crate::plan::lint;
use crate::workgen::{
    BindingFacts, ContentDepth, Observed, Plan, ReportBack, RolloutStart, SyncOutcome, WorkFacts, Write, plan,
};

pub(crate) const START: &str = "2026-11-15T12:00:00Z";

#[derive(Debug, Clone)]
pub(crate) struct WorkgenFixture<S: Scope> {
    pub(crate) key: PlacementKey,
    pub(crate) namespace: MemberNamespace,
    pub(crate) binding: Obj<Binding, S>,
    pub(crate) snapshots: Vec<Obj<Snapshot, S>>,
    pub(crate) works: Vec<Work>,
    pub(crate) overrides: Overrides,
    /// The member; `None` once its MemberCluster is gone.
    pub(crate) member: Option<Member>,
    pub(crate) leaving: bool,
    pub(crate) report_back: ReportBack,
    pub(crate) start: RolloutStart,
    pub(crate) rejection: Option<String>,
    pub(crate) scopes: &'static dyn Scopes,
    /// Whether the member agent's finalizer blocks the deletion of Works.
    pub(crate) member_is_stuck: bool,
    pub(crate) now: Timestamp,
}

pub(crate) type ClusterWorld = WorkgenFixture<Cluster>;
pub(crate) type NamespacedWorld = WorkgenFixture<Namespaced>;

impl<S: Scope> WorkgenFixture<S> {
    /// A Scheduled binding of the placement for cluster `c1`.
    pub(crate) fn new(key: &str) -> Self {
        let key = PlacementKey::parse(key).unwrap();
        let spec = json!({
            "state": "Scheduled", "resourceSnapshotName": "", "schedulingPolicySnapshotName": "web-0",
            "targetCluster": "c1", "clusterDecision": {"clusterName": "c1", "selected": true, "reason": "picked"},
        });
        let mut binding = Obj::named("web-c1-01234567", serde_json::from_value(spec).unwrap());
        binding.metadata.namespace = key.namespace.as_ref().map(ToString::to_string);
        binding.metadata.generation = Some(1);
        Self {
            namespace: MemberNamespace::of(&ClusterName::parse("c1").unwrap()).unwrap(),
            key,
            binding,
            snapshots: Vec::new(),
            works: Vec::new(),
            overrides: Overrides::default(),
            member: Some(Member::parse("c1 region=eu")),
            leaving: false,
            report_back: ReportBack::As(None),
            start: RolloutStart::SetByRollout,
            rejection: None,
            scopes: &KnownKinds,
            member_is_stuck: false,
            now: START.parse().unwrap(),
        }
    }

    /// A binding with these resources, all in one snapshot with index 0.
    pub(crate) fn with(key: &str, resources: &[EmbeddedObject]) -> Self {
        let mut fixture = Self::new(key);
        fixture.freeze(0, &[resources]);
        fixture.bind(0);
        fixture
    }

    /// Adds the latest group of snapshots, one snapshot per part.
    pub(crate) fn freeze(&mut self, index: u32, parts: &[&[EmbeddedObject]]) {
        for old in &mut self.snapshots {
            old.metadata.labels.as_mut().unwrap().remove(labels::IS_LATEST_SNAPSHOT);
        }
        for (place, resources) in (0_u32..).zip(parts) {
            let (part, new) = match place.checked_sub(1) {
                None => {
                    let hash = format!("hash of {index}");
                    (SnapshotPart::Master, NewPart::Master { hash, snapshots: parts.len(), envelopes: 0 })
                }
                Some(subindex) => (SnapshotPart::Sub(Index(subindex)), NewPart::Sub(Index(subindex))),
            };
            let name = ResourceSnapshotName { placement: self.key.name.clone(), index: Index(index), part };
            let new = NewResourceSnapshot {
                name: name.to_string(),
                index: Index(index),
                part: new,
                resources: resources.to_vec(),
            };
            let object = new.object(&self.key, serde_json::from_value(OWNER.clone()).unwrap());
            self.snapshots.push(object);
        }
    }

    /// Deletes all snapshots of a group, as the history limit does.
    pub(crate) fn forget(&mut self, index: u32) {
        let index = index.to_string();
        self.snapshots.retain(|one| one.metadata.labels.as_ref().unwrap()[labels::RESOURCE_INDEX] != index);
    }

    /// Acts as the rollout: sets a snapshot and RolloutStarted.
    pub(crate) fn bind(&mut self, index: u32) {
        let name = format!("{}-{index}-snapshot", self.key.name);
        self.change_binding(|binding| {
            binding.spec.state = BindingState::Bound;
            binding.spec.resource_snapshot_name = name;
        });
        self.set_rollout_started(&BindingRolloutStarted::Started);
    }

    /// Sets the override snapshots: `name` or `namespace/name`.
    pub(crate) fn pin(&mut self, names: &str) {
        let (namespaced, cluster): (Vec<&str>, Vec<&str>) =
            names.split_whitespace().partition(|name| name.contains('/'));
        let pin = |name: &str| {
            let (namespace, name) = name.split_once('/').unwrap();
            NamespacedName { name: name.to_owned(), namespace: namespace.to_owned() }
        };
        self.change_binding(|binding| {
            binding.spec.cluster_resource_override_snapshots = Some(cluster.into_iter().map(str::to_owned).collect());
            binding.spec.resource_override_snapshots = Some(namespaced.into_iter().map(pin).collect());
        });
        self.set_rollout_started(&BindingRolloutStarted::Started);
    }

    /// Any change of the binding's spec.
    pub(crate) fn change_binding(&mut self, change: impl FnOnce(&mut Obj<Binding, S>)) {
        change(&mut self.binding);
        self.binding.metadata.generation = Some(self.binding.generation() + 1);
    }

    pub(crate) fn set_rollout_started(&mut self, state: &BindingRolloutStarted) {
        let generation = self.binding.generation();
        let status = self.binding.status.get_or_insert_default();
        put(&mut status.conditions, state.finding(generation), self.now);
    }

    pub(crate) fn apply_strategy(&mut self, text: &str) {
        let strategy = apply_strategy(text);
        self.change_binding(|binding| binding.spec.apply_strategy = Some(strategy));
        self.set_rollout_started(&BindingRolloutStarted::Started);
    }

    pub(crate) fn pass(&mut self, seconds: i64) {
        self.now += SignedDuration::from_secs(seconds);
    }

    pub(crate) fn delete(&mut self) {
        self.binding.metadata.deletion_timestamp = Some(serde_json::from_value(json!(self.now)).unwrap());
    }

    pub(crate) fn observe(&self) -> Observed<'_> {
        Observed {
            placement: &self.key,
            binding: BindingFacts::of(&self.binding),
            cluster: self.member.as_ref().map(Member::target),
            leaving: self.leaving,
            namespace: &self.namespace,
            works: self.works.iter().map(WorkFacts::of).collect(),
            snapshots: self.snapshots.iter().map(ResourceSnapshotFacts::of).collect(),
            content: ContentDepth::Whole,
            overrides: self.overrides.facts(),
            report_back: self.report_back,
            start: self.start,
            rejection: self.rejection.as_deref(),
            scopes: self.scopes,
        }
    }

    /// The plan with the whole content. A plan without it is the same, unless it asks for it.
    pub(crate) fn plan(&self) -> Plan {
        let whole = plan(&self.observe(), self.now);
        assert_eq!(lint(&whole), Vec::<String>::new());
        let without = self.plan_without_content();
        if without.report.outcome != SyncOutcome::AwaitingContent {
            assert_eq!(without, whole);
        }
        whole
    }

    pub(crate) fn plan_without_content(&self) -> Plan {
        plan(&Observed { content: ContentDepth::Identities, ..self.observe() }, self.now)
    }

    /// Plans and executes until nothing is left to do; returns the first plan. A second plan differs only because the
    /// API server decides whether a written Work has changed.
    pub(crate) fn run(&mut self) -> Plan {
        let first = self.plan();
        self.apply(&first);
        let second = self.plan();
        assert!(second.writes.is_empty() || self.binding.metadata.deletion_timestamp.is_some(), "{second:#?}");
        assert!(second.status.is_none() || first.writes.iter().any(|write| write.work().is_some()), "{second:#?}");
        self.apply(&second);
        assert!(self.plan().is_idle(), "{:#?}", self.plan());
        first
    }

    /// Like `run`, without the plan.
    pub(crate) fn settle(&mut self) {
        drop(self.run());
    }

    pub(crate) fn apply(&mut self, plan: &Plan) {
        for write in &plan.writes {
            self.write(write);
        }
        if let Some(new) = &plan.status {
            self.binding.status = Some(new.status.clone());
        }
    }

    pub(crate) fn write(&mut self, write: &Write) {
        let place =
            |works: &[Work], name: &str| works.iter().position(|one| one.metadata.name.as_deref() == Some(name));
        match write {
            Write::AddFinalizer => self.binding.metadata.finalizers = Some(vec![finalizers::WORK.to_owned()]),
            Write::RemoveFinalizer => self.binding.metadata.finalizers = None,
            Write::CreateWork(new) => {
                assert_eq!(place(&self.works, &new.name), None, "the API server refuses a second {}", new.name);
                let mut object = new.clone().into_object();
                object.metadata.generation = Some(1);
                self.works.push(object);
            }
            Write::ChangeWork(change) => {
                let place = place(&self.works, &change.name).unwrap();
                let stored = &mut self.works[place];
                let before = stored.clone();
                *stored = merged(&before, &change.clone().into_merge_patch());
                if stored.spec != before.spec {
                    stored.metadata.generation = Some(before.generation() + 1);
                }
            }
            Write::AbandonWork { work } => {
                let place = place(&self.works, work).unwrap();
                let notes = self.works[place].metadata.annotations.get_or_insert_default();
                notes.insert(annotations::DELETE_PROPAGATION.to_owned(), "Abandon".to_owned());
            }
            Write::DeleteWork { work } => {
                let place = place(&self.works, work).unwrap();
                if self.member_is_stuck {
                    self.works[place].metadata.deletion_timestamp =
                        Some(serde_json::from_value(json!(self.now)).unwrap());
                } else {
                    self.works.remove(place);
                }
            }
        }
    }

    pub(crate) fn work(&mut self, name: &str) -> &mut Work {
        self.works.iter_mut().find(|one| one.metadata.name.as_deref() == Some(name)).unwrap()
    }

    pub(crate) fn status(&self) -> &ResourceBindingStatus {
        self.binding.status.as_ref().unwrap()
    }

    /// Acts as the member: sets conditions of a Work such as `Applied Available=False`, and the same ones for each
    /// manifest.
    pub(crate) fn report_work(&mut self, work: &str, words: &str) {
        let work = self.work(work);
        let generation = work.generation();
        let conditions: Vec<Value> = words.split_whitespace().map(|word| condition(word, generation)).collect();
        let manifest = |(ordinal, manifest): (usize, &EmbeddedObject)| {
            let (group, version) = manifest.api_version().split_once('/').unwrap_or(("", manifest.api_version()));
            ManifestCondition {
                identifier: WorkResourceIdentifier {
                    ordinal: i64::try_from(ordinal).unwrap(),
                    group: group.to_owned(),
                    version: version.to_owned(),
                    kind: manifest.kind().to_owned(),
                    resource: String::new(),
                    namespace: manifest.namespace().to_owned(),
                    name: manifest.name().to_owned(),
                },
                conditions: serde_json::from_value(json!(conditions)).unwrap(),
                ..ManifestCondition::default()
            }
        };
        work.status = Some(WorkStatus {
            conditions: serde_json::from_value(json!(conditions)).unwrap(),
            manifest_conditions: work.spec.manifests().iter().enumerate().map(manifest).collect(),
        });
    }

    /// Sets the same conditions for every Work.
    pub(crate) fn report_all(&mut self, words: &str) {
        let names: Vec<String> = self.works.iter().filter_map(|work| work.metadata.name.clone()).collect();
        for name in names {
            self.report_work(&name, words);
        }
    }

    /// Sets the conditions of one manifest.
    pub(crate) fn of_manifest(&mut self, work: &str, manifest: &str, change: impl FnOnce(&mut ManifestCondition)) {
        let status = self.work(work).status.as_mut().unwrap();
        let found = status.manifest_conditions.iter_mut().find(|one| one.identifier.name == manifest);
        change(found.unwrap());
    }
}

static OWNER: std::sync::LazyLock<Value> = std::sync::LazyLock::new(
    || json!({"apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "ClusterResourcePlacement", "name": "web", "uid": "u"}),
);

/// `Applied`, `Applied=False` or `Available=NotTrackable`.
pub(crate) fn condition(word: &str, generation: i64) -> Value {
    let (type_, status) = word.split_once('=').unwrap_or((word, "True"));
    let (status, reason) = match (type_, status) {
        (_, "NotTrackable") => ("True", "WorkNotTrackable"),
        ("Available", "True") => ("True", "AllManifestsAvailable"),
        (_, "True") => ("True", "AllManifestsApplied"),
        (_, other) => (other, "SomeManifestsAreNotApplied"),
    };
    json!({
        "type": type_, "status": status, "reason": reason, "message": "said by the member",
        "observedGeneration": generation, "lastTransitionTime": START,
    })
}

fn merged(work: &Work, patch: &Value) -> Work {
    let mut stored = serde_json::to_value(work).unwrap();
    merge_patch::apply(&mut stored, patch);
    serde_json::from_value(stored).unwrap()
}

/// Only the newest group has the latest label.
#[test]
fn the_newest_group_is_the_latest() {
    let mut fixture = ClusterWorld::new("web");
    fixture.freeze(0, &[&[]]);
    fixture.freeze(1, &[&[], &[]]);
    let marked = |one: &Obj<Snapshot, Cluster>| {
        one.metadata
            .labels
            .as_ref()
            .unwrap()
            .get(labels::IS_LATEST_SNAPSHOT)
            .is_some_and(|word| word == label_values::TRUE)
    };
    let names: Vec<_> =
        fixture.snapshots.iter().filter(|one| marked(one)).map(|one| one.metadata.name.clone()).collect();
    assert_eq!(names, [Some("web-1-snapshot".to_owned())]);
    let count = &fixture.snapshots[1].metadata.annotations.as_ref().unwrap()[annotations::NUMBER_OF_RESOURCE_SNAPSHOTS];
    assert_eq!(count, "2");
}
