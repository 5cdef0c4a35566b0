//! Which controller of the member agent writes which field of the hub's objects; the runtime enforces it.

use fleet_api::well_known::finalizers;
use fleet_runtime::Grant;
use fleet_runtime::owned::{field, finalizer, in_turns};

/// The membership controller's name in logs, metrics and this table.
pub(crate) const MEMBERSHIP: &str = "membership-agent";

/// The work applier's name.
pub const APPLIER: &str = "work-applier";

/// The fields that each controller may write. The applier adds its finalizer to Works; membership removes it when the
/// member leaves, after it has stopped the applier.
pub fn ownership() -> Vec<Grant> {
    let grant = |controller, kind, fields| Grant { controller, kind, creates: false, deletes: false, fields };
    let shared = || vec![in_turns(finalizer(finalizers::WORK)), in_turns("status.manifestConditions")];
    let applied = [shared(), vec![field("status.conditions")]].concat();
    vec![
        grant(MEMBERSHIP, "InternalMemberCluster", vec![field("status")]),
        grant(MEMBERSHIP, "Work", shared()),
        grant(APPLIER, "Work", applied),
    ]
}

#[cfg(test)]
mod tests {
    use fleet_runtime::Ownership;

    use super::*;

    #[test]
    fn no_field_has_two_writers() {
        let table = Ownership::new(ownership());
        assert!(table.is_ok(), "{table:?}");
    }
}
