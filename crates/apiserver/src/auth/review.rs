//! Access reviews, token reviews and token requests. Each function takes the posted object and returns the response
//! object.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value, json};

use super::authenticate::Authenticator;
use super::jwt::{BoundTo, Claims, ObjectRef, TokenError};
use super::rbac::{Decision, Rbac};
use super::rule::{Attributes, Target};
use super::user::User;
use crate::error::ApiError;
use crate::field::FieldError;

const AUTHENTICATION: &str = "authentication.k8s.io";
const AUTHORIZATION: &str = "authorization.k8s.io";
/// Refused access reviews name no kind in their answer, in Kubernetes as here.
const NO_KIND: &str = "";
/// Lifetime of a requested token if the request names none.
const DEFAULT_TOKEN_SECONDS: i64 = 3600;
const MIN_TOKEN_SECONDS: i64 = 600;
const MAX_TOKEN_SECONDS: i64 = 1 << 32;

/// Answers a posted review by its resource name; `None` for names that are no review. `namespace` is the path's.
pub(crate) fn serve(
    rbac: &Rbac,
    authenticator: &Authenticator,
    user: &User,
    (group, resource, namespace): (&str, &str, &str),
    review: Value,
) -> Option<Result<Value, ApiError>> {
    Some(match (group, resource) {
        (AUTHORIZATION, "subjectaccessreviews") => subject_access_review(rbac, review),
        (AUTHORIZATION, "localsubjectaccessreviews") => local_subject_access_review(rbac, namespace, review),
        (AUTHORIZATION, "selfsubjectaccessreviews") => self_subject_access_review(rbac, user, review),
        (AUTHORIZATION, "selfsubjectrulesreviews") => self_subject_rules_review(rbac, user, review),
        (AUTHENTICATION, "selfsubjectreviews") => Ok(self_subject_review(user, review, authenticator.now())),
        (AUTHENTICATION, "tokenreviews") => token_review(authenticator, review),
        _ => return None,
    })
}

/// `SubjectAccessReview`: may the user named in the spec do this?
pub(crate) fn subject_access_review(rbac: &Rbac, review: Value) -> Result<Value, ApiError> {
    access_review(rbac, review, None)
}

/// `LocalSubjectAccessReview` in `namespace`.
pub(crate) fn local_subject_access_review(rbac: &Rbac, namespace: &str, review: Value) -> Result<Value, ApiError> {
    let mut findings = Vec::new();
    let named = text(&review, "/spec/resourceAttributes/namespace");
    if review.pointer("/spec/resourceAttributes").is_some() && named != namespace {
        findings.push(FieldError::invalid(
            "spec.resourceAttributes.namespace",
            &json!(named),
            "must match metadata.namespace",
        ));
    }
    if let Some(attributes) = review.pointer("/spec/nonResourceAttributes") {
        let why = "disallowed on this kind of request";
        findings.push(FieldError::invalid("spec.nonResourceAttributes", &go_struct(attributes), why));
    }
    if findings.is_empty() {
        return access_review(rbac, review, None);
    }
    Err(ApiError::invalid(AUTHORIZATION, NO_KIND, "", &findings))
}

/// `SelfSubjectAccessReview`: may the asking user do this?
pub(crate) fn self_subject_access_review(rbac: &Rbac, user: &User, review: Value) -> Result<Value, ApiError> {
    access_review(rbac, review, Some(user))
}

