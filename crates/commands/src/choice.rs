//! What was chosen of a run: options as texts by key, and what they make.

use perforate_config::{ConfigError, Given, Key, keys};
use perforate_host::machine::Processor;
use perforate_sim::{
    Comparison, Composition, Machine, MeasuringOptions, MemoryOptions, MemoryState,
    PlacementOptions, SimError, Workload, idle_option, scheme,
};
use perforate_trace::bundled;

use crate::machines::HOST;
use crate::virtual_machine::remark_on;
use crate::{Failure, MachineSettings, load_machine, own_memory};

/// Options of a run that were given, and other values for keys of its machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Choice {
    given: Given,
    settings: MachineSettings,
}

impl Choice {
    /// Fragmentation where none is named: the point that P §VII.B and §VII.C take for the real machine
    /// of §III.C.
    pub const DEFAULT_FRAGMENTATION: &str = "portion=50%,holes=25%,clustered";

    /// What was given.
    pub fn new(given: Given, settings: MachineSettings) -> Self {
        Self { given, settings }
    }

    /// All options of a run: its placement, its memory, how it is measured.
    pub fn keys() -> Vec<Key> {
        let placement = keys::<PlacementOptions>().into_iter();
        placement.chain(MemoryOptions::keys()).chain(keys::<MeasuringOptions>()).collect()
    }

    /// The same with this value of an option, or of a key of the machine.
    ///
    /// # Errors
    /// No option is called so and it has no point, as keys of machines have.
    pub fn with(&self, key: &str, value: &str) -> Result<Self, ConfigError> {
        let mut changed = self.clone();
        let all = Self::keys();
        let name = key.replace('_', "-");
        if all.iter().any(|known| known.name == name) {
            changed.given.replace(name, value);
        } else if key.contains('.') {
            changed.settings.push(key, value);
        } else {
            let names: Vec<&str> = all.iter().map(|known| known.name.as_str()).collect();
            return Err(ConfigError::unknown_key(key, &names));
        }
        Ok(changed)
    }

    /// Machine, seed, and which part of the workload.
    ///
    /// # Errors
    /// A wrong value.
    pub fn placement(&self) -> Result<PlacementOptions, SimError> {
        Ok(self.given.clone().grouped("host").take()?)
    }

    /// Warm-up, clock and checks.
    ///
    /// # Errors
    /// A wrong value.
    pub fn measuring(&self) -> Result<MeasuringOptions, SimError> {
        Ok(self.given.clone().grouped("host").take()?)
    }

    /// The machine.
    ///
    /// # Errors
    /// There is none of this name, or it cannot have the values set.
    pub fn machine(&self) -> Result<Machine, Failure> {
        load_machine(&self.placement()?.machine, &self.settings)
    }

    /// The machine, with a remark if these schemes are not those of this virtual machine.
    ///
    /// # Errors
    /// As [`Choice::machine`].
    pub fn machine_for(&self, schemes: &[Composition]) -> Result<Machine, Failure> {
        let mut machine = self.machine()?;
        if self.is_of_host()? {
            machine.remarks.extend(remark_on(&Processor::own().hypervisor, schemes));
        }
        Ok(machine)
    }

    /// True if the machine is the one that the program runs on.
    fn is_of_host(&self) -> Result<bool, SimError> {
        Ok(self.placement()?.machine == HOST)
    }

    /// The memory; `progress` hears how far this machine's is read, if that is it.
    ///
    /// # Errors
    /// Options that contradict each other, files that cannot be read.
    pub fn memory(&self, progress: &dyn Fn(u64, Option<u64>)) -> Result<MemoryState, SimError> {
        let mut given = self.given.clone();
        let says_its_state = ["fragmentation", "age", "memory-from"];
        if !says_its_state.iter().any(|key| given.contains(key)) {
            given.insert("fragmentation", Self::DEFAULT_FRAGMENTATION);
        }
        let mut given = given.grouped("host");
        given.take::<PlacementOptions>()?;
        given.take::<MeasuringOptions>()?;
        let snapshot = |file: &str| own_memory(file, &mut |done, total| progress(done, total));
        given.read::<MemoryOptions>()?.resolve_with(&snapshot)
    }

    /// Refuses options that can change nothing under these schemes on this memory.
    ///
    /// # Errors
    /// The first such option.
    pub fn check_effects(
        &self,
        schemes: &[Composition],
        memory: &MemoryState,
    ) -> Result<(), SimError> {
        let keys = MemoryOptions::keys().into_iter();
        let mut given = keys.filter(|key| self.given.contains(&key.name));
        let idle = given.find_map(|key| idle_option(&key.name, schemes, memory));
        idle.map_or(Ok(()), |error| Err(error.into()))
    }

