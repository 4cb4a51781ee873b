//! One 2MB page in two address spaces, as tests and experiments make it: what MAP_SHARED and fork
//! do for whole areas, for one page.

use std::ops::Range;

use perforate_types::{HoleSet, SpaceId, Update, VirtualPage};

use crate::OsError;
use crate::kernel::Kernel;
use crate::space::{pages_of, region_of};

impl Kernel {
    /// Maps the 2MB page at `page` of `from` in `to` as well, at the same address, each space
    /// with its own holes from then on (P-2). What was private there becomes shared memory
    /// (MAP_SHARED) of both.
    ///
    /// # Errors
    /// If there is no 2MB page at `page`, something is mapped there in `to`, a private page there
    /// still waits for its copy on write, or memory runs out.
    pub fn share(
        &mut self,
        from: SpaceId,
        page: VirtualPage,
        to: SpaceId,
        updates: &mut Vec<Update>,
    ) -> Result<(), OsError> {
        self.note_peak();
        let result = self.share_region(from, page, to, updates);
        self.conclude(updates);
        result.map_err(|error| self.with_estimate(error))
    }

    fn share_region(
        &mut self,
        from: SpaceId,
        page: VirtualPage,
        to: SpaceId,
        updates: &mut Vec<Update>,
    ) -> Result<(), OsError> {
        let number = region_of(page.number());
        let pages = pages_of(number);
        if self.space(from)?.meets_segment(&pages) {
            return Err(OsError::NotLarge { space: from, page });
        }
        let region = self.space(from)?.region(number);
        let Some(extent) = region.and_then(|region| region.mapping.extent()) else {
            return Err(OsError::NotLarge { space: from, page });
        };
        let permissions = extent.permissions();
        let target = self.space(to)?;
        let mapped = target.region(number).is_some() || target.find(page.number()).is_some();
        if from == to || mapped || !target.areas.within(pages.clone()).is_empty() {
            return Err(OsError::Occupied { space: to, page });
        }
        self.swap_region_in(from, number, updates)?;
        self.unmerge(from, pages.clone(), updates)?;
        if let Some(page) = self.waits_for_copy(from, &pages)? {
            return Err(OsError::CopyOnWrite { space: from, page: VirtualPage::new(page) });
        }
        if let Some(block) = self.space(from)?.shared_block(number, &HoleSet::FULL) {
            let (target, mut effects) = self.parts(to, updates)?;
            target.map_shared_block(number, &block, permissions, &mut effects)?;
        }
        self.contents.copy(from, pages.clone(), to, pages.start);
        let object = self.new_object(pages.start);
        let (source, _) = self.parts(from, updates)?;
        source.areas.change(pages.clone(), |attributes| {
            attributes.object = attributes.object.or(Some(object));
        });
        let areas = source.areas.within(pages.clone());
        let (target, _) = self.parts(to, updates)?;
        for area in areas {
            target.areas.insert(area.pages(), area.attributes);
        }
        // Areas of one 2MB page may allow different things.
        let result = self.protect_range(to, pages.clone(), updates);
        if result.is_err() {
            self.unmap_area(to, pages, updates)?;
        }
        result
    }

    /// The first private page whose frame others map as well: it stays read-only until a write
    /// copies it, so it cannot be shared for good.
    fn waits_for_copy(&self, id: SpaceId, pages: &Range<u64>) -> Result<Option<u64>, OsError> {
        let space = self.space(id)?;
        let private = space.areas.within(pages.clone()).into_iter();
        let mut private = private.filter(|area| !area.attributes.is_shared());
        Ok(private.find_map(|area| {
            area.pages()
                .find(|&page| self.frame_at(id, page).is_some_and(|f| self.memory.is_shared(f)))
        }))
    }
}
