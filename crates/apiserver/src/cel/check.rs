//! Whether an expression makes sense for the types of its variables, before it is ever evaluated.

use std::sync::Arc;

use super::ast::{Call, Expr, Kind, Literal, Macro, MacroKind};
use super::issue::Issue;
use super::library::strings::{Piece, clause_fault, pieces};
use super::signatures::{self, Signature, overloads, type_named};
use super::types::{Bindings, Ty, join};
use crate::schema::go_regex;

/// Checks `expr`, compiles its literal regular expressions, and gives its type.
pub(super) fn check(expr: &mut Expr, variables: &[(&str, Ty)]) -> Result<Ty, Vec<Issue>> {
    let scope = variables.iter().map(|(name, ty)| ((*name).to_owned(), ty.clone())).collect();
    let mut checker = Checker { scope, issues: Vec::new(), mixed_lists: 0 };
    let ty = checker.visit(expr);
    checker.issues.sort_by_key(|issue| issue.at);
    if checker.issues.is_empty() { Ok(ty) } else { Err(checker.issues) }
}

struct Checker {
    scope: Vec<(String, Ty)>,
    issues: Vec<Issue>,
    /// Calls of `format` around the place at hand: their lists may hold anything.
    mixed_lists: usize,
}

impl Checker {
    /// After a finding the type is dynamic, so that one mistake is reported once.
    fn fail(&mut self, at: usize, message: String) -> Ty {
        self.issues.push(Issue::new(at, message));
        Ty::Dyn
    }

    fn demand(&mut self, at: usize, wanted: &Ty, actual: &Ty) {
        if !Bindings::default().accept(wanted, actual) {
            self.fail(at, format!("expected type '{wanted}' but found '{actual}'"));
        }
    }

    fn visit(&mut self, expr: &mut Expr) -> Ty {
        let ty = self.type_of(expr);
        expr.ty = ty.clone();
        ty
    }

    fn type_of(&mut self, expr: &mut Expr) -> Ty {
        let at = expr.at;
        match &mut expr.kind {
            Kind::Literal(literal) => literal_type(literal),
            Kind::Ident(name) => match self.scope.iter().rev().find(|(known, _)| known == name) {
                Some((_, ty)) => ty.clone(),
                None => match type_named(name) {
                    Some(ty) => Ty::Type(Arc::new(ty)),
                    None => self.fail(at, format!("undeclared reference to '{name}' (in container '')")),
                },
            },
            Kind::Select { operand, field, optional } => {
                let operand_type = self.visit(operand);
                let (inner, wrapped) = match &operand_type {
                    Ty::Optional(inner) => ((**inner).clone(), true),
                    other => (other.clone(), *optional),
                };
                let ty = self.field(at, &inner, field);
                if wrapped { Ty::Optional(Arc::new(ty)) } else { ty }
            }
            Kind::Has { operand, field } => {
                let operand_type = self.visit(operand);
                let inner = if let Ty::Optional(inner) = &operand_type { (**inner).clone() } else { operand_type };
                self.field(at, &inner, field);
                Ty::Bool
            }
            Kind::Index { operand, index, optional } => {
                let operand_type = self.visit(operand);
                let index_type = self.visit(index);
                let (inner, wrapped) = match &operand_type {
                    Ty::Optional(inner) => ((**inner).clone(), true),
                    other => (other.clone(), *optional),
                };
                let ty = self.element(at, &inner, &index_type);
                if wrapped { Ty::Optional(Arc::new(ty)) } else { ty }
            }
            Kind::Call(call) => self.call(at, call),
            Kind::And(terms) | Kind::Or(terms) => {
                for term in terms {
                    let ty = self.visit(term);
                    self.demand(term.at, &Ty::Bool, &ty);
                }
                Ty::Bool
            }
            Kind::Conditional(parts) => {
                let types = parts.each_mut().map(|part| self.visit(part));
                let common = join(&types[1], &types[2]).filter(|_| Bindings::default().accept(&Ty::Bool, &types[0]));
                common.unwrap_or_else(|| self.no_overload(at, "_?_:_", &types, false))
            }
            Kind::List(elements) => {
                let types: Vec<(usize, Ty)> = elements
                    .iter_mut()
                    .map(|element| (element.value.at, unwrapped(self.visit(&mut element.value), element.optional)))
                    .collect();
                Ty::List(Arc::new(self.homogeneous(types)))
            }
            Kind::Map(entries) => {
                let mut keys = Vec::new();
                let mut values = Vec::new();
                for (key, value, optional) in entries {
                    keys.push((key.at, self.visit(key)));
                    values.push((value.at, unwrapped(self.visit(value), *optional)));
                }
                Ty::Map(Arc::new((self.homogeneous(keys), self.homogeneous(values))))
            }
            Kind::Macro(parts) => self.comprehension(at, parts),
        }
    }

