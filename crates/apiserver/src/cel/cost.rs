//! The estimated maximum cost of an expression, computed from the schema when a CRD is written, as kube-apiserver does.
//!
//! Sizes come from `maxItems`, `maxLength` and `maxProperties`, or else from the maximum size of a request.

use std::collections::BTreeMap;

use super::ast::{Call, Expr, Kind, Literal, Macro, MacroKind};
use super::types::{Ty, escaped};
use crate::schema::{Additional, JsonType, Schema};

/// Bytes of the largest request, which bounds whatever a schema leaves open.
const MAX_REQUEST_BYTES: u64 = 3 * 1024 * 1024;
/// Cost units one rule may cost by estimate, over all values it may apply to.
pub(super) const RULE_LIMIT: u64 = 10_000_000;
/// Cost units all rules of one schema may cost by estimate.
pub(super) const SCHEMA_LIMIT: u64 = 100_000_000;

const STRING_FACTOR: f64 = 0.1;
const REGEX_FACTOR: f64 = 0.25;
const NEW_LIST: u64 = 10;
const NEW_MAP: u64 = 30;
/// Characters of the longest regular expression behind a named format, and of a format itself.
const FORMAT_REGEX_LENGTH: f64 = 128.0;
const FORMAT_LENGTH: u64 = 64;
/// Bytes that a duration or a time takes at most in JSON, and a date exactly.
const TIME_LENGTH: u64 = 32;
const DATE_LENGTH: u64 = 12;

/// How large values of a schema may get.
#[derive(Debug, Clone, Default)]
pub(super) struct Bounds {
    /// Items, entries or bytes; 0 for what has no length.
    most: u64,
    /// Bytes that the smallest value takes in JSON.
    smallest: u64,
    elements: Option<Box<Bounds>>,
    is_map: bool,
    fields: BTreeMap<String, Bounds>,
}

impl Bounds {
    /// The bounds of values of `schema`; none where rules cannot see them.
    pub(super) fn of(schema: &Schema, resource: bool) -> Option<Self> {
        let limits = &schema.constraints;
        let plain = |most, smallest| Some(Self { most, smallest, ..Self::default() });
        let unbounded_text = MAX_REQUEST_BYTES - 2;
        // Lengths are given in characters, each of up to four bytes.
        let by_length = limits.max_length.map(|length| length.saturating_mul(4));
        if schema.int_or_string {
            return plain(by_length.unwrap_or(unbounded_text), 1);
        }
        match schema.json_type {
            JsonType::Any => None,
            JsonType::Boolean => plain(0, 4),
            JsonType::Integer | JsonType::Number => plain(0, 1),
            JsonType::String => match limits.format.as_deref() {
                Some("byte") => plain(limits.max_length.unwrap_or(unbounded_text), 2),
                Some("duration") => plain(TIME_LENGTH, 3),
                Some("date") => plain(DATE_LENGTH, DATE_LENGTH),
                Some("date-time") => plain(TIME_LENGTH, 21),
                _ => plain(by_length.or_else(|| longest(schema)).unwrap_or(unbounded_text), 2),
            },
            JsonType::Array => {
                let items = schema.items.as_ref()?;
                let items = Self::of(items, items.embedded_resource)?;
                let most = limits.max_items.unwrap_or((MAX_REQUEST_BYTES - 2) / (items.smallest + 1));
                Some(Self { most, smallest: 2, elements: Some(Box::new(items)), ..Self::default() })
            }
            JsonType::Object => match &schema.additional {
                Additional::Schema(shared) => {
                    let shared = Self::of(shared, shared.embedded_resource)?;
                    let most = limits.max_properties.unwrap_or((MAX_REQUEST_BYTES - 2) / (shared.smallest + 6));
                    let elements = Some(Box::new(shared));
                    Some(Self { most, smallest: 2, elements, is_map: true, ..Self::default() })
                }
                Additional::None => Some(Self::of_object(schema, resource)),
            },
        }
    }

