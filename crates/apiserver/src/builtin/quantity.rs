//! Kubernetes quantities: parsing, comparison and the canonical form (`1024Mi` becomes `1Gi`, `0.5` becomes `500m`).

use std::fmt;

/// Text of the error that kube-apiserver gives for anything that is not a quantity.
pub const MALFORMED: &str =
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";

const NANO: i128 = 1_000_000_000;
/// Largest whole part that is kept exactly; Kubernetes caps at the largest 64-bit integer.
const CAP: i128 = i64::MAX as i128 * NANO;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Decimal,
    Binary,
    Exponent,
}

/// A number with nano precision and the family of suffixes it was written in.
#[derive(Debug, Clone, Copy)]
pub struct Quantity {
    nano: i128,
    format: Format,
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nano == other.nano
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.nano.cmp(&other.nano)
    }
}

impl Quantity {
    pub fn parse(text: &str) -> Option<Self> {
        let (sign, unsigned) = match text.strip_prefix('-') {
            Some(rest) => (-1, rest),
            None => (1, text.strip_prefix('+').unwrap_or(text)),
        };
        let end = unsigned.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(unsigned.len());
        let (number, suffix) = unsigned.split_at(end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
            return None;
        }
        let (scale, format) = scale_of(suffix)?;
        let nano = scaled(whole, fraction, &scale)?;
        Some(Quantity { nano: (sign * nano).clamp(-CAP, CAP), format })
    }

    pub fn is_zero(self) -> bool {
        self.nano == 0
    }

    pub fn is_negative(self) -> bool {
        self.nano < 0
    }

    /// Whether it is a multiple of 1, so that it can count things.
    pub fn is_integer(self) -> bool {
        self.nano % NANO == 0
    }

    /// Thousandths, rounded up: the finest unit that resource lists keep.
    #[must_use]
    pub fn rounded_up_to_milli(self) -> Self {
        const STEP: i128 = NANO / 1000;
        let rest = self.nano.rem_euclid(STEP);
        let nano = if rest == 0 { self.nano } else { self.nano - rest + STEP };
        Quantity { nano, ..self }
    }

    /// The sum, in the notation of the first.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Quantity { nano: (self.nano + other.nano).clamp(-CAP, CAP), ..self }
    }

    /// The whole number above or at the value.
    pub fn ceiling(self) -> i128 {
        self.nano.div_euclid(NANO) + i128::from(self.nano.rem_euclid(NANO) != 0)
    }

    /// Thousandths, rounded up.
    pub fn milli(self) -> i128 {
        self.rounded_up_to_milli().nano / (NANO / 1000)
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.nano == 0 {
            return f.write_str("0");
        }
        if self.format == Format::Binary && self.is_integer() && self.nano.abs() >= 1024 * NANO {
            let (number, power) = strip(self.nano / NANO, 1024, 6);
            let suffix = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"][power];
            return write!(f, "{number}{suffix}");
        }
        let (number, power) = strip(self.nano, 1000, 9);
        if self.format == Format::Exponent {
            let exponent = i32::try_from(power).unwrap_or(0) * 3 - 9;
            return if exponent == 0 { write!(f, "{number}") } else { write!(f, "{number}e{exponent}") };
        }
        write!(f, "{number}{}", ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"][power])
    }
}

/// Divides by `base` as often as it goes, at most `limit` times.
fn strip(mut number: i128, base: i128, limit: usize) -> (i128, usize) {
    let mut power = 0;
    while power < limit && number % base == 0 {
        number /= base;
        power += 1;
    }
    (number, power)
}

enum Scale {
    /// Power of ten.
    Ten(i32),
    /// Power of 1024.
    Kibi(u32),
}

