//! Shadow paging: the hypervisor keeps separate tables from guest-virtual to host-physical
//! addresses, and the hardware walks these (D §II.A, §IX.D).
//!
//! For every guest table that a shadow fault went through, there is a shadow table. The guest's
//! table is write-protected from then on. Each entry that the guest writes in it causes a VM exit,
//! and shadow entries made from the old entry are dropped. Entries are made only on demand. Two
//! optimizations of KVM are not modelled: last-level tables that the guest may write until it
//! flushes the TLB ("out of sync"), and giving up shadows of tables that are written often.
//!
//! Shadow entries are ordinary x86-64 entries for guest tables of any format. A guest mapping that
//! no ordinary entry can hold is mapped in parts of 4KB. Registers of the guest are emulated: each
//! write of a register causes a VM exit, and shadow entries that may depend on it are dropped. The
//! operations of a mechanism report what they write and which pages may change
//! ([`FormatOperation::written`], [`FormatOperation::pages`]).

mod guest_tables;
#[cfg(test)]
mod tests;

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use perforate_types::{
    FormatOperation, Frame, GuestFrame, Level, PageSize, Permissions, Shootdown, SpaceId,
    TableOperation, Update, VirtualPage, Written,
};

use crate::{Kernel, OsError, TableFormat};
use guest_tables::GuestTables;

/// Level of the root of shadow tables, which translate addresses of 48 bits.
const ROOT: Level = 4;
/// Highest level of a guest's root table.
const GUEST_ROOT: Level = 5;

/// A page table (one node), identified by the guest-virtual pages that it covers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Table {
    space: SpaceId,
    level: Level,
    /// Number of the first guest-virtual page that the table covers.
    page: u64,
}

impl Table {
    /// Table at `level` that a walk to `page` reads.
    fn covering(space: SpaceId, level: Level, page: VirtualPage) -> Self {
        let shift = 9 * u32::from(level);
        Self { space, level, page: page.number() >> shift << shift }
    }

    fn pages(self) -> Range<u64> {
        self.page..self.page + (1 << (9 * u32::from(self.level)))
    }
}

/// Description of a shadow entry to create: guest-virtual page to host frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShadowLeaf {
    /// The guest's address space.
    pub space: SpaceId,
    /// First virtual page of the entry, aligned to `size`.
    pub page: VirtualPage,
    /// Page size of the entry: the smaller of guest's and host's.
    pub size: PageSize,
    /// First frame in the guest's physical memory.
    pub guest_frame: GuestFrame,
    /// First frame in the host's physical memory.
    pub frame: Frame,
    /// Permissions that both guest and host allow.
    pub permissions: Permissions,
    /// True if the guest's page tables translate the page, so that they must be traced (write-protected);
    /// false if guest registers do.
    pub is_in_tables: bool,
}

/// Page size and guest frame of a shadow entry.
#[derive(Clone, Copy)]
struct Leaf {
    size: PageSize,
    guest_frame: u64,
}

/// Shadow tables of one virtual machine, and the entries in them.
pub struct ShadowTables {
    guest_tables: GuestTables,
    tables: BTreeMap<Table, Frame>,
    leaves: BTreeMap<(SpaceId, u64), Leaf>,
    /// Reverse map: guest frame, address space and page of every entry.
    by_guest_frame: BTreeSet<(u64, SpaceId, u64)>,
    /// Largest numbers of shadow tables and of shadow entries at any time.
    most: (usize, usize),
    /// Updates of the shadow tables, in order, since the caller last drained the list.
    pub(crate) updates: Vec<Update>,
}

impl ShadowTables {
    /// Creates shadow tables without entries. `guest` is the format of the guest's tables.
    pub(crate) fn new(guest: TableFormat) -> Self {
        Self {
            guest_tables: GuestTables::new(guest),
            tables: BTreeMap::new(),
            leaves: BTreeMap::new(),
            by_guest_frame: BTreeSet::new(),
            most: (0, 0),
            updates: Vec::new(),
        }
    }

