//! The script format of a parity case: text in, typed steps out.
//!
//! ```text
//! # What the case shows, for people.
//!
//! === create it
//! @save rv /metadata/resourceVersion
//! POST {{core}}/configmaps
//!
//! apiVersion: v1
//! kind: ConfigMap
//! metadata: {name: a}
//!
//! === kubectl sees it
//! $ kubectl get configmap a -o name
//! ```
//!
//! A step is its name, then directives, then one action line, then headers up to an empty line, then the body.
//! Without a `Content-Type` the body is YAML that is sent as JSON; with one it is sent as it stands. `MERGE`, `STRATEGIC`,
//! `JSONPATCH` and `APPLY` are PATCH with the matching type. The body of a kubectl step is its standard input.
//!
//! A step must succeed: the real server answers with 2xx, kubectl with exit code 0, a watch brings its events. A step that
//! must fail says so with `@refused`, a watch that must bring nothing more with `@quiet`.

use anyhow::{Context, Result, bail};
use std::path::Path;

/// One case: a name like `patch/merge-null-removes` and its steps in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Case {
    pub(super) name: String,
    pub(super) steps: Vec<Step>,
}

/// One step of a case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) name: String,
    pub(super) directives: Vec<Directive>,
    pub(super) action: Action,
    pub(super) body: String,
}

/// What a step does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Action {
    Http {
        method: String,
        target: String,
        headers: Vec<(String, String)>,
    },
    /// Reads events until there are `events` of them, or until the server or the time limit ends the stream.
    Watch {
        target: String,
        headers: Vec<(String, String)>,
        events: usize,
    },
    Kubectl {
        arguments: Vec<String>,
    },
}

/// How a step's answer is used and shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Directive {
    /// Keeps the value at a JSON pointer of the answer as a variable.
    Save { variable: String, pointer: String },
    /// Repeats the request until it is answered with this status code.
    UntilStatus(u16),
    /// Repeats the request until the value at the pointer is this text.
    UntilValue { pointer: String, value: String },
    /// Shows only these parts of the body.
    Show(Vec<String>),
    /// Leaves these parts of the body out.
    Hide(Vec<String>),
    /// Shows the status line and nothing else.
    StatusOnly,
    /// Sorts the lines of kubectl's output: its own order is not fixed.
    Sorted,
    /// Ends kubectl after this many lines of output: a watch goes on for ever.
    Lines(usize),
    /// Runs another kubectl command once the step's own has printed so many lines.
    Meanwhile { after: usize, arguments: Vec<String> },
    /// The program that `kubectl edit` calls with the file to change.
    Editor(String),
    /// The real server must refuse this step. Without it the real server must accept it.
    Refused,
    /// The watch must end because nothing more comes.
    Quiet,
}

impl Step {
    /// Whether the script says that a correct server rejects the step.
    pub(super) fn expects_refusal(&self) -> bool {
        self.directives.iter().any(|directive| match directive {
            Directive::Refused => true,
            Directive::UntilStatus(status) => *status >= 400,
            _ => false,
        })
    }
}

/// Reads every `*.txt` below `directory`, sorted by name.
pub(super) fn load(directory: &Path) -> Result<Vec<Case>> {
    let mut cases = Vec::new();
    for area in sorted_entries(directory)? {
        if !area.is_dir() {
            continue;
        }
        for file in sorted_entries(&area)? {
            if file.extension().is_some_and(|extension| extension == "txt") {
                let text = std::fs::read_to_string(&file).with_context(|| format!("read {}", file.display()))?;
                let name = file.strip_prefix(directory).unwrap_or(&file).with_extension("").display().to_string();
                cases.push(parse(&name, &text).with_context(|| format!("in {}", file.display()))?);
            }
        }
    }
    Ok(cases)
}

fn sorted_entries(directory: &Path) -> Result<Vec<std::path::PathBuf>> {
    let read = std::fs::read_dir(directory).with_context(|| format!("list {}", directory.display()))?;
    let mut paths = read.map(|entry| entry.map(|e| e.path())).collect::<Result<Vec<_>, _>>()?;
    paths.sort();
    Ok(paths)
}

/// Parses one case.
pub(super) fn parse(name: &str, text: &str) -> Result<Case> {
    let mut blocks = text.split("\n=== ");
    let preface = blocks.next().unwrap_or_default();
    if preface.lines().any(|line| !line.is_empty() && !line.starts_with('#')) {
        bail!("before the first step only comments may stand");
    }
    let mut steps: Vec<Step> = Vec::new();
    for block in blocks {
        let step =
            parse_step(block).with_context(|| format!("in step {:?}", block.lines().next().unwrap_or_default()))?;
        if steps.iter().any(|earlier| earlier.name == step.name) {
            bail!("two steps are named {:?}", step.name);
        }
        steps.push(step);
    }
    if steps.is_empty() {
        bail!("a case needs at least one step");
    }
    Ok(Case { name: name.to_owned(), steps })
}

fn parse_step(block: &str) -> Result<Step> {
    let mut lines = block.lines();
    let name = lines.next().unwrap_or_default().trim().to_owned();
    let mut directives = Vec::new();
    let action_line = loop {
        match lines.next() {
            None => bail!("there is no action"),
            Some(line) if line.starts_with('@') => directives.push(parse_directive(line)?),
            Some(line) => break line,
        }
    };
    let mut headers = Vec::new();
    for line in lines.by_ref().take_while(|line| !line.is_empty()) {
        let (key, value) = line.split_once(':').with_context(|| format!("{line:?} is no header"))?;
        headers.push((key.trim().to_ascii_lowercase(), value.trim().to_owned()));
    }
    let body = lines.collect::<Vec<_>>().join("\n").trim_end().to_owned();
    Ok(Step { name, directives, action: parse_action(action_line, headers)?, body })
}

