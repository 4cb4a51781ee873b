//! Closed forms of the cycle stack: the critical path counts, and adds up.

use crate::machine::{DRAM, L1, L2, L2_TLB, Machine, config, integer, l2_tlb_hit, walk};
use perforate_timing::CacheConfig;
use perforate_types::{Branch, Instruction, Operation, PhysicalAddress, Steps, VirtualAddress};
use proptest::prelude::*;

const TABLES: u64 = 1000;
const DATA: u64 = 2000;
/// Cycles of a load that memory serves.
const MISS: u64 = L1 + L2 + DRAM;

/// The parts of a machine's stack that are not 0.
fn assert_stack(machine: &Machine, expected: &[(&str, u64)]) {
    let sum: u64 = expected.iter().map(|part| part.1).sum();
    assert_eq!(sum, machine.cycles(), "the expected parts add up");
    let stack = machine.stack();
    let mut expected: Vec<_> =
        expected.iter().map(|&(name, cycles)| (name.into(), cycles)).collect();
    expected.sort();
    assert_eq!(stack, expected);
}

fn warmed(config: &perforate_timing::TimingConfig) -> Machine {
    let mut machine = Machine::new(config);
    machine.warm((TABLES..TABLES + 16).chain(DATA..DATA + 16));
    machine
}

#[test]
fn a_chain_of_operations_is_base() {
    let mut machine = Machine::new(&config());
    (0..100)
        .for_each(|_| machine.run(Instruction { operation: Operation::Divide, ..integer(1, 1) }));
    assert_stack(&machine, &[("base", 2000)]);
}

#[test]
fn a_walk_is_split_by_levels_and_the_load_follows() {
    let mut machine = warmed(&config());
    machine.load(DATA, 0, 1, 0, &walk(&[TABLES, TABLES + 1, 3], 0));
    assert_stack(
        &machine,
        &[("walk_level3", L1), ("walk_level2", L1), ("walk_level1", MISS), ("l1", L1)],
    );
}

#[test]
fn what_overlaps_with_something_longer_counts_nothing() {
    let mut machine = warmed(&config());
    machine.load(DATA, 0, 1, 0, &l2_tlb_hit(0));
    machine.plain_load(3, 0, 2);
    assert_stack(&machine, &[("memory", MISS)]);
    // What depends on the shorter one comes later than the longer one: now it is on the path.
    machine.chain(1, 2 * MISS);
    assert_stack(&machine, &[("l2_tlb", L2_TLB), ("l1", L1), ("base", 2 * MISS)]);
}

#[test]
fn loads_that_follow_pointers_add_up_their_latencies() {
    let mut machine = Machine::new(&config());
    (0..5).for_each(|line| machine.plain_load(line, 1, 1));
    assert_stack(&machine, &[("memory", 5 * MISS)]);
}

#[test]
fn a_full_reorder_buffer_passes_the_blame_on() {
    let mut config = config();
    (config.core.width, config.core.retire_width, config.core.reorder_buffer_entries) = (8, 8, 8);
    let mut machine = Machine::new(&config);
    (0..80).for_each(|line| machine.plain_load(line, 0, 1));
    assert_stack(&machine, &[("memory", 10 * MISS)]);
}

#[test]
fn a_full_load_queue_passes_the_blame_on() {
    let mut config = config();
    config.core.load_queue_entries = 4;
    let mut machine = Machine::new(&config);
    (0..40).for_each(|line| machine.plain_load(line, 0, 1));
    assert_stack(&machine, &[("memory", 10 * MISS)]);
}

#[test]
fn waiting_for_a_walker_is_told_from_walking() {
    let mut machine = warmed(&config());
    for number in 0..10 {
        let lines = [TABLES + number % 8, TABLES + 8];
        machine.load(DATA, 0, 1, number as u32, &walk(&lines, number as u32));
    }
    // Nine walks of two reads before the last one, which is dispatched in the third cycle.
    let walk = [("base", 2), ("walk_level2", L1), ("walk_level1", L1), ("l1", L1)];
    assert_stack(&machine, &[&walk[..], &[("walker_queue", 9 * 2 * L1 - 2)]].concat());
    assert!(machine.ratio("page_walkers_busy") > 0.9);
}

