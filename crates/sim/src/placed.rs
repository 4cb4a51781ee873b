//! Checks of a scheme on a machine and memory, and creation of the kernels that it runs on.

use perforate_config::{ConfigError, Table};
use perforate_os::{Kernel, KernelConfig, OsError, TableFormat};
use perforate_schemes::gap_tolerant::SuperpageRule;
use perforate_schemes::{Composition, Scheme};
use perforate_types::{ControlError, GapTolerance, PageSize};

use crate::background::Alarms;
use crate::{Machine, MemoryState, SimError};

/// Checks of machine and memory that depend on the scheme, and the kernels that the scheme runs on.
pub trait SchemeSetup {
    /// Checks that the machine's TLBs can hold the scheme's entries.
    ///
    /// # Errors
    /// [`SimError::NoLargeEntries`] for perforated pages without 2MB-grained entries in the
    /// second-level TLB. Holes are looked up after a hit of such an entry (P §IV.C), so without it,
    /// every access to a perforated page would need a page walk.
    fn check_machine(&self, machine: &Machine) -> Result<(), SimError>;

    /// Checks the mode of gap-tolerant superpages, and that the memory has room for their slices.
    ///
    /// # Errors
    /// An error for the option `superpages`, with the expected value.
    fn check_superpages(&self, memory: &MemoryState) -> Result<(), ConfigError>;

    /// Creates the kernel for this machine, with its memory. With `implicit_maps`, an access to an
    /// unmapped page maps the page, for traces without map events.
    fn kernel(
        &self,
        machine: &Machine,
        memory: &MemoryState,
        seed: u64,
        implicit_maps: bool,
    ) -> Result<Kernel, OsError>;

    /// Creates the kernel of a hypervisor whose guest has `guest_pages` pages of 4KB.
    fn host_kernel(
        &self,
        machine: &Machine,
        memory: &MemoryState,
        seed: u64,
        guest_pages: u64,
    ) -> Result<Kernel, OsError>;

    /// Returns the mode of gap-tolerant entries, as the `superpages` option or else the scheme
    /// determines it. `None` if the scheme has no such entries.
    fn mode(&self, memory: &MemoryState) -> Result<Option<GapTolerance>, ConfigError>;

    /// Returns the configuration of the kernel in this memory. The ideal scheme ignores options
    /// that prevent large pages.
    fn kernel_options(&self, memory: &MemoryState) -> KernelConfig;
}

impl SchemeSetup for Scheme {
    fn check_machine(&self, machine: &Machine) -> Result<(), SimError> {
        if self.shadow_directories && !machine.tlb.l2_2m.holds_pages() {
            let (scheme, machine) = (self.name.into(), machine.name.clone());
            return Err(SimError::NoLargeEntries { scheme, machine });
        }
        Ok(())
    }

    fn check_superpages(&self, memory: &MemoryState) -> Result<(), ConfigError> {
        let Some(mode) = self.mode(memory)? else { return Ok(()) };
        let policy = (self.policy)(&memory.policy_options())?;
        let frames = memory.address_bytes() / PageSize::Size4K.bytes();
        let checked =
            policy.rule::<SuperpageRule>().map_or(Ok(()), |rule| rule.check(mode, frames));
        checked.map_err(|error| ConfigError::new(error.to_string()).under("superpages"))
    }

    fn kernel(
        &self,
        machine: &Machine,
        memory: &MemoryState,
        seed: u64,
        implicit_maps: bool,
    ) -> Result<Kernel, OsError> {
        make_kernel(self, (machine, memory), seed, (implicit_maps, 0))
    }

    fn host_kernel(
        &self,
        machine: &Machine,
        memory: &MemoryState,
        seed: u64,
        guest_pages: u64,
    ) -> Result<Kernel, OsError> {
        let flat_pages = if self.flat_table { guest_pages } else { 0 };
        make_kernel(self, (machine, memory), seed, (false, flat_pages))
    }

    fn mode(&self, memory: &MemoryState) -> Result<Option<GapTolerance>, ConfigError> {
        let Some(mode) = self.gap_tolerance else { return Ok(None) };
        let policy = (self.policy)(&memory.policy_options())?;
        let wanted = policy.rule::<SuperpageRule>().map_or(Ok(mode), |rule| rule.mode(mode));
        let wrong = |error: ControlError| ConfigError::new(error.to_string()).under("superpages");
        wanted.map(Some).map_err(wrong)
    }

