//! The single-writer table: which controller may write which field.

use std::collections::BTreeMap;

use crate::write::{ClusterId, Op, Write};

/// What one controller may write of one kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    pub controller: &'static str,
    /// As in manifests: `ClusterResourceBinding`; `*` for kinds that are known only at run time.
    pub kind: &'static str,
    /// Whether it may create and delete objects of the kind. Several controllers may.
    pub creates: bool,
    pub deletes: bool,
    /// Fields, each with all its subfields: `spec.state`, `status`, `status.conditions[Applied]`, `metadata.finalizers[x]`,
    /// `metadata.labels[a]`. Each field has one writer, unless all its writers mark it with `~` (`~spec.state`): these take
    /// turns, and the object itself shows whose turn it is. The functions in `owned` print them.
    pub fields: Vec<String>,
}

/// Prints the fields of a `Grant`.
pub mod owned {
    use std::fmt::Display;

    use fleet_api::conditions::ConditionState;

    use super::SHARED;

    pub fn field(path: &str) -> String {
        path.to_owned()
    }

    pub fn finalizer(name: &str) -> String {
        format!("metadata.finalizers[{name}]")
    }

    pub fn label(key: &str) -> String {
        format!("metadata.labels[{key}]")
    }

    pub fn annotation(key: &str) -> String {
        format!("metadata.annotations[{key}]")
    }

    pub fn condition<C: ConditionState<Scope = ()>>() -> String {
        format!("status.conditions[{}]", C::type_word(()))
    }

    /// A field that several controllers write in turns.
    pub fn in_turns(field: impl Display) -> String {
        format!("{SHARED}{field}")
    }
}

/// The table. An empty one allows everything.
#[derive(Debug, Clone, Default)]
pub struct Ownership {
    grants: BTreeMap<(&'static str, &'static str), Vec<Grant>>,
}

/// Two controllers that would write the same field.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{kind}: {first} writes {first_field}, {second} writes {second_field}")]
pub struct Overlap {
    pub kind: &'static str,
    pub first: &'static str,
    pub first_field: String,
    pub second: &'static str,
    pub second_field: String,
}

impl Ownership {
    /// Fails with all overlaps if a field has two writers.
    pub fn new(grants: impl IntoIterator<Item = Grant>) -> Result<Self, Vec<Overlap>> {
        let mut table = Self::default();
        let mut all: Vec<Grant> = Vec::new();
        let mut overlaps = Vec::new();
        for grant in grants {
            for earlier in all.iter().filter(|earlier| earlier.kind == grant.kind) {
                overlaps.extend(overlap(earlier, &grant));
            }
            all.push(grant.clone());
            table.grants.entry((grant.controller, grant.kind)).or_default().push(grant);
        }
        if overlaps.is_empty() { Ok(table) } else { Err(overlaps) }
    }

    /// The fields (or `create`, `delete`) of a write that its controller does not own. Only the main server is checked, because
    /// several agents write to it.
    pub fn violations(&self, controller: &str, write: &Write) -> Vec<String> {
        if self.grants.is_empty() || write.cluster != ClusterId::MAIN || write.dry_run {
            return Vec::new();
        }
        let applies_to = |kind: &str| kind == ANY_KIND || kind == &*write.kind.kind;
        let grants = self.grants.iter().filter(|((who, kind), _)| *who == controller && applies_to(kind));
        let grants: Vec<&Grant> = grants.flat_map(|(_, grants)| grants).collect();
        match &write.op {
            // A replacement may change every field, like a creation.
            Op::Create { .. } | Op::Replace { .. } if !grants.iter().any(|grant| grant.creates) => {
                vec!["create".to_owned()]
            }
            Op::Delete { .. } if !grants.iter().any(|grant| grant.deletes) => vec!["delete".to_owned()],
            _ => {
                let owned = |field: &String| {
                    grants.iter().flat_map(|grant| &grant.fields).any(|owned| covers(bare(owned), field))
                };
                write.fields.iter().filter(|field| !owned(field)).cloned().collect()
            }
        }
    }
}

fn overlap(first: &Grant, second: &Grant) -> Vec<Overlap> {
    if first.controller == second.controller {
        return Vec::new();
    }
    let mut found = Vec::new();
    for a in &first.fields {
        for b in second.fields.iter().filter(|b| is_overlap(a, b)) {
            found.push(Overlap {
                kind: first.kind,
                first: first.controller,
                first_field: a.clone(),
                second: second.controller,
                second_field: b.clone(),
            });
        }
    }
    found
}

/// Matches all kinds.
const ANY_KIND: &str = "*";
/// Marks a field that several controllers write in turns.
const SHARED: char = '~';

fn bare(field: &str) -> &str {
    field.strip_prefix(SHARED).unwrap_or(field)
}

/// Whether two entries cover the same field without both being shared.
fn is_overlap(a: &str, b: &str) -> bool {
    let are_shared = a.starts_with(SHARED) && b.starts_with(SHARED);
    !are_shared && (covers(bare(a), bare(b)) || covers(bare(b), bare(a)))
}

