//! The snapshots of an override: history, deletion, and properties of every plan.

use std::collections::BTreeSet;

use expect_test::{Expect, expect};
use fleet_api::kinds::{
    Cluster, ClusterOverride, ClusterOverrideSnapshot, ClusterResourceOverrideSnapshot, Family, Namespaced,
    NamespacedOverride, NamespacedOverrideSnapshot, Obj, Scope,
};
use fleet_api::names::OverrideName;
use fleet_api::types::OverrideSnapshotSpec;
use fleet_api::well_known::limits::OVERRIDE_SNAPSHOTS;
use fleet_api::well_known::{finalizers, label_values, labels};
use jiff::Timestamp;
use proptest::prelude::*;

use super::fixture::{annotate, on_settings, on_shop, spec};
use crate::overrides::{
    Fault, Observed, OverrideFacts, OverrideOutcome, OverrideSpec, Plan, SnapshotFacts, Write, plan,
};
use crate::plan::lint;
use crate::plan::testing::{Replan, check_every_prefix};

/// An override of either kind and its snapshots.
#[derive(Debug, Clone)]
struct OverrideFixture<O: Family, F: Family, S: Scope> {
    name: OverrideName,
    override_: Obj<O, S>,
    snapshots: Vec<Obj<F, S>>,
}

type ClusterWorld = OverrideFixture<ClusterOverride, ClusterOverrideSnapshot, Cluster>;
type NamespacedWorld = OverrideFixture<NamespacedOverride, NamespacedOverrideSnapshot, Namespaced>;

impl<O, F, S> OverrideFixture<O, F, S>
where
    O: Family<Spec: OverrideSpec>,
    F: Family<Spec = OverrideSnapshotSpec<O::Spec>>,
    S: Scope,
{
    fn new(text: &str) -> Self {
        let mut override_ = Obj::named("web", spec(text));
        override_.metadata.uid = Some("uid-of-web".to_owned());
        Self { name: OverrideName::parse("web").unwrap(), override_, snapshots: Vec::new() }
    }

    fn observe(&self) -> Observed<'_> {
        Observed {
            override_: OverrideFacts::of(&self.name, &self.override_),
            snapshots: self.snapshots.iter().map(SnapshotFacts::of).collect(),
        }
    }

    fn plan(&self) -> Plan {
        let plan = plan(&self.observe(), Timestamp::UNIX_EPOCH);
        assert_eq!(lint(&plan), Vec::<String>::new());
        plan
    }

    fn write(&mut self, write: &Write) {
        let named = |snapshots: &mut Vec<Obj<F, S>>, name: &str| {
            snapshots.iter().position(|one| one.metadata.name.as_deref() == Some(name)).unwrap()
        };
        match write {
            Write::AddFinalizer => self.override_.metadata.finalizers = Some(vec![finalizers::OVERRIDE.to_owned()]),
            Write::RemoveFinalizer => self.override_.metadata.finalizers = None,
            Write::CreateSnapshot(new) => {
                assert!(self.snapshots.iter().all(|one| one.metadata.name.as_ref() != Some(&new.name)));
                self.snapshots.push(new.object(&self.override_));
            }
            Write::SetLatestLabel { snapshot, latest } => {
                let word = if *latest { label_values::TRUE } else { label_values::FALSE };
                let place = named(&mut self.snapshots, snapshot);
                let labels = self.snapshots[place].metadata.labels.as_mut().unwrap();
                labels.insert(labels::IS_LATEST_SNAPSHOT.to_owned(), word.to_owned());
            }
            Write::DeleteSnapshot { snapshot } => {
                let place = named(&mut self.snapshots, snapshot);
                self.snapshots.remove(place);
            }
        }
    }

    fn run(&mut self) -> Plan {
        let plan = self.plan();
        for write in &plan.writes {
            self.write(write);
        }
        let again = self.plan();
        assert!(again.is_idle() || again.report.outcome == OverrideOutcome::Deleting, "{again:?}");
        plan
    }

    fn settle(&mut self) {
        drop(self.run());
    }

    fn edit(&mut self, text: &str) {
        self.override_.spec = spec(text);
    }

    fn delete(&mut self) {
        self.override_.metadata.deletion_timestamp =
            Some(serde_json::from_value(serde_json::json!("2026-11-15T12:00:00Z")).unwrap());
    }

    /// Names of all snapshots; `*` marks the latest label.
    fn names(&self) -> String {
        let name = |one: &Obj<F, S>| {
            let facts = SnapshotFacts::of(one);
            format!("{}{}", facts.name, if facts.latest { "*" } else { "" })
        };
        self.snapshots.iter().map(name).collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>().join(" ")
    }
}

