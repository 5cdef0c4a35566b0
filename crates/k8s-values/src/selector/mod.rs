//! Label selectors, as objects contain them and as queries write them, and field selectors; with Kubernetes' error texts.
//!
//! An absent label selector of an object matches nothing, an empty one everything.

mod field;
mod query;

pub use field::FieldSelector;

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{go, nullable, validation};

/// Which labels an object must carry. All parts must hold; an empty selector matches every object.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "schemars", schemars(inline, extend("x-kubernetes-map-type" = "atomic")))]
pub struct LabelSelector {
    /// Labels that must be present with exactly these values.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "nullable")]
    pub match_labels: BTreeMap<String, String>,
    /// Further requirements on labels; all of them must hold.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "nullable")]
    #[cfg_attr(feature = "schemars", schemars(extend("x-kubernetes-list-type" = "atomic")))]
    pub match_expressions: Vec<LabelSelectorRequirement>,
}

/// One requirement on one label.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "schemars", schemars(inline))]
pub struct LabelSelectorRequirement {
    /// Key of the label.
    pub key: String,
    /// In, NotIn, Exists or DoesNotExist.
    pub operator: String,
    /// The values for In and NotIn; empty for the other two.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "nullable")]
    #[cfg_attr(feature = "schemars", schemars(extend("x-kubernetes-list-type" = "atomic")))]
    pub values: Vec<String>,
}

/// A valid label selector, ready to match. The default matches everything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selector(Option<Vec<Requirement>>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Requirement {
    key: String,
    operator: Operator,
    /// Sorted.
    values: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operator {
    Equals,
    In,
    NotEquals,
    NotIn,
    Exists,
    DoesNotExist,
    GreaterThan,
    LessThan,
}

/// Why a label selector is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SelectorError(String);

impl Default for Selector {
    fn default() -> Self {
        Self::everything()
    }
}

impl Selector {
    pub fn nothing() -> Self {
        Self(None)
    }

    pub fn everything() -> Self {
        Self(Some(Vec::new()))
    }

    pub fn is_everything(&self) -> bool {
        self.0.as_ref().is_some_and(Vec::is_empty)
    }

    /// The selector of an object. Fails on the first invalid part, as Kubernetes does; labels come before expressions.
    pub fn new(selector: Option<&LabelSelector>) -> Result<Self, SelectorError> {
        let Some(selector) = selector else { return Ok(Self::nothing()) };
        let labels = selector
            .match_labels
            .iter()
            .map(|(key, value)| Requirement::new(key.clone(), Operator::Equals, vec![value.clone()]));
        let expressions = selector.match_expressions.iter().map(Requirement::of_expression);
        labels.chain(expressions).collect::<Result<Vec<_>, _>>().map(Self::sorted)
    }

    /// The selector of an object that has no Rust type; null is an absent selector.
    pub fn of_value(selector: &Value) -> Result<Self, SelectorError> {
        let typed = Option::<LabelSelector>::deserialize(selector);
        Self::new(typed.map_err(|error| SelectorError(error.to_string()))?.as_ref())
    }

    /// The selector of a query: `app=web,tier in (a,b),!old`. The empty text matches everything.
    pub fn parse(text: &str) -> Result<Self, SelectorError> {
        query::requirements(text).map(Self::sorted).map_err(SelectorError)
    }

    fn sorted(mut requirements: Vec<Requirement>) -> Self {
        requirements.sort_by(|one, other| one.key.cmp(&other.key));
        Self(Some(requirements))
    }

    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.matches_by(|key| labels.get(key).map(String::as_str))
    }

    /// As `matches`, for labels that `label` looks up.
    pub fn matches_by<'a>(&self, label: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.0.as_ref().is_some_and(|requirements| requirements.iter().all(|one| one.matches(label(&one.key))))
    }
}

