//! The ids of scenarios in specifications and test names: `UR-04`, `ur_04_…` and `ur_4_…` are one id; `placement_02_03_…`
//! contains two.

use std::fmt;

/// A series of scenarios.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Family {
    Placement,
    Scheduling,
    Applier,
    UpdateRun,
    Checklist,
    PlacementTrouble,
    Eviction,
}

impl Family {
    const ALL: [Family; 7] = [
        Family::Placement,
        Family::Scheduling,
        Family::Applier,
        Family::UpdateRun,
        Family::Checklist,
        Family::PlacementTrouble,
        Family::Eviction,
    ];

    /// The series that numbers the rows of a file's scenario tables.
    pub(super) fn of_file(stem: &str) -> Option<Family> {
        match stem {
            "placement" => Some(Family::Placement),
            "scheduling" => Some(Family::Scheduling),
            "work-applier" => Some(Family::Applier),
            _ => None,
        }
    }

    fn prefix(self) -> &'static str {
        match self {
            Family::Placement => "placement",
            Family::Scheduling => "scheduling",
            Family::Applier => "applier",
            Family::UpdateRun => "ur",
            Family::Checklist => "checklist",
            Family::PlacementTrouble => "pl",
            Family::Eviction => "ev",
        }
    }

    /// Digits that the number has at least.
    fn width(self) -> usize {
        match self {
            Family::PlacementTrouble | Family::Eviction => 1,
            _ => 2,
        }
    }

    /// `number` as an id of this series: digits, after a letter where the series has one.
    pub(super) fn id(self, number: &str) -> Option<Id> {
        let number = number.to_ascii_lowercase();
        let digits = number.trim_start_matches(|c: char| c.is_ascii_lowercase());
        let letters = &number[..number.len() - digits.len()];
        let fits = match self {
            Family::Applier => letters == "s",
            Family::PlacementTrouble => letters.len() == 1,
            _ => letters.is_empty(),
        };
        if !fits || digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        Some(Id { family: self, letter: letters.to_owned(), number: digits.parse().ok()? })
    }
}

/// One scenario.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Id {
    family: Family,
    letter: String,
    number: u32,
}

impl Id {
    /// An id as catalogues write it: `UR-04`, `PL-S1`, `EV-3`.
    pub(super) fn in_catalogue(word: &str) -> Option<Id> {
        let (series, number) = word.split_once('-')?;
        let family = match series {
            "UR" => Family::UpdateRun,
            "PL" => Family::PlacementTrouble,
            "EV" => Family::Eviction,
            _ => return None,
        };
        family.id(number)
    }

    /// The ids in the name of a test: all numbers after the prefix of a series.
    pub(super) fn carried_by(name: &str) -> Vec<Id> {
        let mut found = Vec::new();
        let mut series = None;
        for word in name.split('_') {
            if let Some(family) = Family::ALL.into_iter().find(|family| family.prefix() == word) {
                series = Some(family);
            } else {
                match series.and_then(|family| family.id(word)) {
                    Some(id) => found.push(id),
                    None => series = None,
                }
            }
        }
        found
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Id { family, letter, number } = self;
        write!(f, "{}_{letter}{number:0width$}", family.prefix(), width = family.width())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};

    fn check(name: &str, expected: Expect) {
        let ids: Vec<String> = Id::carried_by(name).iter().map(Id::to_string).collect();
        expected.assert_eq(&ids.join(" "));
    }

    #[test]
    fn names_have_one_id_or_several() {
        check("placement_07_a_duplicate_is_refused", expect!["placement_07"]);
        check("placement_02_03_04_labels_select_and_deselect", expect!["placement_02 placement_03 placement_04"]);
        check("applier_s31_s32_drift", expect!["applier_s31 applier_s32"]);
        check("pl_s1_too_few_clusters", expect!["pl_s1"]);
        check("both_scopes_ur_04_and_ev_3_fail", expect!["ur_04 ev_3"]);
        check("timeline_c_checklist_08_a_slot_is_freed", expect!["checklist_08"]);
    }

    #[test]
    fn other_words_have_no_id() {
        check("placement_of_3_clusters", expect![""]);
        check("prev_1_is_kept", expect![""]);
        check("applier_31_lacks_its_letter", expect![""]);
        check("scheduling_s1", expect![""]);
    }

    #[test]
    fn leading_zeroes_do_not_matter() {
        assert_eq!(Id::in_catalogue("UR-04"), Id::carried_by("ur_4_x").pop());
        assert_eq!(Id::in_catalogue("EV-1"), Id::carried_by("ev_01").pop());
        assert_eq!(Id::in_catalogue("XY-1"), None);
    }
}
