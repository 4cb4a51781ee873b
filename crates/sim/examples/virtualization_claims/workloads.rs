//! Workloads and machines of the overheads, and the rule that scales TLBs.

use perforate_mmu::TlbGeometry;
use perforate_sim::{Machine, MemoryState, SimError};

/// D's data sets are 60 to 75GB.
const D_FOOTPRINT_BYTES: f64 = 60.0 * (1u64 << 30) as f64;
/// What D's second-level TLB reaches with 4KB pages: 512 entries.
const D_REACH_BYTES: f64 = (512 * 4096) as f64;
/// Fewer entries are no TLB any more.
const LEAST_L2_ENTRIES: usize = 16;
/// Memory of a guest that runs a trace.
const TRACE_MEMORY: &str = "16G";

/// A workload on a machine.
pub struct Place {
    /// What it stands for in D.
    pub title: String,
    /// Name of a workload or path of a trace.
    pub workload: String,
    /// Its machine.
    pub machine: Machine,
    /// The memory it is placed in.
    pub memory: MemoryState,
    /// Of a trace, whether TLBs were scaled to it.
    pub is_trace_scaled: Option<bool>,
    /// Which program of D it is like.
    pub like: Like,
}

/// A program of D.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Like {
    /// GUPS.
    Gups,
    /// graph500.
    Graph500,
    /// memcached.
    Memcached,
    /// None that D has.
    Streaming,
}

/// The path of a bundled trace.
pub fn trace(name: &str) -> String {
    format!("{}/../../traces/{name}.trace", env!("CARGO_MANIFEST_DIR"))
}

/// All workloads: synthetic ones with `size_bytes` of data, traces at their size and with TLBs that
/// are as small beside them as D's.
///
/// # Errors
/// As [`Machine::load`].
pub fn all(size_bytes: u64) -> Result<Vec<Place>, SimError> {
    let machine = Machine::load("sandy-bridge-table6")?;
    let size = size_bytes >> 20;
    let synthetic = |title: &str, workload: String, like| {
        Ok(Place {
            title: format!("{title}: {workload}"),
            workload,
            machine: machine.clone(),
            memory: MemoryState::parse(Some(&format!("{}M", size + 2048)), None, None)?,
            is_trace_scaled: None,
            like,
        })
    };
    let recorded = |title: &str, name: &str, like, divisor: usize| {
        let scaled = match divisor {
            1 => "TLBs of D Table VI".to_owned(),
            _ => format!("TLBs divided by {divisor}"),
        };
        Ok(Place {
            title: format!("{title}: trace {name}, {scaled}"),
            workload: trace(name),
            machine: with_tlbs_divided(&machine, divisor),
            memory: MemoryState::parse(Some(TRACE_MEMORY), None, None)?,
            is_trace_scaled: Some(divisor > 1),
            like,
        })
    };
    // Pages touched by the traces in all (traces/README.md).
    let bfs = divisor(29_103 * 4096, &machine);
    let hpcc = divisor(190_099 * 4096, &machine);
    let redis = divisor(38_412 * 4096, &machine);
    [
        synthetic("GUPS", format!("random:size={size}M,writes=50%"), Like::Gups),
        recorded("GUPS of HPCC", "hpcc", Like::Gups, 1),
        recorded("GUPS of HPCC", "hpcc", Like::Gups, hpcc),
        recorded("graph", "bfs", Like::Graph500, 1),
        recorded("graph", "bfs", Like::Graph500, bfs),
        synthetic("key-value store", format!("zipf:size={size}M"), Like::Memcached),
        recorded("key-value store", "redis", Like::Memcached, 1),
        recorded("key-value store", "redis", Like::Memcached, redis),
        synthetic("streaming", format!("sequential:size={size}M"), Like::Streaming),
    ]
    .into_iter()
    .collect()
}

/// The power of two by which TLBs are divided so that footprint ÷ reach of the second level comes
/// nearest to D's, with 16 entries at least.
fn divisor(footprint_bytes: u64, machine: &Machine) -> usize {
    let entries = machine.tlb.l2.entries;
    let distance = |divisor: &usize| {
        let reach = (entries / divisor * 4096) as f64;
        let ratio = footprint_bytes as f64 / reach;
        (ratio / (D_FOOTPRINT_BYTES / D_REACH_BYTES)).ln().abs()
    };
    let possible = (0..20).map(|power| 1 << power).filter(|d| entries / d >= LEAST_L2_ENTRIES);
    possible.min_by(|a, b| distance(a).total_cmp(&distance(b))).unwrap_or(1)
}

fn divided(geometry: TlbGeometry, divisor: usize) -> TlbGeometry {
    let entries = (geometry.entries / divisor).max(1);
    TlbGeometry { entries, ways: geometry.ways.min(entries) }
}

/// All levels; walk caches stay as they are.
fn with_tlbs_divided(machine: &Machine, divisor: usize) -> Machine {
    let mut machine = machine.clone();
    let tlb = &mut machine.tlb;
    for geometry in [&mut tlb.l1_data_4k, &mut tlb.l1_instruction_4k, &mut tlb.l2] {
        *geometry = divided(*geometry, divisor);
    }
    for geometry in
        [&mut tlb.l1_data_2m, &mut tlb.l1_data_1g, &mut tlb.l1_instruction_2m, &mut tlb.l2_1g]
    {
        *geometry = geometry.map(|geometry| divided(geometry, divisor));
    }
    machine
}

/// The machine with first-level TLBs in which nothing misses twice.
pub fn without_misses(machine: &Machine) -> Machine {
    let mut machine = machine.clone();
    let large = TlbGeometry { entries: 1 << 17, ways: 4 };
    machine.tlb.l1_data_4k = large;
    machine.tlb.l1_data_2m = Some(large);
    machine.tlb.l1_instruction_4k = large;
    machine.tlb.l1_instruction_2m = Some(large);
    machine
}

/// The machine with a nested TLB apart, or none at all.
pub fn with_nested_tlb(machine: &Machine, entries: usize) -> Machine {
    let mut machine = machine.clone();
    machine.virtualization.nested_tlb = Some(TlbGeometry { entries, ways: entries.min(4) });
    machine
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 60GB over 2MB is 30,720. 512 entries ÷ 32 are the least; 60GB need no scaling, and 4GB are
    /// nearest to it with a 16th: 4GB over 128KB is 32,768.
    #[test]
    fn tlbs_are_scaled_to_the_footprint() {
        let machine = Machine::load("sandy-bridge-table6").unwrap();
        assert_eq!(divisor(60 << 30, &machine), 1);
        assert_eq!(divisor(4 << 30, &machine), 16);
        assert_eq!(divisor(64 << 20, &machine), 32);
        let scaled = with_tlbs_divided(&machine, 32);
        assert_eq!(scaled.tlb.l2, TlbGeometry { entries: 16, ways: 4 });
        assert_eq!(scaled.tlb.l1_data_4k, TlbGeometry { entries: 2, ways: 2 });
        assert_eq!(scaled.tlb.l1_data_1g, Some(TlbGeometry { entries: 1, ways: 1 }));
        assert_eq!(scaled.walk_cache, machine.walk_cache);
        scaled.mmu().validate().unwrap();
        without_misses(&machine).mmu().validate().unwrap();
        with_nested_tlb(&machine, 0).mmu().validate().unwrap();
    }

    #[test]
    fn every_workload_has_its_place() {
        let places = all(1 << 30).unwrap();
        assert_eq!(places.len(), 9);
        assert!(places.iter().filter(|place| place.is_trace_scaled == Some(true)).count() == 3);
    }
}
