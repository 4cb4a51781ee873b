//! Names that are no schemes, and hardware that cannot be.

/// No scheme, no pair of schemes, or no hardware for one.
#[derive(Debug, thiserror::Error)]
pub enum SchemeError {
    /// There is no scheme of that name.
    #[error("no scheme {name:?}; {suggestion}")]
    Unknown {
        /// What was asked for.
        name: String,
        /// The nearest name, or all of them.
        suggestion: String,
    },
    /// A guest's and a host's scheme that cannot be combined.
    #[error("{name}: {why}")]
    ImpossiblePair {
        /// The pair.
        name: String,
        /// Why, and what would be right.
        why: &'static str,
    },
    /// Bits of an escape filter that do not share out.
    #[error(
        "virtualization.escape_filter_bits: {bits} bits in {functions} functions are no filter; \
         each function needs a power of two bits of its own"
    )]
    EscapeFilter {
        /// Bits asked for.
        bits: usize,
        /// Hash functions asked for.
        functions: usize,
    },
}
