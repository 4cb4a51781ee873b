//! Names that are no schemes.

/// No scheme, or no pair of schemes.
#[derive(Debug, thiserror::Error)]
pub enum SchemeError {
    /// There is no scheme of that name.
    #[error("no scheme {name:?}; there are {known}, or all")]
    Unknown {
        /// What was asked for.
        name: String,
        /// The names there are.
        known: String,
    },
    /// A guest's and a host's scheme that cannot be combined.
    #[error("{name}: {why}")]
    ImpossiblePair {
        /// The pair.
        name: String,
        /// Why, and what would be right.
        why: &'static str,
    },
}
