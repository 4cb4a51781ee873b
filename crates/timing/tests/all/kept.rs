//! Seeded programs on seeded machines of all kinds, whose cycles and counters are kept in a file.

use std::fmt::Write;

use perforate_kept::{self as kept, TextHash};
use perforate_timing::{
    BitmapReader, CacheConfig, Core, MshrOrder, Prefetcher, Processors, Shootdown, Shortcuts,
    TimingConfig, Topology, WalkerAttachment,
};
use perforate_types::{
    Action, Branch, Counters, Instruction, Operation, PhysicalAddress, Purpose, Random, Register,
    Steps, Unit, VirtualAddress,
};

use crate::machine::{SLOTS, config};

const MACHINES: u64 = 96;
const INSTRUCTIONS: u64 = 1500;
/// Lines of all threads' data, and of their page tables and code.
const DATA_LINES: u64 = 1400;
const TABLES: u64 = 9000;
const CODE: u64 = 50_000;

fn one_of<T: Copy>(random: &mut Random, all: &[T]) -> T {
    all[random.below(all.len() as u64) as usize]
}

fn is_one_in(random: &mut Random, count: u64) -> bool {
    random.below(count) == 0
}

/// Random caches, queues and walkers, of which there are often too few.
fn machine(random: &mut Random) -> TimingConfig {
    let mut config = config();
    let cache = |random: &mut Random, kilobytes: u64, latency_cycles: u32| CacheConfig {
        size_bytes: kilobytes << one_of(random, &[10, 11, 12]),
        ways: one_of(random, &[2, 4, 8]),
        latency_cycles,
        response_cycles: one_of(random, &[0, 0, 3]),
        mshrs: one_of(random, &[1, 2, 3, 6, 12, 40]),
        prefetcher: one_of(
            random,
            &[Prefetcher::None, Prefetcher::None, Prefetcher::NextLine, Prefetcher::Stride],
        ),
        mshr_order: one_of(random, &[MshrOrder::Arrival, MshrOrder::OldestFirst]),
    };
    let caches = &mut config.cache;
    caches.l1i = cache(random, 4, 3);
    caches.l1d = cache(random, 4, 4);
    caches.l2 = cache(random, 16, 11);
    caches.llc = is_one_in(random, 2).then(|| cache(random, 32, 25));
    caches.walker = is_one_in(random, 3).then(|| cache(random, 2, 2));
    if is_one_in(random, 2) {
        let CacheConfig { mshrs: l1i, .. } = caches.l1i;
        caches.l2.mshrs = l1i + caches.l1d.mshrs + random.below(5) as u32;
        caches.l2.prefetcher = Prefetcher::None;
    }
    // A last-level cache whose MSHRs just suffice for all above, or are one too few.
    let is_enough = is_one_in(random, 2);
    let spare = random.below(4) as u32;
    if let Some(llc) = caches.llc.as_mut().filter(|_| is_enough) {
        llc.mshrs = caches.l2.mshrs + spare;
        llc.prefetcher = Prefetcher::None;
    }
    if let Some(own) = caches.walker.as_mut().filter(|_| is_enough) {
        own.mshrs = 1 + spare;
        own.prefetcher = Prefetcher::None;
    }
    let core = &mut config.core;
    (core.width, core.retire_width) = one_of(random, &[(4, 4), (2, 3), (1, 1), (6, 8)]);
    core.reorder_buffer_entries = one_of(random, &[8, 24, 64, 200]);
    core.load_queue_entries = one_of(random, &[3, 8, 100]);
    core.store_queue_entries = one_of(random, &[2, 5, 40]);
    core.scheduler_entries = one_of(random, &[None, Some(4), Some(12), Some(40)]);
    core.fetch_queue_entries = one_of(random, &[4, 16, 120]);
    core.frequency_ghz = one_of(random, &[1.0, 1.0, 0.7, 2.3]);
    core.integer_cycles = one_of(random, &[1, 1, 2]);
    [core.multiply_cycles, core.divide_cycles, core.float_cycles] =
        one_of(random, &[[3, 20, 4], [5, 9, 2]]);
    let walker = &mut config.walker;
    walker.walkers = one_of(random, &[1, 1, 2, 4]);
    walker.bitmap_reader = one_of(random, &[BitmapReader::Walker, BitmapReader::L2Tlb]);
    walker.attach = one_of(random, &[WalkerAttachment::L1d, WalkerAttachment::L2]);
    if config.cache.llc.is_some() && is_one_in(random, 4) {
        walker.attach = WalkerAttachment::Llc;
    }
    walker.walk_cache_miss_cycles = one_of(random, &[None, Some(3)]);
    walker.read_overhead_cycles = one_of(random, &[0, 2]);
    [walker.l2_tlb_cycles, walker.walk_cache_cycles, walker.nested_tlb_cycles] =
        one_of(random, &[[9, 1, 2], [9, 1, 2], [7, 2, 1], [1, 0, 5]]);
    [walker.segment_check_cycles, walker.selection_cycles] = one_of(random, &[[1, 3], [2, 5]]);
    let predictor = &mut config.branch_predictor;
    predictor.mispredict_penalty_cycles = one_of(random, &[0, 7, 15]);
    predictor.table_entries = one_of(random, &[16, 64]);
    predictor.history_bits = one_of(random, &[0, 5, 10]);
    predictor.indirect_entries = one_of(random, &[4, 64]);
    predictor.return_stack_entries = one_of(random, &[1, 3, 16]);
    predictor.perfect = is_one_in(random, 10);
    let dram = &mut config.dram;
    (dram.channels, dram.banks_per_rank) = one_of(random, &[(1, 4), (2, 8), (16, 16)]);
    dram.ranks_per_channel = one_of(random, &[1, 1, 3]);
    dram.row_bytes = one_of(random, &[64, 256, 1024]);
    [dram.precharge_ns, dram.activate_ns, dram.row_open_ns] =
        one_of(random, &[[15.0, 14.0, 32.0], [9.0, 11.0, 60.0], [0.0, 0.0, 0.0]]);
    config
}

