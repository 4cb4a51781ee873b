//! Options and memories that several tests use.

use perforate_os::{Fragmentation, KernelConfig};
use perforate_sim::{MeasuringOptions, MemoryState, WarmupLength};

/// Returns options of measuring. `functional` counts events only, `check` enables the oracle, and
/// `warmup` is in instructions.
pub fn measuring(functional: bool, check: bool, warmup: Option<u64>) -> MeasuringOptions {
    let warmup = warmup.map(WarmupLength::Instructions);
    MeasuringOptions { functional, check, warmup, ..MeasuringOptions::default() }
}

/// Returns a memory of this size in bytes with injected fragmentation.
pub fn fragmented(fragmentation: Option<Fragmentation>, bytes: u64) -> MemoryState {
    let memory = MemoryState::of(bytes);
    let kernel = KernelConfig { fragmentation, ..memory.kernel };
    MemoryState { kernel, ..memory }
}
