//! Deliberate defects, to prove that the oracle catches them.

/// A defect that can be planted in the memory-management unit. Tests plant each and assert
/// that a run with the oracle fails; nothing else uses them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sabotage {
    /// A punch or patch leaves the cached bitmap entry alive.
    SkipBitmapInvalidation,
    /// A hole is translated in place, as if there were no shadow entry.
    IgnoreShadow,
    /// The filter bit of the neighbouring 256KB region is looked at.
    WrongFilterBit,
    /// A shootdown of a 2MB page leaves a cached perforated entry, and so its filter, alive.
    KeepStaleFilter,
    /// A page shootdown leaves the first-level entry alive.
    SkipL1Invalidation,
    /// The host's bitmap is left out of the united one.
    ForgetHostBitmap,
    /// A change of the host's mapping leaves combined entries alive.
    KeepCombinedEntries,
    /// The escape filter is not asked.
    IgnoreEscapeFilter,
    /// Paging does not map the pages that the escape filter takes for escaped.
    DropPagingInSegment,
    /// A coalesced entry takes in pages with other permissions.
    IgnoreRunPermissions,
    /// A coalesced entry takes in one page more than the run has.
    LengthenRuns,
    /// A page shootdown leaves the coalesced entry that holds the page alive.
    KeepStaleRun,
    /// What a guest or its host unmaps stays in the shadow tables.
    KeepShadowEntries,
    /// What changes or ends a gap-tolerant entry leaves the walk cache's copy of it alive.
    StaleGapTolerantEntry,
    /// The fourth prefix sum of a selection is too small by one.
    WrongPrefixSum,
    /// The second superpage of a pair is sought in the slice of the first.
    IgnoreOffsetB,
}
