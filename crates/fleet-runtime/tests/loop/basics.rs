//! What every controller may rely on when nothing goes wrong.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use fleet_runtime::{
    Actions, Cache, Controller, Ending, Error, Grant, Kind, KindId, KubeEvent, Moment, Next, ObjectKey, Outcome,
    Ownership, PatchFormat, Reader, Regarding, Runtime, SHUTDOWN_GRACE, Side, Triggers, Write,
};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ConfigMap, Event as StoredEvent};
use kube::Api;
use kube::api::{DeleteParams, ListParams, PostParams};
use parking_lot::Mutex;
use serde_json::json;

use crate::meddler::Meddling;
use crate::toy::{CHILDREN, PARENTS, World, child_of, start, toy, until};

#[tokio::test(start_paused = true)]
async fn children_follow_their_parent_up_and_down() {
    let world = World::new().await;
    world.put_parent("a", 3).await;
    let (runtime, plans) = toy(world.client(), world.options());
    let running = start(runtime);
    running.settled().await;
    assert_eq!(world.child_names().await, ["a-000", "a-001", "a-002"]);

    world.put_parent("a", 1).await;
    world.put_parent("b", 2).await;
    running.settled().await;
    assert_eq!(world.child_names().await, ["a-000", "b-000", "b-001"]);

    world.children().delete("b-001", &DeleteParams::default()).await.unwrap();
    running.settled().await;
    assert_eq!(world.child_names().await, ["a-000", "b-000", "b-001"], "a missing child is made again");

    world.parents().delete("a", &DeleteParams::default()).await.unwrap();
    running.settled().await;
    assert_eq!(world.child_names().await, ["b-000", "b-001"]);
    assert_eq!(running.metrics.writes(), 3 + 2 + 2 + 1 + 1, "each write was needed");
    assert!(plans.load(Ordering::Relaxed) < 40, "{plans:?} plans");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn our_own_writes_are_seen_before_the_watch_tells_them() {
    let world = World::new().await;
    world.put_parent("a", 3).await;
    let meddler = world.meddler();
    meddler.silence_watches(true);
    let (runtime, plans) = toy(meddler.client(), world.options());
    let running = start(runtime);
    running.settled().await;
    assert_eq!(world.child_names().await, ["a-000", "a-001", "a-002"]);
    // The namespace has one more ConfigMap, which the server keeps in each.
    assert_eq!(plans.load(Ordering::Relaxed), 2 + 1, "the second plan finds the children of the first");
    meddler.silence_watches(false);
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(
        (running.metrics.writes(), plans.load(Ordering::Relaxed)),
        (3, 2 + 1),
        "what the watch tells then is no news"
    );
    running.stop().await;
}

/// Notes when it was asked; wants to be asked again an hour later, three times.
struct Alarm(Arc<Mutex<Vec<Timestamp>>>);

impl Controller for Alarm {
    const NAME: &'static str = "alarm";
    type Key = ObjectKey;
    type Facts = ();

    fn plan(&self, _: &ObjectKey, (): (), moment: Moment) -> Actions {
        let mut asked = self.0.lock();
        asked.push(moment.now);
        let next = moment.now + Duration::from_hours(1);
        Actions::none().then(if asked.len() < 4 { Next::At(next) } else { Next::OnChange })
    }
}

#[tokio::test(start_paused = true)]
async fn a_wake_up_comes_at_the_instant_that_was_asked_for() {
    let world = World::new().await;
    let mut runtime = Runtime::new(world.client(), world.options());
    let asked = Arc::new(Mutex::new(Vec::new()));
    runtime.controller(Alarm(asked.clone()), Triggers::new().at_start([ObjectKey::cluster("x")]), 1);
    let begun = world.clock.now();
    let running = start(runtime);
    tokio::time::sleep(Duration::from_hours(24)).await;
    let hours: Vec<f64> = asked.lock().iter().map(|at| at.duration_since(begun).as_secs_f64() / 3600.0).collect();
    assert_eq!(hours, [0.0, 1.0, 2.0, 3.0]);
    running.stop().await;
}

/// Has one key that takes five seconds, and one that asks for another look after a second.
struct Slow(Arc<Mutex<Vec<Timestamp>>>);

impl Controller for Slow {
    const NAME: &'static str = "slow";
    type Key = ObjectKey;
    type Facts = ();

    async fn fetch(&self, key: &ObjectKey, _: &Reader) -> Result<(), Error> {
        if key.name() == "slow" {
            tokio::time::sleep(Duration::from_secs(5)).await;
        }
        Ok(())
    }

    fn plan(&self, key: &ObjectKey, (): (), moment: Moment) -> Actions {
        if key.name() == "slow" {
            return Actions::none();
        }
        let mut looks = self.0.lock();
        looks.push(moment.now);
        Actions::none().then(if looks.len() < 2 {
            Next::At(moment.now + Duration::from_secs(1))
        } else {
            Next::OnChange
        })
    }
}

/// A loop that turned meanwhile would keep time from passing, and the test from ending.
#[tokio::test(start_paused = true)]
async fn a_wake_up_for_which_there_is_no_hand_waits_without_a_turn() {
    let world = World::new().await;
    let mut runtime = Runtime::new(world.client(), world.options());
    let looks = Arc::new(Mutex::new(Vec::new()));
    let keys = ["early", "slow"].map(ObjectKey::cluster);
    runtime.controller(Slow(looks.clone()), Triggers::new().at_start(keys), 1);
    let begun = world.clock.now();
    let running = start(runtime);
    until("the second look was taken", || looks.lock().len() == 2).await;
    let seconds: Vec<f64> = looks.lock().iter().map(|at| at.duration_since(begun).as_secs_f64()).collect();
    assert_eq!(seconds, [0.0, 5.0]);
    running.stop().await;
}

/// Copies a parent's count into its child `copy`, which may be late.
struct Copier {
    parents: Cache<ConfigMap>,
    children: Cache<ConfigMap>,
    window: Option<Duration>,
}

impl Controller for Copier {
    const NAME: &'static str = "copier";
    type Key = ObjectKey;
    type Facts = ();

    fn plan(&self, key: &ObjectKey, (): (), _: Moment) -> Actions {
        let Some(parent) = self.parents.get(key) else { return Actions::none() };
        let Some(child) = self.children.get(&ObjectKey::namespaced(CHILDREN, key.name())) else {
            return Actions::none();
        };
        let mut new = (*child).clone();
        new.data.clone_from(&parent.data);
        let write = Write::change(&*child, &new);
        if write.is_nothing() {
            return Actions::none();
        }
        let told = KubeEvent {
            regarding: Regarding::of(&*child),
            component: Self::NAME,
            warning: false,
            reason: "Copied",
            message: format!("{:?}", parent.data),
        };
        let actions = Actions { events: vec![told], ..Actions::none() };
        actions.with(match self.window {
            Some(window) => write.coalesce(window),
            None => write,
        })
    }
}

fn copier(world: &World, window: Option<Duration>) -> Runtime {
    let mut runtime = Runtime::new(world.client(), world.options());
    let parents = runtime.cache(Kind::new().in_namespace(PARENTS));
    let children = runtime.cache(Kind::new().in_namespace(CHILDREN));
    let triggers = Triggers::new().on(&parents, |event| [event.key()]).reads(&children);
    runtime.controller(Copier { parents, children, window }, triggers, 1);
    runtime
}

#[tokio::test(start_paused = true)]
async fn soft_writes_wait_for_what_follows_but_not_longer_than_their_window() {
    for (window, expected) in [(None, 20), (Some(Duration::from_millis(200)), 5)] {
        let world = World::new().await;
        world.put_parent("a", 0).await;
        let mut child = child_of("a", 0);
        child.metadata.name = Some("a".into());
        child.data = Some(BTreeMap::from([("count".into(), "0".into())]));
        world.children().create(&PostParams::default(), &child).await.unwrap();
        let running = start(copier(&world, window));
        running.settled().await;
        let begun = running.metrics.writes();
        // A change every 50 ms for a second: every fourth meets the end of a window of 200 ms.
        for step in 1..=20 {
            world.put_parent("a", step).await;
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
        let stored = world.children().get("a").await.unwrap();
        assert_eq!(stored.data.unwrap()["count"], "20", "the last state is written in the end");
        assert_eq!(running.metrics.writes() - begun, expected, "{window:?}");
        let events: Api<StoredEvent> = Api::namespaced(world.client(), CHILDREN);
        let told = events.list(&ListParams::default()).await.unwrap().items.len();
        assert_eq!(told as u64, expected, "{window:?}: only what was written is told");
        running.stop().await;
    }
}

/// Changes an object twice in one plan, then observes one write that fails and one that succeeds.
struct Several {
    children: Cache<ConfigMap>,
    concluded: Arc<Mutex<Vec<String>>>,
}

fn with(object: &ConfigMap, key: &str, value: &str) -> ConfigMap {
    let mut new = object.clone();
    new.data.get_or_insert_default().insert(key.to_owned(), value.to_owned());
    new
}

impl Controller for Several {
    const NAME: &'static str = "several";
    type Key = ObjectKey;
    type Facts = ();

    fn plan(&self, key: &ObjectKey, (): (), _: Moment) -> Actions {
        let Some(child) = self.children.get(key) else { return Actions::none() };
        if child.data.is_some() {
            return Actions::none();
        }
        let first = with(&child, "first", "1");
        let refused = Write::patch_raw(KindId::of::<ConfigMap>(), key.clone(), PatchFormat::Merge, json!({"data": 7}));
        Actions::none()
            .with(Write::change(&*child, &first))
            .with(Write::change(&first, &with(&first, "second", "2")))
            .with(refused.observed())
            .with(Write::create(&child_of("made", 1)).observed())
    }

    fn conclude(&self, _: &ObjectKey, outcomes: Vec<Outcome>, _: Moment) -> Option<Actions> {
        let shown = |outcome: Outcome| match outcome {
            Ok(object) => object.unwrap_or_default()["metadata"]["name"].as_str().unwrap_or_default().to_owned(),
            Err(error) => error.class().to_owned(),
        };
        self.concluded.lock().extend(outcomes.into_iter().map(shown));
        Some(Actions::none().with(Write::create(&child_of("concluded", 1))))
    }
}

#[tokio::test(start_paused = true)]
async fn writes_of_one_plan_follow_each_other_and_observed_ones_stop_nothing() {
    let world = World::new().await;
    world.children().create(&PostParams::default(), &child_of("a", 0)).await.unwrap();
    let mut runtime = Runtime::new(world.client(), world.options());
    let children: Cache<ConfigMap> = runtime.cache(Kind::new().in_namespace(CHILDREN));
    let concluded = Arc::new(Mutex::new(Vec::new()));
    let triggers =
        Triggers::new().on(&children, |event| event.new.is_some_and(|new| new.data.is_none()).then(|| event.key()));
    let several = Several { children, concluded: concluded.clone() };
    runtime.controller(several, triggers, 1);
    let running = start(runtime);
    until("the plan was concluded", || !concluded.lock().is_empty()).await;
    running.settled().await;
    let stored = world.children().get("a-000").await.unwrap().data.unwrap();
    assert_eq!(stored, BTreeMap::from([("first".into(), "1".into()), ("second".into(), "2".into())]));
    assert_eq!(concluded.lock()[..2], ["refused", "made-001"]);
    assert!(world.child_names().await.contains(&"concluded-001".to_owned()));
    assert_eq!(running.metrics.writes_of(&KindId::of::<ConfigMap>(), "patch", "conflict"), 0);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_write_of_what_a_controller_does_not_own_is_not_made() {
    for (strict, made) in [(true, 0), (false, 1)] {
        let world = World::new().await;
        world.put_parent("a", 1).await;
        let mut options = world.options();
        let grant = Grant { controller: "toy", kind: "ConfigMap", creates: false, deletes: true, fields: &[] };
        options.ownership = Ownership::new([grant]).unwrap();
        options.strict = strict;
        let (runtime, _) = toy(world.client(), options);
        let running = start(runtime);
        running.settled().await;
        assert_eq!(world.child_names().await.len(), made);
        assert_eq!(running.metrics.reconciles("toy", Ending::Failed) > 0, strict);
        running.stop().await;
    }
}

/// Notes what it fetched.
struct Fetcher(Arc<Mutex<Vec<String>>>);

impl Controller for Fetcher {
    const NAME: &'static str = "fetcher";
    type Key = ObjectKey;
    type Facts = Vec<String>;

    async fn fetch(&self, key: &ObjectKey, reader: &Reader) -> Result<Vec<String>, Error> {
        let kind = KindId::of::<ConfigMap>();
        let one = reader.get_as::<ConfigMap>(key).await?.map_or("none".to_owned(), |map| map.metadata.name.unwrap());
        let none = reader.get(&kind, &ObjectKey::namespaced(PARENTS, "missing")).await?.is_none();
        let listed = reader.list(&kind, Some(CHILDREN), Some("parent=a")).await?.len();
        let unknown = KindId::new("example.com", "v1", "Nothing", "nothings");
        let refused = reader.get(&unknown, &ObjectKey::cluster("x")).await.unwrap_err();
        Ok(vec![one, none.to_string(), listed.to_string(), refused.class().to_owned()])
    }

    fn plan(&self, _: &ObjectKey, facts: Vec<String>, _: Moment) -> Actions {
        *self.0.lock() = facts;
        Actions::none()
    }
}

#[tokio::test(start_paused = true)]
async fn facts_are_read_before_the_plan_is_made() {
    let world = World::new().await;
    world.put_parent("a", 0).await;
    for number in 0..1203 {
        world.children().create(&PostParams::default(), &child_of("a", number)).await.unwrap();
    }
    let mut runtime = Runtime::new(world.client(), world.options());
    let facts = Arc::new(Mutex::new(Vec::new()));
    let keys = [ObjectKey::namespaced(PARENTS, "a")];
    runtime.controller(Fetcher(facts.clone()), Triggers::new().at_start(keys), 1);
    let running = start(runtime);
    until("facts were read", || !facts.lock().is_empty()).await;
    assert_eq!(*facts.lock(), ["a", "true", "1203", "not_found"]);
    assert_eq!(running.metrics.reads(), 2 + 3 + 1, "a long list comes in pages");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_has_begun_may_end_when_the_process_stops_but_not_for_ever() {
    for (delay, made) in [(Duration::from_secs(1), 1), (Duration::from_secs(20), 0)] {
        let world = World::new().await;
        let meddler = world.meddler();
        meddler.meddle("POST", CHILDREN, 5, Meddling::Delay(delay));
        world.put_parent("a", 2).await;
        let (runtime, _) = toy(meddler.client(), world.options());
        let running = start(runtime);
        until("a write is under way", || meddler.count("POST", CHILDREN) == 1).await;
        let asked = tokio::time::Instant::now();
        running.stop().await;
        assert!(asked.elapsed() <= SHUTDOWN_GRACE + Duration::from_millis(10), "{:?}", asked.elapsed());
        assert!(world.child_names().await.len() >= made);
        tokio::time::sleep(Duration::from_mins(1)).await;
        assert!(world.child_names().await.len() <= 2);
    }
}

/// Makes the first child of each parent on the other side.
struct Across {
    parents: Cache<ConfigMap>,
    children: Cache<ConfigMap>,
    side: Side,
}
impl Controller for Across {
    const NAME: &'static str = "across";
    type Key = ObjectKey;
    type Facts = ();
    fn plan(&self, key: &ObjectKey, (): (), _: Moment) -> Actions {
        let child = child_of(key.name(), 0);
        if self.parents.get(key).is_none() || self.children.get(&ObjectKey::of(&child)).is_some() {
            return Actions::none();
        }
        Actions::none().with(Write::create(&child).on(self.side))
    }
}

#[tokio::test(start_paused = true)]
async fn a_runtime_with_two_servers_keeps_them_apart() {
    let (hub, member) = (World::new().await, World::new().await);
    hub.put_parent("a", 2).await;
    let mut runtime = Runtime::new(hub.client(), hub.options());
    let side = runtime.connect(member.client());
    let parents = runtime.cache(Kind::<ConfigMap>::new().in_namespace(PARENTS));
    let children = runtime.cache(Kind::<ConfigMap>::new().in_namespace(CHILDREN).on(side));
    let triggers =
        Triggers::new().on(&parents, |event| (event.key().name() == "a").then(|| event.key())).reads(&children);
    runtime.controller(Across { parents, children: children.clone(), side }, triggers, 1);
    let running = start(runtime);
    running.settled().await;
    assert_eq!((hub.child_names().await.len(), member.child_names().await), (0, vec!["a-000".to_owned()]));
    assert!(children.get(&ObjectKey::namespaced(CHILDREN, "a-000")).is_some());
    running.stop().await;
}