    fn kernel_options(&self, memory: &MemoryState) -> KernelConfig {
        let mut config = memory.kernel.clone();
        if self.ideal_memory {
            let ignored = KernelConfig::rows().iter().filter(|row| row.ideal_ignores);
            ignored.for_each(|row| (row.unset)(&mut config));
            config.snapshot = None;
        }
        config
    }
}

fn make_kernel(
    scheme: &Scheme,
    (machine, memory): (&Machine, &MemoryState),
    seed: u64,
    (implicit_maps, flat_pages): (bool, u64),
) -> Result<Kernel, OsError> {
    let config = KernelConfig {
        seed,
        tables: TableFormat {
            shadow_directories: scheme.shadow_directories,
            gap_tolerance: scheme.mode(memory)?,
            flat_pages,
            five_levels: machine.page_table_levels == 5,
            contiguity: machine.tlb.l2_coalescing.and_then(|it| it.form.contiguity()),
        },
        implicit_maps,
        ..scheme.kernel_options(memory)
    };
    Kernel::new(config, (scheme.policy)(&memory.policy_options())?)
}

/// Creates the timers of the host's kernel threads; no timers for a native scheme.
pub(crate) fn host_alarms(composition: &Composition, memory: &MemoryState) -> Alarms {
    let options = composition.host.map(|host| host.kernel_options(&memory.host()));
    Alarms::new(&options.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemoryOptions;

    fn memory(options: &[(&str, &str)]) -> MemoryState {
        let options = MemoryOptions::read(options.iter().copied().collect()).unwrap();
        options.resolve(&crate::MemorySnapshot::load).unwrap()
    }

    /// Tables have the format that scheme and machine need; the seed is the run's.
    #[test]
    fn tables_are_those_of_scheme_and_machine() {
        let memory = memory(&[("memory", "64M")]);
        let machine = |name: &str, levels: u8| {
            let mut machine = Machine::load(name).unwrap();
            machine.page_table_levels = levels;
            machine
        };
        for (scheme, name, levels) in [
            ("4k", "perforated-table2", 4),
            ("perforated", "perforated-table2", 5),
            ("gt-pde-2m", "gtsm-table4", 4),
            ("thp", "neoverse-n1", 4),
        ] {
            let (machine, found) = (machine(name, levels), Scheme::find(scheme).unwrap());
            let kernel = found.kernel(&machine, &memory, 42, false).unwrap();
            let tables = kernel.tables();
            assert_eq!(tables.shadow_directories, scheme == "perforated", "{scheme}");
            assert_eq!(tables.gap_tolerance.is_some(), scheme == "gt-pde-2m", "{scheme}");
            assert_eq!(tables.five_levels, levels == 5, "{scheme}");
            assert_eq!(tables.contiguity.is_some(), name == "neoverse-n1", "{scheme}");
            assert_eq!((kernel.config().seed, kernel.config().implicit_maps), (42, false));
            let implicit = found.kernel(&machine, &memory, 1, true).unwrap();
            assert!(implicit.config().implicit_maps);
            let host = found.host_kernel(&machine, &memory, 1, 1_000).unwrap();
            assert_eq!((host.tables().flat_pages, host.config().implicit_maps), (0, false));
        }
        let flat = Composition::find("4k+flat-4k").unwrap().host.unwrap();
        let host = flat.host_kernel(&machine("perforated-table2", 4), &memory, 1, 1_000).unwrap();
        assert_eq!(host.tables().flat_pages, 1_000);
    }

    #[test]
    fn the_ideal_scheme_ignores_what_prevents_large_pages() {
        let memory = memory(&[("memory", "64M"), ("faulty", "uniform=1%"), ("swap", "1G")]);
        let ideal = Scheme::find("ideal").unwrap().kernel_options(&memory);
        assert_eq!((&ideal.faulty, ideal.swap), (&None, memory.kernel.swap));
        assert_eq!(ideal.memory_bytes, 64 << 20);
        let thp = Scheme::find("thp").unwrap().kernel_options(&memory);
        assert_eq!(thp, memory.kernel);
    }

    /// Threads of a host wake by the host's options, and by none in a native run.
    #[test]
    fn alarms_are_the_hosts() {
        let options =
            [("host-khugepaged", "every=7k"), ("khugepaged", "every=5k"), ("memory", "64M")];
        let memory = memory(&options);
        let next = |scheme: &str| host_alarms(&Composition::find(scheme).unwrap(), &memory).next();
        assert_eq!((next("thp+thp"), next("thp")), (7_000, u64::MAX));
    }
}
