//! TLBs, walk caches and tables as the tests of other simulators specify theirs: addresses and counts are
//! facts of those tests.

use std::iter::repeat_n;

use perforate_mmu::{Mmu, MmuConfig, PageFault, Radix, TlbGeometry, WalkCacheConfig};
use perforate_types::{
    AccessKind, Action, Frame, PageSize, Permissions, PhysicalAddress, SpaceId, Steps,
    TableOperation, VirtualAddress, VirtualPage,
};

use crate::table::{check, differs, held};

const SPACE: SpaceId = SpaceId(1);

/// An MMU and the nodes of its tables.
struct Tested {
    mmu: Mmu,
    nodes: Vec<(SpaceId, u8, u64)>,
}

impl Tested {
    /// An MMU whose walk caches hold one entry for each level.
    fn walker() -> Self {
        let one = TlbGeometry { entries: 1, ways: 1 };
        Self::with(MmuConfig {
            walk_cache: WalkCacheConfig::fully_associative(1, 1, 1),
            ..MmuConfig::plain(one, one)
        })
    }

    fn with(config: MmuConfig) -> Self {
        let mut mmu = Mmu::new(&config, Box::new(Radix::new())).unwrap();
        mmu.switch(SPACE);
        Self { mmu, nodes: Vec::new() }
    }

    /// Maps the 4KB page of an address, and adds the nodes that it lacks.
    fn map(&mut self, space: SpaceId, address: u64, frame: u64) {
        let page = VirtualAddress::new(address).page();
        for level in (1..=4).rev() {
            let first = page.number() >> (9 * level) << (9 * level);
            if !self.nodes.contains(&(space, level as u8, first)) {
                self.nodes.push((space, level as u8, first));
                let frame = Frame::new(0x10_0000 + self.nodes.len() as u64);
                let (page, level) = (VirtualPage::new(first), level as u8);
                let node = TableOperation::AddNode { space, level, page, frame, branch: 0 };
                self.mmu.apply(&node.into());
            }
        }
        let (frame, size, permissions) = (Frame::new(frame), PageSize::Size4K, Permissions::ALL);
        self.mmu.apply(&TableOperation::Map { space, page, size, frame, permissions }.into());
    }

    /// Addresses of the entries that the walk for an address reads, from level 4 on.
    fn walk(&mut self, address: u64) -> Vec<PhysicalAddress> {
        let mut steps = Steps::new();
        self.mmu.translate(AccessKind::Read, VirtualAddress::new(address), &mut steps).unwrap();
        let read = |action| match action {
            Action::Read { address } => Some(address),
            _ => None,
        };
        steps.as_slice().iter().filter_map(|step| read(step.action)).collect()
    }

    fn access(&mut self, kind: AccessKind, address: u64) -> Result<u64, PageFault> {
        let found = self.mmu.translate(kind, VirtualAddress::new(address), &mut Steps::new())?;
        Ok(found.physical.value())
    }
}

/// Number of reads of the walk for an address, after a walk for another one.
fn reads_after(before: u64, address: u64) -> usize {
    let mut tested = Tested::walker();
    tested.map(SPACE, before, 1);
    if VirtualAddress::new(before).page() != VirtualAddress::new(address).page() {
        tested.map(SPACE, address, 2);
    }
    assert_eq!(tested.walk(before).len(), 4);
    // The TLBs must not answer.
    let page = VirtualAddress::new(before).page();
    tested.mmu.flush_first_level();
    tested.mmu.evict_page(SPACE, page);
    tested.walk(address).len()
}

/// Address from which the other simulator's tests begin.
const SEED: u64 = 0xffff_ffff_ffff_ffff;

