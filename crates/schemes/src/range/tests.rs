//! Ranges worked out by hand: eager paging, the range table, the range TLB.

use perforate_mmu::{Case, Host, Mmu, MmuConfig, Nested, Radix, TlbGeometry};
use perforate_os::{Kernel, KernelConfig};
use perforate_types::{
    AccessKind, Action, Advice, Backing, Counters, FormatOperation, Frame, PageRun, PageSize,
    Permissions, PhysicalAddress, ProcessId, ProgramEvent, Purpose, SpaceId, Steps, TableOperation,
    ThreadId, Unit, VirtualAddress, VirtualPage, Written,
};

use super::dimension::Ranged;
use super::kernel::EagerPaging;
use super::table::{RangeEntry, RangeOperation, nodes};

const MB: u64 = 1 << 20;
/// First address of the test program's memory, 1GB.
const BASE: u64 = 1 << 30;
const FIRST: u64 = BASE >> 12;

/// Configuration with large TLBs and without walk caches.
fn config(range_tlb_entries: usize) -> MmuConfig {
    let mut config = MmuConfig::plain(
        TlbGeometry { entries: 64, ways: 4 },
        TlbGeometry { entries: 1536, ways: 12 },
    );
    config.tlb.beside_entries = range_tlb_entries;
    config
}

fn hardware(range_tlb_entries: usize) -> Mmu {
    let ranged = Ranged::new(Box::new(Radix::new()), range_tlb_entries);
    Mmu::new(&config(range_tlb_entries), Box::new(ranged)).expect("a unit")
}

/// A kernel with eager paging, and hardware that receives all its updates.
struct System {
    kernel: Kernel,
    mmu: Mmu,
    steps: Steps,
}

impl System {
    fn new(memory_bytes: u64) -> Self {
        let kernel = Kernel::new(KernelConfig::new(memory_bytes), Box::new(EagerPaging));
        let mut system =
            Self { kernel: kernel.expect("a kernel"), mmu: hardware(32), steps: Steps::new() };
        system.mmu.switch(system.kernel.current());
        system
    }

    fn apply(&mut self) {
        self.kernel.updates().drain(..).for_each(|update| self.mmu.apply(&update));
    }

    /// Runs an event of the program, and the backing in advance that follows.
    fn event(&mut self, event: &ProgramEvent) {
        self.kernel.event(event).expect("the event is right");
        self.apply();
        while self.kernel.has_work_in_advance() {
            self.kernel.proceed().expect("the space is there");
            self.apply();
        }
        self.kernel.check_invariants().expect("ranges say what page tables say");
    }

    fn map(&mut self, start: u64, length: u64) {
        self.event(&ProgramEvent::Map {
            start: VirtualAddress::new(start),
            length,
            permissions: Permissions::READ_WRITE,
            accessible: true,
            backing: Backing::Anonymous,
            shared: false,
            populate: false,
        });
    }

    fn fault(&mut self, page: u64, kind: AccessKind) {
        let space = self.kernel.current();
        let page = VirtualPage::new(page);
        self.kernel.fault(space, page, kind).expect("there is memory");
        self.apply();
        self.kernel.check_invariants().expect("ranges say what page tables say");
    }

    /// Translates a load. Returns the case of the translation, and true if it needed a walk; `None`
    /// if the page is not mapped.
    fn load(&mut self, page: u64) -> Option<(Case, bool)> {
        let address = VirtualPage::new(page).address();
        let found = self.mmu.translate(AccessKind::Read, address, &mut self.steps).ok()?;
        let table = self.mmu.dimension().look_at(self.kernel.current(), address.page());
        let frame = table.expect("page tables have it").frame_of(address.page());
        assert_eq!(found.physical, frame.address(), "page {page:#x}");
        Some((found.case, found.walked))
    }

