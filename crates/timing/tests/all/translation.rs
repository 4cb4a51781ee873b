//! Closed forms of translation: TLB latencies, walks, walkers, fills in flight, where cycles go.

use crate::machine::{DRAM, L1, L2, L2_TLB, Machine, config, integer, l2_tlb_hit, walk};
use perforate_timing::{BitmapReader, CacheConfig, TranslationAccesses, WalkerAttachment};
use perforate_types::{Action, PhysicalAddress, Purpose, Steps, Unit};
use proptest::prelude::*;

const TABLES: u64 = 1000;
const DATA: u64 = 2000;

fn warmed(config: &perforate_timing::TimingConfig) -> Machine {
    let mut machine = Machine::new(config);
    machine.warm((TABLES..TABLES + 16).chain(DATA..DATA + 16));
    machine
}

#[test]
fn a_first_level_hit_adds_nothing_and_a_second_level_hit_its_latency() {
    let mut machine = warmed(&config());
    machine.plain_load(DATA, 0, 1);
    assert_eq!(machine.cycles(), L1);
    let mut machine = warmed(&config());
    machine.load(DATA, 0, 1, 0, &l2_tlb_hit(0));
    assert_eq!(machine.cycles(), L2_TLB + L1);
    assert_eq!(machine.counter("translation_cycles_l2_tlb"), L2_TLB);
    assert_eq!(machine.counter("walk_cycles"), 0);
}

#[test]
fn a_walk_costs_its_reads_one_after_the_other() {
    for reads in 1..=4 {
        let mut machine = warmed(&config());
        let lines: Vec<u64> = (TABLES..TABLES + reads).collect();
        machine.load(DATA, 0, 1, 0, &walk(&lines, 0));
        assert_eq!(machine.cycles(), reads * L1 + L1);
        assert_eq!(machine.counter("walk_cycles"), reads * L1);
        assert_eq!(machine.counter("walker_reads_from_l1d"), reads);
    }
}

/// A load's walk is part of the mean over loads, a store's is not.
#[test]
fn translation_of_stores_is_not_that_of_loads() {
    let mut machine = warmed(&config());
    machine.load(DATA, 0, 1, 0, &walk(&[TABLES], 0));
    machine.translated_store(DATA + 1, 1, &walk(&[TABLES + 1, TABLES + 2], 1));
    assert_eq!((machine.counter("loads"), machine.counter("stores")), (1, 1));
    assert_eq!(machine.ratio("load_translation_average_cycles"), L1 as f64);
}

#[test]
fn a_walker_attached_to_the_l2_reads_there() {
    let mut config = config();
    config.walker.attach = WalkerAttachment::L2;
    config.walker.read_overhead_cycles = 5;
    let mut machine = warmed(&config);
    machine.load(DATA, 0, 1, 0, &walk(&[TABLES, TABLES + 1], 0));
    assert_eq!(machine.cycles(), 2 * (5 + L2) + L1);
    assert_eq!(machine.counter("walker_reads_from_l2"), 2);
}

#[test]
fn walks_share_walkers() {
    // Two walks of two reads: 8 cycles each.
    for (walkers, done) in [(1, 16 + L1), (2, 8 + L1)] {
        let mut config = config();
        config.walker.walkers = walkers;
        let mut machine = warmed(&config);
        machine.load(DATA, 0, 1, 0, &walk(&[TABLES, TABLES + 1], 0));
        machine.load(DATA + 1, 0, 2, 1, &walk(&[TABLES + 2, TABLES + 3], 1));
        assert_eq!(machine.cycles(), done, "{walkers} walkers");
        assert_eq!(machine.counter("walk_cycles"), 16);
        assert_eq!(machine.counter("walk_active_cycles"), done - L1);
        assert_eq!(machine.counter("translation_cycles_walker_queue"), done - L1 - 8);
    }
}

