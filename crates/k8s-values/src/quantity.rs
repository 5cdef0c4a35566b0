//! Kubernetes quantities: `1500m`, `2Gi`, `12e6`.
//!
//! Amounts are exact multiples of 10⁻⁹, the finest step of Kubernetes; finer texts are rounded away from zero.
//! Quantities with the same amount are equal, however they are written. Never computes with floating point.

use std::cmp::Ordering;
use std::fmt;
use std::ops::{Add, Neg, Sub};
use std::str::FromStr;

use num_bigint::{BigInt, BigUint, Sign};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Decimal digits after the point that are kept.
const KEPT_DIGITS: u32 = 9;
/// Largest power of ten in a text, and maximum length of a text in bytes. Kubernetes has no such limit, and can be
/// made to compute numbers of gigabytes.
const EXPONENT_MAX: i64 = 1000;
/// Largest amount, as a power of ten: a text with a larger amount is refused, and sums saturate. Every smaller amount
/// is printed in a form that can be parsed.
const AMOUNT_MAX_POWER: u32 = 1000;
const TEXT_MAX_BYTES: usize = 4096;
const EXPONENT_FLOOR: i64 = -100_000;
/// Digits that always fit a signed 64-bit number; up to this length Kubernetes keeps the text as written.
const SHORT_DIGITS: usize = 18;

const DECIMAL_SUFFIXES: [(i32, &str); 10] =
    [(-9, "n"), (-6, "u"), (-3, "m"), (0, ""), (3, "k"), (6, "M"), (9, "G"), (12, "T"), (15, "P"), (18, "E")];
/// The power of ten of the suffix `E`.
const LARGEST_SUFFIX: i32 = 18;
/// Each step is a factor of 1024.
const BINARY_SUFFIXES: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

/// Why a text is not a quantity, with Kubernetes' texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    #[error("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")]
    Form,
    #[error("unable to parse numeric part of quantity")]
    Number,
    #[error("unable to parse quantity's suffix")]
    Suffix,
}

/// Which family of suffixes a quantity is written with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// `12e6`
    DecimalExponent,
    /// `12Mi`
    BinarySi,
    /// `12M`
    DecimalSi,
}

/// An exact amount together with the way it is written.
#[derive(Debug, Clone)]
pub struct Quantity {
    billionths: BigInt,
    format: Format,
    /// The original text, if Kubernetes keeps that instead of the canonical form.
    written: Option<String>,
}

impl Quantity {
    pub fn zero() -> Self {
        Self { billionths: BigInt::ZERO, format: Format::DecimalSi, written: None }
    }

    pub fn from_i64(value: i64, format: Format) -> Self {
        Self { billionths: BigInt::from(value) * ten_to(KEPT_DIGITS), format, written: None }
    }

    /// A thousandth of `value`, as processor time is counted.
    pub fn from_milli(value: i64, format: Format) -> Self {
        Self { billionths: BigInt::from(value) * ten_to(KEPT_DIGITS - 3), format, written: None }
    }

    pub fn format(&self) -> Format {
        self.format
    }

    pub fn is_zero(&self) -> bool {
        self.billionths.sign() == Sign::NoSign
    }

    pub fn is_negative(&self) -> bool {
        self.billionths.sign() == Sign::Minus
    }

    /// The amount rounded away from zero to a whole number; saturates.
    pub fn as_i64(&self) -> i64 {
        self.in_steps_of(KEPT_DIGITS)
    }

    /// The amount in thousandths, rounded away from zero; saturates.
    pub fn as_milli(&self) -> i64 {
        self.in_steps_of(KEPT_DIGITS - 3)
    }

    /// The amount if it is a whole number of 64 bits.
    pub fn as_exact_i64(&self) -> Option<i64> {
        let (whole, exact) = divide(&self.billionths, &ten_to(KEPT_DIGITS));
        if exact { i64::try_from(whole).ok() } else { None }
    }

    /// Whether the amount is a whole number, so that it can count things.
    pub fn is_integer(&self) -> bool {
        divide(&self.billionths, &ten_to(KEPT_DIGITS)).1
    }

