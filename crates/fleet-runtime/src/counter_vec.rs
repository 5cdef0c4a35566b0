//! A counter with labels.

use std::fmt;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

type Labels = Vec<(&'static str, String)>;

/// Counters of one name, one for each set of label values. Clones share the counts.
#[derive(Clone)]
pub struct CounterVec {
    /// Exposed with the suffix `_total`.
    name: &'static str,
    help: &'static str,
    labels: &'static [&'static str],
    counts: Family<Labels, Counter>,
}

impl fmt::Debug for CounterVec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CounterVec").field("name", &self.name).finish_non_exhaustive()
    }
}

impl CounterVec {
    pub fn new(name: &'static str, help: &'static str, labels: &'static [&'static str]) -> Self {
        Self { name, help, labels, counts: Family::default() }
    }

    pub fn register(&self, registry: &mut Registry) {
        registry.register(self.name, self.help, self.counts.clone());
    }

    /// Adds one. `values` has one value per label, in the order of the labels.
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
    fn counts_are_separate_per_label_values() {
        let counter = CounterVec::new("fleet_things", "Things", &["colour", "size"]);
        let mut registry = Registry::default();
        counter.register(&mut registry);
        counter.count(&["red", "small"]);
        counter.clone().count(&["red", "small"]);
        counter.count(&["blue", "small"]);
        assert_eq!((counter.get(&["red", "small"]), counter.get(&["red", "large"])), (2, 0));
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        assert!(text.contains("fleet_things_total{colour=\"red\",size=\"small\"} 2\n"), "{text}");
    }
}
