//! Page-table nodes of levels 5 to 2 of an address space, and their frames. Level-1 nodes are
//! stored with their region.
//!
//! A node exists exactly while it has an entry.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use perforate_types::{Frame, TableOperation, VirtualPage};

use super::{SpaceMut, first_of_gigabyte, gigabyte_of};
use crate::{OsError, TableFormat};

struct Node {
    frame: Frame,
    entries: u32,
}

/// Page-table nodes above level 1 of one address space.
pub(crate) struct Tables {
    format: TableFormat,
    directory_order: u32,
    root: Option<Node>,
    /// Level-4 page-table nodes by address ÷ 256TB, below a root of level 5; empty if the root has level 4.
    level4: BTreeMap<u64, Node>,
    /// Level-3 page-table nodes by address ÷ 512GB.
    level3: BTreeMap<u64, Node>,
    /// Level-2 page-table nodes by address ÷ 1GB.
    level2: BTreeMap<u64, Node>,
}

impl Tables {
    /// Creates tables without any page-table node.
    pub(crate) fn new(format: TableFormat) -> Self {
        Self {
            format,
            directory_order: format.directory_order(),
            root: None,
            level4: BTreeMap::new(),
            level3: BTreeMap::new(),
            level2: BTreeMap::new(),
        }
    }

    /// The format of the address space's page-table nodes.
    pub(crate) fn format(&self) -> TableFormat {
        self.format
    }

    /// Number of frames of the nodes above level 1, including shadow nodes for holes.
    pub(crate) fn frames(&self) -> u64 {
        let pair = 1 << self.directory_order;
        let above = usize::from(self.root.is_some()) + self.level4.len() + self.level3.len();
        above as u64 + self.level2.len() as u64 * pair
    }

    /// The node that points to the level-3 node of `page`: of level 4, which is the root in tables of four
    /// levels.
    fn above_level3(&mut self, page: u64) -> &mut Node {
        let node = if self.format.five_levels {
            self.level4.get_mut(&(page >> 36))
        } else {
            self.root.as_mut()
        };
        node.expect("there is a level-4 node")
    }

    /// Every frame of every node above level 1.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = Frame> + '_ {
        let pair = 1 << self.directory_order;
        let directories =
            self.level2.values().flat_map(move |node| (0..pair).map(|index| node.frame.add(index)));
        let above = self.root.iter().chain(self.level4.values()).chain(self.level3.values());
        let above = above.map(|node| node.frame);
        above.chain(directories)
    }

    /// Number of used entries in all level-2 page-table nodes.
    pub(crate) fn attached_regions(&self) -> usize {
        self.level2.values().map(|node| node.entries as usize).sum()
    }

    /// True if there is a level-2 page-table node for the 1GB around `page`.
    pub(crate) fn has_directory(&self, page: u64) -> bool {
        self.level2.contains_key(&gigabyte_of(page))
    }

    /// Adds one to the number of used entries of the level-2 page-table node that covers `page`.
    pub(crate) fn attach_region(&mut self, page: u64) {
        self.level2.get_mut(&gigabyte_of(page)).expect("directory").entries += 1;
    }

    /// Subtracts one from the number of used entries of the level-2 page-table node that covers `page`. Call
    /// [`SpaceMut::prune`] afterwards.
    pub(crate) fn detach_region(&mut self, page: u64) {
        self.level2.get_mut(&gigabyte_of(page)).expect("directory").entries -= 1;
    }

    /// Adds one to the number of used entries of the level-3 page-table node that covers `page`, for a 1GB
    /// page.
    pub(crate) fn attach_huge(&mut self, page: u64) {
        self.level3.get_mut(&(page >> 27)).expect("directory pointers").entries += 1;
    }

    /// Subtracts one from the number of used entries of the level-3 page-table node that covers `page`.
    pub(crate) fn detach_huge(&mut self, page: u64) {
        self.level3.get_mut(&(page >> 27)).expect("directory pointers").entries -= 1;
    }
}

