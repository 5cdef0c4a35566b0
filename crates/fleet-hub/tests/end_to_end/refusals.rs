//! What is wrong with an object is told in the words that users know: by the server when it is stored, by the hub when it
//! can be seen only later.

use std::collections::BTreeSet;

use fleet_api::kinds::all_crds;
use serde_json::{Value, json};

use crate::end_to_end::world::{PLACEMENT, World, shop, shop_on};

/// What somebody tries, and the sentence that it is refused with.
struct Trial {
    /// Plural names of the kinds that it holds for, most of them twins.
    plurals: &'static [&'static str],
    name: String,
    /// What is stored before; `None` if the object is refused from the start.
    good: Option<Value>,
    /// The spec that is refused, or the change of the spec.
    bad: Value,
    sentence: &'static str,
}

const PLACEMENTS: &[&str] = &["clusterresourceplacements", "resourceplacements"];
const RUNS: &[&str] = &["clusterstagedupdateruns", "stagedupdateruns"];
const STRATEGIES: &[&str] = &["clusterstagedupdatestrategies", "stagedupdatestrategies"];
const APPROVALS: &[&str] = &["clusterapprovalrequests", "approvalrequests"];
const OVERRIDES: &[&str] = &["clusterresourceoverrides", "resourceoverrides"];
const BUDGETS: &[&str] = &["clusterresourceplacementdisruptionbudgets"];
const EVICTIONS: &[&str] = &["clusterresourceplacementevictions"];

fn refused(plurals: &'static [&'static str], bad: Value, sentence: &'static str) -> Trial {
    Trial { plurals, name: "x".to_owned(), good: None, bad, sentence }
}

fn change_refused(plurals: &'static [&'static str], good: Value, bad: Value, sentence: &'static str) -> Trial {
    Trial { plurals, name: "x".to_owned(), good: Some(good), bad, sentence }
}

fn with(mut spec: Value, field: &str, value: Value) -> Value {
    spec[field] = value;
    spec
}

fn selecting(terms: Value) -> Value {
    json!({"resourceSelectors": terms})
}

fn namespace(rest: Value) -> Value {
    let mut term = json!({"group": "", "version": "v1", "kind": "Namespace"});
    for (field, value) in rest.as_object().unwrap() {
        term[field] = value.clone();
    }
    term
}

fn placements() -> Vec<Trial> {
    let chosen = |name: &str| namespace(json!({"name": name, "selectionScope": "NamespaceWithResourceSelectors"}));
    let labels = json!({"matchLabels": {"a": "b"}});
    let by_labels = namespace(json!({"labelSelector": labels, "selectionScope": "NamespaceWithResourceSelectors"}));
    let both = namespace(json!({"name": "a", "labelSelector": labels}));
    let only = namespace(json!({"name": "b", "selectionScope": "NamespaceOnly"}));
    let role = json!({"group": "rbac.authorization.k8s.io", "version": "v1", "kind": "ClusterRole", "name": "r"});
    let policy = |policy: Value| with(shop(), "policy", policy);
    let tolerating = |one: Value| policy(json!({"placementType": "PickAll", "tolerations": [one]}));
    vec![
        refused(
            PLACEMENTS,
            selecting(json!([chosen("a"), chosen("b")])),
            "only one namespace selector with NamespaceWithResourceSelectors mode is allowed",
        ),
        refused(
            PLACEMENTS,
            selecting(json!([by_labels])),
            "namespace selector with NamespaceWithResourceSelectors mode must select by name (not by label)",
        ),
        refused(
            PLACEMENTS,
            selecting(json!([chosen("a"), only])),
            "when using NamespaceWithResourceSelectors mode, only one namespace selector is allowed (cannot mix with other namespace selectors)",
        ),
        refused(
            PLACEMENTS,
            selecting(json!([both])),
            "name and labelSelector are mutually exclusive in a resource selector",
        ),
        refused(
            &PLACEMENTS[..1],
            with(selecting(json!([role])), "statusReportingScope", json!("NamespaceAccessible")),
            "when statusReportingScope is NamespaceAccessible, exactly one resourceSelector with kind 'Namespace' is required",
        ),
        refused(
            PLACEMENTS,
            policy(json!({"placementType": "PickFixed", "clusterNames": ["c"], "numberOfClusters": 1})),
            "affinity, numberOfClusters, topologySpreadConstraints, and tolerations cannot be set when placementType is PickFixed",
        ),
        refused(
            PLACEMENTS,
            policy(json!({"placementType": "PickAll", "clusterNames": ["c"]})),
            "clusterNames, numberOfClusters, and topologySpreadConstraints cannot be set when placementType is PickAll",
        ),
        refused(
            PLACEMENTS,
            policy(json!({"placementType": "PickN"})),
            "clusterNames cannot be set and numberOfClusters must be set when placementType is PickN",
        ),
        refused(
            PLACEMENTS,
            tolerating(json!({"key": "a", "operator": "Exists", "value": "b"})),
            "value must be empty when operator is Exists",
        ),
        refused(
            PLACEMENTS,
            tolerating(json!({"operator": "Equal", "value": "b"})),
            "operator must be Exists when key is empty",
        ),
        change_refused(PLACEMENTS, shop_on(1), json!({"policy": null}), "policy cannot be removed once set"),
        change_refused(
            PLACEMENTS,
            shop_on(1),
            json!({"policy": {"placementType": "PickAll", "numberOfClusters": null}}),
            "placement type is immutable",
        ),
        change_refused(
            PLACEMENTS,
            with(shop(), "strategy", json!({"type": "External"})),
            json!({"strategy": {"type": "RollingUpdate"}}),
            "cannot change rollout strategy type from 'External' to other types",
        ),
        change_refused(
            &PLACEMENTS[..1],
            with(shop(), "statusReportingScope", json!("NamespaceAccessible")),
            json!({"statusReportingScope": "ClusterScopeOnly"}),
            "statusReportingScope is immutable",
        ),
    ]
}

