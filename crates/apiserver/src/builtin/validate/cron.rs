//! Whether a text is a valid cron schedule, with the grammar of the library that Kubernetes uses.

const MONTHS: [&str; 12] = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const DAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

struct Bounds {
    low: u32,
    high: u32,
    names: &'static [&'static str],
}

const FIELDS: [Bounds; 5] = [
    Bounds { low: 0, high: 59, names: &[] },
    Bounds { low: 0, high: 23, names: &[] },
    Bounds { low: 1, high: 31, names: &[] },
    Bounds { low: 1, high: 12, names: &MONTHS },
    Bounds { low: 0, high: 6, names: &DAYS },
];

const WORDS: [&str; 7] = ["@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"];

/// The problem with a schedule, in the words of the library.
pub(super) fn check(schedule: &str) -> Result<(), String> {
    let plain = match schedule.strip_prefix("TZ=").or_else(|| schedule.strip_prefix("CRON_TZ=")) {
        Some(rest) => rest.split_once(' ').map_or("", |(_, rest)| rest).trim(),
        None => schedule,
    };
    if plain.is_empty() {
        return Err("empty spec string".to_owned());
    }
    if plain.starts_with('@') {
        return descriptor(plain);
    }
    let parts: Vec<&str> = plain.split_whitespace().collect();
    if parts.len() != FIELDS.len() {
        return Err(format!("expected exactly 5 fields, found {}: [{}]", parts.len(), parts.join(" ")));
    }
    parts.iter().zip(&FIELDS).try_for_each(|(part, bounds)| field(part, bounds))
}

fn descriptor(text: &str) -> Result<(), String> {
    if WORDS.contains(&text) {
        return Ok(());
    }
    let Some(duration) = text.strip_prefix("@every ") else { return Err(format!("unrecognized descriptor: {text}")) };
    let units = ["ns", "us", "µs", "ms", "s", "m", "h"];
    let mut rest = duration;
    let mut well_formed = !rest.is_empty();
    while well_formed && !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let unit = units.iter().filter(|unit| rest[digits..].starts_with(**unit)).max_by_key(|unit| unit.len());
        well_formed = digits > 0 && unit.is_some();
        rest = &rest[digits + unit.map_or(0, |unit| unit.len())..];
    }
    if well_formed {
        Ok(())
    } else {
        Err(format!("failed to parse duration {text}: time: invalid duration {duration:?}"))
    }
}

fn field(text: &str, bounds: &Bounds) -> Result<(), String> {
    text.split(',').filter(|part| !part.is_empty()).try_for_each(|part| range(part, bounds))
}

fn range(text: &str, bounds: &Bounds) -> Result<(), String> {
    let steps: Vec<&str> = text.split('/').collect();
    let ends: Vec<&str> = steps[0].split('-').collect();
    let (start, mut end) = if matches!(ends[0], "*" | "?") {
        (bounds.low, bounds.high)
    } else {
        let start = number(ends[0], bounds.names, bounds.low)?;
        match ends.as_slice() {
            [_] => (start, start),
            [_, last] => (start, number(last, bounds.names, bounds.low)?),
            _ => return Err(format!("too many hyphens: {text}")),
        }
    };
    let step = match steps.as_slice() {
        [_] => 1,
        [_, step] => {
            if ends.len() == 1 {
                end = bounds.high;
            }
            number(step, &[], 0)?
        }
        _ => return Err(format!("too many slashes: {text}")),
    };
    if start < bounds.low {
        return Err(format!("beginning of range ({start}) below minimum ({}): {text}", bounds.low));
    }
    if end > bounds.high {
        return Err(format!("end of range ({end}) above maximum ({}): {text}", bounds.high));
    }
    if start > end {
        return Err(format!("beginning of range ({start}) beyond end of range ({end}): {text}"));
    }
    if step == 0 {
        return Err(format!("step of range should be a positive number: {text}"));
    }
    Ok(())
}

fn number(text: &str, names: &[&str], first: u32) -> Result<u32, String> {
    let lower = text.to_lowercase();
    if let Some(position) = names.iter().position(|name| *name == lower) {
        return Ok(first + u32::try_from(position).unwrap_or_default());
    }
    match text.parse::<i64>() {
        Ok(number) if number < 0 => Err(format!("negative number ({number}) not allowed: {text}")),
        Ok(number) => Ok(u32::try_from(number).unwrap_or(u32::MAX)),
        Err(_) => Err(format!("failed to parse int from {text}: strconv.Atoi: parsing {text:?}: invalid syntax")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn valid_schedules() {
        for schedule in
            ["* * * * *", "*/5 0-6 1,15 jan-mar mon-fri", "@daily", "@every 1h30m", "0 0 ? * 0", "5/15 * * * *"]
        {
            assert_eq!(check(schedule), Ok(()), "{schedule}");
        }
    }

    #[test]
    fn invalid_schedules() {
        for (schedule, problem) in [
            ("* * * *", "expected exactly 5 fields, found 4: [* * * *]"),
            ("60 * * * *", "end of range (60) above maximum (59): 60"),
            ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
            ("5-1 * * * *", "beginning of range (5) beyond end of range (1): 5-1"),
            ("x * * * *", "failed to parse int from x: strconv.Atoi: parsing \"x\": invalid syntax"),
            ("*/0 * * * *", "step of range should be a positive number: */0"),
            ("1-2-3 * * * *", "too many hyphens: 1-2-3"),
            ("1/2/3 * * * *", "too many slashes: 1/2/3"),
            ("@often", "unrecognized descriptor: @often"),
            ("@every x", "failed to parse duration @every x: time: invalid duration \"x\""),
        ] {
            assert_eq!(check(schedule), Err(problem.to_owned()));
        }
    }
}