    /// The amount in thousandths, rounded away from zero: the finest step of a resource list.
    #[must_use]
    pub fn rounded_up_to_milli(self) -> Self {
        let step = ten_to(KEPT_DIGITS - 3);
        let (whole, exact) = divide(&self.billionths, &step);
        if exact {
            return self;
        }
        let away = BigInt::from(if self.is_negative() { -1 } else { 1 });
        Self { billionths: (whole + away) * step, format: self.format, written: None }
    }

    /// The nearest floating-point number.
    pub fn as_f64(&self) -> f64 {
        // The standard library parses decimal texts to the nearest float; every text made here is one.
        format!("{}e-{KEPT_DIGITS}", self.billionths).parse().unwrap_or(f64::NAN)
    }

    fn in_steps_of(&self, digits: u32) -> i64 {
        let (whole, exact) = divide(&self.billionths, &ten_to(digits));
        let away = if exact { BigInt::ZERO } else { BigInt::from(if self.is_negative() { -1 } else { 1 }) };
        i64::try_from(whole + away).unwrap_or(if self.is_negative() { i64::MIN } else { i64::MAX })
    }

    /// The text that Kubernetes stores for this quantity. It has no suffix above `E` and then prints the number without
    /// one: 1000E is stored as `1`, another amount. Only API servers need that text.
    pub fn stored_text(&self) -> String {
        if self.written.is_some() || self.format != Format::DecimalSi || self.is_zero() {
            return self.to_string();
        }
        let (number, exponent) = self.canonical_decimal();
        if exponent > LARGEST_SUFFIX { number.to_string() } else { self.to_string() }
    }

    fn canonical(&self) -> String {
        if self.is_zero() {
            return "0".to_owned();
        }
        if self.format == Format::BinarySi
            && let Some(text) = self.canonical_binary()
        {
            return text;
        }
        let (number, exponent) = self.canonical_decimal();
        if self.format == Format::DecimalExponent {
            return if exponent == 0 { number.to_string() } else { format!("{number}e{exponent}") };
        }
        let largest = exponent.min(LARGEST_SUFFIX);
        let suffix = DECIMAL_SUFFIXES.iter().find(|(power, _)| *power == largest).map_or("", |(_, suffix)| *suffix);
        format!("{}{suffix}", number * ten_to((exponent - largest).unsigned_abs()))
    }

    /// Small or fractional amounts have no binary form and are written with decimal suffixes.
    fn canonical_binary(&self) -> Option<String> {
        let (mut number, exact) = divide(&self.billionths, &ten_to(KEPT_DIGITS));
        if !exact || number.magnitude() < &BigUint::from(1024_u32) {
            return None;
        }
        let mut step = 0;
        while step + 1 < BINARY_SUFFIXES.len() {
            let (quotient, exact) = divide(&number, &BigInt::from(1024));
            if !exact {
                break;
            }
            number = quotient;
            step += 1;
        }
        Some(format!("{number}{}", BINARY_SUFFIXES[step]))
    }

    /// The amount as a number without trailing zeros times a power of ten that is a multiple of three.
    fn canonical_decimal(&self) -> (BigInt, i32) {
        let ten = BigInt::from(10);
        let mut number = self.billionths.clone();
        let mut exponent = -9_i32;
        loop {
            let (quotient, exact) = divide(&number, &ten);
            if !exact {
                break;
            }
            number = quotient;
            exponent += 1;
        }
        let surplus = exponent.rem_euclid(3);
        (number * ten_to(surplus.unsigned_abs()), exponent - surplus)
    }

    /// The result of an addition or subtraction has the format of the other operand if this one is zero.
    fn combined(&self, other: &Self, billionths: BigInt) -> Self {
        let format = if self.is_zero() { other.format } else { self.format };
        let billionths = if is_too_large(billionths.magnitude()) {
            BigInt::from_biguint(billionths.sign(), largest())
        } else {
            billionths
        };
        Self { billionths, format, written: None }
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.written {
            Some(text) => f.write_str(text),
            None => f.write_str(&self.canonical()),
        }
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.billionths == other.billionths
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        self.billionths.cmp(&other.billionths)
    }
}

impl Add for &Quantity {
    type Output = Quantity;

