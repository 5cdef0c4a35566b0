//! A fleet of two members in one process, and a user who runs `diagnose` and pastes its fixes.
//!
//! Each scenario has a placement, a strategy and a namespace of its own, named after it.

use std::time::Duration;

use fleet_core::diagnose::{Diagnosis, Finding, Kubectl};
use fleet_sim::member::SimulatedMember;
use fleet_sim::simulation::{AgentMetrics, Simulation, SimulationTemplate};
use fleet_testkit::scenarios::Scenario;
use fleet_testkit::{Arrangement, JsonClient, MEMBERS, NAMESPACES, object, text};
pub(super) use fleet_testkit::{DEFINITIONS, Kind, PLACEMENT_API, Scope, stage};
use serde_json::{Value, json};

use super::super::read::{Members, Reader};
use super::super::server::Server;
use super::super::subjects::Answer;

/// Virtual time after which a test gives up waiting.
const TIMEOUT: Duration = Duration::from_mins(20);

/// Runs scenarios one after the other in one fleet, which is slow to set up. All run, even if some fail.
macro_rules! scenarios {
    ($scope:expr; $($name:ident),+ $(,)?) => {{
        use futures::FutureExt as _;
        let mut fleet = $crate::diagnose::tests::fleet::Fleet::new($scope).await;
        let mut failed = Vec::new();
        $(
            if std::panic::AssertUnwindSafe($name(&mut fleet)).catch_unwind().await.is_err() {
                failed.push(stringify!($name));
                fleet.all_agents_run().await;
            }
        )+
        fleet.world.shut_down().await;
        assert!(failed.is_empty(), "{:?}: {failed:?}", $scope);
    }};
}
pub(super) use scenarios;

pub(super) struct Fleet {
    pub(super) world: Simulation,
    pub(super) scope: Scope,
    hub: JsonClient,
    /// The current scenario, and the names of its namespace, placement and strategy.
    name: String,
    space: String,
    placement: String,
    strategy: String,
    /// The selectors of a namespaced placement; cluster-scoped ones select a whole namespace.
    selected: Vec<Value>,
}

impl Members for Simulation {
    async fn client(&self, cluster: &str) -> Result<Option<kube::Client>, String> {
        Ok(Some(self.user_of(cluster)))
    }
}

impl Fleet {
    /// A hub with two members and running agents.
    pub(super) async fn new(scope: Scope) -> Self {
        // Without webhooks: `diagnose` also explains errors that webhooks would refuse.
        let template = SimulationTemplate::build().await.unwrap().without_checks();
        let mut world = Simulation::new(&template, 1, AgentMetrics::default()).await.unwrap();
        world.start_hub().unwrap();
        let hub = JsonClient(world.user());
        for name in ["member1", "member2"] {
            let member = serde_json::to_value(member(name).member_cluster()).unwrap();
            hub.create(MEMBERS, member).await;
        }
        let mut fleet = Self {
            world,
            scope,
            hub,
            name: "none".to_owned(),
            space: String::new(),
            placement: String::new(),
            strategy: String::new(),
            selected: Vec::new(),
        };
        fleet.start_member("member1").await;
        fleet.start_member("member2").await;
        fleet
            .until("all members have joined", async |fleet| {
                let mut joined = 0;
                for name in ["member1", "member2"] {
                    let member = fleet.get(&format!("{MEMBERS}/{name}")).await.unwrap();
                    joined += usize::from(condition(&member, "Joined").is_some_and(|one| one["status"] == "True"));
                }
                joined == 2
            })
            .await;
        fleet
    }

    /// Starts or restarts the member's agent.
    pub(super) async fn start_member(&mut self, name: &str) {
        self.world.start_member(&member(name)).await.unwrap();
    }

    /// From now on members report their namespaces; before, the hub assumes that they have all.
    pub(super) async fn members_report_namespaces(&mut self) {
        for name in ["member1", "member2"] {
            self.world.start_member(&member(name).reporting_namespaces()).await.unwrap();
        }
    }

    /// Restarts all agents: a failed scenario may have left some stopped.
    pub(super) async fn all_agents_run(&mut self) {
        self.world.start_hub().unwrap();
        self.start_member("member1").await;
        self.start_member("member2").await;
    }

