//! Gap-tolerant superpages of a guest, of its host, and of both, without a nested TLB: a host walk
//! locates every table of the guest.
//!
//! The guest's tables are those of `address_spaces`; its level-1 node is guest frame 0x30. The host
//! maps guest frames 0 to 2,047, either by 4KB pages to frames 0x1_0000 + 5*n* mod 2,048, or by
//! superpages whose slices begin at 0x1_0000.

use perforate_mmu::{
    CachedContent, CachedEntry, Dimension, Host, Mmu, MmuConfig, Nested, PageFault, Radix,
    TlbGeometry, VirtualizationConfig,
};
use perforate_schemes::gap_tolerant::GapTolerantRadix;
use perforate_schemes::gap_tolerant::SuperpageOperation;
use perforate_types::{
    AccessKind, Action, Frame, GapTolerance, GuestFrame, PageSize, Purpose, Shootdown, SpaceId,
    Steps, TableOperation, Unit, Update, VirtualPage,
};

use super::address_spaces::*;

const MACHINE: SpaceId = SpaceId(0);
const GUEST_FRAMES: u64 = 2048;
const BACKING: u64 = 0x1_0000;

fn host_table(level: u8, first: u64, frame: u64) -> Update {
    let (page, frame) = (VirtualPage::new(first), Frame::new(frame));
    TableOperation::AddNode { space: MACHINE, level, page, frame, branch: 0 }.into()
}

fn host_nodes() -> Vec<Update> {
    vec![host_table(4, 0, 0x8000), host_table(3, 0, 0x8001), host_table(2, 0, 0x8004)]
}

/// Frame of guest frame `n` in a host of 4KB pages. Consecutive guest frames are never consecutive
/// in the machine.
fn scattered(n: u64) -> u64 {
    BACKING + n * 5 % GUEST_FRAMES
}

fn host_of_pages() -> (Box<dyn Dimension>, Vec<Update>) {
    let mut changes = host_nodes();
    changes.extend((0..4).map(|region| host_table(1, region * 512, 0x8010 + region)));
    changes.extend((0..GUEST_FRAMES).map(|n| {
        Update::Table(TableOperation::Map {
            space: MACHINE,
            page: VirtualPage::new(n),
            size: PageSize::Size4K,
            frame: Frame::new(scattered(n)),
            permissions: RW,
        })
    }));
    (Box::new(Radix::new()), changes)
}

fn host_superpage(mode: GapTolerance, first: u64) -> Update {
    // The slices of a pair are this one and the next: twice as many frames as pages.
    let slice = Frame::new(BACKING + 2 * first);
    let second = if mode.is_paired() { slice.add(mode.slice_frames()) } else { slice };
    let (page, selection, permissions) = (VirtualPage::new(first), SELECTION, RW);
    SuperpageOperation::Map { space: MACHINE, page, mode, slice, second, selection, permissions }
        .into()
}

fn host_of_superpages(mode: GapTolerance) -> (Box<dyn Dimension>, Vec<Update>) {
    let mut changes = host_nodes();
    let firsts = (0..GUEST_FRAMES).step_by(mode.entry_pages() as usize);
    changes.extend(firsts.map(|first| host_superpage(mode, first)));
    (Box::new(GapTolerantRadix::new(mode)), changes)
}

/// Frame of guest frame `n` in a host of superpages, by counting the selected B-blocks one by one.
fn selected(mode: GapTolerance, n: u64) -> u64 {
    let superpage = n / mode.superpage_pages() * mode.superpage_pages();
    let block = (n - superpage) / mode.block_frames();
    let bit = (0..64).filter(|bit| SELECTION >> bit & 1 != 0).nth(block as usize).unwrap();
    BACKING + 2 * superpage + bit * mode.block_frames() + n % mode.block_frames()
}

fn virtualized(level2_entries: usize, host_level2_entries: usize) -> MmuConfig {
    let virtualization = VirtualizationConfig {
        nested_tlb: Some(TlbGeometry { entries: 0, ways: 1 }),
        host_walk_cache: Some(config(host_level2_entries).walk_cache),
        ..VirtualizationConfig::default()
    };
    MmuConfig { virtualization, ..config(level2_entries) }
}

