//! Agents of this implementation take over a fleet of KubeFleet's Go agents: hub first, then members one by one. Nothing is rolled
//! out again, and the list of writes is an expectation. docs/MIGRATING.md describes the steps for people.
//!
//! The objects are those of a fleet with all kinds: placements of both scopes and strategies, overrides, a placement that was
//! evicted, and a staged run that waits for an approval after its first stage. What only our agents write is removed, and what
//! the Go agents write in another way is written like that (`as_go_agents_write`).

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use expect_test::{Expect, expect};
use fleet_api::well_known::annotations;
use fleet_sim::member::SimulatedMember;
use fleet_sim::simulation::{AgentMetrics, HUB, Simulation, SimulationTemplate};
use fleet_testkit::{CLUSTER_API, JsonClient, PLACEMENT_API};
use serde_json::{Value, json};

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
/// Timeout of waits, in virtual time.
const TIMEOUT: Duration = Duration::from_mins(10);
/// How long writes are recorded after a step: longer than every resync, heartbeat and deferral.
const LONG_ENOUGH: Duration = Duration::from_mins(20);

/// Annotations that the Go agents do not write.
const OURS: [&str; 7] = [
    annotations::MEMBER_CLUSTER_UID,
    annotations::MOVED_BY_RUN,
    annotations::EVICTION_ALLOWED_BY,
    annotations::EVICTED_BINDING_UID,
    annotations::DELETE_PROPAGATION,
    annotations::LEAVE_REQUESTED_AT,
    annotations::RECENT_DELETIONS,
];
/// A condition of MemberClusters that the Go agents do not write.
const OUR_CONDITION: &str = "ClusterPropertiesUsable";
const MEMBERS: [(&str, &str); 2] = [("east", "canary"), ("west", "production")];

/// Committed writes of agents by actor, verb and path, with their number.
type Writes = Arc<Mutex<BTreeMap<String, usize>>>;

struct Fleet {
    simulation: Simulation,
    hub: JsonClient,
    writes: Writes,
}

/// The path of an object of a list.
fn path_of(list: &str, object: &Value) -> String {
    let (prefix, plural) = list.rsplit_once('/').unwrap();
    let name = object["metadata"]["name"].as_str().unwrap();
    match object["metadata"]["namespace"].as_str() {
        Some(namespace) => format!("{prefix}/namespaces/{namespace}/{plural}/{name}"),
        None => format!("{list}/{name}"),
    }
}

impl Fleet {
    /// A settled fleet.
    async fn start() -> Self {
        let template = SimulationTemplate::build().await.unwrap();
        let mut simulation = Simulation::new(&template, 1, AgentMetrics::default()).await.unwrap();
        simulation.start_hub().unwrap();
        let writes = Writes::default();
        let kept = writes.clone();
        simulation.network().observe_writes(move |write| {
            let path = write.path.split('?').next().unwrap_or_default();
            if write.actor != "user" && !write.path.contains("dryRun=") {
                let line = format!("{} {} {}{}", write.actor, write.verb, write.server, without_random_part(path));
                *kept.lock().unwrap().entry(line).or_default() += 1;
            }
        });
        let hub = JsonClient(simulation.user());
        let mut fleet = Self { simulation, hub, writes };
        for (name, environment) in MEMBERS {
            let member = SimulatedMember::new(name).unwrap().labelled(&[("environment", environment)]).applying();
            let object = serde_json::to_value(member.member_cluster()).unwrap();
            fleet.hub.create(&format!("{CLUSTER_API}/memberclusters"), object).await;
            fleet.simulation.start_member(&member).await.unwrap();
        }
        fleet.place().await;
        fleet
    }

    async fn make(&self, kind: &str, namespace: Option<&str>, name: &str, spec: Value) {
        let plural = kind.to_lowercase();
        let plural = plural.strip_suffix('y').map_or_else(|| format!("{plural}s"), |stem| format!("{stem}ies"));
        let place = namespace.map(|namespace| format!("/namespaces/{namespace}")).unwrap_or_default();
        let object = json!({"apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": kind,
            "metadata": {"name": name}, "spec": spec});
        self.hub.create(&format!("{PLACEMENT_API}{place}/{plural}"), object).await;
    }

