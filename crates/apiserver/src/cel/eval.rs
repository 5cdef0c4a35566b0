//! Evaluating an expression, within a budget.
//!
//! Every step costs, as in CEL's own accounting, so a hostile expression ends with [`Fault::OutOfBudget`] instead of
//! running on. Recursion is bounded by the parser's depth limit.

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use regex::Regex;

use super::ast::{Call, Expr, Kind, Literal, Macro, MacroKind};
use super::library;
use super::operators::equal;
use super::signatures::type_named;
use super::value::{Evaluated, Fault, Key, Text, Val};
use crate::schema::go_regex;

/// Cost of building a list, a map; of a loop's own bookkeeping per element; of compiling a regular expression that is not
/// a literal (some 10 µs per unit of cost would otherwise be far too cheap for it).
const LIST_COST: u64 = 10;
const MAP_COST: u64 = 30;
const STEP_COST: u64 = 3;
const REGEX_COST: u64 = 10_000;

/// One evaluation: its variables and what it may still spend.
pub(super) struct Evaluation<'a> {
    scope: Vec<(&'a str, Val<'a>)>,
    spent: u64,
    limit: u64,
    regexes: HashMap<String, Regex>,
}

impl<'a> Evaluation<'a> {
    pub(super) fn new(variables: Vec<(&'a str, Val<'a>)>, limit: u64) -> Self {
        Self { scope: variables, spent: 0, limit, regexes: HashMap::new() }
    }

    pub(super) fn spent(&self) -> u64 {
        self.spent
    }

    /// Takes the cost of a step out of the budget, before the step is made.
    pub(super) fn charge(&mut self, cost: u64) -> Result<(), Fault> {
        self.spent = self.spent.saturating_add(cost);
        if self.spent > self.limit { Err(Fault::OutOfBudget) } else { Ok(()) }
    }

    /// Charges for walking over `size` bytes or elements.
    pub(super) fn charge_walk(&mut self, size: usize) -> Result<(), Fault> {
        self.charge((size as u64).div_ceil(10))
    }

