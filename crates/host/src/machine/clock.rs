//! Clock of the processor, measured with instructions of known latency.

use crate::HostError;
use crate::process_settings::{on_processor, thread_time};

/// Latency of a 64-bit multiplication in cycles: 3 on Intel's processors since 2008 and AMD's since
/// 2017 (Agner Fog, "Instruction tables").
const MULTIPLY_CYCLES: f64 = 3.0;
/// Number of dependent multiplications in one iteration of the loop.
const ROUND_MULTIPLICATIONS: u64 = 8;
const ROUNDS: u64 = 1_000_000;
const TRIES: usize = 7;

/// Clock frequency in GHz of the processor that runs the calling thread. The fastest of several
/// tries counts, because other programs can only slow a try down. Absent on architectures other
/// than x86-64.
pub fn clock_ghz() -> Option<f64> {
    let time = (0..TRIES).map(|_| time_multiplications()).min()?;
    let cycles = (ROUNDS * ROUND_MULTIPLICATIONS) as f64 * MULTIPLY_CYCLES;
    let is_measured = cfg!(target_arch = "x86_64") && !time.is_zero();
    is_measured.then(|| cycles / time.as_nanos() as f64)
}

/// Clock frequency of a processor in GHz. A new thread measures it, so that the caller is not
/// pinned.
///
/// # Errors
/// If this process may not run on the processor.
pub fn clock_ghz_of(processor: usize) -> Result<Option<f64>, HostError> {
    on_processor(processor, |_| Ok(clock_ghz()), &mut |_| ())
}

#[cfg(target_arch = "x86_64")]
fn time_multiplications() -> std::time::Duration {
    let before = thread_time();
    // SAFETY: the loop changes the two named registers and the flags, and no memory.
    unsafe {
        std::arch::asm!(
            "2:",
            "imul {x}, {x}", "imul {x}, {x}", "imul {x}, {x}", "imul {x}, {x}",
            "imul {x}, {x}", "imul {x}, {x}", "imul {x}, {x}", "imul {x}, {x}",
            "dec {rounds}",
            "jnz 2b",
            x = inout(reg) 3_u64 => _,
            rounds = inout(reg) ROUNDS => _,
            options(nomem, nostack),
        );
    }
    thread_time() - before
}

#[cfg(not(target_arch = "x86_64"))]
fn time_multiplications() -> std::time::Duration {
    let before = thread_time();
    thread_time() - before
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_is_plausible() {
        if let Some(ghz) = clock_ghz() {
            assert!((0.05..20.0).contains(&ghz), "{ghz} GHz");
        }
    }
}
