//! Deferred writes are flushed on a graceful shutdown.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fleet_runtime::{
    Actions, Cache, Controller, Election, Kind, ObjectKey, Options, PlanInput, Runtime, Timing, Triggers, Write,
};
use k8s_openapi::api::core::v1::ConfigMap;

use crate::fixture::{CHILDREN, PARENTS, TestServer, child_of, start, until};

/// Creates the first child of every parent, but only on shutdown.
struct Deferring {
    parents: Cache<ConfigMap>,
    flush: AtomicBool,
}

impl Controller for Deferring {
    const NAME: &'static str = "deferring";
    type Key = ObjectKey;
    type Facts = ();

    fn plan(&self, key: &ObjectKey, (): (), _: PlanInput) -> Actions {
        if !self.flush.load(Ordering::SeqCst) {
            return Actions::none();
        }
        Actions::none().with(Write::create(&child_of(key.name(), 0)))
    }

    fn on_shutdown(&self) -> Vec<ObjectKey> {
        self.flush.store(true, Ordering::SeqCst);
        // The server keeps one more ConfigMap in every namespace.
        self.parents.keys().into_iter().filter(|key| key.name() != "kube-root-ca.crt").collect()
    }
}

fn deferring(server: &TestServer, options: Options) -> Runtime {
    let mut runtime = Runtime::new(server.client(), options);
    let parents = runtime.cache(Kind::new().in_namespace(PARENTS));
    let children: Cache<ConfigMap> = runtime.cache(Kind::new().in_namespace(CHILDREN));
    let triggers = Triggers::new().on(&parents, |event| [event.key()]).reads(&children);
    runtime.controller(Deferring { parents, flush: AtomicBool::new(false) }, triggers, 1);
    runtime
}

#[tokio::test(start_paused = true)]
async fn deferred_writes_are_flushed_on_shutdown_but_not_after_a_crash() {
    let server = TestServer::new().await;
    server.put_parent("a", 1).await;
    server.put_parent("b", 1).await;
    let running = start(deferring(&server, server.options()));
    running.settled().await;
    running.crash().await;
    assert!(server.child_names().await.is_empty());
    let running = start(deferring(&server, server.options()));
    running.settled().await;
    running.stop().await;
    assert_eq!(server.child_names().await, ["a-000", "b-000"]);
}

#[tokio::test(start_paused = true)]
async fn a_standby_flushes_nothing_on_shutdown() {
    let server = TestServer::new().await;
    server.put_parent("a", 1).await;
    let candidate = |identity: &str| {
        let (namespace, name) = (CHILDREN.to_owned(), "children".to_owned());
        let election = Election { namespace, name, identity: identity.to_owned(), timing: Timing::default() };
        deferring(&server, Options { election: Some(election), ..server.options() })
    };
    let first = start(candidate("first"));
    first.settled().await;
    let second = start(candidate("second"));
    until("the second one is synced", || second.progress.is_synced()).await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    second.stop().await;
    assert!(server.child_names().await.is_empty());
    first.stop().await;
    assert_eq!(server.child_names().await, ["a-000"]);
}
