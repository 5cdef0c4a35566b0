//! Requests through all installed checks.

use expect_test::{Expect, expect};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::arbitrary::{json_like, placement_like};
use super::super::fake_lookups::{BUDGET, CRO, CRP, FakeLookups, MEMBER, RO, RP, object, request, roles};
use super::super::lookups::Settings;
use super::super::webhooks::handler_at;
use super::*;

fn check(request: &Request, lookups: &FakeLookups, expected: Expect) {
    let verdict = review(request, lookups);
    let outcome = match &verdict {
        Verdict::Allowed { patched, .. } => {
            if patched.is_some() {
                "changed".to_owned()
            } else {
                "allowed".to_owned()
            }
        }
        Verdict::Denied { code, .. } => code.number().to_string(),
    };
    expected.assert_eq(&format!("{outcome}: {}", verdict.message()));
}

fn guarded() -> FakeLookups {
    let settings = Settings { enable_guard_rail: true, enable_pdbs: false, ..Settings::default() };
    FakeLookups { settings, ..FakeLookups::default() }
}

#[test]
fn defaults_are_filled_in_before_the_checks() {
    let created = request(Operation::Create, CRP, object(CRP, "crp", json!({"resourceSelectors": [roles()]})));
    check(&created, &guarded(), expect!["changed: any user is allowed to modify v1beta1 CRP"]);
    let Verdict::Allowed { patched: Some(filled), .. } = review(&created, &guarded()) else { panic!("not filled in") };
    assert_eq!(filled["spec"]["policy"], json!({"placementType": "PickAll"}));
    check(
        &request(Operation::Create, CRP, filled),
        &guarded(),
        expect!["allowed: any user is allowed to modify v1beta1 CRP"],
    );
}

#[test]
fn both_scopes_of_placements_are_reviewed_alike() {
    let mut made = object(RP, "rp", json!({"resourceSelectors": [roles()]}));
    made["metadata"]["namespace"] = json!("app");
    check(
        &request(Operation::Create, RP, made),
        &guarded(),
        expect![[
            r#"403: admission webhook "fleet.resourceplacementv1beta1.validating" denied the request: deny create/update v1beta1 RP has invalid fields the resource is not found in schema (please retry) or it is a cluster scoped resource: rbac.authorization.k8s.io/v1, Kind=ClusterRole"#
        ]],
    );
}

#[test]
fn dropping_the_policy_of_a_placement_reads_as_pick_all() {
    let old = object(CRP, "crp", json!({"resourceSelectors": [roles()], "policy": {"placementType": "PickFixed"}}));
    let new = object(CRP, "crp", json!({"resourceSelectors": [roles()]}));
    let update = Request { old_object: Some(old), ..request(Operation::Update, CRP, new) };
    check(
        &update,
        &guarded(),
        expect![[
            r#"403: admission webhook "fleet.clusterresourceplacementv1beta1.validating" denied the request: placement type is immutable"#
        ]],
    );
}

