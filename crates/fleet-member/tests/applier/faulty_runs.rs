//! Lost requests and answers on both connections, and crashing agents: the final state is that of a run without
//! faults.

use std::fmt::Write as _;
use std::time::Duration;

use serde_json::{Value, json};

use crate::applier::faults::FaultInjector;
use crate::applier::fixture::{Fixture, config_map, in_short, namespace, owners, pass, until};

const MAPS: &str = "v1/configmaps";

/// The final state without times and versions.
async fn end(fixture: &Fixture) -> String {
    let mut text = String::new();
    for work in ["a", "b", "c"] {
        let Some(stored) = fixture.try_stored(work).await else {
            writeln!(text, "{work} is gone").unwrap();
            continue;
        };
        writeln!(text, "{work} {}{:?}", in_short(&stored), fixture.listed(work).await).unwrap();
    }
    let maps = fixture.member().try_list(MAPS, Some("app")).await.unwrap();
    let placed = |map: &&Value| map["metadata"]["name"] != "kube-root-ca.crt";
    for map in maps["items"].as_array().unwrap().iter().filter(placed) {
        writeln!(text, "{} {} {:?}", map["metadata"]["name"], map["data"], owners(map)).unwrap();
    }
    text
}

fn maps(names: &[&str], value: &str) -> Vec<Value> {
    names.iter().map(|name| config_map(name, json!({"k": value}))).collect()
}

async fn told_in(faults: FaultInjector) -> String {
    let fixture = Fixture::new().await;
    fixture.member().create("v1/namespaces", None, &namespace("app")).await;
    fixture.member().create(MAPS, Some("app"), &config_map("theirs", json!({"k": "theirs"}))).await;
    let never = json!({"applyStrategy": {"whenToTakeOver": "Never"}});
    fixture.work("a", &maps(&["a1", "a2", "a3"], "1"), json!({})).await;
    fixture.work("b", &maps(&["b1", "theirs"], "1"), never.clone()).await;
    fixture.work("c", &maps(&["c1"], "1"), json!({})).await;
    let mut agent = fixture.start_in(&faults);
    let mut steps = 0;
    loop {
        pass(Duration::from_secs(5 + faults.throw(60))).await;
        match steps {
            0 => fixture.work("a", &maps(&["a1", "a3", "a4"], "2"), json!({})).await,
            1 => fixture.work("b", &maps(&["b2", "theirs"], "2"), never.clone()).await,
            2 => fixture.delete_work("c").await,
            3 => fixture.work("a", &maps(&["a4", "a5"], "3"), json!({})).await,
            _ => break,
        }
        steps += 1;
        if faults.throw(3) == 0 {
            agent.kill().await;
            agent = fixture.start_in(&faults);
        }
    }
    faults.stop_faults();
    // Longer than any retry that the faults have caused.
    pass(Duration::from_mins(30)).await;
    until("the Work is gone", || async { fixture.try_stored("c").await.is_none() }).await;
    agent.settled().await;
    let end = end(&fixture).await;
    agent.stop().await;
    end
}

/// Seeds to test.
const SEEDS: std::ops::Range<u64> = 1..9;

#[tokio::test(start_paused = true)]
async fn faults_and_crashes_do_not_change_the_final_state() {
    let calm = told_in(FaultInjector::default()).await;
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
        let faults = FaultInjector::seeded(seed);
        let stormy = told_in(faults.clone()).await;
        assert_eq!(stormy, calm, "with seed {seed}");
        assert!(faults.lost() > 5, "a storm loses something");
    }
}
