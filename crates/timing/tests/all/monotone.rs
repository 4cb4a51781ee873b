//! A part that is faster, or of which there is more, makes no run slower.
//!
//! Contents of caches and TLBs do not depend on time, and shared parts serve the first request first, so
//! that nothing is delayed by what comes later. What is left are schedules that are worse by chance:
//! requests that come earlier meet others, and open other rows of memory (Graham 1969). They are
//! bounded here. The number of channels is left out: it maps lines to other banks and rows.

use crate::machine::{Machine, config, rules, stack};
use perforate_timing::{CacheConfig, Shortcuts, TimingConfig, WalkerAttachment};
use perforate_types::{
    Action, Branch, Instruction, Operation, PhysicalAddress, Purpose, Steps, Unit,
};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

/// A machine with random parts, where its walkers read, and whether it follows wrong paths.
#[derive(Clone, Debug)]
struct Choices {
    /// For each parameter the place of its value among the choices.
    places: Vec<usize>,
    walkers_read_l2: bool,
    follows_wrong_path: bool,
}

struct Parameter {
    name: &'static str,
    /// From scarce or slow to plentiful or fast.
    values: &'static [u32],
    set: fn(&mut TimingConfig, u32),
}

const PARAMETERS: [Parameter; 16] = [
    Parameter { name: "width", values: &[2, 4, 8], set: |c, v| c.core.width = v },
    Parameter { name: "retire width", values: &[2, 4, 8], set: |c, v| c.core.retire_width = v },
    Parameter {
        name: "reorder buffer",
        values: &[32, 64, 128, 192, 256],
        set: |c, v| c.core.reorder_buffer_entries = v,
    },
    Parameter {
        name: "scheduler",
        values: &[16, 32, 64, 128],
        set: |c, v| c.core.scheduler_entries = Some(v),
    },
    Parameter {
        name: "load queue",
        values: &[8, 16, 32, 64],
        set: |c, v| c.core.load_queue_entries = v,
    },
    Parameter {
        name: "store queue",
        values: &[8, 16, 32, 64],
        set: |c, v| c.core.store_queue_entries = v,
    },
    Parameter { name: "L1D MSHRs", values: &[1, 2, 4, 8, 16], set: |c, v| c.cache.l1d.mshrs = v },
    Parameter { name: "L2 MSHRs", values: &[2, 8, 20, 40], set: |c, v| c.cache.l2.mshrs = v },
    Parameter {
        name: "L1D latency",
        values: &[6, 4, 2],
        set: |c, v| c.cache.l1d.latency_cycles = v,
    },
    Parameter {
        name: "L2 latency",
        values: &[40, 20, 12],
        set: |c, v| c.cache.l2.latency_cycles = v,
    },
    Parameter {
        name: "L2 response",
        values: &[20, 5, 0],
        set: |c, v| c.cache.l2.response_cycles = v,
    },
    Parameter { name: "walkers", values: &[1, 2, 4], set: |c, v| c.walker.walkers = v },
    Parameter {
        name: "L2 TLB latency",
        values: &[12, 9, 7],
        set: |c, v| c.walker.l2_tlb_cycles = v,
    },
    Parameter {
        name: "controller",
        values: &[60, 20, 10],
        set: |c, v| c.dram.controller_ns = v.into(),
    },
    Parameter { name: "column", values: &[30, 13], set: |c, v| c.dram.column_ns = v.into() },
    Parameter { name: "burst", values: &[8, 4, 2], set: |c, v| c.dram.burst_ns = v.into() },
];

impl Choices {
    fn machine(&self) -> TimingConfig {
        let mut config = config();
        config.dram.channels = 2;
        config.dram.banks_per_rank = 16;
        config.dram.row_bytes = 8192;
        config.cache.l1d.size_bytes = 4 << 10;
        config.cache.l2.size_bytes = 64 << 10;
        if self.walkers_read_l2 {
            config.walker.attach = WalkerAttachment::L2;
        }
        config.branch_predictor.follows_wrong_path = self.follows_wrong_path;
        for (parameter, &choice) in PARAMETERS.iter().zip(&self.places) {
            (parameter.set)(&mut config, parameter.values[choice]);
        }
        config
    }
}

