//! The resources that a cluster serves.
//!
//! Built-in ones come from tables and are shared by all clusters of a process; those of CustomResourceDefinitions are
//! added, changed and removed while requests run.

pub mod compiled;
pub mod definition;
pub mod info;
pub mod live;
pub mod names;

pub use compiled::{CompiledDefinitions, Definition};
pub use info::{
    Behaviour, ColumnSource, Conversion, FieldSource, Handling, Hooks, NameRule, NoHooks, Origin, PrepareContext,
    PrinterColumn, ResourceInfo, RuleSet, ScalePaths, SelectableField, Storage, StorageKey, Subresource, Version,
};
pub use live::{BuiltIns, Registry, Served};
