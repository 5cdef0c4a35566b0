//! Equality, order and arithmetic of CEL values.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use serde_json::Value;

use super::eval::Evaluation;
use super::value::{Evaluated, Fault, Key, Val, View};
use crate::schema::{KeyedItems, ListType};

const NANOS_PER_SECOND: i128 = 1_000_000_000;

/// `==`: values of different types are different; numbers are compared by value.
pub(super) fn equal<'a>(evaluation: &mut Evaluation<'a>, a: &Val<'a>, b: &Val<'a>) -> Result<bool, Fault> {
    evaluation.charge_walk(a.size().min(b.size()))?;
    Ok(match (a, b) {
        (Val::Null, Val::Null) => true,
        (Val::Bool(a), Val::Bool(b)) => a == b,
        (Val::Text(a), Val::Text(b)) => **a == **b,
        (Val::Bytes(a), Val::Bytes(b)) => a == b,
        (Val::Duration(a), Val::Duration(b)) => a == b,
        (Val::Timestamp(a), Val::Timestamp(b)) => a == b,
        (Val::Type(a), Val::Type(b)) | (Val::Format(a), Val::Format(b)) => a == b,
        (Val::Optional(a), Val::Optional(b)) => match (a, b) {
            (None, None) => true,
            (Some(a), Some(b)) => equal(evaluation, a, b)?,
            _ => false,
        },
        (Val::Quantity(a), Val::Quantity(b)) => a.cmp(b) == Ordering::Equal,
        (Val::Url(a), Val::Url(b)) => a == b,
        (Val::Ip(a), Val::Ip(b)) => a == b,
        (Val::Cidr(a), Val::Cidr(b)) => a == b,
        (Val::Semver(a), Val::Semver(b)) => a.cmp(b) == Ordering::Equal,
        (Val::Json(a), Val::Json(b)) => return equal_views(evaluation, *a, *b),
        (Val::Int(_) | Val::Uint(_) | Val::Double(_), Val::Int(_) | Val::Uint(_) | Val::Double(_)) => {
            compare_numbers(a, b) == Some(Ordering::Equal)
        }
        _ if a.is_list() && b.is_list() => return equal_lists(evaluation, a, b),
        (Val::Map(_) | Val::Json(_), Val::Map(_) | Val::Json(_)) => return equal_maps(evaluation, a, b),
        _ => false,
    })
}

