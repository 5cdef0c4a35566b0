//! Envelopes: recognises them by group and kind, in any version, and lists their content.
//!
//! A ConfigMap is never an envelope, whatever its annotations.

use std::fmt;

use fleet_api::kinds::PLACEMENT_GROUP;
use fleet_api::types::{EmbeddedObject, EnvelopeIdentifier, EnvelopeType};
use serde_json::Value;

/// A selected envelope.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Envelope<'a> {
    pub kind: EnvelopeType,
    pub version: &'a str,
    /// Empty for a ClusterResourceEnvelope.
    pub namespace: &'a str,
    pub name: &'a str,
    object: &'a EmbeddedObject,
}

impl<'a> Envelope<'a> {
    /// `None` if the resource is not an envelope.
    pub(crate) fn of(object: &'a EmbeddedObject) -> Option<Self> {
        let (group, version) = object.api_version().split_once('/')?;
        let kinds = [EnvelopeType::ClusterResourceEnvelope, EnvelopeType::ResourceEnvelope];
        let kind = kinds.into_iter().find(|kind| kind.as_str() == object.kind())?;
        (group == PLACEMENT_GROUP).then(|| Self {
            kind,
            version,
            namespace: object.namespace(),
            name: object.name(),
            object,
        })
    }

    /// Its resources by their keys, sorted.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (&'a str, &'a Value)> + use<'a> {
        let data = self.object.get("data").and_then(Value::as_object).into_iter().flatten();
        data.map(|(key, value)| (key.as_str(), value))
    }

    pub(crate) fn identifier(&self) -> EnvelopeIdentifier {
        EnvelopeIdentifier { name: self.name.to_owned(), namespace: self.namespace.to_owned(), type_: Some(self.kind) }
    }
}

/// The envelope as messages name it.
impl fmt::Display for Envelope<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&reference(self.namespace, self.name))
    }
}

/// `namespace/name`, or the name alone for cluster-scoped objects.
pub(crate) fn reference(namespace: &str, name: &str) -> String {
    if namespace.is_empty() { name.to_owned() } else { format!("{namespace}/{name}") }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn kind_of(object: Value) -> Option<EnvelopeType> {
        Envelope::of(&EmbeddedObject(object)).map(|envelope| envelope.kind)
    }

    #[test]
    fn envelopes_are_known_by_group_and_kind_in_any_version() {
        let group = "placement.kubernetes-fleet.io";
        assert_eq!(
            kind_of(json!({"apiVersion": format!("{group}/v1beta1"), "kind": "ResourceEnvelope"})),
            Some(EnvelopeType::ResourceEnvelope)
        );
        assert_eq!(
            kind_of(json!({"apiVersion": format!("{group}/v2"), "kind": "ClusterResourceEnvelope"})),
            Some(EnvelopeType::ClusterResourceEnvelope)
        );
        assert_eq!(kind_of(json!({"apiVersion": "example.com/v1", "kind": "ResourceEnvelope"})), None);
    }

    #[test]
    fn a_config_map_wraps_nothing_any_more() {
        let annotations = json!({"kubernetes-fleet.io/envelope-configmap": "true"});
        assert_eq!(
            kind_of(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"annotations": annotations}})),
            None
        );
        let group = "placement.kubernetes-fleet.io/v1beta1";
        assert_eq!(kind_of(json!({"apiVersion": group, "kind": "ConfigMap"})), None);
    }
}
