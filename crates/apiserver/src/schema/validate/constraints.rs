//! The value constraints of one schema node: lengths, bounds, patterns, enums, sizes.

use serde_json::{Number, Value};

use super::{Schema, Walker};
use crate::field::FieldError;

impl Walker<'_> {
    fn invalid(&self, name: &str, value: &Value, says: &str) -> FieldError {
        let mut finding = FieldError::invalid(self.place(name), value, format!("{name} in body {says}"));
        if let Some(number) = value.as_f64().filter(|_| value.is_f64()) {
            finding.value = Some(go_number(number));
        }
        finding
    }
}

/// Of a text the first violated constraint counts.
pub(super) fn text(walker: &Walker<'_>, name: &str, schema: &Schema, text: &str) -> Option<FieldError> {
    let constraints = &schema.constraints;
    let value = Value::from(text);
    let needs_length = constraints.max_length.is_some() || constraints.min_length.is_some();
    let length = if needs_length { text.chars().count() as u64 } else { 0 };
    if let Some(maximum) = constraints.max_length.filter(|maximum| length > *maximum) {
        return Some(FieldError::too_long(walker.place(name), usize::try_from(maximum).unwrap_or(usize::MAX)));
    }
    if let Some(minimum) = constraints.min_length.filter(|minimum| length < *minimum) {
        return Some(walker.invalid(name, &value, &format!("should be at least {minimum} chars long")));
    }
    let pattern = constraints.pattern.as_ref()?;
    match schema.pattern_cache.matches(pattern, text) {
        Ok(true) => None,
        Ok(false) => Some(walker.invalid(name, &value, &format!("should match '{pattern}'"))),
        Err(error) => {
            Some(walker.invalid(name, &value, &format!("should match '{pattern}, but pattern is invalid: {error}'")))
        }
    }
}

pub(super) fn number(walker: &Walker<'_>, name: &str, schema: &Schema, number: &Number) -> Vec<FieldError> {
    let constraints = &schema.constraints;
    let value = Value::Number(number.clone());
    let given = number.as_f64().unwrap_or_default();
    // Bounds of a whole number are compared and shown as whole numbers.
    let whole = number.as_i64();
    let shown = |bound: f64| whole.map_or_else(|| go_number(bound), |_| truncated(bound).to_string());
    let mut findings = Vec::new();
    if let Some(factor) = constraints.multiple_of {
        if factor <= 0.0 {
            let detail = format!("factor MultipleOf declared for {name} must be positive: {}", go_number(factor));
            findings.push(FieldError::invalid(walker.place(name), &Value::from(factor), detail));
        } else if !is_multiple(whole, given, factor) {
            findings.push(walker.invalid(name, &value, &format!("should be a multiple of {}", shown(factor))));
        }
    }
    if let Some(minimum) = constraints.minimum {
        let exclusive = constraints.exclusive_minimum;
        let below = match whole {
            Some(whole) => whole < truncated(minimum) || exclusive && whole == truncated(minimum),
            None => given < minimum || exclusive && given <= minimum,
        };
        if below {
            let word = if exclusive { "greater than" } else { "greater than or equal to" };
            findings.push(walker.invalid(name, &value, &format!("should be {word} {}", shown(minimum))));
        }
    }
    if let Some(maximum) = constraints.maximum {
        let exclusive = constraints.exclusive_maximum;
        let above = match whole {
            Some(whole) => whole > truncated(maximum) || exclusive && whole == truncated(maximum),
            None => given > maximum || exclusive && given >= maximum,
        };
        if above {
            let word = if exclusive { "less than" } else { "less than or equal to" };
            findings.push(walker.invalid(name, &value, &format!("should be {word} {}", shown(maximum))));
        }
    }
    findings
}

#[allow(clippy::cast_possible_truncation)] // dropping the fraction is what the real server does with such a bound
fn truncated(bound: f64) -> i64 {
    bound as i64
}

fn is_multiple(whole: Option<i64>, given: f64, factor: f64) -> bool {
    match (whole, truncated(factor)) {
        (Some(whole), divisor) if divisor > 0 => whole % divisor == 0,
        _ => (if factor < 1.0 { 1.0 / factor * given } else { given / factor }).fract() == 0.0,
    }
}

/// A double as Go's `%v` prints it.
pub(crate) fn go_number(number: f64) -> String {
    let magnitude = number.abs();
    if magnitude != 0.0 && !(1e-4..1e21).contains(&magnitude) {
        let text = format!("{number:e}");
        let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let (sign, digits) = exponent.strip_prefix('-').map_or(('+', exponent), |digits| ('-', digits));
        return format!("{mantissa}e{sign}{digits:0>2}");
    }
    number.to_string()
}

pub(super) fn list(walker: &Walker<'_>, name: &str, schema: &Schema, items: &[Value]) -> Vec<FieldError> {
    let constraints = &schema.constraints;
    let size = items.len() as u64;
    let mut findings = Vec::new();
    if let Some(minimum) = constraints.min_items.filter(|minimum| size < *minimum) {
        findings.push(walker.invalid(name, &Value::from(size), &format!("should have at least {minimum} items")));
    }
    if let Some(maximum) = constraints.max_items.filter(|maximum| size > *maximum) {
        let maximum = usize::try_from(maximum).unwrap_or(usize::MAX);
        findings.push(FieldError::too_many(walker.place(name), items.len(), maximum));
    }
    if constraints.unique_items && has_duplicates(items) {
        findings.push(walker.invalid(name, &Value::from(""), "shouldn't contain duplicates"));
    }
    findings
}

fn has_duplicates(items: &[Value]) -> bool {
    let mut seen = std::collections::BTreeSet::new();
    !items.iter().all(|item| seen.insert(item.to_string()))
}

pub(super) fn properties(walker: &Walker<'_>, name: &str, schema: &Schema, count: usize) -> Vec<FieldError> {
    let constraints = &schema.constraints;
    let mut findings = Vec::new();
    if let Some(minimum) = constraints.min_properties.filter(|minimum| (count as u64) < *minimum) {
        findings.push(walker.invalid(name, &Value::from(count), &format!("should have at least {minimum} properties")));
    }
    if let Some(maximum) = constraints.max_properties.filter(|maximum| count as u64 > *maximum) {
        let maximum = usize::try_from(maximum).unwrap_or(usize::MAX);
        findings.push(FieldError::too_many(walker.place(name), count, maximum));
    }
    findings
}

/// A null is never among the allowed values, even where null is one of them: that is how the real server compares.
pub(super) fn allowed(walker: &Walker<'_>, name: &str, schema: &Schema, value: &Value) -> Option<FieldError> {
    let allowed = &schema.constraints.allowed;
    let same = |one: &Value| match (one, value) {
        (Value::Number(one), Value::Number(other)) => one.as_f64() == other.as_f64(),
        _ => one == value,
    };
    if allowed.is_empty() || (!value.is_null() && allowed.iter().any(same)) {
        return None;
    }
    let supported: Vec<String> =
        allowed.iter().map(|one| one.as_str().map_or_else(|| one.to_string(), str::to_owned)).collect();
    Some(FieldError::not_supported(walker.place(name), value, &supported))
}

#[test]
fn numbers_are_printed_as_go_prints_them() {
    let printed: Vec<String> = [3.0, 2.5, 1e21, 1e-7, -1.5e300].into_iter().map(go_number).collect();
    assert_eq!(printed, ["3", "2.5", "1e+21", "1e-07", "-1.5e+300"]);
}