    /// Translations by the range TLB, its fills, and searches of range tables.
    fn uses(&self) -> [f64; 3] {
        let mut counters = Counters::default();
        self.mmu.record_sideband(&mut counters);
        let names = ["range_translations", "range_tlb_fills", "range_table_searches"];
        names.map(|name| counters.get(name).expect(name))
    }

    fn counter(&self, name: &str) -> u64 {
        let mut counters = Counters::default();
        self.kernel.counters(&mut counters);
        counters.get(name).expect(name) as u64
    }
}

const RANGE_TLB: Option<(Case, bool)> = Some((Case::Beside, false));
const WALK: Option<(Case, bool)> = Some((Case::Regular, true));

#[test]
fn a_mapping_is_backed_at_once_and_is_one_range() {
    let mut system = System::new(64 * MB);
    system.map(BASE, 8 * MB);
    let figures = ["ranges", "range_pages", "range_table_bytes", "pages_backed_in_advance"];
    assert_eq!(figures.map(|name| system.counter(name)), [1, 2048, 4096, 2048]);
    // The first load misses the range TLB and the second level and walks four levels. The
    // background then reads one line of the root, which has the only range.
    assert_eq!(system.load(FIRST + 5), WALK);
    let misses = |unit| Action::Miss { unit };
    let steps = system.steps.as_slice();
    assert_eq!(steps[0].action, misses(Unit::SidebandTlb));
    assert_eq!((steps[1].action, steps[1].stage), (misses(Unit::L2Tlb), steps[0].stage));
    assert_eq!(system.steps.reads()[Purpose::Level4 as usize..=Purpose::Level1 as usize], [1; 4]);
    let background: Vec<_> = system.steps.background().iter().map(|step| step.action).collect();
    assert!(matches!(background[0], Action::Read { .. }), "{background:?}");
    assert_eq!(background[1..], [Action::Fill { unit: Unit::SidebandTlb, slot: 0 }]);
    // No other page needs a walk.
    for page in [6, 700, 2047] {
        assert_eq!(system.load(FIRST + page), RANGE_TLB);
        let hit = Action::Hit { unit: Unit::SidebandTlb, slot: 0 };
        assert_eq!(system.steps.as_slice()[0].action, hit);
        assert!(system.steps.reads().iter().all(|&reads| reads == 0));
    }
    assert_eq!(system.uses(), [3.0, 1.0, 1.0]);
    // Memory without a range: the table is searched in vain.
    let beyond = BASE + 64 * MB;
    system.map(beyond, 4096);
    assert_eq!(system.load(beyond >> 12), WALK);
    assert_eq!(system.uses(), [3.0, 1.0, 2.0]);
    system.mmu.reset_counters();
    assert_eq!(system.uses(), [0.0; 3]);
    assert_eq!(system.load(FIRST + 8), RANGE_TLB);
    assert_eq!(system.uses(), [1.0, 0.0, 0.0]);
    assert_eq!(system.mmu.slots()[Unit::SidebandTlb as usize], 32);
    let unit = system.mmu.dimension().sideband_tlb().unwrap();
    assert_eq!((unit.name(), unit.slots()), ("range TLB", 32));
}

/// Areas that wait to be backed when a process ends are backed if they are another's, and only then.
#[test]
fn a_process_that_ends_takes_its_own_areas_along() {
    for is_own in [false, true] {
        let mut system = System::new(64 * MB);
        let event = |system: &mut System, event| {
            system.kernel.event(&event).expect("the event is right");
            system.apply();
        };
        let map = ProgramEvent::Map {
            start: VirtualAddress::new(BASE),
            length: 2 * MB,
            permissions: Permissions::READ_WRITE,
            accessible: true,
            backing: Backing::Anonymous,
            shared: false,
            populate: false,
        };
        event(&mut system, ProgramEvent::Fork { child: ProcessId(1) });
        if is_own {
            let (process, thread) = (ProcessId(1), ThreadId(0));
            event(&mut system, ProgramEvent::Switch { process, thread });
        }
        event(&mut system, map);
        event(&mut system, ProgramEvent::Exit { process: ProcessId(1) });
        while system.kernel.has_work_in_advance() {
            system.kernel.proceed().expect("there is memory");
            system.apply();
        }
        let backed = system.counter("pages_backed_in_advance");
        assert_eq!(backed, if is_own { 0 } else { 512 });
    }
}