    fn of_object(schema: &Schema, resource: bool) -> Self {
        let mut out = Self { smallest: 2, ..Self::default() };
        for (name, property) in &schema.properties {
            let Some(bounds) = Self::of(property, property.embedded_resource) else { continue };
            if schema.required.contains(name) && property.default.is_none() {
                out.smallest += u64::try_from(name.len()).unwrap_or(u64::MAX) + bounds.smallest + 4;
            }
            out.fields.extend(escaped(name).map(|name| (name, bounds)));
        }
        if resource {
            let text = Self { most: MAX_REQUEST_BYTES - 2, smallest: 2, ..Self::default() };
            let names = ["name", "generateName"].map(|name| (name.to_owned(), text.clone()));
            let metadata = Self { smallest: 2, fields: BTreeMap::from(names), ..Self::default() };
            out.fields.insert("metadata".to_owned(), metadata);
            out.fields.insert("kind".to_owned(), text.clone());
            out.fields.insert("apiVersion".to_owned(), text);
        }
        out
    }

    /// How often such a value fits into a request.
    pub(super) fn times_in_request(&self) -> u64 {
        MAX_REQUEST_BYTES / (self.smallest + 1)
    }

    /// The size of what a path of steps leads to. The first step names the variable, which is always this value.
    fn at(&self, path: &[String]) -> Option<Size> {
        const KEYS: &Bounds = &Bounds { most: 0, smallest: 0, elements: None, is_map: false, fields: BTreeMap::new() };
        let mut here = self;
        for step in path.get(1..)? {
            here = match step.as_str() {
                "@items" | "@values" => here.elements.as_deref()?,
                "@keys" if here.is_map => KEYS,
                field => here.fields.get(field)?,
            };
        }
        Some(Size { least: 0, most: here.most })
    }
}

/// The longest value of an enumeration.
fn longest(schema: &Schema) -> Option<u64> {
    let allowed = &schema.constraints.allowed;
    let length = |value: &serde_json::Value| value.as_str().map(|text| u64::try_from(text.len()).unwrap_or(u64::MAX));
    (!allowed.is_empty()).then(|| allowed.iter().filter_map(length).max().unwrap_or(0))
}

/// By which factor a schema multiplies the number of values below it; none if without bound.
pub(super) fn multiplicity(schema: &Schema) -> Option<u64> {
    match (schema.json_type, &schema.additional) {
        (JsonType::Array, _) => schema.constraints.max_items,
        (JsonType::Object, Additional::Schema(_)) => schema.constraints.max_properties,
        _ => Some(1),
    }
}

/// The error of a rule that costs too much.
pub(super) fn too_expensive(what: &str, cost: u64, limit: u64) -> String {
    #[allow(clippy::cast_precision_loss)] // a factor of one or two digits is shown
    let factor = cost as f64 / limit as f64;
    let shown = if factor > 100.0 {
        "more than 100x".to_owned()
    } else if factor < 1.5 {
        format!("{factor:.6}x")
    } else {
        format!("{factor:.1}x")
    };
    format!(
        "{what} exceeds budget by factor of {shown} (try simplifying the rule, or adding maxItems, maxProperties, and \
         maxLength where arrays, maps, and strings are declared)"
    )
}

/// The cost at worst of a checked expression over values with these bounds.
pub(super) fn estimate(expr: &Expr, bounds: &Bounds) -> u64 {
    Estimator { bounds, locals: Vec::new() }.visit(expr).cost
}

#[derive(Debug, Clone, Copy)]
struct Size {
    least: u64,
    most: u64,
}

impl Size {
    const UNKNOWN: Size = Size { least: 0, most: u64::MAX };
    const ONE: Size = Size { least: 1, most: 1 };

    fn fixed(size: usize) -> Self {
        let size = u64::try_from(size).unwrap_or(u64::MAX);
        Self { least: size, most: size }
    }

    fn or(self, other: Self) -> Self {
        Self { least: self.least.min(other.least), most: self.most.max(other.most) }
    }

    fn plus(self, other: Self) -> Self {
        Self { least: self.least.saturating_add(other.least), most: self.most.saturating_add(other.most) }
    }

    fn times(self, other: Self) -> Self {
        Self { least: self.least.saturating_mul(other.least), most: self.most.saturating_mul(other.most) }
    }

    /// The cost of going over it once.
    fn traversal(self) -> u64 {
        scaled(self.most, STRING_FACTOR)
    }
}

/// A product with a factor, rounded up. What is too large for a number is the largest one.
fn scaled(size: u64, factor: f64) -> u64 {
    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    // estimates are floating point in Kubernetes, and a conversion from a float saturates
    let product = (size as f64 * factor).ceil() as u64;
    product
}

