//! The ordered maps.

use std::collections::BTreeMap;
use std::ops::Range;

use perforate_types::{Frame, HoleSet, MappingChange, PageSize, Permissions, SpaceId, VirtualPage};

use crate::error::Reason;
use crate::recent::Recent;
use crate::superpage::SuperpageMap;
use crate::{Extent, OracleError, Segment, Superpages};

/// What a page is translated to.
pub type Mapping = (Frame, Permissions);

pub(crate) type Key = (SpaceId, VirtualPage);

/// What is mapped where, in all address spaces.
#[derive(Debug, Default)]
pub struct Oracle {
    /// Pages of any size by their first 4KB page.
    extents: BTreeMap<Key, Extent>,
    /// Holes of perforated pages: their own translation, or none.
    holes: BTreeMap<Key, Option<Mapping>>,
    /// At most one of each address space.
    segments: BTreeMap<SpaceId, Segment>,
    /// Gap-tolerant entries by their first 4KB page.
    superpages: SuperpageMap,
    /// 2MB pages of each address space, perforated ones included.
    large: BTreeMap<SpaceId, u64>,
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

    /// What `page` is translated to; `None` where an access faults. A page of the segment is
    /// translated by it unless it escaped, whatever paging maps.
    pub fn translate(&self, space: SpaceId, page: VirtualPage) -> Option<Mapping> {
        if let Some(segment) = self.segments.get(&space)
            && segment.translates(page)
        {
            return Some((segment.frame_of(page), segment.permissions));
        }
        self.translate_by_paging(space, page)
    }

