//! Compiles the rules of a schema, and evaluates them on an object.
//!
//! Defines which rules apply where, what `oldSelf` is, and how a failure is worded. Rules that use the old value run only
//! where there is one.

use std::collections::BTreeMap;

use serde_json::Value;

use super::ast::{Expr, Kind};
use super::check::check;
use super::cost::{self, Bounds};
use super::eval::Evaluation;
use super::types::{Ty, declared, escaped};
use super::value::{Fault, Val, view};
use super::{field_path, issue, parser};
use crate::field::{self, FieldError};
use crate::schema::path::{child, index, key, shown};
use crate::schema::{Additional, KeyedItems, ListType, Rule, Schema, equal_by_schema};

/// Cost units one rule may spend on one value: about a tenth of a second on the real server.
pub(crate) const RULE_BUDGET: u64 = 1_000_000;
/// Cost units all rules together may spend on one object.
pub(crate) const OBJECT_BUDGET: u64 = 10_000_000;
/// Bytes of a message that a rule computes.
const MESSAGE_LIMIT: usize = 5 * 1024;

/// The compiled rules of a schema.
#[derive(Debug, Clone)]
pub(crate) struct Rules {
    schema: Schema,
    root: Option<RuleNode>,
}

/// The rules at one place of the schema and below. Places without any are left out.
#[derive(Debug, Clone, Default)]
struct RuleNode {
    programs: Vec<Program>,
    items: Option<Box<RuleNode>>,
    entries: Option<Box<RuleNode>>,
    properties: BTreeMap<String, RuleNode>,
}

#[derive(Debug, Clone)]
struct Program {
    rule: Rule,
    condition: Expr,
    message: Option<Expr>,
    uses_old: bool,
    /// The rule's `fieldPath`, as findings show it.
    field_path: Option<String>,
}

impl Rules {
    /// Compiles all rules of a schema; findings name places below `path`.
    pub(crate) fn compile(path: &str, schema: &Schema) -> Result<Self, Vec<FieldError>> {
        let limits = (cost::RULE_LIMIT, cost::SCHEMA_LIMIT);
        Self::compile_within(path, schema, limits)
    }

    /// `limits` are what one rule and all rules of the schema may cost by estimate.
    fn compile_within(path: &str, schema: &Schema, limits: (u64, u64)) -> Result<Self, Vec<FieldError>> {
        let mut compiler = Compiler { findings: Vec::new(), total: 0, expensive: Vec::new(), limits };
        let ty = declared(schema, true);
        let around = Around { uncorrelated: None, resource: true, times: Some(1) };
        let root = compiler.node(path, schema, ty.as_ref(), around);
        compiler.judge_total(path);
        if compiler.findings.is_empty() { Ok(Self { schema: schema.clone(), root }) } else { Err(compiler.findings) }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.root.is_none()
    }

    /// The findings about a whole object that replaces `old`. It must be valid by its schema.
    pub(crate) fn check(&self, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let Some(root) = &self.root else { return Vec::new() };
        let ratchet = Ratchet { current: old.map(|old| (&self.schema, new, old)), parent: None };
        let mut run = Run { findings: Vec::new(), remaining: OBJECT_BUDGET, compared: None };
        // Running out of budget ends the run; the finding about it is already there.
        let _ = run.node(root, Place { path: "", schema: &self.schema, resource: true }, new, old, ratchet);
        run.findings
    }
}

struct Compiler {
    findings: Vec<FieldError>,
    /// Of a rule and of all.
    limits: (u64, u64),
    /// What all rules cost by estimate.
    total: u64,
    /// The rules with the largest part in it, by their places.
    expensive: Vec<(u64, String)>,
}

/// What a schema inherits from those above it.
#[derive(Clone, Copy)]
struct Around<'a> {
    /// The path of the closest list or map whose old items cannot be told apart.
    uncorrelated: Option<&'a str>,
    resource: bool,
    /// How many values of the schema an object may have; none if lists or maps above have no bound.
    times: Option<u64>,
}

