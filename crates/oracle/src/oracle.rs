//! The ordered maps.

use std::collections::BTreeMap;

use perforate_types::{Frame, HoleSet, MappingChange, PageSize, Permissions, SpaceId, VirtualPage};

use crate::error::Reason;
use crate::recent::Recent;
use crate::{Extent, OracleError};

/// What a page is translated to.
pub type Mapping = (Frame, Permissions);

type Key = (SpaceId, VirtualPage);

/// What is mapped where, in all address spaces.
#[derive(Debug, Default)]
pub struct Oracle {
    /// Pages of any size by their first 4KB page.
    extents: BTreeMap<Key, Extent>,
    /// Holes of perforated pages: their own translation, or none.
    holes: BTreeMap<Key, Option<Mapping>>,
    pub(crate) recent: Recent,
}

impl Oracle {
    /// Nothing is mapped.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes over a change.
    ///
    /// # Errors
    /// If the change contradicts those before it; it then has no effect.
    pub fn apply(&mut self, change: &MappingChange) -> Result<(), OracleError> {
        self.recent.forget(change);
        let (name, space, page) = describe(change);
        self.change(change).map_err(|reason| OracleError { change: name, space, page, reason })
    }

    /// What `page` is translated to; `None` where an access faults.
    pub fn translate(&self, space: SpaceId, page: VirtualPage) -> Option<Mapping> {
        let extent = self.extent(space, page)?;
        if extent.holes > 0
            && let Some(hole) = self.holes.get(&(space, page))
        {
            return *hole;
        }
        Some((extent.frame_of(page), extent.permissions))
    }

    /// The page of any size that covers `page`, hole or not.
    pub fn extent(&self, space: SpaceId, page: VirtualPage) -> Option<&Extent> {
        let (_, extent) =
            self.extents.range((space, VirtualPage::new(0))..=(space, page)).next_back()?;
        extent.covers(page).then_some(extent)
    }

    /// All pages of an address space in order.
    pub fn extents(&self, space: SpaceId) -> impl Iterator<Item = &Extent> {
        self.extents.range(whole(space)).map(|(_, extent)| extent)
    }

    /// All holes of an address space in order, with their translation if they have one.
    pub fn holes(&self, space: SpaceId) -> impl Iterator<Item = (VirtualPage, Option<Mapping>)> {
        self.holes.range(whole(space)).map(|(&(_, page), &hole)| (page, hole))
    }

    /// Every translated 4KB page of an address space in order.
    pub fn mappings(&self, space: SpaceId) -> impl Iterator<Item = (VirtualPage, Mapping)> {
        self.extents(space).flat_map(move |extent| {
            (0..extent.size.pages()).filter_map(move |index| {
                let page = extent.page.add(index);
                self.translate(space, page).map(|mapping| (page, mapping))
            })
        })
    }

    fn change(&mut self, change: &MappingChange) -> Result<(), Reason> {
        match *change {
            MappingChange::AddTable { .. } | MappingChange::RemoveTable { .. } => Ok(()),
            MappingChange::Map { space, page, size, frame, permissions } => {
                self.insert(space, Extent { page, size, frame, permissions, holes: 0 })
            }
            MappingChange::Perforate { space, page, block, permissions, holes } => {
                self.perforate(space, page, (block, permissions), &holes)
            }
            MappingChange::Unmap { space, page, size } => self.remove(space, page, size),
            MappingChange::Protect { space, page, size, permissions } => {
                self.exact(space, page, size)?.permissions = permissions;
                Ok(())
            }
            MappingChange::Punch { space, page } => {
                if self.holes.contains_key(&(space, page)) {
                    return Err(Reason::AlreadyHole);
                }
                self.large(space, page)?.holes += 1;
                self.holes.insert((space, page), None);
                Ok(())
            }
            MappingChange::Patch { space, page } => {
                self.holes.remove(&(space, page)).ok_or(Reason::NotHole)?;
                self.large(space, page)?.holes -= 1;
                Ok(())
            }
            MappingChange::MapHole { space, page, frame, permissions } => {
                let hole = self.holes.get_mut(&(space, page)).ok_or(Reason::NotHole)?;
                if hole.is_some() {
                    return Err(Reason::HoleAllocated);
                }
                *hole = Some((frame, permissions));
                Ok(())
            }
            MappingChange::Segment { .. }
            | MappingChange::ClearSegment { .. }
            | MappingChange::Escape { .. } => unimplemented!("segments"),
            MappingChange::UnmapHole { space, page } => {
                let hole = self.holes.get_mut(&(space, page)).ok_or(Reason::NotHole)?;
                hole.take().map(|_| ()).ok_or(Reason::HoleUnallocated)
            }
        }
    }

