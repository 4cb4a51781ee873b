//! Simulated machines, from TOML files: the machines of the papers, and current processors.

mod document;
mod file;
mod host_memory;
mod plausible;

use std::collections::BTreeMap;
use std::sync::OnceLock;

use perforate_config::{nearest, plain};
use perforate_mmu::{
    MmuConfig, NestedEntries, TlbConfig, TlbGeometry, VirtualizationConfig, WalkCacheConfig,
};
use perforate_schemes::segment::EscapeFilterConfig;
use perforate_timing::{
    BranchPredictorConfig, CachesConfig, CoreConfig, DramConfig, TimingConfig, WalkerConfig,
};
use serde::{Deserialize, Serialize};

pub use file::MachineFile;
pub use plausible::{Alternative, Plausible};

use crate::{Composition, EnergyCosts, MemoryState, OperatingSystemCosts, SimError};

/// Bundled machines, as pairs of name and text of the file.
const BUNDLED: &[(&str, &str)] = &[
    ("perforated-table2", include_str!("../../../machines/perforated-table2.toml")),
    ("ice-lake-sp", include_str!("../../../machines/ice-lake-sp.toml")),
    ("sandy-bridge-table6", include_str!("../../../machines/sandy-bridge-table6.toml")),
    ("gtsm-table4", include_str!("../../../machines/gtsm-table4.toml")),
    ("zen4-genoa", include_str!("../../../machines/zen4-genoa.toml")),
    ("haswell-ex", include_str!("../../../machines/haswell-ex.toml")),
    ("skylake-sp-4114", include_str!("../../../machines/skylake-sp-4114.toml")),
    ("cascade-lake-6252", include_str!("../../../machines/cascade-lake-6252.toml")),
    ("cascade-lake-8259cl", include_str!("../../../machines/cascade-lake-8259cl.toml")),
    ("tiger-lake", include_str!("../../../machines/tiger-lake.toml")),
    ("sapphire-rapids", include_str!("../../../machines/sapphire-rapids.toml")),
    ("zen2-rome", include_str!("../../../machines/zen2-rome.toml")),
    ("zen3-milan", include_str!("../../../machines/zen3-milan.toml")),
    ("zen5-turin", include_str!("../../../machines/zen5-turin.toml")),
    ("neoverse-n1", include_str!("../../../machines/neoverse-n1.toml")),
    ("neoverse-v1", include_str!("../../../machines/neoverse-v1.toml")),
    ("neoverse-v2", include_str!("../../../machines/neoverse-v2.toml")),
    ("cortex-a76", include_str!("../../../machines/cortex-a76.toml")),
    ("xuantie-c910", include_str!("../../../machines/xuantie-c910.toml")),
];

/// A value of each bundled machine, once it is known.
type OfBundled<T> = [OnceLock<T>; BUNDLED.len()];

/// Returns what `make` makes, from `known` if the machine is bundled and it was made before: storms and
/// experiments load the same machines thousands of times.
fn once<T: Clone>(
    known: &OfBundled<T>,
    name: &str,
    make: impl FnOnce() -> Result<T, SimError>,
) -> Result<T, SimError> {
    let Some(index) = BUNDLED.iter().position(|(bundled, _)| *bundled == name) else {
        return make();
    };
    match known[index].get() {
        Some(made) => Ok(made.clone()),
        None => make().map(|made| known[index].get_or_init(|| made).clone()),
    }
}

/// All hardware parameters of a simulated computer, and costs of its operating system. Corresponds
/// to a machine file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// Name of the machine, as in the file.
    pub name: String,
    /// Summary of the machine in one line.
    pub summary: String,
    /// Processors that this machine describes, by CPUID or, for Arm, `/proc/cpuinfo`; empty for
    /// hypothetical machines.
    #[serde(default, skip_serializing)]
    pub processors: Vec<ProcessorModels>,
    /// Number of levels of page tables: 4, or 5 for addresses of 57 bits (LA57), in guest and host.
    #[serde(default = "four_levels", skip_serializing_if = "are_four_levels")]
    pub page_table_levels: u8,
    /// Sizes and associativities of the TLBs.
    pub tlb: TlbConfig,
    /// Sizes of the page-walk caches.
    pub walk_cache: WalkCacheConfig,
    /// Page walkers and translation latencies.
    pub walker: WalkerConfig,
    /// Widths, queues and clock frequency of the core.
    pub core: CoreConfig,
    /// Branch predictor and cost of a misprediction.
    pub branch_predictor: BranchPredictorConfig,
    /// Instruction, data and walker caches.
    pub cache: CachesConfig,
    /// Timing of main memory.
    pub dram: DramConfig,
    /// Hardware support for virtualization. By default, gPA→hPA entries are in the second-level
    /// TLB, and escape filters are as in D §IX.C.
    #[serde(default)]
    pub virtualization: Virtualization,
    /// Energy of accesses to translation structures. By default, that of the machine
    /// `perforated-table2`.
    #[serde(default)]
    pub energy: EnergyCosts,
    /// Durations of the operating system's actions. By default, those of the machine
    /// `perforated-table2`.
    #[serde(default)]
    pub operating_system: OperatingSystemCosts,
    /// Parameters for which the sources give no value, with plausible alternatives.
    #[serde(default, skip_serializing)]
    pub plausible: Vec<Plausible>,
    /// Values that replace values of the file, by key, as the user wrote them.
    #[serde(default, skip_deserializing, skip_serializing_if = "BTreeMap::is_empty")]
    pub set: BTreeMap<String, String>,
    /// Notes on the machine, which each result contains.
    #[serde(skip)]
    pub remarks: Vec<String>,
}

