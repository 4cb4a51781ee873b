//! Page-table entries that say that 16 pages are contiguous (Arm's contiguous bit, Svnapot), and
//! groups that AMD's walker finds itself, in both levels of TLBs; worked out by hand.
//!
//! Pages are counted from 1GB, the first page of a 64KB block. The first level has 4 entries, the
//! second 64. Page 0 has frame 0x9000, which begins a 64KB block, too.

use perforate_mmu::{
    CachedContent, Coalescing, CoalescingForm, ConfigError, EntryKind, Host, L2Contents, Mmu,
    MmuConfig, Nested, PageFault, Radix, TlbGeometry, allow,
};
use perforate_types::{
    AccessKind, Contiguity, Frame, PageSize, PageTableEntry, Permissions, Shootdown, SpaceId,
    Steps, TableOperation, Unit, Update, VirtualPage,
};

const SPACE: SpaceId = SpaceId(1);
const MACHINE: SpaceId = SpaceId(2);
const FIRST: VirtualPage = VirtualPage::new(1 << 18);
const FRAME: u64 = 0x9000;
const RW: Permissions = Permissions::READ_WRITE;

fn config(form: CoalescingForm, pages: u64) -> MmuConfig {
    let mut config =
        MmuConfig::plain(TlbGeometry { entries: 4, ways: 4 }, TlbGeometry { entries: 64, ways: 4 });
    config.tlb.l2_coalescing = Some(Coalescing { pages, form });
    config.tlb.l1_coalescing = true;
    config
}

fn add_nodes(mmu: &mut Mmu, space: SpaceId, first: u64, frame: u64) {
    for (level, page) in [(4, 0), (3, 0), (2, first), (1, first)] {
        let (page, frame) = (VirtualPage::new(page), Frame::new(frame + u64::from(level)));
        apply(mmu, TableOperation::AddNode { space, level, page, frame, branch: 0 });
    }
}

fn apply(mmu: &mut Mmu, operation: TableOperation) {
    match operation.space() {
        MACHINE => mmu.apply_host(&operation.into()),
        _ => mmu.apply(&operation.into()),
    }
}

fn map(mmu: &mut Mmu, space: SpaceId, page: VirtualPage, frame: u64, size: PageSize) {
    let (frame, permissions) = (Frame::new(frame), RW);
    apply(mmu, TableOperation::Map { space, page, size, frame, permissions });
}

fn join(mmu: &mut Mmu, space: SpaceId, page: VirtualPage, contiguity: Option<Contiguity>) {
    apply(mmu, TableOperation::Join { space, page, contiguity });
}

/// An MMU with pages 0 to 47 in consecutive frames from `frame` on.
fn unit(config: &MmuConfig, frame: u64) -> Mmu {
    let mut mmu = Mmu::new(config, Box::new(Radix::new())).unwrap();
    mmu.switch(SPACE);
    add_nodes(&mut mmu, SPACE, FIRST.number(), 0x10);
    (0..48).for_each(|at| map(&mut mmu, SPACE, FIRST.add(at), frame + at, PageSize::Size4K));
    mmu
}

/// An MMU for this encoding whose pages 0 to 31 are joined.
fn joined(contiguity: Contiguity) -> Mmu {
    let form = match contiguity {
        Contiguity::ContiguousBit => CoalescingForm::ContiguousBit,
        Contiguity::Napot => CoalescingForm::Napot,
    };
    let mut mmu = unit(&config(form, 16), FRAME);
    for page in [0, 16] {
        join(&mut mmu, SPACE, FIRST.add(page), Some(contiguity));
    }
    mmu
}

const BOTH: [Contiguity; 2] = [Contiguity::ContiguousBit, Contiguity::Napot];

/// Frame of a page, and the level that translated it: 1 or 2 for the TLBs, 3 for a walk.
fn access(mmu: &mut Mmu, kind: AccessKind, page: u64) -> Result<(u64, u8), PageFault> {
    let mut steps = Steps::new();
    let found = mmu.translate(kind, FIRST.add(page).address(), &mut steps)?;
    let level = match (steps.is_empty(), found.walked) {
        (true, _) => 1,
        (false, false) => 2,
        (false, true) => 3,
    };
    Ok((found.physical.page().number(), level))
}