/// A guest with ranges over a host with one 1GB page. A walk that hits the guest's range TLB marks the page's
/// entry dirty for a store that the range allows, and for no other access.
#[test]
fn a_store_by_a_range_of_a_guest_dirties_its_page() {
    let space = SpaceId(1);
    let host = SpaceId(0);
    let permissions = [Permissions::READ_WRITE, Permissions::READ];
    for (second, permissions) in permissions.into_iter().enumerate() {
        let config = config(4);
        let ranged = Box::new(Ranged::new(Box::new(Radix::new()), 4));
        let nested = Nested::new(ranged, Host::new(&config, Box::new(Radix::new()), host));
        let mut mmu = Mmu::new(&config, Box::new(nested)).unwrap();
        mmu.switch(space);
        let node = |space, level, page, frame| {
            let (page, frame) = (VirtualPage::new(page), Frame::new(frame));
            TableOperation::AddNode { space, level, page, frame, branch: 0 }
        };
        let map = |space, page, size, frame, permissions| {
            let (page, frame) = (VirtualPage::new(page), Frame::new(frame));
            TableOperation::Map { space, page, size, frame, permissions }
        };
        mmu.apply_host(&node(host, 4, 0, 0x900).into());
        mmu.apply_host(&node(host, 3, 0, 0x901).into());
        mmu.apply_host(&map(host, 0, PageSize::Size1G, 0, Permissions::ALL).into());
        for (level, frame) in [(4, 0x10), (3, 0x11), (2, 0x12), (1, 0x13)] {
            mmu.apply(&node(space, level, FIRST, frame).into());
        }
        for page in 0..4 {
            let change = map(space, FIRST + page, PageSize::Size4K, 0x100 + page, permissions);
            mmu.apply(&change.into());
        }
        let range =
            RangeEntry { start: FIRST, end: FIRST + 4, frame: Frame::new(0x100), permissions };
        let words = nodes(&[range])[0].words(&[Frame::new(0x20)]);
        mmu.apply(&RangeOperation::Node { space, frame: Frame::new(0x20), words }.into());
        mmu.apply(&RangeOperation::Root { space, root: Some(Frame::new(0x20)) }.into());
        let mut steps = Steps::new();
        for (page, kind) in [(0, AccessKind::Read), (1, AccessKind::Write), (2, AccessKind::Read)] {
            let address = VirtualPage::new(FIRST + page).address();
            let found = mmu.translate(kind, address, &mut steps);
            assert_eq!(found.is_ok(), kind == AccessKind::Read || second == 0);
            let is_hit = |step: &perforate_types::Step| {
                matches!(step.action, Action::Hit { unit: Unit::SidebandTlb, .. })
            };
            assert_eq!(steps.as_slice().iter().any(is_hit), page > 0, "page {page}");
        }
        let is_dirty = |page: u64| {
            let place = Frame::new(0x13).address().add(8 * page);
            mmu.dimension().memory().entry(place).is_dirty()
        };
        assert_eq!([0, 1, 2, 3].map(is_dirty), [false, second == 0, false, false]);
    }
}

