//! Defects planted between operating systems and hardware, to prove that the oracle detects them.
//! They change updates to the memory-management unit, or ([`super::tampered`]) answers of page
//! tables.

use std::collections::{HashMap, HashSet, VecDeque};
use std::ops::Range;

use perforate_mmu::{Dimension, Mmu};
use perforate_schemes::segment::SegmentOperation;
use perforate_sim::scheme::gap_tolerant::SuperpageOperation;
use perforate_sim::scheme::perforated::{PerforatedOperation, PerforatedRadix};
use perforate_sim::{Side, SimError, Wiring};
use perforate_types::{
    FormatOperation, Frame, Shootdown, SpaceId, TableOperation, Update, VirtualPage,
};

use super::coalesced::Coalesced;
use super::tampered::Tampered;

/// A planted defect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Defect {
    /// Making or removing a hole does not invalidate the cached bitmap entry.
    SkipBitmapInvalidation,
    /// A hole is translated to its place in the 2MB frame block, as if there were no shadow entry.
    IgnoreShadow,
    /// The hardware uses the filter bit of the neighbouring 256KB region.
    WrongFilterBit,
    /// The shootdown of a page that is still perforated is dropped, so its cached filter stays.
    KeepStaleFilter,
    /// The shootdown of a 4KB page reaches the second-level TLB only.
    SkipL1Invalidation,
    /// The host's bitmap is empty.
    ForgetHostBitmap,
    /// A shootdown by the host does not invalidate combined entries (gVA→hPA).
    KeepCombinedEntries,
    /// No page is added to an escape filter.
    IgnoreEscapeFilter,
    /// Page tables lack pages inside a segment that the escape filter reports as escaped.
    DropPagingInSegment,
    /// A coalesced entry includes pages with other permissions.
    IgnoreRunPermissions,
    /// A coalesced entry includes one page more than the run has.
    LengthenRuns,
    /// A coalesced entry is filled with an earlier run of its window.
    KeepStaleRun,
    /// Entries of 16 pages go on saying that they are contiguous after one of them was changed.
    KeepJoined,
    /// Mappings removed by guest or host stay in the shadow tables.
    KeepShadowEntries,
    /// The hypervisor with shadow tables does not see sub-pages that its guest turns into holes.
    UnfollowedPunch,
    /// The hypervisor with shadow tables does not see pages that escape the guest's segment.
    UnfollowedEscape,
    /// The hypervisor with shadow tables does not see removed or protected gap-tolerant entries.
    UnfollowedSuperpage,
    /// Changing or removing a gap-tolerant entry leaves its copy in the walk cache.
    StaleGapTolerantEntry,
    /// The fourth prefix sum of a selection is too small by one.
    WrongPrefixSum,
    /// The second superpage of a pair is looked up in the slice of the first.
    IgnoreOffsetB,
    /// A frame of a mechanism's table, such as a range table, keeps its first content.
    KeepStaleOwnTable,
    /// Shootdowns reach other cores with a delay of three shootdowns.
    LateShootdown,
}

impl Defect {
    /// Hardware for contiguous pages that the defect needs; `None` if it needs none.
    pub fn coalesced(self) -> Option<Coalesced> {
        (self == Self::KeepJoined).then_some(Coalesced::ALL[0])
    }
}