fn four_levels() -> u8 {
    4
}

fn are_four_levels(levels: &u8) -> bool {
    *levels == 4
}

/// Hardware support for virtualization: the `[virtualization]` section of a machine file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Virtualization {
    /// Nested TLB, for gPA→hPA entries. If it is absent, they share the second-level TLB. With 0
    /// entries, no TLB caches gPA→hPA translations.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nested_tlb: Option<TlbGeometry>,
    /// Page-walk caches for the host's tables. If absent, they have the sizes of
    /// [`Machine::walk_cache`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_walk_cache: Option<WalkCacheConfig>,
    /// True if the second-level TLB holds one entry for a guest's large page that 4KB pages of the
    /// host back (P §V). If false, it holds one entry per 4KB page, as in x86-64 processors.
    pub intermediate_entries: bool,
    /// Guest-physical pages whose gPA→hPA translations a TLB caches: `all`, or `tables` (those of
    /// the guest's tables, and of data under intermediate entries).
    pub nested_entries: NestedEntries,
    /// True if a TLB entry with holes also contains the guest frame of the 2MB page. Otherwise the
    /// walker reads the guest's page-directory entry again to find the guest's bitmap and holes. P
    /// §V does not say what the hardware does.
    pub guest_blocks_in_entries: bool,
    /// Number of bits in the escape filter of a direct segment.
    pub escape_filter_bits: usize,
    /// Number of hash functions of the escape filter. Each function has a separate part of the
    /// bits.
    pub escape_filter_functions: usize,
}

impl Default for Virtualization {
    fn default() -> Self {
        let VirtualizationConfig {
            nested_tlb,
            host_walk_cache,
            intermediate_entries,
            nested_entries,
            guest_blocks_in_entries,
        } = VirtualizationConfig::default();
        let EscapeFilterConfig { bits, functions } = EscapeFilterConfig::default();
        Self {
            nested_tlb,
            host_walk_cache,
            intermediate_entries,
            nested_entries,
            guest_blocks_in_entries,
            escape_filter_bits: bits,
            escape_filter_functions: functions,
        }
    }
}

impl Virtualization {
    /// Returns the geometry of the escape filters.
    pub(crate) fn escape_filter(&self) -> EscapeFilterConfig {
        let (bits, functions) = (self.escape_filter_bits, self.escape_filter_functions);
        EscapeFilterConfig { bits, functions }
    }
}

/// Processors of one family: by CPUID, or for Arm by the numbers in Linux' `/proc/cpuinfo`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProcessorModels {
    /// Vendor, spelled as in CPUID (`GenuineIntel`); for Arm, `CPU implementer` (`0x41`).
    pub vendor: String,
    /// CPUID family, including the extended family; for Arm, `CPU architecture` (8).
    pub family: u32,
    /// CPUID models, including the extended model; for Arm, values of `CPU part`.
    pub models: Vec<u32>,
    /// CPUID steppings; all if empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steppings: Vec<u32>,
}

impl Machine {
    /// Keys of machine files that can be set and stand in no section.
    pub const KEYS_OUTSIDE_SECTIONS: [&str; 1] = ["page_table_levels"];

    /// Value by which [`MachineFile::set`] removes a key.
    pub const ABSENT: &'static str = "absent";

    /// Name of the default machine.
    pub const DEFAULT: &'static str = "perforated-table2";

    /// Returns all bundled machines, beginning with the default machine.
    ///
    /// # Panics
    /// If a bundled file is invalid; a test excludes this.
    pub fn bundled() -> Vec<Self> {
        BUNDLED
            .iter()
            .map(|(name, text)| Self::parse(name, text).expect("bundled machine files are right"))
            .collect()
    }

    /// True if `name` is the name of a bundled machine, false if it is a path.
    pub fn is_bundled(name: &str) -> bool {
        BUNDLED.iter().any(|(bundled, _)| *bundled == name)
    }

    /// Loads the bundled machine of this name, or the machine file at this path.
    ///
    /// # Errors
    /// There is no such machine, the file is unreadable, a key is unknown, or the hardware cannot
    /// exist.
    pub fn load(name: &str) -> Result<Self, SimError> {
        static LOADED: OfBundled<Machine> = [const { OnceLock::new() }; BUNDLED.len()];
        once(&LOADED, name, || {
            let file = MachineFile::load(name)?;
            let machine = file.machine()?;
            // A test checks those of bundled machines.
            if !Self::is_bundled(name) {
                machine.alternatives(name, &file)?;
            }
            Ok(machine)
        })
    }

