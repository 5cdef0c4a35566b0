//! The edge of the server: HTTP in, HTTP out.
//!
//! Decides how requests are read and answers are presented, over TLS or within the process. Never decides what an
//! object may contain.

pub mod body;
pub mod call;
pub mod edge;
pub mod encode;
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

pub use call::{Answer, Backend, Call, ClusterEdge, Clusters, Content, Event, Events};
pub use edge::{Edge, Identity};
pub use limits::Limits;
pub use listen::{Listening, listen};
pub use local::LocalService;
pub use path::{RequestInfo, ResourcePath};
pub use tls::Authority;