fn unit(
    config: &MmuConfig,
    (guest, guest_changes): (Box<dyn Dimension>, Vec<Update>),
    (host, host_changes): (Box<dyn Dimension>, Vec<Update>),
) -> Mmu {
    let host = Host::new(config, host, MACHINE);
    let nested = Nested::new(guest, host);
    let mut mmu = Mmu::new(config, Box::new(nested)).unwrap();
    mmu.switch(SPACE);
    nodes().into_iter().chain(guest_changes).for_each(|change| mmu.apply(&change));
    host_changes.into_iter().for_each(|change| mmu.apply_host(&change));
    mmu
}

fn guest(mode: GapTolerance, changes: Vec<Update>) -> (Box<dyn Dimension>, Vec<Update>) {
    (Box::new(GapTolerantRadix::new(mode)), changes)
}

fn guest_reads(reads: &[(Purpose, u64)]) -> Vec<u64> {
    reads.iter().filter(|(purpose, _)| !purpose.is_host()).map(|&(_, address)| address).collect()
}

/// 3 × (4 + 1) + 4 reads to a superpage, 4 × (4 + 1) + 4 to a 4KB page. Padding costs one more read
/// without a host walk, since it is in the same page of the directory. The 16KB of the directory
/// are scattered in the machine.
#[test]
fn a_guest_directory_of_16kb_is_located_page_by_page() {
    let mode = GapTolerance::SINGLE_1M;
    for frame in 0..4 {
        // The last entry of each 4KB of the directory is an odd half; the entry before is an even
        // half.
        let last = (frame + 1) * 256 - 1;
        let region = (last - 3) / 2 * 512;
        let changes = vec![
            superpage(mode, last * 256, 512, SELECTION),
            table(1, region, 0x30),
            map(region + 256, 0x600),
        ];
        let mut mmu = unit(&virtualized(0, 0), guest(mode, changes), host_of_pages());
        let outcome = load(&mut mmu, last * 256 + 9);
        assert_eq!(outcome.frame, Ok(scattered(512 + 3 * 8 + 1)));
        assert_eq!((outcome.reads.len(), outcome.selections), (19, 1));
        let directory = scattered(DIRECTORY + frame) << 12;
        let above = [scattered(ROOT) << 12, (scattered(LEVEL3) << 12) + 8];
        assert_eq!(guest_reads(&outcome.reads), [above[0], above[1], directory + 4080]);
        let outcome = load(&mut mmu, region + 256);
        assert_eq!((outcome.frame, outcome.reads.len()), (Ok(scattered(0x600)), 25));
        let level1 = (scattered(0x30) << 12) + 256 * 8;
        let offset = region / 512 * 32 % 4096;
        let expected = [above[0], above[1], directory + offset + 16, directory + offset, level1];
        assert_eq!(guest_reads(&outcome.reads), expected);
    }
}

/// A cached level-3 entry holds the located page of the directory. Another page of the directory is
/// located again.
#[test]
fn a_cached_entry_above_the_directory_serves_every_page_of_it() {
    let mode = GapTolerance::SINGLE_2M;
    let entries = [0, 1, 256, 257, 3].map(|k| superpage(mode, k * 512, 1024, SELECTION));
    let mut mmu = unit(&virtualized(4, 0), guest(mode, entries.into()), host_of_pages());
    let expected = [(0, 19), (1, 5), (256, 9), (257, 9), (3, 5)];
    for (entry, reads) in expected {
        let outcome = load(&mut mmu, entry * 512);
        assert_eq!((outcome.frame, outcome.reads.len()), (Ok(scattered(1024 + 16)), reads));
        let directory = scattered(DIRECTORY + entry / 256) << 12;
        let last = guest_reads(&outcome.reads).pop();
        assert_eq!(last, Some(directory + entry % 256 * 16));
    }
    // With entries in the walk cache, only the data page is located.
    let outcome = load(&mut mmu, 3 * 512 + 1);
    assert_eq!((outcome.reads.len(), outcome.selections), (4, 1));
}

