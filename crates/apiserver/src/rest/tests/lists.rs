//! Lists: pages, selectors, revisions.

use crate::testing::{Fixture, config_map};
use serde_json::{Value, json};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn names(list: &Value) -> String {
    let items = list["items"].as_array().unwrap();
    items.iter().map(|i| i["metadata"]["name"].as_str().unwrap()).collect::<Vec<_>>().join(",")
}

async fn five() -> Fixture {
    let f = Fixture::new().await;
    for name in ["a", "b", "c", "d", "e"] {
        let mut object = config_map(name);
        object["metadata"]["labels"] = json!({"vowel": if "ae".contains(name) { "yes" } else { "no" }});
        f.ok("POST", MAPS, object).await;
    }
    f
}

#[tokio::test(start_paused = true)]
async fn pages_of_a_list_are_one_snapshot_and_a_watch_continues_from_it() {
    let f = five().await;
    let first = f.ok("GET", &format!("{MAPS}?limit=2"), Value::Null).await;
    assert_eq!((names(&first).as_str(), &first["metadata"]["remainingItemCount"]), ("a,b", &json!(3)));
    let version = first["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    f.ok("DELETE", &format!("{MAPS}/c"), Value::Null).await;
    f.ok("POST", MAPS, config_map("bb")).await;
    let mut pages = vec![names(&first)];
    let mut token = first["metadata"]["continue"].as_str().map(str::to_owned);
    while let Some(next) = token {
        let page = f.ok("GET", &format!("{MAPS}?limit=2&continue={next}"), Value::Null).await;
        assert_eq!(page["metadata"]["resourceVersion"].as_str(), Some(version.as_str()));
        pages.push(names(&page));
        token = page["metadata"]["continue"].as_str().map(str::to_owned);
    }
    assert_eq!(pages, ["a,b", "c,d", "e"]);
    let mut watch = f.watch(&format!("{MAPS}?resourceVersion={version}")).await;
    let events = watch.take(2).await;
    assert!(events[0].starts_with("DELETED c@") && events[1].starts_with("ADDED bb@"), "{events:?}");
}

#[tokio::test(start_paused = true)]
async fn limits_count_objects_that_match_the_selector() {
    let f = five().await;
    let list = async |query: &str| names(&f.ok("GET", &format!("{MAPS}?{query}"), Value::Null).await);
    assert_eq!(list("labelSelector=vowel%3Dyes").await, "a,e");
    assert_eq!(list("labelSelector=vowel notin (yes)").await, "b,c,d");
    assert_eq!(list("fieldSelector=metadata.name%3Db").await, "b");
    assert_eq!(list("fieldSelector=metadata.name!%3Db").await, "a,c,d,e");
    let page = f.ok("GET", &format!("{MAPS}?labelSelector=vowel%3Dyes&limit=1"), Value::Null).await;
    assert_eq!((names(&page).as_str(), page["metadata"].get("remainingItemCount")), ("a", None));
    let all = f.ok("GET", "/api/v1/configmaps?limit=1", Value::Null).await;
    assert_eq!(all["kind"], "ConfigMapList");
    f.ok("POST", "/api/v1/namespaces/default/pods", json!({"metadata": {"name": "p"}, "spec": {"nodeName": "n"}}))
        .await;
    assert_eq!(names(&f.ok("GET", "/api/v1/pods?fieldSelector=spec.nodeName%3Dn", Value::Null).await), "p");
    assert_eq!(names(&f.ok("GET", "/api/v1/pods?fieldSelector=spec.nodeName%3Dm", Value::Null).await), "");
}

#[tokio::test(start_paused = true)]
async fn bad_selectors_and_versions_are_refused() {
    let f = five().await;
    let refused = async |query: &str| f.refused("GET", &format!("{MAPS}?{query}"), Value::Null).await;
    assert_eq!(
        refused("labelSelector=a in b").await,
        "400 BadRequest: unable to parse requirement: found 'b' expected: '('"
    );
    assert_eq!(
        refused("fieldSelector=data.x%3D1").await,
        "400 BadRequest: \"data.x\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\""
    );
    assert!(
        refused("resourceVersion=x")
            .await
            .starts_with("400 BadRequest: invalid resource version: resourceVersion: Invalid value: \"x\"")
    );
    assert!(
        refused("resourceVersion=999")
            .await
            .starts_with("504 Timeout: Timeout: Too large resource version: 999, current: ")
    );
    assert!(
        refused("continue=!!").await.starts_with("400 BadRequest: invalid continue token: continue key is not valid")
    );
    let invalid = "422 Invalid: ListOptions.meta.k8s.io \"\" is invalid: ";
    let table = [
        (
            "resourceVersionMatch=Exact",
            "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided",
        ),
        (
            "resourceVersionMatch=Exact&resourceVersion=0",
            "resourceVersionMatch: Forbidden: resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"",
        ),
        (
            "resourceVersionMatch=New&resourceVersion=1",
            "resourceVersionMatch: Unsupported value: \"New\": supported values: \"Exact\", \"NotOlderThan\", \"\"",
        ),
        ("sendInitialEvents=true", "sendInitialEvents: Forbidden: sendInitialEvents is forbidden for list"),
    ];
    for (query, text) in table {
        assert_eq!(refused(query).await, format!("{invalid}{text}"));
    }
}

#[tokio::test(start_paused = true)]
async fn exact_lists_show_old_revisions_until_compaction() {
    let f = five().await;
    let version = f.cluster.store().revision();
    f.ok("DELETE", &format!("{MAPS}/a"), Value::Null).await;
    let exact = format!("{MAPS}?resourceVersion={version}&resourceVersionMatch=Exact");
    assert_eq!(names(&f.ok("GET", &exact, Value::Null).await), "a,b,c,d,e");
    assert_eq!(names(&f.ok("GET", &format!("{MAPS}?resourceVersion={version}"), Value::Null).await), "b,c,d,e");
    assert_eq!(names(&f.ok("GET", &format!("{MAPS}?resourceVersion=0"), Value::Null).await), "b,c,d,e");
    let page = f.ok("GET", &format!("{MAPS}?limit=1"), Value::Null).await;
    let token = page["metadata"]["continue"].as_str().unwrap().to_owned();
    f.ok("POST", MAPS, config_map("f")).await;
    f.cluster.store().compact(u64::MAX);
    assert!(f.refused("GET", &exact, Value::Null).await.starts_with("410 Expired"));
    assert!(
        f.refused("GET", &format!("{MAPS}?limit=1&continue={token}"), Value::Null)
            .await
            .starts_with("410 Expired: The provided continue parameter is too old")
    );
}
