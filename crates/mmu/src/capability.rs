//! Capabilities: optional features of address translations ([`Dimension`]), such as pages with
//! holes.
//!
//! The pipeline asks a dimension for a capability and uses it through the traits of this module, so
//! it knows no mechanism by name. Holes are the exception, because the second-level TLB itself
//! holds their bitmap entries.

use std::any::{Any, TypeId};

use perforate_types::{
    AccessKind, Counters, Frame, Purpose, Shootdown, SpaceId, Steps, VirtualPage,
};

#[cfg(doc)]
use crate::BitmapUpdates;
use crate::coalescing::{Run, RunRequest};
use crate::nested::Host;
use crate::{Dimension, PageFault, Reach, WalkFault, WalkRequest, Walker};

/// A kind of capability (optional feature of a translation), for requests by
/// [`Dimension::capability`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CapabilityKind {
    /// Pages with holes ([`Holes`]).
    Holes,
    /// Unit that is looked up in parallel with a TLB, such as a range TLB ([`SidebandTlb`]).
    SidebandTlb,
    /// Runs of consecutive pages: a fast search, and entries that name them ([`Runs`]).
    Runs,
    /// Level-2 leaf entries in the page-walk cache (G §3.7).
    CachedLeaves,
    /// Nested translation: guest tables over a host ([`OverHost`]).
    OverHost,
    /// Hardware that exists once per core ([`PerCoreHardware`]).
    PerCoreHardware,
    /// Component of this Rust type, such as the tables of one mechanism, for callers that know the
    /// mechanism.
    Part(TypeId),
}