    /// Placements of all sorts, and a staged run that waits for an approval.
    async fn place(&self) {
        let selector = |name: &str| json!([{"group": "", "version": "v1", "kind": "Namespace", "name": name}]);
        for namespace in ["rolling", "staged", "own"] {
            let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
            self.hub.create("/api/v1/namespaces", object).await;
            let map =
                json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"a": "1"}});
            self.hub.create(&format!("/api/v1/namespaces/{namespace}/configmaps"), map).await;
        }
        let container = json!({"name": "web", "image": "web:1"});
        let labels = json!({"app": "web"});
        let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": {
            "replicas": 1, "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}}}});
        self.hub.create("/apis/apps/v1/namespaces/rolling/deployments", deployment).await;
        let rule = json!({"clusterSelector": {"clusterSelectorTerms": [{"labelSelector": {"matchLabels": {"environment": "canary"}}}]},
            "jsonPatchOverrides": [{"op": "add", "path": "/metadata/labels", "value": {"canary": "yes"}}]});
        let of_namespace = json!([{"group": "", "version": "v1", "kind": "Namespace", "name": "rolling"}]);
        self.make(
            "ClusterResourceOverride",
            None,
            "canaries",
            json!({"placement": {"name": "rolling"}, "clusterResourceSelectors": of_namespace, "policy": {"overrideRules": [rule]}}),
        )
        .await;
        self.make(
            "ClusterResourcePlacement",
            None,
            "rolling",
            json!({"resourceSelectors": selector("rolling"),
            "policy": {"placementType": "PickN", "numberOfClusters": 2}}),
        )
        .await;
        let external = json!({"resourceSelectors": selector("staged"), "strategy": {"type": "External"}});
        self.make("ClusterResourcePlacement", None, "staged", external).await;
        let maps = json!([{"group": "", "version": "v1", "kind": "ConfigMap", "name": "settings"}]);
        self.make(
            "ResourcePlacement",
            Some("own"),
            "own",
            json!({"resourceSelectors": maps, "policy": {"placementType": "PickFixed", "clusterNames": ["west"]}}),
        )
        .await;
        let stage = |name: &str, tasks: Value| json!({"name": name, "labelSelector": {"matchLabels": {"environment": name}}, "afterStageTasks": tasks});
        let stages = json!([stage("canary", json!([{"type": "Approval"}])), stage("production", json!([]))]);
        self.make("ClusterStagedUpdateStrategy", None, "careful", json!({"stages": stages})).await;
        self.simulation.advance(Duration::from_mins(2)).await;
        let run = json!({"placementName": "staged", "stagedRolloutStrategyName": "careful", "state": "Run"});
        self.make("ClusterStagedUpdateRun", None, "staged-1", run).await;
        self.until("the run waits", async |fleet| {
            fleet.condition("clusterstagedupdateruns/staged-1", "Progressing").await == "UpdateRunWaiting"
        })
        .await;
        for placement in ["rolling", "staged"] {
            assert!(
                !self
                    .condition(&format!("clusterresourceplacements/{placement}"), "ClusterResourcePlacementScheduled")
                    .await
                    .is_empty()
            );
        }
        self.simulation.advance(LONG_ENOUGH).await;
    }

    /// The reason of a condition.
    async fn condition(&self, path: &str, type_: &str) -> String {
        let object = self.hub.get(&format!("{PLACEMENT_API}/{path}")).await.unwrap();
        let conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let found = conditions.iter().find(|one| one["type"] == type_);
        found.map(|one| one["reason"].as_str().unwrap().to_owned()).unwrap_or_default()
    }

    async fn until(&self, what: &str, reached: impl AsyncFn(&Self) -> bool) {
        let begun = tokio::time::Instant::now();
        while !reached(self).await {
            assert!(begun.elapsed() < TIMEOUT, "timed out waiting until {what}");
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    }

    /// Stops all agents and leaves the objects as KubeFleet's Go agents leave them: without annotations and conditions that only our
    /// agents write, with the wide Role of members, and with fields that no manager of ours owns.
    async fn as_go_agents_write(&mut self) {
        for actor in [HUB, "east", "west"] {
            self.simulation.stop(actor);
        }
        let lists = [
            format!("{PLACEMENT_API}/clusterresourcebindings"),
            format!("{PLACEMENT_API}/resourcebindings"),
            format!("{PLACEMENT_API}/clusterresourcesnapshots"),
            format!("{PLACEMENT_API}/resourcesnapshots"),
            format!("{PLACEMENT_API}/clusterschedulingpolicysnapshots"),
            format!("{PLACEMENT_API}/schedulingpolicysnapshots"),
            format!("{PLACEMENT_API}/clusterresourceoverridesnapshots"),
            format!("{PLACEMENT_API}/clusterapprovalrequests"),
            format!("{PLACEMENT_API}/clusterstagedupdateruns"),
            format!("{PLACEMENT_API}/clusterresourceplacements"),
            format!("{PLACEMENT_API}/resourceplacements"),
            format!("{PLACEMENT_API}/works"),
            format!("{CLUSTER_API}/internalmemberclusters"),
            format!("{CLUSTER_API}/memberclusters"),
        ];
        let removed: Value = OURS.iter().map(|key| ((*key).to_owned(), Value::Null)).collect();
        let change = json!({"metadata": {"annotations": removed, "managedFields": [{}]}});
        for list in &lists {
            for object in self.hub.list(list).await {
                self.hub.patch(&path_of(list, &object), change.clone()).await;
            }
        }
        let list = format!("{CLUSTER_API}/memberclusters");
        for object in self.hub.list(&list).await {
            let mut conditions = object["status"]["conditions"].as_array().cloned().unwrap();
            conditions.retain(|one| one["type"] != OUR_CONDITION);
            let path = format!("{}/status", path_of(&list, &object));
            self.hub.patch(&path, json!({"status": {"conditions": conditions}})).await;
        }
        for (name, _) in MEMBERS {
            let groups = ["cluster.kubernetes-fleet.io", "placement.kubernetes-fleet.io", "networking.fleet.azure.com"];
            let mut rules: Vec<Value> =
                groups.iter().map(|group| json!({"apiGroups": [group], "resources": ["*"], "verbs": ["*"]})).collect();
            rules.push(json!({"apiGroups": [""], "resources": ["events"], "verbs": ["get", "list", "watch", "create", "update", "patch"]}));
            let path = format!("{RBAC}/namespaces/fleet-member-{name}/roles/fleet-role-{name}");
            self.hub.patch(&path, json!({"rules": rules})).await;
            let own = JsonClient(self.simulation.user_of(name));
            let list = format!("{PLACEMENT_API}/appliedworks");
            for object in own.list(&list).await {
                own.patch(&path_of(&list, &object), change.clone()).await;
            }
        }
        self.simulation.advance(Duration::from_secs(10)).await;
    }

    /// What must not change: what bindings point to, what Works contain, and objects on members.
    async fn rolled_out(&self) -> Vec<Value> {
        let mut all = Vec::new();
        for kind in ["clusterresourcebindings", "resourcebindings"] {
            let bindings = self.hub.list(&format!("{PLACEMENT_API}/{kind}")).await;
            all.extend(bindings.into_iter().map(|one| json!([one["metadata"]["uid"], one["spec"]])));
        }
        for kind in ["works", "clusterresourcesnapshots", "resourcesnapshots", "clusterschedulingpolicysnapshots"] {
            let objects = self.hub.list(&format!("{PLACEMENT_API}/{kind}")).await;
            all.extend(objects.into_iter().map(|one| json!([one["metadata"]["uid"], one["metadata"]["generation"]])));
        }
        for (name, _) in MEMBERS {
            let own = JsonClient(self.simulation.user_of(name));
            for list in ["/api/v1/configmaps", "/apis/apps/v1/deployments", "/api/v1/namespaces"] {
                let objects = own.list(list).await;
                let version = |one: &Value| one["metadata"]["resourceVersion"].clone();
                all.extend(objects.iter().map(|one| json!([one["metadata"]["uid"], version(one)])));
            }
        }
        all
    }

    /// The writes of all agents since the last call, after everything has settled.
    async fn written(&self, expected: Expect) {
        self.simulation.advance(LONG_ENOUGH).await;
        let written = std::mem::take(&mut *self.writes.lock().unwrap());
        let mut out = String::new();
        for (line, count) in written {
            // How often an agent sends heartbeats depends on the period.
            let is_heartbeat = line.contains("memberclusters/") && line.ends_with("/status");
            let count = if is_heartbeat || count == 1 { String::new() } else { format!(" ({count} times)") };
            writeln!(out, "{line}{count}").unwrap();
        }
        expected.assert_eq(&out);
    }
}