/// Cycles of each kind of look-up: how many, which part of the translation they are, and whether a walker makes
/// them, which then reads the entry.
#[test]
fn each_look_up_takes_its_own_time_in_its_own_unit() {
    let mut config = config();
    config.walker.l2_tlb_cycles = 9;
    config.walker.walk_cache_cycles = 5;
    config.walker.walk_cache_miss_cycles = Some(2);
    config.walker.nested_tlb_cycles = 7;
    config.walker.segment_check_cycles = 11;
    config.walker.selection_cycles = 13;
    let (hit, miss) = (|unit| Action::Hit { unit, slot: 1 }, |unit| Action::Miss { unit });
    let rows = [
        (Purpose::Page, hit(Unit::L2Tlb), "l2_tlb", 9, false),
        (Purpose::Page, miss(Unit::SidebandTlb), "l2_tlb", 9, false),
        (Purpose::Page, miss(Unit::HostSidebandTlb), "l2_tlb", 9, true),
        (Purpose::Bitmap, hit(Unit::L2Tlb), "bitmap_lookup", 9, false),
        (Purpose::HostBitmap, miss(Unit::L2Tlb), "bitmap_lookup", 9, true),
        (Purpose::HostPage, hit(Unit::L2Tlb), "nested_tlb", 9, true),
        (Purpose::HostPage, hit(Unit::HostSidebandTlb), "nested_tlb", 9, true),
        (Purpose::HostPage, hit(Unit::NestedTlb), "nested_tlb", 7, true),
        (Purpose::HostPage, miss(Unit::NestedTlb), "nested_tlb", 7, true),
        (Purpose::Level2, hit(Unit::WalkCache), "walk_cache", 5, true),
        (Purpose::Level2, miss(Unit::WalkCache), "walk_cache", 2, true),
        (Purpose::HostLevel2, hit(Unit::HostWalkCache), "walk_cache", 5, true),
        (Purpose::HostLevel2, miss(Unit::HostWalkCache), "walk_cache", 2, true),
        (Purpose::Page, Action::Check, "segment_check", 11, true),
        (Purpose::Level2, Action::Select, "selection", 13, true),
    ];
    for reader in [BitmapReader::Walker, BitmapReader::L2Tlb] {
        config.walker.bitmap_reader = reader;
        for (purpose, action, part, cycles, is_walkers) in rows {
            let case = format!("{reader:?} {purpose:?} {action:?}");
            let mut machine = warmed(&config);
            let mut steps = Steps::new();
            steps.then(purpose, action);
            let address = PhysicalAddress::new(TABLES * 64);
            steps.then(Purpose::Level1, Action::Read { address });
            machine.load(DATA, 0, 1, 0, &steps);
            let is_walkers =
                is_walkers && (reader == BitmapReader::Walker || purpose != Purpose::HostBitmap);
            let walker = if is_walkers { cycles } else { 0 };
            assert_eq!(machine.counter(&format!("translation_cycles_{part}")), cycles, "{case}");
            assert_eq!(machine.counter("translation_cycles"), cycles + L1, "{case}");
            assert_eq!(machine.counter("walk_cycles"), walker + L1, "{case}");
            let stack = [(part, cycles), ("walk_level1", L1), ("l1", L1)];
            let mut stack = stack.map(|(name, cycles)| (name.to_owned(), cycles));
            stack.sort();
            assert_eq!(machine.stack(), stack, "{case}");
        }
    }
}

