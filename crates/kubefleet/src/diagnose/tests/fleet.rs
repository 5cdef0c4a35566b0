//! A fleet of two members in one process, and a person who asks and does as the answer says.
//!
//! Each scenario has a placement, a strategy and a namespace of its own, named after it.

use std::time::Duration;

use fleet_core::diagnose::{Action, Diagnosis, Finding, Fix, Kubectl, ObjectRef};
use fleet_sim::member::SimulatedMember;
use fleet_sim::world::{AgentMetrics, Ground, World};
use http::Method;
use serde_json::{Value, json};

use super::super::read::{Members, Reader};
use super::super::server::Server;
use super::super::subjects::Answer;

pub(super) const PLACEMENT_API: &str = "/apis/placement.kubernetes-fleet.io/v1beta1";
pub(super) const MEMBERS: &str = "/apis/cluster.kubernetes-fleet.io/v1beta1/memberclusters";
/// Virtual time after which what has not happened never will.
const PATIENCE: Duration = Duration::from_mins(20);

/// Which of the twin kinds a scenario uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scope {
    Cluster,
    Namespaced,
}

/// Plays scenarios one after the other in one fleet: it takes long to set up. All are played, whatever becomes of the others.
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
        fleet.world.end().await;
        assert!(failed.is_empty(), "{:?}: {failed:?}", $scope);
    }};
}
pub(super) use scenarios;

/// The kinds around a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Placement,
    Run,
    Strategy,
    Approval,
    Binding,
}

pub(super) struct Fleet {
    pub(super) world: World,
    pub(super) scope: Scope,
    hub: kube::Client,
    /// The scenario that is played.
    name: String,
}

impl Members for World {
    async fn client(&self, cluster: &str) -> Result<Option<kube::Client>, String> {
        Ok(Some(self.user_of(cluster)))
    }
}

