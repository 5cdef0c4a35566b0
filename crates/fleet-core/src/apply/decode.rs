//! Reads the manifests of a Work: the identifier and resource of each, or why it cannot be applied.
//!
//! Never changes a manifest.

use std::collections::BTreeSet;

use fleet_api::conditions::work::ManifestAppliedReason;
use fleet_api::types::{EmbeddedObject, WorkResourceIdentifier};

use super::policy::Denial;

/// A kind that the member serves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Served {
    /// Plural name of the resource.
    pub resource: String,
    pub namespaced: bool,
}

/// The kinds that the member serves, by group, version and kind.
pub trait Kinds {
    fn served(&self, group: &str, version: &str, kind: &str) -> Option<Served>;
}

impl<F: Fn(&str, &str, &str) -> Option<Served>> Kinds for F {
    fn served(&self, group: &str, version: &str, kind: &str) -> Option<Served> {
        self(group, version, kind)
    }
}

/// A decoded manifest.
#[derive(Debug, Clone, PartialEq)]
pub struct Manifest<'a> {
    pub object: &'a EmbeddedObject,
    pub identifier: WorkResourceIdentifier,
    /// The served kind, or why the manifest is not applied.
    pub verdict: Result<Served, Refusal>,
}

impl Manifest<'_> {
    pub fn is_unknown_kind(&self) -> bool {
        matches!(&self.verdict, Err(Refusal::UnknownKind { .. }))
    }
}

/// Why a manifest is not applied.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("failed to decode manifest: failed to unmarshal JSON: {problem}")]
    Malformed { problem: String },
    #[error(
        "failed to decode manifest: failed to find GVR from member cluster client REST mapping: no matches for kind \"{kind}\" in version \"{api_version}\""
    )]
    UnknownKind { kind: String, api_version: String },
    #[error("objects with only generate name are not supported")]
    OnlyGenerateName,
    #[error("a duplicate manifest has been found")]
    Duplicate,
    #[error("failed to apply the manifest: failed to create manifest object: {problem}")]
    NoPlace { problem: &'static str },
    #[error("{0}")]
    Denied(Denial),
}

impl Refusal {
    pub fn reason(&self) -> ManifestAppliedReason {
        match self {
            Self::Malformed { .. } | Self::UnknownKind { .. } => ManifestAppliedReason::DecodingErred,
            Self::OnlyGenerateName => ManifestAppliedReason::FoundGenerateName,
            Self::Duplicate => ManifestAppliedReason::Duplicated,
            Self::NoPlace { .. } => ManifestAppliedReason::ApplyFailed,
            Self::Denied(_) => ManifestAppliedReason::Denied,
        }
    }
}

/// Decodes all manifests in order. Of several manifests for the same object the first counts, the others are
/// duplicates.
pub fn decode<'a>(manifests: &'a [EmbeddedObject], kinds: &impl Kinds) -> Vec<Manifest<'a>> {
    let mut seen = BTreeSet::new();
    let look = |(ordinal, object): (usize, &'a EmbeddedObject)| {
        let mut manifest = look_at(ordinal, object, kinds);
        if manifest.verdict.is_ok()
            && let Some(identity) = Identity::of(&manifest.identifier)
            && !seen.insert(identity.to_owned())
        {
            manifest.verdict = Err(Refusal::Duplicate);
        }
        manifest
    };
    manifests.iter().enumerate().map(look).collect()
}

fn look_at<'a>(ordinal: usize, object: &'a EmbeddedObject, kinds: &impl Kinds) -> Manifest<'a> {
    let mut identifier =
        WorkResourceIdentifier { ordinal: i64::try_from(ordinal).unwrap_or(i64::MAX), ..Default::default() };
    let (group, version) = match well_formed(object) {
        Ok(parts) => parts,
        Err(problem) => return Manifest { object, identifier, verdict: Err(Refusal::Malformed { problem }) },
    };
    group.clone_into(&mut identifier.group);
    version.clone_into(&mut identifier.version);
    object.kind().clone_into(&mut identifier.kind);
    object.name().clone_into(&mut identifier.name);
    object.namespace().clone_into(&mut identifier.namespace);
    let Some(served) = kinds.served(group, version, object.kind()) else {
        let refusal =
            Refusal::UnknownKind { kind: object.kind().to_owned(), api_version: object.api_version().to_owned() };
        return Manifest { object, identifier, verdict: Err(refusal) };
    };
    identifier.resource.clone_from(&served.resource);
    let generated = object.pointer("/metadata/generateName").is_some_and(|name| name.as_str() != Some(""));
    let verdict = if generated && identifier.name.is_empty() {
        Err(Refusal::OnlyGenerateName)
    } else {
        no_place(&identifier, &served).map_or(Ok(served), |problem| Err(Refusal::NoPlace { problem }))
    };
    Manifest { object, identifier, verdict }
}

/// Why no object can have this name. A server would refuse it too, but not under every path that such a name makes.
fn no_place(identifier: &WorkResourceIdentifier, served: &Served) -> Option<&'static str> {
    let no_segment = |name: &str| matches!(name, "." | "..");
    match (identifier.namespace.as_str(), identifier.name.as_str()) {
        (_, "") => Some("the object has no name"),
        (namespace, name) if no_segment(namespace) || no_segment(name) => Some("the name may not be '.' or '..'"),
        ("", _) if served.namespaced => Some("an object of this kind needs a namespace"),
        (namespace, _) if !served.namespaced && !namespace.is_empty() => {
            Some("an object of this kind does not live in a namespace")
        }
        _ => None,
    }
}

/// Group and version of an object, if it is well-formed.
fn well_formed(object: &EmbeddedObject) -> Result<(&str, &str), String> {
    if !object.is_object() {
        return Err("it is not an object".to_owned());
    }
    if object.kind().is_empty() {
        return Err("Object 'Kind' is missing".to_owned());
    }
    if object.get("metadata").is_some_and(|metadata| !metadata.is_object() && !metadata.is_null()) {
        return Err("metadata is not an object".to_owned());
    }
    let api_version = object.api_version();
    match api_version.split_once('/') {
        None => Ok(("", api_version)),
        Some((group, version)) if !version.contains('/') => Ok((group, version)),
        Some(_) => Err(format!("unexpected GroupVersion string: {api_version}")),
    }
}

/// Identifies the object of a manifest or a record: group, version, kind, namespace and name.
pub type Identity<'a> = IdentityOf<&'a str>;

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IdentityOf<Text> {
    group: Text,
    version: Text,
    kind: Text,
    namespace: Text,
    name: Text,
}

impl<'a> Identity<'a> {
    /// `None` if neither group nor version is known: such a record never matches.
    pub fn of(identifier: &'a WorkResourceIdentifier) -> Option<Self> {
        let WorkResourceIdentifier { group, version, kind, namespace, name, .. } = identifier;
        let known = !(group.is_empty() && version.is_empty());
        known.then_some(Self { group, version, kind, namespace, name })
    }

    /// The identity without the version of the kind.
    pub fn object(&self) -> (&'a str, &'a str, &'a str, &'a str) {
        (self.group, self.kind, self.namespace, self.name)
    }

    pub fn to_owned(&self) -> IdentityOf<String> {
        let Self { group, version, kind, namespace, name } = *self;
        IdentityOf {
            group: group.to_owned(),
            version: version.to_owned(),
            kind: kind.to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        }
    }
}