fn read(random: &mut Random) -> Action {
    let near = TABLES + random.below(60);
    let far = TABLES + random.below(900);
    let line = one_of(random, &[near, near, far, near % DATA_LINES]);
    Action::Read { address: PhysicalAddress::new(line * 64) }
}

fn slot(random: &mut Random, unit: Unit) -> u32 {
    random.below(SLOTS[unit as usize] as u64) as u32
}

/// A translation, natively or nested, that in the end fills an entry of the first level.
fn translation(random: &mut Random, (unit, first): (Unit, u32)) -> Steps {
    let mut steps = Steps::new();
    let hit = |random: &mut Random, unit| Action::Hit { unit, slot: slot(random, unit) };
    if is_one_in(random, 4) {
        let hit = hit(random, Unit::L2Tlb);
        steps.then(Purpose::Page, hit);
        if is_one_in(random, 2) {
            let read = read(random);
            steps.then(Purpose::Bitmap, read);
        }
    } else {
        steps.then(Purpose::Page, Action::Miss { unit: Unit::L2Tlb });
        if is_one_in(random, 5) {
            let unit = one_of(random, &[Unit::SidebandTlb, Unit::HostSidebandTlb]);
            let action = hit(random, unit);
            steps.beside(Purpose::Page, action);
            let slot = slot(random, unit);
            steps.beside(Purpose::Page, Action::Fill { unit, slot });
        }
        if is_one_in(random, 5) {
            steps.then(Purpose::Page, Action::Check);
        }
        let levels =
            [Purpose::Level5, Purpose::Level4, Purpose::Level3, Purpose::Level2, Purpose::Level1];
        let first = random.below(6).saturating_sub(1) as usize;
        let action = match is_one_in(random, 2) {
            true => hit(random, Unit::WalkCache),
            false => Action::Miss { unit: Unit::WalkCache },
        };
        steps.then(levels[first], action);
        let is_nested = is_one_in(random, 3);
        for level in &levels[first..] {
            if is_nested {
                if is_one_in(random, 2) {
                    let action = hit(random, Unit::NestedTlb);
                    steps.then(Purpose::HostPage, action);
                } else {
                    steps.then(Purpose::HostPage, Action::Miss { unit: Unit::NestedTlb });
                    if is_one_in(random, 3) {
                        let hit = hit(random, Unit::HostWalkCache);
                        steps.then(Purpose::HostLevel2, hit);
                    }
                    let levels = [
                        Purpose::HostLevel5,
                        Purpose::HostLevel4,
                        Purpose::HostLevel3,
                        Purpose::HostLevel2,
                        Purpose::HostLevel1,
                    ];
                    for purpose in &levels[one_of(random, &[0, 2, 3, 3, 4])..] {
                        let entry = read(random);
                        steps.then(*purpose, entry);
                        if *purpose == Purpose::HostLevel2 && is_one_in(random, 6) {
                            let shadow = read(random);
                            steps.beside(Purpose::HostShadow, shadow);
                        }
                    }
                    if is_one_in(random, 8) {
                        let [bitmap, hole] = [(); 2].map(|()| read(random));
                        steps.then(Purpose::HostBitmap, bitmap);
                        steps.then(Purpose::HostHole, hole);
                    }
                    let unit = Unit::NestedTlb;
                    let slot = slot(random, unit);
                    steps.then(Purpose::HostPage, Action::Fill { unit, slot });
                }
            }
            let entry = read(random);
            steps.then(*level, entry);
            if *level == Purpose::Level2 && is_one_in(random, 3) {
                // A third read at once is more than walkers usually make.
                for _ in 0..one_of(random, &[1, 1, 1, 2]) {
                    let shadow = if is_one_in(random, 3) { entry } else { read(random) };
                    steps.beside(Purpose::Shadow, shadow);
                }
            }
            if is_one_in(random, 3) {
                let unit = Unit::WalkCache;
                let slot = slot(random, unit);
                steps.beside(*level, Action::Fill { unit, slot });
            }
        }
        match random.below(5) {
            0 => steps.then(Purpose::Level2, Action::Select),
            1 => {
                let [bitmap, hole] = [(); 2].map(|()| read(random));
                steps.then(Purpose::Bitmap, bitmap);
                steps.then(Purpose::Hole, hole);
            }
            _ => {}
        }
        let slot = slot(random, Unit::L2Tlb);
        steps.beside(Purpose::Page, Action::Fill { unit: Unit::L2Tlb, slot });
    }
    steps.beside(Purpose::Page, Action::Fill { unit, slot: first });
    if is_one_in(random, 8) {
        steps.begin_background();
        let (purposes, unit) = one_of(
            random,
            &[
                ([Purpose::Level2, Purpose::Level1], unit),
                ([Purpose::OwnTable, Purpose::HostOwnTable], Unit::SidebandTlb),
            ],
        );
        for purpose in purposes {
            let read = read(random);
            steps.then(purpose, read);
        }
        let slot = slot(random, unit);
        steps.then(Purpose::Page, Action::Fill { unit, slot });
        steps.end_background();
    }
    steps
}

