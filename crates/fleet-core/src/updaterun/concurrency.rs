//! How many clusters of a stage may be updated at a time.
//!
//! Decides it from the strategy's number or percentage and the size of the stage. Knows nothing of who is being updated.

use fleet_api::admission::int_or_percent::{PercentError, scaled};
use fleet_api::conditions::run_fault::RunFault;
use fleet_api::types::{IntOrString, Rounding, StageConfig};

/// A number stands for itself; a percentage is rounded down, but one cluster is always allowed.
pub(super) fn of_stage(stage: &StageConfig, clusters: usize) -> Result<usize, RunFault> {
    let given = stage.max_concurrency.as_ref().unwrap_or(&IntOrString::Int(1));
    let whole = u32::try_from(clusters).unwrap_or(u32::MAX);
    let invalid = |error: PercentError| RunFault::InvalidConcurrency { error: error.to_string() };
    let share = scaled(given, whole, Rounding::Down).map_err(invalid)?;
    Ok(usize::try_from(share).unwrap_or(0).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed(given: Option<IntOrString>, clusters: usize) -> Result<usize, RunFault> {
        of_stage(&StageConfig { max_concurrency: given, ..StageConfig::default() }, clusters)
    }

    /// updaterun.md 24, item 7.
    #[test]
    fn checklist_07_percentages_are_rounded_down_to_at_least_one_and_numbers_are_not_capped() {
        for (percent, clusters, expected) in
            [("30%", 1, 1), ("50%", 3, 1), ("70%", 3, 2), ("25%", 7, 1), ("33%", 10, 3), ("100%", 9, 9)]
        {
            assert_eq!(allowed(Some(percent.into()), clusters), Ok(expected), "{percent} of {clusters}");
        }
        assert_eq!(allowed(Some(500.into()), 3), Ok(500));
        assert_eq!(allowed(None, 3), Ok(1));
        assert_eq!(allowed(Some((-4).into()), 3), Ok(1));
    }

    #[test]
    fn what_is_neither_number_nor_percentage_ends_the_run() {
        let fault = allowed(Some("many".into()), 3).unwrap_err();
        assert_eq!(
            fault.to_string(),
            "cannot continue the updateRun: invalid value for IntOrString: invalid type: string is not a percentage"
        );
    }
}
