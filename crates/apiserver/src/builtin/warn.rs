//! Warnings of kube-apiserver about accepted objects, for `Warning` headers.

use serde_json::Value;

use super::BuiltinKind;
use super::values::{at, list, quantity, text};

/// Advice about an object that is being written. `old` is `None` for a new object.
pub(crate) fn warnings(kind: &BuiltinKind, object: &Value, old: Option<&Value>) -> Vec<String> {
    let mut out = Vec::new();
    match (kind.group, kind.kind) {
        ("discovery.k8s.io", "EndpointSlice") if text(object, "addressType") == "FQDN" => {
            out.push("spec.addressType: FQDN endpoints are deprecated".to_owned());
        }
        ("", "Pod") if old.is_none() => pod_spec(at(object, "spec"), "spec", &mut out),
        ("", "PersistentVolumeClaim") => claim_spec(at(object, "spec"), "spec", &mut out),
        (group, kind) => {
            let changed = old.is_none_or(|old| at(object, "metadata.generation") != at(old, "metadata.generation"));
            if let Some(template) = pod_template_of(group, kind).filter(|_| changed) {
                let path = format!("{template}.spec");
                pod_spec(at(object, &path), &path, &mut out);
            }
            if (group, kind) == ("apps", "StatefulSet") {
                claim_templates(object, old.is_none(), &mut out);
            }
        }
    }
    out
}

/// The path of the pod template in a kind that has one.
fn pod_template_of(group: &str, kind: &str) -> Option<&'static str> {
    match (group, kind) {
        ("", "PodTemplate") => Some("template"),
        ("", "ReplicationController")
        | ("apps", "DaemonSet" | "Deployment" | "ReplicaSet" | "StatefulSet")
        | ("batch", "Job") => Some("spec.template"),
        ("batch", "CronJob") => Some("spec.jobTemplate.spec.template"),
        _ => None,
    }
}

fn pod_spec(spec: &Value, path: &str, out: &mut Vec<String>) {
    for (index, volume) in list(spec, "volumes").iter().enumerate() {
        let template = "ephemeral.volumeClaimTemplate.spec";
        claim_spec(at(volume, template), &format!("{path}.volumes[{index}].{template}"), out);
    }
    let bytes = ["memory", "ephemeral-storage"];
    fractional_bytes(at(spec, "overhead"), &bytes, &format!("{path}.overhead"), out);
    for field in ["initContainers", "containers", "ephemeralContainers"] {
        for (index, container) in list(spec, field).iter().enumerate() {
            for resource in bytes {
                for part in ["limits", "requests"] {
                    let resources = at(at(container, "resources"), part);
                    let path = format!("{path}.{field}[{index}].resources.{part}");
                    fractional_bytes(resources, &[resource], &path, out);
                }
            }
        }
    }
}

fn claim_spec(spec: &Value, path: &str, out: &mut Vec<String>) {
    for part in ["requests", "limits"] {
        fractional_bytes(at(at(spec, "resources"), part), &["storage"], &format!("{path}.resources.{part}"), out);
    }
}

/// kube-apiserver prints another path for an update than for a new object.
fn claim_templates(object: &Value, is_new: bool, out: &mut Vec<String>) {
    for (index, template) in list(object, "spec.volumeClaimTemplates").iter().enumerate() {
        let path = format!("spec.volumeClaimTemplates[{index}]{}", if is_new { "" } else { ".Spec" });
        claim_spec(at(template, "spec"), &path, out);
    }
}

/// Amounts of bytes in a resource list that are not whole numbers.
fn fractional_bytes(resources: &Value, names: &[&str], path: &str, out: &mut Vec<String>) {
    for name in names {
        let amount = resources.get(name).and_then(quantity);
        if let Some(amount) = amount.filter(|amount| !amount.is_integer()) {
            out.push(format!(r#"{path}[{name}]: fractional byte value "{amount}" is invalid, must be an integer"#));
        }
    }
}

/// The warning about a deprecated kind.
pub(crate) fn deprecation_warning(group: &str, kind: &str) -> Option<&'static str> {
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
    fn fqdn_endpoints_have_a_warning() {
        let slices = crate::builtin::kind("discovery.k8s.io", "v1", "EndpointSlice").unwrap();
        assert_eq!(warnings(slices, &json!({"addressType": "FQDN"}), None).len(), 1);
        assert_eq!(warnings(slices, &json!({"addressType": "IPv4"}), None), Vec::<String>::new());
    }

    #[test]
    fn fractional_bytes_have_a_warning_in_every_field() {
        let resources = json!({"limits": {"cpu": "500m", "memory": "1500m"}, "requests": {"memory": "1Ki", "ephemeral-storage": "1m"}});
        let claim = json!({"resources": {"requests": {"storage": "100m"}, "limits": {"storage": "1Gi"}}});
        let spec = json!({
            "overhead": {"memory": "1u"},
            "volumes": [{"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": claim}}}],
            "initContainers": [{"name": "i"}],
            "containers": [{"name": "a", "resources": resources}],
        });
        let of = |group: &str, version: &str, kind: &str, object: Value, old: Option<&Value>| {
            warnings(crate::builtin::kind(group, version, kind).unwrap(), &object, old).join("\n")
        };
        expect_test::expect![[r#"
            spec.volumes[0].ephemeral.volumeClaimTemplate.spec.resources.requests[storage]: fractional byte value "100m" is invalid, must be an integer
            spec.overhead[memory]: fractional byte value "1u" is invalid, must be an integer
            spec.containers[0].resources.limits[memory]: fractional byte value "1500m" is invalid, must be an integer
            spec.containers[0].resources.requests[ephemeral-storage]: fractional byte value "1m" is invalid, must be an integer"#]]
        .assert_eq(&of("", "v1", "Pod", json!({"spec": spec}), None));
        let memory = json!({"spec": {"containers": [{"resources": {"limits": {"memory": "500m"}}}]}});
        let set = json!({"metadata": {"generation": 2}, "spec": {"template": memory, "volumeClaimTemplates": [{"spec": claim}]}});
        expect_test::expect![[r#"
            spec.template.spec.containers[0].resources.limits[memory]: fractional byte value "500m" is invalid, must be an integer
            spec.volumeClaimTemplates[0].resources.requests[storage]: fractional byte value "100m" is invalid, must be an integer"#]]
        .assert_eq(&of("apps", "v1", "StatefulSet", set.clone(), None));
        expect_test::expect![[r#"
            spec.volumeClaimTemplates[0].Spec.resources.requests[storage]: fractional byte value "100m" is invalid, must be an integer"#]]
        .assert_eq(&of("apps", "v1", "StatefulSet", set.clone(), Some(&set)));
        let jobs = json!({"spec": {"jobTemplate": {"spec": {"template": memory}}}});
        assert!(
            of("batch", "v1", "CronJob", jobs, None).starts_with("spec.jobTemplate.spec.template.spec.containers[0]")
        );
        assert!(of("", "v1", "PodTemplate", json!({"template": memory}), None).starts_with("template.spec."));
        assert_eq!(of("", "v1", "Pod", memory.clone(), Some(&memory)), "", "updates of Pods get no advice");
        assert!(
            of("", "v1", "PersistentVolumeClaim", json!({"spec": claim}), None)
                .starts_with("spec.resources.requests[storage]")
        );
    }
}
