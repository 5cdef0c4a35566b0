//! Kubernetes' built-in kinds as tables and small rules: schemas, defaults, validation and printing, as in kube-apiserver
//! 1.34.
//!
//! A kind without a rule is stored unchanged.

mod aliased_kinds;
mod defaults;
mod kind;
mod kinds;
mod prepare;
mod print;
mod protobuf;
mod schemas;
mod selectable;
mod table;
pub(crate) mod validate;
mod values;
mod warn;
mod wire;

pub(crate) use aliased_kinds::{from_stored, stored_field, to_stored};
pub(crate) use defaults::{blank, blank_definition, default, default_definition};
pub(crate) use kind::{BuiltinKind, NameRule, Subresource};
pub(crate) use kinds::{GROUP_ORDER, kind, kinds};
pub(crate) use prepare::{
    AddressPool, Context, Requester, ServiceAddresses, prepare_create, prepare_status_update, prepare_update, reserve,
    settle,
};
pub(crate) use print::{Column, cells, columns};
pub(crate) use protobuf::{decode as decode_protobuf, is_registered};
pub(crate) use schemas::{schema, schema_of};
pub(crate) use selectable::{computed_field, selectable_fields};
pub(crate) use validate::{
    validate_create, validate_metadata, validate_metadata_update, validate_status_update, validate_update,
};
pub(crate) use warn::{deprecation_warning, warnings};