/// Only private anonymous memory that may be read is backed before its first touch.
#[test]
fn other_memory_is_backed_by_touches() {
    let anonymous = (Backing::Anonymous, false, true);
    let others = [
        (Backing::Anonymous, true, true),
        (Backing::File, false, true),
        (Backing::Anonymous, false, false),
    ];
    for (backing, shared, accessible) in others.into_iter().chain([anonymous]) {
        let mut system = System::new(64 * MB);
        system.event(&ProgramEvent::Map {
            start: VirtualAddress::new(BASE),
            length: 2 * MB,
            permissions: Permissions::READ_WRITE,
            accessible,
            backing,
            shared,
            populate: false,
        });
        let is_backed = (backing, shared, accessible) == anonymous;
        let pages = if is_backed { 512 } else { 0 };
        assert_eq!(system.counter("pages_backed_in_advance"), pages, "{backing:?} {shared}");
        assert_eq!(system.counter("range_pages"), pages);
        assert_eq!(system.kernel.mapped_bytes(), pages * 4096);
    }
}

#[test]
fn contiguous_pages_are_one_range() {
    let mut system = System::new(64 * MB);
    // The heap grows twice. Its frames may or may not be contiguous, but all pages are in ranges.
    for end in [MB, 2 * MB] {
        let (start, end) = (VirtualAddress::new(BASE), VirtualAddress::new(BASE + end));
        system.event(&ProgramEvent::Brk { start, end });
    }
    assert_eq!(system.counter("range_pages"), 512);
    let before = system.counter("ranges");
    system.event(&ProgramEvent::Protect {
        start: VirtualAddress::new(BASE + 16 * 4096),
        length: 4 * 4096,
        permissions: Permissions::READ,
        accessible: true,
    });
    // Three ranges: before the protected pages, the protected pages, and after.
    assert_eq!((system.counter("ranges"), system.counter("range_pages")), (before + 2, 512));
}

#[test]
fn a_page_leaves_its_range() {
    let mut system = System::new(64 * MB);
    system.map(BASE, 4 * MB);
    assert_eq!((system.load(FIRST), system.load(FIRST + 1)), (WALK, RANGE_TLB));
    let start = VirtualAddress::new(BASE + 100 * 4096);
    system.event(&ProgramEvent::Advise { start, length: 4096, advice: Advice::DontNeed });
    assert_eq!((system.counter("ranges"), system.counter("range_pages")), (2, 1023));
    assert_eq!(system.load(FIRST + 100), None, "the range TLB forgot the range with the page");
    // Both parts are found again in the range table.
    assert_eq!((system.load(FIRST + 2), system.load(FIRST + 3)), (WALK, RANGE_TLB));
    assert_eq!((system.load(FIRST + 101), system.load(FIRST + 102)), (WALK, RANGE_TLB));
    // A touch maps the page again, outside all ranges.
    system.fault(FIRST + 100, AccessKind::Read);
    assert_eq!(system.load(FIRST + 100), WALK);
    assert_eq!(system.counter("range_pages"), 1023);
}

#[test]
fn a_fork_leaves_ranges_that_may_be_read() {
    let mut system = System::new(64 * MB);
    system.map(BASE, 2 * MB);
    system.event(&ProgramEvent::Fork { child: ProcessId(1) });
    assert_eq!((system.counter("ranges"), system.counter("range_pages")), (2, 1024));
    assert_eq!((system.load(FIRST), system.load(FIRST + 1)), (WALK, RANGE_TLB));
    system.fault(FIRST + 7, AccessKind::Write);
    assert_eq!(system.counter("range_pages"), 1023, "the copy is the writer's");
    system.event(&ProgramEvent::Exit { process: ProcessId(1) });
    assert_eq!(system.counter("range_pages"), 511);
}

#[test]
fn memory_that_is_short_is_backed_by_touches() {
    let mut system = System::new(32 * MB);
    system.map(BASE, 256 * MB);
    let backed = system.counter("pages_backed_in_advance");
    assert!((1000..32 * MB / 4096).contains(&backed), "{backed}");
    system.event(&ProgramEvent::Unmap { start: VirtualAddress::new(BASE), length: 256 * MB });
    let left = ["ranges", "range_table_bytes"].map(|name| system.counter(name));
    assert_eq!(left, [0, 0]);
}

