//! Tokens to an expression, macros included.

use super::ast::{Element, Expr, Kind, Literal, Macro, MacroKind};
use super::issue::Issue;
use super::lexer::{Placed, Token, tokens};
use super::signatures;

/// Code points of a source, as in CEL's own parser.
const SOURCE_LIMIT: usize = 100_000;
/// Nesting of an expression. It keeps every walk over the tree well within a thread's stack, also in debug builds; the
/// real parser stops at 250, and rules of people have less than 20.
const DEPTH_LIMIT: usize = 128;

/// Words that CEL keeps for later.
const RESERVED: [&str; 17] = [
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// Binary operators by rank, loosest first.
const OPERATORS: [(&str, u8); 14] = [
    ("||", 1),
    ("&&", 2),
    ("==", 3),
    ("!=", 3),
    ("<", 3),
    ("<=", 3),
    (">", 3),
    (">=", 3),
    ("in", 3),
    ("+", 4),
    ("-", 4),
    ("*", 5),
    ("/", 5),
    ("%", 5),
];
const LOOSEST: u8 = 1;

pub(super) fn parse(source: &str) -> Result<Expr, Issue> {
    let size = source.chars().count();
    if size > SOURCE_LIMIT {
        let message = format!("expression code point size exceeds limit: size: {size}, limit {SOURCE_LIMIT}");
        return Err(Issue::new(0, message));
    }
    let mut parser = Parser { tokens: tokens(source)?, next: 0, depth: 0 };
    let expr = parser.expression()?;
    match parser.peek() {
        Token::End => Ok(expr),
        _ => Err(parser.unexpected(AFTER_EXPRESSION)),
    }
}

/// What may start an expression, and what may follow one, in the words of CEL's own parser.
const START: &str = "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, \
                     IDENTIFIER}";
const AFTER_EXPRESSION: &str =
    "{<EOF>, '==', '!=', 'in', '<', '<=', '>=', '>', '&&', '||', '[', '.', '-', '?', '+', '*', '/', '%'}";

struct Parser {
    tokens: Vec<Placed>,
    next: usize,
    depth: usize,
}

type Parsed = Result<Expr, Issue>;

impl Parser {
    fn peek(&self) -> &Token {
        self.tokens.get(self.next).map_or(&Token::End, |(token, _)| token)
    }

    fn at(&self) -> usize {
        self.tokens.get(self.next).or(self.tokens.last()).map_or(0, |(_, at)| *at)
    }

    fn take(&mut self, symbol: &str) -> bool {
        let found = matches!(self.peek(), Token::Symbol(next) if *next == symbol);
        self.next += usize::from(found);
        found
    }

    fn expect(&mut self, symbol: &str) -> Result<(), Issue> {
        if self.take(symbol) {
            return Ok(());
        }
        Err(Issue::new(self.at(), format!("Syntax error: missing '{symbol}' at '{}'", self.shown())))
    }

    /// The next token as messages show it.
    fn shown(&self) -> String {
        match self.peek() {
            Token::End => "<EOF>".to_owned(),
            Token::Ident(name) => name.clone(),
            Token::Symbol(symbol) => (*symbol).to_owned(),
            Token::Whole(number) => number.to_string(),
            Token::Literal(literal) => format!("{literal:?}"),
        }
    }

    fn unexpected(&self, expected: &str) -> Issue {
        Issue::new(self.at(), format!("Syntax error: mismatched input '{}' expecting {expected}", self.shown()))
    }

    /// Every new node passes here, so that no tree gets deeper than the limit.
    fn node(at: usize, kind: Kind) -> Parsed {
        let expr = Expr::new(at, kind);
        if expr.height > DEPTH_LIMIT { Err(too_deep(at)) } else { Ok(expr) }
    }

    fn call(at: usize, function: &str, member: bool, args: Vec<Expr>) -> Parsed {
        let expr = Expr::call(at, function, member, args);
        if expr.height > DEPTH_LIMIT { Err(too_deep(at)) } else { Ok(expr) }
    }

    fn expression(&mut self) -> Parsed {
        self.depth += 1;
        if self.depth > DEPTH_LIMIT {
            return Err(too_deep(self.at()));
        }
        let condition = self.binary(LOOSEST)?;
        let at = self.at();
        let expr = if self.take("?") {
            let yes = self.binary(LOOSEST)?;
            self.expect(":")?;
            let no = self.expression()?;
            Self::node(at, Kind::Conditional(Box::new([condition, yes, no])))
        } else {
            Ok(condition)
        };
        self.depth -= 1;
        expr
    }

    /// The operator that comes next, if it binds at least as tightly as `loosest`.
    fn operator(&self, loosest: u8) -> Option<(&'static str, u8)> {
        let Token::Symbol(symbol) = self.peek() else { return None };
        OPERATORS.into_iter().find(|(name, rank)| name == symbol && *rank >= loosest)
    }

    fn binary(&mut self, loosest: u8) -> Parsed {
        let mut left = self.unary()?;
        while let Some((operator, rank)) = self.operator(loosest) {
            let at = self.at();
            self.next += 1;
            let right = self.binary(rank + 1)?;
            left = combined(at, operator, left, right)?;
        }
        Ok(left)
    }

    fn unary(&mut self) -> Parsed {
        let mut signs = Vec::new();
        while let Token::Symbol(symbol @ ("!" | "-")) = *self.peek() {
            signs.push((symbol, self.at()));
            self.next += 1;
        }
        if signs.len() > DEPTH_LIMIT {
            return Err(too_deep(self.at()));
        }
        let mut expr = match (signs.last(), self.peek()) {
            (Some(("-", at)), Token::Whole(number)) => {
                let (at, number) = (*at, *number);
                let value = 0i64.checked_sub_unsigned(number).ok_or_else(|| Issue::new(at, "invalid int literal"))?;
                signs.pop();
                self.next += 1;
                let literal = Self::node(at, Kind::Literal(Literal::Int(value)))?;
                self.postfix(literal)?
            }
            (Some(("-", at)), Token::Literal(Literal::Double(number))) => {
                let (at, number) = (*at, *number);
                signs.pop();
                self.next += 1;
                let literal = Self::node(at, Kind::Literal(Literal::Double(-number)))?;
                self.postfix(literal)?
            }
            _ => {
                let primary = self.primary()?;
                self.postfix(primary)?
            }
        };
        for (symbol, at) in signs.into_iter().rev() {
            expr = Self::call(at, if symbol == "!" { "!_" } else { "-_" }, false, vec![expr])?;
        }
        Ok(expr)
    }

    fn postfix(&mut self, mut expr: Expr) -> Parsed {
        loop {
            let at = self.at();
            if self.take(".") {
                let optional = self.take("?");
                let Token::Ident(name) = self.peek().clone() else { return Err(self.unexpected("IDENTIFIER")) };
                self.next += 1;
                let open = self.at();
                expr = if !optional && self.take("(") {
                    let args = self.arguments(")")?;
                    member_call(open, expr, &name, args)?
                } else {
                    let select = Self::node(at, Kind::Select { operand: Box::new(expr), field: name, optional })?;
                    qualified_type(&select).unwrap_or(select)
                };
            } else if self.take("[") {
                let optional = self.take("?");
                let index = Box::new(self.expression()?);
                self.expect("]")?;
                expr = Self::node(at, Kind::Index { operand: Box::new(expr), index, optional })?;
            } else {
                return Ok(expr);
            }
        }
    }

    fn arguments(&mut self, close: &str) -> Result<Vec<Expr>, Issue> {
        let mut args = Vec::new();
        if self.take(close) {
            return Ok(args);
        }
        loop {
            args.push(self.expression()?);
            if self.take(close) {
                return Ok(args);
            }
            self.expect(",")?;
        }
    }

    fn primary(&mut self) -> Parsed {
        let at = self.at();
        let token = self.peek().clone();
        match token {
            Token::Literal(literal) => {
                self.next += 1;
                Self::node(at, Kind::Literal(literal))
            }
            Token::Whole(number) => {
                self.next += 1;
                let value = i64::try_from(number).map_err(|_| Issue::new(at, "invalid int literal"))?;
                Self::node(at, Kind::Literal(Literal::Int(value)))
            }
            Token::Ident(name) => {
                self.next += 1;
                if RESERVED.contains(&name.as_str()) {
                    return Err(Issue::new(at, format!("reserved identifier: {name}")));
                }
                let open = self.at();
                if self.take("(") {
                    let args = self.arguments(")")?;
                    return global_call(open, &name, args);
                }
                Self::node(at, Kind::Ident(name))
            }
            Token::Symbol("(") => {
                self.next += 1;
                let inner = self.expression()?;
                self.expect(")")?;
                Ok(inner)
            }
            Token::Symbol("[") => {
                self.next += 1;
                self.list(at)
            }
            Token::Symbol("{") => {
                self.next += 1;
                self.map(at)
            }
            // A leading dot only says that the name is absolute.
            Token::Symbol(".") => {
                self.next += 1;
                self.primary()
            }
            _ => Err(self.unexpected(START)),
        }
    }

    fn list(&mut self, at: usize) -> Parsed {
        let mut elements = Vec::new();
        while !self.take("]") {
            let optional = self.take("?");
            elements.push(Element { value: self.expression()?, optional });
            if !self.take(",") && !matches!(self.peek(), Token::Symbol("]")) {
                return Err(self.unexpected("{']', ','}"));
            }
        }
        Self::node(at, Kind::List(elements))
    }

    fn map(&mut self, at: usize) -> Parsed {
        let mut entries = Vec::new();
        while !self.take("}") {
            let optional = self.take("?");
            let key = self.expression()?;
            self.expect(":")?;
            entries.push((key, self.expression()?, optional));
            if !self.take(",") && !matches!(self.peek(), Token::Symbol("}")) {
                return Err(self.unexpected("{'}', ','}"));
            }
        }
        Self::node(at, Kind::Map(entries))
    }
}

/// Terms of `&&` and `||` are gathered in one node, so that a long row of them is not a deep tree.
fn combined(at: usize, operator: &str, left: Expr, right: Expr) -> Parsed {
    match (operator, left) {
        ("&&", Expr { kind: Kind::And(mut terms), height, .. }) => {
            let height = height.max(right.height + 1);
            terms.push(right);
            Ok(Expr { height, ..Expr::new(at, Kind::And(terms)) })
        }
        ("||", Expr { kind: Kind::Or(mut terms), height, .. }) => {
            let height = height.max(right.height + 1);
            terms.push(right);
            Ok(Expr { height, ..Expr::new(at, Kind::Or(terms)) })
        }
        ("&&", left) => Parser::node(at, Kind::And(vec![left, right])),
        ("||", left) => Parser::node(at, Kind::Or(vec![left, right])),
        ("in", left) => Parser::call(at, "@in", false, vec![left, right]),
        (_, left) => Parser::call(at, &format!("_{operator}_"), false, vec![left, right]),
    }
}

fn too_deep(at: usize) -> Issue {
    Issue::new(at, format!("expression recursion limit exceeded: {DEPTH_LIMIT}"))
}

/// `google.protobuf.Duration` and its like are names of types, not fields of a variable.
fn qualified_type(select: &Expr) -> Option<Expr> {
    let mut names = Vec::new();
    let mut expr = select;
    while let Kind::Select { operand, field, optional: false } = &expr.kind {
        names.push(field.as_str());
        expr = operand;
    }
    let Kind::Ident(first) = &expr.kind else { return None };
    names.push(first);
    names.reverse();
    let name = names.join(".");
    signatures::type_named(&name).map(|_| Expr::new(expr.at, Kind::Ident(name)))
}

fn global_call(at: usize, name: &str, mut args: Vec<Expr>) -> Parsed {
    if name == "has" && args.len() == 1 {
        return match args.swap_remove(0) {
            Expr { kind: Kind::Select { operand, field, optional: false }, .. } => {
                Parser::node(at, Kind::Has { operand, field })
            }
            other => Err(Issue::new(other.at, "invalid argument to has() macro")),
        };
    }
    Parser::call(at, name, false, args)
}

fn member_call(at: usize, target: Expr, name: &str, args: Vec<Expr>) -> Parsed {
    if let Kind::Ident(namespace) = &target.kind {
        let qualified = format!("{namespace}.{name}");
        if signatures::is_global(&qualified) {
            return Parser::call(at, &qualified, false, args);
        }
    }
    let kind = match (name, args.len()) {
        ("all", 2 | 3) => MacroKind::All,
        ("exists", 2 | 3) => MacroKind::Exists,
        ("exists_one", 2) | ("existsOne", 2 | 3) => MacroKind::ExistsOne,
        ("map", 2 | 3) => MacroKind::Map,
        ("filter", 2) => MacroKind::Filter,
        ("transformList", 3 | 4) => MacroKind::TransformList,
        ("transformMap", 3 | 4) => MacroKind::TransformMap,
        ("optMap", 2) => MacroKind::OptionalMap,
        ("optFlatMap", 2) => MacroKind::OptionalFlatMap,
        _ => {
            let args = std::iter::once(target).chain(args).collect();
            return Parser::call(at, name, true, args);
        }
    };
    macro_node(at, kind, target, args)
}

fn macro_node(at: usize, kind: MacroKind, range: Expr, args: Vec<Expr>) -> Parsed {
    let mut args = args.into_iter();
    let first = variable(args.next())?;
    let rest: Vec<Expr> = args.collect();
    let two_variables = matches!(kind, MacroKind::TransformList | MacroKind::TransformMap)
        || (matches!(kind, MacroKind::All | MacroKind::Exists | MacroKind::ExistsOne) && rest.len() == 2);
    let mut rest = rest.into_iter();
    let second = if two_variables { Some(variable(rest.next())?) } else { None };
    let (condition, body) = match (rest.next(), rest.next()) {
        (Some(condition), Some(body)) => (Some(condition), body),
        (Some(body), None) => (None, body),
        _ => return Err(Issue::new(at, "Syntax error: macro needs a body")),
    };
    Parser::node(at, Kind::Macro(Box::new(Macro { kind, range, first, second, condition, body })))
}

fn variable(expr: Option<Expr>) -> Result<String, Issue> {
    match expr {
        Some(Expr { kind: Kind::Ident(name), .. }) if name != "__result__" && name != "@result" => Ok(name),
        Some(other) => Err(Issue::new(other.at, "argument must be a simple name")),
        None => Err(Issue::new(0, "argument must be a simple name")),
    }
}
