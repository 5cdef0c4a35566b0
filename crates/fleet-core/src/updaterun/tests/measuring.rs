//! What is measured of runs (updaterun.md 17).

use fleet_api::names::GatePosition;
use fleet_api::types::UpdateRunState::Run;
use jiff::SignedDuration;

use super::fixture::{RUN, both_scopes, strategy};
use crate::updaterun::{ApprovalLatency, FailureType, approval_latencies, stage_durations, status_series};

both_scopes! {
    fn the_series_tells_the_most_telling_condition_and_whose_fault_it_is(mut world) {
        world.join("member1 env=staging");
        let check = |world: &super::fixture::World<S>, condition: &str, reason: &str, failure: FailureType| {
            let series = status_series(world.status(RUN)).unwrap();
            assert_eq!((series.condition.as_str(), series.reason.as_str(), series.failure_type), (condition, reason, failure));
        };
        drop(world.start(Run));
        check(&world, "Progressing", "UpdateRunProgressing", FailureType::None);
        world.pass(301);
        world.step(RUN);
        check(&world, "Progressing", "UpdateRunStuck", FailureType::Internal);
        let mut by_user = world.clone();
        by_user.placement = None;
        by_user.step(RUN);
        check(&by_user, "Succeeded", "UpdateRunFailed", FailureType::User);
        world.set_policy(1, "null");
        world.step(RUN);
        check(&world, "Succeeded", "UpdateRunFailed", FailureType::Internal);
        assert_eq!(["none", "user_error", "internal_error"], [FailureType::None, FailureType::User, FailureType::Internal].map(FailureType::word));
    }

    fn the_time_of_approvals_and_stages_is_measured_once(mut world) {
        world.strategy = Some(strategy("{stages: [{name: all, labelSelector: {}, afterStageTasks: [{type: Approval}]}]}"));
        world.join("member1");
        drop(world.start(Run));
        world.pass(20);
        world.serve_all();
        let before = world.status(RUN).clone();
        world.step(RUN);
        let waiting = world.status(RUN).clone();
        assert_eq!(stage_durations(Some(&before), &waiting, world.now), [SignedDuration::from_secs(20)]);
        assert_eq!(approval_latencies(Some(&before), &waiting), []);
        world.pass(60);
        world.approve("example-run-after-all", "True", 1);
        world.step(RUN);
        let latency = SignedDuration::from_secs(60);
        assert_eq!(approval_latencies(Some(&waiting), world.status(RUN)), [ApprovalLatency { position: GatePosition::After, latency }]);
        assert_eq!(approval_latencies(Some(world.status(RUN)), world.status(RUN)), []);
        assert_eq!(stage_durations(Some(&waiting), world.status(RUN), world.now), []);
    }
}