/// Maps an area of 64TB, far more than memory can hold: the work must not grow with the size of the
/// area.
#[test]
fn a_vast_area_is_backed_as_far_as_memory_goes() {
    let mut system = System::new(32 * MB);
    let length = 1 << 46;
    system.map(BASE, length);
    let backed = system.counter("pages_backed_in_advance");
    assert!((1000..32 * MB / 4096).contains(&backed), "{backed}");
    // A page at the other end is found although no page in between is mapped.
    let start = VirtualAddress::new(BASE);
    system.event(&ProgramEvent::Unmap { start, length: 16 * MB });
    let pages = system.counter("range_pages");
    let last = FIRST + length / 4096 - 2;
    system.fault(last, AccessKind::Write);
    system.fault(last + 1, AccessKind::Write);
    let permissions = Permissions::READ;
    system.event(&ProgramEvent::Protect { start, length, permissions, accessible: true });
    assert!(system.counter("range_pages") >= pages);
    assert!(system.load(last).is_some() && system.load(last + 1).is_some());
}

/// Creates `count` ranges of two pages each, none contiguous with another.
fn pairs(count: u64) -> Vec<RangeEntry> {
    let permissions = Permissions::READ_WRITE;
    let pair = |index| RangeEntry {
        start: FIRST + 2 * index,
        end: FIRST + 2 * index + 2,
        frame: Frame::new(0x1000 + 4 * index),
        permissions,
    };
    (0..count).map(pair).collect()
}

#[test]
fn the_table_has_as_few_levels_as_can_be() {
    for (ranges, expected) in [
        (0, 0),
        (124, 1),
        // A root with one range and two children.
        (125, 3),
        (249, 3),
        (250, 4),
        // A full tree of two levels: 124 + 125 × 124.
        (15_624, 126),
        // A root over two trees of two levels, each with a root and 63 nodes.
        (15_625, 1 + 2 * 64),
    ] {
        assert_eq!(nodes(&pairs(ranges)).len(), expected, "{ranges}");
    }
}

/// Searches for each of 256 ranges in three nodes below the root, of 85, 85 and 84 ranges; the root
/// has two.
#[test]
fn the_hardware_finds_every_range_of_a_table_with_two_levels() {
    let space = SpaceId(0);
    let frames: Vec<Frame> = (0..4).map(|number| Frame::new(0x500 + number)).collect();
    let ranges = pairs(256);
    let tree = nodes(&ranges);
    assert_eq!(tree.len(), 4);
    let mut mmu = hardware(1);
    mmu.switch(space);
    for (level, frame) in [(4, 0x10), (3, 0x11), (2, 0x12), (1, 0x13)] {
        let (page, frame) = (VirtualPage::new(FIRST), Frame::new(frame));
        mmu.apply(&TableOperation::AddNode { space, level, page, frame, branch: 0 }.into());
    }
    for range in &ranges {
        for page in range.pages() {
            let frame = range.frame.add(page - range.start);
            let (page, permissions) = (VirtualPage::new(page), range.permissions);
            let size = PageSize::Size4K;
            mmu.apply(&TableOperation::Map { space, page, size, frame, permissions }.into());
        }
    }
    for (node, &frame) in tree.iter().zip(&frames) {
        mmu.apply(&RangeOperation::Node { space, frame, words: node.words(&frames) }.into());
    }
    mmu.apply(&RangeOperation::Root { space, root: Some(frames[0]) }.into());
    let mut steps = Steps::new();
    for range in &ranges {
        let cases = range.pages().map(|page| {
            let address = VirtualPage::new(page).address();
            let found = mmu.translate(AccessKind::Read, address, &mut steps).expect("mapped");
            assert_eq!(found.physical, range.frame.add(page - range.start).address());
            if page == FIRST {
                assert_eq!(reads(&steps), lines_to_the_first_range());
            }
            found.case
        });
        assert_eq!(cases.collect::<Vec<_>>(), [Case::Regular, Case::Beside], "{range:?}");
    }
}

