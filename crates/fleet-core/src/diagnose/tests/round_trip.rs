//! The printed command and the action of a step do the same.
//!
//! `agree` checks every step that any test of this crate creates.

use fleet_api::kinds::{Family, KindInfo, KindVisitor, Obj, Scope, UpdateRun, visit_kinds};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::pasted::{self, Does, Pasted, Target};
use crate::diagnose::Kubectl;
use crate::diagnose::commands::create_on;
use crate::diagnose::finding::{Action, ObjectRef, PatchType};

/// The context of the hub in tests that name one.
const HUB: &str = "hub";

/// Panics unless the text does exactly what the action says.
pub(in crate::diagnose) fn agree(command: &str, action: Option<&Action>) {
    if command.is_empty() {
        assert_eq!(action, None, "the step has an action but no command");
        return;
    }
    assert_eq!(pasted::commands(command), [command], "what is printed is not what is pasted");
    let read = pasted::read(command).unwrap_or_else(|complaint| panic!("{complaint}: {command}"));
    assert!(says(&read, action), "{command}\nis read as {read:?}\nbut the action is {action:?}");
}

fn says(read: &Pasted, action: Option<&Action>) -> bool {
    let goes_to = |member: Option<&str>| match member {
        Some(member) => read.context.as_deref() == Some(member),
        None => read.context.as_deref().is_none_or(|context| context == HUB),
    };
    match (&read.does, action) {
        (Does::Read, None) => true,
        (Does::Create { manifest }, Some(Action::Create { manifest: wanted, member })) => {
            manifest == wanted && goes_to(member.as_deref())
        }
        (
            Does::Patch { target, subresource, media_type, patch },
            Some(Action::Patch { object, subresource: part, patch_type, patch: wanted }),
        ) => {
            is(target, object)
                && goes_to(object.member.as_deref())
                && subresource.as_deref() == *part
                && *media_type == patch_type.media_type()
                && patch == wanted
        }
        (Does::Delete { target }, Some(Action::Delete { object })) => {
            is(target, object) && goes_to(object.member.as_deref())
        }
        _ => false,
    }
}

fn is(target: &Target, object: &ObjectRef) -> bool {
    let (group, version) = object.api_version.split_once('/').unwrap_or(("", &object.api_version));
    let (word, word_group) = target.resource.split_once('.').unwrap_or((&target.resource, ""));
    let kind = match our_kinds().into_iter().filter(|info| answers_to(info, word)).collect::<Vec<_>>()[..] {
        [ours] if word_group.is_empty() => {
            ours.kind == object.kind && ours.group == group && ours.storage_version() == version
        }
        // Groups without a dot are resolved first by Kubernetes; all others must be named.
        _ => word == object.kind.to_lowercase() && word_group == if group.contains('.') { group } else { "" },
    };
    kind && target.name == object.name && target.namespace == object.namespace
}

fn answers_to(info: &KindInfo, word: &str) -> bool {
    word == info.plural || word == info.kind.to_lowercase() || info.short_names.contains(&word)
}

fn our_kinds() -> Vec<&'static KindInfo> {
    struct All(Vec<&'static KindInfo>);
    impl KindVisitor for All {
        fn visit<F: Family, S: Scope>(&mut self) {
            self.0.push(Obj::<F, S>::INFO);
        }
    }
    let mut all = All(Vec::new());
    visit_kinds(&mut all);
    all.0
}

#[test]
fn a_difference_between_text_and_action_is_seen() {
    let run = ObjectRef::of::<UpdateRun>(None, "run");
    let patch = |state: &str| Action::Patch {
        object: run.clone(),
        subresource: None,
        patch_type: PatchType::Merge,
        patch: json!({"spec": {"state": state}}),
    };
    let text = r#"kubectl patch csur run --type=merge -p '{"spec":{"state":"Run"}}'"#;
    let says = |text: &str, action: &Action| says(&pasted::read(text).unwrap(), Some(action));
    assert!(says(text, &patch("Run")));
    assert!(!says(text, &patch("Stop")));
    for (one, other) in [
        ("csur run", "csur other"),
        ("csur", "sur"),
        ("csur run", "csur run -n shop"),
        ("--type=merge", "--type=strategic"),
        ("--type=merge", "--type=merge --subresource=status"),
        ("kubectl", "kubectl --context member1"),
    ] {
        assert!(!says(&text.replace(one, other), &patch("Run")), "{other}");
    }
    assert!(!says("kubectl delete csur run", &patch("Run")));
    assert!(says("kubectl delete csur run", &Action::Delete { object: run }));
}

