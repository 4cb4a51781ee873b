//! Several hardware threads: what they share, and what they do to each other.

use perforate_records::HardwareThread;
use perforate_timing::{
    BitmapReader, CacheConfig, Core, Processors, Shootdown, Shortcuts, TimingConfig, Topology,
    WalkerAttachment,
};
use perforate_types::{
    Action, Branch, Counters, Instruction, Operation, PhysicalAddress, Purpose, Register, Steps,
    Unit, VirtualAddress,
};

use crate::machine::{DRAM, L1, L2, SLOTS, config, integer, l2_tlb_hit, rules, stack, walk};

/// Cycles that the LLC adds.
const LLC: u64 = 30;

/// The machine of the other tests with an LLC of 4MB.
fn with_llc() -> TimingConfig {
    let mut config = config();
    let l2 = &config.cache.l2;
    let size_bytes = 4 * l2.size_bytes;
    config.cache.llc = Some(CacheConfig { size_bytes, latency_cycles: LLC as u32, ..l2.clone() });
    config
}

struct Machine {
    all: Processors,
}

impl Machine {
    fn new(config: &TimingConfig, cores: usize, threads_per_core: usize) -> Self {
        Self::with_lead(config, (cores, threads_per_core), 1000)
    }

    fn with_lead(
        config: &TimingConfig,
        (cores, threads_per_core): (usize, usize),
        lead: u64,
    ) -> Self {
        let topology = Topology { cores, threads_per_core, lead };
        Self { all: Processors::new(config, topology, SLOTS).unwrap() }
    }

    fn run(&mut self, thread: usize, instruction: Instruction) {
        self.all.run_on(thread);
        self.all.begin(&instruction);
        self.all.finish();
    }

    /// Operations that each need the one before.
    fn chain(&mut self, thread: usize, count: u64) {
        (0..count).for_each(|_| self.run(thread, integer(1, 1)));
    }

    /// A load that needs the one before.
    fn load_with(&mut self, thread: usize, line: u64, slot: u32, steps: &Steps) {
        self.all.run_on(thread);
        self.all.begin(&integer(1, 1));
        self.all.load(PhysicalAddress::new(line * 64), 8, slot, steps);
        self.all.finish();
    }

    fn load(&mut self, thread: usize, line: u64) {
        self.load_with(thread, line, 63, &Steps::new());
    }

    fn store(&mut self, thread: usize, line: u64) {
        self.all.run_on(thread);
        self.all.begin(&integer(1, 1));
        self.all.store(PhysicalAddress::new(line * 64), 8, 63, &Steps::new());
        self.all.finish();
    }

    /// Cycles that something takes from rest to rest.
    fn cycles_of(&mut self, what: impl FnOnce(&mut Self)) -> u64 {
        self.all.start_measuring();
        what(self);
        self.all.drain();
        self.all.cycles()
    }

    /// Figures of each thread meanwhile.
    fn threads_of(&mut self, what: impl FnOnce(&mut Self)) -> Vec<HardwareThread> {
        self.cycles_of(what);
        self.all.threads()
    }

    fn counter(&self, name: &str) -> u64 {
        let mut counters = Counters::default();
        self.all.counters(&mut counters);
        counters.get(name).unwrap_or_else(|| panic!("no counter {name}")).round() as u64
    }
}

/// Pseudo-random numbers from a seed.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % end
    }
}

/// One instruction with its code line and accesses.
pub struct Told {
    pub code: Option<u64>,
    pub instruction: Instruction,
    pub accesses: Vec<(bool, u64, u32, Steps)>,
}

