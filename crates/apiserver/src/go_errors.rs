//! Parse errors in the wording of Go's decoders, which kube-apiserver returns to clients.

/// The parse error in the wording of Go's decoder, as far as it can be derived from ours.
pub(crate) fn json_error(body: &[u8], error: &serde_json::Error) -> String {
    if error.is_eof() {
        return "unexpected end of JSON input".to_owned();
    }
    let line_start =
        body.split(|b| *b == b'\n').take(error.line().saturating_sub(1)).map(|l| l.len() + 1).sum::<usize>();
    let at = (line_start + error.column().saturating_sub(1)).min(body.len().saturating_sub(1));
    let character = body.get(at).map_or('\0', |b| char::from(*b));
    let text = error.to_string();
    if text.starts_with("expected ident")
        && let Some(words) = broken_literal(body, at)
    {
        return words;
    }
    let context = if text.starts_with("recursion limit exceeded") {
        "exceeded max depth"
    } else if text.starts_with("expected ident") {
        return format!("invalid character {character:?} {}", literal_context(&body[..at]));
    } else if text.starts_with("trailing characters") {
        "after top-level value"
    } else if text.starts_with("key must be a string") || text.starts_with("trailing comma") {
        "looking for beginning of object key string"
    } else if text.starts_with("expected `:`") {
        "after object key"
    } else if text.starts_with("expected `,` or `}`") {
        "after object key:value pair"
    } else if text.starts_with("expected `,` or `]`") {
        "after array element"
    } else if text.starts_with("expected value") {
        "looking for beginning of value"
    } else {
        return text;
    };
    format!("invalid character {character:?} {context}")
}

/// Which word was begun by the end of `before`, and how it should have gone on.
fn literal_context(before: &[u8]) -> String {
    for word in ["null", "true", "false"] {
        for length in (1..word.len()).rev() {
            if before.ends_with(&word.as_bytes()[..length]) {
                return format!("in literal {word} (expecting '{}')", &word[length..=length]);
            }
        }
    }
    "looking for beginning of value".to_owned()
}

/// `nul`, `tru` and their like are refused at the first letter that does not fit. Our parser may point at any of them.
fn broken_literal(body: &[u8], at: usize) -> Option<String> {
    let end = (at + 1).min(body.len());
    let start = body[..end].iter().rposition(|byte| !byte.is_ascii_lowercase()).map_or(0, |before| before + 1);
    let given = &body[start..];
    let word = ["null", "true", "false"].into_iter().find(|word| word.as_bytes().first() == given.first())?;
    let mut letters = word.chars().zip(given.iter().map(|byte| char::from(*byte)));
    let (wanted, found) = letters.find(|(wanted, found)| wanted != found)?;
    Some(format!("invalid character {found:?} in literal {word} (expecting {wanted:?})"))
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn parse_errors_have_the_wording_of_go() {
        let error = |text: &str| json_error(text.as_bytes(), &serde_json::from_str::<Value>(text).unwrap_err());
        assert_eq!(error("{"), "unexpected end of JSON input");
        assert_eq!(error(""), "unexpected end of JSON input");
        assert_eq!(error("{\"a\":x}"), "invalid character 'x' looking for beginning of value");
        assert_eq!(error("{\"a\" 1}"), "invalid character '1' after object key");
        assert_eq!(error("{\"a\":1 2}"), "invalid character '2' after object key:value pair");
        assert_eq!(error("nonsense"), "invalid character 'o' in literal null (expecting 'u')");
        assert_eq!(error("[falsy]"), "invalid character 'y' in literal false (expecting 'e')");
        assert_eq!(error("{} trailing"), "invalid character 't' after top-level value");
        assert_eq!(error("{}x"), "invalid character 'x' after top-level value");
        assert_eq!(error("not"), "invalid character 'o' in literal null (expecting 'u')");
        assert_eq!(error("{\"a\": trap}"), "invalid character 'a' in literal true (expecting 'u')");
        assert_eq!(error(&"[".repeat(1000)), "invalid character '[' exceeded max depth");
    }
}