#[test]
fn waiting_for_an_mshr_is_told_from_memory() {
    let mut config = config();
    config.cache.l1d.mshrs = 1;
    let mut machine = Machine::new(&config);
    (0..3).for_each(|line| machine.plain_load(line, 0, 1));
    // The third looks its line up, waits for two others, and is served.
    assert_stack(&machine, &[("mshr", L1 + 2 * (L2 + DRAM)), ("memory", L2 + DRAM)]);
    assert!(machine.ratio("l1d_mshrs_busy") > 0.9);
    // The same of a walk, whose load finds its line.
    let mut machine = Machine::new(&config);
    machine.warm([DATA]);
    machine.plain_load(0, 0, 1);
    machine.load(DATA, 0, 2, 0, &walk(&[3], 0));
    let parts = [("walk_mshr", L1 + L2 + DRAM), ("walk_level1", L2 + DRAM), ("l1", L1)];
    assert_stack(&machine, &parts);
}

#[test]
fn a_misprediction_is_its_penalty() {
    let mut machine = Machine::new(&config());
    machine.plain_load(0, 0, 1);
    machine.run(Instruction { branch: Branch::Conditional, taken: true, ..integer(1, 0) });
    machine.run(integer(0, 1));
    assert_stack(&machine, &[("memory", MISS), ("base", 2), ("branch", 15)]);
}

#[test]
fn a_full_store_queue_has_a_part_of_its_own() {
    let mut config = config();
    config.core.store_queue_entries = 4;
    let mut machine = Machine::new(&config);
    (0..5).for_each(|line| machine.store(line, 0));
    // The first writes from its retirement at 2 on, and then the fifth is dispatched.
    assert_stack(&machine, &[("base", 2), ("store_queue", MISS)]);
}

/// The last store waits for an entry of the store queue until 77, and for one of the scheduler until
/// what fills it has its operand, after two misses.
#[test]
fn the_queue_that_is_full_for_longer_is_to_blame() {
    let mut config = config();
    (config.core.store_queue_entries, config.core.scheduler_entries) = (1, Some(4));
    let run = |config: &_| {
        let mut machine = Machine::new(config);
        machine.store(2, 0);
        machine.plain_load(0, 0, 1);
        machine.plain_load(1, 1, 1);
        (0..4).for_each(|_| machine.run(integer(1, 2)));
        machine.store(3, 0);
        machine.run(integer(0, 3));
        machine
    };
    let machine = run(&config);
    assert!(machine.cycles() >= 2 * MISS, "{:?}", machine.stack());
    assert_stack(&machine, &[("memory", 2 * MISS), ("base", machine.cycles() - 2 * MISS)]);
    // With a larger scheduler, the store queue is.
    config.core.scheduler_entries = None;
    let stack = run(&config).stack();
    assert!(stack.iter().any(|(part, _)| part == "memory"), "{stack:?}");
}

#[test]
fn stores_that_fill_the_queue_until_they_are_translated_wait_for_translation() {
    let mut config = config();
    config.core.store_queue_entries = 1;
    let mut machine = Machine::new(&config);
    machine.warm((TABLES..TABLES + 4).chain([DATA]));
    let walked = |number: u64| walk(&[TABLES + number], number as u32);
    (0..4).for_each(|number| machine.translated_store(DATA, number as u32, &walked(number)));
    // Each is translated, retires, is written in the cycles of an L1 hit, and lets the next one in.
    assert_stack(&machine, &[("walk_level1", 4 * L1), ("store_queue", 3 * L1)]);
    assert_eq!(machine.counter("translation_stall_cycles"), 4 * L1);
}

#[test]
fn a_load_waits_for_the_data_of_a_store_and_for_what_made_them() {
    let mut machine = Machine::new(&config());
    machine.warm([5]);
    machine.plain_load(6, 0, 1);
    machine.store(5, 1);
    machine.plain_load(5, 0, 2);
    machine.run(integer(2, 2));
    assert_stack(&machine, &[("memory", MISS), ("base", 2), ("l1", L1)]);
}

#[test]
fn a_serializing_instruction_waits_for_all_before_it() {
    let mut machine = Machine::new(&config());
    machine.plain_load(0, 0, 1);
    machine.run(Instruction { operation: Operation::Serializing, ..integer(0, 0) });
    machine.run(integer(0, 1));
    assert_stack(&machine, &[("memory", MISS), ("base", 2)]);
}

#[test]
fn code_that_is_missed_is_charged_to_where_it_comes_from() {
    let mut machine = Machine::new(&config());
    for line in 0..3 {
        let address = PhysicalAddress::new(line * 64);
        machine.core.fetch(address, 0, &Steps::new());
        machine.run(Instruction { ip: VirtualAddress::new(line * 64), ..integer(0, 0) });
    }
    // The first-level look-up is part of the front end's depth.
    assert_stack(&machine, &[("memory", 3 * (L2 + DRAM)), ("base", 1)]);
}

