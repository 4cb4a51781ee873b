//! Answers given before, so that checking keeps pace with the simulation.

use perforate_types::{Frame, MappingChange, PageSize, Permissions, SpaceId, VirtualPage};

use crate::oracle::Mapping;

/// 2MB regions remembered, a power of two; with 4KB each at most 64MB of host memory.
const PLACES: u64 = 1 << 14;

/// Answers for single pages, by 2MB region, direct-mapped. A change forgets the pages it names;
/// an answer is never worked out from a change, only asked of the ordered maps again.
#[derive(Debug, Default)]
pub(crate) struct Recent {
    places: Vec<Option<Box<Region>>>,
}

#[derive(Debug)]
struct Region {
    space: SpaceId,
    number: u64,
    answers: [Answer; 512],
}

/// 0: not known. Otherwise bit 0 set, the mapping in the rest if bit 1 is set.
#[derive(Clone, Copy, Debug)]
struct Answer(u64);

impl Answer {
    const UNKNOWN: Self = Self(0);

    fn new(mapping: Option<Mapping>) -> Self {
        let Some((frame, permissions)) = mapping else { return Self(1) };
        let Permissions { write, execute, user } = permissions;
        let flags = u64::from(write) << 2 | u64::from(execute) << 3 | u64::from(user) << 4;
        Self(3 | flags | frame.number() << 5)
    }

    fn get(self) -> Option<Option<Mapping>> {
        let bit = |place: u32| self.0 >> place & 1 != 0;
        let permissions = Permissions { write: bit(2), execute: bit(3), user: bit(4) };
        let mapping = (Frame::new(self.0 >> 5), permissions);
        bit(0).then(|| bit(1).then_some(mapping))
    }
}

impl Recent {
    /// The answer given for this page since it last changed.
    pub(crate) fn find(&self, space: SpaceId, page: VirtualPage) -> Option<Option<Mapping>> {
        let number = region(page);
        let found = self.places.get(place(space, number))?.as_deref()?;
        let same = found.number == number && found.space == space;
        if same { found.answers[page.index_in(PageSize::Size2M)].get() } else { None }
    }

    /// Remembers an answer.
    pub(crate) fn fill(&mut self, space: SpaceId, page: VirtualPage, answer: Option<Mapping>) {
        if self.places.is_empty() {
            self.places.resize_with(PLACES as usize, || None);
        }
        let number = region(page);
        let answers = [Answer::UNKNOWN; 512];
        let slot = &mut self.places[place(space, number)];
        let found = slot.get_or_insert_with(|| Box::new(Region { space, number, answers }));
        if found.number != number || found.space != space {
            **found = Region { space, number, answers };
        }
        found.answers[page.index_in(PageSize::Size2M)] = Answer::new(answer);
    }

    /// Forgets the answers that a change may alter.
    pub(crate) fn forget(&mut self, change: &MappingChange) {
        match *change {
            MappingChange::AddTable { .. } | MappingChange::RemoveTable { .. } => {}
            MappingChange::Segment { space, .. } | MappingChange::ClearSegment { space } => {
                self.forget_space(space);
            }
            MappingChange::Map { space, page, size, .. }
            | MappingChange::Unmap { space, page, size }
            | MappingChange::Protect { space, page, size, .. } => {
                self.forget_pages(space, page, size);
            }
            MappingChange::MapSuperpage { space, page, mode, .. }
            | MappingChange::UnmapSuperpage { space, page, mode }
            | MappingChange::ProtectSuperpage { space, page, mode, .. } => {
                // Entries lie inside 2MB or cover whole regions of 2MB.
                for region in 0..mode.entry_pages().div_ceil(PageSize::Size2M.pages()) {
                    let first = page.add(region * PageSize::Size2M.pages());
                    self.forget_pages(space, first, PageSize::Size2M);
                }
            }
            MappingChange::Perforate { space, page, .. } => {
                self.forget_pages(space, page, PageSize::Size2M);
            }
            MappingChange::Punch { space, page }
            | MappingChange::Patch { space, page }
            | MappingChange::MapHole { space, page, .. }
            | MappingChange::UnmapHole { space, page }
            | MappingChange::Escape { space, page } => {
                self.forget_pages(space, page, PageSize::Size4K);
            }
        }
    }

    fn forget_space(&mut self, space: SpaceId) {
        for slot in &mut self.places {
            if slot.as_deref().is_some_and(|found| found.space == space) {
                *slot = None;
            }
        }
    }

    fn forget_pages(&mut self, space: SpaceId, page: VirtualPage, size: PageSize) {
        let number = region(page);
        for number in number..number + size.pages().div_ceil(512) {
            let Some(slot) = self.places.get_mut(place(space, number)) else { return };
            let Some(found) = slot.as_deref_mut() else { continue };
            if found.number != number || found.space != space {
                continue;
            }
            match size {
                PageSize::Size4K => {
                    found.answers[page.index_in(PageSize::Size2M)] = Answer::UNKNOWN;
                }
                PageSize::Size2M | PageSize::Size1G => *slot = None,
            }
        }
    }
}

fn region(page: VirtualPage) -> u64 {
    page.number() / PageSize::Size2M.pages()
}

fn place(space: SpaceId, region: u64) -> usize {
    ((region ^ u64::from(space.0).wrapping_mul(0x9e37)) % PLACES) as usize
}
