//! The notation of field paths in errors: `spec.list[0].name`, `spec.map[key]`. An empty path is the root of the object,
//! which Kubernetes prints as `<nil>`.

/// Bytes of a path; what is longer is cut. Every value below a long key has the key in its path, so without a bound one
/// key of a megabyte would be copied for each of them.
pub(crate) const MAX_PATH_BYTES: usize = 2048;

/// The path of a named field below `parent`.
pub(crate) fn child(parent: &str, name: &str) -> String {
    if parent.is_empty() { cut(name).to_owned() } else { joined(parent, ".", name, "") }
}

/// The path of a map entry below `parent`.
pub(crate) fn key(parent: &str, name: &str) -> String {
    joined(parent, "[", name, "]")
}

/// The path of a list item below `parent`.
pub(crate) fn index(parent: &str, position: usize) -> String {
    joined(parent, "[", &position.to_string(), "]")
}

fn joined(parent: &str, before: &str, name: &str, after: &str) -> String {
    if parent.len() >= MAX_PATH_BYTES {
        return parent.to_owned();
    }
    [parent, before, cut(name), after].concat()
}

/// The beginning of a text that fits into a path.
pub(crate) fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(MAX_PATH_BYTES)]
}

/// The path as a message shows it.
pub(crate) fn shown(path: &str) -> String {
    if path.is_empty() { "<nil>".to_owned() } else { path.to_owned() }
}

#[test]
fn audit_10_a_long_key_is_cut_in_paths() {
    let long = key("", &"ä".repeat(MAX_PATH_BYTES));
    assert_eq!(long.len(), MAX_PATH_BYTES + 2);
    assert_eq!(child(&index(&long, 1), "name"), long);
}

#[test]
fn the_root_is_shown_as_nil_and_never_leaves_a_dot() {
    assert_eq!(key(&child(&index(&child("", "list"), 2), "labels"), "a/b"), "list[2].labels[a/b]");
    assert_eq!(shown(""), "<nil>");
}