#[test]
fn a_store_that_misses_the_tlb_is_on_the_path_with_its_walk() {
    let mut machine = warmed(&config());
    let instruction = integer(0, 0);
    machine.core.begin(&instruction);
    machine.core.store(PhysicalAddress::new(DATA * 64), 8, 0, &walk(&[TABLES, 3], 0));
    machine.core.finish(&instruction);
    assert_stack(&machine, &[("walk_level2", L1), ("walk_level1", MISS)]);
}

#[test]
fn long_runs_are_followed_in_stretches() {
    let mut machine = Machine::new(&config());
    for index in 0..10_000 {
        machine.plain_load(index, 1, 1);
    }
    let stack = machine.stack();
    assert_eq!(stack.iter().map(|part| part.1).sum::<u64>(), machine.cycles());
    assert!(
        stack.iter().any(|(name, cycles)| name == "memory" && cycles * 10 > 9 * machine.cycles())
    );
}

#[test]
fn what_was_done_before_measuring_does_not_count() {
    let mut machine = Machine::new(&config());
    (0..100).for_each(|line| machine.plain_load(line, 1, 1));
    machine.settle();
    machine.chain(1, 50);
    assert_eq!(machine.stack().iter().map(|part| part.1).sum::<u64>(), machine.cycles());
    assert!(machine.cycles() <= 51, "{}", machine.cycles());
}

/// An instruction whose inputs come from three loads that hit (12 cycles) and from an operation. The later input
/// is on the path, if the instruction waits for it: a load needs its address first, and data only at its end.
#[test]
fn the_input_that_comes_last_is_on_the_path() {
    const ADDRESS: u64 = 3 * L1;
    type Row = (Operation, bool, [u8; 4], u8, &'static [(&'static str, u64)]);
    let rows: [Row; 10] = [
        // A load whose data operand is there before what it loads, and one whose data operand is later.
        (Operation::Multiply, true, [1, 2, 0, 0], 0b10, &[("l1", ADDRESS + L1)]),
        (Operation::Divide, true, [1, 2, 0, 0], 0b10, &[("base", 20)]),
        (Operation::Divide, true, [2, 1, 0, 0], 0b01, &[("base", 20)]),
        // Both are parts of its address.
        (Operation::Multiply, true, [1, 2, 0, 0], 0, &[("l1", ADDRESS + L1)]),
        (Operation::Divide, true, [1, 2, 0, 0], 0, &[("base", 20), ("l1", L1)]),
        (Operation::Divide, true, [0, 0, 1, 2], 0, &[("base", 20), ("l1", L1)]),
        (Operation::Divide, true, [0, 0, 1, 2], 0b1000, &[("base", 20)]),
        // An operation on registers: one cycle from the later one on.
        (Operation::Multiply, false, [1, 2, 0, 0], 0, &[("base", 1), ("l1", ADDRESS)]),
        (Operation::Divide, false, [2, 0, 0, 1], 0, &[("base", 21)]),
        (Operation::Multiply, false, [2, 0, 0, 1], 0b1000, &[("base", 1), ("l1", ADDRESS)]),
    ];
    for (operation, loads, sources, data_sources, expected) in rows {
        let mut machine = Machine::new(&config());
        machine.warm([5]);
        // A later miss lets time go on: the line is there when a load is handed over, which waits for nothing.
        machine.chain(7, 200);
        machine.plain_load(3000, 7, 7);
        machine.core.drain();
        machine.core.start_measuring();
        (0..3).for_each(|_| machine.plain_load(5, 1, 1));
        machine.run(Instruction { operation, ..integer(0, 2) });
        let instruction = Instruction { sources, data_sources, ..integer(0, 3) };
        machine.core.begin(&instruction);
        if loads {
            machine.core.load(PhysicalAddress::new(5 * 64), 8, 63, &Steps::new());
        }
        machine.core.finish(&instruction);
        let sum: u64 = expected.iter().map(|part| part.1).sum();
        assert_eq!(machine.cycles(), sum, "{operation:?} {sources:?} {data_sources}");
        assert_stack(&machine, expected);
    }
}