fn runs() -> Vec<Trial> {
    let run = |state: &str| json!({"placementName": "p", "stagedRolloutStrategyName": "s", "resourceSnapshotIndex": "0", "state": state});
    let step = |from: &str, to: &str, sentence| change_refused(RUNS, run(from), json!({"state": to}), sentence);
    let fixed = |field: &str, sentence| change_refused(RUNS, run("Run"), json!({field: "other"}), sentence);
    let stage = |field: &str, value: Value| {
        let mut stage = json!({"name": "one"});
        stage[field] = value;
        json!({"stages": [stage]})
    };
    let approval = json!({"parentStageRollout": "r", "targetStage": "t"});
    vec![
        Trial { name: "x".repeat(64), ..refused(RUNS, run("Run"), "metadata.name max length is 63") },
        step("Initialize", "Stop", "invalid state transition: cannot transition from Initialize to Stop"),
        step("Run", "Initialize", "invalid state transition: cannot transition from Run to Initialize"),
        step("Stop", "Initialize", "invalid state transition: cannot transition from Stop to Initialize"),
        fixed("placementName", "placementName is immutable"),
        fixed("stagedRolloutStrategyName", "stagedRolloutStrategyName is immutable"),
        change_refused(RUNS, run("Run"), json!({"resourceSnapshotIndex": "1"}), "resourceSnapshotIndex is immutable"),
        refused(
            STRATEGIES,
            stage("afterStageTasks", json!([{"type": "Approval", "waitTime": "1h"}])),
            "AfterStageTaskType is Approval, waitTime is not allowed",
        ),
        refused(
            STRATEGIES,
            stage("afterStageTasks", json!([{"type": "TimedWait"}])),
            "AfterStageTaskType is TimedWait, waitTime is required",
        ),
        refused(
            STRATEGIES,
            stage("beforeStageTasks", json!([{"type": "TimedWait", "waitTime": "1h"}])),
            "BeforeStageTaskType cannot be TimedWait",
        ),
        refused(STRATEGIES, stage("maxConcurrency", json!(0)), "maxConcurrency must be at least 1"),
        change_refused(APPROVALS, approval, json!({"targetStage": "u"}), "The spec field is immutable"),
    ]
}