    pub(super) fn eval(&mut self, expr: &'a Expr) -> Evaluated<'a> {
        match &expr.kind {
            Kind::Literal(literal) => Ok(literal_value(literal)),
            Kind::Ident(name) => {
                self.charge(1)?;
                if let Some((_, value)) = self.scope.iter().rev().find(|(known, _)| known == name) {
                    return Ok(value.clone());
                }
                type_named(name)
                    .map(|ty| Val::Type(type_value_name(&ty)))
                    .ok_or_else(|| Fault::new(format!("no such attribute(s): {name}")))
            }
            Kind::Select { operand, field, optional } => {
                let operand = self.eval(operand)?;
                self.charge(1)?;
                select(&operand, field, *optional)
            }
            Kind::Has { operand, field } => {
                let operand = self.eval(operand)?;
                Ok(Val::Bool(lookup_field(&operand, field)?.is_some()))
            }
            Kind::Index { operand, index, optional } => {
                let operand = self.eval(operand)?;
                let index = self.eval(index)?;
                self.charge(1)?;
                element(&operand, &index, *optional)
            }
            Kind::Call(call) => self.call(call),
            Kind::And(terms) => self.junction(terms, false),
            Kind::Or(terms) => self.junction(terms, true),
            Kind::Conditional(parts) => match self.eval(&parts[0])? {
                Val::Bool(true) => self.eval(&parts[1]),
                Val::Bool(false) => self.eval(&parts[2]),
                _ => Err(Fault::no_overload()),
            },
            Kind::List(elements) => {
                self.charge(LIST_COST)?;
                let mut items = Vec::with_capacity(elements.len());
                for element in elements {
                    let value = self.eval(&element.value)?;
                    items.extend(if element.optional { held(value)? } else { Some(value) });
                }
                Ok(Val::list(items))
            }
            Kind::Map(entries) => {
                self.charge(MAP_COST)?;
                let mut map = BTreeMap::new();
                for (key, value, optional) in entries {
                    let key = self.eval(key)?.key().ok_or_else(|| Fault::new("unsupported key type"))?;
                    let value = self.eval(value)?;
                    let value = if *optional { held(value)? } else { Some(value) };
                    if let Some(value) = value {
                        if map.contains_key(&key) {
                            return Err(Fault::new(format!("insert failed: key {key} already exists")));
                        }
                        map.insert(key, value);
                    }
                }
                Ok(Val::Map(Rc::new(map)))
            }
            Kind::Macro(parts) => self.comprehension(parts),
        }
    }

    /// `&&` and `||`: the deciding value wins over failures, wherever it stands.
    fn junction(&mut self, terms: &'a [Expr], deciding: bool) -> Evaluated<'a> {
        let mut failure = None;
        for term in terms {
            match self.eval(term) {
                Ok(Val::Bool(value)) if value == deciding => return Ok(Val::Bool(deciding)),
                Ok(Val::Bool(_)) => {}
                Ok(_) => failure = failure.or(Some(Fault::no_overload())),
                Err(Fault::OutOfBudget) => return Err(Fault::OutOfBudget),
                Err(fault) => failure = failure.or(Some(fault)),
            }
        }
        failure.map_or(Ok(Val::Bool(!deciding)), Err)
    }

    fn call(&mut self, call: &'a Call) -> Evaluated<'a> {
        let mut args = Vec::with_capacity(call.args.len());
        for arg in &call.args {
            args.push(self.eval(arg)?);
        }
        self.charge(1)?;
        library::call(self, call, &args)
    }

    /// The compiled form of a pattern that was computed.
    pub(super) fn regex(&mut self, call: &'a Call, pattern: &str) -> Result<Regex, Fault> {
        if let Some(regex) = &call.regex {
            return Ok(regex.clone());
        }
        if let Some(regex) = self.regexes.get(pattern) {
            return Ok(regex.clone());
        }
        self.charge(REGEX_COST)?;
        let regex = go_regex(pattern).map_err(Fault::new)?;
        self.regexes.insert(pattern.to_owned(), regex.clone());
        Ok(regex)
    }

    fn comprehension(&mut self, parts: &'a Macro) -> Evaluated<'a> {
        let range = self.eval(&parts.range)?;
        if matches!(parts.kind, MacroKind::OptionalMap | MacroKind::OptionalFlatMap) {
            return self.optional_macro(parts, &range);
        }
        self.charge(range.size() as u64)?;
        let steps = steps(&range, parts.second.is_some())?;
        let mut walk = Walk::new(parts);
        for (first, second) in steps {
            self.charge(STEP_COST)?;
            let element = (first.clone(), second.clone());
            self.scope.push((&parts.first, first));
            if let (Some(name), Some(second)) = (&parts.second, second) {
                self.scope.push((name, second));
            }
            let outcome = self.step(parts);
            self.scope.truncate(self.scope.len() - 1 - usize::from(parts.second.is_some()));
            if walk.take(element, outcome)? {
                break;
            }
        }
        walk.finish()
    }

    /// The body's value for the current variables, or none if the condition skips the element.
    fn step(&mut self, parts: &'a Macro) -> Result<Option<Val<'a>>, Fault> {
        if let Some(condition) = &parts.condition {
            match self.eval(condition)? {
                Val::Bool(true) => {}
                Val::Bool(false) => return Ok(None),
                _ => return Err(Fault::no_overload()),
            }
        }
        self.eval(&parts.body).map(Some)
    }

    fn optional_macro(&mut self, parts: &'a Macro, range: &Val<'a>) -> Evaluated<'a> {
        let Val::Optional(inner) = range else { return Err(Fault::no_overload()) };
        let Some(inner) = inner else { return Ok(Val::Optional(None)) };
        self.scope.push((&parts.first, (**inner).clone()));
        let outcome = self.eval(&parts.body);
        self.scope.pop();
        let value = outcome?;
        Ok(if parts.kind == MacroKind::OptionalMap { Val::some(value) } else { value })
    }
}

/// What a macro has gathered so far.
struct Walk<'a> {
    parts: &'a Macro,
    items: Vec<Val<'a>>,
    /// The keys of `transformMap`'s entries.
    keys: Vec<Val<'a>>,
    hits: usize,
    failure: Option<Fault>,
    decided: bool,
}

impl<'a> Walk<'a> {
    fn new(parts: &'a Macro) -> Self {
        Self { parts, items: Vec::new(), keys: Vec::new(), hits: 0, failure: None, decided: false }
    }

    /// Takes in one element; true if the outcome is decided.
    fn take(
        &mut self,
        element: (Val<'a>, Option<Val<'a>>),
        outcome: Result<Option<Val<'a>>, Fault>,
    ) -> Result<bool, Fault> {
        let value = match (outcome, self.parts.kind) {
            // Another element may still decide all() and exists().
            (Err(fault @ Fault::Failed(_)), MacroKind::All | MacroKind::Exists) => {
                self.failure.get_or_insert(fault);
                return Ok(false);
            }
            (outcome, _) => match outcome? {
                Some(value) => value,
                None => return Ok(false),
            },
        };
        match (self.parts.kind, value) {
            (MacroKind::All, Val::Bool(flag)) => self.decided = !flag,
            (MacroKind::Exists, Val::Bool(flag)) => self.decided = flag,
            (MacroKind::ExistsOne, Val::Bool(flag)) => self.hits += usize::from(flag),
            (MacroKind::Filter, Val::Bool(flag)) => self.items.extend(flag.then_some(element.0)),
            (MacroKind::All | MacroKind::Exists | MacroKind::ExistsOne | MacroKind::Filter, _) => {
                return Err(Fault::no_overload());
            }
            (MacroKind::TransformMap, value) => {
                self.keys.push(element.0);
                self.items.push(value);
            }
            (_, value) => self.items.push(value),
        }
        Ok(self.decided)
    }

    fn finish(mut self) -> Evaluated<'a> {
        if let Some(fault) = self.failure.take().filter(|_| !self.decided) {
            return Err(fault);
        }
        Ok(match self.parts.kind {
            MacroKind::All => Val::Bool(!self.decided),
            MacroKind::Exists => Val::Bool(self.decided),
            MacroKind::ExistsOne => Val::Bool(self.hits == 1),
            MacroKind::TransformMap => {
                let keys = self.keys.iter().map(|key| key.key().ok_or_else(Fault::no_overload));
                let keys: Vec<Key> = keys.collect::<Result<_, _>>()?;
                Val::Map(Rc::new(keys.into_iter().zip(self.items).collect()))
            }
            _ => Val::list(self.items),
        })
    }
}

type Step<'a> = (Val<'a>, Option<Val<'a>>);

/// What the variables of a macro go through: items, keys, or pairs of index or key and value.
fn steps<'a>(range: &Val<'a>, pairs: bool) -> Result<Vec<Step<'a>>, Fault> {
    if let Some(items) = range.items() {
        let items = items?;
        return Ok(if pairs {
            let indexes = (0i64..).map(Val::Int);
            indexes.zip(items).map(|(index, item)| (index, Some(item))).collect()
        } else {
            items.into_iter().map(|item| (item, None)).collect()
        });
    }
    match range {
        Val::Map(entries) => Ok(entries.iter().map(|(key, value)| (key.val(), pairs.then(|| value.clone()))).collect()),
        Val::Json(view) => {
            let fields = view.value.as_object().into_iter().flatten();
            fields
                .filter_map(|(name, _)| view.entry(name).map(|value| (name, value)))
                .map(|(name, value)| {
                    let second = if pairs { Some(value?) } else { None };
                    Ok((Val::Text(Text::Borrowed(name)), second))
                })
                .collect()
        }
        _ => Err(Fault::no_overload()),
    }
}

