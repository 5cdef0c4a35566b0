//! Parses a command that `diagnose` prints, as a shell and kubectl would.
//!
//! Uses only the printed text, not the action of the step. The tests of two crates include this file, so it uses no types of
//! either.
//! Commands that it does not understand are errors.

use serde_json::{Value, json};

/// The delimiter of a here-document.
const END: &str = "EOF";
/// Characters without a meaning for shells, anywhere in a word.
const PLAIN: &str = "-_./=:,@%+";
/// Verbs that change nothing, or that need a user's decision.
const READ_ONLY: &[&str] = &["get", "describe", "logs", "edit", "api-resources"];

/// One parsed command.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Pasted {
    /// The kubeconfig context, if the command names one.
    pub(crate) context: Option<String>,
    pub(crate) does: Does,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Does {
    Create {
        manifest: Value,
    },
    Patch {
        target: Target,
        subresource: Option<String>,
        media_type: &'static str,
        patch: Value,
    },
    Delete {
        target: Target,
    },
    /// The command changes nothing, or needs a user's decision.
    Read,
}

/// `crp web`, `deployment web -n shop` or `toy.example.com bear -n shop`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    /// The resource as kubectl resolves it: a short, singular or plural name, optionally with a group.
    pub(crate) resource: String,
    pub(crate) name: String,
    pub(crate) namespace: Option<String>,
}

/// The commands in printed text, each as a user would copy it.
pub(crate) fn commands(printed: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut lines = printed.lines();
    while let Some(line) = lines.next() {
        let line = line.trim_start();
        if !line.starts_with("kubectl ") {
            continue;
        }
        let mut command = line.to_owned();
        if command.ends_with("<<'EOF'") {
            for more in lines.by_ref() {
                command = format!("{command}\n{more}");
                if more == END {
                    break;
                }
            }
        }
        found.push(command);
    }
    found
}

/// Parses a command.
pub(crate) fn read(command: &str) -> Result<Pasted, String> {
    let (line, document) = match command.split_once('\n') {
        Some((line, rest)) => (line.strip_suffix(" <<'EOF'").ok_or("it goes on in another line")?, Some(typed(rest)?)),
        None => (command, None),
    };
    let mut words = words(line)?.into_iter();
    if words.next().as_deref() != Some("kubectl") {
        return Err("it is no kubectl".to_owned());
    }
    let mut first = words.next();
    let mut context = None;
    if first.as_deref() == Some("--context") {
        (context, first) = (words.next(), words.next());
    }
    let verb = first.ok_or("it has no verb")?;
    let rest: Vec<String> = words.collect();
    let does = if READ_ONLY.contains(&verb.as_str()) { Does::Read } else { changing(&verb, rest, document)? };
    Ok(Pasted { context, does })
}

/// The manifest between the command and the line that ends it.
fn typed(rest: &str) -> Result<Value, String> {
    let lines: Vec<&str> = rest.lines().collect();
    let end = lines.iter().position(|line| *line == END).ok_or("the manifest has no end")?;
    if end + 1 != lines.len() {
        return Err("the manifest ends before its last line".to_owned());
    }
    let documents = fleet_api::yaml::documents(&lines[..end].join("\n")).map_err(|error| error.to_string())?;
    match &documents[..] {
        [one] => Ok(one.clone()),
        several => Err(format!("{} manifests", several.len())),
    }
}

/// The words of a line. Refuses shell syntax outside of quotes.
fn words(line: &str) -> Result<Vec<String>, String> {
    let mut characters = line.chars();
    let mut quoted = false;
    while let Some(character) = characters.next() {
        match character {
            '\'' => quoted = !quoted,
            _ if quoted => {}
            '\\' => drop(characters.next()),
            ' ' => {}
            plain if plain.is_ascii_alphanumeric() || PLAIN.contains(plain) => {}
            special => return Err(format!("the shell reads {special:?} in its own way")),
        }
    }
    shlex::split(line).ok_or_else(|| "a quote is not closed".to_owned())
}

fn changing(verb: &str, rest: Vec<String>, document: Option<Value>) -> Result<Does, String> {
    if verb == "create" {
        let from_input = rest == ["-f", "-"];
        return match document {
            Some(manifest) if from_input => Ok(Does::Create { manifest }),
            _ => Err("it does not create what is typed".to_owned()),
        };
    }
    if document.is_some() {
        return Err(format!("{verb} reads no manifest"));
    }
    let mut flags = Flags::default();
    let plain = flags.take_from(rest)?;
    let [resource, name, others @ ..] = &plain[..] else { return Err("it names no object".to_owned()) };
    let target = Target { resource: resource.clone(), name: name.clone(), namespace: flags.namespace.take() };
    match (verb, others) {
        ("delete", []) => flags.none_left(Does::Delete { target }),
        ("patch", []) => flags.patch(target),
        ("label", [_, ..]) => flags.labels(target, others),
        _ => Err(format!("{verb} is not understood")),
    }
}

#[derive(Debug, Default, PartialEq)]
struct Flags {
    namespace: Option<String>,
    subresource: Option<String>,
    kind_of_patch: Option<String>,
    patch: Option<String>,
    overwrite: bool,
}

impl Flags {
    /// Takes the flags out of the words.
    fn take_from(&mut self, words: Vec<String>) -> Result<Vec<String>, String> {
        let mut plain = Vec::new();
        let mut words = words.into_iter();
        while let Some(word) = words.next() {
            match word.split_once('=') {
                _ if word == "-n" => self.namespace = words.next(),
                _ if word == "-p" => self.patch = words.next(),
                _ if word == "--overwrite" => self.overwrite = true,
                Some(("--type", kind)) => self.kind_of_patch = Some(kind.to_owned()),
                Some(("--subresource", name)) => self.subresource = Some(name.to_owned()),
                _ if word.starts_with('-') => return Err(format!("the flag {word} is not understood")),
                _ => plain.push(word),
            }
        }
        Ok(plain)
    }

    fn none_left(self, does: Does) -> Result<Does, String> {
        if self == Self::default() { Ok(does) } else { Err(format!("flags that mean nothing here: {self:?}")) }
    }

    fn patch(mut self, target: Target) -> Result<Does, String> {
        let media_type = match self.kind_of_patch.take().as_deref() {
            Some("merge") => "application/merge-patch+json",
            Some("strategic") | None => "application/strategic-merge-patch+json",
            Some(other) => return Err(format!("no patch of type {other}")),
        };
        let text = self.patch.take().ok_or("it has no patch")?;
        let patch = serde_json::from_str(&text).map_err(|error| format!("the patch is no JSON: {error}"))?;
        let subresource = self.subresource.take();
        self.none_left(Does::Patch { target, subresource, media_type, patch })
    }

    fn labels(mut self, target: Target, words: &[String]) -> Result<Does, String> {
        let mut labels = json!({});
        for word in words {
            match (word.split_once('='), word.strip_suffix('-')) {
                (Some((key, value)), _) => labels[key] = json!(value),
                (None, Some(key)) => labels[key] = Value::Null,
                (None, None) => return Err(format!("{word} is no label")),
            }
        }
        // Without it kubectl refuses to change an existing label.
        let overwrite = std::mem::take(&mut self.overwrite);
        let sets = labels.as_object().is_some_and(|labels| labels.values().any(Value::is_string));
        if sets && !overwrite {
            return Err("a label that is there is not changed".to_owned());
        }
        let patch = json!({"metadata": {"labels": labels}});
        let media_type = "application/merge-patch+json";
        self.none_left(Does::Patch { target, subresource: None, media_type, patch })
    }
}
