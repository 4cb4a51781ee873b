//! Options and memories that several tests use.

use perforate_os::{Fragmentation, KernelConfig};
use perforate_sim::{MeasuringOptions, MemoryState, WarmupLength};

/// Options of measuring. `functional`: events only; `check`: with the oracle; `warmup`: in
/// instructions.
pub fn measuring(functional: bool, check: bool, warmup: Option<u64>) -> MeasuringOptions {
    let warmup = warmup.map(WarmupLength::Instructions);
    MeasuringOptions { functional, check, warmup, ..MeasuringOptions::default() }
}

/// Memory of this size in bytes with injected fragmentation.
pub fn fragmented(fragmentation: Option<Fragmentation>, bytes: u64) -> MemoryState {
    let memory = MemoryState::of(bytes);
    let kernel = KernelConfig { fragmentation, ..memory.kernel };
    MemoryState { kernel, ..memory }
}
