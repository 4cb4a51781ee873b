//! fork: the same frames in two address spaces, those of private memory read-only until a write
//! copies them.

use perforate_types::{ProcessId, SpaceId, Update};

use super::Kernel;
use crate::OsError;
use crate::space::{ALL_PAGES, AddressSpace, Effects, first_of, page_at};

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
        for first in self.wide_within(&ALL_PAGES) {
            self.mechanism(first).copy_to(self, first, child, effects)?;
        }
        for number in self.regions_within(&ALL_PAGES) {
            if self.has_extent(number) {
                let first = first_of(number);
                self.mechanism(first).copy_to(self, first, child, effects)?;
            } else {
                self.copy_pages(number, child, effects)?;
            }
        }
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
}