fn parse_action(line: &str, mut headers: Vec<(String, String)>) -> Result<Action> {
    if let Some(command) = line.strip_prefix("$ kubectl ") {
        let arguments = shlex::split(command).with_context(|| format!("{line:?} has an open quote"))?;
        return Ok(Action::Kubectl { arguments });
    }
    let (method, rest) = line.split_once(' ').with_context(|| format!("{line:?} is no action"))?;
    if method == "WATCH" {
        let (target, events) = rest.split_once(" until ").context("WATCH needs `until N events`")?;
        let events = events.strip_suffix(" events").context("WATCH needs `until N events`")?.parse()?;
        return Ok(Action::Watch { target: target.to_owned(), headers, events });
    }
    let (method, patch_type) = match method {
        "MERGE" => ("PATCH", Some("application/merge-patch+json")),
        "STRATEGIC" => ("PATCH", Some("application/strategic-merge-patch+json")),
        "JSONPATCH" => ("PATCH", Some("application/json-patch+json")),
        "APPLY" => ("PATCH", Some("application/apply-patch+yaml")),
        other => (other, None),
    };
    if let Some(patch_type) = patch_type {
        // The marker tells the runner to convert the body from YAML.
        headers.push((YAML_AS.to_owned(), patch_type.to_owned()));
    }
    Ok(Action::Http { method: method.to_owned(), target: rest.trim().to_owned(), headers })
}

/// Pseudo header: the body is YAML, to be sent as JSON under this content type.
pub(super) const YAML_AS: &str = "yaml-as";

fn parse_directive(line: &str) -> Result<Directive> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let pointers = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect();
    Ok(match words.as_slice() {
        ["@save", variable, pointer] => {
            Directive::Save { variable: (*variable).to_owned(), pointer: (*pointer).to_owned() }
        }
        ["@until", condition] => match condition.split_once('=') {
            Some((pointer, value)) => Directive::UntilValue { pointer: pointer.to_owned(), value: value.to_owned() },
            None => Directive::UntilStatus(condition.parse().with_context(|| format!("{condition:?} is no status"))?),
        },
        ["@show", rest @ ..] if !rest.is_empty() => Directive::Show(pointers(rest)),
        ["@hide", rest @ ..] if !rest.is_empty() => Directive::Hide(pointers(rest)),
        ["@refused"] => Directive::Refused,
        ["@quiet"] => Directive::Quiet,
        ["@status-only"] => Directive::StatusOnly,
        ["@sorted"] => Directive::Sorted,
        ["@lines", lines] => Directive::Lines(lines.parse().with_context(|| format!("{lines:?} is no number"))?),
        ["@after", lines, "kubectl", rest @ ..] => Directive::Meanwhile {
            after: lines.parse().with_context(|| format!("{lines:?} is no number"))?,
            arguments: pointers(rest),
        },
        ["@editor", rest @ ..] if !rest.is_empty() => Directive::Editor(rest.join(" ")),
        _ => bail!("{line:?} is no directive"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    #[test]
    fn a_step_has_directives_an_action_headers_and_a_body() {
        let case = parse(
            "a/b",
            "# why\n\n=== one\n@save rv /metadata/resourceVersion\n@until 200\nGET /x\nAccept: text/plain\n\n\
             === two\nMERGE /y\n\na: 1\n\n=== three\n$ kubectl get cm 'a b'\n\n=== four\nWATCH /z until 2 events\n",
        )
        .expect("parses");
        assert_eq!(case.steps.len(), 4);
        assert_eq!(
            case.steps[0].directives,
            [
                Directive::Save { variable: "rv".into(), pointer: "/metadata/resourceVersion".into() },
                Directive::UntilStatus(200)
            ]
        );
        let watched =
            parse("x", "#\n=== a\n@lines 3\n@after 2 kubectl label cm a x=y\n$ kubectl get cm -w\n").expect("parses");
        let arguments = ["label", "cm", "a", "x=y"].map(str::to_owned).to_vec();
        assert_eq!(watched.steps[0].directives, [Directive::Lines(3), Directive::Meanwhile { after: 2, arguments }]);
        expect![[r#"Http { method: "PATCH", target: "/y", headers: [("yaml-as", "application/merge-patch+json")] }"#]]
            .assert_eq(&format!("{:?}", case.steps[1].action));
        assert_eq!(case.steps[1].body, "a: 1");
        assert_eq!(case.steps[2].action, Action::Kubectl { arguments: vec!["get".into(), "cm".into(), "a b".into()] });
        assert_eq!(case.steps[3].action, Action::Watch { target: "/z".into(), headers: vec![], events: 2 });
    }

    #[test]
    fn invalid_scripts_are_refused_with_the_line() {
        let refused = |text: &str| format!("{:#}", parse("x", text).expect_err("must be refused"));
        assert_eq!(refused("GET /\n"), "before the first step only comments may stand");
        assert_eq!(refused("# only words\n"), "a case needs at least one step");
        assert_eq!(refused("#\n=== a\n@jump\nGET /\n"), "in step \"a\": \"@jump\" is no directive");
        assert_eq!(refused("#\n=== a\nGET /\n=== a\nGET /\n"), "two steps are named \"a\"");
        assert_eq!(refused("#\n=== a\nWATCH /\n"), "in step \"a\": WATCH needs `until N events`");
    }
}
