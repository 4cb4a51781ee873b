//! Parts of runs that several tests make.

use perforate_os::{Fragmentation, KernelConfig};
use perforate_sim::{MeasuringOptions, MemoryState, WarmupLength};

/// Options for measuring: events only or a clock, with or without the oracle, instructions of warm-up.
pub fn measuring(functional: bool, check: bool, warmup: Option<u64>) -> MeasuringOptions {
    let warmup = warmup.map(WarmupLength::Instructions);
    MeasuringOptions { functional, check, warmup, ..MeasuringOptions::default() }
}

/// A memory of this size in bytes with injected fragmentation.
pub fn fragmented(fragmentation: Option<Fragmentation>, bytes: u64) -> MemoryState {
    let memory = MemoryState::of(bytes);
    let kernel = KernelConfig { fragmentation, ..memory.kernel };
    MemoryState { kernel, ..memory }
}