#[test]
fn shell_syntax_is_refused() {
    let complaint = |text: &str| pasted::read(text).unwrap_err();
    assert_eq!(complaint("kubectl label membercluster a b=<value>"), "the shell reads '<' in its own way");
    assert_eq!(complaint("kubectl patch crp a --type=merge -p '{"), "a quote is not closed");
    assert_eq!(complaint("kubectl label membercluster a b=c"), "a label that is there is not changed");
    assert_eq!(complaint("kubectl delete crp a --force"), "the flag --force is not understood");
    assert_eq!(complaint("kubectl create -f - <<'EOF'\nkind: A"), "the manifest has no end");
    assert_eq!(complaint("kubectl frobnicate crp a"), "frobnicate is not understood");
    assert_eq!(complaint("rm -r a"), "it is no kubectl");
}

#[test]
fn commands_are_found_in_printed_text() {
    let printed = "error: no\n  fix: so\n    # do it\n    kubectl delete crp a\nkubectl create -f - <<'EOF'\nkind: A\nEOF\n  or: so\n    kubectl edit crp a\n";
    assert_eq!(
        pasted::commands(printed),
        ["kubectl delete crp a", "kubectl create -f - <<'EOF'\nkind: A\nEOF", "kubectl edit crp a"]
    );
}

/// Texts of users' objects, with characters that have a meaning in shells and YAML.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z0-9]([-a-z0-9]{0,8}[a-z0-9])?",
        "[ -~]{0,12}",
        prop::sample::select(vec![
            "",
            "0",
            "1e3",
            "0x1f",
            "true",
            "no",
            "null",
            "~",
            "EOF",
            "\nEOF\n",
            "a\nb\n",
            " a",
            "a ",
            "#",
            "- a",
            "it's",
            "'",
            "\\",
            "$HOME",
            "`id`",
            "!!",
            "&a",
            "*a",
            "a: b",
            "<image>",
            "2026-01-01",
            "12:30",
            "ä\u{2028}",
            "\t",
            "\u{7}",
            "%",
            "|",
            ">-",
            "{}",
            "[]",
            "?",
            "@",
            "=",
            "<<",
            "---",
            "...",
        ])
        .prop_map(str::to_owned),
    ]
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        text().prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-zA-Z][-a-zA-Z0-9./_]{0,12}", inner, 0..4).prop_map(|fields| json!(fields)),
        ]
    })
}

proptest! {
    /// `agree` checks each of these when it is created.
    #[test]
    fn any_text_of_an_object_survives_shell_and_kubectl(content in value(), context in "[ -~]{1,12}") {
        let object = ObjectRef::named("example.com", "v1", "Toy", "shop", "bear");
        let hub = Kubectl { hub_context: Some(HUB.to_owned()) };
        let manifest = json!({"apiVersion": "example.com/v1", "kind": "Toy", "metadata": {"name": "bear"}, "spec": content});
        let steps = [
            hub.patch("", &object.clone().on("member1"), json!({"spec": content})),
            hub.patch_strategic("", &object, json!({"spec": content})),
            hub.patch_status("", &object, json!({"status": content})),
            hub.create("", manifest.clone()),
            create_on("", "member1", manifest),
            hub.delete("", &object),
        ];
        prop_assert!(steps.iter().all(|step| step.action.is_some()));
        let elsewhere = Kubectl { hub_context: Some(context.clone()) }.get("", &object);
        prop_assert_eq!(pasted::read(&elsewhere.command).unwrap().context, Some(context));
    }
}
