//! Two transcripts of one case, side by side: which steps differ, and whether that is known. Runs nothing.

use super::divergence::{Accepted, Known};
use super::transcript::Transcript;
use similar::TextDiff;

/// A step that two servers answered differently.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    pub case: String,
    pub step: String,
    /// Unified diff, real server first.
    pub diff: String,
    /// Index into the table of known differences, if one excuses it.
    pub known: Option<usize>,
    /// The real server refused and ours accepted: never excusable.
    pub too_lenient: bool,
}

/// The differing steps of one case.
pub fn compare(real: &Transcript, ours: &Transcript, known: &[Known]) -> Vec<Difference> {
    real.answers
        .iter()
        .zip(&ours.answers)
        .filter(|(a, b)| a.text.trim_end() != b.text.trim_end())
        .map(|(a, b)| {
            let accepted = Accepted { real: a.accepted, ours: b.accepted };
            Difference {
                case: real.case.clone(),
                step: a.step.clone(),
                diff: unified(&a.text, &b.text),
                known: known.iter().position(|entry| entry.excuses(&real.case, &a.step, accepted)),
                too_lenient: a.accepted == Some(false) && b.accepted == Some(true),
            }
        })
        .collect()
}

/// Entries whose case was run but that excused nothing: they must go.
pub fn unused<'a>(known: &'a [Known], cases_run: &[&str], differences: &[Difference]) -> Vec<&'a Known> {
    let used = |index: usize| differences.iter().any(|difference| difference.known == Some(index));
    known
        .iter()
        .enumerate()
        .filter(|(index, entry)| cases_run.contains(&entry.case) && !used(*index))
        .map(|(_, entry)| entry)
        .collect()
}

fn unified(real: &str, ours: &str) -> String {
    let (real, ours) = (format!("{}\n", real.trim_end()), format!("{}\n", ours.trim_end()));
    TextDiff::from_lines(&real, &ours).unified_diff().context_radius(3).header("real", "ours").to_string()
}

#[cfg(test)]
mod tests {
    use super::super::divergence::Direction;
    use super::super::transcript::Answer;
    use super::*;
    use expect_test::expect;

    fn transcript(text: &str, accepted: bool) -> Transcript {
        let answer = Answer { step: "one".into(), text: text.into(), accepted: Some(accepted) };
        Transcript { case: "a/b".into(), answers: vec![answer] }
    }

    const ENTRY: Known = Known { case: "a/b", step: "one", reason: "why", direction: Direction::Wording };

    #[test]
    fn equal_answers_make_no_difference_and_an_idle_entry_is_reported() {
        let differences = compare(&transcript("200\n", true), &transcript("200", true), &[ENTRY]);
        assert_eq!(differences, []);
        assert_eq!(unused(&[ENTRY], &["a/b"], &differences), [&ENTRY]);
        assert!(unused(&[ENTRY], &["other/case"], &differences).is_empty());
    }

    #[test]
    fn a_difference_shows_both_sides_and_its_excuse() {
        let differences = compare(&transcript("422\nfoo", false), &transcript("422\nbar", false), &[ENTRY]);
        assert_eq!(differences[0].known, Some(0));
        assert!(unused(&[ENTRY], &["a/b"], &differences).is_empty());
        expect![[r"
            --- real
            +++ ours
            @@ -1,2 +1,2 @@
             422
            -foo
            +bar
        "]]
        .assert_eq(&differences[0].diff);
    }

    #[test]
    fn leniency_is_flagged_and_never_excused() {
        let differences = compare(&transcript("422", false), &transcript("201", true), &[ENTRY]);
        assert!(differences[0].too_lenient);
        assert_eq!(differences[0].known, None);
    }
}
