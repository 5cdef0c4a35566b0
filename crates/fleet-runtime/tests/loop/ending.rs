//! What a controller can still do when its process is asked to end.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fleet_runtime::{
    Actions, Cache, Controller, Election, Kind, Moment, ObjectKey, Options, Runtime, Timing, Triggers, Write,
};
use k8s_openapi::api::core::v1::ConfigMap;

use crate::toy::{CHILDREN, PARENTS, World, child_of, start, until};

/// Makes the first child of every parent, but not before it has to.
struct Hesitant {
    parents: Cache<ConfigMap>,
    must: AtomicBool,
}

impl Controller for Hesitant {
    const NAME: &'static str = "hesitant";
    type Key = ObjectKey;
    type Facts = ();

    fn plan(&self, key: &ObjectKey, (): (), _: Moment) -> Actions {
        if !self.must.load(Ordering::SeqCst) {
            return Actions::none();
        }
        Actions::none().with(Write::create(&child_of(key.name(), 0)))
    }

    fn before_the_end(&self) -> Vec<ObjectKey> {
        self.must.store(true, Ordering::SeqCst);
        // Every namespace has a ConfigMap of its own.
        self.parents.keys().into_iter().filter(|key| key.name() != "kube-root-ca.crt").collect()
    }
}

fn hesitant(world: &World, options: Options) -> Runtime {
    let mut runtime = Runtime::new(world.client(), options);
    let parents = runtime.cache(Kind::new().in_namespace(PARENTS));
    let children: Cache<ConfigMap> = runtime.cache(Kind::new().in_namespace(CHILDREN));
    let triggers = Triggers::new().on(&parents, |event| [event.key()]).reads(&children);
    runtime.controller(Hesitant { parents, must: AtomicBool::new(false) }, triggers, 1);
    runtime
}

#[tokio::test(start_paused = true)]
async fn what_was_put_off_is_done_before_the_process_ends_but_not_when_it_dies() {
    let world = World::new().await;
    world.put_parent("a", 1).await;
    world.put_parent("b", 1).await;
    let running = start(hesitant(&world, world.options()));
    running.settled().await;
    running.crash().await;
    assert!(world.child_names().await.is_empty());
    let running = start(hesitant(&world, world.options()));
    running.settled().await;
    running.stop().await;
    assert_eq!(world.child_names().await, ["a-000", "b-000"]);
}

#[tokio::test(start_paused = true)]
async fn who_does_not_lead_does_nothing_before_the_end() {
    let world = World::new().await;
    world.put_parent("a", 1).await;
    let candidate = |identity: &str| {
        let (namespace, name) = (CHILDREN.to_owned(), "toy".to_owned());
        let election = Election { namespace, name, identity: identity.to_owned(), timing: Timing::default() };
        hesitant(&world, Options { election: Some(election), ..world.options() })
    };
    let first = start(candidate("first"));
    first.settled().await;
    let second = start(candidate("second"));
    until("the second one knows everything", || second.progress.is_synced()).await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    second.stop().await;
    assert!(world.child_names().await.is_empty());
    first.stop().await;
    assert_eq!(world.child_names().await, ["a-000"]);
}
