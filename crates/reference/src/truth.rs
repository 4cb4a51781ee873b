//! Checks of entries against the mappings of both dimensions.

use perforate_mmu::{BitmapLoading, CachedContent, CachedEntry, Dimension, EntryKind, Mmu, allow};
use perforate_oracle::Oracle;
use perforate_types::{
    AccessKind, Frame, GuestFrame, Permissions, SpaceId, Truth, Unit, VirtualPage,
};

use crate::marks::is_dirty_in_tables;
use crate::{Core, Side, covers};

/// Mappings of each dimension, as the kernels told them.
#[derive(Default)]
pub(crate) struct Truths {
    own: Oracle,
    host: Oracle,
}

/// A run of pages that are mapped alike: frame of the first one, what is allowed, number of pages.
type Run = (Frame, Permissions, u64);

/// The address space of the virtual machine in its host, if there is one.
fn machine(mmu: &Mmu) -> Option<SpaceId> {
    mmu.dimension().host().map(|host| host.space())
}

fn run_in(oracle: &Oracle, space: SpaceId, page: VirtualPage) -> Option<Run> {
    let extent = oracle.extent(space, page)?;
    let pages = extent.end().number() - page.number();
    Some((extent.frame_of(page), extent.permissions, pages))
}

impl Truths {
    pub(crate) fn hear(&mut self, side: Side, truth: &Truth) {
        let oracle = if side == Side::Host { &mut self.host } else { &mut self.own };
        oracle.apply(truth).expect("the oracle of the system takes it too");
    }

    /// The frame of a page in the first dimension.
    pub(crate) fn own_frame(&self, space: SpaceId, page: VirtualPage) -> Option<Frame> {
        run_in(&self.own, space, page).map(|(frame, ..)| frame)
    }

    /// Frame of the machine that holds a frame of the guest.
    pub(crate) fn host_frame(&self, frame: Frame, mmu: &Mmu) -> Option<Frame> {
        let (frame, ..) = run_in(&self.host, machine(mmu)?, VirtualPage::new(frame.number()))?;
        Some(frame)
    }

    /// The run that begins at a page, through both dimensions if there are two and the entry is about
    /// both.
    fn run(&self, entry: &CachedEntry, page: VirtualPage, mmu: &Mmu) -> Option<Run> {
        if entry.is_guest_physical {
            return run_in(&self.host, entry.space, page);
        }
        let (frame, permissions, pages) = run_in(&self.own, entry.space, page)?;
        let of_guest =
            matches!(entry.content, CachedContent::Page { kind: EntryKind::Intermediate, .. });
        let Some(machine) = machine(mmu).filter(|_| !of_guest) else {
            return Some((frame, permissions, pages));
        };
        let (frame, below, more) = run_in(&self.host, machine, VirtualPage::new(frame.number()))?;
        let both = Permissions {
            write: permissions.write && below.write,
            execute: permissions.execute && below.execute,
            user: permissions.user && below.user,
        };
        Some((frame, both, pages.min(more)))
    }

    /// Says what is wrong with an entry of a TLB: every page that is no hole lies where it says and
    /// allows what it says, and it knows of a dirty bit only if the tables have it.
    pub(crate) fn find_wrong(
        &self,
        core: &Core,
        entry: &CachedEntry,
        mmu: &Mmu,
        is_leaf_dirty: impl Fn() -> bool,
    ) -> Option<String> {
        let CachedContent::Page { kind, frame, allows, filter } = entry.content else {
            return None;
        };
        let end = entry.first.number() + entry.pages;
        let mut page = entry.first;
        let mut in_place = None;
        while page.number() < end {
            let expected = frame.add(page.number() - entry.first.number());
            let pages = match self.run(entry, page, mmu) {
                Some((found, permissions, pages))
                    if found == expected && all_allowed(allows, permissions) =>
                {
                    in_place = in_place.or(Some(page));
                    pages
                }
                found => {
                    let may_be_hole =
                        filter != 0 && self.may_be_hole(core, entry, filter, page, mmu);
                    if !may_be_hole {
                        return Some(format!("of {page:?}, {found:x?} is true"));
                    }
                    1
                }
            };
            page = page.add(pages);
        }
        if allows & allow::DIRTY == 0 || kind == EntryKind::Intermediate {
            return None;
        }
        let mut pages = (0..entry.pages).map(|index| entry.first.add(index));
        let is_dirty = |page| is_dirty_in_tables(entry, page, mmu);
        let is_right = match kind {
            EntryKind::Run => pages.all(is_dirty),
            // All sub-pages may be holes.
            EntryKind::Perforated => is_leaf_dirty() || pages.any(is_dirty),
            _ => in_place.is_none_or(is_dirty),
        };
        (!is_right).then(|| "the tables have no dirty bit".into())
    }

    /// True if the hardware would look for a hole at this page of an entry with a filter: the filter asks,
    /// and the bits that are cached do not say no.
    fn may_be_hole(
        &self,
        core: &Core,
        entry: &CachedEntry,
        filter: u8,
        page: VirtualPage,
        mmu: &Mmu,
    ) -> bool {
        let index = page.number() - entry.first.number();
        let asks =
            loading(entry, mmu) != BitmapLoading::Filtered || filter >> (index / 64) & 1 != 0;
        let unit = if entry.unit == Unit::NestedTlb { Unit::NestedTlb } else { Unit::L2Tlb };
        let bits = core.units[unit as usize].entries().find_map(|other| match other.content {
            CachedContent::Bitmap(bits)
                if other.is_guest_physical == entry.is_guest_physical
                    && other.space == entry.space
                    && covers(other, page.number()) =>
            {
                Some(bits >> (page.number() - other.first.number()) & 1 != 0)
            }
            _ => None,
        });
        asks && bits.unwrap_or(true)
    }
}

/// Way of loading bitmaps in the entry's dimension.
fn loading(entry: &CachedEntry, mmu: &Mmu) -> BitmapLoading {
    let of = |dimension: &dyn Dimension| dimension.holes().map(|holes| holes.bitmap_loading());
    let dimension = mmu.dimension();
    let found = match dimension.host() {
        Some(host) if entry.is_guest_physical => of(host.dimension()),
        _ => of(dimension),
    };
    found.unwrap_or_default()
}

/// True if permissions have all that an entry allows.
fn all_allowed(allows: u8, permissions: Permissions) -> bool {
    let kinds = [AccessKind::Read, AccessKind::Write, AccessKind::Fetch];
    kinds.into_iter().all(|kind| !allow::permits(allows, kind) || permissions.allow(kind))
}

/// The page of an entry about guest-physical addresses, as hosts count it.
pub(crate) fn guest_frame(page: VirtualPage) -> GuestFrame {
    GuestFrame::new(page.number())
}
