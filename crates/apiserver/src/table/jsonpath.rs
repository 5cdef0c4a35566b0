//! The JSONPath dialect of printer columns, such as `.status.conditions[?(@.type=="Ready")].status`.
//!
//! Parsing refuses unsupported syntax; evaluation never fails: a step that does not apply finds nothing.

use std::cmp::Ordering;

use serde_json::Value;

/// Deeper paths do not occur; the bound keeps parsing of hostile definitions cheap.
const MAX_STEPS: usize = 64;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid JSON path {path:?}: {why}")]
pub(crate) struct PathError {
    path: String,
    why: String,
}

/// A parsed path.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct JsonPath {
    steps: Vec<Step>,
}

#[derive(Debug, Clone, PartialEq)]
enum Step {
    Field(String),
    Wildcard,
    Recursive,
    Slice { start: Option<i64>, end: Option<i64>, step: i64 },
    Index(i64),
    Union(Vec<Step>),
    Filter { left: Operand, test: Option<(Comparison, Operand)> },
}

#[derive(Debug, Clone, PartialEq)]
enum Operand {
    Path(Vec<Step>),
    Literal(Value),
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl JsonPath {
    /// Reads a path with or without the leading dot, `$` or surrounding braces.
    pub(crate) fn parse(text: &str) -> Result<Self, PathError> {
        let trimmed = text.trim();
        let inner = trimmed.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).unwrap_or(trimmed);
        let inner = inner.strip_prefix('$').unwrap_or(inner);
        let mut parser = Parser { chars: inner.chars().collect(), at: 0 };
        let steps = parser.steps().map_err(|why| PathError { path: text.to_owned(), why })?;
        Ok(Self { steps })
    }

    /// All values that the path names, in order; empty if there are none or a step does not apply.
    pub(crate) fn find<'v>(&'v self, value: &'v Value) -> Vec<&'v Value> {
        walk(&self.steps, vec![value]).unwrap_or_default()
    }
}

struct Parser {
    chars: Vec<char>,
    at: usize,
}

type Parsed<T> = Result<T, String>;

impl Parser {
    fn peek(&self) -> Option<char> {
        self.chars.get(self.at).copied()
    }

    fn eat(&mut self, wanted: char) -> bool {
        let found = self.peek() == Some(wanted);
        self.at += usize::from(found);
        found
    }

    fn skip_spaces(&mut self) {
        while self.peek().is_some_and(char::is_whitespace) {
            self.at += 1;
        }
    }

    fn steps(&mut self) -> Parsed<Vec<Step>> {
        let mut out = Vec::new();
        while let Some(next) = self.peek() {
            if out.len() >= MAX_STEPS {
                return Err(format!("more than {MAX_STEPS} steps"));
            }
            match next {
                '.' => {
                    self.at += 1;
                    if self.eat('.') {
                        out.push(Step::Recursive);
                    }
                    if self.peek().is_some_and(|c| c != '[') {
                        out.push(self.field()?);
                    }
                }
                '[' => {
                    self.at += 1;
                    out.push(self.bracket()?);
                }
                _ if out.is_empty() => out.push(self.field()?),
                other => return Err(format!("unexpected {other:?}")),
            }
        }
        Ok(out)
    }

    fn field(&mut self) -> Parsed<Step> {
        let mut name = String::new();
        while let Some(next) = self.peek() {
            match next {
                '\\' => {
                    self.at += 1;
                    name.extend(self.peek());
                }
                '.' | '[' | ']' | ')' | ' ' | '=' | '!' | '<' | '>' | ',' => break,
                other => name.push(other),
            }
            self.at += 1;
        }
        match name.as_str() {
            "" => Err("empty field name".to_owned()),
            "*" => Ok(Step::Wildcard),
            _ => Ok(Step::Field(name)),
        }
    }

