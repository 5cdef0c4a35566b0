//! Lost requests and lost answers on both connections, and agents that die: the end is the one of a calm day.

use std::fmt::Write as _;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use apiserver::http::LocalService;
use http::Request;
use kube::client::Body;
use serde_json::{Value, json};
use tower_service::Service;

use crate::world::{World, config_map, in_short, namespace, owners, pass, until};

const MAPS: &str = "v1/configmaps";
/// Of so many requests one is lost before it arrives, and of so many one answer on its way back.
const ONE_IN: u64 = 7;

/// Random numbers from a seed; 0 is a calm day.
#[derive(Clone, Default)]
pub(crate) struct Weather {
    state: Arc<AtomicU64>,
    lost: Arc<AtomicU64>,
}

impl Weather {
    fn seeded(seed: u64) -> Self {
        Self { state: Arc::new(AtomicU64::new(seed)), ..Self::default() }
    }

    fn calm_down(&self) {
        self.state.store(0, Ordering::Relaxed);
    }

    /// Whether the next thing gets lost.
    fn loses(&self) -> bool {
        let loses = self.throw(ONE_IN) == 0;
        self.lost.fetch_add(u64::from(loses), Ordering::Relaxed);
        loses
    }

    /// One of `sides`, by a linear congruence; 1 on a calm day.
    fn throw(&self, sides: u64) -> u64 {
        let state = self.state.load(Ordering::Relaxed);
        if state == 0 {
            return 1;
        }
        let next = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407).max(1);
        self.state.store(next, Ordering::Relaxed);
        (next >> 33) % sides
    }
}

/// A connection in this weather. Watches are left alone: what they bring late or not at all is the runtime's to test.
#[derive(Clone)]
pub(crate) struct Stormy {
    pub(crate) inner: LocalService,
    pub(crate) weather: Weather,
}

impl Service<Request<Body>> for Stormy {
    type Response = <LocalService as Service<Request<Body>>>::Response;
    type Error = <LocalService as Service<Request<Body>>>::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Service::<Request<Body>>::poll_ready(&mut self.inner, context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let watches = request.uri().query().is_some_and(|query| query.contains("watch="));
        if watches {
            return Box::pin(self.inner.call(request));
        }
        if self.weather.loses() {
            return Box::pin(std::future::pending());
        }
        let (answer, lost) = (self.inner.call(request), self.weather.loses());
        Box::pin(async move {
            let answer = answer.await;
            if lost { std::future::pending().await } else { answer }
        })
    }
}

/// What there is in the end, without times and versions.
async fn end(world: &World) -> String {
    let mut text = String::new();
    for work in ["a", "b", "c"] {
        let Some(stored) = world.try_stored(work).await else {
            writeln!(text, "{work} is gone").unwrap();
            continue;
        };
        writeln!(text, "{work} {}{:?}", in_short(&stored), world.listed(work).await).unwrap();
    }
    let maps = world.member().try_list(MAPS, Some("app")).await.unwrap();
    let placed = |map: &&Value| map["metadata"]["name"] != "kube-root-ca.crt";
    for map in maps["items"].as_array().unwrap().iter().filter(placed) {
        writeln!(text, "{} {} {:?}", map["metadata"]["name"], map["data"], owners(map)).unwrap();
    }
    text
}

fn maps(names: &[&str], value: &str) -> Vec<Value> {
    names.iter().map(|name| config_map(name, json!({"k": value}))).collect()
}

async fn told_in(weather: Weather) -> String {
    let world = World::new().await;
    world.member().create("v1/namespaces", None, &namespace("app")).await;
    world.member().create(MAPS, Some("app"), &config_map("theirs", json!({"k": "theirs"}))).await;
    let never = json!({"applyStrategy": {"whenToTakeOver": "Never"}});
    world.work("a", &maps(&["a1", "a2", "a3"], "1"), json!({})).await;
    world.work("b", &maps(&["b1", "theirs"], "1"), never.clone()).await;
    world.work("c", &maps(&["c1"], "1"), json!({})).await;
    let mut agent = world.start_in(&weather);
    let mut steps = 0;
    loop {
        pass(Duration::from_secs(5 + weather.throw(60))).await;
        match steps {
            0 => world.work("a", &maps(&["a1", "a3", "a4"], "2"), json!({})).await,
            1 => world.work("b", &maps(&["b2", "theirs"], "2"), never.clone()).await,
            2 => world.delete_work("c").await,
            3 => world.work("a", &maps(&["a4", "a5"], "3"), json!({})).await,
            _ => break,
        }
        steps += 1;
        if weather.throw(3) == 0 {
            agent.kill();
            agent = world.start_in(&weather);
        }
    }
    weather.calm_down();
    // Longer than any retry that the storm has led to.
    pass(Duration::from_mins(30)).await;
    until("the Work is gone", || async { world.try_stored("c").await.is_none() }).await;
    agent.settled().await;
    let end = end(&world).await;
    agent.stop().await;
    end
}

/// Seeds that the test command tries.
const SEEDS: std::ops::Range<u64> = 1..9;

#[tokio::test(start_paused = true)]
async fn storms_and_crashes_change_nothing_in_the_end() {
    let calm = told_in(Weather::default()).await;
    expect_test::expect![[r#"
        a Applied=True/AllManifestsApplied Available=True/AllManifestsAvailable
        0 ConfigMap/a4: Applied=True/Applied Available=True/Available
        1 ConfigMap/a5: Applied=True/Applied Available=True/Available
        ["0 a4", "1 a5"]
        b Applied=False/SomeManifestsAreNotApplied
        0 ConfigMap/b2: Applied=True/Applied Available=True/Available
        1 ConfigMap/theirs: Applied=False/NotTakenOver
        ["0 b2"]
        c is gone
        "a4" {"k":"3"} ["AppliedWork a"]
        "a5" {"k":"3"} ["AppliedWork a"]
        "b2" {"k":"2"} ["AppliedWork b"]
        "theirs" {"k":"theirs"} []
    "#]]
    .assert_eq(&calm);
    for seed in SEEDS {
        let weather = Weather::seeded(seed);
        let stormy = told_in(weather.clone()).await;
        assert_eq!(stormy, calm, "with seed {seed}");
        assert!(weather.lost.load(Ordering::Relaxed) > 5, "a storm loses something");
    }
}
