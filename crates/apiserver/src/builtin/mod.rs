//! Everything that is particular about Kubernetes' built-in kinds, as tables and small rules.
//!
//! Decides what the kinds are, how their objects are shaped, defaulted, checked and printed. Facts of kube-apiserver 1.34.
//! Never handles a request: the registry asks, and a kind without a rule is simply stored.

mod defaults;
mod kind;
mod kinds;
mod print;
mod prose;
pub mod quantity;
mod schemas;
mod table;
mod values;
mod wire;

pub use defaults::{default, default_definition};
pub use kind::{BuiltinKind, Generation, NameRule, Subresource, Verbs};
pub use kinds::{GROUP_ORDER, kind, kinds, resource, selectable_fields};
pub use print::{Column, cells, columns, human_duration, row_conditions};
pub use prose::description_of;
pub use schemas::{definition_closure, definition_names, openapi_definition, schema, schema_of};
pub use wire::{micro_time, time_text};
