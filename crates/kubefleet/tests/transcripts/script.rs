//! The format of the scripts.
//!
//! | line | meaning |
//! |---|---|
//! | `# text` | a comment |
//! | `members N` | number of members, in the first line that is not a comment; 3 by default |
//! | `cluster NAME` | a cluster that is no member, with a context; in the first lines |
//! | `agent NAME` | from now on a member agent runs beside that cluster, with the identity that `join` creates |
//! | `apply` … `end` | these YAML documents are applied |
//! | `patch KIND NAMESPACE/NAME JSON` | a merge patch; `-` for no namespace |
//! | `wait KIND NAMESPACE/NAME TYPE=WORD` | until a condition of that type has this status or reason |
//! | `wait KIND NAMESPACE/NAME /path=WORD` | until this field has this value |
//! | `$ kubefleet …`, `$ kubectl fleet …` | a command, followed by its output and `[exit N]` if it is not 0 |

use std::fmt;

#[derive(Debug)]
pub(crate) struct Script {
    pub(crate) members: u16,
    pub(crate) clusters: Vec<String>,
    pub(crate) steps: Vec<Step>,
}

#[derive(Debug)]
pub(crate) enum Step {
    /// Comments, blank lines, and settings of the script.
    Remark(String),
    Apply(String),
    Agent(String),
    Patch {
        object: Object,
        change: String,
    },
    Wait {
        object: Object,
        wanted: (String, String),
    },
    Run {
        command: String,
        output: String,
    },
}

/// An object by kind and name.
#[derive(Debug)]
pub(crate) struct Object {
    pub(crate) kind: String,
    pub(crate) namespace: Option<String>,
    pub(crate) name: String,
}

impl Object {
    fn parse(kind: &str, place: &str) -> Self {
        let (namespace, name) = place.split_once('/').unwrap_or_else(|| panic!("{place:?} is not NAMESPACE/NAME"));
        let namespace = Some(namespace).filter(|namespace| *namespace != "-").map(str::to_owned);
        Self { kind: kind.to_owned(), namespace, name: name.to_owned() }
    }
}

impl fmt::Display for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}/{}", self.kind, self.namespace.as_deref().unwrap_or("-"), self.name)
    }
}

impl Script {
    pub(crate) fn parse(text: &str) -> Self {
        let mut script = Self { members: 3, clusters: Vec::new(), steps: Vec::new() };
        let mut lines = text.lines().peekable();
        while let Some(line) = lines.next() {
            let words: Vec<&str> = line.splitn(4, ' ').collect();
            let step = match words[..] {
                ["members", count] => {
                    script.members = count.parse().unwrap();
                    Step::Remark(line.to_owned())
                }
                ["cluster", name] => {
                    script.clusters.push(name.to_owned());
                    Step::Remark(line.to_owned())
                }
                ["agent", name] => Step::Agent(name.to_owned()),
                ["apply"] => {
                    let yaml: Vec<&str> = lines.by_ref().take_while(|line| *line != "end").collect();
                    Step::Apply(yaml.join("\n") + "\n")
                }
                ["patch", kind, place, change] => {
                    Step::Patch { object: Object::parse(kind, place), change: change.to_owned() }
                }
                ["wait", kind, place, wanted] => {
                    let (type_, word) = wanted.split_once('=').unwrap_or_else(|| panic!("{wanted:?} is not TYPE=WORD"));
                    Step::Wait { object: Object::parse(kind, place), wanted: (type_.to_owned(), word.to_owned()) }
                }
                ["$", ..] => {
                    let mut output = String::new();
                    while let Some(line) = lines.next_if(|line| !begins_a_step(line)) {
                        output.push_str(line);
                        output.push('\n');
                    }
                    Step::Run { command: line[2..].to_owned(), output }
                }
                _ if line.is_empty() || line.starts_with('#') => Step::Remark(line.to_owned()),
                _ => panic!("{line:?} is no line of a script"),
            };
            script.steps.push(step);
        }
        script
    }
}

/// Whether a line begins a step. Outputs never begin like this.
fn begins_a_step(line: &str) -> bool {
    ["$ ", "# ", "apply", "agent ", "patch ", "wait "].iter().any(|start| line.starts_with(start))
}

impl fmt::Display for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, step) in self.steps.iter().enumerate() {
            match step {
                Step::Remark(text) => writeln!(f, "{text}")?,
                Step::Agent(name) => writeln!(f, "agent {name}")?,
                Step::Apply(yaml) => write!(f, "apply\n{yaml}end\n")?,
                Step::Patch { object, change } => writeln!(f, "patch {object} {change}")?,
                Step::Wait { object, wanted: (type_, word) } => writeln!(f, "wait {object} {type_}={word}")?,
                Step::Run { command, output } => {
                    write!(f, "$ {command}\n{}", output.trim_end())?;
                    let is_last = place + 1 == self.steps.len();
                    // A blank line precedes the next step.
                    f.write_str(match (output.trim_end().is_empty(), is_last) {
                        (true, true) => "",
                        (true, false) | (false, true) => "\n",
                        (false, false) => "\n\n",
                    })?;
                }
            }
        }
        Ok(())
    }
}
