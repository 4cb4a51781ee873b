//! The guest's page tables, of which a hypervisor that shadows them traces some.

use std::collections::BTreeMap;

use perforate_types::{GapTolerance, GuestFrame, SpaceId, TableOperation, VirtualPage};

use super::{ROOT, Table};
use crate::TableFormat;

/// A table of the guest.
struct GuestTable {
    /// First frame.
    frame: GuestFrame,
    frames: u64,
    /// Whether it is write-protected: a shadow entry was made of what it says.
    is_traced: bool,
}

/// All tables of a guest, traced or not. Several may cover the same pages, each on a branch of its
/// own: a shadow table is made of all of them.
pub(super) struct GuestTables {
    tables: BTreeMap<(Table, u8), GuestTable>,
    /// Frames of a level-2 table.
    directory_frames: u64,
    /// The same of address spaces whose control register says otherwise.
    directory_frames_of: BTreeMap<SpaceId, u64>,
}

impl GuestTables {
    /// None yet; they will be of this format.
    pub(super) fn new(format: TableFormat) -> Self {
        let directory_frames = 1 << format.directory_order();
        Self { tables: BTreeMap::new(), directory_frames, directory_frames_of: BTreeMap::new() }
    }

    /// The guest wrote its tables or their control register.
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

    /// Frames of the tables on the way to a page that are not traced yet, root first.
    pub(super) fn untraced(&self, space: SpaceId, page: VirtualPage) -> Vec<GuestFrame> {
        let way = (1..=ROOT).rev().map(|level| Table::covering(space, level, page));
        let tables = way.flat_map(|table| self.tables.range(branches(table)));
        let untraced = tables.filter(|(_, table)| !table.is_traced);
        untraced.flat_map(|(_, table)| (0..table.frames).map(|n| table.frame.add(n))).collect()
    }

    /// Traces the tables on the way to a page.
    pub(super) fn trace(&mut self, space: SpaceId, page: VirtualPage) {
        for level in 1..=ROOT {
            self.set_traced(Table::covering(space, level, page), true);
        }
    }

    /// Nothing is made any more of what these tables say.
    pub(super) fn untrace(&mut self, table: Table) {
        self.set_traced(table, false);
    }

    fn set_traced(&mut self, table: Table, is_traced: bool) {
        self.tables.range_mut(branches(table)).for_each(|(_, found)| found.is_traced = is_traced);
    }

    /// Whether a write to a table leaves the virtual machine.
    pub(super) fn is_traced(&self, table: Table) -> bool {
        self.tables.range(branches(table)).any(|(_, found)| found.is_traced)
    }

    /// Whether the guest has a table that covers the same pages.
    pub(super) fn has(&self, table: Table) -> bool {
        self.tables.range(branches(table)).next().is_some()
    }
}

fn branches(table: Table) -> std::ops::RangeInclusive<(Table, u8)> {
    (table, 0)..=(table, u8::MAX)
}