impl Compiler {
    /// Rules that share in an estimate that is too high for the whole schema are named, at most this many.
    const NAMED: usize = 4;

    fn judge_total(&mut self, path: &str) {
        if self.total <= self.limits.1 {
            return;
        }
        let detail = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema";
        self.findings.extend(self.expensive.drain(..).map(|(_, place)| FieldError::forbidden(place, detail)));
        let what = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema";
        self.findings.push(FieldError::forbidden(path, cost::too_expensive(what, self.total, self.limits.1)));
    }

    /// Counts the cost of a rule or message and refuses one that is too high by itself.
    fn count(&mut self, place: String, what: &str, cost: u64) {
        if cost > self.limits.0 {
            let detail = cost::too_expensive(what, cost, self.limits.0);
            self.findings.push(FieldError::forbidden(place.clone(), detail));
        }
        self.total = self.total.saturating_add(cost);
        if cost >= self.limits.1 / 100 {
            self.expensive.push((cost, place));
            self.expensive.sort_by_key(|rule| std::cmp::Reverse(rule.0));
            self.expensive.truncate(Self::NAMED);
        }
    }

    fn node(&mut self, path: &str, schema: &Schema, ty: Option<&Ty>, around: Around<'_>) -> Option<RuleNode> {
        let Around { uncorrelated, resource, times } = around;
        let mut node = RuleNode { programs: self.programs(path, schema, ty, around), ..RuleNode::default() };
        let times = times.zip(cost::multiplicity(schema)).map(|(above, here)| above.saturating_mul(here));
        if let Some(items) = &schema.items {
            let item_type = match ty {
                Some(Ty::List(item)) => Some(&**item),
                _ => None,
            };
            let by_key = matches!(schema.list_type, ListType::Map(_));
            let uncorrelated = uncorrelated.or((!by_key).then_some(path));
            let place = child(path, "items");
            let around = Around { uncorrelated, resource: items.embedded_resource, times };
            node.items = self.node(&place, items, item_type, around).map(Box::new);
        }
        if let Additional::Schema(shared) = &schema.additional {
            let entry_type = match ty {
                Some(Ty::Map(entry)) => Some(&entry.1),
                _ => None,
            };
            let place = child(path, "additionalProperties");
            let around = Around { uncorrelated, resource: shared.embedded_resource, times };
            node.entries = self.node(&place, shared, entry_type, around).map(Box::new);
        }
        for (name, property) in &schema.properties {
            let meta = resource && matches!(name.as_str(), "metadata" | "kind" | "apiVersion");
            let own_type = match (ty, escaped(name)) {
                (Some(Ty::Object(fields)), Some(escaped)) if !meta => fields.get(&escaped).cloned(),
                _ => declared(property, property.embedded_resource),
            };
            let place = key(&child(path, "properties"), name);
            let around = Around { uncorrelated, resource: property.embedded_resource, times };
            let own = self.node(&place, property, own_type.as_ref(), around);
            node.properties.extend(own.map(|own| (name.clone(), own)));
        }
        let empty =
            node.programs.is_empty() && node.items.is_none() && node.entries.is_none() && node.properties.is_empty();
        if empty {
            return None;
        }
        self.default_value(path, schema, &node);
        Some(node)
    }

    /// A default must follow the rules itself, both as a new value and as one that stays.
    fn default_value(&mut self, path: &str, schema: &Schema, node: &RuleNode) {
        let Some(default) = schema.default.as_ref().filter(|_| self.findings.is_empty()) else { return };
        let place = child(path, "default");
        for old in [Some(default), None] {
            let mut run = Run { findings: Vec::new(), remaining: OBJECT_BUDGET, compared: None };
            let at = Place { path: &place, schema, resource: schema.embedded_resource };
            let _ = run.node(node, at, default, old, Ratchet::default());
            if !run.findings.is_empty() {
                self.findings.extend(run.findings);
                return;
            }
        }
    }

