//! Runs a case on one server, step by step, in its own namespace, and records the responses.

use super::kubectl;
use super::normalise::Normaliser;
use super::script::{Action, Case, Directive, Step, YAML_AS};
use super::target::Target;
use super::transcript::{self, Answer, Transcript};
use super::variables::Variables;
use super::watch;
use anyhow::{Context, Result};
use bytes::Bytes;
use hyper::Response;
use serde_json::{Value, json};
use std::fmt::Write;
use std::time::{Duration, Instant};

/// Bound of one request or kubectl command: the longest, `kubectl wait`, brings its own shorter one.
const STEP_WITHIN: Duration = Duration::from_secs(90);
/// Bound of an `@until`: garbage collection and namespace deletion take seconds on a loaded machine.
const UNTIL_WITHIN: Duration = Duration::from_mins(1);
/// Pause between two tries of an `@until`.
const LOOK_EVERY: Duration = Duration::from_millis(150);

/// Runs the case; `id` is its name in this run, the same on both servers.
pub(super) async fn run(target: &Target, case: &Case, id: &str) -> Result<Transcript> {
    let mut session =
        Session::open(target, id).await.with_context(|| format!("set up {} on {}", case.name, target.name))?;
    let mut answers = Vec::new();
    for step in &case.steps {
        let outcome = match tokio::time::timeout(STEP_WITHIN, session.step(step)).await {
            Ok(outcome) => outcome,
            Err(_) => Err(anyhow::anyhow!("no answer within {} s", STEP_WITHIN.as_secs())),
        };
        let Shown { text, accepted, failed } = outcome.unwrap_or_else(|error| {
            let text = format!("error: {error:#}");
            Shown { failed: Some(text.clone()), text, accepted: None }
        });
        answers.push(Answer { step: step.name.clone(), text, accepted, failed });
    }
    session.close().await;
    Ok(Transcript { case: case.name.clone(), answers })
}

struct Session<'a> {
    target: &'a Target,
    variables: Variables,
    normaliser: Normaliser,
    home: tempfile::TempDir,
}

type Headers = Vec<(String, String)>;
/// What a step shows, whether the server agreed, and why the step did not do what it is for.
struct Shown {
    text: String,
    accepted: Option<bool>,
    failed: Option<String>,
}

impl Shown {
    fn new(text: String, accepted: bool) -> Self {
        Self { text, accepted: Some(accepted), failed: None }
    }

    /// Records a failure, also in the text.
    fn fail(&mut self, why: String) {
        let _ = write!(self.text, "\n({why})");
        self.failed.get_or_insert(why);
    }
}

impl<'a> Session<'a> {
    async fn open(target: &'a Target, id: &str) -> Result<Self> {
        let variables = Variables::of_case(id);
        let home = tempfile::tempdir().context("create a home for kubectl")?;
        let literals = [
            (home.path().display().to_string(), "<home>"),
            (target.endpoint.url().to_owned(), "<server>"),
            (target.endpoint.url().trim_start_matches("https://").trim_start_matches("http://").to_owned(), "<server>"),
            (target.token.clone(), "<admin-token>"),
            (variables.namespace().to_owned(), "<ns>"),
            (id.to_owned(), "<id>"),
        ];
        let literals = literals.map(|(text, stand_in)| (text, stand_in.to_owned())).to_vec();
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": variables.namespace()}});
        let created = target.call("POST", "/api/v1/namespaces", Some(&namespace)).await?;
        if !created.status().is_success() {
            anyhow::bail!("no namespace: {} {}", created.status(), String::from_utf8_lossy(created.body()));
        }
        equipped(target, variables.namespace()).await?;
        Ok(Self { target, variables, normaliser: Normaliser::new(literals)?, home })
    }

    async fn step(&mut self, step: &Step) -> Result<Shown> {
        let body = self.variables.fill(&step.body);
        match &step.action {
            Action::Http { method, target, headers } => self.http(step, method, target, headers, &body).await,
            Action::Watch { target, headers, events } => self.watch(step, target, headers, *events).await,
            Action::Kubectl { arguments } => self.kubectl(step, arguments, &body).await,
        }
    }