fn writes_text(plan: &Plan) -> String {
    let text = |write: &Write| match write {
        Write::AddFinalizer => "hold".to_owned(),
        Write::RemoveFinalizer => "release".to_owned(),
        Write::CreateSnapshot(new) => format!("create {}", new.name),
        Write::SetLatestLabel { snapshot, latest } => format!("mark {snapshot} latest={latest}"),
        Write::DeleteSnapshot { snapshot } => format!("delete {snapshot}"),
    };
    plan.writes.iter().map(text).collect::<Vec<_>>().join(", ")
}

fn check(plan: &Plan, expected: Expect) {
    expected.assert_eq(&writes_text(plan));
}

fn version(number: usize) -> String {
    on_shop(&annotate("v", &number.to_string()))
}

#[test]
fn placement_63_an_edited_override_gets_a_new_snapshot() {
    let mut fixture = ClusterWorld::new(&version(0));
    check(&fixture.run(), expect!["hold, create web-0"]);
    assert!(fixture.plan().is_idle());
    fixture.edit(&version(1));
    check(&fixture.run(), expect!["create web-1, mark web-0 latest=false"]);
    expect!["web-0 web-1*"].assert_eq(&fixture.names());
    fixture.edit(&version(0));
    check(&fixture.run(), expect!["create web-2, mark web-1 latest=false"]);
}

#[test]
fn placement_64_a_deleted_override_deletes_its_snapshots() {
    let mut fixture = ClusterWorld::new(&version(0));
    fixture.settle();
    fixture.edit(&version(1));
    fixture.settle();
    fixture.delete();
    let plan = fixture.run();
    check(&plan, expect!["delete web-0, delete web-1, release"]);
    assert_eq!(plan.report.outcome, OverrideOutcome::Deleting);
    assert!(fixture.plan().is_idle());
}

