//! Kubernetes' built-in kinds as tables and small rules: schemas, defaults, validation and printing, as in kube-apiserver
//! 1.34.
//!
//! A kind without a rule is stored unchanged.

mod aliased_kinds;
mod defaults;
mod descriptions;
mod kind;
mod kinds;
mod prepare;
mod print;
mod protobuf;
mod schemas;
mod selectable;
mod table;
pub mod validate;
mod values;
mod warn;
mod wire;

pub use aliased_kinds::{from_stored, stored_field, to_stored};
pub use defaults::{blank, blank_definition, default, default_definition};
pub use descriptions::description_of;
pub use kind::{BuiltinKind, Generation, NameRule, Subresource, Verbs};
pub use kinds::{GROUP_ORDER, kind, kinds, resource};
pub use prepare::{
    AddressPool, Context, Requester, ServiceAddresses, prepare_create, prepare_status_update, prepare_update, release,
    reserve, settle,
};
pub use print::{Column, cells, columns, row_conditions};
pub use protobuf::{decode as decode_protobuf, is_registered};
pub use schemas::{definition_closure, definition_names, openapi_definition, schema, schema_of};
pub use selectable::{computed_field, selectable_fields};
pub use validate::{
    validate_create, validate_metadata, validate_metadata_update, validate_name, validate_status_update,
    validate_update,
};
pub use warn::{deprecation_warning, warnings};
pub use wire::{micro_time, time_text};
