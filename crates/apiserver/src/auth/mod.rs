//! Authentication (tokens, certificates, impersonation) and authorization (RBAC).

pub mod authenticate;
pub mod bootstrap;
pub mod coverage;
pub mod escalation;
pub mod impersonate;
pub mod jwt;
pub mod rbac;
pub mod review;
pub mod rule;
pub mod secret;
pub mod user;

pub use authenticate::{Authenticated, Authenticator, Clock, Issuer, TokenObjects};
pub use jwt::{ObjectRef, TokenError, TokenKey};
pub use rbac::{Decision, Rbac, RbacKind};
pub use rule::{Attributes, PolicyRule, Target};
pub use secret::Secret;
pub use user::User;
