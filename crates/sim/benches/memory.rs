//! Measures the memory of this computer that simulated memory takes. Prints one JSON line per case:
//! `cargo bench -p perforate-sim --bench memory`.
//!
//! - *boot*: 1TB of unused memory.
//! - *full*: 64GB of 1TB mapped with 4KB pages, and the extrapolation to all of it.
//! - *ageing*: operations (allocations and frees of runs of frames) per second, for every preset.

use std::time::Instant;

use perforate_os::{AgeingPreset, BasePages, Kernel, KernelConfig};
use perforate_types::{Backing, Permissions, ProgramEvent, VirtualAddress};

const MEMORY_BYTES: u64 = 1 << 40;
const MAPPED_BYTES: u64 = 64 << 30;
const AGED_BYTES: u64 = 8 << 30;

fn main() {
    let (before, start) = (resident_bytes(), Instant::now());
    let mut kernel = boot(KernelConfig::new(MEMORY_BYTES));
    let boot_seconds = start.elapsed().as_secs_f64();
    let booted = resident_bytes() - before;
    populate(&mut kernel);
    let mapped = resident_bytes() - before;
    let per_frame = (mapped - booted) as f64 / (MAPPED_BYTES / 4096) as f64;
    println!(
        "{}",
        serde_json::json!({
            "memory_bytes": MEMORY_BYTES,
            "boot_seconds": boot_seconds,
            "boot_host_bytes": booted,
            "host_bytes_with_64g_in_4k_pages": mapped,
            "host_bytes_per_mapped_frame": per_frame,
            "host_bytes_with_all_in_4k_pages": (per_frame * (MEMORY_BYTES / 4096) as f64) as u64,
        })
    );
    drop(kernel);
    for preset in AgeingPreset::ALL {
        let ageing = Some(preset.into());
        let start = Instant::now();
        let kernel = boot(KernelConfig { age: ageing, ..KernelConfig::new(AGED_BYTES) });
        let seconds = start.elapsed().as_secs_f64();
        let operations = kernel.ageing_outcome().expect("it was aged").operations;
        println!(
            "{}",
            serde_json::json!({
                "ageing": preset,
                "memory_bytes": AGED_BYTES,
                "operations": operations,
                "seconds": seconds,
                "operations_per_second": (operations as f64 / seconds) as u64,
            })
        );
    }
}

fn boot(config: KernelConfig) -> Kernel {
    Kernel::new(config, Box::new(BasePages)).expect("it boots")
}

/// Maps memory with 4KB pages, and drops the updates of each step of 1GB.
fn populate(kernel: &mut Kernel) {
    const STEP: u64 = 1 << 30;
    for start in (0..MAPPED_BYTES).step_by(STEP as usize) {
        let map = ProgramEvent::Map {
            start: VirtualAddress::new((1 << 40) + start),
            length: STEP,
            permissions: Permissions::READ_WRITE,
            accessible: true,
            backing: Backing::Anonymous,
            shared: false,
            populate: true,
        };
        kernel.event(&map).expect("there is room");
        kernel.updates().clear();
    }
}

/// Returns the resident memory of this process in bytes; 0 if unknown.
fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = statm.split_whitespace().nth(1).and_then(|pages| pages.parse::<u64>().ok());
    pages.unwrap_or(0) * 4096
}
