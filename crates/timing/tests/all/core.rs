//! Closed forms of the core: width, reorder buffer, queues, branches, front end, stores.

use crate::machine::{DRAM, L1, L2, Machine, config, integer, walk};
use perforate_timing::TimingConfig;
use perforate_types::{Branch, Instruction, Operation, PhysicalAddress, Steps, VirtualAddress};

#[test]
fn independent_operations_run_at_full_width() {
    let mut machine = Machine::new(&config());
    // Four in each cycle from 0 on; the last four are dispatched at 999 and done at 1000.
    (0..4000).for_each(|_| machine.run(integer(0, 1)));
    assert_eq!(machine.cycles(), 1000);
}

#[test]
fn a_dependence_chain_runs_at_operation_latency() {
    for (operation, cycles) in [
        (Operation::Integer, 1),
        (Operation::Multiply, 3),
        (Operation::Divide, 20),
        (Operation::Float, 4),
    ] {
        let mut machine = Machine::new(&config());
        (0..100).for_each(|_| machine.run(Instruction { operation, ..integer(1, 1) }));
        assert_eq!(machine.cycles(), 100 * cycles, "{operation:?}");
    }
}

#[test]
fn register_zero_depends_on_nothing() {
    let mut machine = Machine::new(&config());
    machine.run(Instruction { operation: Operation::Divide, ..integer(0, 0) });
    machine.run(integer(0, 1));
    assert_eq!(machine.cycles(), 20, "the divide alone");
}

#[test]
fn the_reorder_buffer_limits_the_loads_in_flight() {
    let mut config = config();
    config.core.width = 8;
    config.core.retire_width = 8;
    config.core.reorder_buffer_entries = 8;
    let mut machine = Machine::new(&config);
    // Eight are dispatched together, retire together, and let the next eight in.
    (0..80).for_each(|line| machine.plain_load(line, 0, 1));
    assert_eq!(machine.cycles(), 10 * (L1 + L2 + DRAM));
}

#[test]
fn the_load_queue_limits_the_loads_in_flight() {
    let mut config = config();
    config.core.load_queue_entries = 4;
    let mut machine = Machine::new(&config);
    (0..40).for_each(|line| machine.plain_load(line, 0, 1));
    assert_eq!(machine.cycles(), 10 * (L1 + L2 + DRAM));
}

#[test]
fn a_store_miss_does_not_delay_retirement_until_the_store_queue_is_full() {
    let mut config = config();
    config.core.store_queue_entries = 4;
    let mut machine = Machine::new(&config);
    (0..4).for_each(|line| machine.store(line, 0));
    assert_eq!(machine.cycles(), 1);
    // The fifth waits for the first, which wrote from its retirement at 1 on, and takes 1.
    machine.store(4, 0);
    assert_eq!(machine.cycles(), 1 + L1 + L2 + DRAM + 1);
}

#[test]
fn a_load_waits_for_the_data_of_a_store_before_it() {
    let mut machine = Machine::new(&config());
    machine.warm([5]);
    machine.chain(1, 50);
    machine.store(5, 1); // data ready at 51
    machine.plain_load(5, 0, 2);
    machine.run(integer(2, 2));
    // The drain that ends the warm-up takes one cycle: times count from there.
    assert_eq!(machine.cycles(), 51 + L1 + 1);
    assert_eq!(machine.counter("forwarded_loads"), 1);
}

fn conditional(taken: bool) -> Instruction {
    Instruction { branch: Branch::Conditional, taken, ..integer(0, 0) }
}

#[test]
fn a_misprediction_costs_its_penalty_from_resolution() {
    let mut machine = Machine::new(&config());
    // The untrained predictor says not taken. Right: both in cycle 0, done at 1.
    machine.run(conditional(false));
    machine.run(integer(0, 1));
    assert_eq!(machine.cycles(), 1);
    // Wrong: resolved at 1, the next instruction is dispatched 15 later.
    let mut machine = Machine::new(&config());
    machine.run(conditional(true));
    machine.run(integer(0, 1));
    assert_eq!(machine.cycles(), 1 + 15 + 1);
    assert_eq!(machine.counter("branch_mispredictions"), 1);
}

