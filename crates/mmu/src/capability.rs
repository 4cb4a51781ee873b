//! Capabilities: optional features that only some dimensions have.
//!
//! The pipeline asks a dimension for a capability and uses it through the traits of this module. It
//! knows no mechanism by name. Holes are the exception: their bitmap entries are in the
//! second-level TLB.

use std::any::{Any, TypeId};

use perforate_types::{
    AccessKind, Counters, Frame, Purpose, Shootdown, SpaceId, Steps, VirtualPage,
};

#[cfg(doc)]
use crate::BitmapUpdates;
use crate::coalescing::{Run, RunRequest};
use crate::nested::Host;
use crate::{Dimension, PageFault, Reach, WalkFault, WalkRequest, Walker};

/// A kind of capability, for [`Dimension::capability`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// Pages with holes ([`Holes`]).
    Holes,
    /// A unit beside the second-level TLB ([`BesideL2`]).
    BesideL2,
    /// A fast search for runs of pages ([`Runs`]).
    Runs,
    /// Leaves in the walk cache of level-2 entries.
    CachedLeaves,
    /// A second dimension ([`OverHost`]).
    OverHost,
    /// Hardware that exists once per core ([`PerCoreHardware`]).
    PerCoreHardware,
    /// The part of the dimension that has this Rust type, for code that knows the mechanism.
    Part(TypeId),
}

