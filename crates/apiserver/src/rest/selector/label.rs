//! Label selectors: `app=web,tier in (a,b),!old`, with Kubernetes' error messages.

use std::collections::BTreeSet;

use k8s_values::validation;

/// All requirements must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LabelSelector(Vec<Requirement>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Requirement {
    key: String,
    operator: Operator,
    values: BTreeSet<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operator {
    In,
    NotIn,
    Exists,
    Absent,
    Greater,
    Less,
}

impl LabelSelector {
    pub fn is_everything(&self) -> bool {
        self.0.is_empty()
    }

    pub fn matches<'a>(&self, label: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.0.iter().all(|r| r.matches(label(&r.key)))
    }
}

impl Requirement {
    fn matches(&self, value: Option<&str>) -> bool {
        match self.operator {
            Operator::In => value.is_some_and(|v| self.values.contains(v)),
            Operator::NotIn => value.is_none_or(|v| !self.values.contains(v)),
            Operator::Exists => value.is_some(),
            Operator::Absent => value.is_none(),
            Operator::Greater => self.compared(value).is_some_and(|(value, bound)| value > bound),
            Operator::Less => self.compared(value).is_some_and(|(value, bound)| value < bound),
        }
    }

    fn compared(&self, value: Option<&str>) -> Option<(i64, i64)> {
        Some((value?.parse().ok()?, self.values.first()?.parse().ok()?))
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    Word(String),
    Symbol(&'static str),
    End,
}

impl Token {
    fn text(&self) -> &str {
        match self {
            Token::Word(word) => word,
            Token::Symbol(symbol) => symbol,
            Token::End => "",
        }
    }
}

/// The requirements of a selector, or what is wrong with it.
pub fn parse(text: &str) -> Result<LabelSelector, String> {
    let mut parser = Parser { tokens: tokens(text), at: 0 };
    let mut requirements = parser.requirements()?;
    requirements.sort_by(|a, b| a.key.cmp(&b.key));
    Ok(LabelSelector(requirements))
}

fn tokens(text: &str) -> Vec<Token> {
    let mut out = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let symbol = ["==", "!=", "=", "!", "(", ")", ",", "<", ">"].into_iter().find(|s| rest.starts_with(s));
        if let Some(symbol) = symbol {
            out.push(Token::Symbol(symbol));
            rest = &rest[symbol.len()..];
        } else {
            let special = |c: char| c.is_whitespace() || "=!(),<>".contains(c);
            let end = rest.find(special).unwrap_or(rest.len()).max(first.len_utf8());
            out.push(Token::Word(rest[..end].to_owned()));
            rest = &rest[end..];
        }
        rest = rest.trim_start();
    }
    out.push(Token::End);
    out
}

struct Parser {
    tokens: Vec<Token>,
    at: usize,
}

impl Parser {
    fn peek(&self) -> &Token {
        self.tokens.get(self.at).unwrap_or(&Token::End)
    }

    fn next(&mut self) -> Token {
        let token = self.peek().clone();
        self.at += 1;
        token
    }

    fn requirements(&mut self) -> Result<Vec<Requirement>, String> {
        let mut out = Vec::new();
        loop {
            match self.peek() {
                Token::Word(_) | Token::Symbol("!") => {
                    let read = self.requirement();
                    out.push(read.map_err(|text| format!("unable to parse requirement: {text}"))?);
                    match self.next() {
                        Token::End => return Ok(out),
                        Token::Symbol(",") => {
                            if !matches!(self.peek(), Token::Word(_) | Token::Symbol("!")) {
                                return Err(format!("found '{}', expected: identifier after ','", self.peek().text()));
                            }
                        }
                        other => return Err(format!("found '{}', expected: ',' or 'end of string'", other.text())),
                    }
                }
                Token::End => return Ok(out),
                other @ Token::Symbol(_) => {
                    return Err(format!("found '{}', expected: !, identifier, or 'end of string'", other.text()));
                }
            }
        }
    }

    fn requirement(&mut self) -> Result<Requirement, String> {
        let negated = *self.peek() == Token::Symbol("!");
        if negated {
            self.at += 1;
        }
        let key = match self.next() {
            Token::Word(word) => word,
            other => return Err(format!("found '{}', expected: identifier", other.text())),
        };
        let wrong = validation::qualified_name(&key);
        if !wrong.is_empty() {
            return Err(format!("<nil>: Invalid value: {key:?}: {}", wrong.join("; ")));
        }
        if negated {
            return Ok(Requirement { key, operator: Operator::Absent, values: BTreeSet::new() });
        }
        if matches!(self.peek(), Token::End | Token::Symbol(",")) {
            return Ok(Requirement { key, operator: Operator::Exists, values: BTreeSet::new() });
        }
        self.comparison(key)
    }

