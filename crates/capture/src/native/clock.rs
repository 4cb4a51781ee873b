//! How fast the processor's clock runs, by timing instructions whose cycles are known.

use super::settings::thread_nanoseconds;

/// Cycles of a 64-bit multiplication that waits for the one before: 3 on Intel's processors since
/// 2008 and AMD's since 2017 (Agner Fog, "Instruction tables").
const MULTIPLY_CYCLES: f64 = 3.0;
/// Multiplications of one round of the loop.
const IN_A_ROUND: u64 = 8;
const ROUNDS: u64 = 1_000_000;
const TRIES: usize = 7;

/// Clock of the processor that the calling thread runs on, in GHz: the fastest of some tries, as
/// others may slow it down but nobody makes it faster. Absent on other architectures.
pub fn clock_ghz() -> Option<f64> {
    let nanoseconds = (0..TRIES).map(|_| time_multiplications()).min()?;
    let cycles = (ROUNDS * IN_A_ROUND) as f64 * MULTIPLY_CYCLES;
    (cfg!(target_arch = "x86_64") && nanoseconds > 0).then(|| cycles / nanoseconds as f64)
}

#[cfg(target_arch = "x86_64")]
fn time_multiplications() -> u64 {
    let before = thread_nanoseconds();
    // SAFETY: the loop changes the two registers named and the flags, and no memory.
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
    thread_nanoseconds() - before
}

#[cfg(not(target_arch = "x86_64"))]
fn time_multiplications() -> u64 {
    let before = thread_nanoseconds();
    thread_nanoseconds() - before
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_between_those_of_a_toy_and_a_dream() {
        if let Some(ghz) = clock_ghz() {
            assert!((0.05..20.0).contains(&ghz), "{ghz} GHz");
        }
    }
}
