//! A hub of one scope in one process: an External placement, members that do as they are told, strategies, runs and
//! approvals. Names are those of the guides.

mod reading;
mod requests;

use std::sync::Arc;
use std::time::Duration;

use apiserver::auth::User;
use apiserver::embedded::{Embedded, Options as ServerOptions, ROOT_CLUSTER};
use apiserver::http::Listening;
use apiserver::server::Server;
use fleet_api::kinds::all_crds;
use fleet_core::placement::SnapshotPace;
use fleet_hub::{Hub, HubOptions, install, ownership};
use fleet_runtime::{Broken, Clock, KindId, Metrics, Options, Ownership, Progress, Runtime, Seeds};
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::deaf::Deaf;
use crate::members::{Manner, Members};
use crate::mortal::{Life, Mortal};
pub(crate) use reading::{condition, text};

/// Virtual time after which a hub that has not settled never will.
const PATIENCE: Duration = Duration::from_mins(10);
const PLACEMENT_API: &str = "/apis/placement.kubernetes-fleet.io/v1beta1";
const MEMBERS: &str = "/apis/cluster.kubernetes-fleet.io/v1beta1/memberclusters";
pub(crate) const NAMESPACE: &str = "my-app-namespace";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    Cluster,
    Namespaced,
}

/// The kinds around a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Placement,
    Run,
    Strategy,
    Approval,
    Binding,
    ResourceSnapshot,
}

impl Kind {
    fn words(self, scope: Scope) -> (&'static str, &'static str) {
        use Kind::{Approval, Binding, Placement, ResourceSnapshot, Run, Strategy};
        match (self, scope) {
            (Placement, Scope::Cluster) => ("ClusterResourcePlacement", "clusterresourceplacements"),
            (Placement, Scope::Namespaced) => ("ResourcePlacement", "resourceplacements"),
            (Run, Scope::Cluster) => ("ClusterStagedUpdateRun", "clusterstagedupdateruns"),
            (Run, Scope::Namespaced) => ("StagedUpdateRun", "stagedupdateruns"),
            (Strategy, Scope::Cluster) => ("ClusterStagedUpdateStrategy", "clusterstagedupdatestrategies"),
            (Strategy, Scope::Namespaced) => ("StagedUpdateStrategy", "stagedupdatestrategies"),
            (Approval, Scope::Cluster) => ("ClusterApprovalRequest", "clusterapprovalrequests"),
            (Approval, Scope::Namespaced) => ("ApprovalRequest", "approvalrequests"),
            (Binding, Scope::Cluster) => ("ClusterResourceBinding", "clusterresourcebindings"),
            (Binding, Scope::Namespaced) => ("ResourceBinding", "resourcebindings"),
            (ResourceSnapshot, Scope::Cluster) => ("ClusterResourceSnapshot", "clusterresourcesnapshots"),
            (ResourceSnapshot, Scope::Namespaced) => ("ResourceSnapshot", "resourcesnapshots"),
        }
    }
}

pub(crate) struct Fleet {
    pub(crate) scope: Scope,
    server: Embedded,
    pub(crate) clock: Clock,
    pub(crate) members: Members,
    running: Option<Running>,
    options: HubOptions,
    /// Names of the placement and the strategy that are spoken of.
    placement: String,
    strategy: String,
}