#[test]
fn a_namespaced_override_has_its_snapshots_in_its_namespace() {
    let mut fixture = NamespacedWorld::new(&on_settings(&annotate("a", "b")));
    fixture.override_.metadata.namespace = Some("shop".to_owned());
    fixture.settle();
    let mut object = serde_json::to_value(&fixture.snapshots[0]).unwrap();
    object["spec"]["overrideSpec"] = "left out".into();
    expect![[r#"
        {
          "apiVersion": "placement.kubernetes-fleet.io/v1beta1",
          "kind": "ResourceOverrideSnapshot",
          "metadata": {
            "labels": {
              "kubernetes-fleet.io/is-latest-snapshot": "true",
              "kubernetes-fleet.io/override-index": "0",
              "kubernetes-fleet.io/parent-resource-override": "web"
            },
            "name": "web-0",
            "namespace": "shop",
            "ownerReferences": [
              {
                "apiVersion": "placement.kubernetes-fleet.io/v1beta1",
                "blockOwnerDeletion": true,
                "controller": true,
                "kind": "ResourceOverride",
                "name": "web",
                "uid": "uid-of-web"
              }
            ]
          },
          "spec": {
            "overrideHash": "MzRhNWM3NzIxMTU3NDhlYTFlNmYwODhmMjZiMTdlOWI5MGQ1MTZhMTFjNDRkNDhkYmJmNThkZjRjNzllMzFjNw==",
            "overrideSpec": "left out"
          }
        }"#]]
    .assert_eq(&serde_json::to_string_pretty(&object).unwrap());
}

#[test]
fn ten_snapshots_are_kept_and_the_oldest_is_deleted_by_number_not_by_text() {
    let mut fixture = ClusterWorld::new(&version(0));
    for number in 0..=OVERRIDE_SNAPSHOTS {
        fixture.edit(&version(number));
        fixture.settle();
    }
    expect!["web-1 web-10* web-2 web-3 web-4 web-5 web-6 web-7 web-8 web-9"].assert_eq(&fixture.names());
    fixture.edit(&version(99));
    check(&fixture.run(), expect!["create web-11, mark web-10 latest=false, delete web-1"]);
}

#[test]
fn a_missing_or_duplicate_latest_label_is_repaired() {
    let mut fixture = ClusterWorld::new(&version(0));
    fixture.settle();
    fixture.write(&Write::SetLatestLabel { snapshot: "web-0".to_owned(), latest: false });
    check(&fixture.run(), expect!["mark web-0 latest=true"]);
    fixture.edit(&version(1));
    let plan = fixture.plan();
    fixture.write(&plan.writes[0]);
    expect!["web-0* web-1*"].assert_eq(&fixture.names());
    check(&fixture.run(), expect!["mark web-0 latest=false"]);
}

#[test]
fn a_snapshot_without_an_index_stops_the_plan_and_is_named() {
    let mut fixture = ClusterWorld::new(&version(0));
    fixture.settle();
    let broken: &mut ClusterResourceOverrideSnapshot = &mut fixture.snapshots[0];
    broken.metadata.labels.as_mut().unwrap().remove(labels::OVERRIDE_INDEX);
    let plan = fixture.plan();
    assert!(plan.is_idle());
    let OverrideOutcome::Stopped(fault) = plan.report.outcome else { panic!("{:?}", plan.report) };
    assert_eq!(fault, Fault::SnapshotIndex { snapshot: "web-0".to_owned() });
    expect![[r#"override snapshot "web-0" does not say which index it has"#]].assert_eq(&fault.to_string());
}

#[derive(Debug, Clone)]
enum Step {
    Edit(usize),
    /// Executes only the first writes of a plan.
    Crash(usize),
    Run,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        3 => (0..4_usize).prop_map(Step::Edit),
        2 => (0..4_usize).prop_map(Step::Crash),
        2 => Just(Step::Run),
    ];
    prop::collection::vec(step, 0..30)
}

impl Replan for ClusterWorld {
    type Write = Write;
    type Place = String;

    fn writes(&self) -> Vec<Write> {
        self.plan().writes
    }

    fn execute(&mut self, write: &Write) {
        self.write(write);
    }

    fn reconcile(&mut self) {
        self.settle();
    }

    fn place(&self) -> String {
        self.names()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_plan_may_be_cut_short_after_any_write_and_completed(steps in steps()) {
        let mut fixture = ClusterWorld::new(&version(0));
        for step in steps {
            match step {
                Step::Edit(number) => fixture.edit(&version(number)),
                Step::Crash(count) => {
                    for write in fixture.plan().writes.iter().take(count) {
                        fixture.write(write);
                    }
                }
                Step::Run => fixture.settle(),
            }
            let mut whole = fixture.clone();
            whole.settle();
            check_every_prefix(&fixture)?;
            let observed = whole.observe();
            prop_assert!(observed.snapshots.len() <= OVERRIDE_SNAPSHOTS);
            let latest: Vec<_> = observed.snapshots.iter().filter(|one| one.latest).collect();
            prop_assert_eq!(latest.len(), 1);
            prop_assert_eq!(latest[0].hash, &observed.override_.hash);
            let mut reversed = fixture.observe();
            reversed.snapshots.reverse();
            prop_assert_eq!(plan(&reversed, Timestamp::MAX), fixture.plan());
        }
    }
}
