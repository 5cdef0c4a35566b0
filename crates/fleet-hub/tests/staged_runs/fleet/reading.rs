//! What is read of a fleet, in words that a test can compare: runs, bindings, the placement, Events.

use fleet_testkit::conditions_text;
use serde_json::Value;

use super::{Fleet, Kind, NAMESPACE, Scope, condition, text};

impl Fleet {
    pub(crate) async fn run_object(&self, name: &str) -> Value {
        self.get(Kind::Run, name).await.unwrap()
    }

    pub(crate) async fn status(&self, run: &str) -> Value {
        self.run_object(run).await["status"].take()
    }

    /// `True False True` of Initialized, Progressing and Succeeded, a dash for what is not said.
    pub(crate) async fn columns(&self, run: &str) -> String {
        let status = self.status(run).await;
        let word =
            |type_: &str| condition(&status["conditions"], type_).map_or("-".to_owned(), |one| text(&one["status"]));
        ["Initialized", "Progressing", "Succeeded"].map(word).join(" ")
    }

    /// The whole state of a run in a few lines: its condition, then each stage with its clusters.
    pub(crate) async fn outline(&self, run: &str) -> String {
        outline(&self.status(run).await)
    }

    /// The message of a run's condition.
    pub(crate) async fn message(&self, run: &str, type_: &str) -> String {
        let status = self.status(run).await;
        condition(&status["conditions"], type_).map(|one| text(&one["message"])).unwrap_or_default()
    }

    /// `cluster=snapshot index` of all bindings that are Bound, with a dash for those that are not.
    pub(crate) async fn rolled_out(&self) -> String {
        let mut texts: Vec<String> = self
            .bindings()
            .await
            .iter()
            .map(|one| {
                let snapshot = text(&one["spec"]["resourceSnapshotName"]);
                let index = snapshot.trim_end_matches("-snapshot").rsplit('-').next().unwrap_or_default().to_owned();
                let index = if one["spec"]["state"] == "Bound" { index } else { "-".to_owned() };
                format!("{}={index}", text(&one["spec"]["targetCluster"]))
            })
            .collect();
        texts.sort();
        texts.join(" ")
    }

    /// Those of the placement that is spoken of.
    pub(crate) async fn bindings(&self) -> Vec<Value> {
        let mut all = self.list(Kind::Binding).await;
        all.retain(|one| one["metadata"]["labels"]["kubernetes-fleet.io/parent-CRP"] == self.placement);
        all
    }

    pub(crate) async fn binding(&self, cluster: &str) -> Value {
        self.bindings().await.into_iter().find(|one| one["spec"]["targetCluster"] == cluster).unwrap()
    }

    pub(crate) async fn placement(&self) -> Value {
        self.get(Kind::Placement, self.placement_name()).await.unwrap()
    }

    /// The placement's condition of this type, without the prefix of its kind: `True Reason: message`.
    pub(crate) async fn placement_condition(&self, type_: &str) -> String {
        let prefix = Kind::Placement.name(self.scope);
        let placement = self.placement().await;
        condition(&placement["status"]["conditions"], &format!("{prefix}{type_}")).map_or_else(String::new, |one| {
            format!("{} {}: {}", text(&one["status"]), text(&one["reason"]), text(&one["message"]))
        })
    }

    /// `Reason: message` of the Events about an object, in order. Each is told by whom it should be.
    pub(crate) async fn events(&self, kind: Kind, name: &str) -> Vec<String> {
        self.event_objects(kind, name).await.iter().map(words_of_event).collect()
    }

    /// The same, each as often as it happened; not in order.
    pub(crate) async fn events_with_repetitions(&self, kind: Kind, name: &str) -> Vec<String> {
        let times = |event: &Value| usize::try_from(event["count"].as_u64().unwrap()).unwrap();
        let events = self.event_objects(kind, name).await;
        events.iter().flat_map(|event| vec![words_of_event(event); times(event)]).collect()
    }

    async fn event_objects(&self, kind: Kind, name: &str) -> Vec<Value> {
        let namespace = match self.scope {
            Scope::Cluster => "default",
            Scope::Namespaced => NAMESPACE,
        };
        let mut ours = self.server.list(&format!("/api/v1/namespaces/{namespace}/events")).await;
        let of_run = match self.scope {
            Scope::Cluster => "clusterstagedupdaterun-controller",
            Scope::Namespaced => "stagedupdaterun-controller",
        };
        let kind = kind.name(self.scope);
        ours.retain(|one| one["involvedObject"]["kind"] == kind && one["involvedObject"]["name"] == name);
        for one in &ours {
            let is_of_placement = text(&one["reason"]).starts_with("Placement");
            assert_eq!(one["source"]["component"], if is_of_placement { "placement-controller" } else { of_run });
        }
        ours.sort_by_key(|one| text(&one["metadata"]["resourceVersion"]).parse::<u64>().unwrap());
        ours
    }

    /// The Work that the placement has on each member.
    pub(crate) fn work_name(&self) -> String {
        match self.scope {
            Scope::Cluster => format!("{}-work", self.placement),
            Scope::Namespaced => format!("{NAMESPACE}.{}-work", self.placement),
        }
    }
}

fn words_of_event(event: &Value) -> String {
    format!("{}: {}", text(&event["reason"]), text(&event["message"]))
}

fn outline(status: &Value) -> String {
    let says = |conditions: &Value| conditions_text(conditions).join(", ");
    let mut lines = vec![says(&status["conditions"])];
    let stages = status["stagesStatus"].as_array().cloned().unwrap_or_default();
    for stage in stages.iter().chain(status.get("deletionStageStatus")) {
        let clusters = stage["clusters"].as_array().cloned().unwrap_or_default();
        let step = |cluster: &Value| {
            let is = |type_: &str, status: &str| {
                condition(&cluster["conditions"], type_).is_some_and(|one| one["status"] == status)
            };
            let word = match (is("Started", "True"), is("Succeeded", "True"), is("Succeeded", "False")) {
                (_, true, _) => "done",
                (_, _, true) => "failed",
                (true, ..) => "updating",
                _ => "pending",
            };
            format!("{}:{word}", text(&cluster["clusterName"]))
        };
        let mut parts = vec![text(&stage["stageName"]).trim_start_matches("kubernetes-fleet.io/").to_owned()];
        parts.push(format!("[{}]", says(&stage["conditions"])));
        parts.extend(clusters.iter().map(step));
        lines.push(parts.join(" "));
    }
    lines.join("\n")
}
