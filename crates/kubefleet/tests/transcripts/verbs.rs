//! Properties of every command: help with examples, one-line errors with a hint, completion, documentation.

use std::process::{Command, Stdio};

use crate::fleet::Fleet;
use crate::script::{Object, Script, Step};

/// A command line for every command that talks to a hub.
const LINES: [&str; 15] = [
    "status",
    "watch web-1",
    "diagnose",
    "diagnose web",
    "approve web-1",
    "plan web --strategy careful",
    "run web --strategy careful",
    "stop web-1",
    "resume web-1",
    "rollback web",
    "diff web",
    "history web",
    "drain member1",
    "draincluster member1",
    "uncordon member1",
];

/// Commands with other errors, which have tests of their own: they talk to two clusters, or to none.
const OPERATING: [&str; 7] = ["dashboard", "doctor", "install", "join", "leave", "mcp", "uninstall"];

/// Errors before a command does anything, with a part of the message.
const WRONG: [(&str, &str); 6] = [
    ("--context jo", "user \"jo\" has no permission to "),
    ("--kubeconfig gone", "Connection refused"),
    ("--kubeconfig missing", "cannot read the kubeconfig missing: No such file"),
    ("--kubeconfig broken", "the kubeconfig broken is invalid: line 1 column"),
    ("--context nobody", "the kubeconfig has no context \"nobody\""),
    ("--context member1", "serve"),
];

#[tokio::test]
async fn every_command_explains_errors_in_one_line_with_a_hint() {
    let fleet = Fleet::start(1).await;
    for verb in verbs(&fleet, "kubectl fleet").await {
        let is_of_hub = ![&["completion", "version", "help"][..], &OPERATING].concat().contains(&verb.as_str());
        assert_eq!(LINES.iter().any(|line| line.split(' ').next() == Some(&verb)), is_of_hub, "{verb}");
    }
    for line in LINES {
        for (flags, word) in WRONG {
            let said = fleet.run(&format!("kubectl fleet {line} {flags}")).await;
            let lines: Vec<&str> = said.lines().collect();
            let [error, hint, exit] = lines[..] else { panic!("{line} {flags}: more or less than a line:\n{said}") };
            assert!(error.starts_with("error: ") && error.contains(word), "{line} {flags}: {error}");
            assert!(hint.starts_with("hint: "), "{line} {flags}: {hint}");
            assert_eq!(exit, "[exit 1]", "{line} {flags}");
        }
    }
}

/// The commands that a program lists.
async fn verbs(fleet: &Fleet, program: &str) -> Vec<String> {
    let help = fleet.run(&format!("{program} --help")).await;
    let commands = help.split("Commands:").nth(1).unwrap().split("Options:").next().unwrap();
    let verbs: Vec<String> = commands.lines().filter_map(verb).map(str::to_owned).collect();
    assert!(verbs.contains(&"approve".to_owned()), "{help}");
    verbs
}

/// The command of a line of the help. Lines with more indentation continue the previous line.
fn verb(line: &str) -> Option<&str> {
    line.strip_prefix("  ").filter(|rest| !rest.starts_with(' '))?.split(' ').next()
}

#[tokio::test]
async fn every_verb_has_help_with_examples_and_is_documented() {
    let fleet = Fleet::start(0).await;
    let documentation = documentation();
    for program in ["kubefleet", "kubectl fleet"] {
        for verb in verbs(&fleet, program).await.into_iter().filter(|verb| verb != "help") {
            let help = fleet.run(&format!("{program} {verb} --help")).await;
            let examples = help.split("Examples:\n").nth(1).unwrap_or_else(|| panic!("{program} {verb}:\n{help}"));
            assert!(
                examples.starts_with("  ") && examples.contains(&format!("{program} {verb}")),
                "{program} {verb}:\n{help}"
            );
            assert!(!help.contains("[exit"), "{help}");
            assert!(documentation.contains(&format!("`{verb}")), "docs/COMMANDS.md does not speak of {verb}");
        }
    }
}