    /// Number of shadow tables.
    pub fn tables(&self) -> usize {
        self.tables.len()
    }

    /// Number of shadow entries.
    pub fn entries(&self) -> usize {
        self.leaves.len()
    }

    /// Largest number of shadow tables, and of entries, at any time.
    pub fn most(&self) -> (usize, usize) {
        self.most
    }

    /// Frames of the guest's tables that a walk to a page reads and that have no shadow table yet, root
    /// first.
    pub fn unshadowed(&self, space: SpaceId, page: VirtualPage) -> Vec<GuestFrame> {
        self.guest_tables.untraced(space, page)
    }

    fn write(&mut self, kernel: &mut Kernel, operation: TableOperation) {
        kernel.note_operation(&operation);
        self.updates.push(operation.into());
    }

    /// Creates a shadow entry and the shadow tables above it. Drops shadow entries that it replaces.
    pub(crate) fn map(&mut self, leaf: &ShadowLeaf, kernel: &mut Kernel) -> Result<(), OsError> {
        let ShadowLeaf { space, page, size, frame, permissions, .. } = *leaf;
        self.forget(space, page, size, kernel);
        for level in (size.leaf_level()..=ROOT).rev() {
            let table = Table::covering(space, level, page);
            if let Entry::Vacant(place) = self.tables.entry(table) {
                let frame = *place.insert(kernel.allocate_shadow_table()?);
                let page = VirtualPage::new(table.page);
                self.write(
                    kernel,
                    TableOperation::AddNode { space, level, page, frame, branch: 0 },
                );
            }
        }
        if leaf.is_in_tables {
            self.guest_tables.trace(space, page);
        }
        let guest_frame = leaf.guest_frame.number();
        self.leaves.insert((space, page.number()), Leaf { size, guest_frame });
        let (tables, entries) = self.most;
        self.most = (tables.max(self.tables.len()), entries.max(self.leaves.len()));
        self.by_guest_frame.insert((guest_frame, space, page.number()));
        self.write(kernel, TableOperation::Map { space, page, size, frame, permissions });
        Ok(())
    }

    /// Updates the shadow tables after the guest has written a page-table entry or a translation register. If
    /// the write caused a VM exit, returns what the guest wrote.
    pub(crate) fn guest_changed(
        &mut self,
        operation: &dyn FormatOperation,
        kernel: &mut Kernel,
    ) -> Option<Written> {
        let run = operation.pages();
        match operation.downcast_ref() {
            Some(table) => self.table_changed(table, kernel),
            None => {
                self.zap(run.space, run.numbers(), kernel);
                self.remove_orphans(run.space, &run.numbers(), kernel);
            }
        }
        let written = operation.written();
        let is_trapped = match written {
            Written::Entry(level) => {
                let table = Table::covering(run.space, level, run.page);
                level <= GUEST_ROOT && self.guest_tables.is_traced(table)
            }
            Written::Registers(_) => true,
            Written::Copy => false,
        };
        is_trapped.then_some(written)
    }

    /// Records a guest's write to its ordinary page tables, and drops the shadow entries and shadow tables
    /// that were made from the old contents.
    fn table_changed(&mut self, operation: &TableOperation, kernel: &mut Kernel) {
        self.guest_tables.apply(operation);
        match *operation {
            TableOperation::RemoveNode { space, level, page, .. } => {
                let pages = Table::covering(space, level, page).pages();
                self.zap(space, pages.clone(), kernel);
                self.remove_tables(space, &pages, level, kernel);
            }
            TableOperation::Unmap { space, page, size }
            | TableOperation::Protect { space, page, size, .. } => {
                self.forget(space, page, size, kernel);
            }
            TableOperation::SetControl { .. }
            | TableOperation::AddNode { .. }
            | TableOperation::Map { .. }
            | TableOperation::Join { .. } => {}
        }
    }