/// Level that translated a load from each page. All pages must have consecutive frames.
fn levels(mmu: &mut Mmu, pages: impl IntoIterator<Item = u64>) -> Vec<u8> {
    let read = |page| {
        let (frame, level) = access(mmu, AccessKind::Read, page).unwrap();
        assert_eq!(frame, FRAME + page, "page {page}");
        level
    };
    pages.into_iter().map(read).collect()
}

/// Number of 4KB entries and of blocks in the second level.
fn held(mmu: &Mmu) -> (u64, u64) {
    let L2Contents { page_4k, coalesced, .. } = mmu.l2_contents();
    (page_4k, coalesced)
}

fn entry(mmu: &Mmu, page: u64) -> PageTableEntry {
    let index = FIRST.add(page).number() & 511;
    mmu.dimension().memory().entry(Frame::new(0x11).address().add(index * 8))
}

fn shoot_down(mmu: &mut Mmu, page: u64) {
    mmu.apply(&Update::Shootdown(Shootdown::Page { space: SPACE, page: FIRST.add(page) }));
}

#[test]
fn a_joined_block_is_one_entry_of_each_level() {
    for contiguity in BOTH {
        let mut mmu = joined(contiguity);
        assert_eq!(levels(&mut mmu, [5, 0, 15, 9]), [3, 1, 1, 1]);
        assert_eq!(levels(&mut mmu, [20, 16, 31, 1]), [3, 1, 1, 1]);
        assert_eq!(held(&mmu), (0, 2));
        assert_eq!(mmu.counters().coalesced_pages, 32);
        assert_eq!(mmu.counters().references.iter().sum::<u64>(), 2 * 4, "two walks");
        // The other pages are in consecutive frames, too; nothing compares them.
        assert_eq!(levels(&mut mmu, [32, 33, 34]), [3, 3, 3]);
        mmu.flush_first_level();
        assert_eq!(levels(&mut mmu, [7, 2, 33]), [2, 1, 2]);
    }
}

/// Shootdowns of 2MB, and of address spaces, end the blocks that they cover in both levels, and no others.
#[test]
fn larger_shootdowns_end_blocks() {
    let large = |page| Shootdown::Large { space: SPACE, page, size: PageSize::Size2M };
    for (shootdown, level) in [
        (large(FIRST), 3),
        (large(FIRST.add(511)), 3),
        (large(FIRST.add(512)), 1),
        (Shootdown::Space { space: SPACE }, 3),
        (Shootdown::Space { space: MACHINE }, 1),
    ] {
        let mut mmu = joined(Contiguity::Napot);
        assert_eq!(levels(&mut mmu, [5, 20, 6]), [3, 3, 1]);
        mmu.apply(&Update::Shootdown(shootdown));
        assert_eq!(levels(&mut mmu, [7, 21]), [level; 2], "{shootdown:?}");
    }
}

/// The entry of a block is shown with its first page and frame, in both levels.
#[test]
fn a_block_is_shown_with_its_pages() {
    let mut mmu = joined(Contiguity::ContiguousBit);
    levels(&mut mmu, [21]);
    let mut entries = Vec::new();
    mmu.inspect(&mut entries);
    let shown: Vec<_> = entries
        .iter()
        .filter_map(|entry| match entry.content {
            CachedContent::Page { kind, frame, filter, .. } => {
                Some((entry.unit, entry.first, entry.pages, kind, frame.number(), filter))
            }
            _ => None,
        })
        .collect();
    let block = |unit| (unit, FIRST.add(16), 16, EntryKind::Run, FRAME + 16, 0);
    assert_eq!(shown, [Unit::L1DataTlb, Unit::L2Tlb].map(block));
}