    /// Parses the text of a machine file. Errors refer to the file as `name`.
    ///
    /// # Errors
    /// Unknown keys, or an impossible geometry.
    pub fn from_text(name: &str, text: &str) -> Result<Self, SimError> {
        let file = MachineFile::from_text(name, text)?;
        let machine = file.machine()?;
        machine.alternatives(name, &file)?;
        Ok(machine)
    }

    /// Returns the text of the machine file that [`Machine::load`] reads, merged with its base.
    ///
    /// # Errors
    /// There is no such machine, or the file is unreadable.
    pub fn text(name: &str) -> Result<String, SimError> {
        Ok(MachineFile::load(name)?.text())
    }

    /// Loads a machine with other values for some keys. `values` are pairs such as `walker.walkers`
    /// and `2`.
    ///
    /// # Errors
    /// As [`Machine::load`], and unknown keys.
    pub fn load_with<'a>(
        name: &str,
        values: impl Iterator<Item = (&'a str, &'a str)>,
    ) -> Result<Self, SimError> {
        let mut file = MachineFile::load(name)?;
        for (key, value) in values {
            file.set(key, value)?;
        }
        file.machine()
    }

    /// Finds the bundled machine that describes the processor with these numbers, as in
    /// [`ProcessorModels`]; `None` if there is none.
    pub fn of_processor(vendor: &str, family: u32, model: u32, stepping: u32) -> Option<Self> {
        Self::bundled().into_iter().find(|machine| machine.is_of(vendor, family, model, stepping))
    }

    /// True if the machine describes the processor with these numbers, as in [`ProcessorModels`].
    pub fn is_of(&self, vendor: &str, family: u32, model: u32, stepping: u32) -> bool {
        self.processors.iter().any(|known| {
            let is_of_model = known.family == family && known.models.contains(&model);
            let is_of_stepping = known.steppings.is_empty() || known.steppings.contains(&stepping);
            known.vendor == vendor && is_of_model && is_of_stepping
        })
    }

    fn parse(name: &str, text: &str) -> Result<Self, SimError> {
        MachineFile::from_text(name, text)?.machine()
    }

    /// Checks each value, and their combinations. The error describes the first problem.
    fn check(&self) -> Result<(), String> {
        if !matches!(self.page_table_levels, 4 | 5) {
            return Err(format!(
                "page_table_levels: {} levels; 4 or 5 are possible",
                self.page_table_levels
            ));
        }
        if self.name.chars().chain(self.summary.chars()).any(char::is_control) {
            return Err("name and summary must be plain text in one line".into());
        }
        self.mmu().validate().map_err(|error| error.to_string())?;
        self.virtualization.escape_filter().validate().map_err(|error| error.to_string())?;
        self.timing().validate().map_err(|error| error.to_string())?;
        self.energy.validate()?;
        self.operating_system.validate()
    }

    /// Returns the configuration of the memory-management unit.
    pub fn mmu(&self) -> MmuConfig {
        let own = self.virtualization;
        let virtualization = VirtualizationConfig {
            nested_tlb: own.nested_tlb,
            host_walk_cache: own.host_walk_cache,
            intermediate_entries: own.intermediate_entries,
            nested_entries: own.nested_entries,
            guest_blocks_in_entries: own.guest_blocks_in_entries,
        };
        MmuConfig { tlb: self.tlb, walk_cache: self.walk_cache, virtualization }
    }

    /// Checks that cache tags of the timing model distinguish all addresses of the memory. Tags
    /// have 32 bits, and the largest value marks an empty way.
    ///
    /// # Errors
    /// [`SimError::MemoryBeyondCaches`] if the memory is too large.
    pub(crate) fn check_memory(
        &self,
        composition: &Composition,
        memory: &MemoryState,
    ) -> Result<(), SimError> {
        // Caches hold the host-physical addresses of a guest's memory.
        let memory_bytes = match composition.host {
            Some(_) => memory.host().address_bytes(),
            None => memory.address_bytes(),
        };
        let CachesConfig { l1i, l1d, l2, llc, walker } = &self.cache;
        let limits = [Some(l1i), Some(l1d), Some(l2), llc.as_ref(), walker.as_ref()];
        let limits = limits.into_iter().flatten();
        let limit =
            limits.map(|cache| cache.size_bytes / u64::from(cache.ways) * u64::from(u32::MAX));
        match limit.min() {
            Some(limit_bytes) if memory_bytes > limit_bytes => Err(SimError::MemoryBeyondCaches {
                memory_bytes,
                machine: self.name.clone(),
                limit_bytes,
            }),
            _ => Ok(()),
        }
    }

    /// Returns the configuration of the timing model.
    pub fn timing(&self) -> TimingConfig {
        TimingConfig {
            core: self.core.clone(),
            branch_predictor: self.branch_predictor.clone(),
            cache: self.cache.clone(),
            dram: self.dram.clone(),
            walker: self.walker.clone(),
        }
    }
}

