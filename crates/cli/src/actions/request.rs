//! Request for a run: its specification, and the machine to simulate.

use perforate_config::{ConfigError, OptionTexts};
use perforate_host::machine::Processor;
use perforate_sim::{Composition, Machine, ResolvedRun, RunSpec, scheme};
use perforate_trace::bundled;

use super::machines::HOST;
use super::virtual_machine::remark_on;
use super::{Failure, MachineSettings, load_machine, own_memory};

/// Callback for the progress of reading this machine's memory: the number of frames read, and the
/// total if known.
type ReadProgress<'a> = &'a dyn Fn(u64, Option<u64>);

/// Specification of a run, with overrides of keys of the machine file.
#[derive(Clone, Debug, PartialEq)]
pub struct RunRequest {
    /// Specification of the run.
    pub spec: RunSpec,
    settings: MachineSettings,
}

impl RunRequest {
    /// Reads the options of a run; `settings` are overrides of machine keys.
    ///
    /// # Errors
    /// An invalid value or an unknown option.
    pub fn new(given: OptionTexts, settings: MachineSettings) -> Result<Self, Failure> {
        Ok(Self { spec: RunSpec::read(given)?, settings })
    }

    /// Copies the request with another value of an option or machine key.
    ///
    /// # Errors
    /// An invalid value, or an unknown option. Of names without a dot, few are machine keys.
    pub fn with(&self, key: &str, value: &str) -> Result<Self, WithError> {
        let all = RunSpec::keys();
        let name = key.replace('_', "-");
        if all.iter().any(|known| known.name == name) {
            let mut given = self.spec.given().clone();
            given.replace(name, value);
            return Self::new(given, self.settings.clone()).map_err(WithError::Value);
        }
        if !key.contains('.') && !Machine::KEYS_OUTSIDE_SECTIONS.contains(&key) {
            let names = all.iter().map(|known| known.name.as_str());
            let names: Vec<&str> = names.chain(Machine::KEYS_OUTSIDE_SECTIONS).collect();
            return Err(WithError::Key(ConfigError::unknown_key(key, &names)));
        }
        let mut changed = self.clone();
        changed.settings.push(key, value);
        Ok(changed)
    }

    /// Loads the machine and applies the overrides.
    ///
    /// # Errors
    /// Unknown machine name, or an invalid override.
    pub fn machine(&self) -> Result<Machine, Failure> {
        load_machine(&self.spec.placement.machine, &self.settings)
    }

    /// Resolves the run of a workload (or of the default trace) under these schemes. If the simulated
    /// machine is this one, and this one is virtual, the run gets a remark that walks also read the
    /// host's page tables.
    ///
    /// # Errors
    /// Errors of [`Self::machine`] and [`RunSpec::resolve`], or an option without effect under
    /// these schemes.
    pub fn resolve(
        &self,
        workload: Option<&str>,
        schemes: Vec<Composition>,
        progress: ReadProgress<'_>,
    ) -> Result<ResolvedRun, Failure> {
        let mut machine = self.machine()?;
        if self.is_of_host() {
            machine.remarks.extend(remark_on(&Processor::own().hypervisor, &schemes));
        }
        let snapshots = |file: &str| own_memory(file, &mut |done, total| progress(done, total));
        let workload = bundled::resolve(workload.unwrap_or(bundled::DEFAULT));
        let run = self.spec.resolve(workload, machine, schemes, &snapshots)?;
        self.spec.memory.check_effects(&run.schemes, &run.memory)?;
        Ok(run)
    }

    /// True if the simulated machine is the one that the program runs on.
    pub fn is_of_host(&self) -> bool {
        self.spec.placement.machine == HOST
    }

    /// Returns the schemes to compare if the user names none. `is_varied` is true for options that are
    /// varied. If the simulated machine is this one, and this one is virtual, the schemes are pairs of guest
    /// and host.
    pub fn default_schemes(&self, is_varied: &dyn Fn(&str) -> bool) -> &'static str {
        let has = |option| self.spec.given().contains(option) || is_varied(option);
        let (has_layout, has_script) = (has("layout"), has("policy"));
        if self.is_of_host() && Processor::own().is_virtual() {
            scheme::default_pairs(has_layout, has_script)
        } else {
            scheme::default_schemes(has_layout, has_script)
        }
    }
}

