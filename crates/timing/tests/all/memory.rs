//! Closed forms of caches, MSHRs and DRAM as the core sees them.

use crate::machine::{DRAM, L1, L2, L2_TLB, Machine, config, integer, l2_tlb_hit, rules, walk};
use perforate_timing::{CacheConfig, MshrOrder, Prefetcher, Shortcuts, WalkerAttachment};
use perforate_types::{Branch, Instruction, Operation, PhysicalAddress, Steps};

const MISS: u64 = L1 + L2 + DRAM;

#[test]
fn a_dependent_chase_costs_translation_and_every_level_per_element() {
    let mut machine = Machine::new(&config());
    (0..100).for_each(|line| machine.plain_load(line, 1, 1));
    assert_eq!(machine.cycles(), 100 * MISS);

    let mut machine = Machine::new(&config());
    (0..100).for_each(|line| machine.load(line, 1, 1, 0, &l2_tlb_hit(0)));
    assert_eq!(machine.cycles(), 100 * (L2_TLB + MISS));
}

#[test]
fn a_last_level_cache_adds_its_latency() {
    let mut config = config();
    let latency_cycles = 40;
    config.cache.llc = Some(CacheConfig { latency_cycles, ..config.cache.l2.clone() });
    let mut machine = Machine::new(&config);
    (0..100).for_each(|line| machine.plain_load(line, 1, 1));
    assert_eq!(machine.cycles(), 100 * (MISS + 40));
}

#[test]
fn independent_misses_run_at_latency_over_mshrs() {
    for mshrs in [1, 2, 4, 10] {
        let mut config = config();
        config.cache.l1d.mshrs = mshrs;
        let mut machine = Machine::new(&config);
        // An MSHR is taken from the miss (after the L1 look-up) until the line is there. Each
        // MSHR serves 20 misses; of ten, the last begins at 9 / 4 = 2, as dispatch is 4 wide.
        let loads = 20 * u64::from(mshrs);
        (0..loads).for_each(|line| machine.plain_load(line, 0, 1));
        let last_begins = u64::from(mshrs - 1) / 4;
        assert_eq!(machine.cycles(), last_begins + L1 + 20 * (L2 + DRAM), "{mshrs}");
    }
}

#[test]
fn an_access_to_a_line_in_flight_waits_for_it_and_takes_no_second_mshr() {
    let mut config = config();
    config.cache.l1d.mshrs = 1;
    let mut machine = Machine::new(&config);
    (0..4).for_each(|_| machine.plain_load(3, 0, 1));
    assert_eq!(machine.cycles(), MISS);
    assert_eq!((machine.counter("dram_reads"), machine.counter("l1d_merged_accesses")), (1, 3));
}

/// Loads of lines on their way, and reads of walks that complete when they are asked for: the same cycles with
/// the same causes as by events.
#[test]
fn lines_whose_arrival_is_known_take_no_other_time_than_by_events() {
    let mut config = config();
    config.cache.l2.mshrs = 200;
    config.cache.walker =
        Some(CacheConfig { size_bytes: 512, ways: 2, ..config.cache.l1d.clone() });
    config.walker.attach = WalkerAttachment::L2;
    let run = |shortcuts| {
        let mut machine = Machine::with_shortcuts(&config, shortcuts);
        machine.warm(1000..1100);
        for word in 0..800 {
            // The next word of a line on its way, at a distance that changes.
            machine.plain_load(word / 8, 0, 1);
            machine.chain(2, word % 5);
            if word % 16 == 0 {
                // Lines that the L2 has, and the walker's cache has not.
                let line = 1000 + word / 16;
                machine.load(line, 0, 1, 0, &walk(&[line, line + 50], 0));
            }
        }
        machine
    };
    let expected = run(Shortcuts::NONE);
    assert!(expected.counter("l1d_merged_accesses") > 300);
    for shortcuts in rules() {
        let found = run(shortcuts);
        assert_eq!(found.cycles(), expected.cycles(), "{shortcuts:?}");
        assert_eq!(found.stack(), expected.stack(), "{shortcuts:?}");
        assert_eq!(found.load_cycles(), expected.load_cycles(), "{shortcuts:?}");
    }
}

#[test]
fn a_line_is_not_ready_one_cycle_early_and_ready_on_time() {
    // A load that starts `chain` cycles after the miss: the data are there at MISS, and a hit
    // takes L1. Up to MISS − L1 it waits for the fill; from then on it takes its own time.
    for (chain, done) in [(MISS - L1 - 1, MISS), (MISS - L1, MISS), (MISS - L1 + 1, MISS + 1)] {
        let mut machine = Machine::new(&config());
        machine.plain_load(3, 0, 1);
        machine.chain(2, chain);
        machine.plain_load(3, 2, 2);
        assert_eq!(machine.load_cycles(), MISS + (done - chain), "{chain}");
    }
}

