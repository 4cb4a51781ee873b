//! Areas: address ranges that a process may touch (Linux: vm_area_struct), in an ordered map.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use perforate_types::{Backing, Permissions};

use crate::Orders;

/// Page-table permissions of PROT_NONE memory, which user mode cannot access.
const INACCESSIBLE: Permissions = Permissions { write: false, execute: false, user: false };

/// Attributes of every page of a memory area (VMA).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// Accesses that the program may make if `accessible` is true.
    pub permissions: Permissions,
    /// True if any access is allowed; false for PROT_NONE.
    pub accessible: bool,
    /// Kind of memory that backs the memory area: anonymous, heap, stack or file.
    pub backing: Backing,
    /// Shared object that a MAP_SHARED area maps; `None` for private memory. All mappings of one page of an
    /// object use one frame.
    pub object: Option<SharedObject>,
    /// The program's advice on large pages.
    pub large_pages: LargePageAdvice,
    /// True if the program refused merging with pages of equal content (MADV_UNMERGEABLE).
    pub refuses_merging: bool,
}

/// Memory object of one shared mapping (MAP_SHARED), to which memory areas refer.
///
/// Every mmap creates a separate object: traces name no files, so two mappings of one file are two
/// objects. An object owns no frames: a frame of it lives while a page maps it. In Linux, by
/// contrast, the page cache keeps the frames of a file or of shared anonymous memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedObject {
    /// Number of the object, unique in a simulated kernel.
    pub id: u64,
    /// Virtual page that corresponds to page 0 of the object. It may be outside the area, if the
    /// area maps only a later part. Modulo 2⁶⁴, because a stack or a moved part may begin before
    /// page 0.
    pub base: u64,
}

impl SharedObject {
    /// Number of the shared object's page that virtual page `page` maps.
    pub(crate) fn page_at(self, page: u64) -> u64 {
        page.wrapping_sub(self.base)
    }
}

/// A program's advice on large pages for a memory area (madvise).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum LargePageAdvice {
    /// No advice was given.
    #[default]
    None,
    /// The program asked for large pages (MADV_HUGEPAGE).
    Wanted,
    /// The program refused large pages (MADV_NOHUGEPAGE).
    Refused,
    /// The program asked for pages of this order: a folio's, or that of 1GB pages, which are reserved.
    Order(u32),
}

/// Page-table permissions of a memory area: `permissions`, or none for user mode unless `accessible`.
pub(crate) fn effective(permissions: Permissions, accessible: bool) -> Permissions {
    if accessible { permissions } else { INACCESSIBLE }
}

impl Attributes {
    /// Attributes of a memory area with accessible private memory (MAP_PRIVATE) and without advice.
    pub(crate) fn private(permissions: Permissions, backing: Backing) -> Self {
        Self {
            permissions,
            accessible: true,
            backing,
            object: None,
            large_pages: LargePageAdvice::None,
            refuses_merging: false,
        }
    }

    /// True if no file backs the memory area: it begins cleared and can only be written to swap.
    fn is_anonymous(&self) -> bool {
        matches!(self.backing, Backing::Anonymous | Backing::Heap | Backing::Stack)
    }

    /// True if the memory area is private and anonymous, so that its pages may be swapped and merged.
    pub fn is_private_anonymous(&self) -> bool {
        !self.is_shared() && self.is_anonymous()
    }

    /// True if the program asked for pages of 2MB or more in the memory area (MADV_HUGEPAGE).
    pub fn is_advised(&self) -> bool {
        self.large_pages == LargePageAdvice::Wanted || self.wants_order(Orders::HUGE)
    }

    /// True if the program asked for pages of this order in the memory area.
    pub(crate) fn wants_order(&self, order: u32) -> bool {
        self.large_pages == LargePageAdvice::Order(order)
    }

    /// True if the memory area is shared (MAP_SHARED): after fork, parent and child see each other's writes,
    /// and no write copies a page.
    pub fn is_shared(&self) -> bool {
        self.object.is_some()
    }

    /// Attributes after mremap moved page `from` of the memory area to `to`; moves the base of a shared
    /// object.
    pub(crate) fn moved(self, from: u64, to: u64) -> Self {
        let moved = |object: SharedObject| {
            let base = object.base.wrapping_add(to).wrapping_sub(from);
            SharedObject { base, ..object }
        };
        Self { object: self.object.map(moved), ..self }
    }

    /// Page-table permissions of the memory area; none for user mode if it is PROT_NONE.
    pub fn effective(&self) -> Permissions {
        effective(self.permissions, self.accessible)
    }