/// All defects, and the schemes and pairs in which each must be caught.
pub const PLANTED: &[(Defect, &[&str])] = &[
    (
        Defect::SkipBitmapInvalidation,
        &[
            "perforated",
            "perforated-naive",
            "perforated+thp",
            "perforated+perforated",
            "perforated+4k",
            "perforated+flat-4k",
        ],
    ),
    (Defect::IgnoreShadow, &["perforated", "perforated+perforated", "thp+perforated"]),
    (Defect::WrongFilterBit, &["perforated", "perforated+thp", "perforated+perforated"]),
    (Defect::KeepStaleFilter, &["perforated"]),
    (Defect::SkipL1Invalidation, &["4k", "perforated", "4k+4k", "perforated+perforated"]),
    (Defect::ForgetHostBitmap, &["perforated+perforated", "thp+perforated", "1g+perforated"]),
    (
        Defect::KeepCombinedEntries,
        &["4k+4k", "thp+thp", "thp+4k", "perforated+perforated", "4k+1g", "4k+flat-thp"],
    ),
    (Defect::IgnoreEscapeFilter, &["segment", "segment+4k", "4k+segment", "segment+segment"]),
    (Defect::DropPagingInSegment, &["segment", "segment+4k", "4k+segment"]),
    (Defect::IgnoreRunPermissions, &["4k-colt-4", "4k-colt-8", "4k-colt-32"]),
    (
        Defect::LengthenRuns,
        &["4k-colt-4", "4k-colt-8", "4k-colt-32", "4k-colt-4+4k", "4k+4k-colt-8", "4k-colt-8+thp"],
    ),
    (
        Defect::KeepStaleRun,
        &["4k-colt-4", "4k-colt-8", "4k-colt-32", "4k-colt-8+4k-colt-8", "4k-colt-32+thp"],
    ),
    (Defect::KeepJoined, &["mthp-64k", "mthp-256k", "mthp-64k+thp", "thp+mthp-64k"]),
    (Defect::KeepShadowEntries, &["4k+shadow-4k", "range+shadow-4k"]),
    (Defect::UnfollowedPunch, &["perforated+shadow-4k", "perforated+shadow-thp"]),
    (Defect::UnfollowedEscape, &["segment+shadow-4k", "segment-thp+shadow-thp"]),
    (Defect::UnfollowedSuperpage, &["gt-pde-4m+shadow-4k", "p-gt-pde-2m+shadow-thp"]),
    (
        Defect::StaleGapTolerantEntry,
        &[
            "gt-pde-4m",
            "gt-pde-2m",
            "gt-pde-1m",
            "p-gt-pde-4m",
            "p-gt-pde-2m",
            "gt-pde-4m-native",
            "gt-pde-4m-native+4k",
            "gt-pde-2m+thp",
            "p-gt-pde-4m+perforated",
        ],
    ),
    (
        Defect::WrongPrefixSum,
        &[
            "gt-pde-4m",
            "gt-pde-2m",
            "gt-pde-1m",
            "p-gt-pde-4m",
            "p-gt-pde-2m",
            "gt-pde-4m+4k",
            "4k+gt-pde-4m",
            "gt-pde-2m+gt-pde-1m",
        ],
    ),
    (Defect::IgnoreOffsetB, &["p-gt-pde-4m", "p-gt-pde-2m", "p-gt-pde-2m+4k", "4k+p-gt-pde-4m"]),
    (Defect::KeepStaleOwnTable, &["range", "range+4k", "4k+range", "range+range"]),
    (
        Defect::LateShootdown,
        &["4k", "thp", "perforated", "gt-pde-4m", "gt-pde-4m-native", "4k+4k", "perforated+thp"],
    ),
];

/// Seeds of storms that catch defects which few storms do.
const CAUGHT_WITH: [(Defect, &str, u64); 13] = [
    (Defect::UnfollowedEscape, "segment-thp+shadow-thp", 50),
    (Defect::UnfollowedEscape, "segment+shadow-4k", 24),
    (Defect::IgnoreEscapeFilter, "4k+segment", 26),
    (Defect::IgnoreEscapeFilter, "segment+4k", 11),
    (Defect::IgnoreEscapeFilter, "segment+segment", 4),
    (Defect::IgnoreRunPermissions, "4k-colt-4", 26),
    (Defect::IgnoreRunPermissions, "4k-colt-8", 16),
    (Defect::IgnoreRunPermissions, "4k-colt-32", 16),
    (Defect::KeepStaleRun, "4k-colt-32+thp", 25),
    (Defect::KeepStaleRun, "4k-colt-32", 8),
    (Defect::SkipBitmapInvalidation, "perforated+perforated", 3),
    (Defect::SkipBitmapInvalidation, "perforated+flat-4k", 3),
    (Defect::SkipBitmapInvalidation, "perforated+4k", 3),
];