/// Reads by what they are for, in the cycles of translation and in the cycle stack; reads of a mechanism's own
/// tables, which nothing waits for, are in neither.
#[test]
fn each_read_counts_for_its_purpose() {
    let name = |purpose: Purpose| match purpose {
        Purpose::Level5 => "walk_level5",
        Purpose::Level4 => "walk_level4",
        Purpose::Level3 => "walk_level3",
        Purpose::Level2 => "walk_level2",
        Purpose::Level1 => "walk_level1",
        Purpose::Bitmap => "bitmap_read",
        Purpose::Shadow => "shadow",
        Purpose::Hole => "hole",
        Purpose::HostLevel5 => "host_walk_level5",
        Purpose::HostLevel4 => "host_walk_level4",
        Purpose::HostLevel3 => "host_walk_level3",
        Purpose::HostLevel2 => "host_walk_level2",
        Purpose::HostLevel1 => "host_walk_level1",
        Purpose::HostBitmap => "host_bitmap_read",
        Purpose::HostShadow => "host_shadow",
        Purpose::HostHole => "host_hole",
        Purpose::Page | Purpose::HostPage | Purpose::OwnTable | Purpose::HostOwnTable => "",
    };
    for purpose in Purpose::ALL.into_iter().filter(|&purpose| !name(purpose).is_empty()) {
        let mut machine = warmed(&config());
        let mut steps = Steps::new();
        steps.then(purpose, Action::Read { address: PhysicalAddress::new(TABLES * 64) });
        machine.load(DATA, 0, 1, 0, &steps);
        let name = name(purpose);
        assert_eq!(machine.counter(&format!("translation_cycles_{name}")), L1, "{purpose:?}");
        let mut stack = [(name.to_owned(), L1), ("l1".to_owned(), L1)];
        stack.sort();
        assert_eq!(machine.stack(), stack, "{purpose:?}");
        assert_eq!(machine.counter("translation_stall_cycles"), L1, "{purpose:?}");
    }
}

/// A nested walk's structures: look-ups and fills by unit, checks, reads by the cache that serves.
#[test]
fn accesses_are_counted_by_structure() {
    let mut machine = warmed(&config());
    let mut steps = Steps::new();
    steps.then(Purpose::Page, Action::Miss { unit: Unit::L2Tlb });
    steps.then(Purpose::Level2, Action::Hit { unit: Unit::WalkCache, slot: 0 });
    steps.then(Purpose::HostPage, Action::Check);
    steps.then(Purpose::HostPage, Action::Miss { unit: Unit::NestedTlb });
    steps.then(Purpose::HostLevel1, Action::Read { address: PhysicalAddress::new(TABLES * 64) });
    steps.beside(Purpose::HostPage, Action::Fill { unit: Unit::NestedTlb, slot: 0 });
    steps.then(Purpose::Level1, Action::Read { address: PhysicalAddress::new((TABLES + 1) * 64) });
    steps.beside(Purpose::Page, Action::Fill { unit: Unit::L1DataTlb, slot: 0 });
    machine.load(DATA, 0, 1, 0, &steps);
    let accesses = machine.translation_accesses();
    let [data, instruction, l2, walk_cache, host_walk_cache, nested, ..] = accesses.units;
    assert_eq!((data, instruction, l2, nested), (1, 0, 1, 2));
    assert_eq!((walk_cache, host_walk_cache), (1, 0));
    assert_eq!(accesses.segment_checks, 1);
    assert_eq!((accesses.reads_from_l1d, accesses.reads_from_memory), (2, 0));
    machine.core.start_measuring();
    assert_eq!(machine.translation_accesses(), TranslationAccesses::default());
}

#[test]
fn look_ups_before_the_walk_need_no_walker_and_the_walk_cache_does() {
    let mut machine = warmed(&config());
    let mut steps = Steps::new();
    steps.then(Purpose::Page, Action::Miss { unit: Unit::L2Tlb });
    steps.then(Purpose::Level2, Action::Hit { unit: Unit::WalkCache, slot: 0 });
    steps.then(Purpose::Level1, Action::Read { address: PhysicalAddress::new(TABLES * 64) });
    machine.load(DATA, 0, 1, 0, &steps);
    assert_eq!(machine.cycles(), L2_TLB + 1 + L1 + L1);
    assert_eq!(machine.counter("walk_cycles"), 1 + L1);
    assert_eq!(machine.counter("translation_cycles_walk_cache"), 1);
    assert_eq!(machine.counter("translation_cycles_walk_level1"), L1);
}

/// VMM Direct: the check of the level-1 node before its read, that of the page after it; and the
/// look-up of the page in the TLB of guest-physical addresses likewise.
#[test]
fn checks_and_nested_look_ups_of_a_walk_occupy_its_walker() {
    let config = config();
    let walk = |before: Action, after: Action| {
        let mut machine = warmed(&config);
        let mut steps = Steps::new();
        steps.then(Purpose::Page, Action::Miss { unit: Unit::L2Tlb });
        steps.then(Purpose::HostPage, before);
        steps.then(Purpose::Level1, Action::Read { address: PhysicalAddress::new(TABLES * 64) });
        steps.then(Purpose::HostPage, after);
        machine.load(DATA, 0, 1, 0, &steps);
        machine.counter("walk_cycles")
    };
    let check = u64::from(config.walker.segment_check_cycles);
    assert_eq!(walk(Action::Check, Action::Check), check + L1 + check);
    let hit = Action::Hit { unit: Unit::L2Tlb, slot: 1 };
    assert_eq!(walk(Action::Check, hit), check + L1 + L2_TLB);
}

