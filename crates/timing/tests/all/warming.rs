//! Functional warming, and counting in parts of a run.

use crate::machine::{DRAM, L1, L2, L2_TLB, Machine, config, integer, l2_tlb_hit, stack, walk};
use perforate_timing::{Core, Prefetcher};
use perforate_types::{Branch, Instruction, PhysicalAddress, Steps, VirtualAddress};

fn at(line: u64) -> PhysicalAddress {
    PhysicalAddress::new(line * 64)
}

/// A warmed load that hits the first-level TLB.
fn warm(core: &mut Core, line: u64) {
    core.warm_load(at(line), 8, &Steps::new());
}

#[test]
fn a_warmed_line_is_in_every_cache_and_takes_no_time() {
    let mut machine = Machine::new(&config());
    warm(&mut machine.core, 3);
    assert_eq!(machine.cycles(), 0);
    machine.plain_load(3, 1, 1);
    assert_eq!(machine.cycles(), L1);
    // The L1D has 64 sets of 8 ways: eight more lines of its set push line 3 out, but not out of
    // the L2 with its 2048 sets.
    let mut machine = Machine::new(&config());
    (0..=8).for_each(|way| warm(&mut machine.core, 3 + 64 * way));
    machine.plain_load(3, 1, 1);
    assert_eq!(machine.cycles(), L1 + L2);
    assert_eq!(machine.counter("dram_reads"), 0);
}

#[test]
fn an_access_across_lines_warms_both_and_a_store_leaves_dirty_lines() {
    let mut machine = Machine::new(&config());
    let across = PhysicalAddress::new(3 * 64 + 60);
    machine.core.warm_store(across, 8, &Steps::new());
    machine.plain_load(3, 1, 1);
    machine.plain_load(4, 1, 1);
    assert_eq!(machine.cycles(), 2 * L1);
    // Eight lines more in each set: both dirty lines are pushed out of the L1D.
    (1..=8).for_each(|way| machine.plain_load(3 + 64 * way, 1, 1));
    (1..=8).for_each(|way| machine.plain_load(4 + 64 * way, 1, 1));
    assert_eq!(machine.counter("l1d_write_backs"), 2);
}

#[test]
fn what_a_walk_reads_and_fills_is_warm() {
    let mut machine = Machine::new(&config());
    machine.core.warm_load(at(3), 8, &walk(&[7], 5));
    machine.load(3, 1, 1, 5, &Steps::new());
    assert_eq!(machine.cycles(), L1, "the entry is there");
    machine.plain_load(7, 1, 1);
    assert_eq!(machine.cycles(), 2 * L1, "the walker read through the L1D");
}

#[test]
fn warmed_code_is_in_the_first_level_and_its_page_is_translated() {
    let mut machine = Machine::new(&config());
    machine.core.warm_fetch(at(3), &walk(&[7], 5));
    machine.core.fetch(at(3), 5, &Steps::new());
    machine.chain(1, 1);
    assert_eq!(machine.cycles(), 1, "the code line is there");
    // The walker read through the L1D; the L1D has the code line from nobody.
    machine.plain_load(7, 1, 1);
    assert_eq!(machine.cycles(), 1 + L1);
    machine.plain_load(3, 1, 1);
    assert_eq!(machine.cycles(), 1 + 2 * L1 + L2);
}

/// The L1D has 64 sets of 8 ways: eight more lines of a set push the oldest out.
#[test]
fn a_warmed_store_to_a_line_that_is_there_makes_it_dirty_and_warming_writes_dirty_lines_back() {
    let filled = |touch: fn(&mut Core, u64)| {
        let mut machine = Machine::new(&config());
        warm(&mut machine.core, 3);
        touch(&mut machine.core, 3);
        (1..=8).for_each(|way| warm(&mut machine.core, 3 + 64 * way));
        machine.counter("l1d_write_backs")
    };
    assert_eq!(filled(|core, line| core.warm_store(at(line), 8, &Steps::new())), 1);
    assert_eq!(filled(warm), 0);
}

