//! Suggests an existing name for a misspelt one, by edit distance.

/// The nearest name, if it differs in no more than a third of its letters.
pub(super) fn nearest<'n>(wanted: &str, names: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    let (distance, name) = names.map(|name| (distance(wanted, name), name)).min()?;
    (distance <= wanted.chars().count().max(name.chars().count()) / 3).then_some(name)
}

/// How many letters have to be added, removed or replaced.
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (i, a) in one.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, b) in other.iter().enumerate() {
            let replaced = diagonal + usize::from(a != *b);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_similar_names_are_suggested() {
        let names = ["example-placement", "web"];
        assert_eq!(nearest("exmaple-placement", names.into_iter()), Some("example-placement"));
        assert_eq!(nearest("wob", names.into_iter()), Some("web"));
        assert_eq!(nearest("database", names.into_iter()), None);
        assert_eq!(nearest("x", std::iter::empty()), None);
        assert_eq!((distance("", "abc"), distance("kitten", "sitting"), distance("a", "a")), (3, 3, 0));
    }
}
