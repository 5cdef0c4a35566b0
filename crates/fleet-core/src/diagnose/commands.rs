//! Steps of fixes: each as a command to paste and as an action for machines, made from the same values.
//!
//! Decides how a command is spelled. Never decides which one is needed.

use fleet_api::kinds::{CLUSTER_GROUP, PLACEMENT_GROUP};
use fleet_api::yaml;
use serde_json::Value;

use super::finding::{Action, ObjectRef, PatchType, Step};

/// Names that people type for kinds; others are spelled out.
const SHORT: &[(&str, &str)] = &[
    ("ClusterStagedUpdateRun", "csur"),
    ("StagedUpdateRun", "sur"),
    ("ClusterResourcePlacement", "crp"),
    ("ResourcePlacement", "rp"),
];

/// Groups whose kinds nobody else has.
const OUR_GROUPS: &[&str] = &[PLACEMENT_GROUP, CLUSTER_GROUP];

/// How commands reach the hub: by this context, or by the current one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Kubectl {
    pub hub_context: Option<String>,
}

impl Kubectl {
    /// A merge patch of an object.
    pub(super) fn patch(&self, what: impl Into<String>, object: &ObjectRef, patch: Value) -> Step {
        self.patch_of(what, object, None, PatchType::Merge, patch)
    }

    /// A merge patch of an object's status.
    pub(super) fn patch_status(&self, what: impl Into<String>, object: &ObjectRef, patch: Value) -> Step {
        self.patch_of(what, object, Some("status"), PatchType::Merge, patch)
    }

    /// A strategic patch of an object of Kubernetes' own.
    pub(super) fn patch_strategic(&self, what: impl Into<String>, object: &ObjectRef, patch: Value) -> Step {
        self.patch_of(what, object, None, PatchType::Strategic, patch)
    }

    fn patch_of(
        &self,
        what: impl Into<String>,
        object: &ObjectRef,
        subresource: Option<&'static str>,
        patch_type: PatchType,
        patch: Value,
    ) -> Step {
        let type_word = match patch_type {
            PatchType::Merge => "merge",
            PatchType::Strategic => "strategic",
        };
        let status = subresource.map(|word| format!(" --subresource={word}")).unwrap_or_default();
        let command = format!(
            "{} patch {}{status} --type={type_word} -p {}",
            self.to(object),
            target(object),
            quoted(&patch.to_string())
        );
        let action = Action::Patch { object: object.clone(), subresource, patch_type, patch };
        step(what, command, Some(action))
    }

    /// Sets or, with no value, removes labels of an object.
    pub(super) fn label(&self, what: impl Into<String>, object: &ObjectRef, labels: &[(&str, Option<&str>)]) -> Step {
        let words: Vec<String> = labels
            .iter()
            .map(|(key, value)| match value {
                Some(value) => format!("{key}={value}"),
                None => format!("{key}-"),
            })
            .collect();
        let overwrite = if labels.iter().any(|(_, value)| value.is_some()) { " --overwrite" } else { "" };
        let command = format!("{} label {} {}{overwrite}", self.to(object), target(object), words.join(" "));
        let fields: serde_json::Map<String, Value> =
            labels.iter().map(|(key, value)| ((*key).to_owned(), value.map_or(Value::Null, Value::from))).collect();
        let patch = serde_json::json!({"metadata": {"labels": fields}});
        let action = Action::Patch { object: object.clone(), subresource: None, patch_type: PatchType::Merge, patch };
        step(what, command, Some(action))
    }

    pub(super) fn create(&self, what: impl Into<String>, manifest: Value) -> Step {
        let command = format!("{} create -f - <<'EOF'\n{}EOF", self.hub(), yaml::to_string(&manifest));
        step(what, command, Some(Action::Create { manifest, member: None }))
    }

    pub(super) fn delete(&self, what: impl Into<String>, object: &ObjectRef) -> Step {
        let command = format!("{} delete {}", self.to(object), target(object));
        step(what, command, Some(Action::Delete { object: object.clone() }))
    }

    /// Shows an object; nothing changes.
    pub(super) fn look(&self, what: impl Into<String>, object: &ObjectRef) -> Step {
        step(what, format!("{} get {} -o yaml", self.to(object), target(object)), None)
    }

    /// Opens an object in an editor: what is to be written is for a person to decide.
    pub(super) fn edit(&self, what: impl Into<String>, object: &ObjectRef) -> Step {
        step(what, format!("{} edit {}", self.to(object), target(object)), None)
    }

    /// Shows what such a command prints on the hub; nothing changes.
    pub(super) fn show(&self, what: impl Into<String>, arguments: &str) -> Step {
        step(what, format!("{} {arguments}", self.hub()), None)
    }