/// Cache lines that a search for the first range reads. In the root: the line with its number of
/// ranges and both ranges, and the line of word 373, the first child. In the child: the number of
/// ranges, then by bisection ranges 42 (word 127), 21 (64), 10 (31), 5 (16), and in line 0 again
/// ranges 2, 1 and 0.
fn lines_to_the_first_range() -> Vec<u64> {
    let (root, node) = (0x50_0000, 0x50_1000);
    let line = |word: u64| word / 8 * 64;
    let below = [0, 127, 64, 31, 16, 7].map(|word| node + line(word));
    [root, root + line(373)].into_iter().chain(below).collect()
}

fn reads(steps: &Steps) -> Vec<u64> {
    let read = |action| match action {
        Action::Read { address } => Some(PhysicalAddress::value(address)),
        _ => None,
    };
    steps.background().iter().filter_map(|step| read(step.action)).collect()
}

/// Each core has a range TLB of its own. The new core starts with a copy of the first one's.
#[test]
fn every_core_has_its_range_tlb() {
    let mut system = System::new(64 * MB);
    system.map(BASE, MB);
    system.mmu.set_cores(3);
    for core in [1, 0, 2] {
        system.mmu.run_on(core);
        system.mmu.switch(system.kernel.current());
        assert_eq!(system.load(FIRST), WALK, "core {core}");
        assert_eq!(system.load(FIRST + 1), RANGE_TLB, "core {core}");
    }
    assert_eq!(system.uses(), [3.0, 3.0, 3.0]);
    // A shootdown reaches the copies of all cores.
    system.event(&ProgramEvent::Unmap { start: VirtualAddress::new(BASE), length: MB });
    for core in [1, 0, 2] {
        system.mmu.run_on(core);
        assert_eq!(system.load(FIRST + 2), None, "core {core}");
    }
}

/// Without address-space tags, a switch of the address space empties the range TLB with the other TLBs.
#[test]
fn an_untagged_range_tlb_is_flushed_at_a_switch() {
    for (tagged, second) in [(true, RANGE_TLB), (false, WALK)] {
        let mut system = System::new(64 * MB);
        let mut config = config(32);
        config.tlb.tagged = tagged;
        let ranged = Ranged::new(Box::new(Radix::new()), 32);
        system.mmu = Mmu::new(&config, Box::new(ranged)).expect("a unit");
        let space = system.kernel.current();
        system.mmu.switch(space);
        system.map(BASE, MB);
        assert_eq!(system.load(FIRST), WALK);
        for other in [SpaceId(space.0 + 1), space] {
            system.mmu.switch(other);
        }
        assert_eq!(system.load(FIRST + 1), second, "{tagged}");
    }
}

/// Ranges repeat mappings of the page tables, so that no operation on their table changes a translation.
#[test]
fn operations_on_the_table_tell_a_hypervisor_what_they_write() {
    let (space, frame) = (SpaceId(3), Frame::new(0x500));
    let words = [7].into();
    for (operation, written, table) in [
        (RangeOperation::Root { space, root: Some(frame) }, Written::Registers(1), None),
        (RangeOperation::Node { space, frame, words }, Written::Copy, Some(frame)),
        (RangeOperation::Clear { space, frame }, Written::Copy, None),
    ] {
        assert_eq!(operation.pages(), PageRun::new(space, VirtualPage::new(0), 0));
        assert_eq!((operation.written(), operation.table()), (written, table), "{operation:?}");
    }
}

/// Pages that no memory is left for are not backed in advance, and the program goes on.
#[test]
fn backing_in_advance_ends_with_the_memory() {
    let mut system = System::new(32 * MB);
    system.map(BASE, 16 * MB);
    system.map(BASE + 64 * MB, 64 * MB);
    assert!(system.load(FIRST).is_some() && system.load(FIRST + 4095).is_some());
    assert_eq!(system.load(FIRST + (128 << 8) - 1), None, "the last page of the second area");
}
