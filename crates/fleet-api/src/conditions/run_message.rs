//! Parses the message of a run's condition, whichever release wrote it. `run_fault` writes these messages.
//!
//! Several historic texts of one fault have the same meaning.

/// The meaning of the message of a run's `Initialized` or `Succeeded` condition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunMessage {
    SnapshotNotFound {
        index: String,
    },
    PlacementNotFound,
    NotExternal {
        current: String,
    },
    /// `key` is `/name` or `namespace/name`.
    StrategyNotFound {
        key: String,
    },
    InvalidStageTasks {
        stage: String,
        error: String,
    },
    ClusterInSeveralStages {
        cluster: String,
    },
    /// Only the first few are named.
    ClustersInNoStage {
        shown: Vec<String>,
    },
    InvalidSortingLabel {
        key: String,
        value: String,
        cluster: String,
    },
    InvalidSnapshotIndex {
        index: String,
    },
    NotScheduled,
    BindingsDoNotFit,
    InvalidStageSelector {
        stage: String,
        error: String,
    },
    /// Older releases do not name the binding.
    Preempted {
        cluster: String,
        stage: String,
        binding: Option<String>,
    },
    PolicyOutdated,
    ClusterCountOutdated,
    StageMembershipChanged,
    ApplyStrategyOutdated,
    ForeignApprovalRequest {
        request: String,
    },
    /// None of the known texts.
    Other,
}

impl RunMessage {
    /// The first meaning that matches, in the order of the rules.
    pub fn read(text: &str) -> Self {
        READERS.iter().find_map(|read| read(text)).unwrap_or(Self::Other)
    }
}

/// The run in a binding's `RolloutStarted` message: `…, updateRun: <name>`.
pub fn run_that_moved(message: &str) -> Option<&str> {
    // Older releases wrote `stagedUpdateRun: ` and `clusterStagedUpdateRun: `.
    let start = ["updateRun: ", "UpdateRun: "].iter().find_map(|word| message.rfind(word).map(|at| at + word.len()))?;
    message[start..].split_whitespace().next().map(|name| name.trim_end_matches([',', '.']))
}

/// Prefixes of messages in this and older releases: that the run ends, in which phase, and whether it is a user
/// error.
const LEADS: &[&str] = &[
    "cannot continue the updateRun: ",
    "cannot continue the StagedUpdateRun: ",
    "failed to validate the updateRun: ",
    "failed to validate the updateRun, ",
    "failed to initialize the stagedUpdateRun: ",
    "failed to process the request due to a client error: ",
    "unexpected behavior which cannot be handled by the controller: ",
];

/// The message without its prefixes.
pub fn reason(message: &str) -> &str {
    let mut rest = message;
    while let Some(shorter) = LEADS.iter().find_map(|lead| rest.strip_prefix(lead)) {
        rest = shorter;
    }
    if rest.is_empty() { message } else { rest }
}

const READERS: &[fn(&str) -> Option<RunMessage>] = &[
    preempted,
    snapshot_not_found,
    placement_not_found,
    not_external,
    strategy_not_found,
    invalid_stage_tasks,
    cluster_in_several_stages,
    clusters_in_no_stage,
    invalid_sorting_label,
    invalid_snapshot_index,
    not_scheduled,
    bindings_do_not_fit,
    invalid_stage_selector,
    outdated,
    stage_membership_changed,
    foreign_approval_request,
];

fn snapshot_not_found(text: &str) -> Option<RunMessage> {
    let rest = ["no resourceSnapshots with index ", "no clusterResourceSnapshots with index "]
        .iter()
        .find_map(|lead| after(text, lead))?;
    let index: String = rest.chars().skip_while(|c| !c.is_ascii_digit()).take_while(char::is_ascii_digit).collect();
    rest.contains("found for").then_some(RunMessage::SnapshotNotFound { index })
}

fn placement_not_found(text: &str) -> Option<RunMessage> {
    let words = ["placement", "resourcePlacement", "clusterResourcePlacement"];
    let said = words.iter().any(|word| text.contains(&format!("parent {word} not found")));
    said.then_some(RunMessage::PlacementNotFound)
}

fn not_external(text: &str) -> Option<RunMessage> {
    after(text, "does not have an external rollout strategy").map(|rest| {
        let current = after(rest, "current strategy: ").unwrap_or_default();
        RunMessage::NotExternal { current: current.trim().to_owned() }
    })
}