impl Fleet {
    /// A hub and the members of the guides, whose agents apply what they are given.
    pub(super) async fn new(scope: Scope) -> Self {
        let ground = Ground::lay().await.unwrap();
        let mut world = World::new(&ground, 1, AgentMetrics::default()).await.unwrap();
        world.start_hub().unwrap();
        let hub = world.user();
        for name in ["member1", "member2"] {
            let member = serde_json::to_value(member(name).member_cluster()).unwrap();
            request(&hub, Method::POST, MEMBERS, Some(&member)).await.unwrap();
        }
        let mut fleet = Self { world, scope, hub, name: "none".to_owned() };
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

    /// Starts the member's agent, or starts it anew.
    pub(super) async fn start_member(&mut self, name: &str) {
        self.world.start_member(&member(name)).await.unwrap();
    }

    /// Starts all agents anew: a scenario that failed may have left some dead.
    pub(super) async fn all_agents_run(&mut self) {
        self.world.start_hub().unwrap();
        self.start_member("member1").await;
        self.start_member("member2").await;
    }

    /// Begins another scenario: members have the labels of the guides, and there is a namespace with something in it.
    pub(super) async fn scenario(&mut self, name: &str) {
        self.name = name.to_owned();
        for (member, environment) in [("member1", "canary"), ("member2", "staging")] {
            self.label(member, json!({"environment": environment, "region": null, "order": null, "env": null})).await;
        }
        self.create(
            "/api/v1/namespaces",
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.space()}}),
        )
        .await;
        self.content("1").await;
        if self.scope == Scope::Namespaced {
            for member in ["member1", "member2"] {
                let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.space()}});
                request(&self.world.user_of(member), Method::POST, "/api/v1/namespaces", Some(&namespace))
                    .await
                    .unwrap();
            }
            // Members tell of their namespaces with their heartbeats.
            self.pass(70).await;
        }
    }

    /// The namespace of the scenario.
    pub(super) fn space(&self) -> String {
        format!("space-{}", self.name)
    }

    pub(super) fn placement_name(&self) -> String {
        format!("placement-{}", self.name)
    }

    pub(super) fn strategy_name(&self) -> String {
        format!("strategy-{}", self.name)
    }

    pub(super) fn run_name(&self) -> String {
        format!("run-{}", self.name)
    }

    fn namespace(&self) -> Option<String> {
        (self.scope == Scope::Namespaced).then(|| self.space())
    }

    fn words(&self, kind: Kind) -> (&'static str, &'static str) {
        match (kind, self.scope) {
            (Kind::Placement, Scope::Cluster) => ("ClusterResourcePlacement", "clusterresourceplacements"),
            (Kind::Placement, Scope::Namespaced) => ("ResourcePlacement", "resourceplacements"),
            (Kind::Run, Scope::Cluster) => ("ClusterStagedUpdateRun", "clusterstagedupdateruns"),
            (Kind::Run, Scope::Namespaced) => ("StagedUpdateRun", "stagedupdateruns"),
            (Kind::Strategy, Scope::Cluster) => ("ClusterStagedUpdateStrategy", "clusterstagedupdatestrategies"),
            (Kind::Strategy, Scope::Namespaced) => ("StagedUpdateStrategy", "stagedupdatestrategies"),
            (Kind::Approval, Scope::Cluster) => ("ClusterApprovalRequest", "clusterapprovalrequests"),
            (Kind::Approval, Scope::Namespaced) => ("ApprovalRequest", "approvalrequests"),
            (Kind::Binding, Scope::Cluster) => ("ClusterResourceBinding", "clusterresourcebindings"),
            (Kind::Binding, Scope::Namespaced) => ("ResourceBinding", "resourcebindings"),
        }
    }

    /// Where objects of this kind are.
    pub(super) fn collection(&self, kind: Kind) -> String {
        let plural = self.words(kind).1;
        match self.namespace() {
            Some(namespace) => format!("{PLACEMENT_API}/namespaces/{namespace}/{plural}"),
            None => format!("{PLACEMENT_API}/{plural}"),
        }
    }

    pub(super) async fn make(&self, kind: Kind, name: &str, spec: Value) {
        let object = json!({"apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": self.words(kind).0,
            "metadata": {"name": name, "namespace": self.namespace()}, "spec": spec});
        self.create(&self.collection(kind), object).await;
    }

    pub(super) async fn object(&self, kind: Kind, name: &str) -> Value {
        self.get(&format!("{}/{name}", self.collection(kind))).await.unwrap_or_else(|| panic!("no {kind:?} {name}"))
    }

    pub(super) async fn list(&self, kind: Kind) -> Vec<Value> {
        self.get(&self.collection(kind)).await.unwrap()["items"].as_array().unwrap().clone()
    }

    /// The placement of the scenario, External unless `change` says otherwise.
    pub(super) async fn place(&self, change: Value) {
        let selector = match self.scope {
            Scope::Cluster => json!({"group": "", "version": "v1", "kind": "Namespace", "name": self.space()}),
            Scope::Namespaced => json!({"group": "", "version": "v1", "kind": "ConfigMap", "name": "settings"}),
        };
        let mut spec = json!({"resourceSelectors": [selector], "strategy": {"type": "External"}});
        for (field, value) in change.as_object().into_iter().flatten() {
            spec[field] = value.clone();
        }
        self.make(Kind::Placement, &self.placement_name(), spec).await;
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

    /// What is placed gets this value.
    pub(super) async fn content(&self, value: &str) {
        let maps = format!("/api/v1/namespaces/{}/configmaps", self.space());
        let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"value": value}});
        if self.get(&format!("{maps}/settings")).await.is_some() {
            self.patch(&format!("{maps}/settings"), body).await;
        } else {
            self.create(&maps, body).await;
        }
    }

    /// A Deployment with this image, in the namespace of the scenario.
    pub(super) async fn deployment(&self, image: &str) {
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
        request(&self.hub, Method::GET, path, None).await
    }

    pub(super) async fn create_on(&self, member: &str, path: &str, object: Value) {
        request(&self.world.user_of(member), Method::POST, path, Some(&object)).await;
    }

    pub(super) async fn get_on(&self, member: &str, path: &str) -> Value {
        request(&self.world.user_of(member), Method::GET, path, None).await.unwrap_or_default()
    }

    pub(super) async fn is_on(&self, member: &str, path: &str) -> bool {
        !self.get_on(member, path).await.is_null()
    }

    pub(super) async fn create(&self, path: &str, object: Value) {
        request(&self.hub, Method::POST, path, Some(&object)).await;
    }

    pub(super) async fn patch(&self, path: &str, change: Value) {
        send(&self.hub, Method::PATCH, path, "application/merge-patch+json", Some(&change)).await;
    }

    pub(super) async fn delete(&self, path: &str) {
        request(&self.hub, Method::DELETE, path, None).await;
    }

    pub(super) async fn pass(&self, seconds: u64) {
        self.world.pass(Duration::from_secs(seconds)).await;
    }

    pub(super) async fn until(&self, what: &str, reached: impl AsyncFn(&Self) -> bool) {
        let begun = tokio::time::Instant::now();
        while !reached(self).await {
            assert!(begun.elapsed() < PATIENCE, "{}: waited in vain until {what}", self.name);
            self.pass(1).await;
        }
    }

    /// Until a run of the scenario's placement has succeeded.
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

    /// Until the condition of the run has this reason.
    pub(super) async fn until_reason(&self, run: &str, type_: &str, reason: &str) {
        self.until(&format!("{run} is {reason}"), async |fleet| {
            condition(&fleet.object(Kind::Run, run).await, type_).is_some_and(|one| one["reason"] == reason)
        })
        .await;
    }

    fn reader(&self) -> Reader<'_, World> {
        Reader {
            hub: Server::new(self.hub.clone()),
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

    /// What is wrong with the subject must be this entry.
    pub(super) async fn finds(&self, subject: &str, entry: &str) -> Finding {
        let found = self.diagnose(subject).await;
        let cause = found.cause.clone().unwrap_or_else(|| panic!("{entry}: nothing found: {found:?}"));
        assert_eq!((cause.entry, &found.unread), (entry, &Vec::new()), "{found:#?}");
        cause
    }

    /// The run of the scenario has this trouble; its first fix, carried out, rolls the placement out.
    pub(super) async fn finds_and_mends(&self, entry: &str) -> Finding {
        let cause = self.finds(&self.run_name(), entry).await;
        self.carry_out(&cause.fixes[0], &[]).await;
        self.until_rolled_out().await;
        cause
    }

    /// Does what a fix says; words in angle brackets are replaced. Steps that only look are left out.
    pub(super) async fn carry_out(&self, fix: &Fix, words: &[(&str, &str)]) {
        for step in &fix.steps {
            let Some(action) = &step.action else { continue };
            let mut text = serde_json::to_string(action).unwrap();
            for (word, value) in words {
                text = text.replace(word, value);
            }
            assert!(
                step.fill_in.iter().all(|word| !text.contains(word.as_str())),
                "nobody fills in {:?}",
                step.fill_in
            );
            self.act(action, &serde_json::from_str(&text).unwrap()).await;
            self.pass(3).await;
        }
    }

    async fn act(&self, action: &Action, filled: &Value) {
        match action {
            Action::Create { member, .. } => {
                let client = member.as_ref().map_or_else(|| self.hub.clone(), |member| self.world.user_of(member));
                let manifest = &filled["manifest"];
                let (api, kind) = (manifest["apiVersion"].as_str().unwrap(), manifest["kind"].as_str().unwrap());
                let path = collection_of(api, kind, manifest["metadata"]["namespace"].as_str());
                request(&client, Method::POST, &path, Some(manifest)).await;
            }
            Action::Patch { object, subresource, patch_type, .. } => {
                let subresource = subresource.map(|word| format!("/{word}")).unwrap_or_default();
                let path = format!("{}{subresource}", path_of(object));
                send(&self.client_for(object), Method::PATCH, &path, patch_type.media_type(), Some(&filled["patch"]))
                    .await;
            }
            Action::Delete { object } => {
                drop(request(&self.client_for(object), Method::DELETE, &path_of(object), None).await);
            }
        }
    }

    fn client_for(&self, object: &ObjectRef) -> kube::Client {
        object.member.as_ref().map_or_else(|| self.hub.clone(), |member| self.world.user_of(member))
    }
}

