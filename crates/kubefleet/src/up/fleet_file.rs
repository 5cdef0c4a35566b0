//! Parses fleet files: members with labels, taints, properties, and the behaviour of their workloads. Errors have line and
//! field.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;
use fleet_api::admission::{member_cluster, properties};
use fleet_api::types::{Taint, TaintEffect};
use fleet_sim::member::SimulatedMember;
use fleet_sim::workloads::Behaviours;
use k8s_values::validation;
use serde::Deserialize;
use serde_json::Value;
use serde_saphyr::{Location, Spanned};

use super::MEMBERS_MAX;
use super::blueprint::{Blueprint, Planned};
use crate::output::Hinted;

/// Maximum number of nodes of a simulated member; each has its own heartbeat.
const NODES_MAX: u32 = 100;
/// Where the file format is documented.
const DESCRIBED_IN: &str = "docs/SIMULATION.md describes the format; examples/fleets has examples";

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct File {
    members: Vec<Entry>,
    /// For the Pods of all members, after the rules of the member itself.
    #[serde(default)]
    behaviour: Vec<Spanned<Value>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Entry {
    name: Spanned<String>,
    #[serde(default)]
    labels: BTreeMap<String, Spanned<String>>,
    #[serde(default)]
    taints: Vec<Spanned<TaintEntry>>,
    nodes: Option<Spanned<u32>>,
    #[serde(default)]
    properties: BTreeMap<String, Spanned<String>>,
    #[serde(default)]
    behaviour: Vec<Spanned<Value>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct TaintEntry {
    key: String,
    #[serde(default)]
    value: String,
    #[serde(default)]
    effect: TaintEffect,
}

/// An error in a file, with its place.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Fault {
    line: u64,
    field: String,
    why: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.line, self.field.as_str()) {
            (0, _) => f.write_str(&self.why),
            (line, "") => write!(f, "line {line}: {}", self.why),
            (line, field) => write!(f, "line {line}: {field}: {}", self.why),
        }
    }
}

/// Reads a file; `more_rules` apply to all members after its own rules.
pub(super) fn read(path: &Path, more_rules: &[Value]) -> anyhow::Result<Blueprint> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    parse(&text, more_rules)
        .map_err(|fault| Hinted { what: format!("{}, {fault}", path.display()), hint: DESCRIBED_IN.to_owned() }.into())
}

pub(super) fn parse(text: &str, more_rules: &[Value]) -> Result<Blueprint, Fault> {
    let file: File = serde_saphyr::from_str(text).map_err(|error| unreadable(text, &error))?;
    if file.members.len() > usize::from(MEMBERS_MAX) {
        let why = format!("there are {} members; the maximum is {MEMBERS_MAX}", file.members.len());
        return Err(Fault { line: 0, field: String::new(), why });
    }
    let for_all: Vec<Value> = rules(&file.behaviour, "behaviour")?.into_iter().chain(more_rules.to_vec()).collect();
    let mut names = BTreeSet::new();
    let mut members = Vec::new();
    for (index, entry) in file.members.iter().enumerate() {
        let at = format!("members[{index}]");
        if !names.insert(entry.name.value.as_str()) {
            return Err(fault(&entry.name, &at, "name", "duplicate member name"));
        }
        let own = rules(&entry.behaviour, &format!("{at}.behaviour"))?;
        let behaviours = behaviours(own.into_iter().chain(for_all.iter().cloned()).collect())?;
        members.push(Planned { member: member(entry, &at)?, behaviours: Arc::new(behaviours), is_known: false });
    }
    Ok(Blueprint { members, others: Arc::new(behaviours(for_all)?) })
}

fn member(entry: &Entry, at: &str) -> Result<SimulatedMember, Fault> {
    let name = &entry.name;
    let mut member = SimulatedMember::new(&name.value).map_err(|wrong| fault(name, at, "name", wrong))?.applying();
    for (key, value) in &entry.labels {
        let wrong: Vec<String> =
            validation::qualified_name(key).into_iter().chain(validation::label_value(&value.value)).collect();
        fine(&wrong, value, at, format_args!("labels.{key}"))?;
        member.labels.insert(key.clone(), value.value.clone());
    }
    for (index, taint) in entry.taints.iter().enumerate() {
        let TaintEntry { key, value, effect } = &taint.value;
        member.taints.push(Taint { key: key.clone(), value: value.clone(), effect: *effect });
        let findings = member_cluster::check_taints(&member.taints);
        if !findings.is_empty() {
            return Err(fault(taint, at, format_args!("taints[{index}]"), findings));
        }
    }
    for (key, value) in &entry.properties {
        properties::check_name(key).map_err(|wrong| fault(value, at, format_args!("properties.{key}"), wrong))?;
        member.properties.insert(key.clone(), value.value.clone());
    }
    if let Some(nodes) = &entry.nodes {
        if nodes.value > NODES_MAX {
            return Err(fault(nodes, at, "nodes", format_args!("the maximum is {NODES_MAX}")));
        }
        member.nodes = nodes.value;
    }
    Ok(member)
}

/// Validates rules one by one and returns them unchanged.
fn rules(all: &[Spanned<Value>], at: &str) -> Result<Vec<Value>, Fault> {
    for (index, rule) in all.iter().enumerate() {
        Behaviours::parse(Value::Array(vec![rule.value.clone()])).map_err(|wrong| Fault {
            line: line(rule.referenced),
            field: format!("{at}[{index}]"),
            why: match wrong {
                fleet_sim::workloads::BehaviourError::Time { text, .. } => {
                    format!("`{text}` is not a duration; try `90s` or `1m30s`")
                }
                other => other.to_string(),
            },
        })?;
    }
    Ok(all.iter().map(|rule| rule.value.clone()).collect())
}

