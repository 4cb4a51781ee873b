//! Frames of page-table nodes, as the operating systems' updates state them.

use std::collections::BTreeMap;

use perforate_mmu::radix::Directory;
use perforate_mmu::{CachedContent, CachedEntry, Mmu};
use perforate_types::{Frame, Level, SpaceId, TableOperation, Unit, VirtualPage};

use crate::Side;
use crate::truth::Truths;

/// Key of a page-table node: owner of the tables, address space, level, first page, and branch (0 for an
/// ordinary node, other values for nodes with the 4KB entries of holes).
type Place = (Side, SpaceId, Level, VirtualPage, u8);

/// Frames of all page-table nodes, as the updates of the operating systems state them.
#[derive(Default)]
pub(crate) struct Nodes {
    frames: BTreeMap<Place, Frame>,
}

impl Nodes {
    pub(crate) fn apply(&mut self, side: Side, operation: &TableOperation) {
        match *operation {
            TableOperation::AddNode { space, level, page, frame, branch } => {
                self.frames.insert((side, space, level, page, branch), frame);
            }
            TableOperation::RemoveNode { space, level, page, branch } => {
                self.frames.remove(&(side, space, level, page, branch));
            }
            _ => {}
        }
    }

    /// Returns the frame of the ordinary node (not one for holes) of a level that covers a page.
    pub(crate) fn find(
        &self,
        side: Side,
        space: SpaceId,
        level: Level,
        page: VirtualPage,
    ) -> Option<Frame> {
        let first = page.number() >> (9 * level) << (9 * level);
        self.frames.get(&(side, space, level, VirtualPage::new(first), 0)).copied()
    }

    /// Checks a walk-cache entry: it must point to the present page-table node, both by the node's address in
    /// the tables and by its host-physical address. Returns a description of the error; `None` if the entry
    /// is right.
    pub(crate) fn find_wrong(
        &self,
        entry: &CachedEntry,
        is_shadowed: bool,
        truths: &Truths,
        mmu: &Mmu,
    ) -> Option<String> {
        let CachedContent::Node { level, directory, node } = entry.content else { return None };
        let side = match entry.unit {
            Unit::HostWalkCache => Side::Host,
            _ if is_shadowed => Side::Shadow,
            _ => Side::Own,
        };
        let branches = match directory {
            Directory::Ordinary => 0..=0,
            Directory::Holes => 1..=u8::MAX,
        };
        let place = |branch| (side, entry.space, level - 1, entry.first, branch);
        let (first, last) = (place(*branches.start()), place(*branches.end()));
        // A page directory may consist of several frames: with gap-tolerant entries, up to 64KB.
        let most = if level == 3 { 16 } else { 1 };
        let mut found = self.frames.range(first..=last).map(|(_, frame)| frame.number());
        let is_there = found.any(|first| (first..first + most).contains(&node.frame.number()));
        if !is_there {
            return Some(format!("no such node is at {:x?}", node.frame));
        }
        let is_guest = side == Side::Own && mmu.dimension().host().is_some();
        let located = match is_guest {
            true => truths.host_frame(node.frame, mmu),
            false => Some(node.frame),
        };
        (located != Some(node.located)).then(|| format!("the node lies at {located:x?}"))
    }
}
