//! Set-up of the host in a virtualized storm.

use perforate_config::Size;
use perforate_mmu::{NestedEntries, TlbGeometry, WalkCacheConfig};
use perforate_sim::{Machine, MemoryState};

use super::{DEFRAG_MODES, Random, memory_of};

const MEGABYTE: u64 = 1 << 20;

/// Gives the host a random memory, which may be small, fragmented, aged or faulty, like the
/// guest's. The machine's caches of guest-physical addresses become shared, small or absent.
pub fn virtualize(machine: &mut Machine, memory: &mut MemoryState, random: &mut Random) {
    let small = TlbGeometry { entries: 8, ways: 4 };
    let none = TlbGeometry { entries: 0, ways: 1 };
    let virtualization = &mut machine.virtualization;
    virtualization.nested_tlb = [None, Some(small), Some(none)][random.below(3) as usize];
    virtualization.intermediate_entries = !random.one_in(3);
    let levels = random.below(3) as usize;
    let (level3_entries, level2_entries) = (levels, 8 * levels);
    virtualization.host_walk_cache =
        Some(WalkCacheConfig::fully_associative(0, level3_entries, level2_entries));
    memory.kernel.hot_add = Size(4 * MEGABYTE * random.below(2));
    let aged = random.one_in(3);
    let fragmentation = format!("portion={}%,holes=30%,dispersed", random.below(101));
    let fragmentation = if aged { "none" } else { &fragmentation };
    let perforation = ["holes=eager", "holes=lazy,promote=punch", "create=reserve"];
    let perforation = perforation[random.below(3) as usize];
    // Half of the hosts have less memory than the guest may request.
    let least = if aged { 48 } else { 20 };
    let megabytes =
        if random.one_in(2) { least } else { memory.kernel.memory_bytes / 3 * 4 / MEGABYTE + 64 };
    let faulty = random.one_in(3);
    let compaction = ["none", "background"][random.below(2) as usize];
    let defrag = DEFRAG_MODES[random.below(5) as usize];
    let swap = ["0", "64M"][random.below(2) as usize];
    let host = memory_of(&[
        ("memory", &format!("{megabytes}M")),
        ("fragmentation", fragmentation),
        ("perforation", perforation),
        ("age", if aged { "kernel-build,free=60%" } else { "none" }),
        ("faulty", if faulty { "uniform=0.1%" } else { "none" }),
        ("compaction", compaction),
        ("defrag", defrag),
        ("swap", swap),
    ]);
    memory.host = Some(Box::new(host));
    virtualization.guest_blocks_in_entries = random.one_in(2);
    if random.one_in(2) {
        virtualization.nested_entries = NestedEntries::Tables;
    }
}
