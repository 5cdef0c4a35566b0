//! Pastes printed commands as a user with a shell and kubectl would.
//!
//! Uses only the printed text, not the actions of the steps. Kinds are resolved by discovery, as kubectl does.

use fleet_core::diagnose::Fix;
use fleet_testkit::JsonClient;
use serde_json::Value;

use super::super::print;
use super::fleet::Fleet;
use super::pasted::{self, Does, Pasted, Target};
use crate::cli::output::Paint;

/// Aggregated discovery.
const EVERYTHING: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// A kind from discovery.
struct Resource {
    group: String,
    version: String,
    description: Value,
}

impl Resource {
    fn answers_to(&self, word: &str) -> bool {
        let (word, group) = word.split_once('.').map_or((word, None), |(word, group)| (word, Some(group)));
        let is = |field: &str| self.description[field] == word;
        let is_short = self.description["shortNames"].as_array().into_iter().flatten().any(|short| short == word);
        (is("resource") || is("singularResource") || is_short) && group.is_none_or(|group| group == self.group)
    }

    fn is_of(&self, api_version: &str, kind: &Value) -> bool {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        self.group == group && self.version == version && self.description["responseKind"]["kind"] == *kind
    }

    /// The collection path. Panics unless a namespace is given exactly for namespaced kinds.
    fn collection(&self, namespace: Option<&str>) -> String {
        let root = if self.group.is_empty() { "/api".to_owned() } else { format!("/apis/{}", self.group) };
        let namespaced = self.description["scope"] == "Namespaced";
        assert_eq!(namespaced, namespace.is_some(), "{}", self.description);
        let place = namespace.map(|namespace| format!("/namespaces/{namespace}")).unwrap_or_default();
        format!("{root}/{}{place}/{}", self.version, self.description["resource"].as_str().unwrap())
    }
}

async fn resources(client: &kube::Client) -> Vec<Resource> {
    let mut found = Vec::new();
    for root in ["/api", "/apis"] {
        let request = http::Request::get(root).header(http::header::ACCEPT, EVERYTHING).body(Vec::new()).unwrap();
        let groups: Value = client.request(request).await.unwrap();
        for group in groups["items"].as_array().unwrap() {
            for version in group["versions"].as_array().unwrap() {
                let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
                let of_version = version["resources"].as_array().into_iter().flatten().map(|description| Resource {
                    group: text(&group["metadata"]["name"]),
                    version: text(&version["version"]),
                    description: description.clone(),
                });
                found.extend(of_version);
            }
        }
    }
    found
}

impl Fleet {
    /// Pastes the commands of a fix one after the other; words in angle brackets are replaced. Skips commands that
    /// change nothing.
    pub(super) async fn paste_fix(&self, fix: &Fix, words: &[(&str, &str)]) {
        let mut printed = String::new();
        print::fix(&mut printed, "fix", fix, Paint::PLAIN);
        let mut changes = 0;
        for mut command in pasted::commands(&printed) {
            for (word, value) in words {
                command = command.replace(word, value);
            }
            let open = fix.steps.iter().flat_map(|step| &step.fill_in).find(|word| command.contains(word.as_str()));
            assert_eq!(open, None, "a placeholder is not filled in: {command}");
            let pasted = pasted::read(&command).unwrap_or_else(|complaint| panic!("{complaint}: {command}"));
            if pasted.does != Does::Read {
                changes += 1;
                self.paste(&pasted).await;
                self.pass(3).await;
            }
        }
        assert_eq!(changes, fix.steps.iter().filter(|step| step.action.is_some()).count(), "not all was printed");
    }

    async fn paste(&self, pasted: &Pasted) {
        let client = match &pasted.context {
            Some(member) => self.world.user_of(member),
            None => self.world.user(),
        };
        let resources = resources(&client).await;
        let client = JsonClient(client);
        let path_of = |Target { resource, name, namespace }: &Target| {
            let found = resources.iter().find(|one| one.answers_to(resource));
            let found = found.unwrap_or_else(|| panic!("the server doesn't have a resource type {resource:?}"));
            format!("{}/{name}", found.collection(namespace.as_deref()))
        };
        match &pasted.does {
            Does::Create { manifest } => {
                let found =
                    resources.iter().find(|one| one.is_of(manifest["apiVersion"].as_str().unwrap(), &manifest["kind"]));
                let found = found.unwrap_or_else(|| panic!("no such kind: {manifest}"));
                let path = found.collection(manifest["metadata"]["namespace"].as_str());
                client.create(&path, manifest.clone()).await;
            }
            Does::Patch { target, subresource, media_type, patch } => {
                let part = subresource.as_ref().map(|part| format!("/{part}")).unwrap_or_default();
                let path = format!("{}{part}", path_of(target));
                client.send("PATCH", &path, media_type, Some(patch.clone())).await.unwrap();
            }
            Does::Delete { target } => {
                client.delete(&path_of(target)).await;
            }
            Does::Read => {}
        }
    }
}
