//! A plan can have parts of its caches compared with the API server before it decides for good.

use std::sync::Arc;
use std::time::Duration;

use fleet_runtime::{
    Actions, Cache, CacheCheck, Controller, Kind, Needs, ObjectKey, PlanInput, ReconcileResult, Runtime, Triggers,
};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, PostParams};
use parking_lot::Mutex;

use crate::fixture::{CHILDREN, PARENT_LABEL, PARENTS, TestServer, child_of, start, until};

/// Decides how many children a parent has, after a confirmation.
struct Judge {
    children: Cache<ConfigMap>,
    /// Number of children in each plan, and whether it was confirmed.
    plans: Arc<Mutex<Vec<(usize, bool)>>>,
    whole: bool,
}

impl Controller for Judge {
    const NAME: &'static str = "judge";
    type Key = ObjectKey;
    type Facts = ();

    fn plan(&self, key: &ObjectKey, _: Option<()>, input: PlanInput) -> Actions {
        let keys = self.children.keys().into_iter().filter(|child| child.name().starts_with(key.name()));
        self.plans.lock().push((keys.count(), input.confirmed));
        if input.confirmed {
            return Actions::none();
        }
        let (children, parent) = (self.children.clone(), key.name().to_owned());
        let cached = move || children.keys().into_iter().filter(|child| child.name().starts_with(&parent)).collect();
        let selector = Some(format!("{PARENT_LABEL}={}", key.name()));
        let check = if self.whole {
            CacheCheck::labelled(&self.children, Some(CHILDREN), selector, cached)
        } else {
            CacheCheck::object(&self.children, ObjectKey::namespaced(CHILDREN, format!("{}-000", key.name())))
        };
        Actions { needs: Some(Needs::Confirmation(vec![check])), ..Actions::none() }
    }
}

/// Plans parent `a` after `change` while the watches are stalled for `stalled`, and returns the plans and the failures.
async fn judged<F: Future<Output = ()>>(
    whole: bool,
    stalled: Duration,
    change: impl FnOnce(Arc<TestServer>) -> F,
) -> (Vec<(usize, bool)>, u64) {
    let server = Arc::new(TestServer::new().await);
    server.put_parent("a", 0).await;
    server.children().create(&PostParams::default(), &child_of("a", 0)).await.unwrap();
    let faulty = server.faulty_client();
    let mut runtime = Runtime::new(faulty.client(), server.options());
    let children: Cache<ConfigMap> = runtime.cache(Kind::new().in_namespace(CHILDREN));
    let plans = Arc::new(Mutex::new(Vec::new()));
    let triggers = Triggers::new().reads(&children);
    let judge = Judge { children, plans: plans.clone(), whole };
    let enqueuer = runtime.controller(judge, triggers, 1);
    let running = start(runtime);
    until("the cache is synced", || running.progress.is_synced()).await;
    faulty.stall_watches(true);
    change(server.clone()).await;
    enqueuer.enqueue(ObjectKey::namespaced(PARENTS, "a"));
    tokio::time::sleep(stalled).await;
    faulty.stall_watches(false);
    until("it is decided", || plans.lock().iter().any(|(_, confirmed)| *confirmed)).await;
    let failures = running.metrics.reconciles("judge", ReconcileResult::Failed);
    running.stop().await;
    let plans = plans.lock().clone();
    (plans, failures)
}

async fn create_child(server: Arc<TestServer>) {
    server.children().create(&PostParams::default(), &child_of("a", 1)).await.unwrap();
}

async fn delete_child(server: Arc<TestServer>) {
    server.children().delete("a-000", &DeleteParams::default()).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_confirmed_plan_sees_everything_that_the_server_had() {
    let second = Duration::from_secs(1);
    assert_eq!(judged(true, second, create_child).await, (vec![(1, false), (2, true)], 0));
    assert_eq!(judged(true, second, delete_child).await, (vec![(1, false), (0, true)], 0));
    assert_eq!(judged(false, second, delete_child).await, (vec![(1, false), (0, true)], 0));
    assert_eq!(judged(true, second, |_| async {}).await, (vec![(1, false), (1, true)], 0));
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_does_not_catch_up_fails_the_reconcile() {
    let (plans, failures) = judged(true, Duration::from_secs(15), create_child).await;
    assert_eq!((plans.first(), plans.last(), failures), (Some(&(1, false)), Some(&(2, true)), 1));
}
