//! Suggests known names that are similar to an unknown one.

/// Minimum similarity (0 to 1) of a suggestion: a wrong letter, two swapped letters, a missing word.
const NEAR_ENOUGH: f64 = 0.8;
/// Maximum number of suggestions.
const MOST: usize = 3;

/// The most similar known names, best first.
pub(crate) fn nearest<'a>(meant: &str, known: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let similar = known.into_iter().map(|name| (strsim::jaro_winkler(name, meant), name));
    let mut similar: Vec<(f64, &str)> = similar.filter(|(likeness, _)| *likeness >= NEAR_ENOUGH).collect();
    similar.sort_by(|(one, name), (other, another)| other.total_cmp(one).then(name.cmp(another)));
    similar.dedup_by_key(|(_, name)| *name);
    similar.into_iter().take(MOST).map(|(_, name)| name).collect()
}

/// `a`, `a or b`, `a, b or c`.
pub(crate) fn alternatives(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [first @ .., last] => format!("{} or {last}", first.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(meant: &str, known: &[&str], expected: &str) {
        assert_eq!(alternatives(&nearest(meant, known.iter().copied())), expected);
    }

    #[test]
    fn similar_names_are_sorted_and_others_are_omitted() {
        check("example-rum", &["web", "example-run", "example-run-2"], "example-run or example-run-2");
        check("zebra", &["web", "example-run"], "");
        check("run-9", &["run-1", "run-2", "run-3", "run-4", "run-1"], "run-1, run-2 or run-3");
    }
}
