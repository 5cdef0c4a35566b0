//! CLI output about untrusted objects: commands to paste, and text on a terminal.

use fleet_api::kinds::{
    Approval, Binding, Cluster, ClusterOverride, DisruptionBudget, Eviction, Family, Member, Namespaced, Obj,
    Placement, PolicySnapshot, Scope, UpdateRun, UpdateStrategy, WorkFamily,
};
use fleet_api::{safe_text, yaml};
use fleet_core::diagnose::{self, Diagnosis, Finding, Inputs, MemberInputs, ObservedObject, SnapshotMetadata, Step};
use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{field, parsed, text};

pub(super) const WORDS: &[&str] = &[
    "; touch x #",
    "$(touch x)",
    "`touch x`",
    "a b",
    "'",
    "\"",
    "\n",
    "\nEOF\n",
    "EOF",
    "<image>",
    ">",
    "|",
    "&",
    "web\u{1b}[2J",
    "--all",
    "-n",
    "*",
    "?",
    "\\",
    "example-run",
    "example-placement",
    "member1",
    "fleet-member-member1",
    "name",
    "namespace",
    "kind",
    "message",
    "reason",
    "resources",
    "labels",
    "value",
    "identifier",
    "Deployment",
    "a=b",
    "a.b/c",
    "${x}",
    "~",
    "#",
    "!x",
    "{a,b}",
];

/// A JSON object: `documents` as they were read on the hub, `sides` as they were read on members.
pub(super) fn commands(input: &[u8]) {
    let Some(input) = parsed(input) else { return };
    let inputs = inputs(&input);
    let mut all = vec![diagnose::run(&inputs), diagnose::placement(&inputs)];
    let members =
        inputs.members.iter().map(|member| diagnose::cluster(&inputs, member.name(), std::slice::from_ref(&inputs)));
    all.extend(members);
    all.extend(inputs.evictions.iter().map(|eviction| diagnose::eviction(&inputs, eviction.name())));
    for step in all.iter().flat_map(steps) {
        let wrong = wrong_with(&step.command);
        assert_eq!(wrong, None, "{:?}", step.command);
        assert!(!step.what.contains('\n'), "a comment goes on as a command: {:?}", step.what);
    }
}

/// A text of an object in any output.
pub(super) fn terminal(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let is_shown = |shown: &str| !shown.chars().any(|one| one != '\n' && safe_text::is_hidden(one));
    let lines = safe_text::lines(&text);
    assert!(is_shown(&lines) && lines.split('\n').count() == text.split('\n').count(), "{lines:?}");
    let line = safe_text::line(&text);
    assert!(!line.chars().any(safe_text::is_hidden), "{line:?}");
    if let Some(word) = safe_text::shell_word(&text) {
        assert_eq!(shlex::split(&word), Some(vec![text.clone().into_owned()]), "{word}");
        assert_eq!(wrong_with(&word), None, "{word}");
    }
    let value = json!({"text": text});
    let document = value.to_string();
    let shown = safe_text::json(&document);
    assert!(is_shown(&shown), "{shown:?}");
    assert_eq!(serde_json::from_str::<Value>(&shown).ok().as_ref(), Some(&value));
    let manifest = yaml::to_string(&value);
    assert!(!manifest.chars().any(|one| !matches!(one, '\n' | '\t') && safe_text::is_hidden(one)), "{manifest:?}");
    assert_eq!(yaml::documents(&manifest), Ok(vec![value]), "{manifest:?}");
}

fn steps(diagnosis: &Diagnosis) -> impl Iterator<Item = &Step> {
    let findings = diagnosis.cause.iter().chain(&diagnosis.notices);
    findings.flat_map(|finding: &Finding| &finding.fixes).flat_map(|fix| &fix.steps)
}

