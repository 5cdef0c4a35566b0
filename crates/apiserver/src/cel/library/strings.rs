//! Functions of texts, those with regular expressions included.

use std::fmt::Write as _;

use super::super::ast::Call;
use super::super::eval::Evaluation;
use super::super::value::{Evaluated, Fault, Key, Val};
use super::convert::plain;
use crate::schema::go_number;

pub(super) fn call<'a>(evaluation: &mut Evaluation<'a>, call: &'a Call, args: &[Val<'a>]) -> Option<Evaluated<'a>> {
    if let [Val::List(_) | Val::Json(_), ..] = args {
        return (call.function == "join").then(|| join(evaluation, args));
    }
    let [Val::Text(text), rest @ ..] = args else { return None };
    let walked = text.len() + rest.iter().map(Val::size).sum::<usize>();
    if let Err(fault) = evaluation.charge_walk(walked) {
        return Some(Err(fault));
    }
    let text: &str = text;
    Some(match (call.function.as_str(), rest) {
        ("contains", [Val::Text(part)]) => {
            let pairs = (text.len() as u64).div_ceil(10) * (part.len() as u64).div_ceil(10);
            evaluation.charge(pairs).map(|()| Val::Bool(text.contains(&**part)))
        }
        ("startsWith", [Val::Text(part)]) => Ok(Val::Bool(text.starts_with(&**part))),
        ("endsWith", [Val::Text(part)]) => Ok(Val::Bool(text.ends_with(&**part))),
        ("matches" | "find" | "findAll", [Val::Text(pattern), rest @ ..]) => {
            regex(evaluation, call, text, pattern, rest)
        }
        ("lowerAscii", []) => Ok(Val::text(text.to_ascii_lowercase())),
        ("upperAscii", []) => Ok(Val::text(text.to_ascii_uppercase())),
        ("trim", []) => Ok(Val::text(text.trim())),
        ("charAt", [Val::Int(at)]) => char_at(text, *at),
        ("indexOf", [Val::Text(part)]) => index_of(text, part, 0),
        ("indexOf", [Val::Text(part), Val::Int(from)]) => index_of(text, part, *from),
        ("lastIndexOf", [Val::Text(part)]) => last_index_of(text, part, None),
        ("lastIndexOf", [Val::Text(part), Val::Int(from)]) => last_index_of(text, part, Some(*from)),
        ("replace", [Val::Text(from), Val::Text(to)]) => replace(evaluation, text, from, to, -1),
        ("replace", [Val::Text(from), Val::Text(to), Val::Int(count)]) => replace(evaluation, text, from, to, *count),
        ("split", [Val::Text(separator)]) => Ok(split(text, separator, -1)),
        ("split", [Val::Text(separator), Val::Int(count)]) => Ok(split(text, separator, *count)),
        ("substring", [Val::Int(from)]) => substring(text, *from, None),
        ("substring", [Val::Int(from), Val::Int(to)]) => substring(text, *from, Some(*to)),
        ("strings.quote", []) => Ok(Val::text(quoted(text))),
        ("format", [list]) => format(evaluation, text, list),
        _ => return None,
    })
}

fn regex<'a>(
    evaluation: &mut Evaluation<'a>,
    call: &'a Call,
    text: &str,
    pattern: &str,
    rest: &[Val<'a>],
) -> Evaluated<'a> {
    let cost = (text.len() as u64 + 1).div_ceil(10) * (pattern.len() as u64).div_ceil(4);
    evaluation.charge(cost)?;
    let regex = evaluation.regex(call, pattern)?;
    match (call.function.as_str(), rest) {
        ("matches", []) => Ok(Val::Bool(regex.is_match(text))),
        ("find", []) => Ok(Val::text(regex.find(text).map_or("", |found| found.as_str()))),
        ("findAll", _) => {
            let limit = match rest {
                [Val::Int(limit)] => usize::try_from(*limit).unwrap_or(usize::MAX),
                _ => usize::MAX,
            };
            Ok(Val::list(regex.find_iter(text).take(limit).map(|found| Val::text(found.as_str())).collect()))
        }
        _ => Err(Fault::no_overload()),
    }
}