/// With one entry for 64KB, the four entries of the first level hold 256KB.
#[test]
fn without_the_first_level_pages_are_held_one_by_one_there() {
    let mut config = config(CoalescingForm::ContiguousBit, 16);
    config.tlb.l1_coalescing = false;
    let mut mmu = unit(&config, FRAME);
    join(&mut mmu, SPACE, FIRST, Some(Contiguity::ContiguousBit));
    assert_eq!(levels(&mut mmu, [0, 1, 2, 3, 4, 0, 4]), [3, 2, 2, 2, 2, 2, 1]);
}

/// Each of Arm's entries has its own frame; those of Svnapot are equal: 0b1000 in the lowest bits.
#[test]
fn the_entries_in_memory() {
    let mmu = joined(Contiguity::ContiguousBit);
    for page in 0..16 {
        assert_eq!(entry(&mmu, page).frame().number(), FRAME + page);
    }
    let mmu = joined(Contiguity::Napot);
    for page in 0..32 {
        assert_eq!(entry(&mmu, page).frame().number(), FRAME + page / 16 * 16 + 8);
        let found = mmu.dimension().look_at(SPACE, FIRST.add(page)).unwrap();
        assert_eq!(found.frame.number(), FRAME + page);
    }
}

#[test]
fn a_shootdown_of_one_page_takes_the_whole_block() {
    for contiguity in BOTH {
        let mut mmu = joined(contiguity);
        levels(&mut mmu, [0, 16]);
        // As the kernel unmaps page 5: it parts the block first.
        join(&mut mmu, SPACE, FIRST, None);
        let page = FIRST.add(5);
        apply(&mut mmu, TableOperation::Unmap { space: SPACE, page, size: PageSize::Size4K });
        shoot_down(&mut mmu, 5);
        assert_eq!(held(&mmu), (0, 1));
        assert_eq!(access(&mut mmu, AccessKind::Read, 5), Err(PageFault::NotMapped));
        assert_eq!(levels(&mut mmu, [4, 6, 4, 17]), [3, 3, 1, 1]);
        assert_eq!(held(&mmu), (2, 1));
    }
}

/// A kernel that forgets to part the block: the walker believes the entries that it left.
#[test]
fn an_entry_that_goes_on_saying_contiguous_is_believed() {
    let mut mmu = joined(Contiguity::ContiguousBit);
    levels(&mut mmu, [0]);
    let page = FIRST.add(5);
    apply(&mut mmu, TableOperation::Unmap { space: SPACE, page, size: PageSize::Size4K });
    shoot_down(&mut mmu, 5);
    assert_eq!(access(&mut mmu, AccessKind::Read, 5), Err(PageFault::NotMapped));
    assert_eq!(levels(&mut mmu, [6]), [3]);
    assert_eq!(access(&mut mmu, AccessKind::Read, 5), Ok((FRAME + 5, 1)), "it is not mapped");
}

#[test]
fn a_change_of_one_pages_permissions_parts_the_block() {
    for contiguity in BOTH {
        let mut mmu = joined(contiguity);
        levels(&mut mmu, [0]);
        join(&mut mmu, SPACE, FIRST, None);
        let (page, size, permissions) = (FIRST.add(3), PageSize::Size4K, Permissions::READ);
        apply(&mut mmu, TableOperation::Protect { space: SPACE, page, size, permissions });
        shoot_down(&mut mmu, 3);
        assert_eq!(levels(&mut mmu, [3, 4]), [3, 3]);
        assert_eq!(access(&mut mmu, AccessKind::Write, 3), Err(PageFault::Protection));
        assert_eq!(access(&mut mmu, AccessKind::Write, 4), Ok((FRAME + 4, 1)));
        assert_eq!(held(&mmu), (2, 0));
    }
}

