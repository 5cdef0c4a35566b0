//! Parses the missing permission from the message of an RBAC denial. Messages of other authorizers are not parsed.

/// A missing permission.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MissingRight {
    user: String,
    verb: String,
    /// The resource with its group, in kubectl syntax.
    resource: String,
    subresource: Option<String>,
    namespace: Option<String>,
}

impl MissingRight {
    /// `None` if the message is not an RBAC denial.
    pub(crate) fn read(message: &str) -> Option<Self> {
        let (_, rest) = message.split_once("User \"")?;
        let (user, rest) = rest.split_once("\" cannot ")?;
        let (verb, rest) = rest.split_once(" resource \"")?;
        let (resource, rest) = rest.split_once("\" in API group \"")?;
        let (group, rest) = rest.split_once('"')?;
        let namespace = rest.strip_prefix(" in the namespace \"").and_then(|rest| rest.split_once('"'));
        let (resource, subresource) = match resource.split_once('/') {
            Some((resource, subresource)) => (resource, Some(subresource.to_owned())),
            None => (resource, None),
        };
        Some(Self {
            user: user.to_owned(),
            verb: verb.to_owned(),
            resource: if group.is_empty() { resource.to_owned() } else { format!("{resource}.{group}") },
            subresource,
            namespace: namespace.map(|(namespace, _)| namespace.to_owned()),
        })
    }

    /// Describes the missing permission.
    pub(crate) fn describe(&self) -> String {
        let part = self.subresource.as_ref().map_or_else(String::new, |part| format!(" (its {part})"));
        let place = self.namespace.as_ref().map_or_else(String::new, |place| format!(" in namespace {place:?}"));
        format!("user {:?} has no permission to {} {}{part}{place}", self.user, self.verb, self.resource)
    }

    /// The kubectl command that checks the permission.
    pub(crate) fn test(&self) -> String {
        let part = self.subresource.as_ref().map_or_else(String::new, |part| format!(" --subresource={part}"));
        let place = self.namespace.as_ref().map_or_else(String::new, |place| format!(" -n {place}"));
        format!("kubectl auth can-i {} {}{part}{place}", self.verb, self.resource)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(message: &str, description: &str, test: &str) {
        let right = MissingRight::read(message).expect("the words of RBAC");
        assert_eq!((right.describe().as_str(), right.test().as_str()), (description, test));
    }

    #[test]
    fn the_missing_permission_is_named_in_kubectl_syntax() {
        check(
            "clusterstagedupdateruns.placement.kubernetes-fleet.io \"web-1\" is forbidden: User \"jo\" cannot get resource \
             \"clusterstagedupdateruns\" in API group \"placement.kubernetes-fleet.io\" at the cluster scope",
            "user \"jo\" has no permission to get clusterstagedupdateruns.placement.kubernetes-fleet.io",
            "kubectl auth can-i get clusterstagedupdateruns.placement.kubernetes-fleet.io",
        );
        check(
            "approvalrequests.placement.kubernetes-fleet.io \"a\" is forbidden: User \"jo\" cannot patch resource \
             \"approvalrequests/status\" in API group \"placement.kubernetes-fleet.io\" in the namespace \"shop\": RBAC: \
             clusterrole \"x\" not found",
            "user \"jo\" has no permission to patch approvalrequests.placement.kubernetes-fleet.io (its status) in namespace \"shop\"",
            "kubectl auth can-i patch approvalrequests.placement.kubernetes-fleet.io --subresource=status -n shop",
        );
        check(
            "namespaces is forbidden: User \"jo\" cannot list resource \"namespaces\" in API group \"\" at the cluster scope",
            "user \"jo\" has no permission to list namespaces",
            "kubectl auth can-i list namespaces",
        );
    }

    #[test]
    fn other_messages_are_not_parsed() {
        assert_eq!(MissingRight::read("admission webhook \"x\" denied the request"), None);
        assert_eq!(MissingRight::read("User \"jo\" cannot get path \"/apis\""), None);
    }
}