/// G §3.7: an entry read and one in the walk cache cost a selection more. Without a read no walker is
/// needed.
#[test]
fn a_selection_follows_the_entry_read_or_cached() {
    let config = config();
    let selection = u64::from(config.walker.selection_cycles);
    assert_eq!(selection, 3);
    let (unit, slot) = (Unit::WalkCache, 0);
    for (found, cycles, walker_cycles) in [
        (Action::Read { address: PhysicalAddress::new(TABLES * 64) }, L1, L1 + selection),
        (Action::Hit { unit, slot }, 1, 0),
    ] {
        let mut machine = warmed(&config);
        let mut steps = Steps::new();
        steps.then(Purpose::Page, Action::Miss { unit: Unit::L2Tlb });
        steps.then(Purpose::Level2, found);
        steps.then(Purpose::Level2, Action::Select);
        machine.load(DATA, 0, 1, 0, &steps);
        assert_eq!(machine.cycles(), L2_TLB + cycles + selection + L1);
        assert_eq!(machine.counter("translation_cycles_selection"), selection);
        assert_eq!(machine.counter("translation_cycles"), L2_TLB + cycles + selection);
        assert_eq!(machine.counter("walk_cycles"), walker_cycles);
        assert_eq!(machine.translation_accesses().selections, 1);
    }
}

#[test]
fn a_bitmap_read_occupies_a_walker_but_is_no_walk() {
    let mut machine = warmed(&config());
    let mut steps = Steps::new();
    steps.then(Purpose::Page, Action::Hit { unit: Unit::L2Tlb, slot: 0 });
    steps.then(Purpose::Bitmap, Action::Miss { unit: Unit::L2Tlb });
    steps.then(Purpose::Bitmap, Action::Read { address: PhysicalAddress::new(TABLES * 64) });
    machine.load(DATA, 0, 1, 0, &steps);
    machine.load(DATA, 0, 1, 0, &steps);
    // The second reads the bitmap after the first: 18 + 4 + 4, then the data.
    assert_eq!(machine.cycles(), 2 * L2_TLB + 2 * L1 + L1);
    assert_eq!(machine.counter("walker_reads"), 2);
    assert_eq!(machine.counter("translation_cycles_bitmap_lookup"), 2 * L2_TLB);
    assert_eq!(machine.counter("translation_cycles_bitmap_read"), 2 * L1);
}

#[test]
fn steps_of_one_stage_run_side_by_side() {
    let mut machine = warmed(&config());
    let mut steps = Steps::new();
    let far = PhysicalAddress::new(3000 * 64);
    steps.then(Purpose::Level2, Action::Read { address: PhysicalAddress::new(TABLES * 64) });
    steps.beside(Purpose::Shadow, Action::Read { address: far });
    machine.load(DATA, 0, 1, 0, &steps);
    assert_eq!(machine.cycles(), L1 + L2 + DRAM + L1);
    assert_eq!(machine.counter("translation_cycles_walk_level2"), 0, "the slower one counts");
    assert_eq!(machine.counter("translation_cycles_shadow"), L1 + L2 + DRAM);
}

#[test]
fn an_entry_in_flight_is_not_ready_one_cycle_early_and_ready_on_time() {
    // The walk takes 4 reads = 16 cycles; the second load starts `chain` cycles after it.
    for (chain, translated) in [(0, 16), (15, 16), (16, 16), (17, 17)] {
        let mut machine = warmed(&config());
        machine.load(DATA, 0, 1, 5, &walk(&[TABLES, TABLES + 1, TABLES + 2, TABLES + 3], 5));
        machine.chain(2, chain);
        machine.load(DATA + 1, 2, 2, 5, &Steps::new());
        let latencies = 16 + L1 + (translated - chain + L1);
        assert_eq!(machine.load_cycles(), latencies, "{chain}");
        assert_eq!(machine.counter("translation_cycles_fill_wait"), translated - chain);
    }
}

