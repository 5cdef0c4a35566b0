//! The traits behind every condition enum, and the macro that declares one as a table.

use std::borrow::Cow;
use std::fmt;

use super::{Condition, ConditionStatus};

/// Maximum length of a message in the schema, in characters; a longer one would make the whole status write fail.
pub const MESSAGE_LIMIT_CHARACTERS: usize = 32_768;

/// The (status, reason) pairs of one condition type, without the data of their messages.
pub trait Reason: Copy + Eq + fmt::Debug + fmt::Display + 'static {
    /// Every pair, in the order of declaration.
    const ALL: &'static [Self];

    fn status(self) -> ConditionStatus;

    /// The reason on the wire.
    fn word(self) -> &'static str;

    /// Reasons of other releases with the same meaning: read, never written.
    fn other_words(self) -> &'static [&'static str];

    fn recognise(status: ConditionStatus, word: &str) -> Option<Self> {
        Self::ALL
            .iter()
            .copied()
            .find(|reason| reason.status() == status && (reason.word() == word || reason.other_words().contains(&word)))
    }
}

/// One state of a condition type. `Display` gives its message.
pub trait ConditionState: fmt::Display + Sized {
    type Reason: Reason;

    /// What the type name depends on: `()`, except for placements, whose types contain their kind.
    type Scope: Copy;

    fn type_word(scope: Self::Scope) -> &'static str;

    fn reason(&self) -> Self::Reason;

    fn status(&self) -> ConditionStatus {
        self.reason().status()
    }

    fn message(&self) -> String {
        self.to_string()
    }

    /// This state for an object of `generation`.
    fn finding(&self, generation: i64) -> Finding
    where
        Self: ConditionState<Scope = ()>,
    {
        self.finding_in((), generation)
    }

    /// As `finding`, for types whose name depends on the scope.
    fn finding_in(&self, scope: Self::Scope, generation: i64) -> Finding {
        let reason = self.reason();
        Finding {
            type_: Cow::Borrowed(Self::type_word(scope)),
            status: reason.status(),
            reason: Cow::Borrowed(reason.word()),
            message: cut_to_limit(self.message()),
            observed_generation: generation,
        }
    }
}

/// A condition without a transition time, which depends on the previous condition, so only `put` can add it.
///
/// Made from a state or from another condition, never from loose strings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    pub(super) type_: Cow<'static, str>,
    pub(super) status: ConditionStatus,
    pub(super) reason: Cow<'static, str>,
    pub(super) message: String,
    pub(super) observed_generation: i64,
}

impl Finding {
    /// Copies another object's condition, with the type that `T` has here and this object's generation.
    ///
    /// Unknown reasons are copied too.
    pub fn copied<T: ConditionState>(scope: T::Scope, source: &Condition, generation: i64) -> Self {
        Self { type_: Cow::Borrowed(T::type_word(scope)), ..Self::repeated(source, generation) }
    }

    /// Copies a condition of any type, such as one of a property provider.
    pub fn repeated(source: &Condition, generation: i64) -> Self {
        Self {
            type_: Cow::Owned(source.type_.clone()),
            status: source.status,
            reason: Cow::Owned(source.reason.clone()),
            message: source.message.clone(),
            observed_generation: generation,
        }
    }

    pub fn type_word(&self) -> &str {
        &self.type_
    }

    pub fn status(&self) -> ConditionStatus {
        self.status
    }

    pub fn reason_word(&self) -> &str {
        &self.reason
    }

    pub fn message(&self) -> &str {
        &self.message
    }
}

fn cut_to_limit(mut message: String) -> String {
    if let Some((end, _)) = message.char_indices().nth(MESSAGE_LIMIT_CHARACTERS) {
        message.truncate(end);
    }
    message
}

/// Declares one condition type as a table: an enum of states with their data, and the enum of its reasons.
///
/// ```text
/// condition! {
///     /// What the condition is about.
///     State, StateReason: "TypeWord" {                        // `placement "…"` prefixes the kind of the placement
///         True "Word" | "OlderWord" => Reason {               // status, word on the wire, words also understood
///             First: "A message";                             // states with this reason; none: only ever read
///             Second { clusters: usize }: "In {clusters} cluster(s)";
///         }
///     }
/// }
/// ```
macro_rules! condition {
    (@type $type_word:literal) => {
        type Scope = ();

        fn type_word((): ()) -> &'static str {
            $type_word
        }
    };
    (@type placement $type_word:literal) => {
        type Scope = $crate::conditions::placement::PlacementScope;

        fn type_word(scope: Self::Scope) -> &'static str {
            match scope {
                $crate::conditions::placement::PlacementScope::Cluster => {
                    concat!("ClusterResourcePlacement", $type_word)
                }
                $crate::conditions::placement::PlacementScope::Namespaced => concat!("ResourcePlacement", $type_word),
            }
        }
    };
    (
        $(#[$about:meta])*
        $state:ident, $reasons:ident: $($family:ident)? $type_word:literal {
            $(
                $status:ident $word:literal $(| $other_word:literal)* => $reason:ident {
                    $(
                        $(#[$about_variant:meta])*
                        $variant:ident $({ $($field:ident: $field_type:ty),+ })?:
                            $message:literal $(, $argument:ident = $value:expr)*;
                    )*
                }
            )+
        }
    ) => {
        $(#[$about])*
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub enum $state {
            $($($(#[$about_variant])* $variant $({ $($field: $field_type),+ })?,)*)+
        }

        #[doc = concat!("Reasons of [`", stringify!($state), "`].")]
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $reasons {
            $($reason,)+
        }

        impl $crate::conditions::Reason for $reasons {
            const ALL: &'static [Self] = &[$(Self::$reason,)+];

            #[allow(clippy::match_same_arms, reason = "one arm per row of the table")]
            fn status(self) -> $crate::conditions::ConditionStatus {
                match self {
                    $(Self::$reason => $crate::conditions::ConditionStatus::$status,)+
                }
            }

            fn word(self) -> &'static str {
                match self {
                    $(Self::$reason => $word,)+
                }
            }

            #[allow(clippy::match_same_arms, reason = "one arm per row of the table")]
            fn other_words(self) -> &'static [&'static str] {
                match self {
                    $(Self::$reason => &[$($other_word),*],)+
                }
            }
        }

        impl std::fmt::Display for $reasons {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str($crate::conditions::Reason::word(*self))
            }
        }

        impl $crate::conditions::ConditionState for $state {
            type Reason = $reasons;

            $crate::conditions::state::condition!(@type $($family)? $type_word);

            #[allow(clippy::match_same_arms, reason = "one arm per row of the table")]
            fn reason(&self) -> $reasons {
                match self {
                    $($(Self::$variant { .. } => $reasons::$reason,)*)+
                }
            }
        }

        impl std::fmt::Display for $state {
            #[allow(clippy::match_same_arms, reason = "one arm per row of the table")]
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                match self {
                    $($(
                        Self::$variant $({ $($field),+ })? => write!(f, $message $(, $argument = $value)*),
                    )*)+
                }
            }
        }

        #[cfg(test)]
        impl $crate::conditions::tests::Samples for $state {
            fn samples() -> Vec<Self> {
                vec![$($(
                    Self::$variant $({
                        $($field: $crate::conditions::tests::Sample::sample(stringify!($field))),+
                    })?,
                )*)+]
            }
        }
    };
}

pub(super) use condition;
