//! A hub of one scope in one process: an External placement, members that do as they are told, strategies, runs and
//! approvals. Names are those of the guides.

mod making;
mod reading;
mod requests;
mod running;

use std::sync::Arc;

use apiserver::{Builder, Embedded, Options as ServerOptions, Template, User};
use fleet_api::kinds::all_crds;
use fleet_core::placement::SnapshotIntervals;
use fleet_hub::HubOptions;
use fleet_runtime::Clock;
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use crate::members::{Manner, Members};
pub(crate) use reading::{condition, text};
use running::Running;

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
    /// Another hub that waits for its turn.
    standby: Option<Running>,
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
        static GROUND: OnceCell<Template> = OnceCell::const_new();
        let ground = GROUND.get_or_init(Self::lay_ground).await;
        let mut fleet = Self::on(ground, scope).await;
        fleet.content("1").await;
        fleet.start();
        fleet.settle().await;
        fleet
    }

    /// What the hubs of all tests begin with.
    async fn lay_ground() -> Template {
        let fleet = Self::on(&Template::default(), Scope::Cluster).await;
        for crd in all_crds() {
            fleet.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd.object).await;
        }
        for namespace in ["fleet-system", NAMESPACE, "test-namespace"] {
            fleet.create("/api/v1/namespaces", json!({"metadata": {"name": namespace}})).await;
        }
        // The server equips new namespaces in its own time.
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        let ground = fleet.server.template();
        fleet.server.close().await;
        ground
    }

    async fn on(ground: &Template, scope: Scope) -> Self {
        let clock = Clock::starting_at("2026-01-01T00:00:00Z".parse().unwrap());
        let servers = clock.clone();
        let builder = Builder::default().clock(Arc::new(move || servers.now())).seed(1).from_template(ground);
        let server = Embedded::with(builder, ServerOptions::default()).await.unwrap();
        let options = HubOptions {
            snapshot_intervals: SnapshotIntervals::NONE,
            cluster_inventory: false,
            ..HubOptions::default()
        };
        Self {
            scope,
            server,
            clock,
            members: Members::default(),
            running: None,
            standby: None,
            options,
            placement: placement_name(scope),
            strategy: "example-strategy".to_owned(),
        }
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
}

fn admin() -> User {
    User::authenticated("admin", ["system:masters".to_owned()])
}

fn placement_name(scope: Scope) -> String {
    match scope {
        Scope::Cluster => "example-placement".to_owned(),
        Scope::Namespaced => "web-app-placement".to_owned(),
    }
}

/// Makes a test of each scenario, in a fleet with the two members of the example, for both scopes. Each is named after its
/// entry in the specification.
macro_rules! scenarios {
    ($($name:ident),+ $(,)?) => {
        mod each {
            $(
                #[tokio::test(start_paused = true)]
                async fn $name() {
                    for scope in [$crate::fleet::Scope::Cluster, $crate::fleet::Scope::Namespaced] {
                        let mut fleet = $crate::fleet::Fleet::new(scope).await;
                        fleet.two_members().await;
                        super::$name(&mut fleet).await;
                        fleet.stop().await;
                    }
                }
            )+
        }
    };
}
pub(crate) use scenarios;

/// A stage for the clusters of this environment.
pub(crate) fn stage(environment: &str) -> Value {
    json!({"name": environment, "labelSelector": {"matchLabels": {"environment": environment}}})
}
