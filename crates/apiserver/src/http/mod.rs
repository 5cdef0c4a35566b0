//! The HTTP layer: reads requests and writes responses, over TLS or in process.

pub mod body;
pub mod call;
pub mod connections;
pub mod edge;
pub mod encode;
mod front;
pub mod gate;
pub mod kubeconfig;
pub mod limits;
pub mod listen;
pub mod local;
pub mod negotiate;
pub mod path;
pub mod plain;
pub mod subject;
pub mod tls;
mod write_timeout;

pub use call::{Answer, Backend, Call, ClusterEdge, Clusters, Content, Event, Events};
pub use edge::{Edge, Identity};
pub use limits::Limits;
pub use listen::{Listening, listen};
pub use local::LocalService;
pub use path::{RequestInfo, ResourcePath};
pub use tls::Authority;
