//! The syntax of label selectors in queries: `app=web,tier in (a,b),!old`.

use super::{Operator, Requirement};
use crate::{go, validation};

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

/// The requirements in the order of the text, or what is wrong with it.
pub(super) fn requirements(text: &str) -> Result<Vec<Requirement>, String> {
    Parser { tokens: tokens(text), at: 0 }.requirements()
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
            return Err(format!("<nil>: Invalid value: {}: {}", go::quoted(&key), wrong.join("; ")));
        }
        let (operator, values) = match self.peek() {
            _ if negated => (Operator::DoesNotExist, Vec::new()),
            Token::End | Token::Symbol(",") => (Operator::Exists, Vec::new()),
            _ => self.comparison()?,
        };
        Requirement::new(key, operator, values).map_err(|error| error.to_string())
    }

    fn comparison(&mut self) -> Result<(Operator, Vec<String>), String> {
        const EXPECTED: &str = "in, notin, =, ==, !=, gt, lt";
        let (operator, is_set) = match self.next() {
            Token::Symbol("=" | "==") => (Operator::Equals, false),
            Token::Symbol("!=") => (Operator::NotEquals, false),
            Token::Symbol(">") => (Operator::GreaterThan, false),
            Token::Symbol("<") => (Operator::LessThan, false),
            Token::Word(word) if word == "in" => (Operator::In, true),
            Token::Word(word) if word == "notin" => (Operator::NotIn, true),
            other => return Err(format!("found '{}', expected: {EXPECTED}", other.text())),
        };
        Ok((operator, if is_set { self.set()? } else { vec![self.exact_value()?] }))
    }

    fn exact_value(&mut self) -> Result<String, String> {
        match self.peek() {
            Token::End | Token::Symbol(",") => Ok(String::new()),
            Token::Word(_) => Ok(self.next().text().to_owned()),
            other @ Token::Symbol(_) => Err(format!("found '{}', expected: identifier", other.text())),
        }
    }

    /// The values in parentheses, sorted and without repetitions.
    fn set(&mut self) -> Result<Vec<String>, String> {
        match self.next() {
            Token::Symbol("(") => {}
            other => return Err(format!("found '{}' expected: '('", other.text())),
        }
        let mut out = std::collections::BTreeSet::new();
        loop {
            match self.next() {
                Token::Word(word) => {
                    out.insert(word);
                    match self.next() {
                        Token::Symbol(",") => {}
                        Token::Symbol(")") => break,
                        other => return Err(format!("found '{}', expected: ',' or ')'", other.text())),
                    }
                }
                Token::Symbol(",") => drop(out.insert(String::new())),
                Token::Symbol(")") => {
                    out.insert(String::new());
                    break;
                }
                other => return Err(format!("found '{}', expected: ',', ')' or identifier", other.text())),
            }
        }
        Ok(out.into_iter().collect())
    }
}
