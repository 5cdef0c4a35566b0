//! Masks times and ages in responses. A time near now becomes a placeholder that keeps its format; a time written by a script
//! stays.

use jiff::{Timestamp, ToSpan};

/// `<time>` for a moment within a day of now, in the precision it was written with; any other moment as it stands.
pub(super) fn stand_in_for_time(text: &str) -> String {
    let Ok(moment) = text.parse::<Timestamp>() else { return text.to_owned() };
    let now = Timestamp::now();
    let near = now.checked_sub(24.hours()).is_ok_and(|from| moment > from)
        && now.checked_add(24.hours()).is_ok_and(|to| moment < to);
    if !near {
        return text.to_owned();
    }
    let fraction = text.split_once('.').map_or(0, |(_, rest)| rest.chars().take_while(char::is_ascii_digit).count());
    match fraction {
        0 => "<time>".to_owned(),
        // Go drops trailing zeros of a free-form fraction, so only "some digits" can be compared.
        _ => "<time with fraction>".to_owned(),
    }
}

/// `<age>` if the whole cell is a duration of seconds, minutes or hours.
pub(super) fn stand_in_for_cell(text: &str) -> String {
    if is_age(text) { "<age>".to_owned() } else { text.to_owned() }
}

/// A line of a table with ages masked and runs of spaces evened out: widths follow from the longest age in the column.
pub(super) fn even_out(line: &str) -> String {
    let indent = line.len() - line.trim_start().len();
    let mut out = line[..indent].to_owned();
    let mut rest = line[indent..].trim_end();
    while !rest.is_empty() {
        let word_end = rest.find(' ').unwrap_or(rest.len());
        let (word, tail) = rest.split_at(word_end);
        out.push_str(&stand_in_for_cell(word));
        rest = tail.trim_start();
        out.push_str(match tail.len() - rest.len() {
            0 => "",
            1 => " ",
            _ => "  ",
        });
    }
    out
}

fn is_age(text: &str) -> bool {
    let mut digits = 0;
    let mut units = 0;
    for letter in text.chars() {
        match letter {
            '0'..='9' => digits += 1,
            's' | 'm' | 'h' if digits > 0 => {
                units += 1;
                digits = 0;
            }
            _ => return false,
        }
    }
    units > 0 && digits == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_times_near_now_are_masked_and_their_format_is_kept() {
        let now = Timestamp::now();
        assert_eq!(stand_in_for_time(&now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()), "<time>");
        assert_eq!(stand_in_for_time(&now.strftime("%Y-%m-%dT%H:%M:%S.123456Z").to_string()), "<time with fraction>");
        assert_eq!(stand_in_for_time("2001-02-03T04:05:06Z"), "2001-02-03T04:05:06Z");
    }

    #[test]
    fn an_age_is_a_whole_word() {
        assert_eq!(even_out("web   1/1     10s"), "web  1/1  <age>");
        assert_eq!(even_out("  keep-5s  2m3s tail"), "  keep-5s  <age> tail");
        assert_eq!(stand_in_for_cell("5"), "5");
        assert_eq!(stand_in_for_cell("s"), "s");
    }
}
