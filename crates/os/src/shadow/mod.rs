//! Shadow paging: the hypervisor keeps tables of its own that lead from guest-virtual to physical
//! addresses, and the hardware walks those (D §II.A, §IX.D).
//!
//! A shadow table exists for every guest table that a shadow fault went through. The guest's table
//! is write-protected from then on: the virtual machine is left for each entry the guest writes
//! there, and what the entry led to is forgotten. KVM lets the guest write last-level tables until
//! it flushes the TLB ("out of sync"), and gives up shadows of tables that are written often; both
//! are left out. Entries are not made before they are needed.
//!
//! Shadow entries are ordinary ones of x86-64, whatever the guest has: parts of 4KB of its larger
//! mappings that no ordinary entry can hold. What the guest has in registers is emulated: the virtual
//! machine is left for each register written, and what it may have led to is forgotten. What a
//! mechanism of the guest writes, and what that may change, its operations say
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

/// Level of the root table.
const ROOT: Level = 4;

/// A page table, by what it covers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Table {
    space: SpaceId,
    level: Level,
    /// First page covered.
    page: u64,
}

impl Table {
    /// The table of `level` on the way to `page`.
    fn covering(space: SpaceId, level: Level, page: VirtualPage) -> Self {
        let shift = 9 * u32::from(level);
        Self { space, level, page: page.number() >> shift << shift }
    }

    fn pages(self) -> Range<u64> {
        self.page..self.page + (1 << (9 * u32::from(self.level)))
    }
}

/// A shadow entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShadowLeaf {
    /// The guest's address space.
    pub space: SpaceId,
    /// First page; aligned to `size`.
    pub page: VirtualPage,
    /// The finer size of guest and host.
    pub size: PageSize,
    /// Where the guest has it.
    pub guest_frame: GuestFrame,
    /// Where the machine has it.
    pub frame: Frame,
    /// What both allow.
    pub permissions: Permissions,
    /// Whether the guest has it in its page tables, which are traced then, and not in registers.
    pub is_in_tables: bool,
}

/// What is remembered of a shadow entry.
#[derive(Clone, Copy)]
struct Leaf {
    size: PageSize,
    guest_frame: u64,
}

/// The shadow tables of one virtual machine: which there are and what they map.
pub struct ShadowTables {
    guest_tables: GuestTables,
    tables: BTreeMap<Table, Frame>,
    leaves: BTreeMap<(SpaceId, u64), Leaf>,
    /// The reverse map: guest frame, address space and page of every entry.
    by_guest_frame: BTreeSet<(u64, SpaceId, u64)>,
    /// The most tables and entries that there were.
    most: (usize, usize),
}

/// What an operation on shadow tables acts on besides.
pub(crate) struct ShadowEffects<'a> {
    /// The kernel that has the frames.
    pub(crate) kernel: &'a mut Kernel,
    /// What changed in the shadow tables, in order.
    pub(crate) updates: &'a mut Vec<Update>,
}

impl ShadowEffects<'_> {
    fn write(&mut self, operation: TableOperation) {
        self.kernel.note_operation(&operation);
        self.updates.push(operation.into());
    }
}

