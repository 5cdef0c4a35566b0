//! Which configurations are refused for not fitting the schema, and that updates are not.

use expect_test::expect;

use super::check;

#[test]
fn an_unknown_field_is_refused() {
    check(
        r#"
        - apply ci: {spec: {replica: 1}}
        - apply ci: {metadata: {namespace: ns, colour: red}}
        "#,
        &expect![[r#"
            apply ci: 500 failed to create typed patch object (/web; example.com/v1, Kind=Web): .spec.replica: field not declared in schema
            apply ci: 500 failed to create typed patch object (ns/web; example.com/v1, Kind=Web): .metadata.colour: field not declared in schema
            nothing
        "#]],
    );
}

#[test]
fn all_type_errors_are_named() {
    check(
        r#"
        - apply ci: {spec: {replicas: many, image: 5, paused: 'yes', containers: {a: b}, strategy: [x], args: {x: z}}}
        "#,
        &expect![[r#"
            apply ci: 500 failed to create typed patch object (/web; example.com/v1, Kind=Web): errors:
              .spec.args: expected list, got &{map[x:z]}
              .spec.containers: expected list, got &{map[a:b]}
              .spec.image: expected string, got &value.valueUnstructured{Value:5}
              .spec.paused: expected boolean, got &{yes}
              .spec.replicas: expected numeric (int or float), got string
              .spec.strategy: expected map, got &{[x]}
            nothing
        "#]],
    );
}

#[test]
fn an_item_without_its_key_is_refused() {
    check(
        r#"
        - apply ci: {spec: {containers: [{image: x}]}}
        - apply ci: {spec: {containers: [null]}}
        - apply ci: {spec: {containers: [text]}}
        - apply ci: {spec: {zones: [[a]]}}
        - apply ci: {spec: {zones: [{a: b}]}}
        - apply ci: {spec: {zones: [null]}}
        "#,
        &expect![[r#"
            apply ci: 500 failed to create typed patch object (/web; example.com/v1, Kind=Web): .spec.containers: element 0: associative list with keys has an element that omits all key fields ["name"] (and doesn't have default values for any key fields)
            apply ci: 500 failed to create typed patch object (/web; example.com/v1, Kind=Web): .spec.containers: element 0: associative list with keys may not have a null element
            apply ci: 500 failed to create typed patch object (/web; example.com/v1, Kind=Web): .spec.containers: element 0: associative list with keys may not have non-map elements
            apply ci: 500 failed to create typed patch object (/web; example.com/v1, Kind=Web): .spec.zones: element 0: not supported: associative list with lists as elements
            apply ci: 500 failed to create typed patch object (/web; example.com/v1, Kind=Web): .spec.zones: element 0: associative list without keys has an element that's a map type
            apply ci: 500 failed to create typed patch object (/web; example.com/v1, Kind=Web): .spec.zones: element 0: associative list without keys has an element that's an explicit null
            nothing
        "#]],
    );
}

#[test]
fn an_item_applied_twice_is_refused() {
    check(
        r#"
        - apply ci: {spec: {containers: [{name: a}, {name: a, image: x}], zones: [b, b]}}
        - apply ci: {spec: {containers: [{name: a, ports: [{containerPort: 80}, {containerPort: 80, protocol: TCP}]}]}}
        "#,
        &expect![[r#"
            apply ci: 500 failed to create typed patch object (/web; example.com/v1, Kind=Web): errors:
              .spec.containers: duplicate entries for key [name="a"]
              .spec.zones: duplicate entries for key [="b"]
            apply ci: 500 failed to create typed patch object (/web; example.com/v1, Kind=Web): .spec.containers[name="a"].ports: duplicate entries for key [containerPort=80,protocol="TCP"]
            nothing
        "#]],
    );
}

#[test]
fn an_update_may_have_unknown_fields_but_then_nothing_has_an_owner() {
    check(
        r#"
        - create kubectl: {spec: {mystery: {a: 1}, replicas: many, containers: [{image: x}, {name: a}]}}
        - merge editor: {spec: {mystery: {a: 2}}}
        "#,
        &expect![[r#"
            spec:
              containers:
              - image: x
              - name: a
              mystery:
                a: 2
              replicas: many
        "#]],
    );
}