fn inputs(input: &Value) -> Inputs {
    let documents = field(input, "documents");
    let documents = documents.as_array().map(Vec::as_slice).unwrap_or_default();
    let mut inputs = Inputs::empty(Timestamp::UNIX_EPOCH);
    inputs.now = text(input, "now").parse().unwrap_or(Timestamp::UNIX_EPOCH);
    inputs.runs = all::<UpdateRun, Cluster>(documents);
    inputs.run = inputs.runs.first().map(|run| run.name().to_owned());
    inputs.strategies = all::<UpdateStrategy, Cluster>(documents);
    inputs.strategies_elsewhere = all::<UpdateStrategy, Namespaced>(documents);
    inputs.approvals = all::<Approval, Cluster>(documents);
    inputs.placement_names = all::<Placement, Cluster>(documents).iter().map(|one| one.name().to_owned()).collect();
    inputs.placement = all::<Placement, Cluster>(documents).into_iter().next();
    inputs.policy_snapshots = all::<PolicySnapshot, Cluster>(documents);
    let snapshots = documents.iter().filter(|one| one["kind"] == "ClusterResourceSnapshot");
    let metadata = snapshots.filter_map(|one| serde_json::from_value(one["metadata"].clone()).ok());
    inputs.resource_snapshots = metadata.map(|metadata| SnapshotMetadata { metadata }).collect();
    inputs.bindings = all::<Binding, Cluster>(documents);
    inputs.works = all::<WorkFamily, Namespaced>(documents);
    inputs.members = all::<Member, Cluster>(documents);
    inputs.cluster_overrides = all::<ClusterOverride, Cluster>(documents);
    inputs.evictions = all::<Eviction, Cluster>(documents);
    inputs.budget = all::<DisruptionBudget, Cluster>(documents).into_iter().next();
    for (member, side) in field(input, "sides").as_object().into_iter().flatten() {
        let read = MemberInputs {
            applied_works: Vec::new(),
            objects: list(side, "objects"),
            pods: list(side, "pods"),
            events: list(side, "events"),
        };
        inputs.member_inputs.insert(member.clone(), read);
    }
    inputs
}

fn list<T: DeserializeOwned>(value: &Value, name: &str) -> Vec<T> {
    let items = value.get(name).and_then(Value::as_array).into_iter().flatten();
    items.filter_map(|item| serde_json::from_value(item.clone()).ok()).collect()
}

fn all<F: Family, S: Scope>(documents: &[Value]) -> Vec<ObservedObject<F>> {
    let info = Obj::<F, S>::INFO;
    let of_kind = documents.iter().filter(|one| one["kind"] == info.kind);
    let decoded = of_kind.filter_map(|one| {
        let mut one = one.clone();
        one["apiVersion"] = json!(info.api_version());
        serde_json::from_value::<Obj<F, S>>(one).ok()
    });
    decoded.map(ObservedObject::from).collect()
}

/// Shell syntax in a command; `None` if there are only words, or words and a here-document.
fn wrong_with(command: &str) -> Option<String> {
    const HERE: &str = " <<'EOF'\n";
    let (line, document) = match command.split_once(HERE) {
        Some((line, document)) => (line, Some(document)),
        None => (command, None),
    };
    if let Some(document) = document {
        let Some(body) = document.strip_suffix("\nEOF") else {
            return Some("a here-document without its end".to_owned());
        };
        if body.lines().any(|line| line == "EOF") {
            return Some("a here-document with an early end".to_owned());
        }
    }
    let plain = |c: char| c.is_ascii_alphanumeric() || " -_./=:,@%+".contains(c);
    let mut characters = line.chars();
    let mut is_quoted = false;
    while let Some(c) = characters.next() {
        match c {
            '\'' => is_quoted = !is_quoted,
            _ if is_quoted => {}
            '\\' if characters.next() == Some('\'') => {}
            // A word that the user has to fill in; what is in the brackets is ours.
            '<' | '>' => {}
            c if plain(c) => {}
            other => return Some(format!("{other:?} outside of quotes")),
        }
    }
    is_quoted.then(|| "a quote that is not closed".to_owned())
}
