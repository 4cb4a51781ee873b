//! Demotion: a perforated page becomes 4KB pages where they are, nothing is copied.

use perforate_types::{HoleSet, PageSize, TableOperation};

use super::{AddressSpace, Effects, Mapping, PAGES, Pages, first_page, leaf};
use crate::OsError;
use crate::memory::complement;

impl AddressSpace {
    /// Maps what a perforated page maps by 4KB pages. Frames that were reserved are free then.
    pub(crate) fn demote(&mut self, number: u64, effects: &mut Effects<'_>) -> Result<(), OsError> {
        let node = self.allocate_leaf_node(effects)?;
        let perforated = self.take_perforated(number, effects);
        let in_place = complement(&perforated.holes);
        let mut entries = perforated.entries.clone();
        for index in in_place.iter() {
            entries[index] = leaf(perforated.in_place(index), perforated.permissions);
        }
        effects.memory.free_frames_of(perforated.block, &perforated.reserved);
        self.add_leaf_node(number, node, PAGES, effects);
        let mut used = 0;
        for index in 0..HoleSet::SUBPAGES {
            let entry = entries[index];
            if !entry.is_present() {
                continue;
            }
            used += 1;
            let page = first_page(number).add(index as u64);
            effects.memory.set_owner(entry.frame(), self.id, page);
            effects.table(TableOperation::Map {
                space: self.id,
                page,
                size: PageSize::Size4K,
                frame: entry.frame(),
                permissions: entry.permissions(),
            });
        }
        self.usage.pages += u64::from(used);
        let region = self.regions.get_mut(&number).expect("its record was left");
        region.mapping = Mapping::Pages(Pages { node, used, entries });
        self.close_pages_if_empty(number, effects);
        Ok(())
    }

    /// The sub-pages of a perforated page that are not in place for good: its holes but those
    /// that are reserved.
    pub(crate) fn lasting_holes(&self, number: u64) -> HoleSet {
        self.perforated(number).map_or(HoleSet::EMPTY, |perforated| {
            let reserved = perforated.reserved;
            perforated.holes.iter().filter(|&index| !reserved.contains(index)).collect()
        })
    }
}