impl SpaceMut<'_> {
    /// Ensures that the page-table nodes for `page` exist from the root down to `level` (3 or 2).
    pub(super) fn extend_tables(&mut self, page: u64, level: u8) -> Result<(), OsError> {
        let result = self.extend_nodes(page, level);
        if result.is_err() {
            // Nodes added so far have no entry yet.
            self.prune(page);
        }
        result
    }

    fn extend_nodes(&mut self, page: u64, level: u8) -> Result<(), OsError> {
        if self.tables.root.is_none() {
            let frame = self.memory.allocate_nodes(0)?;
            self.tables.root = Some(Node { frame, entries: 0 });
            if let Some(mode) = self.tables.format.gap_tolerance {
                let (space, control) = (self.id, mode.control());
                self.table(TableOperation::SetControl { space, control });
            }
            self.report_node(4 + u8::from(self.tables.format.five_levels), 0, frame);
        }
        if self.tables.format.five_levels
            && let Entry::Vacant(place) = self.space.tables.level4.entry(page >> 36)
        {
            let frame = self.memory.allocate_nodes(0)?;
            place.insert(Node { frame, entries: 0 });
            self.tables.root.as_mut().expect("just made").entries += 1;
            self.report_node(4, page >> 36 << 36, frame);
        }
        if let Entry::Vacant(place) = self.space.tables.level3.entry(page >> 27) {
            let frame = self.memory.allocate_nodes(0)?;
            place.insert(Node { frame, entries: 0 });
            self.tables.above_level3(page).entries += 1;
            self.report_node(3, page >> 27 << 27, frame);
        }
        if level <= 2 && !self.tables.has_directory(page) {
            let frame = self.allocate_directory()?;
            self.tables.level2.insert(gigabyte_of(page), Node { frame, entries: 0 });
            self.tables.level3.get_mut(&(page >> 27)).expect("just made").entries += 1;
            self.report_directory(first_of_gigabyte(gigabyte_of(page)), frame);
        }
        Ok(())
    }

    /// Reports a new level-2 node to the hardware. The report counts the node's first frame as cleared; the
    /// further frames that some formats have (a shadow node) are counted here.
    fn report_directory(&mut self, page: u64, frame: Frame) {
        self.report_node(2, page, frame);
        let further = (1 << self.tables.directory_order) - 1;
        self.work().frames_zeroed_tables += further;
    }

    /// Replaces the 1GB page at `page` by a level-2 page-table node. The caller has allocated `frame`, so
    /// this cannot fail.
    pub(super) fn replace_huge(&mut self, page: u64, frame: Frame) {
        self.tables.level2.insert(gigabyte_of(page), Node { frame, entries: 0 });
        self.report_directory(page, frame);
    }

    /// Allocates the frames of a level-2 page-table node.
    pub(super) fn allocate_directory(&mut self) -> Result<Frame, OsError> {
        let order = self.tables.directory_order;
        self.memory.allocate_nodes(order)
    }

    /// Removes empty page-table nodes above `page`, lowest first.
    pub fn prune(&mut self, page: u64) {
        let (gigabyte, top) = (gigabyte_of(page), page >> 27);
        if self.tables.level2.get(&gigabyte).is_some_and(|node| node.entries == 0) {
            let node = self.tables.level2.remove(&gigabyte).expect("found");
            self.report_node_removed(2, first_of_gigabyte(gigabyte));
            let order = self.tables.directory_order;
            self.memory.free(node.frame, order);
            self.tables.level3.get_mut(&top).expect("parent").entries -= 1;
        }
        if self.tables.level3.get(&top).is_some_and(|node| node.entries == 0) {
            let node = self.tables.level3.remove(&top).expect("found");
            self.report_node_removed(3, top << 27);
            self.memory.free(node.frame, 0);
            self.tables.above_level3(page).entries -= 1;
        }
        if self.tables.level4.get(&(page >> 36)).is_some_and(|node| node.entries == 0) {
            let node = self.tables.level4.remove(&(page >> 36)).expect("found");
            self.report_node_removed(4, page >> 36 << 36);
            self.memory.free(node.frame, 0);
            self.tables.root.as_mut().expect("parent").entries -= 1;
        }
        if self.tables.root.as_ref().is_some_and(|node| node.entries == 0) {
            let node = self.tables.root.take().expect("found");
            self.report_node_removed(4 + u8::from(self.tables.format.five_levels), 0);
            self.memory.free(node.frame, 0);
        }
    }

    fn report_node(&mut self, level: u8, page: u64, frame: Frame) {
        let page = VirtualPage::new(page);
        self.table(TableOperation::AddNode { space: self.id, level, page, frame, branch: 0 });
    }

    fn report_node_removed(&mut self, level: u8, page: u64) {
        let page = VirtualPage::new(page);
        self.table(TableOperation::RemoveNode { space: self.id, level, page, branch: 0 });
    }
}
