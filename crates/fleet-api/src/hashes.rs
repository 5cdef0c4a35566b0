//! Every hash that is stored in an object: lower-case hex SHA-256 of Go's JSON, byte-compatible with the Go agents.

use k8s_values::go;
use serde::Serialize;
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use crate::types::{
    Base64, ClusterResourceOverrideSpec, EmbeddedObject, EnvelopeType, NamespacedName, OverridePolicy, PlacementPolicy,
    ResourceOverrideSpec,
};

/// Lower-case hex SHA-256 of a value's Go JSON.
fn hash(value: &impl Serialize) -> String {
    hex(&Sha256::digest(go::json_bytes(value)))
}

fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]).map(|digit| char::from(DIGITS[usize::from(digit)])).collect()
}

/// Some hash fields contain bytes; these are the hex text.
fn as_field(hash: String) -> Base64 {
    Base64(hash.into_bytes())
}

/// `policyHash` of a policy snapshot. The number of clusters is excluded: changing it creates no new snapshot.
pub fn policy_hash(policy: Option<&PlacementPolicy>) -> Base64 {
    as_field(hash(&policy.map(|policy| {
        let mut policy = policy.clone();
        policy.number_of_clusters = None;
        forget_empty(&mut policy.cluster_names);
        forget_empty(&mut policy.topology_spread_constraints);
        forget_empty(&mut policy.tolerations);
        policy
    })))
}

/// `overrideHash` of a ClusterResourceOverride's snapshot.
pub fn cluster_override_hash(spec: &ClusterResourceOverrideSpec) -> Base64 {
    let mut spec = spec.clone();
    as_hashed(&mut spec.policy);
    as_field(hash(&spec))
}

/// `overrideHash` of a ResourceOverride's snapshot.
pub fn override_hash(spec: &ResourceOverrideSpec) -> Base64 {
    let mut spec = spec.clone();
    as_hashed(&mut spec.policy);
    as_field(hash(&spec))
}

/// Go omits empty optional lists, and writes a patch without a value as one with the value null.
fn as_hashed(policy: &mut OverridePolicy) {
    for rule in &mut policy.override_rules {
        forget_empty(&mut rule.json_patch_overrides);
        for patch in rule.json_patch_overrides.iter_mut().flatten() {
            patch.value.get_or_insert(Value::Null);
        }
    }
}

fn forget_empty<T>(list: &mut Option<Vec<T>>) {
    list.take_if(|list| list.is_empty());
}

/// The `resource-hash` annotation of a master snapshot: over the whole group, before it is split.
pub fn resource_hash(selected: &[EmbeddedObject]) -> String {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Group<'a> {
        selected_resources: &'a [EmbeddedObject],
    }
    hash(&Group { selected_resources: selected })
}

/// The annotation of a Work for the binding's ResourceOverride snapshots.
pub fn override_list_hash(snapshots: Option<&[NamespacedName]>) -> String {
    hash(&snapshots)
}

/// The annotation of a Work for the binding's ClusterResourceOverride snapshots.
pub fn cluster_override_list_hash(snapshots: Option<&[String]>) -> String {
    hash(&snapshots)
}

/// Number of bytes of the hash at the end of an envelope Work's name.
const ENVELOPE_SUFFIX_BYTES: usize = 8;

/// The last part of the name of an envelope's Work. `namespace` is empty for a ClusterResourceEnvelope.
pub fn envelope_suffix(kind: EnvelopeType, namespace: &str, name: &str) -> String {
    let digest = Sha256::digest(format!("{kind}/{namespace}/{name}"));
    hex(&digest[..ENVELOPE_SUFFIX_BYTES])
}

/// The `spec-hash` annotation of an applied object: over the compared fields of its manifest.
pub fn spec_hash(manifest: &Value) -> String {
    let mut compared = manifest.clone();
    keep_compared(&mut compared);
    hash(&compared)
}

/// Fields of `metadata` that a server sets, or that identify the object.
const NOT_COMPARED_METADATA: &[&str] = &[
    "name",
    "namespace",
    "generateName",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "resourceVersion",
    "selfLink",
    "uid",
    "creationTimestamp",
];

/// Labels and annotations whose key contains one of these belong to Kubernetes or to us.
const NOT_COMPARED_DOMAINS: &[&str] = &["kubernetes.io/", "k8s.io/", "kubernetes-fleet.io/"];

