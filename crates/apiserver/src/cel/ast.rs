//! A parsed CEL expression.
//!
//! Macros are nodes of their own, so that evaluation needs no rewriting; operators are calls with CEL's names (`_+_`).

use regex::Regex;

use super::types::Ty;

/// An expression and where it stands in the source, as a byte offset.
#[derive(Debug, Clone)]
pub(super) struct Expr {
    pub(super) at: usize,
    /// Nodes on the longest way down. The parser limits it, so recursion over the tree is bounded.
    pub(super) height: usize,
    pub(super) kind: Kind,
    /// What the checker found its values to be; dynamic before.
    pub(super) ty: Ty,
}

#[derive(Debug, Clone)]
pub(super) enum Kind {
    Literal(Literal),
    Ident(String),
    /// `operand.field`, or `operand.?field`.
    Select {
        operand: Box<Expr>,
        field: String,
        optional: bool,
    },
    /// `has(operand.field)`.
    Has {
        operand: Box<Expr>,
        field: String,
    },
    /// `operand[index]`, or `operand[?index]`.
    Index {
        operand: Box<Expr>,
        index: Box<Expr>,
        optional: bool,
    },
    Call(Call),
    /// Terms of `&&`; a term that fails does not count if another is false.
    And(Vec<Expr>),
    Or(Vec<Expr>),
    Conditional(Box<[Expr; 3]>),
    List(Vec<Element>),
    Map(Vec<(Expr, Expr, bool)>),
    Macro(Box<Macro>),
}

#[derive(Debug, Clone)]
pub(super) struct Element {
    pub(super) value: Expr,
    /// Written `?value`: left out if it holds nothing.
    pub(super) optional: bool,
}

#[derive(Debug, Clone)]
pub(super) struct Call {
    pub(super) function: String,
    /// The receiver, if written as `receiver.function()`, comes first in `args`.
    pub(super) member: bool,
    pub(super) args: Vec<Expr>,
    /// The regular expression among the arguments, if it is a literal.
    pub(super) regex: Option<Regex>,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Literal {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    Text(String),
    Bytes(Vec<u8>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MacroKind {
    All,
    Exists,
    ExistsOne,
    Map,
    Filter,
    TransformList,
    TransformMap,
    /// `optMap`: the body sees what the optional holds and its result is wrapped again.
    OptionalMap,
    /// `optFlatMap`: the body gives an optional itself.
    OptionalFlatMap,
}

/// `range.kind(first, body)` and its relatives with a second variable or a condition.
#[derive(Debug, Clone)]
pub(super) struct Macro {
    pub(super) kind: MacroKind,
    pub(super) range: Expr,
    pub(super) first: String,
    /// With two variables the first is the index or key and this is the value.
    pub(super) second: Option<String>,
    /// Elements for which this is false are skipped.
    pub(super) condition: Option<Expr>,
    pub(super) body: Expr,
}

impl Kind {
    /// The expressions right below.
    pub(super) fn children(&self) -> Vec<&Expr> {
        match self {
            Kind::Literal(_) | Kind::Ident(_) => Vec::new(),
            Kind::Select { operand, .. } | Kind::Has { operand, .. } => vec![operand],
            Kind::Index { operand, index, .. } => vec![operand, index],
            Kind::Call(call) => call.args.iter().collect(),
            Kind::And(terms) | Kind::Or(terms) => terms.iter().collect(),
            Kind::Conditional(parts) => parts.iter().collect(),
            Kind::List(elements) => elements.iter().map(|element| &element.value).collect(),
            Kind::Map(entries) => entries.iter().flat_map(|(key, value, _)| [key, value]).collect(),
            Kind::Macro(parts) => {
                [Some(&parts.range), parts.condition.as_ref(), Some(&parts.body)].into_iter().flatten().collect()
            }
        }
    }
}

impl Expr {
    pub(super) fn new(at: usize, kind: Kind) -> Self {
        let height = kind.children().iter().map(|child| child.height).max().unwrap_or_default() + 1;
        Self { at, height, kind, ty: Ty::Dyn }
    }

    pub(super) fn call(at: usize, function: &str, member: bool, args: Vec<Expr>) -> Self {
        Self::new(at, Kind::Call(Call { function: function.to_owned(), member, args, regex: None }))
    }

    /// Whether the variable `name` is read anywhere in the expression.
    pub(super) fn mentions(&self, name: &str) -> bool {
        matches!(&self.kind, Kind::Ident(ident) if ident == name)
            || self.kind.children().iter().any(|child| child.mentions(name))
    }
}