    /// The part between `[` and `]`; the opening bracket is consumed.
    fn bracket(&mut self) -> Parsed<Step> {
        self.skip_spaces();
        if self.eat('?') {
            return self.filter();
        }
        let mut parts = vec![self.subscript()?];
        loop {
            self.skip_spaces();
            match self.peek() {
                Some(',') => {
                    self.at += 1;
                    self.skip_spaces();
                    parts.push(self.subscript()?);
                }
                Some(']') => {
                    self.at += 1;
                    let single = parts.len() == 1;
                    return Ok(if single { parts.remove(0) } else { Step::Union(parts) });
                }
                _ => return Err("unterminated array".to_owned()),
            }
        }
    }

    fn subscript(&mut self) -> Parsed<Step> {
        match self.peek() {
            Some('*') => {
                self.at += 1;
                Ok(Step::Wildcard)
            }
            Some(quote @ ('\'' | '"')) => Ok(Step::Field(self.quoted(quote)?)),
            _ => self.slice(),
        }
    }

    fn slice(&mut self) -> Parsed<Step> {
        let start = self.integer()?;
        if !self.eat(':') {
            return start.map(Step::Index).ok_or_else(|| "invalid array index".to_owned());
        }
        let end = self.integer()?;
        let step = if self.eat(':') { self.integer()?.unwrap_or(1) } else { 1 };
        if step <= 0 {
            return Err("step must be > 0".to_owned());
        }
        Ok(Step::Slice { start, end, step })
    }

    fn integer(&mut self) -> Parsed<Option<i64>> {
        let from = self.at;
        self.eat('-');
        while self.peek().is_some_and(|c| c.is_ascii_digit()) {
            self.at += 1;
        }
        let text: String = self.chars[from..self.at].iter().collect();
        if text.is_empty() {
            Ok(None)
        } else {
            text.parse().map(Some).map_err(|_| format!("invalid array index {text}"))
        }
    }

    fn quoted(&mut self, quote: char) -> Parsed<String> {
        self.at += 1;
        let mut out = String::new();
        while let Some(next) = self.peek() {
            self.at += 1;
            match next {
                _ if next == quote => return Ok(out),
                '\\' => {
                    out.extend(self.peek());
                    self.at += 1;
                }
                other => out.push(other),
            }
        }
        Err("unterminated quoted string".to_owned())
    }

    fn filter(&mut self) -> Parsed<Step> {
        if !self.eat('(') {
            return Err("filter needs parentheses".to_owned());
        }
        let left = self.operand()?;
        self.skip_spaces();
        let test = match self.comparison()? {
            Some(comparison) => Some((comparison, self.operand()?)),
            None => None,
        };
        self.skip_spaces();
        if !(self.eat(')') && self.eat(']')) {
            return Err("unterminated filter".to_owned());
        }
        Ok(Step::Filter { left, test })
    }

    fn comparison(&mut self) -> Parsed<Option<Comparison>> {
        let Some(first) = self.peek().filter(|c| "=!<>".contains(*c)) else { return Ok(None) };
        self.at += 1;
        let equal = self.eat('=');
        Ok(Some(match (first, equal) {
            ('=', true) => Comparison::Equal,
            ('!', true) => Comparison::NotEqual,
            ('<', true) => Comparison::LessOrEqual,
            ('>', true) => Comparison::GreaterOrEqual,
            ('<', false) => Comparison::Less,
            ('>', false) => Comparison::Greater,
            _ => return Err(format!("unrecognized filter operator {first}")),
        }))
    }

    fn operand(&mut self) -> Parsed<Operand> {
        self.skip_spaces();
        match self.peek() {
            Some('@') => {
                self.at += 1;
                Ok(Operand::Path(self.operand_path()?))
            }
            Some(quote @ ('\'' | '"')) => Ok(Operand::Literal(Value::String(self.quoted(quote)?))),
            _ => {
                let from = self.at;
                while self.peek().is_some_and(|c| c.is_ascii_alphanumeric() || "+-.".contains(c)) {
                    self.at += 1;
                }
                let text: String = self.chars[from..self.at].iter().collect();
                match serde_json::from_str(&text) {
                    Ok(value @ (Value::Bool(_) | Value::Number(_))) => Ok(Operand::Literal(value)),
                    _ => Err(format!("cannot compare with {text:?}")),
                }
            }
        }
    }

