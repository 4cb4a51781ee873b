//! Capabilities: what only some dimensions have.
//!
//! The pipeline asks a dimension once what it has, and then uses it through the traits here. It
//! names no mechanism: holes are the one thing that it knows, since their bitmap entries lie in the
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

/// Which capability is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// [`Holes`].
    Holes,
    /// [`BesideL2`].
    BesideL2,
    /// [`Runs`].
    Runs,
    /// Leaves among the entries that the walk cache of level-2 entries holds.
    CachedLeaves,
    /// [`OverHost`].
    OverHost,
    /// [`OfCores`].
    OfCores,
    /// The part of the dimension that has this type, for whoever knows the mechanism.
    Part(TypeId),
}

/// A capability to be looked at.
pub enum Capability<'a> {
    /// Pages with holes.
    Holes(&'a dyn Holes),
    /// A unit beside the second-level TLB.
    BesideL2(&'a dyn BesideL2),
    /// Runs of pages in the tables.
    Runs(&'a dyn Runs),
    /// 4KB pages that a leaf in the walk cache covers.
    CachedLeaves(u64),
    /// A second dimension.
    OverHost(&'a dyn OverHost),
    /// Hardware that each core has for itself.
    OfCores(&'a dyn OfCores),
    /// A part of the wanted type.
    Part(&'a dyn Any),
}

/// A capability to be used.
pub enum CapabilityMut<'a> {
    /// Pages with holes.
    Holes(&'a mut dyn Holes),
    /// A unit beside the second-level TLB.
    BesideL2(&'a mut dyn BesideL2),
    /// A second dimension.
    OverHost(&'a mut dyn OverHost),
    /// Hardware that each core has for itself.
    OfCores(&'a mut dyn OfCores),
    /// A part of the wanted type.
    Part(&'a mut dyn Any),
}

/// How the second-level TLB loads the bitmap of a page with holes (P §IV.C, Fig. 3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BitmapLoading {
    /// All 16 bitmap entries are loaded with the page; the filter is ignored.
    Naive,
    /// Bitmap entries are loaded when needed; the filter is ignored.
    OnDemand,
    /// On demand, and only for 256KB regions whose filter bit is set: the paper's proposal.
    #[default]
    Filtered,
}

/// Pages of 2MB with 4KB holes (P §IV).
pub trait Holes {
    /// How the second-level TLB loads the bitmaps of these pages.
    fn bitmap_loading(&self) -> BitmapLoading;

    /// Walks to the 4KB translation of a hole.
    ///
    /// # Errors
    /// [`WalkFault::NotMapped`] where the hole is unallocated.
    fn walk_hole(
        &mut self,
        request: WalkRequest,
        walker: &mut Walker<'_>,
    ) -> Result<Reach, WalkFault>;

    /// Reads the hole bitmap of `block`, to which the page's 2MB region is mapped.
    ///
    /// # Errors
    /// [`WalkFault`] where the bitmap of a guest cannot be found.
    fn read_bitmap(
        &mut self,
        request: WalkRequest,
        block: Frame,
        walker: &mut Walker<'_>,
    ) -> Result<[u64; 8], WalkFault>;

    /// The bitmap of the 2MB page around `page` as the operating system has just written it, which an
    /// instruction that updates TLB entries in place is given ([`BitmapUpdates::InPlace`]). `None`
    /// where the operating system does not know all of what the TLB holds, or there is no such page.
    fn written_bitmap(&self, space: SpaceId, page: VirtualPage) -> Option<[u64; 8]>;
}

/// Translations that a [`BesideL2`] unit took part in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BesideCounters {
    /// First-level misses that the unit translated; of two dimensions, the units of both.
    pub translations: u64,
    /// Walks to pages that the guest's unit translates and the host's does not.
    pub in_guest_only: u64,
    /// Walks to pages that the host's unit translates and the guest's does not.
    pub in_host_only: u64,
}

/// The use that is made of a [`BesideL2`] unit, the same as long as it exists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BesideUse {
    /// It is looked up.
    pub looked_up: bool,
    /// It has entries, which walks fill.
    pub filled: bool,
    /// What it holds after a walk needs no entry in the second-level TLB.
    pub replaces_l2: bool,
    /// It is looked up together with the first level instead of the second, and what it translates has
    /// no entries in TLBs. Natively only.
    pub beside_l1: bool,
}

/// A unit that is looked up together with the second-level TLB after a miss in the first level, or
/// together with the first level ([`BesideUse::beside_l1`]).
/// What it translates goes into the first level as a 4KB entry, and the second level is not asked.
/// It may have entries of its own, which are filled after a walk of the page tables.
///
/// The nested walker asks the unit of a host before the cached entries of guest-physical addresses.
pub trait BesideL2 {
    /// Its name in words.
    fn name(&self) -> &'static str;

    /// The use to be made of it.
    fn used(&self) -> BesideUse;

    /// The reach around a page that the unit translates now. Nothing is changed by asking.
    fn find(&self, space: SpaceId, page: VirtualPage) -> Option<Reach>;

    /// Looks a page up, and appends what that takes to the steps. The purpose is
    /// [`Purpose::Page`] beside the second-level TLB, whose own look-up runs together with the
    /// unit's last step, and [`Purpose::HostPage`] for a host.
    fn look_up(
        &mut self,
        space: SpaceId,
        page: VirtualPage,
        purpose: Purpose,
        steps: &mut Steps,
    ) -> Option<Reach>;

    /// Number of its entries, for the timing model.
    fn slots(&self) -> usize {
        0
    }

    /// A walk of the page tables has found `reach` for a page that neither the second-level TLB nor
    /// this unit had. The access does not wait for what this takes.
    fn fill(&mut self, request: WalkRequest, reach: &Reach, walker: &mut Walker<'_>);

    /// Forgets entries as the shootdown says.
    fn invalidate(&mut self, shootdown: Shootdown);

    /// Forgets all entries.
    fn flush(&mut self);

    /// Writes the unit's figures out, with those that the pipeline and the nested walker have
    /// counted for it.
    fn record(&self, counted: &BesideCounters, out: &mut Counters);

    /// Starts counting anew.
    fn reset_counters(&mut self);
}

impl dyn BesideL2 + '_ {
    /// [`Self::fill`], with steps of the background.
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

/// Tables in which runs of 4KB pages can be found faster than by looking at page after page.
pub trait Runs {
    /// The longest run around a page that a walk has just found, for a TLB that coalesces:
    /// consecutive frames and equal permissions, inside the window.
    fn run_around(&self, request: &RunRequest) -> Run;
}

/// A dimension with hardware of which each core has one for itself: copies of entries, a TLB beside the
/// second-level TLB. Whatever it does, it does with that of the core at work; most hand all of this on
/// to [`Parked`](crate::Parked).
pub trait OfCores {
    /// There are so many cores, all as the one that there is.
    fn set_cores(&mut self, cores: usize);

    /// This core is at work from now on.
    fn run_on(&mut self, core: usize);
}

/// A guest's translation, which lies over that of a host.
pub trait OverHost {
    /// The second dimension.
    fn host(&self) -> &Host;

    /// The second dimension, to be changed.
    fn host_mut(&mut self) -> &mut Host;

    /// The 2MB of the guest, in frames of the guest, around the page that the last walk found, where
    /// the guest has a large page and the host 4KB pages (P §V).
    fn intermediate(&self) -> Option<Reach> {
        None
    }

    /// Reads the guest's hole bitmap of `block`, a block of the guest; `None` if it has none.
    fn read_guest_bitmap(
        &mut self,
        _request: WalkRequest,
        _block: Frame,
        _walker: &mut Walker<'_>,
    ) -> Option<Result<[u64; 8], WalkFault>> {
        None
    }

    /// Whose fault a forbidden access is: of two dimensions either may forbid it.
    fn blame(&self, request: WalkRequest, kind: AccessKind) -> PageFault;
}

/// Each capability by its name.
impl dyn Dimension + '_ {
    /// Holes, if its tables can hold perforated pages.
    pub fn holes(&self) -> Option<&dyn Holes> {
        match self.capability(Wanted::Holes)? {
            Capability::Holes(holes) => Some(holes),
            _ => None,
        }
    }

    /// Holes, to be walked through.
    pub fn holes_mut(&mut self) -> Option<&mut dyn Holes> {
        match self.capability_mut(Wanted::Holes)? {
            CapabilityMut::Holes(holes) => Some(holes),
            _ => None,
        }
    }

    /// A unit beside the second-level TLB.
    pub fn beside_l2(&self) -> Option<&dyn BesideL2> {
        match self.capability(Wanted::BesideL2)? {
            Capability::BesideL2(unit) => Some(unit),
            _ => None,
        }
    }

    /// The use to be made of a unit beside the second-level TLB; none where there is no unit.
    pub(crate) fn beside_use(&self) -> BesideUse {
        self.beside_l2().map(BesideL2::used).unwrap_or_default()
    }

    /// A unit beside the second-level TLB, to be looked up.
    pub fn beside_l2_mut(&mut self) -> Option<&mut dyn BesideL2> {
        match self.capability_mut(Wanted::BesideL2)? {
            CapabilityMut::BesideL2(unit) => Some(unit),
            _ => None,
        }
    }

    /// The longest run around a page; found page by page where the tables know no better way.
    pub fn run_around(&self, request: &RunRequest) -> Run {
        match self.capability(Wanted::Runs) {
            Some(Capability::Runs(runs)) => runs.run_around(request),
            _ => request.longest(|page| self.look_at(request.space, page)),
        }
    }

    /// 4KB pages that one leaf in the walk cache of level-2 entries covers, if leaves are held there.
    pub fn cached_leaf_pages(&self) -> Option<u64> {
        match self.capability(Wanted::CachedLeaves)? {
            Capability::CachedLeaves(pages) => Some(pages),
            _ => None,
        }
    }

    /// There are so many cores from now on.
    pub fn set_cores(&mut self, cores: usize) {
        if let Some(CapabilityMut::OfCores(own)) = self.capability_mut(Wanted::OfCores) {
            own.set_cores(cores);
        }
    }

    /// This core is at work from now on.
    pub fn run_on(&mut self, core: usize) {
        if let Some(CapabilityMut::OfCores(own)) = self.capability_mut(Wanted::OfCores) {
            own.run_on(core);
        }
    }

    /// The guest's side of two dimensions.
    pub fn over_host(&self) -> Option<&dyn OverHost> {
        match self.capability(Wanted::OverHost)? {
            Capability::OverHost(over) => Some(over),
            _ => None,
        }
    }

    /// The guest's side of two dimensions, to be used.
    pub fn over_host_mut(&mut self) -> Option<&mut dyn OverHost> {
        match self.capability_mut(Wanted::OverHost)? {
            CapabilityMut::OverHost(over) => Some(over),
            _ => None,
        }
    }

    /// The second dimension, if there is one.
    pub fn host(&self) -> Option<&Host> {
        self.over_host().map(OverHost::host)
    }

    /// The second dimension, to be changed.
    pub fn host_mut(&mut self) -> Option<&mut Host> {
        match self.capability_mut(Wanted::OverHost)? {
            CapabilityMut::OverHost(over) => Some(over.host_mut()),
            _ => None,
        }
    }

    /// The part of it that is a `T`: itself, or what it is made of.
    pub fn part<T: 'static>(&self) -> Option<&T> {
        match self.capability(Wanted::Part(TypeId::of::<T>()))? {
            Capability::Part(part) => part.downcast_ref(),
            _ => None,
        }
    }

    /// The part of it that is a `T`, to be changed.
    pub fn part_mut<T: 'static>(&mut self) -> Option<&mut T> {
        match self.capability_mut(Wanted::Part(TypeId::of::<T>()))? {
            CapabilityMut::Part(part) => part.downcast_mut(),
            _ => None,
        }
    }
}