fn out_of_range(at: i64) -> Fault {
    Fault::new(format!("index out of range: {at}"))
}

/// The byte offset of a code point; the end counts as one.
fn offset(text: &str, at: i64) -> Option<usize> {
    let at = usize::try_from(at).ok()?;
    text.char_indices().map(|(offset, _)| offset).chain([text.len()]).nth(at)
}

fn position<'a>(text: &str, offset: usize) -> Val<'a> {
    Val::Int(i64::try_from(text[..offset].chars().count()).unwrap_or(i64::MAX))
}

fn char_at<'a>(text: &str, at: i64) -> Evaluated<'a> {
    let offset = offset(text, at).ok_or_else(|| out_of_range(at))?;
    Ok(Val::text(text[offset..].chars().next().map(String::from).unwrap_or_default()))
}

fn index_of<'a>(text: &str, part: &str, from: i64) -> Evaluated<'a> {
    if part.is_empty() {
        return Ok(Val::Int(from));
    }
    let start = offset(text, from).ok_or_else(|| out_of_range(from))?;
    Ok(text[start..].find(part).map_or(Val::Int(-1), |at| position(text, start + at)))
}

fn last_index_of<'a>(text: &str, part: &str, from: Option<i64>) -> Evaluated<'a> {
    let Some(from) = from else {
        return Ok(text.rfind(part).map_or(Val::Int(-1), |at| position(text, at)));
    };
    let last = offset(text, from).ok_or_else(|| out_of_range(from))?;
    let end = (last + part.len()).min(text.len());
    let end = (end..=text.len()).find(|end| text.is_char_boundary(*end)).unwrap_or(text.len());
    Ok(text[..end].rfind(part).filter(|at| *at <= last).map_or(Val::Int(-1), |at| position(text, at)))
}

fn replace<'a>(evaluation: &mut Evaluation<'a>, text: &str, from: &str, to: &str, count: i64) -> Evaluated<'a> {
    let limit = usize::try_from(count).unwrap_or(usize::MAX);
    let places = if from.is_empty() { text.chars().count() + 1 } else { text.matches(from).count() };
    evaluation.charge_walk(text.len().saturating_add(places.min(limit).saturating_mul(to.len())))?;
    Ok(Val::text(text.replacen(from, to, limit)))
}

fn split<'a>(text: &str, separator: &str, count: i64) -> Val<'a> {
    let parts: Vec<Val<'a>> = match (count, separator.is_empty()) {
        (0, _) => Vec::new(),
        (1, _) => vec![Val::text(text)],
        (count, true) => {
            let limit = usize::try_from(count).unwrap_or(usize::MAX);
            let mut parts: Vec<Val<'a>> = Vec::new();
            let mut rest = text;
            while let Some(first) = rest.chars().next() {
                let length = if parts.len() + 1 == limit { rest.len() } else { first.len_utf8() };
                parts.push(Val::text(&rest[..length]));
                rest = &rest[length..];
            }
            parts
        }
        (count, false) => {
            let limit = usize::try_from(count).unwrap_or(usize::MAX);
            text.splitn(limit, separator).map(Val::text).collect()
        }
    };
    Val::list(parts)
}

fn substring<'a>(text: &str, from: i64, to: Option<i64>) -> Evaluated<'a> {
    let start = offset(text, from).ok_or_else(|| out_of_range(from))?;
    let Some(to) = to else { return Ok(Val::text(&text[start..])) };
    let end = offset(text, to).ok_or_else(|| out_of_range(to))?;
    if start > end {
        return Err(Fault::new(format!("invalid substring range. start: {from}, end: {to}")));
    }
    Ok(Val::text(&text[start..end]))
}

fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{b}' => out.push_str("\\v"),
            '\\' | '"' => out.extend(['\\', c]),
            other => out.push(other),
        }
    }
    out.push('"');
    out
}

