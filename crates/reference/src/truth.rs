//! Comparison of TLB entries with the intended mappings of the program and the host.

use perforate_mmu::{BitmapLoading, CachedContent, CachedEntry, Dimension, EntryKind, Mmu, allow};
use perforate_oracle::Oracle;
use perforate_types::{
    AccessKind, Frame, GuestFrame, Permissions, SpaceId, Truth, Unit, VirtualPage,
};

use crate::marks::is_dirty_in_tables;
use crate::{Core, Side, covers};

/// Intended mappings of the program's operating system and of the host, from the changes (truths) that the
/// kernels report.
#[derive(Default)]
pub(crate) struct Truths {
    own: Oracle,
    host: Oracle,
}

/// A run of pages with one mapping: frame of the first page, permissions, number of pages.
type Run = (Frame, Permissions, u64);

/// Returns the virtual machine's address space in the host; `None` natively.
fn machine(mmu: &Mmu) -> Option<SpaceId> {
    mmu.dimension().host().map(|host| host.space())
}

fn run_in(oracle: &Oracle, space: SpaceId, page: VirtualPage) -> Option<Run> {
    let extent = oracle.extent(space, page)?;
    let pages = extent.end().number() - page.number();
    Some((extent.frame_of(page), extent.permissions, pages))
}

impl Truths {
    pub(crate) fn apply(&mut self, side: Side, truth: &Truth) {
        let oracle = if side == Side::Host { &mut self.host } else { &mut self.own };
        oracle.apply(truth).expect("the oracle of the system takes it too");
    }

    /// Returns the frame to which the program's operating system maps a page: a guest frame if
    /// virtualized. `None` if the page is not mapped.
    pub(crate) fn own_frame(&self, space: SpaceId, page: VirtualPage) -> Option<Frame> {
        run_in(&self.own, space, page).map(|(frame, ..)| frame)
    }

    /// Returns the host-physical frame that backs a guest frame; `None` if the host has not backed
    /// it.
    pub(crate) fn host_frame(&self, frame: Frame, mmu: &Mmu) -> Option<Frame> {
        let (frame, ..) = run_in(&self.host, machine(mmu)?, VirtualPage::new(frame.number()))?;
        Some(frame)
    }

    /// Returns the intended mapping of the run of pages from `page` on, in the address space of a TLB entry.
    /// For a combined entry (gVA→hPA), guest and host mappings are combined.
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

    /// Checks a TLB entry. Every page that is not a hole must have the right frame and permissions.
    /// The entry may be dirty only if the tables are. Returns a description of the error; `None` if
    /// the entry is right.
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
            // If all sub-pages are holes, only the page-directory entry is dirty.
            EntryKind::Perforated => is_leaf_dirty() || pages.any(is_dirty),
            _ => in_place.is_none_or(is_dirty),
        };
        (!is_right).then(|| "the tables have no dirty bit".into())
    }

    /// True if the hardware would treat this page of a TLB entry as a possible hole: the filter bits require
    /// a look-up of the hole bitmap, and no cached bitmap entry excludes a hole.
    fn may_be_hole(
        &self,
        core: &Core,
        entry: &CachedEntry,
        filter: u8,
        page: VirtualPage,
        mmu: &Mmu,
    ) -> bool {
        let index = page.number() - entry.first.number();
        let needs_bitmap =
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
        needs_bitmap && bits.unwrap_or(true)
    }
}

/// Returns when the hardware loads entries of the hole bitmap: the policy of the host's tables for a TLB
/// entry of guest-physical addresses, otherwise that of the process's tables.
fn loading(entry: &CachedEntry, mmu: &Mmu) -> BitmapLoading {
    let of = |dimension: &dyn Dimension| dimension.holes().map(|holes| holes.bitmap_loading());
    let dimension = mmu.dimension();
    let found = match dimension.host() {
        Some(host) if entry.is_guest_physical => of(host.dimension()),
        _ => of(dimension),
    };
    found.unwrap_or_default()
}

/// True if `permissions` include every access that the bits `allows` of a TLB entry permit.
fn all_allowed(allows: u8, permissions: Permissions) -> bool {
    let kinds = [AccessKind::Read, AccessKind::Write, AccessKind::Fetch];
    kinds.into_iter().all(|kind| !allow::permits(allows, kind) || permissions.allow(kind))
}

/// Converts the page number of a TLB entry for guest-physical addresses to a guest frame.
pub(crate) fn guest_frame(page: VirtualPage) -> GuestFrame {
    GuestFrame::new(page.number())
}