    fn add(self, other: Self) -> Quantity {
        self.combined(other, &self.billionths + &other.billionths)
    }
}

impl Sub for &Quantity {
    type Output = Quantity;

    fn sub(self, other: Self) -> Quantity {
        self.combined(other, &self.billionths - &other.billionths)
    }
}

impl Neg for &Quantity {
    type Output = Quantity;

    fn neg(self) -> Quantity {
        Quantity { billionths: -&self.billionths, format: self.format, written: None }
    }
}

impl FromStr for Quantity {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        if text.is_empty() {
            return Err(QuantityError::Form);
        }
        let parts = Parts::split(text)?;
        let suffix = Suffix::read(parts.suffix)?;
        if text.len() > TEXT_MAX_BYTES {
            return Err(QuantityError::Number);
        }
        parts.amount(text, &suffix)
    }
}

impl Serialize for Quantity {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // Manifests contain plain numbers without quotes.
        let text = match serde_json::Value::deserialize(deserializer)? {
            serde_json::Value::String(text) => text.trim().to_owned(),
            serde_json::Value::Number(number) => number.to_string(),
            _ => return Err(serde::de::Error::custom(QuantityError::Form)),
        };
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// The parts of a text. Every part may be empty: Kubernetes reads `Ki` as zero.
struct Parts<'a> {
    negative: bool,
    /// Digits before the point without leading zeros, and behind it.
    whole: &'a str,
    fraction: &'a str,
    has_digits: bool,
    suffix: &'a str,
}

impl<'a> Parts<'a> {
    fn split(text: &'a str) -> Result<Self, QuantityError> {
        let negative = text.starts_with('-');
        let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
        let (digits, rest) = leading_digits(unsigned);
        let (fraction, suffix) = match rest.strip_prefix('.') {
            Some(behind) => leading_digits(behind),
            None => ("", rest),
        };
        let letters = suffix.trim_start_matches(|c: char| "eEinumkKMGTP".contains(c));
        let exponent = letters.strip_prefix(['-', '+']).unwrap_or(letters);
        if !exponent.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(QuantityError::Form);
        }
        let has_digits = !(digits.is_empty() && fraction.is_empty());
        Ok(Self { negative, whole: digits.trim_start_matches('0'), fraction, has_digits, suffix })
    }

    fn amount(&self, text: &str, suffix: &Suffix) -> Result<Quantity, QuantityError> {
        let short = self.short(suffix);
        if !self.has_digits && !short {
            return Err(QuantityError::Number);
        }
        let digits = format!("0{}{}", self.whole, self.fraction);
        let unscaled: BigUint = digits.parse().map_err(|_| QuantityError::Number)?;
        let behind = i64::try_from(self.fraction.len()).map_err(|_| QuantityError::Number)?;
        let (factor, exponent) = match *suffix {
            Suffix::Decimal { exponent, .. } => (BigUint::from(1_u32), exponent),
            Suffix::Binary { step } => (BigUint::from(1024_u32).pow(step), 0),
        };
        if exponent > EXPONENT_MAX && unscaled != BigUint::ZERO {
            return Err(QuantityError::Number);
        }
        // Below this exponent every valid text rounds to the smallest step.
        let exponent = exponent.clamp(EXPONENT_FLOOR, EXPONENT_MAX);
        let mut magnitude = scaled_up(&(unscaled * factor), exponent - behind + i64::from(KEPT_DIGITS));
        if is_too_large(&magnitude) && matches!(suffix, Suffix::Decimal { .. }) {
            return Err(QuantityError::Number);
        }
        let mut format = suffix.format();
        if format == Format::BinarySi {
            magnitude = magnitude.min(BigUint::from(i64::MAX.unsigned_abs()) * ten_to(KEPT_DIGITS).magnitude());
            if magnitude != BigUint::ZERO && &magnitude < ten_to(KEPT_DIGITS).magnitude() {
                format = Format::DecimalSi;
            }
        }
        let written = (short && self.keeps_its_text(suffix)).then(|| text.to_owned());
        let sign = if self.negative { Sign::Minus } else { Sign::Plus };
        Ok(Quantity { billionths: BigInt::from_biguint(sign, magnitude), format, written })
    }

    /// Whether Kubernetes reads the text without arbitrary-precision numbers.
    fn short(&self, suffix: &Suffix) -> bool {
        let whole_digits = self.whole.len().max(1);
        match *suffix {
            Suffix::Decimal { exponent, .. } => {
                let digits = whole_digits + self.fraction.len();
                digits <= SHORT_DIGITS && exponent >= i64::try_from(self.fraction.len()).unwrap_or(i64::MAX) - 9
            }
            // Three decimal digits for each factor of 1024, of fourteen in all.
            Suffix::Binary { step } => self.fraction.is_empty() && whole_digits + 3 * step as usize <= 14,
        }
    }

    /// Kubernetes keeps a short text that looks canonical to it, even if it is not quite.
    fn keeps_its_text(&self, suffix: &Suffix) -> bool {
        let whole = if self.whole.is_empty() { "0" } else { self.whole };
        let digits = format!("{whole}{}", self.fraction);
        match *suffix {
            Suffix::Decimal { exponent, .. } => {
                let scale = exponent - i64::try_from(self.fraction.len()).unwrap_or(i64::MAX);
                scale % 3 == 0 && !digits.ends_with("000") && !digits.starts_with('0')
            }
            Suffix::Binary { .. } => digits.parse::<u64>().is_ok_and(|number| number % 8 != 0),
        }
    }
}

