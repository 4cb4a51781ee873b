//! Errors of scheme names and of mechanisms' hardware.

/// Error for an unknown scheme name, a pair of schemes that cannot be combined, or hardware
/// parameters that no machine can have.
#[derive(Debug, thiserror::Error)]
pub enum SchemeError {
    /// No scheme has the requested name.
    #[error("no scheme {name:?}; {suggestion}")]
    Unknown {
        /// Requested name of a scheme.
        name: String,
        /// The most similar scheme name, or all names if none is similar.
        suggestion: String,
    },
    /// The guest's and the host's scheme cannot be combined.
    #[error("{name}: {why}")]
    ImpossiblePair {
        /// Requested pair of schemes, as `GUEST+HOST`.
        name: String,
        /// Reason why the pair is impossible, and a pair that is possible.
        why: &'static str,
    },
    /// The bits of an escape filter cannot be divided evenly among its hash functions.
    #[error(
        "virtualization.escape_filter_bits: {bits} bits in {functions} functions are no filter; \
         each function needs a power of two bits of its own"
    )]
    EscapeFilter {
        /// Configured number of bits in the escape filter.
        bits: usize,
        /// Configured number of hash functions of the escape filter.
        functions: usize,
    },
}
