//! Benchmark: speed of generating each workload. One JSON line per workload.

use std::time::Instant;

use perforate_trace::Source;
use perforate_types::Chunk;
use perforate_workloads::{WORKLOADS, WorkloadSpec};

const INSTRUCTIONS: u64 = 100_000_000;

fn main() {
    for workload in WORKLOADS {
        let spec = WorkloadSpec::parse(workload.name).expect("a known workload");
        let mut source = spec.source(1, Some(INSTRUCTIONS));
        let start = processor_seconds();
        read(&mut *source, 1); // generates the data
        let generated = processor_seconds();
        let instructions = read(&mut *source, u64::MAX);
        let seconds = processor_seconds() - generated;
        let line = serde_json::json!({
            "bench": "generate",
            "input": workload.name,
            "instructions": instructions,
            "instructions_per_second": (instructions as f64 / seconds).round(),
            "data_seconds": generated - start,
        });
        println!("{line}");
    }
}

/// Processor time of this thread, so that other work on the machine does not count. Elapsed time on
/// systems that do not report processor time.
fn processor_seconds() -> f64 {
    static START: std::sync::LazyLock<Instant> = std::sync::LazyLock::new(Instant::now);
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let ran = text.split(' ').next().and_then(|ran| ran.parse::<f64>().ok());
    ran.map_or_else(|| START.elapsed().as_secs_f64(), |ran| ran / 1e9)
}

/// Reads chunks until at least `limit` instructions are read, or to the end. Returns the number read.
fn read(source: &mut dyn Source, limit: u64) -> u64 {
    let mut chunk = Chunk::default();
    let mut instructions = 0;
    while instructions < limit && source.next_chunk(&mut chunk).expect("an endless source") {
        instructions += std::hint::black_box(&chunk).instructions.len() as u64;
    }
    instructions
}
