//! The scenarios in a Markdown file: numbered table rows under a heading "Acceptance scenarios", numbered sentences under a
//! heading "Checklist", and ids such as `UR-04`, `PL-S1` or `EV-3` at the start of a heading or table row.

use super::id::{Family, Id};

const SCENARIO_HEADING: &str = "Acceptance scenarios";
const CHECKLIST_HEADING: &str = "Checklist";

/// The scenarios of a file, in its order, each once. `stem` is the file's name without its extension.
pub(super) fn scenarios(stem: &str, text: &str) -> Vec<Id> {
    let numbered = Family::of_file(stem);
    let mut in_scenarios = false;
    let mut found: Vec<Id> = Vec::new();
    for line in text.lines() {
        if line.starts_with('#') {
            in_scenarios = line.contains(SCENARIO_HEADING);
        }
        let Some(first) = opening(line) else { continue };
        let row = numbered.filter(|_| in_scenarios && line.starts_with('|')).and_then(|family| family.id(first));
        if let Some(id) = row.or_else(|| Id::in_catalogue(first))
            && !found.contains(&id)
        {
            found.push(id);
        }
    }
    found.extend(checklist(text));
    found
}

/// The items of a checklist: `1.`, then `2.` and so on, wherever in its text they stand.
fn checklist(text: &str) -> Vec<Id> {
    let lines = text.lines().skip_while(|line| !(line.starts_with('#') && line.contains(CHECKLIST_HEADING))).skip(1);
    let lines = lines.take_while(|line| !line.starts_with('#'));
    let mut found = Vec::new();
    for word in lines.flat_map(str::split_whitespace) {
        let next = (found.len() + 1).to_string();
        if word.strip_suffix('.') == Some(next.as_str()) {
            found.extend(Family::Checklist.id(&next));
        }
    }
    found
}

/// The first word of a heading or of a table's row.
fn opening(line: &str) -> Option<&str> {
    let rest = line.strip_prefix('|').or_else(|| line.strip_prefix('#').map(|rest| rest.trim_start_matches('#')))?;
    rest.split('|').next()?.split_whitespace().next()
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};

    fn check(stem: &str, text: &str, expected: Expect) {
        let ids: Vec<String> = scenarios(stem, text).iter().map(Id::to_string).collect();
        expected.assert_eq(&ids.join(" "));
    }

    #[test]
    fn numbered_rows_count_only_below_their_heading() {
        let text = "## A. Queues\n| 1 | no |\n# F. Acceptance scenarios\nText\n| Id | Name |\n|---|---|\n| c1 | east |\n\
                    | # | Given |\n| 1 | x |\n| 12 | y, see 13 |\n# G. Quirks\n| 2 | no |";
        check("scheduling", text, expect!["scheduling_01 scheduling_12"]);
        check("placement", text, expect!["placement_01 placement_12"]);
        check("api", text, expect![""]);
    }

    #[test]
    fn the_applier_counts_with_a_letter() {
        check(
            "work-applier",
            "## 11. (F) Acceptance scenarios\n| S01 | x |\n| S76 | y |\n| 5 | z |",
            expect!["applier_s01 applier_s76"],
        );
    }

    #[test]
    fn a_checklist_counts_its_items() {
        let text =
            "# 23. Times\n1. no\n## 24. Checklist\n\n1. T as in 5. 2. More than 5 min.\n3. Last\n# 25. Else\n4. no";
        check("updaterun", text, expect!["checklist_01 checklist_02 checklist_03"]);
    }

    #[test]
    fn catalogue_entries_count_where_they_are_defined_and_once() {
        let text = "### UR-04 Index missing\n* see UR-05\n| EV-1 | Valid |\n| UR-16 → UR-40 | flow |\n### PL-S1 Few\n### UR-04 again";
        check("troubleshooting", text, expect!["ur_04 ev_1 ur_16 pl_s1"]);
    }
}
