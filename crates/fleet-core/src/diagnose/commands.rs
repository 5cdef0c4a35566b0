//! Steps of fixes: each as a command to paste and as an action for machines, built from the same values.
//!
//! Never add text of an object to a command except through `Line`. `Line` accepts only valid names and quotes every word, so that
//! a hostile name cannot become a shell command.

use fleet_api::kinds::{CLUSTER_GROUP, PLACEMENT_GROUP};
use fleet_api::well_known::{namespaces, selectors};
use fleet_api::{safe_text, yaml};
use k8s_values::validation;
use serde_json::Value;

use super::finding::{Action, ObjectRef, PatchType, Step};

/// Names that people type for kinds; others are spelled out.
const SHORT: &[(&str, &str)] = &[
    ("ClusterStagedUpdateRun", "csur"),
    ("StagedUpdateRun", "sur"),
    ("ClusterResourcePlacement", "crp"),
    ("ResourcePlacement", "rp"),
];

/// API groups that only Fleet uses.
const OUR_GROUPS: &[&str] = &[PLACEMENT_GROUP, CLUSTER_GROUP];

/// Fields of manifests and patches that name objects.
const NAMING_FIELDS: &[&str] =
    &["name", "namespace", "placementName", "clusterName", "clusterNames", "stagedRolloutStrategyName"];

/// The kubeconfig context of the hub; `None` for the current one.
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
            PatchType::Merge => "--type=merge",
            PatchType::Strategic => "--type=strategic",
        };
        let status: &[&'static str] = if subresource.is_some() { &["--subresource=status"] } else { &[] };
        let line = Line::of(&["patch"]).target(object).fixed(status).fixed(&[type_word, "-p"]).document(&patch);
        let action = Action::Patch { object: object.clone(), subresource, patch_type, patch };
        self.step(what, object.member.as_deref(), line, Some(action))
    }

    /// Sets or, with no value, removes labels of an object.
    pub(super) fn label(&self, what: impl Into<String>, object: &ObjectRef, labels: &[(&str, Option<&str>)]) -> Step {
        let mut line = Line::of(&["label"]).target(object);
        for (key, value) in labels {
            line = line.label(key, *value);
        }
        if labels.iter().any(|(_, value)| value.is_some()) {
            line = line.fixed(&["--overwrite"]);
        }
        let fields: serde_json::Map<String, Value> =
            labels.iter().map(|(key, value)| ((*key).to_owned(), value.map_or(Value::Null, Value::from))).collect();
        let patch = serde_json::json!({"metadata": {"labels": fields}});
        let action = Action::Patch { object: object.clone(), subresource: None, patch_type: PatchType::Merge, patch };
        self.step(what, object.member.as_deref(), line, Some(action))
    }

    pub(super) fn create(&self, what: impl Into<String>, manifest: Value) -> Step {
        let line = Line::of(&["create", "-f", "-"]).typed(&manifest);
        self.step(what, None, line, Some(Action::Create { manifest, member: None }))
    }

    pub(super) fn delete(&self, what: impl Into<String>, object: &ObjectRef) -> Step {
        let line = Line::of(&["delete"]).target(object);
        self.step(what, object.member.as_deref(), line, Some(Action::Delete { object: object.clone() }))
    }

    /// Prints an object.
    pub(super) fn get(&self, what: impl Into<String>, object: &ObjectRef) -> Step {
        let line = Line::of(&["get"]).target(object).fixed(&["-o", "yaml"]);
        self.step(what, object.member.as_deref(), line, None)
    }

    /// Opens an object in an editor, where the change depends on the user.
    pub(super) fn edit(&self, what: impl Into<String>, object: &ObjectRef) -> Step {
        self.step(what, object.member.as_deref(), Line::of(&["edit"]).target(object), None)
    }

    /// A command on the hub that changes nothing.
    pub(super) fn show(&self, what: impl Into<String>, line: Line) -> Step {
        self.step(what, None, line, None)
    }

    fn step(&self, what: impl Into<String>, member: Option<&str>, line: Line, action: Option<Action>) -> Step {
        let program = match (member, &self.hub_context) {
            (Some(member), _) => Line::of(&["kubectl", "--context"]).name(member),
            (None, Some(context)) => Line::of(&["kubectl", "--context"]).quoted(context),
            (None, None) => Line::of(&["kubectl"]),
        };
        step(what, program.then(line), action)
    }
}

