//! Which controller of the member's agent writes which field of the hub's objects.
//!
//! Decides who may write what; the runtime holds it. Never performs a write.

use fleet_runtime::Grant;

/// What the membership controller is called in logs, metrics and this table.
pub(crate) const MEMBERSHIP: &str = "membership-agent";

/// What the work applier is called.
pub(crate) const APPLIER: &str = "work-applier";

/// What the agent's controllers may write. The applier holds Works while the member belongs to the fleet; membership lets go
/// of them when it leaves, and stops the applier first.
pub fn ownership() -> Vec<Grant> {
    vec![
        Grant {
            controller: MEMBERSHIP,
            kind: "InternalMemberCluster",
            creates: false,
            deletes: false,
            fields: &["status"],
        },
        Grant {
            controller: MEMBERSHIP,
            kind: "Work",
            creates: false,
            deletes: false,
            fields: &["~metadata.finalizers[kubernetes-fleet.io/work-cleanup]"],
        },
        Grant {
            controller: APPLIER,
            kind: "Work",
            creates: false,
            deletes: false,
            fields: &["status", "~metadata.finalizers[kubernetes-fleet.io/work-cleanup]"],
        },
    ]
}

#[cfg(test)]
mod tests {
    use fleet_api::well_known::finalizers;
    use fleet_runtime::Ownership;

    use super::*;

    #[test]
    fn no_field_has_two_writers_and_the_finalizer_is_spelled_as_everywhere_else() {
        let table = Ownership::new(ownership());
        assert!(table.is_ok(), "{table:?}");
        let finalizer = format!("~metadata.finalizers[{}]", finalizers::WORK);
        assert!(ownership().iter().any(|grant| grant.fields == [finalizer.as_str()]));
    }
}