    fn insert(&mut self, space: SpaceId, extent: Extent) -> Result<(), Reason> {
        let Extent { page, size, frame, .. } = extent;
        if !page.is_aligned(size) {
            return Err(Reason::PageUnaligned(size));
        }
        if !frame.is_aligned(size) {
            return Err(Reason::FrameUnaligned(size));
        }
        let end = (space, page.add(size.pages()));
        let starts_inside = self.extents.range((space, page)..end).next().is_some();
        if starts_inside || self.extent(space, page).is_some() {
            return Err(Reason::Mapped);
        }
        self.extents.insert((space, page), extent);
        Ok(())
    }

    fn perforate(
        &mut self,
        space: SpaceId,
        page: VirtualPage,
        (block, permissions): Mapping,
        holes: &HoleSet,
    ) -> Result<(), Reason> {
        if holes.is_empty() {
            return Err(Reason::NoHoles);
        }
        let count = holes.count() as u32;
        let size = PageSize::Size2M;
        self.insert(space, Extent { page, size, frame: block, permissions, holes: count })?;
        for index in holes.iter() {
            self.holes.insert((space, page.add(index as u64)), None);
        }
        Ok(())
    }

    fn remove(&mut self, space: SpaceId, page: VirtualPage, size: PageSize) -> Result<(), Reason> {
        if self.exact(space, page, size)?.holes > 0 {
            let end = (space, page.add(size.pages()));
            let keys: Vec<_> = self.holes.range((space, page)..end).map(|(&key, _)| key).collect();
            for key in keys {
                self.holes.remove(&key);
            }
        }
        self.extents.remove(&(space, page));
        Ok(())
    }

    /// The page of exactly this size at exactly this place.
    fn exact(
        &mut self,
        space: SpaceId,
        page: VirtualPage,
        size: PageSize,
    ) -> Result<&mut Extent, Reason> {
        let found = self.extents.get_mut(&(space, page)).filter(|extent| extent.size == size);
        found.ok_or(Reason::NotMapped(size))
    }

    /// The 2MB page that covers a sub-page.
    fn large(&mut self, space: SpaceId, page: VirtualPage) -> Result<&mut Extent, Reason> {
        let size = PageSize::Size2M;
        self.exact(space, page.align_down(size), size).map_err(|_| Reason::NotLarge)
    }
}

fn whole(space: SpaceId) -> std::ops::RangeInclusive<Key> {
    (space, VirtualPage::new(0))..=(space, VirtualPage::new(u64::MAX))
}

fn describe(change: &MappingChange) -> (&'static str, SpaceId, VirtualPage) {
    match *change {
        MappingChange::AddTable { space, page, .. } => ("AddTable", space, page),
        MappingChange::RemoveTable { space, page, .. } => ("RemoveTable", space, page),
        MappingChange::Map { space, page, .. } => ("Map", space, page),
        MappingChange::Unmap { space, page, .. } => ("Unmap", space, page),
        MappingChange::Protect { space, page, .. } => ("Protect", space, page),
        MappingChange::Perforate { space, page, .. } => ("Perforate", space, page),
        MappingChange::Punch { space, page } => ("Punch", space, page),
        MappingChange::Patch { space, page } => ("Patch", space, page),
        MappingChange::MapHole { space, page, .. } => ("MapHole", space, page),
        MappingChange::UnmapHole { space, page } => ("UnmapHole", space, page),
        MappingChange::Segment { space, page, .. } => ("Segment", space, page),
        MappingChange::ClearSegment { space } => ("ClearSegment", space, VirtualPage::new(0)),
        MappingChange::Escape { space, page } => ("Escape", space, page),
    }
}
