//! Properties of reading and writing conditions, over every state of every type.

use std::fmt::Write as _;

use expect_test::expect;
use jiff::Timestamp;
use proptest::prelude::*;
use proptest::sample::Index;

use super::*;
use crate::conditions::per_cluster::RolloutStep;
use crate::conditions::{MESSAGE_LIMIT_CHARACTERS, decode, decode_ignoring_generation, put, remove};
use crate::time::Time;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

/// Every state of every type, as (type, reason, state).
fn all_states(types: &[Type]) -> Vec<(&Type, &ReasonRow, &StateRow)> {
    types
        .iter()
        .flat_map(|type_| type_.reasons.iter().map(move |reason| (type_, reason)))
        .flat_map(|(type_, reason)| reason.states.iter().map(move |state| (type_, reason, state)))
        .collect()
}

fn list_of(findings: impl IntoIterator<Item = Finding>) -> Vec<Condition> {
    let mut conditions = Vec::new();
    for finding in findings {
        put(&mut conditions, finding, at(0));
    }
    conditions
}

proptest! {
    #[test]
    fn the_transition_time_moves_only_with_the_status(
        steps in prop::collection::vec((any::<Index>(), 1..4_i64, 0..1000_i64), 1..60)
    ) {
        let types = all_types();
        // Few types with common reasons, so that the same condition is often written twice.
        let states: Vec<_> = all_states(&types).into_iter().filter(|(type_, ..)| type_.object == "binding").collect();
        let mut conditions: Vec<Condition> = Vec::new();
        for (choice, generation, now) in steps {
            let (_, _, state) = choice.get(&states);
            let finding = (state.finding)(generation);
            let before = conditions.clone();
            let changed = put(&mut conditions, finding.clone(), at(now));

            prop_assert_eq!(changed, before != conditions);
            let place = before.iter().position(|old| old.type_ == finding.type_word()).unwrap_or(before.len());
            for (index, old) in before.iter().enumerate().filter(|(index, _)| *index != place) {
                prop_assert_eq!(old, &conditions[index]);
            }
            let kept = before.get(place).filter(|old| old.status == finding.status());
            prop_assert_eq!(&conditions[place], &Condition {
                type_: finding.type_word().to_owned(),
                status: finding.status(),
                observed_generation: generation,
                last_transition_time: kept.map_or(Time::new(at(now)), |old| old.last_transition_time),
                reason: finding.reason_word().to_owned(),
                message: finding.message().to_owned(),
            });
        }
    }

    #[test]
    fn conditions_are_read_back(older in any::<Index>(), newer in any::<Index>(), generation in 0..i64::MAX) {
        let types = all_types();
        let states = all_states(&types);
        let ((_, _, older), (type_, reason, newer)) = (older.get(&states), newer.get(&states));
        let conditions = list_of([(older.finding)(generation), (newer.finding)(generation)]);
        prop_assert_eq!((type_.read)(&conditions, generation), ReadCondition::Known(reason.status, reason.word));
    }

    #[test]
    fn a_finding_of_another_generation_is_never_current(
        choice in any::<Index>(), found in 0..5_i64, asked in 0..5_i64
    ) {
        let types = all_types();
        let states = all_states(&types);
        let (type_, reason, state) = choice.get(&states);
        let outcome = (type_.read)(&list_of([(state.finding)(found)]), asked);
        let expected = if found == asked { ReadCondition::Known(reason.status, reason.word) } else { ReadCondition::Stale };
        prop_assert_eq!(outcome, expected);
    }
}

#[test]
fn every_reason_is_recognised_under_all_its_names_and_only_with_its_status() {
    for type_ in all_types() {
        let mut condition = Condition {
            type_: type_.words[0].to_owned(),
            status: ConditionStatus::True,
            observed_generation: 1,
            last_transition_time: Time::new(at(0)),
            reason: "MadeUp".to_owned(),
            message: String::new(),
        };
        assert_eq!((type_.read)(std::slice::from_ref(&condition), 1), ReadCondition::Unrecognised);
        assert_eq!((type_.read)(&[], 1), ReadCondition::Absent);
        for reason in &type_.reasons {
            for word in [&[reason.word], reason.other_words].concat() {
                word.clone_into(&mut condition.reason);
                for status in [ConditionStatus::True, ConditionStatus::False, ConditionStatus::Unknown] {
                    condition.status = status;
                    match (type_.read)(std::slice::from_ref(&condition), 1) {
                        ReadCondition::Known(known, meaning) if known == reason.status => {
                            assert_eq!((status, meaning), (reason.status, reason.word));
                        }
                        // The same word with another status is another reason of the type, or none.
                        other => assert_ne!(status, reason.status, "{word}: {other:?}"),
                    }
                }
            }
        }
    }
}

#[test]
fn older_words_for_a_work_keep_their_meaning() {
    use crate::conditions::work::{WorkAppliedReason, WorkAvailableReason};
    use ConditionStatus::{False, True, Unknown};

    assert_eq!(WorkAppliedReason::recognise(False, "WorkAppliedFailed"), Some(WorkAppliedReason::SomeNotApplied));
    assert_eq!(WorkAppliedReason::recognise(True, "WorkAppliedCompleted"), Some(WorkAppliedReason::AllApplied));
    let available = WorkAvailableReason::recognise;
    assert_eq!(available(False, "WorkNotAvailableYet"), Some(WorkAvailableReason::SomeNotAvailable));
    assert_eq!(available(True, "WorkAvailable"), Some(WorkAvailableReason::AllAvailable));
    assert_eq!(available(Unknown, "WorkAvailabilityUnknown"), Some(WorkAvailableReason::AvailabilityUnknown));
    assert_eq!(available(True, "SomeManifestsAreNotAvailabilityTrackable"), Some(WorkAvailableReason::NotTrackable));
}

