//! The entries of managedFields: given by clients, reset, capped, ordered, of other versions, and of kubectl's past.

use expect_test::expect;

use super::check;

#[test]
fn an_untracked_object_gets_a_before_first_apply_manager() {
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
fn an_applier_is_the_same_manager_in_another_version() {
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
fn kubectl_takes_over_its_client_side_applied_fields() {
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
fn a_last_applied_annotation_of_another_version_is_ignored() {
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
