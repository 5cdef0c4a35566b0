//! The HTTP layer: reads requests and writes responses, over TLS or in process.

pub(crate) mod body;
pub(crate) mod call;
pub(crate) mod connections;
pub(crate) mod edge;
pub(crate) mod encode;
mod front;
pub(crate) mod gate;
#[cfg(feature = "tls")]
pub(crate) mod kubeconfig;
pub(crate) mod limits;
#[cfg(feature = "tls")]
pub(crate) mod listen;
pub(crate) mod local;
pub(crate) mod negotiate;
pub(crate) mod path;
pub(crate) mod plain;
pub(crate) mod subject;
#[cfg(feature = "tls")]
pub(crate) mod tls;
mod write_timeout;

pub(crate) use call::{Answer, Backend, Call, ClusterEdge, Clusters, Content, Event};
pub(crate) use edge::Edge;
pub(crate) use limits::Limits;
#[cfg(feature = "tls")]
pub(crate) use listen::{Listening, listen};
pub(crate) use local::LocalService;
#[cfg(feature = "tls")]
pub(crate) use tls::Authority;
