//! The content, order and portions of snapshots.

use expect_test::{Expect, expect};
use fleet_api::well_known::limits::RESOURCE_SNAPSHOT_BYTES;
use k8s_values::go;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::hub::Hub;
use super::render::resources_text;
use crate::placement::snapshot_content::{split, stored_bytes};
use crate::placement::{Inventory, LiveObject, Selected, SelectedContent, order};

fn check(kind: &str, object: Value, expected: Expect) {
    let hub = Hub::parse("");
    let selected = [Selected { kind: hub.kind_named(kind), object: LiveObject(&object) }];
    let selected_content = SelectedContent::of(&selected);
    expected.assert_eq(&serde_json::to_string_pretty(&selected_content.resources.unwrap()[0]).unwrap());
}

#[test]
fn placement_16_metadata_of_the_hub_is_removed() {
    check(
        "Deployment",
        json!({
            "metadata": {
                "name": "web", "namespace": "shop", "generateName": "w", "uid": "u", "resourceVersion": "5",
                "generation": 2, "selfLink": "/x", "creationTimestamp": "2026-01-01T00:00:00Z",
                "deletionGracePeriodSeconds": 3, "managedFields": [{}], "ownerReferences": [{}],
                "labels": {"a": "b"}, "finalizers": ["f"],
                "annotations": {
                    "kubectl.kubernetes.io/last-applied-configuration": "{}",
                    "deployment.kubernetes.io/revision": "3",
                    "kept": "yes",
                },
            },
            "spec": {"replicas": 1},
            "status": {"replicas": 1},
        }),
        expect![[r#"
            {
              "apiVersion": "apps/v1",
              "kind": "Deployment",
              "metadata": {
                "annotations": {
                  "kept": "yes"
                },
                "deletionGracePeriodSeconds": 3,
                "finalizers": [
                  "f"
                ],
                "generateName": "w",
                "labels": {
                  "a": "b"
                },
                "name": "web",
                "namespace": "shop"
              },
              "spec": {
                "replicas": 1
              }
            }"#]],
    );
    check(
        "ConfigMap",
        json!({"metadata": {"name": "a", "annotations": {"deployment.kubernetes.io/revision": "3"}}}),
        expect![[r#"
            {
              "apiVersion": "v1",
              "kind": "ConfigMap",
              "metadata": {
                "name": "a"
              }
            }"#]],
    );
}

#[test]
fn placement_16_assigned_addresses_of_services_are_removed() {
    let ports = json!([{"port": 80, "nodePort": 30080}, {"port": 81}]);
    check(
        "Service",
        json!({"metadata": {"name": "a"}, "spec": {
            "clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"], "healthCheckNodePort": 1, "ports": ports,
        }}),
        expect![[r#"
            {
              "apiVersion": "v1",
              "kind": "Service",
              "metadata": {
                "name": "a"
              },
              "spec": {
                "ports": [
                  {
                    "port": 80
                  },
                  {
                    "port": 81
                  }
                ]
              }
            }"#]],
    );
    check(
        "Service",
        json!({"metadata": {"name": "a"}, "spec": {"clusterIP": "None", "clusterIPs": ["None"]}}),
        expect![[r#"
            {
              "apiVersion": "v1",
              "kind": "Service",
              "metadata": {
                "name": "a"
              },
              "spec": {
                "clusterIP": "None",
                "clusterIPs": [
                  "None"
                ]
              }
            }"#]],
    );
}

#[test]
fn placement_16_jobs_lose_the_generated_selector_and_keep_a_manual_one() {
    let job = |manual: Value| {
        let labels = json!({"controller-uid": "u", "batch.kubernetes.io/controller-uid": "u", "app": "x"});
        json!({"metadata": {"name": "a"}, "spec": {
            "manualSelector": manual,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"creationTimestamp": null, "labels": labels}},
        }})
    };
    check(
        "Job",
        job(json!(false)),
        expect![[r#"
        {
          "apiVersion": "batch/v1",
          "kind": "Job",
          "metadata": {
            "name": "a"
          },
          "spec": {
            "manualSelector": false,
            "selector": {
              "matchLabels": {
                "app": "x"
              }
            },
            "template": {
              "metadata": {
                "labels": {
                  "app": "x"
                }
              }
            }
          }
        }"#]],
    );
    check(
        "Job",
        job(json!(true)),
        expect![[r#"
        {
          "apiVersion": "batch/v1",
          "kind": "Job",
          "metadata": {
            "name": "a"
          },
          "spec": {
            "manualSelector": true,
            "selector": {
              "matchLabels": {
                "app": "x",
                "batch.kubernetes.io/controller-uid": "u",
                "controller-uid": "u"
              }
            },
            "template": {
              "metadata": {
                "creationTimestamp": null,
                "labels": {
                  "app": "x",
                  "batch.kubernetes.io/controller-uid": "u",
                  "controller-uid": "u"
                }
              }
            }
          }
        }"#]],
    );
}

#[test]
fn known_kinds_come_first_in_their_order_and_others_by_name() {
    let hub = Hub::parse(
        "Gadget b/x
        Widget a/x
        ResourceEnvelope a/e
        Job a/j
        Deployment a/z
        Deployment a/b
        Deployment B/b
        Role a/r
        ClusterRole c
        ConfigMap a/c
        Secret z/s
        Namespace a",
    );
    let mut selected: Vec<_> =
        hub.objects.iter().map(|(kind, object)| Selected { kind, object: LiveObject(object) }).collect();
    order::sort(&mut selected);
    let selected_content = SelectedContent::of(&selected);
    assert_eq!(selected_content.envelopes, 1);
    expect!["Namespace a, Secret z/s, ConfigMap a/c, ClusterRole c, Role a/r, Deployment B/b, Deployment a/b, Deployment a/z, Job a/j, Gadget b/x, Widget a/x, ResourceEnvelope a/e"].assert_eq(&resources_text(&selected_content.identifiers));
}

fn selected_content(sizes: &[usize]) -> SelectedContent {
    let lines: Vec<_> = sizes.iter().enumerate().map(|(n, size)| format!("ConfigMap a/c{n:04} size={size}")).collect();
    let hub = Hub::parse(&lines.join("\n"));
    let kind = hub.kind_named("ConfigMap");
    let selected: Vec<_> = hub.list(kind, None).into_iter().map(|object| Selected { kind, object }).collect();
    SelectedContent::of(&selected)
}

/// Size of a ConfigMap of the fixture without its value.
fn overhead() -> usize {
    go::json_bytes(&selected_content(&[0]).resources.unwrap()[0]).len()
}

#[test]
fn a_portion_is_filled_to_the_last_byte_and_line_breaks_count() {
    let half = RESOURCE_SNAPSHOT_BYTES / 2 - overhead() - 1;
    assert_eq!(selected_content(&[half, half]).portions().unwrap().len(), 1);
    assert_eq!(selected_content(&[half, half + 1]).portions().unwrap().len(), 2);
    assert_eq!(selected_content(&[]).portions(), Ok(vec![&[][..]]));
}

/// A limit that small objects reach.
const SMALL_LIMIT: usize = 1000;

proptest! {
    #[test]
    fn portions_keep_the_limit_unless_one_object_alone_exceeds_it(
        sizes in prop::collection::vec(prop_oneof![0..100_usize, 0..600_usize, 800..1200_usize], 0..12),
    ) {
        let resources = selected_content(&sizes).resources.unwrap();
        let portions = split(&resources, SMALL_LIMIT);
        let bytes = |portion: &&[_]| portion.iter().map(stored_bytes).sum::<usize>();
        for portion in &portions {
            prop_assert!(portion.len() == 1 || bytes(portion) <= SMALL_LIMIT);
        }
        for pair in portions.windows(2) {
            prop_assert!(bytes(&pair[0]) + stored_bytes(&pair[1][0]) > SMALL_LIMIT);
        }
        prop_assert_eq!(portions.concat(), resources.clone());
    }
}