    fn operand_path(&mut self) -> Parsed<Vec<Step>> {
        let mut out = Vec::new();
        while out.len() < MAX_STEPS {
            match self.peek() {
                Some('.') => {
                    self.at += 1;
                    out.push(self.field()?);
                }
                Some('[') => {
                    self.at += 1;
                    self.skip_spaces();
                    // A filter inside a filter could nest without bound.
                    if self.peek() == Some('?') {
                        return Err("filters cannot be nested".to_owned());
                    }
                    out.push(self.bracket()?);
                }
                _ => break,
            }
        }
        Ok(out)
    }
}

/// `None` where a step does not apply at all, which Kubernetes treats as an error and prints nothing for.
fn walk<'v>(steps: &'v [Step], start: Vec<&'v Value>) -> Option<Vec<&'v Value>> {
    let mut current = start;
    for step in steps {
        current = apply(step, &current)?;
    }
    Some(current)
}

fn apply<'v>(step: &'v Step, input: &[&'v Value]) -> Option<Vec<&'v Value>> {
    let mut out = Vec::new();
    for value in input.iter().copied().filter(|value| !value.is_null()) {
        match step {
            Step::Field(name) => out.extend(value.as_object().and_then(|map| map.get(name))),
            Step::Wildcard => out.extend(children(value)),
            Step::Recursive => descend(value, &mut out),
            Step::Index(index) => {
                let list = value.as_array()?;
                out.push(list.get(position(*index, list.len())?)?);
            }
            Step::Slice { start, end, step } => {
                let list = value.as_array()?;
                let from = position(start.unwrap_or(0), list.len()).unwrap_or(list.len());
                let to = end.map_or(Some(list.len()), |end| position(end, list.len()))?.min(list.len());
                out.extend(list.get(from..to)?.iter().step_by(usize::try_from(*step).ok()?));
            }
            Step::Union(parts) => {
                for part in parts {
                    out.extend(apply(part, &[value])?);
                }
            }
            Step::Filter { left, test } => {
                for item in value.as_array()? {
                    if passes(left, test.as_ref(), item)? {
                        out.push(item);
                    }
                }
            }
        }
    }
    Some(out)
}

fn children(value: &Value) -> Vec<&Value> {
    match value {
        Value::Object(map) => map.values().collect(),
        Value::Array(list) => list.iter().collect(),
        _ => Vec::new(),
    }
}

fn descend<'v>(value: &'v Value, out: &mut Vec<&'v Value>) {
    let inner = children(value);
    if !inner.is_empty() {
        out.push(value);
        for child in inner {
            descend(child, out);
        }
    }
}

/// Negative positions count from the end.
fn position(index: i64, length: usize) -> Option<usize> {
    let length = i64::try_from(length).ok()?;
    usize::try_from(if index < 0 { index + length } else { index }).ok()
}

fn passes(left: &Operand, test: Option<&(Comparison, Operand)>, item: &Value) -> Option<bool> {
    let found = operand_values(left, item);
    let Some((comparison, right)) = test else { return Some(found.is_some_and(|found| !found.is_empty())) };
    let (found, wanted) = (found?, operand_values(right, item)?);
    let ([found], [wanted]) = (found.as_slice(), wanted.as_slice()) else {
        // Nothing to compare fails the test; more than one is no question at all.
        return (found.len() <= 1 && wanted.len() <= 1).then_some(false);
    };
    let order = order(found, wanted)?;
    Some(match comparison {
        Comparison::Equal => order == Ordering::Equal,
        Comparison::NotEqual => order != Ordering::Equal,
        Comparison::Less => order == Ordering::Less,
        Comparison::LessOrEqual => order != Ordering::Greater,
        Comparison::Greater => order == Ordering::Greater,
        Comparison::GreaterOrEqual => order != Ordering::Less,
    })
}

fn operand_values(operand: &Operand, item: &Value) -> Option<Vec<Value>> {
    match operand {
        Operand::Literal(value) => Some(vec![value.clone()]),
        Operand::Path(steps) => walk(steps, vec![item]).map(|found| found.into_iter().cloned().collect()),
    }
}

