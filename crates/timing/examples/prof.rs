// Instructions per second of the timing model alone: one JSON line per case. Arguments select
// cases by a part of `machine/case`.
//
// The translations are made up (a given share of accesses walks), as no memory-management unit
// is involved; addresses are real enough for caches and DRAM.

use perforate_timing::{Core, TimingConfig};
use perforate_types::{
    Action, Branch, Instruction, PhysicalAddress, Purpose, Steps, Unit, VirtualAddress,
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


fn main() {
    let args: Vec<String> = std::env::args().collect();
    let text = include_str!("../../../machines/perforated-table2.toml");
    let mut machine: toml::Table = toml::from_str(text).unwrap();
    for other in ["name", "summary", "tlb", "walk_cache", "energy", "operating_system", "virtualization", "processors", "plausible"] {
        machine.remove(other);
    }
    let config: TimingConfig = machine.try_into().unwrap();
    let mut core = Core::new(&config, SLOTS).unwrap();
    let n: u64 = args[2].parse().unwrap();
    match args[1].as_str() {
        "walks" => random(&mut core, n, 3, walk),
        "l2hits" => random(&mut core, n, 3, l2_tlb_hit),
        "l1hits" => random(&mut core, n, 100, walk),
        "cached" => cached(&mut core, n),
        _ => streaming(&mut core, n),
    }
    core.drain();
    println!("{}", core.cycles());
}
