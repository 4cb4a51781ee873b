//! Shadow paging: the hypervisor keeps tables of its own that lead from guest-virtual to physical
//! addresses, and the hardware walks those (D §II.A, §IX.D).
//!
//! A shadow table exists for every guest table that a shadow fault went through. The guest's table
//! is write-protected from then on: the virtual machine is left for each entry the guest writes
//! there, and what the entry led to is forgotten. KVM lets the guest write last-level tables until
//! it flushes the TLB ("out of sync"), and gives up shadows of tables that are written often; both
//! are left out. Entries are not made before they are needed.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use perforate_types::{
    Frame, GuestFrame, Level, PageSize, Permissions, Shootdown, SpaceId, TableOperation, Update,
    VirtualPage,
};

use crate::{Kernel, OsError};

/// Level of the root table.
const ROOT: Level = 4;

/// Level whose entries map pages of `size`.
const fn leaf_level(size: PageSize) -> Level {
    match size {
        PageSize::Size4K => 1,
        PageSize::Size2M => 2,
        PageSize::Size1G => 3,
    }
}

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
}

/// What is remembered of a shadow entry.
#[derive(Clone, Copy)]
struct Leaf {
    size: PageSize,
    guest_frame: u64,
}

/// The shadow tables of one virtual machine: which there are and what they map.
#[derive(Default)]
pub struct ShadowTables {
    /// The guest's own tables, shadowed or not.
    guest_tables: BTreeMap<Table, GuestFrame>,
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

    /// The guest's tables on the way to a page that are not shadowed yet, root first.
    pub fn unshadowed(&self, space: SpaceId, page: VirtualPage) -> Vec<GuestFrame> {
        let way = (1..=ROOT).rev().map(|level| Table::covering(space, level, page));
        let unshadowed = way.filter(|table| !self.tables.contains_key(table));
        unshadowed.filter_map(|table| self.guest_tables.get(&table).copied()).collect()
    }

    /// Makes an entry, in place of what is there, and the tables on the way to it.
    pub(crate) fn map(
        &mut self,
        leaf: &ShadowLeaf,
        effects: &mut ShadowEffects<'_>,
    ) -> Result<(), OsError> {
        let ShadowLeaf { space, page, size, frame, permissions, .. } = *leaf;
        self.forget(space, page, size, effects);
        for level in (leaf_level(size)..=ROOT).rev() {
            let table = Table::covering(space, level, page);
            if let Entry::Vacant(place) = self.tables.entry(table) {
                let frame = *place.insert(effects.kernel.take_table()?);
                let page = VirtualPage::new(table.page);
                effects.write(TableOperation::AddNode { space, level, page, frame, branch: 0 });
            }
        }
        let guest_frame = leaf.guest_frame.number();
        self.leaves.insert((space, page.number()), Leaf { size, guest_frame });
        let (tables, entries) = self.most;
        self.most = (tables.max(self.tables.len()), entries.max(self.leaves.len()));
        self.by_guest_frame.insert((guest_frame, space, page.number()));
        effects.write(TableOperation::Map { space, page, size, frame, permissions });
        Ok(())
    }

