//! The compliance checklist (updaterun.md 24), item by item, as a user sees it: how runs begin, and what ends them (1 to 7).

use std::time::Duration;

use expect_test::expect;
use serde_json::{Value, json};

use crate::staged_runs::fleet::{Fleet, Kind, Scope, condition, scenarios, stage, text};
use crate::staged_runs::members::Manner;

scenarios! {
    checklist_01_what_can_pass_is_waited_for_and_what_cannot_is_final,
    checklist_02_keys_have_a_leading_slash_and_references_to_bindings_have_none,
    checklist_03_a_failed_initialization_shows_how_far_it_came,
    checklist_04_validation_takes_the_recorded_strategy_and_labels_and_bindings_of_now,
    checklist_05_validation_leaves_stages_alone_and_execution_marks_the_stage,
    checklist_06_order_is_numeric_then_by_name_and_needs_the_label,
    checklist_07_percentages_are_rounded_down_to_at_least_one_and_numbers_are_not_capped,
}

const ABORT: &str = "cannot continue the updateRun: ";
const VALIDATION: &str = "cannot continue the updateRun: failed to validate the updateRun: ";
const USER: &str = "failed to process the request due to a client error: ";

/// The example's placement, and a strategy with these stages.
pub(crate) async fn staged(fleet: &Fleet, stages: Value) {
    fleet.place(json!(null)).await;
    fleet.strategy(stages).await;
    fleet.settle().await;
}

/// `staging` with these tasks after it, then `canary`.
pub(crate) fn gated(tasks: Value) -> Value {
    let mut first = stage("staging");
    first["afterStageTasks"] = tasks;
    json!([first, stage("canary")])
}

async fn checklist_01_what_can_pass_is_waited_for_and_what_cannot_is_final(fleet: &mut Fleet) {
    staged(fleet, json!([stage("staging"), stage("canary")])).await;
    let binding = fleet.binding("member1").await;
    let (name, policy) = (text(&binding["metadata"]["name"]), text(&binding["spec"]["schedulingPolicySnapshotName"]));
    // A binding that the scheduler has not taken along yet is waited for.
    let older = json!({"spec": {"schedulingPolicySnapshotName": "older"}});
    fleet.patch(Kind::Binding, &name, older.clone()).await;
    fleet.run("first", json!({"state": "Run"})).await;
    fleet.later(Duration::from_mins(1)).await;
    assert_eq!(fleet.columns("first").await, "- - -");
    let newest = json!({"spec": {"schedulingPolicySnapshotName": policy}});
    fleet.patch(Kind::Binding, &name, newest.clone()).await;
    fleet.later(Duration::from_secs(1)).await;
    assert_eq!(fleet.columns("first").await, "True False True");
    // So is one in a run that is going: nothing is written meanwhile.
    fleet.content("2").await;
    fleet.members.behave("member2", Manner::Silent);
    fleet.settle().await;
    fleet.run("second", json!({"state": "Run"})).await;
    fleet.quiet().await;
    let before = fleet.run_object("second").await;
    fleet.patch(Kind::Binding, &name, older).await;
    fleet.later(Duration::from_mins(1)).await;
    assert_eq!(fleet.run_object("second").await, before);
    fleet.patch(Kind::Binding, &name, newest).await;
    // A cluster on which something fails never ends a run.
    fleet.members.behave("member2", Manner::Refusing);
    fleet.later(Duration::from_mins(3)).await;
    assert_eq!(fleet.columns("second").await, "True True -");
    fleet.members.behave("member2", Manner::Prompt);
    fleet.settle().await;
    assert_eq!(fleet.columns("second").await, "True False True");
    // What is missing for good is final, also when it comes.
    fleet.run("third", json!({"state": "Run", "stagedRolloutStrategyName": "late"})).await;
    fleet.later(Duration::from_secs(1)).await;
    assert_eq!(fleet.columns("third").await, "False - -");
    fleet.make(Kind::Strategy, "late", json!({"stages": [stage("staging"), stage("canary")]})).await;
    fleet.later(Duration::from_mins(1)).await;
    assert_eq!(fleet.columns("third").await, "False - -");
}

