//! Functions of lists.

use std::cmp::Ordering;

use super::super::eval::{Evaluation, contains};
use super::super::operators::{arithmetic, compare, equal};
use super::super::value::{Evaluated, Fault, Val};

pub(super) fn call<'a>(evaluation: &mut Evaluation<'a>, name: &str, args: &[Val<'a>]) -> Option<Evaluated<'a>> {
    let [list, rest @ ..] = args else { return None };
    let items = match list.items()? {
        Ok(items) => items,
        Err(fault) => return Some(Err(fault)),
    };
    if let Err(fault) = evaluation.charge(items.len() as u64) {
        return Some(Err(fault));
    }
    Some(match (name, rest) {
        ("isSorted", []) => is_sorted(&items),
        ("min", []) => extreme(&items, Ordering::Less, "min"),
        ("max", []) => extreme(&items, Ordering::Greater, "max"),
        ("sum", []) => sum(evaluation, &items),
        ("indexOf", [wanted]) => place(evaluation, items.iter().enumerate(), wanted),
        ("lastIndexOf", [wanted]) => place(evaluation, items.iter().enumerate().rev(), wanted),
        ("sets.contains", [other]) => all_in(evaluation, other, list).map(Val::Bool),
        ("sets.equivalent", [other]) => {
            all_in(evaluation, other, list).and_then(|there| Ok(Val::Bool(there && all_in(evaluation, list, other)?)))
        }
        ("sets.intersects", [other]) => any_in(evaluation, &items, other),
        _ => return None,
    })
}

fn is_sorted<'a>(items: &[Val<'a>]) -> Evaluated<'a> {
    for pair in items.windows(2) {
        if compare(&pair[0], &pair[1])? == Ordering::Greater {
            return Ok(Val::Bool(false));
        }
    }
    Ok(Val::Bool(true))
}

fn extreme<'a>(items: &[Val<'a>], wanted: Ordering, name: &str) -> Evaluated<'a> {
    let mut best = items.first().ok_or_else(|| Fault::new(format!("{name} called on empty list")))?;
    for item in items {
        if compare(item, best)? == wanted {
            best = item;
        }
    }
    Ok(best.clone())
}

fn sum<'a>(evaluation: &mut Evaluation<'a>, items: &[Val<'a>]) -> Evaluated<'a> {
    let mut total = match items.first() {
        None | Some(Val::Int(_)) => Val::Int(0),
        Some(Val::Uint(_)) => Val::Uint(0),
        Some(Val::Double(_)) => Val::Double(0.0),
        Some(Val::Duration(_)) => Val::Duration(0),
        Some(_) => return Err(Fault::no_overload()),
    };
    for item in items {
        total = arithmetic(evaluation, "_+_", &total, item)?;
    }
    Ok(total)
}

fn place<'a, 'i>(
    evaluation: &mut Evaluation<'a>,
    items: impl Iterator<Item = (usize, &'i Val<'a>)>,
    wanted: &Val<'a>,
) -> Evaluated<'a>
where
    'a: 'i,
{
    for (position, item) in items {
        if equal(evaluation, item, wanted)? {
            return Ok(Val::Int(i64::try_from(position).unwrap_or(i64::MAX)));
        }
    }
    Ok(Val::Int(-1))
}

fn all_in<'a>(evaluation: &mut Evaluation<'a>, part: &Val<'a>, whole: &Val<'a>) -> Result<bool, Fault> {
    for item in part.items().ok_or_else(Fault::no_overload)?? {
        if !contains(evaluation, &item, whole)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn any_in<'a>(evaluation: &mut Evaluation<'a>, items: &[Val<'a>], other: &Val<'a>) -> Evaluated<'a> {
    for item in items {
        if contains(evaluation, item, other)? {
            return Ok(Val::Bool(true));
        }
    }
    Ok(Val::Bool(false))
}