fn held(value: Val<'_>) -> Result<Option<Val<'_>>, Fault> {
    match value {
        Val::Optional(inner) => Ok(inner.map(|inner| (*inner).clone())),
        _ => Err(Fault::no_overload()),
    }
}

fn lookup_field<'a>(operand: &Val<'a>, field: &str) -> Result<Option<Val<'a>>, Fault> {
    match operand {
        Val::Json(view) if view.value.is_object() => view.field(field).transpose(),
        Val::Map(entries) => Ok(entries.get(&Key::Text(field.into())).cloned()),
        Val::Optional(Some(inner)) => lookup_field(inner, field),
        Val::Optional(None) => Ok(None),
        _ => Err(Fault::no_overload()),
    }
}

fn select<'a>(operand: &Val<'a>, field: &str, optional: bool) -> Evaluated<'a> {
    let found = lookup_field(operand, field)?;
    if optional || matches!(operand, Val::Optional(_)) {
        return Ok(Val::Optional(found.map(Rc::new)));
    }
    found.ok_or_else(|| Fault::new(format!("no such key: {field}")))
}

fn lookup_element<'a>(operand: &Val<'a>, index: &Val<'a>) -> Result<Option<Val<'a>>, Fault> {
    match operand {
        Val::Optional(Some(inner)) => lookup_element(inner, index),
        Val::Optional(None) => Ok(None),
        Val::Map(entries) => Ok(index.key().and_then(|key| entries.get(&key).cloned())),
        Val::Json(view) if view.value.is_object() => match index {
            Val::Text(name) => view.entry(name).transpose(),
            _ => Err(Fault::no_overload()),
        },
        Val::Json(view) => {
            let item = position(index)?.and_then(|at| view.items().get(at));
            item.map(|item| view.item(item)).transpose()
        }
        Val::List(items) => Ok(position(index)?.and_then(|at| items.get(at).cloned())),
        _ => Err(Fault::no_overload()),
    }
}