enum Suffix {
    Decimal { exponent: i64, format: Format },
    Binary { step: u32 },
}

impl Suffix {
    fn read(text: &str) -> Result<Self, QuantityError> {
        if let Some((exponent, _)) = DECIMAL_SUFFIXES.iter().find(|(_, suffix)| *suffix == text) {
            return Ok(Self::Decimal { exponent: i64::from(*exponent), format: Format::DecimalSi });
        }
        if let Some(step) =
            (1_u32..).zip(&BINARY_SUFFIXES[1..]).find_map(|(step, name)| (*name == text).then_some(step))
        {
            return Ok(Self::Binary { step });
        }
        let exponent = text.strip_prefix(['e', 'E']).and_then(|digits| digits.parse().ok());
        exponent
            .map(|exponent| Self::Decimal { exponent, format: Format::DecimalExponent })
            .ok_or(QuantityError::Suffix)
    }

    fn format(&self) -> Format {
        match self {
            Self::Decimal { format, .. } => *format,
            Self::Binary { .. } => Format::BinarySi,
        }
    }
}

fn leading_digits(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()))
}

fn ten_to(exponent: u32) -> BigInt {
    BigInt::from(10).pow(exponent)
}

/// The largest amount, in billionths.
fn largest() -> BigUint {
    BigUint::from(10_u32).pow(AMOUNT_MAX_POWER + KEPT_DIGITS)
}

/// Whether so many billionths are more than the largest amount.
fn is_too_large(billionths: &BigUint) -> bool {
    // Ten to the n has more than three bits for each of its n zeros; most amounts need no comparison.
    billionths.bits() > 3 * u64::from(AMOUNT_MAX_POWER) && *billionths > largest()
}

/// `number` times ten to the `exponent`, rounded up.
fn scaled_up(number: &BigUint, exponent: i64) -> BigUint {
    if *number == BigUint::ZERO {
        return BigUint::ZERO;
    }
    if let Ok(up) = u32::try_from(exponent) {
        return number * ten_to(up).magnitude();
    }
    // More decimal digits than the number can have leave only the rounding.
    let enough = u32::try_from(number.bits() / 3 + 2).unwrap_or(u32::MAX);
    let down = u32::try_from(exponent.unsigned_abs()).unwrap_or(u32::MAX).min(enough);
    let divisor = ten_to(down);
    (number + divisor.magnitude() - BigUint::from(1_u32)) / divisor.magnitude()
}

/// The quotient, truncated towards zero, and whether it is exact.
fn divide(number: &BigInt, divisor: &BigInt) -> (BigInt, bool) {
    let quotient = number / divisor;
    let exact = &quotient * divisor == *number;
    (quotient, exact)
}

#[cfg(test)]
#[allow(clippy::needless_pass_by_value, reason = "tables read better without a reference before every literal")]
mod tests;