fn access_review(rbac: &Rbac, mut review: Value, asking: Option<&User>) -> Result<Value, ApiError> {
    let spec = review.get("spec").cloned().unwrap_or_default();
    let findings = check_spec(&spec, asking.is_none());
    if !findings.is_empty() {
        return Err(ApiError::invalid(AUTHORIZATION, NO_KIND, "", &findings));
    }
    let subject = asking.cloned().unwrap_or_else(|| spec_user(&spec));
    let attributes = Attributes {
        user: &subject,
        verb: text(&spec, "/resourceAttributes/verb"),
        target: Target::Resource {
            group: text(&spec, "/resourceAttributes/group"),
            resource: text(&spec, "/resourceAttributes/resource"),
            subresource: text(&spec, "/resourceAttributes/subresource"),
            namespace: text(&spec, "/resourceAttributes/namespace"),
            name: text(&spec, "/resourceAttributes/name"),
        },
    };
    let attributes = if spec.get("nonResourceAttributes").is_some() {
        let target = Target::Path(text(&spec, "/nonResourceAttributes/path"));
        Attributes { verb: text(&spec, "/nonResourceAttributes/verb"), target, ..attributes }
    } else {
        attributes
    };
    let (allowed, reason) = match rbac.authorize(&attributes) {
        Decision::Allowed(reason) => (true, reason),
        Decision::NoOpinion(reason) => (false, reason),
    };
    let mut status = json!({"allowed": allowed});
    if !reason.is_empty() {
        status["reason"] = json!(reason);
    }
    review["status"] = status;
    Ok(review)
}

fn check_spec(spec: &Value, names_user: bool) -> Vec<FieldError> {
    let mut findings = Vec::new();
    let resource = spec.get("resourceAttributes").filter(|value| !value.is_null());
    let path = spec.get("nonResourceAttributes").filter(|value| !value.is_null());
    match (resource, path) {
        (Some(_), Some(value)) => {
            let why = "cannot be specified in combination with resourceAttributes";
            findings.push(FieldError::invalid("spec.nonResourceAttributes", &go_struct(value), why));
        }
        (None, None) => {
            let why = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
            findings.push(FieldError::invalid("spec.resourceAttributes", &Value::Null, why));
        }
        _ => {}
    }
    let groups = spec.get("groups").and_then(Value::as_array).is_some_and(|groups| !groups.is_empty());
    if names_user && text(spec, "/user").is_empty() && !groups {
        findings.push(FieldError::invalid("spec.user", &json!(""), "at least one of user or group must be specified"));
    }
    findings
}

/// Path and verb as messages quote them: with all fields, and in the server's own spelling.
fn go_struct(attributes: &Value) -> Value {
    json!({"Path": text(attributes, "/path"), "Verb": text(attributes, "/verb")})
}

fn spec_user(spec: &Value) -> User {
    let extra: BTreeMap<String, Vec<String>> = spec
        .get("extra")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .map(|(key, values)| (key.clone(), strings(values)))
        .collect();
    User {
        name: text(spec, "/user").to_owned(),
        uid: text(spec, "/uid").to_owned(),
        groups: spec.get("groups").map(strings).unwrap_or_default(),
        extra,
    }
}

/// `SelfSubjectRulesReview`: everything that the asking user may do in a namespace.
pub(crate) fn self_subject_rules_review(rbac: &Rbac, user: &User, mut review: Value) -> Result<Value, ApiError> {
    let namespace = text(&review, "/spec/namespace").to_owned();
    if namespace.is_empty() {
        return Err(ApiError::bad_request("no namespace on request"));
    }
    let (rules, failures) = rbac.rules_for(user, &namespace);
    let mut resource_rules = Vec::new();
    let mut url_rules = Vec::new();
    for rule in &rules {
        let mut value = rule.to_value();
        if !rule.non_resource_urls.is_empty() {
            url_rules.push(json!({"verbs": rule.verbs, "nonResourceURLs": rule.non_resource_urls}));
        }
        if !rule.resources.is_empty() {
            if let Some(fields) = value.as_object_mut() {
                fields.remove("nonResourceURLs");
            }
            resource_rules.push(value);
        }
    }
    let mut status = json!({"resourceRules": resource_rules, "nonResourceRules": url_rules, "incomplete": false});
    if !failures.is_empty() {
        status["evaluationError"] = json!(failures.join(", "));
    }
    // The answer does not repeat the question.
    review["spec"] = json!({});
    review["status"] = status;
    Ok(review)
}

