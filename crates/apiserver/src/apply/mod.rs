//! Server-side apply and the tracking of field owners in `metadata.managedFields`.
//!
//! Pure functions over JSON values; follows kube-apiserver 1.34 with structured-merge-diff v6.
//!
//! The order for the caller: convert the live object to the request's apiVersion; `apply` or (after create, update and
//! the other patches) `track_update`; default and admit. A write that changes nothing but times of `managedFields` is a no-op.

// The refusal is the crate's one error type; its size is decided there.
#![allow(clippy::result_large_err)]

mod codec;
mod conflict;
mod element;
mod fieldset;
mod last_applied;
mod limits;
mod managed;
mod merge;
mod meta;
mod ownership;
mod patch;
mod remove;
mod typed;
mod types;
mod update;
mod validate;

#[cfg(test)]
mod tests;

use jiff::Timestamp;
use serde_json::Value;

#[cfg(test)]
use element::{Element, ElementFault};
pub(crate) use fieldset::FieldSet;
#[cfg(any(test, feature = "internals"))]
pub(crate) use meta::validate_managed_fields;
#[cfg(test)]
pub(crate) use meta::{keep_times_of_no_op, validate_manager_name};
pub(crate) use patch::apply;
pub(crate) use update::track_update;

use crate::schema::Schema;

/// The manager, endpoint and time of a write.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Writer<'a> {
    /// The `fieldManager` of the request; for other writes than apply else the user agent's first part. Empty: unknown.
    pub(crate) manager: &'a str,
    /// Empty for the main resource, else as `status`.
    pub(crate) subresource: &'a str,
    /// The group and version the request was made in, as `apps/v1`.
    pub(crate) api_version: &'a str,
    pub(crate) now: Timestamp,
}

/// What is written to: one endpoint of a kind.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Target<'a> {
    pub(crate) schema: &'a Schema,
    pub(crate) kind: &'a str,
    pub(crate) reset: &'a Reset,
    /// What an object without any content looks like, for built-in kinds whose Go structs always hold some fields
    /// (`{"spec": {"template": {}}}`): the creator does not own such fields. `None`: nothing.
    pub(crate) blank: Option<&'a Value>,
}

/// Fields that writes to an endpoint cannot change, so their writers do not own them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Reset {
    wiped: FieldSet<'static>,
    only: Option<&'static str>,
}

impl Reset {
    /// Every field can be written.
    pub(crate) fn nothing() -> Self {
        Self::default()
    }

    /// These fields, with all below them, keep their values.
    pub(crate) fn fields(paths: &[&[&'static str]]) -> Self {
        Self { wiped: FieldSet::of_fields(paths), only: None }
    }

    /// The main resource of a kind that has a status subresource.
    pub(crate) fn status() -> Self {
        Self::fields(&[&["status"]])
    }

    /// The status subresource: nothing but the status is written.
    pub(crate) fn all_but_status() -> Self {
        Self { wiped: FieldSet::default(), only: Some("status") }
    }

    fn filter<'a>(&self, set: FieldSet<'a>) -> FieldSet<'a> {
        let set = if let Some(name) = self.only { set.under(name) } else { set };
        if self.wiped.is_empty() { set } else { set.difference_with_children(&self.wiped) }
    }
}
