//! Hand-worked tests of shadow tables.

use std::mem::take;

use perforate_types::{GapTolerance, PageRun};

use super::*;
use crate::{BasePages, KernelConfig};

const SPACE: SpaceId = SpaceId(3);

/// Shadow tables of a guest with one root, level-3, level-2 and level-1 table each.
struct Bench {
    tables: ShadowTables,
    kernel: Kernel,
}

impl Bench {
    fn new() -> Self {
        Self::of(TableFormat::default(), 1)
    }

    /// Creates a guest whose tables have this format, from level 4 down to `lowest`.
    fn of(format: TableFormat, lowest: Level) -> Self {
        let config = KernelConfig::new(64 << 20);
        let kernel = Kernel::new(config, Box::new(BasePages)).unwrap();
        let mut bench = Self { tables: ShadowTables::new(format), kernel };
        for level in (lowest..=4).rev() {
            assert!(!bench.guest(&add_node(level, 0)).0, "no table is shadowed yet");
        }
        bench
    }

    /// Applies a write of the guest. Returns true if it was trapped, and the shadow tables' updates.
    fn guest(&mut self, change: &dyn FormatOperation) -> (bool, Vec<Update>) {
        let trapped = self.tables.guest_changed(change, &mut self.kernel);
        assert!(trapped.is_none_or(|written| written == change.written()));
        (trapped.is_some(), take(&mut self.tables.updates))
    }

    fn host(&mut self, change: &TableOperation) -> Vec<Update> {
        self.tables.host_changed(change, &mut self.kernel);
        take(&mut self.tables.updates)
    }

    fn map(&mut self, page: u64, size: PageSize, guest_frame: u64) -> Vec<Update> {
        self.map_from(page, size, guest_frame, true)
    }

    fn map_from(
        &mut self,
        page: u64,
        size: PageSize,
        guest_frame: u64,
        is_in_tables: bool,
    ) -> Vec<Update> {
        let leaf = ShadowLeaf {
            space: SPACE,
            page: VirtualPage::new(page),
            size,
            guest_frame: GuestFrame::new(guest_frame),
            frame: Frame::new(1024),
            permissions: Permissions::READ,
            is_in_tables,
        };
        self.tables.map(&leaf, &mut self.kernel).unwrap();
        take(&mut self.tables.updates)
    }

    /// Frames of untraced tables that a walk to page 7 reads.
    fn unshadowed(&self) -> Vec<u64> {
        let frames = self.tables.unshadowed(SPACE, VirtualPage::new(7));
        frames.into_iter().map(GuestFrame::number).collect()
    }
}

/// A change of pages by a format operation of a mechanism.
#[derive(Clone, Debug, PartialEq)]
struct Change(PageRun, Written);

impl Change {
    fn at(page: u64, pages: u64, written: Written) -> Self {
        Self(PageRun::new(SPACE, VirtualPage::new(page), pages), written)
    }
}

impl FormatOperation for Change {
    fn pages(&self) -> PageRun {
        self.0
    }

    fn written(&self) -> Written {
        self.1
    }
}