    /// True if a mapping with these permissions allows no more than the memory area does.
    pub(crate) fn permit(&self, mapping: Permissions) -> bool {
        let own = self.effective();
        (own.write || !mapping.write)
            && (own.execute || !mapping.execute)
            && (own.user || !mapping.user)
    }

    /// True if transparent huge pages may back the memory area.
    pub(crate) fn eligible(&self) -> bool {
        self.large_pages != LargePageAdvice::Refused && self.accessible && self.is_anonymous()
    }
}

/// An area (Linux: VMA): pages `start..end` with equal attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Area {
    /// Number of the first page of the area.
    pub start: u64,
    /// Number of the page after the last page of the area.
    pub end: u64,
    /// Attributes of all pages of the area.
    pub attributes: Attributes,
}

impl Area {
    /// Page numbers of the area.
    pub fn pages(&self) -> Range<u64> {
        self.start..self.end
    }

    /// True if the area contains all these pages.
    pub fn spans(&self, pages: &Range<u64>) -> bool {
        self.start <= pages.start && pages.end <= self.end
    }
}

/// The memory areas of an address space. They are disjoint, and neighbours with equal attributes are merged.
#[derive(Clone, Debug, Default)]
pub(crate) struct Areas {
    /// Memory areas: first page → page after the last, and attributes.
    map: BTreeMap<u64, (u64, Attributes)>,
    /// Object number and first page of each shared (MAP_SHARED) memory area.
    shared: BTreeSet<(u64, u64)>,
    pages: u64,
}

impl Areas {
    /// Total number of pages of all memory areas of the address space.
    pub(crate) fn pages(&self) -> u64 {
        self.pages
    }

    /// Number of memory areas in the address space.
    pub(crate) fn count(&self) -> u64 {
        self.map.len() as u64
    }

    /// The memory area that contains `page`; `None` outside all areas.
    #[inline]
    pub(crate) fn find(&self, page: u64) -> Option<Area> {
        let (&start, &(end, attributes)) = self.map.range(..=page).next_back()?;
        (page < end).then_some(Area { start, end, attributes })
    }

    /// First memory area that starts above `page`.
    pub(crate) fn next_above(&self, page: u64) -> Option<Area> {
        let (&start, &(end, attributes)) = self.map.range(page + 1..).next()?;
        Some(Area { start, end, attributes })
    }

    /// True if any memory area is shared (MAP_SHARED).
    pub(crate) fn any_shared(&self) -> bool {
        !self.shared.is_empty()
    }

