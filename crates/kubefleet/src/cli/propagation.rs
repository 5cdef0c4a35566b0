//! Flags for kinds and namespaces that are never placed. The hub agent does not publish its settings, so `plan` and `diff`
//! take the same flags with the same defaults.

use std::collections::BTreeSet;

use fleet_core::placement::{ApiList, Apis, Propagation};

/// The hub agent's flags about what is never placed.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct PropagationFlags {
    /// Kinds that are never placed; must match the flag of the hub agent: GROUP[/VERSION[/KIND,...]];...
    #[arg(long, value_name = "LIST", value_parser = apis, conflicts_with = "allowed_propagating_apis")]
    skipped_propagating_apis: Option<ApiList>,
    /// The only kinds that are placed; must match the flag of the hub agent
    #[arg(long, value_name = "LIST", value_parser = apis)]
    allowed_propagating_apis: Option<ApiList>,
    /// Namespaces that are never placed; must match the flag of the hub agent: NAME,... or NAME;...
    #[arg(long, value_name = "NAMES")]
    skipped_propagating_namespaces: Option<String>,
    /// Do not place PersistentVolumeClaims; must match the flag of the hub agent
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    enable_workload: Option<bool>,
    /// Whether Secrets are placed; must match the flag of the hub agent
    #[arg(long, value_name = "BOOL")]
    place_secrets: Option<bool>,
}

fn apis(text: &str) -> Result<ApiList, String> {
    ApiList::parse(text).map_err(|error| error.to_string())
}

/// Names separated by commas or semicolons, as in the hub agent.
fn names(text: &str) -> BTreeSet<String> {
    text.split([',', ';']).map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

impl PropagationFlags {
    pub(crate) fn propagation(&self) -> Propagation {
        Propagation {
            apis: match &self.allowed_propagating_apis {
                Some(list) => Apis::Only(list.clone()),
                None => Apis::AllBut(self.skipped_propagating_apis.clone().unwrap_or_default()),
            },
            skipped_namespaces: self.skipped_propagating_namespaces.as_deref().map(names).unwrap_or_default(),
            workloads_on_hub: self.enable_workload == Some(true),
            secrets_stay: self.place_secrets == Some(false),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[derive(Debug, clap::Parser)]
    struct Line {
        #[command(flatten)]
        flags: PropagationFlags,
    }

    fn read(words: &[&str]) -> Result<Propagation, clap::Error> {
        Line::try_parse_from(["plan"].iter().chain(words)).map(|line| line.flags.propagation())
    }

    #[test]
    fn last_09_the_lists_of_the_hub_agent_can_be_given() {
        assert_eq!(read(&[]).unwrap(), Propagation::default());
        let skipping =
            read(&["--skipped-propagating-apis", "apps/v1/Deployment", "--skipped-propagating-namespaces=a,b"]);
        let skipping = skipping.unwrap();
        assert_eq!(skipping.apis, Apis::AllBut(ApiList::parse("apps/v1/Deployment").unwrap()));
        assert!(skipping.skipped_namespaces.contains("b"));
        let only = read(&["--allowed-propagating-apis=v1/ConfigMap", "--enable-workload"]).unwrap();
        assert!(matches!(only.apis, Apis::Only(_)) && only.workloads_on_hub);
        assert!(!read(&["--enable-workload=false"]).unwrap().workloads_on_hub);
        let names = read(&["--skipped-propagating-namespaces= a; b ,c,;"]).unwrap().skipped_namespaces;
        assert_eq!(names.into_iter().collect::<Vec<_>>(), ["a", "b", "c"], "the hub agent reads the same names");
        assert!(read(&["--place-secrets=false"]).unwrap().secrets_stay && !read(&[]).unwrap().secrets_stay);
        assert!(read(&["--allowed-propagating-apis=v1/A", "--skipped-propagating-apis=v1/B"]).is_err());
        assert!(read(&["--allowed-propagating-apis=a/b/c/d"]).is_err());
    }
}