/// A program of everything: dependences, branches, code misses, walks, stores, serialization.
fn program(seed: u64, length: usize) -> Vec<Told> {
    let mut random = Random(seed);
    let told = |_| {
        let register = |random: &mut Random| random.below(6) as Register;
        let sources = [register(&mut random), register(&mut random), 0, 0];
        let mut instruction = Instruction {
            ip: VirtualAddress::new(0x1000 + 4 * random.below(4096)),
            sources,
            destinations: [register(&mut random), 0],
            ..Instruction::default()
        };
        match random.below(40) {
            0..8 => {
                instruction.branch = Branch::Conditional;
                instruction.taken = random.below(3) > 0;
            }
            8 => instruction.operation = Operation::Divide,
            9 => instruction.operation = Operation::Serializing,
            _ => {}
        }
        let code = (random.below(8) == 0).then(|| 50_000 + random.below(700));
        let mut accesses = Vec::new();
        for _ in 0..random.below(3) {
            let line = random.below(3000);
            let slot = random.below(60) as u32;
            let steps = match random.below(7) {
                6 => bitmap_read(9200 + random.below(100), slot),
                0 => walk(&[9000 + random.below(40), 9100 + random.below(900)], slot),
                1 => l2_tlb_hit(slot),
                _ => Steps::new(),
            };
            accesses.push((random.below(3) == 0, line * 64 + random.below(60), slot, steps));
        }
        Told { code, instruction, accesses }
    };
    (0..length).map(told).collect()
}

/// A hit of a perforated page in the L2 TLB, and a read of its bitmap.
fn bitmap_read(line: u64, slot: u32) -> Steps {
    let mut steps = l2_tlb_hit(slot);
    let address = PhysicalAddress::new(line * 64);
    steps.then(Purpose::Bitmap, Action::Read { address });
    steps.beside(Purpose::Page, Action::Fill { unit: Unit::L1DataTlb, slot });
    steps
}

pub fn tell_core(core: &mut Core, told: &Told) {
    if let Some(line) = told.code {
        core.fetch(PhysicalAddress::new(line * 64), 3, &Steps::new());
    }
    core.begin(&told.instruction);
    for (is_store, address, slot, steps) in &told.accesses {
        let address = PhysicalAddress::new(*address);
        if *is_store {
            core.store(address, 8, *slot, steps);
        } else {
            core.load(address, 8, *slot, steps);
        }
    }
    core.finish(&told.instruction);
}

pub fn tell(all: &mut Processors, thread: usize, told: &Told, moved_lines: u64) {
    all.run_on(thread);
    if let Some(line) = told.code {
        all.fetch(PhysicalAddress::new((line + moved_lines) * 64), 3, &Steps::new());
    }
    all.begin(&told.instruction);
    for (is_store, address, slot, steps) in &told.accesses {
        let address = PhysicalAddress::new(*address + moved_lines * 64);
        if *is_store {
            all.store(address, 8, *slot, steps);
        } else {
            all.load(address, 8, *slot, steps);
        }
    }
    all.finish();
}

/// Walks of a core find in its private caches what the core has loaded, and not what another core has loaded.
#[test]
fn walkers_read_through_the_private_caches_of_their_core() {
    let walk_after_a_load_by = |core: usize| {
        let mut machine = Machine::new(&config(), 2, 1);
        machine.load(1, 5);
        machine.load(core, 9000);
        machine.all.drain();
        machine.cycles_of(|machine| machine.load_with(1, 5, 7, &walk(&[9000], 7)))
    };
    assert_eq!(walk_after_a_load_by(1), 2 * L1);
    assert!(walk_after_a_load_by(0) > L1 + DRAM);
}

/// Each rule that leaves events out, in programs of everything on machines of all kinds: not a cycle differs.
#[test]
fn rules_that_leave_events_out_change_no_time_of_any_program() {
    for seed in 0..16 {
        let mut config = config();
        config.core.reorder_buffer_entries = 32;
        config.core.store_queue_entries = 6;
        config.core.scheduler_entries = (seed % 3 == 0).then_some(12);
        config.core.fetch_queue_entries = [16, 100, 300][seed as usize % 3];
        config.cache.l1i.mshrs = 4;
        config.cache.l1d.mshrs = [2, 4][seed as usize % 2];
        config.cache.l2.mshrs = [3, 20][seed as usize / 2 % 2];
        if seed & 4 != 0 {
            config.cache.walker = Some(CacheConfig { mshrs: 10, ..config.cache.l1i.clone() });
        }
        config.walker.attach = WalkerAttachment::L2;
        if seed % 5 == 0 {
            config.walker.bitmap_reader = BitmapReader::L2Tlb;
        }
        config.walker.walkers = 1 + seed as u32 / 8;
        config.cache.llc = (seed == 13).then(|| config.cache.l2.clone());
        config.branch_predictor.follows_wrong_path = seed % 4 == 3;
        let program = program(seed, 2500);
        let run = |shortcuts| {
            let mut core = Core::with_shortcuts(&config, SLOTS, shortcuts).unwrap();
            program.iter().for_each(|told| tell_core(&mut core, told));
            core.drain();
            core
        };
        let expected = run(Shortcuts::NONE);
        let [active, summed] = walk_cycles(&expected);
        let walkers = u64::from(config.walker.walkers);
        assert!(0 < active && active <= summed && summed <= walkers * active, "seed {seed}");
        for shortcuts in rules() {
            let found = run(shortcuts);
            assert_eq!(found.cycles(), expected.cycles(), "seed {seed}, {shortcuts:?}");
            assert_eq!(stack(&found), stack(&expected), "seed {seed}, {shortcuts:?}");
            assert_eq!(walk_cycles(&found), [active, summed], "seed {seed}, {shortcuts:?}");
        }
    }
}