/// A store sets the dirty bit of one entry, and all pages of the block count as dirty.
#[test]
fn the_pages_of_a_block_share_their_dirty_bits() {
    for contiguity in BOTH {
        let mut mmu = joined(contiguity);
        let dirty = |mmu: &Mmu| -> Vec<u64> {
            (0..16).filter(|&page| entry(mmu, page).is_dirty()).collect()
        };
        assert_eq!(levels(&mut mmu, [3]), [3]);
        assert_eq!(access(&mut mmu, AccessKind::Write, 4), Ok((FRAME + 4, 1)));
        assert_eq!(dirty(&mmu), [4]);
        assert_eq!(access(&mut mmu, AccessKind::Write, 9), Ok((FRAME + 9, 1)));
        mmu.flush_first_level();
        assert_eq!(access(&mut mmu, AccessKind::Write, 10), Ok((FRAME + 10, 2)));
        assert_eq!(dirty(&mmu), [4], "the entries of both levels were dirty");
        for page in 0..16 {
            let found = mmu.dimension().look_at(SPACE, FIRST.add(page)).unwrap();
            assert_ne!(found.allows & allow::DIRTY, 0, "software sees all of them dirty");
        }
        // The walk reads the entry of page 9, which is clean.
        mmu.flush();
        assert_eq!(levels(&mut mmu, [9]), [3]);
        assert_eq!(access(&mut mmu, AccessKind::Write, 9), Ok((FRAME + 9, 1)));
        assert_eq!(dirty(&mmu), [4, 9]);
        // Parted, each entry has what it stood for.
        join(&mut mmu, SPACE, FIRST, None);
        assert_eq!(dirty(&mmu), (0..16).collect::<Vec<_>>());
    }
}

/// Four pages in aligned frames are a group; in frames from 0x9001 on, consecutive ones are not.
#[test]
fn aligned_groups_have_aligned_frames() {
    let config = config(CoalescingForm::AlignedGroups, 4);
    let mut mmu = unit(&config, FRAME);
    assert_eq!(levels(&mut mmu, [5, 4, 7, 8]), [3, 2, 2, 3]);
    assert_eq!(held(&mmu), (0, 2));
    let mut mmu = unit(&config, FRAME + 1);
    for page in 4..8 {
        assert_eq!(access(&mut mmu, AccessKind::Read, page), Ok((FRAME + 1 + page, 3)));
    }
    assert_eq!(held(&mmu), (4, 0));
}

/// A store to one page of a clean group must set the dirty bit of this page, so the first level
/// holds the pages of the group one by one. A group of dirty pages, and one that cannot be written,
/// is one entry.
#[test]
fn the_first_level_holds_groups_that_need_no_dirty_bit() {
    let config = config(CoalescingForm::AlignedGroups, 4);
    let mut mmu = unit(&config, FRAME);
    assert_eq!(levels(&mut mmu, [0, 1, 1]), [3, 2, 1], "clean");
    for page in 4..8 {
        access(&mut mmu, AccessKind::Write, page).unwrap();
    }
    mmu.flush();
    assert_eq!(levels(&mut mmu, [4, 5, 7]), [3, 1, 1], "dirty");
    assert_eq!(access(&mut mmu, AccessKind::Write, 6), Ok((FRAME + 6, 1)));
    for page in 8..12 {
        let (page, size, permissions) = (FIRST.add(page), PageSize::Size4K, Permissions::READ);
        apply(&mut mmu, TableOperation::Protect { space: SPACE, page, size, permissions });
    }
    assert_eq!(levels(&mut mmu, [8, 11]), [3, 1], "read-only");
    shoot_down(&mut mmu, 10);
    assert_eq!(levels(&mut mmu, [8, 11, 5]), [3, 1, 1]);
}