fn others() -> Vec<Trial> {
    let rule = json!({"clusterSelector": {"clusterSelectorTerms": []}, "overrideType": "Delete"});
    let selector = json!([{"group": "", "version": "v1", "kind": "Namespace", "name": "shop"}]);
    // Each of the twins has one of the two lists; the other is dropped as an unknown field.
    let of = |placement: Value| {
        json!({"placement": placement, "clusterResourceSelectors": selector, "resourceSelectors": selector,
            "policy": {"overrideRules": [rule]}})
    };
    let eviction = json!({"placementName": "p", "clusterName": "c"});
    let number = "If supplied value is String should match regex '^(100|[0-9]{1,2})%$' or If supplied value is Integer must be greater than or equal to 0";
    vec![
        refused(
            &OVERRIDES[..1],
            of(json!({"name": "web", "scope": "Namespaced"})),
            "clusterResourceOverride placement reference cannot be Namespaced scope",
        ),
        change_refused(
            OVERRIDES,
            of(json!({"name": "web"})),
            json!({"placement": {"name": "other"}}),
            "The placement field is immutable",
        ),
        refused(
            BUDGETS,
            json!({"maxUnavailable": 1, "minAvailable": 1}),
            "Both MaxUnavailable and MinAvailable cannot be specified",
        ),
        refused(BUDGETS, json!({"maxUnavailable": "120%"}), number),
        refused(BUDGETS, json!({"minAvailable": -1}), number),
        change_refused(EVICTIONS, eviction.clone(), json!({"clusterName": "d"}), "The ClusterName field is immutable"),
        change_refused(EVICTIONS, eviction, json!({"placementName": "q"}), "The PlacementName field is immutable"),
        Trial {
            name: "x".repeat(64),
            ..refused(
                &["memberclusters"],
                json!({"identity": {"kind": "User", "name": "u", "apiGroup": "rbac.authorization.k8s.io"}}),
                "metadata.name max length is 63",
            )
        },
        change_refused(
            &["clusterprofiles"],
            json!({"clusterManager": {"name": "KubeFleet"}}),
            json!({"clusterManager": {"name": "other"}}),
            "ClusterManager is immutable",
        ),
    ]
}

/// Where objects of a kind are made, with what its server asks for beside the spec.
fn place_of(plural: &str) -> (String, Value) {
    let crds = all_crds();
    let crd = crds.iter().find(|crd| crd.object["spec"]["names"]["plural"] == plural).unwrap();
    let spec = &crd.object["spec"];
    let versions = spec["versions"].as_array().unwrap();
    let version = versions.iter().find(|one| one["storage"] == true).unwrap()["name"].as_str().unwrap();
    let api_version = format!("{}/{version}", spec["group"].as_str().unwrap());
    let namespace = if spec["scope"] == "Namespaced" { "/namespaces/shop" } else { "" };
    let object = json!({"apiVersion": api_version, "kind": spec["names"]["kind"]});
    (format!("/apis/{api_version}{namespace}/{plural}"), object)
}

async fn check(world: &World, trial: &Trial) {
    for plural in trial.plurals {
        let (collection, mut object) = place_of(plural);
        object["metadata"] = json!({"name": trial.name});
        object["spec"] = trial.good.as_ref().unwrap_or(&trial.bad).clone();
        let path = format!("{collection}/{}", trial.name);
        let answer = if trial.good.is_some() {
            world.create(&collection, object).await;
            let answer = world.try_patch(&path, json!({"spec": trial.bad})).await;
            world.delete(&path).await;
            answer
        } else {
            world.try_create(&collection, object).await
        };
        let said = answer.expect_err(trial.sentence).to_string();
        assert!(said.contains(trial.sentence), "{plural} should say\n{}\nand says\n{said}", trial.sentence);
    }
}

/// All sentences of a schema's rules.
fn sentences(schema: &Value, found: &mut BTreeSet<String>) {
    match schema {
        Value::Object(fields) => {
            let rules = fields.get("x-kubernetes-validations").and_then(Value::as_array);
            found.extend(rules.into_iter().flatten().filter_map(|rule| rule["message"].as_str().map(str::to_owned)));
            fields.values().for_each(|inner| sentences(inner, found));
        }
        Value::Array(items) => items.iter().for_each(|inner| sentences(inner, found)),
        _ => {}
    }
}