fn strategy_not_found(text: &str) -> Option<RunMessage> {
    let words = ["updateStrategy", "stagedUpdateStrategy", "clusterStagedUpdateStrategy"];
    let rest = words.iter().find_map(|word| after(text, &format!("referenced {word} not found")))?;
    Some(RunMessage::StrategyNotFound { key: ticked(rest).unwrap_or_default().to_owned() })
}

fn invalid_stage_tasks(text: &str) -> Option<RunMessage> {
    let rest =
        ["before", "after"].iter().find_map(|when| after(text, &format!("the {when} stage tasks are invalid")))?;
    let (stage, error) = stage_and_error(rest);
    Some(RunMessage::InvalidStageTasks { stage, error })
}

fn cluster_in_several_stages(text: &str) -> Option<RunMessage> {
    let at = text.find("appears in more than one stage")?;
    let cluster = text[..at].rsplit('`').nth(1)?;
    Some(RunMessage::ClusterInSeveralStages { cluster: cluster.to_owned() })
}

fn clusters_in_no_stage(text: &str) -> Option<RunMessage> {
    let rest = after(text, "some clusters are not placed in any stage")?;
    let names = after(rest, "showing up to 10: ").unwrap_or_default();
    let shown = names.split(", ").map(|name| name.trim().trim_end_matches(']').to_owned());
    Some(RunMessage::ClustersInNoStage { shown: shown.filter(|name| !name.is_empty()).collect() })
}

fn invalid_sorting_label(text: &str) -> Option<RunMessage> {
    let rest = after(text, "the sorting label ")?;
    let (key, value) = ticked(rest)?.split_once(':')?;
    let cluster = ticked(after(rest, "on cluster ")?)?;
    let [key, value, cluster] = [key, value, cluster].map(str::to_owned);
    Some(RunMessage::InvalidSortingLabel { key, value, cluster })
}

fn invalid_snapshot_index(text: &str) -> Option<RunMessage> {
    let rest = after(text, "invalid resource snapshot index")?;
    Some(RunMessage::InvalidSnapshotIndex { index: ticked(rest).unwrap_or_default().to_owned() })
}

fn not_scheduled(text: &str) -> Option<RunMessage> {
    const SAID: &[&str] = &[
        "not fully scheduled yet",
        "no latest policy snapshot",
        "multiple active policy snapshots",
        "latest policy snapshots",
    ];
    SAID.iter().any(|words| text.contains(words)).then_some(RunMessage::NotScheduled)
}

fn bindings_do_not_fit(text: &str) -> Option<RunMessage> {
    const SAID: &[&str] = &["no scheduled or to-be-deleted bindings", "the number of selected bindings"];
    SAID.iter().any(|words| text.contains(words)).then_some(RunMessage::BindingsDoNotFit)
}

fn invalid_stage_selector(text: &str) -> Option<RunMessage> {
    let (stage, error) = stage_and_error(after(text, "the stage label selector is invalid")?);
    Some(RunMessage::InvalidStageSelector { stage, error })
}

fn preempted(text: &str) -> Option<RunMessage> {
    let rest = after(text, "of the updating cluster ")?;
    let stage = ticked(after(rest, "in the stage ")?)?;
    let lost = rest.contains("is not up-to-date") || rest.contains("does not have expected status");
    lost.then_some(())?;
    let binding = after(rest, "check the status of binding ").and_then(ticked);
    Some(RunMessage::Preempted {
        cluster: ticked(rest)?.to_owned(),
        stage: stage.to_owned(),
        binding: binding.map(str::to_owned),
    })
}

fn outdated(text: &str) -> Option<RunMessage> {
    let rest = &text[..text.find("in the updateRun is outdated")?];
    if rest.contains("the policy snapshot index used") {
        Some(RunMessage::PolicyOutdated)
    } else if rest.contains("the cluster count") {
        Some(RunMessage::ClusterCountOutdated)
    } else if rest.contains("the applyStrategy") {
        Some(RunMessage::ApplyStrategyOutdated)
    } else {
        None
    }
}

fn stage_membership_changed(text: &str) -> Option<RunMessage> {
    let moved = text.contains(" cluster in the `") && text.contains(" stage has changed");
    let counted = text.contains("the number of clusters in index");
    let unexpected = text.contains("to be deleted is not in the delete stage");
    (moved || counted || unexpected).then_some(RunMessage::StageMembershipChanged)
}