fn equal_lists<'a>(evaluation: &mut Evaluation<'a>, a: &Val<'a>, b: &Val<'a>) -> Result<bool, Fault> {
    let (Some(a), Some(b)) = (a.items(), b.items()) else { return Ok(false) };
    let (a, b) = (a?, b?);
    if a.len() != b.len() {
        return Ok(false);
    }
    for (a, b) in a.iter().zip(&b) {
        if !equal(evaluation, a, b)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn entries<'a>(value: &Val<'a>) -> Result<Vec<(Key, Val<'a>)>, Fault> {
    match value {
        Val::Map(entries) => Ok(entries.iter().map(|(key, value)| (key.clone(), value.clone())).collect()),
        Val::Json(view) => {
            let fields = view.value.as_object().into_iter().flatten();
            let known = fields.filter_map(|(name, _)| Some((Key::Text(name.as_str().into()), view.entry(name)?)));
            known.map(|(key, value)| Ok((key, value?))).collect()
        }
        _ => Ok(Vec::new()),
    }
}

fn equal_maps<'a>(evaluation: &mut Evaluation<'a>, a: &Val<'a>, b: &Val<'a>) -> Result<bool, Fault> {
    if a.is_list() || b.is_list() {
        return Ok(false);
    }
    let (a, b) = (entries(a)?, entries(b)?);
    if a.len() != b.len() {
        return Ok(false);
    }
    for ((key_a, a), (key_b, b)) in a.iter().zip(&b) {
        if key_a != key_b || !equal(evaluation, a, b)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Parts of the document: sets and list maps are equal in any order.
fn equal_views<'a>(evaluation: &mut Evaluation<'a>, a: View<'a>, b: View<'a>) -> Result<bool, Fault> {
    match (a.value, b.value) {
        (Value::Object(_), Value::Object(_)) => equal_maps(evaluation, &Val::Json(a), &Val::Json(b)),
        (Value::Array(left), Value::Array(right)) => {
            if left.len() != right.len() {
                return Ok(false);
            }
            match &a.schema.list_type {
                ListType::Atomic => equal_lists(evaluation, &Val::Json(a), &Val::Json(b)),
                ListType::Set => {
                    evaluation.charge(left.len() as u64 * right.len() as u64 / 10)?;
                    Ok(left.iter().all(|item| right.contains(item)))
                }
                ListType::Map(keys) => {
                    evaluation.charge(left.len() as u64 * right.len() as u64 / 10)?;
                    let others = KeyedItems::new(keys, right);
                    for item in left {
                        let Some(other) = others.find(item) else { return Ok(false) };
                        if !equal(evaluation, &a.item(item)?, &b.item(other)?)? {
                            return Ok(false);
                        }
                    }
                    Ok(true)
                }
            }
        }
        _ => Ok(false),
    }
}

#[allow(clippy::cast_precision_loss)] // whole numbers meet doubles as doubles
fn compare_numbers(a: &Val<'_>, b: &Val<'_>) -> Option<Ordering> {
    match (a, b) {
        (Val::Int(a), Val::Int(b)) => Some(a.cmp(b)),
        (Val::Uint(a), Val::Uint(b)) => Some(a.cmp(b)),
        (Val::Int(a), Val::Uint(b)) => Some(i128::from(*a).cmp(&i128::from(*b))),
        (Val::Uint(a), Val::Int(b)) => Some(i128::from(*a).cmp(&i128::from(*b))),
        (Val::Double(a), Val::Double(b)) => a.partial_cmp(b),
        (Val::Double(a), Val::Int(b)) => a.partial_cmp(&(*b as f64)),
        (Val::Int(a), Val::Double(b)) => (*a as f64).partial_cmp(b),
        (Val::Double(a), Val::Uint(b)) => a.partial_cmp(&(*b as f64)),
        (Val::Uint(a), Val::Double(b)) => (*a as f64).partial_cmp(b),
        _ => None,
    }
}

/// The order of two values; fails if they have none.
pub(super) fn compare(a: &Val<'_>, b: &Val<'_>) -> Result<Ordering, Fault> {
    Ok(match (a, b) {
        (Val::Bool(a), Val::Bool(b)) => a.cmp(b),
        (Val::Text(a), Val::Text(b)) => (**a).cmp(&**b),
        (Val::Bytes(a), Val::Bytes(b)) => a.cmp(b),
        (Val::Duration(a), Val::Duration(b)) => a.cmp(b),
        (Val::Timestamp(a), Val::Timestamp(b)) => a.cmp(b),
        (Val::Int(_) | Val::Uint(_) | Val::Double(_), Val::Int(_) | Val::Uint(_) | Val::Double(_)) => {
            return compare_numbers(a, b).ok_or_else(|| Fault::new("NaN values cannot be ordered"));
        }
        _ => return Err(Fault::no_overload()),
    })
}

/// `+`, `-`, `*`, `/` and `%`.
pub(super) fn arithmetic<'a>(
    evaluation: &mut Evaluation<'a>,
    operator: &str,
    a: &Val<'a>,
    b: &Val<'a>,
) -> Evaluated<'a> {
    match (a, b) {
        (Val::Int(a), Val::Int(b)) => ints(operator, *a, *b),
        (Val::Uint(a), Val::Uint(b)) => uints(operator, *a, *b),
        (Val::Double(a), Val::Double(b)) => match operator {
            "_+_" => Ok(Val::Double(a + b)),
            "_-_" => Ok(Val::Double(a - b)),
            "_*_" => Ok(Val::Double(a * b)),
            "_/_" => Ok(Val::Double(a / b)),
            _ => Err(Fault::no_overload()),
        },
        _ => match operator {
            "_+_" => add(evaluation, a, b),
            "_-_" => subtract(a, b),
            _ => Err(Fault::no_overload()),
        },
    }
}

fn ints<'a>(operator: &str, a: i64, b: i64) -> Evaluated<'a> {
    let result = match operator {
        "_+_" => a.checked_add(b),
        "_-_" => a.checked_sub(b),
        "_*_" => a.checked_mul(b),
        "_/_" if b == 0 => return Err(Fault::new("division by zero")),
        "_/_" => a.checked_div(b),
        _ if b == 0 => return Err(Fault::new("modulus by zero")),
        _ => a.checked_rem(b),
    };
    result.map(Val::Int).ok_or_else(|| Fault::new("integer overflow"))
}

