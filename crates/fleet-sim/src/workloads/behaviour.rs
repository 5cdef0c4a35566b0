//! How workloads behave, as data. The annotations of a pod come first, then the first matching rule of the file, then
//! the defaults. The same pod behaves the same way each time.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_values::GoDuration;
use serde::Deserialize;
use serde_json::Value;

use super::objects::{list, namespace, number_of, text, uid};

/// Annotations of pods, pod templates and nodes.
pub mod annotations {
    /// Time until a pod is ready: `90s`.
    pub const READY_AFTER: &str = "sim.kubefleet.dev/ready-after";
    /// How much that time may vary: `5s`.
    pub const JITTER: &str = "sim.kubefleet.dev/jitter";
    /// `crash` (it fails again and again), `never-ready`, or `fail` (it fails once).
    pub const OUTCOME: &str = "sim.kubefleet.dev/outcome";
    /// How long pods of Jobs and crashing pods run.
    pub const RUNS_FOR: &str = "sim.kubefleet.dev/runs-for";
    /// On a node: `true` while its kubelet is silent.
    pub const LOST: &str = "sim.kubefleet.dev/lost";
}

const DEFAULT_READY_AFTER: Duration = Duration::from_secs(2);
const DEFAULT_JITTER: Duration = Duration::from_secs(1);
const DEFAULT_RUNS_FOR: Duration = Duration::from_secs(5);
/// Longest duration; longer values are invalid.
const LONGEST: Duration = Duration::from_hours(24 * 365);

/// What happens to a pod whose images exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum PodOutcome {
    /// It becomes ready, and succeeds if it belongs to a Job.
    #[default]
    Works,
    Crash,
    NeverReady,
    Fail,
}

/// How one pod behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Behaviour {
    pub(super) ready_after: Duration,
    pub(super) runs_for: Duration,
    pub(super) outcome: PodOutcome,
}

/// Rules for the pods of a cluster.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(transparent)]
pub struct Behaviours {
    rules: Vec<Rule>,
}

/// Selects pods and sets their behaviour. Absent fields have defaults.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Rule {
    /// Pods of this namespace.
    namespace: Option<String>,
    /// Pods with these labels.
    #[serde(default)]
    labels: BTreeMap<String, String>,
    /// Pods with an image whose reference contains this text.
    image: Option<String>,
    ready_after: Option<String>,
    jitter: Option<String>,
    runs_for: Option<String>,
    outcome: Option<PodOutcome>,
}

/// Why rules are invalid.
#[derive(Debug, thiserror::Error)]
pub enum BehaviourError {
    #[error("the rules cannot be read: {0}")]
    Format(#[from] serde_json::Error),
    #[error("the rules are not valid YAML: {0}")]
    Yaml(String),
    #[error("rule {number}: `{text}` is not a duration; try `90s` or `1m30s`")]
    Time { number: usize, text: String },
}

impl Behaviours {
    /// Rules as a JSON list; the first match counts.
    pub fn parse(value: Value) -> Result<Self, BehaviourError> {
        let behaviours: Self = serde_json::from_value(value)?;
        for (index, rule) in behaviours.rules.iter().enumerate() {
            let times = [&rule.ready_after, &rule.jitter, &rule.runs_for].into_iter().flatten();
            if let Some(bad) = times.into_iter().find(|text| time(text).is_none()) {
                return Err(BehaviourError::Time { number: index + 1, text: bad.clone() });
            }
        }
        Ok(behaviours)
    }

    /// Rules as YAML.
    pub fn from_yaml(text: &str) -> Result<Self, BehaviourError> {
        let value: Value = serde_saphyr::from_str(text).map_err(|error| BehaviourError::Yaml(error.to_string()))?;
        if value.is_null() { Ok(Self::default()) } else { Self::parse(value) }
    }

