//! Output of the commands: tables, JSON, YAML, colours, ages, confirmations. Colours appear only on terminals, and not if
//! `NO_COLOR` is set. Exit codes are in `crate::output`.

use std::fmt::Write as _;
use std::io::{self, IsTerminal as _, Write as _};

use fleet_api::safe_text;
use jiff::Timestamp;
use serde::Serialize;

use super::changes::Extent;
use crate::output::{Hinted, NothingChanged, for_terminal, print, print_data, sequence};
pub(crate) use apiserver::{age, human_duration};
pub(crate) use fleet_core::overview::state_labels::Tone;

/// The values of `-o`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    /// For people
    #[default]
    Table,
    /// Like table, with more columns and full values
    Wide,
    Json,
    Yaml,
}

/// The flag `-o`.
#[derive(Debug, Clone, Copy, Default, clap::Args)]
pub(crate) struct OutputFlags {
    /// Output format
    #[arg(short, long, value_enum, default_value_t = Format::Table, value_name = "FORMAT")]
    pub(crate) output: Format,
}

impl OutputFlags {
    pub(crate) fn is_wide(self) -> bool {
        self.output == Format::Wide
    }

    /// Whether long values are truncated.
    pub(crate) fn extent(self) -> Extent {
        if self.is_wide() { Extent::Whole } else { Extent::Glance }
    }

    /// Prints a value as JSON or YAML, or as the text of `shown`.
    pub(crate) fn show<T: Serialize>(self, value: &T, shown: impl FnOnce(&T, Paint) -> String) -> anyhow::Result<()> {
        match self.output {
            Format::Table | Format::Wide => print(&shown(value, Paint::for_stdout())),
            Format::Json => print_data(&format!("{}\n", safe_text::json(&serde_json::to_string_pretty(value)?))),
            Format::Yaml => print_data(&fleet_api::yaml::to_string(&serde_json::to_value(value)?)),
        }
    }
}

/// The colour of a tone as a parameter of a control sequence.
fn colour(tone: Tone) -> &'static str {
    match tone {
        Tone::Plain => "",
        Tone::Good => "32",
        Tone::Waiting => "33",
        Tone::Busy => "36",
        Tone::Bad => "31",
        Tone::Faint => "2",
        Tone::Strong => "1",
    }
}

/// Whether output is coloured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Paint {
    pub(crate) coloured: bool,
}

impl Paint {
    #[cfg(test)]
    pub(crate) const PLAIN: Self = Self { coloured: false };

    /// Coloured if standard output is a terminal with colours and `NO_COLOR` is not set.
    pub(crate) fn for_stdout() -> Self {
        let objection = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let is_dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        Self { coloured: io::stdout().is_terminal() && !objection && !is_dumb }
    }

    /// A text in the colour of its tone.
    pub(crate) fn paint(self, tone: Tone, text: &str) -> String {
        let text = safe_text::line(text);
        if !self.coloured || tone == Tone::Plain || text.is_empty() {
            return text.into_owned();
        }
        format!("{}{text}{}", sequence(&format!("[{}m", colour(tone))), sequence("[0m"))
    }
}

/// One cell of a table.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Cell {
    text: String,
    tone: Tone,
}

impl Cell {
    pub(crate) fn toned(tone: Tone, text: impl Into<String>) -> Self {
        Self { text: safe_text::line(&text.into()).into_owned(), tone }
    }
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self::toned(Tone::Plain, text)
    }
}

/// Rows under headings, as kubectl prints them.
#[derive(Debug, Default)]
pub(crate) struct Table {
    headings: Vec<&'static str>,
    rows: Vec<Vec<Cell>>,
}

/// Spaces between two columns.
const GAP: usize = 3;

impl Table {
    pub(crate) fn new(headings: &[&'static str]) -> Self {
        Self { headings: headings.to_vec(), rows: Vec::new() }
    }

    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        self.rows.push(cells.into_iter().collect());
    }

    pub(crate) fn render(&self, paint: Paint) -> String {
        let headings: Vec<Cell> = self.headings.iter().map(|one| Cell::toned(Tone::Faint, *one)).collect();
        let lines: Vec<&Vec<Cell>> = std::iter::once(&headings).chain(&self.rows).collect();
        let width = |column: usize| {
            lines.iter().filter_map(|cells| cells.get(column)).map(|cell| cell.text.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.headings.len()).map(width).collect();
        let mut out = String::new();
        for cells in lines {
            let mut line = String::new();
            for (cell, width) in cells.iter().zip(&widths) {
                let blanks = width + GAP - cell.text.chars().count();
                let _ = write!(line, "{}{:blanks$}", paint.paint(cell.tone, &cell.text), "");
            }
            let _ = writeln!(out, "{}", line.trim_end());
        }
        out
    }
}

/// An age in the format of kubectl.
pub(crate) fn since(then: Option<Timestamp>, now: Timestamp) -> String {
    age(then, now)
}

/// Prompts for yes or no. Fails without a terminal.
pub(crate) fn confirm(question: &str) -> anyhow::Result<bool> {
    if !io::stdin().is_terminal() {
        return Err(NothingChanged(Hinted {
            what: "cannot prompt: standard input is not a terminal".to_owned(),
            hint: "use --yes to skip the confirmation".to_owned(),
        })
        .into());
    }
    // Standard output may be a pipe.
    let mut err = io::stderr();
    write!(err, "{} [y/N] ", for_terminal(question)).and_then(|()| err.flush())?;
    let mut answer = String::new();
    io::stdin().read_line(&mut answer)?;
    Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    fn table() -> Table {
        let mut table = Table::new(&["NAME", "STATE", "AGE"]);
        table.row([Cell::from("web"), Cell::toned(Tone::Good, "succeeded"), Cell::from("4s")]);
        table.row([Cell::from("a-much-longer-name"), Cell::toned(Tone::Bad, "failed"), Cell::default()]);
        table
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        expect![[r"
            NAME                 STATE       AGE
            web                  succeeded   4s
            a-much-longer-name   failed
        "]]
        .assert_eq(&table().render(Paint::PLAIN));
    }

    #[test]
    fn colours_do_not_change_the_text() {
        let coloured = for_terminal(&table().render(Paint { coloured: true }));
        assert!(coloured.contains("\x1b[32msucceeded\x1b[0m"), "{coloured:?}");
        let mut plain = coloured;
        for code in ["32", "31", "2", "0"] {
            plain = plain.replace(&format!("\x1b[{code}m"), "");
        }
        assert_eq!(plain, table().render(Paint::PLAIN));
    }
}