/// Cycles in which a walker is busy, and the same summed over walkers.
fn walk_cycles(core: &Core) -> [u64; 2] {
    let mut counters = Counters::default();
    core.counters(&mut counters);
    ["walk_active_cycles", "walk_cycles"].map(|name| counters.get(name).unwrap() as u64)
}

/// A core takes instructions early, and a thread when its front end has room; no time differs.
#[test]
fn one_thread_is_a_core() {
    for seed in 0..20 {
        let mut config = with_llc();
        config.core.reorder_buffer_entries = 32;
        config.core.scheduler_entries = Some(12);
        config.core.store_queue_entries = 6;
        config.cache.l1d.mshrs = if seed % 2 == 0 { 3 } else { 64 };
        config.branch_predictor.follows_wrong_path = seed >= 12;
        let mut core = Core::new(&config, SLOTS).unwrap();
        let mut machine = Machine::with_lead(&config, (1, 1), [0, 5, 400][seed as usize % 3]);
        for told in &program(seed, 3000) {
            tell_core(&mut core, told);
            tell(&mut machine.all, 0, told, 0);
        }
        core.drain();
        machine.all.drain();
        let [alone, thread] = [core.cycles(), machine.all.cycles()];
        // A wrong path is followed until it is known when its branch is resolved, and a thread takes instructions
        // when their time comes, which may be later.
        let tolerance = if config.branch_predictor.follows_wrong_path { alone / 200 } else { 0 };
        assert!(alone.abs_diff(thread) <= tolerance, "seed {seed}: {alone}, {thread}");
        let (mut of_core, mut of_all) = (Counters::default(), Counters::default());
        core.counters(&mut of_core);
        machine.all.counters(&mut of_all);
        for name in [
            "instructions",
            "loads",
            "stores",
            "branches",
            "branch_mispredictions",
            "l1i_misses",
            "l1d_misses",
            "l2_misses",
            "llc_misses",
            "walker_reads",
            "walker_reads_from_memory",
            "translations_beyond_l1_tlb",
            "dram_reads",
        ] {
            assert_eq!(of_core.get(name), of_all.get(name), "seed {seed}: {name}");
        }
    }
}

#[test]
fn cores_do_not_disturb_each_other_in_what_is_their_own() {
    let mut machine = Machine::new(&with_llc(), 2, 1);
    (0..2).for_each(|core| machine.load(core, 100 + core as u64));
    let cycles = machine.cycles_of(|machine| {
        for _ in 0..200 {
            (0..2).for_each(|core| machine.load(core, 100 + core as u64));
        }
    });
    assert_eq!(cycles, 200 * L1, "side by side");
}

#[test]
fn the_last_level_is_shared_and_a_walker_is_not() {
    let mut machine = Machine::new(&with_llc(), 2, 1);
    let miss = L1 + L2 + LLC + DRAM;
    assert_eq!(machine.cycles_of(|machine| machine.load(0, 7)), miss);
    assert_eq!(machine.cycles_of(|machine| machine.load(1, 7)), L1 + L2 + LLC, "core 0 brought it");
    // One walker on each core: both walk at once. On one core one waits for the other.
    let walks = |machine: &mut Machine| {
        machine.load_with(0, 1000, 1, &walk(&[2000], 1));
        machine.load_with(1, 1001, 2, &walk(&[2001], 2));
    };
    assert_eq!(machine.cycles_of(walks), 2 * miss);
    let mut machine = Machine::new(&with_llc(), 1, 2);
    assert_eq!(machine.cycles_of(walks), 3 * miss);
}