/// True if one of `most` storms, whose results `storm` returns for a seed, catches the defect. The first has the seed
/// that is known to, if it is listed, as the search can take long.
pub fn is_caught<T>(
    defect: Defect,
    scheme: &str,
    most: u64,
    storm: impl Fn(u64) -> Result<T, SimError>,
) -> bool {
    let known = CAUGHT_WITH.iter().find(|&&(other, name, _)| (other, name) == (defect, scheme));
    let mut seeds = known.map(|&(.., seed)| seed).into_iter().chain(0..most);
    seeds.any(|seed| match storm(seed) {
        Ok(_) => false,
        Err(SimError::Disagreement { .. } | SimError::StuckFault { .. }) => true,
        Err(error) => panic!("{scheme}, seed {seed}: {error}"),
    })
}

/// Wiring with a planted defect.
pub struct Defective {
    defect: Defect,
    segments: HashMap<(Side, SpaceId), Range<u64>>,
    /// Pages whose mapping in page tables was omitted.
    dropped: HashSet<(Side, SpaceId, VirtualPage)>,
    /// Frames of mechanisms' tables, such as range tables, that were written.
    written: HashSet<(Side, Frame)>,
    /// Shootdowns not yet delivered to other cores.
    late: VecDeque<Update>,
}

impl Defective {
    pub fn new(defect: Defect) -> Box<Self> {
        let (segments, dropped, written) = (HashMap::new(), HashSet::new(), HashSet::new());
        Box::new(Self { defect, segments, dropped, written, late: VecDeque::new() })
    }

    /// True if the defect drops an operation: a mapping inside a segment, or a later operation on a
    /// page whose mapping was dropped.
    fn loses(&mut self, side: Side, operation: &dyn FormatOperation) -> bool {
        match operation.downcast_ref() {
            Some(&SegmentOperation::Set { space, page, pages, .. }) => {
                self.segments.insert((side, space), page.number()..page.number() + pages);
            }
            Some(&SegmentOperation::Clear { space }) => {
                self.segments.remove(&(side, space));
            }
            _ => {}
        }
        match operation.downcast_ref() {
            Some(&TableOperation::Map { space, page, .. }) => {
                let segment = self.segments.get(&(side, space));
                let inside = segment.is_some_and(|pages| pages.contains(&page.number()));
                inside && self.dropped.insert((side, space, page))
            }
            Some(&TableOperation::Unmap { space, page, .. }) => {
                self.dropped.remove(&(side, space, page))
            }
            Some(&TableOperation::Protect { space, page, .. }) => {
                self.dropped.contains(&(side, space, page))
            }
            _ => false,
        }
    }

    /// Applies the defect to an operation on tables or registers. Returns true if the operation is
    /// dropped.
    fn tampers(&mut self, side: Side, operation: &dyn FormatOperation, mmu: &mut Mmu) -> bool {
        match self.defect {
            Defect::IgnoreEscapeFilter => {
                matches!(operation.downcast_ref(), Some(SegmentOperation::Escape { .. }))
            }
            Defect::DropPagingInSegment => self.loses(side, operation),
            Defect::KeepStaleOwnTable => {
                operation.table().is_some_and(|frame| !self.written.insert((side, frame)))
            }
            Defect::KeepJoined => {
                matches!(
                    operation.downcast_ref(),
                    Some(TableOperation::Join { contiguity: None, .. })
                )
            }
            Defect::KeepShadowEntries if side == Side::Shadow => keeps_shadow_entry(operation, mmu),
            _ => false,
        }
    }
}

impl Wiring for Defective {
    fn tables(&mut self, side: Side, tables: Box<dyn Dimension>) -> Box<dyn Dimension> {
        let is_concerned = match self.defect {
            Defect::IgnoreShadow | Defect::WrongFilterBit => true,
            Defect::WrongPrefixSum | Defect::IgnoreOffsetB => true,
            Defect::ForgetHostBitmap => side == Side::Host,
            _ => false,
        };
        if is_concerned { Tampered::new(tables, self.defect) } else { tables }
    }

