//! Human-readable output: the cause, then evidence, then the commands of the fix.
//!
//! Text from objects is printed in one line each, so that it cannot imitate lines of the output.

use std::fmt::Write as _;

use fleet_api::safe_text::line;
use fleet_core::diagnose::{Diagnosis, Finding, Fix, Severity, troubleshooting};

use super::subjects::Answer;
use crate::cli::output::{Paint, Tone};

pub(super) fn answer(answer: &Answer, paint: Paint) -> String {
    let mut out = String::new();
    for (index, one) in answer.diagnoses.iter().enumerate() {
        if index > 0 {
            out.push('\n');
        }
        diagnosis(&mut out, one, paint);
    }
    if answer.whole_fleet && answer.diagnoses.iter().all(|one| one.severity().is_none()) {
        let Answer { placements, clusters, .. } = answer;
        let _ = writeln!(
            out,
            "{}",
            paint.paint(
                Tone::Good,
                &format!("No problem found: {placements} placements and {clusters} clusters were checked.")
            )
        );
    }
    out
}

fn diagnosis(out: &mut String, one: &Diagnosis, paint: Paint) {
    let _ = writeln!(out, "{}", paint.paint(Tone::Strong, &line(&one.subject.to_string())));
    let _ = writeln!(out, "{}", line(&one.summary));
    match &one.cause {
        Some(cause) => finding(out, cause, paint),
        None if one.notices.is_empty() => {
            let _ = writeln!(out, "{}", paint.paint(Tone::Good, "No problem found."));
        }
        None => {}
    }
    if one.cause.is_some() && !one.notices.is_empty() {
        let _ = writeln!(out, "\n{}", paint.paint(Tone::Strong, "Also noticed"));
    }
    for notice in &one.notices {
        finding(out, notice, paint);
    }
    if !one.unread.is_empty() {
        let _ = writeln!(out, "\n{}", paint.paint(Tone::Strong, "Could not be read"));
    }
    for unread in &one.unread {
        let _ = writeln!(out, "  {}: {}", line(&unread.what), line(&unread.why));
    }
}

fn finding(out: &mut String, finding: &Finding, paint: Paint) {
    let (word, tone) = match finding.severity {
        Severity::Error => ("error", Tone::Bad),
        Severity::Warning => ("warning", Tone::Waiting),
        Severity::Information => ("note", Tone::Busy),
    };
    let entries = match finding.because_of {
        Some(root) if root != finding.entry => format!("{} {root}", finding.entry),
        _ => finding.entry.to_owned(),
    };
    let _ = writeln!(
        out,
        "\n{} {} {}",
        paint.paint(tone, &format!("{word}:")),
        paint.paint(Tone::Strong, &line(&finding.title)),
        paint.paint(Tone::Faint, &format!("[{entries}]"))
    );
    if !finding.explanation.is_empty() {
        let _ = writeln!(out, "  {}", line(&finding.explanation));
    }
    for evidence in &finding.evidence {
        let object = paint.paint(Tone::Faint, &line(&evidence.object.to_string()));
        let _ = writeln!(out, "  - {object} {}: {}", line(&evidence.field), line(&evidence.value));
    }
    let _ = writeln!(out, "  {}", paint.paint(Tone::Faint, &format!("see {}", links(finding))));
    for (index, one) in finding.fixes.iter().enumerate() {
        fix(out, if index == 0 { "fix" } else { "or" }, one, paint);
    }
}

/// The entries of the troubleshooting page: that of the finding, and that of its root cause.
fn links(finding: &Finding) -> String {
    match finding.because_of {
        Some(root) if root != finding.entry => {
            format!("{} and {}", troubleshooting::link(finding.entry), troubleshooting::link(root))
        }
        _ => troubleshooting::link(finding.entry),
    }
}

pub(crate) fn fix(out: &mut String, word: &str, fix: &Fix, paint: Paint) {
    let _ = writeln!(out, "  {} {}", paint.paint(Tone::Good, &format!("{word}:")), line(&fix.what));
    for step in &fix.steps {
        if step.what != fix.what {
            let _ = writeln!(out, "    {}", paint.paint(Tone::Faint, &format!("# {}", step.what)));
        }
        if !step.command.is_empty() {
            // A here-document must not be indented.
            let indented = if step.command.contains('\n') { "" } else { "    " };
            let _ = writeln!(out, "{indented}{}", step.command);
        }
        if !step.fill_in.is_empty() {
            let _ = writeln!(
                out,
                "    {}",
                paint.paint(Tone::Faint, &format!("# replace {} first", step.fill_in.join(", ")))
            );
        }
    }
}

/// A finding without an object.
pub(super) fn single(one: &Finding, paint: Paint) -> String {
    let mut out = String::new();
    finding(&mut out, one, paint);
    out.trim_start().to_owned()
}
