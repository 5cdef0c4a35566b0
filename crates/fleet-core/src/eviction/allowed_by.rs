//! Why an eviction is allowed, recorded in an annotation before its binding is deleted. After a crash between the
//! deletion and the status write, the binding is gone and the reason cannot be computed again.

use std::fmt;

use fleet_api::conditions::eviction::EvictionExecuted;

/// Why an eviction may delete a binding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AllowedBy {
    PlacementFailed,
    NoBudget,
    Budget { available: usize, total: usize },
}

impl AllowedBy {
    /// `None` for conditions that delete nothing.
    pub(super) fn of(executed: &EvictionExecuted) -> Option<Self> {
        match executed {
            EvictionExecuted::PlacementFailed => Some(Self::PlacementFailed),
            EvictionExecuted::NoBudget => Some(Self::NoBudget),
            EvictionExecuted::AllowedByBudget { available, total } => {
                Some(Self::Budget { available: *available, total: *total })
            }
            _ => None,
        }
    }

    /// The reverse of `to_string`. `None` for any other text.
    pub fn parse(text: &str) -> Option<Self> {
        match text.split('/').collect::<Vec<_>>().as_slice() {
            ["PlacementFailed"] => Some(Self::PlacementFailed),
            ["NoBudget"] => Some(Self::NoBudget),
            ["Budget", available, total] => {
                Some(Self::Budget { available: available.parse().ok()?, total: total.parse().ok()? })
            }
            _ => None,
        }
    }
}

impl fmt::Display for AllowedBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PlacementFailed => f.write_str("PlacementFailed"),
            Self::NoBudget => f.write_str("NoBudget"),
            Self::Budget { available, total } => write!(f, "Budget/{available}/{total}"),
        }
    }
}

impl From<AllowedBy> for EvictionExecuted {
    fn from(allowed_by: AllowedBy) -> Self {
        match allowed_by {
            AllowedBy::PlacementFailed => Self::PlacementFailed,
            AllowedBy::NoBudget => Self::NoBudget,
            AllowedBy::Budget { available, total } => Self::AllowedByBudget { available, total },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_recorded_reason_is_read_back_and_other_text_is_ignored() {
        for reason in [AllowedBy::PlacementFailed, AllowedBy::NoBudget, AllowedBy::Budget { available: 2, total: 3 }] {
            assert_eq!(AllowedBy::parse(&reason.to_string()), Some(reason));
            assert_eq!(AllowedBy::of(&EvictionExecuted::from(reason)), Some(reason));
        }
        for text in ["", "Budget", "Budget/2", "Budget/2/-3", "Budget/2/3/4", "AlreadyBeingRemoved"] {
            assert_eq!(AllowedBy::parse(text), None, "{text}");
        }
        assert_eq!(AllowedBy::of(&EvictionExecuted::AlreadyBeingRemoved), None);
    }
}