pub(super) fn create_on(what: impl Into<String>, member: &str, manifest: Value) -> Step {
    let line = Line::of(&["create", "-f", "-"]).typed(&manifest);
    let action = Action::Create { manifest, member: Some(member.to_owned()) };
    Kubectl::default().step(what, Some(member), line, Some(action))
}

/// A command on a member that changes nothing.
pub(super) fn show_on(what: impl Into<String>, member: &str, line: Line) -> Step {
    Kubectl::default().step(what, Some(member), line, None)
}

/// Lists the Works of a member.
pub(super) fn works_of(member: &str) -> Line {
    Line::of(&["get", "work"]).namespace(&format!("{}{member}", namespaces::MEMBER_PREFIX))
}

/// Lists the Pods of the hub agent by a label that the chart and `kubefleet install` set.
pub(super) fn hub_agent_pods() -> Line {
    Line::of(&["get", "pods", "-A", "-l", selectors::HUB_AGENT_PODS])
}

/// A step without a command.
pub(super) fn by_hand(what: impl Into<String>) -> Step {
    Step { what: safe_text::line(&what.into()).into_owned(), command: String::new(), action: None, fill_in: Vec::new() }
}

fn step(what: impl Into<String>, line: Line, action: Option<Action>) -> Step {
    let command = match line.0 {
        Ok(Text { words, document }) => format!("{}{}", words.join(" "), document.unwrap_or_default()),
        Err(NotAName(text)) => {
            return by_hand(format!("{} (no command is shown: {text:?} is not a valid name)", what.into()));
        }
    };
    #[cfg(test)]
    super::tests::round_trip::agree(&command, action.as_ref());
    let fill_in = placeholders(&command);
    Step { what: safe_text::line(&what.into()).into_owned(), command, action, fill_in }
}

