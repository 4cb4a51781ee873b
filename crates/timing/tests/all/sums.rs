//! Counters as a whole: what starts at 0, what adds up over cores, what is scaled. One program of all kinds of
//! events repeats itself, on other lines each time, until each repetition is like the one before.

use perforate_timing::{CacheConfig, Core, Prefetcher, Processors, TimingConfig, Topology};
use perforate_types::{
    Action, Branch, Counters, Instruction, PhysicalAddress, Purpose, Steps, Unit, VirtualAddress,
};

use crate::machine::{SLOTS, config, integer};
use crate::processors::{Told, tell, tell_core};

/// Lines of a repetition: a row in each of the two banks of each channel.
const LINES: u64 = 256;
/// Repetitions until the caches are full and evict as much as comes.
const WARM_UP: u64 = 6;

/// A machine with small caches of all kinds and a prefetcher, which needs few lines to evict dirty ones.
fn small() -> TimingConfig {
    let mut config = config();
    let cache = |size_bytes, prefetcher, of: &CacheConfig| CacheConfig {
        size_bytes,
        ways: 2,
        prefetcher,
        ..of.clone()
    };
    config.cache.l1i = cache(4096, Prefetcher::None, &config.cache.l1i);
    config.cache.l1d = cache(8192, Prefetcher::NextLine, &config.cache.l1d);
    config.cache.l2 = cache(16384, Prefetcher::None, &config.cache.l2);
    let l2 = config.cache.l2.clone();
    config.cache.llc = Some(CacheConfig { size_bytes: 32768, ways: 4, latency_cycles: 30, ..l2 });
    let walker = CacheConfig { latency_cycles: 2, ..config.cache.l1i.clone() };
    config.cache.walker = Some(walker);
    (config.dram.banks_per_rank, config.dram.row_bytes) = (2, 128);
    config
}

/// Steps of a translation, each but the first of a stage of its own.
fn steps(all: &[(Purpose, Action)]) -> Steps {
    let mut steps = Steps::new();
    all.iter().for_each(|&(purpose, action)| steps.then(purpose, action));
    steps
}

/// Repetition `number` of the program, on the lines of core `core` (channels of its own).
fn repetition(number: u64, core: u64) -> Vec<Told> {
    let line = |column: u64, channel: u64| number * LINES + column * 64 + core * 32 + channel;
    let read = |line: u64| Action::Read { address: PhysicalAddress::new(line * 64) };
    let access = |is_store, line: u64, steps| (is_store, line * 64, 5, steps);
    let told = |code, instruction, accesses| Told { code, instruction, accesses };
    // Code, then a branch that is mispredicted: no table has its address.
    let ip = VirtualAddress::new(0x40 * (number + 1));
    let branch = Instruction { ip, branch: Branch::Conditional, taken: true, ..integer(0, 0) };
    let right = Instruction { ip: VirtualAddress::new(0x20), taken: false, ..branch };
    // A nested walk with a check, a selection, a bitmap and a hole: it reads what only the LLC has, twice what
    // memory has, what code has brought into the L2, and what is in the L1D.
    let old = line(0, 21) - number.min(2) * LINES;
    let nested = steps(&[
        (Purpose::Page, Action::Miss { unit: Unit::L2Tlb }),
        (Purpose::Level3, Action::Hit { unit: Unit::WalkCache, slot: 1 }),
        (Purpose::HostPage, Action::Check),
        (Purpose::HostPage, Action::Miss { unit: Unit::NestedTlb }),
        (Purpose::HostLevel2, read(old)),
        (Purpose::HostLevel1, read(line(0, 20))),
        (Purpose::HostPage, Action::Fill { unit: Unit::NestedTlb, slot: 2 }),
        (Purpose::Level3, read(line(3, 31))),
        (Purpose::Level2, read(line(0, 24))),
        (Purpose::Level1, read(line(0, 21))),
        (Purpose::Level1, Action::Select),
        (Purpose::Bitmap, read(line(0, 20))),
        (Purpose::Hole, read(line(1, 22))),
        (Purpose::Page, Action::Fill { unit: Unit::L1DataTlb, slot: 5 }),
    ]);
    let short = steps(&[
        (Purpose::Level1, read(line(1, 23))),
        (Purpose::Page, Action::Fill { unit: Unit::L1DataTlb, slot: 5 }),
    ]);
    let hit = Steps::new;
    let mut all = vec![
        told(Some(line(3, 31)), integer(0, 1), vec![]),
        told(Some(line(3, 30)), branch, vec![]),
        told(None, right, vec![]),
        told(None, integer(0, 6), vec![access(false, line(0, 24), hit())]),
        told(None, integer(0, 2), vec![access(false, line(0, 0), nested)]),
        // It waits for the entry that the walk fills; the walk of the store waits for the walker.
        told(None, integer(0, 3), vec![access(false, line(0, 1), hit())]),
        told(None, integer(0, 0), vec![access(true, line(1, 2), short)]),
    ];
    for channel in 3..9 {
        // Lines on their way, prefetched ones, ones of the same row, stores, a load of what is stored.
        let (one, other) = (line(0, channel), line(1, channel));
        all.push(told(None, integer(0, 4), vec![access(false, one, hit()); 2]));
        all.push(told(None, integer(4, 0), vec![access(true, other, hit())]));
        all.push(told(None, integer(4, 5), vec![access(false, other, hit())]));
    }
    for channel in 10..18 {
        all.push(told(None, integer(4, 4), vec![access(true, line(2, channel), hit())]));
    }
    all
}