/// `SelfSubjectReview`: who am I?
pub(crate) fn self_subject_review(user: &User, mut review: Value, now: Timestamp) -> Value {
    set_metadata(&mut review, |metadata| {
        metadata.insert("creationTimestamp".to_owned(), json!(seconds(now)));
    });
    review["status"] = json!({"userInfo": user.to_user_info()});
    review
}

/// `TokenReview`: whose token is this, and is it good?
pub(crate) fn token_review(authenticator: &Authenticator, mut review: Value) -> Result<Value, ApiError> {
    let token = text(&review, "/spec/token");
    if token.is_empty() {
        return Err(ApiError::bad_request("token is required for TokenReview in authentication"));
    }
    let audiences = review.pointer("/spec/audiences").map(strings).unwrap_or_default();
    let status = match authenticator.token(token, &audiences) {
        Ok(found) => json!({"authenticated": true, "user": found.user.to_user_info(), "audiences": found.audiences}),
        Err(TokenError::NotOurs) => json!({"user": {}, "error": "invalid bearer token"}),
        Err(failure) => json!({"user": {}, "error": format!("[invalid bearer token, {failure}]")}),
    };
    review["status"] = status;
    Ok(review)
}

/// The service account and, if asked for, the object that a requested token is bound to; read by the caller.
#[derive(Debug, Clone, Default)]
pub(crate) struct TokenSubject {
    pub(crate) namespace: String,
    pub(crate) account: ObjectRef,
    /// The object that `spec.boundObjectRef` names, as it is stored.
    pub(crate) bound: Option<(BoundKind, ObjectRef)>,
}

/// The kinds that a token can be bound to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BoundKind {
    Pod,
    Secret,
    Node,
}

/// Kind and name of the object to look up before `token_request`.
pub(crate) fn bound_reference(request: &Value) -> Result<Option<(BoundKind, String)>, ApiError> {
    let Some(reference) = request.pointer("/spec/boundObjectRef").filter(|value| !value.is_null()) else {
        return Ok(None);
    };
    let (api_version, kind) = (text(reference, "/apiVersion"), text(reference, "/kind"));
    let kind = match (api_version, kind) {
        ("v1", "Pod") => BoundKind::Pod,
        ("v1", "Secret") => BoundKind::Secret,
        ("v1", "Node") => BoundKind::Node,
        _ => {
            let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
            let why = format!("cannot bind token to object of type {group}/{version}, Kind={kind}");
            return Err(ApiError::bad_request(why));
        }
    };
    Ok(Some((kind, text(reference, "/name").to_owned())))
}