/// A capability, read-only.
pub enum Capability<'a> {
    /// Pages with holes (P §IV).
    Holes(&'a dyn Holes),
    /// A unit beside the second-level TLB.
    BesideL2(&'a dyn BesideL2),
    /// Runs of pages in the tables.
    Runs(&'a dyn Runs),
    /// Leaves in the walk cache; the number is the 4KB pages that a leaf covers.
    CachedLeaves(u64),
    /// A second dimension beneath this one.
    OverHost(&'a dyn OverHost),
    /// Hardware that exists once per core.
    PerCoreHardware(&'a dyn PerCoreHardware),
    /// A part of the requested type.
    Part(&'a dyn Any),
}

/// A capability with mutable access.
pub enum CapabilityMut<'a> {
    /// Pages with holes (P §IV).
    Holes(&'a mut dyn Holes),
    /// A unit beside the second-level TLB.
    BesideL2(&'a mut dyn BesideL2),
    /// A second dimension beneath this one.
    OverHost(&'a mut dyn OverHost),
    /// Hardware that exists once per core.
    PerCoreHardware(&'a mut dyn PerCoreHardware),
    /// A part of the requested type.
    Part(&'a mut dyn Any),
}

/// Policy by which the second-level TLB loads the bitmap of a page with holes (P §IV.C, Fig. 3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BitmapLoading {
    /// All 16 bitmap entries are loaded with the page; the filter is ignored.
    Naive,
    /// A bitmap entry is loaded on its first use; the filter is ignored.
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

    /// Walks to the 4KB translation of a hole.
    ///
    /// # Errors
    /// [`WalkFault::NotMapped`] if no page is mapped in the hole.
    fn walk_hole(
        &mut self,
        request: WalkRequest,
        walker: &mut Walker<'_>,
    ) -> Result<Reach, WalkFault>;

    /// Reads the hole bitmap of `block`, the 2MB frame block of the page's 2MB region.
    ///
    /// # Errors
    /// [`WalkFault`] if the bitmap belongs to a guest and cannot be located.
    fn read_bitmap(
        &mut self,
        request: WalkRequest,
        block: Frame,
        walker: &mut Walker<'_>,
    ) -> Result<[u64; 8], WalkFault>;

    /// The bitmap of the 2MB page around `page` as the operating system last wrote it, for updates
    /// of TLB entries in place ([`BitmapUpdates::InPlace`]). `None` if there is no such page, or if
    /// TLB entries also contain holes that the operating system does not know.
    fn written_bitmap(&self, space: SpaceId, page: VirtualPage) -> Option<[u64; 8]>;
}

/// Translations that involved a [`BesideL2`] unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BesideCounters {
    /// First-level misses that the unit translated; with two dimensions, those that the units of
    /// both translated.
    pub translations: u64,
    /// Walks to pages that the guest's unit translates but the host's unit does not.
    pub in_guest_only: u64,
    /// Walks to pages that the host's unit translates but the guest's unit does not.
    pub in_host_only: u64,
}

/// Uses that the pipeline makes of a [`BesideL2`] unit. They are fixed for the lifetime of the
/// unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BesideUse {
    /// True if the unit is looked up.
    pub looked_up: bool,
    /// True if the unit has entries that are filled after walks.
    pub filled: bool,
    /// True if a page that the unit holds after a walk gets no entry in the second-level TLB.
    pub replaces_l2: bool,
    /// True if the unit is looked up with the first level instead of the second. Pages that the
    /// unit translates then have no TLB entries. Native execution only.
    pub beside_l1: bool,
}

/// A unit that is looked up with the second-level TLB after a first-level miss, or with the first
/// level ([`BesideUse::beside_l1`]).
///
/// A page that the unit translates is filled into the first level as a 4KB entry; the second level
/// is not used. A unit may have its own entries, which are filled after a walk of the page tables.
///
/// The nested walker looks up a host's unit before the cached gPA→hPA entries.
pub trait BesideL2 {
    /// Name of the unit in reports.
    fn name(&self) -> &'static str;

    /// Uses that the pipeline makes of the unit.
    fn used(&self) -> BesideUse;

    /// The reach around a page that the unit translates now. Has no side effects.
    fn find(&self, space: SpaceId, page: VirtualPage) -> Option<Reach>;

    /// Looks up a page and appends the required steps. The purpose is [`Purpose::Page`] beside the
    /// second-level TLB, whose own look-up runs in parallel with the unit's last step. It is
    /// [`Purpose::HostPage`] for a host.
    fn look_up(
        &mut self,
        space: SpaceId,
        page: VirtualPage,
        purpose: Purpose,
        steps: &mut Steps,
    ) -> Option<Reach>;

    /// Number of the unit's entries, for the timing model.
    fn slots(&self) -> usize {
        0
    }

    /// Fills the unit after a walk of the page tables that found `reach`, for a page that neither
    /// the second-level TLB nor this unit had. The access does not wait for this work.
    fn fill(&mut self, request: WalkRequest, reach: &Reach, walker: &mut Walker<'_>);

    /// Invalidates the entries that the shootdown covers.
    fn invalidate(&mut self, shootdown: Shootdown);

    /// Invalidates all entries of the unit.
    fn flush(&mut self);

    /// Writes the unit's counters to `out`, including `counted`: the counts that the pipeline and
    /// the nested walker keep for the unit.
    fn record(&self, counted: &BesideCounters, out: &mut Counters);

    /// Resets the unit's counters to 0.
    fn reset_counters(&mut self);
}

impl dyn BesideL2 + '_ {
    /// Calls [`Self::fill`] with all its steps in the background.
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

/// Tables that find runs of 4KB pages faster than a look-up of each page.
pub trait Runs {
    /// The longest run around a page that a walk has just found, for a TLB that coalesces. Frames
    /// are consecutive and permissions equal inside the window.
    fn run_around(&self, request: &RunRequest) -> Run;
}

/// A dimension with hardware that exists once per core: copies of entries, or a TLB beside the
/// second-level TLB. All methods of the dimension use the hardware of the running core. Most
/// implementors delegate to [`Parked`](crate::Parked).
pub trait PerCoreHardware {
    /// Sets the number of cores. Each gets a copy of the current hardware state.
    fn set_cores(&mut self, cores: usize);

    /// Makes `core` the running core.
    fn run_on(&mut self, core: usize);
}

/// A guest's dimension over a host's dimension.
pub trait OverHost {
    /// The host's dimension.
    fn host(&self) -> &Host;

    /// The host's dimension, mutable.
    fn host_mut(&mut self) -> &mut Host;

    /// The guest's 2MB page of the last walk, with guest frames (P §V). `None` unless the guest has
    /// a large page there and the host 4KB pages.
    fn intermediate(&self) -> Option<Reach> {
        None
    }

    /// Reads the guest's hole bitmap of `block`, a block of guest frames. `None` if the guest has
    /// no holes.
    fn read_guest_bitmap(
        &mut self,
        _request: WalkRequest,
        _block: Frame,
        _walker: &mut Walker<'_>,
    ) -> Option<Result<[u64; 8], WalkFault>> {
        None
    }

    /// The page fault for a forbidden access: either dimension may be the one that forbids it.
    fn blame(&self, request: WalkRequest, kind: AccessKind) -> PageFault;
}

/// Typed access to each capability.
impl dyn Dimension + '_ {
    /// Pages with holes, if the tables support them.
    pub fn holes(&self) -> Option<&dyn Holes> {
        match self.capability(Wanted::Holes)? {
            Capability::Holes(holes) => Some(holes),
            _ => None,
        }
    }

    /// Pages with holes, mutable, for walks.
    pub fn holes_mut(&mut self) -> Option<&mut dyn Holes> {
        match self.capability_mut(Wanted::Holes)? {
            CapabilityMut::Holes(holes) => Some(holes),
            _ => None,
        }
    }

    /// The unit beside the second-level TLB, if any.
    pub fn beside_l2(&self) -> Option<&dyn BesideL2> {
        match self.capability(Wanted::BesideL2)? {
            Capability::BesideL2(unit) => Some(unit),
            _ => None,
        }
    }

    /// Uses of the unit beside the second-level TLB; all false without a unit.
    pub(crate) fn beside_use(&self) -> BesideUse {
        self.beside_l2().map(BesideL2::used).unwrap_or_default()
    }

    /// The unit beside the second-level TLB, mutable, for look-ups and fills.
    pub fn beside_l2_mut(&mut self) -> Option<&mut dyn BesideL2> {
        match self.capability_mut(Wanted::BesideL2)? {
            CapabilityMut::BesideL2(unit) => Some(unit),
            _ => None,
        }
    }

    /// The longest run around a page. Searches page by page if the tables have no [`Runs`].
    pub fn run_around(&self, request: &RunRequest) -> Run {
        match self.capability(Wanted::Runs) {
            Some(Capability::Runs(runs)) => runs.run_around(request),
            _ => request.longest(|page| self.look_at(request.space, page)),
        }
    }

    /// 4KB pages per leaf in the walk cache of level-2 entries; `None` if it holds no leaves.
    pub fn cached_leaf_pages(&self) -> Option<u64> {
        match self.capability(Wanted::CachedLeaves)? {
            Capability::CachedLeaves(pages) => Some(pages),
            _ => None,
        }
    }

    /// Sets the number of cores.
    pub fn set_cores(&mut self, cores: usize) {
        if let Some(CapabilityMut::PerCoreHardware(own)) =
            self.capability_mut(Wanted::PerCoreHardware)
        {
            own.set_cores(cores);
        }
    }

    /// Makes `core` the running core.
    pub fn run_on(&mut self, core: usize) {
        if let Some(CapabilityMut::PerCoreHardware(own)) =
            self.capability_mut(Wanted::PerCoreHardware)
        {
            own.run_on(core);
        }
    }

    /// The guest's side of two dimensions; `None` natively.
    pub fn over_host(&self) -> Option<&dyn OverHost> {
        match self.capability(Wanted::OverHost)? {
            Capability::OverHost(over) => Some(over),
            _ => None,
        }
    }

    /// The guest's side of two dimensions, mutable; `None` natively.
    pub fn over_host_mut(&mut self) -> Option<&mut dyn OverHost> {
        match self.capability_mut(Wanted::OverHost)? {
            CapabilityMut::OverHost(over) => Some(over),
            _ => None,
        }
    }

    /// The host's dimension; `None` natively.
    pub fn host(&self) -> Option<&Host> {
        self.over_host().map(OverHost::host)
    }

    /// The host's dimension, mutable; `None` natively.
    pub fn host_mut(&mut self) -> Option<&mut Host> {
        match self.capability_mut(Wanted::OverHost)? {
            CapabilityMut::OverHost(over) => Some(over.host_mut()),
            _ => None,
        }
    }

    /// The part of the dimension that has type `T`: the dimension itself or one of its components.
    pub fn part<T: 'static>(&self) -> Option<&T> {
        match self.capability(Wanted::Part(TypeId::of::<T>()))? {
            Capability::Part(part) => part.downcast_ref(),
            _ => None,
        }
    }

    /// The part of the dimension that has type `T`, mutable.
    pub fn part_mut<T: 'static>(&mut self) -> Option<&mut T> {
        match self.capability_mut(Wanted::Part(TypeId::of::<T>()))? {
            CapabilityMut::Part(part) => part.downcast_mut(),
            _ => None,
        }
    }
}