fn foreign_approval_request(text: &str) -> Option<RunMessage> {
    text.contains("is targeting update run").then_some(())?;
    let request = ticked(after(text, "the approval request task ")?)?;
    Some(RunMessage::ForeignApprovalRequest { request: request.to_owned() })
}

/// From `…, stage: <s>, err: <e>`.
fn stage_and_error(rest: &str) -> (String, String) {
    let Some(named) = after(rest, "stage: ") else { return Default::default() };
    let (stage, error) = named.split_once(", err: ").unwrap_or((named, ""));
    (stage.to_owned(), error.trim().to_owned())
}

fn after<'a>(text: &'a str, lead: &str) -> Option<&'a str> {
    text.find(lead).map(|at| &text[at + lead.len()..])
}

/// The text between the next two backticks.
fn ticked(text: &str) -> Option<&str> {
    text.split('`').nth(1)
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;
    use crate::conditions::run_fault::{
        AfterStageTasksProblem, BeforeStageTasksProblem, Preemption, RunFault, SortingLabelProblem, UnplacedClusters,
    };
    use crate::conditions::tests::Samples as _;

    fn check(text: &str, expected: Expect) {
        expected.assert_eq(&format!("{:?}", RunMessage::read(text)));
    }

    #[test]
    fn messages_are_parsed_back() {
        let word = |text: &str| text.to_owned();
        let faults = [
            RunFault::SnapshotNotFound { index: 1, placement: word("/p") },
            RunFault::PlacementNotFound,
            RunFault::StrategyNotExternal { strategy_type: word("RollingUpdate") },
            RunFault::StrategyNotFound { strategy: word("ns/s") },
            RunFault::InvalidBeforeStageTasks {
                strategy: word("/s"),
                stage: word("one"),
                problem: BeforeStageTasksProblem::TooMany,
            },
            RunFault::InvalidAfterStageTasks {
                strategy: word("/s"),
                stage: word("one"),
                problem: AfterStageTasksProblem::WaitNotPositive { index: 0 },
            },
            RunFault::ClusterInSeveralStages { cluster: word("member-1") },
            RunFault::ClustersInNoStage { clusters: UnplacedClusters(vec![word("b"), word("a")]) },
            RunFault::InvalidSortingLabel {
                key: word("order"),
                value: word("first"),
                cluster: word("c"),
                problem: SortingLabelProblem::NotAnInteger,
            },
            RunFault::InvalidSnapshotIndex { index: word("abc") },
            RunFault::NotFullyScheduled { snapshot_name: word("p-0") },
            RunFault::NoPolicySnapshot { placement: word("/p") },
            RunFault::SeveralPolicySnapshots { placement: word("/p"), found: 2 },
            RunFault::NoBindings { snapshot: word("/p-0") },
            RunFault::BindingCountDiffers { selected: 1, observed: 2 },
            RunFault::InvalidStageSelector { strategy: word("/s"), stage: word("odd"), error: word("no") },
            RunFault::Preempted {
                by_other_run: Preemption { cluster: word("c"), stage: word("one"), binding: word("ns/b") },
            },
            RunFault::PolicyIndexOutdated { latest: word("1"), recorded: word("0") },
            RunFault::ClusterCountOutdated { latest: 1, recorded: 2 },
            RunFault::StageSizeChanged { index: 0, new: 2, existing: 1 },
            RunFault::StageClusterChanged { position: 0, index: 0, new: word("a"), existing: word("b") },
            RunFault::NotInDeleteStage { cluster: word("c") },
            RunFault::ApplyStrategyOutdated { latest: word("x"), recorded: word("y") },
            RunFault::ForeignApprovalRequest {
                request: word("/r-before-one"),
                found_run: word("/other"),
                found_stage: word("one"),
                run: word("/r"),
                stage: word("one"),
            },
            RunFault::NoStagesRecorded,
        ];
        let read = faults.iter().map(|fault| format!("{} {:?}", fault.id(), RunMessage::read(&fault.to_string())));
        expect![[r#"
            I-19 SnapshotNotFound { index: "1" }
            I-01 PlacementNotFound
            I-02 NotExternal { current: "RollingUpdate" }
            I-11 StrategyNotFound { key: "ns/s" }
            I-12 InvalidStageTasks { stage: "one", error: "beforeStageTasks can have at most one task" }
            I-13 InvalidStageTasks { stage: "one", error: "task 0 of type TimedWait has wait duration <= 0" }
            I-15 ClusterInSeveralStages { cluster: "member-1" }
            I-17 ClustersInNoStage { shown: ["a", "b"] }
            I-16 InvalidSortingLabel { key: "order", value: "first", cluster: "c" }
            I-18 InvalidSnapshotIndex { index: "abc" }
            I-07 NotScheduled
            I-03 NotScheduled
            I-04 NotScheduled
            I-09 BindingsDoNotFit
            I-10 BindingsDoNotFit
            I-14 InvalidStageSelector { stage: "odd", error: "no" }
            E-04 Preempted { cluster: "c", stage: "one", binding: Some("ns/b") }
            V-02 PolicyOutdated
            V-03 ClusterCountOutdated
            V-08 StageMembershipChanged
            V-09 StageMembershipChanged
            V-19 StageMembershipChanged
            V-01 ApplyStrategyOutdated
            E-06 ForeignApprovalRequest { request: "/r-before-one" }
            V-05 Other"#]]
        .assert_eq(&read.collect::<Vec<_>>().join("\n"));
    }

    #[test]
    fn messages_of_older_releases_parse_alike() {
        let lead = "cannot continue the StagedUpdateRun: failed to initialize the stagedUpdateRun: failed to process the request due to a client error: ";
        check(
            &format!("{lead}no resourceSnapshots with index `1` found for resourcePlacement `example-placement`"),
            expect![[r#"SnapshotNotFound { index: "1" }"#]],
        );
        check(
            "no clusterResourceSnapshots with index `3` found for clusterResourcePlacement `p`",
            expect![[r#"SnapshotNotFound { index: "3" }"#]],
        );
        check(&format!("{lead}parent resourcePlacement not found"), expect!["PlacementNotFound"]);
        check(&format!("{lead}parent clusterResourcePlacement not found"), expect!["PlacementNotFound"]);
        check("referenced clusterStagedUpdateStrategy not found: `s`", expect![[r#"StrategyNotFound { key: "s" }"#]]);
        check(
            "cluster `member-1` appears in more than one stage",
            expect![[r#"ClusterInSeveralStages { cluster: "member-1" }"#]],
        );
        check(
            "cannot continue the StagedUpdateRun: unexpected behavior which cannot be handled by the controller: the \
             resourceBinding of the updating cluster `member1` in the stage `staging` does not have expected status: binding \
             spec diff: binding has different resourceSnapshotName, want: example-placement-0-snapshot, got: \
             example-placement-1-snapshot; binding state (want Bound): Bound; binding RolloutStarted (want true): true, \
             please check if there is concurrent stagedUpdateRun",
            expect![[r#"Preempted { cluster: "member1", stage: "staging", binding: None }"#]],
        );
        check("more than one (2 in actual) latest policy snapshots found", expect!["NotScheduled"]);
        check("something else", expect!["Other"]);
    }

    #[test]
    fn the_reason_is_extracted_without_its_prefix() {
        let lead = "cannot continue the updateRun: failed to validate the updateRun: ";
        let user = "failed to process the request due to a client error: ";
        assert_eq!(reason(&format!("{lead}{user}parent placement not found")), "parent placement not found");
        assert_eq!(reason("parent placement not found"), "parent placement not found");
        assert_eq!(reason(lead), lead, "something is always said");
        for fault in RunFault::samples() {
            let said = fault.to_string();
            assert!(LEADS.iter().all(|lead| !reason(&said).starts_with(lead)), "{said}");
        }
    }

    #[test]
    fn the_run_that_moved_a_binding() {
        let lead = "Detected the new changes on the resources and started the rollout process";
        let read = |tail: &str| run_that_moved(&format!("{lead}{tail}")).map(str::to_owned);
        assert_eq!(read(", resourceSnapshotIndex: 1, updateRun: example-run-1").as_deref(), Some("example-run-1"));
        assert_eq!(read(", resourceSnapshotIndex: 1, stagedUpdateRun: run").as_deref(), Some("run"));
        assert_eq!(read(", resourceSnapshotIndex: , clusterStagedUpdateRun: run").as_deref(), Some("run"));
        assert_eq!(read(""), None);
    }
}