struct Access {
    is_store: bool,
    address: u64,
    size: u16,
    slot: u32,
    steps: Steps,
}

struct Told {
    code: Option<(u64, u32, Steps)>,
    instruction: Instruction,
    accesses: Vec<Access>,
}

/// The next instruction, whose data are often near those before.
fn told(random: &mut Random, stream: &mut u64) -> Told {
    let mut register = || random.below(6) as Register;
    let mut instruction = Instruction {
        sources: [register(), register(), register() / 4, 0],
        destinations: [register(), register() / 3],
        ..Instruction::default()
    };
    instruction.ip = VirtualAddress::new(0x1000 + 4 * random.below(512));
    instruction.data_sources = random.below(4) as u8;
    match random.below(40) {
        0..9 => {
            instruction.branch = Branch::ALL[1 + random.below(6) as usize];
            let is_conditional = instruction.branch == Branch::Conditional;
            instruction.taken = !is_conditional || random.below(3) > 0;
        }
        9..16 => instruction.operation = one_of(random, &Operation::ALL[..4]),
        16 if is_one_in(random, 3) => instruction.operation = Operation::Serializing,
        _ => {}
    }
    let code = is_one_in(random, 7).then(|| {
        // Some code lies among the data and the tables.
        let first = one_of(random, &[CODE, CODE, CODE, 0, TABLES]);
        let (line, slot) = (first + random.below(150), slot(random, Unit::L1InstructionTlb));
        let steps = match random.below(4) {
            0 => translation(random, (Unit::L1InstructionTlb, slot)),
            _ => Steps::new(),
        };
        (line, slot, steps)
    });
    let count = one_of(random, &[0, 0, 1, 1, 1, 2, 3]);
    let mut access = || {
        *stream = match random.below(6) {
            0 => random.below(DATA_LINES * 64),
            1 | 2 => *stream & !63,
            _ => (*stream + 64) % (DATA_LINES * 64),
        };
        let address = *stream + random.below(50);
        let size = one_of(random, &[1, 4, 8, 8, 16, 64, 130]).min((4096 - address % 4096) as u16);
        let slot = slot(random, Unit::L1DataTlb);
        let steps = match random.below(6) {
            0 => translation(random, (Unit::L1DataTlb, slot)),
            _ => Steps::new(),
        };
        Access { is_store: is_one_in(random, 3), address, size, slot, steps }
    };
    let accesses = (0..count).map(|_| access()).collect();
    Told { code, instruction, accesses }
}

