//! Authentication (tokens, certificates, impersonation) and authorization (RBAC).

pub(crate) mod authenticate;
pub(crate) mod bootstrap;
pub(crate) mod coverage;
pub(crate) mod escalation;
pub(crate) mod impersonate;
pub(crate) mod jwt;
pub(crate) mod rbac;
pub(crate) mod review;
pub(crate) mod rule;
pub(crate) mod secret;
pub(crate) mod user;

pub(crate) use authenticate::{Authenticator, Issuer, TokenObjects};
pub(crate) use jwt::{ObjectRef, TokenError, TokenKey};
pub(crate) use rbac::{Rbac, RbacKind};
pub(crate) use rule::{Attributes, PolicyRule, Target};
pub(crate) use secret::Secret;
pub(crate) use user::User;
