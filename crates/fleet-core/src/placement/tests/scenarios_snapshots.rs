//! Acceptance scenarios of snapshots. Test names contain the scenario's number.

use expect_test::{Expect, expect};
use fleet_api::kinds::Scope;
use fleet_api::well_known::{annotations, labels};
use jiff::SignedDuration;

use super::fixture::{ALL_GOOD, ClusterFixture, Fixture, NamespacedFixture, SHOP};
use super::render::{resources_text, snapshots_text, write_text, writes_text};
use crate::placement::{Content, Fault, PlacementOutcome, SnapshotIntervals};
use crate::plan::Wake;

fn check_plan<S: Scope>(fixture: &mut Fixture<S>, expected: Expect) {
    expected.assert_eq(&writes_text(&fixture.run()));
}

fn check_snapshots<S: Scope>(fixture: &Fixture<S>, expected: Expect) {
    expected.assert_eq(&snapshots_text(fixture));
}

const THREE_SECRETS: &str =
    "Namespace shop\nSecret shop/a size=300000\nSecret shop/b size=300000\nSecret shop/c size=300000";

#[test]
fn placement_18_content_that_is_too_large_is_split() {
    let mut fixture = ClusterFixture::new("web", THREE_SECRETS, SHOP);
    check_plan(
        &mut fixture,
        expect![[r#"
        hold placement
        create policy web-0 generation=1
        create web-0-snapshot (1 of 2, 0 envelopes): Namespace shop, Secret a, Secret b
        create web-0-0 (more): Secret c
        AwaitingScheduler"#]],
    );
    check_snapshots(
        &fixture,
        expect![[r#"
        policy web-0* generation=1
        web-0-0 index=0 resources=1
        web-0-snapshot* index=0 of 2 resources=3"#]],
    );
}

#[test]
fn placement_18_snapshots_have_the_labels_by_which_they_are_found() {
    let mut fixture = NamespacedFixture::new(
        "shop/web",
        THREE_SECRETS,
        "{resourceSelectors: [{group: '', version: v1, kind: Secret}], policy: {placementType: PickN, numberOfClusters: 2}}",
    );
    fixture.settle();
    let mut objects: Vec<_> = fixture.snapshots.iter().map(|one| serde_json::to_value(one).unwrap()).collect();
    objects.push(serde_json::to_value(&fixture.policies[0]).unwrap());
    for object in &mut objects {
        object["spec"] = "left out".into();
    }
    expect![[r#"
        [
          {
            "apiVersion": "placement.kubernetes-fleet.io/v1beta1",
            "kind": "ResourceSnapshot",
            "metadata": {
              "annotations": {
                "kubernetes-fleet.io/number-of-enveloped-object": "0",
                "kubernetes-fleet.io/number-of-resource-snapshots": "2",
                "kubernetes-fleet.io/resource-hash": "0fc589c701e5848144af6285a3f2b8a160694f67a21c67f143d68641035799d2"
              },
              "creationTimestamp": "2026-11-15T12:00:00Z",
              "labels": {
                "kubernetes-fleet.io/is-latest-snapshot": "true",
                "kubernetes-fleet.io/parent-CRP": "web",
                "kubernetes-fleet.io/resource-index": "0"
              },
              "name": "web-0-snapshot",
              "namespace": "shop",
              "ownerReferences": [
                {
                  "apiVersion": "placement.kubernetes-fleet.io/v1beta1",
                  "blockOwnerDeletion": true,
                  "controller": true,
                  "kind": "ResourcePlacement",
                  "name": "web",
                  "uid": "uid-of-web"
                }
              ]
            },
            "spec": "left out"
          },
          {
            "apiVersion": "placement.kubernetes-fleet.io/v1beta1",
            "kind": "ResourceSnapshot",
            "metadata": {
              "annotations": {
                "kubernetes-fleet.io/subindex-of-resource-snapshot": "0"
              },
              "creationTimestamp": "2026-11-15T12:00:00Z",
              "labels": {
                "kubernetes-fleet.io/parent-CRP": "web",
                "kubernetes-fleet.io/resource-index": "0"
              },
              "name": "web-0-0",
              "namespace": "shop",
              "ownerReferences": [
                {
                  "apiVersion": "placement.kubernetes-fleet.io/v1beta1",
                  "blockOwnerDeletion": true,
                  "controller": true,
                  "kind": "ResourcePlacement",
                  "name": "web",
                  "uid": "uid-of-web"
                }
              ]
            },
            "spec": "left out"
          },
          {
            "apiVersion": "placement.kubernetes-fleet.io/v1beta1",
            "kind": "SchedulingPolicySnapshot",
            "metadata": {
              "annotations": {
                "kubernetes-fleet.io/CRP-generation": "1",
                "kubernetes-fleet.io/number-of-clusters": "2"
              },
              "generation": 1,
              "labels": {
                "kubernetes-fleet.io/is-latest-snapshot": "true",
                "kubernetes-fleet.io/parent-CRP": "web",
                "kubernetes-fleet.io/policy-index": "0"
              },
              "name": "web-0",
              "namespace": "shop",
              "ownerReferences": [
                {
                  "apiVersion": "placement.kubernetes-fleet.io/v1beta1",
                  "blockOwnerDeletion": true,
                  "controller": true,
                  "kind": "ResourcePlacement",
                  "name": "web",
                  "uid": "uid-of-web"
                }
              ]
            },
            "spec": "left out"
          }
        ]"#]]
    .assert_eq(&serde_json::to_string_pretty(&objects).unwrap());
}

fn with_limit(limit: Option<i32>, more: &str) -> String {
    let limit = limit.map(|limit| format!(", revisionHistoryLimit: {limit}")).unwrap_or_default();
    format!("{{resourceSelectors: [{{group: '', version: v1, kind: Namespace, name: shop}}{more}]{limit}}}")
}

const ROLES: &str = ", {group: rbac.authorization.k8s.io, version: v1, kind: ClusterRole}";

#[test]
fn placement_19_20_snapshots_beyond_the_limit_are_deleted() {
    for (limit, expected) in [
        (
            Some(1),
            expect![[r#"
        policy web-0* generation=2
        web-1-snapshot* index=1 of 1 resources=2"#]],
        ),
        (
            None,
            expect![[r#"
        policy web-0* generation=2
        web-0-snapshot index=0 of 1 resources=1
        web-1-snapshot* index=1 of 1 resources=2"#]],
        ),
    ] {
        let mut fixture = ClusterFixture::new("web", "Namespace shop\nClusterRole r", &with_limit(limit, ""));
        fixture.settle();
        fixture.edit(&with_limit(limit, ROLES));
        fixture.settle();
        check_snapshots(&fixture, expected);
    }
}

#[test]
fn the_history_is_limited_per_group_and_per_policy() {
    let limited = with_limit(Some(2), "");
    let pick = |step: i32| {
        let policy = format!(", policy: {{placementType: PickFixed, clusterNames: [c{step}]}}}}");
        limited.replacen("2}", &format!("2{policy}"), 1)
    };
    let mut fixture = ClusterFixture::new("web", THREE_SECRETS, &pick(0));
    fixture.settle();
    for step in 1..4 {
        fixture.hub.set(&format!("Secret shop/c size=30000{step}"));
        fixture.edit(&pick(step));
        fixture.settle();
    }
    check_snapshots(
        &fixture,
        expect![[r#"
        policy web-2 generation=3
        policy web-3* generation=4
        web-2-0 index=2 resources=1
        web-2-snapshot index=2 of 2 resources=3
        web-3-0 index=3 resources=1
        web-3-snapshot* index=3 of 2 resources=3"#]],
    );
}

fn paced() -> ClusterFixture {
    let mut fixture = ClusterFixture::new("web", "Namespace shop", SHOP);
    fixture.snapshot_intervals = SnapshotIntervals::default();
    fixture
}

#[test]
fn placement_21_changes_wait_and_the_status_stays_consistent() {
    let mut fixture = paced();
    check_plan(
        &mut fixture,
        expect![[r#"
        hold placement
        create policy web-0 generation=1
        create web-0-snapshot (1 of 1, 0 envelopes): Namespace shop
        AwaitingScheduler"#]],
    );
    fixture.pass(2);
    fixture.hub.set("ConfigMap shop/cm value=1");
    let plan = fixture.run();
    expect![[r#"
        note on web-0-snapshot change seen 2026-11-15T12:00:02Z
        AwaitingScheduler"#]]
    .assert_eq(&writes_text(&plan));
    assert_eq!(plan.wake, Wake::At("2026-11-15T12:00:30Z".parse().unwrap()));
    assert!(matches!(plan.report.content, Content::Delayed { .. }));
    assert_eq!(resources_text(&fixture.status().selected_resources), "Namespace shop");
    assert_eq!(fixture.status().observed_resource_index, "0");
    fixture.pass(27);
    fixture.hub.set("ConfigMap shop/cm value=2");
    assert!(fixture.run().writes.is_empty());
    fixture.pass(1);
    let plan = fixture.run();
    expect![[r#"
        mark web-0-snapshot latest=false
        create web-1-snapshot (1 of 1, 0 envelopes): Namespace shop, ConfigMap cm
        AwaitingScheduler"#]]
    .assert_eq(&writes_text(&plan));
    assert_eq!(plan.wake, Wake::OnChange);
    assert_eq!(fixture.status().observed_resource_index, "1");
}

#[test]
fn placement_21_the_window_opens_with_the_first_difference() {
    let mut fixture = paced();
    fixture.settle();
    fixture.pass(100);
    fixture.hub.set("ConfigMap shop/cm value=1");
    assert_eq!(fixture.run().wake, Wake::At("2026-11-15T12:01:55Z".parse().unwrap()));
    // Content that is reverted is not a change, but the next change counts from the first one.
    fixture.hub.remove("ConfigMap shop/cm");
    assert_eq!(fixture.run().wake, Wake::OnChange);
    fixture.pass(50);
    fixture.hub.set("ConfigMap shop/cm value=2");
    fixture.settle();
    assert_eq!(fixture.status().observed_resource_index, "1");
}

#[test]
fn an_interval_of_zero_is_no_delay_and_either_interval_counts_alone() {
    let mut fixture = paced();
    fixture.snapshot_intervals =
        SnapshotIntervals { minimum_interval: SignedDuration::from_secs(10), collection: SignedDuration::ZERO };
    fixture.settle();
    fixture.hub.set("ConfigMap shop/cm value=1");
    assert_eq!(fixture.run().wake, Wake::At("2026-11-15T12:00:10Z".parse().unwrap()));
    fixture.snapshot_intervals = SnapshotIntervals::NONE;
    assert_eq!(fixture.run().wake, Wake::OnChange);
    assert_eq!(fixture.status().observed_resource_index, "1");
}

fn pick_n(number: i32, more: &str) -> String {
    format!(
        "{{resourceSelectors: [{{group: '', version: v1, kind: Namespace, name: shop}}], policy: {{placementType: PickN, numberOfClusters: {number}{more}}}}}"
    )
}

const AFFINITY: &str = ", affinity: {clusterAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {clusterSelectorTerms: [{labelSelector: {matchLabels: {a: b}}}]}}}";

#[test]
fn placement_22_23_a_number_is_no_new_policy_and_an_affinity_is() {
    let mut fixture = ClusterFixture::new("web", "Namespace shop", &pick_n(2, ""));
    check_plan(
        &mut fixture,
        expect![[r#"
        hold placement
        create policy web-0 generation=1 n=2
        create web-0-snapshot (1 of 1, 0 envelopes): Namespace shop
        AwaitingScheduler"#]],
    );
    fixture.edit(&pick_n(3, ""));
    check_plan(
        &mut fixture,
        expect![[r#"
        refresh policy web-0 generation=2 n=3
        AwaitingScheduler"#]],
    );
    fixture.edit(&pick_n(3, AFFINITY));
    check_plan(
        &mut fixture,
        expect![[r#"
        retire policy web-0
        create policy web-1 generation=3 n=3
        AwaitingScheduler"#]],
    );
    check_snapshots(
        &fixture,
        expect![[r#"
        policy web-0 generation=2 n=3
        policy web-1* generation=3 n=3
        web-0-snapshot* index=0 of 1 resources=1"#]],
    );
}

#[test]
fn placement_24_missing_parts_are_created_under_the_same_index() {
    let large = "Namespace shop\nSecret shop/a size=700000\nSecret shop/b size=700000\nSecret shop/c size=700000";
    let mut fixture = ClusterFixture::new("web", large, SHOP);
    let plan = fixture.plan();
    let master = plan.writes.iter().position(|write| write_text(write).contains("web-0-snapshot")).unwrap();
    for write in &plan.writes[..=master] {
        fixture.write(write);
    }
    check_plan(
        &mut fixture,
        expect![[r#"
        create web-0-0 (more): Secret b
        create web-0-1 (more): Secret c
        AwaitingScheduler"#]],
    );
    check_snapshots(
        &fixture,
        expect![[r#"
        policy web-0* generation=1
        web-0-0 index=0 resources=1
        web-0-1 index=0 resources=1
        web-0-snapshot* index=0 of 3 resources=2"#]],
    );
}

#[test]
fn placement_25_reverted_content_gets_the_latest_label_again() {
    let mut fixture = ClusterFixture::new("web", "Namespace shop", SHOP);
    fixture.settle();
    fixture.hub.set("ConfigMap shop/cm value=1");
    let plan = fixture.plan();
    assert_eq!(write_text(&plan.writes[0]), "mark web-0-snapshot latest=false");
    fixture.write(&plan.writes[0]);
    fixture.hub.remove("ConfigMap shop/cm");
    check_plan(
        &mut fixture,
        expect![[r#"
        mark web-0-snapshot latest=true
        AwaitingScheduler"#]],
    );
}

#[test]
fn placement_48_an_external_strategy_creates_no_snapshots_and_keeps_the_existing_ones() {
    let strategy = |word: &str| SHOP.replace("}]}", &format!("}}], strategy: {{type: {word}}}}}"));
    let mut fixture = ClusterFixture::new("web", "Namespace shop", &strategy("RollingUpdate"));
    fixture.settle();
    fixture.schedule("c1", true);
    fixture.roll_out("c1", "web-0-snapshot", ALL_GOOD);
    fixture.settle();
    fixture.edit(&strategy("External"));
    fixture.settle();
    fixture.schedule("c1", true);
    fixture.settle();
    fixture.hub.set("ConfigMap shop/cm value=1");
    assert!(fixture.plan().is_idle());
    assert_eq!(fixture.plan().report.outcome, PlacementOutcome::Complete);
    assert_eq!(fixture.status().observed_resource_index, "0");
    assert_eq!(fixture.snapshots.len(), 1);
}

#[test]
fn several_latest_snapshots_stop_the_plan() {
    let mut fixture = ClusterFixture::new("web", "Namespace shop", SHOP);
    fixture.settle();
    let mut twin = fixture.snapshots[0].clone();
    twin.metadata.name = Some("web-1-snapshot".to_owned());
    twin.metadata.labels.as_mut().unwrap().insert(labels::RESOURCE_INDEX.to_owned(), "1".to_owned());
    fixture.snapshots.push(twin);
    check_plan(&mut fixture, expect![[r#"Stopped(SeveralLatest { kind: "resource snapshots", count: 2 })"#]]);
    let mut twin = fixture.policies[0].clone();
    twin.metadata.labels.as_mut().unwrap().insert(labels::POLICY_INDEX.to_owned(), "1".to_owned());
    fixture.policies.push(twin);
    check_plan(&mut fixture, expect![[r#"Stopped(SeveralLatest { kind: "policy snapshots", count: 2 })"#]]);
}

#[test]
fn unreadable_labels_stop_the_plan() {
    let mut fixture = ClusterFixture::new("web", "Namespace shop", &pick_n(2, ""));
    fixture.settle();
    let sound = fixture.clone();
    for annotation in [annotations::PLACEMENT_GENERATION, annotations::NUMBER_OF_CLUSTERS] {
        fixture = sound.clone();
        fixture.policies[0].metadata.annotations.as_mut().unwrap().insert(annotation.to_owned(), "many".to_owned());
        let snapshot = "web-0".to_owned();
        assert_eq!(
            fixture.run().report.outcome,
            PlacementOutcome::Stopped(Fault::PolicyAnnotation { snapshot, annotation })
        );
    }
    fixture = sound;
    fixture.snapshots[0].metadata.labels.as_mut().unwrap().remove(labels::RESOURCE_INDEX);
    let snapshot = "web-0-snapshot".to_owned();
    assert_eq!(fixture.run().report.outcome, PlacementOutcome::Stopped(Fault::SnapshotIndex { snapshot }));
}
