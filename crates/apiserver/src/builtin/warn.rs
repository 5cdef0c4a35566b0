//! What kube-apiserver accepts but advises against, as texts for `Warning` headers. Never refuses anything.

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
