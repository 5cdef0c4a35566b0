//! The naive scheduler's view of a single cluster: whether it can be used, and what it has.

use fleet_api::kinds::MemberCluster;
use fleet_api::types::{ClusterSelectorTerm, LabelSelector, PropertySelector};
use jiff::SignedDuration;
use k8s_values::Quantity;

use super::fixture::now;
use super::naive::Stop;

pub(super) fn is_leaving(cluster: &MemberCluster) -> bool {
    cluster.metadata.deletion_timestamp.is_some()
}

pub(super) fn ineligible(cluster: &MemberCluster) -> Option<String> {
    let five_minutes = SignedDuration::from_mins(5);
    if is_leaving(cluster) {
        return Some("cluster has left the fleet".to_owned());
    }
    let agents = &cluster.status.as_ref().unwrap().observed.agent_status;
    let not_connected = |why: &str| Some(format!("cluster is not connected to the fleet: {why}"));
    let Some(agent) = agents.iter().find(|agent| agent.type_.as_str() == "MemberAgent") else {
        return not_connected("member agent not online yet");
    };
    let ago = now().duration_since(agent.last_received_heartbeat.unwrap().instant());
    if ago > five_minutes {
        let minutes = ago.as_secs_f64() / 60.0;
        return not_connected(&format!("no recent heartbeat signals (last received {minutes:.2} minutes ago)"));
    }
    let condition = |word: &str| agent.conditions.iter().find(|condition| condition.type_ == word);
    if condition("Joined").is_none_or(|joined| joined.status.to_string() != "True") {
        return not_connected("member agent not joined yet");
    }
    let Some(healthy) = condition("Healthy") else {
        return not_connected("health condition from member agent is not available");
    };
    let ago = now().duration_since(healthy.last_transition_time.instant());
    if healthy.status.to_string() != "True" && ago > five_minutes {
        let minutes = ago.as_secs_f64() / 60.0;
        return not_connected(&format!(
            "unhealthy for a prolonged period of time (last transitioned {minutes:.2} minutes ago)"
        ));
    }
    None
}

pub(super) fn term_matches(term: &ClusterSelectorTerm, cluster: &MemberCluster) -> Result<bool, Stop> {
    if !labels_match(term.label_selector.as_ref(), cluster)? {
        return Ok(false);
    }
    for expression in term.property_selector.iter().flat_map(|selector| &selector.match_expressions) {
        let Some(found) = property(cluster, &expression.name)? else { return Ok(false) };
        let [value] = expression.values.as_slice() else { return Err(Stop) };
        let wanted: Quantity = value.parse().map_err(|_| Stop)?;
        let holds = match expression.operator.as_str() {
            "Gt" => found > wanted,
            "Ge" => found >= wanted,
            "Lt" => found < wanted,
            "Le" => found <= wanted,
            "Eq" => found == wanted,
            "Ne" => found != wanted,
            _ => return Err(Stop),
        };
        if !holds {
            return Ok(false);
        }
    }
    Ok(true)
}

pub(super) fn labels_match(selector: Option<&LabelSelector>, cluster: &MemberCluster) -> Result<bool, Stop> {
    let Some(selector) = selector else { return Ok(true) };
    let labels = cluster.metadata.labels.clone().unwrap_or_default();
    for expression in &selector.match_expressions {
        if !["In", "NotIn", "Exists", "DoesNotExist"].contains(&expression.operator.as_str()) {
            return Err(Stop);
        }
    }
    let expressions = selector.match_expressions.iter().all(|expression| {
        let found = labels.get(&expression.key);
        match expression.operator.as_str() {
            "In" => found.is_some_and(|value| expression.values.contains(value)),
            "NotIn" => !found.is_some_and(|value| expression.values.contains(value)),
            "Exists" => found.is_some(),
            _ => found.is_none(),
        }
    });
    Ok(expressions && selector.match_labels.iter().all(|(key, value)| labels.get(key) == Some(value)))
}

/// Absent, too, where it is not a quantity.
pub(super) fn property(cluster: &MemberCluster, name: &str) -> Result<Option<Quantity>, Stop> {
    Ok(property_text(cluster, name)?.and_then(|text| text.parse().ok()))
}

/// Why no term matches a cluster, as far as that is a value that is not a quantity.
pub(super) fn unusable(terms: &[ClusterSelectorTerm], cluster: &MemberCluster) -> Result<Option<String>, Stop> {
    for term in terms {
        if !labels_match(term.label_selector.as_ref(), cluster)? {
            continue;
        }
        for expression in term.property_selector.iter().flat_map(|selector| &selector.match_expressions) {
            let text = property_text(cluster, &expression.name)?;
            if let Some(text) = text.filter(|text| text.parse::<Quantity>().is_err()) {
                let name = &expression.name;
                return Ok(Some(format!("property {name:?} has the value {text:?}, which is not a quantity")));
            }
            let alone = ClusterSelectorTerm {
                property_selector: Some(PropertySelector { match_expressions: vec![expression.clone()] }),
                ..ClusterSelectorTerm::default()
            };
            if !term_matches(&alone, cluster)? {
                break;
            }
        }
    }
    Ok(None)
}

fn property_text(cluster: &MemberCluster, name: &str) -> Result<Option<String>, Stop> {
    let observed = &cluster.status.as_ref().unwrap().observed;
    Ok(if let Some(rest) = name.strip_prefix("resources.kubernetes-fleet.io/") {
        let pieces: Vec<&str> = rest.split('-').collect();
        let [amount, resource] = pieces[..] else { return Err(Stop) };
        let usage = observed.resource_usage.as_ref().unwrap();
        let list = match amount {
            "total" => &usage.capacity,
            "allocatable" => &usage.allocatable,
            "available" => &usage.available,
            _ => return Err(Stop),
        };
        list.get(resource).map(ToString::to_string)
    } else {
        observed.properties.get(name).map(|found| found.value.clone())
    })
}
