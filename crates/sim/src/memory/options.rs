//! Options of memory and of its operating system.

use std::path::Path;

use perforate_config::{ConfigError, Key, OptionTexts, Row, Size, Table, options};
use perforate_os::{Fragmentation, KernelConfig, Setting};
use perforate_types::PageSize;
use perforate_workloads::layout::LayoutFile;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::MemoryState;
use crate::{MemorySnapshot, ModeSwitching, PolicyOptions, RunSpec, SimError};

options! {
    /// Options that say how large memory is.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
    #[serde(default, deny_unknown_fields)]
    pub struct SizeOptions, Setting {
        /// Physical memory [default: 16G; of a host a quarter more than its guest's, and 512M].
        memory: Option<Size>, Memory { brief: "Physical memory [default: 16G]" };
        /// Begin with the memory of a real machine, as `perforate snapshot host -o FILE` found it: its
        /// size, its zones, which frames are free, movable, page cache, unmovable; on the command line
        /// also host, this machine as it is now.
        memory_from: Option<String>, Memory {
            form: "FILE",
            brief: "The memory of a real machine, from a snapshot; host: this one's, now",
        };
    }
}

options! {
    /// Options of a virtual machine as a whole, which a host does not have.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
    #[serde(default, deny_unknown_fields)]
    pub struct GuestOptions, Setting {
        /// Page sizes of parts of the program's memory, a file of Mosalloc's: a line for each part,
        /// type,pageSize,startOffset,endOffset; the scheme layout has them, and for all schemes the heap and
        /// the anonymous mappings lie in pools (see docs/layouts.md).
        layout: Option<String>, System {
            is_rare: true,
            is_guest_only: true,
            form: "FILE",
            brief: "Page sizes of parts of the program's memory, a file of Mosalloc's",
            idle: |_, setting| setting.lacks("pages by a layout", |policy| {
                policy.rule::<perforate_os::PageLayout>().is_some()
            }),
        };
        /// Make missing direct segments while the program runs, by self-ballooning and host compaction
        /// (D Table III): big-memory or compute, and if wanted ,every=INSTRUCTIONS and ,frames=N, which
        /// compaction moves each time [default: 1M, 16384].
        modes: Option<ModeSwitching>, Virtual {
            is_rare: true,
            is_guest_only: true,
            idle: |_, setting| (!setting.switches_modes).then(|| {
                "big-memory wants a segment scheme on both sides, compute one as host".into()
            }),
        };
    }
}

/// Options of a memory, from the command line, an experiment file or a call from Python, before
/// they are resolved to a [`MemoryState`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MemoryOptions {
    /// Size of the memory.
    pub size: SizeOptions,
    /// Options of the kernel, except for the size of memory.
    pub kernel: KernelConfig,
    /// Options of the kernel policies of schemes' mechanisms.
    pub policies: PolicyOptions,
    /// Options of a virtual machine as a whole, such as the layout of its page sizes. They keep their
    /// defaults in the options of a host's memory.
    pub guest: GuestOptions,
    /// Options of the host's memory; `None` if no such option is given.
    pub host: Option<Box<MemoryOptions>>,
}

/// Function that loads the snapshot named by `--memory-from`.
pub type Snapshots<'a> = &'a dyn Fn(&str) -> Result<MemorySnapshot, SimError>;

impl MemoryOptions {
    /// Returns the keys of all memory options, then those of the host's memory with the prefix
    /// `host-`.
    pub fn keys() -> Vec<Key> {
        let mut all = SizeOptions::keys();
        all.extend(KernelConfig::keys());
        all.extend(PolicyOptions::keys());
        all.extend(GuestOptions::keys());
        let of_host = |key: &Key| Key {
            name: format!("host-{}", key.name),
            help: format!("As {}, of the host under a virtual machine", key.name),
            brief: format!("As {}, of the host", key.name),
            section: Some(perforate_config::Section::Virtual),
            is_rare: true,
            ..key.clone()
        };
        let hosts: Vec<Key> = all.iter().filter(|key| !key.is_guest_only).map(of_host).collect();
        let of_guest = all.iter_mut().find(|key| key.name == "fragmentation");
        of_guest.expect("it is an option").default = RunSpec::DEFAULT_FRAGMENTATION.into();
        all.extend(hosts);
        all
    }

