//! Synthetic workloads.

/// [`crate::SourceMetadata::format`] of synthetic workloads.
pub(crate) const FORMAT: &str = "synthetic";