#[test]
fn an_indirect_branch_to_a_new_target_is_mispredicted_once() {
    let mut machine = Machine::new(&config());
    let at = |ip| Instruction { ip: VirtualAddress::new(ip), ..integer(0, 1) };
    let jump = Instruction { branch: Branch::Indirect, taken: true, ..at(0x100) };
    for _ in 0..2 {
        machine.run(jump);
        machine.run(at(0x900));
    }
    // First time: 1 + 15. Then everything in cycle 16, done at 17.
    assert_eq!(machine.cycles(), 17);
}

/// A taken branch and an indirect one, which other predictors get wrong: all is dispatched in cycle 0 and done at 1.
#[test]
fn a_perfect_predictor_is_right_about_directions_and_targets() {
    let mut config = config();
    config.branch_predictor.perfect = true;
    let mut machine = Machine::new(&config);
    let at = |ip| Instruction { ip: VirtualAddress::new(ip), ..integer(0, 1) };
    machine.run(Instruction { ip: VirtualAddress::new(0x100), ..conditional(true) });
    machine.run(Instruction { branch: Branch::Indirect, taken: true, ..at(0x200) });
    machine.run(at(0x900));
    assert_eq!(machine.cycles(), 1);
    assert_eq!(machine.counter("branch_mispredictions"), 0);
    assert_eq!(machine.counter("branches"), 2);
}

