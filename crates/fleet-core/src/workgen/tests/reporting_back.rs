//! Which statuses come back to the hub.

use std::collections::BTreeMap;

use expect_test::{Expect, expect};
use fleet_api::kinds::{Binding, Cluster, Obj};
use fleet_api::types::{
    BackReportedStatus, BindingState, EmbeddedObject, PlacementSpec, ReportBackStrategy, ResourceIdentifier,
};
use fleet_api::yaml;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::fixture::{ClusterWorld, START};
use super::render::resource_text;
use crate::overrides::ResourceKey;
use crate::overrides::tests::fixture::{bare, envelope, resource};
use crate::plan::lint;
use crate::workgen::report_back::{self, Copying, Observed, Outcome, Plan, Write, wanted};
use crate::workgen::{BindingFacts, ReportBack, WorkFacts};

/// A hub with originals, of which one cluster has copies.
#[derive(Debug, Clone)]
struct World {
    spec: PlacementSpec,
    selected: Vec<ResourceIdentifier>,
    originals: Vec<EmbeddedObject>,
    others: Vec<Obj<Binding, Cluster>>,
    member: ClusterWorld,
}

const MIRROR: &str = "{resourceSelectors: [{group: '', version: v1, kind: Namespace, name: shop}],
    policy: {placementType: PickFixed, clusterNames: [c1]},
    strategy: {reportBackStrategy: {type: Mirror, destination: OriginalResource}}}";

fn spec(text: &str) -> PlacementSpec {
    serde_json::from_value(yaml::documents(text).unwrap().remove(0)).unwrap()
}

fn identifier(object: &EmbeddedObject) -> ResourceIdentifier {
    let ResourceKey { group, version, kind, namespace, name } = ResourceKey::of(object);
    ResourceIdentifier { group, version, kind, name, namespace, envelope: None }
}

impl World {
    fn new(spec_text: &str) -> Self {
        let originals = vec![bare("Deployment shop/web"), bare("ConfigMap shop/settings")];
        let spec = spec(spec_text);
        let mut member = ClusterWorld::with("web", &originals);
        let strategy: Option<ReportBackStrategy> = spec.strategy.as_ref().unwrap().report_back_strategy;
        member.report_back = ReportBack::As(strategy);
        member.settle();
        member.all_say("Applied Available");
        Self { spec, selected: originals.iter().map(identifier).collect(), originals, others: Vec::new(), member }
    }

    /// Plays the member: it sends a status of the Deployment back.
    fn send(&mut self, status: Value) {
        let observed = json!({"apiVersion": "apps/v1", "kind": "Deployment", "status": status});
        self.member.of_manifest("web-work", "web", |manifest| {
            manifest.back_reported_status = Some(BackReportedStatus {
                observed_status: Some(EmbeddedObject(observed)),
                observation_time: serde_json::from_value(json!(START)).unwrap(),
            });
        });
    }

    fn plan(&self) -> Plan {
        let bindings = std::iter::once(&self.member.binding).chain(&self.others);
        let mut observed = Observed {
            spec: &self.spec,
            selected: &self.selected,
            bindings: bindings.map(BindingFacts::of).collect(),
            works: self.member.works.iter().map(WorkFacts::of).collect(),
            originals: BTreeMap::new(),
        };
        let wanted = wanted(&observed);
        let originals = self.originals.iter().map(|one| (identifier(one), &one.0));
        observed.originals = originals.filter(|(resource, _)| wanted.contains(resource)).collect();
        let plan = report_back::plan(&observed, Timestamp::UNIX_EPOCH);
        assert_eq!(lint(&plan), Vec::<String>::new());
        plan
    }

    fn run(&mut self) -> Plan {
        let plan = self.plan();
        for Write::SetStatus { resource, status, .. } in &plan.writes {
            let original = self.originals.iter_mut().find(|one| identifier(one) == *resource).unwrap();
            original.0["status"] = status.clone();
        }
        assert!(self.plan().is_idle());
        plan
    }

    fn check(&mut self, expected: Expect) {
        let plan = self.run();
        let mut lines = vec![format!("{:?}", plan.report.outcome)];
        let line =
            |(resource, copying): &(ResourceIdentifier, Copying)| format!("{}: {copying:?}", resource_text(resource));
        lines.extend(plan.report.resources.iter().map(line));
        expected.assert_eq(&lines.join("\n"));
    }
}