/// The form of a query, sorted by key. A selector that matches nothing has none and is printed as the empty text.
impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let requirements: Vec<String> = self.0.iter().flatten().map(ToString::to_string).collect();
        f.write_str(&requirements.join(","))
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (key, values) = (&self.key, self.values.join(","));
        match self.operator {
            Operator::Equals => write!(f, "{key}={values}"),
            Operator::NotEquals => write!(f, "{key}!={values}"),
            Operator::In => write!(f, "{key} in ({values})"),
            Operator::NotIn => write!(f, "{key} notin ({values})"),
            Operator::Exists => f.write_str(key),
            Operator::DoesNotExist => write!(f, "!{key}"),
            Operator::GreaterThan => write!(f, "{key}>{values}"),
            Operator::LessThan => write!(f, "{key}<{values}"),
        }
    }
}

impl Requirement {
    fn of_expression(expression: &LabelSelectorRequirement) -> Result<Self, SelectorError> {
        let LabelSelectorRequirement { key, operator, values } = expression;
        let operator = match operator.as_str() {
            "In" => Operator::In,
            "NotIn" => Operator::NotIn,
            "Exists" => Operator::Exists,
            "DoesNotExist" => Operator::DoesNotExist,
            _ => return Err(SelectorError(format!("{} is not a valid label selector operator", go::quoted(operator)))),
        };
        Self::new(key.clone(), operator, values.clone())
    }

    /// Checks key, number of values and values, and reports all that is wrong.
    fn new(key: String, operator: Operator, mut values: Vec<String>) -> Result<Self, SelectorError> {
        let mut problems = Vec::new();
        let wrong = validation::qualified_name(&key);
        if !wrong.is_empty() {
            problems.push(format!("key: Invalid value: {}: {}", go::quoted(&key), wrong.join("; ")));
        }
        problems.extend(wrong_number(operator, &values));
        for (index, value) in values.iter().enumerate() {
            let wrong = validation::label_value(value);
            if !wrong.is_empty() {
                let problem =
                    format!("values[{index}][{key}]: Invalid value: {}: {}", go::quoted(value), wrong.join("; "));
                problems.push(problem);
            }
        }
        match &problems[..] {
            [] => {
                values.sort_unstable();
                Ok(Self { key, operator, values })
            }
            [only] => Err(SelectorError(only.clone())),
            several => Err(SelectorError(format!("[{}]", several.join(", ")))),
        }
    }

    fn matches(&self, value: Option<&str>) -> bool {
        match self.operator {
            Operator::Equals | Operator::In => value.is_some_and(|value| self.lists(value)),
            Operator::NotEquals | Operator::NotIn => value.is_none_or(|value| !self.lists(value)),
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
            Operator::GreaterThan => self.numbers(value).is_some_and(|(value, bound)| value > bound),
            Operator::LessThan => self.numbers(value).is_some_and(|(value, bound)| value < bound),
        }
    }

    fn lists(&self, value: &str) -> bool {
        self.values.binary_search_by(|listed| listed.as_str().cmp(value)).is_ok()
    }

    fn numbers(&self, value: Option<&str>) -> Option<(i64, i64)> {
        Some((value?.parse().ok()?, self.values.first()?.parse().ok()?))
    }
}

/// What is wrong with the number of values, or with a value that must be a number.
fn wrong_number(operator: Operator, values: &[String]) -> Option<String> {
    let complain = |why: &str| {
        // Go prints an absent list as null.
        let list = if values.is_empty() { "null".to_owned() } else { go::json(&values) };
        Some(format!("values: Invalid value: {list}: {why}"))
    };
    match operator {
        Operator::In | Operator::NotIn if values.is_empty() => {
            complain("for 'in', 'notin' operators, values set can't be empty")
        }
        Operator::Exists | Operator::DoesNotExist if !values.is_empty() => {
            complain("values set must be empty for exists and does not exist")
        }
        Operator::GreaterThan | Operator::LessThan => {
            let value = values.first().filter(|value| value.parse::<i64>().is_err())?;
            let why = "for 'Gt', 'Lt' operators, the value must be an integer";
            Some(format!("values[0]: Invalid value: {}: {why}", go::quoted(value)))
        }
        _ => None,
    }
}

#[cfg(test)]
#[allow(clippy::needless_pass_by_value, reason = "tables read better without a reference before every literal")]
mod tests;
