//! When a controller reconciles a key again if nothing changes. Plans and the runtime share this type.

use jiff::Timestamp;

/// When to reconcile again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Wake {
    /// Only when an observed object changes.
    #[default]
    OnChange,
    /// Also at this instant, because the decision depends on the time.
    At(Timestamp),
}

impl Wake {
    /// The earlier of the two.
    #[must_use]
    pub fn earlier(self, other: Self) -> Self {
        match (self, other) {
            (Self::At(one), Self::At(another)) => Self::At(one.min(another)),
            (Self::OnChange, wake) | (wake, Self::OnChange) => wake,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earlier_wake_up_wins() {
        let (early, late) = (Timestamp::from_second(1).unwrap(), Timestamp::from_second(2).unwrap());
        assert_eq!(Wake::At(late).earlier(Wake::At(early)), Wake::At(early));
        assert_eq!(Wake::OnChange.earlier(Wake::At(late)), Wake::At(late));
        assert_eq!(Wake::At(late).earlier(Wake::OnChange), Wake::At(late));
        assert_eq!(Wake::OnChange.earlier(Wake::OnChange), Wake::OnChange);
    }
}