/// Formats a TOML error in one line, with its place in `text`. For an unknown key, the error
/// suggests the nearest known key.
pub fn one_line(error: &toml::de::Error, text: &str) -> String {
    let message = error.message().replace('\n', " ");
    let message = with_nearest(&message).unwrap_or_else(|| plain(&message));
    let Some(span) = error.span() else { return message };
    let line = text[..span.start.min(text.len())].matches('\n').count() + 1;
    format!("line {line}: {message}")
}

/// Rewrites serde's message on an unknown key: suggests the nearest known key instead of listing
/// all. `None` for other messages.
fn with_nearest(message: &str) -> Option<String> {
    let what = "unknown field";
    let (name, known) = message.strip_prefix(what)?.strip_prefix(" `")?.split_once('`')?;
    let known: Vec<&str> = known.split('`').skip(1).step_by(2).collect();
    let near = nearest(name, &known)?;
    Some(format!("{what} `{name}`; did you mean `{near}`?"))
}

#[cfg(test)]
mod tests {
    use perforate_mmu::L2Part;
    use perforate_timing::WalkerAttachment;
    use perforate_types::PageSize;

    use super::*;
    use crate::placed::SchemeSetup;

    #[test]
    fn bundled_machines_carry_their_own_names() {
        for (machine, (name, _)) in Machine::bundled().iter().zip(BUNDLED) {
            assert_eq!(machine.name, *name);
            assert!(!machine.summary.is_empty());
        }
        assert!(BUNDLED.iter().any(|(name, _)| *name == Machine::DEFAULT));
    }

    #[test]
    fn table_ii_of_paper_p() {
        let machine = Machine::load("perforated-table2").unwrap();
        assert_eq!((machine.tlb.l2.entries, machine.tlb.l2.ways), (1536, 12));
        assert_eq!((machine.tlb.l1_data_4k.entries, machine.tlb.l1_data_4k.ways), (64, 4));
        assert_eq!(machine.tlb.l1_data_2m.map(|geometry| geometry.entries), Some(32));
        assert_eq!(machine.walker.l2_tlb_cycles, 9);
        assert_eq!(machine.walk_cache.level3_entries, 4);
        assert_eq!(machine.walk_cache.level2_entries, 24);
        assert_eq!(machine.cache.l1d.size_bytes, 32 << 10);
        assert_eq!(machine.cache.l1d.latency_cycles, 4);
        assert_eq!(machine.cache.l2.size_bytes, 2 << 20);
        assert_eq!(machine.cache.l2.latency_cycles, 20);
        assert_eq!(machine.dram.channels, 4);
    }

    #[test]
    fn table_vi_of_paper_d() {
        let machine = Machine::load("sandy-bridge-table6").unwrap();
        let geometry = |entries, ways| TlbGeometry { entries, ways };
        assert_eq!(machine.tlb.l1_data_4k, geometry(64, 4));
        assert_eq!(machine.tlb.l1_data_2m, Some(geometry(32, 4)));
        assert_eq!(machine.tlb.l1_data_1g, Some(geometry(4, 4)));
        assert_eq!(machine.tlb.l2, geometry(512, 4));
        assert_eq!((machine.tlb.l2_2m, machine.tlb.l2_1g), (L2Part::NONE, L2Part::NONE));
        assert_eq!(machine.core.frequency_ghz, 2.2);
        // DDR3-1066: a burst of 8 takes 4 clocks of 533⅓ MHz.
        assert_eq!(machine.dram.burst_ns, 7.5);
        assert_eq!(machine.walker.segment_check_cycles, 1);
    }

    #[test]
    fn table_4_of_paper_g() {
        let machine = Machine::load("gtsm-table4").unwrap();
        let geometry = |entries, ways| TlbGeometry { entries, ways };
        assert_eq!(machine.core.frequency_ghz, 3.0);
        assert_eq!(
            (machine.cache.l1i.size_bytes, machine.cache.l1d.size_bytes),
            (32 << 10, 32 << 10)
        );
        let l2 = &machine.cache.l2;
        assert_eq!((l2.size_bytes, l2.ways, l2.latency_cycles), (256 << 10, 8, 8));
        let llc = machine.cache.llc.as_ref().unwrap();
        assert_eq!((llc.size_bytes, llc.ways, llc.latency_cycles), (2 << 20, 32, 20));
        assert_eq!(machine.tlb.l1_data_4k, geometry(64, 4));
        assert_eq!(machine.tlb.l1_data_2m, Some(geometry(32, 4)));
        assert_eq!(machine.tlb.l1_instruction_4k, geometry(64, 4));
        assert_eq!((machine.tlb.l2, machine.tlb.l2_2m), (geometry(512, 4), L2Part::ALL));
        let caches = machine.walk_cache;
        let entries = (caches.level2_entries, caches.level3_entries, caches.level4_entries);
        assert_eq!(entries, (32, 32, 2));
        let ways = [caches.level2_ways, caches.level3_ways, caches.level4_ways];
        assert_eq!(ways, [Some(4), Some(4), None]);
        assert_eq!((machine.walker.l2_tlb_cycles, machine.walker.read_overhead_cycles), (7, 5));
        assert_eq!(machine.walker.attach, WalkerAttachment::L2);
        // 50 ns are 150 cycles, in any state of the row; the timing model rounds each part.
        let cycles = |ns: f64| (ns * machine.core.frequency_ghz).round();
        let dram = &machine.dram;
        let banks = [dram.precharge_ns, dram.activate_ns, dram.column_ns, dram.row_open_ns];
        assert_eq!(banks, [0.0; 4]);
        assert_eq!(cycles(dram.controller_ns) + cycles(dram.burst_ns), 150.0);
    }