/// Holds where `destination` is left out, which servers tell as an error of the rule itself.
const NEVER_SAID: &str = "when reportBackStrategy.type is 'Mirror', a destination must be specified";

#[tokio::test(start_paused = true)]
async fn every_validation_rule_of_our_kinds_has_its_own_message() {
    let world = World::new(&[]).await;
    let trials: Vec<Trial> = [placements(), runs(), others()].into_iter().flatten().collect();
    for trial in &trials {
        check(&world, trial).await;
    }
    let tried: BTreeSet<String> = trials.iter().map(|trial| trial.sentence.to_owned()).collect();
    let mut all = BTreeSet::new();
    for crd in all_crds() {
        sentences(&crd.object["spec"]["versions"], &mut all);
    }
    all.remove(NEVER_SAID);
    assert_eq!(all.difference(&tried).collect::<Vec<_>>(), Vec::<&String>::new(), "rules that no trial breaks");
}

#[tokio::test(start_paused = true)]
async fn placement_06_07_13_82_each_rejected_selection_says_why() {
    let world = World::new(&["c1"]).await;
    world.config_map("settings", "1").await;
    let term =
        |group: &str, kind: &str, name: &str| json!({"group": group, "version": "v1", "kind": kind, "name": name});
    let missing = namespace(json!({"name": "nowhere", "selectionScope": "NamespaceWithResourceSelectors"}));
    let cluster = [
        (
            "unknown",
            json!([term("example.com", "Unheard", "a")]),
            "invalid placement /unknown, failed to get GVR of the selector: no matches for kind \"Unheard\" in version \"example.com/v1\"",
        ),
        (
            "reserved",
            json!([term("", "Namespace", "kube-system")]),
            "invalid clusterRresourcePlacement reserved: namespace kube-system is not allowed to propagate",
        ),
        (
            "missing",
            json!([missing]),
            "invalid clusterResourcePlacement missing: NamespaceWithResourceSelectors mode requires exactly one namespace, but no namespaces were selected",
        ),
        (
            "inside",
            json!([term("", "ConfigMap", "settings")]),
            "invalid placement /inside: cannot select namespace-scoped resource /v1, Resource=configmaps in a clusterResourcePlacement",
        ),
        (
            "twice",
            json!([term("", "Namespace", "shop"), term("", "Namespace", "shop")]),
            "found duplicate resource {Group: Version:v1 Kind:Namespace Name:shop Namespace: Envelope:<nil>}",
        ),
    ];
    let role = json!([term("rbac.authorization.k8s.io", "ClusterRole", "view")]);
    let namespaced = [
        (
            "namespace",
            json!([term("", "Namespace", "shop")]),
            "invalid placement shop/namespace: cannot select cluster-scoped resource Namespace in a resourcePlacement",
        ),
        (
            "role",
            role,
            "invalid placement shop/role: cannot select cluster-scoped resource rbac.authorization.k8s.io/v1, Resource=clusterroles in a resourcePlacement",
        ),
    ];
    for (name, terms, _) in &cluster {
        world.place(name, selecting(terms.clone())).await;
    }
    let placements = format!("{PLACEMENT}/namespaces/shop/resourceplacements");
    for (name, terms, _) in &namespaced {
        let object = json!({"apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "ResourcePlacement",
            "metadata": {"name": name}, "spec": selecting(terms.clone())});
        world.create(&placements, object).await;
    }
    let running = world.start();
    running.settled().await;
    let told = |placement: Value, sentence: &str| {
        let conditions = placement["status"]["conditions"].as_array().unwrap().clone();
        assert_eq!(conditions.len(), 1, "{conditions:?}");
        assert_eq!(
            (&conditions[0]["status"], &conditions[0]["reason"]),
            (&json!("False"), &json!("InvalidResourceSelectors"))
        );
        let prefix = "The resource selectors are invalid: failed to process the request due to a client error: ";
        assert_eq!(conditions[0]["message"], format!("{prefix}{sentence}"));
    };
    for (name, _, sentence) in &cluster {
        told(world.placement(name).await, sentence);
    }
    for (name, _, sentence) in &namespaced {
        told(world.get(&format!("{placements}/{name}")).await.unwrap(), sentence);
    }
    assert!(world.snapshots().await.is_empty());
    running.stop().await;
}
