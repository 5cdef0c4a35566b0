//! Figures as Markdown: one column per server, one row per figure, and the ratios to the real server.

use std::fmt::Write as _;
use std::time::Duration;

use super::measure::{Figures, Rates};

/// One server's figures.
pub(super) struct Column {
    pub(super) name: &'static str,
    pub(super) figures: Figures,
}

type Show = fn(&Figures) -> String;

const ROWS: &[(&str, Show)] = &[
    ("creates/s, 1 client", |f| per_second(f.creates.one)),
    ("creates/s, 32 clients", |f| per_second(f.creates.many)),
    ("updates/s, 1 client", |f| per_second(f.updates.one)),
    ("updates/s, 32 clients", |f| per_second(f.updates.many)),
    ("merge patches/s, 1 client", |f| per_second(f.patches.one)),
    ("merge patches/s, 32 clients", |f| per_second(f.patches.many)),
    ("status patches/s, 1 client", |f| per_second(f.status_patches.one)),
    ("status patches/s, 32 clients", |f| per_second(f.status_patches.many)),
    ("list of 10,000 objects", |f| milliseconds(f.list)),
    ("one write to 1,000 watchers", |f| milliseconds(f.fan_out)),
    ("server's CPU per create", |f| microseconds(f.creates.processor)),
    ("server's CPU per update", |f| microseconds(f.updates.processor)),
    ("server's CPU per merge patch", |f| microseconds(f.patches.processor)),
    ("server's CPU per status patch", |f| microseconds(f.status_patches.processor)),
    ("memory, idle", |f| megabytes(f.idle)),
    ("memory, 10,000 objects of 2 KB", |f| megabytes(f.filled)),
    ("memory per 10,000 objects of 2 KB", |f| {
        megabytes(f.filled.zip(f.idle).map(|(filled, idle)| filled.saturating_sub(idle)))
    }),
];

/// The machine.
pub(super) fn machine() -> String {
    let cores = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split(' ').next().unwrap_or("unknown").to_owned();
    format!("{cores} cores, shared by clients and server; load at the end {load}\n")
}

pub(super) fn table(columns: &[Column]) -> String {
    let mut out = String::from("| |");
    for column in columns {
        let _ = write!(out, " {} |", column.name);
    }
    out.push_str("\n|---|");
    out.push_str(&"---:|".repeat(columns.len()));
    for (name, show) in ROWS {
        let _ = write!(out, "\n| {name} |");
        for column in columns {
            let _ = write!(out, " {} |", show(&column.figures));
        }
    }
    out
}

/// How many times better the first figures are than the second; the function converts bytes.
type Better = fn(&Figures, &Figures, &dyn Fn(Option<u64>) -> f64) -> f64;