impl ShadowTables {
    /// None yet, of a guest whose tables are of this format.
    pub(crate) fn new(guest: TableFormat) -> Self {
        Self {
            guest_tables: GuestTables::new(guest),
            tables: BTreeMap::new(),
            leaves: BTreeMap::new(),
            by_guest_frame: BTreeSet::new(),
            most: (0, 0),
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

    /// The most shadow tables, and the most entries, that there were at one time.
    pub fn most(&self) -> (usize, usize) {
        self.most
    }

    /// Frames of the guest's tables on the way to a page that are not shadowed yet, root first.
    pub fn unshadowed(&self, space: SpaceId, page: VirtualPage) -> Vec<GuestFrame> {
        self.guest_tables.untraced(space, page)
    }

    /// Makes an entry, in place of what is there, and the tables on the way to it.
    pub(crate) fn map(
        &mut self,
        leaf: &ShadowLeaf,
        effects: &mut ShadowEffects<'_>,
    ) -> Result<(), OsError> {
        let ShadowLeaf { space, page, size, frame, permissions, .. } = *leaf;
        self.forget(space, page, size, effects);
        for level in (size.leaf_level()..=ROOT).rev() {
            let table = Table::covering(space, level, page);
            if let Entry::Vacant(place) = self.tables.entry(table) {
                let frame = *place.insert(effects.kernel.take_table()?);
                let page = VirtualPage::new(table.page);
                effects.write(TableOperation::AddNode { space, level, page, frame, branch: 0 });
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
        effects.write(TableOperation::Map { space, page, size, frame, permissions });
        Ok(())
    }

    /// The guest wrote its tables, or what else it has. Returns what it wrote if that left the
    /// virtual machine.
    pub(crate) fn guest_changed(
        &mut self,
        operation: &dyn FormatOperation,
        effects: &mut ShadowEffects<'_>,
    ) -> Option<Written> {
        let run = operation.pages();
        match operation.downcast_ref() {
            Some(table) => self.table_changed(table, effects),
            None => {
                self.zap(run.space, run.numbers(), effects);
                self.remove_orphans(run.space, &run.numbers(), effects);
            }
        }
        let written = operation.written();
        let is_trapped = match written {
            Written::Entry(level) => {
                let table = Table::covering(run.space, level, run.page);
                level <= ROOT && self.guest_tables.is_traced(table)
            }
            Written::Registers(_) => true,
            Written::Copy => false,
        };
        is_trapped.then_some(written)
    }

    /// The guest wrote an entry of ordinary tables.
    fn table_changed(&mut self, operation: &TableOperation, effects: &mut ShadowEffects<'_>) {
        self.guest_tables.apply(operation);
        match *operation {
            TableOperation::RemoveNode { space, level, page, .. } => {
                let pages = Table::covering(space, level, page).pages();
                self.zap(space, pages.clone(), effects);
                self.remove_tables(space, &pages, level, effects);
            }
            TableOperation::Unmap { space, page, size }
            | TableOperation::Protect { space, page, size, .. } => {
                self.forget(space, page, size, effects);
            }
            TableOperation::SetControl { .. }
            | TableOperation::AddNode { .. }
            | TableOperation::Map { .. } => {}
        }
    }

    /// The host's mapping of the guest's memory changed: entries that lead there are forgotten.
    pub(crate) fn host_changed(
        &mut self,
        operation: &TableOperation,
        effects: &mut ShadowEffects<'_>,
    ) {
        let (TableOperation::Unmap { page, size, .. } | TableOperation::Protect { page, size, .. }) =
            *operation
        else {
            return;
        };
        let (first, end) = (page.number(), page.number() + size.pages());
        let lost = (first, SpaceId(0), 0)..(end, SpaceId(0), 0);
        let lost: Vec<_> = self.by_guest_frame.range(lost).copied().collect();
        for (_, space, page) in lost {
            self.zap(space, page..page + 1, effects);
        }
    }

    /// Forgets what is inside a page of the guest, with the tables below its entry.
    fn forget(
        &mut self,
        space: SpaceId,
        page: VirtualPage,
        size: PageSize,
        effects: &mut ShadowEffects<'_>,
    ) {
        let pages = page.number()..page.number() + size.pages();
        self.zap(space, pages.clone(), effects);
        self.remove_tables(space, &pages, size.leaf_level() - 1, effects);
    }

    /// Forgets the entries that translate any of these pages, each with its shootdown.
    fn zap(&mut self, space: SpaceId, pages: Range<u64>, effects: &mut ShadowEffects<'_>) {
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
            effects.write(TableOperation::Unmap { space, page, size });
            effects.updates.push(Update::Shootdown(match size {
                PageSize::Size4K => Shootdown::Page { space, page },
                _ => Shootdown::Large { space, page, size },
            }));
        }
    }

    /// Removes the empty tables of these pages up to a level, lowest first.
    fn remove_tables(
        &mut self,
        space: SpaceId,
        pages: &Range<u64>,
        up_to: Level,
        effects: &mut ShadowEffects<'_>,
    ) {
        for level in 1..=up_to {
            for table in self.tables_within(space, pages, level) {
                self.remove_table(table, effects);
            }
        }
    }

    /// Of the tables of these pages, which are empty, removes those that are of no table of the
    /// guest's.
    fn remove_orphans(
        &mut self,
        space: SpaceId,
        pages: &Range<u64>,
        effects: &mut ShadowEffects<'_>,
    ) {
        for level in 1..=ROOT {
            for table in self.tables_within(space, pages, level) {
                if !self.guest_tables.has(table) {
                    self.remove_table(table, effects);
                }
            }
        }
    }

    /// The tables of a level that cover none but these pages.
    fn tables_within(&self, space: SpaceId, pages: &Range<u64>, level: Level) -> Vec<Table> {
        let at = |page| Table { space, level, page };
        let tables = self.tables.range(at(pages.start)..at(pages.end));
        tables.map(|(&table, _)| table).filter(|table| table.pages().end <= pages.end).collect()
    }

    /// Removes an empty table. Walk caches may know a table that maps nothing, so that it takes a
    /// shootdown as well.
    fn remove_table(&mut self, table: Table, effects: &mut ShadowEffects<'_>) {
        let Some(frame) = self.tables.remove(&table) else { return };
        self.guest_tables.untrace(table);
        let Table { space, level, page } = table;
        let page = VirtualPage::new(page);
        effects.write(TableOperation::RemoveNode { space, level, page, branch: 0 });
        effects.updates.push(Update::Shootdown(Shootdown::Page { space, page }));
        effects.kernel.give_back_table(frame);
    }
}