fn repeat(core: &mut Core, number: u64) {
    repetition(number, 0).iter().for_each(|told| tell_core(core, told));
    core.drain();
}

fn list(counters: &Counters) -> Vec<(String, f64)> {
    counters.iter().map(|(name, value)| (name.to_owned(), value.as_f64())).collect()
}

/// All counters by name, of a core that has come to rest.
fn of(core: &Core) -> Vec<(String, f64)> {
    let mut counters = Counters::default();
    core.counters(&mut counters);
    list(&counters)
}

/// A core that has come to rest after [`WARM_UP`] repetitions, from where it counts.
fn warmed() -> Core {
    let mut core = Core::new(&small(), SLOTS).unwrap();
    (0..WARM_UP).for_each(|number| repeat(&mut core, number));
    core.start_measuring();
    core
}

fn once() -> Vec<(String, f64)> {
    let mut core = warmed();
    repeat(&mut core, WARM_UP);
    of(&core)
}

/// Counters `times` as high, but for means, shares and rates, which do not grow with a run.
fn multiplied(counters: Vec<(String, f64)>, times: f64) -> Vec<(String, f64)> {
    let is_quotient =
        |name: &str| ["average", "_mpki", "ipc", "busy"].iter().any(|part| name.contains(part));
    let counters = counters.into_iter();
    counters
        .map(|(name, it)| if is_quotient(&name) { (name, it) } else { (name, it * times) })
        .collect()
}

