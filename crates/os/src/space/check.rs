//! Consistency check of an address space: its records must agree with its mappings.

use perforate_types::VirtualPage;

use super::{AddressSpace, Mapping, Present, Region, Usage, first_page, pages_of};
use crate::memory::{Recount, expect};

impl AddressSpace {
    /// Checks that the records of the address space agree with its mappings, and adds its frames and swap
    /// slots to `recount`. An error describes the first difference.
    pub(crate) fn check(&self, recount: &mut Recount) -> Result<(), String> {
        let mut usage = Usage::default();
        for (&first, extent) in &self.wide {
            extent.check(VirtualPage::new(first), self, &mut usage, recount)?;
        }
        for (number, region) in self.regions.iter() {
            let checked = self.check_region(number, region, &mut usage, recount);
            checked.map_err(|wrong| format!("region {number:#x}: {wrong}"))?;
        }
        expect("usage", self.usage, usage)?;
        self.tables.nodes().try_for_each(|frame| recount.hold(frame))?;
        expect(
            "regions of directories",
            self.tables.attached_regions(),
            self.regions.iter().count() + self.wide_in_directories(),
        )?;
        if let Some(overlay) = self.overlay() {
            overlay.check(self, recount)?;
        }
        self.check_reclaimed(recount)
    }

    fn check_region(
        &self,
        number: u64,
        region: &Region,
        usage: &mut Usage,
        recount: &mut Recount,
    ) -> Result<(), String> {
        let mut entries = 0;
        for (page, entry) in region.mapping.entries(number) {
            let owned = !self.is_kept(page.number());
            recount.map(entry.frame(), owned.then_some((self.id, page)));
            entries += 1;
        }
        match &region.mapping {
            Mapping::Pages(pages) => {
                recount.hold(pages.node)?;
                expect("pages", pages.used, entries)?;
                pages.check_folios()?;
                usage.pages += u64::from(entries);
                usage.leaf_nodes += 1;
            }
            Mapping::Extent(extent) => extent.check(first_page(number), self, usage, recount)?,
            Mapping::Changing => return Err("its mapping was taken and not replaced".into()),
        }
        let region = pages_of(number);
        let outside = self.areas.gaps(region).into_iter().flatten();
        for page in outside {
            if self.frame_of(page).is_some() {
                return Err(format!("page {page:#x} is mapped outside all areas"));
            }
        }
        Ok(())
    }

    /// Checks that swapped pages lie in a memory area and are not mapped, and adds their slots to `recount`.
    fn check_reclaimed(&self, recount: &mut Recount) -> Result<(), String> {
        for (&page, &slot) in self.reclaimed.swapped() {
            *recount.slots.entry(slot).or_default() += 1;
            if self.areas.find(page).is_none()
                || self.find(page).is_some_and(|present| present != Present::Vacant)
            {
                return Err(format!("swapped page {page:#x} is mapped or in no area"));
            }
        }
        Ok(())
    }
}
