//! Creating objects.

use crate::testing::{Fixture, config_map, deployment};
use serde_json::{Value, json};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

#[tokio::test(start_paused = true)]
async fn a_created_object_has_what_the_server_sets_and_reads_back_the_same() {
    let f = Fixture::new().await;
    let (status, made) = f.call("POST", MAPS, config_map("a")).await;
    assert_eq!(status, 201);
    let metadata = &made["metadata"];
    assert_eq!(
        (&metadata["namespace"], &metadata["creationTimestamp"]),
        (&json!("default"), &json!("2026-01-01T00:00:00Z"))
    );
    assert!(
        metadata["uid"].is_string() && metadata["resourceVersion"].is_string() && metadata.get("generation").is_none()
    );
    assert_eq!(f.ok("GET", &format!("{MAPS}/a"), Value::Null).await, made);
    let again = f.refused("POST", MAPS, config_map("a")).await;
    assert_eq!(again, "409 AlreadyExists: configmaps \"a\" already exists");
}

#[tokio::test(start_paused = true)]
async fn kinds_with_a_generation_start_at_one_without_a_status() {
    let f = Fixture::new().await;
    let mut object = deployment("d");
    object["status"] = json!({"replicas": 9});
    let made = f.ok("POST", "/apis/apps/v1/namespaces/default/deployments", object).await;
    assert_eq!(made["metadata"]["generation"], 1);
    assert!(made.get("status").is_none());
}

#[tokio::test(start_paused = true)]
async fn names_are_generated_and_checked() {
    let f = Fixture::new().await;
    let made = f.ok("POST", MAPS, json!({"metadata": {"generateName": "web-"}})).await;
    assert!(made["metadata"]["name"].as_str().unwrap().starts_with("web-"));
    assert_eq!((&made["kind"], &made["apiVersion"]), (&json!("ConfigMap"), &json!("v1")));
    let nameless = f.refused("POST", MAPS, json!({"metadata": {}})).await;
    assert_eq!(
        nameless,
        "422 Invalid: ConfigMap \"\" is invalid: metadata.name: Required value: name or generateName is required"
    );
    let bad = f.refused("POST", MAPS, config_map("A")).await;
    assert!(
        bad.starts_with(
            "422 Invalid: ConfigMap \"A\" is invalid: metadata.name: Invalid value: \"A\": a lowercase RFC"
        )
    );
}

#[tokio::test(start_paused = true)]
async fn mismatching_bodies_are_refused() {
    let f = Fixture::new().await;
    let refused = async |patch: Value| {
        let mut object = config_map("a");
        for (key, value) in patch.as_object().unwrap() {
            object[key] = value.clone();
        }
        f.refused("POST", MAPS, object).await
    };
    assert_eq!(
        refused(json!({"apiVersion": "v2"})).await,
        "400 BadRequest: ConfigMap in version \"v2\" cannot be handled as a ConfigMap: no kind \"ConfigMap\" is registered \
         for version \"v2\" in scheme \"pkg/runtime/scheme.go:110\""
    );
    assert!(
        refused(json!({"kind": "Secret"}))
            .await
            .starts_with("400 BadRequest: Secret in version \"v1\" cannot be handled as a ConfigMap")
    );
    assert_eq!(
        refused(json!({"metadata": {"name": "a", "namespace": "other"}})).await,
        "400 BadRequest: the namespace of the provided object does not match the namespace sent on the request"
    );
    assert_eq!(
        refused(json!({"metadata": {"name": "a", "resourceVersion": "5"}})).await,
        "500 : resourceVersion should not be set on objects to be created"
    );
    let mut request = Fixture::request("POST", MAPS, &Value::Null);
    request.body = bytes::Bytes::from_static(b"{\"kind\":");
    let response = f.cluster.handle(request.clone()).await;
    assert_eq!(
        response.to_value()["message"],
        "the object provided is unrecognized (must be of type ConfigMap): couldn't get version/kind; json parse error: \
         unexpected end of JSON input ({\"kind\":)"
    );
    request.body = bytes::Bytes::from(vec![b' '; 4 << 20]);
    assert_eq!(f.cluster.handle(request.clone()).await.status, 413);
    request.body = bytes::Bytes::new();
    request.content_type = crate::rest::request::ContentType::Other("text/plain".to_owned());
    assert_eq!(f.cluster.handle(request).await.status, 415);
}

