//! Instructions per second of the timing model alone: one JSON line per case. Arguments select
//! cases by a part of `machine/case`.
//!
//! The translations are made up (a given share of accesses walks), as no memory-management unit
//! is involved; addresses are real enough for caches and DRAM.

use std::time::Instant;

use perforate_timing::{Core, TimingConfig};
use perforate_types::{
    Action, Branch, Counters, Instruction, PhysicalAddress, Purpose, Steps, Unit, VirtualAddress,
};

const SLOTS: [usize; Unit::COUNT] = [96, 128, 1536, 28, 28, 16, 0, 0];
const TABLES: u64 = 3 << 30;

/// Numbers that look random, the same every time.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

/// A walk that finds the level-2 entry in the walk cache and reads the level-1 entry, or (1 in
/// 4) reads both.
fn walk(steps: &mut Steps, page: u64, slot: u32) {
    steps.clear();
    steps.then(Purpose::Page, Action::Miss { unit: Unit::L2Tlb });
    if page.is_multiple_of(4) {
        steps.then(Purpose::Level3, Action::Hit { unit: Unit::WalkCache, slot: 0 });
        let address = PhysicalAddress::new(TABLES + (1 << 28) + page / 512 * 8);
        steps.then(Purpose::Level2, Action::Read { address });
    } else {
        steps.then(Purpose::Level2, Action::Hit { unit: Unit::WalkCache, slot: 4 });
    }
    let address = PhysicalAddress::new(TABLES + page * 8);
    steps.then(Purpose::Level1, Action::Read { address });
    steps.then(Purpose::Page, Action::Fill { unit: Unit::L2Tlb, slot: slot * 16 });
    steps.beside(Purpose::Page, Action::Fill { unit: Unit::L1DataTlb, slot });
}

/// A hit in the second-level TLB, as large and perforated pages have it.
fn l2_tlb_hit(steps: &mut Steps, page: u64, slot: u32) {
    steps.clear();
    let l2_slot = (page >> 9) as u32 % 1536;
    steps.then(Purpose::Page, Action::Hit { unit: Unit::L2Tlb, slot: l2_slot });
    steps.then(Purpose::Page, Action::Fill { unit: Unit::L1DataTlb, slot });
}

fn arithmetic(ip: u64, register: u8) -> Instruction {
    Instruction {
        ip: VirtualAddress::new(ip),
        sources: [register, register + 1, 0, 0],
        destinations: [register, 0],
        length: 4,
        ..Instruction::default()
    }
}

fn access(ip: u64, from: u8, to: u8) -> Instruction {
    Instruction {
        sources: [from, 0, 0, 0],
        destinations: [to, 0],
        accesses: 1,
        ..arithmetic(ip, 1)
    }
}

/// Three other instructions and one load from anywhere in 2GB; `hits` per cent find their page
/// in the first-level TLB, for the rest `miss` makes the steps.
fn random(core: &mut Core, instructions: u64, hits: u64, miss: fn(&mut Steps, u64, u32)) {
    let mut random = Random(88_172_645_463_325_252);
    let mut steps = Steps::new();
    for _ in 0..instructions / 4 {
        for ip in 0..3 {
            let other = arithmetic(0x40_0000 + ip * 4, 1);
            core.begin(&other);
            core.finish(&other);
        }
        let address = random.below(2 << 30) & !7;
        let slot = random.below(64) as u32;
        steps.clear();
        if random.below(100) >= hits {
            miss(&mut steps, address >> 12, slot);
        }
        let load = access(0x40_000c, 1, 5);
        core.begin(&load);
        core.load(PhysicalAddress::new(address), 8, slot, &steps);
        core.finish(&load);
    }
}