#[test]
fn a_status_comes_back_as_the_member_has_it() {
    let mut world = World::new(MIRROR);
    world.check(expect!["On"]);
    let status = json!({"replicas": 3, "conditions": [{"type": "Available"}]});
    world.send(status.clone());
    world.check(expect!["On\nDeployment shop/web: Written"]);
    assert_eq!(world.originals[0]["status"], status);
    assert_eq!(world.originals[1].get("status"), None);
    world.check(expect!["On\nDeployment shop/web: Current"]);
    world.send(json!({"replicas": 4}));
    world.check(expect!["On\nDeployment shop/web: Written"]);
}

#[test]
fn only_a_placement_that_asks_for_it_gets_it() {
    for (from, to) in [("type: Mirror", "type: Disabled"), ("OriginalResource", "WorkAPI")] {
        let mut world = World::new(&MIRROR.replace(from, to));
        world.send(json!({"replicas": 3}));
        world.check(expect!["Off"]);
    }
}

#[test]
fn the_placement_must_go_to_exactly_one_cluster() {
    let policies = [
        ("placementType: PickN, numberOfClusters: 1", Outcome::On),
        ("placementType: PickN, numberOfClusters: 2", Outcome::NotOneCluster),
        ("placementType: PickFixed, clusterNames: [c1, c2]", Outcome::NotOneCluster),
        ("placementType: PickAll", Outcome::NotOneCluster),
    ];
    for (policy, expected) in policies {
        let mut world = World::new(&MIRROR.replace("placementType: PickFixed, clusterNames: [c1]", policy));
        world.send(json!({"replicas": 3}));
        assert_eq!(world.plan().report.outcome, expected, "{policy}");
    }
    let mut world = World::new(MIRROR);
    world.spec.policy = None;
    assert_eq!(world.plan().report.outcome, Outcome::NotOneCluster);
}

#[test]
fn while_it_moves_from_one_cluster_to_another_nothing_comes_back() {
    let mut world = World::new(MIRROR);
    world.send(json!({"replicas": 3}));
    let mut other = world.member.binding.clone();
    other.metadata.name = Some("web-c2-01234567".to_owned());
    world.others.push(other);
    world.check(expect!["AwaitingRollout"]);
    world.member.binding.spec.state = BindingState::Unscheduled;
    world.check(expect!["On"]);
    assert_eq!(world.originals[0].get("status"), None, "the old cluster has no say any more");
}

#[test]
fn only_applied_works_count() {
    for words in ["Applied=False", ""] {
        let mut world = World::new(MIRROR);
        world.member.all_say(words);
        world.send(json!({"replicas": 3}));
        world.check(expect!["On"]);
    }
    let mut world = World::new(MIRROR);
    world.send(json!({"replicas": 3}));
    world.member.work("web-work").metadata.generation = Some(9);
    world.check(expect!["On"]);
}

#[test]
fn only_what_is_selected_and_still_there_has_an_original() {
    let mut world = World::new(MIRROR);
    world.send(json!({"replicas": 3}));
    world.originals.remove(0);
    world.check(expect!["On\nDeployment shop/web: NoOriginal"]);
    world.selected.clear();
    world.check(expect!["On"]);
}

#[test]
fn what_came_in_an_envelope_has_no_original() {
    let mut world = World::new(MIRROR);
    let wrapped = envelope("ResourceEnvelope shop/env", &[bare("Deployment shop/web")]);
    world.member.freeze(1, &[&[wrapped]]);
    world.member.bind(1);
    world.member.settle();
    world.member.all_say("Applied Available");
    let name = world.member.works[1].metadata.name.clone().unwrap();
    world.member.of_manifest(&name, "web", |manifest| {
        let observed = resource("{apiVersion: apps/v1, kind: Deployment, status: {replicas: 3}}");
        manifest.back_reported_status = Some(BackReportedStatus {
            observed_status: Some(observed),
            observation_time: serde_json::from_value(json!(START)).unwrap(),
        });
    });
    world.check(expect!["On"]);
}