async fn checklist_02_keys_have_a_leading_slash_and_references_to_bindings_have_none(fleet: &mut Fleet) {
    staged(fleet, json!([stage("staging"), stage("canary")])).await;
    let of_strategy = match fleet.scope {
        Scope::Cluster => "`/missing`",
        Scope::Namespaced => "`my-app-namespace/missing`",
    };
    fleet.run("first", json!({"stagedRolloutStrategyName": "missing"})).await;
    fleet.later(Duration::from_secs(1)).await;
    let tail = format!("referenced updateStrategy not found: {of_strategy}");
    assert_eq!(fleet.message("first", "Initialized").await, format!("{VALIDATION}{USER}{tail}"));
    let of_placement = match fleet.scope {
        Scope::Cluster => "`/example-placement`",
        Scope::Namespaced => "`my-app-namespace/web-app-placement`",
    };
    fleet.run("second", json!({"resourceSnapshotIndex": "7"})).await;
    fleet.later(Duration::from_secs(1)).await;
    let tail = format!("no resourceSnapshots with index `7` found for placement {of_placement}");
    assert_eq!(fleet.message("second", "Initialized").await, format!("{VALIDATION}{USER}{tail}"));
    fleet.members.behave("member2", Manner::Silent);
    fleet.run("third", json!({"state": "Run"})).await;
    fleet.settle().await;
    let binding = text(&fleet.binding("member2").await["metadata"]["name"]);
    let edit = json!({"spec": {"resourceSnapshotName": "another-7-snapshot"}});
    fleet.patch(Kind::Binding, &binding, edit).await;
    fleet.later(Duration::from_secs(1)).await;
    let reference = match fleet.scope {
        Scope::Cluster => format!("`{binding}`"),
        Scope::Namespaced => format!("`my-app-namespace/{binding}`"),
    };
    let message = fleet.message("third", "Succeeded").await;
    assert!(message.contains(&format!("please check the status of binding {reference} and see")), "{message}");
}