#[test]
fn walks_are_as_champsim_tests_them() {
    check(
        "ChampSim: page-table walks",
        &[
            held(
                "a first walk reads one entry for each level of the tables",
                "ChampSim 600, levels",
                || {
                    let mut tested = Tested::walker();
                    tested.map(SPACE, 0xdead_beef, 1);
                    assert_eq!(tested.walk(0xdead_beef).len(), 4);
                },
            ),
            held("a walk fills the caches of all levels", "ChampSim 600, filling", || {
                assert_eq!(reads_after(SEED, SEED & !0xfff), 1);
                assert_eq!(reads_after(SEED, SEED - (1 << 21)), 2);
                assert_eq!(reads_after(SEED, SEED - (1 << 30)), 3);
            }),
            differs(
                "a walk for the same page reads two entries",
                "ChampSim 600, same request",
                "the level-2 cache leaves the leaf to be read; ChampSim read one entry, too, \
                 before its caches changed",
                || {
                    assert_eq!(reads_after(SEED, SEED), 1);
                },
            ),
            held(
                "a walk to another 2MB of the same 1GB reads two entries",
                "ChampSim 600, nearby request",
                || {
                    assert_eq!(reads_after(SEED, 0xffff_ffff_ffc0_0000), 2);
                },
            ),
            held(
                "a walk to another 1GB of the same 512GB reads three entries",
                "ChampSim 600, less-nearby request",
                || {
                    assert_eq!(reads_after(SEED, 0xffff_ffff_8000_0000), 3);
                },
            ),
            held(
                "a walk to another 512GB reads four entries",
                "ChampSim 600, distant request",
                || {
                    assert_eq!(reads_after(SEED, 0xffff_ff00_0000_0000), 4);
                },
            ),
            differs(
                "a walk to another 256TB reads five entries",
                "ChampSim 600, very distant request",
                "tables have four levels here; such an address is none",
                || {
                    assert_eq!(reads_after(SEED, 0xffff_8000_0000_0000), 4);
                },
            ),
            held("two walks to distant addresses share no reads", "ChampSim 601", || {
                let mut tested = Tested::walker();
                let addresses = [0xffff_beef_dead_beef, 0xffff_babe_cafe_babe];
                addresses
                    .iter()
                    .zip(1..)
                    .for_each(|(&address, frame)| tested.map(SPACE, address, frame));
                let reads: Vec<_> =
                    addresses.iter().flat_map(|&address| tested.walk(address)).collect();
                let distinct: std::collections::BTreeSet<_> = reads.iter().copied().collect();
                assert_eq!((reads.len(), distinct.len()), (8, 8));
            }),
            held(
                "walks of two address spaces for one address share no reads",
                "ChampSim 602, per address space",
                || {
                    let mut tested = Tested::walker();
                    let spaces = [SPACE, SpaceId(2)];
                    spaces
                        .iter()
                        .zip(1..)
                        .for_each(|(&space, frame)| tested.map(space, 0xdead_beef, frame));
                    let mut reads = Vec::new();
                    for space in spaces {
                        tested.mmu.switch(space);
                        reads.extend(tested.walk(0xdead_beef));
                    }
                    let distinct: std::collections::BTreeSet<_> = reads.iter().copied().collect();
                    assert_eq!((reads.len(), distinct.len()), (8, 8));
                },
            ),
            differs(
                "a walk waits 200 cycles for each table that it is the first to need",
                "ChampSim 602, latencies",
                "tables are made by the kernel in a page fault, whose cycles are counted as \
                 such; the walk ends in that fault",
                || {
                    for present in 0..4 {
                        let mut tested = Tested::walker();
                        let neighbour = 0xdead_beef ^ 1 << [47, 39, 30, 21][present];
                        tested.map(SPACE, neighbour, 1);
                        assert_eq!(
                            tested.access(AccessKind::Read, 0xdead_beef),
                            Err(PageFault::NotMapped)
                        );
                    }
                },
            ),
            held(
                "the entry that a walk reads lies at 8 bytes times the index of its level",
                "ChampSim 603",
                || {
                    let mut tested = Tested::walker();
                    tested.map(SPACE, 0x0200_c040_1000, 1);
                    let offsets: Vec<u64> = tested
                        .walk(0x0200_c040_1000)
                        .iter()
                        .map(|read| read.value() & 4095)
                        .collect();
                    assert_eq!(offsets, [4 * 8, 3 * 8, 2 * 8, 8]);
                },
            ),
            held("neighbours at a level are neighbours in one table", "ChampSim 802", || {
                for level in 2..=4_usize {
                    let mut tested = Tested::walker();
                    let entries: Vec<u64> = (0..2)
                        .map(|index| {
                            let address = 0x4ccc_0000_0000 + (index << (12 + 9 * (level - 1)));
                            tested.map(SPACE, address, 1 + index);
                            tested.mmu.flush();
                            tested.walk(address)[4 - level].value()
                        })
                        .collect();
                    assert_eq!(entries[1] - entries[0], 8, "level {level}");
                    assert_eq!(entries[0] >> 12, entries[1] >> 12, "level {level}");
                }
            }),
            held(
                "the index of level n are the nine bits from bit 12 + 9(n − 1) on",
                "ChampSim 803",
                || {
                    for level in 1..=4_u64 {
                        let address = (0xffff_ffff_ffe0_0000 | level << 12) << ((level - 1) * 9);
                        let address = address & 0xffff_ffff_ffff;
                        let mut tested = Tested::walker();
                        tested.map(SPACE, address, 1);
                        let read = tested.walk(address)[4 - level as usize];
                        assert_eq!(read.value() & 4095, level * 8, "level {level}");
                    }
                },
            ),
        ],
    );
}

/// Hits and misses of a core's TLBs, as DynamoRIO's TLB simulator prints them: instructions, data, second
/// level. The second level's misses are compulsory.
struct Core {
    instructions: [u64; 2],
    data: [u64; 2],
    second: [u64; 2],
}

