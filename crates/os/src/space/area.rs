//! Areas: the ranges a process may touch (Linux: vm_area_struct), in an ordered map.

use std::collections::BTreeMap;
use std::ops::Range;

use perforate_types::{Backing, Permissions};

/// What a mapping without any access allows: nothing to a user-mode program.
const INACCESSIBLE: Permissions = Permissions { write: false, execute: false, user: false };

/// What is said of every page of an area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Attributes {
    /// What the program may do, if it may do anything.
    pub permissions: Permissions,
    /// Whether any access is allowed (false: PROT_NONE).
    pub accessible: bool,
    /// What lies behind.
    pub backing: Backing,
    /// MAP_SHARED: fork shares the frames for good.
    pub shared: bool,
    /// What the program said of large pages here.
    pub large_pages: LargePageAdvice,
}

/// What a program said of large pages for an area.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) enum LargePageAdvice {
    /// Nothing.
    #[default]
    None,
    /// MADV_HUGEPAGE.
    Wanted,
    /// MADV_NOHUGEPAGE.
    Refused,
}

impl Attributes {
    /// Permissions as a page-table entry has them.
    pub(crate) fn effective(&self) -> Permissions {
        if self.accessible { self.permissions } else { INACCESSIBLE }
    }

    /// Whether a mapping with these permissions keeps to what the program may do.
    pub(crate) fn permit(&self, mapping: Permissions) -> bool {
        let own = self.effective();
        (own.write || !mapping.write)
            && (own.execute || !mapping.execute)
            && (own.user || !mapping.user)
    }

    /// Whether transparent large pages may back the area.
    pub(crate) fn eligible(&self) -> bool {
        self.large_pages != LargePageAdvice::Refused
            && self.accessible
            && matches!(self.backing, Backing::Anonymous | Backing::Heap | Backing::Stack)
    }
}

/// An area: pages `start..end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Area {
    /// First page.
    pub start: u64,
    /// Page after the last.
    pub end: u64,
    /// What is said of its pages.
    pub attributes: Attributes,
}

impl Area {
    /// Whether the area holds all these pages.
    pub(crate) fn spans(&self, pages: &Range<u64>) -> bool {
        self.start <= pages.start && pages.end <= self.end
    }
}

/// The areas of an address space; disjoint, equal neighbours merged.
#[derive(Clone, Debug, Default)]
pub(crate) struct Areas {
    /// First page → page after the last, attributes.
    map: BTreeMap<u64, (u64, Attributes)>,
    pages: u64,
}

impl Areas {
    /// Pages of all areas together.
    pub(crate) fn pages(&self) -> u64 {
        self.pages
    }

    /// The area that holds `page`.
    #[inline]
    pub(crate) fn find(&self, page: u64) -> Option<Area> {
        let (&start, &(end, attributes)) = self.map.range(..=page).next_back()?;
        (page < end).then_some(Area { start, end, attributes })
    }

    /// The first area that starts above `page`.
    pub(crate) fn next_above(&self, page: u64) -> Option<Area> {
        let (&start, &(end, attributes)) = self.map.range(page + 1..).next()?;
        Some(Area { start, end, attributes })
    }

    /// All areas in order, cut to `pages`.
    pub(crate) fn within(&self, pages: Range<u64>) -> Vec<Area> {
        let first = self.find(pages.start).map_or(pages.start, |area| area.start);
        self.map
            .range(first..pages.end)
            .map(|(&start, &(end, attributes))| Area {
                start: start.max(pages.start),
                end: end.min(pages.end),
                attributes,
            })
            .collect()
    }

    /// The parts of `pages` that no area holds.
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

    /// Puts an area over whatever was there.
    pub(crate) fn insert(&mut self, pages: Range<u64>, attributes: Attributes) {
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
            self.map.remove(&end);
            end = after.end;
        }
        self.map.insert(start, (end, attributes));
    }

    /// Takes `pages` out of all areas.
    pub(crate) fn remove(&mut self, pages: Range<u64>) {
        for part in self.within(pages) {
            let whole = self.find(part.start).expect("area of a part");
            self.map.remove(&whole.start);
            if whole.start < part.start {
                self.map.insert(whole.start, (part.start, whole.attributes));
            }
            if part.end < whole.end {
                self.map.insert(part.end, (whole.end, whole.attributes));
            }
            self.pages -= part.end - part.start;
        }
    }

    /// Changes the attributes of whatever areas lie in `pages`.
    pub(crate) fn change(&mut self, pages: Range<u64>, act: impl Fn(&mut Attributes)) {
        for mut part in self.within(pages) {
            act(&mut part.attributes);
            self.insert(part.start..part.end, part.attributes);
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
        shared: false,
        large_pages: LargePageAdvice::None,
    };

    fn ranges(areas: &Areas) -> Vec<Range<u64>> {
        areas.within(0..1 << 36).iter().map(|area| area.start..area.end).collect()
    }

    #[test]
    fn equal_neighbours_merge_and_different_ones_do_not() {
        let mut areas = Areas::default();
        areas.insert(10..20, DATA);
        areas.insert(30..40, DATA);
        areas.insert(20..30, DATA);
        assert_eq!(ranges(&areas), vec![10..40; 1]);
        areas.insert(40..50, Attributes { shared: true, ..DATA });
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
}
