//! Two hub agents, of which one acts: whoever takes over knows the runs, and may be behind with everything else.

use std::time::Duration;

use serde_json::json;

use crate::staged_runs::fleet::{Kind, Scope, both_scopes, stage};
use crate::staged_runs::members::Manner;

fn bindings(scope: Scope) -> &'static str {
    match scope {
        Scope::Cluster => "/clusterresourcebindings",
        Scope::Namespaced => "/resourcebindings",
    }
}

both_scopes! {
    async fn a_new_leader_that_is_behind_with_bindings_ends_no_run(mut fleet) {
        fleet.stop().await;
        fleet.start_candidate("first");
        fleet.example().await;
        fleet.members.behave("member2", Manner::Silent);
        let ears = fleet.stand_by("second", bindings(fleet.scope)).await;
        fleet.run("example-run", json!({"state": "Run"})).await;
        fleet.settle().await;
        assert_eq!(fleet.rolled_out().await, "member1=- member2=0", "moved by the first one");
        fleet.hand_over().await;
        fleet.later(Duration::from_secs(30)).await;
        // As the second one sees it, the binding has lost what the run has given it.
        assert_eq!(fleet.columns("example-run").await, "True True -", "{}", fleet.outline("example-run").await);
        ears.open();
        fleet.members.behave("member2", Manner::Prompt);
        fleet.later(Duration::from_secs(30)).await;
        assert_eq!(fleet.columns("example-run").await, "True False True", "{}", fleet.outline("example-run").await);
        assert_eq!(fleet.binding("member2").await["metadata"]["generation"], 2, "moved once");
    }

    async fn a_new_leader_that_is_behind_with_bindings_lets_a_run_stop_and_remove(mut fleet) {
        fleet.stop().await;
        fleet.start_candidate("first");
        fleet.two_members().await;
        fleet.place(json!({"placementType": "PickFixed", "clusterNames": ["member1", "member2"]})).await;
        fleet.strategy(json!([stage("staging"), stage("canary")])).await;
        fleet.settle().await;
        fleet.run("first-run", json!({"state": "Run"})).await;
        fleet.settle().await;
        let policy = json!({"placementType": "PickFixed", "clusterNames": ["member1"]});
        let placement = fleet.placement_name().to_owned();
        fleet.patch(Kind::Placement, &placement, json!({"spec": {"policy": policy}})).await;
        fleet.quiet().await;
        // Whoever holds the binding lets it go only later.
        let name = fleet.binding("member2").await["metadata"]["name"].as_str().unwrap().to_owned();
        let held = json!({"metadata": {"finalizers": ["example.com/hold"]}});
        fleet.patch(Kind::Binding, &name, held).await;
        fleet.settle().await;
        let ears = fleet.stand_by("second", bindings(fleet.scope)).await;
        fleet.run("example-run", json!({"state": "Run"})).await;
        fleet.settle().await;
        let removing = "deleteStage [Progressing=True StageUpdatingStarted] member2:updating";
        assert!(fleet.outline("example-run").await.ends_with(removing), "{}", fleet.outline("example-run").await);
        fleet.hand_over().await;
        fleet.later(Duration::from_secs(30)).await;
        // As the second one sees it, nobody has deleted the binding.
        assert!(fleet.outline("example-run").await.ends_with(removing), "{}", fleet.outline("example-run").await);
        ears.open();
        fleet.patch(Kind::Binding, &name, json!({"metadata": {"finalizers": null}})).await;
        fleet.later(Duration::from_secs(30)).await;
        assert_eq!(fleet.columns("example-run").await, "True False True", "{}", fleet.outline("example-run").await);
    }
}
