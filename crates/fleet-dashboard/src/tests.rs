//! Every page with hostile texts in every field: they stay texts. Also the states of pages that depend on values alone.

use std::collections::BTreeMap;

use fleet_api::time::Time;
use fleet_api::types::{PlacementType, RolloutStrategyType, UpdateRunState};
use fleet_core::diagnose::{Action, Diagnosis, Evidence, Finding, Fix, ObjectRef, PatchType, Severity, Step, Unread};
use fleet_core::overview::{
    Change, ChangeSort, ClusterForecast, ClusterOverview, ClusterState, FieldChange, Forecast, Gate, GateState,
    GateTask, PlacedCluster, PlacementOverview, PlacementState, RunLine, RunOverview, StageForecast, StageOverview,
    Version, Wait,
};
use fleet_core::updaterun::{ClusterStep, RunOutcome, StageStep};
use jiff::Timestamp;
use serde_json::json;

use crate::cluster::{self, Grouping};
use crate::confirm::{self, Rollback};
use crate::diagnosis;
use crate::failure::{self, Failure};
use crate::fleet::{Fleet, Member, Strategy};
use crate::home;
use crate::inbox;
use crate::placement::{self, Difference, PlacementPage};
use crate::plan::PlanPage;
use crate::run::{self, Event, Offers, RunPage, SHORTENED_FROM};
use crate::shell::{HubProblem, Notice, Section, Shell, bare};

/// A text that tries to become markup, an attribute, a script, a link, and to hide.
const HOSTILE: &str =
    "x\"'><script>alert(1)</script><img src=x onerror=alert(1)> javascript:alert(1) \u{202e}\u{200b}\u{1b}[2J</main>";

const MAY_ALL: Offers = Offers { approve: true, change_runs: true, create_runs: true };

fn now() -> Timestamp {
    "2026-01-01T00:10:00Z".parse().unwrap()
}

fn at(second: i64) -> Time {
    Timestamp::from_second(now().as_second() - 600 + second).unwrap().into()
}

fn shell(text: &str) -> Shell {
    Shell {
        now: now(),
        hub: text.to_owned(),
        user: Some(text.to_owned()),
        read_only: false,
        token: "token".to_owned(),
        inbox: 2,
        notice: Some(Notice { text: text.to_owned() }),
        problems: vec![HubProblem { what: text.to_owned(), hint: text.to_owned() }],
    }
}

fn gate(text: &str, state: GateState) -> Gate {
    Gate { task: GateTask::Approval { request: text.to_owned() }, state, since: Some(at(60)), until: None }
}

fn in_run(text: &str, state: ClusterStep, stuck: bool) -> ClusterOverview {
    ClusterOverview {
        name: text.to_owned(),
        state,
        stuck,
        started: Some(at(10)),
        ended: None,
        resource_index: Some(1),
        step: Some("Applied"),
        problem: Some(text.to_owned()),
    }
}

fn stage(text: &str) -> StageOverview {
    let wait = GateTask::TimedWait { wait_time: text.to_owned() };
    StageOverview {
        name: text.to_owned(),
        removes: false,
        state: StageStep::Updating,
        since: Some(at(10)),
        started: Some(at(10)),
        ended: None,
        max_concurrency: Some(text.to_owned()),
        before: vec![gate(text, GateState::Open)],
        clusters: vec![
            in_run(text, ClusterStep::Succeeded, false),
            in_run(text, ClusterStep::Updating, true),
            in_run(text, ClusterStep::Pending, false),
        ],
        after: vec![
            gate(text, GateState::Closed),
            Gate { task: wait, state: GateState::Closed, since: None, until: Some(at(700)) },
        ],
    }
}

