//! Contract between the kernel and a mechanism whose 2MB pages may have holes. A hole is a sub-page
//! that is mapped elsewhere by a 4KB entry of its own, or is not mapped (P §III).

use perforate_types::{Frame, HoleSet, Permissions};

use super::{AddressSpace, Detacher, Effects, Entries, Large, Mapping, Mechanism};
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

/// Makes and changes 2MB pages with holes. Single sub-pages are detached and attached as with every
/// [`Detacher`].
pub trait HoledPages: Mechanism + Detacher {
    /// Maps a block to a region that is not mapped. Sub-pages in `holes` stay vacant.
    ///
    /// # Errors
    /// If memory for tables runs out.
    fn map_around(
        &self,
        space: &mut AddressSpace,
        number: u64,
        large: Large,
        holes: HoleSet,
        effects: &mut Effects<'_>,
    ) -> Result<(), OsError>;

    /// Reserves frames of a block for their sub-pages and maps nothing yet (P §VI). The caller has
    /// allocated the frames.
    ///
    /// # Errors
    /// If memory for tables runs out.
    fn reserve(
        &self,
        space: &mut AddressSpace,
        number: u64,
        large: Large,
        reserved: HoleSet,
        effects: &mut Effects<'_>,
    ) -> Result<(), OsError>;

    /// Replaces the 4KB pages of a region by a block with vacant `holes`. Returns the old entries;
    /// the references to their frames pass to the caller. `node` is a frame from
    /// [`AddressSpace::allocate_node`].
    fn replace_pages(
        &self,
        space: &mut AddressSpace,
        number: u64,
        large: Large,
        holes: HoleSet,
        node: Frame,
        effects: &mut Effects<'_>,
    ) -> Entries;

    /// Takes the in-place frame of a hole for the hole: a frame reserved for it, or a free one.
    /// Returns false if the frame is neither.
    fn take_place(&self, space: &mut AddressSpace, page: u64, effects: &mut Effects<'_>) -> bool;

    /// Frees the frames that are reserved for these sub-pages; returns their number.
    fn release_reserved(
        &self,
        space: &mut AddressSpace,
        number: u64,
        subpages: &HoleSet,
        effects: &mut Effects<'_>,
    ) -> u64;
}

impl AddressSpace {
    /// The mechanism of 2MB pages with holes; `None` if 2MB pages are split when a part changes.
    pub(crate) fn holed_pages(&self) -> Option<&'static dyn HoledPages> {
        self.holes
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