    /// The comparison of schemes on the workload of this name, or on the default trace.
    ///
    /// # Errors
    /// As [`Choice::machine`] and [`Choice::memory`].
    pub fn comparison(
        &self,
        name: Option<&str>,
        schemes: Vec<Composition>,
        progress: &dyn Fn(u64, Option<u64>),
    ) -> Result<Comparison, Failure> {
        let (placement, measuring) = (self.placement()?, self.measuring()?);
        let machine = self.machine_for(&schemes)?;
        let memory = self.memory(progress)?;
        let options = (&placement, &measuring);
        Ok(Comparison::new(Self::workload(name), machine, schemes, memory, options))
    }

    /// The workload of this name; the default trace where none is named.
    pub fn workload(name: Option<&str>) -> String {
        bundled::resolve(name.unwrap_or(bundled::DEFAULT))
    }

    /// The part of the workload of this name that is asked for.
    ///
    /// # Errors
    /// A wrong value.
    pub fn part_of(&self, name: Option<&str>) -> Result<Workload, SimError> {
        Ok(Workload::new(Self::workload(name), &self.placement()?))
    }

    /// Whether an option is given.
    pub fn has(&self, option: &str) -> bool {
        self.given.contains(option)
    }

    /// The schemes that are compared where none are named, if these options are varied too: pairs of a
    /// guest's and a host's if the machine is this one, and this one is a virtual machine.
    pub fn default_schemes(&self, is_varied: &dyn Fn(&str) -> bool) -> &'static str {
        let has = |option| self.has(option) || is_varied(option);
        let (has_layout, has_script) = (has("layout"), has("policy"));
        let is_virtual = self.is_of_host().unwrap_or(false) && Processor::own().is_virtual();
        if is_virtual {
            scheme::default_pairs(has_layout, has_script)
        } else {
            scheme::default_schemes(has_layout, has_script)
        }
    }
}

#[cfg(test)]
mod tests {
    use perforate_config::Count;

    use super::*;

    fn choice(options: &[(&str, &str)]) -> Choice {
        Choice::new(options.iter().copied().collect(), MachineSettings::default())
    }

    #[test]
    fn each_part_takes_its_own_options() {
        let choice = choice(&[
            ("memory", "4G"),
            ("instructions", "2M"),
            ("functional", "yes"),
            ("host-memory", "8G"),
            ("machine", "ice-lake-sp"),
        ]);
        assert_eq!(choice.placement().unwrap().instructions, Some(Count::new(2_000_000)));
        assert!(choice.measuring().unwrap().functional);
        let memory = choice.memory(&|_, _| ()).unwrap();
        assert_eq!((memory.memory_bytes, memory.host().memory_bytes), (4 << 30, 8 << 30));
        assert!(memory.fragmentation.is_some(), "as where nothing is said");
        assert_eq!(choice.machine().unwrap().name, "ice-lake-sp");
    }

    #[test]
    fn fragmentation_is_said_or_the_default() {
        let of = |options| choice(options).memory(&|_, _| ()).unwrap().fragmentation.is_some();
        assert!(of(&[]));
        assert!(!of(&[("fragmentation", "none")]));
    }

    #[test]
    fn values_are_changed_by_option_or_key_of_the_machine() {
        let changed = choice(&[("memory", "4G")]).with("memory", "8G").unwrap();
        assert_eq!(changed, choice(&[("memory", "8G")]));
        let changed = changed.with("tlb.l2.entries", "3072").unwrap();
        assert_eq!(changed.machine().unwrap().tlb.l2.entries, 3072);
        assert_eq!(changed.with("host_memory", "9G").unwrap().given.clone(), {
            let mut given: Given = [("memory", "8G")].into_iter().collect();
            given.insert("host-memory", "9G");
            given
        });
        let problem = changed.with("memori", "1G").unwrap_err().to_string();
        assert_eq!(problem, "there is no \"memori\"; did you mean memory?");
    }

    #[test]
    fn in_a_virtual_machine_pairs_are_compared_by_default() {
        let of = |options| choice(options).default_schemes(&|_| false);
        assert_eq!(of(&[]), "4k,thp,perforated,ideal");
        let own = of(&[("machine", "host")]);
        assert_eq!(own.contains('+'), Processor::own().is_virtual(), "{own}");
        let schemes = Composition::list("4k,thp").unwrap();
        match choice(&[("machine", "host")]).machine_for(&schemes) {
            Ok(machine) => {
                let is_remarked = machine.remarks.iter().any(|one| one.contains("4k, thp leave"));
                assert_eq!(is_remarked, Processor::own().is_virtual(), "{:?}", machine.remarks);
            }
            Err(error) => println!("skipped: {error}"),
        }
        let other = choice(&[]).machine_for(&schemes).unwrap();
        assert!(other.remarks.is_empty(), "another machine: {:?}", other.remarks);
    }

    #[test]
    fn what_has_no_effect_is_refused() {
        let choice = choice(&[("perforation", "max-hole-share=50%")]);
        let memory = choice.memory(&|_, _| ()).unwrap();
        let schemes = |names| Composition::list(names).unwrap();
        assert!(choice.check_effects(&schemes("4k,perforated"), &memory).is_ok());
        assert!(choice.check_effects(&schemes("4k,thp"), &memory).is_err());
    }
}
