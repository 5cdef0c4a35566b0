//! Properties that a simulated member is said to have, such as its region or its costs.
//!
//! Decides that they come on top of what every agent tells of its nodes. Never looks at anything but what it is shown.

use std::collections::BTreeMap;
use std::future::ready;

use fleet_api::time::Time;
use fleet_api::types::PropertyValue;
use fleet_core::membership::agent::Collected;
use fleet_core::membership::properties::{ProviderAnswer, built_in};
use fleet_member::{Pending, PropertyProvider, Seen, Wants};
use jiff::Timestamp;

/// Properties by name, the same at every heartbeat.
#[derive(Debug)]
pub(super) struct Described {
    pub(super) properties: BTreeMap<String, String>,
}

impl PropertyProvider for Described {
    fn wants(&self) -> Wants {
        Wants { pods: true, namespaces: false }
    }

    fn tell<'a>(&'a self, cluster: Seen<'a>, now: Timestamp) -> Pending<'a, ProviderAnswer> {
        Box::pin(ready(self.answer(&cluster, now)))
    }
}

impl Described {
    fn answer(&self, cluster: &Seen<'_>, now: Timestamp) -> ProviderAnswer {
        let pods = cluster.pods.unwrap_or_default();
        let observation_time = Time::new(now);
        let said = self
            .properties
            .iter()
            .map(|(name, value)| (name.clone(), PropertyValue { value: value.clone(), observation_time }));
        match built_in(cluster.nodes, pods, cluster.version, now) {
            Collected::BuiltIn { mut properties, usage } => {
                properties.extend(said);
                ProviderAnswer { properties, usage, ..ProviderAnswer::default() }
            }
            _ => ProviderAnswer { properties: said.collect(), ..ProviderAnswer::default() },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_comes_on_top_of_what_is_seen() {
        let properties = BTreeMap::from([("example.com/region".to_owned(), "west".to_owned())]);
        let seen = Seen { nodes: &[], pods: None, namespaces: None, version: Some("v1.34.0") };
        let answer = Described { properties }.answer(&seen, Timestamp::UNIX_EPOCH);
        let told: Vec<String> =
            answer.properties.iter().map(|(name, property)| format!("{name}={}", property.value)).collect();
        assert_eq!(told, ["example.com/region=west", "k8s.io/k8s-version=v1.34.0", "kubernetes-fleet.io/node-count=0"]);
    }
}
