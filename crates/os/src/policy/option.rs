//! Options of policies, as lists show them.

/// An option of the policy, for lists.
pub struct PolicyOption {
    /// Its key.
    pub name: &'static str,
    /// Its values.
    pub values: &'static str,
    /// The value where none is given.
    pub default: &'static str,
    /// What it does.
    pub help: &'static str,
}

pub(super) const fn option(
    name: &'static str,
    values: &'static str,
    default: &'static str,
    help: &'static str,
) -> PolicyOption {
    PolicyOption { name, values, default, help }
}
