//! Nodes, webhook rules and changed EndpointSlices that are refused.

use expect_test::expect;
use serde_json::{Value, json};

use super::*;
use crate::builtin::validate::ADMISSION;

#[test]
fn nodes() {
    let taints = |taints: Value| json!({"metadata": {"name": "n"}, "spec": {"taints": taints}});
    refused(
        "",
        "Node",
        taints(json!([{"key": "a", "effect": "Explode"}, {"key": "b c"}])),
        &expect![[r#"
        metadata.taints[0].effect: Unsupported value: "Explode": supported values: "NoSchedule", "PreferNoSchedule", "NoExecute"
        metadata.taints[1].key: Invalid value: "b c": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')
        metadata.taints[1].effect: Required value"#]],
    );
    let twice = json!([{"key": "a", "effect": "NoExecute"}, {"key": "a", "effect": "NoExecute"}]);
    refused(
        "",
        "Node",
        taints(twice),
        &expect![[
            r#"metadata.taints[1]: Duplicate value: {"effect":"NoExecute","key":"a"}: taints must be unique by key and effect pair"#
        ]],
    );
    refused(
        "",
        "Node",
        json!({"status": {"capacity": {"cpu": "-1"}}}),
        &expect![[r#"
        status.capacity.cpu: Invalid value: "-1": must be greater than or equal to 0
        status.allocatable.cpu: Invalid value: "-1": must be greater than or equal to 0"#]],
    );
    change_refused(
        "",
        "Node",
        json!({"metadata": {"name": "n"}, "spec": {"providerID": "a", "podCIDRs": ["10.1.0.0/24"]}}),
        |new| new["spec"] = json!({"providerID": "b"}),
        &expect![[r#"
            spec.podCIDRs: Forbidden: node updates may not change podCIDR except from "" to valid
            spec.providerID: Forbidden: node updates may not change providerID except from "" to valid"#]],
    );
}

#[test]
fn a_wildcard_in_a_webhook_rule_must_be_the_only_entry() {
    let rule = |resources: Value| {
        json!({"webhooks": [{"name": "a.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"],
            "clientConfig": {"url": "https://a.example.com"}, "rules": [{"operations": ["*"], "apiGroups": ["*"],
            "apiVersions": ["*"], "resources": resources}]}]})
    };
    let kind = "ValidatingWebhookConfiguration";
    refused(
        ADMISSION,
        kind,
        rule(json!(["*/*", "pods"])),
        &expect![[
            r#"webhooks[0].rules[0].resources: Invalid value: ["*/*","pods"]: if '*/*' is present, must not specify other resources"#
        ]],
    );
    refused(
        ADMISSION,
        kind,
        rule(json!(["*", "pods"])),
        &expect![[
            r#"webhooks[0].rules[0].resources: Invalid value: ["*","pods"]: if '*' is present, must not specify other resources without subresources"#
        ]],
    );
    refused(
        ADMISSION,
        kind,
        rule(json!(["pods/*", "pods/status", ""])),
        &expect![[r#"
        webhooks[0].rules[0].resources[1]: Invalid value: "pods/status": if 'pods/*' is present, must not specify pods/status
        webhooks[0].rules[0].resources[2]: Required value"#]],
    );
}

#[test]
fn unchanged_endpoints_are_not_validated_again() {
    change_refused(
        "discovery.k8s.io",
        "EndpointSlice",
        json!({"addressType": "IPv4", "endpoints": [{"addresses": ["192.0.2.1"]}], "ports": []}),
        |new| new["addressType"] = json!("IPv6"),
        &expect![[r#"addressType: Invalid value: "IPv6": field is immutable"#]],
    );
}