fn join<'a>(evaluation: &mut Evaluation<'a>, args: &[Val<'a>]) -> Evaluated<'a> {
    let (list, separator) = match args {
        [list] => (list, ""),
        [list, Val::Text(separator)] => (list, &**separator),
        _ => return Err(Fault::no_overload()),
    };
    let items = list.items().ok_or_else(Fault::no_overload)??;
    let mut out = String::new();
    for (position, item) in items.iter().enumerate() {
        let Val::Text(text) = item else { return Err(Fault::no_overload()) };
        evaluation.charge_walk(text.len() + separator.len())?;
        if position > 0 {
            out.push_str(separator);
        }
        out.push_str(text);
    }
    Ok(Val::text(out))
}

/// A part of a format: plain text, or a clause with its verb and precision.
pub(in crate::cel) enum Piece<'p> {
    Text(&'p str),
    Clause(char, Option<usize>),
}

/// Digits after the point that a clause may ask for.
const PRECISION_LIMIT: usize = 100;

/// Takes a format apart.
pub(in crate::cel) fn pieces(pattern: &str) -> Result<Vec<Piece<'_>>, String> {
    let mut out = Vec::new();
    let mut rest = pattern;
    while let Some(at) = rest.find('%') {
        out.push(Piece::Text(&rest[..at]));
        rest = &rest[at + 1..];
        if rest.starts_with('%') {
            out.push(Piece::Text("%"));
            rest = &rest[1..];
            continue;
        }
        let digits = rest.strip_prefix('.').map_or(0, |tail| 1 + tail.bytes().take_while(u8::is_ascii_digit).count());
        let precision = if digits > 1 { rest[1..digits].parse().ok() } else { None };
        let verb =
            rest[digits..].chars().next().ok_or("could not parse formatting clause: unexpected end of string")?;
        if !"sdfebxXo".contains(verb) {
            return Err(format!("could not parse formatting clause: unrecognized formatting clause \"{verb}\""));
        }
        out.push(Piece::Clause(verb, precision.map(|digits: usize| digits.min(PRECISION_LIMIT))));
        rest = &rest[digits + verb.len_utf8()..];
    }
    out.push(Piece::Text(rest));
    Ok(out)
}

/// What a clause says about a value of the named type that it cannot show; none if it can.
pub(in crate::cel) fn clause_fault(verb: char, type_name: &str) -> Option<String> {
    let (fits, what) = match verb {
        'd' => (matches!(type_name, "int" | "uint"), "decimal clause can only be used on integers"),
        'f' => (type_name == "double", "fixed-point clause can only be used on doubles"),
        'e' => (type_name == "double", "scientific clause can only be used on doubles"),
        'b' => (matches!(type_name, "int" | "uint" | "bool"), "only integers and bools can be formatted as binary"),
        'o' => (matches!(type_name, "int" | "uint"), "octal clause can only be used on integers"),
        'x' | 'X' => (
            matches!(type_name, "int" | "uint" | "string" | "bytes"),
            "only integers, byte buffers, and strings can be formatted as hex",
        ),
        _ => (true, ""),
    };
    (!fits).then(|| format!("error during formatting: {what}, was given {type_name}"))
}

/// `'%s is %d'.format([…])`.
fn format<'a>(evaluation: &mut Evaluation<'a>, pattern: &str, list: &Val<'a>) -> Evaluated<'a> {
    let mut values = list.items().ok_or_else(Fault::no_overload)??.into_iter();
    let given = values.len();
    let mut out = String::new();
    for piece in pieces(pattern).map_err(Fault::new)? {
        let (verb, precision) = match piece {
            Piece::Text(text) => {
                out.push_str(text);
                continue;
            }
            Piece::Clause(verb, precision) => (verb, precision),
        };
        let value = values.next().ok_or_else(|| Fault::new(format!("index {given} out of range")))?;
        evaluation.charge_walk(value.size())?;
        if let Some(fault) = clause_fault(verb, value.type_name()) {
            return Err(Fault::new(fault));
        }
        let length = out.len();
        clause(evaluation, verb, precision, &value, &mut out)?;
        evaluation.charge_walk(out.len() - length)?;
    }
    Ok(Val::text(out))
}