    async fn http(
        &mut self,
        step: &Step,
        method: &str,
        path: &str,
        headers: &[(String, String)],
        body: &str,
    ) -> Result<Shown> {
        let path = self.variables.fill(path);
        let (headers, body) = self.prepared(headers, body)?;
        let started = Instant::now();
        let mut reached;
        let answer = loop {
            let request = self.target.request(method, &path, &headers, body.clone())?;
            let answer = self.target.endpoint.send(request).await?;
            reached = step.directives.iter().all(|directive| satisfied(directive, &answer));
            if reached || started.elapsed() > UNTIL_WITHIN {
                break answer;
            }
            tokio::time::sleep(LOOK_EVERY).await;
        };
        let accepted = answer.status().is_success();
        let (parts, body) = answer.into_parts();
        let directives: Vec<Directive> = step.directives.iter().map(|directive| self.filled(directive)).collect();
        let text = transcript::http(parts.status, &parts.headers, &body, &directives, &mut self.normaliser);
        let mut shown = Shown::new(text, accepted);
        if !reached {
            shown.fail(format!("not reached within {} s", UNTIL_WITHIN.as_secs()));
        }
        self.save(step, &body, &mut shown);
        Ok(shown)
    }

    /// Headers with variables filled in; a YAML body becomes JSON unless the script has named a content type.
    fn prepared(&self, headers: &[(String, String)], body: &str) -> Result<(Headers, Vec<u8>)> {
        let mut filled: Headers = headers
            .iter()
            .map(|(name, value)| (name.clone(), self.variables.fill(value)))
            .filter(|(name, _)| name != YAML_AS)
            .collect();
        let explicit = filled.iter().any(|(name, _)| name == "content-type");
        if explicit || body.is_empty() {
            return Ok((filled, body.as_bytes().to_vec()));
        }
        let kind =
            headers.iter().find(|(name, _)| name == YAML_AS).map_or("application/json", |(_, kind)| kind.as_str());
        filled.push(("content-type".to_owned(), kind.to_owned()));
        if kind.ends_with("yaml") {
            return Ok((filled, body.as_bytes().to_vec()));
        }
        // `y` and `on` are words here, as in YAML 1.2.
        let options = serde_saphyr::options! { strict_booleans: true };
        let value: Value = serde_saphyr::from_str_with_options(body, options).context("the body is no YAML")?;
        Ok((filled, value.to_string().into_bytes()))
    }

    /// A directive whose pointers may name the case's own things.
    fn filled(&self, directive: &Directive) -> Directive {
        let fill = |pointers: &[String]| pointers.iter().map(|pointer| self.variables.fill(pointer)).collect();
        match directive {
            Directive::Show(pointers) => Directive::Show(fill(pointers)),
            Directive::Hide(pointers) => Directive::Hide(fill(pointers)),
            other => other.clone(),
        }
    }

    fn save(&mut self, step: &Step, body: &Bytes, shown: &mut Shown) {
        let value: Value = serde_json::from_slice(body).unwrap_or_default();
        for directive in &step.directives {
            if let Directive::Save { variable, pointer } = directive {
                match value.pointer(pointer) {
                    Some(Value::String(found)) => self.variables.set(variable, found.clone()),
                    Some(found) => self.variables.set(variable, found.to_string()),
                    None => shown.fail(format!("nothing at {pointer} to save as {variable}")),
                }
            }
        }
    }

    async fn watch(&mut self, step: &Step, path: &str, headers: &[(String, String)], events: usize) -> Result<Shown> {
        let path = self.variables.fill(path);
        let (headers, _) = self.prepared(headers, "")?;
        let response = self.target.endpoint.open(self.target.request("GET", &path, &headers, Vec::new())?).await?;
        let (parts, body) = response.into_parts();
        let received = watch::read(body, events).await;
        let mut text = format!("{}\n", parts.status.as_u16());
        for line in &received.lines {
            match serde_json::from_str::<Value>(line) {
                Ok(event) => text.push_str(&self.normaliser.json(transcript::selected(event, &step.directives))),
                Err(_) => text.push_str(&self.normaliser.words(line)),
            }
            text.push('\n');
        }
        text.push_str(received.end);
        let mut shown = Shown::new(text, parts.status.is_success());
        let quiet = step.directives.contains(&Directive::Quiet);
        shown.failed = match received.end {
            watch::NOTHING_MORE if !quiet => Some("fewer events than the script expects".to_owned()),
            watch::BROKEN => Some("the stream broke".to_owned()),
            end if quiet && end != watch::NOTHING_MORE => Some("more came than the script expects".to_owned()),
            _ => None,
        };
        Ok(shown)
    }