/// A name without the random part that bindings have.
fn without_random_part(path: &str) -> String {
    let is_random = |part: &str| part.len() == 8 && part.chars().all(|one| one.is_ascii_hexdigit());
    path.split('/')
        .map(|segment| match segment.rsplit_once('-') {
            Some((stem, part)) if is_random(part) => format!("{stem}-…"),
            _ => segment.to_owned(),
        })
        .collect::<Vec<_>>()
        .join("/")
}

#[tokio::test(start_paused = true)]
async fn nothing_is_rolled_out_again_when_our_agents_take_over_from_go_agents() {
    let mut fleet = Fleet::start().await;
    fleet.as_go_agents_write().await;
    let before = fleet.rolled_out().await;
    fleet.writes.lock().unwrap().clear();

    fleet.simulation.start_hub().unwrap();
    fleet
        .written(expect![[r#"
        hub PATCH /apis/multicluster.x-k8s.io/v1alpha1/namespaces/fleet-system/clusterprofiles/east/status
        hub PATCH /apis/multicluster.x-k8s.io/v1alpha1/namespaces/fleet-system/clusterprofiles/west/status
        hub PATCH /apis/rbac.authorization.k8s.io/v1/namespaces/fleet-member-east/roles/fleet-role-east
        hub PATCH /apis/rbac.authorization.k8s.io/v1/namespaces/fleet-member-west/roles/fleet-role-west
        hub POST /api/v1/namespaces/default/events (2 times)
    "#]])
        .await;
    assert_eq!(fleet.rolled_out().await, before, "the hub rolls nothing out");
    fleet.simulation.restart_member("east").unwrap();
    fleet.written(expect![[r#"
        east PATCH /apis/cluster.kubernetes-fleet.io/v1beta1/namespaces/fleet-member-east/internalmemberclusters/east/status
        hub PATCH /apis/cluster.kubernetes-fleet.io/v1beta1/memberclusters/east/status
        hub PATCH /apis/multicluster.x-k8s.io/v1alpha1/namespaces/fleet-system/clusterprofiles/east/status
    "#]]).await;
    fleet.simulation.restart_member("west").unwrap();
    fleet.written(expect![[r#"
        east PATCH /apis/cluster.kubernetes-fleet.io/v1beta1/namespaces/fleet-member-east/internalmemberclusters/east/status
        hub PATCH /apis/cluster.kubernetes-fleet.io/v1beta1/memberclusters/east/status
        hub PATCH /apis/cluster.kubernetes-fleet.io/v1beta1/memberclusters/west/status
        hub PATCH /apis/multicluster.x-k8s.io/v1alpha1/namespaces/fleet-system/clusterprofiles/west/status
        west PATCH /apis/cluster.kubernetes-fleet.io/v1beta1/namespaces/fleet-member-west/internalmemberclusters/west/status
    "#]]).await;
    assert_eq!(fleet.rolled_out().await, before, "the members apply nothing again");
    assert_eq!(fleet.condition("clusterstagedupdateruns/staged-1", "Progressing").await, "UpdateRunWaiting");

    // The half-finished run goes on where it was.
    let requests = format!("{PLACEMENT_API}/clusterapprovalrequests");
    let [request] = &fleet.hub.list(&requests).await[..] else { panic!("one request") };
    let approved = json!({"type": "Approved", "status": "True", "reason": "ok", "message": "",
        "observedGeneration": request["metadata"]["generation"], "lastTransitionTime": "2026-01-01T00:00:00Z"});
    let path = format!("{}/status", path_of(&requests, request));
    fleet.hub.patch(&path, json!({"status": {"conditions": [approved]}})).await;
    fleet
        .until("the run succeeds", async |fleet| {
            fleet.condition("clusterstagedupdateruns/staged-1", "Succeeded").await == "UpdateRunSucceeded"
        })
        .await;
    let path = "/api/v1/namespaces/staged/configmaps/settings";
    let placed = JsonClient(fleet.simulation.user_of("west")).get(path).await.unwrap();
    assert_eq!(placed["data"]["a"], "1");
    fleet.simulation.shut_down().await;
}
