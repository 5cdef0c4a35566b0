//! What happens around a run while it is under way: members come and go, operators choose, runs are deleted, people watch.

use std::time::Duration;

use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use serde_json::{Value, json};

use crate::staged_runs::fleet::{Fleet, Kind, Scope, both_scopes, stage, text};
use crate::staged_runs::members::Manner;

/// A run of the example that waits for an approval after its first stage.
async fn waiting(fleet: &mut Fleet) {
    fleet.two_members().await;
    fleet.place(json!(null)).await;
    let mut gated = stage("staging");
    gated["afterStageTasks"] = json!([{"type": "Approval"}]);
    fleet.strategy(json!([gated, stage("canary")])).await;
    fleet.settle().await;
    fleet.run("example-run", json!({"state": "Run"})).await;
    fleet.settle().await;
    assert_eq!(fleet.columns("example-run").await, "True False -");
}

both_scopes! {
    async fn ur_27_a_cluster_joins_in_mid_run(mut fleet) {
        waiting(&mut fleet).await;
        fleet.join("member3", json!({"environment": "staging"})).await;
        fleet.later(Duration::from_secs(1)).await;
        assert_eq!(fleet.columns("example-run").await, "True False False");
        assert_eq!(
            fleet.message("example-run", "Succeeded").await,
            "cannot continue the updateRun: the number of clusters in index `0` stage has changed, new: 2, existing: 1"
        );
        // A new run takes it in; those who have the content already are not touched.
        fleet.run("example-run-2", json!({"state": "Run"})).await;
        fleet.settle().await;
        fleet.approve("example-run-2-after-staging", 1).await;
        fleet.settle().await;
        assert_eq!(fleet.columns("example-run-2").await, "True False True");
        assert_eq!(fleet.rolled_out().await, "member1=0 member2=0 member3=0");
    }

    async fn ur_27_a_cluster_leaves_in_mid_run(mut fleet) {
        waiting(&mut fleet).await;
        fleet.delete_member("member1").await;
        // Its agent is not there to take anything back, so it is let go of without it.
        fleet.later(Duration::from_mins(20)).await;
        assert_eq!(fleet.columns("example-run").await, "True False False");
        assert_eq!(
            fleet.message("example-run", "Succeeded").await,
            "cannot continue the updateRun: the number of clusters in index `1` stage has changed, new: 0, existing: 1"
        );
    }

    async fn a_run_whose_strategy_changes_goes_on_where_that_is_tolerated(mut fleet) {
        fleet.stop().await;
        fleet.with_options(|options| options.tolerate_strategy_changes = true);
        fleet.start();
        waiting(&mut fleet).await;
        fleet.delete(Kind::Strategy, fleet.strategy_name()).await;
        fleet.later(Duration::from_secs(1)).await;
        fleet.approve("example-run-after-staging", 1).await;
        fleet.settle().await;
        assert_eq!(fleet.columns("example-run").await, "True False True");
    }

    async fn an_operator_chooses_how_long_a_cluster_may_take(mut fleet) {
        fleet.stop().await;
        fleet.with_options(|options| options.stuck_after = Duration::from_secs(30));
        fleet.start();
        fleet.members.behave("member2", Manner::Unavailable);
        fleet.example().await;
        fleet.run("example-run", json!({"state": "Run"})).await;
        fleet.settle().await;
        fleet.later(Duration::from_secs(29)).await;
        assert_eq!(fleet.columns("example-run").await, "True True -");
        fleet.later(Duration::from_secs(3)).await;
        assert_eq!(fleet.columns("example-run").await, "True False -");
    }

    async fn a_deleted_run_takes_its_requests_and_series_along_and_nothing_else(mut fleet) {
        waiting(&mut fleet).await;
        let shown = |fleet: &Fleet| {
            let mut registry = Registry::default();
            fleet.hub().run_metrics.register(&mut registry);
            let mut text = String::new();
            encode(&mut text, &registry).unwrap();
            text
        };
        let gauge = "fleet_workload_update_run_status_last_timestamp_seconds{";
        let reason = r#"condition="Progressing",status="False",reason="UpdateRunWaiting",failureType="none""#;
        assert!(shown(&fleet).lines().any(|line| line.starts_with(gauge) && line.contains(reason)), "{}", shown(&fleet));
        let duration = "fleet_workload_update_run_stage_cluster_updating_duration_seconds_count";
        assert!(shown(&fleet).lines().any(|line| line.starts_with(duration) && line.ends_with(" 1")), "{}", shown(&fleet));
        let finalizers = fleet.run_object("example-run").await["metadata"]["finalizers"].take();
        assert_eq!(finalizers, json!(["kubernetes-fleet.io/stagedupdaterun-finalizer"]));
        let before = (fleet.rolled_out().await, fleet.list(Kind::ResourceSnapshot).await.len());
        fleet.delete(Kind::Run, "example-run").await;
        fleet.settle().await;
        assert!(fleet.get(Kind::Run, "example-run").await.is_none());
        assert!(fleet.list(Kind::Approval).await.is_empty());
        assert_eq!((fleet.rolled_out().await, fleet.list(Kind::ResourceSnapshot).await.len()), before);
        assert!(!shown(&fleet).contains("example-run"));
    }

    async fn people_who_describe_a_run_or_its_placement_see_what_happened(mut fleet) {
        waiting(&mut fleet).await;
        fleet.approve("example-run-after-staging", 1).await;
        fleet.settle().await;
        let told = [
            "UpdateRunInitializedSuccessfully: Update run is ready to bring resource snapshot 0 to 2 cluster(s) in 2 stage(s)",
            "StageUpdatingStarted: Stage staging started updating its 1 cluster(s)",
            "StageUpdatingWaiting: Stage staging is waiting for the approval of example-run-after-staging",
            "StageTaskApprovalRequestApproved: Approval request example-run-after-staging of stage staging was approved: approved",
            "StageUpdatingSucceeded: Stage staging is complete",
            "StageUpdatingStarted: Stage canary started updating its 1 cluster(s)",
            "StageUpdatingSucceeded: Stage canary is complete",
            "UpdateRunSucceeded: All stages of the update run are complete",
        ];
        assert_eq!(fleet.events(Kind::Run, "example-run").await, told);
        let placement = fleet.placement_name().to_owned();
        let on_placement = fleet.events(Kind::Placement, &placement).await;
        let of_run: Vec<_> = on_placement.into_iter().filter(|one| one.contains("Staged update run example-run: ")).collect();
        let expected: Vec<_> = told.iter().map(|one| one.replacen(": ", ": Staged update run example-run: ", 1)).collect();
        assert_eq!(of_run, expected);
    }

    async fn pl_r2_after_another_policy_a_run_starts_anew_what_is_there_already(mut fleet) {
        fleet.two_members().await;
        fleet.place(json!({"placementType": "PickFixed", "clusterNames": ["member1"]})).await;
        fleet.strategy(json!([stage("staging"), stage("canary")])).await;
        fleet.settle().await;
        fleet.run("first", json!({"state": "Run"})).await;
        fleet.quiet().await;
        assert_eq!(fleet.columns("first").await, "True False True");
        let policy = json!({"placementType": "PickFixed", "clusterNames": ["member1", "member2"]});
        let placement = fleet.placement_name().to_owned();
        fleet.patch(Kind::Placement, &placement, json!({"spec": {"policy": policy}})).await;
        fleet.quiet().await;
        let started = fleet.placement_condition("RolloutStarted").await;
        assert!(started.starts_with("Unknown RolloutControlledByExternalController: "), "{started}");
        let before = fleet.binding("member1").await["metadata"]["generation"].clone();
        assert_eq!(before, 3, "chosen, moved, and chosen again under another policy");
        fleet.run("second", json!({"state": "Run"})).await;
        fleet.quiet().await;
        assert_eq!(fleet.columns("second").await, "True False True", "{}", fleet.outline("second").await);
        let binding = fleet.binding("member1").await;
        assert_eq!(binding["metadata"]["generation"], before, "its content is not moved");
        let said = binding["status"]["conditions"].as_array().unwrap().iter().find(|one| one["type"] == "RolloutStarted");
        assert!(text(&said.unwrap()["message"]).ends_with("updateRun: second"));
    }

    async fn overrides_are_taken_along_as_they_are_when_the_run_begins(mut fleet) {
        fleet.two_members().await;
        fleet.place(json!(null)).await;
        fleet.strategy(json!([stage("staging"), stage("canary")])).await;
        fleet.override_for("staging", "first").await;
        fleet.quiet().await;
        fleet.members.behave("member2", Manner::Silent);
        fleet.run("example-run", json!({"state": "Run"})).await;
        fleet.quiet().await;
        let pinned = |binding: &Value| {
            let spec = &binding["spec"];
            let namespaced = spec["resourceOverrideSnapshots"][0]["name"].as_str();
            text(&json!(spec["clusterResourceOverrideSnapshots"][0].as_str().or(namespaced)))
        };
        assert_eq!(pinned(&fleet.binding("member2").await), "of-staging-0");
        fleet.override_for("staging", "second").await;
        fleet.quiet().await;
        fleet.members.behave("member2", Manner::Prompt);
        fleet.quiet().await;
        assert_eq!(fleet.columns("example-run").await, "True False True", "{}", fleet.outline("example-run").await);
        assert_eq!(pinned(&fleet.binding("member2").await), "of-staging-0", "edits reach the next run");
        assert_eq!(pinned(&fleet.binding("member1").await), "");
        fleet.run("next-run", json!({"state": "Run"})).await;
        fleet.quiet().await;
        assert_eq!(pinned(&fleet.binding("member2").await), "of-staging-1");
    }

    async fn a_run_waits_for_an_override_that_has_no_snapshot_until_there_is_none(mut fleet) {
        fleet.example().await;
        fleet.stop().await;
        fleet.start_barred("overridesnapshots");
        fleet.override_for("staging", "first").await;
        fleet.quiet().await;
        fleet.run("example-run", json!({"state": "Run"})).await;
        fleet.later(Duration::from_mins(1)).await;
        assert_eq!(fleet.columns("example-run").await, "- - -", "{}", fleet.outline("example-run").await);
        assert!(fleet.list(Kind::ResourceSnapshot).await.is_empty(), "and freezes nothing");
        fleet.no_override_for("staging").await;
        fleet.later(Duration::from_secs(1)).await;
        assert_eq!(fleet.columns("example-run").await, "True False True", "{}", fleet.outline("example-run").await);
    }

    async fn a_run_of_a_name_that_was_used_before_takes_nothing_for_its_own(mut fleet) {
        fleet.members.behave("member2", Manner::Silent);
        fleet.example().await;
        fleet.run("example-run", json!({"state": "Run", "resourceSnapshotIndex": "0"})).await;
        fleet.quiet().await;
        assert_eq!(fleet.rolled_out().await, "member1=- member2=0");
        fleet.delete(Kind::Run, "example-run").await;
        fleet.settle().await;
        fleet.run("example-run", json!({"state": "Stop", "resourceSnapshotIndex": "0"})).await;
        fleet.members.behave("member2", Manner::Prompt);
        fleet.quiet().await;
        let outline = fleet.outline("example-run").await;
        assert!(outline.contains("staging [Progressing=False StageUpdatingStopped] member2:pending"), "{outline}");
    }

    async fn nobody_can_give_a_run_an_index_that_began_without_one(mut fleet) {
        waiting(&mut fleet).await;
        let run = fleet.run_object("example-run").await;
        assert_eq!((&run["spec"]["resourceSnapshotIndex"], &run["metadata"]["generation"]), (&json!(""), &json!(2)));
        let given = json!({"spec": {"resourceSnapshotIndex": "7"}});
        let refused = fleet.try_patch(Kind::Run, "example-run", given).await.unwrap_err();
        assert!(refused.contains("resourceSnapshotIndex is immutable"), "{refused}");
        // Everything that was said is said of the generation that this has led to.
        let status = run["status"].to_string();
        assert_eq!(status.matches("\"observedGeneration\":2").count(), status.matches("\"observedGeneration\"").count());
    }

    async fn a_run_is_seen_before_what_it_stands_on(mut fleet) {
        fleet.two_members().await;
        fleet.settle().await;
        // Everything at once, as one `kubectl apply` does: the run comes last.
        fleet.strategy(json!([stage("staging"), stage("canary")])).await;
        fleet.place(json!({"placementType": "PickFixed", "clusterNames": ["member1", "member2"]})).await;
        fleet.run("example-run", json!({"state": "Run"})).await;
        fleet.later(Duration::from_secs(1)).await;
        let columns = fleet.columns("example-run").await;
        // Whether scheduling is done by then is a race, which the specification allows to be lost; what is never said is
        // that something is missing that was made before the run.
        let message = fleet.message("example-run", "Initialized").await;
        assert!(!message.contains("not found: ") && !message.contains("placement not found"), "{columns} {message}");
    }

    async fn a_run_takes_along_what_was_made_in_the_same_moment(mut fleet) {
        fleet.example().await;
        fleet.no_content().await;
        fleet.stop().await;
        fleet.start_deaf("/configmaps");
        fleet.settle().await;
        fleet.content("late").await;
        fleet.run("example-run", json!({"state": "Run"})).await;
        fleet.settle().await;
        assert_eq!(fleet.columns("example-run").await, "True False True", "{}", fleet.outline("example-run").await);
        let snapshot = fleet.list(Kind::ResourceSnapshot).await.pop().unwrap();
        let resources = snapshot["spec"]["selectedResources"].as_array().unwrap();
        let settings = resources.iter().find(|one| one["metadata"]["name"] == "settings");
        assert_eq!(settings.unwrap()["data"]["value"], "late");

        // Of the other scope nothing would be left to place.
        if fleet.scope == Scope::Cluster {
            fleet.no_content().await;
            fleet.run("next-run", json!({"state": "Run"})).await;
            fleet.settle().await;
            let snapshot = fleet.list(Kind::ResourceSnapshot).await.pop().unwrap();
            let resources = snapshot["spec"]["selectedResources"].as_array().unwrap();
            assert!(resources.iter().all(|one| one["metadata"]["name"] != "settings"), "{resources:?}");
        }
    }

    async fn a_run_follows_a_placement_that_was_changed_in_the_same_moment(mut fleet) {
        fleet.example().await;
        fleet.stop().await;
        let (deaf_to, selectors) = match fleet.scope {
            Scope::Cluster => ("/clusterresourceplacements", json!([
                {"group": "", "version": "v1", "kind": "Namespace", "name": "test-namespace", "selectionScope": "NamespaceOnly"}
            ])),
            Scope::Namespaced => ("/resourceplacements", json!([
                {"group": "", "version": "v1", "kind": "ConfigMap", "name": "others"}
            ])),
        };
        fleet.start_deaf(deaf_to);
        fleet.settle().await;
        let placement = fleet.placement_name().to_owned();
        fleet.patch(Kind::Placement, &placement, json!({"spec": {"resourceSelectors": selectors}})).await;
        fleet.run("example-run", json!({"state": "Run"})).await;
        fleet.settle().await;
        assert!(fleet.list(Kind::ResourceSnapshot).await.is_empty(), "nothing is frozen by what is over");
        fleet.restart().await;
        fleet.settle().await;
        // Whether the new generation is scheduled when the run is seen is a race; what it freezes is not.
        for snapshot in fleet.list(Kind::ResourceSnapshot).await {
            let resources = snapshot["spec"]["selectedResources"].as_array().unwrap();
            assert!(resources.iter().all(|one| one["metadata"]["name"] != "settings"), "{resources:?}");
        }
    }

    async fn a_hub_that_starts_again_writes_nothing_and_goes_on(mut fleet) {
        waiting(&mut fleet).await;
        fleet.quiet().await;
        let before = fleet.run_object("example-run").await;
        fleet.restart().await;
        fleet.settle().await;
        assert_eq!(fleet.writes_of(&[Kind::Run, Kind::Approval, Kind::Binding, Kind::ResourceSnapshot]), 0);
        assert_eq!(fleet.run_object("example-run").await, before);
        fleet.approve("example-run-after-staging", 1).await;
        fleet.settle().await;
        assert_eq!(fleet.columns("example-run").await, "True False True");
        fleet.restart().await;
        fleet.settle().await;
        assert_eq!(fleet.writes_of(&[Kind::Run, Kind::Approval, Kind::Binding, Kind::ResourceSnapshot]), 0);
    }

    async fn a_user_who_meddles_with_a_runs_bindings_ends_it_as_another_run_would(mut fleet) {
        fleet.members.behave("member2", Manner::Silent);
        fleet.example().await;
        fleet.run("example-run", json!({"state": "Run"})).await;
        fleet.settle().await;
        let binding: Value = fleet.binding("member2").await;
        let name = text(&binding["metadata"]["name"]);
        fleet.patch(Kind::Binding, &name, json!({"spec": {"resourceSnapshotName": "another-7-snapshot"}})).await;
        fleet.later(Duration::from_secs(1)).await;
        assert_eq!(fleet.columns("example-run").await, "True False False");
        assert!(fleet.message("example-run", "Succeeded").await.contains("is not up-to-date with the desired status"));
    }
}