    #[test]
    fn machines_are_found_by_their_processor() {
        for (vendor, family, model, stepping, name) in [
            ("AuthenticAMD", 25, 17, 1, Some("zen4-genoa")),
            ("GenuineIntel", 6, 106, 6, Some("ice-lake-sp")),
            ("GenuineIntel", 6, 45, 7, Some("sandy-bridge-table6")),
            ("GenuineIntel", 6, 63, 4, Some("haswell-ex")),
            ("GenuineIntel", 6, 85, 4, Some("skylake-sp-4114")),
            ("GenuineIntel", 6, 85, 7, Some("cascade-lake-6252")),
            ("GenuineIntel", 6, 140, 1, Some("tiger-lake")),
            ("GenuineIntel", 6, 143, 8, Some("sapphire-rapids")),
            ("GenuineIntel", 6, 63, 2, None),  // Haswell-EP
            ("GenuineIntel", 6, 85, 11, None), // Cooper Lake
            ("GenuineIntel", 25, 17, 1, None),
            ("GenuineIntel", 15, 106, 6, None), // another family
            ("AuthenticAMD", 24, 17, 1, None),
            ("AuthenticAMD", 23, 49, 0, Some("zen2-rome")),
            ("AuthenticAMD", 25, 1, 1, Some("zen3-milan")),
            ("AuthenticAMD", 26, 2, 1, Some("zen5-turin")),
            ("AuthenticAMD", 25, 33, 0, None), // Ryzen 5000
            ("0x41", 8, 0xd0b, 0, Some("cortex-a76")),
            ("0x41", 8, 0xd0c, 0, Some("neoverse-n1")),
            ("0x41", 8, 0xd40, 0, Some("neoverse-v1")),
            ("0x41", 8, 0xd4f, 0, Some("neoverse-v2")),
            ("0x48", 8, 0xd0c, 0, None), // another implementer
        ] {
            let found = Machine::of_processor(vendor, family, model, stepping);
            let found = found.map(|machine| machine.name);
            assert_eq!(found.as_deref(), name, "{vendor} {family} {model} {stepping}");
        }
    }

    /// CPUID leaves 2 and 18H state these TLBs. Sapphire Rapids has more entries than its leaf 18H
    /// states.
    #[test]
    fn second_level_tlbs_of_intel_processors() {
        for (name, entries, ways, of_page_sizes) in [
            ("haswell-ex", 1024, 8, [1024, 1024, 0]),
            ("skylake-sp-4114", 1536, 12, [1536, 1536, 16]),
            ("cascade-lake-6252", 1536, 12, [1536, 1536, 16]),
            ("tiger-lake", 2048, 16, [2048, 1024, 1024]),
            ("sapphire-rapids", 2048, 16, [2048, 1024, 1024]),
        ] {
            let tlb = Machine::load(name).unwrap().tlb;
            assert_eq!(tlb.l2, TlbGeometry { entries, ways }, "{name}");
            assert_eq!(PageSize::ALL.map(|size| tlb.l2_entries(size)), of_page_sizes, "{name}");
        }
    }

    /// The two processors have the same CPUID numbers.
    #[test]
    fn a_bundled_machine_can_be_based_on_another() {
        let base = Machine::load("cascade-lake-6252").unwrap();
        let machine = Machine::load("cascade-lake-8259cl").unwrap();
        assert_eq!((machine.core.frequency_ghz, base.core.frequency_ghz), (2.5, 2.1));
        assert_eq!((machine.tlb, machine.cache), (base.tlb, base.cache));
        assert_eq!(machine.processors, []);
    }

    /// Each processor has one machine file; otherwise the order of the list would choose.
    #[test]
    fn no_processor_has_two_machines() {
        let machines = Machine::bundled();
        for known in machines.iter().flat_map(|machine| &machine.processors) {
            let steppings = if known.steppings.is_empty() { &[0][..] } else { &known.steppings };
            for (&model, &stepping) in
                known.models.iter().flat_map(|model| steppings.iter().map(move |one| (model, one)))
            {
                let of = |machine: &&Machine| {
                    machine.is_of(&known.vendor, known.family, model, stepping)
                };
                assert_eq!(machines.iter().filter(of).count(), 1, "{known:?} {model} {stepping}");
            }
        }
    }

