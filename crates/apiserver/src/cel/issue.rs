//! What is wrong with the text of an expression, shown with the line it is in.

/// A finding of the parser or the type checker, at a byte offset of the source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Issue {
    pub(super) at: usize,
    pub(super) message: String,
}

impl Issue {
    pub(super) fn new(at: usize, message: impl Into<String>) -> Self {
        Self { at, message: message.into() }
    }

    /// The finding as CEL prints it: place, message, source line and a pointer below it.
    fn shown(&self, source: &str) -> String {
        let at = self.at.min(source.len());
        let start = source[..at].rfind('\n').map_or(0, |newline| newline + 1);
        let line_number = source[..start].matches('\n').count() + 1;
        let line = source[start..].lines().next().unwrap_or_default().replace('\t', " ");
        let column = source[start..at].chars().count();
        let dots: String = source[start..at].chars().map(|c| if c.len_utf8() > 1 { '．' } else { '.' }).collect();
        format!("ERROR: <input>:{line_number}:{}: {}\n | {line}\n | {dots}^", column + 1, self.message)
    }
}

/// All findings about one source, one below the other.
pub(super) fn shown(issues: &[Issue], source: &str) -> String {
    issues.iter().map(|issue| issue.shown(source)).collect::<Vec<_>>().join("\n")
}

#[test]
fn the_pointer_is_below_the_error_position() {
    let issue = Issue::new(9, "undefined field 'b'");
    assert_eq!(shown(&[issue], "self.a\n||self.b"), "ERROR: <input>:2:3: undefined field 'b'\n | ||self.b\n | ..^");
}