fn run(text: &str) -> RunOverview {
    RunOverview {
        name: text.to_owned(),
        namespace: Some(text.to_owned()),
        placement: text.to_owned(),
        strategy: text.to_owned(),
        asked: UpdateRunState::Run,
        state: RunOutcome::Stuck,
        since: Some(at(30)),
        message: text.to_owned(),
        resource_index: Some(2),
        created: Some(at(0)),
        clusters_done: 1,
        clusters: 3,
        waits: vec![
            Wait::Approval {
                stage: text.to_owned(),
                request: text.to_owned(),
                since: Some(at(60)),
                approved_generation: Some(1),
            },
            Wait::Time { stage: text.to_owned(), until: at(700) },
            Wait::Cluster {
                stage: text.to_owned(),
                cluster: text.to_owned(),
                step: "Applied",
                since: Some(at(60)),
                problem: Some(text.to_owned()),
                stuck: true,
            },
            Wait::Removal { cluster: text.to_owned() },
            Wait::User,
            Wait::Moment { message: text.to_owned() },
        ],
        stages: vec![stage(text), StageOverview { removes: true, ..stage(text) }],
        would_fail: Some(text.to_owned()),
    }
}

fn placement(text: &str) -> PlacementOverview {
    PlacementOverview {
        name: text.to_owned(),
        namespace: Some(text.to_owned()),
        picks: PlacementType::PickAll,
        rollout: RolloutStrategyType::External,
        state: PlacementState::Failing,
        since: Some(at(30)),
        message: text.to_owned(),
        created: Some(at(0)),
        clusters: vec![PlacedCluster {
            name: text.to_owned(),
            state: ClusterState::Failing,
            since: Some(at(30)),
            resource_index: Some(1),
            step: Some("Applied"),
            problem: Some(text.to_owned()),
            overrides: vec![text.to_owned()],
            failed: 1,
            drifted: 1,
            diffed: 1,
        }],
        runs: vec![RunLine::of(&run(text))],
    }
}

fn diagnosed(text: &str) -> Diagnosis {
    let object = ObjectRef {
        api_version: text.to_owned(),
        kind: "ClusterApprovalRequest".to_owned(),
        namespace: Some(text.to_owned()),
        name: text.to_owned(),
        member: None,
    };
    let action = Action::Patch {
        object: object.clone(),
        subresource: Some("status"),
        patch_type: PatchType::Merge,
        patch: json!({"status": {}}),
    };
    let step = Step { what: text.to_owned(), command: text.to_owned(), action: Some(action), fill_in: Vec::new() };
    let open = Step { action: None, fill_in: vec![text.to_owned()], ..step.clone() };
    let finding = Finding {
        entry: "UR-40",
        because_of: Some("PL-V1"),
        severity: Severity::Error,
        title: text.to_owned(),
        explanation: text.to_owned(),
        evidence: vec![Evidence { object: object.clone(), field: text.to_owned(), value: text.to_owned() }],
        fixes: vec![Fix { what: format!("{text}!"), steps: vec![step, open] }],
    };
    Diagnosis {
        subject: object,
        summary: text.to_owned(),
        cause: Some(finding.clone()),
        notices: vec![finding],
        unread: vec![Unread { what: text.to_owned(), why: text.to_owned() }],
    }
}

fn member(text: &str) -> Member {
    let pairs = BTreeMap::from([(text.to_owned(), text.to_owned())]);
    Member {
        name: text.to_owned(),
        labels: pairs.clone(),
        taints: vec![text.to_owned()],
        joined: true,
        leaving: false,
        heartbeat: Some(at(590)),
        created: Some(at(0)),
        properties: pairs,
        diagnosis: diagnosed(text),
    }
}

fn fleet(text: &str) -> Fleet {
    let strategy = Strategy { namespace: Some(text.to_owned()), name: text.to_owned(), stages: vec![text.to_owned()] };
    Fleet {
        runs: vec![run(text)],
        placements: vec![placement(text)],
        members: vec![member(text)],
        strategies: vec![strategy],
    }
}

fn changed(text: &str) -> Vec<Change> {
    let field = FieldChange { path: text.to_owned(), before: Some(json!(text)), after: Some(json!({text: text})) };
    vec![Change {
        sort: ChangeSort::Changed,
        api_version: text.to_owned(),
        kind: text.to_owned(),
        namespace: text.to_owned(),
        name: text.to_owned(),
        envelope: text.to_owned(),
        fields: vec![field],
    }]
}

