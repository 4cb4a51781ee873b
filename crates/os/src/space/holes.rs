//! The contract between the kernel and a mechanism whose 2MB pages may have holes: sub-pages that are
//! mapped elsewhere by a 4KB entry of their own, or not at all (P §III).

use perforate_types::{Frame, HoleSet, Permissions};

use super::{AddressSpace, Detacher, Effects, Entries, Large, Mapping, Mechanism};
use crate::OsError;

/// A 2MB page with holes, as it is at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holed {
    /// First frame of the block.
    pub block: Frame,
    /// Permissions of the sub-pages in place.
    pub permissions: Permissions,
    /// Sub-pages that are not in place.
    pub holes: HoleSet,
    /// Vacant holes whose frames in place are kept for them.
    pub reserved: HoleSet,
}

impl Holed {
    /// The in-place frame of a sub-page.
    pub fn in_place(&self, index: usize) -> Frame {
        self.block.add(index as u64)
    }
}

/// Makes and keeps 2MB pages with holes. Single sub-pages come and go as with every [`Detacher`].
pub trait HoledPages: Mechanism + Detacher {
    /// Maps a block except for `holes`, which are vacant, where nothing is mapped.
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

    /// Maps nothing of a block yet, but keeps these frames of it for their sub-pages (P §VI). The
    /// caller holds them.
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

    /// Maps a block except for `holes`, which are vacant, instead of a region's 4KB pages, and returns
    /// what those were; the references to their frames are the caller's. `node` is from
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

    /// Takes the frame in the place of a hole for it: one that is reserved for it, or free. Returns
    /// whether it could.
    fn take_place(&self, space: &mut AddressSpace, page: u64, effects: &mut Effects<'_>) -> bool;

    /// Gives up the frames that are reserved for these sub-pages; returns how many there were.
    fn release_reserved(
        &self,
        space: &mut AddressSpace,
        number: u64,
        subpages: &HoleSet,
        effects: &mut Effects<'_>,
    ) -> u64;
}

impl AddressSpace {
    /// How 2MB pages with holes are made; none where those of which a part changes are split.
    pub(crate) fn holed_pages(&self) -> Option<&'static dyn HoledPages> {
        self.holes
    }

    /// The 2MB page with holes of a region, if it is one.
    pub fn holed(&self, number: u64) -> Option<Holed> {
        self.regions.get(&number)?.mapping.extent()?.holed()
    }

    /// The region of the 2MB page with holes that keeps sub-page `index` of `block` reserved.
    pub(crate) fn reserving_region(&self, block: Frame, index: usize) -> Option<u64> {
        let mut holed = self.regions.iter().filter_map(|(number, region)| match &region.mapping {
            Mapping::Extent(extent) => Some((number, extent.holed()?)),
            _ => None,
        });
        let keeping = holed.find(|(_, page)| page.block == block && page.reserved.contains(index));
        keeping.map(|(number, _)| number)
    }
}