#[test]
fn only_a_current_condition_decides() {
    let conditions = list_of([BindingAvailable::AllAvailable.finding(4)]);
    let stale = decode::<BindingAvailable>(&conditions, 5);
    assert!(!stale.is_true() && !stale.is_false() && stale.current().is_none() && stale.reason().is_none());
    assert_eq!(stale.status(), ConditionStatus::Unknown);
    assert_eq!(stale.any(), conditions.first());

    let current = decode::<BindingAvailable>(&conditions, 4);
    assert!(current.is_true() && !current.is_false());
    assert_eq!(current.current(), conditions.first());

    let failed = list_of([BindingAvailable::WorkNotAvailable { work: "w".into() }.finding(4)]);
    assert!(decode::<BindingAvailable>(&failed, 4).is_false());
    assert!(decode::<BindingApplied>(&failed, 4).any().is_none());
}

#[test]
fn an_approval_counts_whatever_reason_its_user_chose() {
    let mut conditions = list_of([Approved::RequestApproved.finding(1)]);
    conditions[0].reason = "lgtm".to_owned();
    let approved = decode::<Approved>(&conditions, 1);
    assert!(matches!(approved, Decoded::Unrecognised(_)) && approved.is_true());
    assert!(!decode::<Approved>(&conditions, 2).is_true());
}

#[test]
fn a_manifest_is_read_without_regard_to_the_generation_of_the_live_object() {
    let conditions = list_of([ManifestApplied::PreparingToProcess.finding(17)]);
    let decoded = decode_ignoring_generation::<ManifestApplied>(&conditions);
    assert_eq!(decoded.reason(), Some(ManifestAppliedReason::PreparingToProcess));
}

#[test]
fn remove_removes_only_its_own_type() {
    let kept = BindingApplied::AllApplied;
    let mut conditions = list_of([kept.finding(1), BindingAvailable::AllAvailable.finding(1)]);
    assert!(remove(&mut conditions, BindingAvailable::type_word(())));
    assert!(!remove(&mut conditions, BindingAvailable::type_word(())));
    assert_eq!(conditions, list_of([kept.finding(1)]));
}

#[test]
fn a_copy_keeps_unknown_reasons_and_gets_the_new_generation() {
    let mut on_binding = list_of([BindingApplied::InProgress.finding(2)]);
    on_binding[0].reason = "FromTheFuture".to_owned();
    on_binding[0].message = "something new".to_owned();
    let step = RolloutStep::Applied;
    let source = step.current(&on_binding, 2).unwrap();
    assert!(step.current(&on_binding, 3).is_none());

    let entry = list_of([step.copied(source, 9)]);
    assert_eq!(entry, [Condition { observed_generation: 9, ..source.clone() }]);
    let scheduled = Finding::copied::<PlacementScheduled>(PlacementScope::Namespaced, source, 9);
    assert_eq!(scheduled.type_word(), "ResourcePlacementScheduled");
    assert_eq!(Finding::repeated(source, 9), step.copied(source, 9));
}

#[test]
fn a_message_is_cut_to_the_limit_of_the_schema() {
    let finding = |length: usize| AgentJoined::FailedToJoin { error: "é".repeat(length) }.finding(1);
    assert_eq!(finding(MESSAGE_LIMIT_CHARACTERS).message().chars().count(), MESSAGE_LIMIT_CHARACTERS);
    assert_eq!(finding(MESSAGE_LIMIT_CHARACTERS + 1), finding(MESSAGE_LIMIT_CHARACTERS));
}

#[test]
fn a_binding_in_progress_has_not_failed() {
    let steps = RolloutStep::APPLYING.iter().chain([&RolloutStep::DiffReported]);
    let types = all_types();
    let mut table = String::new();
    for step in steps {
        let type_ = types.iter().find(|one| one.object == "binding" && one.words == [step.type_word()]).unwrap();
        for reason in &type_.reasons {
            for state in &reason.states {
                let condition = list_of([(state.finding)(1)]).remove(0);
                let failed = step.has_failed(&condition);
                assert!(reason.status == ConditionStatus::False || !failed, "{}", condition.message);
                if failed {
                    writeln!(table, "{} {}: {}", condition.type_, condition.reason, condition.message).unwrap();
                }
            }
        }
        // Reasons of other releases: those that are only read mean that the step is still to be tried.
        let mut condition = list_of([(type_.reasons[0].states[0].finding)(1)]).remove(0);
        condition.status = ConditionStatus::False;
        "FromTheFuture".clone_into(&mut condition.reason);
        assert!(step.has_failed(&condition));
        for reason in type_.reasons.iter().filter(|one| one.states.is_empty()) {
            reason.word.clone_into(&mut condition.reason);
            assert!(!step.has_failed(&condition), "{}", reason.word);
        }
    }
    expect![[r"
        Overridden OverriddenFailed: Failed to apply the override rules on the resources: {detail}
        WorkSynchronized SyncWorkFailed: Failed to synchronize the work to the latest: {detail}
        Applied NotAllWorkHaveBeenApplied: Work object {work} has failed to apply
        Available NotAllWorkAreAvailable: Work object {work} is not yet available
        DiffReported NotAllWorkHaveDiffReported: Work object {work} has failed to report diff
    "]]
    .assert_eq(&table);
}