/// Each core adds a slice of the last-level cache with MSHRs of its own, so that misses of other cores do not
/// wait for one that a single core would find free.
#[test]
fn each_core_adds_mshrs_of_the_last_level() {
    let mut config = with_llc();
    config.cache.llc.as_mut().unwrap().mshrs = 1;
    let mut machine = Machine::new(&config, 4, 1);
    let mut misses_of = |cores: usize, first_line: u64| {
        machine.cycles_of(|machine| {
            for miss in 0..16 {
                (0..cores).for_each(|core| machine.load(core, first_line + 4 * miss + core as u64));
            }
        })
    };
    let alone = misses_of(1, 0);
    assert_eq!(misses_of(4, 1024), alone);
    assert!(alone > 16 * DRAM);
}

#[test]
fn threads_of_a_core_share_caches_and_what_walks_have_filled() {
    let mut machine = Machine::new(&with_llc(), 1, 2);
    machine.cycles_of(|machine| machine.load(0, 7));
    assert_eq!(machine.cycles_of(|machine| machine.load(1, 7)), L1);
    // Thread 1 hits the entry that thread 0's walk has yet to fill, and waits for it.
    let cycles = machine.threads_of(|machine| {
        machine.load_with(0, 7, 5, &walk(&[3000], 5));
        machine.load_with(1, 7, 5, &Steps::new());
    });
    let walk = L1 + L2 + LLC + DRAM;
    assert_eq!([cycles[0].cycles, cycles[1].cycles], [walk + L1; 2]);
    assert_eq!([0, 1].map(|thread| cycles[thread].translation_stall_cycles), [walk; 2]);
}

/// A thread of two has half of each queue, at least an entry: alone it runs like a core with half.
#[test]
fn threads_of_a_core_have_equal_parts_of_its_queues() {
    type Queue = fn(&mut TimingConfig) -> &mut u32;
    let queues: [(&str, Queue); 4] = [
        ("reorder buffer", |c| &mut c.core.reorder_buffer_entries),
        ("load queue", |c| &mut c.core.load_queue_entries),
        ("store queue", |c| &mut c.core.store_queue_entries),
        ("scheduler", |c| c.core.scheduler_entries.get_or_insert(0)),
    ];
    let program = program(3, 400);
    for (name, queue) in queues {
        let cycles = |threads, entries| {
            let mut config = with_llc();
            *queue(&mut config) = entries;
            let mut machine = Machine::new(&config, 1, threads);
            machine.cycles_of(|machine| {
                program.iter().for_each(|told| tell(&mut machine.all, 0, told, 0));
            })
        };
        for (entries, half) in [(9, 4), (2, 1), (1, 1)] {
            assert_eq!(cycles(2, entries), cycles(1, half), "{name} of {entries}");
        }
        assert!(cycles(1, 1) > cycles(1, 4), "{name}");
    }
}

#[test]
fn a_machine_has_1_to_64_hardware_threads() {
    let is_possible = |cores, threads_per_core| {
        let topology = Topology { cores, threads_per_core, lead: 1 };
        std::panic::catch_unwind(|| Processors::new(&config(), topology, SLOTS).is_ok()).is_ok()
    };
    for (cores, threads, expected) in
        [(0, 1, false), (1, 1, true), (32, 2, true), (64, 1, true), (65, 1, false), (13, 5, false)]
    {
        assert_eq!(is_possible(cores, threads), expected, "{cores} × {threads}");
    }
}