/// Whether `field` is `owned` or one of its subfields.
fn covers(owned: &str, field: &str) -> bool {
    field.strip_prefix(owned).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

#[cfg(test)]
mod tests {
    use fleet_api::conditions::binding::BindingWorkSynchronized;
    use serde_json::{Value, json};

    use super::*;
    use crate::key::ObjectKey;
    use crate::kind::KindId;
    use crate::write::PatchFormat;

    fn grant(controller: &'static str, fields: &[&str]) -> Grant {
        let fields = fields.iter().map(ToString::to_string).collect();
        Grant { controller, kind: "Binding", creates: false, deletes: false, fields }
    }

    fn overlaps(a: &[&str], b: &[&str]) -> Vec<String> {
        let table = Ownership::new([grant("a", a), grant("b", b)]);
        table.err().unwrap_or_default().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn two_writers_of_one_field_are_found() {
        assert_eq!(overlaps(&["spec.state"], &["spec.state"]), ["Binding: a writes spec.state, b writes spec.state"]);
        assert_eq!(overlaps(&["spec"], &["status", "spec.x"]), ["Binding: a writes spec, b writes spec.x"]);
        assert_eq!(overlaps(&["status.conditions[A]"], &["status"]).len(), 1);
        assert!(overlaps(&["spec.state"], &["spec.stateful", "spec.other"]).is_empty());
        assert!(overlaps(&["status.conditions[A]"], &["status.conditions[B]"]).is_empty());
        assert!(Ownership::new([grant("a", &["spec"]), grant("a", &["spec.x"])]).is_ok(), "one writer twice is one");
        let other_kind = Grant { kind: "Work", ..grant("b", &["spec"]) };
        assert!(Ownership::new([grant("a", &["spec"]), other_kind]).is_ok());
    }

    #[test]
    fn fields_print_as_writes_name_them() {
        let metadata =
            json!({"metadata": {"finalizers": ["a/b"], "labels": {"c/d": "1"}, "annotations": {"e/f": "2"}}});
        let condition = json!({"status": {"conditions": [{"type": "WorkSynchronized"}]}});
        let fields = vec![
            owned::finalizer("a/b"),
            owned::in_turns(owned::label("c/d")),
            owned::annotation("e/f"),
            owned::condition::<BindingWorkSynchronized>(),
        ];
        let table = Ownership::new([Grant { fields, ..grant("a", &[]) }]).unwrap();
        assert!(table.violations("a", &patch(metadata.clone())).is_empty());
        assert!(table.violations("a", &patch(condition)).is_empty());
        let other = Ownership::new([grant("a", &["metadata.finalizers[x]"])]).unwrap();
        let expected = ["metadata.annotations[e/f]", "metadata.finalizers[a/b]", "metadata.labels[c/d]"];
        assert_eq!(other.violations("a", &patch(metadata)), expected);
    }

    #[test]
    fn writers_may_agree_to_take_turns() {
        assert!(overlaps(&["~spec.state"], &["~spec.state"]).is_empty());
        assert_eq!(overlaps(&["~spec.state"], &["spec.state"]).len(), 1, "both must say so");
        assert_eq!(overlaps(&["~spec.state"], &["spec"]).len(), 1);
        let table = Ownership::new([grant("a", &["~spec.state"]), grant("b", &["~spec.state"])]).unwrap();
        for who in ["a", "b"] {
            assert!(table.violations(who, &patch(json!({"spec": {"state": "x"}}))).is_empty());
        }
        assert_eq!(table.violations("c", &patch(json!({"spec": {"state": "x"}}))), ["spec.state"]);
    }

    #[test]
    fn a_grant_may_cover_all_kinds() {
        let table = Ownership::new([Grant { kind: "*", ..grant("a", &["status"]) }, grant("b", &["status"])]).unwrap();
        assert!(table.violations("a", &patch(json!({"status": {"x": 1}}))).is_empty());
        assert_eq!(table.violations("a", &patch(json!({"spec": {"x": 1}}))), ["spec.x"]);
    }

    #[test]
    fn other_servers_and_dry_runs_are_not_checked() {
        let table = Ownership::new([grant("a", &["spec.x"])]).unwrap();
        let write = patch(json!({"spec": {"y": 1}}));
        assert_eq!(table.violations("a", &write).len(), 1);
        assert!(table.violations("a", &write.clone().on(ClusterId(1))).is_empty());
        assert!(table.violations("a", &write.dry_run()).is_empty());
    }

    fn patch(body: Value) -> Write {
        let kind = KindId::new("g", "v1", "Binding", "bindings");
        Write::patch_raw(kind, ObjectKey::cluster("x"), PatchFormat::Merge, body)
    }

    #[test]
    fn a_write_stays_within_what_its_controller_owns() {
        let table = Ownership::new([
            grant("a", &["spec.state", "metadata.finalizers[mine]", "status.conditions[A]"]),
            Grant { creates: true, ..grant("b", &["spec.cluster"]) },
            Grant { deletes: true, ..grant("c", &[]) },
        ])
        .unwrap();
        let violations = |controller: &str, body| table.violations(controller, &patch(body));
        assert!(violations("a", json!({"spec": {"state": "x"}, "status": {"conditions": [{"type": "A"}]}})).is_empty());
        assert_eq!(
            violations(
                "a",
                json!({"spec": {"state": "x", "cluster": "y"}, "metadata": {"finalizers": ["mine", "his"]}})
            ),
            ["metadata.finalizers[his]", "spec.cluster"]
        );
        assert_eq!(violations("unknown", json!({"spec": {"state": "x"}})), ["spec.state"]);
        let kind = KindId::new("g", "v1", "Binding", "bindings");
        let create = Write::create_raw(kind.clone(), json!({"metadata": {"name": "x"}}));
        let replace = Write::replace_raw(kind.clone(), json!({"metadata": {"name": "x"}}));
        let delete = Write::delete_raw(kind, ObjectKey::cluster("x"), None);
        for (who, expected) in [("a", [1, 1, 1]), ("b", [0, 0, 1]), ("c", [1, 1, 0])] {
            let found = [&create, &replace, &delete].map(|write| table.violations(who, write).len());
            assert_eq!(found, expected, "{who}");
        }
    }

    #[test]
    fn an_empty_table_allows_everything() {
        assert!(Ownership::default().violations("a", &patch(json!({"spec": 1}))).is_empty());
    }
}
