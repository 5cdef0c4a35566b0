//! Addresses of pages. A namespaced object has its namespace in the query (`?ns=shop`), so that names of both scopes cannot be confused.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_');

/// A path of segments with a query.
fn path(segments: &[&str], query: &[(&str, Option<&str>)]) -> String {
    let mut out = String::new();
    for segment in segments {
        out.push('/');
        out.extend(utf8_percent_encode(segment, SEGMENT));
    }
    let mut sign = '?';
    for (name, value) in query {
        if let Some(value) = value {
            out.push(sign);
            out.push_str(name);
            out.push('=');
            out.extend(utf8_percent_encode(value, SEGMENT));
            sign = '&';
        }
    }
    out
}

pub fn run(namespace: Option<&str>, name: &str) -> String {
    path(&["runs", name], &[("ns", namespace)])
}

/// A page below a run, such as `stop`.
pub fn of_run(namespace: Option<&str>, name: &str, page: &str) -> String {
    path(&["runs", name, page], &[("ns", namespace)])
}

pub fn placement(namespace: Option<&str>, name: &str) -> String {
    path(&["placements", name], &[("ns", namespace)])
}

/// A page below a placement, such as `rollback`.
pub fn of_placement(namespace: Option<&str>, name: &str, page: &str, query: &[(&str, Option<&str>)]) -> String {
    let mut all = vec![("ns", namespace)];
    all.extend(query);
    path(&["placements", name, page], &all)
}

pub fn approval(namespace: Option<&str>, request: &str) -> String {
    path(&["approvals", request], &[("ns", namespace)])
}

pub fn cluster(name: &str) -> String {
    path(&["clusters", name], &[])
}

/// The fleet in groups.
pub fn clusters(group: &str, filter: &str) -> String {
    let given = |text: &'static str, value: &str| (text, (!value.is_empty()).then(|| value.to_owned()));
    let query = [given("group", group), given("q", filter)];
    path(&["clusters"], &query.iter().map(|(name, value)| (*name, value.as_deref())).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_encoded_as_one_path_segment() {
        assert_eq!(run(None, "web-1"), "/runs/web-1");
        assert_eq!(of_run(Some("shop"), "web-1", "stop"), "/runs/web-1/stop?ns=shop");
        assert_eq!(cluster("../x?y#z"), "/clusters/..%2Fx%3Fy%23z");
        assert_eq!(clusters("label:env", "a b"), "/clusters?group=label%3Aenv&q=a%20b");
        let rollback = of_placement(Some("a&b=c"), "web", "rollback", &[("to", Some("3"))]);
        assert_eq!(rollback, "/placements/web/rollback?ns=a%26b%3Dc&to=3");
    }
}