/// Reason for which an option or machine key cannot be changed.
#[derive(Debug)]
pub enum WithError {
    /// Neither an option nor a machine key has this name.
    Key(ConfigError),
    /// The option exists but cannot have the value.
    Value(Failure),
}

#[cfg(test)]
mod tests {
    use perforate_config::Count;
    use perforate_sim::{MemorySnapshot, MemoryState};

    use super::*;

    fn request(options: &[(&str, &str)]) -> RunRequest {
        RunRequest::new(options.iter().copied().collect(), MachineSettings::default()).unwrap()
    }

    fn memory(options: &[(&str, &str)]) -> MemoryState {
        request(options).spec.memory.resolve(&MemorySnapshot::load).unwrap()
    }

    #[test]
    fn each_part_takes_its_own_options() {
        let options = [
            ("memory", "4G"),
            ("instructions", "2M"),
            ("functional", "yes"),
            ("host-memory", "8G"),
            ("machine", "ice-lake-sp"),
        ];
        let request = request(&options);
        assert_eq!(request.spec.placement.instructions, Some(Count::new(2_000_000)));
        assert!(request.spec.measuring.functional);
        let memory = memory(&options);
        let bytes = |memory: &MemoryState| memory.kernel.memory_bytes;
        assert_eq!((bytes(&memory), bytes(&memory.host())), (4 << 30, 8 << 30));
        assert!(memory.kernel.fragmentation.is_some(), "the default");
        assert_eq!(request.machine().unwrap().name, "ice-lake-sp");
    }

    #[test]
    fn fragmentation_is_said_or_the_default() {
        assert!(memory(&[]).kernel.fragmentation.is_some());
        assert!(memory(&[("fragmentation", "none")]).kernel.fragmentation.is_none());
        assert!(memory(&[("age", "weeks")]).kernel.fragmentation.is_none());
    }

    #[test]
    fn values_are_changed_by_option_or_key_of_the_machine() {
        let changed = request(&[("memory", "4G")]).with("memory", "8G").unwrap();
        assert_eq!(changed, request(&[("memory", "8G")]));
        let changed = changed.with("tlb.l2.entries", "3072").unwrap();
        assert_eq!(changed.machine().unwrap().tlb.l2.entries, 3072);
        let changed = changed.with("host_memory", "9G").unwrap();
        assert_eq!(changed.spec, request(&[("memory", "8G"), ("host-memory", "9G")]).spec);
        let changed = changed.with("page_table_levels", "5").unwrap();
        assert_eq!(changed.machine().unwrap().page_table_levels, 5);
        let Err(WithError::Key(problem)) = changed.with("memori", "1G") else { panic!() };
        assert_eq!(problem.to_string(), "there is no \"memori\"; did you mean memory?");
        assert!(matches!(changed.with("memory", "much"), Err(WithError::Value(_))));
    }

    #[test]
    fn in_a_virtual_machine_pairs_are_compared_by_default() {
        let of = |options| request(options).default_schemes(&|_| false);
        assert_eq!(of(&[]), "4k,thp,perforated,ideal");
        let own = of(&[("machine", "host")]);
        assert_eq!(own.contains('+'), Processor::own().is_virtual(), "{own}");
        let remarks = |options| {
            let schemes = Composition::list("4k,thp").unwrap();
            let run = request(options).resolve(Some("random"), schemes, &|_, _| ());
            run.map(|run| run.machine.remarks)
        };
        match remarks(&[("machine", "host")]) {
            Ok(remarks) => {
                let is_remarked = remarks.iter().any(|one| one.contains("4k, thp leave"));
                assert_eq!(is_remarked, Processor::own().is_virtual(), "{remarks:?}");
            }
            Err(error) => println!("skipped: {error}"),
        }
        assert!(remarks(&[]).unwrap().is_empty(), "another machine");
    }

    #[test]
    fn what_has_no_effect_is_refused() {
        let request = request(&[("perforation", "max-hole-share=50%")]);
        let resolve =
            |names| request.resolve(Some("random"), Composition::list(names).unwrap(), &|_, _| ());
        assert!(resolve("4k,perforated").is_ok());
        assert!(resolve("4k,thp").is_err());
    }
}
