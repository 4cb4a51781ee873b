//! Sharing of one 2MB page between two address spaces, for tests and experiments. MAP_SHARED and
//! fork share whole areas instead.

use std::ops::Range;

use perforate_types::{HoleSet, SpaceId, VirtualPage};

use super::frame_at;
use crate::OsError;
use crate::kernel::{Core, Kernel, areas, range, swap};
use crate::space::{pages_of, region_of};

impl Kernel {
    /// Maps the 2MB page at `page` of address space `from` in address space `to` too, at the same address.
    /// From then on each space has separate holes. Private memory in the page becomes shared memory
    /// (MAP_SHARED) of both.
    ///
    /// # Errors
    /// If there is no 2MB page at `page`, `to` has mappings in its range, a private page in it is
    /// copy-on-write, or memory runs out.
    pub fn share(&mut self, from: SpaceId, page: VirtualPage, to: SpaceId) -> Result<(), OsError> {
        self.operation(|kernel| kernel.share_region(from, page, to))
    }

    fn share_region(
        &mut self,
        from: SpaceId,
        page: VirtualPage,
        to: SpaceId,
    ) -> Result<(), OsError> {
        let Self { core, shared_objects, ksm, .. } = self;
        let number = region_of(page.number());
        let pages = pages_of(number);
        if core.space(from)?.is_claimed(&pages) {
            return Err(OsError::NotLarge { space: from, page });
        }
        let region = core.space(from)?.region(number);
        let Some(extent) = region.and_then(|region| region.mapping.extent()) else {
            return Err(OsError::NotLarge { space: from, page });
        };
        let permissions = extent.permissions();
        let target = core.space(to)?;
        let mapped = target.region(number).is_some() || target.find(page.number()).is_some();
        if from == to || mapped || !target.areas.within(pages.clone()).is_empty() {
            return Err(OsError::Occupied { space: to, page });
        }
        swap::read_region_in(core, from, number)?;
        ksm.unmerge(core, from, pages.clone())?;
        if let Some(page) = waits_for_copy(core, from, &pages)? {
            return Err(OsError::CopyOnWrite { space: from, page: VirtualPage::new(page) });
        }
        if let Some(block) = core.space(from)?.shared_block(number, &HoleSet::FULL) {
            let target = &mut core.space_mut(to)?;
            target.map_shared_block(number, &block, permissions)?;
        }
        core.contents.copy(from, pages.clone(), to, pages.start);
        let object = shared_objects.make(pages.start);
        let source = &mut core.space_mut(from)?;
        source.areas.change(pages.clone(), |attributes| {
            attributes.object = attributes.object.or(Some(object));
        });
        let areas = source.areas.within(pages.clone());
        let target = &mut core.space_mut(to)?;
        for area in areas {
            target.areas.insert(area.pages(), area.attributes);
        }
        // Areas within one 2MB page may differ in permissions.
        let result = range::protect_mappings(core, to, pages.clone());
        if result.is_err() {
            areas::unmap(core, to, pages)?;
        }
        result
    }
}

/// First private page in `pages` with a shared frame; `None` if there is none. Such a page is
/// copy-on-write and cannot become shared memory.
fn waits_for_copy(core: &Core, id: SpaceId, pages: &Range<u64>) -> Result<Option<u64>, OsError> {
    let space = core.space(id)?;
    let private = space.areas.within(pages.clone()).into_iter();
    let mut private = private.filter(|area| !area.attributes.is_shared());
    Ok(private.find_map(|area| {
        area.pages()
            .find(|&page| frame_at(core, id, page).is_some_and(|f| core.memory.is_shared(f)))
    }))
}
