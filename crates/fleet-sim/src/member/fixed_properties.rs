//! Fixed properties of a simulated member, such as its region or its costs, in addition to the built-in ones.

use std::collections::BTreeMap;
use std::future::ready;

use fleet_api::time::Time;
use fleet_api::types::PropertyValue;
use fleet_core::membership::agent::Collected;
use fleet_core::membership::properties::{ProviderAnswer, built_in};
use fleet_member::{Pending, PropertyProvider, ProviderInput, ProviderNeeds};
use jiff::Timestamp;

/// Values by name.
#[derive(Debug)]
pub(super) struct FixedProperties {
    pub(super) properties: BTreeMap<String, String>,
}

impl PropertyProvider for FixedProperties {
    fn needs(&self) -> ProviderNeeds {
        ProviderNeeds { pods: true, namespaces: false }
    }

    fn collect<'a>(&'a self, cluster: ProviderInput<'a>, now: Timestamp) -> Pending<'a, ProviderAnswer> {
        Box::pin(ready(self.answer(&cluster, now)))
    }
}

impl FixedProperties {
    fn answer(&self, cluster: &ProviderInput<'_>, now: Timestamp) -> ProviderAnswer {
        let pods = cluster.pods.unwrap_or_default();
        let observation_time = Time::new(now);
        let fixed = self
            .properties
            .iter()
            .map(|(name, value)| (name.clone(), PropertyValue { value: value.clone(), observation_time }));
        match built_in(cluster.nodes, pods, cluster.version, now) {
            Collected::BuiltIn { mut properties, usage } => {
                properties.extend(fixed);
                ProviderAnswer { properties, usage, ..ProviderAnswer::default() }
            }
            _ => ProviderAnswer { properties: fixed.collect(), ..ProviderAnswer::default() },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fixed_properties_are_added_to_the_built_in_ones() {
        let properties = BTreeMap::from([("example.com/region".to_owned(), "west".to_owned())]);
        let seen = ProviderInput { nodes: &[], pods: None, namespaces: None, version: Some("v1.34.0") };
        let answer = FixedProperties { properties }.answer(&seen, Timestamp::UNIX_EPOCH);
        let properties_text: Vec<String> =
            answer.properties.iter().map(|(name, property)| format!("{name}={}", property.value)).collect();
        assert_eq!(
            properties_text,
            ["example.com/region=west", "k8s.io/k8s-version=v1.34.0", "kubernetes-fleet.io/node-count=0"]
        );
    }
}