#[test]
fn a_load_before_its_line_was_asked_for_fetches_it_itself() {
    let mut machine = Machine::new(&config());
    machine.chain(1, 500);
    machine.plain_load(3, 1, 1); // asks at 500
    assert_eq!(machine.load_cycles(), MISS);
    machine.plain_load(3, 0, 2); // asks at 125, so that the other hits
    assert_eq!(machine.load_cycles(), MISS + L1);
    assert_eq!((machine.counter("l1d_misses"), machine.counter("dram_reads")), (1, 1));
}

/// A load asks for a line at 300, by when it is known that a branch will be resolved at 500, wrongly predicted, and
/// that code on the same line will be fetched after it: the line comes as the load asks for it.
#[test]
fn a_load_has_a_line_before_code_that_will_be_fetched_from_it() {
    let mut config = config();
    config.cache.l2.mshrs = 256;
    for shortcuts in rules().into_iter().chain([Shortcuts::NONE]) {
        let mut machine = Machine::with_shortcuts(&config, shortcuts);
        let divide = Instruction { operation: Operation::Divide, ..integer(1, 1) };
        (0..15).for_each(|_| machine.run(divide));
        machine.plain_load(3, 1, 2);
        (0..10).for_each(|_| machine.run(divide));
        machine.run(Instruction { branch: Branch::Conditional, taken: true, ..integer(1, 0) });
        machine.core.fetch(PhysicalAddress::new(3 * 64), 0, &Steps::new());
        machine.run(integer(0, 3));
        assert_eq!(machine.load_cycles(), MISS, "{shortcuts:?}");
        assert_eq!(machine.counter("dram_reads"), 1);
        // The branch is done at 501. The fetch then finds the line in the L2.
        assert_eq!(machine.cycles(), 501 + 15 + L2 + 1, "{shortcuts:?}");
    }
}

#[test]
fn dirty_lines_are_written_back_to_memory_in_the_end() {
    let mut config = config();
    config.cache.l1d.size_bytes = 64;
    config.cache.l1d.ways = 1;
    config.cache.l2.size_bytes = 64;
    config.cache.l2.ways = 1;
    let mut machine = Machine::new(&config);
    machine.store(0, 0);
    assert_eq!(machine.counter("l1d_write_backs"), 0);
    // Line 1 pushes dirty line 0 out of the L1D, into the L2 in place of clean line 1.
    machine.plain_load(1, 0, 1);
    assert_eq!((machine.counter("l1d_write_backs"), machine.counter("dram_writes")), (1, 0));
    // Line 2 pushes dirty line 0 out of the L2.
    machine.plain_load(2, 0, 1);
    assert_eq!((machine.counter("l2_write_backs"), machine.counter("dram_writes")), (1, 1));
}

#[test]
fn an_open_row_saves_activation_and_a_conflict_adds_precharge() {
    let mut config = config();
    config.dram.channels = 1;
    config.dram.banks_per_rank = 1;
    config.dram.row_bytes = 128;
    let mut machine = Machine::new(&config);
    let mut last = 0;
    // Idle bank; the same row; another row (long after activation, as each load waits for the
    // one before and then for 40 operations).
    for (line, dram) in [(0, DRAM), (1, DRAM - 14), (2, DRAM + 15), (3, DRAM - 14)] {
        machine.plain_load(line, 1, 1);
        machine.chain(1, 40);
        assert_eq!(machine.cycles() - last, L1 + L2 + dram + 40, "line {line}");
        last = machine.cycles();
    }
    assert_eq!((machine.counter("dram_row_hits"), machine.counter("dram_row_conflicts")), (2, 1));
}

#[test]
fn one_channel_delivers_one_line_per_burst() {
    let mut config = config();
    config.dram.channels = 1;
    let mut machine = Machine::new(&config);
    // 64 banks work side by side; the lines come over one bus, 4 cycles each.
    (0..64).for_each(|line| machine.plain_load(line, 0, 1));
    assert_eq!(machine.cycles(), MISS + 63 * 4);
}

#[test]
fn prefetchers_hide_misses_of_a_stream_but_never_cross_a_page() {
    let run = |prefetcher| {
        let mut config = config();
        config.cache.l1d.prefetcher = prefetcher;
        let mut machine = Machine::new(&config);
        for line in 0..128 {
            machine.plain_load(line, 1, 1);
            machine.chain(1, 100);
        }
        machine
    };
    assert_eq!(run(Prefetcher::None).counter("l1d_misses"), 128);
    let next_line = run(Prefetcher::NextLine);
    // The first line of each of the two pages misses; each of the others was prefetched.
    assert_eq!(next_line.counter("l1d_misses"), 2);
    assert_eq!(next_line.counter("l1d_useful_prefetches"), 126);
    assert_eq!(next_line.counter("l1d_accesses"), 128, "each is a hit or a miss");
    // A stride is confirmed by the third line of a page.
    assert_eq!(run(Prefetcher::Stride).counter("l1d_misses"), 6);
}

