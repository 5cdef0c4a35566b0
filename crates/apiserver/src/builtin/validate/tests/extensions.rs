//! Definitions of kinds and webhook configurations that are refused.

use expect_test::expect;
use serde_json::json;

use super::*;

#[test]
fn custom_resource_definitions() {
    let good = json!({"metadata": {"name": "foos.a.b"}, "spec": {"group": "a.b", "scope": "Namespaced", "names": {"kind": "Foo", "plural": "foos"},
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}]}});
    let group = "apiextensions.k8s.io";
    accepted(group, "CustomResourceDefinition", good.clone());
    refused(
        group,
        "CustomResourceDefinition",
        json!({"spec": {"group": "single", "scope": "Galaxy", "names": {"kind": "Foo", "plural": "Foos", "listKind": "Foo", "shortNames": ["A"]},
        "versions": [{"name": "V1"}, {"name": "V1", "additionalPrinterColumns": [{"name": "n", "type": "x", "jsonPath": "a"}]}]}}),
        &expect![[r#"
            metadata.name: Invalid value: "x": must be spec.names.plural+"."+spec.group
            spec.group: Invalid value: "single": should be a domain with at least one dot
            spec.scope: Unsupported value: "Galaxy": supported values: "Cluster", "Namespaced"
            spec.versions[0].schema.openAPIV3Schema: Required value
            spec.versions[1].schema.openAPIV3Schema: Required value
            spec.versions[0].name: Invalid value: "V1": a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')
            spec.versions[1].name: Invalid value: "V1": a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')
            spec.versions[1].additionalPrinterColumns[0].type: Invalid value: "x": must be one of boolean,date,integer,number,string
            spec.versions[1].additionalPrinterColumns[0].JSONPath: Invalid value: "a": must be a simple json path starting with .
            spec.versions: Invalid value: [{"Name":"V1","Served":false,"Storage":false,"Deprecated":false,"DeprecationWarning":null,"Schema":null,"Subresources":null,"AdditionalPrinterColumns":null,"SelectableFields":null},{"Name":"V1","Served":false,"Storage":false,"Deprecated":false,"DeprecationWarning":null,"Schema":null,"Subresources":null,"AdditionalPrinterColumns":[{"Name":"n","Type":"x","Format":"","Description":"","Priority":0,"JSONPath":"a"}],"SelectableFields":null}]: must contain unique version names
            spec.versions: Invalid value: [{"Name":"V1","Served":false,"Storage":false,"Deprecated":false,"DeprecationWarning":null,"Schema":null,"Subresources":null,"AdditionalPrinterColumns":null,"SelectableFields":null},{"Name":"V1","Served":false,"Storage":false,"Deprecated":false,"DeprecationWarning":null,"Schema":null,"Subresources":null,"AdditionalPrinterColumns":[{"Name":"n","Type":"x","Format":"","Description":"","Priority":0,"JSONPath":"a"}],"SelectableFields":null}]: must have exactly one version marked as storage version
            spec.version: Invalid value: "V1": a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')
            spec.names.plural: Invalid value: "Foos": a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')
            spec.names.shortNames[0]: Invalid value: "A": a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')
            spec.names.listKind: Invalid value: "Foo": kind and listKind may not be the same
            status.storedVersions: Invalid value: null: must have at least one stored version"#]],
    );
    change_refused(
        group,
        "CustomResourceDefinition",
        good,
        |new| new["spec"]["versions"][0]["name"] = json!("v2"),
        &expect![[
            r#"status.storedVersions[0]: Invalid value: "v1": missing from spec.versions; v1 was previously a storage version, and must remain in spec.versions until a storage migration ensures no data remains persisted in v1 and removes v1 from status.storedVersions"#
        ]],
    );
}

#[test]
fn schemas_of_custom_resource_definitions() {
    let group = "apiextensions.k8s.io";
    let definition = |schema: Value, more: Value| {
        let mut version = json!({"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}});
        version.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({"metadata": {"name": "foos.a.b"}, "spec": {"group": "a.b", "scope": "Namespaced",
            "names": {"kind": "Foo", "plural": "foos"}, "versions": [version]}})
    };
    let status = json!({"subresources": {"status": {}}});
    accepted(
        group,
        "CustomResourceDefinition",
        definition(json!({"type": "object", "description": "x"}), status.clone()),
    );
    // What all versions share is reported for the whole definition.
    refused(
        group,
        "CustomResourceDefinition",
        definition(
            json!({"type": "object", "properties": {"a": {}, "l": {"type": "array", "items": {"type": "string"},
                "x-kubernetes-validations": [{"rule": "self.all(x, self.all(y, x != y))"}]}}}),
            json!({"selectableFields": [{"jsonPath": ".b"}, {"jsonPath": ".l"}],
                "subresources": {"scale": {"specReplicasPath": ".status.n", "statusReplicasPath": "n"}},
                "deprecationWarning": "old"}),
        ),
        &expect![[r#"
            spec.versions[0].deprecationWarning: Invalid value: "old": can only be set for deprecated versions
            spec.validation.openAPIV3Schema.properties[a].type: Required value: must not be empty for specified object fields
            spec.subresources.scale.specReplicasPath: Invalid value: ".status.n": should be a json path under .spec
            spec.subresources.scale.statusReplicasPath: Invalid value: "n": must be a simple json path starting with .
            spec.selectableFields[0].jsonPath: Invalid value: ".b": is an invalid path: does not refer to a valid field
            spec.selectableFields[1].jsonPath: Invalid value: ".l": must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed."#]],
    );
    let mut two = definition(json!({"type": "object", "maxProperties": 3}), status);
    let second =
        json!({"name": "v2", "served": true, "storage": false, "schema": {"openAPIV3Schema": {"type": "string"}}});
    two["spec"]["versions"].as_array_mut().unwrap().push(second);
    two["metadata"]["name"] = json!("foos.a.k8s.io");
    two["spec"]["group"] = json!("a.k8s.io");
    refused(
        group,
        "CustomResourceDefinition",
        two,
        &expect![[r#"
        spec.versions[0].schema.openAPIV3Schema: Invalid value: {"ID":"","Schema":"","Ref":null,"Description":"","Type":"object","Nullable":false,"Format":"","Title":"","Default":null,"Maximum":null,"ExclusiveMaximum":false,"Minimum":null,"ExclusiveMinimum":false,"MaxLength":null,"MinLength":null,"Pattern":"","MaxItems":null,"MinItems":null,"UniqueItems":false,"MultipleOf":null,"Enum":null,"MaxProperties":3,"MinProperties":null,"Required":null,"Items":null,"AllOf":null,"OneOf":null,"AnyOf":null,"Not":null,"Properties":null,"AdditionalProperties":null,"PatternProperties":null,"Dependencies":null,"AdditionalItems":null,"Definitions":null,"ExternalDocs":null,"Example":null,"XPreserveUnknownFields":null,"XEmbeddedResource":false,"XIntOrString":false,"XListMapKeys":null,"XListType":null,"XMapType":null,"XValidations":null}: only [Description Type Format Title Maximum ExclusiveMaximum Minimum ExclusiveMinimum MaxLength MinLength Pattern MaxItems MinItems UniqueItems MultipleOf Required Items Properties ExternalDocs Example XPreserveUnknownFields XValidations] fields are allowed at the root of the schema if the status subresource is enabled
        spec.versions[1].schema.openAPIV3Schema.type: Invalid value: "string": must be object at the root
        metadata.annotations[api-approved.kubernetes.io]: Required value: protected groups must have approval annotation "api-approved.kubernetes.io", see https://github.com/kubernetes/enhancements/pull/1111"#]],
    );
}

#[test]
fn webhook_configurations() {
    let group = "admissionregistration.k8s.io";
    refused(
        group,
        "ValidatingWebhookConfiguration",
        json!({"webhooks": [{"name": "short", "clientConfig": {}}, {"name": "a.b.c", "clientConfig": {"url": "http://x"}, "sideEffects": "Some", "timeoutSeconds": 31, "admissionReviewVersions": ["v9", "v9"],
        "rules": [{"operations": ["*", "CREATE"], "apiGroups": ["*", "a"], "apiVersions": [], "scope": "X"}]}]}),
        &expect![[r#"
            webhooks[0].name: Invalid value: "short": should be a domain with at least three segments separated by dots
            webhooks[0].sideEffects: Required value: must specify one of None, NoneOnDryRun
            webhooks[0].clientConfig: Required value: exactly one of url or service is required
            webhooks[0].admissionReviewVersions: Required value: must specify one of v1, v1beta1
            webhooks[1].rules[0].operations: Invalid value: ["*","CREATE"]: if '*' is present, must not specify other operations
            webhooks[1].rules[0].apiGroups: Invalid value: ["*","a"]: if '*' is present, must not specify other API groups
            webhooks[1].rules[0].apiVersions: Required value
            webhooks[1].rules[0].resources: Required value
            webhooks[1].rules[0].scope: Unsupported value: "X": supported values: "*", "Cluster", "Namespaced"
            webhooks[1].sideEffects: Unsupported value: "Some": supported values: "None", "NoneOnDryRun"
            webhooks[1].timeoutSeconds: Invalid value: 31: the timeout value must be between 1 and 30 seconds
            webhooks[1].clientConfig.url: Invalid value: "http": 'https' is the only allowed URL scheme; desired format: https://host[/path]
            webhooks[1].admissionReviewVersions[1]: Invalid value: "v9": duplicate version
            webhooks[1].admissionReviewVersions: Invalid value: ["v9","v9"]: must include at least one of v1, v1beta1"#]],
    );
    accepted(
        group,
        "MutatingWebhookConfiguration",
        json!({"webhooks": [{"name": "a.b.c", "clientConfig": {"service": {"name": "s", "namespace": "n"}}, "sideEffects": "None", "admissionReviewVersions": ["v1"],
        "rules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}]}]}),
    );
    refused(
        "apiregistration.k8s.io",
        "APIService",
        json!({"spec": {"service": {"name": "s"}}}),
        &expect![[r#"
        metadata.name: Invalid value: "x": must be `spec.version+"."+spec.group`: "."
        spec.group: Required value: only v1 may have an empty group and it better be legacy kube
        spec.version: Invalid value: "": a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')
        spec.groupPriorityMinimum: Invalid value: 0: must be positive and less than 20000
        spec.versionPriority: Invalid value: 0: must be positive and less than 1000
        spec.service.namespace: Required value"#]],
    );
    accepted(
        "apiregistration.k8s.io",
        "APIService",
        json!({"metadata": {"name": "v1.a.b"}, "spec": {"group": "a.b", "version": "v1", "groupPriorityMinimum": 100, "versionPriority": 10}}),
    );
}
