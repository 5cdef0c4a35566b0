//! Which known names may have been meant by one that nobody knows.
//!
//! Decides how similar is similar enough. Never decides what happens then.

/// A name is near enough to be meant if it is at least so similar (0 to 1): one letter wrong, two exchanged, a word missing.
const NEAR_ENOUGH: f64 = 0.8;
/// So many names are proposed: more are a list, not a proposal.
const MOST: usize = 3;

/// The known names that are nearest, the nearest first.
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
    fn the_nearest_names_come_first_and_strange_ones_not_at_all() {
        check("example-rum", &["web", "example-run", "example-run-2"], "example-run or example-run-2");
        check("zebra", &["web", "example-run"], "");
        check("run-9", &["run-1", "run-2", "run-3", "run-4", "run-1"], "run-1, run-2 or run-3");
    }
}