/// The sizes of keys and values of a list or map that is made by the expression itself.
#[derive(Debug, Clone, Copy)]
struct Entries {
    is_list: bool,
    key: Size,
    value: Size,
}

impl Entries {
    fn or(self, other: Self) -> Self {
        Self { is_list: self.is_list, key: self.key.or(other.key), value: self.value.or(other.value) }
    }
}

/// What is known about the values of an expression.
#[derive(Debug, Clone, Default)]
struct Found {
    cost: u64,
    size: Option<Size>,
    entries: Option<Entries>,
    /// Steps from a variable through the schema; empty if there is no such way.
    path: Vec<String>,
}

impl Found {
    fn size(&self) -> Size {
        self.size.unwrap_or(Size::UNKNOWN)
    }

    fn step(&self, step: &str) -> Vec<String> {
        let mut path = self.path.clone();
        path.push(step.to_owned());
        path
    }
}

struct Local {
    name: String,
    found: Found,
}

struct Estimator<'a> {
    bounds: &'a Bounds,
    locals: Vec<Local>,
}

impl Estimator<'_> {
    fn visit(&mut self, expr: &Expr) -> Found {
        match &expr.kind {
            Kind::Literal(literal) => Found { size: Some(literal_size(literal)), ..Found::default() },
            Kind::Ident(name) => self.ident(expr, name),
            Kind::Select { operand, field, optional } => {
                let operand_found = self.visit(operand);
                if *optional {
                    return self.finish(expr, operand_found.cost.saturating_add(1), Found::default());
                }
                let looked_up = u64::from(matches!(operand.ty, Ty::Map(_) | Ty::Object(_)));
                let path = operand_found.step(field);
                let cost = operand_found.cost.saturating_add(looked_up);
                self.finish(expr, cost, Found { path, ..Found::default() })
            }
            Kind::Has { operand, .. } => {
                let cost = self.visit(operand).cost;
                self.finish(expr, cost, Found::default())
            }
            Kind::Index { operand, index, optional } => self.index(expr, operand, index, *optional),
            Kind::Call(call) => self.call(expr, call),
            Kind::And(terms) | Kind::Or(terms) => {
                let cost = self.sum(terms.iter());
                self.finish(expr, cost, Found::default())
            }
            Kind::Conditional(parts) => {
                let [condition, then, otherwise] = parts.each_ref().map(|part| self.visit(part));
                let entries = then.entries.zip(otherwise.entries).map(|(a, b)| a.or(b));
                let size = Some(then.size().or(otherwise.size()));
                let cost = condition.cost.saturating_add(then.cost.max(otherwise.cost));
                Found { cost, size, entries, path: Vec::new() }
            }
            Kind::List(elements) => {
                let found: Vec<Found> = elements.iter().map(|element| self.visit(&element.value)).collect();
                let entries = Entries { is_list: true, key: Size::ONE, value: union(found.iter()) };
                let cost = found.iter().fold(NEW_LIST, |sum, one| sum.saturating_add(one.cost));
                Found { cost, size: Some(Size::fixed(found.len())), entries: Some(entries), path: Vec::new() }
            }
            Kind::Map(entries) => {
                let keys: Vec<Found> = entries.iter().map(|(key, _, _)| self.visit(key)).collect();
                let values: Vec<Found> = entries.iter().map(|(_, value, _)| self.visit(value)).collect();
                let cost = keys.iter().chain(&values).fold(NEW_MAP, |sum, one| sum.saturating_add(one.cost));
                let entries = Entries { is_list: false, key: union(keys.iter()), value: union(values.iter()) };
                Found { cost, size: Some(Size::fixed(keys.len())), entries: Some(entries), path: Vec::new() }
            }
            Kind::Macro(parts) => self.comprehension(expr, parts),
        }
    }

    fn sum<'e>(&mut self, terms: impl Iterator<Item = &'e Expr>) -> u64 {
        terms.fold(0_u64, |sum, term| sum.saturating_add(self.visit(term).cost))
    }

    /// Adds the size that the schema or the type gives.
    fn finish(&self, expr: &Expr, cost: u64, found: Found) -> Found {
        let by_path = (!found.path.is_empty()).then(|| self.bounds.at(&found.path)).flatten();
        let size = found.size.or(by_path).or_else(|| is_scalar(&expr.ty).then_some(Size::ONE));
        Found { cost, size, ..found }
    }

    fn ident(&self, expr: &Expr, name: &str) -> Found {
        let Some(local) = self.locals.iter().rev().find(|local| local.name == name) else {
            return self.finish(expr, 1, Found { path: vec![name.to_owned()], ..Found::default() });
        };
        let known = local.found.clone();
        let mut found = self.finish(expr, 1, Found { size: None, ..known.clone() });
        found.size = found.size.or(known.size);
        found
    }

    fn index(&mut self, expr: &Expr, operand: &Expr, index: &Expr, optional: bool) -> Found {
        let found = self.visit(operand);
        let cost = self.visit(index).cost.saturating_add(found.cost).saturating_add(1);
        let step = match operand.ty {
            Ty::List(_) => "@items",
            Ty::Map(_) | Ty::Dyn => "@values",
            _ => "",
        };
        if optional || step.is_empty() {
            return self.finish(expr, cost, Found::default());
        }
        let size = found.entries.map(|entries| entries.value);
        self.finish(expr, cost, Found { size, path: found.step(step), ..Found::default() })
    }

    fn call(&mut self, expr: &Expr, call: &Call) -> Found {
        let args: Vec<Found> = call.args.iter().map(|arg| self.visit(arg)).collect();
        let below = args.iter().fold(0_u64, |sum, arg| sum.saturating_add(arg.cost));
        if let ("dyn", [only]) = (call.function.as_str(), args.as_slice()) {
            return Found { cost: below.saturating_add(1), size: only.size, entries: only.entries, path: Vec::new() };
        }
        let (own, size) = self.function(call, &args);
        let mut found = self.finish(expr, below.saturating_add(own), Found { size, ..Found::default() });
        if let ("_+_", [left, right]) = (call.function.as_str(), args.as_slice()) {
            found.entries = left.entries.zip(right.entries).map(|(a, b)| a.or(b));
        }
        found
    }

    /// The cost of a call without its arguments, and the size of its result where the call says it.
    fn function(&self, call: &Call, args: &[Found]) -> (u64, Option<Size>) {
        let size = |at: usize| args.get(at).map_or(Size::UNKNOWN, Found::size);
        let ty = |at: usize| call.args.get(at).map_or(&Ty::Dyn, |arg| &arg.ty);
        let first = size(0);
        let plain = |cost: u64| (cost, None);
        match (call.function.as_str(), call.member) {
            ("_==_", _) if matches!((ty(0), ty(1)), (Ty::Opaque(a), Ty::Opaque(b)) if a == b) => {
                plain(opaque_equality(ty(0), args.get(1)))
            }
            ("_==_" | "_!=_", _) => plain(scaled(first.most.min(size(1).most), STRING_FACTOR)),
            ("_<_" | "_<=_" | "_>_" | "_>=_", _) => match (is_text(ty(0)) || is_text(ty(1)), is_dyn(ty(0), ty(1))) {
                (true, _) => plain(scaled(first.most.min(size(1).most), STRING_FACTOR)),
                (_, true) => plain(scaled(first.most.min(size(1).most), STRING_FACTOR).max(1)),
                _ => plain(1),
            },
            ("_+_", _) if is_text(ty(0)) || is_text(ty(1)) || is_dyn(ty(0), ty(1)) => {
                let both = first.plus(size(1));
                (both.traversal().max(1), Some(both))
            }
            ("_+_", _) if matches!(ty(0), Ty::List(_)) => (1, Some(first.plus(size(1)))),
            ("@in", _) if !matches!(ty(1), Ty::Map(_)) => plain(size(1).most),
            ("string", _) if matches!(ty(0), Ty::Bytes) => {
                (first.traversal(), Some(Size { least: first.least / 4, most: first.most }))
            }
            ("bytes", _) if is_text(ty(0)) => {
                (first.traversal(), Some(Size { least: first.least, most: first.most.saturating_mul(4) }))
            }
            ("startsWith" | "endsWith", true) => plain(size(1).traversal()),
            ("contains", true) => plain(first.traversal().saturating_mul(size(1).traversal())),
            ("matches", true) => plain(regex_cost(first, size(1))),
            ("find" | "findAll", true) => (regex_cost(first, size(1)), Some(Size { least: 0, most: first.most })),
            ("format", true) => plain(first.traversal()),
            ("isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf", true) => plain(self.walk(ty(0), &args[0])),
            ("lowerAscii" | "upperAscii" | "substring" | "trim", true) | ("url", false) => {
                (first.traversal(), Some(first))
            }
            ("replace", true) => (scaled(first.most, 2.0 * STRING_FACTOR), Some(replaced(first, size(1), size(2)))),
            ("split", true) => (scaled(first.most, 2.0 * STRING_FACTOR), Some(pieces(first, call.args.get(2)))),
            ("join", true) => {
                let whole = self.joined(&args[0], args.get(1).map(Found::size));
                (whole.traversal(), Some(whole))
            }
            ("ip.isCanonical", _) => plain(scaled(first.most, 2.0 * STRING_FACTOR)),
            ("cidr" | "isIP" | "isCIDR" | "ip" | "quantity" | "isQuantity" | "semver" | "isSemver", false) => {
                plain(first.traversal())
            }
            ("containsIP" | "containsCIDR", true) => {
                plain(address_cost(call.function == "containsCIDR", ty(1), size(1)))
            }
            ("validate", true) => plain(scaled(size(1).traversal(), FORMAT_REGEX_LENGTH * REGEX_FACTOR)),
            ("sets.contains" | "sets.intersects", _) => plain(first.times(size(1)).most.saturating_add(1)),
            ("sets.equivalent", _) => plain(first.times(size(1)).most.saturating_mul(2).saturating_add(1)),
            _ => plain(1),
        }
    }

    /// Going once over a list with its texts, or over a text.
    fn walk(&self, ty: &Ty, target: &Found) -> u64 {
        let Ty::List(item) = ty else { return target.size().traversal() };
        let text = if matches!(**item, Ty::Text | Ty::Bytes) { self.item_size(target).traversal() } else { 0 };
        target.size().most.saturating_mul(text.saturating_add(1))
    }

    fn item_size(&self, list: &Found) -> Size {
        let known = (!list.path.is_empty()).then(|| self.bounds.at(&list.step("@items"))).flatten();
        known.unwrap_or(Size::UNKNOWN)
    }

    fn joined(&self, list: &Found, separator: Option<Size>) -> Size {
        let count = list.size();
        let texts = count.times(self.item_size(list));
        let between = Size { least: count.least.saturating_sub(1), most: count.most.saturating_sub(1) };
        separator.map_or(texts, |separator| texts.plus(separator.times(between)))
    }

    fn comprehension(&mut self, expr: &Expr, parts: &Macro) -> Found {
        let range = self.visit(&parts.range);
        if matches!(parts.kind, MacroKind::OptionalMap | MacroKind::OptionalFlatMap) {
            return self.optional(expr, parts, &range);
        }
        let outer = self.locals.len();
        self.push_variables(parts, &range);
        let condition = parts.condition.as_ref().map_or(0, |condition| self.visit(condition).cost);
        let body = self.visit(&parts.body);
        let element = self.ident(&parts.body, &parts.first);
        self.locals.truncate(outer);
        // What each turn adds to the body, and what the whole adds to its turns: the hidden result is read and written.
        let (turn, around, entries) = match parts.kind {
            MacroKind::All => (3, 1, None),
            MacroKind::Exists => (4, 1, None),
            MacroKind::ExistsOne => (2, 2, None),
            MacroKind::Filter => (NEW_LIST + 3, NEW_LIST + 1, Some((true, element.size()))),
            MacroKind::TransformMap => (3, NEW_MAP + 1, Some((false, body.size()))),
            _ => (NEW_LIST + 2, NEW_LIST + 1, Some((true, body.size()))),
        };
        let each = body.cost.saturating_add(condition).saturating_add(turn);
        let count = range.size();
        let cost = count.most.saturating_mul(each).saturating_add(range.cost).saturating_add(around);
        match entries {
            None => Found { cost, size: Some(Size::ONE), ..Found::default() },
            Some((is_list, value)) => {
                let value = value.or(Size { least: 0, most: 0 });
                // A map is filled by a function of which nothing more is known.
                let entries = is_list.then_some(Entries { is_list, key: Size::ONE, value });
                Found { cost, size: Some(count), entries, path: Vec::new() }
            }
        }
    }

    fn push_variables(&mut self, parts: &Macro, range: &Found) {
        let is_list = range.entries.map_or(matches!(parts.range.ty, Ty::List(_)), |entries| entries.is_list);
        let key = range.entries.map(|entries| entries.key);
        let value = range.entries.map(|entries| entries.value);
        let mut push = |name: &str, step: &str, size| {
            let found = Found { size, path: range.step(step), ..Found::default() };
            self.locals.push(Local { name: name.to_owned(), found });
        };
        match &parts.second {
            Some(second) => {
                push(&parts.first, if is_list { "@indices" } else { "@keys" }, key);
                push(second, if is_list { "@items" } else { "@values" }, value);
            }
            None if is_list => push(&parts.first, "@items", value),
            None => push(&parts.first, "@keys", key),
        }
    }

    fn optional(&mut self, expr: &Expr, parts: &Macro, range: &Found) -> Found {
        self.locals.push(Local { name: parts.first.clone(), found: Found::default() });
        let body = self.visit(&parts.body).cost;
        self.locals.pop();
        let wrapped = u64::from(parts.kind == MacroKind::OptionalMap);
        let bound = range.cost.saturating_add(body).saturating_add(NEW_LIST + 1 + wrapped);
        self.finish(expr, range.cost.saturating_add(1).saturating_add(bound), Found::default())
    }
}

