//! Which of a member's namespaces the hub is told of, and who owns each.
//!
//! Decides who is left out when there are too many: the youngest, so that what was told stays told. Looks at all
//! namespaces each time, so one that was left out comes in as soon as there is room. Never decides where anything is
//! placed.

use std::collections::BTreeMap;

use fleet_api::conditions::member::NamespaceCollectionSucceeded;
use fleet_api::kinds::AppliedWork;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

/// So many namespaces are told: they stand in two objects of the hub, which have a size limit.
pub const NAMESPACES_MAX: usize = 200;

/// A namespace, as far as it is told.
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

/// The namespaces to tell of, each with its owner or an empty text, and whether these are all.
pub fn namespaces(all: &[NamespaceFacts<'_>]) -> (BTreeMap<String, String>, NamespaceCollectionSucceeded) {
    let mut living: Vec<_> = all.iter().filter(|namespace| !namespace.deleting).collect();
    living.sort_unstable_by_key(|namespace| (namespace.created, namespace.name));
    let verdict = if living.len() > NAMESPACES_MAX {
        NamespaceCollectionSucceeded::Degraded
    } else {
        NamespaceCollectionSucceeded::Succeeded
    };
    let told = living.into_iter().take(NAMESPACES_MAX);
    let told = told.map(|namespace| (namespace.name.to_owned(), namespace.owner.unwrap_or_default().to_owned()));
    (told.collect(), verdict)
}
