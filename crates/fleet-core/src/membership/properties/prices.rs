//! The price file of the administrator: prices per hour by region and machine size, and when they were updated.

use std::collections::BTreeMap;

use fleet_api::well_known::node_labels;
use fleet_api::yaml;
use jiff::Timestamp;
use serde::Deserialize;

use super::costs::PriceList;

/// Maximum size of a price file in bytes. A list of all machine sizes in all regions of a large cloud is smaller.
pub const PRICE_FILE_BYTES_MAX: u64 = 8 * 1024 * 1024;

/// A price file, in YAML or JSON.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PriceFile {
    /// When the prices were taken. Without it, prices are never stale.
    #[serde(default)]
    updated_at: Option<Timestamp>,
    /// Price of one machine per hour, by region and machine size.
    prices: BTreeMap<String, BTreeMap<String, f64>>,
}

/// Why there are no prices.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PriceError {
    #[error("no price file is configured (--price-file)")]
    NoFile,
    #[error("the price file {path} cannot be read: {problem}")]
    Unreadable { path: String, problem: String },
    #[error("no region is configured (--region), and no node has the label {}", node_labels::REGION)]
    NoRegion,
}

impl PriceFile {
    /// Parses the text; the error says what is wrong with it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut documents = yaml::documents(text).map_err(|error| error.to_string())?;
        match (documents.pop(), documents.is_empty()) {
            (Some(document), true) => serde_json::from_value(document).map_err(|error| error.to_string()),
            (None, _) => Err("it is empty".to_owned()),
            (Some(_), false) => Err("it has more than one document".to_owned()),
        }
    }

    /// The prices of a region; empty if the file does not have it.
    pub fn of_region(&self, region: &str) -> PriceList {
        PriceList { updated_at: self.updated_at, hourly: self.prices.get(region).cloned().unwrap_or_default() }
    }
}
