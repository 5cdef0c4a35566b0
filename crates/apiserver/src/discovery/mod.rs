//! Discovery: groups, versions and resources, in the legacy and in the aggregated form.

pub(crate) mod cache;
pub(crate) mod catalog;
pub(crate) mod info;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

pub(crate) use cache::CatalogCache;
pub(crate) use catalog::{ApiResource, ApiSubresource, Catalog, Group, KindSource, Printed};

/// `/api`.
pub(crate) fn legacy_versions(server_address: &str) -> Value {
    json!({"kind": "APIVersions", "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": server_address}]})
}

/// `/apis`: all groups but the core one.
pub(crate) fn group_list(catalog: &Catalog) -> Value {
    let groups: Vec<Value> = catalog.named_groups().map(group_fields).map(Value::Object).collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

/// `/apis/<group>`.
pub(crate) fn group(catalog: &Catalog, name: &str) -> Option<Value> {
    let found = catalog.named_groups().find(|group| group.name == name)?;
    let mut fields = group_fields(found);
    fields.insert("kind".to_owned(), json!("APIGroup"));
    fields.insert("apiVersion".to_owned(), json!("v1"));
    Some(Value::Object(fields))
}

fn group_fields(group: &Group) -> Map<String, Value> {
    let version = |name: &str| json!({"groupVersion": format!("{}/{name}", group.name), "version": name});
    let versions: Vec<Value> = group.versions.iter().map(|(name, _)| version(name)).collect();
    let mut out = Map::new();
    out.insert("name".to_owned(), json!(group.name));
    out.insert("preferredVersion".to_owned(), versions.first().cloned().unwrap_or_default());
    out.insert("versions".to_owned(), json!(versions));
    out
}

/// `/api/v1` and `/apis/<group>/<version>`.
pub(crate) fn resource_list(catalog: &Catalog, group: &str, version: &str) -> Option<Value> {
    let resources = catalog.resources(group, version)?;
    let mut entries: Vec<(String, Value)> = Vec::new();
    for resource in resources {
        let mut entry = json!({"name": resource.plural, "singularName": resource.singular,
            "namespaced": resource.namespaced, "kind": resource.kind, "verbs": resource.verbs});
        put_unless_empty(&mut entry, "shortNames", &resource.short_names);
        put_unless_empty(&mut entry, "categories", &resource.categories);
        if let Some(stored) = &resource.stored_as {
            entry["storageVersionHash"] = json!(storage_version_hash(stored));
        }
        entries.push((resource.plural.clone(), entry));
        for sub in &resource.subresources {
            let name = format!("{}/{}", resource.plural, sub.name);
            // Custom resources name their status before their scale, all others go by name.
            let place = if resource.strategic_merge || sub.name != "status" {
                name.clone()
            } else {
                format!("{}/", resource.plural)
            };
            let mut entry = json!({"name": name, "singularName": "", "namespaced": resource.namespaced,
                "kind": sub.kind, "verbs": sub.verbs});
            if !sub.version.is_empty() {
                entry["group"] = json!(sub.group);
                entry["version"] = json!(sub.version);
            }
            entries.push((place, entry));
        }
    }
    entries.sort_by(|a, b| a.0.cmp(&b.0));
    let resources: Vec<Value> = entries.into_iter().map(|(_, entry)| entry).collect();
    let mut out = json!({"kind": "APIResourceList", "groupVersion": join(group, version), "resources": resources});
    if !group.is_empty() {
        out["apiVersion"] = json!("v1");
    }
    Some(out)
}

/// The storage version hash, which changes with the stored version; `stored` is `group/version/Kind`.
fn storage_version_hash(stored: &str) -> String {
    /// Number of bytes of the digest that are shown.
    const SHOWN_BYTES: usize = 8;
    STANDARD.encode(&Sha256::digest(stored)[..SHOWN_BYTES])
}

/// Aggregated discovery: the core group (`/api`) or all others (`/apis`).
pub(crate) fn aggregated(catalog: &Catalog, core: bool) -> &Printed {
    catalog.aggregated(core, || printed(&aggregated_groups(catalog, core)))
}

fn aggregated_groups(catalog: &Catalog, core: bool) -> Value {
    let items: Vec<Value> =
        catalog.groups.iter().filter(|group| group.name.is_empty() == core).map(aggregated_group).collect();
    json!({"kind": "APIGroupDiscoveryList", "apiVersion": format!("apidiscovery.k8s.io/{AGGREGATED_VERSION}"),
        "metadata": {}, "items": items})
}

/// The version in which aggregated discovery is served.
pub(crate) const AGGREGATED_VERSION: &str = "v2";

/// A document with the tag by which clients ask for it again.
pub(crate) fn printed(document: &Value) -> Printed {
    let json = Bytes::from(document.to_string());
    let hex = Sha256::digest(&json).iter().fold(String::new(), |out, byte| out + &format!("{byte:02X}"));
    Printed { json, etag: format!("\"{hex}\"") }
}

fn aggregated_group(group: &Group) -> Value {
    let metadata = if group.name.is_empty() { json!({}) } else { json!({"name": group.name}) };
    let versions: Vec<Value> = group
        .versions
        .iter()
        .map(|(version, resources)| {
            let mut sorted: Vec<_> = resources.iter().collect();
            sorted.sort_by(|a, b| a.plural.cmp(&b.plural));
            let resources: Vec<Value> = sorted.into_iter().map(|resource| aggregated_resource(resource)).collect();
            json!({"version": version, "resources": resources, "freshness": "Current"})
        })
        .collect();
    json!({"metadata": metadata, "versions": versions})
}

fn aggregated_resource(resource: &ApiResource) -> Value {
    let ApiResource { kind, .. } = resource;
    // Built-in kinds leave out what is that of the group they are listed under; custom ones repeat it.
    let own = if resource.strategic_merge { ("", "") } else { (resource.group.as_str(), resource.version.as_str()) };
    let mut out = json!({"resource": resource.plural, "singularResource": resource.singular, "verbs": resource.verbs,
        "responseKind": {"group": own.0, "version": own.1, "kind": kind},
        "scope": if resource.namespaced { "Namespaced" } else { "Cluster" }});
    put_unless_empty(&mut out, "shortNames", &resource.short_names);
    put_unless_empty(&mut out, "categories", &resource.categories);
    let subresources: Vec<Value> = resource
        .subresources
        .iter()
        .map(|sub| {
            let (group, version) = if sub.version.is_empty() { own } else { (&*sub.group, &*sub.version) };
            json!({"subresource": sub.name, "verbs": sub.verbs,
                "responseKind": {"group": group, "version": version, "kind": sub.kind}})
        })
        .collect();
    if !subresources.is_empty() {
        out["subresources"] = json!(subresources);
    }
    out
}

fn put_unless_empty(out: &mut Value, key: &str, list: &[String]) {
    if !list.is_empty() {
        out[key] = json!(list);
    }
}

/// `v1` or `apps/v1`.
pub(crate) fn join(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use catalog::tests::sample;
    use expect_test::expect;

    #[test]
    fn legacy_documents() {
        let catalog = sample();
        expect![[r#"{"kind":"APIVersions","serverAddressByClientCIDRs":[{"clientCIDR":"0.0.0.0/0","serverAddress":"127.0.0.1:6443"}],"versions":["v1"]}"#]]
            .assert_eq(&legacy_versions("127.0.0.1:6443").to_string());
        expect![[r#"{"apiVersion":"v1","groups":[{"name":"apps","preferredVersion":{"groupVersion":"apps/v1","version":"v1"},"versions":[{"groupVersion":"apps/v1","version":"v1"}]},{"name":"example.com","preferredVersion":{"groupVersion":"example.com/v1","version":"v1"},"versions":[{"groupVersion":"example.com/v1","version":"v1"},{"groupVersion":"example.com/v1beta1","version":"v1beta1"}]}],"kind":"APIGroupList"}"#]]
            .assert_eq(&group_list(&catalog).to_string());
        expect![[r#"{"apiVersion":"v1","kind":"APIGroup","name":"apps","preferredVersion":{"groupVersion":"apps/v1","version":"v1"},"versions":[{"groupVersion":"apps/v1","version":"v1"}]}"#]]
            .assert_eq(&group(&catalog, "apps").unwrap().to_string());
        assert_eq!(group(&catalog, ""), None);
        expect![[r#"{"groupVersion":"v1","kind":"APIResourceList","resources":[{"kind":"Pod","name":"pods","namespaced":true,"shortNames":["po"],"singularName":"pod","verbs":["create","get","list","watch"]},{"kind":"Pod","name":"pods/status","namespaced":true,"singularName":"","verbs":["get","patch","update"]}]}"#]]
            .assert_eq(&resource_list(&catalog, "", "v1").unwrap().to_string());
        assert_eq!(resource_list(&catalog, "apps", "v2"), None);
        let deployments = resource_list(&catalog, "apps", "v1").unwrap();
        assert_eq!(
            (&deployments["apiVersion"], &deployments["resources"][1]["group"]),
            (&json!("v1"), &json!("autoscaling"))
        );
    }

    #[test]
    fn the_storage_version_hash_is_published() {
        assert_eq!(storage_version_hash("apps/v1/Deployment"), "8aSe+NMegvE=");
        assert_eq!(storage_version_hash("/v1/Event"), "r2yiGXH7wu8=");
    }

    #[test]
    fn aggregated_documents() {
        let catalog = sample();
        expect![[r#"{"apiVersion":"apidiscovery.k8s.io/v2","items":[{"metadata":{},"versions":[{"freshness":"Current","resources":[{"resource":"pods","responseKind":{"group":"","kind":"Pod","version":"v1"},"scope":"Namespaced","shortNames":["po"],"singularResource":"pod","subresources":[{"responseKind":{"group":"","kind":"Pod","version":"v1"},"subresource":"status","verbs":["get","patch","update"]}],"verbs":["create","get","list","watch"]}],"version":"v1"}]}],"kind":"APIGroupDiscoveryList","metadata":{}}"#]]
            .assert_eq(&aggregated_groups(&catalog, true).to_string());
        let named = aggregated_groups(&catalog, false);
        assert_eq!(named["items"][1]["metadata"]["name"], "example.com");
        assert_eq!(
            named["items"][0]["versions"][0]["resources"][0]["subresources"][0]["responseKind"]["kind"],
            "Scale"
        );
        let (first, second) = (aggregated(&catalog, true), aggregated(&catalog, true));
        assert!(std::ptr::eq(first, second), "it is printed once");
        assert_eq!(first.json, aggregated_groups(&catalog, true).to_string());
        assert_ne!(first.etag, aggregated(&catalog, false).etag);
    }
}
