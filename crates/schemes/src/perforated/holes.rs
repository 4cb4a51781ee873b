//! Walks to holes, and reads of hole bitmaps (P §IV.B).

use perforate_mmu::radix::{Descent, Directory, entry_in};
use perforate_mmu::{BitmapLoading, Dimension, Holes, Reach, WalkFault, WalkRequest, Walker};
use perforate_types::{
    AccessKind, Frame, PageSize, PhysicalAddress, Purpose, SpaceId, VirtualPage,
};

use super::PerforatedRadix;
use super::dimension::REGION;

impl PerforatedRadix {
    /// Walks the tables and reads the shadow entry in parallel with the page-directory entry
    /// ([`ShadowReads::WithDirectoryEntry`](perforate_mmu::ShadowReads)). If the filter shows that
    /// the page may be a hole, the walk cache keeps the shadow entry, so that the walk to the hole
    /// starts there.
    pub(super) fn walk_with_shadow_reads(
        &mut self,
        request: &WalkRequest,
        walker: &mut Walker<'_>,
    ) -> Result<Reach, WalkFault> {
        let (mut level, mut node) = self.radix.start_walk(request, Directory::Ordinary, walker)?;
        if level > 2 {
            match self.radix.descend(request, (level, node), 3, walker)? {
                Descent::Node(directory) => node = directory,
                leaf @ Descent::Leaf(..) => return Ok(leaf.reach()),
            }
            level = 2;
        }
        if level == 2 {
            let place = (2, request.page);
            let read = self.radix.read(node, place, Purpose::Level2, walker)?;
            let shadow = entry_in(node.located.add(1), 2, request.page);
            walker.read_beside(Purpose::Shadow, shadow);
            match self.radix.follow(request, level, read, walker)? {
                Descent::Node(table) => node = table,
                leaf @ Descent::Leaf(..) => {
                    let reach = leaf.reach();
                    self.cache_shadow_entry(request, shadow, reach.filter, walker)?;
                    return Ok(reach);
                }
            }
        }
        Ok(self.radix.descend(request, (1, node), 1, walker)?.reach())
    }

    /// Reads the hole bitmap of `block` from simulated memory.
    fn bitmap(&self, block: Frame) -> [u64; 8] {
        let line = self.bitmap_line(block);
        std::array::from_fn(|region| self.radix.memory().word(line.add(region as u64 * 8)))
    }

    /// Fills a shadow entry into the walk cache, if the filter shows that the page may be a hole.
    fn cache_shadow_entry(
        &mut self,
        request: &WalkRequest,
        shadow: PhysicalAddress,
        filter: u8,
        walker: &mut Walker<'_>,
    ) -> Result<(), WalkFault> {
        let region = request.page.index_in(PageSize::Size2M) / REGION;
        if self.regions_needing_bitmap(filter) >> region & 1 != 0 {
            let entry = self.radix.memory().entry(shadow);
            self.radix.mark_entry(shadow, entry, false);
            let holes = walker.locate(entry.frame())?;
            walker.fill_again(request, 2, Directory::Holes, holes);
        }
        Ok(())
    }
}

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
            // A guest's shadow node is a separate page, which the host may place in any frame.
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
        Ok(self.bitmap(block))
    }

    fn written_bitmap(&self, space: SpaceId, page: VirtualPage) -> Option<[u64; 8]> {
        let leaf = self.radix.look_at(space, page).filter(|leaf| leaf.size == PageSize::Size2M)?;
        Some(self.bitmap(leaf.frame))
    }
}