    /// Removes the memory options from `given`, and parses them. Options of the host have the
    /// prefix `host-`.
    ///
    /// # Errors
    /// A wrong value, or a `host-` option that only guests have.
    pub fn take(given: &mut OptionTexts) -> Result<Self, ConfigError> {
        let host = given.take_group("host");
        let own = Self::take_one(given)?;
        let Some(mut host) = host else { return Ok(own) };
        let mut read_host = || {
            let options = Self::take_one(&mut host)?;
            host.refuse_rest(Self::keys)?;
            options.refuse_guest_only().map(|()| options)
        };
        let host = read_host().map_err(|error| error.under("host"))?;
        Ok(Self { host: Some(Box::new(host)).filter(|host| **host != Self::default()), ..own })
    }

    /// Parses memory options. Any other option is an error.
    ///
    /// # Errors
    /// A wrong value, or a key that is not an option of memory.
    pub fn read(given: OptionTexts) -> Result<Self, ConfigError> {
        let mut given = given.grouped("host");
        let options = Self::take(&mut given)?;
        given.refuse_rest(Self::keys)?;
        Ok(options)
    }

    fn take_one(given: &mut OptionTexts) -> Result<Self, ConfigError> {
        Ok(Self {
            size: given.take()?,
            kernel: given.take()?,
            policies: given.take()?,
            guest: given.take()?,
            host: None,
        })
    }

    fn refuse_guest_only(&self) -> Result<(), ConfigError> {
        let of_kernel = self.kernel.set_rows().find(|row| row.is_guest_only).map(Row::option);
        let of_guest = self.guest.set_rows().find(|row| row.is_guest_only).map(Row::option);
        let Some(name) = of_kernel.or(of_guest) else { return Ok(()) };
        let problem = "is an option of the guest, not of its host";
        Err(ConfigError::new(problem).under(name))
    }

    /// Loads the files that these options name, and creates a memory.
    ///
    /// # Errors
    /// Options that contradict each other, or files that cannot be read.
    pub fn resolve(&self, snapshots: Snapshots<'_>) -> Result<MemoryState, SimError> {
        let memory = self.resolve_one(snapshots, |_| MemoryState::DEFAULT_BYTES)?;
        let memory = MemoryState { modes: self.guest.modes, layout: self.layout()?, ..memory };
        let Some(options) = &self.host else { return Ok(memory) };
        let room = |fragmentation| memory.room_for_host(fragmentation);
        let host = options.resolve_one(snapshots, room).map_err(SimError::of_host)?;
        Ok(MemoryState { host: Some(Box::new(host)), ..memory })
    }

    fn layout(&self) -> Result<Option<LayoutFile>, ConfigError> {
        let Some(file) = &self.guest.layout else { return Ok(None) };
        let layout = LayoutFile::read(Path::new(file), PageSize::Size1G);
        let layout = layout.map_err(|error| ConfigError::new(error.to_string()).under("layout"))?;
        Ok(Some(layout))
    }

    /// Resolves the options of the program's or the host's memory. `default_bytes` returns the size
    /// for this fragmentation if the options do not give one.
    fn resolve_one(
        &self,
        snapshots: Snapshots<'_>,
        default_bytes: impl FnOnce(Option<Fragmentation>) -> u64,
    ) -> Result<MemoryState, SimError> {
        self.policies.check()?;
        let memory_bytes = match self.size.memory {
            Some(size) => memory_bytes(size).map_err(|error| error.under("memory"))?,
            None => default_bytes(self.kernel.fragmentation),
        };
        let memory = MemoryState {
            kernel: KernelConfig { memory_bytes, ..self.kernel.clone() },
            policies: self.policies.clone(),
            ..MemoryState::of(0)
        };
        memory.kernel.check()?;
        match &self.size.memory_from {
            None => Ok(memory),
            Some(file) => self.start_with(memory, file, snapshots),
        }
    }