/// Passes an instruction to a core or to the thread of processors that runs.
macro_rules! pass {
    ($to:expr, $told:expr, $finish:expr) => {{
        if let Some((line, slot, steps)) = &$told.code {
            $to.fetch(PhysicalAddress::new(line * 64), *slot, steps);
        }
        $to.begin(&$told.instruction);
        for Access { is_store, address, size, slot, steps } in &$told.accesses {
            let address = PhysicalAddress::new(*address);
            match is_store {
                true => $to.store(address, *size, *slot, steps),
                false => $to.load(address, *size, *slot, steps),
            }
        }
        $finish
    }};
}

/// Updates caches, TLBs and branch predictor of a core by an instruction that takes no time.
fn warm(core: &mut Core, told: &Told) {
    if let Some((line, _, steps)) = &told.code {
        core.warm_fetch(PhysicalAddress::new(line * 64), steps);
    }
    core.warm_begin(&told.instruction);
    for Access { is_store, address, size, steps, .. } in &told.accesses {
        let address = PhysicalAddress::new(*address);
        match is_store {
            true => core.warm_store(address, *size, steps),
            false => core.warm_load(address, *size, steps),
        }
    }
    core.warm_finish(&told.instruction);
}

/// Instructions of a program that are timed and counted.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Counted {
    All,
    /// All is timed, and parts are counted.
    Parts,
    /// Before each part that is counted, instructions only warm the caches.
    Windows,
}

/// A line of the file: what is seen at a glance, and a hash of all counters.
fn line(name: &str, counters: &Counters, more: &str) -> String {
    let mut all = TextHash::default();
    for (name, value) in counters.iter() {
        write!(all, "{name} {} ", value.as_f64()).unwrap();
    }
    write!(all, "{more}").unwrap();
    let shown = ["cycles", "translation_stall_cycles", "l1d_misses", "dram_reads"];
    let shown = shown.map(|name| format!("{name} {}", counters.get(name).unwrap_or(0.0)));
    format!("{name}: {}, {all}\n", shown.join(", "))
}

