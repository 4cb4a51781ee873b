//! The guest's page tables. A hypervisor with shadow paging traces (write-protects) some of them.

use std::collections::BTreeMap;

use perforate_types::{GapTolerance, GuestFrame, SpaceId, TableOperation, VirtualPage};

use super::{GUEST_ROOT, Table};
use crate::TableFormat;

/// A page table of the guest.
struct GuestTable {
    /// First guest-physical frame of the table.
    frame: GuestFrame,
    frames: u64,
    /// True if the table is traced (write-protected), because a shadow entry depends on the table.
    is_traced: bool,
}

/// All page tables of a guest, traced (write-protected) or not. A format may have several tables for the
/// same pages and level, such as one for 4KB pages and one for holes; they share one shadow table.
pub(super) struct GuestTables {
    tables: BTreeMap<(Table, u8), GuestTable>,
    /// Number of frames of one of the guest's level-2 tables (with 2MB entries), by default.
    directory_frames: u64,
    /// Number of frames of a level-2 table in address spaces whose control register (gap-tolerant mode) sets
    /// another.
    directory_frames_of: BTreeMap<SpaceId, u64>,
}

impl GuestTables {
    /// Creates a record without tables. `format` is the format of the guest's tables.
    pub(super) fn new(format: TableFormat) -> Self {
        let directory_frames = 1 << format.directory_order();
        Self { tables: BTreeMap::new(), directory_frames, directory_frames_of: BTreeMap::new() }
    }

    /// Records a write of the guest to its page tables, or to the control register of gap-tolerant mode.
    pub(super) fn apply(&mut self, operation: &TableOperation) {
        match *operation {
            TableOperation::SetControl { space, control } => {
                if let Ok(Some(mode)) = GapTolerance::from_control(control) {
                    self.directory_frames_of.insert(space, 1 << mode.directory_order());
                }
            }
            TableOperation::AddNode { space, level, page, frame, branch } => {
                let of_space = self.directory_frames_of.get(&space);
                let directory = of_space.copied().unwrap_or(self.directory_frames);
                let table = GuestTable {
                    frame: GuestFrame::new(frame.number()),
                    frames: if level == 2 { directory } else { 1 },
                    is_traced: false,
                };
                self.tables.insert((Table::covering(space, level, page), branch), table);
            }
            TableOperation::RemoveNode { space, level, page, branch } => {
                self.tables.remove(&(Table::covering(space, level, page), branch));
            }
            _ => {}
        }
    }

    /// Frames of the guest's tables that a walk to a page reads and that are not write-protected, root first.
    pub(super) fn untraced(&self, space: SpaceId, page: VirtualPage) -> Vec<GuestFrame> {
        let levels = (1..=GUEST_ROOT).rev().map(|level| Table::covering(space, level, page));
        let tables = levels.flat_map(|table| self.tables.range(branches(table)));
        let untraced = tables.filter(|(_, table)| !table.is_traced);
        untraced.flat_map(|(_, table)| (0..table.frames).map(|n| table.frame.add(n))).collect()
    }

    /// Marks the tables that a walk to a page reads as traced (write-protected).
    pub(super) fn trace(&mut self, space: SpaceId, page: VirtualPage) {
        for level in 1..=GUEST_ROOT {
            self.set_traced(Table::covering(space, level, page), true);
        }
    }

    /// Ends the write protection of the guest's tables for the pages of `table`, because no shadow entry
    /// depends on them.
    pub(super) fn untrace(&mut self, table: Table) {
        self.set_traced(table, false);
    }

    fn set_traced(&mut self, table: Table, is_traced: bool) {
        self.tables.range_mut(branches(table)).for_each(|(_, found)| found.is_traced = is_traced);
    }

    /// True if a write to a table causes a VM exit.
    pub(super) fn is_traced(&self, table: Table) -> bool {
        self.tables.range(branches(table)).any(|(_, found)| found.is_traced)
    }

    /// True if the guest has a table that covers the same pages at the same level.
    pub(super) fn has(&self, table: Table) -> bool {
        self.tables.range(branches(table)).next().is_some()
    }
}

fn branches(table: Table) -> std::ops::RangeInclusive<(Table, u8)> {
    (table, 0)..=(table, u8::MAX)
}
