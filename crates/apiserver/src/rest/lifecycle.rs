//! Namespace lifecycle: refuses creates in missing or terminating namespaces, and deletes of protected ones.

use futures::future::BoxFuture;
use serde_json::json;

use super::admission::{Admission, Attributes, Operation, Phase, Warnings};
use crate::error::ApiError;
use crate::registry::{ResourceInfo, StorageKey};

/// Namespaces that every cluster keeps.
const IMMORTAL: [&str; 3] = ["default", "kube-system", "kube-public"];

#[derive(Debug)]
pub(crate) struct NamespaceLifecycle;

impl Admission for NamespaceLifecycle {
    fn phase(&self) -> Phase {
        Phase::Mutating
    }

    fn handles(&self, operation: Operation, info: &ResourceInfo, subresource: Option<&str>) -> bool {
        match operation {
            Operation::Create => info.namespaced && subresource.is_none(),
            Operation::Delete => info.behaviour.spec_finalizers,
            Operation::Update | Operation::Connect => false,
        }
    }

    fn admit<'a>(&'a self, attributes: &'a mut Attributes<'_>) -> BoxFuture<'a, Result<Warnings, ApiError>> {
        Box::pin(std::future::ready(check(attributes).map(|()| Vec::new())))
    }
}

fn check(attributes: &Attributes<'_>) -> Result<(), ApiError> {
    if attributes.operation == Operation::Delete {
        if IMMORTAL.contains(&attributes.name) {
            return Err(ApiError::forbidden("", "namespaces", attributes.name, "this namespace may not be deleted"));
        }
        return Ok(());
    }
    if !attributes.cluster.registry().is_built_in("", "namespaces") {
        return Ok(());
    }
    let namespace = attributes.namespace.unwrap_or("");
    let found = attributes.cluster.store().peek(&StorageKey::new("", "namespaces"), namespace);
    let Some(entry) = found else { return Err(ApiError::not_found("", "namespaces", namespace)) };
    if !entry.index.deleting {
        return Ok(());
    }
    let info = attributes.info;
    let why = format!("unable to create new content in namespace {namespace} because it is being terminated");
    let mut error = ApiError::forbidden(&info.group, &info.plural, attributes.name, &why);
    if let Some(details) = &mut error.details {
        details.causes = vec![json!({
            "reason": "NamespaceTerminating", "field": "metadata.namespace",
            "message": format!("namespace {namespace} is being terminated"),
        })];
    }
    Err(error)
}