    fn programs(&mut self, path: &str, schema: &Schema, ty: Option<&Ty>, around: Around<'_>) -> Vec<Program> {
        if schema.rules.is_empty() {
            return Vec::new();
        }
        let place = child(path, "x-kubernetes-validations");
        let Some(ty) = ty else {
            let detail = "failed to convert to declType for CEL validation rules".to_owned();
            self.findings.push(FieldError { fault: field::Fault::Internal, path: place, value: None, detail });
            return Vec::new();
        };
        let bounds = Bounds::of(schema, around.resource).unwrap_or_default();
        let times = around.times.unwrap_or_else(|| bounds.times_in_request());
        let rules = schema.rules.iter().enumerate().filter(|(_, rule)| !rule.expression.trim().is_empty());
        rules
            .filter_map(|(position, rule)| {
                let place = index(&place, position);
                let program = self.program(&place, schema, rule, ty, around.uncorrelated)?;
                let cost = cost::estimate(&program.condition, &bounds).saturating_mul(times);
                self.count(child(&place, "rule"), "estimated rule cost", cost);
                if let Some(message) = &program.message {
                    let cost = cost::estimate(message, &bounds);
                    self.count(child(&place, "messageExpression"), "estimated messageExpression cost", cost);
                }
                Some(program)
            })
            .collect()
    }

    fn program(
        &mut self,
        place: &str,
        schema: &Schema,
        rule: &Rule,
        ty: &Ty,
        uncorrelated: Option<&str>,
    ) -> Option<Program> {
        let old_type = if rule.optional_old_self { Ty::Optional(ty.clone().into()) } else { ty.clone() };
        let variables = [("self", ty.clone()), ("oldSelf", old_type)];
        let mut refuse = |field: &str, detail: String| {
            let value = Some(rule_text(rule));
            self.findings.push(FieldError { fault: field::Fault::Invalid, path: child(place, field), value, detail });
        };
        let condition = match expression(&rule.expression, &variables) {
            Ok((condition, Ty::Bool)) => Some(condition),
            Ok(_) => {
                refuse("rule", "cel expression must evaluate to a bool".to_owned());
                None
            }
            Err(text) => {
                refuse("rule", text);
                None
            }
        }?;
        let mut message = None;
        if !rule.message_expression.is_empty() {
            match expression(&rule.message_expression, &variables) {
                Ok((expr, Ty::Text)) => message = Some(expr),
                Ok(_) => refuse("messageExpression", "messageExpression must evaluate to a string".to_owned()),
                Err(text) => refuse("messageExpression", format!("messageExpression {text}")),
            }
        }
        let uses_old = condition.mentions("oldSelf");
        if let Some(list) = uncorrelated.filter(|_| uses_old) {
            let detail = format!("oldSelf cannot be used on the uncorrelatable portion of the schema within {list}");
            self.findings.push(FieldError::invalid(
                child(place, "rule"),
                &Value::from(rule.expression.as_str()),
                detail,
            ));
        } else if rule.optional_old_self && !uses_old {
            let detail = "may not be set if oldSelf is not used in rule";
            self.findings.push(FieldError::invalid(child(place, "optionalOldSelf"), &Value::Bool(true), detail));
        }
        let field_path = field_path::normalized(&rule.field_path, schema);
        Some(Program { rule: rule.clone(), condition, message, uses_old, field_path })
    }
}

/// Parses and checks an expression; the error shows all findings with their places.
fn expression(source: &str, variables: &[(&str, Ty)]) -> Result<(Expr, Ty), String> {
    let failed = |found: &[issue::Issue]| format!("compilation failed: {}", issue::shown(found, source));
    let mut expr = parser::parse(source).map_err(|found| failed(&[found]))?;
    let ty = check(&mut expr, variables).map_err(|found| failed(&found))?;
    match constant_fault(&expr) {
        Some(fault) => Err(format!("program instantiation failed: {fault}")),
        None => Ok((expr, ty)),
    }
}

