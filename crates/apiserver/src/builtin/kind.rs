//! The row type of the table of built-in kinds.

/// Verbs of a discovery entry, in the order in which kube-apiserver lists them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verbs {
    /// Everything that a stored collection offers.
    All,
    /// As `All`, but the collection cannot be deleted at once (namespaces).
    AllButDeleteCollection,
    /// Reviews and bindings: nothing is stored.
    Create,
    /// Computed on reading.
    GetList,
}

impl Verbs {
    pub(crate) fn names(self) -> &'static [&'static str] {
        match self {
            Verbs::All => &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"],
            Verbs::AllButDeleteCollection => &["create", "delete", "get", "list", "patch", "update", "watch"],
            Verbs::Create => &["create"],
            Verbs::GetList => &["get", "list"],
        }
    }
}

/// Which names a kind accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NameRule {
    /// RFC 1123 subdomain: most kinds.
    DnsSubdomain,
    /// RFC 1123 label: namespaces.
    DnsLabel,
    /// RFC 1035 label: services.
    Dns1035Label,
    /// Anything that fits into a path segment: RBAC kinds.
    PathSegment,
    /// No rule beyond being there (reviews, bindings).
    Anything,
}

/// How `metadata.generation` of a kind starts and moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Generation {
    /// Value set on creation; 0 means that the server sets none.
    pub(crate) first: u64,
    /// Dotted paths of which any change adds one.
    pub(crate) raised_by: &'static [&'static str],
}

impl Generation {
    pub(crate) const NONE: Generation = Generation { first: 0, raised_by: &[] };
    pub(crate) const SPEC: Generation = Generation { first: 1, raised_by: &["spec"] };
}

/// A subresource as discovery names it. `group` and `version` are empty where they are the parent's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Subresource {
    pub(crate) name: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) group: &'static str,
    pub(crate) version: &'static str,
    pub(crate) verbs: &'static [&'static str],
}

/// One built-in kind in one version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BuiltinKind {
    pub(crate) group: &'static str,
    pub(crate) version: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) plural: &'static str,
    pub(crate) singular: &'static str,
    pub(crate) short_names: &'static [&'static str],
    pub(crate) categories: &'static [&'static str],
    pub(crate) namespaced: bool,
    pub(crate) verbs: Verbs,
    pub(crate) subresources: &'static [Subresource],
    pub(crate) generation: Generation,
    /// A PUT without resourceVersion overwrites whatever is there.
    pub(crate) unconditional_update: bool,
    /// A PUT to a name that does not exist creates it.
    pub(crate) create_on_update: bool,
    pub(crate) name_rule: NameRule,
    /// The main resource neither sets nor changes `status`.
    pub(crate) status_is_separate: bool,
    /// Paths that a write to `status` leaves as they were.
    pub(crate) kept_on_status_write: &'static [&'static str],
    /// Deletion may wait for a grace period (pods).
    pub(crate) graceful_delete: bool,
    /// Name of the definition in the OpenAPI documents and in the schema table.
    pub(crate) definition: &'static str,
    /// Group and version under which objects of this kind are kept; differs from its own for aliased versions only.
    pub(crate) stored_as: (&'static str, &'static str),
}

impl BuiltinKind {
    /// The `apiVersion` of objects of this kind.
    pub(crate) fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.to_owned() } else { format!("{}/{}", self.group, self.version) }
    }

    /// Whether objects of this kind are kept at all (reviews and bindings are not).
    pub(crate) fn is_stored(&self) -> bool {
        matches!(self.verbs, Verbs::All | Verbs::AllButDeleteCollection)
    }

    #[cfg(test)]
    pub(crate) fn subresource(&self, name: &str) -> Option<&'static Subresource> {
        self.subresources.iter().find(|sub| sub.name == name)
    }

    pub(super) const fn namespaced(
        gv: (&'static str, &'static str),
        kind: &'static str,
        plural: &'static str,
        singular: &'static str,
        definition: &'static str,
    ) -> Self {
        BuiltinKind {
            group: gv.0,
            version: gv.1,
            kind,
            plural,
            singular,
            short_names: &[],
            categories: &[],
            namespaced: true,
            verbs: Verbs::All,
            subresources: &[],
            generation: Generation::NONE,
            unconditional_update: true,
            create_on_update: false,
            name_rule: NameRule::DnsSubdomain,
            status_is_separate: false,
            kept_on_status_write: &["spec"],
            graceful_delete: false,
            definition,
            stored_as: gv,
        }
    }

    pub(super) const fn cluster(
        gv: (&'static str, &'static str),
        kind: &'static str,
        plural: &'static str,
        singular: &'static str,
        definition: &'static str,
    ) -> Self {
        let mut row = Self::namespaced(gv, kind, plural, singular, definition);
        row.namespaced = false;
        row
    }

    pub(super) const fn short(mut self, names: &'static [&'static str]) -> Self {
        self.short_names = names;
        self
    }

    pub(super) const fn in_all(mut self) -> Self {
        self.categories = &["all"];
        self
    }

    pub(super) const fn in_api_extensions(mut self) -> Self {
        self.categories = &["api-extensions"];
        self
    }

    pub(super) const fn only(mut self, verbs: Verbs) -> Self {
        self.verbs = verbs;
        if !self.is_collection() {
            self.name_rule = NameRule::Anything;
        }
        self
    }

    const fn is_collection(&self) -> bool {
        matches!(self.verbs, Verbs::All | Verbs::AllButDeleteCollection)
    }

    pub(super) const fn subs(mut self, subresources: &'static [Subresource]) -> Self {
        self.subresources = subresources;
        self
    }

    /// `status` has its own endpoint and is left alone by the main one.
    pub(super) const fn separate_status(mut self) -> Self {
        self.status_is_separate = true;
        self
    }

    pub(super) const fn status_keeps(mut self, paths: &'static [&'static str]) -> Self {
        self.kept_on_status_write = paths;
        self
    }

    pub(super) const fn counts(mut self, generation: Generation) -> Self {
        self.generation = generation;
        self
    }

    pub(super) const fn conditional(mut self) -> Self {
        self.unconditional_update = false;
        self
    }

    pub(super) const fn put_creates(mut self) -> Self {
        self.create_on_update = true;
        self
    }

    pub(super) const fn named(mut self, rule: NameRule) -> Self {
        self.name_rule = rule;
        self
    }

    pub(super) const fn graceful(mut self) -> Self {
        self.graceful_delete = true;
        self
    }

    pub(super) const fn stored_as(mut self, group: &'static str, version: &'static str) -> Self {
        self.stored_as = (group, version);
        self
    }
}