/// Adds the table of a level around page 0. Its frame number is the level, or 10 times the level on
/// a branch other than 0.
fn add_node(level: Level, branch: u8) -> TableOperation {
    let frame = Frame::new(u64::from(level) * if branch == 0 { 1 } else { 10 });
    TableOperation::AddNode { space: SPACE, level, page: VirtualPage::new(0), frame, branch }
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
    assert_eq!(bench.unshadowed(), [4, 3, 2, 1]);
    assert!(!bench.guest(&guest_map(7, size)).0, "nothing is shadowed");
    assert_eq!(bench.map(7, size, 70).len(), 4 + 1, "four tables and an entry");
    assert_eq!((bench.unshadowed(), bench.kernel.check_invariants()), (vec![], Ok(())));
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

/// A 2MB page of the guest over 4KB pages of the host: the level-1 shadow table has no counterpart
/// in the guest.
#[test]
fn a_large_guest_page_over_small_host_pages() {
    let mut bench = Bench::new();
    let remove =
        TableOperation::RemoveNode { space: SPACE, level: 1, page: VirtualPage::new(0), branch: 0 };
    bench.guest(&remove);
    bench.map(7, PageSize::Size4K, 519);
    bench.map(8, PageSize::Size4K, 520);
    assert_eq!(bench.tables.tables(), 4);
    // The host replaces its 4KB pages by a 2MB page: first the 4KB pages are unmapped.
    let gone = bench.host(&unmap(519, PageSize::Size4K));
    assert_eq!(gone[0], unmap(7, PageSize::Size4K).into());
    bench.map(0, PageSize::Size2M, 512);
    assert_eq!((bench.tables.tables(), bench.tables.entries()), (3, 1));
    assert_eq!(bench.host(&unmap(512, PageSize::Size2M)).len(), 2);
    assert_eq!(bench.tables.entries(), 0);
    assert!(bench.host(&unmap(1024, PageSize::Size2M)).is_empty());
}

/// The guest takes a part out of a 2MB page.
#[test]
fn a_part_that_changes_ends_the_entry_around_it() {
    let mut bench = Bench::of(TableFormat::default(), 2);
    let punch = Change::at(7, 1, Written::Entry(2));
    assert!(!bench.guest(&punch).0, "nothing is shadowed");
    bench.map(0, PageSize::Size2M, 512);
    let (trapped, updates) = bench.guest(&punch);
    let size = PageSize::Size2M;
    let shootdown = Shootdown::Large { space: SPACE, page: VirtualPage::new(0), size };
    assert!(trapped, "the level-2 table is shadowed");
    assert_eq!(updates, [unmap(0, size).into(), Update::Shootdown(shootdown)]);
    // Entries of other pages stay.
    bench.map(6, PageSize::Size4K, 518);
    bench.map(7, PageSize::Size4K, 519);
    let (_, updates) = bench.guest(&punch);
    assert_eq!(updates[0], unmap(7, PageSize::Size4K).into());
    assert_eq!(bench.tables.entries(), 1);
    // A change of the whole 2MB page also removes the level-1 table that only the shadow has.
    assert_eq!(bench.tables.tables(), 4);
    bench.guest(&Change::at(0, 512, Written::Entry(2)));
    assert_eq!((bench.tables.tables(), bench.tables.entries()), (3, 0));
    assert_eq!(bench.kernel.check_invariants(), Ok(()));
}

#[test]
fn registers_are_trapped_always_and_trace_no_tables() {
    let mut bench = Bench::new();
    assert!(bench.guest(&Change::at(0, 2048, Written::Registers(7))).0);
    assert_eq!(bench.map_from(7, PageSize::Size4K, 70, false).len(), 4 + 1);
    assert_eq!(bench.unshadowed(), [4, 3, 2, 1], "registers were read, and no table");
    assert!(!bench.guest(&guest_map(8, PageSize::Size4K)).0);
    assert!(!bench.guest(&Change::at(7, 1, Written::Copy)).0, "nobody reads it");
    bench.map_from(7, PageSize::Size4K, 70, false);
    bench.map_from(600, PageSize::Size4K, 99, false);
    // The registers are cleared: the guest has three of the tables, and level 1 up to page 512.
    let all = Change(PageRun::whole(SPACE), Written::Registers(1));
    assert!(bench.guest(&all).0);
    assert_eq!((bench.tables.tables(), bench.tables.entries()), (4, 0));
    assert_eq!(bench.kernel.check_invariants(), Ok(()));
}

/// A table of holes belongs to the second frame of a directory, which the walker reads for such
/// tables.
#[test]
fn every_branch_and_frame_of_a_table_is_traced() {
    let pairs = TableFormat { shadow_directories: true, ..TableFormat::default() };
    let mut bench = Bench::of(pairs, 2);
    bench.guest(&add_node(1, 1));
    assert_eq!(bench.unshadowed(), [4, 3, 2, 3, 10]);
    let hole = Change::at(7, 1, Written::Entry(1));
    assert!(!bench.guest(&hole).0);
    bench.map(7, PageSize::Size4K, 70);
    assert_eq!(bench.unshadowed(), [0; 0]);
    assert!(bench.guest(&hole).0, "the node of holes is traced");
    // A change of the whole 2MB page removes the shadow table, and with it the tracing.
    bench.map(7, PageSize::Size4K, 70);
    let (size, permissions) = (PageSize::Size2M, Permissions::READ);
    let page = VirtualPage::new(0);
    bench.guest(&TableOperation::Protect { space: SPACE, page, size, permissions });
    assert_eq!(bench.unshadowed(), [10]);
    assert!(!bench.guest(&hole).0);
}

/// A control register sets directories of 16KB: writing it causes a VM exit.
#[test]
fn a_control_register_says_how_large_directories_are() {
    let mut bench = Bench::of(TableFormat::default(), 5);
    let control = GapTolerance::SINGLE_1M.control();
    assert!(bench.guest(&TableOperation::SetControl { space: SPACE, control }).0);
    for level in (2..=4).rev() {
        bench.guest(&add_node(level, 0));
    }
    assert_eq!(bench.unshadowed(), [4, 3, 2, 3, 4, 5]);
}

/// A change ends the entries that it overlaps, and no others.
#[test]
fn entries_at_the_edges_of_a_change_stay() {
    let leaf = [(511, PageSize::Size4K), (512, PageSize::Size2M), (1024, PageSize::Size4K)];
    for (page, pages, expected) in [
        (0, 511, [true, true, true]),
        (0, 512, [false, true, true]),
        (511, 1, [false, true, true]),
        (512, 1, [true, false, true]),
        (1023, 1, [true, false, true]),
        (1024, 1, [true, true, false]),
        (1025, 9, [true, true, true]),
        (0, 2000, [false, false, false]),
        (700, 0, [true, true, true]),
    ] {
        let mut bench = Bench::new();
        for (place, (page, size)) in leaf.into_iter().enumerate() {
            bench.map(page, size, 10_000 + 1000 * place as u64);
        }
        let (_, updates) = bench.guest(&Change::at(page, pages, Written::Copy));
        let stays = leaf.map(|(page, size)| !updates.contains(&unmap(page, size).into()));
        assert_eq!(stays, expected, "{page}, {pages}");
        assert_eq!(bench.tables.entries(), expected.iter().filter(|&&stays| stays).count());
        let most = (5, 3);
        assert_eq!(bench.tables.most(), most, "levels 4 to 2, and level 1 of two regions");
        // The same guest frames again, as changes of the host.
        let before = bench.tables.entries();
        let gone = bench.host(&unmap(9_999, PageSize::Size4K));
        assert!(gone.is_empty() && bench.host(&unmap(10_001, PageSize::Size4K)).is_empty());
        let protect = TableOperation::Protect {
            space: SpaceId(0),
            page: VirtualPage::new(10_000),
            size: PageSize::Size4K,
            permissions: Permissions::READ,
        };
        bench.host(&protect);
        assert_eq!(bench.tables.entries(), before - usize::from(expected[0]));
    }
}
