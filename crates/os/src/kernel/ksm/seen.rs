//! Contents of pages at their last scan.

use std::collections::BTreeMap;

use perforate_types::SpaceId;

use crate::kernel::SpacePage;
use crate::space::{REGION_PAGES, first_of, index_of, region_of};

/// Content identity of the pages of a 2MB region; `None` for a page that was not scanned.
type OfRegion = [Option<u64>; REGION_PAGES as usize];

/// Content identity of each page at its last scan (Linux: the checksum). Those of a 2MB region lie together, as
/// the scanner visits pages in order.
#[derive(Default)]
pub(super) struct Seen {
    regions: BTreeMap<(SpaceId, u64), Box<OfRegion>>,
}

impl Seen {
    /// Records the content identity of a page and returns that of its last scan, if there was one.
    pub(super) fn replace(&mut self, (id, page): SpacePage, identity: u64) -> Option<u64> {
        let region = self.regions.entry((id, region_of(page)));
        let pages = region.or_insert_with(|| Box::new([None; REGION_PAGES as usize]));
        pages[index_of(page)].replace(identity)
    }

    /// Forgets the pages for which `is_kept` is false.
    pub(super) fn retain(&mut self, is_kept: impl Fn(SpacePage) -> bool) {
        self.regions.retain(|&(id, number), pages| {
            for (page, identity) in (first_of(number)..).zip(pages.iter_mut()) {
                if identity.is_some() && !is_kept((id, page)) {
                    *identity = None;
                }
            }
            pages.iter().any(Option::is_some)
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_known_by_its_last_scan() {
        let mut seen = Seen::default();
        let [one, other] = [SpaceId(1), SpaceId(2)];
        let pages = [(one, 511), (one, 512), (other, 511)];
        for (place, identity) in pages.into_iter().zip([7, 8, 9]) {
            assert_eq!(seen.replace(place, identity), None);
        }
        seen.retain(|place| place != (one, 511));
        assert_eq!(seen.regions.len(), 2, "the first region has no page left");
        assert_eq!(pages.map(|place| seen.replace(place, 5)), [None, Some(8), Some(9)]);
        assert_eq!(seen.replace((one, 511), 6), Some(5));
    }
}
