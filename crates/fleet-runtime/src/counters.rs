//! Counters that controllers keep under names of their own.
//!
//! Decides how they are shown: under exactly the given name, as clients of the Go agents know them (prometheus-client
//! would add `_total`). Never decides what is counted.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use prometheus_client::encoding::{EncodeMetric, MetricEncoder};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

/// How a counter is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CounterName {
    pub name: &'static str,
    pub help: &'static str,
    /// Name and value of its one label.
    pub label: (&'static str, &'static str),
}

/// A few counters. Clones count together.
#[derive(Debug, Clone)]
pub struct Counters(Arc<[Named]>);

#[derive(Debug)]
struct Named {
    shown: CounterName,
    count: Count,
}

impl Counters {
    pub fn new(names: impl IntoIterator<Item = CounterName>) -> Self {
        Self(names.into_iter().map(|shown| Named { shown, count: Count::new(shown.label) }).collect())
    }

    /// Lets a registry show them.
    pub fn register(&self, registry: &mut Registry) {
        for Named { shown, count } in &*self.0 {
            registry.register(shown.name, shown.help, count.clone());
        }
    }

    /// Adds one. A name that was not given at the start is not counted.
    pub fn count(&self, name: &str) {
        if let Some(count) = self.find(name) {
            count.value.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub fn get(&self, name: &str) -> u64 {
        self.find(name).map_or(0, |count| count.value.load(Ordering::Relaxed))
    }

    fn find(&self, name: &str) -> Option<&Count> {
        self.0.iter().find(|named| named.shown.name == name).map(|named| &named.count)
    }
}

#[derive(Debug, Clone)]
struct Count {
    label: (&'static str, &'static str),
    value: Arc<AtomicU64>,
}

impl Count {
    fn new(label: (&'static str, &'static str)) -> Self {
        Self { label, value: Arc::default() }
    }
}

impl EncodeMetric for Count {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        // A gauge is written as a bare number, a counter under a longer name.
        encoder.encode_family(&[self.label])?.encode_gauge(&self.value.load(Ordering::Relaxed))
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Counter
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_shown_under_exactly_their_names() {
        let name = CounterName { name: "join_counter", help: "Joins", label: ("result", "success") };
        let counters = Counters::new([name]);
        counters.clone().count("join_counter");
        counters.count("another");
        assert_eq!((counters.get("join_counter"), counters.get("another")), (1, 0));
        let mut registry = Registry::default();
        counters.register(&mut registry);
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        assert!(text.contains("# TYPE join_counter counter\njoin_counter{result=\"success\"} 1\n"), "{text}");
    }
}
