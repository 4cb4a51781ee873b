//! A gap-tolerant entry as the oracle remembers it: what its definition says, and nothing of how
//! hardware finds it.

use std::collections::BTreeMap;
use std::ops::Range;

use perforate_types::{
    CHUNK_FRAMES, Frame, GapTolerance, Permissions, SLICE_BLOCKS, SUPERPAGE_BLOCKS, SpaceId,
    VirtualPage,
};

use crate::error::Reason;
use crate::oracle::{Key, whole};

/// One superpage, or the two of a pair (G §3.2, §3.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Superpages {
    /// First page.
    pub page: VirtualPage,
    /// Mode of the address space's page directories.
    pub mode: GapTolerance,
    /// First frame of the first superpage's slice.
    pub slice: Frame,
    /// First frame of the second superpage's slice; the first slice where there is none other.
    pub second: Frame,
    /// B-blocks used, in both slices.
    pub selection: u64,
    /// What the pages allow.
    pub permissions: Permissions,
}

impl Superpages {
    /// The page after the last.
    pub fn end(&self) -> VirtualPage {
        self.page.add(self.mode.entry_pages())
    }

    /// Whether `page` is translated by it.
    pub fn covers(&self, page: VirtualPage) -> bool {
        (self.page..self.end()).contains(&page)
    }

    /// The frame of a covered page: virtual block *k* lies in the *k*-th of the selected B-blocks,
    /// counted through the first slice and then through the second.
    pub fn frame_of(&self, page: VirtualPage) -> Frame {
        let block_pages = self.mode.block_frames();
        let index = page.number() - self.page.number();
        let mut left = index / block_pages;
        for slice in [self.slice, self.second] {
            for block in 0..SLICE_BLOCKS {
                if self.selection & 1 << block == 0 {
                    continue;
                }
                if left == 0 {
                    return slice.add(u64::from(block) * block_pages + index % block_pages);
                }
                left -= 1;
            }
        }
        unreachable!("the selection is complete")
    }

    /// An error where no such entry can exist.
    pub(crate) fn check(&self) -> Result<(), Reason> {
        let mode = self.mode;
        if !self.page.number().is_multiple_of(mode.entry_pages()) {
            return Err(Reason::SuperpageUnaligned(mode));
        }
        if [self.slice, self.second].iter().any(|s| !s.number().is_multiple_of(mode.slice_frames()))
        {
            return Err(Reason::SliceUnaligned(mode));
        }
        let chunk = |slice: Frame| slice.number() / CHUNK_FRAMES;
        let (same, paired) = (self.slice == self.second, mode.is_paired());
        if !same && !paired {
            return Err(Reason::SecondSlice);
        }
        if chunk(self.slice) != chunk(self.second) {
            return Err(Reason::TwoChunks);
        }
        let wanted = if same && paired { SLICE_BLOCKS } else { SUPERPAGE_BLOCKS };
        let selected = self.selection.count_ones();
        if selected == wanted { Ok(()) } else { Err(Reason::Selection { selected, wanted }) }
    }
}

/// The gap-tolerant entries of all address spaces by their first 4KB page.
#[derive(Debug, Default)]
pub(crate) struct SuperpageMap(BTreeMap<Key, Superpages>);

impl SuperpageMap {
    /// The entry that covers `page`.
    pub(crate) fn at(&self, space: SpaceId, page: VirtualPage) -> Option<&Superpages> {
        let below = (space, VirtualPage::new(0))..=(space, page);
        let (_, superpages) = self.0.range(below).next_back()?;
        superpages.covers(page).then_some(superpages)
    }

    /// All entries of an address space in order.
    pub(crate) fn of(&self, space: SpaceId) -> impl Iterator<Item = &Superpages> {
        self.0.range(whole(space)).map(|(_, superpages)| superpages)
    }

    /// Whether an entry covers any page of a range.
    pub(crate) fn any_in(&self, space: SpaceId, pages: Range<u64>) -> bool {
        let below = (space, VirtualPage::new(0))..(space, VirtualPage::new(pages.end));
        let last = self.0.range(below).next_back();
        last.is_some_and(|(_, superpages)| superpages.end().number() > pages.start)
    }

    /// Adds an entry that overlaps no other.
    pub(crate) fn insert(&mut self, space: SpaceId, new: Superpages) -> Result<(), Reason> {
        if let Some(other) = self.of(space).next()
            && other.mode != new.mode
        {
            return Err(Reason::OtherMode(other.mode));
        }
        if self.any_in(space, new.page.number()..new.end().number()) {
            return Err(Reason::Mapped);
        }
        self.0.insert((space, new.page), new);
        Ok(())
    }

    /// The entry that begins exactly there.
    pub(crate) fn exact(
        &mut self,
        space: SpaceId,
        page: VirtualPage,
        mode: GapTolerance,
    ) -> Result<&mut Superpages, Reason> {
        let found = self.0.get_mut(&(space, page)).filter(|found| found.mode == mode);
        found.ok_or(Reason::NotSuperpage(mode))
    }

    /// Takes an entry away.
    pub(crate) fn remove(
        &mut self,
        space: SpaceId,
        page: VirtualPage,
        mode: GapTolerance,
    ) -> Result<(), Reason> {
        self.exact(space, page, mode)?;
        self.0.remove(&(space, page));
        Ok(())
    }
}
