//! Reviews answer with what the authorizer and the authenticator say.

use std::sync::Arc;

use expect_test::{Expect, expect};

use super::*;
use crate::auth::authenticate::{Issuer, TokenObjects};
use crate::auth::jwt::TokenKey;
use crate::auth::rbac::RbacKind;

struct OneAccount;

impl TokenObjects for OneAccount {
    fn uid(&self, resource: &str, namespace: &str, name: &str) -> Option<String> {
        ((resource, namespace, name) == ("serviceaccounts", "ns", "sa")).then(|| "u1".to_owned())
    }

    fn secret_token(&self, _: &str, _: &str) -> Option<Vec<u8>> {
        None
    }
}

fn authenticator() -> Authenticator {
    let clock = Arc::new(|| "2026-01-02T03:04:05Z".parse().unwrap());
    Authenticator::new(Arc::new(TokenKey::generate().unwrap()), Issuer::default(), Arc::new(OneAccount), clock)
}

fn rbac() -> Rbac {
    let rbac = Rbac::default();
    rbac.set(
        RbacKind::ClusterRole,
        &json!({"metadata": {"name": "r"}, "rules": [
        {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}, {"verbs": ["get"], "nonResourceURLs": ["/x"]}]}),
    );
    rbac.set(
        RbacKind::ClusterRoleBinding,
        &json!({"metadata": {"name": "b"},
        "subjects": [{"kind": "User", "name": "jane"}], "roleRef": {"kind": "ClusterRole", "name": "r"}}),
    );
    rbac
}

fn status(answer: Result<Value, ApiError>, expected: &Expect) {
    expected.assert_eq(&match answer {
        Ok(review) => review["status"].to_string(),
        Err(refused) => format!("{} {}", refused.code(), refused.message),
    });
}

