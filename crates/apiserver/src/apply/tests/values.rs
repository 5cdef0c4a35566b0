//! What an object looks like after a configuration was merged into it.

use expect_test::expect;

use super::check;

#[test]
fn an_applied_atomic_list_replaces_the_live_one() {
    check(
        r#"
        - apply ci: {spec: {args: [a, b]}}
        - apply ci: {spec: {args: [b]}}
        "#,
        &expect![[r#"
            spec:
              args:
              - b
            ci Apply v1 @2
              .spec.args
        "#]],
    );
}

#[test]
fn applied_items_are_merged_into_the_live_ones_by_key() {
    check(
        r#"
        - create kubectl: {spec: {containers: [{name: a, image: x, args: [one]}]}}
        - apply ci: {spec: {containers: [{name: a, env: [{name: E, value: v}]}]}}
        "#,
        &expect![[r#"
            spec:
              containers:
              - args:
                - one
                env:
                - name: E
                  value: v
                image: x
                name: a
            ci Apply v1 @2
              .spec.containers[name="a"]
              .spec.containers[name="a"].name
              .spec.containers[name="a"].env[name="E"]
              .spec.containers[name="a"].env[name="E"].name
              .spec.containers[name="a"].env[name="E"].value
            kubectl Update v1 @1
              .spec
              .spec.containers
              .spec.containers[name="a"]
              .spec.containers[name="a"].args
              .spec.containers[name="a"].image
              .spec.containers[name="a"].name
        "#]],
    );
}

#[test]
fn a_default_counts_as_part_of_the_key() {
    check(
        r#"
        - create kubectl: {spec: {containers: [{name: a, ports: [{containerPort: 80, protocol: TCP, name: web}]}]}}
        - apply ci: {spec: {containers: [{name: a, ports: [{containerPort: 80, name: web}, {containerPort: 80, protocol: UDP}]}]}}
        "#,
        &expect![[r#"
            spec:
              containers:
              - name: a
                ports:
                - containerPort: 80
                  name: web
                  protocol: TCP
                - containerPort: 80
                  protocol: UDP
            ci Apply v1 @2
              .spec.containers[name="a"]
              .spec.containers[name="a"].name
              .spec.containers[name="a"].ports[containerPort=80,protocol="TCP"]
              .spec.containers[name="a"].ports[containerPort=80,protocol="UDP"]
              .spec.containers[name="a"].ports[containerPort=80,protocol="TCP"].containerPort
              .spec.containers[name="a"].ports[containerPort=80,protocol="TCP"].name
              .spec.containers[name="a"].ports[containerPort=80,protocol="UDP"].containerPort
              .spec.containers[name="a"].ports[containerPort=80,protocol="UDP"].protocol
            kubectl Update v1 @1
              .spec
              .spec.containers
              .spec.containers[name="a"]
              .spec.containers[name="a"].name
              .spec.containers[name="a"].ports
              .spec.containers[name="a"].ports[containerPort=80,protocol="TCP"]
              .spec.containers[name="a"].ports[containerPort=80,protocol="TCP"].containerPort
              .spec.containers[name="a"].ports[containerPort=80,protocol="TCP"].name
              .spec.containers[name="a"].ports[containerPort=80,protocol="TCP"].protocol
        "#]],
    );
}

#[test]
fn shared_items_take_the_applied_order() {
    check(
        r#"
        - create kubectl: {spec: {zones: [a, b, c, d]}}
        - apply ci: {spec: {zones: [c, a]}}
        "#,
        &expect![[r#"
            spec:
              zones:
              - b
              - c
              - d
              - a
            ci Apply v1 @2
              .spec.zones[="a"]
              .spec.zones[="c"]
            kubectl Update v1 @1
              .spec
              .spec.zones
              .spec.zones[="a"]
              .spec.zones[="b"]
              .spec.zones[="c"]
              .spec.zones[="d"]
        "#]],
    );
}

#[test]
fn new_items_are_inserted_at_their_applied_position() {
    check(
        r#"
        - create kubectl: {spec: {zones: [a, b, c]}}
        - apply ci: {spec: {zones: [a, x, b, z]}}
        "#,
        &expect![[r#"
            spec:
              zones:
              - a
              - x
              - b
              - c
              - z
            ci Apply v1 @2
              .spec.zones[="a"]
              .spec.zones[="b"]
              .spec.zones[="x"]
              .spec.zones[="z"]
            kubectl Update v1 @1
              .spec
              .spec.zones
              .spec.zones[="a"]
              .spec.zones[="b"]
              .spec.zones[="c"]
        "#]],
    );
}

#[test]
fn live_items_keep_their_position_among_applied_ones() {
    check(
        r#"
        - create kubectl: {spec: {zones: [a, b, c, d]}}
        - apply ci: {spec: {zones: [x, d, z, b]}}
        "#,
        &expect![[r#"
            spec:
              zones:
              - a
              - c
              - x
              - d
              - z
              - b
            ci Apply v1 @2
              .spec.zones[="b"]
              .spec.zones[="d"]
              .spec.zones[="x"]
              .spec.zones[="z"]
            kubectl Update v1 @1
              .spec
              .spec.zones
              .spec.zones[="a"]
              .spec.zones[="b"]
              .spec.zones[="c"]
              .spec.zones[="d"]
        "#]],
    );
}

#[test]
fn items_that_share_a_key_are_replaced_by_the_applied_one() {
    check(
        r#"
        - create kubectl: {spec: {containers: [{name: a, image: x}, {name: a, image: w}, {name: b}]}}
        - force ci: {spec: {containers: [{name: a, image: z}, {name: c}]}}
        "#,
        &expect![[r#"
            spec:
              containers:
              - image: z
                name: a
              - name: c
              - name: b
            ci Apply v1 @2
              .spec.containers[name="a"]
              .spec.containers[name="c"]
              .spec.containers[name="a"].image
              .spec.containers[name="a"].name
              .spec.containers[name="c"].name
            kubectl Update v1 @1
              .spec
              .spec.containers
              .spec.containers[name="b"]
              .spec.containers[name="b"].name
        "#]],
    );
}

#[test]
fn numbers_of_a_set_are_one_whether_whole_or_not() {
    check(
        r#"
        - create kubectl: {spec: {weights: [1, 20, 3]}}
        - apply ci: {spec: {weights: [3.0, 1]}}
        "#,
        &expect![[r#"
            spec:
              weights:
              - 20
              - 3.0
              - 1
            ci Apply v1 @2
              .spec.weights[=1]
              .spec.weights[=3]
            kubectl Update v1 @1
              .spec
              .spec.weights
              .spec.weights[=1]
              .spec.weights[=3]
              .spec.weights[=20]
        "#]],
    );
}

#[test]
fn an_applied_null_is_owned() {
    check(
        r#"
        - apply ci: {spec: {image: null, strategy: null, zones: null}}
        "#,
        &expect![[r#"
            spec:
              image: null
              strategy: null
              zones: null
            ci Apply v1 @1
              .spec.image
              .spec.strategy
              .spec.zones
        "#]],
    );
}

#[test]
fn an_applied_null_does_not_empty_a_map_or_a_list() {
    check(
        r#"
        - create kubectl: {spec: {strategy: {type: x}, zones: [a]}}
        - apply ci: {spec: {strategy: null, zones: null}}
        "#,
        &expect![[r#"
            spec:
              strategy:
                type: x
              zones:
              - a
            ci Apply v1 @never
              .spec.strategy
              .spec.zones
            kubectl Update v1 @1
              .spec
              .spec.strategy
              .spec.zones
              .spec.strategy.type
              .spec.zones[="a"]
        "#]],
    );
}

#[test]
fn an_applied_empty_struct_is_owned_and_changes_nothing() {
    check(
        r#"
        - create kubectl: {spec: {strategy: {type: x}}}
        - apply ci: {spec: {strategy: {}, settings: {}, zones: []}}
        "#,
        &expect![[r#"
            spec:
              settings: {}
              strategy:
                type: x
              zones: []
            ci Apply v1 @2
              .spec.settings
              .spec.strategy
            kubectl Update v1 @1
              .spec
              .spec.strategy
              .spec.strategy.type
        "#]],
    );
}

#[test]
fn values_of_a_map_are_owned_as_entries_and_by_field() {
    check(
        r#"
        - apply ci: {spec: {points: {p: {x: 1}, q: {}}}}
        - apply other: {spec: {points: {p: {'y': 2}}}}
        - apply ci: {spec: {points: {q: {}}}}
        "#,
        &expect![[r#"
            spec:
              points:
                p:
                  "y": 2
                q: {}
            other Apply v1 @2
              .spec.points.p
              .spec.points.p.y
            ci Apply v1 @3
              .spec.points.q
        "#]],
    );
}

#[test]
fn unknown_content_is_owned_by_field_with_lists_whole() {
    check(
        r#"
        - apply ci: {spec: {free: {a: 1, b: {c: [1, {d: 2}]}}, anything: {x: [v]}}}
        - apply other: {spec: {free: {b: {e: 3}}, anything: {z: w}}}
        - apply ci: {spec: {free: {a: 1}}}
        "#,
        &expect![[r#"
            spec:
              anything:
                z: w
              free:
                a: 1
                b:
                  e: 3
            other Apply v1 @2
              .spec.anything.z
              .spec.free.b
              .spec.free.b.e
            ci Apply v1 @3
              .spec.free.a
        "#]],
    );
}

#[test]
fn unknown_content_may_change_its_type() {
    check(
        r#"
        - apply ci: {spec: {anything: {x: 1}}}
        - apply ci: {spec: {anything: text}}
        - apply ci: {spec: {anything: [1, 2]}}
        - merge editor: {spec: {anything: {v: 1}}}
        "#,
        &expect![[r#"
            spec:
              anything:
                v: 1
            editor Update v1 @4
              .spec.anything
              .spec.anything.v
        "#]],
    );
}

#[test]
fn an_embedded_object_has_the_metadata_of_an_object() {
    check(
        r#"
        - apply a: {spec: {embedded: {apiVersion: v1, kind: Pod, metadata: {name: p, finalizers: [one]}, other: {x: 1}}}}
        - apply b: {spec: {embedded: {metadata: {finalizers: [two]}}}}
        "#,
        &expect![[r#"
            spec:
              embedded:
                apiVersion: v1
                kind: Pod
                metadata:
                  finalizers:
                  - one
                  - two
                  name: p
                other:
                  x: 1
            a Apply v1 @1
              .spec.embedded.apiVersion
              .spec.embedded.kind
              .spec.embedded.other
              .spec.embedded.metadata.name
              .spec.embedded.metadata.finalizers[="one"]
              .spec.embedded.other.x
            b Apply v1 @2
              .spec.embedded.metadata.finalizers[="two"]
        "#]],
    );
}

#[test]
fn finalizers_are_a_set_and_owner_references_are_known_by_uid() {
    check(
        r#"
        - create kubectl: {metadata: {finalizers: [a/one], ownerReferences: [{apiVersion: v1, kind: X, name: x, uid: u1}]}}
        - apply ci: {metadata: {finalizers: [b/two], ownerReferences: [{apiVersion: v1, kind: Z, name: z, uid: u2, controller: true}]}}
        - apply other: {metadata: {ownerReferences: [{apiVersion: v1, kind: Z, name: z, uid: u2}]}}
        "#,
        &expect![[r#"
            apply other: 409 Apply failed with 1 conflict: conflict with "ci": .metadata.ownerReferences[uid="u2"]
              FieldManagerConflict | .metadata.ownerReferences[uid="u2"] | conflict with "ci"
            metadata:
              finalizers:
              - a/one
              - b/two
              ownerReferences:
              - apiVersion: v1
                kind: X
                name: x
                uid: u1
              - apiVersion: v1
                controller: true
                kind: Z
                name: z
                uid: u2
            ci Apply v1 @2
              .metadata.finalizers[="b/two"]
              .metadata.ownerReferences[uid="u2"]
            kubectl Update v1 @1
              .metadata.finalizers
              .metadata.ownerReferences
              .metadata.finalizers[="a/one"]
              .metadata.ownerReferences[uid="u1"]
        "#]],
    );
}

#[test]
fn an_int_or_string_may_be_either() {
    check(
        r#"
        - apply ci: {spec: {maxSurge: 1, containers: [{name: a, resources: {cpu: 1, memory: 1Gi}}]}}
        - apply ci: {spec: {maxSurge: 25%, containers: [{name: a, resources: {cpu: 500m, memory: 1Gi}}]}}
        "#,
        &expect![[r#"
            spec:
              containers:
              - name: a
                resources:
                  cpu: 500m
                  memory: 1Gi
              maxSurge: 25%
            ci Apply v1 @2
              .spec.maxSurge
              .spec.containers[name="a"]
              .spec.containers[name="a"].name
              .spec.containers[name="a"].resources.cpu
              .spec.containers[name="a"].resources.memory
        "#]],
    );
}

#[test]
fn a_number_may_be_whole_or_not() {
    check(
        r#"
        - apply ci: {spec: {rate: 1}}
        - apply ci: {spec: {rate: 1.0}}
        - apply ci: {spec: {rate: 1.5}}
        "#,
        &expect![[r#"
            apply ci: no change
            spec:
              rate: 1.5
            ci Apply v1 @3
              .spec.rate
        "#]],
    );
}
