//! Errors of gap-tolerant superpages, each as one line for the user.

use perforate_os::mechanism::size;
use perforate_os::{MechanismError, OsError};
use thiserror::Error;

/// Error of the configuration of gap-tolerant superpages.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum SuperpageError {
    /// The page tables do not have gap-tolerant entries.
    #[error("gap-tolerant superpages need page tables with GT-PDEs (a mode of G Table 3)")]
    NoTables,
    /// The requested range of memory contains no whole slice.
    #[error(
        "slices from {} to {}: the memory ends at {}; slices are aligned pieces of {} inside it",
        if *start_bytes == 0 { "0".into() } else { size(*start_bytes) },
        size(*end_bytes), size(*memory_bytes), size(*slice_bytes)
    )]
    SliceOutsideMemory {
        /// First byte of the memory range in which slices must lie.
        start_bytes: u64,
        /// First byte after the memory range in which slices must lie.
        end_bytes: u64,
        /// Size of physical memory in bytes.
        memory_bytes: u64,
        /// Size of a slice in bytes.
        slice_bytes: u64,
    },
}

impl From<SuperpageError> for OsError {
    fn from(error: SuperpageError) -> Self {
        MechanismError::new(error).into()
    }
}