/// A core alone: by itself, with counting in parts, and with warming between the parts.
fn of_core(seed: u64) -> String {
    let mut random = Random::keyed(seed, 1, 0);
    let config = machine(&mut random);
    let mut stream = 0;
    let program: Vec<Told> = (0..INSTRUCTIONS).map(|_| told(&mut random, &mut stream)).collect();
    let run = |mut core: Core, counted: Counted| {
        for (number, told) in program.iter().enumerate() {
            match number {
                300 => core.start_measuring(),
                600 | 1000 if counted != Counted::All => core.pause_counting(),
                800 | 1200 if counted != Counted::All => core.resume_counting(),
                _ => {}
            }
            if counted == Counted::Windows && matches!(number, 600..700 | 1000..1170) {
                core.drain();
                warm(&mut core, told);
            } else {
                pass!(core, told, core.finish(&told.instruction));
            }
        }
        core.drain();
        if counted != Counted::All {
            core.extrapolate(INSTRUCTIONS);
        }
        let mut counters = Counters::default();
        core.counters(&mut counters);
        let more = format!(
            "{} {} {} {:?}",
            core.cycles(),
            core.translation_cycles(),
            core.translation_stall_cycles(),
            core.translation_accesses()
        );
        (counters, more)
    };
    let mut lines = String::new();
    for (name, counted) in [
        ("core", Counted::All),
        ("core in parts", Counted::Parts),
        ("core in windows", Counted::Windows),
    ] {
        let (counters, more) = run(Core::new(&config, SLOTS).unwrap(), counted);
        lines += &line(&format!("{name} {seed}"), &counters, &more);
    }
    let mut config = config;
    config.branch_predictor.follows_wrong_path = true;
    for (name, counted) in
        [("core on wrong paths", Counted::All), ("in windows, on wrong paths", Counted::Windows)]
    {
        let (counters, more) = run(Core::new(&config, SLOTS).unwrap(), counted);
        let general = Core::with_shortcuts(&config, SLOTS, Shortcuts::NONE).unwrap();
        assert_eq!(run(general, counted).1, more, "{name} {seed}, without shortcuts");
        lines += &line(&format!("{name} {seed}"), &counters, &more);
    }
    lines
}

/// Threads that share cores, lines and walkers, with shootdowns by each other and from outside.
fn of_processors(seed: u64, follows_wrong_path: bool) -> String {
    let mut random = Random::keyed(seed, 2, 0);
    let mut config = machine(&mut random);
    config.branch_predictor.follows_wrong_path = follows_wrong_path;
    let (cores, threads_per_core) =
        one_of(&mut random, &[(1, 1), (1, 2), (2, 1), (2, 2), (3, 1), (1, 3), (3, 2)]);
    let lead = one_of(&mut random, &[0, 7, 100, 1000]);
    let topology = Topology { cores, threads_per_core, lead };
    let mut all = Processors::new(&config, topology, SLOTS).unwrap();
    let threads = topology.threads() as u64;
    let mut streams = vec![0; threads as usize];
    let (mut thread, mut last) = (0, threads);
    for number in 0..INSTRUCTIONS * threads.min(3) {
        if number == 400 {
            all.start_measuring();
        }
        if is_one_in(&mut random, 12) {
            // At times, few of the threads have work.
            if is_one_in(&mut random, 10) {
                last = 1 + random.below(threads);
            }
            thread = random.below(last);
        }
        all.run_on(thread as usize);
        if is_one_in(&mut random, 150) {
            let targets = random.below(1 << threads) & !(1 << thread);
            let [delivery_cycles, interrupt_cycles, handler_cycles] =
                [300, 40, 500].map(|most| random.below(most) as u32);
            all.shoot_down(Shootdown {
                targets,
                delivery_cycles,
                interrupt_cycles,
                handler_cycles,
            });
        }
        if is_one_in(&mut random, 200) {
            all.interrupt(random.below(1 << threads), random.below(400) as u32);
        }
        let told = told(&mut random, &mut streams[thread as usize]);
        pass!(all, told, all.finish());
        if is_one_in(&mut random, 900) {
            all.drain();
        }
    }
    all.drain();
    let mut counters = Counters::default();
    all.counters(&mut counters);
    let more = format!(
        "{} {} {} {:?} {:?}",
        all.cycles(),
        all.translation_cycles(),
        all.translation_stall_cycles(),
        all.threads(),
        all.translation_accesses()
    );
    let on = if follows_wrong_path { " on wrong paths" } else { "" };
    line(&format!("{cores} cores of {threads_per_core}{on}, {seed}"), &counters, &more)
}

/// A change of the model renews the file with `UPDATE_KEPT=1`; any other change leaves it as it is.
#[test]
fn programs_take_the_cycles_that_are_kept() {
    let mut lines = String::new();
    for seed in 0..MACHINES {
        lines += &of_core(seed);
        lines += &of_processors(seed, false);
        if seed.is_multiple_of(3) {
            lines += &of_processors(seed, true);
        }
    }
    kept::compare(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/all/kept.txt"), &lines);
}
