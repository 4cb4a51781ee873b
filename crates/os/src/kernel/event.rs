//! System calls of programs: dispatches each to the part of the kernel that serves it.

use std::ops::Range;

use perforate_types::{AccessKind, Advice, ProgramEvent, SpaceId};

use super::{Kernel, areas, populate, processes, range, reclaim, remap, swap};
use crate::OsError;
use crate::space::{ALL_PAGES, Attributes, LargePageAdvice};

impl Kernel {
    pub(super) fn handle(&mut self, id: SpaceId, event: &ProgramEvent) -> Result<(), OsError> {
        let core = &mut self.core;
        core.ledger.call(event);
        match *event {
            ProgramEvent::Map {
                start,
                length,
                permissions,
                accessible,
                backing,
                shared,
                populate,
            } => {
                let pages = areas::page_range(start, length)?;
                let attributes = Attributes {
                    permissions,
                    accessible,
                    backing,
                    object: shared.then(|| self.shared_objects.make(pages.start)),
                    large_pages: LargePageAdvice::None,
                    refuses_merging: false,
                };
                areas::map(core, id, pages.clone(), attributes)?;
                self.backers.note_areas(id, &pages);
                if !populate {
                    return Ok(());
                }
                // Mechanisms map memory before it is populated.
                while self.backers.have_work() {
                    self.backers.proceed(&mut self.core)?;
                }
                populate::populate(&mut self.core, &mut self.backers, id, pages, AccessKind::Read)
            }
            ProgramEvent::Unmap { start, length } => {
                areas::unmap(core, id, areas::page_range(start, length)?)
            }
            ProgramEvent::Protect { start, length, permissions, accessible } => {
                let pages = areas::page_range(start, length)?;
                range::protect(core, id, pages.clone(), permissions, accessible)?;
                self.backers.note_areas(id, &pages);
                Ok(())
            }
            ProgramEvent::Advise { start, length, advice } => {
                self.advise(id, areas::page_range(start, length)?, advice)
            }
            ProgramEvent::Remap { from, from_length, to, to_length } => {
                let (from, to) =
                    (areas::page_range(from, from_length)?, areas::page_range(to, to_length)?);
                remap::remap(core, id, from, to.clone())?;
                self.backers.note_areas(id, &to);
                Ok(())
            }
            ProgramEvent::Brk { start, end } => {
                areas::brk(core, id, start, end)?;
                let length = end.value().saturating_sub(start.value());
                self.backers.note_areas(id, &areas::page_range(start, length)?);
                Ok(())
            }
            ProgramEvent::Fork { child } => {
                self.fork(id, child)?;
                let spaces = self.processes.space(child).into_iter().chain([id]);
                spaces.for_each(|space| self.backers.note_areas(space, &ALL_PAGES));
                Ok(())
            }
            ProgramEvent::Exec => processes::clear_space(core, id),
            ProgramEvent::Exit { process } => self.exit(process),
            ProgramEvent::Switch { process, .. } => self.switch(process),
            ProgramEvent::Gap { .. } | ProgramEvent::Phase { .. } | ProgramEvent::Name { .. } => {
                Ok(())
            }
        }
    }

    fn advise(&mut self, id: SpaceId, pages: Range<u64>, advice: Advice) -> Result<(), OsError> {
        let Self { core, backers, ksm, khugepaged, .. } = self;
        let mut large_pages = |advice| areas::advise_large_pages(core, id, pages.clone(), advice);
        match advice {
            Advice::HugePage => large_pages(LargePageAdvice::Wanted),
            Advice::NoHugePage => large_pages(LargePageAdvice::Refused),
            Advice::PageSize(order) => large_pages(LargePageAdvice::Order(u32::from(order))),
            Advice::DontNeed => range::unmap(core, id, pages),
            Advice::Free => reclaim::advise_free(core, id, pages),
            Advice::POPULATE_READ => populate::populate(core, backers, id, pages, AccessKind::Read),
            Advice::POPULATE_WRITE => {
                populate::populate(core, backers, id, pages, AccessKind::Write)
            }
            Advice::MERGEABLE => areas::refuse_merging(core, id, pages, false),
            Advice::UNMERGEABLE => {
                areas::refuse_merging(core, id, pages.clone(), true)?;
                ksm.unmerge(core, id, pages)
            }
            Advice::PAGEOUT => swap::page_out(core, id, &pages),
            Advice::COLLAPSE => {
                khugepaged.collapse(core, id, &pages);
                Ok(())
            }
            Advice::Other(_) => Ok(()),
        }
    }
}
