//! Admission hooks of every write: first all mutating steps, then all validating ones.

use std::fmt;
use std::sync::Arc;

use futures::future::BoxFuture;
use serde_json::Value;

use crate::auth::User;
use crate::error::ApiError;
use crate::registry::ResourceInfo;
use crate::server::Cluster;

/// The operation on an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    Create,
    Update,
    Delete,
    Connect,
}

impl Operation {}

/// One write as admission sees it. `object` is in the requested version and is absent on DELETE; a mutating step may
/// change it.
pub struct Attributes<'a> {
    pub cluster: &'a Arc<Cluster>,
    pub user: &'a User,
    pub operation: Operation,
    pub info: &'a Arc<ResourceInfo>,
    pub version: &'a str,
    pub subresource: Option<&'a str>,
    pub namespace: Option<&'a str>,
    /// Empty on a create with `generateName`.
    pub name: &'a str,
    pub object: Option<Value>,
    pub old: Option<Value>,
    /// The `CreateOptions`, `UpdateOptions`… of the request.
    pub options: Value,
    pub dry_run: bool,
}

impl fmt::Debug for Attributes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Attributes")
            .field("operation", &self.operation)
            .field("resource", &self.info.plural)
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// Texts for `Warning` headers.
pub type Warnings = Vec<String>;

/// One admission step. A mutating step runs in the first phase and again never; a validating one in the second.
pub trait Admission: Send + Sync {
    fn phase(&self) -> Phase;
    /// Whether the step wants to see this write at all; asked first, so that most writes pay nothing for it.
    fn handles(&self, operation: Operation, info: &ResourceInfo, subresource: Option<&str>) -> bool;
    fn admit<'a>(&'a self, attributes: &'a mut Attributes<'_>) -> BoxFuture<'a, Result<Warnings, ApiError>>;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    Mutating,
    Validating,
}

/// All steps of a server.
#[derive(Clone, Default)]
pub(crate) struct Chain(Vec<Arc<dyn Admission>>);

impl fmt::Debug for Chain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Chain({} steps)", self.0.len())
    }
}

impl Chain {
    pub(crate) fn push(&mut self, step: Arc<dyn Admission>) {
        self.0.push(step);
    }

    /// Runs one phase. The first refusal counts.
    pub(crate) async fn run(&self, phase: Phase, attributes: &mut Attributes<'_>) -> Result<Warnings, ApiError> {
        let mut warnings = Vec::new();
        for step in self.0.iter().filter(|s| s.phase() == phase) {
            if step.handles(attributes.operation, attributes.info, attributes.subresource) {
                warnings.append(&mut step.admit(attributes).await?);
            }
        }
        Ok(warnings)
    }

    /// Whether any step of the phase wants to see such a write.
    pub(crate) fn handles(
        &self,
        phase: Phase,
        operation: Operation,
        info: &ResourceInfo,
        subresource: Option<&str>,
    ) -> bool {
        self.0.iter().any(|s| s.phase() == phase && s.handles(operation, info, subresource))
    }
}