    fn translate_by_paging(&self, space: SpaceId, page: VirtualPage) -> Option<Mapping> {
        let Some(extent) = self.extent(space, page) else {
            let superpages = self.superpages_at(space, page)?;
            return Some((superpages.frame_of(page), superpages.permissions));
        };
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

    /// The gap-tolerant entry that covers `page`.
    pub fn superpages_at(&self, space: SpaceId, page: VirtualPage) -> Option<&Superpages> {
        self.superpages.at(space, page)
    }

    /// All gap-tolerant entries of an address space in order.
    pub fn superpages(&self, space: SpaceId) -> impl Iterator<Item = &Superpages> {
        self.superpages.of(space)
    }

    /// The segment of an address space, if it has one.
    pub fn segment(&self, space: SpaceId) -> Option<&Segment> {
        self.segments.get(&space)
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
        let segment = self.segments.get(&space).map_or(0..0, Segment::range);
        let below = self.paged(space, 0..segment.start);
        let above = self.paged(space, segment.end..u64::MAX);
        let pages = below.chain(segment.map(VirtualPage::new)).chain(above);
        pages.filter_map(move |page| self.translate(space, page).map(|mapping| (page, mapping)))
    }

    /// The pages of `range` that a page of any size or a superpage covers, holes included, in order.
    fn paged(&self, space: SpaceId, range: Range<u64>) -> impl Iterator<Item = VirtualPage> {
        let extents = self.extents(space).map(|extent| {
            let start = extent.page.number();
            start..start + extent.size.pages()
        });
        let superpages = self
            .superpages(space)
            .map(|superpages| superpages.page.number()..superpages.end().number());
        in_order(extents, superpages).flat_map(move |run| {
            (run.start.max(range.start)..run.end.min(range.end)).map(VirtualPage::new)
        })
    }

    fn change(&mut self, change: &MappingChange) -> Result<(), Reason> {
        self.check_segment(change)?;
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
            MappingChange::Segment { space, page, pages, frame, permissions } => {
                self.set_segment(space, (page, pages), (frame, permissions))
            }
            MappingChange::ClearSegment { space } => {
                self.segments.remove(&space).map(|_| ()).ok_or(Reason::NoSegment)
            }
            MappingChange::Escape { space, page } => self.escape(space, page),
            MappingChange::MapSuperpage {
                space,
                page,
                mode,
                slice,
                second,
                selection,
                permissions,
            } => {
                let superpages = Superpages { page, mode, slice, second, selection, permissions };
                self.insert_superpages(space, superpages)
            }
            MappingChange::UnmapSuperpage { space, page, mode } => {
                self.superpages.remove(space, page, mode)
            }
            MappingChange::ProtectSuperpage { space, page, mode, permissions } => {
                self.superpages.exact(space, page, mode)?.permissions = permissions;
                Ok(())
            }
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
        self.check_no_superpages(space, &extent)?;
        if size == PageSize::Size2M {
            *self.large.entry(space).or_default() += 1;
        }
        self.extents.insert((space, page), extent);
        Ok(())
    }

    /// An error where gap-tolerant entries leave no place for a page.
    fn check_no_superpages(&self, space: SpaceId, extent: &Extent) -> Result<(), Reason> {
        if extent.size == PageSize::Size2M && self.superpages(space).next().is_some() {
            return Err(Reason::LargeAndSuperpage);
        }
        let first = extent.page.align_down(PageSize::Size2M).number();
        let end = first + extent.size.pages().max(PageSize::Size2M.pages());
        if self.superpages.any_in(space, first..end) {
            return Err(Reason::SharedRegion);
        }
        Ok(())
    }

    fn insert_superpages(&mut self, space: SpaceId, new: Superpages) -> Result<(), Reason> {
        new.check()?;
        if self.large.get(&space).is_some_and(|&count| count > 0) {
            return Err(Reason::LargeAndSuperpage);
        }
        // A page directory has the places of whole regions of 2MB for the entries of 4KB pages.
        let first = new.page.align_down(PageSize::Size2M);
        let length = new.mode.entry_pages().max(PageSize::Size2M.pages());
        let extents = (space, first)..(space, first.add(length));
        if self.extents.range(extents).next().is_some() || self.extent(space, first).is_some() {
            return Err(Reason::SharedRegion);
        }
        self.superpages.insert(space, new)
    }

    /// An error if the change makes paging translate a page otherwise than the segment, or if it is
    /// not the escape of a page that was mapped elsewhere when the segment was set.
    fn check_segment(&self, change: &MappingChange) -> Result<(), Reason> {
        let (_, space, _) = describe(change);
        let Some(segment) = self.segments.get(&space) else { return Ok(()) };
        let (first, pages, frame, permissions) = match *change {
            MappingChange::Escape { .. } | MappingChange::ClearSegment { .. } => return Ok(()),
            _ if !segment.to_escape.is_empty() => {
                return Err(Reason::SegmentDiffers(*segment.to_escape.first().expect("not empty")));
            }
            // Selected B-blocks need not follow one another as the frames of a segment do.
            MappingChange::MapSuperpage { page, mode, .. } => {
                let mut inside = segment.translated(page, mode.entry_pages());
                return inside.next().map_or(Ok(()), |page| Err(Reason::SegmentDiffers(page)));
            }
            MappingChange::Map { page, size, frame, permissions, .. } => {
                (page, size.pages(), Some(frame), permissions)
            }
            MappingChange::Perforate { page, block, permissions, .. } => {
                (page, PageSize::Size2M.pages(), Some(block), permissions)
            }
            MappingChange::MapHole { page, frame, permissions, .. } => {
                (page, 1, Some(frame), permissions)
            }
            MappingChange::ProtectSuperpage { page, mode, permissions, .. } => {
                (page, mode.entry_pages(), None, permissions)
            }
            MappingChange::Protect { page, size, permissions, .. } => {
                (page, size.pages(), None, permissions)
            }
            _ => return Ok(()),
        };
        let agrees = |page: &VirtualPage| {
            let offset = page.number() - first.number();
            permissions == segment.permissions
                && frame.is_none_or(|frame| frame.add(offset) == segment.frame_of(*page))
        };
        match segment.translated(first, pages).find(|page| !agrees(page)) {
            Some(page) => Err(Reason::SegmentDiffers(page)),
            None => Ok(()),
        }
    }

    fn set_segment(
        &mut self,
        space: SpaceId,
        (page, pages): (VirtualPage, u64),
        (frame, permissions): Mapping,
    ) -> Result<(), Reason> {
        if pages == 0 {
            return Err(Reason::EmptySegment);
        }
        let last = |first: u64| first.checked_add(pages).is_some_and(|end| end <= 1 << 52);
        if !last(page.number()) || !last(frame.number()) {
            return Err(Reason::SegmentTooLong);
        }
        let (escaped, to_escape) = Default::default();
        let mut segment = Segment { page, pages, frame, permissions, escaped, to_escape };
        segment.to_escape = self
            .paged(space, segment.range())
            .filter(|&page| {
                let paged = self.translate_by_paging(space, page);
                paged.is_some_and(|paged| paged != (segment.frame_of(page), permissions))
            })
            .collect();
        self.segments.insert(space, segment);
        Ok(())
    }

    fn escape(&mut self, space: SpaceId, page: VirtualPage) -> Result<(), Reason> {
        let segment = self.segments.get_mut(&space).ok_or(Reason::NoSegment)?;
        if !segment.range().contains(&page.number()) {
            return Err(Reason::NotInSegment);
        }
        segment.to_escape.remove(&page);
        if segment.escaped.insert(page) { Ok(()) } else { Err(Reason::AlreadyEscaped) }
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
        if size == PageSize::Size2M {
            *self.large.get_mut(&space).expect("it was counted") -= 1;
        }
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

/// Two lists of ranges, each in order, as one. No two of them overlap.
fn in_order(
    first: impl Iterator<Item = Range<u64>>,
    second: impl Iterator<Item = Range<u64>>,
) -> impl Iterator<Item = Range<u64>> {
    let (mut first, mut second) = (first.peekable(), second.peekable());
    std::iter::from_fn(move || match (first.peek(), second.peek()) {
        (Some(a), Some(b)) if b.start < a.start => second.next(),
        (None, _) => second.next(),
        _ => first.next(),
    })
}

pub(crate) fn whole(space: SpaceId) -> std::ops::RangeInclusive<Key> {
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
        MappingChange::MapSuperpage { space, page, .. } => ("MapSuperpage", space, page),
        MappingChange::UnmapSuperpage { space, page, .. } => ("UnmapSuperpage", space, page),
        MappingChange::ProtectSuperpage { space, page, .. } => ("ProtectSuperpage", space, page),
    }
}
