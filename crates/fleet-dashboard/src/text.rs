//! Texts, times and states on pages.

use std::borrow::Cow;

use fleet_api::safe_text;
use fleet_api::time::Time;
use fleet_core::overview::state_labels::{StateLabel, Tone};
use jiff::Timestamp;
use maud::{Markup, html};

/// A text of an object in one line, with hidden characters spelled out.
pub fn plain(text: &str) -> Cow<'_, str> {
    safe_text::line(text)
}

/// The same with its line breaks.
pub fn several_lines(text: &str) -> Cow<'_, str> {
    safe_text::lines(text)
}

/// The CSS class of a tone.
pub fn class(tone: Tone) -> &'static str {
    match tone {
        Tone::Plain => "plain",
        Tone::Good => "good",
        Tone::Waiting => "waiting",
        Tone::Busy => "busy",
        Tone::Bad => "bad",
        Tone::Faint => "faint",
        Tone::Strong => "strong",
    }
}

/// A state as a badge: sign, word and colour.
pub fn badge(label: StateLabel) -> Markup {
    html! { span.badge.(class(label.tone)) { span.sign aria-hidden="true" { (label.sign) } " " (label.text) } }
}

/// `42 s`, `3 min 5 s`, `2 h 10 min`, `4 d`. The script has the same rule.
pub fn duration(seconds: i64) -> String {
    let seconds = seconds.max(0);
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86400);
    let two = |big: i64, unit: &str, small: i64, other: &str| {
        if small == 0 { format!("{big} {unit}") } else { format!("{big} {unit} {small} {other}") }
    };
    match seconds {
        ..60 => format!("{seconds} s"),
        60..600 => two(minutes, "min", seconds % 60, "s"),
        600..3600 => format!("{minutes} min"),
        3600..86400 => two(hours, "h", minutes % 60, "min"),
        _ => format!("{days} d"),
    }
}

fn seconds_between(from: Timestamp, to: Timestamp) -> i64 {
    to.as_second().saturating_sub(from.as_second())
}

/// The age of something, such as `3 min`, with the exact time on hover. The script keeps it up to date.
pub fn age(then: Time, now: Timestamp) -> Markup {
    html! {
        time datetime=(then) title=(then) data-age="since" { (duration(seconds_between(then.instant(), now))) }
    }
}

/// The time until something, such as `40 s`.
pub fn left(until: Time, now: Timestamp) -> Markup {
    html! {
        time datetime=(until) title=(until) data-age="until" { (duration(seconds_between(now, until.instant()))) }
    }
}

/// `3 min ago`.
pub fn ago(then: Option<Time>, now: Timestamp) -> Markup {
    html! { @match then { Some(then) => { (age(then, now)) " ago" }, None => "at an unknown time" } }
}

/// ` for 3 min`, or nothing if it is not known since when.
pub fn for_time(since: Option<Time>, now: Timestamp) -> Markup {
    html! { @if let Some(since) = since { " for " (age(since, now)) } }
}

/// The time between two events, or since the first of them.
pub fn took(started: Option<Time>, ended: Option<Time>, now: Timestamp) -> Markup {
    html! {
        @match (started, ended) {
            (Some(started), Some(ended)) => {
                span title={ (started) " – " (ended) } { (duration(seconds_between(started.instant(), ended.instant()))) }
            },
            (Some(started), None) => { (age(started, now)) },
            _ => {},
        }
    }
}

/// `1 cluster`, `3 clusters`.
pub fn count(number: usize, one: &str) -> String {
    if number == 1 { format!("1 {one}") } else { format!("{number} {one}s") }
}

/// `version 3`.
pub fn version(index: Option<u32>) -> String {
    index.map_or_else(|| "no version".to_owned(), |index| format!("version {index}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_at_most_two_units() {
        let shown = [-5, 0, 59, 60, 65, 599, 600, 3599, 3600, 7800, 86399, 86400, 900_000].map(duration);
        assert_eq!(
            shown.join(", "),
            "0 s, 0 s, 59 s, 1 min, 1 min 5 s, 9 min 59 s, 10 min, 59 min, 1 h, 2 h 10 min, 23 h 59 min, 1 d, 10 d"
        );
    }

    #[test]
    fn the_exact_time_is_in_the_title() {
        let then: Time = "2026-01-01T00:00:00Z".parse::<Timestamp>().unwrap().into();
        let now = "2026-01-01T00:03:00Z".parse().unwrap();
        assert_eq!(
            ago(Some(then), now).into_string(),
            "<time datetime=\"2026-01-01T00:00:00Z\" title=\"2026-01-01T00:00:00Z\" data-age=\"since\">3 min</time> ago"
        );
    }
}
