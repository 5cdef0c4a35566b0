//! Label and field selectors: their grammar, their errors, and which objects they match.

pub mod field;
pub mod label;

use serde_json::Value;

use crate::error::ApiError;
use crate::registry::{ResourceInfo, Version};
use crate::rest::request::Options;
use crate::store::Entry;

/// Both selectors of a request.
#[derive(Debug, Clone, Default)]
pub struct Selection {
    pub labels: label::LabelSelector,
    pub fields: field::FieldSelector,
}

impl Selection {
    pub fn parse(options: &Options, info: &ResourceInfo, version: &Version) -> Result<Self, ApiError> {
        let labels = label::parse(options.label_selector.as_deref().unwrap_or("")).map_err(ApiError::bad_request)?;
        let fields = field::parse(options.field_selector.as_deref().unwrap_or("")).map_err(ApiError::bad_request)?;
        fields.check(info, version)?;
        Ok(Self { labels, fields })
    }

    pub fn is_everything(&self) -> bool {
        self.labels.is_everything() && self.fields.is_everything()
    }

    /// Whether a stored object is selected. Parses it only if a field beyond name and namespace is asked for.
    pub fn matches(&self, entry: &Entry, version: &Version) -> bool {
        if !self.labels.matches(|key| entry.index.label(key)) {
            return false;
        }
        if self.fields.is_everything() {
            return true;
        }
        let (namespace, name) = entry.namespace_and_name();
        if !self.fields.needs_object() {
            return self.fields.matches(namespace, name, version, &Value::Null);
        }
        let object = entry.parse();
        self.fields.matches(namespace, name, version, &object)
    }
}