    fn field(&mut self, at: usize, operand: &Ty, field: &str) -> Ty {
        match operand {
            Ty::Dyn => Ty::Dyn,
            Ty::Map(entry) => entry.1.clone(),
            Ty::Object(fields) => match fields.get(field) {
                Some(ty) => ty.clone(),
                None => self.fail(at, format!("undefined field '{field}'")),
            },
            other => self.fail(at, format!("type '{other}' does not support field selection")),
        }
    }

    fn element(&mut self, at: usize, operand: &Ty, index: &Ty) -> Ty {
        let (wanted, result) = match operand {
            Ty::Dyn => return Ty::Dyn,
            Ty::List(item) => (Ty::Int, (**item).clone()),
            Ty::Map(entry) => (entry.0.clone(), entry.1.clone()),
            _ => return self.no_overload(at, "_[_]", &[operand.clone(), index.clone()], false),
        };
        if Bindings::default().accept(&wanted, index) {
            return result;
        }
        self.no_overload(at, "_[_]", &[operand.clone(), index.clone()], false)
    }

    /// Lists and maps written in an expression hold one type; null goes with nothing else.
    fn homogeneous(&mut self, types: Vec<(usize, Ty)>) -> Ty {
        let mut common: Option<Ty> = None;
        for (at, ty) in types {
            common = match common {
                None => Some(ty),
                Some(known) => match join(&known, &ty) {
                    Some(both) => Some(both),
                    None if self.mixed_lists > 0 => Some(Ty::Dyn),
                    None => {
                        self.fail(at, format!("expected type '{known}' but found '{ty}'"));
                        Some(known)
                    }
                },
            };
        }
        common.unwrap_or(Ty::Dyn)
    }

    fn call(&mut self, at: usize, call: &mut Call) -> Ty {
        let types: Vec<Ty> = if call.member && call.function == "format" {
            self.mixed_lists += 1;
            let types = self.format_arguments(call);
            self.mixed_lists -= 1;
            types
        } else {
            call.args.iter_mut().map(|arg| self.visit(arg)).collect()
        };
        let Some(overloads) = overloads(&call.function, call.member) else {
            if signatures::overloads(&call.function, !call.member).is_some() {
                return self.no_overload(at, &call.function.clone(), &types, call.member);
            }
            return self.fail(at, format!("undeclared reference to '{}' (in container '')", call.function));
        };
        self.literals(call);
        let matching: Vec<Ty> = overloads.iter().filter_map(|overload| result_of(overload, &types)).collect();
        let Some((first, others)) = matching.split_first() else {
            return self.no_overload(at, &call.function.clone(), &types, call.member);
        };
        // Arguments of unknown type may fit several overloads; then the result is unknown, too.
        if others.iter().all(|other| other.to_string() == first.to_string()) { first.clone() } else { Ty::Dyn }
    }

    /// The types of the arguments of `format`. One that is written out must fit the values that are written after it.
    fn format_arguments(&mut self, call: &mut Call) -> Vec<Ty> {
        let [Expr { at, kind: Kind::Literal(Literal::Text(text)), .. }, list] = call.args.as_mut_slice() else {
            return call.args.iter_mut().map(|arg| self.visit(arg)).collect();
        };
        let Kind::List(elements) = &mut list.kind else { return vec![Ty::Text, self.visit(list)] };
        let types: Vec<(usize, Ty)> = elements
            .iter_mut()
            .map(|element| (element.value.at, unwrapped(self.visit(&mut element.value), element.optional)))
            .collect();
        match pieces(text) {
            Ok(pieces) => self.clauses(list.at, &pieces, &types),
            Err(message) => {
                self.fail(*at, message);
            }
        }
        vec![Ty::Text, Ty::List(Arc::new(self.homogeneous(types)))]
    }

