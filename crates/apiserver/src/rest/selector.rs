//! The label and field selectors of a request: which fields a resource offers, and which objects match.

use std::borrow::Cow;

use k8s_values::{FieldSelector, Selector};
use serde_json::Value;

use crate::error::ApiError;
use crate::registry::{FieldSource, ResourceInfo, Version};
use crate::rest::request::Options;
use crate::store::Entry;

const NAME: &str = "metadata.name";
const NAMESPACE: &str = "metadata.namespace";

/// Both selectors of a request.
#[derive(Debug, Clone, Default)]
pub(crate) struct Selection {
    labels: Selector,
    fields: FieldSelector,
}

impl Selection {
    /// Refuses selectors that cannot be parsed and fields that the resource does not offer.
    pub(crate) fn parse(options: &Options, info: &ResourceInfo, version: &Version) -> Result<Self, ApiError> {
        let labels = Selector::parse(options.label_selector.as_deref().unwrap_or(""));
        let labels = labels.map_err(|error| ApiError::bad_request(error.to_string()))?;
        let fields = FieldSelector::parse(options.field_selector.as_deref().unwrap_or(""));
        let fields = fields.map_err(ApiError::bad_request)?;
        if let Some(field) = fields.fields().find(|field| !is_offered(field, info, version)) {
            return Err(ApiError::bad_request(refusal(field, info, version)));
        }
        Ok(Self { labels, fields })
    }

    pub(crate) fn is_everything(&self) -> bool {
        self.labels.is_everything() && self.fields.is_everything()
    }

    /// The name that every match must have, if the selector demands one.
    pub(crate) fn exact_name(&self) -> Option<&str> {
        self.fields.exact(NAME)
    }

    /// Whether a stored object is selected. Parses it only if a field beyond name and namespace is asked for.
    pub(crate) fn matches(&self, entry: &Entry, version: &Version) -> bool {
        if !self.labels.matches_by(|key| entry.index.label(key)) {
            return false;
        }
        if self.fields.is_everything() {
            return true;
        }
        let (namespace, name) = entry.namespace_and_name();
        if self.fields.fields().all(|field| field == NAME || field == NAMESPACE) {
            return fields_match(&self.fields, namespace, name, version, &Value::Null);
        }
        fields_match(&self.fields, namespace, name, version, &entry.parse())
    }
}

fn fields_match(fields: &FieldSelector, namespace: &str, name: &str, version: &Version, object: &Value) -> bool {
    fields.matches(|field| match field {
        NAME => Some(Cow::Borrowed(name)),
        NAMESPACE => Some(Cow::Borrowed(namespace)),
        field => {
            let offered = version.selectable.iter().find(|offered| offered.label == field)?;
            Some(Cow::Owned(value_of(&offered.source, object)))
        }
    })
}

fn is_offered(field: &str, info: &ResourceInfo, version: &Version) -> bool {
    field == NAME
        || (field == NAMESPACE && (info.namespaced || !info.is_custom()))
        || version.selectable.iter().any(|offered| offered.label == field)
}

fn refusal(field: &str, info: &ResourceInfo, version: &Version) -> String {
    if (info.group.as_str(), info.kind.as_str()) == ("batch", "Job") {
        return format!("field label {field:?} not supported for Job");
    }
    if !info.is_custom() && info.behaviour.default_field_selectors && version.selectable.is_empty() {
        return format!("{field:?} is not a known field selector: only \"metadata.name\", \"metadata.namespace\"");
    }
    format!("field label not supported: {field}")
}

fn value_of(source: &FieldSource, object: &Value) -> String {
    match source {
        FieldSource::Compute(compute) => compute(object),
        FieldSource::Path(path) => {
            let value = path.iter().try_fold(object, |value, key| value.get(key));
            match value {
                None | Some(Value::Null) => String::new(),
                Some(Value::String(text)) => text.clone(),
                Some(other) => other.to_string(),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::SelectableField;
    use crate::schema::Node;
    use serde_json::json;

    fn version() -> Version {
        let field = |label: &str| SelectableField {
            label: label.to_owned(),
            source: FieldSource::Path(label.split('.').map(str::to_owned).collect()),
        };
        let mut version = Version::new("v1", Node::default());
        version.selectable = vec![field("status.phase"), field("spec.on")];
        version
    }

    #[test]
    fn terms_match_by_name_namespace_and_declared_fields() {
        let object = json!({"status": {"phase": "Running"}, "spec": {"on": true}});
        let matches = |text: &str| fields_match(&FieldSelector::parse(text).unwrap(), "ns", "a", &version(), &object);
        assert!(matches("metadata.name=a,metadata.namespace==ns,status.phase=Running,spec.on=true"));
        assert!(!matches("metadata.name!=a") && matches("metadata.name!=b") && !matches("status.phase!=Running"));
        assert!(matches("") && matches(",") && !matches("metadata.name=a\\,b"));
    }

    #[test]
    fn undeclared_fields_are_refused() {
        let plain = ResourceInfo::built_in("", Version::new("v1", Node::default()), "ConfigMap", "configmaps");
        let parse = |text: &str, version: &Version| {
            let options = Options { field_selector: Some(text.to_owned()), ..Options::default() };
            Selection::parse(&options, &plain, version)
        };
        let refused = |version: &Version| parse("x=y", version).unwrap_err().message;
        assert_eq!(
            refused(&plain.versions[0]),
            r#""x" is not a known field selector: only "metadata.name", "metadata.namespace""#
        );
        assert_eq!(refused(&version()), "field label not supported: x");
        assert_eq!(parse("metadata.name=q", &version()).unwrap().exact_name(), Some("q"));
    }
}
