//! Entry points for fuzz targets of `kubefleet up`: fleet files, and merging into the user's kubeconfig.

use serde_json::Value;

use super::{fleet_file, merge};

/// A kubeconfig before, during and after a merge.
#[derive(Debug)]
pub struct Merged {
    /// The file of the user.
    pub before: Value,
    /// While the fleet runs.
    pub with_ours: Value,
    /// After the fleet has stopped.
    pub restored: Value,
}

/// Adds our entries to a kubeconfig and removes them again, with serialization in between.
pub fn merged_kubeconfig(users: &str, ours: &str) -> Result<Merged, String> {
    let before = merge::parsed(users)?;
    let ours: Value = serde_saphyr::from_str(ours).map_err(|error| error.to_string())?;
    let with_ours = through_text(&merge::merged(before.clone(), &ours)?)?;
    let restored = through_text(&merge::cleaned(with_ours.clone(), None))?;
    Ok(Merged { before: merge::cleaned(before, None), with_ours, restored })
}

fn through_text(value: &Value) -> Result<Value, String> {
    let text = serde_saphyr::to_string(value).map_err(|error| error.to_string())?;
    merge::parsed(&text)
}

/// The error of a fleet file.
pub fn fleet_file_complaint(text: &str) -> Option<String> {
    fleet_file::parse(text, &[]).err().map(|fault| fault.to_string())
}
