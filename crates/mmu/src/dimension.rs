//! A dimension: one address-space translation, and what it answers.

use perforate_types::{
    AccessKind, FormatOperation, Frame, GapTolerance, GuestFrame, HoleSet, PageSize,
    PhysicalAddress, SpaceId, VirtualPage,
};

use crate::nested::{Host, NestedCounters};
use crate::{PageFault, Run, RunRequest, Sabotage, Shadow, TableMemory, Walker};

/// The aligned range around an address over which one linear mapping holds, minus its holes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reach {
    /// Size of the range.
    pub size: PageSize,
    /// Frame that the range's first page maps to.
    pub frame: Frame,
    /// What may be done without further work, as bits of [`allow`].
    pub allows: u8,
    /// Hole filter; 0 where the range has no holes.
    pub filter: u8,
}

/// What a translation allows without further work, as bits.
pub mod allow {
    use perforate_types::{AccessKind, Permissions};

    /// Loads.
    pub const READ: u8 = 1;
    /// Stores, by permission.
    pub const WRITE: u8 = 2;
    /// Fetches.
    pub const FETCH: u8 = 4;
    /// The leaf entry's dirty bit is known to be set.
    pub const DIRTY: u8 = 8;

    /// The bits for a leaf entry.
    pub fn of_leaf(permissions: Permissions, dirty: bool) -> u8 {
        let bit = |kind, bit| if permissions.allow(kind) { bit } else { 0 };
        bit(AccessKind::Read, READ)
            | bit(AccessKind::Write, WRITE)
            | bit(AccessKind::Fetch, FETCH)
            | if dirty { DIRTY } else { 0 }
    }

    /// The bits an access needs to be done by a first-level hit alone.
    #[inline]
    pub const fn needed(kind: AccessKind) -> u8 {
        match kind {
            AccessKind::Read => READ,
            AccessKind::Write => WRITE | DIRTY,
            AccessKind::Fetch => FETCH,
        }
    }

    /// Whether an access of this kind is permitted, its dirty bit set or not.
    #[inline]
    pub const fn permits(allows: u8, kind: AccessKind) -> bool {
        let needed = needed(kind) & !DIRTY;
        allows & needed == needed
    }
}

/// The host cannot translate a guest-physical address, or does not allow the access: a violation of
/// the nested page table, which its hypervisor serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostFault {
    /// Page of the guest's memory.
    pub page: GuestFrame,
    /// What was to be done with it.
    pub kind: AccessKind,
}

/// Why a walk found no translation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WalkFault {
    /// Nothing is mapped there.
    NotMapped,
    /// An address on the way is not translated by the dimension beneath.
    Host(HostFault),
    /// The shadow tables have no entry, which may or may not mean that the guest has none.
    Shadow,
}

impl From<HostFault> for WalkFault {
    fn from(fault: HostFault) -> Self {
        Self::Host(fault)
    }
}

/// What a walk is for.
#[derive(Clone, Copy, Debug)]
pub struct WalkRequest {
    /// Address space.
    pub space: SpaceId,
    /// Page wanted.
    pub page: VirtualPage,
    /// Whether it is for a store.
    pub write: bool,
    /// Whether an earlier walk of the same translation has found the page already, so that the
    /// walker need not find it again for the sake of its holes.
    pub walked: bool,
}

/// A perforated page as its tables hold it, for pictures and tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PerforatedPage {
    /// Address space.
    pub space: SpaceId,
    /// First page.
    pub page: VirtualPage,
    /// Hole filter in the page-directory entry.
    pub filter: u8,
    /// This address space's holes.
    pub holes: HoleSet,
    /// Those of them that are mapped somewhere.
    pub allocated: HoleSet,
}

/// A gap-tolerant entry, and what it makes of one 4KB page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Superpage {
    /// Where the entry lies, as the dimension counts frames.
    pub entry: PhysicalAddress,
    /// First frame of the slice that holds the page.
    pub slice: Frame,
    /// B-blocks used.
    pub selection: u64,
    /// The page's B-block in the slice.
    pub block: u32,
    /// The page's own frame.
    pub frame: Frame,
}

/// One address-space translation: it carries out operations on tables in simulated memory, and
/// walks those tables. A scheme is a dimension behind the one TLB pipeline.
pub trait Dimension: Send {
    /// Carries out an operation on the tables or registers.
    ///
    /// # Panics
    /// If it is of another format or does not fit the tables, which is a bug of the operating system
    /// model.
    fn apply(&mut self, operation: &dyn FormatOperation);