    /// Drops shadow entries that depend on a changed mapping of the host.
    pub(crate) fn host_changed(&mut self, operation: &TableOperation, kernel: &mut Kernel) {
        let (TableOperation::Unmap { page, size, .. } | TableOperation::Protect { page, size, .. }) =
            *operation
        else {
            return;
        };
        let (first, end) = (page.number(), page.number() + size.pages());
        let lost = (first, SpaceId(0), 0)..(end, SpaceId(0), 0);
        let lost: Vec<_> = self.by_guest_frame.range(lost).copied().collect();
        for (_, space, page) in lost {
            self.zap(space, page..page + 1, kernel);
        }
    }

    /// Drops the shadow entries within a page of the guest, and the shadow tables below that page's entry.
    fn forget(&mut self, space: SpaceId, page: VirtualPage, size: PageSize, kernel: &mut Kernel) {
        let pages = page.number()..page.number() + size.pages();
        self.zap(space, pages.clone(), kernel);
        self.remove_tables(space, &pages, size.leaf_level() - 1, kernel);
    }

    /// Drops the shadow entries that translate any of these guest-virtual pages, each with a shootdown.
    fn zap(&mut self, space: SpaceId, pages: Range<u64>, kernel: &mut Kernel) {
        if pages.is_empty() {
            return;
        }
        let before = self.leaves.range(..(space, pages.start)).next_back();
        let around = before
            .filter(|((of, page), leaf)| *of == space && page + leaf.size.pages() > pages.start);
        let first = around.map_or(pages.start, |((_, page), _)| *page);
        let range = (space, first)..(space, pages.end);
        let dead: Vec<_> =
            self.leaves.range(range).map(|(&(_, page), &leaf)| (page, leaf)).collect();
        for (number, Leaf { size, guest_frame }) in dead {
            self.leaves.remove(&(space, number));
            self.by_guest_frame.remove(&(guest_frame, space, number));
            let page = VirtualPage::new(number);
            self.write(kernel, TableOperation::Unmap { space, page, size });
            self.updates.push(Update::Shootdown(match size {
                PageSize::Size4K => Shootdown::Page { space, page },
                _ => Shootdown::Large { space, page, size },
            }));
        }
    }

    /// Removes the empty shadow tables of these guest-virtual pages up to level `up_to`, level 1 first.
    fn remove_tables(
        &mut self,
        space: SpaceId,
        pages: &Range<u64>,
        up_to: Level,
        kernel: &mut Kernel,
    ) {
        for level in 1..=up_to {
            for table in self.tables_within(space, pages, level) {
                self.remove_table(table, kernel);
            }
        }
    }

    /// Removes empty shadow tables of these guest-virtual pages that correspond to no table of the guest.
    fn remove_orphans(&mut self, space: SpaceId, pages: &Range<u64>, kernel: &mut Kernel) {
        for level in 1..=ROOT {
            for table in self.tables_within(space, pages, level) {
                if !self.guest_tables.has(table) {
                    self.remove_table(table, kernel);
                }
            }
        }
    }

    /// Shadow tables of a level that cover only pages within this range of guest-virtual pages.
    fn tables_within(&self, space: SpaceId, pages: &Range<u64>, level: Level) -> Vec<Table> {
        let at = |page| Table { space, level, page };
        let tables = self.tables.range(at(pages.start)..at(pages.end));
        tables.map(|(&table, _)| table).filter(|table| table.pages().end <= pages.end).collect()
    }

    /// Removes an empty shadow table. Walk caches may hold a pointer to it although it maps nothing, so it
    /// needs a shootdown too.
    fn remove_table(&mut self, table: Table, kernel: &mut Kernel) {
        let Some(frame) = self.tables.remove(&table) else { return };
        self.guest_tables.untrace(table);
        let Table { space, level, page } = table;
        let page = VirtualPage::new(page);
        self.write(kernel, TableOperation::RemoveNode { space, level, page, branch: 0 });
        self.updates.push(Update::Shootdown(Shootdown::Page { space, page }));
        kernel.free_shadow_table(frame);
    }
}
