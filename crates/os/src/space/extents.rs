//! Extents of all mechanisms in an address space, and operations on single pages inside or outside
//! extents.

use std::ops::Range;

use perforate_types::{Frame, Permissions};

use super::extent::{Extent, Mechanism, Present};
use super::{
    AddressSpace, Attributes, HoledPages, Mapping, Region, SpaceMut, first_of, region_of,
    regions_of,
};
use crate::OsError;

/// True if `pages` contains all of `part`.
pub fn covers(pages: &Range<u64>, part: &Range<u64>) -> bool {
    pages.start <= part.start && part.end <= pages.end
}

/// Permissions that a mapping of a page may have. A private page with a shared frame is read-only
/// until a write copies it.
pub fn allowed(attributes: &Attributes, is_shared: bool) -> Permissions {
    let permissions = attributes.effective();
    let write = permissions.write && (attributes.is_shared() || !is_shared);
    Permissions { write, ..permissions }
}

impl AddressSpace {
    /// True if a mapping of 2MB in one piece (extent), such as a 2MB page, maps the region.
    pub fn has_extent(&self, number: u64) -> bool {
        self.regions.get(&number).is_some_and(|region| region.mapping.extent().is_some())
    }

    /// The extent (mapping in one piece, such as a 2MB page) whose first page is `first`.
    ///
    /// # Panics
    /// If there is none.
    pub fn extent(&self, first: u64) -> &dyn Extent {
        self.extent_at(first).expect("an extent").1
    }

    /// The extent (mapping in one piece, such as a 2MB page) that contains `page`, and its first page.
    pub(crate) fn extent_at(&self, page: u64) -> Option<(u64, &dyn Extent)> {
        let number = region_of(page);
        match self.regions.get(&number) {
            Some(region) => region.mapping.extent().map(|extent| (first_of(number), extent)),
            None => self.wide_at(page),
        }
    }

    /// Pages that can only be changed together with `page`: all of the large page around it, or `page` alone.
    pub(crate) fn unit_of(&self, page: u64) -> Range<u64> {
        match self.extent_at(page) {
            Some((first, extent)) => first..first + extent.pages(),
            None => page..page + 1,
        }
    }