    /// Starts a scenario: resets the labels of the members and creates a namespace with an object.
    pub(super) async fn scenario(&mut self, name: &str) {
        self.name = name.to_owned();
        self.space = format!("space-{name}");
        self.placement = format!("placement-{name}");
        self.strategy = format!("strategy-{name}");
        self.selected = vec![json!({"group": "", "version": "v1", "kind": "ConfigMap", "name": "settings"})];
        for (member, environment) in [("member1", "canary"), ("member2", "staging")] {
            self.label(member, json!({"environment": environment, "region": null, "order": null, "env": null})).await;
        }
        self.create(NAMESPACES, json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.space()}}))
            .await;
        self.content("1").await;
        if self.scope == Scope::Namespaced {
            for member in ["member1", "member2"] {
                let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.space()}});
                self.create_on(member, NAMESPACES, namespace).await;
            }
            // Members report their namespaces with heartbeats.
            self.pass(70).await;
        }
    }

    /// The namespace of the scenario.
    pub(super) fn space(&self) -> String {
        self.space.clone()
    }

    pub(super) fn placement_name(&self) -> String {
        self.placement.clone()
    }

    pub(super) fn strategy_name(&self) -> String {
        self.strategy.clone()
    }

    pub(super) fn run_name(&self) -> String {
        format!("run-{}", self.name)
    }

    pub(super) fn namespace(&self) -> Option<String> {
        (self.scope == Scope::Namespaced).then(|| self.space())
    }

    /// The collection path of this kind.
    pub(super) fn collection(&self, kind: Kind) -> String {
        kind.collection(self.scope, &self.space())
    }

    pub(super) async fn make(&self, kind: Kind, name: &str, spec: Value) {
        let object = json!({"apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": kind.name(self.scope),
            "metadata": {"name": name, "namespace": self.namespace()}, "spec": spec});
        self.create(&self.collection(kind), object).await;
    }

    pub(super) async fn object(&self, kind: Kind, name: &str) -> Value {
        self.get(&format!("{}/{name}", self.collection(kind))).await.unwrap_or_else(|| panic!("no {kind:?} {name}"))
    }

    pub(super) async fn list(&self, kind: Kind) -> Vec<Value> {
        self.hub.list(&self.collection(kind)).await
    }

    /// The placement of the scenario, External unless `change` says otherwise.
    pub(super) async fn place(&self, change: Value) {
        let mut spec = json!({"resourceSelectors": self.selectors(), "strategy": {"type": "External"}});
        for (field, value) in change.as_object().into_iter().flatten() {
            spec[field] = value.clone();
        }
        self.make(Kind::Placement, &self.placement_name(), spec).await;
    }

    fn arrangement(&self) -> Arrangement<'_> {
        Arrangement {
            hub: &self.hub,
            scope: self.scope,
            namespace: &self.space,
            placement: &self.placement,
            strategy: &self.strategy,
            selectors: json!(self.selectors()),
        }
    }

    /// Creates the objects and the run of an entry in the table of scenarios.
    pub(super) async fn arrange(&mut self, entry: &str) -> Scenario {
        self.scenario(&entry.to_lowercase().replace(['-', ' '], "")).await;
        let arrangement = self.arrangement();
        let scenario = arrangement.scenario(entry);
        arrangement.prepare(&scenario).await;
        self.pass(10).await;
        arrangement.create_run(&self.run_name(), &scenario).await;
        self.pass(5).await;
        scenario
    }

    /// What happens in this scenario while its run waits.
    pub(super) async fn change(&self, scenario: &Scenario) {
        self.arrangement().change(scenario).await;
    }

    /// The message of a condition of the run.
    pub(super) async fn message(&self, type_: &str) -> String {
        let run = self.object(Kind::Run, &self.run_name()).await;
        condition(&run, type_).map(|one| text(&one["message"])).unwrap_or_default()
    }

    pub(super) async fn strategy(&self, stages: Value) {
        self.make(Kind::Strategy, &self.strategy_name(), json!({"stages": stages})).await;
    }

    pub(super) async fn both_stages(&self) {
        self.strategy(json!([stage("staging"), stage("canary")])).await;
    }

    pub(super) async fn run(&self, change: Value) {
        self.run_named(&self.run_name(), change).await;
    }

    pub(super) async fn run_named(&self, name: &str, change: Value) {
        let mut spec = json!({"placementName": self.placement_name(), "stagedRolloutStrategyName": self.strategy_name(), "state": "Run"});
        for (field, value) in change.as_object().into_iter().flatten() {
            spec[field] = value.clone();
        }
        self.make(Kind::Run, name, spec).await;
        self.pass(5).await;
    }

    /// An override of what the placement selects, with one rule.
    pub(super) async fn override_with(&self, name: &str, rule: Value) {
        let (kind, collection, selectors) = match self.scope {
            Scope::Cluster => {
                ("ClusterResourceOverride", "clusterresourceoverrides".to_owned(), "clusterResourceSelectors")
            }
            Scope::Namespaced => {
                ("ResourceOverride", format!("namespaces/{}/resourceoverrides", self.space()), "resourceSelectors")
            }
        };
        let spec = json!({selectors: self.selectors(), "policy": {"overrideRules": [rule]}});
        self.create(&format!("{PLACEMENT_API}/{collection}"), object(kind, name, spec)).await;
    }

    /// Changes the placed object.
    pub(super) async fn content(&self, value: &str) {
        let maps = format!("/api/v1/namespaces/{}/configmaps", self.space());
        let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"value": value}});
        if self.get(&format!("{maps}/settings")).await.is_some() {
            self.patch(&format!("{maps}/settings"), body).await;
        } else {
            self.create(&maps, body).await;
        }
    }

    /// The resource selectors of the placement.
    pub(super) fn selectors(&self) -> Vec<Value> {
        match self.scope {
            Scope::Cluster => vec![json!({"group": "", "version": "v1", "kind": "Namespace", "name": self.space()})],
            Scope::Namespaced => self.selected.clone(),
        }
    }

    /// Adds a selector to a namespaced placement; a cluster-scoped one selects the whole namespace.
    pub(super) fn select(&mut self, group: &str, version: &str, kind: &str, name: &str) {
        self.selected.push(json!({"group": group, "version": version, "kind": kind, "name": name}));
    }

    /// A placed object: its collection path and its content.
    pub(super) fn placed(&self) -> (String, Value) {
        let space = self.space();
        match self.scope {
            Scope::Cluster => (
                "/api/v1/namespaces".to_owned(),
                json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": space}}),
            ),
            Scope::Namespaced => (
                format!("/api/v1/namespaces/{space}/configmaps"),
                json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings", "namespace": space}}),
            ),
        }
    }

    /// The condition type of the placement, which begins with its kind.
    pub(super) fn condition_type(&self, step: &str) -> String {
        format!("{}{step}", Kind::Placement.name(self.scope))
    }

    /// The path of the placement.
    pub(super) fn placement_path(&self) -> String {
        format!("{}/{}", self.collection(Kind::Placement), self.placement_name())
    }

    /// A Deployment with this image, in the namespace of the scenario.
    pub(super) async fn deployment(&mut self, image: &str) {
        self.select("apps", "v1", "Deployment", "web");
        let object = json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
            "spec": {
                "replicas": 2, "selector": {"matchLabels": {"app": "web"}},
                "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "web", "image": image}]}},
            },
        });
        self.create(&format!("/apis/apps/v1/namespaces/{}/deployments", self.space()), object).await;
    }

    pub(super) async fn label(&self, member: &str, labels: Value) {
        self.patch(&format!("{MEMBERS}/{member}"), json!({"metadata": {"labels": labels}})).await;
    }

    pub(super) async fn set_state(&self, run: &str, state: &str) {
        self.patch(&format!("{}/{run}", self.collection(Kind::Run)), json!({"spec": {"state": state}})).await;
    }

    pub(super) async fn approve(&self, name: &str, generation: i64) {
        let condition = json!({"type": "Approved", "status": "True", "reason": "approved", "message": "",
            "lastTransitionTime": self.world.clock().now().to_string(), "observedGeneration": generation});
        let path = format!("{}/{name}/status", self.collection(Kind::Approval));
        self.patch(&path, json!({"status": {"conditions": [condition]}})).await;
        self.pass(2).await;
    }

    pub(super) async fn get(&self, path: &str) -> Option<Value> {
        self.hub.get(path).await
    }

    fn on(&self, member: &str) -> JsonClient {
        JsonClient(self.world.user_of(member))
    }

    pub(super) async fn create_on(&self, member: &str, path: &str, object: Value) {
        self.on(member).create(path, object).await;
    }

    pub(super) async fn get_on(&self, member: &str, path: &str) -> Value {
        self.on(member).get(path).await.unwrap_or_default()
    }

    pub(super) async fn is_on(&self, member: &str, path: &str) -> bool {
        self.on(member).has(path).await
    }

    pub(super) async fn patch_on(&self, member: &str, path: &str, change: Value) {
        self.on(member).patch(path, change).await;
    }

    pub(super) async fn delete_on(&self, member: &str, path: &str) {
        self.on(member).delete(path).await;
    }

    pub(super) async fn create(&self, path: &str, object: Value) {
        self.hub.create(path, object).await;
    }

    pub(super) async fn patch(&self, path: &str, change: Value) {
        self.hub.patch(path, change).await;
    }

    pub(super) async fn delete(&self, path: &str) {
        self.hub.delete(path).await;
    }

    pub(super) async fn pass(&self, seconds: u64) {
        self.world.advance(Duration::from_secs(seconds)).await;
    }

    pub(super) async fn until(&self, what: &str, reached: impl AsyncFn(&Self) -> bool) {
        let begun = tokio::time::Instant::now();
        while !reached(self).await {
            assert!(begun.elapsed() < TIMEOUT, "{}: waited in vain until {what}", self.name);
            self.pass(1).await;
        }
    }

    /// Waits until a run of the placement has succeeded.
    pub(super) async fn until_rolled_out(&self) {
        self.until("a run has succeeded", async |fleet| {
            let runs = fleet.list(Kind::Run).await;
            runs.iter().any(|run| {
                run["spec"]["placementName"] == fleet.placement_name()
                    && condition(run, "Succeeded").is_some_and(|one| one["status"] == "True")
            })
        })
        .await;
    }

    /// Waits until the newest generation of the placement is available.
    pub(super) async fn until_available(&self) {
        self.until("the placement is available", async |fleet| fleet.is_available().await).await;
    }

    pub(super) async fn is_available(&self) -> bool {
        let placement = self.object(Kind::Placement, &self.placement_name()).await;
        ["Scheduled", "RolloutStarted", "Available"].iter().all(|step| {
            condition(&placement, &self.condition_type(step)).is_some_and(|one| {
                one["status"] == "True" && one["observedGeneration"] == placement["metadata"]["generation"]
            })
        })
    }

    /// Checks the cause and pastes its first fix, which makes the placement available.
    pub(super) async fn finds_and_places(&self, entry: &str) -> Finding {
        let cause = self.finds(&self.placement_name(), entry).await;
        self.paste_fix(&cause.fixes[0], &[]).await;
        self.until_available().await;
        self.is_well().await;
        cause
    }

    /// Checks that the placement has no findings.
    pub(super) async fn is_well(&self) {
        let found = self.diagnose(&self.placement_name()).await;
        assert_eq!(found.cause, None, "{found:#?}");
    }

    /// Waits until the condition of the run has this reason.
    pub(super) async fn until_reason(&self, run: &str, type_: &str, reason: &str) {
        self.until(&format!("{run} is {reason}"), async |fleet| {
            condition(&fleet.object(Kind::Run, run).await, type_).is_some_and(|one| one["reason"] == reason)
        })
        .await;
    }

    fn reader(&self) -> Reader<'_, Simulation> {
        Reader {
            hub: Server::new(self.hub.0.clone()),
            members: &self.world,
            now: self.world.clock().now(),
            kubectl: Kubectl::default(),
        }
    }

    pub(super) async fn diagnose(&self, subject: &str) -> Diagnosis {
        let answer = self.reader().about(self.namespace().as_deref(), subject).await;
        let mut answer = answer.unwrap_or_else(|error| panic!("{subject}: {error:?}"));
        assert_eq!(answer.diagnoses.len(), 1, "{subject} means several things");
        answer.diagnoses.remove(0)
    }

    pub(super) async fn everything(&self) -> Answer {
        self.reader().everything(None).await
    }

    /// Diagnoses the subject and checks the entry of the cause.
    pub(super) async fn finds(&self, subject: &str, entry: &str) -> Finding {
        let found = self.diagnose(subject).await;
        let cause = found.cause.clone().unwrap_or_else(|| panic!("{entry}: nothing found: {found:?}"));
        assert_eq!((cause.entry, &found.unread), (entry, &Vec::new()), "{found:#?}");
        cause
    }

    /// Checks the cause of the run and pastes its first fix, which rolls out the placement.
    pub(super) async fn finds_and_fixes(&self, entry: &str) -> Finding {
        let cause = self.finds(&self.run_name(), entry).await;
        self.paste_fix(&cause.fixes[0], &[]).await;
        self.until_rolled_out().await;
        cause
    }
}

fn member(name: &str) -> SimulatedMember {
    SimulatedMember::new(name).unwrap().applying()
}

pub(super) fn condition<'v>(object: &'v Value, type_: &str) -> Option<&'v Value> {
    fleet_testkit::condition(&object["status"]["conditions"], type_)
}

/// A rollout that does not wait for objects without availability tracking.
pub(super) fn rolling() -> Value {
    json!({"type": "RollingUpdate", "rollingUpdate": {"unavailablePeriodSeconds": 1}})
}

/// A kind of `example.com` without a schema.
pub(super) fn definition(plural: &str, kind: &str) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.example.com")},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": {"plural": plural, "kind": kind}, "versions": [{
            "name": "v1", "served": true, "storage": true,
            "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]},
    })
}
