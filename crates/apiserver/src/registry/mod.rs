//! The resources that a cluster serves.
//!
//! Built-in ones come from tables and are shared by all clusters of a process; those of CustomResourceDefinitions are
//! added, changed and removed while requests run.

pub(crate) mod compiled;
pub(crate) mod definition;
pub(crate) mod info;
pub(crate) mod live;
pub(crate) mod names;

pub(crate) use compiled::{CompiledDefinitions, Definition};
pub(crate) use info::{
    Behaviour, Conversion, FieldSource, Handling, Hooks, NameRule, Origin, PrepareContext, PrinterColumn, ResourceInfo,
    RuleSet, ScalePaths, SelectableField, Storage, StorageKey, Subresource, Version,
};
pub(crate) use live::{BuiltIns, Registry, Served};
