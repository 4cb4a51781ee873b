//! Costs of this machine's kernel: page faults, clearing and copying, fork, and calls that change
//! mappings. They go into `[operating_system]` of the machine file.
//!
//! Each call is measured for one page and for many, which separates its fixed cost from its cost per
//! page. The machine file also splits page faults: clearing is measured in user mode, and the rest of a
//! fault is the remainder.

mod calls;
mod derive;
mod faults;
mod quantities;

use crate::HostError;
use crate::process_settings::on_processor;

pub(super) use derive::KernelRound;
pub(super) use quantities::{FOLLOWING, quantities};

/// Size of the memory that each measurement uses, in bytes.
const BYTES: u64 = 64 << 20;
const PAGE_BYTES: u64 = 4096;
/// Number of 4KB pages in the system calls for many pages.
const MANY_PAGES: u64 = BYTES / PAGE_BYTES;
const LARGE_BYTES: u64 = 2 << 20;

/// Measures the kernel's costs on this processor in all rounds. Calls `done` with the number of
/// finished rounds.
///
/// # Errors
/// If this process may not use the processor, or a system call fails.
pub(super) fn measure(
    processor: usize,
    rounds: u32,
    done: &mut dyn FnMut(u64),
) -> Result<Vec<KernelRound>, HostError> {
    let failed = || HostError::system("measuring the kernel");
    let work = |done: &dyn Fn(u64)| {
        // Warm-up round: a hypervisor may have to find memory first.
        round().map_err(failed())?;
        let mut found = Vec::new();
        for number in 0..rounds {
            found.push(round().map_err(failed())?);
            done(u64::from(number) + 1);
        }
        Ok(found)
    };
    on_processor(processor, work, done)
}

fn round() -> std::io::Result<KernelRound> {
    Ok(KernelRound {
        fault_4k_ns: faults::small()?,
        fault_2m_ns: faults::large()?,
        clear_4k_ns: faults::clear(false)?,
        clear_2m_ns: faults::clear(true)? * (LARGE_BYTES / PAGE_BYTES) as f64,
        copy_4k_ns: faults::copy()?,
        fork: calls::fork()?,
        protect: calls::protect()?,
        unmap: calls::unmap()?,
        advise: calls::advise()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_has_times() {
        let mut heard = 0;
        let processor = crate::process_settings::last_allowed_processor();
        let found = measure(processor, 1, &mut |done| heard = done).unwrap();
        assert_eq!((found.len(), heard), (1, 1));
        let round = &found[0];
        // No processor writes more than 400 GB a second, and none takes a millisecond for 4KB.
        for page_ns in [round.fault_4k_ns, round.clear_4k_ns, round.copy_4k_ns] {
            assert!((10.0..1e6).contains(&page_ns), "{round:?}");
        }
        assert!(round.fork.many_ns > 0.0 && round.unmap.many_ns > 0.0, "{round:?}");
        assert!(round.protect.one_ns > 0.0 && round.advise.one_ns > 0.0, "{round:?}");
        assert!(measure(usize::MAX, 1, &mut |_| ()).is_err());
    }
}
