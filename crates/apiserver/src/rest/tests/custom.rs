//! Custom resources: definitions, versions, live changes.

use crate::testing::Fixture;
use serde_json::{Value, json};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const CARS: &str = "/apis/example.com/v1/namespaces/default/cars";

pub(crate) fn cars() -> Value {
    json!({
        "metadata": {"name": "cars.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "cars", "kind": "Car", "singular": "car"},
            "versions": [
                {"name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                 "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
                 "selectableFields": [{"jsonPath": ".spec.color"}]},
                {"name": "v1beta1", "served": true, "storage": false, "deprecated": true,
                 "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}},
            ],
        },
    })
}

pub(crate) async fn established(f: &Fixture, definition: Value) -> Value {
    let name = definition["metadata"]["name"].as_str().unwrap().to_owned();
    f.ok("POST", DEFINITIONS, definition).await;
    f.eventually(&format!("{DEFINITIONS}/{name}"), |d| condition(d, "Established") == "True").await
}

fn condition(object: &Value, kind: &str) -> String {
    let conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
    conditions.iter().find(|c| c["type"] == kind).map(|c| c["status"].as_str().unwrap().to_owned()).unwrap_or_default()
}

fn car(name: &str, color: &str) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Car", "metadata": {"name": name}, "spec": {"color": color}})
}

#[tokio::test(start_paused = true)]
async fn a_definition_is_established_and_served_in_all_versions() {
    let f = Fixture::new().await;
    let definition = established(&f, cars()).await;
    assert_eq!(condition(&definition, "NamesAccepted"), "True");
    assert_eq!(definition["status"]["storedVersions"], json!(["v1"]));
    assert_eq!(definition["status"]["acceptedNames"]["plural"], "cars");
    let made = f.ok("POST", CARS, car("a", "red")).await;
    assert_eq!(made["metadata"]["generation"], 1);
    let response = f.send("GET", "/apis/example.com/v1beta1/namespaces/default/cars/a", Value::Null).await;
    assert_eq!(response.to_value()["apiVersion"], "example.com/v1beta1");
    assert_eq!(response.warnings, ["example.com/v1beta1 Car is deprecated; use example.com/v1 Car"]);
    f.ok("POST", CARS, car("b", "blue")).await;
    let red = f.ok("GET", &format!("{CARS}?fieldSelector=spec.color%3Dred"), Value::Null).await;
    assert_eq!(red["items"].as_array().unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn custom_resources_reject_some_requests_of_built_in_ones() {
    let f = Fixture::new().await;
    established(&f, cars()).await;
    f.ok("POST", CARS, car("a", "red")).await;
    assert_eq!(
        f.refused("PUT", &format!("{CARS}/a"), car("a", "blue")).await,
        "422 Invalid: cars.example.com \"a\" is invalid: metadata.resourceVersion: Invalid value: 0: must be specified for \
         an update"
    );
    assert_eq!(f.call("PATCH strategic", &format!("{CARS}/a"), json!({})).await.0, 415);
    assert!(
        f.refused("POST", CARS, json!({"metadata": {"name": "x"}}))
            .await
            .contains("(must be of type Car): Object 'Kind' is missing in '{")
    );
}

#[tokio::test(start_paused = true)]
async fn conflicting_names_are_not_accepted() {
    let f = Fixture::new().await;
    established(&f, cars()).await;
    let mut other = cars();
    other["metadata"]["name"] = "autos.example.com".into();
    other["spec"]["names"] = json!({"plural": "autos", "kind": "Car", "singular": "auto"});
    f.ok("POST", DEFINITIONS, other).await;
    let target = format!("{DEFINITIONS}/autos.example.com");
    let refused = f.eventually(&target, |d| condition(d, "NamesAccepted") == "False").await;
    assert_eq!(condition(&refused, "Established"), "False");
    assert_eq!(refused["status"]["conditions"][0]["reason"], "ListKindConflict");
    assert_eq!(f.call("GET", "/apis/example.com/v1/autos", Value::Null).await.0, 404);
}

#[tokio::test(start_paused = true)]
async fn a_changed_definition_ends_watches_and_serves_its_new_form() {
    let f = Fixture::new().await;
    established(&f, cars()).await;
    f.ok("POST", CARS, car("a", "red")).await;
    let mut watch = f.watch(CARS).await;
    assert!(watch.next().await.unwrap().starts_with("ADDED a@"));
    let first = &cars()["spec"]["versions"][0];
    let second = json!({"name": "v2", "served": true, "storage": false, "schema": first["schema"]});
    let versions = json!([first, second]);
    f.ok("PATCH merge", &format!("{DEFINITIONS}/cars.example.com"), json!({"spec": {"versions": versions}})).await;
    assert_eq!(watch.next().await, None);
    assert_eq!(
        f.ok("GET", "/apis/example.com/v2/namespaces/default/cars/a", Value::Null).await["apiVersion"],
        "example.com/v2"
    );
    assert_eq!(f.call("GET", "/apis/example.com/v1beta1/cars", Value::Null).await.0, 404);
    assert_eq!(f.ok("GET", &format!("{CARS}/a"), Value::Null).await["spec"]["color"], "red");
}

#[tokio::test(start_paused = true)]
async fn a_definition_is_deleted_after_its_objects() {
    let f = Fixture::new().await;
    established(&f, cars()).await;
    let mut held = car("a", "red");
    held["metadata"]["finalizers"] = json!(["x.y/z"]);
    f.ok("POST", CARS, held).await;
    f.ok("POST", CARS, car("b", "blue")).await;
    let target = format!("{DEFINITIONS}/cars.example.com");
    let marked = f.ok("DELETE", &target, Value::Null).await;
    assert_eq!(marked["metadata"]["finalizers"], json!(["customresourcecleanup.apiextensions.k8s.io"]));
    f.eventually_gone(&format!("{CARS}/b")).await;
    f.eventually(&target, |d| condition(d, "Terminating") == "True").await;
    assert_eq!(f.call("POST", CARS, car("c", "green")).await.0, 403);
    f.ok("PATCH merge", &format!("{CARS}/a"), json!({"metadata": {"finalizers": null}})).await;
    f.eventually_gone(&target).await;
    assert_eq!(f.call("GET", CARS, Value::Null).await.0, 404);
}

#[tokio::test(start_paused = true)]
async fn replicas_are_validated_and_missing_paths_not_found() {
    let f = Fixture::new().await;
    let mut definition = cars();
    definition["spec"]["versions"][0]["subresources"]["scale"] =
        json!({"specReplicasPath": ".spec.n", "statusReplicasPath": ".status.n"});
    established(&f, definition).await;
    let mut made = car("a", "red");
    made["spec"]["n"] = json!("many");
    assert_eq!(
        f.refused("POST", CARS, made.clone()).await,
        "422 Invalid: Car.example.com \"a\" is invalid: .spec.n: Invalid value: 0: .spec.n accessor error: many is of the \
         type string, expected int64"
    );
    made["spec"]["n"] = json!(2.0);
    assert_eq!(f.ok("POST", CARS, made).await["spec"]["n"], json!(2), "a whole number is kept as one");
    let refused = f.refused("PATCH merge", &format!("{CARS}/a/scale"), json!({"spec": {"replicas": -1}})).await;
    assert!(refused.contains(".spec.n: Invalid value: -1: should be a non-negative integer"), "{refused}");
    assert_eq!(
        f.refused("GET", &format!("{CARS}/a/wheels"), Value::Null).await,
        "404 NotFound: cars.example.com \"a\" not found"
    );
    let unserved = f.send("GET", "/apis/example.com/v9/namespaces/default/cars/a", Value::Null).await;
    assert!(unserved.status == 404 && unserved.to_value().is_null(), "plain text");
}

#[tokio::test(start_paused = true)]
async fn fields_that_the_stored_version_lacks_are_lost() {
    let f = Fixture::new().await;
    let mut definition = cars();
    let narrow = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {"color": {"type": "string"}}}}});
    definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = narrow;
    established(&f, definition).await;
    let mut old = car("a", "red");
    old["apiVersion"] = json!("example.com/v1beta1");
    old["spec"]["doors"] = json!(4);
    let made = f.ok("POST", "/apis/example.com/v1beta1/namespaces/default/cars", old).await;
    assert_eq!((&made["apiVersion"], &made["spec"]), (&json!("example.com/v1beta1"), &json!({"color": "red"})));
}

