//! Functions of lists.

use std::cmp::Ordering;

use super::super::eval::{Evaluation, contains, sorting_cost};
use super::super::operators::{arithmetic, compare, equal};
use super::super::value::{Evaluated, Fault, Val};

pub(super) fn call<'a>(evaluation: &mut Evaluation<'a>, name: &str, args: &[Val<'a>]) -> Option<Evaluated<'a>> {
    if let ("lists.range", [Val::Int(count)]) = (name, args) {
        return Some(range(evaluation, *count));
    }
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
        ("sort", []) => sort(evaluation, items),
        ("indexOf", [wanted]) => place(evaluation, items.iter().enumerate(), wanted),
        ("lastIndexOf", [wanted]) => place(evaluation, items.iter().enumerate().rev(), wanted),
        ("reverse", []) => Ok(Val::list(items.into_iter().rev().collect())),
        ("distinct", []) => distinct(evaluation, items),
        ("slice", [Val::Int(from), Val::Int(to)]) => slice(&items, *from, *to),
        ("flatten", []) => flatten(evaluation, items, 1),
        ("flatten", [Val::Int(depth)]) => flatten(evaluation, items, *depth),
        ("sets.contains", [other]) => all_in(evaluation, other, list).map(Val::Bool),
        ("sets.equivalent", [other]) => {
            all_in(evaluation, other, list).and_then(|there| Ok(Val::Bool(there && all_in(evaluation, list, other)?)))
        }
        ("sets.intersects", [other]) => any_in(evaluation, &items, other),
        _ => return None,
    })
}

fn range<'a>(evaluation: &mut Evaluation<'a>, count: i64) -> Evaluated<'a> {
    let count = u64::try_from(count).map_err(|_| Fault::new("lists.range: size must be non-negative"))?;
    evaluation.charge(count)?;
    Ok(Val::list((0..i64::try_from(count).unwrap_or_default()).map(Val::Int).collect()))
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

fn sort<'a>(evaluation: &mut Evaluation<'a>, mut items: Vec<Val<'a>>) -> Evaluated<'a> {
    evaluation.charge(sorting_cost(items.len()))?;
    let mut fault = None;
    items.sort_by(|a, b| {
        compare(a, b).unwrap_or_else(|failed| {
            fault.get_or_insert(failed);
            Ordering::Equal
        })
    });
    fault.map_or_else(|| Ok(Val::list(items)), Err)
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

fn distinct<'a>(evaluation: &mut Evaluation<'a>, items: Vec<Val<'a>>) -> Evaluated<'a> {
    let mut out: Vec<Val<'a>> = Vec::new();
    'items: for item in items {
        for known in &out {
            if equal(evaluation, known, &item)? {
                continue 'items;
            }
        }
        out.push(item);
    }
    Ok(Val::list(out))
}

fn slice<'a>(items: &[Val<'a>], from: i64, to: i64) -> Evaluated<'a> {
    let bad = |text: String| Fault::new(format!("cannot slice({from}, {to}), {text}"));
    let start = usize::try_from(from).map_err(|_| bad("negative indexes not supported".to_owned()))?;
    let end = usize::try_from(to).map_err(|_| bad("negative indexes not supported".to_owned()))?;
    if start > end {
        return Err(bad("start index must be less than or equal to end index".to_owned()));
    }
    items
        .get(start..end)
        .map(|part| Val::list(part.to_vec()))
        .ok_or_else(|| bad(format!("list is length {}", items.len())))
}

fn flatten<'a>(evaluation: &mut Evaluation<'a>, items: Vec<Val<'a>>, depth: i64) -> Evaluated<'a> {
    if depth < 0 {
        return Err(Fault::new("level must be non-negative"));
    }
    let mut current = items;
    // A list cannot be deeper than the document or the expression it came from, so this ends soon whatever was asked.
    for _ in 0..depth {
        let mut changed = false;
        let mut next = Vec::with_capacity(current.len());
        for item in current {
            match item.items() {
                Some(inner) => {
                    let inner = inner?;
                    evaluation.charge(inner.len() as u64 + 1)?;
                    next.extend(inner);
                    changed = true;
                }
                None => next.push(item),
            }
        }
        current = next;
        if !changed {
            break;
        }
    }
    Ok(Val::list(current))
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
