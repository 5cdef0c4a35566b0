//! What is known at once of our own writes: what they deleted, let go of, and what the server refused.

use std::sync::Arc;

use fleet_runtime::{Actions, Cache, Controller, Event, Kind, Moment, ObjectKey, Outcome, Runtime, Triggers, Write};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, PostParams};
use parking_lot::Mutex;

use crate::toy::{CHILDREN, PARENTS, World, child_of, start};

/// Deletes every child that it sees alive.
struct Reaper {
    children: Cache<ConfigMap>,
    plans: Arc<Mutex<Vec<String>>>,
}

impl Controller for Reaper {
    const NAME: &'static str = "reaper";
    type Key = ObjectKey;
    type Facts = ();

    fn plan(&self, key: &ObjectKey, (): (), _: Moment) -> Actions {
        let child = self.children.get(key);
        let dying = child.as_ref().map(|child| child.metadata.deletion_timestamp.is_some());
        self.plans.lock().push(format!("{}: {dying:?}", key.name()));
        child
            .filter(|_| dying == Some(false))
            .map(|child| Actions::none().with(Write::delete(&*child)))
            .unwrap_or_default()
    }
}

#[tokio::test(start_paused = true)]
async fn an_object_that_we_deleted_is_gone_at_once_or_seen_as_dying_if_something_holds_it() {
    let world = World::new().await;
    let mut held = child_of("held", 0);
    held.metadata.finalizers = Some(vec!["example.com/hold".into()]);
    world.children().create(&PostParams::default(), &held).await.unwrap();
    world.children().create(&PostParams::default(), &child_of("free", 0)).await.unwrap();
    let meddler = world.meddler();
    meddler.silence_watches(true);
    let mut runtime = Runtime::new(meddler.client(), world.options());
    let children = runtime.cache(Kind::new().in_namespace(CHILDREN));
    let plans = Arc::new(Mutex::new(Vec::new()));
    let of_parents = |event: Event<'_, ConfigMap>| event.sides().any(|side| side.metadata.labels.is_some());
    let triggers = Triggers::new().on(&children, move |event| of_parents(event).then(|| event.key()));
    runtime.controller(Reaper { children, plans: plans.clone() }, triggers, 1);
    let running = start(runtime);
    running.settled().await;
    let expected = ["free-000: Some(false)", "free-000: None", "held-000: Some(false)", "held-000: Some(true)"];
    let mut seen = plans.lock().clone();
    seen.sort_by_key(|line| line[..4].to_owned());
    assert_eq!(seen, expected, "no watch has told anything");
    meddler.silence_watches(false);
    running.settled().await;
    assert_eq!((running.metrics.writes(), plans.lock().len()), (2, 4), "and when it does, that is no news");
    running.stop().await;
}

/// Lets go of every child that is being deleted.
struct Releaser {
    children: Cache<ConfigMap>,
    plans: Arc<Mutex<Vec<String>>>,
}

impl Controller for Releaser {
    const NAME: &'static str = "releaser";
    type Key = ObjectKey;
    type Facts = ();

    fn plan(&self, key: &ObjectKey, (): (), _: Moment) -> Actions {
        let child = self.children.get(key);
        self.plans.lock().push(format!("{}: {}", key.name(), child.is_some()));
        let Some(child) = child.filter(|child| child.metadata.deletion_timestamp.is_some()) else {
            return Actions::none();
        };
        let mut released = (*child).clone();
        released.metadata.finalizers = None;
        Actions::none().with(Write::change(&*child, &released))
    }
}

#[tokio::test(start_paused = true)]
async fn an_object_that_goes_with_our_own_write_is_gone_at_once() {
    let world = World::new().await;
    let mut held = child_of("held", 0);
    held.metadata.finalizers = Some(vec!["example.com/hold".into()]);
    world.children().create(&PostParams::default(), &held).await.unwrap();
    world.children().delete("held-000", &DeleteParams::default()).await.unwrap();
    let meddler = world.meddler();
    meddler.silence_watches(true);
    let mut runtime = Runtime::new(meddler.client(), world.options());
    let children = runtime.cache(Kind::new().in_namespace(CHILDREN));
    let plans = Arc::new(Mutex::new(Vec::new()));
    let triggers = Triggers::new()
        .on(&children, |event: Event<'_, ConfigMap>| event.key().name().starts_with("held").then(|| event.key()));
    runtime.controller(Releaser { children, plans: plans.clone() }, triggers, 1);
    let running = start(runtime);
    running.settled().await;
    assert_eq!(*plans.lock(), ["held-000: true", "held-000: false"], "no watch has told anything");
    meddler.silence_watches(false);
    running.settled().await;
    assert_eq!((plans.lock().len(), running.metrics.writes()), (2, 1), "and when it does, that is no news");
    running.stop().await;
}

/// Makes a child that the server refuses as long as the parent asks for it, then one that it takes.
struct Tester {
    parents: Cache<ConfigMap>,
    told: Arc<Mutex<Vec<&'static str>>>,
}

impl Controller for Tester {
    const NAME: &'static str = "tester";
    type Key = ObjectKey;
    type Facts = ();

    fn plan(&self, key: &ObjectKey, (): (), _: Moment) -> Actions {
        let data = self.parents.get(key).and_then(|parent| parent.data.clone()).unwrap_or_default();
        let name = if data.get("count").is_some_and(|count| count == "1") { "Not a name" } else { "good" };
        Actions::none().with(Write::create(&child_of(name, 0)).explained())
    }

    fn performed(&self, _: &ObjectKey) {
        self.told.lock().push("performed");
    }

    fn conclude(&self, _: &ObjectKey, outcomes: Vec<Outcome>, _: Moment) -> Option<Actions> {
        assert!(outcomes.iter().all(Result::is_err));
        self.told.lock().push("refused");
        None
    }
}

#[tokio::test(start_paused = true)]
async fn a_plan_of_which_the_server_refused_a_write_was_not_performed() {
    let world = World::new().await;
    world.put_parent("a", 1).await;
    let mut runtime = Runtime::new(world.client(), world.options());
    let parents = runtime.cache(Kind::new().in_namespace(PARENTS));
    let told = Arc::new(Mutex::new(Vec::new()));
    let triggers = Triggers::new().on(&parents, |event| (event.key().name() == "a").then(|| event.key()));
    runtime.controller(Tester { parents, told: told.clone() }, triggers, 1);
    let running = start(runtime);
    running.settled().await;
    assert_eq!(*told.lock(), ["refused"]);
    world.put_parent("a", 2).await;
    running.settled().await;
    assert_eq!(*told.lock(), ["refused", "performed"]);
    running.stop().await;
}
