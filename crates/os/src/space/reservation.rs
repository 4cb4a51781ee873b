//! Reservation (P §VI): a block is taken whole, but a sub-page counts as used only once it is
//! touched. Until then it is an unallocated hole whose in-place frame nobody else gets; the touch
//! patches it. Short of memory, the kernel gives untouched frames to others.

use perforate_types::{Frame, HoleSet, Permissions};

use super::{AddressSpace, Effects, Large, Perforated, index_of, page_at, region_of};
use crate::OsError;

impl AddressSpace {
    /// Maps `block` with nothing but unallocated holes and keeps its frames `reserved` for them;
    /// the caller holds these.
    pub(crate) fn reserve(
        &mut self,
        number: u64,
        large: Large,
        reserved: HoleSet,
        effects: &mut Effects<'_>,
    ) -> Result<(), OsError> {
        self.perforate(number, large, HoleSet::FULL, effects)?;
        self.keep_reserved(number, reserved);
        Ok(())
    }

    /// The in-place frames of these unallocated holes, which the caller holds, are reserved.
    pub(crate) fn keep_reserved(&mut self, number: u64, reserved: HoleSet) {
        self.perforated_mut(number).reserved = reserved;
        self.usage.reserved += reserved.count() as u64;
    }

    /// Gives the unallocated hole `page` its in-place frame, if that is reserved or free: with
    /// the permissions of the 2MB page by patching it, with others as a hole that is mapped in
    /// place. Returns whether that was possible.
    pub(crate) fn fill_in_place(
        &mut self,
        page: u64,
        permissions: Permissions,
        effects: &mut Effects<'_>,
    ) -> bool {
        let index = index_of(page);
        let perforated = self.perforated(region_of(page)).expect("it has a hole");
        let frame = perforated.in_place(index);
        let is_reserved = perforated.reserved.contains(index);
        // Others have most frames in place: that is seen sooner than whether the hole belongs.
        if !is_reserved && !effects.memory.zones().is_free(frame) {
            return false;
        }
        let belongs = perforated.permissions == permissions && self.is_shared_as_in_place(page);
        if !(is_reserved || belongs) || !self.take_in_place(page, effects) {
            return false;
        }
        if belongs {
            self.patch(page, effects);
        } else {
            self.map_hole(page, frame, permissions, effects);
        }
        true
    }

    /// Takes the in-place frame of hole `page` for it: the one that is reserved, or a free one.
    pub(crate) fn take_in_place(&mut self, page: u64, effects: &mut Effects<'_>) -> bool {
        let index = index_of(page);
        let perforated = self.perforated(region_of(page)).expect("it has a hole");
        if !perforated.reserved.contains(index) {
            return effects.memory.take(perforated.in_place(index));
        }
        self.unreserve(page);
        true
    }

    /// Gives up the reserved frames of these sub-pages; returns how many there were.
    pub(crate) fn release_reserved(
        &mut self,
        number: u64,
        subpages: &HoleSet,
        effects: &mut Effects<'_>,
    ) -> u64 {
        let Some(perforated) = self.perforated(number) else { return 0 };
        let reserved = perforated.reserved;
        let mut released = 0;
        for index in reserved.iter().filter(|&index| subpages.contains(index)) {
            let frame = self.unreserve(page_at(number, index));
            effects.memory.free(frame, 0);
            released += 1;
        }
        released
    }

    /// The region that keeps sub-page `index` of `block` reserved.
    pub(crate) fn reserving_region(&self, block: Frame, index: usize) -> Option<u64> {
        let mut perforated = self.regions.iter().filter_map(|(number, region)| {
            Some((number, region.mapping.extent()?.as_any().downcast_ref::<Perforated>()?))
        });
        let keeping =
            perforated.find(|(_, page)| page.block == block && page.reserved.contains(index));
        keeping.map(|(number, _)| number)
    }

    /// The in-place frame of a sub-page is reserved no more; it is the caller's.
    pub(super) fn unreserve(&mut self, page: u64) -> Frame {
        let index = index_of(page);
        let perforated = self.perforated_mut(region_of(page));
        assert!(perforated.reserved.remove(index), "not reserved");
        let frame = perforated.in_place(index);
        self.usage.reserved -= 1;
        frame
    }
}