/// `TokenRequest`: a token for a service account, for an audience and a time.
pub(crate) fn token_request(
    authenticator: &Authenticator,
    mut request: Value,
    subject: &TokenSubject,
) -> Result<Value, ApiError> {
    let now = authenticator.now();
    let lifetime = request.pointer("/spec/expirationSeconds").and_then(Value::as_i64).unwrap_or(DEFAULT_TOKEN_SECONDS);
    check_token_request(&request, subject, lifetime)?;
    let named = request.pointer("/spec/audiences").map(strings).unwrap_or_default();
    let audiences = if named.is_empty() { authenticator.issuer().audiences.clone() } else { named };
    let mut bound =
        BoundTo { namespace: subject.namespace.clone(), serviceaccount: subject.account.clone(), ..BoundTo::default() };
    match subject.bound.clone() {
        Some((BoundKind::Pod, object)) => bound.pod = Some(object),
        Some((BoundKind::Secret, object)) => bound.secret = Some(object),
        Some((BoundKind::Node, object)) => bound.node = Some(object),
        None => {}
    }
    let claims = Claims {
        iss: authenticator.issuer().url.clone(),
        sub: super::user::service_account_name(&subject.namespace, &subject.account.name),
        aud: audiences.clone(),
        exp: Some(now.as_second() + lifetime),
        iat: Some(now.as_second()),
        nbf: Some(now.as_second()),
        jti: Some(uuid::Uuid::new_v4().to_string()),
        kubernetes: Some(bound),
        ..Claims::default()
    };
    let token = authenticator
        .key()
        .sign(&claims)
        .map_err(|why| ApiError::internal(format!("failed to generate token: {why}")))?;
    let expiry = now.checked_add(SignedDuration::from_secs(lifetime)).unwrap_or(Timestamp::MAX);
    set_metadata(&mut request, |metadata| {
        metadata.insert("name".to_owned(), json!(subject.account.name));
        metadata.insert("namespace".to_owned(), json!(subject.namespace));
        metadata.insert("uid".to_owned(), json!(subject.account.uid));
        metadata.insert("creationTimestamp".to_owned(), json!(seconds(now)));
    });
    let reference = request.pointer("/spec/boundObjectRef").cloned().unwrap_or_default();
    request["spec"] = json!({"audiences": audiences, "expirationSeconds": lifetime, "boundObjectRef": reference});
    request["status"] = json!({"token": token.expose(), "expirationTimestamp": seconds(expiry)});
    Ok(request)
}

fn check_token_request(request: &Value, subject: &TokenSubject, lifetime: i64) -> Result<(), ApiError> {
    let TokenSubject { namespace, account, .. } = subject;
    let mut findings = Vec::new();
    for (field, wanted, what) in [("name", &account.name, "name"), ("namespace", namespace, "namespace")] {
        let given = text(request, &format!("/metadata/{field}"));
        if !given.is_empty() && given != wanted {
            let why = format!("must match the service account {what} if specified");
            findings.push(FieldError::invalid(format!("metadata.{field}"), &json!(given), why));
        }
    }
    if !findings.is_empty() {
        return Err(ApiError::invalid(AUTHENTICATION, "TokenRequest", &account.name, &findings));
    }
    if lifetime < MIN_TOKEN_SECONDS {
        let why = "may not specify a duration less than 10 minutes";
        findings.push(FieldError::invalid("spec.expirationSeconds", &json!(lifetime), why));
    }
    if lifetime > MAX_TOKEN_SECONDS {
        let why = "may not specify a duration larger than 2^32 seconds";
        findings.push(FieldError::invalid("spec.expirationSeconds", &json!(lifetime), why));
    }
    if !findings.is_empty() {
        return Err(ApiError::invalid(AUTHENTICATION, "TokenRequest", "", &findings));
    }
    let uid = text(request, "/metadata/uid");
    if !uid.is_empty() && uid != account.uid {
        let why = format!(
            "the UID in the token request ({uid}) does not match the UID of the service account ({})",
            account.uid
        );
        return Err(ApiError::conflict(AUTHENTICATION, "TokenRequest", &account.name, &why));
    }
    let bound_uid = text(request, "/spec/boundObjectRef/uid");
    match &subject.bound {
        Some((kind, object)) if !bound_uid.is_empty() && bound_uid != object.uid => {
            let why = format!(
                "the UID in the bound object reference ({bound_uid}) does not match the UID in record. The object might \
                 have been deleted and then recreated"
            );
            Err(ApiError::conflict("", &format!("{kind:?}"), &object.name, &why))
        }
        _ => Ok(()),
    }
}

fn set_metadata(object: &mut Value, change: impl FnOnce(&mut Map<String, Value>)) {
    if !object.get("metadata").is_some_and(Value::is_object) {
        object["metadata"] = json!({});
    }
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        change(metadata);
    }
}

/// An instant as Kubernetes writes it: whole seconds, UTC.
fn seconds(instant: Timestamp) -> String {
    instant.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

fn strings(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
#[path = "review_tests.rs"]
mod tests;
