//! When appliers are in conflict, what the refusal says, and what force does.

use expect_test::expect;

use super::check;

#[test]
fn applying_the_value_of_another_owner_shares_the_field_without_conflict() {
    check(
        r#"
        - create kubectl: {spec: {replicas: 1}}
        - apply ci: {spec: {replicas: 1}}
        - apply ci: {spec: {replicas: 1}}
        "#,
        &expect![[r#"
            apply ci: no change
            spec:
              replicas: 1
            ci Apply v1 @never
              .spec.replicas
            kubectl Update v1 @1
              .spec
              .spec.replicas
        "#]],
    );
}

#[test]
fn creating_and_applying_under_one_name_are_two_managers() {
    check(
        r#"
        - create m: {spec: {replicas: 1}}
        - apply m: {spec: {replicas: 2}}
        - force m: {spec: {replicas: 2}}
        "#,
        &expect![[r#"
            apply m: 409 Apply failed with 1 conflict: conflict with "m" using example.com/v1: .spec.replicas
              FieldManagerConflict | .spec.replicas | conflict with "m" using example.com/v1
            spec:
              replicas: 2
            m Apply v1 @3
              .spec.replicas
            m Update v1 @1
              .spec
        "#]],
    );
}

#[test]
fn one_conflict_with_a_client_side_apply() {
    check(
        r#"
        - create kubectl-client-side-apply: {spec: {replicas: 1}}
        - apply ci: {spec: {replicas: 3}}
        "#,
        &expect![[r#"
            apply ci: 409 Apply failed with 1 conflict: conflict with "kubectl-client-side-apply" using example.com/v1: .spec.replicas
              FieldManagerConflict | .spec.replicas | conflict with "kubectl-client-side-apply" using example.com/v1
            spec:
              replicas: 1
            kubectl-client-side-apply Update v1 @1
              .spec
              .spec.replicas
        "#]],
    );
}

#[test]
fn one_conflict_with_an_applier_names_no_version() {
    check(
        r#"
        - apply helm: {spec: {replicas: 1}}
        - apply ci: {spec: {replicas: 3}}
        "#,
        &expect![[r#"
            apply ci: 409 Apply failed with 1 conflict: conflict with "helm": .spec.replicas
              FieldManagerConflict | .spec.replicas | conflict with "helm"
            spec:
              replicas: 1
            helm Apply v1 @1
              .spec.replicas
        "#]],
    );
}

#[test]
fn conflicts_with_several_managers_are_grouped() {
    check(
        r#"
        - create zed: {spec: {replicas: 1, containers: [{name: nginx, image: a}]}}
        - apply helm: {spec: {image: a, zones: [z]}}
        - merge hpa: {spec: {paused: true}}
        - apply ci: {spec: {replicas: 2, image: b, paused: false, containers: [{name: nginx, image: b}]}}
        "#,
        &expect![[r#"
            apply ci: 409 Apply failed with 4 conflicts: conflicts with "helm":
            - .spec.image
            conflicts with "hpa" using example.com/v1:
            - .spec.paused
            conflicts with "zed" using example.com/v1:
            - .spec.replicas
            - .spec.containers[name="nginx"].image
              FieldManagerConflict | .spec.image | conflict with "helm"
              FieldManagerConflict | .spec.paused | conflict with "hpa" using example.com/v1
              FieldManagerConflict | .spec.replicas | conflict with "zed" using example.com/v1
              FieldManagerConflict | .spec.containers[name="nginx"].image | conflict with "zed" using example.com/v1
            spec:
              containers:
              - image: a
                name: nginx
              image: a
              paused: true
              replicas: 1
              zones:
              - z
            helm Apply v1 @2
              .spec.image
              .spec.zones[="z"]
            zed Update v1 @1
              .spec
              .spec.containers
              .spec.replicas
              .spec.containers[name="nginx"]
              .spec.containers[name="nginx"].image
              .spec.containers[name="nginx"].name
            hpa Update v1 @3
              .spec.paused
        "#]],
    );
}

#[test]
fn a_conflict_with_a_subresource_names_it() {
    check(
        r#"
        - create kubectl: {spec: {replicas: 1}}
        - status controller: {status: {ready: 1}}
        - apply-status other: {status: {ready: 2}}
        "#,
        &expect![[r#"
            apply-status other: 409 Apply failed with 1 conflict: conflict with "controller" with subresource "status" using example.com/v1: .status.ready
              FieldManagerConflict | .status.ready | conflict with "controller" with subresource "status" using example.com/v1
            spec:
              replicas: 1
            status:
              ready: 1
            kubectl Update v1 @1
              .spec
              .spec.replicas
            controller Update v1 status @2
              .status
              .status.ready
        "#]],
    );
}

#[test]
fn a_conflict_with_an_applier_of_a_subresource_names_it() {
    check(
        r#"
        - create kubectl: {spec: {replicas: 1}}
        - apply-status controller: {status: {ready: 1}}
        - apply-status other: {status: {ready: 2}}
        "#,
        &expect![[r#"
            apply-status other: 409 Apply failed with 1 conflict: conflict with "controller" with subresource "status": .status.ready
              FieldManagerConflict | .status.ready | conflict with "controller" with subresource "status"
            spec:
              replicas: 1
            status:
              ready: 1
            controller Apply v1 status @2
              .status.ready
            kubectl Update v1 @1
              .spec
              .spec.replicas
        "#]],
    );
}

#[test]
fn force_moves_the_field_to_the_applier() {
    check(
        r#"
        - create kubectl: {spec: {replicas: 1, image: a}}
        - force ci: {spec: {replicas: 3}}
        "#,
        &expect![[r#"
            spec:
              image: a
              replicas: 3
            ci Apply v1 @2
              .spec.replicas
            kubectl Update v1 @1
              .spec
              .spec.image
        "#]],
    );
}

#[test]
fn force_takes_from_every_owner() {
    check(
        r#"
        - create kubectl: {spec: {replicas: 1}}
        - apply helm: {spec: {replicas: 1}}
        - force ci: {spec: {replicas: 3}}
        "#,
        &expect![[r#"
            spec:
              replicas: 3
            ci Apply v1 @3
              .spec.replicas
            kubectl Update v1 @1
              .spec
        "#]],
    );
}

#[test]
fn appliers_on_different_fields_do_not_meet() {
    check(
        r#"
        - apply a: {spec: {replicas: 1, containers: [{name: x, image: i}]}}
        - apply b: {spec: {image: a, containers: [{name: x, args: [one]}, {name: z, image: j}]}}
        "#,
        &expect![[r#"
            spec:
              containers:
              - args:
                - one
                image: i
                name: x
              - image: j
                name: z
              image: a
              replicas: 1
            a Apply v1 @1
              .spec.replicas
              .spec.containers[name="x"]
              .spec.containers[name="x"].image
              .spec.containers[name="x"].name
            b Apply v1 @2
              .spec.image
              .spec.containers[name="x"]
              .spec.containers[name="z"]
              .spec.containers[name="x"].args
              .spec.containers[name="x"].name
              .spec.containers[name="z"].image
              .spec.containers[name="z"].name
        "#]],
    );
}

#[test]
fn appliers_on_items_of_one_list_do_not_meet() {
    check(
        r#"
        - apply a: {spec: {zones: [a, b]}}
        - apply b: {spec: {zones: [b, c]}}
        "#,
        &expect![[r#"
            spec:
              zones:
              - a
              - b
              - c
            a Apply v1 @1
              .spec.zones[="a"]
              .spec.zones[="b"]
            b Apply v1 @2
              .spec.zones[="b"]
              .spec.zones[="c"]
        "#]],
    );
}

#[test]
fn an_atomic_list_has_one_owner() {
    check(
        r#"
        - apply a: {spec: {args: [one]}}
        - apply b: {spec: {args: [two]}}
        "#,
        &expect![[r#"
            apply b: 409 Apply failed with 1 conflict: conflict with "a": .spec.args
              FieldManagerConflict | .spec.args | conflict with "a"
            spec:
              args:
              - one
            a Apply v1 @1
              .spec.args
        "#]],
    );
}

#[test]
fn an_atomic_map_has_one_owner() {
    check(
        r#"
        - apply a: {spec: {selector: {app: web}}}
        - apply b: {spec: {selector: {app: web, tier: front}}}
        "#,
        &expect![[r#"
            apply b: 409 Apply failed with 1 conflict: conflict with "a": .spec.selector
              FieldManagerConflict | .spec.selector | conflict with "a"
            spec:
              selector:
                app: web
            a Apply v1 @1
              .spec.selector
        "#]],
    );
}

#[test]
fn a_granular_map_is_owned_by_key() {
    check(
        r#"
        - apply a: {spec: {settings: {one: '1'}}}
        - apply b: {spec: {settings: {two: '2'}}}
        "#,
        &expect![[r#"
            spec:
              settings:
                one: "1"
                two: "2"
            a Apply v1 @1
              .spec.settings.one
            b Apply v1 @2
              .spec.settings.two
        "#]],
    );
}

#[test]
fn fields_of_an_untracked_object_conflict() {
    check(
        r#"
        - create kubectl: {spec: {replicas: 1}}
        - update kubectl: {metadata: {managedFields: []}, spec: {replicas: 1}}
        - apply ci: {spec: {replicas: 2}}
        "#,
        &expect![[r#"
            apply ci: 409 Apply failed with 1 conflict: conflict with "before-first-apply" using example.com/v1: .spec.replicas
              FieldManagerConflict | .spec.replicas | conflict with "before-first-apply" using example.com/v1
            spec:
              replicas: 1
        "#]],
    );
}

#[test]
fn a_conflict_across_versions_names_the_version_of_the_owner() {
    check(
        r#"
        - create kubectl in v1beta1: {spec: {replicas: 1}}
        - apply ci: {spec: {replicas: 2}}
        "#,
        &expect![[r#"
            apply ci: 409 Apply failed with 1 conflict: conflict with "kubectl" using example.com/v1beta1: .spec.replicas
              FieldManagerConflict | .spec.replicas | conflict with "kubectl" using example.com/v1beta1
            spec:
              replicas: 1
            kubectl Update v1beta1 @1
              .spec
              .spec.replicas
        "#]],
    );
}

#[test]
fn kubectl_conflicts_with_changes_of_its_client_side_applied_fields() {
    check(
        r#"
        - create kubectl-client-side-apply: {metadata: {annotations: {kubectl.kubernetes.io/last-applied-configuration: '{"apiVersion":"example.com/v1","kind":"Web","metadata":{"name":"web"},"spec":{"replicas":1,"image":"a"}}'}}, spec: {replicas: 1, image: a}}
        - merge hpa: {spec: {replicas: 5}}
        - apply kubectl: {spec: {replicas: 2, image: b}}
        "#,
        &expect![[r#"
            apply kubectl: 409 Apply failed with 1 conflict: conflict with "hpa" using example.com/v1: .spec.replicas
              FieldManagerConflict | .spec.replicas | conflict with "hpa" using example.com/v1
            metadata:
              annotations:
                kubectl.kubernetes.io/last-applied-configuration: "{\"apiVersion\":\"example.com/v1\",\"kind\":\"Web\",\"metadata\":{\"name\":\"web\"},\"spec\":{\"replicas\":1,\"image\":\"a\"}}"
            spec:
              image: a
              replicas: 5
            kubectl-client-side-apply Update v1 @1
              .spec
              .metadata.annotations
              .metadata.annotations.kubectl.kubernetes.io/last-applied-configuration
              .spec.image
            hpa Update v1 @2
              .spec.replicas
        "#]],
    );
}
