//! How the verbs speak: tables, JSON, YAML, colours, ages, questions.
//!
//! Decides form only. Colours are for terminals, and never where `NO_COLOR` is set. Tables are aligned by what is seen,
//! not by what is sent. Exit codes are `crate::output`'s.

use std::fmt::Write as _;
use std::io::{self, IsTerminal as _, Write as _};

use jiff::Timestamp;
use serde::Serialize;

use super::changes::Extent;
use crate::output::{Hinted, NothingDone, print};
pub(crate) use apiserver::table::duration::{age, human_duration};

/// What `-o` takes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    /// For people
    #[default]
    Table,
    /// For people with a wide screen: more columns, whole values
    Wide,
    Json,
    Yaml,
}

/// `-o`, for verbs that show something.
#[derive(Debug, Clone, Copy, Default, clap::Args)]
pub(crate) struct OutputFlags {
    /// In which form to print
    #[arg(short, long, value_enum, default_value_t = Format::Table, value_name = "FORMAT")]
    pub(crate) output: Format,
}

impl OutputFlags {
    pub(crate) fn is_wide(self) -> bool {
        self.output == Format::Wide
    }

    /// How much of long values is shown.
    pub(crate) fn extent(self) -> Extent {
        if self.is_wide() { Extent::Whole } else { Extent::Glance }
    }

    /// Prints a value for machines, or what `for_people` makes of it.
    pub(crate) fn show<T: Serialize>(
        self,
        value: &T,
        for_people: impl FnOnce(&T, Paint) -> String,
    ) -> anyhow::Result<()> {
        let text = match self.output {
            Format::Table | Format::Wide => for_people(value, Paint::for_stdout()),
            Format::Json => format!("{}\n", serde_json::to_string_pretty(value)?),
            Format::Yaml => fleet_api::yaml::to_string(&serde_json::to_value(value)?),
        };
        print(&text)
    }
}

/// What a piece of text means; colours follow from it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Tone {
    #[default]
    Plain,
    Good,
    /// Somebody or something is waited for.
    Waiting,
    /// Something is going on.
    Busy,
    Bad,
    /// Not important now.
    Faint,
    Strong,
}

impl Tone {
    fn code(self) -> &'static str {
        match self {
            Tone::Plain => "",
            Tone::Good => "32",
            Tone::Waiting => "33",
            Tone::Busy => "36",
            Tone::Bad => "31",
            Tone::Faint => "2",
            Tone::Strong => "1",
        }
    }
}

/// Whether there are colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Paint {
    pub(crate) coloured: bool,
}

impl Paint {
    #[cfg(test)]
    pub(crate) const PLAIN: Self = Self { coloured: false };

    /// Colours if standard output is a terminal that has them and nobody objects.
    pub(crate) fn for_stdout() -> Self {
        let objection = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let is_dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        Self { coloured: io::stdout().is_terminal() && !objection && !is_dumb }
    }

    pub(crate) fn paint(self, tone: Tone, text: &str) -> String {
        if !self.coloured || tone == Tone::Plain || text.is_empty() {
            return text.to_owned();
        }
        format!("\x1b[{}m{text}\x1b[0m", tone.code())
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
        Self { text: text.into(), tone }
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

/// Blanks between two columns.
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

/// How long ago something was, as kubectl tells it.
pub(crate) fn since(then: Option<Timestamp>, now: Timestamp) -> String {
    age(then, now)
}

/// Asks a question that is answered by yes or no. Without a terminal there is nobody to ask.
pub(crate) fn confirm(question: &str) -> anyhow::Result<bool> {
    if !io::stdin().is_terminal() {
        return Err(NothingDone(Hinted {
            what: "there is nobody to ask: standard input is no terminal".to_owned(),
            hint: "--yes answers in advance".to_owned(),
        })
        .into());
    }
    // The question goes where people look, not into a pipe.
    let mut err = io::stderr();
    write!(err, "{question} [y/N] ").and_then(|()| err.flush())?;
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
    fn colours_change_nothing_but_colours() {
        let coloured = table().render(Paint { coloured: true });
        assert!(coloured.contains("\x1b[32msucceeded\x1b[0m"), "{coloured:?}");
        let mut plain = coloured;
        for code in ["32", "31", "2", "0"] {
            plain = plain.replace(&format!("\x1b[{code}m"), "");
        }
        assert_eq!(plain, table().render(Paint::PLAIN));
    }
}
