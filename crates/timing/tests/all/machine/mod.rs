//! A machine with round numbers, and instructions to run on it.
#![allow(dead_code, reason = "each test file uses its part")]

use perforate_timing::{
    BitmapReader, BranchPredictorConfig, CacheConfig, CachesConfig, Core, CoreConfig, DramConfig,
    MshrOrder, Prefetcher, Shortcuts, TimingConfig, TranslationAccesses, WalkerAttachment,
    WalkerConfig,
};
use perforate_types::{
    Action, Counters, Instruction, PhysicalAddress, Purpose, Register, Steps, Unit,
};

/// Cycles of an L1D hit.
pub const L1: u64 = 4;
/// Cycles the L2 adds.
pub const L2: u64 = 20;
/// Cycles of a read from an idle bank: controller 20, activation 14, column 13, burst 4.
pub const DRAM: u64 = 20 + 14 + 13 + 4;
/// Cycles of an L2 TLB look-up.
pub const L2_TLB: u64 = 9;

/// 1GHz, so that cycles are nanoseconds; 4 wide; resources plentiful except one walker. 64
/// channels of 64 banks with rows of one line: lines below 4096 never meet in DRAM.
pub fn config() -> TimingConfig {
    let cache = |size_bytes, ways, latency: u64| CacheConfig {
        size_bytes,
        ways,
        latency_cycles: latency as u32,
        response_cycles: 0,
        mshrs: 64,
        prefetcher: Prefetcher::None,
        mshr_order: MshrOrder::default(),
    };
    TimingConfig {
        core: CoreConfig {
            frequency_ghz: 1.0,
            width: 4,
            retire_width: 4,
            reorder_buffer_entries: 256,
            load_queue_entries: 256,
            scheduler_entries: None,
            store_queue_entries: 256,
            fetch_queue_entries: 16,
            integer_cycles: 1,
            multiply_cycles: 3,
            divide_cycles: 20,
            float_cycles: 4,
        },
        branch_predictor: BranchPredictorConfig {
            table_entries: 1024,
            history_bits: 10,
            indirect_entries: 64,
            return_stack_entries: 16,
            mispredict_penalty_cycles: 15,
            perfect: false,
            follows_wrong_path: false,
        },
        cache: CachesConfig {
            l1i: cache(32 << 10, 8, L1),
            l1d: cache(32 << 10, 8, L1),
            l2: cache(1 << 20, 8, L2),
            llc: None,
            walker: None,
        },
        dram: DramConfig {
            channels: 64,
            ranks_per_channel: 1,
            banks_per_rank: 64,
            row_bytes: 64,
            controller_ns: 20.0,
            precharge_ns: 15.0,
            activate_ns: 14.0,
            column_ns: 13.0,
            row_open_ns: 32.0,
            burst_ns: 4.0,
        },
        walker: WalkerConfig {
            walkers: 1,
            bitmap_reader: BitmapReader::Walker,
            attach: WalkerAttachment::L1d,
            l2_tlb_cycles: L2_TLB as u32,
            walk_cache_cycles: 1,
            walk_cache_miss_cycles: None,
            read_overhead_cycles: 0,
            nested_tlb_cycles: 1,
            segment_check_cycles: 1,
            selection_cycles: 3,
        },
    }
}

/// Entries of each translation unit.
pub const SLOTS: [usize; 8] = [64, 64, 64, 16, 16, 16, 4, 4];

/// A core under test.
pub struct Machine {
    pub core: Core,
}

impl Machine {
    pub fn new(config: &TimingConfig) -> Self {
        Self::with_shortcuts(config, Shortcuts::ALL)
    }

    /// A core with these rules that leave events out.
    pub fn with_shortcuts(config: &TimingConfig, shortcuts: Shortcuts) -> Self {
        Self { core: Core::with_shortcuts(config, SLOTS, shortcuts).unwrap() }
    }

    pub fn run(&mut self, instruction: Instruction) {
        self.core.begin(&instruction);
        self.core.finish(&instruction);
    }

    /// `count` integer operations, each needing the one before.
    pub fn chain(&mut self, register: Register, count: u64) {
        (0..count).for_each(|_| self.run(integer(register, register)));
    }

    /// A load of `line` into `to` with its address in `from`, with the given translation.
    pub fn load(&mut self, line: u64, from: Register, to: Register, slot: u32, steps: &Steps) {
        let instruction = integer(from, to);
        self.core.begin(&instruction);
        self.core.load(PhysicalAddress::new(line * 64), 8, slot, steps);
        self.core.finish(&instruction);
    }

    /// A load that hits the first-level TLB.
    pub fn plain_load(&mut self, line: u64, from: Register, to: Register) {
        self.load(line, from, to, 63, &Steps::new());
    }

