//! Walks to holes, and their bitmaps (P §IV.B).

use perforate_mmu::radix::{Descent, Directory};
use perforate_mmu::{BitmapLoading, Dimension, Holes, Reach, WalkFault, WalkRequest, Walker};
use perforate_types::{AccessKind, Frame, PageSize, Purpose};

use super::PerforatedRadix;

impl Holes for PerforatedRadix {
    fn bitmap_loading(&self) -> BitmapLoading {
        self.loading
    }

    fn walk_hole(
        &mut self,
        request: WalkRequest,
        walker: &mut Walker<'_>,
    ) -> Result<Reach, WalkFault> {
        let (level, node) = self.radix.start_walk(&request, Directory::Holes, walker)?;
        let holes = if level == 1 {
            node
        } else {
            let above = self.radix.descend(&request, (level, node), 3, walker)?;
            let Descent::Node(directory) = above else { return Err(WalkFault::NotMapped) };
            // A guest's shadow node is a page of its own: the host may have it anywhere.
            let shadow = walker.locate(directory.frame.add(1))?;
            let place = (2, request.page);
            let (address, entry) = self.radix.read(shadow, place, Purpose::Shadow, walker)?;
            self.radix.mark_entry(address, entry, false);
            let holes = walker.locate(entry.frame())?;
            walker.fill(&request, 2, Directory::Holes, holes);
            holes
        };
        let (address, entry) = self.radix.read(holes, (1, request.page), Purpose::Hole, walker)?;
        let dirtied = request.write && entry.permissions().allow(AccessKind::Write);
        Ok(Descent::Leaf(1, self.radix.mark_entry(address, entry, dirtied)).reach())
    }

    fn read_bitmap(
        &mut self,
        _: WalkRequest,
        block: Frame,
        walker: &mut Walker<'_>,
    ) -> Result<[u64; 8], WalkFault> {
        let line = self.bitmap_line(block);
        let located = walker.locate(line.page())?.located;
        walker.read(Purpose::Bitmap, located.address().add(line.offset(PageSize::Size4K)));
        let word = |region: u64| self.radix.memory().word(line.add(region * 8));
        Ok(std::array::from_fn(|region| word(region as u64)))
    }
}
