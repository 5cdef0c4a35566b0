//! Checks the rollout strategy of a placement.

use super::findings::Findings;
use crate::types::{
    ApplyStrategyType, IntOrString, RollingUpdateConfig, RolloutStrategy, RolloutStrategyType, Rounding,
};

/// The two spaces are part of KubeFleet's text.
pub(super) const PREFIX: &str = "the rollout Strategy field  is invalid";

/// Size of the fleet for which percentages are tried; any would do, since only their sign matters.
const TRIAL_CLUSTERS: usize = 10;

pub(super) fn check(strategy: &RolloutStrategy) -> Findings {
    let mut findings = Findings::none();
    if let Some(config) = &strategy.rolling_update {
        if strategy.type_ == Some(RolloutStrategyType::External) {
            findings.add("rollingUpdateConifg is not valid for ExternalRollout strategy type");
        }
        findings.absorb(check_rolling_update(config));
    }
    let misplaced = strategy.apply_strategy.as_ref().is_some_and(|apply| {
        apply.server_side_apply_config.is_some() && apply.strategy_type() != ApplyStrategyType::ServerSideApply
    });
    if misplaced {
        findings.add("serverSideApplyConfig is only valid for ServerSideApply strategy type");
    }
    findings
}

fn check_rolling_update(config: &RollingUpdateConfig) -> Findings {
    let mut findings = Findings::none();
    if let Some(seconds) = config.unavailable_period_seconds.filter(|seconds| *seconds < 0) {
        findings.add(format!("unavailablePeriodSeconds must be greater than or equal to 0, got {seconds}"));
    }
    findings.absorb(check_share("maxUnavailable", config.max_unavailable.as_ref()));
    findings.absorb(check_share("maxSurge", config.max_surge.as_ref()));
    findings
}

fn check_share(field: &str, share: Option<&IntOrString>) -> Findings {
    let Some(share) = share else { return Findings::none() };
    match share.scaled(TRIAL_CLUSTERS, Rounding::Up) {
        Err(error) => Findings::one(format!("{field} `{share}` is invalid: {error}")),
        Ok(clusters) if clusters < 0 => {
            Findings::one(format!("{field} must be greater than or equal to 0, got `{share}`"))
        }
        Ok(_) => Findings::none(),
    }
}
