//! Which namespaces of a member are reported to the hub, and which AppliedWork owns each.
//!
//! If there are too many, the youngest are left out, so that reported namespaces stay reported.

use std::collections::BTreeMap;

use fleet_api::conditions::member::NamespaceCollectionSucceeded;
use fleet_api::kinds::AppliedWork;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

/// Maximum number of reported namespaces. They are stored in two objects on the hub, which have a size limit.
pub const NAMESPACES_MAX: usize = 200;

/// The reported facts of a namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NamespaceFacts<'a> {
    pub name: &'a str,
    pub created: Option<Timestamp>,
    pub deleting: bool,
    /// The first AppliedWork that owns it.
    pub owner: Option<&'a str>,
}

impl<'a> NamespaceFacts<'a> {
    pub fn of(namespace: &'a Namespace) -> Self {
        let metadata = &namespace.metadata;
        let is_work = |owner: &&OwnerReference| {
            let info = AppliedWork::INFO;
            owner.kind == info.kind && owner.api_version == info.api_version()
        };
        Self {
            name: metadata.name.as_deref().unwrap_or_default(),
            created: metadata.creation_timestamp.as_ref().map(|time| time.0),
            deleting: metadata.deletion_timestamp.is_some(),
            owner: metadata.owner_references.iter().flatten().find(is_work).map(|owner| owner.name.as_str()),
        }
    }
}

/// The namespaces to report, each with its owner or an empty text, and whether the list is complete.
pub fn namespaces(all: &[NamespaceFacts<'_>]) -> (BTreeMap<String, String>, NamespaceCollectionSucceeded) {
    let mut living: Vec<_> = all.iter().filter(|namespace| !namespace.deleting).collect();
    living.sort_unstable_by_key(|namespace| (namespace.created, namespace.name));
    let verdict = if living.len() > NAMESPACES_MAX {
        NamespaceCollectionSucceeded::Degraded
    } else {
        NamespaceCollectionSucceeded::Succeeded
    };
    let reported = living.into_iter().take(NAMESPACES_MAX);
    let reported =
        reported.map(|namespace| (namespace.name.to_owned(), namespace.owner.unwrap_or_default().to_owned()));
    (reported.collect(), verdict)
}