fn position(index: &Val<'_>) -> Result<Option<usize>, Fault> {
    match index.key() {
        Some(Key::Int(at)) => Ok(usize::try_from(at).ok()),
        _ => Err(Fault::new(format!("unsupported index type '{}' in list", index.type_name()))),
    }
}

fn element<'a>(operand: &Val<'a>, index: &Val<'a>, optional: bool) -> Evaluated<'a> {
    let found = lookup_element(operand, index)?;
    if optional || matches!(operand, Val::Optional(_)) {
        return Ok(Val::Optional(found.map(Rc::new)));
    }
    found.ok_or_else(|| {
        let shown = index.key().map(|key| key.to_string()).unwrap_or_default();
        Fault::new(if operand.is_list() {
            format!("index out of bounds: {shown}")
        } else {
            format!("no such key: {shown}")
        })
    })
}

/// Whether `value` is an item of a list or a key of a map.
pub(super) fn contains<'a>(
    evaluation: &mut Evaluation<'a>,
    value: &Val<'a>,
    collection: &Val<'a>,
) -> Result<bool, Fault> {
    if let Some(items) = collection.items() {
        for item in items? {
            if equal(evaluation, value, &item)? {
                return Ok(true);
            }
        }
        return Ok(false);
    }
    match collection {
        Val::Map(_) | Val::Json(_) => Ok(lookup_element(collection, value).is_ok_and(|found| found.is_some())),
        _ => Err(Fault::no_overload()),
    }
}

fn literal_value(literal: &Literal) -> Val<'_> {
    match literal {
        Literal::Null => Val::Null,
        Literal::Bool(flag) => Val::Bool(*flag),
        Literal::Int(number) => Val::Int(*number),
        Literal::Uint(number) => Val::Uint(*number),
        Literal::Double(number) => Val::Double(*number),
        Literal::Text(text) => Val::Text(Text::Borrowed(text)),
        Literal::Bytes(bytes) => Val::Bytes(bytes.as_slice().into()),
    }
}

/// The name by which a type is compared.
fn type_value_name(ty: &super::types::Ty) -> &'static str {
    use super::types::Ty;
    match ty {
        Ty::Null => "null_type",
        Ty::Bool => "bool",
        Ty::Int => "int",
        Ty::Uint => "uint",
        Ty::Double => "double",
        Ty::Text => "string",
        Ty::Bytes => "bytes",
        Ty::Duration => "google.protobuf.Duration",
        Ty::Timestamp => "google.protobuf.Timestamp",
        Ty::Type(_) => "type",
        Ty::List(_) => "list",
        Ty::Map(_) => "map",
        Ty::Object(_) => "object",
        Ty::Optional(_) => "optional_type",
        Ty::Opaque(name) => name,
        Ty::Dyn | Ty::Param(_) => "dyn",
    }
}