/// The part of the stack is that of the level that had the line.
#[test]
fn lines_are_charged_to_the_level_that_had_them() {
    let mut config = config();
    let l2 = config.cache.l2.clone();
    config.cache.llc = Some(CacheConfig { size_bytes: 4 << 20, latency_cycles: 30, ..l2 });
    // Eight lines that meet line 0 in the sets of a cache push it out of this cache and those above.
    for (distance, part, cycles) in [
        (None, "l1", L1),
        (Some(64), "l2", L1 + L2),
        (Some(2048), "llc", L1 + L2 + 30),
        // Its row is still open.
        (Some(8192), "memory", L1 + L2 + 30 + DRAM - 14),
    ] {
        let mut machine = Machine::new(&config);
        let pushed = distance.into_iter().flat_map(|lines| (1..=8).map(move |way| way * lines));
        machine.warm([0].into_iter().chain(pushed));
        machine.plain_load(0, 1, 1);
        assert_stack(&machine, &[(part, cycles)]);
    }
}

/// One instruction of a random program.
#[derive(Clone, Debug)]
enum Random {
    Operation { operation: Operation, from: u8, to: u8 },
    Load { line: u64, from: u8, to: u8, walk: Vec<u64> },
    Store { line: u64, from: u8, walk: Vec<u64> },
    Branch { taken: bool, from: u8 },
    Code { line: u64 },
    Measure,
    Drain,
}

fn random() -> impl Strategy<Value = Random> {
    let operations = [Operation::Integer, Operation::Divide, Operation::Serializing];
    let walk = || prop::collection::vec(0u64..3000, 0..5);
    let line = || 0u64..1500;
    prop_oneof![
        4 => (prop::sample::select(operations.to_vec()), 0u8..6, 0u8..6)
            .prop_map(|(operation, from, to)| Random::Operation { operation, from, to }),
        6 => (line(), 0u8..6, 0u8..6, walk())
            .prop_map(|(line, from, to, walk)| Random::Load { line, from, to, walk }),
        4 => (line(), 0u8..6, walk())
            .prop_map(|(line, from, walk)| Random::Store { line, from, walk }),
        2 => (any::<bool>(), 0u8..6).prop_map(|(taken, from)| Random::Branch { taken, from }),
        2 => line().prop_map(|line| Random::Code { line }),
        1 => Just(Random::Measure),
        1 => Just(Random::Drain),
    ]
}

impl Random {
    fn run(&self, machine: &mut Machine) {
        match self {
            Self::Operation { operation, from, to } => {
                machine.run(Instruction { operation: *operation, ..integer(*from, *to) });
            }
            Self::Load { line, from, to, walk: lines } => {
                machine.load(*line, *from, *to, (line % 8) as u32, &steps(lines, *line));
            }
            Self::Store { line, from, walk: lines } => {
                let instruction = integer(*from, 0);
                machine.core.begin(&instruction);
                let address = PhysicalAddress::new(line * 64);
                machine.core.store(address, 8, (line % 8) as u32, &steps(lines, *line));
                machine.core.finish(&instruction);
            }
            Self::Branch { taken, from } => machine.run(Instruction {
                branch: Branch::Conditional,
                taken: *taken,
                ..integer(*from, 0)
            }),
            Self::Code { line } => {
                let address = PhysicalAddress::new(line * 64);
                machine.core.fetch(address, 0, &Steps::new());
            }
            Self::Measure => machine.core.start_measuring(),
            Self::Drain => machine.core.drain(),
        }
    }
}

fn steps(lines: &[u64], line: u64) -> Steps {
    if lines.is_empty() {
        Steps::new()
    } else {
        walk(&lines[..lines.len().min(4)], (line % 8) as u32)
    }
}

proptest! {
    /// On any machine no cycle of any program is lost, and none counts twice.
    #[test]
    fn the_stack_adds_up(
        instructions in prop::collection::vec(random(), 1..400),
        (buffer, queues, mshrs, walkers) in (4u32..64, 1u32..16, 1u32..4, 1u32..3),
    ) {
        let mut config = config();
        config.core.reorder_buffer_entries = buffer;
        config.core.load_queue_entries = queues;
        config.core.store_queue_entries = queues;
        config.core.fetch_queue_entries = queues;
        config.core.scheduler_entries = Some(queues);
        (config.cache.l1d.mshrs, config.walker.walkers) = (mshrs, walkers);
        let mut machine = Machine::new(&config);
        for instruction in &instructions {
            instruction.run(&mut machine);
            if matches!(instruction, Random::Code { .. }) {
                machine.run(integer(0, 0));
            }
        }
        let sum: u64 = machine.stack().iter().map(|part| part.1).sum();
        prop_assert_eq!(sum, machine.cycles());
    }
}
