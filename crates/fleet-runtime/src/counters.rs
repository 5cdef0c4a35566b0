//! Counters of controllers, exposed under exactly the names of the Go agents (prometheus-client would add `_total`).

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use prometheus_client::encoding::{EncodeMetric, MetricEncoder};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

/// Name, help and label of a counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CounterName {
    pub name: &'static str,
    pub help: &'static str,
    /// Name and value of its only label.
    pub label: (&'static str, &'static str),
}

/// A fixed set of counters. Clones share the counts.
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

    pub fn register(&self, registry: &mut Registry) {
        for Named { shown, count } in &*self.0 {
            registry.register(shown.name, shown.help, count.clone());
        }
    }

    /// Adds one. Ignores names that were not passed to `new`.
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
        // A gauge is encoded under its own name; a counter would get the suffix `_total`.
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
    fn counters_are_exposed_under_exactly_their_names() {
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