    fn clauses(&mut self, list_at: usize, pieces: &[Piece<'_>], types: &[(usize, Ty)]) {
        let verbs: Vec<char> = pieces
            .iter()
            .filter_map(|piece| if let Piece::Clause(verb, _) = piece { Some(*verb) } else { None })
            .collect();
        let (expected, given) = (verbs.len(), types.len());
        if expected > given {
            self.fail(list_at, format!("index {given} out of range"));
        } else if expected < given {
            let message = format!("too many arguments supplied to string.format (expected {expected}, got {given})");
            self.fail(list_at, message);
        }
        for (verb, (at, ty)) in verbs.into_iter().zip(types) {
            let unknown = matches!(ty, Ty::Dyn | Ty::Optional(_));
            if let Some(message) = clause_fault(verb, &ty.to_string()).filter(|_| !unknown) {
                self.fail(*at, message);
            }
        }
    }

    /// Regular expressions, durations and times that are written out must be valid.
    fn literals(&mut self, call: &mut Call) {
        let at = usize::from(matches!(call.function.as_str(), "matches" | "find" | "findAll"));
        let Some(Expr { at, kind: Kind::Literal(Literal::Text(text)), .. }) = call.args.get(at) else { return };
        let (at, text) = (*at, text.clone());
        match call.function.as_str() {
            "matches" | "find" | "findAll" => match go_regex(&text) {
                Ok(regex) => call.regex = Some(regex),
                Err(_) => {
                    self.fail(at, "invalid matches argument".to_owned());
                }
            },
            "duration" if super::library::time::parse_duration(&text).is_none() => {
                self.fail(at, "invalid duration argument".to_owned());
            }
            "timestamp" if super::library::time::parse_timestamp(&text).is_none() => {
                self.fail(at, "invalid timestamp argument".to_owned());
            }
            _ => {}
        }
    }

    fn no_overload(&mut self, at: usize, name: &str, types: &[Ty], member: bool) -> Ty {
        let list = |types: &[Ty]| types.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        let applied = match types.split_first() {
            Some((receiver, rest)) if member => format!("{receiver}.({})", list(rest)),
            _ => format!("({})", list(types)),
        };
        self.fail(at, format!("found no matching overload for '{name}' applied to '{applied}'"))
    }

    fn comprehension(&mut self, at: usize, parts: &mut Macro) -> Ty {
        let range = self.visit(&mut parts.range);
        let (first, second) = variables(parts, &range).unwrap_or_else(|| {
            let message = format!(
                "expression of type '{range}' cannot be range of a comprehension (must be list, map, or dynamic)"
            );
            self.fail(parts.range.at, message);
            (Ty::Dyn, Ty::Dyn)
        });
        let outer = self.scope.len();
        self.scope.push((parts.first.clone(), first.clone()));
        if let Some(name) = &parts.second {
            self.scope.push((name.clone(), second));
        }
        if let Some(condition) = &mut parts.condition {
            let ty = self.visit(condition);
            self.demand(condition.at, &Ty::Bool, &ty);
        }
        let body = self.visit(&mut parts.body);
        self.scope.truncate(outer);
        let body_at = parts.body.at;
        match parts.kind {
            MacroKind::All | MacroKind::Exists | MacroKind::ExistsOne => {
                self.demand(body_at, &Ty::Bool, &body);
                Ty::Bool
            }
            MacroKind::Filter => {
                self.demand(body_at, &Ty::Bool, &body);
                Ty::List(Arc::new(first))
            }
            MacroKind::Map | MacroKind::TransformList => Ty::List(Arc::new(body)),
            MacroKind::TransformMap => match &range {
                Ty::Map(entry) => Ty::Map(Arc::new((entry.0.clone(), body))),
                Ty::List(_) => Ty::Map(Arc::new((Ty::Int, body))),
                _ => Ty::Map(Arc::new((Ty::Dyn, body))),
            },
            MacroKind::OptionalMap => Ty::Optional(Arc::new(body)),
            MacroKind::OptionalFlatMap => match body {
                Ty::Optional(_) | Ty::Dyn => body,
                other => self.fail(at, format!("expected type 'optional_type(dyn)' but found '{other}'")),
            },
        }
    }
}

/// The types of the macro's variables, if the range can be walked.
fn variables(parts: &Macro, range: &Ty) -> Option<(Ty, Ty)> {
    if matches!(parts.kind, MacroKind::OptionalMap | MacroKind::OptionalFlatMap) {
        return match range {
            Ty::Optional(inner) => Some(((**inner).clone(), Ty::Dyn)),
            Ty::Dyn => Some((Ty::Dyn, Ty::Dyn)),
            _ => None,
        };
    }
    match (range, parts.second.is_some()) {
        (Ty::Dyn, _) => Some((Ty::Dyn, Ty::Dyn)),
        (Ty::List(item), false) => Some(((**item).clone(), Ty::Dyn)),
        (Ty::List(item), true) => Some((Ty::Int, (**item).clone())),
        (Ty::Map(entry), _) => Some((entry.0.clone(), entry.1.clone())),
        _ => None,
    }
}

fn result_of(overload: &Signature, types: &[Ty]) -> Option<Ty> {
    let mut bindings = Bindings::default();
    let fits = overload.args.len() == types.len()
        && overload.args.iter().zip(types).all(|(wanted, actual)| bindings.accept(wanted, actual));
    fits.then(|| bindings.resolve(&overload.result))
}

fn unwrapped(ty: Ty, optional: bool) -> Ty {
    match ty {
        Ty::Optional(inner) if optional => (*inner).clone(),
        other => other,
    }
}

fn literal_type(literal: &Literal) -> Ty {
    match literal {
        Literal::Null => Ty::Null,
        Literal::Bool(_) => Ty::Bool,
        Literal::Int(_) => Ty::Int,
        Literal::Uint(_) => Ty::Uint,
        Literal::Double(_) => Ty::Double,
        Literal::Text(_) => Ty::Text,
        Literal::Bytes(_) => Ty::Bytes,
    }
}
