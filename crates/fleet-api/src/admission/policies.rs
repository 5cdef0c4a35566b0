//! Managed ValidatingAdmissionPolicies: which ones a configuration asks for, and whether the configuration is valid.

use std::fmt;

use serde_json::{Map, Value, json};

use crate::well_known::{label_values, labels, namespaces};

/// Labels of all managed policies, by which obsolete ones are found.
pub const LABELS: [(&str, &str); 3] = [
    (labels::MANAGED_BY, label_values::MANAGED_BY),
    (labels::PART_OF, label_values::PART_OF),
    (labels::COMPONENT, label_values::COMPONENT),
];

/// Users that may always write service accounts in reserved namespaces.
const EXEMPT_USERS: [&str; 2] = ["system:kube-scheduler", "system:kube-controller-manager"];
const EXEMPT_GROUPS: [&str; 4] = ["system:nodes", "system:masters", "kubeadm:cluster-admins", "system:serviceaccounts"];

const PODS: &str = "denyPodsAndReplicaSetsOutsideReservedNamespaces";
const SERVICE_ACCOUNTS: &str = "denyServiceAccountsAndTokenRequestsInReservedNamespaces";

/// Which policies are wanted. An absent generator is disabled.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PolicyConfig {
    pub pods_and_replica_sets: Option<PodsAndReplicaSets>,
    pub service_accounts_and_tokens: Option<ServiceAccountsAndTokens>,
}

/// Denies pods and replica sets in namespaces without one of these prefixes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PodsAndReplicaSets {
    pub reserved_namespace_prefixes: Vec<String>,
}

/// Denies users to change service accounts in namespaces with one of these prefixes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServiceAccountsAndTokens {
    pub reserved_namespace_prefixes: Vec<String>,
    pub whitelisted_usernames: Vec<String>,
    pub whitelisted_user_groups: Vec<String>,
}