#[test]
fn prefetchers_run_ahead_of_warmed_misses() {
    let mut config = config();
    config.cache.l1d.prefetcher = Prefetcher::NextLine;
    let mut machine = Machine::new(&config);
    warm(&mut machine.core, 10);
    machine.plain_load(11, 1, 1);
    assert_eq!(machine.cycles(), L1);
    let mut machine = Machine::new(&config);
    warm(&mut machine.core, 10);
    warm(&mut machine.core, 11); // the first use of a prefetched line
    machine.plain_load(12, 1, 1);
    assert_eq!(machine.cycles(), L1);
}

#[test]
fn branches_are_learnt() {
    let branch = |number: u64| Instruction {
        ip: VirtualAddress::new(0x400),
        branch: Branch::Conditional,
        taken: number.is_multiple_of(2),
        ..integer(0, 0)
    };
    let mispredictions = |warmed: u64| {
        let mut machine = Machine::new(&config());
        for number in 0..warmed {
            machine.core.warm_begin(&branch(number));
            machine.core.warm_finish(&branch(number));
        }
        machine.core.start_measuring();
        (0..20).for_each(|number| machine.run(branch(number)));
        machine.counter("branch_mispredictions")
    };
    assert!(mispredictions(0) > 0);
    assert_eq!(mispredictions(200), 0);
}

/// Counters asked for during a pause have their values from before it: 0 until a measured instruction has retired.
#[test]
fn counts_stand_still_in_a_pause() {
    let mut machine = Machine::new(&config());
    machine.load(1, 1, 1, 0, &l2_tlb_hit(0));
    // The load is still to be done.
    machine.core.start_measuring();
    let of = |core: &perforate_timing::Core| {
        (core.cycles(), core.translation_stall_cycles(), stack(core))
    };
    assert_eq!(of(&machine.core), (0, 0, Vec::new()));
    machine.core.drain();
    machine.load(2, 1, 1, 0, &l2_tlb_hit(0));
    machine.core.drain();
    let once = of(&machine.core);
    assert_eq!((once.0, once.1), (L2_TLB + L1 + L2 + DRAM, L2_TLB));
    machine.core.pause_counting();
    assert_eq!(of(&machine.core), once);
    machine.load(3, 1, 1, 0, &l2_tlb_hit(0));
    machine.core.drain();
    assert_eq!(of(&machine.core), once);
    machine.core.resume_counting();
    assert_eq!(of(&machine.core), once);
}

/// Four loads that follow each other: the second and the third are counted.
#[test]
fn what_is_done_while_counting_pauses_is_not_counted() {
    let mut machine = Machine::new(&config());
    let chase = |machine: &mut Machine, line| {
        machine.load(line, 1, 1, 0, &l2_tlb_hit(0));
        machine.core.drain();
    };
    machine.core.start_measuring();
    machine.core.pause_counting();
    chase(&mut machine, 1);
    machine.core.resume_counting();
    chase(&mut machine, 2);
    machine.core.pause_counting();
    chase(&mut machine, 3);
    machine.core.resume_counting();
    chase(&mut machine, 4);
    machine.core.pause_counting();
    let each = L2_TLB + L1 + L2 + DRAM;
    assert_eq!(machine.core.cycles(), 2 * each);
    // 2 of 4 instructions are counted; they are to stand for 7.
    machine.core.extrapolate(7);
    assert_eq!(machine.core.cycles(), 7 * each);
    for (counter, expected) in
        [("instructions", 7), ("loads", 7), ("dram_reads", 7), ("translation_cycles", 7 * L2_TLB)]
    {
        assert_eq!(machine.counter(counter), expected, "{counter}");
    }
    let parts = stack(&machine.core);
    assert_eq!(parts.iter().map(|(_, cycles)| cycles).sum::<u64>(), 7 * each, "{parts:?}");
}