#[test]
fn access_reviews_answer_for_self_and_others() {
    let rbac = rbac();
    let jane = User::authenticated("jane", []);
    let pods = json!({"spec": {"resourceAttributes": {"verb": "get", "resource": "pods", "namespace": "n"}}});
    status(
        self_subject_access_review(&rbac, &jane, pods.clone()),
        &expect![[
            r#"{"allowed":true,"reason":"RBAC: allowed by ClusterRoleBinding \"b\" of ClusterRole \"r\" to User \"jane\""}"#
        ]],
    );
    status(
        self_subject_access_review(&rbac, &User::authenticated("joe", []), pods.clone()),
        &expect![[r#"{"allowed":false}"#]],
    );
    let mut other = pods.clone();
    other["spec"]["user"] = json!("jane");
    status(
        subject_access_review(&rbac, other.clone()),
        &expect![[
            r#"{"allowed":true,"reason":"RBAC: allowed by ClusterRoleBinding \"b\" of ClusterRole \"r\" to User \"jane\""}"#
        ]],
    );
    status(
        local_subject_access_review(&rbac, "n", other.clone()),
        &expect![[
            r#"{"allowed":true,"reason":"RBAC: allowed by ClusterRoleBinding \"b\" of ClusterRole \"r\" to User \"jane\""}"#
        ]],
    );
    status(
        local_subject_access_review(&rbac, "m", other),
        &expect![[
            r#"422 .authorization.k8s.io "" is invalid: spec.resourceAttributes.namespace: Invalid value: "n": must match metadata.namespace"#
        ]],
    );
    let path = json!({"spec": {"nonResourceAttributes": {"verb": "get", "path": "/x"}}});
    assert_eq!(self_subject_access_review(&rbac, &jane, path).unwrap()["status"]["allowed"], true);
}

#[test]
fn a_review_without_attributes_or_user_is_invalid() {
    status(
        subject_access_review(&rbac(), json!({"spec": {}})),
        &expect![[
            r#"422 .authorization.k8s.io "" is invalid: [spec.resourceAttributes: Invalid value: null: exactly one of nonResourceAttributes or resourceAttributes must be specified, spec.user: Invalid value: "": at least one of user or group must be specified]"#
        ]],
    );
}

#[test]
fn rules_reviews_list_what_may_be_done() {
    let jane = User::authenticated("jane", []);
    let review = json!({"spec": {"namespace": "n"}});
    status(
        self_subject_rules_review(&rbac(), &jane, review),
        &expect![[
            r#"{"incomplete":false,"nonResourceRules":[{"nonResourceURLs":["/x"],"verbs":["get"]}],"resourceRules":[{"apiGroups":[""],"resources":["pods"],"verbs":["get"]}]}"#
        ]],
    );
    status(self_subject_rules_review(&rbac(), &jane, json!({})), &expect!["400 no namespace on request"]);
}

#[test]
fn who_am_i() {
    let answer =
        self_subject_review(&User::authenticated("jane", []), json!({}), "2026-01-02T03:04:05.6Z".parse().unwrap());
    expect![[r#"{"metadata":{"creationTimestamp":"2026-01-02T03:04:05Z"},"status":{"userInfo":{"groups":["system:authenticated"],"username":"jane"}}}"#]].assert_eq(&answer.to_string());
}

#[test]
fn a_requested_token_passes_its_review() {
    let authenticator = authenticator();
    let account = ObjectRef { name: "sa".to_owned(), uid: "u1".to_owned() };
    let subject = TokenSubject { namespace: "ns".to_owned(), account, bound: None };
    let made = token_request(&authenticator, json!({"spec": {"expirationSeconds": 700}}), &subject).unwrap();
    assert_eq!(made["status"]["expirationTimestamp"], "2026-01-02T03:15:45Z");
    assert_eq!(made["metadata"]["uid"], "u1");
    let review = json!({"spec": {"token": made["status"]["token"]}});
    let answer = token_review(&authenticator, review).unwrap();
    assert_eq!(answer["status"]["user"]["username"], "system:serviceaccount:ns:sa");
    assert_eq!(answer["status"]["authenticated"], true);
    status(
        token_review(&authenticator, json!({"spec": {"token": "junk"}})),
        &expect![[r#"{"error":"invalid bearer token","user":{}}"#]],
    );
    status(
        token_review(&authenticator, json!({})),
        &expect!["400 token is required for TokenReview in authentication"],
    );
}

#[test]
fn token_requests_are_checked() {
    let authenticator = authenticator();
    let account = ObjectRef { name: "sa".to_owned(), uid: "u1".to_owned() };
    let bound = Some((BoundKind::Secret, ObjectRef { name: "s".to_owned(), uid: "s1".to_owned() }));
    let subject = TokenSubject { namespace: "ns".to_owned(), account, bound };
    let ask = |request| token_request(&authenticator, request, &subject);
    status(
        ask(json!({"spec": {"expirationSeconds": 60}})),
        &expect![[
            r#"422 TokenRequest.authentication.k8s.io "" is invalid: spec.expirationSeconds: Invalid value: 60: may not specify a duration less than 10 minutes"#
        ]],
    );
    status(
        ask(json!({"metadata": {"uid": "u2"}})),
        &expect![[
            r#"409 Operation cannot be fulfilled on TokenRequest.authentication.k8s.io "sa": the UID in the token request (u2) does not match the UID of the service account (u1)"#
        ]],
    );
    status(
        ask(json!({"spec": {"boundObjectRef": {"uid": "s2"}}})),
        &expect![[
            r#"409 Operation cannot be fulfilled on Secret "s": the UID in the bound object reference (s2) does not match the UID in record. The object might have been deleted and then recreated"#
        ]],
    );
    let reference = |kind: &str| json!({"spec": {"boundObjectRef": {"apiVersion": "v1", "kind": kind, "name": "x"}}});
    assert_eq!(bound_reference(&reference("Pod")), Ok(Some((BoundKind::Pod, "x".to_owned()))));
    assert_eq!(
        bound_reference(&reference("ConfigMap")).unwrap_err().message,
        "cannot bind token to object of type /v1, Kind=ConfigMap"
    );
    assert_eq!(bound_reference(&json!({})), Ok(None));
}

#[test]
fn reviews_are_found_by_their_resource() {
    let (rbac, authenticator, jane) = (rbac(), authenticator(), User::authenticated("jane", []));
    let ask = |group: &str, resource: &str| serve(&rbac, &authenticator, &jane, (group, resource, "n"), json!({}));
    assert_eq!(
        ask("authentication.k8s.io", "selfsubjectreviews").unwrap().unwrap()["status"]["userInfo"]["username"],
        "jane"
    );
    assert_eq!(ask("authentication.k8s.io", "tokenreviews").unwrap().unwrap_err().code(), 400);
    for resource in ["subjectaccessreviews", "localsubjectaccessreviews", "selfsubjectaccessreviews"] {
        assert_eq!(ask("authorization.k8s.io", resource).unwrap().unwrap_err().code(), 422, "{resource}");
    }
    assert!(ask("authorization.k8s.io", "pods").is_none() && ask("", "tokenreviews").is_none());
}
