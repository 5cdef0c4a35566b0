//! The objects of the agents. The files in `manifests/` are rendered from the charts, with `${NAME}` in place of the values that
//! the commands set; a test renders the charts again and compares. Values replace placeholders in parsed strings, so a value
//! cannot add fields or objects.

use anyhow::{Context as _, bail};
use fleet_api::kinds::{AppliedWork, MemberCluster, all_crds};
use fleet_api::well_known::labels::MANAGED_BY;
use fleet_api::well_known::namespaces::FLEET_SYSTEM;
use fleet_core::doctor::Denied;
use fleet_runtime::KindId;
use serde_json::{Value, json};

const HUB: &str = include_str!("manifests/hub.yaml");
const MEMBER: &str = include_str!("manifests/member.yaml");

/// Our value of the label `MANAGED_BY`.
pub(crate) const US: &str = "kubefleet";

/// The Deployments of the agents.
pub(crate) const HUB_AGENT: &str = "hub-agent";
pub(crate) const MEMBER_AGENT: &str = "member-agent";
/// The variable of the member agent that names its cluster.
pub(crate) const CLUSTER_VARIABLE: &str = "MEMBER_CLUSTER_NAME";
/// The variable with the CA of the hub. Without a CA the agent must not have it.
const AUTHORITY_VARIABLE: &str = "HUB_CERTIFICATE_AUTHORITY";
/// The Secret on a member with the token for the hub.
pub(crate) const TOKEN_SECRET: &str = "hub-kubeconfig-secret";

/// What both agents need to know.
#[derive(Debug)]
pub(crate) struct Images<'a> {
    pub(crate) registry: &'a str,
    pub(crate) tag: &'a str,
}

/// What the agent of a member needs to know.
#[derive(Debug)]
pub(crate) struct Membership<'a> {
    pub(crate) cluster: &'a str,
    pub(crate) hub_url: &'a str,
    /// The CA of the hub, PEM in base64; empty for the CAs of the image.
    pub(crate) hub_ca: &'a str,
}

/// The namespace of the agents.
pub(crate) fn namespace() -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": FLEET_SYSTEM}})
}

/// The CustomResourceDefinitions of the hub.
pub(crate) fn hub_definitions() -> Vec<Value> {
    let of_members = AppliedWork::crd().info.crd_name();
    all_crds().into_iter().filter(|crd| crd.info.crd_name() != of_members).map(|crd| crd.object).collect()
}

/// The CustomResourceDefinition of a member.
pub(crate) fn member_definitions() -> Vec<Value> {
    vec![AppliedWork::crd().object]
}

/// The hub agent with its permissions.
pub(crate) fn hub(images: &Images<'_>, enable_workload: bool) -> anyhow::Result<Vec<Value>> {
    let enable_workload = enable_workload.to_string();
    filled(HUB, &[("REGISTRY", images.registry), ("VERSION", images.tag), ("ENABLE_WORKLOAD", &enable_workload)])
}

/// The agent of a member with its permissions there.
pub(crate) fn member(images: &Images<'_>, membership: &Membership<'_>) -> anyhow::Result<Vec<Value>> {
    let mut objects = filled(
        MEMBER,
        &[
            ("REGISTRY", images.registry),
            ("VERSION", images.tag),
            ("CLUSTER", membership.cluster),
            ("HUB_URL", membership.hub_url),
            ("HUB_CA", membership.hub_ca),
        ],
    )?;
    if membership.hub_ca.is_empty() {
        let variables = objects.iter_mut().filter_map(|one| one.pointer_mut("/spec/template/spec/containers/0/env"));
        for list in variables.filter_map(Value::as_array_mut) {
            list.retain(|variable| variable["name"] != AUTHORITY_VARIABLE);
        }
    }
    Ok(objects)
}

/// The name of the cluster that a Deployment of a member agent is for.
pub(crate) fn cluster_of(deployment: &Value) -> Option<&str> {
    let variables = deployment.pointer("/spec/template/spec/containers/0/env")?.as_array()?;
    variables.iter().find(|one| one["name"] == CLUSTER_VARIABLE)?["value"].as_str()
}

/// The identity of a member on the hub: a service account, and a Secret that the hub fills with its token.
pub(crate) fn identity(cluster: &str) -> [Value; 2] {
    let labels = json!({MANAGED_BY: US});
    [
        json!({"apiVersion": "v1", "kind": "ServiceAccount",
            "metadata": {"name": cluster, "namespace": FLEET_SYSTEM, "labels": labels}}),
        json!({"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/service-account-token",
            "metadata": {"name": token_name(cluster), "namespace": FLEET_SYSTEM, "labels": labels,
                "annotations": {"kubernetes.io/service-account.name": cluster}}}),
    ]
}