fn member(name: &str) -> SimulatedMember {
    SimulatedMember::new(name).unwrap().applying()
}

fn path_of(object: &ObjectRef) -> String {
    format!("{}/{}", collection_of(&object.api_version, &object.kind, object.namespace.as_deref()), object.name)
}

fn collection_of(api_version: &str, kind: &str, namespace: Option<&str>) -> String {
    let root = if api_version.contains('/') { format!("/apis/{api_version}") } else { format!("/api/{api_version}") };
    let place = namespace.map(|namespace| format!("/namespaces/{namespace}")).unwrap_or_default();
    format!("{root}{place}/{}", super::super::member_side::guessed_plural(kind))
}

async fn request(client: &kube::Client, method: Method, path: &str, body: Option<&Value>) -> Option<Value> {
    send(client, method, path, "application/json", body).await
}

async fn send(client: &kube::Client, method: Method, path: &str, format: &str, body: Option<&Value>) -> Option<Value> {
    let bytes = body.map(|body| body.to_string().into_bytes()).unwrap_or_default();
    let request =
        http::Request::builder().method(method.clone()).uri(path).header("content-type", format).body(bytes).unwrap();
    match client.request(request).await {
        Ok(answer) => Some(answer),
        Err(kube::Error::Api(status)) if status.code == 404 && method == Method::GET => None,
        Err(error) => panic!("{method} {path}: {error} {body:?}"),
    }
}

pub(super) fn condition<'v>(object: &'v Value, type_: &str) -> Option<&'v Value> {
    object["status"]["conditions"].as_array()?.iter().find(|one| one["type"] == type_)
}

/// A stage for the clusters of this environment.
pub(super) fn stage(environment: &str) -> Value {
    json!({"name": environment, "labelSelector": {"matchLabels": {"environment": environment}}})
}