    /// The memory areas that map the shared object with number `id`.
    pub(crate) fn of_object(&self, id: u64) -> impl Iterator<Item = Area> + '_ {
        self.shared.range((id, 0)..=(id, u64::MAX)).map(|&(_, start)| {
            let (end, attributes) = self.map[&start];
            Area { start, end, attributes }
        })
    }

    /// All memory areas in ascending order, clipped to `pages`.
    pub(crate) fn within(&self, pages: Range<u64>) -> Vec<Area> {
        self.parts(pages).collect()
    }

    /// Iterator over all memory areas in ascending order, clipped to `pages`.
    pub(crate) fn parts(&self, pages: Range<u64>) -> impl DoubleEndedIterator<Item = Area> + '_ {
        let first = self.find(pages.start).map_or(pages.start, |area| area.start);
        // An empty range in the middle of an area would yield an empty part of the area.
        let starts = if pages.is_empty() { first..first } else { first..pages.end };
        self.map.range(starts).map(move |(&start, &(end, attributes))| Area {
            start: start.max(pages.start),
            end: end.min(pages.end),
            attributes,
        })
    }

    /// Subranges of `pages` that no memory area covers.
    pub(crate) fn gaps(&self, pages: Range<u64>) -> Vec<Range<u64>> {
        let mut gaps = Vec::new();
        let mut next = pages.start;
        for area in self.within(pages.clone()) {
            if next < area.start {
                gaps.push(next..area.start);
            }
            next = area.end;
        }
        if next < pages.end {
            gaps.push(next..pages.end);
        }
        gaps
    }

    /// Inserts a memory area, and removes overlapping parts of other areas. An empty range changes nothing.
    pub(crate) fn insert(&mut self, pages: Range<u64>, attributes: Attributes) {
        if pages.is_empty() {
            return;
        }
        self.remove(pages.clone());
        let (mut start, mut end) = (pages.start, pages.end);
        self.pages += end - start;
        if let Some(before) = start.checked_sub(1).and_then(|page| self.find(page))
            && before.attributes == attributes
        {
            start = before.start;
        }
        if let Some(after) = self.find(end)
            && after.attributes == attributes
        {
            self.take(end);
            end = after.end;
        }
        self.put(start, end, attributes);
    }

    /// Writes the record of a memory area, or replaces the record with the same start and attributes.
    fn put(&mut self, start: u64, end: u64, attributes: Attributes) {
        self.map.insert(start, (end, attributes));
        if let Some(object) = attributes.object {
            self.shared.insert((object.id, start));
        }
    }

    /// Removes the record of the memory area that starts at page `start`.
    fn take(&mut self, start: u64) {
        let (_, attributes) = self.map.remove(&start).expect("an area");
        if let Some(object) = attributes.object {
            self.shared.remove(&(object.id, start));
        }
    }

    /// Removes `pages` from all memory areas.
    pub(crate) fn remove(&mut self, pages: Range<u64>) {
        for part in self.within(pages) {
            let whole = self.find(part.start).expect("area of a part");
            self.take(whole.start);
            if whole.start < part.start {
                self.put(whole.start, part.start, whole.attributes);
            }
            if part.end < whole.end {
                self.put(part.end, whole.end, whole.attributes);
            }
            self.pages -= part.end - part.start;
        }
    }

    /// Applies `act` to the attributes of memory areas in `pages`. Splits areas that extend beyond.
    pub(crate) fn change(&mut self, pages: Range<u64>, act: impl Fn(&mut Attributes)) {
        for mut part in self.within(pages) {
            act(&mut part.attributes);
            self.insert(part.pages(), part.attributes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DATA: Attributes = Attributes {
        permissions: Permissions::READ_WRITE,
        accessible: true,
        backing: Backing::Anonymous,
        object: None,
        large_pages: LargePageAdvice::None,
        refuses_merging: false,
    };

    #[test]
    fn private_memory_without_a_file_can_be_swapped_and_merged() {
        for (backing, object, expected) in [
            (Backing::Anonymous, None, true),
            (Backing::Heap, None, true),
            (Backing::Stack, None, true),
            (Backing::File, None, false),
            (Backing::Anonymous, Some(SharedObject { id: 0, base: 0 }), false),
        ] {
            let attributes = Attributes { backing, object, ..DATA };
            assert_eq!(attributes.is_private_anonymous(), expected, "{attributes:?}");
        }
    }

    fn ranges(areas: &Areas) -> Vec<Range<u64>> {
        areas.within(0..1 << 36).iter().map(|area| area.pages()).collect()
    }

    #[test]
    fn equal_neighbours_merge_and_different_ones_do_not() {
        let mut areas = Areas::default();
        areas.insert(10..20, DATA);
        areas.insert(30..40, DATA);
        areas.insert(20..30, DATA);
        assert_eq!(ranges(&areas), vec![10..40; 1]);
        let object = Some(SharedObject { id: 1, base: 40 });
        areas.insert(40..50, Attributes { object, ..DATA });
        assert_eq!(ranges(&areas), [10..40, 40..50]);
        assert_eq!(areas.pages(), 40);
    }

    #[test]
    fn remove_and_change_split() {
        let mut areas = Areas::default();
        areas.insert(10..40, DATA);
        areas.remove(20..25);
        assert_eq!(ranges(&areas), [10..20, 25..40]);
        areas.change(15..30, |attributes| attributes.accessible = false);
        assert_eq!(ranges(&areas), [10..15, 15..20, 25..30, 30..40]);
        assert_eq!(areas.gaps(0..45), [0..10, 20..25, 40..45]);
        assert_eq!(areas.find(20), None);
        assert!(!areas.find(29).unwrap().attributes.accessible);
        assert_eq!(areas.pages(), 25);
    }

    /// An empty area would hide an area that begins at the same page.
    #[test]
    fn empty_ranges_change_nothing() {
        let mut areas = Areas::default();
        areas.insert(10..40, DATA);
        for at in [5, 10, 20, 40] {
            areas.insert(at..at, Attributes { accessible: false, ..DATA });
            areas.change(at..at, |attributes| attributes.accessible = false);
            areas.remove(at..at);
            assert_eq!(areas.within(at..at), []);
            assert_eq!(areas.gaps(at..at), []);
        }
        assert_eq!(ranges(&areas), vec![10..40; 1]);
        assert!(areas.find(20).unwrap().attributes.accessible);
        assert_eq!(areas.pages(), 30);
        areas.remove(0..50);
        assert_eq!(ranges(&areas), []);
    }

    #[test]
    fn parts_of_an_object_are_found_wherever_they_lie() {
        let of = |id, base| Attributes { object: Some(SharedObject { id, base }), ..DATA };
        let found = |areas: &Areas, id| -> Vec<Range<u64>> {
            areas.of_object(id).map(|area| area.pages()).collect()
        };
        let mut areas = Areas::default();
        areas.insert(10..20, of(7, 10));
        areas.insert(20..30, of(8, 20));
        assert_eq!(found(&areas, 7), vec![10..20; 1], "another object is not a part of it");
        areas.remove(13..15);
        areas.insert(25..26, DATA);
        assert_eq!(found(&areas, 7), [10..13, 15..20]);
        assert_eq!(found(&areas, 8), [20..25, 26..30]);
        // Pages 15..20 move to 40: the object's page 5 lies at 40, so page 0 would lie at 35.
        let moved = of(7, 10).moved(15, 40);
        assert_eq!(moved, of(7, 35));
        areas.remove(15..20);
        areas.insert(40..45, moved);
        assert_eq!(found(&areas, 7), [10..13, 40..45]);
        assert_eq!(areas.find(41).unwrap().attributes.object.unwrap().page_at(41), 6);
        // After moving back, the part merges with the area before it, as the bases are equal.
        areas.insert(13..20, moved.moved(40, 15));
        assert_eq!(found(&areas, 7), [10..20, 40..45]);
        areas.remove(0..100);
        assert!(!areas.any_shared());
    }

    #[test]
    fn advice_backing_and_access_decide_about_large_pages() {
        use LargePageAdvice::{None, Order, Refused, Wanted};
        for (large_pages, is_advised, eligible) in [
            (None, false, true),
            (Wanted, true, true),
            (Refused, false, false),
            (Order(4), false, true),
            (Order(Orders::HUGE), true, true),
        ] {
            let attributes = Attributes { large_pages, ..DATA };
            let found = (attributes.is_advised(), attributes.eligible());
            assert_eq!(found, (is_advised, eligible), "{large_pages:?}");
            assert_eq!(attributes.wants_order(4), large_pages == Order(4));
        }
        for (accessible, backing, expected) in [
            (true, Backing::Anonymous, true),
            (true, Backing::Heap, true),
            (true, Backing::Stack, true),
            (true, Backing::File, false),
            (false, Backing::Anonymous, false),
        ] {
            let attributes = Attributes { accessible, backing, ..DATA };
            assert_eq!(attributes.eligible(), expected, "{attributes:?}");
        }
        let object = Some(SharedObject { id: 1, base: 0 });
        assert!(Attributes { object, ..DATA }.eligible(), "shared memory may be large");
        assert_eq!(Attributes::private(DATA.permissions, DATA.backing), DATA);
    }

    #[test]
    fn an_area_permits_what_it_may_do_and_less() {
        let may = |write, execute, user| Permissions { write, execute, user };
        let all = may(true, true, true);
        for (permissions, accessible, mapping, expected) in [
            (all, true, all, true),
            (all, true, may(false, false, false), true),
            (may(false, true, true), true, all, false),
            (may(true, false, true), true, all, false),
            (may(true, true, false), true, all, false),
            (may(false, true, true), true, may(false, true, true), true),
            (all, false, may(false, false, true), false),
            (all, false, may(false, false, false), true),
        ] {
            let attributes = Attributes { permissions, accessible, ..DATA };
            assert_eq!(attributes.permit(mapping), expected, "{permissions:?} {mapping:?}");
        }
        let hidden = Attributes { accessible: false, ..DATA };
        assert_eq!(hidden.effective(), may(false, false, false));
        assert_eq!(DATA.effective(), Permissions::READ_WRITE);
    }

    #[test]
    fn areas_span_what_lies_inside_and_the_next_one_lies_above() {
        let area = Area { start: 10, end: 20, attributes: DATA };
        let spans = [10..20, 11..19, 9..20, 10..21].map(|pages| area.spans(&pages));
        assert_eq!(spans, [true, true, false, false]);
        let mut areas = Areas::default();
        areas.insert(10..20, DATA);
        areas.insert(30..31, DATA);
        let above = [0, 9, 10, 29, 30].map(|page| areas.next_above(page).map(|area| area.start));
        assert_eq!(above, [Some(10), Some(10), Some(30), Some(30), None]);
        assert_eq!(areas.count(), 2);
        let parts = |pages| areas.within(pages).iter().map(Area::pages).collect::<Vec<_>>();
        assert_eq!(parts(15..31), [15..20, 30..31]);
        assert_eq!(parts(20..30), []);
        assert_eq!(parts(19..30), vec![19..20; 1]);
    }
}