    /// The second level holds 1GB pages in Arm's cores and in Zen 5, and Arm's first level none; a
    /// C910 holds 2MB pages as 4KB in its first level, and has no walk caches for its three levels.
    #[test]
    fn tlbs_of_processors_without_a_paper() {
        let tlb = |name: &str| Machine::load(name).unwrap().tlb;
        let geometry = |entries, ways| TlbGeometry { entries, ways };
        let zen5 = tlb("zen5-turin");
        assert_eq!((zen5.l2, zen5.l2_1g), (geometry(4096, 16), L2Part::Own(geometry(1024, 4))));
        assert_eq!(
            (zen5.l1_data_4k, tlb("zen2-rome").l1_data_4k),
            (geometry(96, 96), geometry(64, 64))
        );
        for (name, l1, l2) in [
            ("neoverse-n1", 48, geometry(1280, 5)),
            ("cortex-a76", 48, geometry(1280, 5)),
            ("neoverse-v1", 40, geometry(2048, 8)),
            ("neoverse-v2", 48, geometry(2048, 8)),
        ] {
            let tlb = tlb(name);
            assert_eq!((tlb.l1_data_4k, tlb.l2, tlb.l2_1g), (geometry(l1, l1), l2, L2Part::ALL));
            assert_eq!((tlb.l1_data_2m, tlb.l1_data_1g), (Some(geometry(l1, l1)), None), "{name}");
        }
        let c910 = Machine::load("xuantie-c910").unwrap();
        assert_eq!((c910.tlb.l1_data_2m, c910.tlb.l1_data_1g), (None, Some(geometry(1, 1))));
        assert_eq!((c910.walk_cache.level3_entries, c910.walk_cache.level2_entries), (0, 0));
    }

    /// Perforated pages need 2MB-grained entries in the second-level TLB.
    #[test]
    fn schemes_that_a_tlb_for_small_entries_cannot_hold() {
        let machine = Machine::load("sandy-bridge-table6").unwrap();
        for scheme in crate::scheme::all() {
            let refused = scheme.check_machine(&machine).map_err(|error| error.to_string()).err();
            assert_eq!(refused.is_some(), scheme.shadow_directories, "{}", scheme.name);
            if let Some(message) = refused {
                assert!(
                    message.contains(scheme.name) && message.contains("tlb.l2_2m"),
                    "{message}"
                );
            }
        }
        let able = Machine::load(Machine::DEFAULT).unwrap();
        assert!(crate::scheme::all().all(|scheme| scheme.check_machine(&able).is_ok()));
    }

    /// A file without the section has the costs of the default machine.
    #[test]
    fn operating_system_costs_have_a_default() {
        let (name, text) = BUNDLED[0];
        assert_eq!(name, Machine::DEFAULT);
        let start = text.find("[operating_system]").unwrap();
        let without = Machine::parse("m.toml", &text[..start]).unwrap();
        let whole = Machine::parse(name, text).unwrap();
        assert_eq!(without, Machine { plausible: Vec::new(), ..whole });
        let partly = format!("{}[operating_system]\nmap_ns = 1.0", &text[..start]);
        let message = Machine::parse("m.toml", &partly).unwrap_err().to_string();
        assert!(message.contains("missing field `fault_4k_ns`"), "{message}");
        let unknown = format!("{text}\nsleep_ns = 1.0");
        let message = Machine::parse("m.toml", &unknown).unwrap_err().to_string();
        assert!(message.contains("line") && message.contains("sleep_ns"), "{message}");
        let negative = text.replace("\nmap_ns = 25.0", "\nmap_ns = -25.0");
        let message = Machine::parse("m.toml", &negative).unwrap_err().to_string();
        assert!(message.contains("operating_system.map_ns is -25"), "{message}");
    }

    #[test]
    fn energies_have_a_default() {
        let (name, text) = BUNDLED[0];
        let (start, end) = (text.find("[energy]").unwrap(), text.find("static_mw").unwrap());
        let end = end + text[end..].find('\n').unwrap();
        let without = [&text[..start], &text[end..]].concat();
        let machine = Machine::parse("m.toml", &without).unwrap();
        assert_eq!(machine, Machine::parse(name, text).unwrap());
        let negative = text.replace("\nl2_tlb_pj = 14.0", "\nl2_tlb_pj = -14.0");
        let message = Machine::parse("m.toml", &negative).unwrap_err().to_string();
        assert!(message.contains("energy.l2_tlb_pj is -14"), "{message}");
    }

    #[test]
    fn every_cost_is_a_number_from_0_on() {
        let machine = MachineFile::load(Machine::DEFAULT).unwrap();
        let file: toml_edit::DocumentMut = machine.text().parse().unwrap();
        let mut costs = 0;
        for section in ["operating_system", "energy"] {
            let table = file[section].as_table_like().unwrap();
            for leaf in document::leaves(table).iter().filter(|leaf| leaf.value.is_float()) {
                let key = format!("{section}.{}", leaf.key);
                let with = |value| {
                    let mut changed = machine.clone();
                    let machine = changed.set(&key, value).and_then(|()| changed.machine());
                    machine.map_err(|error| error.to_string())
                };
                assert!(with("0.0").is_ok(), "{key}");
                for wrong in ["-0.5", "1e300"] {
                    assert!(with(wrong).unwrap_err().contains(&format!("{key} is ")), "{key}");
                }
                costs += 1;
            }
        }
        assert!(costs > 35, "{costs}");
    }