/// A load waits for an entry in flight whenever it is dispatched, also while the walk's last read is under
/// way. Four instructions are dispatched in a cycle.
#[test]
fn a_load_of_any_cycle_waits_for_an_entry_in_flight() {
    for dispatched in 0..20 {
        let mut machine = warmed(&config());
        machine.load(DATA, 0, 1, 5, &walk(&[TABLES, TABLES + 1, TABLES + 2, TABLES + 3], 5));
        (0..4 * dispatched).for_each(|_| machine.run(integer(0, 2)));
        machine.load(DATA + 1, 0, 3, 5, &Steps::new());
        let waited = 16_u64.saturating_sub(dispatched);
        assert_eq!(machine.load_cycles(), 16 + L1 + waited + L1, "{dispatched}");
        assert_eq!(machine.counter("translation_cycles_fill_wait"), waited, "{dispatched}");
    }
}

#[test]
fn a_second_level_entry_in_flight_is_waited_for() {
    let mut machine = warmed(&config());
    let mut steps = walk(&[3000], 0);
    steps.beside(Purpose::Page, Action::Fill { unit: Unit::L2Tlb, slot: 7 });
    machine.load(DATA, 0, 1, 0, &steps);
    let mut hit = Steps::new();
    hit.then(Purpose::Page, Action::Hit { unit: Unit::L2Tlb, slot: 7 });
    machine.load(DATA + 1, 0, 2, 1, &hit);
    assert_eq!(machine.cycles(), L1 + L2 + DRAM + L1);
    assert_eq!(machine.counter("translation_cycles_fill_wait"), L1 + L2 + DRAM - L2_TLB);
}

#[test]
fn who_asks_first_has_the_walker_whatever_the_program_order() {
    let mut machine = warmed(&config());
    machine.chain(1, 10);
    machine.load(DATA, 1, 1, 0, &walk(&[TABLES], 0)); // asks at 10
    // Dispatched at 2 (10 operations and a load before it, 4 per cycle): three reads from then on.
    machine.load(DATA, 0, 2, 1, &walk(&[TABLES + 1, TABLES + 2, TABLES + 3], 1));
    assert_eq!(machine.counter("translation_cycles_walker_queue"), 2 + 3 * L1 - 10);
    assert_eq!(machine.cycles(), 2 + 3 * L1 + L1 + L1);
}

/// G §5.2: the MMU cache is looked up beside the L2 TLB; using an entry takes time, finding none does
/// not.
#[test]
fn a_miss_in_the_walk_cache_may_cost_less_than_a_hit() {
    let mut config = config();
    config.walker.walk_cache_cycles = 5;
    config.walker.walk_cache_miss_cycles = Some(0);
    let unit = Unit::WalkCache;
    for (found, cycles) in [(Action::Hit { unit, slot: 0 }, 5), (Action::Miss { unit }, 0)] {
        let mut machine = warmed(&config);
        let mut steps = Steps::new();
        steps.then(Purpose::Page, Action::Miss { unit: Unit::L2Tlb });
        steps.then(Purpose::Page, found);
        steps.then(Purpose::Level1, Action::Read { address: PhysicalAddress::new(TABLES * 64) });
        machine.load(DATA, 0, 1, 0, &steps);
        assert_eq!(machine.counter("translation_cycles"), L2_TLB + cycles + L1);
    }
}

