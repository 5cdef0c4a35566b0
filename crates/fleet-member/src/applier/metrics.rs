//! Counts processed Works and manifests.

use fleet_api::types::WorkStatus;
use fleet_core::apply::metrics;
use fleet_runtime::CounterVec;

/// How often Works and their manifests were processed, and with which result.
#[derive(Debug, Clone)]
pub struct Processed {
    pub works: CounterVec,
    pub manifests: CounterVec,
}

impl Default for Processed {
    fn default() -> Self {
        let counter = |(name, help, labels)| CounterVec::new(name, help, labels);
        Self { works: counter(metrics::WORKS), manifests: counter(metrics::MANIFESTS) }
    }
}

impl Processed {
    pub(super) fn count(&self, status: &WorkStatus) {
        self.works.count(&metrics::of_work(status));
        for record in status.manifest_conditions.iter().filter(|record| record.identifier.ordinal >= 0) {
            self.manifests.count(&metrics::of_manifest(record));
        }
    }
}