    /// The mechanism (operations) of the extent, such as a 2MB page, whose first page is `first`.
    ///
    /// # Panics
    /// If there is none.
    pub(crate) fn mechanism(&self, first: u64) -> &'static dyn Mechanism {
        self.extent(first).mechanism()
    }

    /// Mechanism that can take single pages out of the large page around `page` as holes. `None` if that page
    /// must be broken up into smaller pages instead, or there is none.
    pub(crate) fn detacher(&self, page: u64) -> Option<&'static dyn HoledPages> {
        let (_, extent) = self.extent_at(page)?;
        self.holes.filter(|_| extent.may_have_holes())
    }

    /// The extent (mapping in one piece) that maps a 2MB region, if it has type `T`.
    pub fn region_extent<T: Extent>(&self, number: u64) -> Option<&T> {
        self.regions.get(&number)?.mapping.extent()?.downcast_ref()
    }

    /// Records an extent (mapping in one piece) as the mapping of a 2MB region. The caller writes the
    /// page-table entry and has released the old mapping.
    pub fn set_region_extent(&mut self, number: u64, extent: Box<dyn Extent>) {
        let fragment = self.regions.remove(&number).and_then(|region| region.fragment);
        self.regions.insert(number, Region { mapping: Mapping::Extent(extent), fragment });
    }

    /// Removes the record of the extent (mapping in one piece) that maps a 2MB region. The caller must at
    /// once map the region otherwise, or remove it with [`SpaceMut::close_region`].
    ///
    /// # Panics
    /// If the region has no extent.
    pub fn take_region_extent(&mut self, number: u64) -> Box<dyn Extent> {
        let region = self.regions.get_mut(&number).expect("a mapped region");
        match std::mem::replace(&mut region.mapping, Mapping::Changing) {
            Mapping::Extent(extent) => extent,
            _ => unreachable!("region {number:#x} has pages"),
        }
    }

    /// The extent (mapping in one piece) that maps a 2MB region, mutably, if it has type `T`.
    pub fn region_extent_mut<T: Extent>(&mut self, number: u64) -> Option<&mut T> {
        match &mut self.regions.get_mut(&number)?.mapping {
            super::Mapping::Extent(extent) => extent.downcast_mut(),
            _ => None,
        }
    }

    fn wide_at(&self, page: u64) -> Option<(u64, &dyn Extent)> {
        let (&first, extent) = self.wide.range(..=page).next_back()?;
        (page - first < extent.pages()).then_some((first, &**extent))
    }

    pub(super) fn find_wide(&self, page: u64) -> Option<Present> {
        if self.wide.is_empty() {
            return None;
        }
        let (first, extent) = self.wide_at(page)?;
        Some(extent.find(page - first))
    }

    /// True if an extent (mapping in one piece) of another size than 2MB, such as 1GB, begins at page
    /// `first`.
    pub(crate) fn has_wide(&self, first: u64) -> bool {
        self.wide.contains_key(&first)
    }

    /// First pages of the extents of other sizes than 2MB, such as 1GB pages, that overlap `pages`.
    pub fn wide_within(&self, pages: &Range<u64>) -> Vec<u64> {
        if self.wide.is_empty() || pages.is_empty() {
            return Vec::new();
        }
        let first = self.wide_at(pages.start).map_or(pages.start, |(first, _)| first);
        self.wide.range(first..pages.end).map(|(&page, _)| page).collect()
    }

    /// First page of the next extent of another size than 2MB (such as a 1GB page), from `page` on, that
    /// merging and reclaim may change.
    pub(super) fn first_wide_from(&self, page: u64) -> Option<u64> {
        if self.wide.is_empty() {
            return None;
        }
        let start = self.wide_at(page).map_or(page, |(first, _)| first);
        let mut extents = self.wide.range(start..);
        let changeable = extents.find(|(_, extent)| !extent.stays_whole());
        changeable.map(|(&first, _)| first.max(page))
    }

    /// Removes an extent (mapping in one piece) that [`Self::insert_extent`] inserted. Keeps the table nodes
    /// above it, for the next mapping or for [`Self::prune`].
    pub fn take_extent(&mut self, first: u64) -> Box<dyn Extent> {
        let extent = self.take_wide(first);
        self.usage.wide_pages -= extent.pages();
        self.tables.detach_region(first);
        extent
    }

    /// The extent that [`Self::insert_extent`] inserted at `first`, mutably, if it has type `T`.
    pub fn extent_mut<T: Extent>(&mut self, first: u64) -> Option<&mut T> {
        self.wide_mut(first)
    }

    /// True if nothing is mapped, swapped or reserved for an overlay (a direct segment) in any region of
    /// `pages`.
    pub fn is_clear(&self, pages: &Range<u64>) -> bool {
        let regions = regions_of(pages);
        let whole = first_of(regions.start)..first_of(regions.end);
        self.wide_within(&whole).is_empty()
            && regions.into_iter().all(|number| !self.is_region_mapped(number))
            && !self.is_claimed(&whole)
            && !self.any_swapped(whole)
    }

    pub(super) fn insert_wide(&mut self, first: u64, extent: Box<dyn Extent>) {
        assert!(self.wide.insert(first, extent).is_none(), "mapped twice");
    }

    pub(super) fn take_wide(&mut self, first: u64) -> Box<dyn Extent> {
        self.wide.remove(&first).expect("an extent")
    }

    pub(super) fn wide_mut<T: Extent>(&mut self, first: u64) -> Option<&mut T> {
        self.wide.get_mut(&first)?.downcast_mut()
    }

    /// Number of level-2 page-table entries of extents of other sizes than 2MB (gap-tolerant superpages).
    pub(super) fn wide_in_directories(&self) -> usize {
        self.wide.values().filter(|extent| extent.pages() < super::GIGABYTE_PAGES).count()
    }

    /// Number of the page that an extent (such as a 2MB page) maps in place to `frame`; `None` if there is
    /// none.
    pub(crate) fn page_of_frame(&self, frame: Frame) -> Option<u64> {
        let wide =
            self.wide.iter().find_map(|(first, extent)| Some(first + extent.offset_of(frame)?));
        wide.or_else(|| {
            self.regions.iter().find_map(|(number, region)| {
                Some(first_of(number) + region.mapping.extent()?.offset_of(frame)?)
            })
        })
    }

    /// Permissions of a page in both parent and child after a fork. `permissions` are those before
    /// the fork.
    pub fn shared_permissions(&self, page: u64, permissions: Permissions) -> Permissions {
        let shared = self.areas.find(page).is_some_and(|area| area.attributes.is_shared());
        Permissions { write: permissions.write && shared, ..permissions }
    }

    /// Description of the 2MB block of a region that another mapping of the same shared memory can map in one
    /// piece, limited to the sub-pages in `wanted`. `None` if the region's large page maps none of these in
    /// place.
    pub(crate) fn shared_block(
        &self,
        number: u64,
        wanted: &perforate_types::HoleSet,
    ) -> Option<super::SharedBlock> {
        let (first, extent) = self.extent_at(first_of(number))?;
        extent.shared_block(number - region_of(first), wanted)
    }
}