    fn behind_tlbs(&mut self, dimension: Box<dyn Dimension>) -> Box<dyn Dimension> {
        match self.defect {
            Defect::IgnoreRunPermissions | Defect::LengthenRuns | Defect::KeepStaleRun => {
                Tampered::new(dimension, self.defect)
            }
            _ => dimension,
        }
    }

    fn deliver(&mut self, side: Side, update: &Update, mmu: &mut Mmu) {
        if let Some(operation) = update.operation()
            && self.tampers(side, operation, mmu)
        {
            return;
        }
        if self.defect == Defect::LateShootdown
            && side == Side::Own
            && let Update::Shootdown(_) = update
        {
            mmu.apply_here(update);
            self.late.push_back(update.clone());
            while self.late.len() > 3 {
                self.late.pop_front().iter().for_each(|update| side.deliver(update, mmu));
            }
            return;
        }
        match update {
            Update::Shootdown(shootdown) if loses_part(self.defect, side, *shootdown, mmu) => {}
            _ => side.deliver(update, mmu),
        }
    }

    fn is_followed(&mut self, operation: &dyn FormatOperation) -> bool {
        let is_hidden = match self.defect {
            Defect::UnfollowedPunch => {
                matches!(operation.downcast_ref(), Some(PerforatedOperation::Punch { .. }))
            }
            Defect::UnfollowedEscape => {
                matches!(operation.downcast_ref(), Some(SegmentOperation::Escape { .. }))
            }
            Defect::UnfollowedSuperpage => matches!(
                operation.downcast_ref(),
                Some(SuperpageOperation::Unmap { .. } | SuperpageOperation::Protect { .. })
            ),
            _ => false,
        };
        !is_hidden
    }
}

/// Applies what the defect leaves of a shootdown. Returns false if the defect does not affect the
/// shootdown.
fn loses_part(defect: Defect, side: Side, shootdown: Shootdown, mmu: &mut Mmu) -> bool {
    match (defect, side, shootdown) {
        (Defect::SkipBitmapInvalidation, Side::Own, Shootdown::Bitmap { .. }) => true,
        (Defect::KeepStaleFilter, Side::Own, Shootdown::Large { space, page, .. }) => {
            is_perforated(mmu, space, page)
        }
        (Defect::SkipL1Invalidation, Side::Own, Shootdown::Page { space, page }) => {
            mmu.evict_page(space, page);
            true
        }
        (Defect::KeepCombinedEntries, Side::Host, _) => {
            let host = mmu.dimension_mut().host_mut().expect("it is virtualized");
            if shootdown.space() == host.space() {
                host.invalidate(shootdown);
            }
            true
        }
        (Defect::StaleGapTolerantEntry, Side::Own, Shootdown::Superpage { space, page, mode }) => {
            mmu.flush_first_level();
            (0..mode.entry_pages()).for_each(|index| mmu.evict_page(space, page.add(index)));
            true
        }
        _ => false,
    }
}

fn is_perforated(mmu: &Mmu, space: SpaceId, page: VirtualPage) -> bool {
    let tables: Option<&PerforatedRadix> = mmu.dimension().part();
    let pages = tables.map(PerforatedRadix::perforated_pages).unwrap_or_default();
    let covers = |first: VirtualPage| first.number() == page.number() / 512 * 512;
    pages.iter().any(|found| found.space == space && covers(found.page))
}

/// Returns true for an operation to drop, which is the removal of a shadow entry. The entry is
/// removed when something else is mapped at its page.
fn keeps_shadow_entry(operation: &dyn FormatOperation, mmu: &mut Mmu) -> bool {
    match operation.downcast_ref() {
        Some(TableOperation::Unmap { .. }) => true,
        Some(&TableOperation::Map { space, page, size, .. }) => {
            if mmu.dimension().look_at(space, page).is_some() {
                let unmap = TableOperation::Unmap { space, page, size };
                Side::Shadow.deliver(&unmap.into(), mmu);
            }
            false
        }
        _ => false,
    }
}