    /// Walks to the leaf that covers the page, appending look-ups and reads to the steps, and sets
    /// accessed bits on the way; for a store, the dirty bit of the leaf too, if it allows stores.
    /// A leaf with holes is no more than marked accessed: the sub-page may be one of them, and
    /// [`Self::mark_dirty`] comes when that is known.
    ///
    /// # Errors
    /// [`WalkFault::NotMapped`] where an entry on the way is not present.
    fn walk(&mut self, request: WalkRequest, walker: &mut Walker<'_>) -> Result<Reach, WalkFault>;

    /// Walks to the 4KB translation of a hole.
    ///
    /// # Errors
    /// [`WalkFault::NotMapped`] where the hole is unallocated.
    ///
    /// # Panics
    /// In a dimension that has no holes.
    fn walk_hole(
        &mut self,
        _request: WalkRequest,
        _walker: &mut Walker<'_>,
    ) -> Result<Reach, WalkFault> {
        unreachable!("this dimension has no holes")
    }

    /// Reads the hole bitmap of `block`, to which the page's 2MB region is mapped.
    ///
    /// # Errors
    /// [`WalkFault`] where the bitmap of a guest cannot be found.
    ///
    /// # Panics
    /// In a dimension that has no holes.
    fn read_bitmap(
        &mut self,
        _request: WalkRequest,
        _block: Frame,
        _walker: &mut Walker<'_>,
    ) -> Result<[u64; 8], WalkFault> {
        unreachable!("this dimension has no holes")
    }

    /// Whether its tables can hold perforated pages.
    fn has_holes(&self) -> bool {
        false
    }

    /// How page directories hold gap-tolerant entries, if they can: what the walk caches then cache.
    fn gap_tolerance(&self) -> Option<GapTolerance> {
        None
    }

    /// The gap-tolerant entry that translates a 4KB page, for pictures and tests.
    fn look_at_superpage(&self, _space: SpaceId, _page: VirtualPage) -> Option<Superpage> {
        None
    }

    /// Whether it can translate by direct segments, so that [`Self::segment`] is to be asked beside
    /// the second-level TLB.
    fn has_segments(&self) -> bool {
        false
    }

    /// Whether the address space's segment registers are set: BASE ≠ LIMIT.
    fn segment_is_set(&self, _space: SpaceId) -> bool {
        false
    }

    /// The reach of the direct segment around a page, if one translates it (D §III): 2MB or 1GB
    /// where nothing in it can escape.
    fn segment(&self, _space: SpaceId, _page: VirtualPage) -> Option<Reach> {
        None
    }

    /// What the tables say of a 4KB page, found without hardware: its own frame, and the bits of
    /// [`allow`] of the leaf that translates it. For operating systems and for blame, never for a
    /// translation.
    fn look_at(&self, space: SpaceId, page: VirtualPage) -> Option<(Frame, u8)>;

    /// The longest run of 4KB pages around one that a walk has just found, for a TLB that coalesces:
    /// consecutive frames and equal permissions, inside the window.
    fn run_around(&self, request: &RunRequest) -> Run {
        request.longest(|page| self.look_at(request.space, page))
    }

    /// The same as [`Self::look_at`] with the size of the leaf, its first frame and no holes; a smaller size will do.
    fn look_at_leaf(&self, space: SpaceId, page: VirtualPage) -> Option<Reach> {
        let (frame, allows) = self.look_at(space, page)?;
        Some(Reach { size: PageSize::Size4K, frame, allows, filter: 0 })
    }

    /// Whose fault a forbidden access is: of two dimensions either may forbid it.
    fn blame(&self, _request: WalkRequest, _kind: AccessKind) -> PageFault {
        PageFault::Protection
    }

    /// The second dimension, if there is one.
    fn host(&self) -> Option<&Host> {
        None
    }

    /// The second dimension, to be changed.
    fn host_mut(&mut self) -> Option<&mut Host> {
        None
    }

    /// Shadow tables, if it is them that hardware walks.
    fn shadow(&self) -> Option<&Shadow> {
        None
    }

    /// Shadow tables, to be changed.
    fn shadow_mut(&mut self) -> Option<&mut Shadow> {
        None
    }

    /// What only compositions of two dimensions count; all zero elsewhere.
    fn nested_counters(&self) -> NestedCounters {
        NestedCounters::default()
    }

    /// Starts counting anew.
    fn reset_nested_counters(&mut self) {}

    /// Plants a defect, if it is one of this dimension.
    fn sabotage(&mut self, _defect: Sabotage) {}

    /// Sets the accessed bits on the way to the leaf that translates the page, as a hypervisor does
    /// that shadows these tables. Only tables that can be shadowed have them set so.
    fn mark_accessed(&mut self, _space: SpaceId, _page: VirtualPage) {}

    /// Sets the dirty bit of the leaf that translates the page (a store through a clean entry).
    fn mark_dirty(&mut self, space: SpaceId, page: VirtualPage);

    /// The simulated memory the tables live in.
    fn memory(&self) -> &TableMemory;

    /// Perforated pages, in order of address space and address.
    fn perforated_pages(&self) -> Vec<PerforatedPage> {
        Vec::new()
    }
}