/// Parses validated rules.
fn behaviours(rules: Vec<Value>) -> Result<Behaviours, Fault> {
    Behaviours::parse(Value::Array(rules)).map_err(|wrong| Fault {
        line: 0,
        field: String::new(),
        why: wrong.to_string(),
    })
}

fn fine<T>(wrong: &[String], value: &Spanned<T>, at: &str, field: impl fmt::Display) -> Result<(), Fault> {
    if wrong.is_empty() { Ok(()) } else { Err(fault(value, at, field, wrong.join("; "))) }
}

fn fault<T>(value: &Spanned<T>, at: &str, field: impl fmt::Display, why: impl fmt::Display) -> Fault {
    Fault { line: line(value.referenced), field: format!("{at}.{field}"), why: why.to_string() }
}

fn line(location: Location) -> u64 {
    location.line()
}

/// An error of the YAML parser, with the key in that line.
fn unreadable(text: &str, error: &serde_saphyr::Error) -> Fault {
    let error = error.without_snippet();
    let line = error.location().map_or(0, line);
    let said = error.to_string();
    // Strip "at line …, column …", which would repeat the line.
    let why = said.rsplit_once(" at line ").map_or(said.as_str(), |(why, _)| why);
    let why = if why == "invalid u32" { "must be a whole number" } else { why }.to_owned();
    let index = usize::try_from(line).unwrap_or_default().checked_sub(1);
    let source = index.and_then(|index| text.lines().nth(index)).unwrap_or_default();
    let key = source.split_once(':').map(|(key, _)| key.trim_start_matches([' ', '-', '{']).trim()).unwrap_or_default();
    let field = if why.contains(&format!("`{key}`")) { "" } else { key };
    Fault { line, field: field.to_owned(), why }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(text: &str) -> String {
        parse(text, &[]).map(|_| ()).unwrap_err().to_string()
    }

    #[test]
    fn members_keep_the_order_of_the_file() {
        let text = "
members:
- name: west
  labels: {environment: canary, order: 2}
  taints:
  - key: maintenance
    value: planned
    effect: NoSchedule
  nodes: 5
  properties: {example.com/region: west}
  behaviour:
  - image: web:2
    outcome: crash
- name: east
behaviour:
- readyAfter: 1s
";
        let blueprint = parse(text, &[]).unwrap();
        let [west, east] = &blueprint.members[..] else { panic!("{blueprint:?}") };
        assert_eq!(west.member.labels["order"], "2");
        assert_eq!(west.member.taints[0].value, "planned");
        assert_eq!((west.member.nodes, east.member.nodes), (5, 3));
        assert_eq!(west.member.properties["example.com/region"], "west");
        assert_eq!(east.member.name.as_str(), "east");
        assert!(west.member.works == fleet_sim::member::WorkHandling::Applied);
    }

    #[test]
    fn example_fleets_are_valid_and_three_is_the_default_fleet() {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/fleets");
        let files: Vec<_> = std::fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert!(files.len() > 2, "{files:?}");
        for path in &files {
            read(path, &[]).unwrap();
        }
        let members =
            |blueprint: Blueprint| blueprint.members.into_iter().map(|planned| planned.member).collect::<Vec<_>>();
        let usual = Blueprint::usual(3, Behaviours::default()).unwrap();
        assert_eq!(members(read(&directory.join("three.yaml"), &[]).unwrap()), members(usual));
    }

    #[test]
    fn errors_have_line_and_field() {
        let cases = [
            ("members:\n- name: a.b\n", "line 2: members[0].name: \"fleet-member-a.b\" cannot be"),
            ("members:\n- name: a\n- name: a\n", "line 3: members[1].name: duplicate member name"),
            (
                "members:\n- name: a\n  labels:\n    order: has blanks\n",
                "line 4: members[0].labels.order: a valid label",
            ),
            ("members:\n- name: a\n  nodes: 101\n", "line 3: members[0].nodes: the maximum is 100"),
            ("members:\n- name: a\n  taints:\n  - key: 'no key'\n", "line 4: members[0].taints[0]: invalid taint key"),
            (
                "members:\n- name: a\n  behaviour:\n  - readyAfter: soon\n",
                "line 4: members[0].behaviour[0]: `soon` is not a duration",
            ),
            (
                "members: []\nbehaviour:\n- outcome: sings\n",
                "line 3: behaviour[0]: the rules cannot be read: unknown variant",
            ),
        ];
        for (text, expected) in cases {
            let said = refusal(text);
            assert!(said.starts_with(expected), "{text}\n{said}");
        }
    }

    #[test]
    fn parse_errors_have_line_and_field() {
        let cases = [
            ("members:\n- name: a\n  colour: red\n", "line 3: ", "`colour`"),
            ("members:\n- name: a\n  nodes: three\n", "line 3: nodes: must be a whole number", ""),
            ("members:\n- labels: {}\n", "line 2: ", "name"),
            ("members:\n- name: a\n  taints:\n  - key: a\n    effect: NoWay\n", "line 5: ", "NoWay"),
            ("members: [\n", "line ", ""),
        ];
        for (text, start, part) in cases {
            let said = refusal(text);
            assert!(said.starts_with(start) && said.contains(part) && said.lines().count() == 1, "{text}\n{said}");
        }
    }
}