fn uints<'a>(operator: &str, a: u64, b: u64) -> Evaluated<'a> {
    let result = match operator {
        "_+_" => a.checked_add(b),
        "_-_" => a.checked_sub(b),
        "_*_" => a.checked_mul(b),
        "_/_" if b == 0 => return Err(Fault::new("division by zero")),
        "_/_" => a.checked_div(b),
        _ if b == 0 => return Err(Fault::new("modulus by zero")),
        _ => a.checked_rem(b),
    };
    result.map(Val::Uint).ok_or_else(|| Fault::new("unsigned integer overflow"))
}

fn add<'a>(evaluation: &mut Evaluation<'a>, a: &Val<'a>, b: &Val<'a>) -> Evaluated<'a> {
    evaluation.charge_walk(a.size() + b.size())?;
    Ok(match (a, b) {
        (Val::Text(a), Val::Text(b)) => Val::text(format!("{}{}", &**a, &**b)),
        (Val::Bytes(a), Val::Bytes(b)) => Val::Bytes([&**a, &**b].concat().into()),
        (Val::Duration(a), Val::Duration(b)) => {
            Val::Duration(a.checked_add(*b).ok_or_else(|| Fault::new("duration overflow"))?)
        }
        (Val::Timestamp(time), Val::Duration(nanos)) | (Val::Duration(nanos), Val::Timestamp(time)) => {
            moved(*time, i128::from(*nanos))?
        }
        (Val::Json(left), Val::Json(right)) if a.is_list() && b.is_list() => match &left.schema.list_type {
            ListType::Atomic => joined(a, b)?,
            ListType::Set => {
                let known: BTreeSet<String> = left.items().iter().map(Value::to_string).collect();
                let new = right.items().iter().filter(|item| !known.contains(&item.to_string()));
                let all = left.items().iter().chain(new);
                Val::list(all.map(|item| left.item(item)).collect::<Result<_, _>>()?)
            }
            ListType::Map(keys) => merged(*left, *right, keys)?,
        },
        _ if a.is_list() && b.is_list() => joined(a, b)?,
        _ => return Err(Fault::no_overload()),
    })
}

fn joined<'a>(a: &Val<'a>, b: &Val<'a>) -> Evaluated<'a> {
    let (Some(a), Some(b)) = (a.items(), b.items()) else { return Err(Fault::no_overload()) };
    let mut items = a?;
    items.extend(b?);
    Ok(Val::list(items))
}

/// List maps keep the places of the left, with the right one's items where keys are the same, and its others after them.
fn merged<'a>(left: View<'a>, right: View<'a>, keys: &[String]) -> Evaluated<'a> {
    let (old_items, new_items) = (KeyedItems::new(keys, left.items()), KeyedItems::new(keys, right.items()));
    let replaced = left.items().iter().map(|item| new_items.find(item).unwrap_or(item));
    let new = right.items().iter().filter(|item| old_items.find(item).is_none());
    Ok(Val::list(replaced.chain(new).map(|item| left.item(item)).collect::<Result<_, _>>()?))
}

fn subtract<'a>(a: &Val<'a>, b: &Val<'a>) -> Evaluated<'a> {
    match (a, b) {
        (Val::Duration(a), Val::Duration(b)) => {
            a.checked_sub(*b).map(Val::Duration).ok_or_else(|| Fault::new("duration overflow"))
        }
        (Val::Timestamp(time), Val::Duration(nanos)) => moved(*time, -i128::from(*nanos)),
        (Val::Timestamp(a), Val::Timestamp(b)) => i64::try_from(a.as_nanosecond() - b.as_nanosecond())
            .map(Val::Duration)
            .map_err(|_| Fault::new("duration overflow")),
        _ => Err(Fault::no_overload()),
    }
}

fn moved<'a>(time: jiff::Timestamp, nanos: i128) -> Evaluated<'a> {
    jiff::Timestamp::from_nanosecond(time.as_nanosecond() + nanos)
        .map(Val::Timestamp)
        .map_err(|_| Fault::new("timestamp overflow"))
}

/// Whole seconds of a duration, towards zero.
pub(super) fn seconds(nanos: i64) -> i64 {
    i64::try_from(i128::from(nanos) / NANOS_PER_SECOND).unwrap_or_default()
}

/// The zero value test of `optional.ofNonZeroValue`.
pub(super) fn is_zero(value: &Val<'_>) -> bool {
    match value {
        Val::Null | Val::Bool(false) | Val::Int(0) | Val::Uint(0) | Val::Duration(0) | Val::Optional(None) => true,
        Val::Double(number) => *number == 0.0,
        Val::Text(_) | Val::Bytes(_) | Val::List(_) | Val::Map(_) | Val::Json(_) => value.size() == 0,
        _ => false,
    }
}
