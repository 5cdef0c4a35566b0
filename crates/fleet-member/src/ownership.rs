//! Which controller of the member agent writes which field of the hub's objects; the runtime enforces it.

use fleet_runtime::Grant;

/// The membership controller's name in logs, metrics and this table.
pub(crate) const MEMBERSHIP: &str = "membership-agent";

/// The work applier's name.
pub const APPLIER: &str = "work-applier";

/// The fields that each controller may write. The applier adds its finalizer to Works; membership removes it when the
/// member leaves, after it has stopped the applier.
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
            fields: &["~metadata.finalizers[kubernetes-fleet.io/work-cleanup]", "~status.manifestConditions"],
        },
        Grant {
            controller: APPLIER,
            kind: "Work",
            creates: false,
            deletes: false,
            fields: &[
                "status.conditions",
                "~status.manifestConditions",
                "~metadata.finalizers[kubernetes-fleet.io/work-cleanup]",
            ],
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
        assert!(ownership().iter().any(|grant| grant.fields.contains(&finalizer.as_str())));
    }
}
