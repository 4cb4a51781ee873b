//! Whether what an address space says of itself agrees with what it maps.

use perforate_types::{Frame, VirtualPage};

use super::{
    AddressSpace, Mapping, Present, Region, Segment, Usage, first_page, page_at, pages_of,
    subpages_of,
};
use crate::memory::{Recount, expect};

impl AddressSpace {
    /// Adds everything it has to `recount`.
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
        self.check_segment(recount)?;
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
            let owned = !self.in_segment(page.number());
            recount.map(entry.frame(), owned.then_some((self.id, page)));
            entries += 1;
        }
        match &region.mapping {
            Mapping::Pages(pages) => {
                recount.hold(pages.node)?;
                expect("pages", pages.used, entries)?;
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

    /// Adds what the segment holds to `recount`, and checks the rest of what it says of itself.
    fn check_segment(&self, recount: &mut Recount) -> Result<(), String> {
        let Some(segment) = self.segment() else { return Ok(()) };
        let held = self.held_ranges();
        let pages: u64 = held.iter().map(|pages| pages.end - pages.start).sum();
        expect("pages that the segment holds", segment.held_pages(), pages)?;
        for frame in held.iter().flat_map(|pages| segment.frames_of(pages)).map(Frame::new) {
            match segment.is_active {
                true => recount.map(frame, None),
                false => recount.hold(frame)?,
            }
        }
        if let Some(page) = segment.escaped.iter().find(|page| !segment.covers(**page)) {
            return Err(format!("page {page:#x} escaped a segment that it is not in"));
        }
        for number in self.regions_within(&segment.pages()) {
            for index in subpages_of(&segment.pages(), number).iter() {
                self.check_segment_page(segment, page_at(number, index))?;
            }
        }
        for area in self.areas.within(segment.pages()) {
            let own = segment.permissions == area.attributes.effective()
                && area.attributes.is_private_anonymous();
            if !own && area.pages().any(|page| segment.translates(page)) {
                return Err(format!("the area at {:#x} differs from the segment", area.start));
            }
        }
        match self.areas.gaps(segment.pages()).first() {
            Some(gap) => Err(format!("no area at {:#x}, inside the segment", gap.start)),
            None => Ok(()),
        }
    }

    fn check_segment_page(&self, segment: &Segment, page: u64) -> Result<(), String> {
        if !segment.translates(page) {
            return Ok(());
        }
        match self.find(page) {
            Some(present)
                if present.frame() != Some(segment.frame_of(page))
                    || present.permissions() != segment.permissions =>
            {
                Err(format!("page {page:#x} of the segment is mapped as {present:?}"))
            }
            _ if self.is_swapped(page) => Err(format!("page {page:#x} of the segment is swapped")),
            _ => Ok(()),
        }
    }

    /// What is swapped or advised free is in an area, and the former is not mapped.
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
