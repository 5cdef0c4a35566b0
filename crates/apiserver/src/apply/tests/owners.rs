//! Who owns what after which writes, and when appliers are in conflict.

use expect_test::expect;

use super::check;

#[test]
fn a_creator_owns_what_it_wrote_with_the_containers_around_it() {
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
fn the_status_in_a_write_to_the_main_resource_is_owned_by_nobody() {
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
fn an_update_that_changes_nothing_leaves_owners_and_times_alone() {
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
fn an_updater_that_removes_a_field_takes_it_from_everybody() {
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
fn an_owner_of_nothing_is_forgotten() {
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
fn a_nameless_writer_is_unknown() {
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

#[test]
fn applying_what_others_have_already_set_shares_the_field_without_conflict() {
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
fn posting_and_applying_as_one_name_are_two_managers() {
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
fn an_untracked_object_is_owned_by_its_past_before_the_first_apply() {
    check(
        r#"
        - create kubectl: {spec: {replicas: 1, image: a}}
        - update kubectl: {metadata: {managedFields: [{}]}, spec: {replicas: 1, image: a}}
        - apply ci: {spec: {replicas: 1, paused: true}}
        "#,
        &expect![[r#"
            spec:
              image: a
              paused: true
              replicas: 1
            ci Apply v1 @3
              .spec.paused
              .spec.replicas
            before-first-apply Update v1 @3
              .spec
              .spec.image
              .spec.replicas
        "#]],
    );
}

#[test]
fn the_past_of_an_untracked_object_conflicts() {
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
fn an_untracked_object_stays_so_on_updates() {
    check(
        r#"
        - create kubectl: {spec: {replicas: 1}}
        - update kubectl: {metadata: {managedFields: [{}]}, spec: {replicas: 1}}
        - merge kubectl: {spec: {replicas: 2}}
        "#,
        &expect![[r#"
            spec:
              replicas: 2
        "#]],
    );
}

#[test]
fn an_update_without_managed_fields_keeps_them() {
    check(
        r#"
        - apply ci: {spec: {replicas: 1}}
        - update editor: {spec: {replicas: 1, image: a}}
        "#,
        &expect![[r#"
            spec:
              image: a
              replicas: 1
            ci Apply v1 @1
              .spec.replicas
            editor Update v1 @2
              .spec.image
        "#]],
    );
}

#[test]
fn managed_fields_given_by_an_update_replace_the_stored_ones() {
    check(
        r#"
        - create kubectl-client-side-apply: {spec: {replicas: 1}}
        - update kubectl: {metadata: {managedFields: [{manager: kubectl, operation: Apply, apiVersion: example.com/v1, time: '1970-01-01T00:01:00Z', fieldsType: FieldsV1, fieldsV1: {'f:spec': {'f:replicas': {}}}}]}, spec: {replicas: 1}}
        - apply kubectl: {spec: {replicas: 2}}
        "#,
        &expect![[r#"
            spec:
              replicas: 2
            kubectl Apply v1 @3
              .spec.replicas
        "#]],
    );
}

#[test]
fn malformed_managed_fields_in_an_update_are_ignored() {
    check(
        r#"
        - create kubectl: {spec: {replicas: 1}}
        - update editor: {metadata: {managedFields: [{manager: x, operation: Steal, apiVersion: v1, fieldsType: FieldsV1}]}, spec: {replicas: 1}}
        - update editor: {metadata: {managedFields: [{manager: x, operation: Update, fieldsType: FieldsV1}]}, spec: {replicas: 1}}
        - update editor: {metadata: {managedFields: [{manager: x, operation: Update, apiVersion: v1}]}, spec: {replicas: 1}}
        - update editor: {metadata: {managedFields: [{manager: x, operation: Update, apiVersion: v1, fieldsType: FieldsV2}]}, spec: {replicas: 1}}
        - update editor: {metadata: {managedFields: [{manager: x, operation: Update, apiVersion: v1, fieldsType: FieldsV1, fieldsV1: {spec: {}}}]}, spec: {replicas: 1}}
        "#,
        &expect![[r#"
            update editor: no change
            update editor: no change
            update editor: no change
            update editor: no change
            update editor: no change
            spec:
              replicas: 1
            kubectl Update v1 @1
              .spec
              .spec.replicas
        "#]],
    );
}

#[test]
fn managed_fields_in_a_status_write_are_ignored() {
    check(
        r#"
        - create kubectl: {spec: {replicas: 1}}
        - status controller: {metadata: {managedFields: [{}]}, spec: {replicas: 1}, status: {ready: 1}}
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
fn managed_fields_in_an_applied_configuration_are_refused() {
    check(
        r#"
        - apply ci: {metadata: {managedFields: [{manager: ci}]}, spec: {replicas: 1}}
        - apply ci: {metadata: {managedFields: []}, spec: {replicas: 1}}
        - apply ci: {metadata: {managedFields: null}, spec: {replicas: 1}}
        "#,
        &expect![[r#"
            apply ci: 400 metadata.managedFields must be nil
            apply ci: 400 metadata.managedFields must be nil
            spec:
              replicas: 1
            ci Apply v1 @3
              .spec.replicas
        "#]],
    );
}

#[test]
fn an_apply_without_a_manager_is_refused() {
    check(
        r#"
        - apply: {spec: {replicas: 1}}
        "#,
        &expect![[r#"
            apply: 422 PatchOptions.meta.k8s.io "" is invalid: fieldManager: Required value: is required for apply patch
              FieldValueRequired | fieldManager | Required value: is required for apply patch
            nothing
        "#]],
    );
}

#[test]
fn an_apply_of_another_kind_or_version_is_refused() {
    check(
        r#"
        - apply ci: {kind: Job, spec: {replicas: 1}}
        - apply ci: {apiVersion: v1, spec: {replicas: 1}}
        "#,
        &expect![[r#"
            apply ci: 400 invalid object type: example.com/v1, Kind=Job
            apply ci: 400 invalid object type: /v1, Kind=Web
            nothing
        "#]],
    );
}

#[test]
fn an_applier_stays_itself_in_another_version() {
    check(
        r#"
        - apply ci in v1beta1: {spec: {replicas: 1, image: a}}
        - apply ci: {spec: {replicas: 2}}
        "#,
        &expect![[r#"
            spec:
              replicas: 2
            ci Apply v1 @2
              .spec.replicas
        "#]],
    );
}

#[test]
fn an_updater_has_an_entry_per_version() {
    check(
        r#"
        - create kubectl in v1beta1: {spec: {replicas: 1, image: a}}
        - merge kubectl: {spec: {replicas: 2}}
        "#,
        &expect![[r#"
            spec:
              image: a
              replicas: 2
            kubectl Update v1beta1 @1
              .spec
              .spec.image
            kubectl Update v1 @2
              .spec.replicas
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
fn the_oldest_updaters_are_merged_beyond_ten() {
    check(
        r#"
        - create m0: {spec: {settings: {k0: a}}}
        - merge m1: {spec: {settings: {k1: a}}}
        - merge m2: {spec: {settings: {k2: a}}}
        - merge m3: {spec: {settings: {k3: a}}}
        - merge m4: {spec: {settings: {k4: a}}}
        - merge m5: {spec: {settings: {k5: a}}}
        - merge m6: {spec: {settings: {k6: a}}}
        - merge m7: {spec: {settings: {k7: a}}}
        - merge m8: {spec: {settings: {k8: a}}}
        - merge m9: {spec: {settings: {k9: a}}}
        - apply ci: {spec: {settings: {k0: a}}}
        - merge m10: {spec: {settings: {k10: a}}}
        - merge m11: {spec: {settings: {k11: a}}}
        "#,
        &expect![[r#"
            spec:
              settings:
                k0: a
                k1: a
                k10: a
                k11: a
                k2: a
                k3: a
                k4: a
                k5: a
                k6: a
                k7: a
                k8: a
                k9: a
            ci Apply v1 @never
              .spec.settings.k0
            ancient-changes Update v1 @3
              .spec
              .spec.settings
              .spec.settings.k0
              .spec.settings.k1
              .spec.settings.k2
            m3 Update v1 @4
              .spec.settings.k3
            m4 Update v1 @5
              .spec.settings.k4
            m5 Update v1 @6
              .spec.settings.k5
            m6 Update v1 @7
              .spec.settings.k6
            m7 Update v1 @8
              .spec.settings.k7
            m8 Update v1 @9
              .spec.settings.k8
            m9 Update v1 @10
              .spec.settings.k9
            m10 Update v1 @12
              .spec.settings.k10
            m11 Update v1 @13
              .spec.settings.k11
        "#]],
    );
}

#[test]
fn kubectl_takes_over_what_it_applied_on_the_client_side() {
    check(
        r#"
        - create kubectl-client-side-apply: {metadata: {annotations: {kubectl.kubernetes.io/last-applied-configuration: '{"apiVersion":"example.com/v1","kind":"Web","metadata":{"name":"web"},"spec":{"replicas":1}}'}}, spec: {replicas: 1}}
        - apply kubectl: {spec: {replicas: 2}}
        "#,
        &expect![[r#"
            metadata:
              annotations:
                kubectl.kubernetes.io/last-applied-configuration: |
                  {"apiVersion":"example.com/v1","kind":"Web","metadata":{"name":"web"},"spec":{"replicas":2}}
            spec:
              replicas: 2
            kubectl Apply v1 @2
              .spec.replicas
            kubectl-client-side-apply Update v1 @1
              .spec
              .metadata.annotations
              .metadata.annotations.kubectl.kubernetes.io/last-applied-configuration
        "#]],
    );
}

#[test]
fn kubectl_conflicts_where_others_changed_what_it_applied_on_the_client_side() {
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

#[test]
fn the_annotation_of_another_version_explains_nothing() {
    check(
        r#"
        - create kubectl-client-side-apply: {metadata: {annotations: {kubectl.kubernetes.io/last-applied-configuration: '{"apiVersion":"example.com/v2","kind":"Web","spec":{"replicas":1}}'}}, spec: {replicas: 1}}
        - apply kubectl: {spec: {replicas: 2}}
        "#,
        &expect![[r#"
            apply kubectl: 409 Apply failed with 1 conflict: conflict with "kubectl-client-side-apply" using example.com/v1: .spec.replicas
              FieldManagerConflict | .spec.replicas | conflict with "kubectl-client-side-apply" using example.com/v1
            metadata:
              annotations:
                kubectl.kubernetes.io/last-applied-configuration: "{\"apiVersion\":\"example.com/v2\",\"kind\":\"Web\",\"spec\":{\"replicas\":1}}"
            spec:
              replicas: 1
            kubectl-client-side-apply Update v1 @1
              .spec
              .metadata.annotations
              .metadata.annotations.kubectl.kubernetes.io/last-applied-configuration
              .spec.replicas
        "#]],
    );
}

#[test]
fn entries_are_ordered_by_operation_then_time_then_name() {
    check(
        r#"
        - create z: {spec: {replicas: 1}}
        - apply y: {spec: {image: a}}
        - merge b: {spec: {paused: true}}
        - apply a: {spec: {rate: 1.5}}
        - merge z: {spec: {maxSurge: 1}}
        "#,
        &expect![[r#"
            spec:
              image: a
              maxSurge: 1
              paused: true
              rate: 1.5
              replicas: 1
            y Apply v1 @2
              .spec.image
            a Apply v1 @4
              .spec.rate
            b Update v1 @3
              .spec.paused
            z Update v1 @5
              .spec
              .spec.maxSurge
              .spec.replicas
        "#]],
    );
}