    fn comparison(&mut self, key: String) -> Result<Requirement, String> {
        const EXPECTED: &str = "in, notin, =, ==, !=, gt, lt";
        let (operator, set) = match self.next() {
            Token::Symbol("=" | "==") => (Operator::In, false),
            Token::Symbol("!=") => (Operator::NotIn, false),
            Token::Symbol(">") => (Operator::Greater, false),
            Token::Symbol("<") => (Operator::Less, false),
            Token::Word(word) if word == "in" => (Operator::In, true),
            Token::Word(word) if word == "notin" => (Operator::NotIn, true),
            other => return Err(format!("found '{}', expected: {EXPECTED}", other.text())),
        };
        let values = if set { self.set()? } else { BTreeSet::from([self.exact_value()?]) };
        if matches!(operator, Operator::Greater | Operator::Less)
            && let Some(value) = values.iter().find(|v| v.parse::<i64>().is_err())
        {
            return Err(format!(
                "values[0]: Invalid value: {value:?}: for 'Gt', 'Lt' operators, the value must be an integer"
            ));
        }
        for (index, value) in values.iter().enumerate() {
            let wrong = validation::label_value(value);
            if !wrong.is_empty() {
                return Err(format!("values[{index}][{key}]: Invalid value: {value:?}: {}", wrong.join("; ")));
            }
        }
        Ok(Requirement { key, operator, values })
    }

    fn exact_value(&mut self) -> Result<String, String> {
        match self.peek() {
            Token::End | Token::Symbol(",") => Ok(String::new()),
            Token::Word(_) => Ok(self.next().text().to_owned()),
            other @ Token::Symbol(_) => Err(format!("found '{}', expected: identifier", other.text())),
        }
    }

    fn set(&mut self) -> Result<BTreeSet<String>, String> {
        match self.next() {
            Token::Symbol("(") => {}
            other => return Err(format!("found '{}' expected: '('", other.text())),
        }
        let mut out = BTreeSet::new();
        loop {
            match self.next() {
                Token::Word(word) => {
                    out.insert(word);
                    match self.next() {
                        Token::Symbol(",") => {}
                        Token::Symbol(")") => return Ok(out),
                        other => return Err(format!("found '{}', expected: ',' or ')'", other.text())),
                    }
                }
                Token::Symbol(",") => {
                    out.insert(String::new());
                }
                Token::Symbol(")") => {
                    out.insert(String::new());
                    return Ok(out);
                }
                other => return Err(format!("found '{}', expected: ',', ')' or identifier", other.text())),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(selector: &str) -> bool {
        let labels = [("app", "web"), ("tier", "a"), ("n", "5"), ("empty", "")];
        parse(selector).unwrap().matches(|key| labels.iter().find(|(k, _)| *k == key).map(|(_, v)| *v))
    }

    #[test]
    fn requirements_match_as_they_read() {
        for yes in [
            "",
            "app=web",
            "app==web",
            "app!=db",
            "tier in (a,b)",
            "tier notin (b)",
            "app",
            "!gone",
            "gone!=x",
            "gone notin (a)",
            "n>4",
            "n<6",
            "empty=",
            "empty in (,x)",
            " app = web , tier in ( a ) ",
        ] {
            assert!(matches(yes), "{yes}");
        }
        for no in ["app=db", "app!=web", "tier in (b)", "tier notin (a,b)", "gone", "!app", "gone=x", "n>5", "app>1"] {
            assert!(!matches(no), "{no}");
        }
    }

    #[test]
    fn refusals_say_what_was_found() {
        let error = |text: &str| parse(text).unwrap_err();
        assert_eq!(error("a=b,"), "found '', expected: identifier after ','");
        assert_eq!(error("a in b"), "unable to parse requirement: found 'b' expected: '('");
        assert_eq!(error("a b"), "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt");
        assert_eq!(error("=a"), "found '=', expected: !, identifier, or 'end of string'");
        assert!(error("a=b!c").starts_with("found '!', expected: ',' or 'end of string'"));
        assert!(error("a=-").starts_with(
            "unable to parse requirement: values[0][a]: Invalid value: \"-\": a valid label must be an empty string"
        ));
        assert!(error("a//b=c").starts_with(
            "unable to parse requirement: <nil>: Invalid value: \"a//b\": a qualified name must consist of"
        ));
    }
}
