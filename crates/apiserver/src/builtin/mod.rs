//! Everything that is particular about Kubernetes' built-in kinds, as tables and small rules.
//!
//! Decides what the kinds are, how their objects are shaped, defaulted, checked and printed. Facts of kube-apiserver 1.34.
//! Never handles a request: the registry asks, and a kind without a rule is simply stored.

mod defaults;
mod kind;
mod kinds;
mod prepare;
mod print;
mod prose;
mod protobuf;
pub mod quantity;
mod schemas;
mod selectable;
mod table;
mod twins;
pub mod validate;
mod values;
mod warn;
mod wire;

pub use defaults::{blank, blank_definition, default, default_definition};
pub use kind::{BuiltinKind, Generation, NameRule, Subresource, Verbs};
pub use kinds::{GROUP_ORDER, kind, kinds, resource};
pub use prepare::{
    AddressPool, Context, Requester, ServiceAddresses, prepare_create, prepare_status_update, prepare_update, release,
    reserve, settle,
};
pub use print::{Column, cells, columns, row_conditions};
pub use prose::description_of;
pub use protobuf::{decode as decode_protobuf, is_registered};
pub use schemas::{definition_closure, definition_names, openapi_definition, schema, schema_of};
pub use selectable::selectable_fields;
pub use twins::{from_stored, stored_field, to_stored};
pub use validate::{
    validate_create, validate_metadata, validate_metadata_update, validate_name, validate_status_update,
    validate_update,
};
pub use warn::warnings;
pub use wire::{micro_time, time_text};
