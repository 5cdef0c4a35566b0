//! A Kubernetes-compatible API server as a library. `Embedded` is the way in; this page shows it at work.
//!
#![doc = include_str!("../README.md")]
// Kinds come from CustomResourceDefinitions and from the tables of `builtin`. Never add code that knows a particular custom kind.

// Arithmetic that can panic, above all on times: `clippy.toml` names the types for which it is fine.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]
// What only a feature uses is not used without it.
#![cfg_attr(not(all(feature = "durable", feature = "tls")), allow(dead_code, unused_imports))]

mod apply;
mod auth;
mod builtin;
mod cel;
mod controllers;
mod discovery;
mod embedded;
mod error;
mod field;
mod go_errors;
mod http;
#[cfg(feature = "internals")]
#[doc(hidden)]
pub mod internals;
mod metrics;
mod openapi;
mod patch;
mod private;
mod registry;
mod rest;
mod schema;
mod server;
mod store;
mod table;
#[cfg(test)]
mod testing;

pub use auth::secret::Secret;
pub use auth::user::User;
pub use discovery::info::KUBERNETES_VERSION;
pub use embedded::{Embedded, EmbeddedError, Options, ROOT_CLUSTER};
pub use http::body::ResponseBody;
#[cfg(feature = "tls")]
pub use http::kubeconfig::{ContextEntry, Credentials, kubeconfig};
pub use http::limits::Limits;
#[cfg(feature = "tls")]
pub use http::listen::Listening;
pub use http::local::LocalService;
#[cfg(feature = "tls")]
pub use http::tls::Authority;
pub use private::replace_private_file;
pub use server::{Builder, Cluster, StartError, Template};
#[cfg(feature = "durable")]
pub use store::file_log::CompactionLimits;
#[cfg(feature = "durable")]
pub use store::recovery::RecoveryError;
pub use store::resource::HistoryLimits;
pub use table::duration::{age, human_duration};

/// Admission steps of the embedder, in the place of webhooks: `Builder::admission` adds them.
pub mod admission {
    pub use crate::error::{ApiError, Reason};
    pub use crate::registry::info::ResourceInfo;
    pub use crate::rest::admission::{Admission, Attributes, Operation, Phase, Warnings};
}

/// Controllers in the same process that read the store of a `Cluster` directly, such as simulated kubelets.
pub mod simulation {
    pub use crate::registry::info::StorageKey;
    pub use crate::rest::request::{ContentType, Request, Verb};
    pub use crate::server::tasks::Task;
    pub use crate::store::entry::{Entry, key_of, split_key};
    pub use crate::store::watch::StoreEvent;
}

/// Limits on the connections of a listener, also for other servers in the process.
pub mod connections {
    pub use crate::http::body::WithGuard;
    pub use crate::http::connections::{ConnectionLimits, Connections, OpenConnection};
}