/// How many times better the embedded server is, one column per pair of names (ours, real); empty unless all were
/// measured.
pub(super) fn ratios(columns: &[Column], pairs: &[(&str, &str)]) -> String {
    let figures = |name: &str| columns.iter().find(|column| column.name == name).map(|column| &column.figures);
    let found: Option<Vec<(&Figures, &Figures)>> =
        pairs.iter().map(|(ours, real)| figures(ours).zip(figures(real))).collect();
    let Some(found) = found else { return String::new() };
    let size = |bytes: Option<u64>| bytes.map_or(f64::NAN, |bytes| Duration::from_millis(bytes / 1024).as_secs_f64());
    let rows: &[(&str, Better)] = &[
        ("creates/s, 1 client", |ours, real, _| ours.creates.one / real.creates.one),
        ("creates/s, 32 clients", |ours, real, _| ours.creates.many / real.creates.many),
        ("updates/s, 1 client", |ours, real, _| ours.updates.one / real.updates.one),
        ("updates/s, 32 clients", |ours, real, _| ours.updates.many / real.updates.many),
        ("merge patches/s, 1 client", |ours, real, _| ours.patches.one / real.patches.one),
        ("merge patches/s, 32 clients", |ours, real, _| ours.patches.many / real.patches.many),
        ("status patches/s, 1 client", |ours, real, _| ours.status_patches.one / real.status_patches.one),
        ("status patches/s, 32 clients", |ours, real, _| ours.status_patches.many / real.status_patches.many),
        ("list of 10,000 objects", |ours, real, _| real.list.as_secs_f64() / ours.list.as_secs_f64()),
        ("one write to 1,000 watchers", |ours, real, _| real.fan_out.as_secs_f64() / ours.fan_out.as_secs_f64()),
        ("server's CPU per create", |ours, real, _| less(ours.creates, real.creates)),
        ("server's CPU per update", |ours, real, _| less(ours.updates, real.updates)),
        ("server's CPU per merge patch", |ours, real, _| less(ours.patches, real.patches)),
        ("server's CPU per status patch", |ours, real, _| less(ours.status_patches, real.status_patches)),
        ("memory, idle", |ours, real, size| size(real.idle) / size(ours.idle)),
        ("memory, 10,000 objects of 2 KB", |ours, real, size| size(real.filled) / size(ours.filled)),
    ];
    let mut out = "\n| times better |".to_owned();
    for (ours, real) in pairs {
        let _ = write!(out, " {ours} than {real} |");
    }
    out.push_str("\n|---|");
    out.push_str(&"---:|".repeat(pairs.len()));
    for (name, better) in rows {
        let _ = write!(out, "\n| {name} |");
        for (ours, real) in &found {
            let _ = write!(out, " {:.1} |", better(ours, real, &size));
        }
    }
    out
}

/// How many times less processor time our server takes.
fn less(ours: Rates, real: Rates) -> f64 {
    real.processor.zip(ours.processor).map_or(f64::NAN, |(real, ours)| real.as_secs_f64() / ours.as_secs_f64())
}

fn microseconds(time: Option<Duration>) -> String {
    time.map_or_else(|| "–".to_owned(), |time| format!("{} µs", time.as_micros()))
}

fn per_second(rate: f64) -> String {
    format!("{rate:.0}")
}

fn milliseconds(time: Duration) -> String {
    format!("{:.1} ms", time.as_secs_f64() * 1000.0)
}

fn megabytes(bytes: Option<u64>) -> String {
    bytes.map_or_else(|| "–".to_owned(), |bytes| format!("{} MB", bytes / 1_000_000))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(name: &'static str, rate: f64, bytes: u64) -> Column {
        let processor = Duration::try_from_secs_f64(1.0 / rate).ok();
        let rates = Rates { one: rate, many: rate * 2.0, processor };
        let time = Duration::from_millis(10);
        let (idle, filled) = (Some(bytes), Some(bytes * 2));
        Column {
            name,
            figures: Figures {
                creates: rates,
                updates: rates,
                patches: rates,
                status_patches: rates,
                list: time,
                fan_out: time,
                idle,
                filled,
            },
        }
    }

    #[test]
    fn a_table_has_a_column_per_server_and_ratios() {
        let columns = [column("a", 1000.0, 10 << 20), column("b", 500.0, 20 << 20), column("real", 100.0, 100 << 20)];
        let table = table(&columns);
        assert!(
            table.starts_with("| | a | b | real |\n|---|---:|---:|---:|\n| creates/s, 1 client | 1000 | 500 | 100 |")
        );
        assert!(table.ends_with("| memory per 10,000 objects of 2 KB | 10 MB | 20 MB | 104 MB |"), "{table}");
        let ratios = ratios(&columns, &[("a", "real"), ("b", "real")]);
        assert!(ratios.contains("| creates/s, 32 clients | 10.0 | 5.0 |"), "{ratios}");
        assert!(ratios.contains("| server's CPU per update | 10.0 | 5.0 |"), "{ratios}");
        assert!(ratios.contains("| memory, idle | 10.0 | 5.0 |"), "{ratios}");
        assert_eq!(self::ratios(&columns[..2], &[("a", "real")]), "");
    }
}
