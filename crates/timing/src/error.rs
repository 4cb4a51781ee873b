//! Errors of a timing configuration.

/// Configuration that describes no possible machine.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum TimingError {
    /// Number outside its valid range.
    #[error("{key} = {value}: expected {expected}")]
    OutOfRange {
        /// Key in the machine file, with its section.
        key: String,
        /// Value in the configuration.
        value: String,
        /// Values that are valid for the key.
        expected: String,
    },
    /// Cache size that is not a whole number of sets.
    #[error(
        "{key}.size_bytes = {size_bytes}: expected a multiple of {ways} ways × 64-byte lines = {step_bytes} bytes"
    )]
    CacheSize {
        /// Section of the cache.
        key: String,
        /// Configured size, in bytes.
        size_bytes: u64,
        /// Configured number of ways.
        ways: u32,
        /// Size of one set, in bytes.
        step_bytes: u64,
    },
    /// `walker.attach` names a cache that the machine does not have.
    #[error(
        "walker.attach = \"llc\": expected \"l1d\" or \"l2\", as there is no [cache.llc] section"
    )]
    NoLastLevelCache,
}