fn documentation() -> String {
    let path = crate::directory().join("../../../../docs/COMMANDS.md");
    std::fs::read_to_string(path).unwrap()
}

/// A run that cannot start.
const LOST: &str = "
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ClusterStagedUpdateRun
metadata: {name: lost}
spec: {placementName: nowhere, stagedRolloutStrategyName: none, state: Run}
";

/// Every documented exit code, with a command line.
#[tokio::test]
async fn exit_codes_are_as_documented() {
    let fleet = Fleet::start(0).await;
    let table = [
        (0, "kubefleet status"),
        (1, "kubefleet status --context nobody"),
        (2, "kubefleet stop"),
        (2, "kubefleet status pods web"),
        (3, "kubefleet diagnose lost"),
    ];
    fleet.apply(LOST).await;
    let lost = Object { kind: "ClusterStagedUpdateRun".to_owned(), namespace: None, name: "lost".to_owned() };
    fleet.wait(&lost, &("Initialized".to_owned(), "False".to_owned())).await;
    for (code, line) in table {
        let said = fleet.run(line).await;
        let exit = said.lines().last().and_then(|last| last.strip_prefix("[exit ")?.strip_suffix(']')).unwrap_or("0");
        assert_eq!(exit, code.to_string(), "{line}:\n{said}");
    }
    let documented: Vec<String> = documentation()
        .lines()
        .filter_map(|line| Some(line.strip_prefix("| `")?.split_once('`')?.0.to_owned()))
        .collect();
    let codes: Vec<&str> =
        documented.iter().map(String::as_str).filter(|one| one.chars().all(|c| c.is_ascii_digit())).collect();
    assert_eq!(codes, ["0", "1", "2", "3"]);
}

/// A fleet with a placement, a strategy and a run that waits.
pub(crate) async fn waiting() -> Fleet {
    let text = std::fs::read_to_string(crate::directory().join("approve.txt")).unwrap();
    let fleet = Fleet::start(3).await;
    for step in Script::parse(&text).steps {
        match step {
            Step::Apply(yaml) => fleet.apply(&yaml).await,
            Step::Run { .. } => break,
            _ => {}
        }
    }
    let object = |kind: &str, name: &str| Object { kind: kind.to_owned(), namespace: None, name: name.to_owned() };
    let scheduled = ("ClusterResourcePlacementScheduled".to_owned(), "True".to_owned());
    fleet.wait(&object("ClusterResourcePlacement", "web"), &scheduled).await;
    fleet.run("kubefleet run web --strategy careful").await;
    let waiting = ("Progressing".to_owned(), "UpdateRunWaiting".to_owned());
    fleet.wait(&object("ClusterStagedUpdateRun", "web-1"), &waiting).await;
    fleet
}

#[tokio::test]
async fn status_is_printed_as_table_and_as_data() {
    let fleet = waiting().await;
    for (subject, field) in [("", "/runs/0/name"), ("web-1", "/name"), ("web", "/runs/0/name")] {
        let json = fleet.run(&format!("kubefleet status {subject} -o json")).await;
        let json: serde_json::Value = serde_json::from_str(&json).unwrap_or_else(|error| panic!("{error}:\n{json}"));
        assert_eq!(json.pointer(field), Some(&"web-1".into()), "{json}");
        let text = fleet.run(&format!("kubefleet status {subject} -o yaml")).await;
        let yaml = fleet_api::yaml::documents(&text).unwrap();
        assert_eq!(yaml[0].pointer(field), Some(&"web-1".into()), "{text}");
    }
    let columns = |text: &str| text.lines().next().unwrap().split_whitespace().count();
    let (table, wide) = (fleet.run("kubefleet status").await, fleet.run("kubefleet status -o wide").await);
    assert!(columns(&wide) > columns(&table), "{table}\n{wide}");
    assert!(wide.contains("waiting for an approval of stage staging") && !table.contains("waiting for"), "{wide}");
    assert!(fleet.run("kubefleet status -o xml").await.ends_with("[exit 2]\n"));
}

