//! Contract between the kernel and a mechanism whose 2MB pages may have holes. A hole is a sub-page
//! that the 2MB page does not translate: a separate 4KB entry maps it to another frame, or nothing
//! does (P §III).

use perforate_types::{Frame, HoleSet, Permissions};

use super::{AddressSpace, Entries, Large, Mapping, Mechanism, SpaceMut, region_of};
use crate::OsError;

/// State of a 2MB page with holes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holed {
    /// First frame of the 2MB block that the page maps.
    pub block: Frame,
    /// Permissions of the sub-pages that the 2MB page maps in place.
    pub permissions: Permissions,
    /// Indices of the 4KB sub-pages that the 2MB page does not map. Each has a 4KB entry of its own, or is
    /// unmapped.
    pub holes: HoleSet,
    /// Indices of the unmapped holes whose in-place frame is reserved.
    pub reserved: HoleSet,
}

impl Holed {
    /// Frame to which the 2MB page maps sub-page `index` unless it is a hole.
    pub fn in_place(&self, index: usize) -> Frame {
        self.block.add(index as u64)
    }
}

/// Operations on 2MB pages with holes, sub-pages that the 2MB page does not translate. A hole is *vacant*
/// (nothing maps it), or a separate 4KB entry maps it.
pub trait HoledPages: Mechanism {
    /// Maps an unmapped 2MB region by a 2MB page with holes. Sub-pages in `holes` are vacant (not mapped).
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

    /// Reserves frames of a block for their sub-pages without mapping any (P §VI). The caller has
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

    /// Replaces the 4KB pages of a 2MB region by a 2MB page in which sub-pages `holes` are vacant (not
    /// mapped). Returns the old entries, whose frames the caller must release or map again. `node`, for the
    /// entries of holes, is a frame from [`AddressSpace::allocate_node`].
    fn replace_pages(
        &self,
        space: &mut SpaceMut<'_>,
        number: u64,
        large: Large,
        holes: HoleSet,
        node: Frame,
    ) -> Entries;

    /// Takes an in-place page out of its 2MB page: it becomes a vacant hole (not mapped). Returns its frame,
    /// which the caller must release or map again.
    ///
    /// # Errors
    /// If memory for tables runs out.
    fn detach(&self, space: &mut SpaceMut<'_>, page: u64) -> Result<Frame, OsError>;

    /// Makes a hole a part of the 2MB page again, which then maps it in place. The caller has added the
    /// reference to the in-place frame. Returns the frame that the hole was mapped to, which the caller must
    /// release, or `None` if the hole was vacant.
    fn attach(&self, space: &mut SpaceMut<'_>, page: u64) -> Option<Frame>;

    /// Maps a vacant hole to `frame` by a separate 4KB entry.
    fn fill(&self, space: &mut SpaceMut<'_>, page: u64, frame: Frame, permissions: Permissions);

    /// Maps a vacant hole to its in-place frame. Returns false if that frame is in use.
    fn fill_in_place(&self, space: &mut SpaceMut<'_>, page: u64, permissions: Permissions) -> bool;

    /// Clears the 4KB entry of a hole, which is then vacant (not mapped). Returns its frame, which the
    /// caller must release or map again.
    fn vacate(&self, space: &mut SpaceMut<'_>, page: u64) -> Frame;

    /// Changes the 4KB entry of a hole to another frame or other permissions. Returns its old frame, which
    /// the caller must release.
    fn refill(
        &self,
        space: &mut SpaceMut<'_>,
        page: u64,
        frame: Frame,
        permissions: Permissions,
    ) -> Frame;

    /// Allocates the in-place frame of a hole, so that the hole's data can be moved there. The frame may be
    /// reserved for the hole or free. Returns false if it is in use.
    fn take_place(&self, space: &mut SpaceMut<'_>, page: u64) -> bool;

    /// Frees the frames reserved for these sub-pages of a 2MB page, and returns their number.
    fn release_reserved(&self, space: &mut SpaceMut<'_>, number: u64, subpages: &HoleSet) -> u64;
}

impl AddressSpace {
    /// The 2MB page with holes that contains `page`, and its mechanism.
    ///
    /// # Panics
    /// If no such page maps the region of `page`.
    pub(crate) fn holes_around(&self, page: u64) -> (&'static dyn HoledPages, Holed) {
        let holed = self.holed(region_of(page)).expect("a 2MB page with holes");
        (self.holes.expect("a mechanism of such pages"), holed)
    }

    /// The 2MB page with holes that maps a 2MB region; `None` if the region is mapped otherwise or not at
    /// all.
    pub fn holed(&self, number: u64) -> Option<Holed> {
        self.regions.get(&number)?.mapping.extent()?.holed()
    }

    /// Number of the 2MB region whose 2MB page with holes reserves frame `index` of `block`.
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