    #[test]
    fn escape_filters_have_the_bits_and_functions_of_the_file() {
        let values = [
            ("virtualization.escape_filter_bits", "512"),
            ("virtualization.escape_filter_functions", "2"),
        ];
        let machine = Machine::load_with(Machine::DEFAULT, values.into_iter()).unwrap();
        let filter = machine.virtualization.escape_filter();
        assert_eq!((filter.bits, filter.functions), (512, 2));
    }

    #[test]
    fn values_of_a_machine_can_be_others() {
        let values = [("tlb.l2", "{ entries = 16, ways = 4 }"), ("walker.walkers", "3")];
        let machine = Machine::load_with("gtsm-table4", values.into_iter()).unwrap();
        assert_eq!(machine.tlb.l2, TlbGeometry { entries: 16, ways: 4 });
        assert_eq!(machine.walker.walkers, 3);
        let same = Machine::load_with("gtsm-table4", std::iter::empty()).unwrap();
        assert_eq!(same, Machine::load("gtsm-table4").unwrap());
        for (key, value, problem) in [
            ("walker.slits", "3", "slits"),
            ("walker.walkers.more", "3", "not a key of a table"),
            ("tlb.l2.more.ways", "3", "more.ways is not a key of a table"),
            ("tlb.l2", "{ entries = 17, ways = 4 }", "17"),
            ("walk_cache.level2_ways", "5", "32 entries in 5 ways"),
            ("walker.walkers", "many", "expected a whole number"),
            ("page_table_levels", "3", "3 levels; 4 or 5 are possible"),
        ] {
            let error = Machine::load_with("gtsm-table4", [(key, value)].into_iter()).unwrap_err();
            assert!(error.to_string().contains(problem), "{error}");
        }
        let deep = "tlb.".repeat(100_000);
        let error = Machine::load_with("gtsm-table4", [(&*deep, "3")].into_iter()).unwrap_err();
        assert!(error.to_string().contains("there is no key"), "{error}");
    }

    #[test]
    fn mistakes_name_the_line_or_the_key() {
        let (_, text) = BUNDLED[0];
        let unknown = text.replace("[walk_cache]", "[walk_cache]\nlevel9_entries = 3");
        let message = Machine::parse("m.toml", &unknown).unwrap_err().to_string();
        assert!(message.contains("line") && message.contains("level9_entries"), "{message}");
        assert!(message.contains("did you mean `level4_entries`?"), "{message}");
        let impossible = text.replace("entries = 1536, ways = 12", "entries = 1537, ways = 12");
        let message = Machine::parse("m.toml", &impossible).unwrap_err().to_string();
        assert!(message.contains("tlb.l2") && message.contains("1537"), "{message}");
        assert!(!message.contains('\n'));
    }

    /// Each field of the hardware support for virtualization reaches the memory-management unit.
    #[test]
    fn virtualization_is_that_of_the_file() {
        let set = |key: &str, value: &str| {
            let values = [(key, value)].into_iter();
            Machine::load_with(Machine::DEFAULT, values).unwrap().mmu().virtualization
        };
        let plain = Machine::load(Machine::DEFAULT).unwrap().mmu().virtualization;
        let nested = set("virtualization.nested_tlb", "{ entries = 16, ways = 4 }");
        assert_eq!(nested.nested_tlb, Some(TlbGeometry { entries: 16, ways: 4 }));
        let each = set("virtualization.intermediate_entries", "false");
        assert!(plain.intermediate_entries && !each.intermediate_entries);
        let blocks = (!plain.guest_blocks_in_entries).to_string();
        let changed = set("virtualization.guest_blocks_in_entries", &blocks);
        assert_ne!(changed.guest_blocks_in_entries, plain.guest_blocks_in_entries);
        let tables = set("virtualization.nested_entries", "tables");
        assert_ne!(tables.nested_entries, plain.nested_entries);
        assert_eq!(
            plain.nested_entries,
            set("virtualization.nested_entries", "all").nested_entries
        );
        let default = Virtualization::default();
        let filter = EscapeFilterConfig::default();
        let (bits, functions) = (default.escape_filter_bits, default.escape_filter_functions);
        assert_eq!((bits, functions), (filter.bits, filter.functions));
    }

