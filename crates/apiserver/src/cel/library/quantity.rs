//! Kubernetes quantities: `500m`, `2Gi`, `1e3`.

use std::cmp::Ordering;

use super::super::value::{Evaluated, Fault, Val};

/// Digits below the point that a quantity keeps, as Kubernetes does: nano.
const SCALE: u32 = 9;
const ONE: i128 = 1_000_000_000;

/// A quantity in nanos. Only the value counts here, not how it was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::cel) struct Quantity(i128);

const SUFFIXES: [(&str, i128, i128); 18] = [
    ("", 1, 1),
    ("n", 1, 1_000_000_000),
    ("u", 1, 1_000_000),
    ("m", 1, 1_000),
    ("k", 1_000, 1),
    ("M", 1_000_000, 1),
    ("G", 1_000_000_000, 1),
    ("T", 1_000_000_000_000, 1),
    ("P", 1_000_000_000_000_000, 1),
    ("E", 1_000_000_000_000_000_000, 1),
    ("Ki", 1 << 10, 1),
    ("Mi", 1 << 20, 1),
    ("Gi", 1 << 30, 1),
    ("Ti", 1 << 40, 1),
    ("Pi", 1 << 50, 1),
    ("Ei", 1 << 60, 1),
    ("e0", 1, 1),
    ("E0", 1, 1),
];

impl Quantity {
    pub(in crate::cel) fn parse(text: &str) -> Option<Self> {
        let (negative, rest) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, suffix) = rest.split_at(end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if whole.is_empty() && fraction.is_empty() || fraction.contains('.') {
            return None;
        }
        let (multiplier, divisor) = factor(suffix)?;
        let whole: i128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
        let kept = &fraction[..fraction.len().min(SCALE as usize)];
        let below: i128 = if kept.is_empty() { 0 } else { kept.parse().ok()? };
        let below = below * 10i128.pow(SCALE - u32::try_from(kept.len()).ok()?);
        let nanos = whole.checked_mul(ONE)?.checked_add(below)?.checked_mul(multiplier)?;
        // What is smaller than a nano is rounded up.
        let nanos = nanos / divisor + i128::from(nanos % divisor != 0);
        Some(Self(if negative { -nanos } else { nanos }))
    }

    fn whole(self) -> Option<i64> {
        (self.0 % ONE == 0).then(|| i64::try_from(self.0 / ONE).ok()).flatten()
    }
}

fn factor(suffix: &str) -> Option<(i128, i128)> {
    if let Some((_, multiplier, divisor)) = SUFFIXES.iter().find(|(name, ..)| *name == suffix) {
        return Some((*multiplier, *divisor));
    }
    let exponent: i32 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
    let power = 10i128.checked_pow(exponent.unsigned_abs()).filter(|_| exponent.abs() <= 18)?;
    Some(if exponent < 0 { (1, power) } else { (power, 1) })
}

pub(super) fn call<'a>(name: &str, args: &[Val<'a>]) -> Option<Evaluated<'a>> {
    let sum = |a: i128, b: Option<i128>| {
        let total = b.and_then(|b| a.checked_add(b));
        total.map(|total| Val::Quantity(Quantity(total))).ok_or_else(|| Fault::new("integer overflow"))
    };
    Some(match (name, args) {
        ("quantity", [Val::Text(text)]) => Quantity::parse(text).map(Val::Quantity).ok_or_else(|| {
            Fault::new("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")
        }),
        ("isQuantity", [Val::Text(text)]) => Ok(Val::Bool(Quantity::parse(text).is_some())),
        ("sign", [Val::Quantity(a)]) => Ok(Val::Int(a.0.signum().try_into().unwrap_or_default())),
        ("isInteger", [Val::Quantity(a)]) => Ok(Val::Bool(a.whole().is_some())),
        ("asInteger", [Val::Quantity(a)]) => {
            a.whole().map(Val::Int).ok_or_else(|| Fault::new("cannot convert value to integer"))
        }
        #[allow(clippy::cast_precision_loss)] // the function's name says so
        ("asApproximateFloat", [Val::Quantity(a)]) => Ok(Val::Double(a.0 as f64 / ONE as f64)),
        ("isGreaterThan", [Val::Quantity(a), Val::Quantity(b)]) => Ok(Val::Bool(a > b)),
        ("isLessThan", [Val::Quantity(a), Val::Quantity(b)]) => Ok(Val::Bool(a < b)),
        ("compareTo", [Val::Quantity(a), Val::Quantity(b)]) => Ok(order(a.cmp(b))),
        ("add", [Val::Quantity(a), Val::Quantity(b)]) => sum(a.0, Some(b.0)),
        ("add", [Val::Quantity(a), Val::Int(b)]) => sum(a.0, Some(i128::from(*b) * ONE)),
        ("sub", [Val::Quantity(a), Val::Quantity(b)]) => sum(a.0, b.0.checked_neg()),
        ("sub", [Val::Quantity(a), Val::Int(b)]) => sum(a.0, Some(-i128::from(*b) * ONE)),
        _ => return None,
    })
}

pub(super) fn order<'a>(order: Ordering) -> Val<'a> {
    Val::Int(match order {
        Ordering::Less => -1,
        Ordering::Equal => 0,
        Ordering::Greater => 1,
    })
}

#[test]
fn quantities_are_compared_by_value() {
    let parse = |text| Quantity::parse(text).unwrap();
    assert_eq!(parse("1Ki"), parse("1024"));
    assert_eq!(parse("500m"), parse("0.5"));
    assert_eq!(parse("1e3"), parse("1k"));
    assert!(parse("-1") < parse("1n"));
    assert_eq!(parse("2Gi").whole(), Some(2 << 30));
    assert_eq!(parse("1.5").whole(), None);
    for bad in ["", "1.2.3", "1Kib", "x", "1e99", "."] {
        assert_eq!(Quantity::parse(bad), None, "{bad}");
    }
}
