//! Warnings of kube-apiserver about accepted objects, for `Warning` headers.

use serde_json::Value;

use super::BuiltinKind;
use super::values::text;

/// Advice about an object that is being written.
pub fn warnings(kind: &BuiltinKind, object: &Value) -> Vec<String> {
    match (kind.group, kind.kind) {
        ("discovery.k8s.io", "EndpointSlice") if text(object, "addressType") == "FQDN" => {
            vec!["spec.addressType: FQDN endpoints are deprecated".to_owned()]
        }
        _ => Vec::new(),
    }
}

/// The warning about a deprecated kind.
pub fn deprecation_warning(group: &str, kind: &str) -> Option<&'static str> {
    match (group, kind) {
        ("", "Endpoints") => Some("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn names_as_addresses_are_advised_against() {
        let slices = crate::builtin::kind("discovery.k8s.io", "v1", "EndpointSlice").unwrap();
        assert_eq!(warnings(slices, &json!({"addressType": "FQDN"})).len(), 1);
        assert_eq!(warnings(slices, &json!({"addressType": "IPv4"})), Vec::<String>::new());
    }
}