/// A store over two lines takes both from the other cores.
#[test]
fn a_writer_has_all_lines_of_its_store_alone() {
    let mut machine = Machine::new(&with_llc(), 2, 1);
    (7..10).for_each(|line| machine.load(1, line));
    machine.cycles_of(|machine| {
        machine.all.run_on(0);
        machine.all.begin(&integer(1, 1));
        machine.all.store(PhysicalAddress::new(8 * 64 - 4), 8, 63, &Steps::new());
        machine.all.finish();
    });
    assert_eq!(machine.counter("l1d_invalidated_lines"), 2);
    assert_eq!(machine.counter("l2_invalidated_lines"), 2);
    // What was dirty and is read by another core is clean: nobody writes it back once more.
    machine.cycles_of(|machine| (7..9).for_each(|line| machine.load(1, line)));
    assert_eq!(machine.counter("l2_write_backs"), 2);
    machine.cycles_of(|machine| (7..9).for_each(|line| machine.load(1, line)));
    assert_eq!((machine.counter("l2_write_backs"), machine.counter("l1d_accesses")), (0, 2));
}

#[test]
fn readers_share_a_line_and_a_writer_has_it_alone() {
    let mut machine = Machine::new(&with_llc(), 3, 1);
    let mut read = |core, line| machine.cycles_of(|machine| machine.load(core, line));
    assert_eq!(read(0, 7), L1 + L2 + LLC + DRAM);
    assert_eq!(read(1, 7), L1 + L2 + LLC);
    assert_eq!(read(0, 7), L1, "which took nothing from core 0");
    // Core 2 writes: the two others lose the line, in their L1D and L2.
    machine.cycles_of(|machine| machine.store(2, 7));
    assert_eq!(machine.counter("l1d_invalidated_lines"), 2);
    assert_eq!(machine.counter("l2_invalidated_lines"), 2);
    machine.cycles_of(|machine| machine.store(2, 7));
    assert_eq!(machine.counter("l1d_invalidated_lines"), 0, "it has it alone");
    // What it wrote is read through the shared level, and both have it.
    assert_eq!(machine.cycles_of(|machine| machine.load(0, 7)), L1 + L2 + LLC);
    assert_eq!(machine.counter("l2_write_backs"), 1);
    assert_eq!(machine.cycles_of(|machine| machine.load(2, 7)), L1);
    // To write it again, core 2 has to ask the shared level for it.
    machine.cycles_of(|machine| machine.store(2, 7));
    assert_eq!(machine.counter("l1d_invalidated_lines"), 2, "of core 0, and its own clean one");
    assert_eq!(machine.counter("llc_accesses"), 1);
}

/// The sender's chain of 10 ends at 10. The other is interrupted at 10 + 100, answers for 40 cycles
/// and loses them: its 500 cycles of work end at 540. The sender goes on at 150.
#[test]
fn a_shootdown_waits_for_the_answer_and_costs_who_is_interrupted() {
    let mut machine = Machine::new(&config(), 2, 1);
    let shootdown =
        Shootdown { targets: 0b10, delivery_cycles: 100, interrupt_cycles: 7, handler_cycles: 40 };
    let threads = machine.threads_of(|machine| {
        machine.chain(0, 10);
        machine.all.run_on(0);
        machine.all.shoot_down(shootdown);
        machine.chain(0, 10);
        machine.chain(1, 500);
    });
    let [sender, other] = [threads[0], threads[1]];
    assert_eq!((sender.shootdowns_waited_for, sender.shootdown_wait_cycles), (1, 140));
    assert_eq!((sender.cycles, sender.idle_cycles), (10 + 140 + 10, 540 - 160));
    assert_eq!((other.shootdown_interrupts, other.shootdown_interrupt_cycles), (1, 40));
    assert_eq!((other.cycles, other.idle_cycles), (540, 0));
    // The mean of both threads.
    assert_eq!(machine.counter("stack_cycles_shootdown"), (140 + 40) / 2);
    assert_eq!(machine.counter("stack_cycles_idle"), 380 / 2);
    assert_eq!(machine.counter("cycles"), 540);
}