/// Independent loads that all walk: walks of `reads` reads follow each other in the one walker, however
/// many MSHRs their data take meanwhile.
#[test]
fn random_loads_run_at_the_speed_of_the_walker() {
    for (walkers, reads) in [(1, 1), (1, 3), (2, 3)] {
        let mut config = config();
        config.walker.walkers = walkers;
        config.cache.l1d.mshrs = 64;
        let mut machine = warmed(&config);
        const LOADS: u64 = 2_000;
        for load in 0..LOADS {
            let lines: Vec<u64> = (TABLES..TABLES + reads).collect();
            machine.load(
                10_000 + load,
                0,
                1,
                (load % 64) as u32,
                &walk(&lines, (load % 64) as u32),
            );
        }
        let cycles_per_walk = machine.cycles() as f64 / LOADS as f64;
        let expected = (reads * L1) as f64 / f64::from(walkers);
        assert!((cycles_per_walk / expected - 1.0).abs() < 0.02, "{cycles_per_walk}");
    }
}

/// A walker's reads miss in its own cache, then go to the cache it is attached to.
#[test]
fn walkers_may_have_a_cache_of_their_own() {
    let mut config = config();
    config.walker.attach = WalkerAttachment::L2;
    let own =
        CacheConfig { size_bytes: 1024, ways: 2, latency_cycles: 2, ..config.cache.l1d.clone() };
    config.cache.walker = Some(own);
    let mut machine = warmed(&config);
    machine.load(DATA, 0, 1, 0, &walk(&[TABLES, TABLES], 0));
    assert_eq!(machine.counter("walk_cycles"), 2 + L2 + 2);
    assert_eq!(machine.counter("walker_reads_from_l2"), 1);
    assert_eq!(machine.counter("walker_reads_from_walker_cache"), 1);
}

/// P §IV.E: the controller of the L2 TLB reads bitmaps, so that the walker is free for a walk.
#[test]
fn bitmaps_read_by_the_l2_tlb_hold_no_walker() {
    for (reader, walk_cycles, cycles) in
        [(BitmapReader::Walker, 3 * L1, 3 * L1 + L1), (BitmapReader::L2Tlb, 2 * L1, 2 * L1 + L1)]
    {
        let mut config = config();
        config.walker.bitmap_reader = reader;
        let mut machine = warmed(&config);
        let mut steps = Steps::new();
        let address = PhysicalAddress::new(TABLES * 64);
        steps.then(Purpose::Bitmap, Action::Read { address });
        machine.load(DATA, 0, 1, 0, &steps);
        machine.load(DATA + 1, 0, 2, 1, &walk(&[TABLES + 1, TABLES + 2], 1));
        assert_eq!((machine.counter("walk_cycles"), machine.cycles()), (walk_cycles, cycles));
    }
}

/// The second load is first in time. It finds an entry of the walk cache that the first fills, and
/// has the one walker: the first's walk is done with that, as otherwise each waits for the other.
#[test]
fn a_walk_that_holds_the_walker_lends_it_to_one_that_it_waits_for() {
    let mut machine = warmed(&config());
    machine.chain(1, 100);
    let mut first = Steps::new();
    first.then(Purpose::Level2, Action::Read { address: PhysicalAddress::new(TABLES * 64) });
    first.beside(Purpose::Level2, Action::Fill { unit: Unit::WalkCache, slot: 3 });
    first.then(Purpose::Level1, Action::Read { address: PhysicalAddress::new((TABLES + 1) * 64) });
    machine.load(DATA, 1, 1, 0, &first);
    let mut second = Steps::new();
    second.then(Purpose::Level2, Action::Hit { unit: Unit::WalkCache, slot: 3 });
    second.then(Purpose::Level1, Action::Read { address: PhysicalAddress::new((TABLES + 2) * 64) });
    machine.load(DATA + 1, 0, 2, 1, &second);
    // From 25 on: the first's level-2 entry, then its own level-1 entry and the data.
    assert_eq!(machine.load_cycles(), L1 + (L1 + L1 + L1));
    assert_eq!(machine.cycles(), 100 + L1);
}

fn action() -> impl Strategy<Value = (Purpose, Action)> {
    let purpose = prop::sample::select(vec![
        Purpose::Bitmap,
        Purpose::Level4,
        Purpose::Level3,
        Purpose::Level2,
        Purpose::Level1,
        Purpose::Shadow,
        Purpose::Hole,
    ]);
    let unit = prop::sample::select(vec![Unit::L2Tlb, Unit::WalkCache, Unit::L1DataTlb]);
    let action =
        (unit, 0u32..16, 0u64..4000, 0..5).prop_map(|(unit, slot, line, kind)| match kind {
            0 => Action::Hit { unit, slot },
            1 => Action::Miss { unit },
            2 => Action::Read { address: PhysicalAddress::new(line * 64) },
            3 => Action::Select,
            _ => Action::Fill { unit, slot },
        });
    (purpose, action)
}