/// Like compiled code with a small working set: 16KB of code, 3 loads, 1 store, 1 branch in 12.
fn cached(core: &mut Core, instructions: u64) {
    let mut random = Random(88_172_645_463_325_252);
    let steps = Steps::new();
    let mut ip = 0x40_0000;
    for i in 0..instructions {
        if ip % 64 == 0 {
            core.fetch(PhysicalAddress::new(ip), 0, &steps);
        }
        let mut instruction = match i % 4 {
            0 => access(ip, 8, 1 + (i % 7) as u8),
            _ => arithmetic(ip, 1 + (i % 7) as u8),
        };
        if i % 12 == 11 {
            instruction.branch = Branch::Conditional;
            instruction.taken = i % 24 == 23;
        }
        core.begin(&instruction);
        let address = PhysicalAddress::new(0x100_0000 + (random.below(24 << 10) & !7));
        match i % 12 {
            0 | 4 | 8 => core.load(address, 8, (i % 64) as u32, &steps),
            6 => core.store(address, 8, (i % 64) as u32, &steps),
            _ => {}
        }
        core.finish(&instruction);
        ip = 0x40_0000 + (ip + 4) % (16 << 10);
    }
}

/// A load per 4 instructions, 8 bytes further on each time.
fn streaming(core: &mut Core, instructions: u64) {
    let mut steps = Steps::new();
    for i in 0..instructions / 4 {
        for ip in 0..3 {
            let other = arithmetic(0x40_0000 + ip * 4, 1);
            core.begin(&other);
            core.finish(&other);
        }
        let address = i * 8 % (2 << 30);
        steps.clear();
        let slot = (address >> 12) as u32 % 64;
        if address.is_multiple_of(4096) {
            walk(&mut steps, address >> 12, slot);
        }
        let load = access(0x40_000c, 1, 5);
        core.begin(&load);
        core.load(PhysicalAddress::new(address), 8, slot, &steps);
        core.finish(&load);
    }
}

/// Processor time used by this process (Linux; not a number elsewhere): what counts on a machine
/// shared with others.
fn cpu_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    let nanoseconds = text.split_whitespace().next().and_then(|field| field.parse::<f64>().ok());
    nanoseconds.unwrap_or(f64::NAN) / 1e9
}

fn measure(machine: &str, config: &TimingConfig, case: &str, run: impl Fn(&mut Core, u64)) {
    let name = format!("{machine}/{case}");
    let filters: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with('-')).collect();
    if !filters.is_empty() && !filters.iter().any(|filter| name.contains(filter.as_str())) {
        return;
    }
    let mut core = Core::new(config, SLOTS).expect("the bundled machines are valid");
    run(&mut core, 4_000_000);
    core.start_measuring();
    let instructions = 20_000_000;
    let (start, cpu_start) = (Instant::now(), cpu_seconds());
    run(&mut core, instructions);
    let seconds = start.elapsed().as_secs_f64();
    let cpu_seconds = cpu_seconds() - cpu_start;
    let mut counters = Counters::default();
    core.counters(&mut counters);
    println!(
        "{{\"bench\":\"timing\",\"machine\":\"{machine}\",\"case\":\"{case}\",\"instructions\":{instructions},\
         \"instructions_per_second\":{:.0},\"instructions_per_cpu_second\":{:.0},\"ipc\":{:.4}}}",
        instructions as f64 / seconds,
        instructions as f64 / cpu_seconds,
        counters.get("ipc").unwrap_or(0.0),
    );
}

fn main() {
    let machines = [
        ("table_ii", include_str!("../../../machines/perforated-table2.toml")),
        ("ice_lake_sp", include_str!("../../../machines/ice-lake-sp.toml")),
    ];
    for (name, text) in machines {
        let mut machine: toml::Table = toml::from_str(text).expect("the bundled machines parse");
        for other in ["name", "summary", "tlb", "walk_cache", "energy", "operating_system"] {
            machine.remove(other);
        }
        let config: TimingConfig = machine.try_into().expect("the rest is the timing part");
        measure(name, &config, "random_2g_walks", |core, n| random(core, n, 3, walk));
        measure(name, &config, "random_2g_l2_tlb_hits", |core, n| random(core, n, 3, l2_tlb_hit));
        measure(name, &config, "random_2g_l1_tlb_hits", |core, n| random(core, n, 100, walk));
        measure(name, &config, "cached", cached);
        measure(name, &config, "streaming", streaming);
    }
}