#[tokio::test]
async fn names_are_completed() {
    let fleet = waiting().await;
    for (words, expected) in [
        ("approve ''", "web-1\trun of placement web\n:4"),
        ("approve x", ":4"),
        ("approve web-1 ''", "staging\ncanary\n:4"),
        ("approve careq --name ''", "web-1-after-staging\trun web-1\n:4"),
        ("run ''", "web\tplacement\n:4"),
        ("run web --strategy ''", "careful\tstages staging, canary\n:4"),
        ("run web --strategy=c", "--strategy=careful\tstages staging, canary\n:4"),
        ("rollback web --to ''", "0\tversion\n:4"),
        ("status we", "web-1\trun of placement web\nweb\tplacement\n:4"),
        ("status run ''", "web-1\trun of placement web\n:4"),
        ("diagnose m", "member1\tmember cluster\nmember2\tmember cluster\nmember3\tmember cluster\n:4"),
        ("drain member2", "member2\tmember cluster\n:4"),
        ("status --context ''", "hub\njo\nviewer\nmember1\nmember2\nmember3\n:4"),
        ("--context j", "jo\n:4"),
        ("status -n sh", "shop\n:4"),
        ("-n shop stop ''", ":4"),
        ("status --kubeconfig ''", ":0"),
        ("status -o j", "json\n:4"),
        ("stop --nothing", ":4"),
        ("stop --kube", "--kubeconfig\tPath to the kubeconfig; defaults to KUBECONFIG, then ~/.kube/config\n:4"),
        ("appro", "approve\tApprove a gate that a staged update run is waiting at\n:4"),
        // Errors yield no candidates.
        ("stop --context jo ''", ":4"),
        ("stop --kubeconfig gone ''", ":4"),
        ("stop --context nobody ''", ":4"),
    ] {
        for program in ["kubefleet", "kubectl fleet"] {
            assert_eq!(
                fleet.run(&format!("{program} __complete {words}")).await.trim_end(),
                expected,
                "{program} {words}"
            );
        }
    }
    shells_ask_the_binary(&fleet).await;
}

/// bash sources the script; kubectl runs a separate program.
async fn shells_ask_the_binary(fleet: &Fleet) {
    let bash = |program: &str, words: &str, count: usize| {
        let function = program.replace('-', "_");
        format!(
            "source <({program} completion bash); COMP_WORDS=({program} {words}); COMP_CWORD={count}; \
             _{function}_complete; printf '%s\\n' \"${{COMPREPLY[@]}}\""
        )
    };
    assert_eq!(sh(fleet, "bash", &bash("kubefleet", "approve ''", 2)).await, "web-1\n");
    assert_eq!(sh(fleet, "bash", &bash("kubefleet", "run web --strategy = c", 5)).await, "careful\n");
    assert_eq!(sh(fleet, "bash", &bash("kubectl-fleet", "stop ''", 2)).await, "web-1\n");
    let plugin = "kubectl-fleet completion kubectl > kubectl_complete-fleet; chmod +x kubectl_complete-fleet; \
        kubectl_complete-fleet approve ''";
    assert_eq!(sh(fleet, "sh", plugin).await, "web-1\trun of placement web\n:4\n");
}

/// The output of a shell command with our programs in the PATH.
async fn sh(fleet: &Fleet, shell: &str, line: &str) -> String {
    let mut command = Command::new(shell);
    fleet.at_home(command.args(["-c", line]).stdin(Stdio::null()));
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[tokio::test]
async fn every_shell_has_a_script() {
    let fleet = Fleet::start(0).await;
    for shell in ["bash", "zsh", "fish"] {
        let script = fleet.run(&format!("kubectl fleet completion {shell}")).await;
        assert!(script.contains("kubectl-fleet __complete") && !script.contains("PROGRAM"), "{script}");
    }
    for shell in ["elvish", "powershell"] {
        assert!(fleet.run(&format!("kubefleet completion {shell}")).await.contains("approve"), "{shell}");
    }
}
