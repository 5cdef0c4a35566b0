//! What `kubefleet doctor` has observed. Absent facts were not read; `unread` says why.

use fleet_api::kinds::MemberCluster;
use jiff::Timestamp;
use serde::Serialize;

use crate::diagnose::Unread;

/// The fleet at one moment.
#[derive(Debug, Clone)]
pub struct Facts {
    /// The local clock.
    pub now: Timestamp,
    /// The version of the program that checks.
    pub program: String,
    pub hub: ServerFacts,
    pub members: Vec<MemberFacts>,
}

/// A member cluster.
#[derive(Debug, Clone)]
pub struct MemberFacts {
    /// The object on the hub.
    pub object: MemberCluster,
    /// Permissions on the hub that its identity lacks.
    pub denied: Vec<Denied>,
    /// `None` if the kubeconfig has no context for it.
    pub server: Option<ServerFacts>,
}

/// An API server and the agent on it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ServerFacts {
    /// The context in the kubeconfig.
    pub context: Option<String>,
    /// The version of Kubernetes, such as `v1.34.4`.
    pub kubernetes: Option<String>,
    /// How far the clock of the server is ahead of the local one.
    pub clock_offset_seconds: Option<i64>,
    /// CustomResourceDefinitions that are not as this program has them.
    pub definitions: Vec<DefinitionFact>,
    pub agent: Option<AgentFacts>,
    /// Permissions that the agent lacks here.
    pub denied: Vec<Denied>,
    /// Requests of service accounts that the API server has rejected since it started, because too many were in progress.
    pub rejected_requests: Option<u64>,
    /// Why a request as large as a snapshot was refused.
    pub large_request_refused: Option<String>,
    /// The webhooks; `None` on members.
    pub webhooks: Option<WebhookFacts>,
    /// The token of the member agent; `None` on the hub and if there is no Secret with a token.
    pub token: Option<TokenFacts>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unread: Vec<Unread>,
}

/// A CustomResourceDefinition that is not as it should be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DefinitionFact {
    pub name: String,
    pub state: DefinitionState,
}

/// What is wrong with a CustomResourceDefinition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum DefinitionState {
    Missing,
    NotServed,
    /// Its spec is that of another release.
    Different,
}

/// The Deployment of an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum AgentFacts {
    Missing,
    #[serde(rename_all = "camelCase")]
    Installed {
        /// The tag of its image.
        version: String,
        wanted: i64,
        available: i64,
        /// Whether Helm manages it.
        by_helm: bool,
    },
}

/// A permission that is missing.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Denied {
    pub user: String,
    pub verb: String,
    /// With group and subresource, as kubectl takes it.
    pub resource: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
}

/// The admission webhooks of the hub agent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WebhookFacts {
    /// Configurations that do not exist.
    pub missing: Vec<String>,
    /// Configurations with a webhook that has no CA.
    pub without_ca: Vec<String>,
    /// The error of the API server when it called a webhook.
    pub failure: Option<String>,
}

/// A token, without the token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TokenFacts {
    /// `None` if it never expires.
    pub expires: Option<Timestamp>,
}