/// Conversions of literals are carried out at once, so that one that must fail is refused.
fn constant_fault(expr: &Expr) -> Option<Fault> {
    const CONVERSIONS: [&str; 8] = ["bool", "int", "uint", "double", "string", "bytes", "timestamp", "duration"];
    if let Kind::Call(call) = &expr.kind {
        let constant = matches!(call.args.as_slice(), [Expr { kind: Kind::Literal(_), .. }]);
        if constant && !call.member && CONVERSIONS.contains(&call.function.as_str()) {
            return Evaluation::new(Vec::new(), RULE_BUDGET).eval(expr).err();
        }
    }
    expr.kind.children().into_iter().find_map(constant_fault)
}

/// A rule as the real server prints it inside a finding: its own struct as JSON.
fn rule_text(rule: &Rule) -> String {
    let text = |text: &str| {
        let plain = Value::from(text).to_string();
        plain.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
    };
    let reason = if rule.reason.is_empty() { "null".to_owned() } else { text(&rule.reason) };
    format!(
        r#"{{"Rule":{},"Message":{},"MessageExpression":{},"Reason":{reason},"FieldPath":{},"OptionalOldSelf":{}}}"#,
        text(&rule.expression),
        text(&rule.message),
        text(&rule.message_expression),
        text(&rule.field_path),
        if rule.optional_old_self { "true" } else { "null" },
    )
}

type Pair<'a> = (&'a Schema, &'a Value, &'a Value);

/// New and old value of the place at hand, and of the closest one above it that had an old value.
#[derive(Clone, Copy, Default)]
struct Ratchet<'a> {
    current: Option<Pair<'a>>,
    parent: Option<Pair<'a>>,
}

impl<'a> Ratchet<'a> {
    fn below(self, find: impl FnOnce(Pair<'a>) -> Option<Pair<'a>>) -> Self {
        match self.current {
            None => self,
            Some(pair) => Self { current: find(pair), parent: Some(pair) },
        }
    }

    fn field(self, name: &str) -> Self {
        if self.current.is_some() && self.parent.is_none() && matches!(name, "apiVersion" | "kind") {
            return Self::default();
        }
        self.below(|(schema, new, old)| Some((schema.field(name)?, new.get(name)?, old.get(name)?)))
    }

    /// For the items of the list at hand.
    fn items(self) -> ItemRatchet<'a> {
        let old = self.current.and_then(|(schema, _, old)| {
            let ListType::Map(keys) = &schema.list_type else { return None };
            Some((&**schema.items.as_ref()?, KeyedItems::new(keys, old.as_array()?)))
        });
        ItemRatchet { list: self, old }
    }
}

/// As `Ratchet`, for the items of one list.
struct ItemRatchet<'a> {
    list: Ratchet<'a>,
    /// The schema of the items, and the old items if they can be told apart.
    old: Option<(&'a Schema, KeyedItems<'a, 'a>)>,
}

impl<'a> ItemRatchet<'a> {
    fn of(&self, item: &'a Value) -> Ratchet<'a> {
        self.list.below(|_| {
            let (schema, old) = self.old.as_ref()?;
            Some((schema, item, old.find(item)?))
        })
    }
}

#[derive(Clone, Copy)]
struct Place<'a> {
    path: &'a str,
    schema: &'a Schema,
    resource: bool,
}

/// The run over an object was ended early.
struct Stopped;

struct Run {
    findings: Vec<FieldError>,
    remaining: u64,
    compared: Option<Compared>,
}

/// The outcome of the last comparison of a new and an old value, by where they stand in memory. Many rules ask for the
/// same one: those of all items of a list whose items cannot be told apart compare the whole list.
struct Compared {
    new: usize,
    old: usize,
    equal: bool,
}