/// Removes fields that are neither compared nor hashed: server-set metadata, Kubernetes' own labels and annotations,
/// owners, status.
pub fn keep_compared(object: &mut Value) {
    let Some(fields) = object.as_object_mut() else { return };
    fields.remove("status");
    let metadata = fields.entry("metadata").or_insert_with(|| json!({}));
    if let Some(metadata) = metadata.as_object_mut() {
        metadata.retain(|key, _| !NOT_COMPARED_METADATA.contains(&key.as_str()));
        for map in ["annotations", "labels"] {
            let kept = metadata.get(map).and_then(Value::as_object).map(own_keys).unwrap_or_default();
            metadata.insert(map.to_owned(), Value::Object(kept));
        }
        for list in ["finalizers", "managedFields", "ownerReferences"] {
            metadata.insert(list.to_owned(), json!([]));
        }
    }
    for pointer in ["/spec/template/metadata", "/spec/jobTemplate/spec/template/metadata"] {
        if let Some(template) = object.pointer_mut(pointer).and_then(Value::as_object_mut) {
            template.remove("creationTimestamp");
        }
    }
}

fn own_keys(map: &Map<String, Value>) -> Map<String, Value> {
    let foreign = |key: &str| NOT_COMPARED_DOMAINS.iter().any(|domain| key.contains(domain));
    map.iter().filter(|(key, _)| !foreign(key)).map(|(key, value)| (key.clone(), value.clone())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::de::DeserializeOwned;

    fn read<T: DeserializeOwned>(text: &str) -> T {
        serde_json::from_str(text).unwrap()
    }

    fn text(field: &Base64) -> String {
        String::from_utf8(field.0.clone()).unwrap()
    }

    fn policy(json: &str, expected: &str) {
        assert_eq!(text(&policy_hash(Some(&read(json)))), expected, "{json}");
    }

    #[test]
    fn policy_hashes_equal_the_references() {
        assert_eq!(text(&policy_hash(None)), "74234e98afe7498fb5daf1f36ac2d78acc339464f950703b8c019892f982b90b");
        policy(r#"{"placementType":"PickAll"}"#, "8cc57dee59684ff88766e26936c8fb125f4bde234a2beb5c54aded4569db0d5a");
        policy(
            r#"{"clusterNames":["m1","m2"],"placementType":"PickFixed"}"#,
            "bb410704e8b844f5c3adb98285e2fb71b4d6ce92d0faf4ee7a6064e4723525c5",
        );
        policy(
            r#"{"placementType":"PickN","numberOfClusters":3,"affinity":{"clusterAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"clusterSelectorTerms":[{"labelSelector":{"matchLabels":{"env":"prod"},"matchExpressions":[{"key":"tier","operator":"In","values":["b","a"]}]},"propertySelector":{"matchExpressions":[{"name":"kubernetes-fleet.io/node-count","operator":"Ge","values":["3"]}]}}]},"preferredDuringSchedulingIgnoredDuringExecution":[{"weight":20,"preference":{"propertySorter":{"name":"resources.kubernetes-fleet.io/available-cpu","sortOrder":"Descending"}}}]}},"topologySpreadConstraints":[{"maxSkew":2,"topologyKey":"region","whenUnsatisfiable":"DoNotSchedule"}],"tolerations":[{"key":"k","operator":"Equal","value":"v","effect":"NoSchedule"}]}"#,
            "f6db3bd59845c13282f942b2b290734d580a71db43a29c3f41cfb053db1ec887",
        );
    }

    #[test]
    fn empty_optional_lists_and_the_number_of_clusters_are_not_hashed() {
        let plain: PlacementPolicy = read(r#"{"placementType":"PickN"}"#);
        let padded: PlacementPolicy = read(
            r#"{"placementType":"PickN","numberOfClusters":0,"clusterNames":[],"tolerations":[],"topologySpreadConstraints":[]}"#,
        );
        assert_eq!(policy_hash(Some(&plain)), policy_hash(Some(&padded)));
    }

    #[test]
    fn the_stored_bytes_are_the_hex_text() {
        assert_eq!(
            serde_json::to_string(&policy_hash(None)).unwrap(),
            "\"NzQyMzRlOThhZmU3NDk4ZmI1ZGFmMWYzNmFjMmQ3OGFjYzMzOTQ2NGY5NTA3MDNiOGMwMTk4OTJmOTgyYjkwYg==\""
        );
    }

    #[test]
    fn override_hashes_equal_the_references() {
        let cluster: ClusterResourceOverrideSpec = read(
            r#"{"placement":{"name":"crp","scope":"Cluster"},"clusterResourceSelectors":[{"group":"rbac.authorization.k8s.io","version":"v1","kind":"ClusterRole","name":"reader","selectionScope":"NamespaceWithResources"}],"policy":{"overrideRules":[{"clusterSelector":{"clusterSelectorTerms":[{"labelSelector":{"matchLabels":{"env":"prod"}}}]},"overrideType":"JSONPatch","jsonPatchOverrides":[{"op":"remove","path":"/rules/0"},{"op":"add","path":"/metadata/labels/a","value":"x<y"}]}]}}"#,
        );
        assert_eq!(
            text(&cluster_override_hash(&cluster)),
            "618c769afc3ba95d53b8d339e727c50fbf68dacba963ef1320a88d2694007714"
        );
        let namespaced: ResourceOverrideSpec = read(
            r#"{"resourceSelectors":[{"group":"apps","version":"v1","kind":"Deployment","name":"web"}],"policy":{"overrideRules":[{"clusterSelector":{"clusterSelectorTerms":[]},"overrideType":"Delete"}]}}"#,
        );
        assert_eq!(
            text(&override_hash(&namespaced)),
            "de2c6fefaee330733270d86624c92d3a41c6719851e775e6807776d7ba10ff68"
        );
    }

    #[test]
    fn resource_hashes_equal_the_references() {
        let namespace: EmbeddedObject = read(
            r#"{"kind":"Namespace","apiVersion":"v1","spec":{"finalizers":["kubernetes"]},"metadata":{"name":"app"}}"#,
        );
        assert_eq!(resource_hash(&[namespace]), "3f5c39cf43d867e08554c30f920faf89dab0be77cd42972ef1a20f91aefc861c");
        assert_eq!(resource_hash(&[]), "83ff749c5d8eb5a0b62d714175bcbaef1409b371fc5a229a002db6fcc1f144e1");
    }

    #[test]
    fn override_list_hashes_equal_the_references() {
        let absent = "74234e98afe7498fb5daf1f36ac2d78acc339464f950703b8c019892f982b90b";
        let empty = "4f53cda18c2baa0c0354bb5f9a3ecbe5ed12ab4d8e11ba873c2f11161202b945";
        assert_eq!(override_list_hash(None), absent);
        assert_eq!(cluster_override_list_hash(None), absent);
        assert_eq!(override_list_hash(Some(&[])), empty);
        assert_eq!(
            cluster_override_list_hash(Some(&["cro-0".to_owned()])),
            "e8491fec37a267069f4a999f2693581d33d816032a7caecf1fc90072974696db"
        );
        let snapshot = NamespacedName { name: "ro-1".to_owned(), namespace: "app".to_owned() };
        assert_eq!(
            override_list_hash(Some(&[snapshot])),
            "6e18436a541d2f5a00ec28fd9234a935a8d5102661cbf6bc91adc5882de40ba0"
        );
    }

    #[test]
    fn envelope_suffixes_equal_the_references() {
        assert_eq!(envelope_suffix(EnvelopeType::ResourceEnvelope, "app", "env"), "7efbd00be75b5f4b");
        assert_eq!(envelope_suffix(EnvelopeType::ClusterResourceEnvelope, "", "env"), "dfc9248c63f11eba");
    }

    #[test]
    fn spec_hashes_equal_the_references() {
        assert_eq!(
            spec_hash(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "app"}})),
            "4b58955643cce460a35dc822c0b341df7c5e9350dba8cacfc84e8ab60e2ce0e8"
        );
        assert_eq!(
            spec_hash(&json!({
                "apiVersion": "v1", "kind": "ConfigMap", "data": {"k": "v"},
                "metadata": {"name": "cm", "namespace": "app", "uid": "u", "labels": {"app.kubernetes.io/name": "x", "team": "a"}},
                "status": {"never": "hashed"},
            })),
            "4474732b606c87a1c9783ba8d8e2f01591530b546fd06ac868d9bb640ed4f121"
        );
    }
}
