//! Acceptance scenarios of the Works that there are. Names carry the scenario's number.

use expect_test::{Expect, expect};
use fleet_api::conditions::binding::BindingRolloutStarted;
use fleet_api::kinds::Scope;
use fleet_api::types::{BindingState, EmbeddedObject};
use fleet_api::well_known::{annotations, labels};
use serde_json::json;

use super::fixture::{ClusterWorld, NamespacedWorld, World};
use super::render::{plan_text, short_status, works_text};
use crate::overrides::tests::fixture::{bare, envelope};
use crate::workgen::{Outcome, ReportBack, Start};

pub(super) fn check<S: Scope>(world: &mut World<S>, expected: Expect) {
    expected.assert_eq(&plan_text(&world.run()));
}

pub(super) fn shop() -> Vec<EmbeddedObject> {
    vec![bare("Namespace shop"), bare("ConfigMap shop/settings")]
}

#[test]
fn placement_02_an_empty_selection_makes_an_empty_work() {
    let mut world = ClusterWorld::with("web", &[]);
    check(
        &mut world,
        expect![[r#"
        hold binding
        create web-work: nothing
        status (interim)
        AwaitingMember { step: Applied, work: "web-work" }"#]],
    );
    world.all_say("Applied Available");
    check(&mut world, expect!["status\nComplete"]);
}

#[test]
fn placement_04_what_is_no_longer_selected_leaves_the_work() {
    let mut world = ClusterWorld::with("web", &shop());
    world.settle();
    world.freeze(1, &[&[]]);
    world.bind(1);
    check(
        &mut world,
        expect![[r#"
        change web-work: nothing
        status (interim)
        AwaitingMember { step: Applied, work: "web-work" }"#]],
    );
    assert_eq!(world.work("web-work").spec.manifests(), []);
}

#[test]
fn placement_18_each_snapshot_of_a_group_has_its_work() {
    let mut world = ClusterWorld::new("web");
    world.freeze(0, &[&[bare("Namespace shop")], &[bare("Secret shop/a")], &[bare("Secret shop/b")]]);
    world.bind(0);
    check(
        &mut world,
        expect![[r#"
        hold binding
        create web-work: Namespace shop
        create web-0: Secret shop/a
        create web-1: Secret shop/b
        status (interim)
        AwaitingMember { step: Applied, work: "web-0" }"#]],
    );
    world.freeze(1, &[&[bare("Namespace shop")]]);
    world.bind(1);
    check(
        &mut world,
        expect![[r#"
        change web-work: Namespace shop
        delete web-0
        delete web-1
        status (interim)
        AwaitingMember { step: Applied, work: "web-work" }"#]],
    );
}

#[test]
fn works_carry_the_marks_by_which_they_are_found() {
    let mut world = NamespacedWorld::new("shop/web");
    let content = [bare("ConfigMap shop/settings"), envelope("ResourceEnvelope shop/env", &[bare("Secret shop/a")])];
    world.freeze(3, &[&content]);
    world.bind(3);
    world.settle();
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
    .assert_eq(&serde_json::to_string_pretty(&world.works).unwrap());
}

#[test]
fn what_shall_stay_on_the_member_is_noted_on_the_work_before_it_goes() {
    let mut world = ClusterWorld::with("web", &shop());
    world.settle();
    world.member_is_stuck = true;
    let notes = world.binding.metadata.annotations.get_or_insert_default();
    notes.insert(annotations::DELETE_PROPAGATION.to_owned(), "Abandon".to_owned());
    assert!(world.plan().is_idle(), "a binding that stays keeps its Works as they are");
    world.delete();
    check(&mut world, expect!["abandon web-work\ndelete web-work\nrelease binding\nReleasing"]);
    assert!(world.plan().is_idle());
}

#[test]
fn placement_45_a_deleted_binding_goes_when_its_works_are_told_to_go() {
    let mut world = ClusterWorld::with("web", &shop());
    world.settle();
    world.member_is_stuck = true;
    world.delete();
    check(&mut world, expect!["delete web-work\nrelease binding\nReleasing"]);
    expect!["-web-work index=0: Namespace shop, ConfigMap shop/settings"].assert_eq(&works_text(&world));
    assert!(world.plan().is_idle());
}

#[test]
fn placement_46_a_work_that_is_still_going_is_waited_for() {
    let mut world = ClusterWorld::with("web", &shop());
    world.settle();
    world.member_is_stuck = true;
    world.delete();
    world.settle();
    let left = world.works.clone();

    let mut world = ClusterWorld::with("web", &shop());
    world.binding.metadata.name = Some("web-c1-76543210".to_owned());
    world.works = left;
    check(
        &mut world,
        expect![[r#"
            hold binding
            status (interim)
            Failed(WorkStillGoing { work: "web-work" })"#]],
    );
    expect!["RolloutStarted=True Overridden=True WorkSynchronized=False"].assert_eq(&short_status(world.status()));
    world.works.clear();
    check(
        &mut world,
        expect![[r#"
            create web-work: Namespace shop, ConfigMap shop/settings
            status (interim)
            AwaitingMember { step: Applied, work: "web-work" }"#]],
    );
}

#[test]
fn a_work_of_another_binding_is_left_alone() {
    let mut world = ClusterWorld::with("web", &shop());
    world.settle();
    world.binding.metadata.name = Some("web-c1-76543210".to_owned());
    check(
        &mut world,
        expect![[r#"
            status (interim)
            Failed(WorkOfAnother { work: "web-work", binding: "web-c1-01234567" })"#]],
    );
    world.delete();
    check(&mut world, expect!["release binding\nReleasing"]);
    assert_eq!(world.works.len(), 1);
}

/// The scheduler creates bindings with the work generator's finalizer on them; for one that came without it, as those of
/// other releases do, nothing is written before it is bound.
#[test]
fn placement_53_nothing_is_written_for_a_scheduled_binding() {
    let mut world = ClusterWorld::new("web");
    world.freeze(0, &[&shop()]);
    check(&mut world, expect!["NotBound"]);
}

#[test]
fn nothing_happens_before_it_is_said_that_the_rollout_has_started() {
    let mut world = ClusterWorld::with("web", &shop());
    world.binding.status = None;
    check(&mut world, expect!["hold binding\nAwaitingRollout"]);
    world.say_started(&BindingRolloutStarted::HeldBack);
    check(
        &mut world,
        expect![[r#"
            create web-work: Namespace shop, ConfigMap shop/settings
            status (interim)
            AwaitingMember { step: Applied, work: "web-work" }"#]],
    );
}

#[test]
fn a_rolling_update_may_leave_it_to_the_binding_to_say_that_it_has_started() {
    let mut world = ClusterWorld::with("web", &shop());
    world.binding.status = None;
    world.start = Start::MeantByBinding;
    world.settle();
    expect!["RolloutStarted=True Overridden=True WorkSynchronized=True Applied=False"]
        .assert_eq(&short_status(world.status()));
    // Only the latest snapshot means that: another one may be held back.
    world.freeze(1, &[&[]]);
    world.change_binding(|binding| binding.spec.scheduling_policy_snapshot_name = "web-1".to_owned());
    check(&mut world, expect!["AwaitingRollout"]);
}

#[test]
fn placement_54_no_work_before_the_group_is_complete() {
    let mut world = ClusterWorld::new("web");
    world.freeze(0, &[&shop(), &[bare("Secret shop/a")], &[bare("Secret shop/b")]]);
    world.bind(0);
    let missing = world.snapshots.pop().unwrap();
    check(
        &mut world,
        expect![[r#"
            hold binding
            status (interim)
            Failed(IncompleteGroup { found: 2, wanted: 3 })"#]],
    );
    let overridden = &world.status().conditions[1];
    expect!["Failed to apply the override rules on the resources: not all resource snapshot in the same index group are created: found 2 of 3"]
        .assert_eq(&overridden.message);
    expect!["RolloutStarted=True Overridden=False"].assert_eq(&short_status(world.status()));
    world.snapshots.push(missing);
    world.settle();
    expect![[r#"
        web-0 index=0: Secret shop/a
        web-1 index=0: Secret shop/b
        web-work index=0: Namespace shop, ConfigMap shop/settings"#]]
    .assert_eq(&works_text(&world));
}

#[test]
fn placement_55_an_unscheduled_binding_is_served_until_it_is_deleted() {
    let mut world = ClusterWorld::with("web", &shop());
    world.settle();
    world.change_binding(|binding| binding.spec.state = BindingState::Unscheduled);
    world.all_say("Applied Available");
    check(&mut world, expect!["status\nComplete"]);
    assert_eq!(world.works.len(), 1);
}

/// A run may never have come to it before its cluster left.
#[test]
fn an_unscheduled_binding_that_was_never_bound_is_left_alone() {
    let mut world = ClusterWorld::new("web");
    world.freeze(0, &[&shop()]);
    world.change_binding(|binding| binding.spec.state = BindingState::Unscheduled);
    assert_eq!(world.binding.spec.resource_snapshot_name, "");
    check(&mut world, expect!["NotBound"]);
}

#[test]
fn placement_42_56_works_outlive_the_snapshot_that_they_were_made_from() {
    let mut world = ClusterWorld::with("web", &shop());
    world.settle();
    world.freeze(1, &[&[]]);
    world.forget(0);
    world.say_started(&BindingRolloutStarted::HeldBack);
    world.all_say("Applied Available");
    check(&mut world, expect!["status\nComplete"]);
    // A Work of an older release does not name the snapshot.
    let notes = world.work("web-work").metadata.annotations.as_mut().unwrap();
    notes.remove(annotations::PARENT_RESOURCE_SNAPSHOT);
    assert!(world.plan().is_idle());
    // How it is applied may still change.
    world.apply_strategy("{type: ServerSideApply}");
    check(
        &mut world,
        expect![[r#"
            change strategies of web-work
            status (interim)
            AwaitingMember { step: Applied, work: "web-work" }"#]],
    );
}

#[test]
fn a_snapshot_that_is_gone_and_was_never_made_into_works_is_missed() {
    let mut world = ClusterWorld::with("web", &shop());
    world.forget(0);
    check(&mut world, expect!["hold binding\nstatus (interim)\nFailed(MasterMissing)"]);
    expect!["Failed to apply the override rules on the resources: the master resource snapshot is not found"]
        .assert_eq(&world.status().conditions[1].message);
    world.freeze(0, &[&shop()]);
    world.settle();
    world.bind(1);
    check(&mut world, expect!["status (interim)\nFailed(MasterMissing)"]);
    expect!["web-work index=0: Namespace shop, ConfigMap shop/settings"].assert_eq(&works_text(&world));
}

#[test]
fn placement_61_a_cluster_that_is_gone_is_ignored() {
    let mut world = ClusterWorld::with("web", &shop());
    world.member = None;
    check(&mut world, expect!["ClusterGone"]);
    world.member = ClusterWorld::new("web").member;
    world.settle();
    world.member = None;
    world.delete();
    check(&mut world, expect!["delete web-work\nrelease binding\nReleasing"]);
}

#[test]
fn a_member_that_leaves_is_not_told_to_delete_what_it_keeps() {
    let mut world = ClusterWorld::with("web", &shop());
    world.settle();
    world.member = None;
    world.leaving = true;
    world.delete();
    check(&mut world, expect!["release binding\nReleasing"]);
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
fn a_work_is_written_only_when_what_it_is_made_from_changes() {
    let mut world = ClusterWorld::with("web", &shop());
    world.settle();
    // Another generation of the binding alone changes no Work.
    world.change_binding(|binding| binding.spec.scheduling_policy_snapshot_name = "web-1".to_owned());
    world.say_started(&BindingRolloutStarted::Started);
    let plan = world.run();
    assert_eq!(plan.writes, []);
    // What a person changed in a Work stays until it is made anew.
    world.work("web-work").spec.workload = None;
    world.work("web-work").metadata.labels.as_mut().unwrap().insert("mine".to_owned(), "too".to_owned());
    assert!(world.plan().is_idle());
    world.freeze(1, &[&shop()]);
    world.bind(1);
    world.settle();
    expect!["web-work index=1: Namespace shop, ConfigMap shop/settings"].assert_eq(&works_text(&world));
    assert_eq!(world.work("web-work").metadata.labels.as_ref().unwrap()["mine"], "too");
    // One that was taken away comes back.
    world.works.clear();
    world.settle();
    assert_eq!(world.works.len(), 1);
}

#[test]
fn an_apply_strategy_reaches_every_work_and_defaults_are_no_change() {
    let mut world = ClusterWorld::with("web", &[bare("Namespace shop"), envelope("ClusterResourceEnvelope env", &[])]);
    world.apply_strategy("{type: ServerSideApply, serverSideApplyConfig: {force: true}}");
    world.settle();
    world.apply_strategy("{type: ClientSideApply}");
    let plan = world.run();
    assert_eq!(plan.writes.len(), 2);
    let strategy = world.works[0].spec.apply_strategy.clone().unwrap();
    assert_eq!(serde_json::to_value(strategy).unwrap(), json!({"type": "ClientSideApply"}));
    for work in &mut world.works {
        work.spec.apply_strategy = Some(crate::overrides::tests::fixture::apply_strategy(
            "{type: ClientSideApply, comparisonOption: PartialComparison, whenToApply: Always, whenToTakeOver: Always}",
        ));
    }
    assert!(world.plan().is_idle(), "the server's defaults are no difference");
}

#[test]
fn whether_statuses_are_sent_back_is_told_to_the_member() {
    let mirror: fleet_api::types::ReportBackStrategy =
        serde_json::from_value(json!({"type": "Mirror", "destination": "WorkAPI"})).unwrap();
    let mut world = ClusterWorld::with("web", &shop());
    world.report_back = ReportBack::As(Some(mirror));
    world.settle();
    assert_eq!(world.works[0].spec.report_back_strategy, Some(mirror));
    world.report_back = ReportBack::Unknown;
    world.freeze(1, &[&shop()]);
    world.bind(1);
    world.settle();
    assert_eq!(world.works[0].spec.report_back_strategy, Some(mirror), "nobody said otherwise");
    world.report_back = ReportBack::As(Some(serde_json::from_value(json!({"type": "Disabled"})).unwrap()));
    check(
        &mut world,
        expect![[r#"
            change strategies of web-work
            AwaitingMember { step: Applied, work: "web-work" }"#]],
    );
    assert_eq!(world.works[0].spec.report_back_strategy, None);
}

#[test]
fn the_bytes_of_a_manifest_are_not_changed() {
    let text = r#"{"apiVersion":"v1","data":{"float":1.50,"html":"<&>","nothing":null,"text":"a\u2028b"},"kind":"ConfigMap","metadata":{"name":"settings","namespace":"shop"}}"#;
    let object = EmbeddedObject(serde_json::from_str(text).unwrap());
    let wrapped = envelope("ResourceEnvelope shop/env", std::slice::from_ref(&object));
    let mut world = ClusterWorld::with("web", &[object.clone(), wrapped]);
    world.settle();
    for work in &world.works {
        assert_eq!(serde_json::to_vec(work.spec.manifests()).unwrap(), serde_json::to_vec(&[&object]).unwrap());
    }
}

#[test]
fn a_snapshot_that_cannot_be_read_is_named() {
    let mut world = ClusterWorld::with("web", &shop());
    world.snapshots[0].metadata.labels.as_mut().unwrap().remove(labels::RESOURCE_INDEX);
    let plan = world.run();
    let Outcome::Failed(error) = plan.report.outcome else { panic!("{:?}", plan.report) };
    expect![[r#"resource snapshot "web-0-snapshot" does not say which place in its group it has"#]]
        .assert_eq(&error.to_string());
    let mut world = ClusterWorld::with("web", &[EmbeddedObject(json!("text"))]);
    let plan = world.run();
    let Outcome::Failed(error) = plan.report.outcome else { panic!("{:?}", plan.report) };
    expect![[r#"resource 0 of snapshot "web-0-snapshot" is no object of any kind"#]].assert_eq(&error.to_string());
}