/// Loads or fetches from pages `first..first + pages`, in turn, until `misses` accesses are made, and then
/// from the last page as often as `hits` says.
fn in_turn(
    tested: &mut Tested,
    kind: AccessKind,
    first: u64,
    pages: u64,
    [hits, misses]: [u64; 2],
) {
    let turns = (0..misses).map(|index| first + index % pages);
    for page in turns.chain(repeat_n(first + (misses - 1) % pages, hits as usize)) {
        let frame = tested.access(kind, page * 4096).unwrap() >> 12;
        assert_eq!(frame, page + 77);
    }
}

/// Checks that a program with these numbers of pages of code and of data, of which `common` are both, has
/// the counts of the core. The TLBs have DynamoRIO's default sizes.
fn core(of: &Core, code: u64, data: u64, common: u64) {
    let first = TlbGeometry { entries: 32, ways: 32 };
    let config = MmuConfig::plain(first, TlbGeometry { entries: 1024, ways: 4 });
    let mut tested = Tested::with(config);
    (1..=code + data - common).for_each(|page| tested.map(SPACE, page * 4096, page + 77));
    in_turn(&mut tested, AccessKind::Fetch, 1, code, of.instructions);
    in_turn(&mut tested, AccessKind::Read, 1 + code - common, data, of.data);
    let counters = tested.mmu.counters();
    let fetched = counters.l1_instruction_accesses;
    assert_eq!(
        [fetched - counters.l1_instruction_misses, counters.l1_instruction_misses],
        of.instructions
    );
    assert_eq!([counters.l1_accesses - counters.l1_misses, counters.l1_misses], of.data);
    assert_eq!([counters.l2_accesses - counters.l2_misses, counters.l2_misses], of.second);
    assert_eq!(counters.l2_compulsory_misses, of.second[1]);
    assert_eq!(counters.walks, of.second[1]);
}

#[test]
fn tlbs_are_as_dynamorio_tests_them() {
    check(
        "DynamoRIO: TLBs",
        &[
            held(
                "three addresses have the physical addresses that the tables give",
                "DynamoRIO tlb_simulator_unit_test.cpp",
                || {
                    let mut tested = Tested::walker();
                    for (address, physical) in [
                        (0xffff_fb73_da60, 0x133_da60),
                        (0x4a_7a78, 0x2a_7a78),
                        (0x4a_5f20, 0x2a_5f20),
                    ] {
                        tested.map(SPACE, address, physical >> 12);
                        assert_eq!(tested.access(AccessKind::Read, address), Ok(physical));
                    }
                },
            ),
            held(
                "50 pages of code and 45 of data thrash first-level TLBs of 32 entries, and not \
                 the second level",
                "DynamoRIO offline-tlb_simulator_v2p, core 0",
                || {
                    core(
                        &Core {
                            instructions: [18_577, 141],
                            data: [5_947, 138],
                            second: [200, 79],
                        },
                        50,
                        45,
                        16,
                    );
                },
            ),
            held(
                "12 pages of code and 11 of data miss once each; two are code and data, and hit \
                 in the second level",
                "DynamoRIO offline-tlb_simulator_v2p, core 1",
                || {
                    core(
                        &Core { instructions: [53_671, 12], data: [12_261, 11], second: [2, 21] },
                        12,
                        11,
                        2,
                    );
                },
            ),
            held(
                "12 pages of code and 9 of data miss once each",
                "DynamoRIO offline-tlb_simulator_v2p, core 2",
                || {
                    core(
                        &Core { instructions: [26_827, 12], data: [6_126, 9], second: [2, 19] },
                        12,
                        9,
                        2,
                    );
                },
            ),
            held("the same with more hits", "DynamoRIO offline-tlb_simulator_v2p, core 3", || {
                core(
                    &Core { instructions: [26_870, 12], data: [6_132, 9], second: [2, 19] },
                    12,
                    9,
                    2,
                );
            }),
        ],
    );
}

/// A flush of the first level empties the TLBs of data and of instructions.
#[test]
fn both_first_level_tlbs_are_flushed() {
    let mut tested = Tested::walker();
    tested.map(SPACE, 0x1000, 1);
    for kind in [AccessKind::Read, AccessKind::Fetch] {
        let misses = |tested: &Tested| {
            let counters = tested.mmu.counters();
            counters.l1_misses + counters.l1_instruction_misses
        };
        tested.access(kind, 0x1000).unwrap();
        let before = misses(&tested);
        tested.access(kind, 0x1000).unwrap();
        assert_eq!(misses(&tested), before, "{kind:?}");
        tested.mmu.flush_first_level();
        tested.access(kind, 0x1000).unwrap();
        assert_eq!(misses(&tested), before + 1, "{kind:?}");
    }
}