/// The Secret with the token of a member on the hub.
pub(crate) fn token_name(cluster: &str) -> String {
    format!("{cluster}-token")
}

pub(crate) fn member_cluster(cluster: &str, labels: &[(String, String)]) -> Value {
    let mut object = json!({"apiVersion": MemberCluster::INFO.api_version(), "kind": MemberCluster::INFO.kind,
        "metadata": {"name": cluster},
        "spec": {"identity": {"kind": "ServiceAccount", "name": cluster, "namespace": FLEET_SYSTEM}}});
    if !labels.is_empty() {
        object["metadata"]["labels"] = labels.iter().map(|(key, value)| (key.clone(), json!(value))).collect();
    }
    object
}

/// The token for the hub on the member. `token` is base64, as in the Secret on the hub.
pub(crate) fn token_secret(token: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "type": "Opaque",
        "metadata": {"name": TOKEN_SECRET, "namespace": FLEET_SYSTEM, "labels": {MANAGED_BY: US}},
        "data": {"token": token}})
}

fn filled(text: &str, values: &[(&str, &str)]) -> anyhow::Result<Vec<Value>> {
    let mut objects = fleet_api::yaml::documents(text).context("the manifests of this program are damaged")?;
    objects.iter_mut().try_for_each(|object| fill(object, values))?;
    Ok(objects)
}

fn fill(value: &mut Value, values: &[(&str, &str)]) -> anyhow::Result<()> {
    match value {
        Value::String(text) => *text = replaced(text, values)?,
        Value::Array(items) => items.iter_mut().try_for_each(|item| fill(item, values))?,
        Value::Object(fields) => fields.values_mut().try_for_each(|field| fill(field, values))?,
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
    Ok(())
}

/// The text with a value in place of each placeholder. Values are not searched for placeholders.
fn replaced(text: &str, values: &[(&str, &str)]) -> anyhow::Result<String> {
    let mut parts = text.split("${");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (name, rest) = part.split_once('}').with_context(|| format!("unfinished placeholder in {text:?}"))?;
        let Some((_, value)) = values.iter().find(|(known, _)| *known == name) else {
            bail!("unknown placeholder {name:?} in {text:?}");
        };
        out.push_str(value);
        out.push_str(rest);
    }
    Ok(out)
}

/// A permission that an agent needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Right {
    /// `None` for all namespaces.
    pub(crate) namespace: Option<String>,
    pub(crate) group: String,
    pub(crate) resource: String,
    pub(crate) subresource: String,
    /// Empty for all names.
    pub(crate) name: String,
    pub(crate) verb: String,
}

impl Right {
    pub(crate) fn denied(&self, user: &str) -> Denied {
        let group = if self.group.is_empty() { String::new() } else { format!(".{}", self.group) };
        let subresource = if self.subresource.is_empty() { String::new() } else { format!("/{}", self.subresource) };
        Denied {
            user: user.to_owned(),
            verb: self.verb.clone(),
            resource: format!("{}{group}{subresource}", self.resource),
            namespace: self.namespace.clone(),
        }
    }
}

/// The permissions of the hub agent.
pub(crate) fn hub_rights() -> Vec<Right> {
    rights_in(HUB)
}

/// The permissions of the member agent on its own cluster.
pub(crate) fn member_rights() -> Vec<Right> {
    rights_in(MEMBER)
}

fn rights_in(manifests: &str) -> Vec<Right> {
    let objects = fleet_api::yaml::documents(manifests).unwrap_or_default();
    objects.iter().flat_map(|object| rights_of(&object["rules"], object["metadata"]["namespace"].as_str())).collect()
}