/// A capability (optional feature of a translation) with read-only access, as
/// [`Dimension::capability`] returns it.
pub enum Capability<'a> {
    /// Pages with holes (P §IV).
    Holes(&'a dyn Holes),
    /// Unit that is looked up in parallel with a TLB, such as a range TLB.
    SidebandTlb(&'a dyn SidebandTlb),
    /// Fast search for runs of consecutive pages in the tables.
    Runs(&'a dyn Runs),
    /// Level-2 leaf entries in the page-walk cache. The value is the number of 4KB pages per leaf.
    CachedLeaves(u64),
    /// Nested translation: guest tables over a host.
    OverHost(&'a dyn OverHost),
    /// Hardware that exists once per core.
    PerCoreHardware(&'a dyn PerCoreHardware),
    /// Component of the requested Rust type.
    Part(&'a dyn Any),
}

/// A capability (optional feature of a translation) with mutable access, as
/// [`Dimension::capability_mut`] returns it.
pub enum CapabilityMut<'a> {
    /// Pages with holes (P §IV).
    Holes(&'a mut dyn Holes),
    /// Unit that is looked up in parallel with a TLB, such as a range TLB.
    SidebandTlb(&'a mut dyn SidebandTlb),
    /// Nested translation: guest tables over a host.
    OverHost(&'a mut dyn OverHost),
    /// Hardware that exists once per core.
    PerCoreHardware(&'a mut dyn PerCoreHardware),
    /// Component of the requested Rust type.
    Part(&'a mut dyn Any),
}

/// Policy by which the second-level TLB loads the bitmap of a page with holes (P §IV.C, Fig. 3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BitmapLoading {
    /// All 16 bitmap entries are loaded with the page; the page's hole filter is ignored.
    Naive,
    /// A bitmap entry is loaded on its first use; the page's hole filter is ignored.
    OnDemand,
    /// A bitmap entry is loaded on its first use, and only for 256KB regions whose filter bit is
    /// set: the paper's proposal.
    #[default]
    Filtered,
}

/// 2MB pages with 4KB holes (P §IV).
pub trait Holes {
    /// Policy by which the second-level TLB loads the bitmaps of these pages.
    fn bitmap_loading(&self) -> BitmapLoading;

    /// Walks to the 4KB translation of a hole and appends the steps.
    ///
    /// # Errors
    /// [`WalkFault::NotMapped`] if no page is mapped in the hole.
    fn walk_hole(
        &mut self,
        request: WalkRequest,
        walker: &mut Walker<'_>,
    ) -> Result<Reach, WalkFault>;

    /// Reads the 512-bit hole bitmap of the 2MB page in `block`, which is the page's first frame.
    ///
    /// # Errors
    /// [`WalkFault`] if the bitmap belongs to a guest and cannot be located.
    fn read_bitmap(
        &mut self,
        request: WalkRequest,
        block: Frame,
        walker: &mut Walker<'_>,
    ) -> Result<[u64; 8], WalkFault>;

    /// Returns the bitmap of the 2MB page around `page` as the operating system last wrote it.
    /// Hardware with [`BitmapUpdates::InPlace`] copies it to TLB entries. `None` if there is no
    /// such page. Also `None` if TLB entries include a host's holes, which the guest's operating
    /// system does not know.
    fn written_bitmap(&self, space: SpaceId, page: VirtualPage) -> Option<[u64; 8]>;
}

/// Counts of translations by a [`SidebandTlb`] unit, such as a range TLB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SidebandCounters {
    /// Number of first-level TLB misses that the unit translated. With nested translation, number
    /// of misses that the units of guest and host translated together.
    pub translations: u64,
    /// Number of walks to pages that the guest's unit translates but the host's unit does not.
    pub in_guest_only: u64,
    /// Number of walks to pages that the host's unit translates but the guest's unit does not.
    pub in_host_only: u64,
}

/// Uses that the pipeline makes of a [`SidebandTlb`] unit, such as a range TLB. The values never
/// change during a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SidebandUse {
    /// True if the pipeline looks the unit up after first-level misses (for a host's unit: the
    /// nested walker does).
    pub looked_up: bool,
    /// True if the unit caches translations, such as a range TLB, so that walks fill it.
    pub filled: bool,
    /// True if the unit's entries replace those of the second-level TLB: a page that the unit
    /// translates after a fill gets no second-level entry.
    pub replaces_l2: bool,
    /// True if the unit is looked up in parallel with the first-level TLB instead of the second.
    /// The pages that it translates then need no TLB entries. Native execution only.
    pub beside_l1: bool,
}

/// A unit that translates addresses in parallel with a TLB, such as a range TLB or the registers of
/// a direct segment. The pipeline looks it up with the second-level TLB after a first-level miss,
/// or with the first-level TLB ([`SidebandUse::beside_l1`]).
///
/// After a hit of a unit in parallel with the second level, the page is filled into the first level
/// as a 4KB entry, and not into the second level. A unit may have entries, which are filled after
/// page walks.
///
/// The nested walker looks up a host's unit before the cached gPA→hPA entries.
pub trait SidebandTlb {
    /// Name of this unit in reports, such as "range TLB".
    fn name(&self) -> &'static str;

    /// Returns the uses that the pipeline makes of this unit: look-ups, fills, and their place.
    fn used(&self) -> SidebandUse;

    /// Translates a page by this unit (a range TLB or segment registers) without side effects.
    /// Returns the mapping around the page, or `None` if the unit does not translate the page now.
    fn find(&self, space: SpaceId, page: VirtualPage) -> Option<Reach>;

    /// Looks up a page and appends the hardware's steps. Returns the mapping around the page, or
    /// `None` for a miss. `purpose` is [`Purpose::Page`] for a look-up in parallel with the
    /// second-level TLB, whose own look-up runs in parallel with the unit's last step. For a host's
    /// unit, it is [`Purpose::HostPage`].
    fn look_up(
        &mut self,
        space: SpaceId,
        page: VirtualPage,
        purpose: Purpose,
        steps: &mut Steps,
    ) -> Option<Reach>;

    /// Number of slots of this unit, such as the entries of a range TLB, for the timing model.
    fn slots(&self) -> usize {
        0
    }

    /// Fills this unit, such as a range TLB, after a page walk that found `reach`. The page missed
    /// in the second-level TLB and in this unit. The access does not wait for the fill.
    fn fill(&mut self, request: WalkRequest, reach: &Reach, walker: &mut Walker<'_>);

    /// Invalidates the entries of this unit, such as a range TLB, that the shootdown covers.
    fn invalidate(&mut self, shootdown: Shootdown);

    /// Invalidates all entries of this unit, such as a range TLB.
    fn flush(&mut self);

    /// Writes the counters of this unit, such as hits of a range TLB, to `out`. `counted` has the
    /// translations by the unit, which the pipeline and the nested walker count.
    fn record(&self, counted: &SidebandCounters, out: &mut Counters);

    /// Resets to 0 the counts that this unit keeps itself.
    fn reset_counters(&mut self);
}

impl dyn SidebandTlb + '_ {
    /// Calls [`Self::fill`], and records all steps of the fill as background work, for which no
    /// access waits.
    pub(crate) fn fill_in_background(
        &mut self,
        request: WalkRequest,
        reach: &Reach,
        walker: &mut Walker<'_>,
    ) {
        walker.steps.begin_background();
        self.fill(request, reach, walker);
        walker.steps.end_background();
    }
}

/// Page tables that find a run of consecutive 4KB pages faster than by a look-up of each page, or
/// whose entries say that pages are contiguous.
pub trait Runs {
    /// Returns the longest run around a page that a walk has just found, for TLB coalescing. The
    /// run is inside one aligned window. Its frames are consecutive, and its pages agree in
    /// permissions.
    fn run_around(&self, request: &RunRequest) -> Run;

    /// True if the entry that translates the page says that it maps the page's whole aligned block
    /// of 64KB, by an encoding of [`Contiguity`](perforate_types::Contiguity) or as a larger page.
    fn is_contiguous(&self, space: SpaceId, page: VirtualPage) -> bool;
}

/// Hardware of a dimension that exists once per core, such as a range TLB. All other methods of the
/// dimension use the hardware of the running core. Most implementors keep the state of the other
/// cores in [`Parked`](crate::Parked).
pub trait PerCoreHardware {
    /// Sets the number of cores. Each core gets a copy of the current core's hardware state.
    fn set_cores(&mut self, cores: usize);

    /// Makes `core` the running core, whose hardware all other methods use.
    fn run_on(&mut self, core: usize);
}

/// Nested translation of a virtual machine: a guest's tables (gVA→gPA) over a host's (gPA→hPA).
pub trait OverHost {
    /// Returns the host's half, which translates guest-physical addresses.
    fn host(&self) -> &Host;

    /// Returns the host's half, mutable.
    fn host_mut(&mut self) -> &mut Host;

    /// Returns the guest's 2MB page that the last walk found, as a mapping to guest frames, if the
    /// host maps the accessed part of it by a 4KB page (P §V). `None` for any other combination of
    /// page sizes.
    fn intermediate(&self) -> Option<Reach> {
        None
    }

    /// Reads the guest's hole bitmap of the 2MB page that starts at guest frame `block`. Returns
    /// `None` if the guest has no holes, and an error if the host does not map the bitmap.
    fn read_guest_bitmap(
        &mut self,
        _request: WalkRequest,
        _block: Frame,
        _walker: &mut Walker<'_>,
    ) -> Option<Result<[u64; 8], WalkFault>> {
        None
    }

    /// Returns the page fault for a forbidden access, attributed to the guest or the host,
    /// whichever forbids it.
    fn blame(&self, request: WalkRequest, kind: AccessKind) -> PageFault;
}

/// Typed access to each capability.
impl dyn Dimension + '_ {
    /// Returns the interface to pages with holes; `None` if the tables do not support holes.
    pub fn holes(&self) -> Option<&dyn Holes> {
        match self.capability(CapabilityKind::Holes)? {
            Capability::Holes(holes) => Some(holes),
            _ => None,
        }
    }

    /// Returns the interface to pages with holes, mutable, for walks.
    pub fn holes_mut(&mut self) -> Option<&mut dyn Holes> {
        match self.capability_mut(CapabilityKind::Holes)? {
            CapabilityMut::Holes(holes) => Some(holes),
            _ => None,
        }
    }

    /// Returns the unit that is looked up in parallel with a TLB; `None` if the dimension has no
    /// such unit.
    pub fn sideband_tlb(&self) -> Option<&dyn SidebandTlb> {
        match self.capability(CapabilityKind::SidebandTlb)? {
            Capability::SidebandTlb(unit) => Some(unit),
            _ => None,
        }
    }

    /// Returns the uses that the pipeline makes of the dimension's [`SidebandTlb`] unit; all false
    /// without such a unit.
    pub(crate) fn beside_use(&self) -> SidebandUse {
        self.sideband_tlb().map(SidebandTlb::used).unwrap_or_default()
    }

    /// Returns the unit that is looked up in parallel with a TLB, mutable, for look-ups and fills.
    pub fn sideband_tlb_mut(&mut self) -> Option<&mut dyn SidebandTlb> {
        match self.capability_mut(CapabilityKind::SidebandTlb)? {
            CapabilityMut::SidebandTlb(unit) => Some(unit),
            _ => None,
        }
    }

    /// Returns the longest run of contiguous pages around a page. Searches page by page if the
    /// tables have no [`Runs`].
    pub fn run_around(&self, request: &RunRequest) -> Run {
        match self.capability(CapabilityKind::Runs) {
            Some(Capability::Runs(runs)) => runs.run_around(request),
            _ => request.longest(|page| self.look_at(request.space, page)),
        }
    }

    /// True if the entry that translates a page says that it maps the page's whole block of 64KB.
    pub fn is_contiguous(&self, space: SpaceId, page: VirtualPage) -> bool {
        match self.capability(CapabilityKind::Runs) {
            Some(Capability::Runs(runs)) => runs.is_contiguous(space, page),
            _ => false,
        }
    }

    /// Returns the number of 4KB pages per level-2 leaf in the page-walk cache; `None` if the cache
    /// holds no leaves.
    pub fn cached_leaf_pages(&self) -> Option<u64> {
        match self.capability(CapabilityKind::CachedLeaves)? {
            Capability::CachedLeaves(pages) => Some(pages),
            _ => None,
        }
    }

    /// Sets the number of cores. No effect on dimensions without hardware per core.
    pub fn set_cores(&mut self, cores: usize) {
        if let Some(CapabilityMut::PerCoreHardware(own)) =
            self.capability_mut(CapabilityKind::PerCoreHardware)
        {
            own.set_cores(cores);
        }
    }

    /// Makes `core` the running core. No effect on dimensions without hardware per core.
    pub fn run_on(&mut self, core: usize) {
        if let Some(CapabilityMut::PerCoreHardware(own)) =
            self.capability_mut(CapabilityKind::PerCoreHardware)
        {
            own.run_on(core);
        }
    }

    /// Returns the nested translation of a virtual machine; `None` natively.
    pub fn over_host(&self) -> Option<&dyn OverHost> {
        match self.capability(CapabilityKind::OverHost)? {
            Capability::OverHost(over) => Some(over),
            _ => None,
        }
    }

    /// Returns the nested translation of a virtual machine, mutable; `None` natively.
    pub fn over_host_mut(&mut self) -> Option<&mut dyn OverHost> {
        match self.capability_mut(CapabilityKind::OverHost)? {
            CapabilityMut::OverHost(over) => Some(over),
            _ => None,
        }
    }

    /// Returns the host's half of the nested translation; `None` natively.
    pub fn host(&self) -> Option<&Host> {
        self.over_host().map(OverHost::host)
    }

    /// Returns the host's half of the nested translation, mutable; `None` natively.
    pub fn host_mut(&mut self) -> Option<&mut Host> {
        match self.capability_mut(CapabilityKind::OverHost)? {
            CapabilityMut::OverHost(over) => Some(over.host_mut()),
            _ => None,
        }
    }

    /// Returns the component of Rust type `T`, which may be the whole dimension. `None` if there is
    /// no such component.
    pub fn part<T: 'static>(&self) -> Option<&T> {
        match self.capability(CapabilityKind::Part(TypeId::of::<T>()))? {
            Capability::Part(part) => part.downcast_ref(),
            _ => None,
        }
    }

    /// Returns the component of Rust type `T`, mutable; `None` if there is no such component.
    pub fn part_mut<T: 'static>(&mut self) -> Option<&mut T> {
        match self.capability_mut(CapabilityKind::Part(TypeId::of::<T>()))? {
            CapabilityMut::Part(part) => part.downcast_mut(),
            _ => None,
        }
    }
}