fn clause<'a>(
    evaluation: &mut Evaluation<'a>,
    verb: char,
    precision: Option<usize>,
    value: &Val<'a>,
    out: &mut String,
) -> Result<(), Fault> {
    let written = match (verb, value) {
        ('s', value) => {
            show(evaluation, value, false, out)?;
            return Ok(());
        }
        ('d', Val::Int(_) | Val::Uint(_)) => write!(out, "{}", plain(value)),
        ('f', Val::Double(number)) => write!(out, "{number:.*}", precision.unwrap_or(6)),
        ('e', Val::Double(number)) => write!(out, "{}", exponent(*number, precision.unwrap_or(6))),
        ('b', Val::Int(number)) if *number < 0 => write!(out, "-{:b}", number.unsigned_abs()),
        ('b', Val::Int(number)) => write!(out, "{number:b}"),
        ('b', Val::Uint(number)) => write!(out, "{number:b}"),
        ('b', Val::Bool(flag)) => write!(out, "{}", u8::from(*flag)),
        ('o', Val::Int(number)) => write!(out, "{}{:o}", if *number < 0 { "-" } else { "" }, number.unsigned_abs()),
        ('o', Val::Uint(number)) => write!(out, "{number:o}"),
        ('x', Val::Int(number)) => write!(out, "{}{:x}", if *number < 0 { "-" } else { "" }, number.unsigned_abs()),
        ('X', Val::Int(number)) => write!(out, "{}{:X}", if *number < 0 { "-" } else { "" }, number.unsigned_abs()),
        ('x', Val::Uint(number)) => write!(out, "{number:x}"),
        ('X', Val::Uint(number)) => write!(out, "{number:X}"),
        ('x' | 'X', Val::Text(_) | Val::Bytes(_)) => {
            let bytes = match value {
                Val::Text(text) => text.as_bytes(),
                Val::Bytes(bytes) => bytes,
                _ => &[],
            };
            bytes.iter().try_for_each(|byte| match verb {
                'X' => write!(out, "{byte:02X}"),
                _ => write!(out, "{byte:02x}"),
            })
        }
        _ => return Err(Fault::no_overload()),
    };
    written.map_err(|_| Fault::new("error during formatting"))
}

fn exponent(number: f64, precision: usize) -> String {
    let text = format!("{number:.precision$e}");
    let (mantissa, power) = text.split_once('e').unwrap_or((&text, "0"));
    let (sign, digits) = power.strip_prefix('-').map_or(('+', power), |digits| ('-', digits));
    format!("{mantissa}e{sign}{digits:0>2}")
}

/// `%s`: lists and maps as CEL writes them, with the texts in them quoted.
fn show<'a>(evaluation: &mut Evaluation<'a>, value: &Val<'a>, nested: bool, out: &mut String) -> Result<(), Fault> {
    evaluation.charge(1)?;
    if let Some(items) = value.items() {
        out.push('[');
        for (position, item) in items?.iter().enumerate() {
            if position > 0 {
                out.push_str(", ");
            }
            show(evaluation, item, true, out)?;
        }
        out.push(']');
        return Ok(());
    }
    let entries: Vec<(String, Val<'a>)> = match value {
        Val::Map(entries) => {
            let shown = |key: &Key| match key {
                Key::Text(text) => quoted(text),
                other => other.to_string(),
            };
            entries.iter().map(|(key, value)| (shown(key), value.clone())).collect()
        }
        Val::Json(view) => {
            let names = view.value.as_object().into_iter().flatten().map(|(name, _)| name);
            names.filter_map(|name| Some((quoted(name), view.entry(name)?.ok()?))).collect()
        }
        Val::Double(number) => {
            out.push_str(&go_number(*number));
            return Ok(());
        }
        Val::Bytes(bytes) => {
            out.push_str(&String::from_utf8_lossy(bytes));
            return Ok(());
        }
        Val::Text(text) if nested => {
            out.push_str(&quoted(text));
            return Ok(());
        }
        scalar => {
            out.push_str(&plain(scalar));
            return Ok(());
        }
    };
    out.push('{');
    for (position, (key, value)) in entries.iter().enumerate() {
        if position > 0 {
            out.push_str(", ");
        }
        out.push_str(key);
        out.push_str(": ");
        show(evaluation, value, true, out)?;
    }
    out.push('}');
    Ok(())
}
