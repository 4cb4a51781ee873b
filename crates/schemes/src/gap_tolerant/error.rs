//! What gap-tolerant superpages cannot be made of, each as one line for the user.

use perforate_os::mechanism::size;
use perforate_os::{MechanismError, OsError};
use thiserror::Error;

/// An error of gap-tolerant superpages.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum SuperpageError {
    /// Superpages were wanted without the table format for them.
    #[error("gap-tolerant superpages need page tables with GT-PDEs (a mode of G Table 3)")]
    NoTables,
    /// Slices that do not exist.
    #[error(
        "slices from {} to {}: the memory ends at {}; slices are aligned pieces of {} inside it",
        if *start_bytes == 0 { "0".into() } else { size(*start_bytes) },
        size(*end_bytes), size(*memory_bytes), size(*slice_bytes)
    )]
    SliceOutsideMemory {
        /// First byte asked for.
        start_bytes: u64,
        /// First byte after it.
        end_bytes: u64,
        /// Size of the memory.
        memory_bytes: u64,
        /// Size of a slice.
        slice_bytes: u64,
    },
}

impl From<SuperpageError> for OsError {
    fn from(error: SuperpageError) -> Self {
        MechanismError::new(error).into()
    }
}