    async fn kubectl(&mut self, step: &Step, arguments: &[String], input: &str) -> Result<Shown> {
        let mut command = self.command(arguments)?;
        for directive in &step.directives {
            if let Directive::Editor(editor) = directive {
                command.env("KUBE_EDITOR", self.variables.fill(editor));
            }
        }
        let printed = match self.follow(step)? {
            Some(follow) => kubectl::follow(command, follow).await?,
            None => kubectl::finish(command, input).await?,
        };
        let mut text = match printed.exit_code {
            Some(code) => format!("exit code {code}\n"),
            None => "ended while running\n".to_owned(),
        };
        for (title, part) in [("", &printed.stdout), ("stderr:\n", &printed.stderr)] {
            let mut part = self.normaliser.terminal(part);
            if step.directives.contains(&Directive::Sorted) {
                let mut lines: Vec<&str> = part.lines().collect();
                lines.sort_unstable();
                part = lines.join("\n");
            }
            if !part.is_empty() && !step.directives.contains(&Directive::StatusOnly) {
                let _ = writeln!(text, "{title}{part}");
            }
        }
        let mut shown = Shown::new(text, printed.exit_code.is_none_or(|code| code == 0));
        self.save(step, &Bytes::from(printed.stdout), &mut shown);
        Ok(shown)
    }

    fn command(&self, arguments: &[String]) -> Result<tokio::process::Command> {
        let mut command = self.target.kubectl(self.home.path(), self.variables.namespace())?;
        command.args(arguments.iter().map(|argument| self.variables.fill(argument)));
        Ok(command)
    }

    /// How a kubectl that goes on for ever is ended, if the step says so.
    fn follow(&self, step: &Step) -> Result<Option<kubectl::Follow>> {
        let (mut lines, mut meanwhile) = (None, None);
        for directive in &step.directives {
            match directive {
                Directive::Lines(wanted) => lines = Some(*wanted),
                Directive::Meanwhile { after, arguments } => meanwhile = Some((*after, self.command(arguments)?)),
                _ => {}
            }
        }
        Ok(lines.map(|lines| kubectl::Follow { lines, meanwhile }))
    }

    /// Removes the objects of the case. Failures are ignored.
    async fn close(self) {
        let _ = self.target.call("DELETE", &format!("/api/v1/namespaces/{}", self.variables.namespace()), None).await;
        let crds = self.variables.fill("{{crds}}");
        let Ok(list) = self.target.call("GET", &crds, None).await else { return };
        let list: Value = serde_json::from_slice(list.body()).unwrap_or_default();
        let group = self.variables.fill("{{group}}");
        for crd in list.pointer("/items").and_then(Value::as_array).into_iter().flatten() {
            if let (true, Some(name)) = (
                crd.pointer("/spec/group") == Some(&json!(group)),
                crd.pointer("/metadata/name").and_then(Value::as_str),
            ) {
                let _ = self.target.call("DELETE", &format!("{crds}/{name}"), None).await;
            }
        }
    }
}

/// Waits for what controllers put into every namespace, so that no list depends on how quick they were.
async fn equipped(target: &Target, namespace: &str) -> Result<()> {
    let started = Instant::now();
    for object in ["serviceaccounts/default", "configmaps/kube-root-ca.crt"] {
        let path = format!("/api/v1/namespaces/{namespace}/{object}");
        while !target.call("GET", &path, None).await?.status().is_success() {
            anyhow::ensure!(started.elapsed() < UNTIL_WITHIN, "{namespace} has got no {object}");
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
    Ok(())
}

fn satisfied(directive: &Directive, answer: &Response<Bytes>) -> bool {
    match directive {
        Directive::UntilStatus(status) => answer.status().as_u16() == *status,
        Directive::UntilValue { pointer, value } => {
            let body: Value = serde_json::from_slice(answer.body()).unwrap_or_default();
            match body.pointer(pointer) {
                Some(Value::String(text)) => text == value,
                Some(other) => serde_json::from_str(value).is_ok_and(|wanted: Value| *other == wanted),
                None => value == "absent",
            }
        }
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn until_checks_status_value_or_absence() {
        let answer = Response::builder().status(200).body(Bytes::from(r#"{"a":{"b":"x"},"n":3}"#)).expect("answer");
        let value = |pointer: &str, value: &str| Directive::UntilValue { pointer: pointer.into(), value: value.into() };
        assert!(satisfied(&Directive::UntilStatus(200), &answer));
        assert!(!satisfied(&Directive::UntilStatus(404), &answer));
        assert!(satisfied(&value("/a/b", "x"), &answer));
        assert!(satisfied(&value("/n", "3"), &answer));
        assert!(satisfied(&value("/gone", "absent"), &answer));
        assert!(!satisfied(&value("/a/b", "y"), &answer));
    }
}
