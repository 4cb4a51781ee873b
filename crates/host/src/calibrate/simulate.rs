//! Simulation of the chases: it determines the values that cannot be measured directly, and checks the
//! written machine file.

use perforate_config::Size;
use perforate_sim::{
    Composition, Machine, MeasuringOptions, MemoryOptions, MemorySnapshot, Observer, ResolvedRun,
    SimError, SizeOptions, WarmupLength, Workload,
};

use super::points::Point;
use super::region::Nodes;

/// Maximum ratio of warm-up accesses to timed accesses.
const MOST_WARMUP: u64 = 25;
/// Simulated memory in addition to the pointer chase's, in bytes.
const MORE_MEMORY_BYTES: u64 = 512 << 20;

/// Simulated nanoseconds per access of a pointer chase, with each of the two schemes: one for 4KB pages and
/// one for 2MB pages. At least `accesses` accesses are timed.
///
/// # Errors
/// If a machine cannot be simulated.
pub(super) fn nanoseconds(
    machine: &Machine,
    schemes: [&str; 2],
    point: Point,
    accesses: u64,
    observer: &mut dyn Observer,
) -> Result<[f64; 2], SimError> {
    let bytes = point.count * point.nodes.bytes();
    let node = point.nodes.bytes().min(4096);
    let scattered = if matches!(point.nodes, Nodes::OneOf(_)) { ",scattered" } else { "" };
    let name =
        format!("chase:size={bytes}B,node={node}B{scattered},chains={},others=0", point.chains);
    // Warm-up: visit all nodes once, or fill the last-level cache twice.
    let llc_bytes = machine.cache.llc.as_ref().map_or(0, |cache| cache.size_bytes);
    let warmup = point.count.min((2 * llc_bytes / 64).max(accesses)).min(MOST_WARMUP * accesses);
    let timed = accesses.max(point.count.min(2 * accesses));
    let room = bytes.saturating_mul(2).saturating_add(MORE_MEMORY_BYTES).next_power_of_two();
    let workload = Workload { instructions: Some(warmup + timed), ..Workload::named(name) };
    let size = SizeOptions { memory: Some(Size(room)), ..SizeOptions::default() };
    let memory = MemoryOptions { size, ..MemoryOptions::default() };
    let warmup = Some(WarmupLength::Instructions(warmup));
    let run = ResolvedRun {
        machine: machine.clone(),
        memory: memory.resolve(&MemorySnapshot::load)?,
        measuring: MeasuringOptions { warmup, ..MeasuringOptions::default() },
        ..ResolvedRun::new(workload, Composition::list(&schemes.join(",")).map_err(SimError::from)?)
    };
    let results = perforate_sim::run(&run, observer)?;
    Ok(schemes.map(|scheme| {
        let result = results.iter().find(|result| result.scheme == scheme);
        result.map_or(f64::NAN, |result| {
            let cycles = result.cycles.unwrap_or_default() as f64;
            let loads = result.counters.get("loads").unwrap_or_default();
            cycles / loads / machine.core.frequency_ghz
        })
    }))
}