/// The permissions of the rules of a role. Rules about paths are left out.
pub(crate) fn rights_of(rules: &Value, namespace: Option<&str>) -> Vec<Right> {
    let texts = |rule: &Value, field: &str| -> Vec<String> {
        let items = rule[field].as_array().into_iter().flatten();
        items.filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let mut rights = Vec::new();
    for rule in rules.as_array().into_iter().flatten() {
        let names = texts(rule, "resourceNames");
        let names = if names.is_empty() { vec![String::new()] } else { names };
        for group in texts(rule, "apiGroups") {
            for resource in texts(rule, "resources") {
                let (resource, subresource) = resource.split_once('/').unwrap_or((&resource, ""));
                for name in &names {
                    rights.extend(texts(rule, "verbs").into_iter().map(|verb| Right {
                        namespace: namespace.map(str::to_owned),
                        group: group.clone(),
                        resource: resource.to_owned(),
                        subresource: subresource.to_owned(),
                        name: name.clone(),
                        verb,
                    }));
                }
            }
        }
    }
    rights
}

/// The kind of an object of these manifests. Plurals are regular.
pub(crate) fn kind_of(object: &Value) -> KindId {
    let text = |field: &str| object[field].as_str().unwrap_or_default();
    let (group, version) = text("apiVersion").rsplit_once('/').unwrap_or(("", text("apiVersion")));
    let singular = text("kind").to_lowercase();
    let plural = singular.strip_suffix('y').map_or_else(|| format!("{singular}s"), |stem| format!("{stem}ies"));
    KindId::new(group, version, text("kind"), &plural)
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    const IMAGES: Images<'_> = Images { registry: "mirror.example/fleet", tag: "v9" };

    fn listed(objects: &[Value]) -> String {
        let line = |object: &Value| {
            let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or("-").to_owned();
            format!("{} {}/{}\n", kind_of(object).plural, text("/metadata/namespace"), text("/metadata/name"))
        };
        objects.iter().map(line).collect()
    }

    #[test]
    fn every_placeholder_is_filled() {
        let hub = hub(&IMAGES, true).unwrap();
        let membership = Membership { cluster: "east", hub_url: "https://hub:6443", hub_ca: "Q0E=" };
        let member = member(&IMAGES, &membership).unwrap();
        for text in [json!(hub).to_string(), json!(member).to_string()] {
            assert!(!text.contains("${") && text.contains("mirror.example/fleet/"), "{text}");
        }
        assert!(json!(hub).to_string().contains("--enable-workload=true"));
        let deployment = member.iter().find(|one| one["kind"] == "Deployment").unwrap();
        assert_eq!(cluster_of(deployment), Some("east"));
        assert!(deployment.to_string().contains("Q0E="));
    }

    #[test]
    fn the_troubleshooting_guide_finds_the_pods_of_the_hub_agent() {
        let hub = hub(&IMAGES, false).unwrap();
        let deployment = hub.iter().find(|one| one["kind"] == "Deployment").unwrap();
        let guide = include_str!("../../../../docs/TROUBLESHOOTING.md");
        let selectors: Vec<_> = guide.split("kubectl get pods -A -l ").skip(1).collect();
        assert_eq!(selectors.len(), 2);
        for rest in selectors {
            let (key, value) = rest.split_once('`').unwrap().0.split_once('=').unwrap();
            assert_eq!(deployment["spec"]["template"]["metadata"]["labels"][key], value, "{key}");
        }
    }

    #[test]
    fn without_a_ca_the_agent_trusts_the_public_ones() {
        let membership = Membership { cluster: "east", hub_url: "https://hub:6443", hub_ca: "" };
        assert!(!json!(member(&IMAGES, &membership).unwrap()).to_string().contains(AUTHORITY_VARIABLE));
    }

    #[test]
    fn values_are_values_and_not_yaml_or_placeholders() {
        let adversarial = "x\"\n- --v=9\n${VERSION}";
        let objects = hub(&Images { registry: adversarial, tag: "v9" }, false).unwrap();
        assert_eq!(objects.len(), hub(&IMAGES, false).unwrap().len());
        let deployment = objects.iter().find(|one| one["kind"] == "Deployment").unwrap();
        let image = &deployment["spec"]["template"]["spec"]["containers"][0]["image"];
        assert_eq!(*image, json!(format!("{adversarial}/hub-agent:v9")));
    }

    #[test]
    fn all_objects_have_known_kinds_and_our_label() {
        let hub = hub(&IMAGES, false).unwrap();
        expect![[r#"
            serviceaccounts fleet-system/hub-agent-sa
            clusterroles -/hub-agent-role
            clusterrolebindings -/hub-agent-role-binding
            roles fleet-system/hub-agent-lease
            roles fleet-system/hub-agent-inventory
            rolebindings fleet-system/hub-agent-lease
            rolebindings fleet-system/hub-agent-inventory
            services fleet-system/fleetwebhook
            deployments fleet-system/hub-agent
            validatingadmissionpolicies -/hub-agent-namespace-writes
            validatingadmissionpolicybindings -/hub-agent-namespace-writes
        "#]]
        .assert_eq(&listed(&hub));
        let membership = Membership { cluster: "east", hub_url: "", hub_ca: "" };
        let member = member(&IMAGES, &membership).unwrap();
        expect![[r#"
            serviceaccounts fleet-system/member-agent-sa
            clusterroles -/member-agent-role
            clusterrolebindings -/member-agent-cluster-admin-binding
            deployments fleet-system/member-agent
        "#]]
        .assert_eq(&listed(&member));
        for object in hub.iter().chain(&member) {
            assert_eq!(object["metadata"]["labels"][MANAGED_BY], US, "{object}");
        }
        assert_eq!((hub_definitions().len(), member_definitions().len()), (27, 1));
    }
}