/// A load takes 75 cycles, and a mispredicted branch waits for it: resolved at 76, what follows is dispatched at 91.
/// A load behind the branch that has begun in cycle 0 is there by then.
#[test]
fn loads_behind_a_mispredicted_branch_begin_before_it_is_resolved() {
    let mispredicted = Instruction { sources: [1, 0, 0, 0], ..conditional(true) };
    const MISS: u64 = L1 + L2 + DRAM;
    const BEHIND: u64 = MISS + 1 + 15;
    type Behind = (&'static str, fn(&mut Machine), u64);
    let behind: [Behind; 8] = [
        ("a load", |machine| machine.plain_load(1, 0, 2), BEHIND + L1),
        ("a load that needs the first", |machine| machine.plain_load(1, 1, 2), BEHIND + MISS),
        (
            "a load that needs what is computed",
            |machine| {
                machine.chain(3, 8);
                machine.plain_load(1, 3, 2);
            },
            BEHIND + 8 + L1,
        ),
        (
            "a load that needs a load behind the branch",
            |machine| {
                machine.plain_load(1, 0, 2);
                machine.plain_load(2, 2, 2);
            },
            BEHIND + L1 + MISS,
        ),
        (
            "a load with a walk, both begun early",
            |machine| machine.load(1, 0, 2, 0, &walk(&[2], 0)),
            MISS + MISS,
        ),
        (
            "a load behind another such branch",
            |machine| {
                machine.run(Instruction { ip: VirtualAddress::new(0x40), ..conditional(true) });
                machine.plain_load(1, 0, 2);
            },
            BEHIND + 16 + L1,
        ),
        (
            "a load behind an instruction that serializes",
            |machine| {
                machine.run(Instruction { operation: Operation::Serializing, ..integer(0, 0) });
                machine.plain_load(1, 0, 2);
            },
            BEHIND + 1 + MISS,
        ),
        ("a store", |machine| machine.store(1, 0), BEHIND + 1),
    ];
    for (what, then, cycles) in behind {
        let mut config = config();
        config.branch_predictor.follows_wrong_path = true;
        let mut machine = Machine::new(&config);
        machine.plain_load(0, 0, 1);
        machine.run(mispredicted);
        then(&mut machine);
        assert_eq!(machine.cycles(), cycles, "{what}");
    }
}

/// A load behind a mispredicted branch begins as soon as its address is known, if the branch still waits. The branch
/// reads the second of two loads in a row, is resolved at 151, and what follows is dispatched at 166.
#[test]
fn loads_behind_a_mispredicted_branch_begin_when_their_addresses_come() {
    const MISS: u64 = L1 + L2 + DRAM;
    const BEHIND: u64 = 2 * MISS + 1 + 15;
    type Behind = (&'static str, fn(&mut Machine), u64);
    let behind: [Behind; 4] = [
        ("of the first load", |machine| machine.plain_load(2, 1, 3), BEHIND + L1),
        ("of both loads", |machine| machine.plain_load(2, 2, 3), BEHIND + MISS),
        (
            "of a load behind the branch, after a computation of 8 cycles",
            |machine| {
                machine.plain_load(2, 0, 3);
                machine.chain(3, 8);
                machine.plain_load(3, 3, 4);
            },
            BEHIND + L1 + 8 + L1,
        ),
        (
            "of the second load behind the branch, which comes with that of the branch",
            |machine| {
                machine.plain_load(2, 0, 3);
                machine.plain_load(3, 3, 4);
                machine.plain_load(4, 4, 5);
            },
            BEHIND + L1 + L1 + MISS,
        ),
    ];
    for (address, then, cycles) in behind {
        let mut config = config();
        config.branch_predictor.follows_wrong_path = true;
        let mut machine = Machine::new(&config);
        machine.plain_load(0, 0, 1);
        machine.plain_load(1, 1, 2);
        machine.run(Instruction { sources: [2, 0, 0, 0], ..conditional(true) });
        then(&mut machine);
        assert_eq!(machine.cycles(), cycles, "the address is that {address}");
    }
}

/// Instructions on a wrong path need the entries that those on the right one need. A load, the branch that waits for it,
/// and two loads behind that: with room for one of them, the second begins in cycle 91, behind the resolved branch.
#[test]
fn a_wrong_path_is_followed_as_far_as_the_queues_have_room() {
    const MISS: u64 = L1 + L2 + DRAM;
    const BEHIND: u64 = MISS + 1 + 15;
    type Shrink = (&'static str, fn(&mut TimingConfig), u64);
    let shrinks: [Shrink; 7] = [
        ("enough of everything", |_| (), BEHIND + L1),
        ("load queue: both", |config| config.core.load_queue_entries = 3, BEHIND + L1),
        ("load queue: one", |config| config.core.load_queue_entries = 2, BEHIND + MISS),
        (
            "load queue: one at a time",
            |config| config.core.load_queue_entries = 1,
            BEHIND + 2 * MISS,
        ),
        ("reorder buffer: both", |config| config.core.reorder_buffer_entries = 4, BEHIND + L1),
        ("reorder buffer: one", |config| config.core.reorder_buffer_entries = 3, BEHIND + MISS),
        (
            "scheduler: the branch and one",
            |config| config.core.scheduler_entries = Some(2),
            BEHIND + L1,
        ),
    ];
    for (what, shrink, cycles) in shrinks {
        let mut config = config();
        config.branch_predictor.follows_wrong_path = true;
        shrink(&mut config);
        let mut machine = Machine::new(&config);
        machine.plain_load(0, 0, 1);
        machine.run(Instruction { sources: [1, 0, 0, 0], ..conditional(true) });
        machine.plain_load(1, 0, 2);
        machine.plain_load(2, 0, 3);
        assert_eq!(machine.cycles(), cycles, "{what}");
    }
}

/// The branch and an instruction on the path wait for a load: with two entries of the scheduler, the load behind them
/// cannot be dispatched, with three it begins at once. Two stores have room in a store queue of two, and not in one of
/// one.
#[test]
fn instructions_that_wait_on_a_wrong_path_hold_entries() {
    const MISS: u64 = L1 + L2 + DRAM;
    const BEHIND: u64 = MISS + 1 + 15;
    let cycles = |then: fn(&mut Machine), scheduler, stores| {
        let mut config = config();
        config.branch_predictor.follows_wrong_path = true;
        config.core.scheduler_entries = scheduler;
        config.core.store_queue_entries = stores;
        let mut machine = Machine::new(&config);
        machine.plain_load(0, 0, 1);
        machine.run(Instruction { sources: [1, 0, 0, 0], ..conditional(true) });
        then(&mut machine);
        machine.plain_load(1, 0, 2);
        machine.cycles()
    };
    let waiting: fn(&mut Machine) = |machine| machine.run(integer(1, 9));
    assert_eq!(cycles(waiting, Some(3), 8), BEHIND + L1);
    assert_eq!(cycles(waiting, Some(2), 8), BEHIND + MISS);
    let stores: fn(&mut Machine) = |machine| (0..2).for_each(|_| machine.store(3, 0));
    assert_eq!(cycles(stores, None, 2), BEHIND + L1);
    // The second store waits until the first is written.
    assert_eq!(cycles(stores, None, 1), BEHIND + 1 + MISS + MISS);
}

#[test]
fn serializing_drains_the_pipeline() {
    let mut machine = Machine::new(&config());
    machine.plain_load(0, 0, 1);
    machine.run(Instruction { operation: Operation::Serializing, ..integer(0, 0) });
    machine.run(integer(0, 1));
    assert_eq!(machine.cycles(), L1 + L2 + DRAM + 1 + 1);
}

#[test]
fn an_instruction_miss_stalls_the_front_end_and_a_hit_costs_nothing() {
    let mut machine = Machine::new(&config());
    let code = PhysicalAddress::new(100 * 64);
    machine.core.fetch(code, 0, &Steps::new());
    machine.run(integer(0, 1));
    // The L1I's own latency is part of the front end's depth.
    assert_eq!(machine.cycles(), L2 + DRAM + 1);
    for _ in 0..3 {
        machine.core.fetch(code, 0, &Steps::new());
        machine.run(integer(0, 1));
    }
    assert_eq!(machine.cycles(), L2 + DRAM + 1);
    assert_eq!(machine.counter("fetch_stall_cycles"), L2 + DRAM);
}

#[test]
fn the_front_end_runs_ahead_of_a_full_reorder_buffer() {
    let mut config = config();
    config.core.retire_width = 8;
    config.core.reorder_buffer_entries = 8;
    let mut machine = Machine::new(&config);
    // A load blocks the buffer until 75; meanwhile the next code line arrives.
    machine.plain_load(0, 0, 1);
    (0..7).for_each(|_| machine.run(integer(0, 2)));
    machine.core.fetch(PhysicalAddress::new(100 * 64), 0, &Steps::new());
    machine.run(integer(0, 2));
    assert_eq!(machine.cycles(), L1 + L2 + DRAM + 1);
}

#[test]
fn warm_up_is_not_counted_but_keeps_its_state() {
    let mut machine = Machine::new(&config());
    machine.plain_load(7, 0, 1);
    machine.settle();
    assert_eq!(machine.cycles(), 0);
    assert_eq!((machine.counter("instructions"), machine.counter("l1d_misses")), (0, 0));
    machine.plain_load(7, 0, 1);
    assert_eq!((machine.cycles(), machine.counter("l1d_misses")), (L1, 0));
}

#[test]
fn an_access_over_two_lines_waits_for_both() {
    let mut machine = Machine::new(&config());
    machine.warm([1]);
    let load = integer(0, 1);
    machine.core.begin(&load);
    machine.core.load(PhysicalAddress::new(2 * 64 - 4), 8, 63, &Steps::new());
    machine.core.finish(&load);
    assert_eq!(machine.cycles(), L1 + L2 + DRAM);
    assert_eq!((machine.counter("loads"), machine.counter("l1d_accesses")), (1, 2));
}

/// A load of four lines ends with the line that arrives last, whichever of the four this is.
#[test]
fn an_access_over_many_lines_waits_for_the_last() {
    for missing in [None, Some(3), Some(4), Some(6)] {
        let mut machine = Machine::new(&config());
        machine.warm((3..7).filter(|&line| Some(line) != missing));
        let load = integer(0, 1);
        machine.core.begin(&load);
        machine.core.load(PhysicalAddress::new(3 * 64), 4 * 64, 63, &Steps::new());
        machine.core.finish(&load);
        let expected = if missing.is_some() { L1 + L2 + DRAM } else { L1 };
        assert_eq!(machine.cycles(), expected, "{missing:?}");
        assert_eq!((machine.counter("loads"), machine.counter("l1d_accesses")), (1, 4));
        let part = if missing.is_some() { "memory" } else { "l1" };
        assert_eq!(machine.stack(), [(part.to_owned(), expected)]);
    }
}

/// The pitfall of one-pass models: a scalar "free at" in a walker, an MSHR, a bank or a bus
/// would put the last load behind the chain, which is thousands of cycles ahead of it.
#[test]
fn an_independent_load_after_a_long_dependent_chain_is_not_delayed() {
    let mut config = config();
    config.cache.l1d.mshrs = 1;
    config.cache.l2.mshrs = 1;
    config.dram.channels = 1;
    config.dram.banks_per_rank = 1;
    let mut machine = Machine::new(&config);
    machine.warm([4000]);
    // The chain begins 120 cycles late, which leaves room for one miss before it.
    let divide = Instruction { operation: Operation::Divide, ..integer(1, 1) };
    (0..6).for_each(|_| machine.run(divide));
    for n in 0..50 {
        machine.load(n * 2, 1, 1, 0, &walk(&[n * 2 + 1], 0));
    }
    let chain = machine.load_cycles();
    machine.plain_load(4000, 0, 2);
    assert_eq!(machine.load_cycles() - chain, L1, "a hit needs nothing");
    machine.load(4000, 0, 2, 1, &walk(&[4000], 1));
    assert_eq!(machine.load_cycles() - chain, 3 * L1, "the walker is free");
    machine.plain_load(4001, 0, 2);
    // MSHRs, bank and bus are free too; the one bank has a row open, so precharge adds 15.
    let miss = L1 + L2 + DRAM + 15;
    assert_eq!(machine.load_cycles() - chain, 3 * L1 + miss);
}

/// `add r1, [r2]` and `mov [r2], r1` with r1 late: the load begins without it, the sum waits for it;
/// the store is translated without it, and what is stored waits for it.
#[test]
fn accesses_wait_for_addresses_only() {
    let both = |data_sources, is_store| {
        let mut machine = Machine::new(&config());
        machine.chain(1, 50);
        let instruction = Instruction {
            sources: [2, 1, 0, 0],
            data_sources,
            destinations: [if is_store { 0 } else { 1 }, 0],
            ..Instruction::default()
        };
        machine.core.begin(&instruction);
        let address = PhysicalAddress::new(64);
        if is_store {
            machine.core.store(address, 8, 1, &walk(&[7], 1));
        } else {
            machine.core.load(address, 8, 1, &Steps::new());
        }
        machine.core.finish(&instruction);
        machine.cycles()
    };
    const MISS: u64 = L1 + L2 + DRAM;
    // Dispatched at 12, behind 50 operations of which four are dispatched at a time.
    assert_eq!(both(0b10, false), 12 + MISS);
    assert_eq!(both(0, false), 50 + MISS);
    // The walk's one read misses.
    assert_eq!(both(0b10, true), 12 + MISS);
    assert_eq!(both(0, true), 50 + MISS);
}

#[test]
fn the_scheduler_limits_what_waits() {
    let mut config = config();
    config.core.scheduler_entries = Some(4);
    let run = |config: &_| {
        let mut machine = Machine::new(config);
        machine.plain_load(0, 0, 1);
        // They wait for the load, and take all entries; the next load waits for one of them.
        (0..4).for_each(|_| machine.run(integer(1, 2)));
        machine.plain_load(1, 0, 3);
        machine.cycles()
    };
    const MISS: u64 = L1 + L2 + DRAM;
    assert_eq!(run(&config), 2 * MISS);
    config.core.scheduler_entries = None;
    // Dispatched at 1; the fifth to retire in its cycle, of four.
    assert_eq!(run(&config), 1 + MISS + 1);
}