/// The host's superpages take 3 reads for each of the guest's tables and for the data, and none if
/// the host's walk cache has the entries.
#[test]
fn a_host_of_superpages_in_every_mode() {
    for mode in GapTolerance::ALL {
        let changes = vec![table(1, 0, 0x30), map(5, 0x600)];
        let ordinary: (Box<dyn Dimension>, _) = (Box::new(Radix::new()), changes);
        let mut mmu = unit(&virtualized(0, 0), ordinary, host_of_superpages(mode));
        let outcome = load(&mut mmu, 5);
        assert_eq!(outcome.frame, Ok(selected(mode, 0x600)), "{}", mode.label());
        assert_eq!((outcome.reads.len(), outcome.selections), (4 * 4 + 3, 5));
        let directory = (selected(mode, DIRECTORY) << 12, Purpose::Level2);
        assert!(outcome.reads.contains(&(directory.1, directory.0)));

        let changes = vec![superpage(mode, 0, 0, SELECTION)];
        let both = unit(&virtualized(0, 16), guest(mode, changes), host_of_superpages(mode));
        let mut mmu = both;
        let cold = load(&mut mmu, 0);
        let data = selected(mode, mode.block_frames());
        assert_eq!((cold.frame, cold.selections), (Ok(data), 1 + 4));
        mmu.flush_first_level();
        mmu.evict_page(SPACE, page(0));
        let warm = load(&mut mmu, 0);
        assert_eq!((warm.frame, warm.selections), (Ok(data), 1 + 4));
        assert_eq!(warm.reads.len(), 3, "the guest's own: {:?}", warm.reads);
        let counters = mmu.counters();
        assert_eq!(counters.gap_tolerant_translations, 10);
        assert!(counters.walk_cache_gap_tolerant_hits >= 4, "four of the second walk at least");
    }
}

/// The host writes the mode of its tables to the register, on every core. Its walk caches then hold entries of
/// that mode: a guest's pages in different superpages are never taken for each other.
#[test]
fn the_hosts_register_selects_the_size_of_cached_entries() {
    for (made, mode) in [
        (GapTolerance::SINGLE_4M, GapTolerance::SINGLE_1M),
        (GapTolerance::SINGLE_1M, GapTolerance::SINGLE_4M),
    ] {
        let (_, changes) = host_of_superpages(mode);
        let set = TableOperation::SetControl { space: MACHINE, control: mode.control() };
        let host = Box::new(GapTolerantRadix::new(made));
        let config = virtualized(0, 16);
        let nested = Nested::new(Box::new(Radix::new()), Host::new(&config, host, MACHINE));
        let mut mmu = Mmu::new(&config, Box::new(nested)).unwrap();
        mmu.set_cores(2);
        [Update::from(set)].iter().chain(&changes).for_each(|change| mmu.apply_host(change));
        let own = [table(1, 0, 0x30)].into_iter();
        let own = own.chain((0..8).map(|index| map(index, 0x80 + index * 0xf0)));
        nodes().into_iter().chain(own).for_each(|change| mmu.apply(&change));
        for core in [0, 1] {
            mmu.run_on(core);
            mmu.switch(SPACE);
            for index in 0..8 {
                let outcome = load(&mut mmu, index);
                assert_eq!(outcome.frame, Ok(selected(mode, 0x80 + index * 0xf0)), "page {index}");
            }
            let mut entries = Vec::new();
            mmu.inspect(&mut entries);
            let is_leaf = |entry: &&CachedEntry| {
                entry.content == CachedContent::Leaf && entry.unit == Unit::HostWalkCache
            };
            let mut leaves: Vec<_> = entries
                .iter()
                .filter(is_leaf)
                .map(|entry| (entry.first.number(), entry.pages, entry.is_guest_physical))
                .collect();
            leaves.sort_unstable();
            let length = mode.entry_pages();
            let all = (0..0x800 / length).map(|leaf| (leaf * length, length, true));
            assert_eq!(leaves, all.collect::<Vec<_>>(), "core {core}");
        }
    }
}

