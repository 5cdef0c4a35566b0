//! Acceptance scenarios of selection, through whole plans. Test names contain the scenario's number.

use expect_test::{Expect, expect};
use fleet_api::kinds::Scope;

use super::fixture::{ALL_GOOD, ClusterFixture, Fixture, NamespacedFixture, SHOP};
use super::render::{resources_text, short_status, status_text, writes_text};
use crate::placement::{
    GroupVersion, NoRunSnapshot, PlacementOutcome, SelectionError, WantedSnapshot, snapshot_for_run,
};

fn check_plan<S: Scope>(fixture: &mut Fixture<S>, expected: Expect) {
    expected.assert_eq(&writes_text(&fixture.run()));
}

/// Simulates scheduler, rollout and members for the latest snapshot.
fn place<S: Scope>(fixture: &mut Fixture<S>) {
    fixture.settle();
    fixture.schedule("c1 c2 c3", true);
    fixture.settle();
    let master = format!("web-{}-snapshot", fixture.status().observed_resource_index);
    fixture.roll_out("c1 c2 c3", &master, ALL_GOOD);
    fixture.settle();
}

fn check_status<S: Scope>(fixture: &Fixture<S>, expected: Expect) {
    expected.assert_eq(&short_status(fixture.status()));
}

#[test]
fn placement_01_a_namespace_is_placed_with_its_content() {
    let mut fixture = ClusterFixture::new("web", "Namespace shop\nConfigMap shop/cm", SHOP);
    check_plan(
        &mut fixture,
        expect![[r#"
        hold placement
        create policy web-0 generation=1
        create web-0-snapshot (1 of 1, 0 envelopes): Namespace shop, ConfigMap cm
        AwaitingScheduler"#]],
    );
    fixture.schedule("c1 c2 c3", true);
    check_plan(&mut fixture, expect!["Undecided { step: RolloutStarted, clusters: 3 }"]);
    fixture.roll_out("c1 c2 c3", "web-0-snapshot", ALL_GOOD);
    let plan = fixture.run();
    expect!["Complete"].assert_eq(&writes_text(&plan));
    expect!["[RolloutStarted, Overridden, WorkSynchronized, Applied, Available, RolloutCompleted]"]
        .assert_eq(&format!("{:?}", plan.report.events));
    expect![[r#"
        index "0": Namespace shop, ConfigMap shop/cm
        Scheduled=True@1 SchedulingPolicyFulfilled: found 3
        RolloutStarted=True@1 RolloutStarted: All 3 cluster(s) start rolling out the latest resource
        Overridden=True@1 NoOverrideSpecified: No override rules are configured for the selected resources
        WorkSynchronized=True@1 WorkSynchronized: Work(s) are successfully created or updated in 3 target cluster(s)' namespaces
        Applied=True@1 ApplySucceeded: The selected resources are successfully applied to 3 cluster(s)
        Available=True@1 ResourceAvailable: The selected resources in 3 cluster(s) are available now
        "c1" index "0"
          Scheduled=True@1 Scheduled: picked c1
          RolloutStarted=True@1 RolloutStartedTrue: said by c1
          Overridden=True@1 OverriddenTrue: said by c1
          WorkSynchronized=True@1 WorkSynchronizedTrue: said by c1
          Applied=True@1 AppliedTrue: said by c1
          Available=True@1 AvailableTrue: said by c1
        "c2" index "0"
          Scheduled=True@1 Scheduled: picked c2
          RolloutStarted=True@1 RolloutStartedTrue: said by c2
          Overridden=True@1 OverriddenTrue: said by c2
          WorkSynchronized=True@1 WorkSynchronizedTrue: said by c2
          Applied=True@1 AppliedTrue: said by c2
          Available=True@1 AvailableTrue: said by c2
        "c3" index "0"
          Scheduled=True@1 Scheduled: picked c3
          RolloutStarted=True@1 RolloutStartedTrue: said by c3
          Overridden=True@1 OverriddenTrue: said by c3
          WorkSynchronized=True@1 WorkSynchronizedTrue: said by c3
          Applied=True@1 AppliedTrue: said by c3
          Available=True@1 AvailableTrue: said by c3"#]].assert_eq(&status_text(fixture.status()));
}

const BY_LABEL: &str =
    "{resourceSelectors: [{group: '', version: v1, kind: Namespace, labelSelector: {matchLabels: {team: a}}}]}";

#[test]
fn placement_02_03_04_labels_select_and_deselect() {
    let mut fixture = ClusterFixture::new("web", "Namespace shop\nConfigMap shop/cm", BY_LABEL);
    place(&mut fixture);
    check_status(
        &fixture,
        expect![[r#"
            index "0": nothing
            Scheduled=True@1 RolloutStarted=True@1 Overridden=True@1 WorkSynchronized=True@1 Applied=True@1 Available=True@1
            "c1" "0": Scheduled=True@1 RolloutStarted=True@1 Overridden=True@1 WorkSynchronized=True@1 Applied=True@1 Available=True@1
            "c2" "0": Scheduled=True@1 RolloutStarted=True@1 Overridden=True@1 WorkSynchronized=True@1 Applied=True@1 Available=True@1
            "c3" "0": Scheduled=True@1 RolloutStarted=True@1 Overridden=True@1 WorkSynchronized=True@1 Applied=True@1 Available=True@1"#]],
    );
    fixture.hub.set("Namespace shop team=a");
    place(&mut fixture);
    check_status(
        &fixture,
        expect![[r#"
        index "1": Namespace shop, ConfigMap shop/cm
        Scheduled=True@1 RolloutStarted=True@1 Overridden=True@1 WorkSynchronized=True@1 Applied=True@1 Available=True@1
        "c1" "1": Scheduled=True@1 RolloutStarted=True@1 Overridden=True@1 WorkSynchronized=True@1 Applied=True@1 Available=True@1
        "c2" "1": Scheduled=True@1 RolloutStarted=True@1 Overridden=True@1 WorkSynchronized=True@1 Applied=True@1 Available=True@1
        "c3" "1": Scheduled=True@1 RolloutStarted=True@1 Overridden=True@1 WorkSynchronized=True@1 Applied=True@1 Available=True@1"#]],
    );
    fixture.hub.set("Namespace shop team=b");
    place(&mut fixture);
    check_status(
        &fixture,
        expect![[r#"
            index "2": nothing
            Scheduled=True@1 RolloutStarted=True@1 Overridden=True@1 WorkSynchronized=True@1 Applied=True@1 Available=True@1
            "c1" "2": Scheduled=True@1 RolloutStarted=True@1 Overridden=True@1 WorkSynchronized=True@1 Applied=True@1 Available=True@1
            "c2" "2": Scheduled=True@1 RolloutStarted=True@1 Overridden=True@1 WorkSynchronized=True@1 Applied=True@1 Available=True@1
            "c3" "2": Scheduled=True@1 RolloutStarted=True@1 Overridden=True@1 WorkSynchronized=True@1 Applied=True@1 Available=True@1"#]],
    );
}

#[test]
fn placement_05_every_change_inside_makes_a_snapshot() {
    let mut fixture = ClusterFixture::new("web", "Namespace shop", SHOP);
    fixture.settle();
    let mut indices = Vec::new();
    for step in ["ConfigMap shop/cm value=1", "ConfigMap shop/cm value=2"] {
        fixture.hub.set(step);
        fixture.settle();
        indices.push(fixture.status().observed_resource_index.clone());
    }
    fixture.hub.remove("ConfigMap shop/cm");
    fixture.settle();
    indices.push(fixture.status().observed_resource_index.clone());
    assert_eq!(indices, ["1", "2", "3"]);
}

#[test]
fn placement_06_reserved_namespaces_are_refused() {
    for name in ["fleet-system", "kube-system"] {
        let mut fixture = ClusterFixture::new("web", &format!("Namespace {name}"), &SHOP.replace("shop", name));
        let plan = fixture.run();
        assert_eq!(writes_text(&plan).lines().next(), Some("hold placement"));
        assert!(fixture.policies.is_empty() && fixture.snapshots.is_empty());
        assert_eq!(
            status_text(fixture.status()),
            format!(
                "index \"\": nothing\nScheduled=False@1 InvalidResourceSelectors: The resource selectors are invalid: failed to process the request due to a client error: invalid clusterRresourcePlacement web: namespace {name} is not allowed to propagate"
            )
        );
        fixture.placement.metadata.deletion_timestamp =
            Some(serde_json::from_value(serde_json::json!(fixture.now)).unwrap());
        check_plan(&mut fixture, expect!["release placement\nDeleting"]);
    }
}

#[test]
fn placement_07_a_duplicate_is_refused_until_it_is_gone() {
    let twice = "{resourceSelectors: [{group: '', version: v1, kind: Namespace, name: shop}, {group: '', version: v1, kind: Namespace, name: shop}]}";
    let mut fixture = ClusterFixture::new("web", "Namespace shop", twice);
    fixture.settle();
    expect![[r#"
        index "": nothing
        Scheduled=False@1 InvalidResourceSelectors: The resource selectors are invalid: failed to process the request due to a client error: found duplicate resource {Group: Version:v1 Kind:Namespace Name:shop Namespace: Envelope:<nil>}"#]].assert_eq(&status_text(fixture.status()));
    fixture.edit(SHOP);
    place(&mut fixture);
    check_status(
        &fixture,
        expect![[r#"
        index "0": Namespace shop
        Scheduled=True@2 RolloutStarted=True@2 Overridden=True@2 WorkSynchronized=True@2 Applied=True@2 Available=True@2
        "c1" "0": Scheduled=True@2 RolloutStarted=True@2 Overridden=True@2 WorkSynchronized=True@2 Applied=True@2 Available=True@2
        "c2" "0": Scheduled=True@2 RolloutStarted=True@2 Overridden=True@2 WorkSynchronized=True@2 Applied=True@2 Available=True@2
        "c3" "0": Scheduled=True@2 RolloutStarted=True@2 Overridden=True@2 WorkSynchronized=True@2 Applied=True@2 Available=True@2"#]],
    );
}

#[test]
fn placement_08_objects_that_controllers_create_are_skipped() {
    let spec = "{resourceSelectors: [{group: '', version: v1, kind: ConfigMap, name: kube-root-ca.crt}]}";
    let mut fixture = NamespacedFixture::new("shop/web", "ConfigMap shop/kube-root-ca.crt", spec);
    place(&mut fixture);
    check_status(
        &fixture,
        expect![[r#"
            index "0": nothing
            Scheduled=True@1 RolloutStarted=True@1 Overridden=True@1 WorkSynchronized=True@1 Applied=True@1 Available=True@1
            "c1" "0": Scheduled=True@1 RolloutStarted=True@1 Overridden=True@1 WorkSynchronized=True@1 Applied=True@1 Available=True@1
            "c2" "0": Scheduled=True@1 RolloutStarted=True@1 Overridden=True@1 WorkSynchronized=True@1 Applied=True@1 Available=True@1
            "c3" "0": Scheduled=True@1 RolloutStarted=True@1 Overridden=True@1 WorkSynchronized=True@1 Applied=True@1 Available=True@1"#]],
    );
}

#[test]
fn placement_09_volume_claims_are_not_placed_if_workloads_run_on_the_hub() {
    let hub = "Namespace shop\nPersistentVolumeClaim shop/disk\nRole shop/r\nConfigMap shop/c\nSecret shop/s";
    let mut fixture = ClusterFixture::new("web", hub, SHOP);
    fixture.settle();
    expect!["Namespace shop, Secret shop/s, ConfigMap shop/c, PersistentVolumeClaim shop/disk, Role shop/r"]
        .assert_eq(&resources_text(&fixture.status().selected_resources));
    fixture.propagation.workloads_on_hub = true;
    fixture.settle();
    expect!["Namespace shop, Secret shop/s, ConfigMap shop/c, Role shop/r"]
        .assert_eq(&resources_text(&fixture.status().selected_resources));
}

#[test]
fn audit_19_selecting_secrets_is_refused_if_they_are_not_placed() {
    let hub = "Namespace shop\nConfigMap shop/c\nSecret shop/s";
    let mut fixture = ClusterFixture::new("web", hub, SHOP);
    fixture.propagation.secrets_stay = true;
    fixture.settle();
    expect!["Namespace shop, ConfigMap shop/c"].assert_eq(&resources_text(&fixture.status().selected_resources));

    let spec = "{resourceSelectors: [{group: '', version: v1, kind: Secret, name: s}]}";
    let mut fixture = NamespacedFixture::new("shop/web", hub, spec);
    fixture.propagation.secrets_stay = true;
    fixture.settle();
    let scheduled = &fixture.status().conditions[0];
    assert_eq!(
        (scheduled.reason.as_str(), scheduled.message.as_str()),
        (
            "InvalidResourceSelectors",
            "The resource selectors are invalid: failed to process the request due to a client error: invalid placement \
             shop/web: cannot select Secrets, because the hub agent is not allowed to read them (--place-secrets=false)"
        )
    );
}

fn with_selectors(more: &str) -> String {
    let scope = "NamespaceWithResourceSelectors";
    format!(
        "{{resourceSelectors: [{{group: '', version: v1, kind: Namespace, name: shop, selectionScope: {scope}}}{more}]}}"
    )
}

#[test]
fn placement_10_11_12_a_namespace_with_chosen_content() {
    let hub = "Namespace shop\nConfigMap shop/a\nConfigMap shop/b\nConfigMap bank/a\nNamespace bank";
    for (more, expected) in [
        (", {group: '', version: v1, kind: ConfigMap, name: a}", "Namespace shop, ConfigMap shop/a"),
        ("", "Namespace shop"),
        (", {group: rbac.authorization.k8s.io, version: v1, kind: ClusterRole, name: none}", "Namespace shop"),
    ] {
        let mut fixture = ClusterFixture::new("web", hub, &with_selectors(more));
        fixture.settle();
        assert_eq!(resources_text(&fixture.status().selected_resources), expected);
    }
}

#[test]
fn placement_13_the_chosen_namespace_must_exist() {
    for hub in ["", "Namespace shop deleting"] {
        let mut fixture = ClusterFixture::new("web", hub, &with_selectors(""));
        check_plan(
            &mut fixture,
            expect![[r#"
                hold placement
                Refused(Selectors(NoNamespace { placement: "web" }))"#]],
        );
    }
}

#[test]
fn placement_14_a_namespace_alone() {
    let only = SHOP.replace("name: shop", "name: shop, selectionScope: NamespaceOnly");
    let mut fixture = ClusterFixture::new("web", "Namespace shop\nConfigMap shop/cm", &only);
    fixture.settle();
    expect!["Namespace shop"].assert_eq(&resources_text(&fixture.status().selected_resources));
    fixture.hub.set("ConfigMap shop/cm value=2");
    assert!(fixture.plan().is_idle());
}

#[test]
fn placement_15_objects_created_by_workloads_on_the_hub_are_not_selected() {
    let hub = "Namespace shop\nDeployment shop/d\nReplicaSet shop/d-1 owned\nControllerRevision shop/s-1 owned\nPod shop/p owned\nJob shop/j";
    let mut fixture = ClusterFixture::new("web", hub, SHOP);
    fixture.settle();
    expect!["Namespace shop, Deployment shop/d, Job shop/j"]
        .assert_eq(&resources_text(&fixture.status().selected_resources));
}

#[test]
fn placement_57_envelopes_are_selected_as_themselves_and_counted() {
    let mut fixture = ClusterFixture::new("web", "Namespace shop\nResourceEnvelope shop/e", SHOP);
    check_plan(
        &mut fixture,
        expect![[r#"
        hold placement
        create policy web-0 generation=1
        create web-0-snapshot (1 of 1, 1 envelopes): Namespace shop, ResourceEnvelope e
        AwaitingScheduler"#]],
    );
    expect!["Namespace shop, ResourceEnvelope shop/e"].assert_eq(&resources_text(&fixture.status().selected_resources));
}

#[test]
fn placement_82_a_namespaced_placement_selects_nothing_outside() {
    for term in [
        "{group: '', version: v1, kind: Namespace, name: shop}",
        "{group: rbac.authorization.k8s.io, version: v1, kind: ClusterRole, name: r}",
    ] {
        let spec = format!("{{resourceSelectors: [{term}]}}");
        let mut fixture = NamespacedFixture::new("shop/web", "Namespace shop\nClusterRole r", &spec);
        fixture.settle();
        let condition = &fixture.status().conditions[0];
        assert_eq!(
            (condition.type_.as_str(), condition.reason.as_str()),
            ("ResourcePlacementScheduled", "InvalidResourceSelectors")
        );
        assert!(fixture.policies.is_empty());
    }
}

#[test]
fn unknown_objects_leave_everything_as_it_is() {
    let mut fixture = ClusterFixture::new("web", "Namespace shop", SHOP);
    place(&mut fixture);
    fixture.hub.incomplete.insert("Widget".to_owned());
    fixture.hub.remove("Namespace shop");
    fixture.hub.incomplete.insert("Namespace".to_owned());
    check_plan(&mut fixture, expect![[r#"AwaitingSync { resource: "/v1, Resource=namespaces" }"#]]);
    assert!(fixture.plan().is_idle());
}

#[test]
fn placed_resources_of_an_undiscoverable_api_stay() {
    let mut fixture = ClusterFixture::new("web", "Namespace shop\nConfigMap shop/cm\nWidget shop/w", SHOP);
    place(&mut fixture);
    let before = fixture.status().selected_resources.len();
    fixture.hub.hush("example.com", "v1");
    let said = r#"AwaitingDiscovery { part: GroupVersion { group: "example.com", version: "v1" } }"#;
    let check = |fixture: &ClusterFixture, text: &str| {
        let plan = fixture.plan();
        assert!(plan.is_idle(), "{plan:?}");
        assert_eq!(format!("{:?}", plan.report.outcome), said, "{text}");
        assert_eq!(plan.report.events.len(), 1, "{text}");
    };
    check(&fixture, "the widget is not seen");
    fixture.hub.set("ConfigMap shop/other");
    check(&fixture, "nor is anything else frozen without it");
    assert_eq!(
        snapshot_for_run(&fixture.observe(), WantedSnapshot::Current),
        Err(NoRunSnapshot::Selection(SelectionError::Undiscovered { part: GroupVersion::new("example.com", "v1") })),
        "and no run takes it away"
    );
    fixture.hub.speak();
    place(&mut fixture);
    assert_eq!(fixture.status().selected_resources.len(), before + 1);
}

#[test]
fn an_undiscovered_api_delays_only_placements_that_select_from_it() {
    let mut fixture = ClusterFixture::new("web", "Namespace shop\nConfigMap shop/cm", SHOP);
    fixture.hub.hush("example.com", "v1");
    place(&mut fixture);
    fixture.hub.set("ConfigMap shop/other");
    place(&mut fixture);
    assert_eq!(fixture.status().selected_resources.len(), 3);
}

#[test]
fn a_kind_that_an_undiscoverable_api_may_have_is_not_called_unknown() {
    let spec = "{resourceSelectors: [{group: example.com, version: v1, kind: Widget}]}";
    let mut fixture = NamespacedFixture::new("shop/web", "Widget shop/w", spec);
    fixture.hub.hush("example.com", "v1");
    let plan = fixture.run();
    assert!(matches!(plan.report.outcome, PlacementOutcome::AwaitingDiscovery { .. }), "{:?}", plan.report.outcome);
    assert!(plan.status.is_none() && plan.report.events.is_empty(), "nothing was placed yet");
    fixture.hub.speak();
    fixture.settle();
    assert_eq!(fixture.status().selected_resources.len(), 1);
}
