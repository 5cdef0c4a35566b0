//! Parses documentation pages whose commands are run by tests.
//!
//! In blocks of kind `console`, `$ ` begins a command, `> ` continues it, and everything else is the expected output. White
//! space is normalised; `…` stands for any text in a line, and alone for any lines.

/// A command of a page, and its expected output.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) line: usize,
    pub(crate) command: String,
    pub(crate) output: Vec<String>,
}

pub(crate) fn steps(page: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut inside = false;
    for (index, line) in page.lines().enumerate() {
        if line.starts_with("```") {
            inside = line == "```console";
            continue;
        }
        if !inside {
            continue;
        }
        if let Some(command) = line.strip_prefix("$ ") {
            steps.push(Step { line: index + 1, command: command.to_owned(), output: Vec::new() });
            continue;
        }
        let step = steps.last_mut().expect("a block begins with a command");
        match line.strip_prefix("> ") {
            Some(more) => step.command = format!("{}\n{more}", step.command),
            None => step.output.push(line.to_owned()),
        }
    }
    steps
}

impl Step {
    /// Compares output and exit code of a command with the page.
    pub(crate) fn must_fit(&self, seen: &[String], ended_well: bool) {
        let Self { line, command, output } = self;
        assert!(ended_well, "line {line}: {command}\nfailed:\n{}", seen.join("\n"));
        assert!(
            fits(output, seen),
            "line {line}: {command}\nprinted\n{}\nwhere the page says\n{}",
            seen.join("\n"),
            output.join("\n")
        );
    }
}

/// Whether the lines match the page.
fn fits(expected: &[String], seen: &[String]) -> bool {
    match expected.split_first() {
        None => seen.is_empty(),
        Some((any, rest)) if any.trim() == "…" => (0..=seen.len()).any(|skipped| fits(rest, &seen[skipped..])),
        Some((line, rest)) => {
            seen.split_first().is_some_and(|(first, others)| line_fits(line, first) && fits(rest, others))
        }
    }
}

fn line_fits(expected: &str, seen: &str) -> bool {
    let squeezed = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let (expected, seen) = (squeezed(expected), squeezed(seen));
    let parts: Vec<&str> = expected.split('…').map(str::trim).collect();
    let [first, others @ ..] = &parts[..] else { return false };
    let Some((last, middle)) = others.split_last() else { return expected == seen };
    let Some(mut rest) = seen.strip_prefix(first) else { return false };
    for part in middle {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

#[test]
fn commands_of_pages_are_read_in_order() {
    let page = "text\n```console\n$ a \\\n>   b\none\n$ c\n```\n```yaml\n$ no command\n```\n";
    let step = |line, command: &str, output: &[&str]| Step {
        line,
        command: command.to_owned(),
        output: output.iter().map(|line| (*line).to_owned()).collect(),
    };
    assert_eq!(steps(page), [step(3, "a \\\n  b", &["one"]), step(6, "c", &[])]);
}

#[test]
fn only_placeholders_of_a_page_match_any_text() {
    let texts = |all: &[&str]| all.iter().map(|text| (*text).to_owned()).collect::<Vec<String>>();
    let check = |expected: &[&str], seen: &[&str]| fits(&texts(expected), &texts(seen));
    assert!(check(&["NAME  AGE", "web  …"], &["NAME   AGE", "web    4s"]));
    assert!(check(&["a … c … e"], &["a b c d e"]));
    assert!(check(&["a", "…", "z"], &["a", "b", "c", "z"]));
    assert!(check(&["…"], &[]));
    assert!(!check(&["web  True"], &["web  False"]));
    assert!(!check(&["a … c"], &["a b"]));
    assert!(!check(&["a"], &["a", "b"]));
    assert!(!check(&["a", "b"], &["a"]));
}