/// `None` for values of different kinds: they cannot be compared.
fn order(left: &Value, right: &Value) -> Option<Ordering> {
    match (left, right) {
        (Value::String(a), Value::String(b)) => Some(a.cmp(b)),
        (Value::Bool(a), Value::Bool(b)) => Some(a.cmp(b)),
        (Value::Number(a), Value::Number(b)) => a.as_f64()?.partial_cmp(&b.as_f64()?),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn find(path: &str) -> String {
        let object = json!({
            "metadata": {"name": "n", "annotations": {"a.b/c": "dotted"}},
            "spec": {"n": 3, "list": ["x", "y", "z"], "none": null, "deep": [{"v": 1}, {"v": 2}]},
            "status": {"conditions": [
                {"type": "Ready", "status": "True", "n": 5},
                {"type": "Synced", "status": "False", "n": 7},
                {"type": "Bare"}]},
        });
        match JsonPath::parse(path) {
            Ok(parsed) => parsed.find(&object).iter().map(ToString::to_string).collect::<Vec<_>>().join(" "),
            Err(refused) => format!("error: {}", refused.why),
        }
    }

    #[test]
    fn paths_select_their_values() {
        for (path, expected) in [
            (".metadata.name", r#""n""#),
            ("metadata.name", r#""n""#),
            ("{.metadata.name}", r#""n""#),
            ("$.metadata.name", r#""n""#),
            (r".metadata.annotations.a\.b/c", r#""dotted""#),
            (".metadata.annotations['a.b/c']", r#""dotted""#),
            (".spec.missing.deeper", ""),
            (".spec.none", "null"),
            (".spec.none.deeper", ""),
            (".spec.list[0]", r#""x""#),
            (".spec.list[-1]", r#""z""#),
            (".spec.list[9]", ""),
            (".spec.list[0:2]", r#""x" "y""#),
            (".spec.list[1:]", r#""y" "z""#),
            (".spec.list[::2]", r#""x" "z""#),
            (".spec.list[0,2]", r#""x" "z""#),
            (".spec.list[*]", r#""x" "y" "z""#),
            (".spec.deep[*].v", "1 2"),
            ("..v", "1 2"),
            (".spec.n[0]", ""),
            (r#".status.conditions[?(@.type=="Ready")].status"#, r#""True""#),
            (".status.conditions[?(@.type == 'Synced')].status", r#""False""#),
            (r#".status.conditions[?(@.type!="Ready")].type"#, r#""Synced" "Bare""#),
            (".status.conditions[?(@.n>5)].type", r#""Synced""#),
            (".status.conditions[?(@.n<=5)].type", r#""Ready""#),
            (".status.conditions[?(@.status)].type", r#""Ready" "Synced""#),
            (r#".status.conditions[?(@.n=="x")].type"#, ""),
            (r#".metadata[?(@.a=="x")]"#, ""),
        ] {
            assert_eq!(find(path), expected, "{path}");
        }
    }

    #[test]
    fn malformed_paths_are_refused() {
        for (path, why) in [
            (".spec[", "error: invalid array index"),
            (".spec[0", "error: unterminated array"),
            (".spec['a", "error: unterminated quoted string"),
            (".a[?(@.b==", "error: cannot compare with \"\""),
            (".a[?@.b]", "error: filter needs parentheses"),
            (".a[::0]", "error: step must be > 0"),
            (".a]b", "error: unexpected ']'"),
            (".a[?(@[?(@.b)])]", "error: filters cannot be nested"),
        ] {
            assert_eq!(find(path), why, "{path}");
        }
        assert!(find(&".a".repeat(65)).contains("more than 64 steps"));
        assert!(find(&".a[?(@[?(@".repeat(100_000)).contains("cannot be nested"));
    }

    proptest! {
        #[test]
        fn no_input_panics(text in r#"[.a\\\[\]?(@='"0-9:,* -]{0,30}"#) {
            let object = json!({"a": [{"a": 1}, {"a": "0"}]});
            if let Ok(path) = JsonPath::parse(&text) {
                let _ = path.find(&object);
            }
        }
    }
}
