//! Whether an applied object is available, computed from the object that the apply returned. Each kind has its own
//! rule.
//!
//! KubeFleet does not track Jobs and Ingresses; `Tracking::Extended` does.

use fleet_api::types::WorkResourceIdentifier;
use serde_json::Value;

/// The availability of an applied object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Availability {
    Available,
    NotYet,
    /// There is no rule for this kind; it counts as available.
    NotTrackable,
    /// A field that the rule needs has an unexpected value; the text says which.
    Failed(String),
}

/// Which kinds are tracked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Tracking {
    /// Only the kinds that KubeFleet tracks.
    #[default]
    Reference,
    /// Also Jobs (until they are complete) and Ingresses (until they have an address).
    Extended,
}

/// Applies the rule for exactly this group, version and resource.
pub fn of(resource: &WorkResourceIdentifier, live: &Value, tracking: Tracking) -> Availability {
    let Some(rule) = rule(&resource.group, &resource.version, &resource.resource, tracking) else {
        return Availability::NotTrackable;
    };
    rule(&Live { kind: &resource.kind, value: live }).unwrap_or_else(Availability::Failed)
}

type Rule = fn(&Live<'_>) -> Result<Availability, String>;

fn rule(group: &str, version: &str, resource: &str, tracking: Tracking) -> Option<Rule> {
    Some(match (group, version, resource) {
        ("apps", "v1", "deployments") => deployment,
        ("apps", "v1", "statefulsets") => stateful_set,
        ("apps", "v1", "daemonsets") => daemon_set,
        ("", "v1", "services") => service,
        ("apiextensions.k8s.io", "v1", "customresourcedefinitions") => definition,
        ("policy", "v1", "poddisruptionbudgets") => disruption_budget,
        ("batch", "v1", "jobs") if tracking == Tracking::Extended => job,
        ("networking.k8s.io", "v1", "ingresses") if tracking == Tracking::Extended => ingress,
        _ if is_data(group, version, resource) => |_| Ok(Availability::Available),
        _ => return None,
    })
}

/// Kinds without behaviour: available as soon as they are stored.
fn is_data(group: &str, version: &str, resource: &str) -> bool {
    let resources: &[&str] = match group {
        "" => &["namespaces", "secrets", "configmaps", "serviceaccounts", "limitranges", "resourcequotas"],
        "rbac.authorization.k8s.io" => &["roles", "clusterroles", "rolebindings", "clusterrolebindings"],
        "networking.k8s.io" => &["networkpolicies", "ingressclasses"],
        "storage.k8s.io" => &["csidrivers", "csinodes", "storageclasses", "csistoragecapacities"],
        "apps" => &["controllerrevisions"],
        "scheduling.k8s.io" => &["priorityclasses"],
        _ => &[],
    };
    version == "v1" && resources.contains(&resource)
}

fn when(available: bool) -> Availability {
    if available { Availability::Available } else { Availability::NotYet }
}

/// Replicas of a workload that does not set them.
const DEFAULT_REPLICAS: i64 = 1;

fn deployment(live: &Live<'_>) -> Result<Availability, String> {
    let wanted = live.integer("/spec/replicas")?.unwrap_or(DEFAULT_REPLICAS);
    Ok(when(
        live.is_observed()?
            && live.count("/status/availableReplicas")? == wanted
            && live.count("/status/updatedReplicas")? == wanted
            && live.count("/status/unavailableReplicas")? == 0,
    ))
}

fn stateful_set(live: &Live<'_>) -> Result<Availability, String> {
    let wanted = live.integer("/spec/replicas")?.unwrap_or(DEFAULT_REPLICAS);
    Ok(when(
        live.is_observed()?
            && live.count("/status/availableReplicas")? == wanted
            && live.count("/status/currentReplicas")? == live.count("/status/updatedReplicas")?
            && live.text("/status/currentRevision")? == live.text("/status/updateRevision")?,
    ))
}

fn daemon_set(live: &Live<'_>) -> Result<Availability, String> {
    Ok(when(
        live.is_observed()?
            && live.count("/status/numberAvailable")? == live.count("/status/desiredNumberScheduled")?
            && live.count("/status/currentNumberScheduled")? == live.count("/status/updatedNumberScheduled")?,
    ))
}

fn service(live: &Live<'_>) -> Result<Availability, String> {
    Ok(match live.text("/spec/type")? {
        "" | "ClusterIP" | "NodePort" => when(!live.text("/spec/clusterIPs/0")?.is_empty()),
        "LoadBalancer" => when(live.has_address()?),
        _ => Availability::NotTrackable,
    })
}

fn ingress(live: &Live<'_>) -> Result<Availability, String> {
    Ok(when(live.has_address()?))
}

fn definition(live: &Live<'_>) -> Result<Availability, String> {
    Ok(when(live.condition("Established")?.is_true() && live.condition("NamesAccepted")?.is_true()))
}

/// A PodDisruptionBudget is available when its controller has evaluated it: condition and number must agree.
fn disruption_budget(live: &Live<'_>) -> Result<Availability, String> {
    let condition = live.condition("DisruptionAllowed")?;
    let agrees = if live.count("/status/disruptionsAllowed")? > 0 {
        condition.is_true() && condition.reason == "SufficientPods"
    } else {
        condition.status == "False" && condition.reason == "InsufficientPods"
    };
    Ok(when(live.is_observed()? && agrees))
}

/// A Job is available when it is complete. A suspended Job waits for a person or a queue, which cannot be tracked.
fn job(live: &Live<'_>) -> Result<Availability, String> {
    if live.value.pointer("/spec/suspend") == Some(&Value::Bool(true)) {
        return Ok(Availability::NotTrackable);
    }
    Ok(when(live.condition("Complete")?.is_true()))
}

/// Typed access for rules: absent fields are zero or empty, fields of the wrong type are errors.
#[derive(Debug, Clone, Copy)]
struct Live<'a> {
    kind: &'a str,
    value: &'a Value,
}