/// Every page with this text everywhere.
fn pages(text: &str) -> Vec<(&'static str, String)> {
    let (fleet, shell, run) = (fleet(text), shell(text), run(text));
    let items = inbox::items(&fleet);
    let events =
        [Event { warning: true, reason: text.to_owned(), message: text.to_owned(), last: Some(at(1)), count: 2 }];
    let run_page = RunPage { run: &run, offers: MAY_ALL, read_only: false, events: &events, all: true, now: now() };
    let versions = [Version {
        index: 1,
        latest: true,
        created: Some(at(0)),
        hash: text.to_owned(),
        resources: 1,
        changes: changed(text),
        clusters: vec![text.to_owned()],
        runs: vec![text.to_owned()],
    }];
    let differences = [Difference {
        cluster: text.to_owned(),
        drifted: true,
        resource: text.to_owned(),
        fields: vec![(text.to_owned(), text.to_owned(), text.to_owned())],
    }];
    let placement_page = PlacementPage {
        placement: &fleet.placements[0],
        versions: Some(&versions),
        differences: &differences,
        offers: MAY_ALL,
        read_only: false,
        all: true,
        now: now(),
    };
    let stage = StageForecast {
        name: text.to_owned(),
        removes: false,
        max_concurrency: Some(text.to_owned()),
        before: vec![gate(text, GateState::NotReached)],
        clusters: vec![ClusterForecast {
            name: text.to_owned(),
            from: Some(1),
            overrides: vec![text.to_owned()],
            changes: changed(text),
            problem: None,
        }],
        after: vec![gate(text, GateState::NotReached)],
    };
    let forecast = Forecast {
        placement: text.to_owned(),
        strategy: text.to_owned(),
        resource_index: Some(2),
        captures: true,
        stages: vec![stage],
        problem: None,
        remedy: None,
    };
    let plan = PlanPage {
        namespace: Some(text),
        placement: text,
        strategies: &fleet.strategies,
        strategy: Some(text),
        index: Some(1),
        versions: &[1, 2],
        forecast: Some(&forecast),
        may_start: true,
    };
    let failing = Forecast { problem: Some(text.to_owned()), remedy: Some(text.to_owned()), ..forecast.clone() };
    let failing_plan = PlanPage { forecast: Some(&failing), ..plan.clone() };
    let rollback = Rollback {
        namespace: Some(text.to_owned()),
        placement: text.to_owned(),
        strategy: text.to_owned(),
        from: 2,
        to: 1,
        changes: changed(text),
        versions: vec![0, 1, 2],
        clusters: vec![text.to_owned()],
        active_runs: vec![text.to_owned()],
    };
    let mut missing = Failure::new(text, text, text).next("/", text);
    missing.near = vec![(text.to_owned(), "/".to_owned())];
    let page = |content| shell.page(Section::Runs, text, content);
    vec![
        ("home", page(home::page(&fleet, &items, false, now()))),
        ("inbox", page(inbox::page(&items, false, now()))),
        ("runs", page(run::list_page(&fleet.newest_runs(), now()))),
        ("run", page(run_page.content())),
        ("placements", page(placement::list_page(&fleet.placements, now()))),
        ("placement", page(placement_page.content())),
        ("clusters", page(cluster::list_page(&fleet, &format!("label:{text}"), "", now()))),
        ("cluster", page(cluster::page(&fleet, &fleet.members[0], true, now()))),
        ("diagnosis", page(diagnosis::page(text, &[diagnosed(text)], true))),
        ("plan", page(plan.content(&shell))),
        ("failing plan", page(failing_plan.content(&shell))),
        ("approve", page(confirm::approve(&shell, &run, text, Some(&changed(text))))),
        ("stop", page(confirm::turn(&shell, &run, UpdateRunState::Stop))),
        ("resume", page(confirm::turn(&shell, &run, UpdateRunState::Run))),
        ("rollback", page(confirm::rollback(&shell, &rollback))),
        ("missing", page(missing.content())),
        ("signed out", bare(text, failure::signed_out().content())),
    ]
}