proptest! {
    /// Every cycle of translation is charged to one share, whatever the steps.
    #[test]
    fn shares_add_up(loads in prop::collection::vec(
        (prop::collection::vec((any::<bool>(), action()), 0..8), 0u8..4, 0u32..16), 1..40,
    )) {
        let mut machine = Machine::new(&config());
        for (list, register, slot) in &loads {
            let mut steps = Steps::new();
            for (beside, (purpose, action)) in list {
                if *beside { steps.beside(*purpose, *action) } else { steps.then(*purpose, *action) }
            }
            machine.load(DATA, *register, *register, *slot, &steps);
        }
        let shares = ["l2_tlb", "bitmap_lookup", "bitmap_read", "walk_level4", "walk_level3",
            "walk_level2", "walk_level1", "shadow", "hole", "walk_cache", "selection", "walker_queue",
            "fill_wait"];
        let sum: u64 = shares.iter().map(|s| machine.counter(&format!("translation_cycles_{s}"))).sum();
        prop_assert_eq!(sum, machine.counter("translation_cycles"));
        prop_assert!(machine.cycles() > 0);
    }
}

/// A walk of one read, then three reads of a table that fill another unit.
#[test]
fn nothing_waits_for_steps_in_the_background() {
    let mut machine = warmed(&config());
    let mut steps = walk(&[TABLES], 0);
    steps.begin_background();
    for line in TABLES + 1..TABLES + 4 {
        steps.then(Purpose::OwnTable, Action::Read { address: PhysicalAddress::new(line * 64) });
    }
    steps.beside(Purpose::Page, Action::Fill { unit: Unit::SidebandTlb, slot: 0 });
    steps.end_background();
    machine.load(DATA, 0, 1, 0, &steps);
    assert_eq!(machine.cycles(), L1 + L1, "the walk and the load");
    assert_eq!(machine.counter("walk_cycles"), L1);
    assert_eq!(machine.counter("translation_cycles"), L1);
    assert_eq!(machine.counter("walker_reads_from_l1d"), 4);
    // The fill takes three reads. The next load looks the entry up before the walk has ended, so
    // that the fill counts from then on.
    let mut hit = Steps::new();
    hit.then(Purpose::Page, Action::Hit { unit: Unit::SidebandTlb, slot: 0 });
    machine.load(DATA, 0, 2, 1, &hit);
    assert_eq!(machine.cycles(), 3 * L1 + L1);
}

/// A fill in the background that takes long, behind one that takes no time, is completed however many
/// translations there are meanwhile.
#[test]
fn a_long_read_in_the_background_is_not_forgotten() {
    let mut config = config();
    config.dram.controller_ns = 10_000.0;
    let mut machine = warmed(&config);
    let background = |line: u64, slot: u32| {
        let mut steps = walk(&[TABLES], slot);
        steps.begin_background();
        steps.then(Purpose::OwnTable, Action::Read { address: PhysicalAddress::new(line * 64) });
        steps.beside(Purpose::Page, Action::Fill { unit: Unit::SidebandTlb, slot });
        steps.end_background();
        steps
    };
    machine.load(DATA, 0, 1, 0, &background(3000, 0));
    machine.load(DATA, 0, 1, 1, &background(TABLES + 1, 1));
    (0..3_000).for_each(|number| machine.load(DATA, 0, 2, number % 64, &l2_tlb_hit(number % 64)));
    assert!(machine.cycles() < 10_000);
    let mut hit = Steps::new();
    hit.then(Purpose::Page, Action::Hit { unit: Unit::SidebandTlb, slot: 0 });
    machine.load(DATA, 0, 3, 2, &hit);
    let cycles = machine.cycles();
    assert!((10_000..10_200).contains(&cycles), "{cycles}");
}
