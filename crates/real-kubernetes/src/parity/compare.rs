//! Compares two transcripts of a case: which steps differ, whether the difference is known, and which steps did not behave as
//! the script requires.

use super::divergence::{Accepted, Known};
use super::script::Case;
use super::transcript::{Answer, Transcript};
use similar::TextDiff;

/// A step that two servers answered differently.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Difference {
    pub(super) case: String,
    pub(super) step: String,
    /// Unified diff, real server first.
    pub(super) diff: String,
    /// Index into the table of known differences, if one excuses it.
    pub(super) known: Option<usize>,
    /// The real server refused and ours accepted: never excusable.
    pub(super) too_lenient: bool,
}

/// The differing steps of one case.
pub(super) fn compare(real: &Transcript, ours: &Transcript, known: &[Known]) -> Vec<Difference> {
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

/// Unexpected results of the real server: a step that fails unexpectedly, or that is expected to fail and succeeds. Two servers
/// that fail in the same way only show that the script is wrong.
pub(super) fn failures(case: &Case, real: &Transcript, ours: &Transcript) -> Vec<String> {
    let counts = (case.steps.len(), real.answers.len(), ours.answers.len());
    if counts.0 != counts.1 || counts.0 != counts.2 {
        let (steps, real, ours) = counts;
        return vec![format!("{}: {steps} steps, {real} answers of the real server, {ours} of ours", case.name)];
    }
    let mut found = Vec::new();
    for ((step, real), ours) in case.steps.iter().zip(&real.answers).zip(&ours.answers) {
        if step.name != real.step || step.name != ours.step {
            found.push(format!(
                "{} / {}: answers of the steps {:?} and {:?}",
                case.name, step.name, real.step, ours.step
            ));
        } else if let Some(why) = unexpected(step.expects_refusal(), real) {
            found.push(format!("{} / {}: {why}", case.name, step.name));
        }
    }
    found
}

fn unexpected(expects_refusal: bool, answer: &Answer) -> Option<String> {
    if let Some(why) = &answer.failed {
        return Some(why.clone());
    }
    match answer.accepted {
        Some(true) if expects_refusal => Some("the script expects a refusal, and the real server accepts".to_owned()),
        Some(false) if !expects_refusal => {
            let first = answer.text.lines().next().unwrap_or_default();
            Some(format!("the real server refuses ({first}), and the script does not say @refused"))
        }
        None => Some("no answer".to_owned()),
        Some(_) => None,
    }
}

/// Entries whose case was run but whose difference was not seen: they must be removed.
pub(super) fn unused<'a>(known: &'a [Known], cases_run: &[&str], differences: &[Difference]) -> Vec<&'a Known> {
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
        answered(&[answer("one", text, Some(accepted))])
    }

    fn answer(step: &str, text: &str, accepted: Option<bool>) -> Answer {
        Answer { step: step.into(), text: text.into(), accepted, failed: None }
    }

    fn answered(answers: &[Answer]) -> Transcript {
        Transcript { case: "a/b".into(), answers: answers.to_vec() }
    }

    fn case(text: &str) -> Case {
        super::super::script::parse("a/b", text).expect("parses")
    }

    /// What is wrong if both servers answer the only step in this way.
    fn check(script: &str, answer: &Answer, expected: &[&str]) {
        let both = answered(std::slice::from_ref(answer));
        assert_eq!(failures(&case(script), &both, &both), expected, "{script}");
    }

    #[test]
    fn audit_21_a_step_that_fails_alike_on_both_servers_fails_the_suite() {
        let plain = "#\n=== one\nGET /x\n";
        let refused = "#\n=== one\n@refused\nGET /x\n";
        let gone = "#\n=== one\n@until 404\nGET /x\n";
        check(plain, &answer("one", "200", Some(true)), &[]);
        check(
            plain,
            &answer("one", "404\n{}", Some(false)),
            &["a/b / one: the real server refuses (404), and the script does not say @refused"],
        );
        check(refused, &answer("one", "422", Some(false)), &[]);
        check(gone, &answer("one", "404", Some(false)), &[]);
        check(
            refused,
            &answer("one", "200", Some(true)),
            &["a/b / one: the script expects a refusal, and the real server accepts"],
        );
        check(plain, &answer("one", "error: connection refused", None), &["a/b / one: no answer"]);
        let quiet =
            Answer { failed: Some("nothing at /a to save as b".to_owned()), ..answer("one", "200", Some(true)) };
        check(plain, &quiet, &["a/b / one: nothing at /a to save as b"]);
    }

    #[test]
    fn audit_21_transcripts_of_different_length_fail_the_suite() {
        let script = case("#\n=== one\nGET /x\n=== two\nGET /y\n");
        let (one, two) = (answer("one", "200", Some(true)), answer("two", "200", Some(true)));
        let whole = answered(&[one.clone(), two.clone()]);
        let cut = answered(std::slice::from_ref(&one));
        assert_eq!(failures(&script, &whole, &whole), Vec::<String>::new());
        assert_eq!(failures(&script, &cut, &cut), ["a/b: 2 steps, 1 answers of the real server, 1 of ours"]);
        assert_eq!(failures(&script, &whole, &cut), ["a/b: 2 steps, 2 answers of the real server, 1 of ours"]);
        let turned = answered(&[two, one]);
        assert_eq!(failures(&script, &turned, &whole).len(), 2, "answers of other steps");
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
