//! Errors of a timing configuration.

/// A configuration no machine could have.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum TimingError {
    /// A number outside its range.
    #[error("{key} = {value}: expected {expected}")]
    OutOfRange {
        /// Key in the machine file, with its section.
        key: String,
        /// Value in the configuration.
        value: String,
        /// Values that are possible.
        expected: String,
    },
    /// A cache whose size is no whole number of sets.
    #[error(
        "{key}.size_bytes = {size_bytes}: expected a multiple of {ways} ways × 64-byte lines = {step_bytes} bytes"
    )]
    CacheSize {
        /// Section of the cache.
        key: String,
        /// Size given, in bytes.
        size_bytes: u64,
        /// Ways in the configuration.
        ways: u32,
        /// Size of one set, in bytes.
        step_bytes: u64,
    },
    /// The page walker attaches to a cache the machine does not have.
    #[error(
        "walker.attach = \"llc\": expected \"l1d\" or \"l2\", as there is no [cache.llc] section"
    )]
    NoLastLevelCache,
}
