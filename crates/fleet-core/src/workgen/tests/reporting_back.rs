//! Which statuses are copied to the hub.

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
use crate::workgen::report_back::{self, CopyResult, Observed, Plan, ReportBackOutcome, Write, resources_to_read};
use crate::workgen::{BindingFacts, ReportBack, WorkFacts};

/// A hub with original resources that are placed on one cluster.
#[derive(Debug, Clone)]
struct ReportBackFixture {
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

impl ReportBackFixture {
    fn new(spec_text: &str) -> Self {
        let originals = vec![bare("Deployment shop/web"), bare("ConfigMap shop/settings")];
        let spec = spec(spec_text);
        let mut member = ClusterWorld::with("web", &originals);
        let strategy: Option<ReportBackStrategy> = spec.strategy.as_ref().unwrap().report_back_strategy;
        member.report_back = ReportBack::As(strategy);
        member.settle();
        member.report_all("Applied Available");
        Self { spec, selected: originals.iter().map(identifier).collect(), originals, others: Vec::new(), member }
    }

    /// Acts as the member: reports a status of the Deployment back.
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
        let wanted = resources_to_read(&observed);
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
        let line = |(resource, copying): &(ResourceIdentifier, CopyResult)| {
            format!("{}: {copying:?}", resource_text(resource))
        };
        lines.extend(plan.report.resources.iter().map(line));
        expected.assert_eq(&lines.join("\n"));
    }
}

#[test]
fn the_status_on_the_member_is_reported_back() {
    let mut fixture = ReportBackFixture::new(MIRROR);
    fixture.check(expect!["On"]);
    let status = json!({"replicas": 3, "conditions": [{"type": "Available"}]});
    fixture.send(status.clone());
    fixture.check(expect!["On\nDeployment shop/web: Written"]);
    assert_eq!(fixture.originals[0]["status"], status);
    assert_eq!(fixture.originals[1].get("status"), None);
    fixture.check(expect!["On\nDeployment shop/web: Current"]);
    fixture.send(json!({"replicas": 4}));
    fixture.check(expect!["On\nDeployment shop/web: Written"]);
}

#[test]
fn only_placements_with_report_back_get_statuses() {
    for (from, to) in [("type: Mirror", "type: Disabled"), ("OriginalResource", "WorkAPI")] {
        let mut fixture = ReportBackFixture::new(&MIRROR.replace(from, to));
        fixture.send(json!({"replicas": 3}));
        fixture.check(expect!["Off"]);
    }
}

#[test]
fn the_placement_must_select_exactly_one_cluster() {
    let policies = [
        ("placementType: PickN, numberOfClusters: 1", ReportBackOutcome::On),
        ("placementType: PickN, numberOfClusters: 2", ReportBackOutcome::NotOneCluster),
        ("placementType: PickFixed, clusterNames: [c1, c2]", ReportBackOutcome::NotOneCluster),
        ("placementType: PickAll", ReportBackOutcome::NotOneCluster),
    ];
    for (policy, expected) in policies {
        let mut fixture =
            ReportBackFixture::new(&MIRROR.replace("placementType: PickFixed, clusterNames: [c1]", policy));
        fixture.send(json!({"replicas": 3}));
        assert_eq!(fixture.plan().report.outcome, expected, "{policy}");
    }
    let mut fixture = ReportBackFixture::new(MIRROR);
    fixture.spec.policy = None;
    assert_eq!(fixture.plan().report.outcome, ReportBackOutcome::NotOneCluster);
}

#[test]
fn no_status_is_reported_back_while_the_placement_moves() {
    let mut fixture = ReportBackFixture::new(MIRROR);
    fixture.send(json!({"replicas": 3}));
    let mut other = fixture.member.binding.clone();
    other.metadata.name = Some("web-c2-01234567".to_owned());
    fixture.others.push(other);
    fixture.check(expect!["AwaitingRollout"]);
    fixture.member.binding.spec.state = BindingState::Unscheduled;
    fixture.check(expect!["On"]);
    assert_eq!(fixture.originals[0].get("status"), None, "the old cluster has no say any more");
}

#[test]
fn only_applied_works_count() {
    for words in ["Applied=False", ""] {
        let mut fixture = ReportBackFixture::new(MIRROR);
        fixture.member.report_all(words);
        fixture.send(json!({"replicas": 3}));
        fixture.check(expect!["On"]);
    }
    let mut fixture = ReportBackFixture::new(MIRROR);
    fixture.send(json!({"replicas": 3}));
    fixture.member.work("web-work").metadata.generation = Some(9);
    fixture.check(expect!["On"]);
}

#[test]
fn statuses_are_reported_only_to_selected_objects_that_exist() {
    let mut fixture = ReportBackFixture::new(MIRROR);
    fixture.send(json!({"replicas": 3}));
    fixture.originals.remove(0);
    fixture.check(expect!["On\nDeployment shop/web: NoOriginal"]);
    fixture.selected.clear();
    fixture.check(expect!["On"]);
}

#[test]
fn statuses_of_enveloped_resources_are_not_reported_back() {
    let mut fixture = ReportBackFixture::new(MIRROR);
    let wrapped = envelope("ResourceEnvelope shop/env", &[bare("Deployment shop/web")]);
    fixture.member.freeze(1, &[&[wrapped]]);
    fixture.member.bind(1);
    fixture.member.settle();
    fixture.member.report_all("Applied Available");
    let name = fixture.member.works[1].metadata.name.clone().unwrap();
    fixture.member.of_manifest(&name, "web", |manifest| {
        let observed = resource("{apiVersion: apps/v1, kind: Deployment, status: {replicas: 3}}");
        manifest.back_reported_status = Some(BackReportedStatus {
            observed_status: Some(observed),
            observation_time: serde_json::from_value(json!(START)).unwrap(),
        });
    });
    fixture.check(expect!["On"]);
}