    pub(super) fn of(&self, pod: &Value) -> Behaviour {
        let rule = self.rules.iter().find(|rule| rule.matches(pod));
        let annotation = |name: &str| pod["metadata"]["annotations"].get(name).and_then(Value::as_str);
        let span = |name: &str, ruled: fn(&Rule) -> Option<&String>, usual: Duration| {
            let own = annotation(name).and_then(time);
            own.or_else(|| rule.and_then(ruled).and_then(|text| time(text))).unwrap_or(usual)
        };
        let ready_after = span(annotations::READY_AFTER, |rule| rule.ready_after.as_ref(), DEFAULT_READY_AFTER);
        let jitter = span(annotations::JITTER, |rule| rule.jitter.as_ref(), DEFAULT_JITTER);
        let own = annotation(annotations::OUTCOME).and_then(outcome);
        Behaviour {
            ready_after: with_jitter(ready_after, jitter, number_of(uid(pod))),
            runs_for: span(annotations::RUNS_FOR, |rule| rule.runs_for.as_ref(), DEFAULT_RUNS_FOR),
            outcome: own.or_else(|| rule.and_then(|rule| rule.outcome)).unwrap_or_default(),
        }
    }
}

impl Rule {
    fn matches(&self, pod: &Value) -> bool {
        let labels = &pod["metadata"]["labels"];
        let has_image = |wanted: &String| {
            list(pod, "/spec/containers").iter().any(|container| text(container, "/image").contains(wanted.as_str()))
        };
        self.namespace.as_deref().is_none_or(|wanted| wanted == namespace(pod))
            && self.labels.iter().all(|(key, value)| labels.get(key).and_then(Value::as_str) == Some(value))
            && self.image.as_ref().is_none_or(has_image)
    }
}

/// A time within the jitter, chosen by a hash.
fn with_jitter(time: Duration, jitter: Duration, hash: u64) -> Duration {
    let width = u64::try_from(jitter.as_millis().saturating_mul(2)).unwrap_or_default();
    let offset = Duration::from_millis(hash % width.saturating_add(1));
    time.saturating_add(offset).saturating_sub(jitter)
}

/// `1h2m3s`, `500ms`, or a number of seconds.
pub(super) fn time(text: &str) -> Option<Duration> {
    if let Ok(seconds) = text.parse::<u64>() {
        return Some(Duration::from_secs(seconds)).filter(|time| *time <= LONGEST);
    }
    text.parse::<GoDuration>().ok()?.unsigned().filter(|time| *time <= LONGEST)
}

fn outcome(word: &str) -> Option<PodOutcome> {
    serde_json::from_value(Value::from(word)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pod(annotations: Value) -> Value {
        json!({
            "metadata": {"name": "p", "namespace": "shop", "uid": "u1", "labels": {"app": "web"}, "annotations": annotations},
            "spec": {"containers": [{"name": "c", "image": "web:2"}]},
        })
    }

    fn rules(rules: Value) -> Behaviours {
        Behaviours::parse(rules).unwrap()
    }

    #[test]
    fn annotations_come_before_rules_and_rules_before_defaults() {
        let seconds = |behaviours: &Behaviours, annotations| behaviours.of(&pod(annotations)).ready_after.as_secs();
        let none = rules(json!([]));
        let usual = none.of(&pod(json!({}))).ready_after;
        assert!(usual.abs_diff(DEFAULT_READY_AFTER) <= DEFAULT_JITTER);
        let exact = json!([
            {"namespace": "bank", "readyAfter": "7s"},
            {"image": "web:2", "readyAfter": "20s", "jitter": "0s"},
            {"readyAfter": "9s"},
        ]);
        let exact = rules(exact);
        assert_eq!(seconds(&exact, json!({})), 20);
        assert_eq!(seconds(&exact, json!({annotations::READY_AFTER: "1m"})), 60);
        assert_eq!(seconds(&exact, json!({annotations::READY_AFTER: "soon"})), 20, "what cannot be read says nothing");
    }

    #[test]
    fn a_rule_may_name_labels_and_an_outcome() {
        let crash = rules(json!([{"labels": {"app": "web"}, "outcome": "crash"}]));
        assert_eq!(crash.of(&pod(json!({}))).outcome, PodOutcome::Crash);
        assert_eq!(crash.of(&pod(json!({annotations::OUTCOME: "never-ready"}))).outcome, PodOutcome::NeverReady);
        let other = rules(json!([{"labels": {"app": "db"}, "outcome": "crash"}]));
        assert_eq!(other.of(&pod(json!({}))).outcome, PodOutcome::Works);
    }

    #[test]
    fn invalid_rules_are_refused() {
        let refusal = |value: Value| Behaviours::parse(value).unwrap_err().to_string();
        assert_eq!(
            refusal(json!([{}, {"readyAfter": "soon"}])),
            "rule 2: `soon` is not a duration; try `90s` or `1m30s`"
        );
        assert!(refusal(json!([{"readyafter": "1s"}])).contains("unknown field `readyafter`"));
        assert!(refusal(json!([{"outcome": "sings"}])).contains("unknown variant `sings`"));
        assert!(Behaviours::from_yaml("- [").unwrap_err().to_string().starts_with("the rules are not valid YAML: "));
    }

    #[test]
    fn rules_may_be_written_as_yaml() {
        let slow = Behaviours::from_yaml("# slow images\n- image: web\n  readyAfter: 40s\n  jitter: 0s\n").unwrap();
        assert_eq!(slow.of(&pod(json!({}))).ready_after, Duration::from_secs(40));
        assert!(Behaviours::from_yaml("# nothing\n").unwrap().rules.is_empty());
    }

    #[test]
    fn jitter_stays_within_its_bounds_and_is_the_same_each_time() {
        let (time, jitter) = (Duration::from_secs(10), Duration::from_secs(3));
        let all: Vec<Duration> = (0..10_000).map(|hash| with_jitter(time, jitter, hash)).collect();
        assert_eq!(all.iter().min(), Some(&Duration::from_secs(7)));
        assert_eq!(all.iter().max(), Some(&Duration::from_secs(13)));
        assert_eq!(with_jitter(Duration::ZERO, jitter, 0), Duration::ZERO);
    }

    #[test]
    fn durations_are_parsed() {
        for (text, seconds) in [("90s", 90), ("1m30s", 90), ("2h", 7200), ("15", 15)] {
            assert_eq!(time(text), Some(Duration::from_secs(seconds)), "{text}");
        }
        assert_eq!([time("-1s"), time("soon"), time(""), time("99999999h"), time("PT5S"), time("1 hour")], [None; 6]);
    }
}