/// The tags of a page, as their whole texts between `<` and `>`. Quoted values may contain `>` only escaped.
fn tags(page: &str) -> Vec<&str> {
    page.split('<').skip(1).map(|piece| piece.split_once('>').expect("a tag ends").0).collect()
}

/// Names and values of the attributes of a tag; maud quotes every value.
fn attributes(tag: &str) -> Vec<(&str, &str)> {
    let mut rest = tag.split_once(' ').map_or("", |(_, rest)| rest);
    let mut found = Vec::new();
    while !rest.is_empty() {
        let end = rest.find([' ', '=']).unwrap_or(rest.len());
        let (name, after) = rest.split_at(end);
        let (value, after) = match after.strip_prefix("=\"") {
            Some(quoted) => quoted.split_once('"').expect("a value ends"),
            None => ("", after),
        };
        found.push((name, value));
        rest = after.trim_start();
    }
    found
}

#[test]
fn untrusted_text_is_escaped_on_every_page() {
    for (name, page) in pages(HOSTILE) {
        assert!(page.contains("&lt;script&gt;alert(1)") || name == "signed out", "{name} does not show the text");
        for hidden in ['\u{202e}', '\u{200b}', '\u{1b}'] {
            assert!(!page.contains(hidden), "{name} has a hidden character {hidden:?}");
        }
        let tags = tags(&page);
        let scripts: Vec<_> = tags.iter().filter(|tag| tag.starts_with("script")).collect();
        assert_eq!(scripts, [&"script src=\"/assets/dashboard.js\" defer"], "{name}");
        assert_eq!(tags.iter().filter(|tag| **tag == "/main").count(), 1, "{name}");
        for tag in tags.iter().filter(|tag| !tag.starts_with(['/', '!'])) {
            for (attribute, value) in attributes(tag) {
                assert!(!attribute.starts_with("on") && attribute != "style", "{name}: <{tag}>");
                if ["href", "src", "action"].contains(&attribute) {
                    assert!(value.starts_with('/') || value == "#main", "{name} links to {value}");
                }
            }
        }
    }
}

#[test]
fn pages_are_well_formed_and_have_what_assistive_technology_needs() {
    const VOID: [&str; 4] = ["meta", "link", "input", "img"];
    for (name, page) in pages("web") {
        let mut open: Vec<&str> = Vec::new();
        let mut headings = 0;
        for tag in tags(&page).into_iter().filter(|tag| !tag.starts_with('!')) {
            let word = tag.split(' ').next().unwrap_or_default();
            let has = |wanted: &str| attributes(tag).iter().any(|(attribute, _)| *attribute == wanted);
            match word.strip_prefix('/') {
                Some(word) => assert_eq!(open.pop(), Some(word), "{name}"),
                None if VOID.contains(&word) => {}
                None => open.push(word),
            }
            headings += usize::from(word == "h1");
            match word {
                "img" => assert!(has("alt"), "{name}: <{tag}>"),
                "progress" => assert!(has("aria-label"), "{name}: <{tag}>"),
                "html" => assert!(has("lang"), "{name}"),
                _ => {}
            }
        }
        assert!(open.is_empty(), "{name} leaves {open:?} open");
        assert_eq!(headings, 1, "{name} has one main heading");
    }
}

#[test]
fn the_ids_of_a_page_are_distinct() {
    for (name, page) in pages("web") {
        let tags = tags(&page);
        let mut ids: Vec<&str> =
            tags.iter().flat_map(|tag| attributes(tag)).filter(|(key, _)| *key == "id").map(|(_, id)| id).collect();
        ids.sort_unstable();
        let all = ids.len();
        ids.dedup();
        // The sample run has two stages of the same name.
        let expected = if name == "run" { all - 1 } else { all };
        assert_eq!(ids.len(), expected, "{name}");
    }
}

