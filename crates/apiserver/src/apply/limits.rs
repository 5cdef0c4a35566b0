//! The limits and well-known names of field ownership. They equal those of kube-apiserver, because clients and stored
//! objects rely on them.

/// How many entries of updaters an object keeps; the older ones are merged, so that managedFields cannot grow without
/// bound by clients that make up names.
pub(super) const MAX_UPDATE_MANAGERS: usize = 10;

/// The manager that the merged entries get.
pub(super) const ANCIENT_CHANGES: &str = "ancient-changes";

/// The manager of the fields that an object had when it was first applied and nothing was tracked before.
pub(super) const BEFORE_FIRST_APPLY: &str = "before-first-apply";

/// The manager of a write that names none.
pub(super) const UNKNOWN_MANAGER: &str = "unknown";

/// The manager name that kubectl uses for server-side apply; only for it the client-side annotation is kept in step.
pub(super) const KUBECTL: &str = "kubectl";

/// Where client-side apply keeps the configuration it applied last.
pub(super) const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Bytes that the annotations of an object may have together, keys and values.
pub(super) const MAX_ANNOTATIONS_BYTES: usize = 256 * 1024;

/// Bytes of the name of a manager.
pub(super) const MAX_MANAGER_BYTES: usize = 128;

/// Bytes of the name of a subresource in an entry.
pub(super) const MAX_SUBRESOURCE_BYTES: usize = 256;