/// The program has events of all kinds that a single core has, but for those of other schemes.
#[test]
fn measuring_starts_at_0_and_each_repetition_counts_like_the_one_before() {
    let first = once();
    let mut core = warmed();
    let at_first: Vec<_> = of(&core).into_iter().filter(|(_, value)| *value != 0.0).collect();
    assert_eq!(at_first, []);
    repeat(&mut core, WARM_UP);
    core.start_measuring();
    repeat(&mut core, WARM_UP + 1);
    assert_eq!(of(&core), first);
    let accesses = core.translation_accesses();
    let [data, instruction, l2, walk_cache, host_walk_cache, nested, ..] = accesses.units;
    assert_eq!([data, instruction, l2, walk_cache, host_walk_cache, nested], [2, 0, 1, 1, 0, 2]);
    assert_eq!((accesses.segment_checks, accesses.selections), (1, 1));
    let counter = |name: &str| first.iter().find(|it| it.0 == name).unwrap().1 as u64;
    for (name, reads) in [
        ("walker_cache", accesses.reads_from_walker_cache),
        ("l1d", accesses.reads_from_l1d),
        ("l2", accesses.reads_from_l2),
        ("llc", accesses.reads_from_llc),
        ("memory", accesses.reads_from_memory),
    ] {
        assert_eq!(counter(&format!("walker_reads_from_{name}")), reads, "{name}");
    }
    assert_eq!(counter("translation_cycles"), core.translation_cycles());
    assert_eq!(counter("translation_stall_cycles"), core.translation_stall_cycles());
    let is_part = |name: &str| name.starts_with("stack_") || name.starts_with("translation_");
    let never = first.iter().filter(|(name, value)| *value == 0.0 && !is_part(name));
    let never: Vec<&str> = never.map(|(name, _)| name.as_str()).collect();
    let expected = [
        "l1d_invalidated_lines",
        "l1i_invalidated_lines",
        "l1i_merged_accesses",
        "l1i_write_backs",
        "l2_invalidated_lines",
        "l2_merged_accesses",
        "l2_useful_prefetches",
        "llc_invalidated_lines",
        "llc_merged_accesses",
        "llc_useful_prefetches",
    ];
    assert_eq!(never, expected);
}

/// 2 repetitions of 4 are counted, which stand for 6: each sum is six times that of one, each mean the same.
#[test]
fn what_is_counted_in_parts_is_scaled_as_a_whole() {
    let mut core = warmed();
    for number in WARM_UP..WARM_UP + 4 {
        let is_counted = number % 2 == 1;
        if !is_counted {
            core.pause_counting();
        }
        repeat(&mut core, number);
        if !is_counted {
            core.resume_counting();
        }
    }
    core.extrapolate(6 * repetition(0, 0).len() as u64);
    assert_eq!(of(&core), multiplied(once(), 6.0));
    let accesses = core.translation_accesses();
    assert_eq!((accesses.segment_checks, accesses.selections, accesses.units[2]), (6, 6, 6));
}

/// Two cores do the same on lines of their own: sums are twice those of one core. What is the mean over cores,
/// and shares of what each core adds, are those of one.
#[test]
fn what_cores_count_is_added_up() {
    let run = |cores: usize| {
        let topology = Topology { cores, threads_per_core: 1, lead: 1000 };
        let mut all = Processors::new(&small(), topology, SLOTS).unwrap();
        for number in 0..=WARM_UP {
            if number == WARM_UP {
                all.start_measuring();
            }
            for core in 0..cores {
                for told in repetition(number, core as u64) {
                    tell(&mut all, core, &told, 0);
                }
            }
            all.drain();
        }
        let mut counters = Counters::default();
        all.counters(&mut counters);
        let counter = |name: &str| counters.get(name).unwrap() as u64;
        assert_eq!(counter("translation_cycles"), all.translation_cycles());
        assert_eq!(counter("translation_stall_cycles"), all.translation_stall_cycles());
        assert_eq!(all.translation_accesses().selections, cores as u64);
        (list(&counters), all.threads())
    };
    let ((one, thread), (two, threads)) = (run(1), run(2));
    let mut expected = multiplied(one, 2.0);
    for (name, value) in &mut expected {
        match name.as_str() {
            "cycles" | "translation_stall_cycles" => *value /= 2.0,
            "ipc" | "dram_busy" => *value *= 2.0,
            _ if name.starts_with("stack_") => *value /= 2.0,
            _ => {}
        }
    }
    assert_eq!(two, expected);
    for (core, of_two) in threads.into_iter().enumerate() {
        assert_eq!(of_two, perforate_records::HardwareThread { core: core as u64, ..thread[0] });
    }
}