fn union<'f>(found: impl Iterator<Item = &'f Found>) -> Size {
    found.map(Found::size).reduce(Size::or).unwrap_or(Size { least: 0, most: 0 })
}

fn literal_size(literal: &Literal) -> Size {
    match literal {
        Literal::Text(text) => Size::fixed(text.chars().count()),
        Literal::Bytes(bytes) => Size::fixed(bytes.len()),
        _ => Size::ONE,
    }
}

fn is_scalar(ty: &Ty) -> bool {
    match ty {
        Ty::Bool | Ty::Int | Ty::Uint | Ty::Double | Ty::Duration | Ty::Timestamp => true,
        Ty::Optional(inner) => is_scalar(inner),
        _ => false,
    }
}

fn is_text(ty: &Ty) -> bool {
    matches!(ty, Ty::Text | Ty::Bytes)
}

fn is_dyn(a: &Ty, b: &Ty) -> bool {
    matches!(a, Ty::Dyn) && matches!(b, Ty::Dyn)
}

fn opaque_equality(ty: &Ty, right: Option<&Found>) -> u64 {
    match ty {
        Ty::Opaque("kubernetes.NamedFormat") => scaled(FORMAT_LENGTH, STRING_FACTOR),
        Ty::Opaque("kubernetes.URL") => right.and_then(|found| found.size).unwrap_or(Size::ONE).traversal(),
        _ => 1,
    }
}

