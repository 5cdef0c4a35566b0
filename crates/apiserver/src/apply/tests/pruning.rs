//! Which fields are removed when a manager no longer applies them.

use expect_test::expect;

use super::check;

#[test]
fn a_field_no_longer_applied_is_removed() {
    check(
        r#"
        - apply ci: {spec: {replicas: 1, image: a}}
        - apply ci: {spec: {replicas: 1}}
        "#,
        &expect![[r#"
            spec:
              replicas: 1
            ci Apply v1 @2
              .spec.replicas
        "#]],
    );
}

#[test]
fn a_field_no_longer_applied_stays_if_another_applier_owns_it() {
    check(
        r#"
        - apply ci: {spec: {replicas: 1, image: a}}
        - apply other: {spec: {image: a}}
        - apply ci: {spec: {replicas: 1}}
        "#,
        &expect![[r#"
            spec:
              image: a
              replicas: 1
            other Apply v1 @never
              .spec.image
            ci Apply v1 @1
              .spec.replicas
        "#]],
    );
}

#[test]
fn a_field_no_longer_applied_stays_if_an_updater_owns_it() {
    check(
        r#"
        - create kubectl: {spec: {image: a}}
        - apply ci: {spec: {replicas: 1, image: a}}
        - apply ci: {spec: {replicas: 1}}
        "#,
        &expect![[r#"
            spec:
              image: a
              replicas: 1
            ci Apply v1 @2
              .spec.replicas
            kubectl Update v1 @1
              .spec
              .spec.image
        "#]],
    );
}

#[test]
fn a_field_that_an_updater_has_taken_is_no_longer_removed() {
    check(
        r#"
        - apply ci: {spec: {replicas: 1, image: a}}
        - merge editor: {spec: {image: b}}
        - apply ci: {spec: {replicas: 1}}
        "#,
        &expect![[r#"
            apply ci: no change
            spec:
              image: b
              replicas: 1
            ci Apply v1 @1
              .spec.replicas
            editor Update v1 @2
              .spec.image
        "#]],
    );
}

#[test]
fn a_struct_is_removed_with_its_last_field() {
    check(
        r#"
        - apply ci: {spec: {replicas: 1, strategy: {type: x, limits: {low: 1}}}}
        - apply ci: {spec: {replicas: 1}}
        "#,
        &expect![[r#"
            spec:
              replicas: 1
            ci Apply v1 @2
              .spec.replicas
        "#]],
    );
}

#[test]
fn a_struct_stays_while_something_in_it_is_owned() {
    check(
        r#"
        - apply ci: {spec: {replicas: 1, strategy: {type: x, limits: {low: 1}}}}
        - apply other: {spec: {strategy: {limits: {high: 2}}}}
        - apply ci: {spec: {replicas: 1}}
        "#,
        &expect![[r#"
            spec:
              replicas: 1
              strategy:
                limits:
                  high: 2
            other Apply v1 @2
              .spec.strategy.limits.high
            ci Apply v1 @3
              .spec.replicas
        "#]],
    );
}

#[test]
fn a_struct_stays_while_something_in_it_is_not_owned_at_all() {
    check(
        r#"
        - apply ci: {spec: {image: x, strategy: {type: x}}}
        - merge editor: {spec: {strategy: {limits: {high: 2}}}}
        - apply ci: {spec: {image: x}}
        "#,
        &expect![[r#"
            spec:
              image: x
              strategy:
                limits:
                  high: 2
            ci Apply v1 @3
              .spec.image
            editor Update v1 @2
              .spec.strategy.limits
              .spec.strategy.limits.high
        "#]],
    );
}

#[test]
fn an_item_no_longer_applied_is_removed() {
    check(
        r#"
        - apply ci: {spec: {containers: [{name: a, image: x}, {name: b, image: w}]}}
        - apply ci: {spec: {containers: [{name: b, image: w}]}}
        "#,
        &expect![[r#"
            spec:
              containers:
              - image: w
                name: b
            ci Apply v1 @2
              .spec.containers[name="b"]
              .spec.containers[name="b"].image
              .spec.containers[name="b"].name
        "#]],
    );
}

#[test]
fn an_item_no_longer_applied_stays_while_another_owns_part_of_it() {
    check(
        r#"
        - apply ci: {spec: {containers: [{name: a, image: x, args: [one]}, {name: b, image: w}]}}
        - apply other: {spec: {containers: [{name: a, env: [{name: E, value: v}]}]}}
        - apply ci: {spec: {containers: [{name: b, image: w}]}}
        "#,
        &expect![[r#"
            spec:
              containers:
              - env:
                - name: E
                  value: v
                name: a
              - image: w
                name: b
            other Apply v1 @2
              .spec.containers[name="a"]
              .spec.containers[name="a"].name
              .spec.containers[name="a"].env[name="E"]
              .spec.containers[name="a"].env[name="E"].name
              .spec.containers[name="a"].env[name="E"].value
            ci Apply v1 @3
              .spec.containers[name="b"]
              .spec.containers[name="b"].image
              .spec.containers[name="b"].name
        "#]],
    );
}

#[test]
fn a_nested_item_no_longer_applied_is_removed() {
    check(
        r#"
        - apply ci: {spec: {containers: [{name: a, env: [{name: E, value: v}, {name: F, value: w}]}]}}
        - apply ci: {spec: {containers: [{name: a, env: [{name: F, value: w}]}]}}
        "#,
        &expect![[r#"
            spec:
              containers:
              - env:
                - name: F
                  value: w
                name: a
            ci Apply v1 @2
              .spec.containers[name="a"]
              .spec.containers[name="a"].name
              .spec.containers[name="a"].env[name="F"]
              .spec.containers[name="a"].env[name="F"].name
              .spec.containers[name="a"].env[name="F"].value
        "#]],
    );
}

#[test]
fn the_list_is_removed_with_its_last_item() {
    check(
        r#"
        - apply ci: {spec: {replicas: 1, containers: [{name: a}]}}
        - apply ci: {spec: {replicas: 1}}
        "#,
        &expect![[r#"
            spec:
              replicas: 1
            ci Apply v1 @2
              .spec.replicas
        "#]],
    );
}

#[test]
fn a_value_of_a_set_no_longer_applied_is_removed() {
    check(
        r#"
        - apply ci: {spec: {zones: [a, b]}}
        - apply other: {spec: {zones: [b, c]}}
        - apply ci: {spec: {zones: [a]}}
        - apply other: {spec: {zones: [c]}}
        "#,
        &expect![[r#"
            spec:
              zones:
              - a
              - c
            ci Apply v1 @1
              .spec.zones[="a"]
            other Apply v1 @4
              .spec.zones[="c"]
        "#]],
    );
}

#[test]
fn a_key_of_a_map_no_longer_applied_is_removed() {
    check(
        r#"
        - apply ci: {metadata: {labels: {a: '1', b: '2'}, annotations: {x: z}}}
        - apply ci: {metadata: {labels: {a: '1'}}}
        "#,
        &expect![[r#"
            metadata:
              labels:
                a: "1"
            ci Apply v1 @2
              .metadata.labels.a
        "#]],
    );
}

#[test]
fn an_atomic_map_no_longer_applied_is_removed() {
    check(
        r#"
        - apply ci: {spec: {replicas: 1, selector: {a: b}, args: [x]}}
        - apply ci: {spec: {replicas: 1}}
        "#,
        &expect![[r#"
            spec:
              replicas: 1
            ci Apply v1 @2
              .spec.replicas
        "#]],
    );
}
