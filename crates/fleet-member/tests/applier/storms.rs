//! Lost requests and lost answers on both connections, and agents that die: the end is the one of a calm day.

use std::fmt::Write as _;
use std::time::Duration;

use serde_json::{Value, json};

use crate::weather::Weather;
use crate::world::{World, config_map, in_short, namespace, owners, pass, until};

const MAPS: &str = "v1/configmaps";

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
        assert!(weather.lost() > 5, "a storm loses something");
    }
}