/// A kind with a list map whose keys are numbers.
fn routes() -> Value {
    let ports = json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["port"], "items": {
        "type": "object", "required": ["port"], "properties": {"port": {"type": "integer"}, "name": {"type": "string"}},
    }});
    json!({
        "metadata": {"name": "routes.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "routes", "kind": "Route", "singular": "route"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object",
                "properties": {"spec": {"type": "object", "properties": {"ports": ports}}}}}}],
        },
    })
}

#[tokio::test(start_paused = true)]
async fn audit_10_every_write_of_a_large_list_map_takes_n_log_n_steps() {
    let f = Fixture::new().await;
    established(&f, routes()).await;
    let route = |name: &str, count: usize, text: &str| {
        let ports: Vec<Value> = (0..count).map(|port| json!({"port": port, "name": text})).collect();
        json!({"apiVersion": "example.com/v1", "kind": "Route", "metadata": {"name": name}, "spec": {"ports": ports}})
    };
    for verb in ["PATCH apply", "PATCH merge", "PUT"] {
        let mut steps = Vec::new();
        for count in [250, 1000] {
            let name = format!("{}{count}", verb.replace(' ', "-").to_lowercase());
            let path = format!("/apis/example.com/v1/namespaces/default/routes/{name}");
            let made = f.ok("PATCH apply", &format!("{path}?fieldManager=anna"), route(&name, count, "a")).await;
            let mut body = route(&name, count, "b");
            body["metadata"]["resourceVersion"] = made["metadata"]["resourceVersion"].clone();
            let before = crate::testing::steps_so_far();
            f.ok(verb, &format!("{path}?fieldManager=anna"), body).await;
            steps.push(crate::testing::steps_so_far() - before);
        }
        assert!(steps[0] > 0 && steps[1] < 6 * steps[0], "{verb}: {steps:?} steps for 250 and 1000 items");
    }
}