/// A shootdown without targets is none, and neither is one before measuring began.
#[test]
fn a_shootdown_of_nobody_is_none() {
    let mut machine = Machine::new(&config(), 2, 1);
    let shootdown =
        Shootdown { targets: 0b10, delivery_cycles: 100, interrupt_cycles: 7, handler_cycles: 40 };
    machine.all.shoot_down(shootdown);
    machine.chain(0, 1);
    let threads = machine.threads_of(|machine| {
        machine.all.run_on(0);
        machine.all.shoot_down(Shootdown { targets: 0, ..shootdown });
        machine.chain(0, 10);
    });
    assert_eq!((threads[0].cycles, threads[0].core, threads[1].core), (10, 0, 1));
    assert_eq!((threads[0].shootdowns_waited_for, threads[1].shootdown_interrupts), (0, 0));
    assert_eq!((threads[0].instructions, threads[1].idle_cycles), (10, 10));
}

/// Three others, interrupted one after the other: the last at 100 + 2 · 7. Two senders at once: the
/// second interrupt waits for the first to be answered.
#[test]
fn answers_are_waited_for_to_the_last() {
    let shootdown = |targets| Shootdown {
        targets,
        delivery_cycles: 100,
        interrupt_cycles: 7,
        handler_cycles: 40,
    };
    let mut machine = Machine::new(&config(), 4, 1);
    let threads = machine.threads_of(|machine| {
        machine.all.run_on(0);
        machine.all.shoot_down(shootdown(0b1110));
        machine.chain(0, 1);
    });
    assert_eq!(threads[0].shootdown_wait_cycles, 100 + 2 * 7 + 40);
    let threads = machine.threads_of(|machine| {
        for sender in 0..2 {
            machine.all.run_on(sender);
            machine.all.shoot_down(shootdown(0b100));
            machine.chain(sender, 1);
        }
    });
    assert_eq!([0, 1].map(|it| threads[it].shootdown_wait_cycles), [140, 180]);
    // Each of two waits for the other, and answers meanwhile.
    let threads = machine.threads_of(|machine| {
        for sender in 0..2 {
            machine.all.run_on(sender);
            machine.all.shoot_down(shootdown(1 << (1 - sender)));
            machine.chain(sender, 1);
        }
    });
    assert_eq!([0, 1].map(|it| threads[it].shootdown_wait_cycles), [140; 2]);
}

#[test]
fn kernel_threads_elsewhere_interrupt_and_nobody_waits() {
    let mut machine = Machine::new(&config(), 2, 1);
    let threads = machine.threads_of(|machine| {
        machine.chain(0, 100);
        machine.all.interrupt(0b11, 40);
        machine.chain(0, 100);
        machine.chain(1, 300);
    });
    assert_eq!(threads[0].shootdown_interrupt_cycles, 40);
    assert_eq!(threads[0].shootdown_wait_cycles, 0);
    assert!((200..=240).contains(&threads[0].cycles), "{:?}", threads[0]);
    // It has nothing to do yet when it is interrupted.
    assert_eq!((threads[1].shootdown_interrupts, threads[1].cycles), (1, 340));
}

/// One thread takes 1 cycle for an instruction, the other 20: the first may be 100 instructions ahead.
#[test]
fn no_thread_is_further_ahead_than_the_lead() {
    let slow = Instruction { operation: Operation::Divide, ..integer(1, 1) };
    let mut machine = Machine::with_lead(&config(), (2, 1), 100);
    let threads = machine.threads_of(|machine| {
        for _ in 0..500 {
            machine.run(0, integer(1, 1));
            machine.run(1, slow);
        }
    });
    assert_eq!(threads[1].cycles, 500 * 20);
    // The 50 last of its 500 instructions wait for the other's 450th, but for what the front end and
    // the window of the other have taken of it.
    let busy = threads[0].cycles;
    assert!((500..1000).contains(&busy), "{busy}");
    assert_eq!(busy + threads[0].idle_cycles, 500 * 20);
}