    fn hub(&self) -> String {
        match &self.hub_context {
            Some(context) => format!("kubectl --context {}", word(context)),
            None => "kubectl".to_owned(),
        }
    }

    fn to(&self, object: &ObjectRef) -> String {
        match &object.member {
            Some(member) => format!("kubectl --context {member}"),
            None => self.hub(),
        }
    }
}

pub(super) fn create_on(what: impl Into<String>, member: &str, manifest: Value) -> Step {
    let command = format!("kubectl --context {member} create -f - <<'EOF'\n{}EOF", yaml::to_string(&manifest));
    step(what, command, Some(Action::Create { manifest, member: Some(member.to_owned()) }))
}

/// Shows what such a command prints on a member; nothing changes.
pub(super) fn show_on(what: impl Into<String>, member: &str, arguments: &str) -> Step {
    step(what, format!("kubectl --context {member} {arguments}"), None)
}

/// A step that no command does.
pub(super) fn by_hand(what: impl Into<String>) -> Step {
    step(what, String::new(), None)
}

fn step(what: impl Into<String>, command: String, action: Option<Action>) -> Step {
    #[cfg(test)]
    super::tests::round_trip::agree(&command, action.as_ref());
    let fill_in = placeholders(&command);
    Step { what: what.into(), command, action, fill_in }
}

/// `crp web`, or `deployment web -n shop`.
pub(super) fn target(object: &ObjectRef) -> String {
    format!("{} {}{}", resource(object), object.name, in_namespace(object))
}

/// ` -n shop`, or nothing for what is in no namespace.
pub(super) fn in_namespace(object: &ObjectRef) -> String {
    object.namespace.as_deref().map(|namespace| format!(" -n {namespace}")).unwrap_or_default()
}

/// The word by which kubectl finds the kind, and no other: several groups may have kinds of one name, so that a group
/// which is neither ours nor one of the few without a dot is named.
pub(super) fn resource(object: &ObjectRef) -> String {
    let group = object.api_version.split_once('/').map_or("", |(group, _)| group);
    let kind = object.kind.to_lowercase();
    if OUR_GROUPS.contains(&group) {
        let short = SHORT.iter().find(|(long, _)| *long == object.kind).map(|(_, short)| (*short).to_owned());
        return short.unwrap_or(kind);
    }
    if group.contains('.') { format!("{kind}.{group}") } else { kind }
}

/// A word of a POSIX shell, in quotes if it needs them.
fn word(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./=:,@%+".contains(&byte);
    if !text.is_empty() && text.bytes().all(plain) { text.to_owned() } else { quoted(text) }
}

/// For a POSIX shell.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// Words like `<image>`. A here-document's `<<'EOF'` is none.
fn placeholders(command: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for part in command.split('<').skip(1) {
        let Some((word, _)) = part.split_once('>') else { continue };
        let plain = !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-');
        let word = format!("<{word}>");
        if plain && !found.contains(&word) {
            found.push(word);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use fleet_api::kinds::{Member, UpdateRun};
    use serde_json::json;

    use super::*;

    fn check(step: Step, expected: Expect) {
        expected.assert_eq(&format!("{}\nfill in: {}", step.command, step.fill_in.join(" ")));
    }

    #[test]
    fn commands_can_be_pasted() {
        let kubectl = Kubectl::default();
        let run = ObjectRef::of::<UpdateRun>(None, "run");
        check(
            kubectl.patch("", &run, json!({"spec": {"state": "it's"}})),
            expect![[r#"
                kubectl patch csur run --type=merge -p '{"spec":{"state":"it'\''s"}}'
                fill in: "#]],
        );
        let hub = Kubectl { hub_context: Some("hub".to_owned()) };
        let member = ObjectRef::of::<Member>(None, "member1");
        check(
            hub.label("", &member, &[("a", Some("b")), ("c", None)]),
            expect![[r#"
                kubectl --context hub label membercluster member1 a=b c- --overwrite
                fill in: "#]],
        );
        let pod = ObjectRef::named("apps", "v1", "Deployment", "shop", "web");
        check(
            hub.patch_strategic("", &pod.clone().on("member1"), json!({"image": "<image>"})),
            expect![[r#"
                kubectl --context member1 patch deployment web -n shop --type=strategic -p '{"image":"<image>"}'
                fill in: <image>"#]],
        );
        check(
            kubectl.create("", json!({"kind": "A", "metadata": {"name": "b"}})),
            expect![[r#"
                kubectl create -f - <<'EOF'
                kind: A
                metadata:
                  name: b
                EOF
                fill in: "#]],
        );
    }
}
