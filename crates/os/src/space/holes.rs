//! Contract between the kernel and a mechanism whose 2MB pages may have holes. A hole is a sub-page
//! that is mapped elsewhere by a 4KB entry of its own, or is not mapped (P §III).

use perforate_types::{Frame, HoleSet, Permissions};

use super::{AddressSpace, Entries, Large, Mapping, Mechanism, SpaceMut, region_of};
use crate::OsError;

/// Present state of a 2MB page with holes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holed {
    /// First frame of the block.
    pub block: Frame,
    /// Permissions of the in-place sub-pages.
    pub permissions: Permissions,
    /// Sub-pages that are not in place, by index.
    pub holes: HoleSet,
    /// Vacant holes with a reserved in-place frame, by index.
    pub reserved: HoleSet,
}

impl Holed {
    /// The in-place frame of a sub-page.
    pub fn in_place(&self, index: usize) -> Frame {
        self.block.add(index as u64)
    }
}

/// Makes and changes 2MB pages with holes. A sub-page that is detached is a hole: vacant, or mapped
/// by a 4KB entry of its own.
pub trait HoledPages: Mechanism {
    /// Maps a block to a region that is not mapped. Sub-pages in `holes` stay vacant.
    ///
    /// # Errors
    /// If memory for tables runs out.
    fn map_around(
        &self,
        space: &mut SpaceMut<'_>,
        number: u64,
        large: Large,
        holes: HoleSet,
    ) -> Result<(), OsError>;

    /// Reserves frames of a block for their sub-pages and maps nothing yet (P §VI). The caller has
    /// allocated the frames.
    ///
    /// # Errors
    /// If memory for tables runs out.
    fn reserve(
        &self,
        space: &mut SpaceMut<'_>,
        number: u64,
        large: Large,
        reserved: HoleSet,
    ) -> Result<(), OsError>;

    /// Replaces the 4KB pages of a region by a block with vacant `holes`. Returns the old entries;
    /// the references to their frames pass to the caller. `node` is a frame from
    /// [`AddressSpace::allocate_node`].
    fn replace_pages(
        &self,
        space: &mut SpaceMut<'_>,
        number: u64,
        large: Large,
        holes: HoleSet,
        node: Frame,
    ) -> Entries;

    /// Detaches an in-place page, which is then vacant. The reference to its frame passes to the
    /// caller.
    ///
    /// # Errors
    /// If memory for tables runs out.
    fn detach(&self, space: &mut SpaceMut<'_>, page: u64) -> Result<Frame, OsError>;

    /// Attaches a page again; the caller provides the reference to the in-place frame. If the page
    /// was mapped, returns its old frame, whose reference passes to the caller.
    fn attach(&self, space: &mut SpaceMut<'_>, page: u64) -> Option<Frame>;

    /// Maps a vacant page by a 4KB entry.
    fn fill(&self, space: &mut SpaceMut<'_>, page: u64, frame: Frame, permissions: Permissions);

    /// Maps a vacant page to its in-place frame if that frame is available. Returns false if it is
    /// not.
    fn fill_in_place(&self, space: &mut SpaceMut<'_>, page: u64, permissions: Permissions) -> bool;

    /// Unmaps a detached page, which is then vacant. The reference to its frame passes to the
    /// caller.
    fn vacate(&self, space: &mut SpaceMut<'_>, page: u64) -> Frame;

    /// Maps a detached page to another frame or with other permissions. Returns its old frame,
    /// whose reference passes to the caller.
    fn refill(
        &self,
        space: &mut SpaceMut<'_>,
        page: u64,
        frame: Frame,
        permissions: Permissions,
    ) -> Frame;

    /// Takes the in-place frame of a hole for the hole: a frame reserved for it, or a free one.
    /// Returns false if the frame is neither.
    fn take_place(&self, space: &mut SpaceMut<'_>, page: u64) -> bool;

    /// Frees the frames that are reserved for these sub-pages; returns their number.
    fn release_reserved(&self, space: &mut SpaceMut<'_>, number: u64, subpages: &HoleSet) -> u64;
}

impl AddressSpace {
    /// The mechanism of 2MB pages with holes, and the one of these pages that a hole belongs to.
    ///
    /// # Panics
    /// If no such page maps the region of `page`.
    pub(crate) fn holes_around(&self, page: u64) -> (&'static dyn HoledPages, Holed) {
        let holed = self.holed(region_of(page)).expect("a 2MB page with holes");
        (self.holes.expect("a mechanism of such pages"), holed)
    }

    /// The 2MB page with holes that maps a region; `None` if another mapping does.
    pub fn holed(&self, number: u64) -> Option<Holed> {
        self.regions.get(&number)?.mapping.extent()?.holed()
    }

    /// The region whose 2MB page with holes reserves frame `index` of `block`.
    pub(crate) fn reserving_region(&self, block: Frame, index: usize) -> Option<u64> {
        let mut holed = self.regions.iter().filter_map(|(number, region)| match &region.mapping {
            Mapping::Extent(extent) => Some((number, extent.holed()?)),
            _ => None,
        });
        let reserving =
            holed.find(|(_, page)| page.block == block && page.reserved.contains(index));
        reserving.map(|(number, _)| number)
    }
}
