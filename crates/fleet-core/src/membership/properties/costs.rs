//! What a CPU core and a gigabyte of memory of a cluster cost per hour, computed from its nodes and a price list.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use super::usage::{NodeFacts, capacity};

/// Prices older than this are still used, with a warning: they change rarely, and no price would be worse.
pub const PRICES_STALE_AFTER: SignedDuration = SignedDuration::from_hours(24);
/// The size under which nodes without a size are counted.
pub(super) const UNDEFINED_SIZE: &str = "undefined";
/// Smaller amounts of CPU or memory are not used as divisors.
const CORES_MIN: f64 = 0.001;
const MEMORY_BYTES_MIN: f64 = 1.0;
const BYTES_PER_GIGABYTE: f64 = 1024.0 * 1024.0 * 1024.0;

/// Prices by machine size.
#[derive(Debug, Clone, PartialEq)]
pub struct PriceList {
    /// `None` if the price list does not say; such prices are never stale.
    pub updated_at: Option<Timestamp>,
    /// Price of one machine per hour. A negative price or NaN counts as unknown.
    pub hourly: BTreeMap<String, f64>,
}

/// Costs per hour.
#[derive(Debug, Clone, PartialEq)]
pub struct Costs {
    pub per_core: f64,
    pub per_gigabyte: f64,
    /// Reasons to doubt the costs.
    pub warnings: Vec<String>,
}

/// Why there are no costs.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum CostError {
    #[error("nodes are present, but no pricing data is available for any node SKUs ([{}])", .0.join(" "))]
    NoPrices(Vec<String>),
    #[error("no pricing data is available for one or more of the node SKUs ([{}]) in the cluster", .0.join(" "))]
    SomePricesMissing(Vec<String>),
    #[error("failed to calculate costs: cpu quantity is of an invalid value: {0}")]
    Cores(f64),
    #[error("failed to calculate costs: memory quantity is of an invalid value: {0}")]
    Memory(f64),
}

/// How many nodes there are of each size.
pub(super) fn nodes_by_size<'n>(nodes: &'n [NodeFacts<'_>]) -> BTreeMap<&'n str, usize> {
    let mut counts = BTreeMap::new();
    for node in nodes {
        *counts.entry(node.machine_size.unwrap_or(UNDEFINED_SIZE)).or_default() += 1;
    }
    counts
}

pub fn costs(nodes: &[NodeFacts<'_>], prices: &PriceList, now: Timestamp) -> Result<Costs, CostError> {
    let stale = prices.updated_at.filter(|updated_at| now.duration_since(*updated_at) > PRICES_STALE_AFTER);
    let warnings = Vec::from_iter(stale.map(|updated_at| format!("prices were last updated at {updated_at}")));
    if nodes.is_empty() {
        return Ok(Costs { per_core: 0.0, per_gigabyte: 0.0, warnings });
    }
    let hourly = hourly(nodes, prices)?;
    let capacity = capacity(nodes);
    let cores = capacity.cpu.as_f64();
    if !cores.is_finite() || cores <= CORES_MIN {
        return Err(CostError::Cores(cores));
    }
    let bytes = capacity.memory.as_f64();
    if !bytes.is_finite() || bytes <= MEMORY_BYTES_MIN {
        return Err(CostError::Memory(bytes));
    }
    Ok(Costs { per_core: hourly / cores, per_gigabyte: hourly / (bytes / BYTES_PER_GIGABYTE), warnings })
}

/// The price of all nodes together.
fn hourly(nodes: &[NodeFacts<'_>], prices: &PriceList) -> Result<f64, CostError> {
    let mut total = 0.0;
    let mut unknown = BTreeSet::new();
    let sizes = nodes_by_size(nodes);
    for (size, count) in &sizes {
        match prices.hourly.get(*size).filter(|price| price.is_finite() && **price >= 0.0) {
            // No cluster has so many nodes that counting them in floating point loses one.
            #[allow(clippy::cast_precision_loss, reason = "see above")]
            Some(price) => total += price * *count as f64,
            None => _ = unknown.insert((*size).to_owned()),
        }
    }
    if total <= 0.0 {
        return Err(CostError::NoPrices(sizes.keys().map(|size| (*size).to_owned()).collect()));
    }
    if unknown.is_empty() { Ok(total) } else { Err(CostError::SomePricesMissing(unknown.into_iter().collect())) }
}