/// The words of a command, or the text that is not a valid name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Line(Result<Text, NotAName>);

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Text {
    /// Each quoted for a shell.
    words: Vec<String>,
    /// A here-document behind them.
    document: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct NotAName(String);

impl Line {
    pub(super) fn of(words: &[&'static str]) -> Self {
        Self(Ok(Text::default())).fixed(words)
    }

    /// Adds constant words.
    pub(super) fn fixed(self, words: &[&'static str]) -> Self {
        words.iter().fold(self, |line, word| line.quoted(word))
    }

    /// The name of an object, a Pod or a container.
    pub(super) fn name(self, text: &str) -> Self {
        self.checked(is_name(text), text, text)
    }

    /// `-n shop`
    pub(super) fn namespace(self, text: &str) -> Self {
        self.fixed(&["-n"]).checked(validation::dns1123_label(text).is_empty(), text, text)
    }

    /// `crp web`, or `deployment web -n shop`.
    pub(super) fn target(self, object: &ObjectRef) -> Self {
        self.kind(object, "").name(&object.name).namespace_of(object)
    }

    /// The namespace of an object that is in one.
    pub(super) fn namespace_of(self, object: &ObjectRef) -> Self {
        match &object.namespace {
            Some(namespace) => self.namespace(namespace),
            None => self,
        }
    }

    /// The kind of an object, and others behind it, such as `,pods`.
    pub(super) fn kind(self, object: &ObjectRef, others: &'static str) -> Self {
        let kind = object.kind.is_ascii() && validation::dns1123_label(&object.kind.to_lowercase()).is_empty();
        let (group, version) = object.api_version.rsplit_once('/').unwrap_or(("", &object.api_version));
        let api = (group.is_empty() || validation::dns1123_subdomain(group).is_empty())
            && validation::dns1123_label(version).is_empty();
        let line = self.checked(api, &object.api_version, "");
        line.checked(kind, &object.kind, &format!("{}{others}", resource(object)))
    }

    /// `key=value`, or `key-` without a value.
    pub(super) fn label(self, key: &str, value: Option<&str>) -> Self {
        let line = self.checked(validation::qualified_name(key).is_empty(), key, "");
        match value {
            Some(value) => line.checked(validation::label_value(value).is_empty(), value, &format!("{key}={value}")),
            None => line.quoted(&format!("{key}-")),
        }
    }

    /// JSON as one word; the names in it are checked.
    fn document(self, value: &Value) -> Self {
        self.naming(value).quoted(&safe_text::json(&value.to_string()))
    }

    /// A manifest as a here-document.
    fn typed(self, manifest: &Value) -> Self {
        let text = |pointer: &str| manifest.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let object = ObjectRef {
            api_version: text("/apiVersion").to_owned(),
            kind: text("/kind").to_owned(),
            namespace: None,
            name: String::new(),
            member: None,
        };
        let valid = Self::of(&[]).kind(&object, "").name(text("/metadata/name")).naming(manifest);
        // Text of an object must not look like a line of the output, and a shell would act on a tab.
        let body = if has_hidden(manifest) {
            format!("{}\n", safe_text::json(&manifest.to_string()))
        } else {
            yaml::to_string(manifest)
        };
        Self(self.0.and_then(|typed| {
            valid.0?;
            Ok(Text { document: Some(format!(" <<'EOF'\n{body}EOF")), ..typed })
        }))
    }

    /// Refuses fields that should name objects and do not.
    fn naming(self, value: &Value) -> Self {
        match value {
            Value::Object(fields) => fields.iter().fold(self, |line, (key, value)| {
                let names = if NAMING_FIELDS.contains(&key.as_str()) { strings(value) } else { Vec::new() };
                let line = names.into_iter().fold(line, |line, name| {
                    line.checked(name.is_empty() || is_name(name) || is_placeholder(name), name, "")
                });
                line.naming(value)
            }),
            Value::Array(items) => items.iter().fold(self, Self::naming),
            _ => self,
        }
    }

    fn then(self, rest: Self) -> Self {
        Self(self.0.and_then(|Text { mut words, .. }| {
            let rest = rest.0?;
            words.extend(rest.words);
            Ok(Text { words, document: rest.document })
        }))
    }

    /// Adds a word, unless it is empty, if `text` is valid.
    fn checked(self, valid: bool, text: &str, word: &str) -> Self {
        match self {
            Self(Ok(_)) if !valid => Self(Err(NotAName(text.to_owned()))),
            line if word.is_empty() => line,
            line => line.quoted(word),
        }
    }

    /// Adds a word. Every word of a command is added here.
    fn quoted(self, word: &str) -> Self {
        Self(self.0.and_then(|mut text| {
            text.words.push(safe_text::shell_word(word).ok_or_else(|| NotAName(word.to_owned()))?);
            Ok(text)
        }))
    }
}

/// Whether this is a valid object name. Names of RBAC objects may contain colons. Commands do not support the few stranger
/// names that Kubernetes accepts.
fn is_name(text: &str) -> bool {
    text.split(':').all(|part| validation::qualified_name(part).is_empty() && !part.contains('/'))
        || validation::dns1123_subdomain(text).is_empty()
}

fn strings(value: &Value) -> Vec<&str> {
    match value {
        Value::String(text) => vec![text.as_str()],
        Value::Array(items) => items.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

fn has_hidden(value: &Value) -> bool {
    let hidden = |text: &str| text.chars().any(safe_text::is_hidden);
    match value {
        Value::String(text) => hidden(text),
        Value::Array(items) => items.iter().any(has_hidden),
        Value::Object(fields) => fields.iter().any(|(key, value)| hidden(key) || has_hidden(value)),
        _ => false,
    }
}

/// The resource name for kubectl. It includes the group, except for Fleet's groups and for groups without a dot, because several
/// groups may have kinds of the same name.
fn resource(object: &ObjectRef) -> String {
    let group = object.api_version.split_once('/').map_or("", |(group, _)| group);
    let kind = object.kind.to_lowercase();
    if OUR_GROUPS.contains(&group) {
        let short = SHORT.iter().find(|(long, _)| *long == object.kind).map(|(_, short)| (*short).to_owned());
        return short.unwrap_or(kind);
    }
    if group.contains('.') { format!("{kind}.{group}") } else { kind }
}

/// Words like `<image>`. A here-document's `<<'EOF'` is none.
fn placeholders(command: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for part in command.split('<').skip(1) {
        let Some((word, _)) = part.split_once('>') else { continue };
        let word = format!("<{word}>");
        if is_placeholder(&word) && !found.contains(&word) {
            found.push(word);
        }
    }
    found
}

fn is_placeholder(text: &str) -> bool {
    let word = text.strip_prefix('<').and_then(|rest| rest.strip_suffix('>')).unwrap_or_default();
    !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-')
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
            kubectl.create("", json!({"apiVersion": "v1", "kind": "A", "metadata": {"name": "b"}})),
            expect![[r#"
                kubectl create -f - <<'EOF'
                apiVersion: v1
                kind: A
                metadata:
                  name: b
                EOF
                fill in: "#]],
        );
    }
}
