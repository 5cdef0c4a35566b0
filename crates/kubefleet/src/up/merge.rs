//! Adds the contexts of the fleet to the user's kubeconfig while the fleet runs (`--merge`). Our entries carry a mark. Entries
//! of others are never changed or replaced, and a file that cannot be parsed is left as it is.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde_json::{Value, json};

use super::kubeconfig::replace;
use crate::output::Hinted;

/// The kubeconfig extension that marks our entries.
const MARK: &str = "kubefleet-up";
/// The lists of a kubeconfig, and the field of their entries.
const SECTIONS: [(&str, &str); 3] = [("clusters", "cluster"), ("users", "user"), ("contexts", "context")];
const CURRENT: &str = "current-context";

/// The user's own kubeconfig.
#[derive(Debug)]
pub(super) struct UserKubeconfig {
    path: PathBuf,
    /// Whether the file existed before.
    existed: bool,
    /// The previous current context.
    current: Option<Value>,
}

impl UserKubeconfig {
    /// Finds and parses the user's file; `ours` is the output file of `kubefleet up`.
    pub(super) fn find(ours: &Path) -> anyhow::Result<Self> {
        let path = locate(std::env::var_os("KUBECONFIG"), std::env::var_os("HOME"))?;
        let same = |a: &Path, b: &Path| fs::canonicalize(a).is_ok_and(|a| fs::canonicalize(b).is_ok_and(|b| a == b));
        if path == ours || same(&path, ours) {
            return Err(Hinted {
                what: format!("{} is the output file of kubefleet up, not your own kubeconfig", path.display()),
                hint: "omit --merge, or unset KUBECONFIG first".to_owned(),
            }
            .into());
        }
        // Follow links: change the target.
        let path = fs::canonicalize(&path).unwrap_or(path);
        let own = Self { existed: path.exists(), current: None, path };
        own.read()?;
        Ok(own)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Adds the entries of a kubeconfig.
    pub(super) fn add(&mut self, ours: &str) -> anyhow::Result<()> {
        let ours: Value = serde_saphyr::from_str(ours).context("cannot read the kubeconfig of the fleet")?;
        let before = self.read()?;
        self.current = Some(before[CURRENT].clone()).filter(|name| !is_context_of_ours(&before, name));
        let merged = merged(before, &ours).map_err(|what| Hinted {
            what: format!("{} {what}", self.path.display()),
            hint: "rename that entry, or omit --merge; the file was not changed".to_owned(),
        })?;
        if let Some(directory) = self.path.parent() {
            fs::create_dir_all(directory).with_context(|| format!("cannot create {}", directory.display()))?;
        }
        self.write(&merged)
    }

    /// Removes our entries.
    pub(super) fn restore(&self) -> anyhow::Result<()> {
        let left = cleaned(self.read()?, self.current.clone());
        let is_empty = SECTIONS.iter().all(|(section, _)| left[section].as_array().is_none_or(Vec::is_empty));
        if is_empty && !self.existed {
            return fs::remove_file(&self.path).with_context(|| format!("cannot remove {}", self.path.display()));
        }
        self.write(&left)
    }

    fn read(&self) -> anyhow::Result<Value> {
        let text = match fs::read_to_string(&self.path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(anyhow::anyhow!("cannot read {}: {error}", self.path.display())),
        };
        parsed(&text).map_err(|why| {
            let what = format!("{} is not a kubeconfig: {why}", self.path.display());
            Hinted { what, hint: "fix it, or omit --merge; the file was not changed".to_owned() }.into()
        })
    }

    fn write(&self, content: &Value) -> anyhow::Result<()> {
        let text = serde_saphyr::to_string(content).context("cannot serialize the kubeconfig")?;
        replace(&self.path, &text)
    }
}

/// As in kubectl: the first existing file of KUBECONFIG, or its first file, or `~/.kube/config`.
fn locate(listed: Option<OsString>, home: Option<OsString>) -> anyhow::Result<PathBuf> {
    let listed: Vec<PathBuf> = listed
        .map(|text| std::env::split_paths(&text).filter(|path| !path.as_os_str().is_empty()).collect())
        .unwrap_or_default();
    if let Some(path) = listed.iter().find(|path| path.exists()).or(listed.first()) {
        return Ok(path.clone());
    }
    let home = home.filter(|home| !home.is_empty()).ok_or_else(|| Hinted {
        what: "cannot find your own kubeconfig: neither KUBECONFIG nor HOME is set".to_owned(),
        hint: "set one of them, or omit --merge".to_owned(),
    })?;
    Ok(Path::new(&home).join(".kube/config"))
}

/// Parses a kubeconfig and checks that its lists are lists. An empty file is an empty kubeconfig.
pub(super) fn parsed(text: &str) -> Result<Value, String> {
    let value: Value = match serde_saphyr::from_str(text) {
        _ if text.trim().is_empty() => Value::Null,
        Ok(value) => value,
        Err(error) => return Err(error.without_snippet().to_string()),
    };
    if value.is_null() {
        return Ok(json!({"apiVersion": "v1", "kind": "Config", "preferences": {}}));
    }
    if !value.is_object() {
        return Err("it is not a mapping".to_owned());
    }
    let odd = SECTIONS.iter().find(|(section, _)| !value[section].is_null() && !value[section].is_array());
    odd.map_or(Ok(()), |(section, _)| Err(format!("`{section}` is not a list")))?;
    Ok(value)
}

/// The user's entries, followed by ours.
pub(super) fn merged(own: Value, ours: &Value) -> Result<Value, String> {
    let current = own[CURRENT].clone();
    let was_ours = is_context_of_ours(&own, &current);
    let mut own = cleaned(own, None);
    for (section, inner) in SECTIONS {
        let mut entries = own[section].as_array().cloned().unwrap_or_default();
        for entry in list(ours, section) {
            let name = &entry["name"];
            if entries.iter().any(|other| other["name"] == *name && !is_ours(other, inner)) {
                return Err(format!("has a {inner} {name} that kubefleet up did not write"));
            }
            let mut entry = entry.clone();
            entry[inner]["extensions"] = json!([{"name": MARK, "extension": {"writtenBy": "kubefleet up --merge"}}]);
            entries.push(entry);
        }
        own[section] = Value::Array(entries);
    }
    let is_set = current.as_str().is_some_and(|name| !name.is_empty());
    own[CURRENT] = if is_set && !was_ours { current } else { ours[CURRENT].clone() };
    Ok(own)
}

/// Removes our entries; `current` replaces one of our contexts as current context.
pub(super) fn cleaned(mut own: Value, current: Option<Value>) -> Value {
    let name = own[CURRENT].clone();
    if is_context_of_ours(&own, &name) {
        own[CURRENT] = current.filter(Value::is_string).unwrap_or_else(|| json!(""));
    }
    for (section, inner) in SECTIONS {
        if let Some(entries) = own[section].as_array_mut() {
            entries.retain(|entry| !is_ours(entry, inner));
        }
    }
    own
}

fn is_context_of_ours(own: &Value, name: &Value) -> bool {
    list(own, "contexts").iter().any(|entry| entry["name"] == *name && is_ours(entry, "context"))
}

fn is_ours(entry: &Value, inner: &str) -> bool {
    list(&entry[inner], "extensions").iter().any(|extension| extension["name"] == MARK)
}

fn list<'v>(value: &'v Value, field: &str) -> &'v [Value] {
    value[field].as_array().map(Vec::as_slice).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ours() -> Value {
        let entry = |inner: &str| json!([{"name": "hub", inner: {"field": "ours"}}]);
        json!({"clusters": entry("cluster"), "users": entry("user"), "contexts": entry("context"), "current-context": "hub"})
    }

    fn users_own() -> Value {
        let entry = |inner: &str| json!([{"name": "work", inner: {"field": "theirs"}}]);
        json!({"clusters": entry("cluster"), "users": entry("user"), "contexts": entry("context"), "current-context": "work",
            "somethingNew": 7})
    }

    #[test]
    fn removing_our_entries_restores_the_file() {
        let both = merged(users_own(), &ours()).unwrap();
        assert_eq!(both["current-context"], "work");
        assert_eq!(list(&both, "contexts").len(), 2);
        assert_eq!(merged(both.clone(), &ours()).unwrap(), both, "twice is as good as once");
        assert_eq!(cleaned(both, Some(json!("work"))), users_own());
    }

    #[test]
    fn our_context_becomes_current_only_if_none_was_and_only_temporarily() {
        let empty = parsed("").unwrap();
        let mut alone = merged(empty, &ours()).unwrap();
        assert_eq!(alone["current-context"], "hub");
        assert_eq!(cleaned(alone.clone(), None)["current-context"], "");
        alone["current-context"] = json!("elsewhere");
        assert_eq!(
            cleaned(alone, Some(json!("work")))["current-context"],
            "elsewhere",
            "the user has changed it since"
        );
    }

    #[test]
    fn entries_of_the_user_are_not_replaced() {
        let mut own = users_own();
        own["users"][0]["name"] = json!("hub");
        assert_eq!(merged(own, &ours()).unwrap_err(), "has a user \"hub\" that kubefleet up did not write");
    }

    #[test]
    fn an_invalid_file_is_distinguished_from_an_empty_one() {
        for (text, part) in
            [("contexts: {}\n", "`contexts` is not a list"), ("- a\n", "not a mapping"), ("a: [\n", "line")]
        {
            let why = parsed(text).unwrap_err();
            assert!(why.contains(part) && why.lines().count() == 1, "{why}");
        }
        assert!(parsed("\n").is_ok());
    }

    #[test]
    fn the_file_is_found_as_in_kubectl() {
        let directory = tempfile::tempdir().unwrap();
        let there = directory.path().join("there");
        fs::write(&there, "").unwrap();
        let find = |listed: Option<String>, home: Option<&str>| locate(listed.map(Into::into), home.map(Into::into));
        assert_eq!(find(Some(format!("/nowhere::{}", there.display())), None).unwrap(), there);
        assert_eq!(find(Some("/nowhere:/neither".to_owned()), None).unwrap(), Path::new("/nowhere"));
        assert_eq!(find(None, Some("/home/me")).unwrap(), Path::new("/home/me/.kube/config"));
        assert!(find(Some(String::new()), None).unwrap_err().downcast_ref::<Hinted>().is_some());
    }
}