/// A condition of an object's status; an absent one has empty fields.
#[derive(Debug, Default)]
struct Finding<'a> {
    status: &'a str,
    reason: &'a str,
}

impl Finding<'_> {
    fn is_true(&self) -> bool {
        self.status == "True"
    }
}

impl<'a> Live<'a> {
    fn present(&self, pointer: &str) -> Option<&'a Value> {
        self.value.pointer(pointer).filter(|value| !value.is_null())
    }

    fn wrong(&self, pointer: &str, wanted: &str) -> String {
        format!("cannot read the object as {}: {} is not {wanted}", self.kind, pointer[1..].replace('/', "."))
    }

    fn integer(&self, pointer: &str) -> Result<Option<i64>, String> {
        let Some(value) = self.present(pointer) else { return Ok(None) };
        value.as_i64().map(Some).ok_or_else(|| self.wrong(pointer, "an integer"))
    }

    fn count(&self, pointer: &str) -> Result<i64, String> {
        Ok(self.integer(pointer)?.unwrap_or(0))
    }

    fn text(&self, pointer: &str) -> Result<&'a str, String> {
        let Some(value) = self.present(pointer) else { return Ok("") };
        value.as_str().ok_or_else(|| self.wrong(pointer, "a text"))
    }

    fn list(&self, pointer: &str) -> Result<&'a [Value], String> {
        let Some(value) = self.present(pointer) else { return Ok(&[]) };
        value.as_array().map(Vec::as_slice).ok_or_else(|| self.wrong(pointer, "a list"))
    }

    /// Whether the status belongs to the current generation of the spec.
    fn is_observed(&self) -> Result<bool, String> {
        Ok(self.count("/status/observedGeneration")? == self.count("/metadata/generation")?)
    }

    /// Whether a load balancer has set an address.
    fn has_address(&self) -> Result<bool, String> {
        let first = self.list("/status/loadBalancer/ingress")?.first();
        let has = |field: &str| first.and_then(|first| first.get(field)?.as_str()).is_some_and(|text| !text.is_empty());
        Ok(has("ip") || has("hostname"))
    }

    fn condition(&self, type_: &str) -> Result<Finding<'a>, String> {
        let conditions = self.list("/status/conditions")?;
        let found = conditions.iter().find(|condition| condition.get("type").and_then(Value::as_str) == Some(type_));
        let word = |field: &str| found.and_then(|condition| condition.get(field)?.as_str()).unwrap_or_default();
        Ok(Finding { status: word("status"), reason: word("reason") })
    }
}

#[cfg(test)]
mod tests;
