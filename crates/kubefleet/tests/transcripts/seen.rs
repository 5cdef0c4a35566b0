//! Normalises output: ages, random suffixes, ports, times, and the states that a command saw while it was waiting.

use std::path::Path;
use std::sync::LazyLock;

use regex::Regex;

static REPLACED: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
    let table = [
        (r"\d{4}-\d\d-\d\dT[\d:.]+Z", "<instant>"),
        (r"127\.0\.0\.1:\d+", "127.0.0.1:<port>"),
        (r"\b(\d+d)?(\d+h)?(\d+m)?\d+s\b|\b\d+m\b", "<time>"),
        (r"-[0-9a-f]{8}\b", "-<random>"),
    ];
    table.map(|(pattern, placeholder)| (Regex::new(pattern).unwrap(), placeholder)).into()
});

/// What `install`, `join` and `leave` print while they wait: how much of it is seen depends on the machine.
static WAITING: LazyLock<Regex> = LazyLock::new(|| {
    let states = [
        r"\d+ of \d+ pods of the agent are available",
        r"the Deployment does not exist yet",
        r"[\w.-]+ is not served yet",
        r#"\w+ "[\w.-]+" is being deleted"#,
        r"the hub has not issued the token yet",
        r"the hub agent has not seen \S+ yet",
        r"the agent of \S+ has not reported to the hub yet",
        r"still waiting, \d+ s",
    ];
    Regex::new(&format!("^    ({})$", states.join("|"))).unwrap()
});

static BLANKS: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"(\S) {2,}").unwrap());

pub(crate) fn normalised(text: &str, directory: &Path) -> String {
    let mut text = text.replace(directory.to_str().unwrap(), "<directory>");
    for (pattern, placeholder) in REPLACED.iter() {
        text = pattern.replace_all(&text, *placeholder).into_owned();
    }
    // The widths of columns depend on ages.
    let said = text.lines().filter(|line| !WAITING.is_match(line));
    let lines: Vec<String> = said.map(|line| BLANKS.replace_all(line, "$1  ").trim_end().to_owned()).collect();
    lines.join("\n") + "\n"
}