impl Run {
    fn node<'a>(
        &mut self,
        node: &'a RuleNode,
        place: Place<'_>,
        new: &'a Value,
        old: Option<&'a Value>,
        ratchet: Ratchet<'a>,
    ) -> Result<(), Stopped>
    where
        Self: 'a,
    {
        if new.is_null() {
            return Ok(());
        }
        let old = old.filter(|old| !old.is_null());
        for program in &node.programs {
            self.program(program, place, new, old, ratchet)?;
        }
        match new {
            Value::Array(items) => {
                let (Some(node), Some(schema)) = (&node.items, &place.schema.items) else { return Ok(()) };
                let old_items = old.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
                let old_items = match &place.schema.list_type {
                    ListType::Map(keys) => Some(KeyedItems::new(keys, old_items)),
                    _ => None,
                };
                let ratchet = ratchet.items();
                for (position, item) in items.iter().enumerate() {
                    let old_item = old_items.as_ref().and_then(|old| old.find(item));
                    let path = index(place.path, position);
                    let below = Place { path: &path, schema, resource: schema.embedded_resource };
                    self.node(node, below, item, old_item, ratchet.of(item))?;
                }
            }
            Value::Object(fields) => {
                for (name, value) in fields {
                    let old_value = old.and_then(|old| old.get(name));
                    if let (Some(node), Additional::Schema(schema)) = (&node.entries, &place.schema.additional) {
                        let path = key(place.path, name);
                        let below = Place { path: &path, schema, resource: schema.embedded_resource };
                        self.node(node, below, value, old_value, ratchet.field(name))?;
                    }
                    if let Some((node, schema)) = node.properties.get(name).zip(place.schema.properties.get(name)) {
                        let path = child(place.path, name);
                        let below = Place { path: &path, schema, resource: schema.embedded_resource };
                        self.node(node, below, value, old_value, ratchet.field(name))?;
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn program(
        &mut self,
        program: &Program,
        place: Place<'_>,
        new: &Value,
        old: Option<&Value>,
        ratchet: Ratchet<'_>,
    ) -> Result<(), Stopped> {
        let optional = program.rule.optional_old_self;
        if program.uses_old && old.is_none() && !optional {
            return Ok(());
        }
        let path = shown(place.path);
        let type_name = Value::from(if place.schema.int_or_string { "" } else { place.schema.json_type.name() });
        let refuse = |detail: String| FieldError::invalid(path.clone(), &type_name, detail);
        if self.remaining == 0 {
            self.findings.push(refuse(OUT_OF_BUDGET.to_owned()));
            return Err(Stopped);
        }
        let (outcome, spent) = evaluate(&program.condition, place, new, old, optional);
        if spent > self.remaining {
            self.findings.push(refuse(OUT_OF_BUDGET.to_owned()));
            return Err(Stopped);
        }
        self.remaining -= spent;
        let text = rule_name(&program.rule);
        match outcome {
            Ok(Val::Bool(true)) => Ok(()),
            Ok(_) => self.failed(program, place, new, old, ratchet),
            Err(fault @ Fault::OutOfBudget) => {
                let why = "no further validation rules will be run due to call cost exceeds limit for rule";
                self.findings.push(refuse(format!("'{fault}': {why}: {text}")));
                Err(Stopped)
            }
            Err(Fault::Failed(message)) if message.starts_with("no such overload") => {
                let why = "call arguments did not match a supported operator, function or macro signature for rule";
                self.findings.push(refuse(format!("'{message}': {why}: {text}")));
                Ok(())
            }
            Err(Fault::Failed(message)) => {
                self.findings.push(refuse(format!("{message} evaluating rule: {text}")));
                Ok(())
            }
        }
    }

    /// A rule that fails on what did not change is not held against an update.
    fn forgives(&mut self, ratchet: Ratchet<'_>) -> bool {
        let Some((schema, new, old)) = ratchet.current.or(ratchet.parent) else { return false };
        let (new_place, old_place) = (std::ptr::from_ref(new).addr(), std::ptr::from_ref(old).addr());
        match &self.compared {
            Some(known) if (known.new, known.old) == (new_place, old_place) => known.equal,
            _ => {
                #[cfg(test)]
                crate::testing::count_steps(new.as_array().map_or(1, Vec::len));
                let equal = equal_by_schema(schema, new, old);
                self.compared = Some(Compared { new: new_place, old: old_place, equal });
                equal
            }
        }
    }

    fn failed(
        &mut self,
        program: &Program,
        place: Place<'_>,
        new: &Value,
        old: Option<&Value>,
        ratchet: Ratchet<'_>,
    ) -> Result<(), Stopped> {
        if !program.uses_old && self.forgives(ratchet) {
            return Ok(());
        }
        let rule = &program.rule;
        let path = shown(&match &program.field_path {
            Some(below) if below.starts_with('[') => format!("{}{below}", place.path),
            Some(below) => child(place.path, below),
            None => place.path.to_owned(),
        });
        let type_name = Value::from(if place.schema.int_or_string { "" } else { place.schema.json_type.name() });
        let mut detail = if rule.message.is_empty() {
            format!("failed rule: {}", rule_name(rule))
        } else {
            rule_name(rule).to_owned()
        };
        if let Some(expr) = &program.message {
            let (outcome, spent) = evaluate(expr, place, new, old, false);
            let stop = match &outcome {
                _ if spent > self.remaining => Some(MESSAGE_OUT_OF_BUDGET.to_owned()),
                Err(Fault::OutOfBudget) => Some(format!(
                    "no further validation rules will be run due to call cost exceeds limit for messageExpression: {:?}",
                    rule.message_expression
                )),
                _ => None,
            };
            if let Some(detail) = stop {
                self.findings.push(FieldError::invalid(path, &type_name, detail));
                return Err(Stopped);
            }
            self.remaining -= spent;
            if let Ok(Val::Text(text)) = outcome {
                let text = text.trim();
                if !text.is_empty() && text.len() <= MESSAGE_LIMIT && !text.contains('\n') {
                    text.clone_into(&mut detail);
                }
            }
        }
        self.findings.push(match rule.reason.as_str() {
            "FieldValueForbidden" => FieldError::forbidden(path, detail),
            "FieldValueRequired" => FieldError::required(path, detail),
            "FieldValueDuplicate" => FieldError::duplicate(path, &type_name),
            _ => FieldError::invalid(path, &type_name, detail),
        });
        Ok(())
    }
}

const OUT_OF_BUDGET: &str =
    "validation failed due to running out of cost budget, no further validation rules will be run";

const MESSAGE_OUT_OF_BUDGET: &str =
    "messageExpression evaluation failed due to running out of cost budget, no further validation rules will be run";

/// How a rule is called in a finding: by its message, or else by its text.
fn rule_name(rule: &Rule) -> &str {
    if rule.message.is_empty() { rule.expression.trim() } else { rule.message.trim() }
}

fn evaluate<'a>(
    expr: &'a Expr,
    place: Place<'a>,
    new: &'a Value,
    old: Option<&'a Value>,
    optional: bool,
) -> (Result<Val<'a>, Fault>, u64) {
    let bind = |value: &'a Value| view(value, place.schema, place.resource);
    let variables = || {
        let mut variables = vec![("self", bind(new)?)];
        match (old, optional) {
            (Some(old), false) => variables.push(("oldSelf", bind(old)?)),
            (Some(old), true) => variables.push(("oldSelf", Val::some(bind(old)?))),
            (None, true) => variables.push(("oldSelf", Val::Optional(None))),
            (None, false) => {}
        }
        Ok(variables)
    };
    match variables() {
        Ok(variables) => {
            let mut evaluation = Evaluation::new(variables, RULE_BUDGET);
            let outcome = evaluation.eval(expr);
            (outcome, evaluation.spent())
        }
        Err(fault) => (Err(fault), 0),
    }
}

#[cfg(test)]
mod tests;