fn scale_of(suffix: &str) -> Option<(Scale, Format)> {
    let decimal = |power| Some((Scale::Ten(power), Format::Decimal));
    let binary = |power| Some((Scale::Kibi(power), Format::Binary));
    match suffix {
        "n" => decimal(-9),
        "u" => decimal(-6),
        "m" => decimal(-3),
        "" => decimal(0),
        "k" => decimal(3),
        "M" => decimal(6),
        "G" => decimal(9),
        "T" => decimal(12),
        "P" => decimal(15),
        "E" => decimal(18),
        "Ki" => binary(1),
        "Mi" => binary(2),
        "Gi" => binary(3),
        "Ti" => binary(4),
        "Pi" => binary(5),
        "Ei" => binary(6),
        _ => {
            let exponent: i32 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
            Some((Scale::Ten(exponent), Format::Exponent))
        }
    }
}

/// More digits than this exceed the cap or vanish below nano either way.
const DIGITS: usize = 28;

/// `whole.fraction` times the scale, in nano, rounded away from zero below that and capped above.
fn scaled(whole: &str, fraction: &str, scale: &Scale) -> Option<i128> {
    let digits = format!("{whole}{fraction}");
    let digits = digits.trim_start_matches('0');
    if digits.len() > DIGITS {
        return Some(CAP);
    }
    let mantissa: i128 = if digits.is_empty() { 0 } else { digits.parse().ok()? };
    let fraction_digits = i32::try_from(fraction.len()).ok()?;
    let (mantissa, ten) = match scale {
        Scale::Ten(power) => (mantissa, power.checked_add(9)?.checked_sub(fraction_digits)?),
        Scale::Kibi(power) => {
            (mantissa.checked_mul(1024_i128.pow(*power)).unwrap_or(i128::MAX / NANO), 9 - fraction_digits)
        }
    };
    let factor = 10_i128.checked_pow(ten.unsigned_abs());
    Some(match (ten >= 0, factor) {
        (true, Some(factor)) => mantissa.checked_mul(factor).unwrap_or(CAP),
        (true, None) => {
            if mantissa == 0 {
                0
            } else {
                CAP
            }
        }
        (false, Some(factor)) => mantissa / factor + i128::from(mantissa % factor != 0),
        (false, None) => i128::from(mantissa != 0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, canonical: &str) {
        assert_eq!(Quantity::parse(text).map(|q| q.to_string()).as_deref(), Some(canonical), "{text}");
    }

    #[test]
    fn canonical_forms() {
        for (text, canonical) in [
            ("1", "1"),
            ("0.5", "500m"),
            ("1.5", "1500m"),
            ("1000m", "1"),
            ("1000", "1k"),
            ("1500", "1500"),
            ("1024Mi", "1Gi"),
            ("1500Mi", "1500Mi"),
            ("0.5Gi", "512Mi"),
            ("512Ki", "512Ki"),
            ("0.5Ki", "512"),
            ("1e3", "1e3"),
            ("12e6", "12e6"),
            ("1E", "1E"),
            ("0", "0"),
            ("0Mi", "0"),
            ("-1", "-1"),
            ("+2", "2"),
            (".5", "500m"),
            ("100000000n", "100m"),
            ("1e-1", "100e-3"),
        ] {
            check(text, canonical);
        }
    }

    #[test]
    fn nonsense_is_refused() {
        for text in ["", "abc", "1.2.3", "1Kib", "1 Gi", "--1", "1e", "Gi"] {
            assert!(Quantity::parse(text).is_none(), "{text}");
        }
    }

    #[test]
    fn comparison_ignores_the_way_it_is_written() {
        assert_eq!(Quantity::parse("1Gi"), Quantity::parse("1073741824"));
        assert!(Quantity::parse("500m") < Quantity::parse("1"));
        assert!(!Quantity::parse("500m").unwrap().is_integer());
        assert_eq!(Quantity::parse("0.1m").unwrap().rounded_up_to_milli().to_string(), "1m");
        assert_eq!(Quantity::parse("1.2").unwrap().ceiling(), 2);
        assert_eq!(Quantity::parse("250m").unwrap().milli(), 250);
    }

    #[test]
    fn huge_numbers_are_capped_not_wrapped() {
        assert_eq!(Quantity::parse("99999999999999999999999999999999E"), Quantity::parse("1e99"));
        assert!(Quantity::parse("1e2000000000").is_some());
        assert!(Quantity::parse("1e-2000000000").is_some());
    }
}
