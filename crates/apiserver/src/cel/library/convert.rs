//! `int()`, `string()` and the other conversions, `size()` and `type()`.

use std::rc::Rc;

use super::super::eval::Evaluation;
use super::super::operators::seconds;
use super::super::value::{Evaluated, Fault, Val};
use super::time::{duration_text, parse_duration, parse_timestamp};
use crate::schema::go_number;

pub(super) fn call<'a>(evaluation: &mut Evaluation<'a>, name: &str, args: &[Val<'a>]) -> Option<Evaluated<'a>> {
    let [value] = args else { return None };
    let walks = matches!(name, "string" | "bytes" | "int" | "uint" | "double" | "timestamp" | "duration" | "size");
    if let Err(fault) = evaluation.charge_walk(if walks { value.size() } else { 0 }) {
        return Some(Err(fault));
    }
    Some(match name {
        "dyn" => Ok(value.clone()),
        "type" => Ok(Val::Type(value.type_name())),
        "size" => size(value),
        "bool" => to_bool(value),
        "int" => to_int(value),
        "uint" => to_uint(value),
        "double" => to_double(value),
        "string" => to_text(value),
        "bytes" => match value {
            Val::Text(text) => Ok(Val::Bytes(text.as_bytes().into())),
            Val::Bytes(_) => Ok(value.clone()),
            _ => Err(Fault::no_overload()),
        },
        "timestamp" => to_timestamp(value),
        "duration" => match value {
            Val::Text(text) => {
                parse_duration(text).map(Val::Duration).ok_or_else(|| conversion(value, "google.protobuf.Duration"))
            }
            Val::Duration(_) => Ok(value.clone()),
            _ => Err(Fault::no_overload()),
        },
        _ => return None,
    })
}

fn size<'a>(value: &Val<'a>) -> Evaluated<'a> {
    let count = match value {
        Val::Text(text) => text.chars().count(),
        Val::Bytes(_) | Val::List(_) | Val::Map(_) | Val::Json(_) => value.size(),
        _ => return Err(Fault::no_overload()),
    };
    Ok(Val::Int(i64::try_from(count).unwrap_or(i64::MAX)))
}

fn conversion(from: &Val<'_>, to: &str) -> Fault {
    Fault::new(format!("type conversion error from '{}' to '{to}'", from.type_name()))
}

fn to_bool<'a>(value: &Val<'a>) -> Evaluated<'a> {
    match value {
        Val::Bool(_) => Ok(value.clone()),
        Val::Text(text) => match &**text {
            "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(Val::Bool(true)),
            "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(Val::Bool(false)),
            _ => Err(conversion(value, "bool")),
        },
        _ => Err(Fault::no_overload()),
    }
}

#[allow(clippy::cast_possible_truncation)] // bounds are checked right before the cast
fn to_int<'a>(value: &Val<'a>) -> Evaluated<'a> {
    const BOUND: f64 = 9_223_372_036_854_775_807.0;
    let overflow = || Fault::new("integer overflow");
    Ok(Val::Int(match value {
        Val::Int(number) => *number,
        Val::Uint(number) => i64::try_from(*number).map_err(|_| overflow())?,
        Val::Double(number) if number.is_finite() && number.abs() < BOUND => *number as i64,
        Val::Double(_) => return Err(overflow()),
        Val::Text(text) => text.parse().map_err(|_| conversion(value, "int"))?,
        Val::Timestamp(time) => time.as_second(),
        Val::Duration(nanos) => seconds(*nanos),
        _ => return Err(Fault::no_overload()),
    }))
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // bounds are checked right before the cast
fn to_uint<'a>(value: &Val<'a>) -> Evaluated<'a> {
    const BOUND: f64 = 18_446_744_073_709_551_615.0;
    let overflow = || Fault::new("unsigned integer overflow");
    Ok(Val::Uint(match value {
        Val::Uint(number) => *number,
        Val::Int(number) => u64::try_from(*number).map_err(|_| overflow())?,
        Val::Double(number) if (0.0..BOUND).contains(number) => *number as u64,
        Val::Double(_) => return Err(overflow()),
        Val::Text(text) => text.parse().map_err(|_| conversion(value, "uint"))?,
        _ => return Err(Fault::no_overload()),
    }))
}

#[allow(clippy::cast_precision_loss)] // that is what double() does
fn to_double<'a>(value: &Val<'a>) -> Evaluated<'a> {
    Ok(Val::Double(match value {
        Val::Double(number) => *number,
        Val::Int(number) => *number as f64,
        Val::Uint(number) => *number as f64,
        Val::Text(text) => text.parse().map_err(|_| conversion(value, "double"))?,
        _ => return Err(Fault::no_overload()),
    }))
}

fn to_text<'a>(value: &Val<'a>) -> Evaluated<'a> {
    Ok(match value {
        Val::Text(_) => value.clone(),
        Val::Bytes(bytes) => {
            let text = std::str::from_utf8(bytes);
            Val::text(text.map_err(|_| Fault::new("invalid UTF-8 in bytes, cannot convert to string"))?)
        }
        Val::Bool(_) | Val::Int(_) | Val::Uint(_) | Val::Double(_) | Val::Timestamp(_) | Val::Duration(_) => {
            Val::text(plain(value))
        }
        Val::Ip(address) => Val::text(address.to_string()),
        Val::Cidr(cidr) => Val::text(cidr.to_string()),
        _ => return Err(Fault::no_overload()),
    })
}

fn to_timestamp<'a>(value: &Val<'a>) -> Evaluated<'a> {
    let out_of_range = || Fault::new("timestamp overflow");
    match value {
        Val::Timestamp(_) => Ok(value.clone()),
        Val::Int(second) => jiff::Timestamp::from_second(*second).map(Val::Timestamp).map_err(|_| out_of_range()),
        Val::Text(text) => {
            parse_timestamp(text).map(Val::Timestamp).ok_or_else(|| conversion(value, "google.protobuf.Timestamp"))
        }
        _ => Err(Fault::no_overload()),
    }
}

/// A scalar as text.
pub(super) fn plain(value: &Val<'_>) -> Rc<str> {
    match value {
        Val::Bool(flag) => flag.to_string(),
        Val::Int(number) => number.to_string(),
        Val::Uint(number) => number.to_string(),
        Val::Double(number) => go_number(*number),
        Val::Text(text) => text.to_string(),
        Val::Timestamp(time) => time.to_string(),
        Val::Duration(nanos) => duration_text(*nanos),
        Val::Null => "null".to_owned(),
        Val::Type(name) => (*name).to_owned(),
        _ => String::new(),
    }
    .into()
}