impl SpaceMut<'_> {
    /// Inserts an extent (mapping in one piece) where nothing is mapped, and counts the level-2 page-table
    /// entries that it uses. The caller reports the new mappings and its own table operations.
    ///
    /// # Errors
    /// If memory for tables runs out.
    pub fn insert_extent(&mut self, first: u64, extent: Box<dyn Extent>) -> Result<(), OsError> {
        self.extend_tables(first, 2)?;
        self.tables.attach_region(first);
        self.usage.wide_pages += extent.pages();
        self.insert_wide(first, extent);
        Ok(())
    }

    /// Breaks the extent (such as a 2MB page) that contains `page` up into smaller pages.
    ///
    /// # Errors
    /// If memory for tables runs out; nothing has changed then.
    pub(crate) fn break_up(&mut self, page: u64) -> Result<(), OsError> {
        let (first, extent) = self.extent_at(page).expect("an extent");
        extent.mechanism().break_up(self, first)
    }

    /// Makes an in-place page a hole of its 2MB page, mapped by a 4KB entry with `permissions`. With
    /// `copies`, its data are copied to a new frame; otherwise it keeps its frame.
    ///
    /// # Errors
    /// If memory runs out; nothing has changed then.
    pub(crate) fn detach_with(
        &mut self,
        detacher: &dyn HoledPages,
        page: u64,
        copies: bool,
        permissions: Permissions,
    ) -> Result<(), OsError> {
        if !copies {
            let frame = detacher.detach(self, page)?;
            detacher.fill(self, page, frame, permissions);
            return Ok(());
        }
        let new = self.memory.allocate_page()?;
        match detacher.detach(self, page) {
            Ok(frame) => {
                detacher.fill(self, page, new, permissions);
                self.ledger.done.frames_copied += 1;
                self.memory.release(frame);
                Ok(())
            }
            Err(error) => {
                self.memory.free(new, 0);
                Err(error)
            }
        }
    }

    /// Maps a page that has a separate 4KB entry to another frame or with other permissions.
    /// Returns its old frame, which the caller must release.
    pub(crate) fn remap(&mut self, page: u64, frame: Frame, permissions: Permissions) -> Frame {
        match self.detacher(page) {
            Some(detacher) => detacher.refill(self, page, frame, permissions),
            None => self.remap_page(page, frame, permissions),
        }
    }

    /// Changes the permissions of a page that has a separate 4KB entry.
    pub(crate) fn protect_own(&mut self, page: u64, permissions: Permissions) {
        let Some(detacher) = self.detacher(page) else {
            return self.protect_page(page, permissions);
        };
        let frame = self.find(page).and_then(Present::frame).expect("a mapped page");
        detacher.refill(self, page, frame, permissions);
    }

    /// Maps an unmapped page to `frame`: as a hole if a 2MB page with holes surrounds it, else as a 4KB page.
    ///
    /// # Errors
    /// If memory for tables runs out.
    pub(crate) fn place(
        &mut self,
        page: u64,
        frame: Frame,
        permissions: Permissions,
    ) -> Result<(), OsError> {
        match self.detacher(page) {
            Some(detacher) if self.find(page) == Some(Present::Vacant) => {
                detacher.fill(self, page, frame, permissions);
                Ok(())
            }
            _ => self.map_page(page, frame, permissions),
        }
    }
}
