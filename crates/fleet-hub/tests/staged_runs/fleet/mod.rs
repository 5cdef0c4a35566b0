//! A hub of one scope in one process: an External placement, members that do as they are told, strategies, runs and
//! approvals. Names are those of the guides.

mod making;
mod reading;
mod requests;
mod running;

use apiserver::Template;
use fleet_core::placement::SnapshotIntervals;
use fleet_hub::HubOptions;
pub(crate) use fleet_testkit::{Kind, Scope, condition, stage, text};
use fleet_testkit::{MEMBERS, Schemas, TestServer, member_cluster, member_status};
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use crate::agent::HubAgent;
use crate::staged_runs::members::{Manner, Members};

pub(crate) const NAMESPACE: &str = "my-app-namespace";

pub(crate) struct Fleet {
    pub(crate) scope: Scope,
    pub(crate) server: TestServer,
    pub(crate) members: Members,
    running: Option<HubAgent>,
    /// Another hub that waits for its turn.
    standby: Option<HubAgent>,
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
            for scope in [$crate::staged_runs::fleet::Scope::Cluster, $crate::staged_runs::fleet::Scope::Namespaced] {
                let mut $fleet = $crate::staged_runs::fleet::Fleet::new(scope).await;
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
        let server = TestServer::with_kinds(Schemas::Strict).await;
        for namespace in ["fleet-system", NAMESPACE, "test-namespace"] {
            server.create_namespace(namespace).await;
        }
        // The server equips new namespaces in its own time.
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        let ground = server.embedded.template();
        server.embedded.close().await;
        ground
    }

    async fn on(ground: &Template, scope: Scope) -> Self {
        let options = HubOptions {
            snapshot_intervals: SnapshotIntervals::NONE,
            cluster_inventory: false,
            ..HubOptions::default()
        };
        Self {
            scope,
            server: TestServer::from_template(ground).await,
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
        self.server.create(MEMBERS, member_cluster(name, labels)).await;
        self.heartbeat(name).await;
    }

    pub(crate) async fn heartbeat(&self, name: &str) {
        self.server.patch(&format!("{MEMBERS}/{name}/status"), member_status(&self.server.clock)).await;
    }

    pub(crate) async fn label(&self, member: &str, labels: Value) {
        self.server.patch(&format!("{MEMBERS}/{member}"), json!({"metadata": {"labels": labels}})).await;
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
                    for scope in [$crate::staged_runs::fleet::Scope::Cluster, $crate::staged_runs::fleet::Scope::Namespaced] {
                        let mut fleet = $crate::staged_runs::fleet::Fleet::new(scope).await;
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