/// Each cycle of each thread has a cause. (Debug builds assert that each
/// is found.)
#[test]
fn every_cycle_has_a_cause() {
    for seed in 0..30 {
        let mut random = Random(seed + 1);
        let mut config = with_llc();
        config.core.reorder_buffer_entries = 24;
        config.core.store_queue_entries = 5;
        let (cores, each) = [(2, 1), (1, 2), (3, 2)][seed as usize % 3];
        let mut machine = Machine::with_lead(&config, (cores, each), 50 + 100 * (seed % 4));
        let programs: Vec<Vec<Told>> =
            (0..cores * each).map(|thread| program(100 * seed + thread as u64, 1500)).collect();
        let mut done = vec![0; programs.len()];
        while done.iter().any(|&done| done < 1500) {
            let thread = random.below(programs.len() as u64) as usize;
            let turn = 1 + random.below(200) as usize;
            for told in programs[thread].iter().skip(done[thread]).take(turn) {
                tell(&mut machine.all, thread, told, 0);
            }
            done[thread] += turn;
            let others = random.below(1 << programs.len()) & !(1 << thread);
            match random.below(6) {
                0 => machine.all.shoot_down(Shootdown {
                    targets: others,
                    delivery_cycles: random.below(300) as u32,
                    interrupt_cycles: 7,
                    handler_cycles: 1 + random.below(90) as u32,
                }),
                1 => machine.all.interrupt(others, random.below(90) as u32),
                2 => drop(machine.all.translation_stall_cycles()),
                3 if random.below(20) == 0 => machine.all.start_measuring(),
                _ => {}
            }
        }
        machine.all.drain();
        let threads = machine.all.threads();
        for (number, thread) in threads.iter().enumerate() {
            let sum = thread.cycles + thread.idle_cycles;
            assert_eq!(sum, machine.all.cycles(), "seed {seed}, thread {number}");
        }
        let sent: u64 = threads.iter().map(|thread| thread.shootdown_wait_cycles).sum();
        assert!(sent > 0 || threads.iter().all(|thread| thread.shootdowns_waited_for == 0));
    }
}

/// Neither more cores nor more of others' work make a core's own work faster.
#[test]
fn company_never_helps() {
    for seed in 0..10 {
        let mut config = with_llc();
        config.dram.channels = 1;
        config.dram.banks_per_rank = 2;
        let programs = [program(seed, 1500), program(seed + 100, 1500)];
        let mut alone = Machine::new(&config, 1, 1);
        programs[0].iter().for_each(|told| tell(&mut alone.all, 0, told, 0));
        alone.all.drain();
        let mut both = Machine::with_lead(&config, (2, 1), 1_000_000);
        for (own, others) in programs[0].iter().zip(&programs[1]) {
            tell(&mut both.all, 0, own, 0);
            tell(&mut both.all, 1, others, 1 << 20);
        }
        both.all.drain();
        let threads = both.all.threads();
        assert_eq!(threads[0].instructions, 1500);
        assert!(threads[0].cycles >= alone.all.cycles(), "seed {seed}");
        let of_threads = threads.iter().map(|it| it.cycles + it.idle_cycles).sum::<u64>();
        assert_eq!(of_threads, 2 * both.all.cycles());
    }
}

/// Requests of one cycle are served in the order in which their instructions were handed over. Core 0's first load
/// misses L1D and L2; its data, and with them the address of the load after it, come in 24 + 51 = 75. Core 1 dispatches
/// 49 instructions until cycle 12, then a chain of 63 until cycle 75, and the load that needs it: that is its
/// instruction 112, handed over in cycle 24, when instruction 96 leaves the fetch queue of 16. Both loads ask for the
/// only bank in one cycle, and core 0's was handed over in cycle 0: it is done at 75 + 24 + 15 (precharge) + 51 = 165,
/// the other a row cycle of 32 + 15 later.
#[test]
fn requests_of_one_cycle_are_served_in_program_order() {
    let mut config = config();
    config.dram.channels = 1;
    config.dram.banks_per_rank = 1;
    let (first, second) = (75 + L1 + L2 + 15 + DRAM, 75 + L1 + L2 + 15 + DRAM + 47);
    // A cycle earlier core 1 is first.
    for (chain, expected) in
        [(62, [second - 1, first - 1]), (63, [first, second]), (64, [first, second])]
    {
        let mut machine = Machine::new(&config, 2, 1);
        let threads = machine.threads_of(|machine| {
            machine.load(0, 100);
            machine.load(0, 1000);
            (0..49).for_each(|_| machine.run(1, integer(0, 0)));
            machine.chain(1, chain);
            machine.load(1, 1001);
        });
        assert_eq!([threads[0].cycles, threads[1].cycles], expected, "{chain}");
    }
}
