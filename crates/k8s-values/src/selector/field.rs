//! Field selectors: `metadata.name=a,status.phase!=Running`.

use std::borrow::Cow;

/// All terms must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FieldSelector(Vec<Term>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Term {
    field: String,
    value: String,
    equal: bool,
}

impl FieldSelector {
    /// Terms are separated by commas; a backslash takes the next character literally.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut terms = Vec::new();
        for part in split_terms(text).into_iter().filter(|part| !part.is_empty()) {
            let term = parse_term(&part)
                .ok_or_else(|| format!("invalid selector: '{text}'; can't understand '{part}'"))?
                .map_err(|why| format!("invalid field selector: {why}"))?;
            if !term.value.is_empty() || !term.field.is_empty() {
                terms.push(term);
            }
        }
        Ok(Self(terms))
    }

    pub fn is_everything(&self) -> bool {
        self.0.is_empty()
    }

    /// The fields that are compared.
    pub fn fields(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|term| term.field.as_str())
    }

    /// The value that a field of every match must have, if the selector demands one.
    pub fn exact(&self, field: &str) -> Option<&str> {
        self.0.iter().find(|term| term.equal && term.field == field).map(|term| term.value.as_str())
    }

    /// Whether an object matches whose fields `value` looks up. A field that it does not know equals nothing.
    pub fn matches<'a>(&self, value: impl Fn(&str) -> Option<Cow<'a, str>>) -> bool {
        self.0.iter().all(|term| value(&term.field).is_some_and(|value| value == term.value) == term.equal)
    }
}

fn split_terms(text: &str) -> Vec<String> {
    let mut out = vec![String::new()];
    let mut escaped = false;
    for c in text.chars() {
        if c == ',' && !escaped {
            out.push(String::new());
            continue;
        }
        escaped = c == '\\' && !escaped;
        if let Some(last) = out.last_mut() {
            last.push(c);
        }
    }
    out
}

fn parse_term(part: &str) -> Option<Result<Term, String>> {
    let at = operator_position(part)?;
    let (field, rest) = part.split_at(at);
    let (equal, value) = match rest {
        r if r.starts_with("!=") => (false, &r[2..]),
        r if r.starts_with("==") => (true, &r[2..]),
        r => (true, &r[1..]),
    };
    Some(unescape(value).map(|value| Term { field: field.to_owned(), value, equal }))
}

fn operator_position(part: &str) -> Option<usize> {
    let bytes = part.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 1,
            b'=' => return Some(at),
            b'!' if bytes.get(at + 1) == Some(&b'=') => return Some(at),
            _ => {}
        }
        at += 1;
    }
    None
}

fn unescape(value: &str) -> Result<String, String> {
    let mut out = String::with_capacity(value.len());
    let mut characters = value.chars();
    while let Some(c) = characters.next() {
        match c {
            '\\' => match characters.next() {
                Some(next @ ('\\' | ',' | '=')) => out.push(next),
                Some(next) => return Err(format!("invalid escape sequence: \\{next}")),
                None => return Err("invalid escape sequence: \\".to_owned()),
            },
            ',' | '=' => return Err(format!("unescaped character in value: {}", u32::from(c))),
            _ => out.push(c),
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terms_match_the_fields_of_an_object() {
        let fields = [("metadata.name", "a"), ("metadata.namespace", "ns"), ("status.phase", "Running")];
        let value =
            |wanted: &str| fields.iter().find(|(field, _)| *field == wanted).map(|(_, value)| Cow::from(*value));
        let matches = |text: &str| FieldSelector::parse(text).unwrap().matches(value);
        assert!(matches("metadata.name=a,metadata.namespace==ns,status.phase=Running"));
        assert!(!matches("metadata.name!=a") && matches("metadata.name!=b") && !matches("status.phase!=Running"));
        assert!(matches("") && matches(",") && !matches("metadata.name=a\\,b"));
        assert!(!matches("spec.unknown=") && matches("spec.unknown!=x"), "an unknown field equals nothing");
    }

    #[test]
    fn invalid_terms_are_named() {
        let error = |text: &str| FieldSelector::parse(text).unwrap_err();
        assert_eq!(error("foo"), "invalid selector: 'foo'; can't understand 'foo'");
        assert_eq!(error("a=b=c"), "invalid field selector: unescaped character in value: 61");
        assert_eq!(error("a=b\\c"), "invalid field selector: invalid escape sequence: \\c");
    }

    #[test]
    fn a_value_that_every_match_must_have_is_known() {
        let selector = FieldSelector::parse("a!=x,a=y,b=z").unwrap();
        assert_eq!((selector.exact("a"), selector.exact("b"), selector.exact("c")), (Some("y"), Some("z"), None));
        assert_eq!(selector.fields().collect::<Vec<_>>(), ["a", "a", "b"]);
    }
}
