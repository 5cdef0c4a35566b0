//! Decodes AdmissionReview requests and encodes the responses.

use fleet_api::admission::{Code, Operation, Request, User, Verdict};
use k8s_values::json_patch;
use kube::core::GroupVersionKind;
use serde::Deserialize;
use serde_json::{Value, json};

/// A decoded AdmissionReview. The response has the same version.
#[derive(Debug, PartialEq)]
pub(super) struct Question {
    api_version: String,
    uid: String,
    pub(super) request: Request,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Review {
    api_version: String,
    kind: String,
    request: Asked,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Asked {
    uid: String,
    kind: AskedKind,
    /// The kind of the original request, before the API server converted it.
    request_kind: Option<AskedKind>,
    resource: AskedResource,
    #[serde(default)]
    sub_resource: String,
    #[serde(default)]
    namespace: String,
    #[serde(default)]
    name: String,
    operation: String,
    #[serde(default)]
    user_info: AskedUser,
    object: Option<Value>,
    old_object: Option<Value>,
}

#[derive(Deserialize)]
struct AskedKind {
    #[serde(default)]
    group: String,
    version: String,
    kind: String,
}

#[derive(Deserialize)]
struct AskedResource {
    resource: String,
}

#[derive(Deserialize, Default)]
struct AskedUser {
    #[serde(default)]
    username: String,
    #[serde(default)]
    groups: Vec<String>,
}

impl From<AskedKind> for GroupVersionKind {
    fn from(asked: AskedKind) -> Self {
        Self::gvk(&asked.group, &asked.version, &asked.kind)
    }
}

/// Decodes an AdmissionReview.
pub(super) fn read(body: &[u8]) -> Result<Question, String> {
    let review: Review = serde_json::from_slice(body).map_err(|error| format!("no AdmissionReview: {error}"))?;
    let known = ["admission.k8s.io/v1", "admission.k8s.io/v1beta1"].contains(&review.api_version.as_str());
    if !known || review.kind != "AdmissionReview" {
        return Err(format!("{} {} is not a supported AdmissionReview", review.api_version, review.kind));
    }
    let asked = review.request;
    let operation = [Operation::Create, Operation::Update, Operation::Delete]
        .into_iter()
        .find(|operation| operation.as_str() == asked.operation)
        .ok_or_else(|| format!("unknown operation {:?}", asked.operation))?;
    let kind = GroupVersionKind::from(asked.kind);
    let request = Request {
        operation,
        request_kind: asked.request_kind.map_or_else(|| kind.clone(), GroupVersionKind::from),
        kind,
        resource: asked.resource.resource,
        subresource: asked.sub_resource,
        namespace: asked.namespace,
        name: asked.name,
        user: User { name: asked.user_info.username, groups: asked.user_info.groups },
        object: asked.object,
        old_object: asked.old_object,
    };
    Ok(Question { api_version: review.api_version, uid: asked.uid, request })
}

/// The response to a body; `None` if the body is invalid.
#[cfg(feature = "fuzzing")]
pub(crate) fn answered(body: &[u8], check: impl Fn(&Request) -> Verdict) -> Option<Value> {
    let question = read(body).ok()?;
    Some(answer(&question, check(&question.request)))
}

/// Encodes the response.
pub(super) fn answer(question: &Question, verdict: Verdict) -> Value {
    let mut response = json!({"uid": question.uid, "allowed": verdict.is_allowed()});
    match verdict {
        Verdict::Allowed { message, patched } => {
            if !message.is_empty() {
                response["status"] = json!({"code": 200, "message": message});
            }
            let sent = question.request.object.as_ref();
            if let Some(operations) = sent.zip(patched).map(|(sent, wanted)| json_patch::diff(sent, &wanted, ""))
                && !operations.is_empty()
            {
                use base64::Engine as _;
                let patch = base64::engine::general_purpose::STANDARD.encode(Value::from(operations).to_string());
                response["patchType"] = json!("JSONPatch");
                response["patch"] = json!(patch);
            }
        }
        Verdict::Denied { code, message } => {
            response["status"] = json!({"status": "Failure", "code": code.number(), "message": message});
            if code == Code::Forbidden {
                response["status"]["reason"] = json!("Forbidden");
            }
        }
    }
    json!({"apiVersion": question.api_version, "kind": "AdmissionReview", "response": response})
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;

    use super::*;

    fn review(version: &str, change: impl FnOnce(&mut Value)) -> Vec<u8> {
        let mut review = json!({
            "apiVersion": format!("admission.k8s.io/{version}"), "kind": "AdmissionReview",
            "request": {
                "uid": "7", "kind": {"group": "apps", "version": "v1", "kind": "Scale"},
                "resource": {"group": "apps", "version": "v1", "resource": "deployments"}, "subResource": "scale",
                "requestKind": {"group": "apps", "version": "v1beta2", "kind": "Scale"},
                "name": "web", "namespace": "shop", "operation": "UPDATE",
                "userInfo": {"username": "jane", "groups": ["dev"], "extra": {"a": ["b"]}},
                "object": {"a": 1}, "oldObject": {"a": 0}, "dryRun": false, "options": null,
            },
        });
        change(&mut review);
        review.to_string().into_bytes()
    }

    #[test]
    fn a_review_is_decoded_with_all_fields_of_the_checks() {
        let question = read(&review("v1", |_| {})).unwrap();
        let expected = Request {
            operation: Operation::Update,
            kind: GroupVersionKind::gvk("apps", "v1", "Scale"),
            request_kind: GroupVersionKind::gvk("apps", "v1beta2", "Scale"),
            resource: "deployments".to_owned(),
            subresource: "scale".to_owned(),
            namespace: "shop".to_owned(),
            name: "web".to_owned(),
            user: User { name: "jane".to_owned(), groups: vec!["dev".to_owned()] },
            object: Some(json!({"a": 1})),
            old_object: Some(json!({"a": 0})),
        };
        assert_eq!(question.request, expected);
        let deletion = read(&review("v1beta1", |review| {
            review["request"]["operation"] = json!("DELETE");
            review["request"]["object"] = Value::Null;
            review["request"].as_object_mut().unwrap().remove("requestKind");
        }));
        let deletion = deletion.unwrap().request;
        assert_eq!((deletion.operation, deletion.object), (Operation::Delete, None));
        assert_eq!(deletion.request_kind, deletion.kind);
    }

    #[test]
    fn invalid_reviews_are_rejected() {
        let refused = |body: &[u8]| read(body).unwrap_err();
        assert!(refused(b"{").starts_with("no AdmissionReview: "));
        assert!(refused(b"{}").contains("missing field"));
        assert_eq!(
            refused(&review("v2", |_| {})),
            "admission.k8s.io/v2 AdmissionReview is not a supported AdmissionReview"
        );
        let connect = review("v1", |review| review["request"]["operation"] = json!("CONNECT"));
        assert_eq!(refused(&connect), "unknown operation \"CONNECT\"");
    }

    #[test]
    fn responses_have_the_version_of_the_request() {
        for version in ["v1", "v1beta1"] {
            let question = read(&review(version, |_| {})).unwrap();
            let said = answer(&question, Verdict::allowed(""));
            let expected = json!({"apiVersion": format!("admission.k8s.io/{version}"), "kind": "AdmissionReview",
                "response": {"uid": "7", "allowed": true}});
            assert_eq!(said, expected);
        }
    }

    #[test]
    fn denials_have_code_and_message() {
        let question = read(&review("v1", |_| {})).unwrap();
        let status = |verdict| answer(&question, verdict)["response"]["status"].clone();
        assert_eq!(
            status(Verdict::forbidden("no")),
            json!({"status": "Failure", "code": 403, "reason": "Forbidden", "message": "no"})
        );
        assert_eq!(
            status(Verdict::denied(Code::Internal, "cannot look")),
            json!({"status": "Failure", "code": 500, "message": "cannot look"})
        );
        assert_eq!(status(Verdict::allowed("fine")), json!({"code": 200, "message": "fine"}));
    }

    #[test]
    fn defaults_are_returned_as_a_patch() {
        let sent = json!({"a/b": {"x": 1}, "list": [{"n": 1}, {"n": 2}], "kept": true, "cut": {"x": 1, "y": 2}});
        let wanted =
            json!({"a/b": {"x": 1, "~": 0}, "list": [{"n": 1, "m": 1}, {"n": 3}], "kept": true, "cut": {"x": 1}});
        let question = read(&review("v1", |review| review["request"]["object"] = sent)).unwrap();
        let response = answer(&question, Verdict::Allowed { message: String::new(), patched: Some(wanted) });
        let patch = response["response"]["patch"].as_str().unwrap();
        let patch = base64::engine::general_purpose::STANDARD.decode(patch).unwrap();
        assert_eq!(response["response"]["patchType"], "JSONPatch");
        assert_eq!(
            serde_json::from_slice::<Value>(&patch).unwrap(),
            json!([
                {"op": "add", "path": "/a~1b/~0", "value": 0},
                {"op": "remove", "path": "/cut/y"},
                {"op": "add", "path": "/list/0/m", "value": 1},
                {"op": "replace", "path": "/list/1/n", "value": 3},
            ])
        );
        let same = Verdict::Allowed { message: String::new(), patched: question.request.object.clone() };
        assert!(answer(&question, same)["response"].get("patch").is_none());
    }
}
