//! Field owners after sequences of writes.

use expect_test::expect;

use super::check;

#[test]
fn a_creator_owns_its_fields_and_their_parents() {
    check(
        r#"
        - create kubectl: {metadata: {labels: {app: web}}, spec: {replicas: 1, containers: [{name: a, image: x}]}}
        "#,
        &expect![[r#"
            metadata:
              labels:
                app: web
            spec:
              containers:
              - image: x
                name: a
              replicas: 1
            kubectl Update v1 @1
              .spec
              .metadata.labels
              .metadata.labels.app
              .spec.containers
              .spec.replicas
              .spec.containers[name="a"]
              .spec.containers[name="a"].image
              .spec.containers[name="a"].name
        "#]],
    );
}

#[test]
fn an_applier_owns_only_leaves_and_list_items() {
    check(
        r#"
        - apply ci: {metadata: {labels: {app: web}}, spec: {replicas: 1, containers: [{name: a, image: x}]}}
        "#,
        &expect![[r#"
            metadata:
              labels:
                app: web
            spec:
              containers:
              - image: x
                name: a
              replicas: 1
            ci Apply v1 @1
              .metadata.labels.app
              .spec.replicas
              .spec.containers[name="a"]
              .spec.containers[name="a"].image
              .spec.containers[name="a"].name
        "#]],
    );
}

#[test]
fn the_status_in_a_write_to_the_main_resource_has_no_owner() {
    check(
        r#"
        - create kubectl: {spec: {replicas: 1}, status: {ready: 1}}
        - apply ci: {spec: {image: a}, status: {ready: 2}}
        "#,
        &expect![[r#"
            spec:
              image: a
              replicas: 1
            ci Apply v1 @2
              .spec.image
            kubectl Update v1 @1
              .spec
              .spec.replicas
        "#]],
    );
}

#[test]
fn a_status_writer_owns_nothing_but_the_status() {
    check(
        r#"
        - create kubectl: {spec: {replicas: 1}}
        - status controller: {metadata: {labels: {x: z}}, spec: {replicas: 5}, status: {ready: 1}}
        "#,
        &expect![[r#"
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
fn an_applier_of_status_owns_nothing_but_the_status() {
    check(
        r#"
        - create kubectl: {spec: {replicas: 1}}
        - apply-status controller: {spec: {replicas: 5}, status: {ready: 1, conditions: [{type: Ready, status: 'True'}]}}
        "#,
        &expect![[r#"
            spec:
              replicas: 1
            status:
              conditions:
              - status: "True"
                type: Ready
              ready: 1
            controller Apply v1 status @2
              .status.ready
              .status.conditions[type="Ready"]
              .status.conditions[type="Ready"].status
              .status.conditions[type="Ready"].type
            kubectl Update v1 @1
              .spec
              .spec.replicas
        "#]],
    );
}

#[test]
fn one_manager_on_two_endpoints_has_two_entries() {
    check(
        r#"
        - create m: {spec: {replicas: 1}}
        - status m: {status: {ready: 1}}
        "#,
        &expect![[r#"
            spec:
              replicas: 1
            status:
              ready: 1
            m Update v1 @1
              .spec
              .spec.replicas
            m Update v1 status @2
              .status
              .status.ready
        "#]],
    );
}

#[test]
fn an_updater_takes_what_it_changes_from_the_former_owner() {
    check(
        r#"
        - create kubectl: {spec: {replicas: 1, image: a}}
        - merge hpa: {spec: {replicas: 3}}
        "#,
        &expect![[r#"
            spec:
              image: a
              replicas: 3
            kubectl Update v1 @1
              .spec
              .spec.image
            hpa Update v1 @2
              .spec.replicas
        "#]],
    );
}

#[test]
fn an_update_without_changes_keeps_owners_and_times() {
    check(
        r#"
        - create kubectl: {spec: {replicas: 1, image: a}}
        - update other: {spec: {replicas: 1, image: a}}
        "#,
        &expect![[r#"
            update other: no change
            spec:
              image: a
              replicas: 1
            kubectl Update v1 @1
              .spec
              .spec.image
              .spec.replicas
        "#]],
    );
}

#[test]
fn an_updater_that_removes_a_field_removes_it_from_all_owners() {
    check(
        r#"
        - apply ci: {spec: {replicas: 1, image: a}}
        - update editor: {spec: {image: a}}
        "#,
        &expect![[r#"
            spec:
              image: a
            ci Apply v1 @1
              .spec.image
        "#]],
    );
}

#[test]
fn a_manager_without_fields_is_removed() {
    check(
        r#"
        - create kubectl: {spec: {replicas: 1}}
        - apply ci: {spec: {image: a}}
        - update editor: {spec: {replicas: 1, image: b}}
        "#,
        &expect![[r#"
            spec:
              image: b
              replicas: 1
            kubectl Update v1 @1
              .spec
              .spec.replicas
            editor Update v1 @3
              .spec.image
        "#]],
    );
}

#[test]
fn a_write_of_the_same_manager_adds_to_its_entry_and_renews_the_time() {
    check(
        r#"
        - create kubectl: {spec: {replicas: 1}}
        - merge kubectl: {spec: {image: a}}
        "#,
        &expect![[r#"
            spec:
              image: a
              replicas: 1
            kubectl Update v1 @2
              .spec
              .spec.image
              .spec.replicas
        "#]],
    );
}

#[test]
fn a_writer_without_a_name_is_called_unknown() {
    check(
        r#"
        - create: {spec: {replicas: 1}}
        "#,
        &expect![[r#"
            spec:
              replicas: 1
            unknown Update v1 @1
              .spec
              .spec.replicas
        "#]],
    );
}

#[test]
fn applying_again_is_no_change() {
    check(
        r#"
        - apply ci: {spec: {replicas: 1, containers: [{name: a, image: x, ports: [{containerPort: 80}]}]}}
        - apply ci: {spec: {replicas: 1, containers: [{name: a, image: x, ports: [{containerPort: 80}]}]}}
        "#,
        &expect![[r#"
            apply ci: no change
            spec:
              containers:
              - image: x
                name: a
                ports:
                - containerPort: 80
              replicas: 1
            ci Apply v1 @1
              .spec.replicas
              .spec.containers[name="a"]
              .spec.containers[name="a"].image
              .spec.containers[name="a"].name
              .spec.containers[name="a"].ports[containerPort=80,protocol="TCP"]
              .spec.containers[name="a"].ports[containerPort=80,protocol="TCP"].containerPort
        "#]],
    );
}