#[tokio::test(start_paused = true)]
async fn repeated_fields_warn_or_fail_by_validation_mode() {
    let f = Fixture::new().await;
    let body = br#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a"},"data":{"x":"1","x":"2"}}"#;
    let send = async |query: &str| {
        let mut request = Fixture::request("POST", &format!("{MAPS}?dryRun=All{query}"), &Value::Null);
        request.body = bytes::Bytes::from_static(body);
        f.cluster.handle(request).await
    };
    assert_eq!(send("").await.warnings, ["duplicate field \"data.x\""]);
    assert!(send("&fieldValidation=Ignore").await.warnings.is_empty());
    let strict = send("&fieldValidation=Strict").await;
    assert_eq!(
        (strict.status, &strict.to_value()["message"]),
        (
            400,
            &json!(
                "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: strict decoding error: duplicate field \"data.x\""
            )
        )
    );
    let unknown = send("&fieldValidation=Sometimes").await.to_value();
    assert_eq!(
        unknown["message"],
        "CreateOptions.meta.k8s.io \"\" is invalid: fieldValidation: Unsupported value: \"Sometimes\": supported values: \
         \"\", \"Ignore\", \"Strict\", \"Warn\""
    );
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_stores_nothing() {
    let f = Fixture::new().await;
    let before = f.cluster.store().revision();
    let (status, made) = f.call("POST", &format!("{MAPS}?dryRun=All"), config_map("a")).await;
    assert_eq!((status, &made["metadata"]["name"]), (201, &json!("a")));
    assert_eq!(f.cluster.store().revision(), before);
    assert!(
        f.refused("POST", &format!("{MAPS}?dryRun=Some"), config_map("a"))
            .await
            .contains("dryRun: Unsupported value: [\"Some\"]")
    );
}

#[tokio::test(start_paused = true)]
async fn creates_need_an_active_namespace() {
    let f = Fixture::new().await;
    let missing = f.refused("POST", "/api/v1/namespaces/gone/configmaps", config_map("a")).await;
    assert_eq!(missing, "404 NotFound: namespaces \"gone\" not found");
    let made = f.ok("POST", "/api/v1/namespaces", json!({"metadata": {"name": "ns"}})).await;
    assert_eq!(made["metadata"]["labels"]["kubernetes.io/metadata.name"], "ns");
    f.ok("POST", "/api/v1/namespaces/ns/configmaps", json!({"metadata": {"name": "a", "finalizers": ["x.y/z"]}})).await;
    f.ok("DELETE", "/api/v1/namespaces/ns", Value::Null).await;
    let going = f.call("POST", "/api/v1/namespaces/ns/configmaps", config_map("b")).await.1;
    assert_eq!(
        going["message"],
        "configmaps \"b\" is forbidden: unable to create new content in namespace ns because it is being terminated"
    );
    assert_eq!(going["details"]["causes"][0]["reason"], "NamespaceTerminating");
    let kept = f.refused("DELETE", "/api/v1/namespaces/default", Value::Null).await;
    assert_eq!(kept, "403 Forbidden: namespaces \"default\" is forbidden: this namespace may not be deleted");
}

#[tokio::test(start_paused = true)]
async fn unknown_paths_and_missing_objects_are_distinguished() {
    let f = Fixture::new().await;
    let table = [
        ("GET", "/api/v1/namespaces/default/things", 404),
        ("GET", "/api/v2/namespaces/default/configmaps", 404),
        ("GET", "/api/v1/namespaces/default/configmaps/a/status", 404),
        ("GET", "/api/v1/configmaps/a", 404),
        ("POST", "/api/v1/configmaps", 405),
        ("PUT", "/api/v1/configmaps", 404),
        ("GET", "/api/v1/namespaces/default/namespaces/a", 404),
    ];
    for (verb, target, code) in table {
        assert_eq!(f.call(verb, target, Value::Null).await.0, code, "{verb} {target}");
    }
}