async fn checklist_03_a_failed_initialization_shows_how_far_it_came(fleet: &mut Fleet) {
    staged(fleet, json!([stage("staging"), stage("canary")])).await;
    fleet.make(Kind::Strategy, "nobody", json!({"stages": [stage("elsewhere")]})).await;
    let mut shown = Vec::new();
    for (run, spec) in [
        ("placement", json!({"placementName": "missing"})),
        ("strategy", json!({"stagedRolloutStrategyName": "missing"})),
        ("stages", json!({"stagedRolloutStrategyName": "nobody"})),
        ("snapshot", json!({"resourceSnapshotIndex": "7"})),
    ] {
        fleet.run(run, spec).await;
        fleet.later(Duration::from_secs(1)).await;
        assert_eq!(fleet.columns(run).await, "False - -");
        let status = fleet.status(run).await;
        let mut fields: Vec<&str> = status.as_object().unwrap().keys().map(String::as_str).collect();
        fields.retain(|field| *field != "conditions");
        shown.push(format!("{run}: {}", fields.join(" ")));
    }
    expect![[r#"
        placement: 
        strategy: appliedStrategy policyObservedClusterCount policySnapshotIndexUsed
        stages: appliedStrategy policyObservedClusterCount policySnapshotIndexUsed stagedUpdateStrategySnapshot stagesStatus
        snapshot: appliedStrategy deletionStageStatus policyObservedClusterCount policySnapshotIndexUsed stagedUpdateStrategySnapshot stagesStatus"#]]
    .assert_eq(&shown.join("\n"));
}

async fn checklist_04_validation_takes_the_recorded_strategy_and_labels_and_bindings_of_now(fleet: &mut Fleet) {
    staged(fleet, gated(json!([{"type": "Approval"}]))).await;
    let strategy = fleet.strategy_name().to_owned();
    for run in ["labels", "bindings"] {
        fleet.run(run, json!({"state": "Run"})).await;
        fleet.settle().await;
        fleet.patch(Kind::Strategy, &strategy, json!({"spec": {"stages": [stage("elsewhere")]}})).await;
        fleet.later(Duration::from_secs(1)).await;
        assert_eq!(fleet.columns(run).await, "True False -", "its own copy counts");
        fleet.patch(Kind::Strategy, &strategy, json!({"spec": {"stages": gated(json!([{"type": "Approval"}]))}})).await;
    }
    // A stage that is finished counts too.
    fleet.members.behave("member1", Manner::Silent);
    fleet.content("2").await;
    fleet.settle().await;
    fleet.run("finished", json!({"state": "Run"})).await;
    fleet.settle().await;
    fleet.approve("finished-after-staging", 1).await;
    fleet.settle().await;
    assert!(
        fleet.outline("finished").await.contains("canary [Progressing=True StageUpdatingStarted] member1:updating")
    );
    fleet.label("member2", json!({"environment": "canary"})).await;
    fleet.later(Duration::from_secs(1)).await;
    let changed = "the number of clusters in index `0` stage has changed, new: 0, existing: 1";
    for run in ["labels", "bindings", "finished"] {
        assert_eq!(fleet.message(run, "Succeeded").await, format!("{ABORT}{changed}"));
    }
    fleet.label("member2", json!({"environment": "staging"})).await;
    fleet.run("joined", json!({"state": "Run"})).await;
    fleet.settle().await;
    fleet.join("member3", json!({"environment": "canary"})).await;
    fleet.later(Duration::from_secs(1)).await;
    let changed = "the number of clusters in index `1` stage has changed, new: 2, existing: 1";
    assert_eq!(fleet.message("joined", "Succeeded").await, format!("{ABORT}{changed}"));
}

async fn checklist_05_validation_leaves_stages_alone_and_execution_marks_the_stage(fleet: &mut Fleet) {
    staged(fleet, json!([stage("staging"), stage("canary")])).await;
    fleet.members.behave("member2", Manner::Silent);
    fleet.run("first", json!({"state": "Run"})).await;
    fleet.settle().await;
    fleet.label("member1", json!({"environment": null})).await;
    fleet.later(Duration::from_secs(1)).await;
    expect![[r#"
        Initialized=True UpdateRunInitializedSuccessfully, Progressing=False UpdateRunFailed, Succeeded=False UpdateRunFailed
        staging [Progressing=True StageUpdatingStarted] member2:updating
        canary [] member1:pending
        deleteStage []"#]]
    .assert_eq(&fleet.outline("first").await);
    fleet.label("member1", json!({"environment": "canary"})).await;
    fleet.run("second", json!({"state": "Run"})).await;
    fleet.settle().await;
    let binding = text(&fleet.binding("member2").await["metadata"]["name"]);
    let edit = json!({"spec": {"resourceSnapshotName": "another-7-snapshot"}});
    fleet.patch(Kind::Binding, &binding, edit).await;
    fleet.later(Duration::from_secs(1)).await;
    expect![[r#"
        Initialized=True UpdateRunInitializedSuccessfully, Progressing=False UpdateRunFailed, Succeeded=False UpdateRunFailed
        staging [Progressing=False StageUpdatingFailed, Succeeded=False StageUpdatingFailed] member2:failed
        canary [] member1:pending
        deleteStage []"#]]
    .assert_eq(&fleet.outline("second").await);
    let stage = fleet.status("second").await["stagesStatus"][0].take();
    assert!(stage["endTime"].is_string());
    let said = condition(&stage["conditions"], "Succeeded").unwrap();
    assert_eq!(text(&said["message"]), fleet.message("second", "Succeeded").await);
}

async fn checklist_06_order_is_numeric_then_by_name_and_needs_the_label(fleet: &mut Fleet) {
    for (name, order) in [("e", "10"), ("d", "9"), ("c", "007"), ("b", "1"), ("a", "10")] {
        fleet.join(name, json!({"environment": "prod", "order": order})).await;
    }
    let names = json!({"placementType": "PickFixed", "clusterNames": ["a", "b", "c", "d", "e"]});
    fleet.place(names).await;
    let mut sorted = stage("prod");
    sorted["sortingLabelKey"] = json!("order");
    fleet.strategy(json!([sorted])).await;
    fleet.settle().await;
    fleet.run("first", json!({})).await;
    fleet.settle().await;
    let shown = fleet.outline("first").await;
    assert!(shown.contains("prod [] b:pending c:pending d:pending a:pending e:pending"), "{shown}");
    fleet.label("d", json!({"order": null})).await;
    fleet.run("second", json!({})).await;
    fleet.later(Duration::from_secs(1)).await;
    let tail = "the sorting label `order:` on cluster `d` is not valid: strconv.Atoi: parsing \"\": invalid syntax";
    assert_eq!(fleet.message("second", "Initialized").await, format!("{VALIDATION}{USER}{tail}"));
}

async fn checklist_07_percentages_are_rounded_down_to_at_least_one_and_numbers_are_not_capped(fleet: &mut Fleet) {
    for name in ["a", "b", "c"] {
        fleet.join(name, json!({"environment": "prod"})).await;
        fleet.members.behave(name, Manner::Silent);
    }
    fleet.place(json!({"placementType": "PickFixed", "clusterNames": ["a", "b", "c"]})).await;
    fleet.strategy(json!([stage("prod")])).await;
    fleet.settle().await;
    let cases = [(json!("30%"), 1), (json!("50%"), 1), (json!("70%"), 2), (json!("100%"), 3), (json!(200), 3)];
    for (number, (limit, started)) in cases.into_iter().enumerate() {
        let run = format!("run-{number}");
        let mut limited = stage("prod");
        limited["maxConcurrency"] = limit.clone();
        let strategy = fleet.strategy_name().to_owned();
        fleet.patch(Kind::Strategy, &strategy, json!({"spec": {"stages": [limited]}})).await;
        fleet.content(&run).await;
        fleet.settle().await;
        fleet.run(&run, json!({"state": "Run"})).await;
        fleet.quiet().await;
        let outline = fleet.outline(&run).await;
        assert_eq!(outline.matches(":updating").count(), started, "{limit}: {outline}");
        let moved = fleet.rolled_out().await.matches(&format!("={number}")).count();
        assert_eq!(moved, started, "{limit}: {}", fleet.rolled_out().await);
    }
}