fn choices() -> impl Strategy<Value = Choices> {
    let places: Vec<_> = PARAMETERS.iter().map(|parameter| 0..parameter.values.len()).collect();
    (places, any::<bool>(), any::<bool>()).prop_map(
        |(places, walkers_read_l2, follows_wrong_path)| Choices {
            places,
            walkers_read_l2,
            follows_wrong_path,
        },
    )
}

/// A random program: shares in percent.
#[derive(Clone, Debug)]
struct Program {
    seed: u64,
    loads: u64,
    stores: u64,
    /// Of the loads and stores: addresses that depend on the load before.
    dependent: u64,
    /// Of the loads and stores: to any page; all other addresses go on in order.
    random: u64,
    pages: u64,
    /// Of the operations that are neither: divisions.
    divisions: u64,
    /// Of the same: branches that depend on a load, taken or not by chance.
    branches: u64,
}

fn program() -> impl Strategy<Value = Program> {
    let shares = (10u64..60, 0u64..20, 0u64..60, 0u64..100, 0u64..10, 0u64..20);
    (any::<u64>(), shares, 8u64..4096).prop_map(|(seed, shares, pages)| {
        let (loads, stores, dependent, random, divisions, branches) = shares;
        Program { seed, loads, stores, dependent, random, pages, divisions, branches }
    })
}

const INSTRUCTIONS: u64 = 6_000;

/// Entries of a small TLB in front of a larger one, as the memory-management unit has them.
struct Tlbs {
    first: [u64; 16],
    second: [u64; 64],
}

impl Tlbs {
    /// A walk of up to two reads. The level-1 entries are in pages of their own.
    fn translate(&mut self, page: u64, steps: &mut Steps) -> u32 {
        steps.clear();
        let (slot, place) = ((page % 16) as usize, (page % 64) as usize);
        if self.first[slot] == page {
            return slot as u32;
        }
        if self.second[place] == page {
            let found = Action::Hit { unit: Unit::L2Tlb, slot: place as u32 };
            steps.then(Purpose::Page, found);
        } else {
            steps.then(Purpose::Page, Action::Miss { unit: Unit::L2Tlb });
            if page.is_multiple_of(3) {
                let address = PhysicalAddress::new((1 << 30) + page / 512 * 8);
                steps.then(Purpose::Level2, Action::Read { address });
            }
            let address = PhysicalAddress::new((1 << 29) + page * 8);
            steps.then(Purpose::Level1, Action::Read { address });
            let fill = Action::Fill { unit: Unit::L2Tlb, slot: place as u32 };
            steps.then(Purpose::Page, fill);
            self.second[place] = page;
        }
        steps.then(Purpose::Page, Action::Fill { unit: Unit::L1DataTlb, slot: slot as u32 });
        self.first[slot] = page;
        slot as u32
    }
}

impl Program {
    fn cycles(&self, config: &TimingConfig) -> u64 {
        self.run(Machine::new(config)).core.cycles()
    }

    /// Runs the program to its end.
    fn run(&self, mut machine: Machine) -> Machine {
        let mut state = self.seed | 1;
        let mut below = |limit: u64| {
            // xorshift64
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 8) % limit
        };
        let mut tlbs = Tlbs { first: [u64::MAX; 16], second: [u64::MAX; 64] };
        let mut steps = Steps::new();
        let mut next = 0;
        for _ in 0..INSTRUCTIONS {
            let kind = below(100);
            let is_access = kind < self.loads + self.stores;
            let from = if is_access && below(100) < self.dependent { 1 } else { 0 };
            let mut instruction = Instruction {
                sources: [from, 0, 0, 0],
                destinations: [if kind < self.loads { 1 + below(8) as u8 } else { 0 }, 0],
                ..Instruction::default()
            };
            if !is_access {
                let register = 10 + below(6) as u8;
                instruction.sources = [register, 1 + below(8) as u8, 0, 0];
                instruction.destinations = [register, 0];
                if below(100) < self.divisions {
                    instruction.operation = Operation::Divide;
                } else if below(100) < self.branches {
                    instruction.destinations = [0; 2];
                    instruction.branch = Branch::Conditional;
                    instruction.taken = below(2) == 0;
                }
            }
            machine.core.begin(&instruction);
            if is_access {
                next = if below(100) < self.random { below(self.pages * 512) } else { next + 1 };
                let word = next % (self.pages * 512);
                let slot = tlbs.translate(word / 512, &mut steps);
                let address = PhysicalAddress::new(word * 8);
                if kind < self.loads {
                    machine.core.load(address, 8, slot, &steps);
                } else {
                    machine.core.store(address, 8, slot, &steps);
                }
            }
            machine.core.finish(&instruction);
        }
        machine.core.drain();
        let parts: u64 = stack(&machine.core).iter().map(|part| part.1).sum();
        assert_eq!(parts, machine.core.cycles(), "the cycle stack adds up");
        machine
    }
}

