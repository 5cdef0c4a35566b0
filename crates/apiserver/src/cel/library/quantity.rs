//! Quantities in expressions: `quantity('500m').isLessThan(quantity('2'))`.

use std::cmp::Ordering;
use std::rc::Rc;

use k8s_values::Quantity;
use k8s_values::quantity::{Format, QuantityError};

use super::super::value::{Evaluated, Fault, Val};

pub(super) fn call<'a>(name: &str, args: &[Val<'a>]) -> Option<Evaluated<'a>> {
    let quantity = |amount: Quantity| Ok(Val::Quantity(Rc::new(amount)));
    let whole = |number: &i64| Quantity::from_i64(*number, Format::DecimalSi);
    Some(match (name, args) {
        ("quantity", [Val::Text(text)]) => {
            text.parse().map_err(|error: QuantityError| Fault::new(error.to_string())).and_then(quantity)
        }
        ("isQuantity", [Val::Text(text)]) => Ok(Val::Bool(text.parse::<Quantity>().is_ok())),
        ("sign", [Val::Quantity(a)]) => Ok(order(a.as_ref().cmp(&Quantity::zero()))),
        ("isInteger", [Val::Quantity(a)]) => Ok(Val::Bool(a.as_exact_i64().is_some())),
        ("asInteger", [Val::Quantity(a)]) => {
            a.as_exact_i64().map(Val::Int).ok_or_else(|| Fault::new("cannot convert value to integer"))
        }
        ("asApproximateFloat", [Val::Quantity(a)]) => Ok(Val::Double(a.as_f64())),
        ("isGreaterThan", [Val::Quantity(a), Val::Quantity(b)]) => Ok(Val::Bool(a > b)),
        ("isLessThan", [Val::Quantity(a), Val::Quantity(b)]) => Ok(Val::Bool(a < b)),
        ("compareTo", [Val::Quantity(a), Val::Quantity(b)]) => Ok(order(a.cmp(b))),
        ("add", [Val::Quantity(a), Val::Quantity(b)]) => quantity(a.as_ref() + b),
        ("add", [Val::Quantity(a), Val::Int(b)]) => quantity(a.as_ref() + &whole(b)),
        ("sub", [Val::Quantity(a), Val::Quantity(b)]) => quantity(a.as_ref() - b),
        ("sub", [Val::Quantity(a), Val::Int(b)]) => quantity(a.as_ref() - &whole(b)),
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
