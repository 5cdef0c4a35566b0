//! Watches: where they start, what they show, how they end.

use crate::testing::{Fixture, config_map};
use serde_json::{Value, json};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn labelled(name: &str, app: &str) -> Value {
    let mut object = config_map(name);
    object["metadata"]["labels"] = json!({"app": app});
    object
}

#[tokio::test(start_paused = true)]
async fn a_watch_sends_existing_objects_and_then_changes() {
    let f = Fixture::new().await;
    let made = f.ok("POST", MAPS, config_map("a")).await;
    let mut watch = f.watch(MAPS).await;
    let version = |object: &Value| object["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    assert_eq!(watch.next().await.unwrap(), format!("ADDED a@{}", version(&made)));
    let changed = f.ok("PATCH merge", &format!("{MAPS}/a"), json!({"data": {"b": "2"}})).await;
    f.ok("DELETE", &format!("{MAPS}/a"), Value::Null).await;
    f.ok("POST", "/api/v1/namespaces/kube-system/configmaps", config_map("elsewhere")).await;
    assert_eq!(watch.next().await.unwrap(), format!("MODIFIED a@{}", version(&changed)));
    let deleted = watch.next().await.unwrap();
    let after: u64 = version(&changed).parse::<u64>().unwrap() + 1;
    assert_eq!(deleted, format!("DELETED a@{after}"), "a deletion has the revision of the change itself");
}

#[tokio::test(start_paused = true)]
async fn changes_across_a_selector_are_added_and_deleted_events() {
    let f = Fixture::new().await;
    f.ok("POST", MAPS, labelled("a", "x")).await;
    let mut x = f.watch(&format!("{MAPS}?labelSelector=app%3Dx")).await;
    let mut y = f.watch(&format!("{MAPS}?labelSelector=app%3Dy")).await;
    assert!(x.next().await.unwrap().starts_with("ADDED a@"));
    let moved = f.ok("PATCH merge", &format!("{MAPS}/a"), json!({"metadata": {"labels": {"app": "y"}}})).await;
    let version = moved["metadata"]["resourceVersion"].as_str().unwrap();
    assert_eq!(x.next().await.unwrap(), format!("DELETED a@{version}"));
    assert_eq!(y.next().await.unwrap(), format!("ADDED a@{version}"));
    f.ok("DELETE", &format!("{MAPS}/a"), Value::Null).await;
    assert!(y.next().await.unwrap().starts_with("DELETED a@"));
}

#[tokio::test(start_paused = true)]
async fn an_expired_start_revision_is_an_error_event() {
    let f = Fixture::new().await;
    for name in ["a", "b", "c"] {
        f.ok("POST", MAPS, config_map(name)).await;
    }
    f.cluster.store().compact(u64::MAX);
    let mut watch = f.watch(&format!("{MAPS}?resourceVersion=2")).await;
    assert!(watch.next().await.unwrap().starts_with("ERROR 410 too old resource version: 2 ("));
    assert_eq!(watch.next().await, None);
}

#[tokio::test(start_paused = true)]
async fn bookmarks_come_with_time_and_the_stream_ends_in_time() {
    let f = Fixture::new().await;
    f.eventually("/api/v1/namespaces/kube-system/serviceaccounts/default", Value::is_object).await;
    f.ok("POST", MAPS, config_map("a")).await;
    let listed = f.cluster.store().revision();
    let mut watch = f.watch(&format!("{MAPS}?allowWatchBookmarks=true&timeoutSeconds=90")).await;
    assert!(watch.next().await.unwrap().starts_with("ADDED a@"));
    assert_eq!(watch.next().await.unwrap(), format!("BOOKMARK -@{listed}"), "ends the initial events");
    f.ok("POST", "/api/v1/namespaces/default/secrets", json!({"metadata": {"name": "s"}})).await;
    let revision = f.cluster.store().revision();
    assert_eq!(watch.next().await.unwrap(), format!("BOOKMARK -@{revision}"), "moves past other resources");
    assert_eq!(watch.next().await.unwrap(), format!("BOOKMARK -@{revision}"), "a last one at the end");
    assert_eq!(watch.next().await, None);
}

#[tokio::test(start_paused = true)]
async fn a_streamed_list_ends_with_a_bookmark() {
    let f = Fixture::new().await;
    for name in ["a", "b"] {
        f.ok("POST", MAPS, config_map(name)).await;
    }
    let revision = f.cluster.store().revision();
    let query = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let mut watch = f.watch(&format!("{MAPS}?{query}")).await;
    let events = watch.take(3).await;
    assert!(events[0].starts_with("ADDED a") && events[1].starts_with("ADDED b"));
    assert_eq!(events[2], format!("BOOKMARK -@{revision}"));
    let table = [
        ("sendInitialEvents=true", "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"),
        (
            "resourceVersionMatch=NotOlderThan",
            "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
        ),
        (
            "sendInitialEvents=true&resourceVersionMatch=Exact",
            "Unsupported value: \"Exact\": supported values: \"NotOlderThan\"",
        ),
    ];
    for (query, text) in table {
        let refused = f.refused("WATCH", &format!("{MAPS}?{query}"), Value::Null).await;
        assert!(refused.starts_with("422 Invalid") && refused.contains(text), "{refused}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_resumed_watch_misses_nothing() {
    let f = Fixture::new().await;
    let mut seen = Vec::new();
    let mut version = f.cluster.store().revision();
    for round in 0..5 {
        for name in ["x", "y"] {
            f.ok("POST", MAPS, config_map(&format!("{name}{round}"))).await;
        }
        let mut watch = f.watch(&format!("{MAPS}?resourceVersion={version}")).await;
        let event = watch.next().await.unwrap();
        version = event.rsplit('@').next().unwrap().parse().unwrap();
        seen.push(event.split('@').next().unwrap().to_owned());
    }
    assert_eq!(seen, ["ADDED x0", "ADDED y0", "ADDED x1", "ADDED y1", "ADDED x2"]);
}