#[test]
fn only_permitted_actions_are_offered() {
    let run = run("web");
    let shown = |offers: Offers, read_only: bool| {
        RunPage { run: &run, offers, read_only, events: &[], all: false, now: now() }.content().into_string()
    };
    let links = ["/approvals/web?ns=web", "/runs/web/stop?ns=web", "/placements/web/rollback?ns=web"];
    let offered = |page: &str| links.map(|link| page.contains(link));
    assert_eq!(offered(&shown(MAY_ALL, false)), [true, true, true]);
    assert_eq!(offered(&shown(MAY_ALL, true)), [false, false, false]);
    assert_eq!(offered(&shown(Offers::default(), false)), [false, false, false]);
    assert_eq!(offered(&shown(Offers { approve: true, ..Offers::default() }, false)), [true, false, false]);
}

#[test]
fn a_run_over_many_clusters_shows_those_that_need_attention() {
    let mut run = run("web");
    let cluster =
        |index: usize, state| ClusterOverview { name: format!("cluster-{index}"), ..in_run("", state, false) };
    let mut clusters: Vec<ClusterOverview> = (0..1200).map(|index| cluster(index, ClusterStep::Succeeded)).collect();
    clusters[700] = cluster(700, ClusterStep::Failed);
    clusters.extend((1200..1300).map(|index| cluster(index, ClusterStep::Pending)));
    run.stages = vec![StageOverview { clusters, ..stage("all") }];
    run.clusters = 1300;
    assert!(run.clusters >= SHORTENED_FROM);
    let shown = |all: bool| {
        RunPage { run: &run, offers: MAY_ALL, read_only: false, events: &[], all, now: now() }.content().into_string()
    };
    let (short, whole) = (shown(false), shown(true));
    let tiles = |page: &str| page.matches("data-name=\"cluster-").count();
    assert_eq!((tiles(&short), tiles(&whole)), (1, 1300));
    assert!(short.contains("data-name=\"cluster-700\"") && short.contains("1199 succeeded, 100 pending"), "{short}");
    assert!(short.len() < 100_000, "{} bytes", short.len());
}

#[test]
fn the_inbox_has_problems_first_and_nothing_of_a_healthy_fleet() {
    let titles: Vec<String> = inbox::items(&fleet("web")).into_iter().map(|item| item.title).collect();
    assert_eq!(
        titles,
        [
            "Placement web fails on a cluster",
            "Cluster web is stuck in run web",
            "web",
            "Run web is stopped",
            "Approve stage web of run web",
        ]
    );
    let mut healthy = fleet("web");
    healthy.runs[0].state = RunOutcome::Succeeded;
    healthy.placements[0].state = PlacementState::Available;
    healthy.members[0].diagnosis.cause = None;
    assert_eq!(inbox::items(&healthy), []);
}

#[test]
fn members_are_grouped_by_the_requested_property() {
    let mut fleet = fleet("web");
    fleet.placements[0].namespace = None;
    fleet.members[0].labels =
        BTreeMap::from([("region".to_owned(), "north".to_owned()), ("env".to_owned(), "prod".to_owned())]);
    let heading = |group: &str| {
        let page = cluster::tiles(&fleet, &Grouping::parse(group), "", now()).into_string();
        page.split("<h3>").nth(1).unwrap().split(" <span").next().unwrap().to_owned()
    };
    assert_eq!(
        ["health", "region", "label:env", "label:none", "version:web", "version:other"].map(heading),
        ["has a problem", "north", "prod", "no label none", "version 1", "without other"]
    );
    let found =
        |filter: &str| cluster::tiles(&fleet, &Grouping::Health, filter, now()).into_string().contains("data-name");
    assert!(found("WE") && found("env=pr") && !found("nothing"));
}

#[test]
fn assets_are_small_and_complete() {
    for (name, budget) in [("dashboard.css", 30_000), ("dashboard.js", 15_000), ("icon.svg", 1_000)] {
        let asset = crate::assets::find(name).unwrap();
        assert!(asset.content.len() < budget, "{name} has {} bytes", asset.content.len());
    }
    assert_eq!(crate::assets::find("../lib.rs"), None);
}
