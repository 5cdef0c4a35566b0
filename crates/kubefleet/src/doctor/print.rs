//! Human-readable output: a line per cluster, then the problems with their fixes.

use std::fmt::Write as _;

use fleet_api::safe_text::line;
use fleet_core::diagnose::Severity;
use fleet_core::doctor::{AgentFacts, Finding, Report, ServerFacts};

use crate::cli::output::{Cell, Paint, Table, Tone};
use crate::diagnose::print_fix;

pub(super) fn report(report: &Report, paint: Paint) -> String {
    let mut table = Table::new(&["CLUSTER", "KUBERNETES", "AGENT", "PODS", "PROBLEMS"]);
    // The hub first.
    for (subject, facts) in report.servers.iter().filter(|(subject, _)| *subject == "hub") {
        row(&mut table, report, subject, facts);
    }
    for (subject, facts) in report.servers.iter().filter(|(subject, _)| *subject != "hub") {
        row(&mut table, report, subject, facts);
    }
    let mut out = table.render(paint);
    for finding in &report.findings {
        describe(&mut out, finding, paint);
    }
    if !report.unchecked.is_empty() {
        let _ = writeln!(out, "\n{}", paint.paint(Tone::Strong, "Not checked"));
    }
    for unchecked in &report.unchecked {
        let _ = writeln!(out, "  {}: {}", line(&unchecked.what), line(&unchecked.why));
    }
    if report.findings.is_empty() {
        let _ = writeln!(out, "\n{}", paint.paint(Tone::Good, "No problem found."));
    }
    out
}

fn row(table: &mut Table, report: &Report, subject: &str, facts: &ServerFacts) {
    let (version, pods) = match &facts.agent {
        None => ("?".to_owned(), "?".to_owned()),
        Some(AgentFacts::Missing) => ("none".to_owned(), String::new()),
        Some(AgentFacts::Installed { version, wanted, available, .. }) => {
            (version.clone(), format!("{available}/{wanted}"))
        }
    };
    let count = report.findings.iter().filter(|one| one.subject == subject).count();
    table.row([
        Cell::from(subject),
        Cell::from(facts.kubernetes.as_deref().unwrap_or("?")),
        Cell::from(version),
        Cell::from(pods),
        Cell::toned(if count == 0 { Tone::Good } else { Tone::Bad }, count.to_string()),
    ]);
}

fn describe(out: &mut String, finding: &Finding, paint: Paint) {
    let (word, tone) = match finding.severity {
        Severity::Error => ("error", Tone::Bad),
        Severity::Warning => ("warning", Tone::Waiting),
        Severity::Information => ("note", Tone::Busy),
    };
    let title = format!("{}: {}", finding.subject, finding.title);
    let _ = writeln!(out, "\n{} {}", paint.paint(tone, &format!("{word}:")), paint.paint(Tone::Strong, &title));
    let _ = writeln!(out, "  {}", line(&finding.explanation));
    print_fix(out, "fix", &finding.fix, paint);
}