/// A guest whose page 0 has guest frame 0x9000; its tables are pages 0x11 to 0x14 of its memory.
/// The host maps the guest's memory from 0x8000 on with frames from 0x4_0000 on, by 4KB pages or by
/// one of 2MB.
fn guest(size: PageSize, host_size: PageSize) -> Mmu {
    let config = config(CoalescingForm::ContiguousBit, 16);
    let host = Host::new(&config, Box::new(Radix::new()), MACHINE);
    let mut mmu = Mmu::new(&config, Box::new(Nested::new(Box::new(Radix::new()), host))).unwrap();
    mmu.switch(SPACE);
    add_nodes(&mut mmu, MACHINE, 0, 0x7_0000);
    for table in 0x11..0x15 {
        map(&mut mmu, MACHINE, VirtualPage::new(table), 0x6_0000 + table, PageSize::Size4K);
    }
    let page = VirtualPage::new(FRAME);
    match host_size {
        PageSize::Size4K => {
            let (level, frame) = (1, Frame::new(0x7_0010));
            let node = TableOperation::AddNode { space: MACHINE, level, page, frame, branch: 0 };
            apply(&mut mmu, node);
            (0..32).for_each(|at| map(&mut mmu, MACHINE, page.add(at), 0x4_0000 + at, host_size));
        }
        _ => map(&mut mmu, MACHINE, page, 0x4_0000, host_size),
    }
    add_nodes(&mut mmu, SPACE, FIRST.number(), 0x10);
    match size {
        PageSize::Size4K => {
            (0..32).for_each(|at| map(&mut mmu, SPACE, FIRST.add(at), FRAME + at, size));
        }
        _ => {
            let (level, page) = (1, FIRST);
            apply(&mut mmu, TableOperation::RemoveNode { space: SPACE, level, page, branch: 0 });
            map(&mut mmu, SPACE, FIRST, FRAME, size);
        }
    }
    mmu
}

/// Levels that translate a page, its neighbour, and a page of the next block.
fn nested_levels(mmu: &mut Mmu) -> [u8; 3] {
    [3, 4, 20].map(|page| {
        let (frame, level) = access(mmu, AccessKind::Read, page).unwrap();
        assert_eq!(frame, 0x4_0000 + page);
        level
    })
}

/// A combined entry covers what both the guest's and the host's entry cover.
#[test]
fn nested_blocks_are_those_of_guest_and_host() {
    use PageSize::{Size2M, Size4K};
    let bit = Some(Contiguity::ContiguousBit);
    let guest_block = FIRST;
    let host_block = VirtualPage::new(FRAME);
    for (size, host_size, in_guest, in_host, neighbour) in [
        (Size4K, Size4K, true, true, 1),
        (Size4K, Size4K, true, false, 3),
        (Size4K, Size4K, false, true, 3),
        (Size4K, Size2M, true, false, 1),
        (Size4K, Size2M, false, false, 3),
        (Size2M, Size4K, false, true, 1),
        (Size2M, Size4K, false, false, 3),
    ] {
        let mut mmu = guest(size, host_size);
        if in_guest {
            join(&mut mmu, SPACE, guest_block, bit);
        }
        if in_host {
            join(&mut mmu, MACHINE, host_block, bit);
        }
        let case = format!("{size:?} {in_guest} over {host_size:?} {in_host}");
        assert_eq!(nested_levels(&mut mmu), [3, neighbour, 3], "{case}");
        assert_eq!(held(&mmu).1 > 0, neighbour == 1, "{case}");
        // A change by the host takes all that was combined.
        if in_host {
            join(&mut mmu, MACHINE, host_block, None);
            let page = VirtualPage::new(FRAME + 7);
            mmu.apply_host(&Update::Shootdown(Shootdown::Page { space: MACHINE, page }));
            assert_eq!(nested_levels(&mut mmu), [3, 3, 3], "{case}");
        }
    }
}

#[test]
fn impossible_coalescing_is_refused() {
    for form in [CoalescingForm::ContiguousBit, CoalescingForm::Napot] {
        let refused = config(form, 8).validate().unwrap_err();
        assert_eq!(refused, ConfigError::Coalescing { pages: 8 });
        assert!(refused.to_string().ends_with("16 with a contiguous bit or NAPOT entries"));
    }
    let mut without = config(CoalescingForm::Runs, 8);
    assert_eq!(without.validate(), Err(ConfigError::FirstLevelCoalescing));
    without.tlb.l2_coalescing = None;
    assert_eq!(without.validate(), Err(ConfigError::FirstLevelCoalescing));
    assert!(config(CoalescingForm::Groups, 8).validate().is_ok());
}
