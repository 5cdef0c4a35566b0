//! Metrics of runs (updaterun.md 17).

use fleet_api::names::GatePosition;
use fleet_api::types::UpdateRunState::Run;
use jiff::SignedDuration;

use super::fixture::{RUN, both_scopes, strategy};
use crate::updaterun::{ApprovalLatency, FailureType, approval_latencies, stage_durations, status_series};

both_scopes! {
    fn the_series_has_the_most_significant_condition_and_the_failure_type(mut fixture) {
        fixture.join("member1 env=staging");
        let check = |fixture: &super::fixture::RunFixture<S>, condition: &str, reason: &str, failure: FailureType| {
            let series = status_series(fixture.status(RUN)).unwrap();
            assert_eq!((series.condition.as_str(), series.reason.as_str(), series.failure_type), (condition, reason, failure));
        };
        drop(fixture.start(Run));
        check(&fixture, "Progressing", "UpdateRunProgressing", FailureType::None);
        fixture.pass(301);
        fixture.step(RUN);
        check(&fixture, "Progressing", "UpdateRunStuck", FailureType::Internal);
        let mut by_user = fixture.clone();
        by_user.placement = None;
        by_user.step(RUN);
        check(&by_user, "Succeeded", "UpdateRunFailed", FailureType::User);
        fixture.set_policy(1, "null");
        fixture.step(RUN);
        check(&fixture, "Succeeded", "UpdateRunFailed", FailureType::Internal);
        assert_eq!(["none", "user_error", "internal_error"], [FailureType::None, FailureType::User, FailureType::Internal].map(FailureType::word));
    }

    fn the_time_of_approvals_and_stages_is_measured_once(mut fixture) {
        fixture.strategy = Some(strategy("{stages: [{name: all, labelSelector: {}, afterStageTasks: [{type: Approval}]}]}"));
        fixture.join("member1");
        drop(fixture.start(Run));
        fixture.pass(20);
        fixture.serve_all();
        let before = fixture.status(RUN).clone();
        fixture.step(RUN);
        let waiting = fixture.status(RUN).clone();
        assert_eq!(stage_durations(Some(&before), &waiting, fixture.now), [SignedDuration::from_secs(20)]);
        assert_eq!(approval_latencies(Some(&before), &waiting), []);
        fixture.pass(60);
        fixture.approve("example-run-after-all", "True", 1);
        fixture.step(RUN);
        let latency = SignedDuration::from_secs(60);
        assert_eq!(approval_latencies(Some(&waiting), fixture.status(RUN)), [ApprovalLatency { position: GatePosition::After, latency }]);
        assert_eq!(approval_latencies(Some(fixture.status(RUN)), fixture.status(RUN)), []);
        assert_eq!(stage_durations(Some(&waiting), fixture.status(RUN), fixture.now), []);
    }
}