/// After the host unmaps a page, an access faults; after it maps the page again, the access
/// succeeds.
#[test]
fn a_shootdown_of_the_host_ends_its_cached_entry() {
    let mode = GapTolerance::SINGLE_2M;
    let changes = vec![superpage(mode, 0, 1024, SELECTION)];
    let mut mmu = unit(&virtualized(8, 8), guest(mode, changes), host_of_superpages(mode));
    let data = 1024 + 16;
    assert_eq!(load(&mut mmu, 0).frame, Ok(selected(mode, data)));
    let (space, page) = (MACHINE, VirtualPage::new(1024));
    mmu.apply_host(&SuperpageOperation::Unmap { space, page, mode }.into());
    mmu.apply_host(&Shootdown::Superpage { space, page, mode }.into());
    let fault = load(&mut mmu, 0).frame;
    assert!(
        matches!(fault, Err(PageFault::Host(fault)) if fault.page == GuestFrame::new(data)),
        "{fault:?}"
    );
    mmu.apply_host(&host_superpage(mode, 1024));
    assert_eq!(load(&mut mmu, 0).frame, Ok(selected(mode, data)));
}

/// A store sets the dirty bits of both entries, even if both are cached clean.
#[test]
fn a_store_dirties_the_entries_of_guest_and_host() {
    let mode = GapTolerance::PAIRED_4M;
    let changes = vec![pair(mode, 0, [0, 1024], SELECTION)];
    let mut mmu = unit(&virtualized(8, 8), guest(mode, changes), host_of_superpages(mode));
    let is_dirty = |mmu: &Mmu, frame: u64| {
        let nested = mmu.dimension();
        let host = nested.host().unwrap().look_at(GuestFrame::new(frame)).unwrap();
        let both = nested.look_at(SPACE, page(16)).unwrap();
        (
            both.allows & perforate_mmu::allow::DIRTY != 0,
            host.allows & perforate_mmu::allow::DIRTY != 0,
        )
    };
    load(&mut mmu, 16);
    // The host's first entry covers the guest's tables, which are written, and also the data of
    // block 1.
    assert_eq!(is_dirty(&mmu, 3 * 16), (false, true));
    assert_eq!(access(&mut mmu, AccessKind::Write, page(17)).frame, Ok(selected(mode, 3 * 16 + 1)));
    assert_eq!(is_dirty(&mmu, 3 * 16), (true, true));
}

/// A guest's TLB of gap-tolerant entries ends the guest's dimension of a walk at its start: only the data is
/// located in the host. A store through the entry sets its dirty bit.
#[test]
fn a_guests_tlb_of_whole_superpages_takes_the_place_of_its_tables() {
    let mode = GapTolerance::SINGLE_4M;
    let tables = GapTolerantRadix::with_native_tlb(mode, TlbGeometry { entries: 4, ways: 4 });
    let changes = vec![superpage(mode, 0, 0, SELECTION)];
    let mut mmu = unit(&virtualized(0, 0), (Box::new(tables), changes), host_of_pages());
    let cold = load(&mut mmu, 0);
    assert_eq!((cold.frame, cold.reads.len()), (Ok(scattered(32)), 3 * 5 + 4));
    for (index, kind, dirty) in [(1, AccessKind::Read, false), (2, AccessKind::Write, true)] {
        let mut steps = Steps::new();
        let found = mmu.translate(kind, page(index).address(), &mut steps).unwrap();
        assert_eq!(found.physical.page().number(), scattered(32 + index));
        let mut reads = 0;
        let mut others = Vec::new();
        for step in steps.as_slice() {
            match (step.purpose.is_host(), step.action) {
                (true, Action::Read { .. }) => reads += 1,
                (_, Action::Hit { unit: Unit::SidebandTlb, .. } | Action::Select) => {
                    others.push((step.purpose, step.action));
                }
                _ => {}
            }
        }
        let hit = Action::Hit { unit: Unit::SidebandTlb, slot: 0 };
        assert_eq!(others, [(Purpose::Page, hit), (Purpose::Page, Action::Select)]);
        assert_eq!(reads, 4, "the data is located by a walk of the host");
        let known = mmu.dimension().look_at(SPACE, page(index)).unwrap();
        assert_eq!(known.allows & perforate_mmu::allow::DIRTY != 0, dirty);
    }
}
