//! CEL source text to tokens.

use super::ast::Literal;
use super::issue::Issue;

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Token {
    Ident(String),
    Literal(Literal),
    /// An integer without sign; its sign is decided by the parser, because `-9223372036854775808` is valid.
    Whole(u64),
    Symbol(&'static str),
    End,
}

/// A token and the byte offset where it starts.
pub(super) type Placed = (Token, usize);

const SYMBOLS: [&str; 24] = [
    "&&", "||", "==", "!=", "<=", ">=", "<", ">", "+", "-", "*", "/", "%", "!", "?", ":", "(", ")", "[", "]", "{", "}",
    ",", ".",
];

pub(super) fn tokens(source: &str) -> Result<Vec<Placed>, Issue> {
    let mut out = Vec::new();
    let mut at = 0;
    while let Some(first) = source[at..].chars().next() {
        let rest = &source[at..];
        if first.is_whitespace() {
            at += first.len_utf8();
        } else if rest.starts_with("//") {
            at += rest.find('\n').unwrap_or(rest.len());
        } else if let Some(prefix) = string_prefix(rest) {
            let (literal, length) = string(rest, prefix).map_err(|message| Issue::new(at, message))?;
            out.push((Token::Literal(literal), at));
            at += length;
        } else if first.is_ascii_digit() || (first == '.' && rest[1..].starts_with(|c: char| c.is_ascii_digit())) {
            let (token, length) = number(rest).map_err(|message| Issue::new(at, message))?;
            out.push((token, at));
            at += length;
        } else if first.is_ascii_alphabetic() || first == '_' {
            let length = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
            out.push((word(&rest[..length]), at));
            at += length;
        } else if let Some(symbol) = SYMBOLS.into_iter().find(|symbol| rest.starts_with(symbol)) {
            out.push((Token::Symbol(symbol), at));
            at += symbol.len();
        } else {
            return Err(Issue::new(at, format!("Syntax error: token recognition error at: '{first}'")));
        }
    }
    out.push((Token::End, source.len()));
    Ok(out)
}

fn word(text: &str) -> Token {
    match text {
        "true" => Token::Literal(Literal::Bool(true)),
        "false" => Token::Literal(Literal::Bool(false)),
        "null" => Token::Literal(Literal::Null),
        "in" => Token::Symbol("in"),
        _ => Token::Ident(text.to_owned()),
    }
}

fn number(rest: &str) -> Result<(Token, usize), String> {
    let digits =
        |from: usize| rest[from..].find(|c: char| !c.is_ascii_digit()).map_or(rest.len(), |length| from + length);
    if let Some(hex) = rest.strip_prefix("0x") {
        let length = 2 + hex.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(hex.len());
        let value = u64::from_str_radix(&rest[2..length], 16);
        return suffixed(rest, length, value.map_err(|_| "invalid int literal".to_owned()));
    }
    let whole_end = digits(0);
    let mut end = whole_end;
    if rest[end..].starts_with('.') && rest[end + 1..].starts_with(|c: char| c.is_ascii_digit()) {
        end = digits(end + 1);
    }
    if rest[end..].starts_with(['e', 'E']) {
        let sign = usize::from(rest[end + 1..].starts_with(['+', '-']));
        if rest[end + 1 + sign..].starts_with(|c: char| c.is_ascii_digit()) {
            end = digits(end + 1 + sign);
        }
    }
    if end == whole_end {
        return suffixed(rest, end, rest[..end].parse().map_err(|_| "invalid int literal".to_owned()));
    }
    let value = rest[..end].parse().map_err(|_| "invalid double literal".to_owned())?;
    Ok((Token::Literal(Literal::Double(value)), end))
}

fn suffixed(rest: &str, end: usize, value: Result<u64, String>) -> Result<(Token, usize), String> {
    if rest[end..].starts_with(['u', 'U']) {
        return Ok((Token::Literal(Literal::Uint(value.map_err(|_| "invalid uint literal".to_owned())?)), end + 1));
    }
    Ok((Token::Whole(value?), end))
}

/// Bytes before the opening quote (`r`, `b`, both or none), if a string starts here.
fn string_prefix(rest: &str) -> Option<&str> {
    // A prefix has at most two letters, so a long source is not searched for every token.
    let length = rest.bytes().take(3).position(|byte| byte == b'"' || byte == b'\'')?;
    let prefix = &rest[..length];
    matches!(prefix.to_ascii_lowercase().as_str(), "" | "r" | "b" | "br" | "rb").then_some(prefix)
}

fn string(rest: &str, prefix: &str) -> Result<(Literal, usize), String> {
    let lower = prefix.to_ascii_lowercase();
    let (raw, bytes) = (lower.contains('r'), lower.contains('b'));
    let body = &rest[prefix.len()..];
    let quote = ["\"\"\"", "'''", "\"", "'"].into_iter().find(|quote| body.starts_with(quote)).unwrap_or("\"");
    let inside = &body[quote.len()..];
    let mut at = 0;
    let mut text: Vec<u8> = Vec::new();
    loop {
        if inside[at..].starts_with(quote) {
            break;
        }
        let Some(c) = inside[at..].chars().next().filter(|c| quote.len() == 3 || *c != '\n') else {
            return Err(format!(
                "Syntax error: token recognition error at: '{}'",
                body.lines().next().unwrap_or_default()
            ));
        };
        if c == '\\' && raw {
            // Kept as it is, but it still keeps the next character from ending the string.
            let length = 1 + inside[at + 1..].chars().next().map_or(0, char::len_utf8);
            text.extend_from_slice(&inside.as_bytes()[at..at + length]);
            at += length;
        } else if c == '\\' {
            at += 1 + unescape(&inside[at + 1..], bytes, &mut text)?;
        } else {
            text.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
            at += c.len_utf8();
        }
    }
    let length = prefix.len() + quote.len() * 2 + at;
    if bytes {
        return Ok((Literal::Bytes(text), length));
    }
    let text = String::from_utf8(text).map_err(|_| "invalid string literal".to_owned())?;
    Ok((Literal::Text(text), length))
}

/// Reads what follows a backslash; gives back how many bytes were read.
fn unescape(rest: &str, bytes: bool, out: &mut Vec<u8>) -> Result<usize, String> {
    let bad = || "unable to unescape string".to_owned();
    let c = rest.chars().next().ok_or_else(bad)?;
    let simple = match c {
        'a' => Some(7),
        'b' => Some(8),
        'f' => Some(12),
        'n' => Some(b'\n'),
        'r' => Some(b'\r'),
        't' => Some(b'\t'),
        'v' => Some(11),
        '\\' | '?' | '"' | '\'' | '`' => u8::try_from(c).ok(),
        _ => None,
    };
    if let Some(byte) = simple {
        out.push(byte);
        return Ok(1);
    }
    let (skip, count, radix) = match c {
        'x' | 'X' => (1, 2, 16),
        'u' if !bytes => (1, 4, 16),
        'U' if !bytes => (1, 8, 16),
        '0'..='3' => (0, 3, 8),
        _ => return Err(bad()),
    };
    let code =
        rest.get(skip..skip + count).and_then(|digits| u32::from_str_radix(digits, radix).ok()).ok_or_else(bad)?;
    if bytes {
        out.push(u8::try_from(code).map_err(|_| bad())?);
    } else {
        let c = char::from_u32(code).ok_or_else(bad)?;
        out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
    }
    Ok(skip + count)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn literal(source: &str) -> Literal {
        match tokens(source).unwrap().swap_remove(0).0 {
            Token::Literal(literal) => literal,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn strings_in_all_their_forms() {
        for (source, text) in [
            (r#""a\tb""#, "a\tb"),
            (r"'it\'s'", "it's"),
            (r"r'\d+'", r"\d+"),
            ("'''two\nlines'''", "two\nlines"),
            (r"'\u00e9\x41\101'", "éAA"),
        ] {
            assert_eq!(literal(source), Literal::Text(text.to_owned()), "{source}");
        }
        assert_eq!(literal(r"b'\xff'"), Literal::Bytes(vec![255]));
        assert!(tokens("'open").is_err() && tokens(r"'\q'").is_err() && tokens("a # b").is_err());
    }

    #[test]
    fn numbers_in_all_their_forms() {
        assert_eq!(tokens("0x1F").unwrap()[0].0, Token::Whole(31));
        assert_eq!(literal("7u"), Literal::Uint(7));
        assert_eq!(literal("1.5e3"), Literal::Double(1500.0));
        assert_eq!(literal(".5"), Literal::Double(0.5));
        assert!(tokens("99999999999999999999").is_err());
    }
}
