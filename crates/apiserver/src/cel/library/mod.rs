//! What the functions of an expression do.
//!
//! The checker has seen to it that arguments fit, except where types are dynamic; what does not fit then fails with
//! `no such overload`.

mod convert;
mod lists;
pub(in crate::cel) mod names;
pub(in crate::cel) mod net;
mod quantity;
pub(in crate::cel) mod semver;
pub(in crate::cel) mod strings;
pub(in crate::cel) mod time;

use std::cmp::Ordering;
use std::rc::Rc;

use super::ast::Call;
use super::eval::{Evaluation, contains};
use super::operators::{arithmetic, compare, equal, is_zero};
use super::value::{Evaluated, Fault, Val};

/// Calls a function or operator.
pub(super) fn call<'a>(evaluation: &mut Evaluation<'a>, call: &'a Call, args: &[Val<'a>]) -> Evaluated<'a> {
    if let Some(result) = operator(evaluation, &call.function, args) {
        return result;
    }
    let name = call.function.as_str();
    let found = strings::call(evaluation, call, args)
        .or_else(|| convert::call(evaluation, name, args))
        .or_else(|| lists::call(evaluation, name, args))
        .or_else(|| time::call(name, args))
        .or_else(|| quantity::call(name, args))
        .or_else(|| net::call(evaluation, name, args))
        .or_else(|| semver::call(name, args))
        .or_else(|| names::call(evaluation, name, args))
        .or_else(|| optionals(name, args));
    found.unwrap_or_else(|| Err(Fault::no_overload()))
}

fn operator<'a>(evaluation: &mut Evaluation<'a>, name: &str, args: &[Val<'a>]) -> Option<Evaluated<'a>> {
    if let [a, b] = args {
        let ordered = |accepted: &[Ordering]| compare(a, b).map(|order| Val::Bool(accepted.contains(&order)));
        return Some(match name {
            "_==_" => equal(evaluation, a, b).map(Val::Bool),
            "_!=_" => equal(evaluation, a, b).map(|same| Val::Bool(!same)),
            "_<_" => ordered(&[Ordering::Less]),
            "_<=_" => ordered(&[Ordering::Less, Ordering::Equal]),
            "_>_" => ordered(&[Ordering::Greater]),
            "_>=_" => ordered(&[Ordering::Greater, Ordering::Equal]),
            "_+_" | "_-_" | "_*_" | "_/_" | "_%_" => arithmetic(evaluation, name, a, b),
            "@in" => contains(evaluation, a, b).map(Val::Bool),
            _ => return None,
        });
    }
    Some(match (name, args) {
        ("!_", [Val::Bool(flag)]) => Ok(Val::Bool(!flag)),
        ("-_", [Val::Int(number)]) => number.checked_neg().map(Val::Int).ok_or_else(|| Fault::new("integer overflow")),
        ("-_", [Val::Double(number)]) => Ok(Val::Double(-number)),
        _ => return None,
    })
}

fn optionals<'a>(name: &str, args: &[Val<'a>]) -> Option<Evaluated<'a>> {
    Some(Ok(match (name, args) {
        ("optional.none", []) => Val::Optional(None),
        ("optional.of", [value]) => Val::some(value.clone()),
        ("optional.ofNonZeroValue", [value]) => {
            if is_zero(value) {
                Val::Optional(None)
            } else {
                Val::some(value.clone())
            }
        }
        ("hasValue", [Val::Optional(inner)]) => Val::Bool(inner.is_some()),
        ("value", [Val::Optional(Some(inner))]) => (**inner).clone(),
        ("value", [Val::Optional(None)]) => return Some(Err(Fault::new("optional.none() dereference"))),
        ("or", [Val::Optional(inner), other]) => match inner {
            Some(inner) => Val::Optional(Some(Rc::clone(inner))),
            None => other.clone(),
        },
        ("orValue", [Val::Optional(inner), other]) => {
            inner.as_ref().map_or_else(|| other.clone(), |inner| (**inner).clone())
        }
        _ => return None,
    }))
}
