//! Estimate of this computer's memory that simulated structures take. Values of a machine file can
//! each be valid and still take too much memory together. So the total is checked before anything
//! is allocated.

use perforate_config::Size;
use perforate_timing::{TimingConfig, Topology};

use super::Machine;
use crate::{ProcessorOptions, SimError};

/// Largest number of bytes that the structures of all schemes of a run may take together. The
/// largest processors with 64 cores take some hundred megabytes per scheme.
const MOST_BYTES: u64 = 3 << 30;

/// Key of a machine file, its value, and the bytes of this computer's memory that the value takes.
type Part = (&'static str, u64, u64);

impl Machine {
    /// Returns the bytes of this computer's memory that the TLBs, caches and predictors of one
    /// scheme take. A `functional` run has only the TLBs.
    pub fn host_bytes(&self, processors: &ProcessorOptions, functional: bool) -> u64 {
        sum(&self.host_parts(processors.topology(), functional))
    }

    /// Checks that this computer can simulate the machine once per scheme.
    ///
    /// # Errors
    /// [`SimError::MachineTooLarge`], with the key that takes the most memory.
    pub(crate) fn check_host_memory(
        &self,
        topology: Topology,
        schemes: usize,
        functional: bool,
    ) -> Result<(), SimError> {
        let parts = self.host_parts(topology, functional);
        let total_bytes = sum(&parts).saturating_mul(schemes as u64);
        if total_bytes <= MOST_BYTES {
            return Ok(());
        }
        let largest = parts.into_iter().max_by_key(|(_, _, bytes)| *bytes);
        let (key, value, _) = largest.expect("a machine has TLBs");
        let cores = plural(topology.cores, "core");
        Err(SimError::MachineTooLarge {
            machine: self.name.clone(),
            key,
            value,
            for_whom: format!("{cores} and {}", plural(schemes, "scheme")),
            total: Size(total_bytes >> 20 << 20),
            most: Size(MOST_BYTES),
        })
    }

    fn host_parts(&self, topology: Topology, functional: bool) -> Vec<Part> {
        let (cores, threads) = (topology.cores as u64, topology.threads() as u64);
        // The timing model has a slot for each entry of a TLB.
        let slot = if functional { 0 } else { TimingConfig::SLOT_BYTES };
        let of_tlb = |(key, entries, bytes): Part| {
            let bytes = bytes.saturating_add(entries.saturating_mul(slot));
            (key, entries, bytes.saturating_mul(cores))
        };
        let mut parts: Vec<Part> = self.mmu().host_bytes().into_iter().map(of_tlb).collect();
        if !functional {
            let timing = self.timing();
            let of_core = |(key, value, bytes): Part| {
                let each = if key.starts_with("cache.") { cores } else { threads };
                (key, value, bytes.saturating_mul(each))
            };
            parts.extend(timing.host_bytes_of_core().into_iter().map(of_core));
            parts.extend(timing.host_bytes_of_all_cores());
        }
        parts
    }
}

fn sum(parts: &[Part]) -> u64 {
    parts.iter().fold(0, |sum, (_, _, bytes)| sum.saturating_add(*bytes))
}

fn plural(count: usize, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(values: &[(&str, &str)]) -> Machine {
        Machine::load_with("ice-lake-sp", values.iter().copied()).unwrap()
    }

    fn topology(cores: usize) -> Topology {
        Topology { cores, threads_per_core: 1, lead: 1 }
    }

    #[test]
    fn bundled_machines_with_all_their_cores_and_many_schemes_are_possible() {
        for machine in Machine::bundled() {
            machine.check_host_memory(topology(64), 16, false).unwrap();
        }
    }

    #[test]
    fn values_that_are_possible_one_by_one_are_too_large_together() {
        let large = machine(&[("tlb.l2", "{ entries = 4194304, ways = 16 }")]);
        large.check_host_memory(topology(1), 8, false).unwrap();
        let error = large.check_host_memory(topology(64), 1, true).unwrap_err().to_string();
        assert!(error.contains("ice-lake-sp: tlb.l2.entries = 4194304 is too large"), "{error}");
        assert!(error.contains("for 64 cores and 1 scheme"), "{error}");
        let cache = machine(&[("cache.l1i.size_bytes", "4294967296")]);
        cache.check_host_memory(topology(64), 64, true).unwrap();
        cache.check_host_memory(topology(1), 1, false).unwrap();
        let error = cache.check_host_memory(topology(1), 6, false).unwrap_err().to_string();
        assert!(error.contains("cache.l1i.size_bytes = 4294967296"), "{error}");
        assert!(error.contains("for 1 core and 6 schemes"), "{error}");
        let beside = machine(&[("tlb.beside_entries", "9000000000000000000")]);
        assert!(beside.check_host_memory(topology(1), 1, true).is_err());
    }

    /// Each core has TLBs and caches, each hardware thread predictors; the last-level cache and main memory
    /// are there once. A run that counts only has the TLBs, without the slots of the timing model.
    #[test]
    fn parts_are_of_cores_threads_or_all() {
        let machine = machine(&[]);
        let bytes = |cores, threads_per_core, functional| {
            let processors =
                ProcessorOptions { cores, threads_per_core, ..ProcessorOptions::default() };
            machine.host_bytes(&processors, functional)
        };
        let entries: Vec<Part> = machine.mmu().host_bytes();
        let tlbs = sum(&entries);
        let slots: u64 =
            entries.iter().map(|(_, entries, _)| entries * TimingConfig::SLOT_BYTES).sum();
        assert_eq!((bytes(1, 1, true), bytes(3, 1, true)), (tlbs, 3 * tlbs));
        assert_eq!(bytes(3, 2, true), 3 * tlbs, "threads share them");
        let of_core = machine.timing().host_bytes_of_core();
        let of = |is_cache: bool| -> u64 {
            let parts = of_core.iter().filter(|it| it.0.starts_with("cache.") == is_cache);
            parts.map(|it| it.2).sum()
        };
        let (caches, predictors) = (of(true), of(false));
        let shared =
            sum(&machine.timing().host_bytes_of_all_cores().into_iter().collect::<Vec<_>>());
        assert!(caches > 0 && predictors > 0 && shared > 0 && slots > 0);
        let expected = 3 * (tlbs + slots + caches) + 6 * predictors + shared;
        assert_eq!(bytes(3, 2, false), expected);
    }

    /// As many schemes as fit into 3GB, and one more.
    #[test]
    fn all_schemes_together_have_3_gigabytes() {
        let machine = machine(&[("tlb.l2", "{ entries = 4194304, ways = 16 }")]);
        let one = machine.host_bytes(&ProcessorOptions::default(), true);
        let most = (MOST_BYTES / one) as usize;
        machine.check_host_memory(topology(1), most, true).unwrap();
        let error = machine.check_host_memory(topology(1), most + 1, true).unwrap_err();
        let SimError::MachineTooLarge { machine, key, value, for_whom, total, most: limit } = error
        else {
            panic!("{error}")
        };
        assert_eq!((&*machine, key, value), ("ice-lake-sp", "tlb.l2.entries", 4_194_304));
        assert_eq!(for_whom, format!("1 core and {} schemes", most + 1));
        let bytes = one * (most as u64 + 1);
        assert_eq!((total.0, limit.0), (bytes - bytes % (1 << 20), 3 << 30));
    }
}