/// A prefetch is useful once, however often the program uses the line.
#[test]
fn a_prefetched_line_is_useful_once() {
    let mut config = config();
    config.cache.l1d.prefetcher = Prefetcher::NextLine;
    let mut machine = Machine::new(&config);
    for line in [0, 1, 1, 1, 0, 2, 2, 1] {
        machine.plain_load(line, 1, 1);
        machine.chain(1, 100);
    }
    assert_eq!(machine.counter("l1d_misses"), 1);
    assert_eq!(machine.counter("l1d_useful_prefetches"), 2);
    assert_eq!(machine.counter("l1d_accesses"), 8);
}

#[test]
fn a_store_and_a_load_of_one_instruction_count_once_each() {
    let mut machine = Machine::new(&config());
    let update = integer(1, 1);
    machine.core.begin(&update);
    machine.core.load(perforate_types::PhysicalAddress::new(0), 8, 0, &Steps::new());
    machine.core.store(perforate_types::PhysicalAddress::new(0), 8, 0, &Steps::new());
    machine.core.finish(&update);
    assert_eq!((machine.counter("loads"), machine.counter("stores")), (1, 1));
    assert_eq!(machine.cycles(), MISS);
}

/// Response latencies of the L1D and the L2 add to the time of the levels below.
#[test]
fn response_latencies_are_paid_on_the_way_back() {
    let mut config = config();
    config.cache.l1d.response_cycles = 2;
    config.cache.l2.response_cycles = 7;
    let mut machine = Machine::new(&config);
    (0..100).for_each(|line| machine.plain_load(line, 1, 1));
    assert_eq!(machine.cycles(), 100 * (MISS + 2 + 7));
    // A hit in the L1D pays none.
    let before = machine.cycles();
    machine.plain_load(99, 1, 1);
    assert_eq!(machine.cycles() - before, L1);
}

/// Loads that depend on nothing: the bus of one channel takes a line every four cycles.
#[test]
fn a_stream_runs_at_the_bandwidth_of_the_bus() {
    let mut config = config();
    config.dram.channels = 1;
    config.dram.row_bytes = 8192;
    let mut machine = Machine::new(&config);
    const LINES: u64 = 10_000;
    (0..LINES).for_each(|line| machine.plain_load(line, 0, 1));
    let cycles_per_line = machine.cycles() as f64 / LINES as f64;
    assert!((cycles_per_line / 4.0 - 1.0).abs() < 0.02, "{cycles_per_line}");
}

/// A load holds the only MSHR. B asks for it at 4, A, which is older, at 34: its address takes 30 operations. B has its
/// data at 75 + 71 = 146 and A at 146 + 71 if requests are served in order of arrival; the other way round if the oldest
/// comes first. 500 operations wait for A.
#[test]
fn an_mshr_goes_to_the_request_that_came_first_or_to_the_oldest() {
    let held = L2 + DRAM;
    for (mshr_order, a) in
        [(MshrOrder::Arrival, MISS + 2 * held), (MshrOrder::OldestFirst, MISS + held)]
    {
        let mut config = config();
        (config.cache.l1d.mshrs, config.cache.l1d.mshr_order) = (1, mshr_order);
        let mut machine = Machine::new(&config);
        machine.plain_load(0, 0, 1);
        machine.chain(2, 30);
        machine.plain_load(100, 2, 3); // A
        machine.plain_load(200, 0, 4); // B
        machine.chain(3, 500);
        assert_eq!(machine.cycles(), a + 500, "{mshr_order:?}");
    }
}

/// Ties: of two requests in one cycle, that of the older instruction comes first. Load A needs the data of a load that
/// misses, so that its look-up of 75 to 79 is known in cycle 24. Load B is younger and needs a chain of 75 operations: its
/// look-up, in the same cycles, is known when it is dispatched in cycle 19. There is one MSHR. A has it from 79 on, and
/// its data in 79 + 20 + 51 = 150.
#[test]
fn of_two_requests_in_one_cycle_the_older_comes_first() {
    let mut config = config();
    config.cache.l1d.mshrs = 1;
    let mut machine = Machine::new(&config);
    machine.plain_load(0, 0, 1);
    machine.plain_load(100, 1, 3);
    machine.chain(2, MISS);
    machine.plain_load(200, 2, 4);
    let operations = 500;
    machine.chain(3, operations);
    assert_eq!(machine.cycles(), 2 * MISS + operations);
    // B waits for the MSHR as long as A has it.
    assert_eq!(machine.load_cycles(), 2 * MISS + (MISS + L2 + DRAM));
}