    /// The guest wrote an entry of its tables. Returns whether the table is shadowed, so that the
    /// write left the virtual machine.
    pub(crate) fn guest_changed(
        &mut self,
        operation: &TableOperation,
        effects: &mut ShadowEffects<'_>,
    ) -> bool {
        let traced = |tables: &Self, space, level, page| {
            level <= ROOT && tables.tables.contains_key(&Table::covering(space, level, page))
        };
        match *operation {
            TableOperation::SetControl { .. } => false,
            TableOperation::AddNode { space, level, page, frame, .. } => {
                let frame = GuestFrame::new(frame.number());
                self.guest_tables.insert(Table::covering(space, level, page), frame);
                traced(self, space, level + 1, page)
            }
            TableOperation::RemoveNode { space, level, page, .. } => {
                let table = Table::covering(space, level, page);
                self.guest_tables.remove(&table);
                self.zap(space, table.pages(), effects);
                self.remove_tables(space, table.pages(), level, effects);
                traced(self, space, level + 1, page)
            }
            TableOperation::Map { space, page, size, .. } => {
                traced(self, space, leaf_level(size), page)
            }
            TableOperation::Unmap { space, page, size }
            | TableOperation::Protect { space, page, size, .. } => {
                self.forget(space, page, size, effects);
                traced(self, space, leaf_level(size), page)
            }
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
        self.remove_tables(space, pages, leaf_level(size) - 1, effects);
    }

    /// Forgets the entries of these pages, each with its shootdown.
    fn zap(&mut self, space: SpaceId, pages: Range<u64>, effects: &mut ShadowEffects<'_>) {
        let range = (space, pages.start)..(space, pages.end);
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

    /// Removes the empty tables of these pages up to a level, lowest first. Walk caches may know
    /// a table that maps nothing, so that it takes a shootdown as well.
    fn remove_tables(
        &mut self,
        space: SpaceId,
        pages: Range<u64>,
        up_to: Level,
        effects: &mut ShadowEffects<'_>,
    ) {
        for level in 1..=up_to {
            let at = |page| Table { space, level, page };
            let range = at(pages.start)..at(pages.end);
            let gone: Vec<_> = self.tables.range(range).map(|(&table, &at)| (table, at)).collect();
            for (table, frame) in gone {
                self.tables.remove(&table);
                let page = VirtualPage::new(table.page);
                effects.write(TableOperation::RemoveNode { space, level, page, branch: 0 });
                effects.updates.push(Update::Shootdown(Shootdown::Page { space, page }));
                effects.kernel.give_back_table(frame);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BasePages, KernelConfig};

    const SPACE: SpaceId = SpaceId(3);

    /// The shadow tables of a guest that has this root, level-3, level-2 and level-1 table.
    struct Bench {
        tables: ShadowTables,
        kernel: Kernel,
    }

    impl Bench {
        fn new() -> Self {
            let config = KernelConfig::new(64 << 20);
            let kernel = Kernel::new(config, Box::new(BasePages)).unwrap();
            let mut bench = Self { tables: ShadowTables::default(), kernel };
            for level in (1..=4).rev() {
                let (page, frame) = (VirtualPage::new(0), Frame::new(u64::from(level)));
                let branch = 0;
                let add = TableOperation::AddNode { space: SPACE, level, page, frame, branch };
                assert!(!bench.guest(&add).0, "no table is shadowed yet");
            }
            bench
        }

        /// Whether the guest's write was trapped, and what became of the shadow tables.
        fn guest(&mut self, change: &TableOperation) -> (bool, Vec<Update>) {
            let mut updates = Vec::new();
            let kernel = &mut self.kernel;
            let mut effects = ShadowEffects { kernel, updates: &mut updates };
            (self.tables.guest_changed(change, &mut effects), updates)
        }

        fn host(&mut self, change: &TableOperation) -> Vec<Update> {
            let mut updates = Vec::new();
            let kernel = &mut self.kernel;
            let mut effects = ShadowEffects { kernel, updates: &mut updates };
            self.tables.host_changed(change, &mut effects);
            updates
        }

        fn map(&mut self, page: u64, size: PageSize, guest_frame: u64) -> Vec<Update> {
            let leaf = ShadowLeaf {
                space: SPACE,
                page: VirtualPage::new(page),
                size,
                guest_frame: GuestFrame::new(guest_frame),
                frame: Frame::new(1024),
                permissions: Permissions::READ,
            };
            let mut updates = Vec::new();
            let kernel = &mut self.kernel;
            let mut effects = ShadowEffects { kernel, updates: &mut updates };
            self.tables.map(&leaf, &mut effects).unwrap();
            updates
        }
    }

    fn guest_map(page: u64, size: PageSize) -> TableOperation {
        let (page, frame) = (VirtualPage::new(page), Frame::new(512));
        TableOperation::Map { space: SPACE, page, size, frame, permissions: Permissions::READ }
    }

    fn unmap(page: u64, size: PageSize) -> TableOperation {
        TableOperation::Unmap { space: SPACE, page: VirtualPage::new(page), size }
    }

    #[test]
    fn writes_are_trapped_once_their_table_is_shadowed() {
        let mut bench = Bench::new();
        let size = PageSize::Size4K;
        let ways = |bench: &Bench| bench.tables.unshadowed(SPACE, VirtualPage::new(7)).len();
        assert_eq!(ways(&bench), 4);
        assert!(!bench.guest(&guest_map(7, size)).0, "nothing is shadowed");
        assert_eq!(bench.map(7, size, 70).len(), 4 + 1, "four tables and an entry");
        assert_eq!((ways(&bench), bench.kernel.check_invariants()), (0, Ok(())));
        assert!(bench.guest(&guest_map(8, size)).0, "the level-1 table is shadowed now");
        assert!(!bench.guest(&guest_map(512, size)).0, "the next one is not");
        assert!(bench.guest(&guest_map(1024, PageSize::Size2M)).0, "the level-2 table is");
        let (trapped, updates) = bench.guest(&unmap(7, size));
        let page = VirtualPage::new(7);
        let shootdown = Shootdown::Page { space: SPACE, page };
        assert!(trapped);
        assert_eq!(updates, [unmap(7, size).into(), Update::Shootdown(shootdown)]);
        assert!(bench.guest(&guest_map(7, size)).0, "an empty table stays shadowed");
    }

    #[test]
    fn a_table_that_goes_takes_its_shadow_along() {
        let mut bench = Bench::new();
        bench.map(7, PageSize::Size4K, 70);
        bench.guest(&unmap(7, PageSize::Size4K));
        let page = VirtualPage::new(0);
        let remove = TableOperation::RemoveNode { space: SPACE, level: 1, page, branch: 0 };
        let (trapped, updates) = bench.guest(&remove);
        assert!(trapped, "the entry of the level-2 table was written");
        let shootdown = Update::Shootdown(Shootdown::Page { space: SPACE, page });
        assert_eq!(updates, [remove.into(), shootdown], "walk caches may know it");
        assert_eq!((bench.tables.tables(), bench.tables.entries()), (3, 0));
        assert_eq!(bench.kernel.check_invariants(), Ok(()));
    }

    /// A 2MB page of the guest over 4KB pages of the host: a table without a counterpart.
    #[test]
    fn a_large_guest_page_over_small_host_pages() {
        let mut bench = Bench::new();
        let remove = TableOperation::RemoveNode {
            space: SPACE,
            level: 1,
            page: VirtualPage::new(0),
            branch: 0,
        };
        bench.guest(&remove);
        bench.map(7, PageSize::Size4K, 519);
        bench.map(8, PageSize::Size4K, 520);
        assert_eq!(bench.tables.tables(), 4);
        // The host makes a 2MB page of it: first its 4KB pages go.
        let gone = bench.host(&unmap(519, PageSize::Size4K));
        assert_eq!(gone[0], unmap(7, PageSize::Size4K).into());
        bench.map(0, PageSize::Size2M, 512);
        assert_eq!((bench.tables.tables(), bench.tables.entries()), (3, 1));
        assert_eq!(bench.host(&unmap(512, PageSize::Size2M)).len(), 2);
        assert_eq!(bench.tables.entries(), 0);
        assert!(bench.host(&unmap(1024, PageSize::Size2M)).is_empty());
    }
}
