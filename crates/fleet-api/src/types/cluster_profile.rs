//! The ClusterProfile of `multicluster.x-k8s.io`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Base64, FreeObject, nullable};
use crate::conditions::Condition;
use crate::kinds::Part;
use crate::time::Time;

/// Which cluster this is and who manages it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct ClusterProfileSpec {
    /// Name of the cluster for people.
    #[serde(default, skip_serializing_if = "String::is_empty", deserialize_with = "nullable")]
    pub display_name: String,
    /// Who manages this entry. Cannot be changed.
    #[schemars(extend("x-kubernetes-validations" = [{"rule": "self == oldSelf", "message": "ClusterManager is immutable"}]))]
    pub cluster_manager: ClusterManager,
}

impl Part for ClusterProfileSpec {}

/// The manager of an inventory entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct ClusterManager {
    /// Name of the manager.
    pub name: String,
}

/// What is known of the cluster.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct ClusterProfileStatus {
    /// What holds for the cluster.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "nullable")]
    pub conditions: Vec<Condition>,
    /// Versions of the cluster's software.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<ClusterVersion>,
    /// Named properties of the cluster.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "nullable")]
    pub properties: Vec<ClusterProperty>,
    /// Ways to reach the cluster.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "nullable")]
    pub access_providers: Vec<AccessProvider>,
    /// The older name of accessProviders.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "nullable")]
    pub credential_providers: Vec<AccessProvider>,
}

impl Part for ClusterProfileStatus {}

/// Versions of the cluster's software.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct ClusterVersion {
    /// Version of Kubernetes.
    #[serde(default, skip_serializing_if = "String::is_empty", deserialize_with = "nullable")]
    pub kubernetes: String,
}

/// A named property.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct ClusterProperty {
    /// Name of the property.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Its value as text.
    #[schemars(length(min = 1, max = 1024))]
    pub value: String,
    /// When it was last read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_observed_time: Option<Time>,
}

/// One way to reach the cluster.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct AccessProvider {
    /// Name of the way.
    pub name: String,
    /// Where the cluster's API server is and how to trust it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster: Option<AccessCluster>,
}

/// Where an API server is and how to trust it; the fields of a kubeconfig's cluster.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(inline)]
pub struct AccessCluster {
    /// Address of the API server.
    pub server: String,
    /// Name to expect in the server's certificate, if it is not the host of the address.
    #[serde(default, skip_serializing_if = "String::is_empty", deserialize_with = "nullable")]
    pub tls_server_name: String,
    /// Whether to trust any certificate. Not for production.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub insecure_skip_tls_verify: Option<bool>,
    /// File of the certificate authority.
    #[serde(default, skip_serializing_if = "String::is_empty", deserialize_with = "nullable")]
    pub certificate_authority: String,
    /// The certificate authority itself, in PEM.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub certificate_authority_data: Option<Base64>,
    /// Proxy to use.
    #[serde(default, skip_serializing_if = "String::is_empty", deserialize_with = "nullable")]
    pub proxy_url: String,
    /// Whether to ask for uncompressed answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disable_compression: Option<bool>,
    /// Further data for other tools.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "nullable")]
    pub extensions: Vec<NamedExtension>,
}

/// Data for another tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct NamedExtension {
    /// Which tool it is for.
    pub name: String,
    /// The data.
    pub extension: FreeObject,
}