    /// Returns `memory` with the size and state of the snapshot in `file`.
    fn start_with(
        &self,
        memory: MemoryState,
        file: &str,
        snapshots: Snapshots<'_>,
    ) -> Result<MemoryState, SimError> {
        if let Some(size) = self.size.memory {
            let problem = format!("says how large memory is, and memory says {size}: choose one");
            return Err(ConfigError::new(problem).under("memory-from").into());
        }
        memory.with_snapshot(snapshots(file)?)
    }
}

/// Smallest possible size of a memory, in bytes.
pub(super) const LEAST_BYTES: u64 = 4 << 20;

/// Converts a size to bytes, rounded down to whole 2MB blocks.
fn memory_bytes(size: Size) -> Result<u64, ConfigError> {
    match size.bytes() {
        ..LEAST_BYTES => {
            Err(ConfigError::new(format!("{size} is less than the 4M that are needed")))
        }
        bytes if bytes > MemoryState::MAXIMUM_BYTES => {
            let problem =
                format!("{size} is more than the 64T (46 address bits) that are simulated");
            Err(ConfigError::new(problem))
        }
        bytes => Ok(bytes & !(PageSize::Size2M.bytes() - 1)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolved(options: &[(&str, &str)]) -> Result<MemoryState, String> {
        let options = MemoryOptions::read(options.iter().copied().collect());
        let resolve = |options: MemoryOptions| options.resolve(&MemorySnapshot::load);
        options.map_err(SimError::from).and_then(resolve).map_err(|error| error.to_string())
    }

    #[test]
    fn no_options_are_the_default() {
        assert_eq!(resolved(&[]), Ok(MemoryState::default()));
        assert_eq!(resolved(&[]).unwrap().kernel.memory_bytes, 16 << 30);
        let none = [("fragmentation", "none"), ("io-gap", "none"), ("khugepaged", "none")];
        assert_eq!(resolved(&none), Ok(MemoryState::default()));
        // The axes of experiments begin with values that change nothing.
        for (key, nothing) in
            [("fragmentation", "portion=0%,holes=25%,clustered"), ("faulty", "uniform=0%")]
        {
            assert_eq!(resolved(&[(key, nothing)]), Ok(MemoryState::default()), "{nothing}");
        }
    }

    /// Unusable regions count as fragmentation, even if no other region is fragmented.
    #[test]
    fn no_portion_and_unusable_regions_are_fragmentation() {
        for text in ["portion=0%,unusable=60%", "portion=0%,holes=25%,clustered,unusable=60%"] {
            let memory = resolved(&[("fragmentation", text)]).unwrap();
            assert_eq!(memory.kernel.fragmentation.unwrap().unusable.value(), 0.6, "{text}");
        }
    }

    #[test]
    fn sizes_have_a_unit_everywhere() {
        for (key, text) in [
            ("memory", "64"),
            ("swap", "64"),
            ("hot-add", "64"),
            ("host-memory", "64"),
            ("segment", "min=64"),
            ("superpages", "from=64"),
            ("zones", "dma=64"),
        ] {
            let problem = resolved(&[(key, text)]).unwrap_err();
            assert!(problem.ends_with("64 has no unit: 64M or 64G?"), "{problem}");
        }
        assert_eq!(resolved(&[("memory", "1T")]).unwrap().kernel.memory_bytes, 1 << 40);
        assert_eq!(resolved(&[("hot-add", "5M")]).unwrap().kernel.hot_add_bytes(), 8 << 20);
        assert_eq!(resolved(&[("memory", "5M")]).unwrap().kernel.memory_bytes, 4 << 20);
    }

    #[test]
    fn mistakes_name_the_option() {
        for (options, problem) in [
            (vec![("memory", "0")], "memory: 0 is less than the 4M that are needed"),
            (vec![("memory", "65T")], "memory: 65T is more than the 64T"),
            (vec![("memori", "1G")], "there is no \"memori\"; did you mean memory?"),
            (vec![("memory", "1G"), ("memory", "2G")], "memory is given twice"),
            (vec![("khugepaged", "every=0")], "khugepaged: every: is at least 1, not 0"),
            (
                vec![("khugepaged", "max-ptes-none=512")],
                "khugepaged: max-ptes-none: is at most 511, not 512",
            ),
            (vec![("khugepaged", "every=5,every=6")], "khugepaged: every is given twice"),
            (vec![("ksm", "default")], "ksm: needs contents"),
            (vec![("self-balloon", "default")], "self-balloon: needs hot-add"),
            (vec![("contents", "zero=1%")], "contents: has no effect without ksm"),
            (
                vec![("ksm", "default"), ("contents", "duplicate=1%")],
                "contents: duplicate pages need at least one distinct content",
            ),
            (vec![("age", "weeks"), ("fragmentation", "portion=5%,holes=5%,clustered")], "age: "),
            (vec![("zones", "dma=1M")], "zones: zones are multiples of 4M"),
            (vec![("zones", "x86,dma=4M")], "zones: single and x86 have no sizes of their own"),
            (vec![("zones", "default")], "zones: expected single, x86 or sizes"),
            (vec![("compaction", "both")], "compaction: expected background, not \"both\""),
            (vec![("defrag", "often")], "defrag: expected never, madvise, defer+madvise, defer or"),
            (vec![("perforation", "max-hole-share=9")], "perforation: max-hole-share: expected a"),
            (
                vec![("perforation", "max-hole-share=50%,demote-above=1%")],
                "perforation: demote-above=1% is less than max-hole-share=50%",
            ),
            (vec![("segment", "base=0x1000")], "segment: base needs limit"),
            (vec![("superpages", "to=0")], "superpages: to: is more than from"),
            (vec![("faulty", "no/such/file")], "faulty: no/such/file: "),
            (vec![("faulty", "row=1%")], "faulty: expected uniform or clustered, not \"row\""),
            (vec![("modes", "large")], "modes: there is no \"large\""),
            (vec![("modes", "compute,every=0")], "modes: every: is at least 1, not 0"),
            (vec![("host-memory", "2X")], "host: memory: expected a size such as 64M or 4G"),
            (vec![("host-modes", "compute")], "host: modes: is an option of the guest"),
            (vec![("layout", "no/such.csv")], "layout: no/such.csv: read: "),
            (vec![("host-layout", "x")], "host: layout: is an option of the guest"),
            (vec![("memory", "1G"), ("memory-from", "x")], "memory-from: says how large memory is"),
        ] {
            let error = resolved(&options).unwrap_err();
            assert!(error.starts_with(problem) && !error.contains('\n'), "{error}");
        }
    }

    #[test]
    fn periods_and_knobs() {
        let memory = resolved(&[
            ("khugepaged", "every=5k,max-ptes-none=0"),
            ("ksm", "default"),
            ("contents", "zero=10%"),
        ]);
        let kernel = memory.unwrap().kernel;
        let khugepaged = kernel.khugepaged.unwrap();
        assert_eq!((khugepaged.every.get(), khugepaged.knobs.max_ptes_none.get()), (5000, 0));
        assert_eq!(khugepaged.knobs.pages_to_scan.get(), 4096, "the rest is as in Linux");
        assert_eq!(kernel.ksm.unwrap().every.get(), 1_000_000);
        let modes = |text| resolved(&[("modes", text)]).unwrap().modes.unwrap();
        let of = |switching: ModeSwitching| (switching.big_memory, switching.every.get());
        assert_eq!(of(modes("big-memory")), (true, 1_000_000));
        assert_eq!(of(modes("compute,every=5000")), (false, 5000));
    }

    /// Results store options in the form in which users give them.
    #[test]
    fn stored_options_can_be_given_again() {
        let text = "max-filter-bits=4,holes=lazy";
        let memory = resolved(&[("perforation", text)]).unwrap();
        let stored = serde_json::to_value(&memory).unwrap();
        assert_eq!(stored["perforation"], text);
        assert_eq!(
            resolved(&[("perforation", stored["perforation"].as_str().unwrap())]),
            Ok(memory)
        );
    }

    /// The last size that is possible on each side, and the first that is not.
    #[test]
    fn sizes_have_limits() {
        let bytes = |size: &str| resolved(&[("memory", size)]).map(|it| it.kernel.memory_bytes);
        assert_eq!(bytes("4M"), Ok(4 << 20));
        assert_eq!(bytes("64T"), Ok(64 << 40));
        let problem = "memory: 4095K is less than the 4M that are needed";
        assert_eq!(bytes("4095K"), Err(problem.into()));
        let error = bytes("67108865M").unwrap_err();
        assert!(error.starts_with("memory: ") && error.contains("is more than the 64T"), "{error}");
        let host = resolved(&[("memory", "8G"), ("host-memory", "6G")]).unwrap();
        assert_eq!(host.kernel.memory_bytes, 8 << 30);
        assert_eq!(host.host.unwrap().kernel.memory_bytes, 6 << 30);
        let error = resolved(&[("host-memory", "1M")]).unwrap_err();
        assert_eq!(error, "host: memory: 1M is less than the 4M that are needed");
    }

    /// Each option but those of guests is one of the host, too. Only the program's memory is fragmented by
    /// default.
    #[test]
    fn hosts_have_the_options_of_guests() {
        let keys = MemoryOptions::keys();
        let find = |name: &str| keys.iter().find(|key| key.name == name);
        for name in ["memory", "memory-from", "swap", "segment", "perforation", "fragmentation"] {
            let host = find(&format!("host-{name}")).unwrap_or_else(|| panic!("host-{name}"));
            let own = find(name).unwrap();
            assert_eq!(host.help, format!("As {name}, of the host under a virtual machine"));
            assert_eq!(host.brief, format!("As {name}, of the host"));
            assert!(host.is_rare && host.section == Some(perforate_config::Section::Virtual));
            let default =
                if name == "fragmentation" { RunSpec::DEFAULT_FRAGMENTATION } else { &own.default };
            assert_eq!(own.default, default, "{name}");
        }
        assert_eq!(
            find("host-fragmentation").unwrap().default,
            KernelConfig::keys().iter().find(|key| key.name == "fragmentation").unwrap().default
        );
        for name in ["layout", "modes", "hot-add", "self-balloon"] {
            assert!(find(name).is_some(), "{name}");
            let is_guests = find(name).unwrap().is_guest_only;
            assert_eq!(find(&format!("host-{name}")).is_none(), is_guests, "{name}");
        }
        let names: std::collections::BTreeSet<&str> = keys.iter().map(|key| &*key.name).collect();
        assert_eq!(names.len(), keys.len(), "each once");
    }

    #[test]
    fn defaults_of_mode_switching() {
        let modes = |text| resolved(&[("modes", text)]).unwrap().modes.unwrap();
        let of = |it: ModeSwitching| (it.big_memory, it.every.get(), it.frames.get());
        assert_eq!(of(modes("compute")), (false, 1_000_000, 16_384));
        assert_eq!(of(modes("big-memory,frames=1")), (true, 1_000_000, 1));
        for (text, problem) in [
            ("compute,frames=0", "modes: frames: is at least 1, not 0"),
            ("compute,often=5", "modes: there is no \"often\""),
        ] {
            let error = resolved(&[("modes", text)]).unwrap_err();
            assert!(error.starts_with(problem), "{error}");
        }
    }
}
