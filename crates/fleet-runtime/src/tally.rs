//! Counters of one name that are told apart by labels.
//!
//! Decides how they are kept and shown. Never decides what is counted.

use std::fmt;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

type Labels = Vec<(&'static str, String)>;

/// Clones count together.
#[derive(Clone)]
pub struct Tally {
    /// Shown with `_total` behind it.
    name: &'static str,
    help: &'static str,
    labels: &'static [&'static str],
    counts: Family<Labels, Counter>,
}

impl fmt::Debug for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tally").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Tally {
    pub fn new(name: &'static str, help: &'static str, labels: &'static [&'static str]) -> Self {
        Self { name, help, labels, counts: Family::default() }
    }

    /// Lets a registry show them.
    pub fn register(&self, registry: &mut Registry) {
        registry.register(self.name, self.help, self.counts.clone());
    }

    /// Adds one under these values, one for each label in order.
    pub fn count(&self, values: &[&str]) {
        self.counts.get_or_create(&self.labelled(values)).inc();
    }

    pub fn get(&self, values: &[&str]) -> u64 {
        self.counts.get(&self.labelled(values)).map_or(0, |count| count.get())
    }

    fn labelled(&self, values: &[&str]) -> Labels {
        self.labels.iter().zip(values).map(|(label, value)| (*label, (*value).to_owned())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_told_apart_by_their_labels() {
        let tally = Tally::new("fleet_things", "Things", &["colour", "size"]);
        let mut registry = Registry::default();
        tally.register(&mut registry);
        tally.count(&["red", "small"]);
        tally.clone().count(&["red", "small"]);
        tally.count(&["blue", "small"]);
        assert_eq!((tally.get(&["red", "small"]), tally.get(&["red", "large"])), (2, 0));
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        assert!(text.contains("fleet_things_total{colour=\"red\",size=\"small\"} 2\n"), "{text}");
    }
}
