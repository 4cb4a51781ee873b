//! fork: the same frames in two address spaces, those of private memory read-only until a write
//! copies them.

use perforate_types::{
    Frame, HoleSet, PageSize, PageTableEntry, Permissions, ProcessId, SpaceId, Update,
};

use super::Kernel;
use crate::OsError;
use crate::memory::complement;
use crate::space::{
    ALL_PAGES, AddressSpace, Effects, Large, Mapping, first_of, first_of_gigabyte, page_at,
};

impl Kernel {
    /// The running process's child starts with a copy of its memory: frames are shared, private
    /// ones read-only until a write copies them. Where memory runs out there is no child.
    pub(super) fn fork(
        &mut self,
        parent: SpaceId,
        child: ProcessId,
        updates: &mut Vec<Update>,
    ) -> Result<(), OsError> {
        self.space(parent)?;
        if self.processes.get(&child) == Some(&parent) {
            return Ok(());
        }
        self.dissolve(parent, updates)?;
        self.exit(child, updates)?;
        // The child's tables are as large as the parent's, and a fork cannot wait half-way.
        let tables = self.space(parent)?.table_frames();
        self.make_room(self.memory.high_watermark() + tables, None, updates);
        let space = self.create_space()?;
        self.processes.insert(child, space);
        self.contents.fork(parent, space);
        let copied = self.with_two_spaces(parent, space, updates, |parent, child, effects| {
            parent.copy_to(child, effects)
        });
        if copied.is_err() {
            self.exit(child, updates)?;
        }
        copied
    }

    /// Acts on two different address spaces at once.
    pub(super) fn with_two_spaces<T>(
        &mut self,
        first: SpaceId,
        second: SpaceId,
        updates: &mut Vec<Update>,
        act: impl FnOnce(&mut AddressSpace, &mut AddressSpace, &mut Effects<'_>) -> Result<T, OsError>,
    ) -> Result<T, OsError> {
        self.space(first)?;
        let mut taken = self.spaces[usize::from(first.0)].take().expect("found above");
        let result = self
            .parts(second, updates)
            .and_then(|(second, mut effects)| act(&mut taken, second, &mut effects));
        self.spaces[usize::from(first.0)] = Some(taken);
        result
    }
}

impl AddressSpace {
    /// fork: `child`, which is empty, maps what this space maps.
    pub(super) fn copy_to(
        &mut self,
        child: &mut Self,
        effects: &mut Effects<'_>,
    ) -> Result<(), OsError> {
        child.areas = self.areas.clone();
        child.heap_end = self.heap_end;
        self.share_swapped(child, &mut effects.memory.swap);
        for number in self.huge_within(&ALL_PAGES) {
            self.copy_huge(number, child, effects)?;
        }
        for page in self.superpages_within(&ALL_PAGES) {
            self.copy_superpage(page, child, effects)?;
        }
        for number in self.regions_within(&ALL_PAGES) {
            match &self.region(number).expect("mapped region").mapping {
                Mapping::Pages(_) => self.copy_pages(number, child, effects)?,
                Mapping::Large(_) => self.copy_large(number, child, effects)?,
                Mapping::Perforated(_) => self.copy_perforated(number, child, effects)?,
            }
        }
        Ok(())
    }

    /// What both may do with a page that this space allows `permissions` for.
    pub(super) fn shared_permissions(&self, page: u64, permissions: Permissions) -> Permissions {
        let shared = self.areas.find(page).is_some_and(|area| area.attributes.is_shared());
        Permissions { write: permissions.write && shared, ..permissions }
    }

    fn copy_huge(
        &mut self,
        number: u64,
        child: &mut Self,
        effects: &mut Effects<'_>,
    ) -> Result<(), OsError> {
        let page = first_of_gigabyte(number);
        let (block, permissions) = self.huge_page(number);
        let permissions = self.shared_permissions(page, permissions);
        child.map_huge(number, block, permissions, effects)?;
        effects.memory.share_huge(block);
        self.protect_huge(number, permissions, effects);
        Ok(())
    }

    fn copy_pages(
        &mut self,
        number: u64,
        child: &mut Self,
        effects: &mut Effects<'_>,
    ) -> Result<(), OsError> {
        for index in self.mapped_pages(number).iter() {
            let page = page_at(number, index);
            let present = self.find(page).expect("mapped page");
            let permissions = self.shared_permissions(page, present.permissions());
            let frame = present.frame().expect("mapped page");
            child.map_page(page, frame, permissions, effects)?;
            effects.memory.share(frame);
            self.protect_page(page, permissions, effects);
        }
        Ok(())
    }

    fn copy_large(
        &mut self,
        number: u64,
        child: &mut Self,
        effects: &mut Effects<'_>,
    ) -> Result<(), OsError> {
        let Large { block, permissions } = self.large(number);
        let permissions = self.shared_permissions(first_of(number), permissions);
        child.map_large(number, block, permissions, effects)?;
        effects.memory.share_block(block, &HoleSet::FULL);
        self.protect_large(number, permissions, effects);
        Ok(())
    }

    fn copy_perforated(
        &mut self,
        number: u64,
        child: &mut Self,
        effects: &mut Effects<'_>,
    ) -> Result<(), OsError> {
        let perforated = self.perforated(number).expect("perforated page");
        let (block, holes) = (perforated.block, perforated.holes);
        let in_place = complement(&holes);
        // All sub-pages in place are of one area; without any, the permissions do not matter.
        let page = page_at(number, in_place.iter().next().unwrap_or(0));
        let permissions = self.shared_permissions(page, perforated.permissions);
        let entries = perforated.entries.clone();
        child.perforate(number, Large { block, permissions }, holes, effects)?;
        effects.memory.share_block(block, &in_place);
        self.protect_perforated(number, permissions, effects);
        for (index, entry) in allocated_holes(&holes, &entries) {
            let page = page_at(number, index);
            let permissions = self.shared_permissions(page, entry.permissions());
            child.map_hole(page, entry.frame(), permissions, effects);
            effects.memory.share(entry.frame());
            if permissions != entry.permissions() {
                self.remap_hole(page, entry.frame(), permissions, effects);
            }
        }
        Ok(())
    }

    fn large(&self, number: u64) -> Large {
        match self.region(number).map(|region| &region.mapping) {
            Some(Mapping::Large(large)) => *large,
            _ => unreachable!("region {number:#x} is not an ordinary 2MB page"),
        }
    }

    fn huge_page(&self, number: u64) -> (Frame, Permissions) {
        let present = self.find(first_of_gigabyte(number)).expect("1GB page");
        let frame = present.frame().expect("1GB page");
        debug_assert!(frame.is_aligned(PageSize::Size1G));
        (frame, present.permissions())
    }
}

fn allocated_holes<'a>(
    holes: &'a HoleSet,
    entries: &'a [PageTableEntry; 512],
) -> impl Iterator<Item = (usize, PageTableEntry)> + 'a {
    holes.iter().map(|index| (index, entries[index])).filter(|(_, entry)| entry.is_present())
}