/// Finalizers can be removed from invalid objects that were created without checks.
#[test]
fn finalizers_of_an_invalid_terminating_object_may_be_removed() {
    let taint = json!({"key": "a", "value": "x", "effect": "NoSchedule"});
    let delete = json!({"overrideRules": [{"overrideType": "Delete"}]});
    let config = json!({"group": "", "version": "v1", "kind": "ConfigMap", "name": "c"});
    let cluster_override =
        |name: &str| object(CRO, name, json!({"clusterResourceSelectors": [roles()], "policy": delete}));
    let own_override = |name: &str| object(RO, name, json!({"resourceSelectors": [config], "policy": delete}));
    let placement = object(CRP, "web", json!({"resourceSelectors": [roles()], "policy": {"placementType": "PickAll"}}));
    let lookups = FakeLookups {
        cluster_overrides: vec![cluster_override("a"), cluster_override("b")],
        overrides: vec![own_override("a"), own_override("b")],
        placements: vec![placement],
        ..guarded()
    };
    let member = json!({"identity": {"kind": "User", "name": "x"}, "taints": [taint, taint]});
    for (kind, wrong) in [
        (MEMBER, object(MEMBER, "m", member)),
        (CRO, cluster_override("a")),
        (RO, own_override("a")),
        (BUDGET, object(BUDGET, "web", json!({"maxUnavailable": 1}))),
    ] {
        let update = |change: fn(&mut Value)| {
            let mut old = wrong.clone();
            old["metadata"]["finalizers"] = json!(["kubernetes-fleet.io/cleanup"]);
            let mut new = old.clone();
            new["metadata"]["finalizers"] = json!([]);
            change(&mut new);
            review(&Request { old_object: Some(old), ..request(Operation::Update, kind, new) }, &lookups)
        };
        let refused = update(|_| {});
        assert!(!refused.is_allowed(), "{kind} is wrong");
        let leaving = update(|object| object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z"));
        assert!(leaving.is_allowed(), "{kind}: {}", leaving.message());
        let changing = update(|object| {
            object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
            object["spec"]["more"] = json!(1);
        });
        assert!(!changing.is_allowed(), "{kind}: whoever changes it must put it right");
    }
}

#[test]
fn refusals_name_their_entry() {
    let member = object(
        MEMBER,
        "m",
        json!({"identity": {"kind": "User", "name": "x"}, "taints": [{"key": "/", "effect": "NoSchedule"}]}),
    );
    check(
        &request(Operation::Create, MEMBER, member),
        &guarded(),
        expect![[
            r#"403: admission webhook "fleet.membercluster.validating" denied the request: [invalid taint key {Key:/ Value: Effect:NoSchedule}: prefix part must be non-empty, invalid taint key {Key:/ Value: Effect:NoSchedule}: name part must be non-empty, invalid taint key {Key:/ Value: Effect:NoSchedule}: name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')]"#
        ]],
    );
    let override_ = object(CRO, "o", json!({"clusterResourceSelectors": [roles()], "policy": {"overrideRules": [{}]}}));
    check(
        &request(Operation::Create, CRO, override_),
        &guarded(),
        expect![[
            r#"403: admission webhook "fleet.clusterresourceoverride.validating" denied the request: invalid JSONPatchOverrides: JSONPatchOverrides cannot be empty"#
        ]],
    );
    let namespace = json!({"metadata": {"name": "fleet-x"}});
    check(
        &request(Operation::Create, "/v1/Namespace", namespace),
        &guarded(),
        expect![[
            r#"403: admission webhook "fleet.namespace.guardrail.validating" denied the request: user: 'ann' in 'groups: [system:authenticated]' is not allowed to CREATE resource /v1, Kind=Namespace/: /fleet-x"#
        ]],
    );
}

fn workload(namespace: &str) -> Value {
    json!({"metadata": {"name": "w", "namespace": namespace}})
}

#[test]
fn workloads_stay_off_the_hub() {
    let lookups = guarded();
    check(
        &request(Operation::Create, "/v1/Pod", workload("app")),
        &lookups,
        expect![[
            r#"403: admission webhook "fleet.pod.validating" denied the request: Pod app/w creation is disallowed in the fleet hub cluster"#
        ]],
    );
    check(
        &request(Operation::Create, "apps/v1/ReplicaSet", workload("app")),
        &lookups,
        expect![[
            r#"403: admission webhook "fleet.replicaset.validating" denied the request: ReplicaSet app/w creation is disallowed in the fleet hub cluster."#
        ]],
    );
    check(
        &request(Operation::Create, "policy/v1/PodDisruptionBudget", workload("app")),
        &lookups,
        expect![[
            r#"403: admission webhook "fleet.poddisruptionbudget.validating" denied the request: PDBs app/w cannot be directly created in the hub cluster due to potential side effects; to place a PDB to member clusters, consider wrapping it in a resource envelope."#
        ]],
    );
    check(&request(Operation::Update, "/v1/Pod", workload("app")), &lookups, expect!["allowed: "]);
    check(&request(Operation::Create, "apps/v1/Deployment", workload("app")), &lookups, expect!["allowed: "]);
    let lookups = FakeLookups::default();
    check(&request(Operation::Create, "/v1/Pod", workload("kube-x")), &lookups, expect!["allowed: "]);
    check(&request(Operation::Create, "apps/v1/ReplicaSet", workload("fleet-x")), &lookups, expect!["allowed: "]);
    check(
        &request(Operation::Create, "policy/v1/PodDisruptionBudget", workload("app")),
        &lookups,
        expect!["allowed: "],
    );
}

#[test]
fn namespace_and_name_of_the_request_replace_missing_ones_of_the_object() {
    let mut pod = request(Operation::Create, "/v1/Pod", json!({"metadata": {}}));
    (pod.namespace, pod.name) = ("app".to_owned(), "w".to_owned());
    check(
        &pod,
        &FakeLookups::default(),
        expect![[
            r#"403: admission webhook "fleet.pod.validating" denied the request: Pod app/w creation is disallowed in the fleet hub cluster"#
        ]],
    );
}

#[test]
fn nothing_is_checked_when_nothing_is_installed() {
    let lookups =
        FakeLookups { settings: Settings { enable_webhook: false, ..Settings::default() }, ..FakeLookups::default() };
    check(&request(Operation::Create, "/v1/Pod", workload("app")), &lookups, expect!["allowed: "]);
}

#[test]
fn a_served_path_answers_without_prefix() {
    let pod = request(Operation::Create, "/v1/Pod", workload("app"));
    let serve = |path: &str, request: &Request, lookups: &FakeLookups| {
        handler_at(path).map(|handler| judge(handler, request, lookups))
    };
    let verdict = serve("/validate--v1-pod", &pod, &FakeLookups::default()).unwrap();
    expect!["Pod app/w creation is disallowed in the fleet hub cluster"].assert_eq(verdict.message());
    assert_eq!(serve("/nowhere", &pod, &FakeLookups::default()), None);
    let created = request(Operation::Create, CRP, object(CRP, "crp", json!({"resourceSelectors": [roles()]})));
    let path = "/mutate-placement.kubernetes-fleet.io-v1beta1-clusterresourceplacement";
    assert!(matches!(serve(path, &created, &FakeLookups::default()), Some(Verdict::Allowed { patched: Some(_), .. })));
}

fn kinds() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        CRP,
        RP,
        CRO,
        RO,
        MEMBER,
        "placement.kubernetes-fleet.io/v1beta1/ClusterResourcePlacementEviction",
        "placement.kubernetes-fleet.io/v1beta1/ClusterResourcePlacementDisruptionBudget",
        "/v1/Pod",
        "/v1/Namespace",
    ])
}

fn operations() -> impl Strategy<Value = Operation> {
    prop::sample::select(vec![Operation::Create, Operation::Update, Operation::Delete])
}

proptest! {
    #[test]
    fn no_object_makes_a_check_panic(kind in kinds(), operation in operations(), old in json_like(), new in json_like()) {
        let request = Request { old_object: Some(old), ..request(operation, kind, new) };
        review(&request, &guarded());
    }

    #[test]
    fn the_verdict_on_a_placement_is_the_verdict_on_its_stored_form(old in placement_like(), new in placement_like()) {
        let lookups = FakeLookups::default();
        for request in [
            request(Operation::Create, CRP, new.clone()),
            Request { old_object: Some(old), ..request(Operation::Update, CRP, new) },
        ] {
            let verdict = review(&request, &lookups);
            if let Verdict::Allowed { patched: Some(filled), .. } = &verdict {
                let again = Request { object: Some(filled.clone()), ..request };
                let unchanged = Verdict::Allowed { message: verdict.message().to_owned(), patched: None };
                prop_assert_eq!(review(&again, &lookups), unchanged);
            }
        }
    }
}
