//! Acceptance scenarios of Works. Names have the scenario's number.

use expect_test::{Expect, expect};
use fleet_api::conditions::binding::BindingRolloutStarted;
use fleet_api::kinds::Scope;
use fleet_api::types::{BindingState, EmbeddedObject};
use fleet_api::well_known::{annotations, labels};
use serde_json::json;

use super::fixture::{ClusterWorld, NamespacedWorld, WorkgenFixture};
use super::render::{plan_text, short_status, works_text};
use crate::overrides::tests::fixture::{bare, envelope};
use crate::workgen::{ReportBack, RolloutStart, SyncOutcome};

pub(super) fn check<S: Scope>(fixture: &mut WorkgenFixture<S>, expected: Expect) {
    expected.assert_eq(&plan_text(&fixture.run()));
}

pub(super) fn shop() -> Vec<EmbeddedObject> {
    vec![bare("Namespace shop"), bare("ConfigMap shop/settings")]
}

#[test]
fn placement_02_an_empty_selection_makes_an_empty_work() {
    let mut fixture = ClusterWorld::with("web", &[]);
    check(
        &mut fixture,
        expect![[r#"
        hold binding
        create web-work: nothing
        status (deferrable)
        AwaitingMember { step: Applied, work: "web-work" }"#]],
    );
    fixture.report_all("Applied Available");
    check(&mut fixture, expect!["status\nComplete"]);
}

#[test]
fn placement_04_deselected_resources_are_removed_from_the_work() {
    let mut fixture = ClusterWorld::with("web", &shop());
    fixture.settle();
    fixture.freeze(1, &[&[]]);
    fixture.bind(1);
    check(
        &mut fixture,
        expect![[r#"
        change web-work: nothing
        status (deferrable)
        AwaitingMember { step: Applied, work: "web-work" }"#]],
    );
    assert_eq!(fixture.work("web-work").spec.manifests(), []);
}

#[test]
fn placement_18_each_snapshot_of_a_group_has_its_work() {
    let mut fixture = ClusterWorld::new("web");
    fixture.freeze(0, &[&[bare("Namespace shop")], &[bare("Secret shop/a")], &[bare("Secret shop/b")]]);
    fixture.bind(0);
    check(
        &mut fixture,
        expect![[r#"
        hold binding
        create web-work: Namespace shop
        create web-0: Secret shop/a
        create web-1: Secret shop/b
        status (deferrable)
        AwaitingMember { step: Applied, work: "web-0" }"#]],
    );
    fixture.freeze(1, &[&[bare("Namespace shop")]]);
    fixture.bind(1);
    check(
        &mut fixture,
        expect![[r#"
        change web-work: Namespace shop
        delete web-0
        delete web-1
        status (deferrable)
        AwaitingMember { step: Applied, work: "web-work" }"#]],
    );
}

#[test]
fn works_have_the_labels_by_which_they_are_found() {
    let mut fixture = NamespacedWorld::new("shop/web");
    let content = [bare("ConfigMap shop/settings"), envelope("ResourceEnvelope shop/env", &[bare("Secret shop/a")])];
    fixture.freeze(3, &[&content]);
    fixture.bind(3);
    fixture.settle();
    expect![[r#"
        [
          {
            "apiVersion": "placement.kubernetes-fleet.io/v1beta1",
            "kind": "Work",
            "metadata": {
              "annotations": {
                "kubernetes-fleet.io/parent-cluster-resource-override-snapshot-hash": "74234e98afe7498fb5daf1f36ac2d78acc339464f950703b8c019892f982b90b",
                "kubernetes-fleet.io/parent-resource-override-snapshot-hash": "74234e98afe7498fb5daf1f36ac2d78acc339464f950703b8c019892f982b90b",
                "kubernetes-fleet.io/parent-resource-snapshot-name": "web-3-snapshot"
              },
              "finalizers": [
                "kubernetes-fleet.io/work-cleanup"
              ],
              "generation": 1,
              "labels": {
                "kubernetes-fleet.io/parent-CRP": "web",
                "kubernetes-fleet.io/parent-placement-namespace": "shop",
                "kubernetes-fleet.io/parent-resource-binding": "web-c1-01234567",
                "kubernetes-fleet.io/parent-resource-snapshot-index": "3"
              },
              "name": "shop.web-work",
              "namespace": "fleet-member-c1"
            },
            "spec": {
              "workload": {
                "manifests": [
                  {
                    "apiVersion": "v1",
                    "kind": "ConfigMap",
                    "metadata": {
                      "name": "settings",
                      "namespace": "shop"
                    }
                  }
                ]
              }
            }
          },
          {
            "apiVersion": "placement.kubernetes-fleet.io/v1beta1",
            "kind": "Work",
            "metadata": {
              "annotations": {
                "kubernetes-fleet.io/parent-cluster-resource-override-snapshot-hash": "74234e98afe7498fb5daf1f36ac2d78acc339464f950703b8c019892f982b90b",
                "kubernetes-fleet.io/parent-resource-override-snapshot-hash": "74234e98afe7498fb5daf1f36ac2d78acc339464f950703b8c019892f982b90b",
                "kubernetes-fleet.io/parent-resource-snapshot-name": "web-3-snapshot"
              },
              "finalizers": [
                "kubernetes-fleet.io/work-cleanup"
              ],
              "generation": 1,
              "labels": {
                "kubernetes-fleet.io/envelope-name": "env",
                "kubernetes-fleet.io/envelope-namespace": "shop",
                "kubernetes-fleet.io/envelope-work": "ResourceEnvelope",
                "kubernetes-fleet.io/parent-CRP": "web",
                "kubernetes-fleet.io/parent-placement-namespace": "shop",
                "kubernetes-fleet.io/parent-resource-binding": "web-c1-01234567",
                "kubernetes-fleet.io/parent-resource-snapshot-index": "3"
              },
              "name": "shop.web-work-envelope-ddcdfede78dbc05d",
              "namespace": "fleet-member-c1"
            },
            "spec": {
              "workload": {
                "manifests": [
                  {
                    "apiVersion": "v1",
                    "kind": "Secret",
                    "metadata": {
                      "name": "a",
                      "namespace": "shop"
                    }
                  }
                ]
              }
            }
          }
        ]"#]]
    .assert_eq(&serde_json::to_string_pretty(&fixture.works).unwrap());
}

#[test]
fn a_work_whose_objects_stay_is_annotated_before_its_deletion() {
    let mut fixture = ClusterWorld::with("web", &shop());
    fixture.settle();
    fixture.member_is_stuck = true;
    let notes = fixture.binding.metadata.annotations.get_or_insert_default();
    notes.insert(annotations::DELETE_PROPAGATION.to_owned(), "Abandon".to_owned());
    assert!(fixture.plan().is_idle(), "a binding that stays keeps its Works as they are");
    fixture.delete();
    check(
        &mut fixture,
        expect![[r#"
        abandon web-work
        delete web-work
        release binding
        Deleting"#]],
    );
    assert!(fixture.plan().is_idle());
}

#[test]
fn placement_45_a_deleted_binding_is_released_once_its_works_are_deleted() {
    let mut fixture = ClusterWorld::with("web", &shop());
    fixture.settle();
    fixture.member_is_stuck = true;
    fixture.delete();
    check(
        &mut fixture,
        expect![[r#"
        delete web-work
        release binding
        Deleting"#]],
    );
    expect!["-web-work index=0: Namespace shop, ConfigMap shop/settings"].assert_eq(&works_text(&fixture));
    assert!(fixture.plan().is_idle());
}

#[test]
fn placement_46_a_binding_waits_for_a_work_that_is_being_deleted() {
    let mut fixture = ClusterWorld::with("web", &shop());
    fixture.settle();
    fixture.member_is_stuck = true;
    fixture.delete();
    fixture.settle();
    let left = fixture.works.clone();

    let mut fixture = ClusterWorld::with("web", &shop());
    fixture.binding.metadata.name = Some("web-c1-76543210".to_owned());
    fixture.works = left;
    check(
        &mut fixture,
        expect![[r#"
            hold binding
            status (deferrable)
            Failed(WorkStillDeleting { work: "web-work" })"#]],
    );
    expect!["RolloutStarted=True Overridden=True WorkSynchronized=False"].assert_eq(&short_status(fixture.status()));
    fixture.works.clear();
    check(
        &mut fixture,
        expect![[r#"
            create web-work: Namespace shop, ConfigMap shop/settings
            status (deferrable)
            AwaitingMember { step: Applied, work: "web-work" }"#]],
    );
}

#[test]
fn a_work_of_another_binding_is_not_written() {
    let mut fixture = ClusterWorld::with("web", &shop());
    fixture.settle();
    fixture.binding.metadata.name = Some("web-c1-76543210".to_owned());
    check(
        &mut fixture,
        expect![[r#"
            status (deferrable)
            Failed(WorkOfAnother { work: "web-work", binding: "web-c1-01234567" })"#]],
    );
    fixture.delete();
    check(
        &mut fixture,
        expect![[r#"
        release binding
        Deleting"#]],
    );
    assert_eq!(fixture.works.len(), 1);
}

/// The scheduler creates bindings with the work generator's finalizer. For a binding without it, as of other releases,
/// nothing is written before it is bound.
#[test]
fn placement_53_nothing_is_written_for_a_scheduled_binding() {
    let mut fixture = ClusterWorld::new("web");
    fixture.freeze(0, &[&shop()]);
    check(&mut fixture, expect!["NotBound"]);
}

#[test]
fn nothing_happens_before_rollout_started_is_set() {
    let mut fixture = ClusterWorld::with("web", &shop());
    fixture.binding.status = None;
    check(&mut fixture, expect!["hold binding\nAwaitingRollout"]);
    fixture.set_rollout_started(&BindingRolloutStarted::HeldBack);
    check(
        &mut fixture,
        expect![[r#"
            create web-work: Namespace shop, ConfigMap shop/settings
            status (deferrable)
            AwaitingMember { step: Applied, work: "web-work" }"#]],
    );
}

#[test]
fn a_rolling_update_may_imply_rollout_started_by_the_latest_snapshot() {
    let mut fixture = ClusterWorld::with("web", &shop());
    fixture.binding.status = None;
    fixture.start = RolloutStart::ImpliedByBinding;
    fixture.settle();
    expect!["RolloutStarted=True Overridden=True WorkSynchronized=True Applied=False"]
        .assert_eq(&short_status(fixture.status()));
    // Only the latest snapshot implies it.
    fixture.freeze(1, &[&[]]);
    fixture.change_binding(|binding| binding.spec.scheduling_policy_snapshot_name = "web-1".to_owned());
    check(&mut fixture, expect!["AwaitingRollout"]);
}

#[test]
fn placement_54_no_work_before_the_group_is_complete() {
    let mut fixture = ClusterWorld::new("web");
    fixture.freeze(0, &[&shop(), &[bare("Secret shop/a")], &[bare("Secret shop/b")]]);
    fixture.bind(0);
    let missing = fixture.snapshots.pop().unwrap();
    check(
        &mut fixture,
        expect![[r#"
            hold binding
            status (deferrable)
            Failed(IncompleteGroup { found: 2, wanted: 3 })"#]],
    );
    let overridden = &fixture.status().conditions[1];
    expect!["Failed to apply the override rules on the resources: not all resource snapshot in the same index group are created: found 2 of 3"]
        .assert_eq(&overridden.message);
    expect!["RolloutStarted=True Overridden=False"].assert_eq(&short_status(fixture.status()));
    fixture.snapshots.push(missing);
    fixture.settle();
    expect![[r#"
        web-0 index=0: Secret shop/a
        web-1 index=0: Secret shop/b
        web-work index=0: Namespace shop, ConfigMap shop/settings"#]]
    .assert_eq(&works_text(&fixture));
}

#[test]
fn placement_55_an_unscheduled_binding_is_kept_up_to_date_until_it_is_deleted() {
    let mut fixture = ClusterWorld::with("web", &shop());
    fixture.settle();
    fixture.change_binding(|binding| binding.spec.state = BindingState::Unscheduled);
    fixture.report_all("Applied Available");
    check(&mut fixture, expect!["status\nComplete"]);
    assert_eq!(fixture.works.len(), 1);
}

/// A run may never have come to it before its cluster left.
#[test]
fn an_unscheduled_binding_that_was_never_bound_is_not_written() {
    let mut fixture = ClusterWorld::new("web");
    fixture.freeze(0, &[&shop()]);
    fixture.change_binding(|binding| binding.spec.state = BindingState::Unscheduled);
    assert_eq!(fixture.binding.spec.resource_snapshot_name, "");
    check(&mut fixture, expect!["NotBound"]);
}

#[test]
fn placement_42_56_works_outlive_their_snapshot() {
    let mut fixture = ClusterWorld::with("web", &shop());
    fixture.settle();
    fixture.freeze(1, &[&[]]);
    fixture.forget(0);
    fixture.set_rollout_started(&BindingRolloutStarted::HeldBack);
    fixture.report_all("Applied Available");
    check(&mut fixture, expect!["status\nComplete"]);
    // A Work of an older release does not name the snapshot.
    let notes = fixture.work("web-work").metadata.annotations.as_mut().unwrap();
    notes.remove(annotations::PARENT_RESOURCE_SNAPSHOT);
    assert!(fixture.plan().is_idle());
    // The apply strategy may still change.
    fixture.apply_strategy("{type: ServerSideApply}");
    check(
        &mut fixture,
        expect![[r#"
            change strategies of web-work
            status (deferrable)
            AwaitingMember { step: Applied, work: "web-work" }"#]],
    );
}

#[test]
fn a_missing_snapshot_is_reported_if_no_works_were_made_from_it() {
    let mut fixture = ClusterWorld::with("web", &shop());
    fixture.forget(0);
    check(&mut fixture, expect!["hold binding\nstatus (deferrable)\nFailed(MasterMissing)"]);
    expect!["Failed to apply the override rules on the resources: the master resource snapshot is not found"]
        .assert_eq(&fixture.status().conditions[1].message);
    fixture.freeze(0, &[&shop()]);
    fixture.settle();
    fixture.bind(1);
    check(&mut fixture, expect!["status (deferrable)\nFailed(MasterMissing)"]);
    expect!["web-work index=0: Namespace shop, ConfigMap shop/settings"].assert_eq(&works_text(&fixture));
}

#[test]
fn placement_61_a_deleted_cluster_is_ignored() {
    let mut fixture = ClusterWorld::with("web", &shop());
    fixture.member = None;
    check(&mut fixture, expect!["ClusterGone"]);
    fixture.member = ClusterWorld::new("web").member;
    fixture.settle();
    fixture.member = None;
    fixture.delete();
    check(
        &mut fixture,
        expect![[r#"
        delete web-work
        release binding
        Deleting"#]],
    );
}

#[test]
fn works_of_a_leaving_member_are_not_deleted() {
    let mut fixture = ClusterWorld::with("web", &shop());
    fixture.settle();
    fixture.member = None;
    fixture.leaving = true;
    fixture.delete();
    check(
        &mut fixture,
        expect![[r#"
        release binding
        Deleting"#]],
    );
}

#[test]
fn placement_81_works_of_both_kinds_of_placements_have_different_names() {
    let mut namespaced = NamespacedWorld::with("x/a", &[bare("ConfigMap x/settings")]);
    namespaced.settle();
    expect!["x.a-work index=0: ConfigMap x/settings"].assert_eq(&works_text(&namespaced));
    let mut cluster = ClusterWorld::with("a", &[]);
    cluster.settle();
    expect!["a-work index=0: nothing"].assert_eq(&works_text(&cluster));
}

#[test]
fn a_work_is_written_only_when_its_sources_change() {
    let mut fixture = ClusterWorld::with("web", &shop());
    fixture.settle();
    // A new generation of the binding alone changes no Work.
    fixture.change_binding(|binding| binding.spec.scheduling_policy_snapshot_name = "web-1".to_owned());
    fixture.set_rollout_started(&BindingRolloutStarted::Started);
    let plan = fixture.run();
    assert_eq!(plan.writes, []);
    // A manual change of a Work stays until the Work is written again.
    fixture.work("web-work").spec.workload = None;
    fixture.work("web-work").metadata.labels.as_mut().unwrap().insert("mine".to_owned(), "too".to_owned());
    assert!(fixture.plan().is_idle());
    fixture.freeze(1, &[&shop()]);
    fixture.bind(1);
    fixture.settle();
    expect!["web-work index=1: Namespace shop, ConfigMap shop/settings"].assert_eq(&works_text(&fixture));
    assert_eq!(fixture.work("web-work").metadata.labels.as_ref().unwrap()["mine"], "too");
    // A deleted Work is created again.
    fixture.works.clear();
    fixture.settle();
    assert_eq!(fixture.works.len(), 1);
}

#[test]
fn an_apply_strategy_reaches_every_work_and_defaults_are_no_change() {
    let mut fixture =
        ClusterWorld::with("web", &[bare("Namespace shop"), envelope("ClusterResourceEnvelope env", &[])]);
    fixture.apply_strategy("{type: ServerSideApply, serverSideApplyConfig: {force: true}}");
    fixture.settle();
    fixture.apply_strategy("{type: ClientSideApply}");
    let plan = fixture.run();
    assert_eq!(plan.writes.len(), 2);
    let strategy = fixture.works[0].spec.apply_strategy.clone().unwrap();
    assert_eq!(serde_json::to_value(strategy).unwrap(), json!({"type": "ClientSideApply"}));
    for work in &mut fixture.works {
        work.spec.apply_strategy = Some(crate::overrides::tests::fixture::apply_strategy(
            "{type: ClientSideApply, comparisonOption: PartialComparison, whenToApply: Always, whenToTakeOver: Always}",
        ));
    }
    assert!(fixture.plan().is_idle(), "the server's defaults are no difference");
}

#[test]
fn works_have_the_report_back_strategy_of_the_placement() {
    let mirror: fleet_api::types::ReportBackStrategy =
        serde_json::from_value(json!({"type": "Mirror", "destination": "WorkAPI"})).unwrap();
    let mut fixture = ClusterWorld::with("web", &shop());
    fixture.report_back = ReportBack::As(Some(mirror));
    fixture.settle();
    assert_eq!(fixture.works[0].spec.report_back_strategy, Some(mirror));
    fixture.report_back = ReportBack::Unknown;
    fixture.freeze(1, &[&shop()]);
    fixture.bind(1);
    fixture.settle();
    assert_eq!(fixture.works[0].spec.report_back_strategy, Some(mirror), "the placement is unknown");
    fixture.report_back = ReportBack::As(Some(serde_json::from_value(json!({"type": "Disabled"})).unwrap()));
    check(
        &mut fixture,
        expect![[r#"
            change strategies of web-work
            AwaitingMember { step: Applied, work: "web-work" }"#]],
    );
    assert_eq!(fixture.works[0].spec.report_back_strategy, None);
}

#[test]
fn the_bytes_of_a_manifest_are_not_changed() {
    let text = r#"{"apiVersion":"v1","data":{"float":1.50,"html":"<&>","nothing":null,"text":"a\u2028b"},"kind":"ConfigMap","metadata":{"name":"settings","namespace":"shop"}}"#;
    let object = EmbeddedObject(serde_json::from_str(text).unwrap());
    let wrapped = envelope("ResourceEnvelope shop/env", std::slice::from_ref(&object));
    let mut fixture = ClusterWorld::with("web", &[object.clone(), wrapped]);
    fixture.settle();
    for work in &fixture.works {
        assert_eq!(serde_json::to_vec(work.spec.manifests()).unwrap(), serde_json::to_vec(&[&object]).unwrap());
    }
}

#[test]
fn a_snapshot_that_cannot_be_read_is_named() {
    let mut fixture = ClusterWorld::with("web", &shop());
    fixture.snapshots[0].metadata.labels.as_mut().unwrap().remove(labels::RESOURCE_INDEX);
    let plan = fixture.run();
    let SyncOutcome::Failed(error) = plan.report.outcome else { panic!("{:?}", plan.report) };
    expect![[r#"resource snapshot "web-0-snapshot" does not say which place in its group it has"#]]
        .assert_eq(&error.to_string());
    let mut fixture = ClusterWorld::with("web", &[EmbeddedObject(json!("text"))]);
    let plan = fixture.run();
    let SyncOutcome::Failed(error) = plan.report.outcome else { panic!("{:?}", plan.report) };
    expect![[r#"resource 0 of snapshot "web-0-snapshot" is no object of any kind"#]].assert_eq(&error.to_string());
}
