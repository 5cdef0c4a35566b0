//! Installs a directory of CRDs on a server and waits until it serves them.

use super::target::Target;
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::path::Path;
use std::time::{Duration, Instant};

/// How long a server may take to serve a new kind.
const ESTABLISHED_WITHIN: Duration = Duration::from_mins(1);
/// Polling interval.
const LOOK_EVERY: Duration = Duration::from_millis(200);
const PATH: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// Creates every document in the `*.yaml` files of the directory that does not exist yet.
pub(super) async fn load(directory: &Path, target: &Target) -> Result<()> {
    let mut files: Vec<_> = std::fs::read_dir(directory)
        .with_context(|| format!("list {}", directory.display()))?
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "yaml"))
        .collect();
    files.sort();
    let mut names = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(&file).with_context(|| format!("read {}", file.display()))?;
        for document in documents(&text).with_context(|| format!("in {}", file.display()))? {
            names.push(create(target, &document).await.with_context(|| format!("create {}", file.display()))?);
        }
    }
    let started = Instant::now();
    for name in names {
        while !established(target, &name).await? {
            if started.elapsed() > ESTABLISHED_WITHIN {
                bail!("{name} was not established within {} s on {}", ESTABLISHED_WITHIN.as_secs(), target.name);
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
    Ok(())
}

fn documents(text: &str) -> Result<Vec<Value>> {
    text.split("\n---")
        .map(|part| part.trim_start_matches("---"))
        .filter(|part| part.lines().any(|line| !line.trim().is_empty() && !line.starts_with('#')))
        .map(|part| serde_saphyr::from_str(part).context("no YAML"))
        .collect()
}

async fn create(target: &Target, crd: &Value) -> Result<String> {
    let name = crd.pointer("/metadata/name").and_then(Value::as_str).context("a CRD without a name")?.to_owned();
    let answer = target.call("POST", PATH, Some(crd)).await?;
    match answer.status().as_u16() {
        200 | 201 | 409 => Ok(name),
        status => bail!("{name} was refused by {}: {status} {}", target.name, String::from_utf8_lossy(answer.body())),
    }
}

async fn established(target: &Target, name: &str) -> Result<bool> {
    let answer = target.call("GET", &format!("{PATH}/{name}"), None).await?;
    let crd: Value = serde_json::from_slice(answer.body()).unwrap_or_default();
    let conditions = crd.pointer("/status/conditions").and_then(Value::as_array);
    Ok(conditions.into_iter().flatten().any(|c| c["type"] == "Established" && c["status"] == "True"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_may_hold_several_documents_and_comments() {
        let found = documents("# c\n---\na: 1\n---\nb: 2\n---\n").expect("parses");
        assert_eq!(found, [serde_json::json!({"a": 1}), serde_json::json!({"b": 2})]);
    }
}