/// Why a configuration is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PolicyConfigError {
    #[error("the admission policy configuration cannot be read: {0}")]
    Unreadable(String),
    #[error("{generator}: reservedNamespacePrefixes must not be empty")]
    NoPrefix { generator: &'static str },
    #[error("{generator}: prefix {prefix:?} may have only lower case letters, digits and hyphens")]
    BadPrefix { generator: &'static str, prefix: String },
    #[error("{generator}: {field} {text:?} must not contain quotes or backslashes")]
    BadText { generator: &'static str, field: &'static str, text: String },
}

/// A policy with its binding.
#[derive(Debug, Clone, PartialEq)]
pub struct PolicyWithBinding {
    pub policy: Value,
    pub binding: Value,
}

impl PolicyConfig {
    /// The default without a file: both generators with the reserved prefixes and no exemptions.
    pub fn standard() -> Self {
        let prefixes = || namespaces::RESERVED_PREFIXES.iter().map(|&prefix| prefix.to_owned()).collect();
        Self {
            pods_and_replica_sets: Some(PodsAndReplicaSets { reserved_namespace_prefixes: prefixes() }),
            service_accounts_and_tokens: Some(ServiceAccountsAndTokens {
                reserved_namespace_prefixes: prefixes(),
                ..ServiceAccountsAndTokens::default()
            }),
        }
    }

    /// Reads and checks a YAML or JSON file, which replaces the default completely.
    pub fn read(text: &str) -> Result<Self, PolicyConfigError> {
        let unreadable = |reason: String| PolicyConfigError::Unreadable(reason);
        let document: Value = serde_saphyr::from_str(text).map_err(|error| unreadable(error.to_string()))?;
        let generators = match document {
            Value::Null => Map::new(),
            Value::Object(generators) => generators,
            _ => return Err(unreadable("it is not a map of generators".to_owned())),
        };
        let pods = generator(&generators, PODS)?;
        let accounts = generator(&generators, SERVICE_ACCOUNTS)?;
        let config = Self {
            pods_and_replica_sets: pods
                .map(|fields| Ok(PodsAndReplicaSets { reserved_namespace_prefixes: prefixes(fields)? }))
                .transpose()?,
            service_accounts_and_tokens: accounts
                .map(|fields| {
                    Ok(ServiceAccountsAndTokens {
                        reserved_namespace_prefixes: prefixes(fields)?,
                        whitelisted_usernames: texts(fields, "WhitelistedUsernames")?,
                        whitelisted_user_groups: texts(fields, "WhitelistedUserGroups")?,
                    })
                })
                .transpose()?,
        };
        config.check()?;
        Ok(config)
    }

    /// Values become part of CEL expressions, so they must not be able to end a string there.
    pub fn check(&self) -> Result<(), PolicyConfigError> {
        if let Some(config) = &self.pods_and_replica_sets {
            check_prefixes(PODS, &config.reserved_namespace_prefixes)?;
        }
        if let Some(config) = &self.service_accounts_and_tokens {
            let generator = SERVICE_ACCOUNTS;
            check_prefixes(generator, &config.reserved_namespace_prefixes)?;
            let users = config.whitelisted_usernames.iter().map(|text| ("whitelistedUsernames", text));
            let groups = config.whitelisted_user_groups.iter().map(|text| ("whitelistedUserGroups", text));
            if let Some((field, text)) =
                users.chain(groups).find(|(_, text)| text.contains(['"', '\'', '`', '\\', '\n']))
            {
                return Err(PolicyConfigError::BadText { generator, field, text: text.clone() });
            }
        }
        Ok(())
    }

    /// The wanted objects. The configuration must have been checked.
    pub fn policies(&self) -> Vec<PolicyWithBinding> {
        let pods = self.pods_and_replica_sets.iter().map(PodsAndReplicaSets::policy);
        let accounts = self.service_accounts_and_tokens.iter().map(ServiceAccountsAndTokens::policy);
        pods.chain(accounts).collect()
    }
}

impl PodsAndReplicaSets {
    fn policy(&self) -> PolicyWithBinding {
        policy(
            "deny-pods-and-replicasets-outside-reserved-namespaces",
            &[rule(&["CREATE"], "", "pods"), rule(&["CREATE"], "apps", "replicasets")],
            &in_reserved_namespace(&self.reserved_namespace_prefixes),
            "creating pods and replicas is disallowed in the fleet hub cluster",
        )
    }
}

impl ServiceAccountsAndTokens {
    fn policy(&self) -> PolicyWithBinding {
        let users = EXEMPT_USERS.into_iter().chain(self.whitelisted_usernames.iter().map(String::as_str));
        let groups = EXEMPT_GROUPS.into_iter().chain(self.whitelisted_user_groups.iter().map(String::as_str));
        let by_name = users.map(|user| format!("request.userInfo.username == \"{user}\""));
        let by_group = groups.map(|group| format!("\"{group}\" in request.userInfo.groups"));
        let outside = format!("!({})", in_reserved_namespace(&self.reserved_namespace_prefixes));
        let passes: Vec<String> = std::iter::once(outside).chain(by_name).chain(by_group).collect();
        policy(
            "deny-serviceaccounts-and-tokenrequests-in-reserved-namespaces",
            &[
                rule(&["CREATE", "UPDATE", "DELETE"], "", "serviceaccounts"),
                rule(&["CREATE"], "", "serviceaccounts/token"),
            ],
            &passes.join(" || "),
            "writing service accounts in reserved namespaces or requesting tokens from such service accounts is disallowed",
        )
    }
}

/// A CEL expression: whether the request is in a namespace with one of these prefixes.
pub(super) fn in_reserved_namespace<P: fmt::Display>(prefixes: &[P]) -> String {
    let tests: Vec<String> =
        prefixes.iter().map(|prefix| format!("request.namespace.startsWith(\"{prefix}\")")).collect();
    tests.join(" || ")
}

fn rule(operations: &[&str], group: &str, resource: &str) -> Value {
    json!({
        "operations": operations, "apiGroups": [group], "apiVersions": ["v1"], "resources": [resource], "scope": "*",
    })
}

fn policy(name: &str, rules: &[Value], expression: &str, message: &str) -> PolicyWithBinding {
    let metadata = |name: &str| {
        let labels: Map<String, Value> = LABELS.iter().map(|(key, value)| ((*key).to_owned(), json!(value))).collect();
        json!({"name": name, "labels": labels})
    };
    PolicyWithBinding {
        policy: json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingAdmissionPolicy",
            "metadata": metadata(name),
            "spec": {
                "failurePolicy": "Fail",
                // With the defaults of the API server, so that stored and wanted objects can be compared.
                "matchConstraints": {
                    "resourceRules": rules, "matchPolicy": "Equivalent", "namespaceSelector": {}, "objectSelector": {},
                },
                "validations": [{"expression": expression, "message": message, "reason": "Forbidden"}],
            },
        }),
        binding: json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": metadata(&format!("{name}-binding")),
            "spec": {"policyName": name, "validationActions": ["Deny"]},
        }),
    }
}

/// A field by its name in any letter case, as Go reads JSON; null is absent.
fn field<'a>(fields: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    let exact = fields.get(name);
    let found = exact.or_else(|| fields.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value));
    found.filter(|value| !value.is_null())
}

fn generator<'a>(
    generators: &'a Map<String, Value>,
    name: &str,
) -> Result<Option<&'a Map<String, Value>>, PolicyConfigError> {
    match field(generators, name) {
        None => Ok(None),
        Some(Value::Object(fields)) => Ok(Some(fields)),
        Some(_) => Err(PolicyConfigError::Unreadable(format!("{name} is not a map"))),
    }
}

fn texts(fields: &Map<String, Value>, name: &str) -> Result<Vec<String>, PolicyConfigError> {
    match field(fields, name) {
        None => Ok(Vec::new()),
        Some(list) => serde_json::from_value(list.clone())
            .map_err(|_| PolicyConfigError::Unreadable(format!("{name} is not a list of texts"))),
    }
}

fn prefixes(fields: &Map<String, Value>) -> Result<Vec<String>, PolicyConfigError> {
    texts(fields, "ReservedNamespacePrefixes")
}

fn check_prefixes(generator: &'static str, prefixes: &[String]) -> Result<(), PolicyConfigError> {
    if prefixes.is_empty() {
        return Err(PolicyConfigError::NoPrefix { generator });
    }
    let fits = |prefix: &str| {
        !prefix.is_empty()
            && prefix.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
    };
    match prefixes.iter().find(|prefix| !fits(prefix)) {
        Some(prefix) => Err(PolicyConfigError::BadPrefix { generator, prefix: prefix.clone() }),
        None => Ok(()),
    }
}

#[cfg(test)]
#[allow(clippy::needless_pass_by_value, reason = "tables read better without a reference before every literal")]
mod tests;