/// Runs that are slower on a machine with one freer part.
#[derive(Default)]
struct Tally {
    pairs: u64,
    slower: u64,
    /// By more than half a percent.
    clearly_slower: u64,
    worst: f64,
    worst_parameter: &'static str,
}

fn compare(cases: u32, seed: u64) -> Tally {
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let seed: Vec<u8> = seed.to_le_bytes().repeat(4);
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &seed);
    let mut runner = TestRunner::new_with_rng(config, rng);
    let tally = std::cell::RefCell::new(Tally::default());
    let strategy = (choices(), program(), 0..PARAMETERS.len());
    let outcome = runner.run(&strategy, |(choices, program, which)| {
        let mut freer = choices.clone();
        let last = PARAMETERS[which].values.len() - 1;
        freer.places[which] = (freer.places[which] + 1).min(last);
        if freer.places[which] == choices.places[which] {
            return Ok(());
        }
        let before = program.cycles(&choices.machine());
        let after = program.cycles(&freer.machine());
        let ratio = after as f64 / before as f64;
        let mut tally = tally.borrow_mut();
        tally.pairs += 1;
        tally.slower += u64::from(ratio > 1.0);
        tally.clearly_slower += u64::from(ratio > 1.005);
        if ratio > tally.worst {
            (tally.worst, tally.worst_parameter) = (ratio, PARAMETERS[which].name);
        }
        Ok(())
    });
    outcome.expect("nothing is asserted inside");
    let tally = tally.into_inner();
    println!(
        "{} pairs of machines: {} slower when a part was made freer, {} by more than 0.5 %, the \
         worst by {:.2} % ({})",
        tally.pairs,
        tally.slower,
        tally.clearly_slower,
        (tally.worst - 1.0) * 100.0,
        tally.worst_parameter,
    );
    tally
}

/// Each rule that leaves events out, on any machine and in any program: not a cycle differs, and none has another
/// cause.
#[test]
fn rules_that_leave_events_out_change_no_time() {
    let config = Config { cases: 24, failure_persistence: None, ..Config::default() };
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[3; 32]);
    let mut runner = TestRunner::new_with_rng(config, rng);
    let strategy = (choices(), program(), any::<bool>());
    let outcome = runner.run(&strategy, |(choices, program, has_own_cache)| {
        let mut config = choices.machine();
        if has_own_cache {
            config.cache.l2.mshrs = 40;
            config.cache.l1i.mshrs = 4;
            config.cache.walker = Some(CacheConfig { mshrs: 10, ..config.cache.l1i.clone() });
        }
        let run = |shortcuts| program.run(Machine::with_shortcuts(&config, shortcuts));
        let expected = run(Shortcuts::NONE);
        for shortcuts in rules() {
            let found = run(shortcuts);
            let [cycles, without] = [&found, &expected].map(|machine| machine.core.cycles());
            prop_assert_eq!(cycles, without, "{:?}", shortcuts);
            let [stack, without] = [&found, &expected].map(|machine| stack(&machine.core));
            prop_assert_eq!(stack, without, "{:?}", shortcuts);
        }
        Ok(())
    });
    outcome.unwrap();
}

#[test]
fn a_freer_part_makes_no_run_slower_by_more_than_chance() {
    let tally = compare(150, 1);
    assert!(tally.pairs > 80);
    assert!(tally.worst < 1.02, "{} by {}", tally.worst_parameter, tally.worst);
}

/// A freer part on many machines: `cargo test -p perforate-timing --release -- --ignored --nocapture
/// many_machines`.
#[test]
#[ignore = "takes minutes"]
fn many_machines() {
    let tally = compare(20_000, 2);
    assert!(tally.worst < 1.05, "{} by {}", tally.worst_parameter, tally.worst);
}