    /// A store to `line` of data in `from`, hitting the first-level TLB.
    pub fn store(&mut self, line: u64, from: Register) {
        self.store_from(line, from, 63, &Steps::new());
    }

    /// A store to `line` with the given translation.
    pub fn translated_store(&mut self, line: u64, slot: u32, steps: &Steps) {
        self.store_from(line, 0, slot, steps);
    }

    fn store_from(&mut self, line: u64, from: Register, slot: u32, steps: &Steps) {
        let instruction = integer(from, 0);
        self.core.begin(&instruction);
        self.core.store(PhysicalAddress::new(line * 64), 8, slot, steps);
        self.core.finish(&instruction);
    }

    /// Brings lines into the L1D and waits until they are there.
    pub fn warm(&mut self, lines: impl IntoIterator<Item = u64>) {
        lines.into_iter().for_each(|line| self.plain_load(line, 0, 0));
        self.settle();
    }

    /// Lets everything finish, and counts from here. Dispatch goes on where retirement is.
    pub fn settle(&mut self) {
        self.run(Instruction {
            operation: perforate_types::Operation::Serializing,
            ..integer(0, 0)
        });
        self.core.start_measuring();
    }

    /// The core when all so far is done; the core itself goes on as if nobody had looked.
    fn drained(&self) -> Core {
        let mut core = self.core.clone();
        core.drain();
        core
    }

    /// Cycles since measuring began, until the last instruction retires.
    pub fn cycles(&self) -> u64 {
        self.drained().cycles()
    }

    pub fn counter(&self, name: &str) -> u64 {
        let mut counters = Counters::default();
        self.drained().counters(&mut counters);
        counters.get(name).unwrap_or_else(|| panic!("no counter {name}")).round() as u64
    }

    /// A counter that is a share.
    pub fn ratio(&self, name: &str) -> f64 {
        let mut counters = Counters::default();
        self.drained().counters(&mut counters);
        counters.get(name).unwrap_or_else(|| panic!("no counter {name}"))
    }

    /// The parts of the cycle stack that are not 0, by name.
    pub fn stack(&self) -> Vec<(String, u64)> {
        stack(&self.drained())
    }

    /// Sum of the latencies of all loads.
    pub fn load_cycles(&self) -> u64 {
        let mut counters = Counters::default();
        self.drained().counters(&mut counters);
        (counters.get("load_average_cycles").unwrap() * counters.get("loads").unwrap()).round()
            as u64
    }

    pub fn translation_accesses(&self) -> TranslationAccesses {
        self.drained().translation_accesses()
    }
}

/// Each rule alone that leaves events out, and all rules.
pub fn rules() -> [Shortcuts; 8] {
    let none = Shortcuts::NONE;
    [
        Shortcuts { walks_begin_at_dispatch: true, ..none },
        Shortcuts { walker_is_granted_ahead: true, ..none },
        Shortcuts { misses_need_no_mshr_event: true, ..none },
        Shortcuts { merged_accesses_need_no_event: true, ..none },
        Shortcuts { stores_forward_early: true, ..none },
        Shortcuts { loads_read_at_once: true, ..none },
        Shortcuts { instructions_come_early: true, ..none },
        Shortcuts::ALL,
    ]
}

/// The parts of a core's cycle stack that are not 0, by name.
pub fn stack(core: &Core) -> Vec<(String, u64)> {
    let mut counters = Counters::default();
    core.counters(&mut counters);
    let parts = counters.iter().filter_map(|(name, value)| {
        let cycles = value.as_f64() as u64;
        (cycles > 0).then_some((name.strip_prefix("stack_cycles_")?.to_owned(), cycles))
    });
    let mut parts: Vec<_> = parts.collect();
    parts.sort();
    parts
}

pub fn integer(from: Register, to: Register) -> Instruction {
    Instruction { sources: [from, 0, 0, 0], destinations: [to, 0], ..Instruction::default() }
}

/// A hit in the L2 TLB that fills `slot` of the L1 TLB.
pub fn l2_tlb_hit(slot: u32) -> Steps {
    let mut steps = Steps::new();
    steps.then(Purpose::Page, Action::Hit { unit: Unit::L2Tlb, slot: 0 });
    steps.then(Purpose::Page, Action::Fill { unit: Unit::L1DataTlb, slot });
    steps
}

/// A walk that reads these lines one after the other and fills `slot` of the L1 TLB.
pub fn walk(lines: &[u64], slot: u32) -> Steps {
    let purposes = [Purpose::Level4, Purpose::Level3, Purpose::Level2, Purpose::Level1];
    let mut steps = Steps::new();
    for (line, purpose) in lines.iter().zip(&purposes[4 - lines.len()..]) {
        steps.then(*purpose, Action::Read { address: PhysicalAddress::new(line * 64) });
    }
    steps.then(Purpose::Page, Action::Fill { unit: Unit::L1DataTlb, slot });
    steps
}