/// Matching takes the product of the text and of the states of the expression, which are guessed from its length.
fn regex_cost(text: Size, regex: Size) -> u64 {
    text.plus(Size::ONE).traversal().saturating_mul(scaled(regex.most, REGEX_FACTOR))
}

/// Addresses have four to sixteen bytes; one that is given as text is parsed first.
fn address_cost(is_network: bool, other: &Ty, other_size: Size) -> u64 {
    let compared = scaled(32, STRING_FACTOR);
    let masked = if is_network { scaled(16, STRING_FACTOR) + 1 } else { 0 };
    let parsed = if is_text(other) { other_size.traversal() } else { 0 };
    compared.saturating_add(masked).saturating_add(parsed)
}

/// How long a text gets when parts of it are replaced.
fn replaced(text: Size, old: Size, new: Size) -> Size {
    let (count, kept) = if old.least == 0 {
        (text.most.saturating_add(1), text.most)
    } else if new.most <= old.least {
        (0, text.most)
    } else {
        (text.most.div_ceil(old.least), 0)
    };
    Size { least: 0, most: count.saturating_mul(new.most).saturating_add(kept) }
}

/// Into how many parts a text is split at most.
fn pieces(text: Size, limit: Option<&Expr>) -> Size {
    let limit = match limit.map(|limit| &limit.kind) {
        Some(Kind::Literal(Literal::Int(limit))) => u64::try_from(*limit).unwrap_or(u64::MAX),
        _ => text.most,
    };
    Size { least: 0, most: limit }
}