/// Runs a test for both scopes.
macro_rules! both_scopes {
    ($($(#[$about:meta])* async fn $name:ident(mut $fleet:ident) $body:block)+) => {
        $($(#[$about])* #[tokio::test(start_paused = true)]
        async fn $name() {
            for scope in [$crate::fleet::Scope::Cluster, $crate::fleet::Scope::Namespaced] {
                let mut $fleet = $crate::fleet::Fleet::new(scope).await;
                $body
                $fleet.stop().await;
            }
        })+
    };
}
pub(crate) use both_scopes;

impl Fleet {
    /// A hub with our kinds and nothing else, its controllers running.
    pub(crate) async fn new(scope: Scope) -> Self {
        let clock = Clock::starting_at("2026-01-01T00:00:00Z".parse().unwrap());
        let servers = clock.clone();
        let builder = Server::builder().clock(Arc::new(move || servers.now())).seed(1);
        let server = Embedded::with(builder, ServerOptions::default()).await.unwrap();
        let options =
            HubOptions { snapshot_pace: SnapshotPace::AT_ONCE, cluster_inventory: false, ..HubOptions::default() };
        let mut fleet = Self {
            scope,
            server,
            clock,
            members: Members::default(),
            running: None,
            options,
            placement: placement_name(scope),
            strategy: "example-strategy".to_owned(),
        };
        for crd in all_crds() {
            fleet.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd.object).await;
        }
        for namespace in ["fleet-system", NAMESPACE, "test-namespace"] {
            fleet.create("/api/v1/namespaces", json!({"metadata": {"name": namespace}})).await;
        }
        fleet.content("1").await;
        fleet.start();
        fleet.settle().await;
        fleet
    }

    /// The guides' example: `member1` is of stage `canary`, `member2` of `staging`; the placement picks both.
    pub(crate) async fn example(&mut self) {
        self.two_members().await;
        self.place(json!(null)).await;
        self.strategy(json!([stage("staging"), stage("canary")])).await;
        self.settle().await;
    }

    pub(crate) async fn two_members(&self) {
        self.join("member1", json!({"environment": "canary"})).await;
        self.join("member2", json!({"environment": "staging"})).await;
    }

    /// From now on another placement and another strategy are spoken of, members have the labels of the example again and
    /// do as they should. Scenarios that leave the fleet fit for others share it: one takes long to set up.
    pub(crate) async fn next(&mut self, scenario: &str) {
        self.placement = format!("{}-{scenario}", placement_name(self.scope));
        self.strategy = format!("strategy-{scenario}");
        for (member, environment) in [("member1", "canary"), ("member2", "staging")] {
            self.members.behave(member, Manner::Prompt);
            self.label(member, json!({"environment": environment, "region": null, "order": null})).await;
            self.heartbeat(member).await;
        }
        self.settle().await;
    }

    pub(crate) fn with_options(&mut self, change: impl FnOnce(&mut HubOptions)) {
        change(&mut self.options);
    }

    pub(crate) fn start(&mut self) {
        self.start_with(self.client());
    }

    /// A hub that dies when this life is over.
    pub(crate) fn start_mortal(&mut self, life: &Life) {
        let server = self.server.service(ROOT_CLUSTER, admin());
        self.start_with(kube::Client::new(Mortal { server, life: life.clone() }, "default"));
    }

    /// A hub that hears of no change of this kind.
    pub(crate) fn start_deaf(&mut self, plural: &'static str) {
        let server = self.server.service(ROOT_CLUSTER, admin());
        self.start_with(kube::Client::new(Deaf { server, plural }, "default"));
    }

    fn start_with(&mut self, client: kube::Client) {
        let runtime_options = Options {
            component: "hub-agent".to_owned(),
            clock: self.clock.clone(),
            seeds: Seeds::starting_with(1),
            ownership: Ownership::new(ownership()).unwrap(),
            strict: true,
            metrics: Metrics::default(),
            election: None,
        };
        let mut runtime = Runtime::new(client, runtime_options);
        let hub = install(&mut runtime, &self.options);
        let (stop, stopped) = oneshot::channel();
        let (progress, metrics) = (runtime.progress(), runtime.metrics().clone());
        let task = tokio::spawn(runtime.run(async move { drop(stopped.await) }));
        self.running = Some(Running { stop, task, progress, metrics, hub });
    }

    /// The hub's controllers end.
    pub(crate) async fn stop(&mut self) {
        let Some(running) = self.running.take() else { return };
        let _ = running.stop.send(());
        running.task.await.unwrap().unwrap();
    }

    pub(crate) async fn restart(&mut self) {
        self.stop().await;
        self.start();
    }

    /// The hub's process dies at once, whatever it is doing.
    pub(crate) async fn kill(&mut self) {
        let Some(running) = self.running.take() else { return };
        running.task.abort();
        let _ = running.task.await;
    }

    pub(crate) fn hub(&self) -> &Hub {
        &self.running.as_ref().unwrap().hub
    }

    pub(crate) fn metrics(&self) -> &Metrics {
        &self.running.as_ref().unwrap().metrics
    }

    /// What the hub that runs now has written of these kinds.
    pub(crate) fn writes_of(&self, kinds: &[Kind]) -> u64 {
        let mut sum = 0;
        for (kind, plural) in kinds.iter().map(|kind| kind.words(self.scope)) {
            let id = KindId::new("placement.kubernetes-fleet.io", "v1beta1", kind, plural);
            sum += ["create", "patch", "status", "delete"]
                .map(|verb| self.metrics().writes_of(&id, verb, "ok"))
                .iter()
                .sum::<u64>();
        }
        sum
    }

    pub(crate) fn client(&self) -> kube::Client {
        kube::Client::new(self.server.service(ROOT_CLUSTER, admin()), "default")
    }

    /// Serves the hub on loopback; the second is a kubeconfig for it.
    pub(crate) async fn listen(&self) -> (Listening, String) {
        let listening = self.server.listen("127.0.0.1:0".parse().unwrap(), &[]).await.unwrap();
        let kubeconfig = self.server.admin_kubeconfig(listening.address(), &[ROOT_CLUSTER]);
        (listening, kubeconfig.expose().to_owned())
    }

    /// Until nothing is left to do for the hub and its members, without waiting for a wake-up.
    pub(crate) async fn settle(&self) {
        loop {
            self.hub_settles().await;
            if self.members.act(self).await == 0 {
                return;
            }
        }
    }

    /// The same for a hub that may die on the way.
    pub(crate) async fn settle_or_die(&self, life: &Life) {
        while !life.is_over() {
            tokio::select! {
                () = self.hub_settles() => {}
                () = until(|| life.is_over()) => return,
            }
            if self.members.act(self).await == 0 {
                return;
            }
        }
    }

    async fn hub_settles(&self) {
        let running = self.running.as_ref().unwrap();
        let begun = tokio::time::Instant::now();
        let mut held = 0;
        // Twice in a row, with everybody else idle in between: news may be on its way.
        while held < 2 {
            assert!(begun.elapsed() < PATIENCE, "never settled: {:?}", running.progress);
            let settled = running.progress.is_synced() && running.progress.is_idle() && running.hub.knows_inventory();
            held = if settled { held + 1 } else { 0 };
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    /// Time passes, and whatever happens in it.
    pub(crate) async fn later(&self, time: Duration) {
        tokio::time::sleep(time).await;
        self.settle().await;
    }

    /// Until a status that may be held back has been written.
    pub(crate) async fn quiet(&self) {
        self.later(Duration::from_secs(2)).await;
    }

    pub(crate) async fn join(&self, name: &str, labels: Value) {
        let spec = json!({"identity": {"kind": "User", "name": name, "apiGroup": "rbac.authorization.k8s.io"}});
        let object = json!({"metadata": {"name": name, "labels": labels}, "spec": spec});
        self.create(MEMBERS, object).await;
        self.heartbeat(name).await;
    }

    pub(crate) async fn heartbeat(&self, name: &str) {
        let condition = |type_: &str| {
            json!({"type": type_, "status": "True", "reason": "Fine", "message": "", "observedGeneration": 1,
                "lastTransitionTime": "2026-01-01T00:00:00Z"})
        };
        let agent = json!({"type": "MemberAgent", "conditions": [condition("Joined"), condition("Healthy")],
            "lastReceivedHeartbeat": self.clock.now().to_string()});
        let status = json!({"status": {"agentStatus": [agent], "conditions": [condition("Joined")]}});
        self.patch_at(&format!("{MEMBERS}/{name}/status"), status).await;
    }

    pub(crate) async fn label(&self, member: &str, labels: Value) {
        self.patch_at(&format!("{MEMBERS}/{member}"), json!({"metadata": {"labels": labels}})).await;
    }

    pub(crate) fn placement_name(&self) -> &str {
        &self.placement
    }

    pub(crate) fn strategy_name(&self) -> &str {
        &self.strategy
    }

    /// `/name` or `namespace/name`, as messages have it.
    pub(crate) fn key_of(&self, name: &str) -> String {
        match self.scope {
            Scope::Cluster => format!("/{name}"),
            Scope::Namespaced => format!("{NAMESPACE}/{name}"),
        }
    }

    /// `name` or `namespace/name`, as messages have bindings.
    pub(crate) fn reference_to(&self, name: &str) -> String {
        self.key_of(name).trim_start_matches('/').to_owned()
    }

    /// The External placement of the example, with this policy.
    pub(crate) async fn place(&self, policy: Value) {
        let selector = match self.scope {
            Scope::Cluster => json!({"group": "", "version": "v1", "kind": "Namespace", "name": "test-namespace"}),
            Scope::Namespaced => json!({"group": "", "version": "v1", "kind": "ConfigMap", "name": "settings"}),
        };
        let mut spec = json!({"resourceSelectors": [selector], "strategy": {"type": "External"}});
        if !policy.is_null() {
            spec["policy"] = policy;
        }
        self.make(Kind::Placement, self.placement_name(), spec).await;
    }

    /// Where that is which is placed.
    fn maps(&self) -> String {
        let namespace = match self.scope {
            Scope::Cluster => "test-namespace",
            Scope::Namespaced => NAMESPACE,
        };
        format!("/api/v1/namespaces/{namespace}/configmaps")
    }

    pub(crate) async fn no_content(&self) {
        self.request("DELETE", &format!("{}/settings", self.maps()), "application/json", None).await.unwrap();
    }

    /// What is placed gets this value.
    pub(crate) async fn content(&self, value: &str) {
        let maps = self.maps();
        let body = json!({"metadata": {"name": "settings"}, "data": {"value": value}});
        if self.get_at(&format!("{maps}/settings")).await.is_some() {
            self.patch_at(&format!("{maps}/settings"), body).await;
        } else {
            self.create(&maps, body).await;
        }
    }

    /// Clusters of this environment get the map `settings` with this note; made, or edited if it is there.
    pub(crate) async fn override_for(&self, environment: &str, note: &str) {
        let clusters =
            json!({"clusterSelectorTerms": [{"labelSelector": {"matchLabels": {"environment": environment}}}]});
        let patch = json!([{"op": "add", "path": "/metadata/labels", "value": {"note": note}}]);
        let rule = json!({"clusterSelector": clusters, "jsonPatchOverrides": patch});
        let selector = |kind: &str, name: &str| json!([{"group": "", "version": "v1", "kind": kind, "name": name}]);
        let name = format!("of-{environment}");
        let (collection, kind, mut spec) = match self.scope {
            Scope::Cluster => (
                format!("{PLACEMENT_API}/clusterresourceoverrides"),
                "ClusterResourceOverride",
                json!({"clusterResourceSelectors": selector("Namespace", "test-namespace")}),
            ),
            Scope::Namespaced => (
                format!("{PLACEMENT_API}/namespaces/{NAMESPACE}/resourceoverrides"),
                "ResourceOverride",
                json!({"resourceSelectors": selector("ConfigMap", "settings")}),
            ),
        };
        spec["policy"] = json!({"overrideRules": [rule]});
        if self.get_at(&format!("{collection}/{name}")).await.is_some() {
            self.patch_at(&format!("{collection}/{name}"), json!({"spec": spec})).await;
        } else {
            let object = json!({"apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": kind,
                "metadata": {"name": name}, "spec": spec});
            self.create(&collection, object).await;
        }
    }

    /// The strategy `example-strategy` with these stages.
    pub(crate) async fn strategy(&self, stages: Value) {
        self.make(Kind::Strategy, &self.strategy, json!({"stages": stages})).await;
    }

    /// A run of the example's placement and strategy; `spec` adds to it.
    pub(crate) async fn run(&self, name: &str, spec: Value) {
        self.try_run(name, spec).await.unwrap();
    }

    pub(crate) async fn try_run(&self, name: &str, spec: Value) -> Result<Value, String> {
        let mut whole = json!({"placementName": self.placement_name(), "stagedRolloutStrategyName": self.strategy});
        for (field, value) in spec.as_object().unwrap() {
            whole[field] = value.clone();
        }
        self.request("POST", &self.collection(Kind::Run), "application/json", Some(self.object(Kind::Run, name, whole)))
            .await
    }

    pub(crate) async fn set_state(&self, run: &str, state: &str) {
        self.patch(Kind::Run, run, json!({"spec": {"state": state}})).await;
    }

    /// As the guides do it, for this generation of the request.
    pub(crate) async fn approve(&self, request: &str, generation: i64) {
        let condition = json!({"type": "Approved", "status": "True", "reason": "approved", "message": "approved",
            "lastTransitionTime": self.clock.now().to_string(), "observedGeneration": generation});
        let path = format!("{}/{request}/status", self.collection(Kind::Approval));
        self.patch_at(&path, json!({"status": {"conditions": [condition]}})).await;
    }
}

/// A hub's controllers at work.
struct Running {
    stop: oneshot::Sender<()>,
    task: JoinHandle<Result<(), Broken>>,
    progress: Progress,
    metrics: Metrics,
    hub: Hub,
}

fn admin() -> User {
    User::authenticated("admin", ["system:masters".to_owned()])
}

async fn until(holds: impl Fn() -> bool) {
    while !holds() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

fn placement_name(scope: Scope) -> String {
    match scope {
        Scope::Cluster => "example-placement".to_owned(),
        Scope::Namespaced => "web-app-placement".to_owned(),
    }
}

/// Runs scenarios one after the other in one fleet with the two members of the example, for both scopes. Each has the
/// placement, the strategy and the members to itself, and is named after its entry in the specification.
macro_rules! scenarios {
    ($group:ident: $($name:ident),+ $(,)?) => {
        #[tokio::test(start_paused = true)]
        async fn $group() {
            for scope in [$crate::fleet::Scope::Cluster, $crate::fleet::Scope::Namespaced] {
                let mut fleet = $crate::fleet::Fleet::new(scope).await;
                fleet.two_members().await;
                $(
                    fleet.next(&stringify!($name)[..5].replace('_', "")).await;
                    $name(&mut fleet).await;
                )+
                fleet.stop().await;
            }
        }
    };
}
pub(crate) use scenarios;

/// A stage for the clusters of this environment.
pub(crate) fn stage(environment: &str) -> Value {
    json!({"name": environment, "labelSelector": {"matchLabels": {"environment": environment}}})
}