    /// The smallest of the caches that tags tell addresses apart by limits the memory: that of the host, in
    /// a virtual machine.
    #[test]
    fn memories_have_to_suit_the_tags_of_caches() {
        let mut machine = Machine::load("sandy-bridge-table6").unwrap();
        let sets = [(64 << 10, 4), (32 << 10, 8), (256 << 10, 8)];
        let caches = [&mut machine.cache.l1i, &mut machine.cache.l1d, &mut machine.cache.l2];
        for (cache, (size, ways)) in caches.into_iter().zip(sets) {
            (cache.size_bytes, cache.ways) = (size, ways);
        }
        // A way of 4KB: 2^32 − 1 tags of it.
        let limit = 4096 * u64::from(u32::MAX);
        let (native, guest) = ["4k", "4k+4k"].map(|name| Composition::find(name).unwrap()).into();
        let of = |bytes: u64| {
            let mut memory = MemoryState::of(64 << 20);
            memory.kernel.memory_bytes = bytes;
            memory
        };
        assert!(machine.check_memory(&native, &of(limit)).is_ok());
        let error = machine.check_memory(&native, &of(limit + 1)).unwrap_err();
        let SimError::MemoryBeyondCaches { memory_bytes, limit_bytes, machine: name } = error
        else {
            panic!("{error}")
        };
        assert_eq!((memory_bytes, limit_bytes), (limit + 1, limit));
        assert_eq!(name, "sandy-bridge-table6");
        let with_host = |bytes| MemoryState { host: Some(Box::new(of(bytes))), ..of(64 << 20) };
        assert!(machine.check_memory(&guest, &with_host(limit)).is_ok());
        assert!(machine.check_memory(&guest, &with_host(limit + 1)).is_err());
        assert!(machine.check_memory(&native, &with_host(limit + 1)).is_ok());
        // Each other cache may be the one that limits.
        for index in 0..4 {
            let mut small = machine.clone();
            let llc = small.cache.llc.as_mut().unwrap();
            let cache = [&mut small.cache.l1i, &mut small.cache.l1d, &mut small.cache.l2, llc];
            let [.., chosen] = &mut cache.into_iter().take(index + 1).collect::<Vec<_>>()[..]
            else {
                unreachable!()
            };
            chosen.size_bytes = 2048 * u64::from(chosen.ways);
            assert!(small.check_memory(&native, &of(limit / 2 + 1)).is_err(), "cache {index}");
            assert!(small.check_memory(&native, &of(limit / 2)).is_ok(), "cache {index}");
        }
    }

    /// Control characters in name or summary would spoil tables and logs.
    #[test]
    fn levels_and_texts_have_limits() {
        let with = |change: fn(&mut Machine)| {
            let mut machine = Machine::load(Machine::DEFAULT).unwrap();
            change(&mut machine);
            machine.check()
        };
        assert_eq!(with(|machine| machine.page_table_levels = 5), Ok(()));
        for wrong in
            [with(|machine| machine.page_table_levels = 3), with(|it| it.page_table_levels = 6)]
        {
            assert!(wrong.unwrap_err().ends_with(" levels; 4 or 5 are possible"));
        }
        let plain = "name and summary must be plain text in one line";
        assert_eq!(with(|machine| machine.name.push('\t')), Err(plain.into()));
        assert_eq!(with(|machine| machine.summary.push('\u{7f}')), Err(plain.into()));
        let stored = |levels: u8| {
            let mut machine = Machine::load(Machine::DEFAULT).unwrap();
            machine.page_table_levels = levels;
            serde_json::to_value(&machine).unwrap()["page_table_levels"].clone()
        };
        assert_eq!((stored(4), stored(5)), (serde_json::Value::Null, 5.into()));
        let error = with(|machine| machine.virtualization.escape_filter_functions = 0);
        assert!(error.is_err());
    }

    #[test]
    fn processors_are_of_all_or_some_steppings() {
        let mut machine = Machine::load(Machine::DEFAULT).unwrap();
        let models = |models: &[u32], steppings: &[u32]| ProcessorModels {
            vendor: "V".into(),
            family: 6,
            models: models.to_vec(),
            steppings: steppings.to_vec(),
        };
        machine.processors = vec![models(&[1, 2], &[]), models(&[3], &[4, 5])];
        for (vendor, family, model, stepping, expected) in [
            ("V", 6, 1, 9, true),
            ("V", 6, 2, 0, true),
            ("V", 6, 3, 5, true),
            ("V", 6, 3, 6, false),
            ("V", 6, 4, 4, false),
            ("V", 7, 1, 9, false),
            ("W", 6, 1, 9, false),
        ] {
            let found = machine.is_of(vendor, family, model, stepping);
            assert_eq!(found, expected, "{vendor} {family} {model} {stepping}");
        }
        assert!(Machine::is_bundled("zen5-turin") && !Machine::is_bundled("zen5"));
    }

    #[test]
    fn errors_of_files_are_one_line() {
        let error = |text: &str| {
            let error = toml::from_str::<Virtualization>(text).unwrap_err();
            one_line(&error, text)
        };
        let unknown = error("nested_entries = \"all\"\nescape_filter_bit = 3\n");
        assert_eq!(
            unknown,
            "line 2: unknown field `escape_filter_bit`; did you mean `escape_filter_bits`?"
        );
        let far = error("zzzzzzzzzzzzzz = 3\n");
        assert!(far.starts_with("line 1: ") && !far.contains("did you mean"), "{far}");
        assert!(
            error("\n\nescape_filter_bits = \"x\"").starts_with("line 3: expected a whole number")
        );
    }
}
