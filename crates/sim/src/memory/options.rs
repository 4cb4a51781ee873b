//! Everything that can be said of memory.

use std::path::Path;

use perforate_config::{Changes, ConfigError, Size};
use perforate_os::{
    Ageing, ContentDistribution, Defrag, Fragmentation, IoGapPreset, KhugepagedConfig, KsmConfig,
    SelfBalloonConfig, ZoneLayout,
};
use perforate_schemes::gap_tolerant::{GapTolerant, SuperpageOptions};
use perforate_schemes::perforated::{Perforated, PerforationOptions};
use perforate_schemes::scripted::load;
use perforate_schemes::segment::{SegmentOptions, SegmentPolicy};
use perforate_trace::layout::LayoutFile;
use perforate_types::PageSize;
use schemars::JsonSchema;
use serde::Deserialize;

use super::faulty::FaultyFrames;
use super::{MemoryState, Past};
use crate::{Background, Daemon, MemorySnapshot, ModeSwitching, PolicyOptions, SimError};

/// Room that is kept free from boot takes time for each 4MB of it.
const MOST_ADDED_BYTES: u64 = 4 << 40;

/// Options of a memory, as the command line, an experiment file or a call gives them; those left out
/// have their defaults.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct MemoryOptions {
    /// Physical memory [default: 16G; of a host a quarter more than its guest's, and 512M].
    #[schemars(extend("brief" = "Physical memory [default: 16G]"))]
    pub memory: Option<Size>,
    /// Begin with the memory of a real machine, as `perforate snapshot host -o FILE` found it: its
    /// size, its zones, which frames are free, movable, page cache, unmovable; on the command line
    /// also host, this machine as it is now.
    #[schemars(extend("form" = "FILE"))]
    #[schemars(extend("brief" = "The memory of a real machine, from a snapshot; host: this one's, now"))]
    pub memory_from: Option<String>,
    /// Swap space, for example 2G; memory of the program is swapped out when physical memory is
    /// short, and host memory may be smaller than its guest's [default: none].
    #[schemars(extend("brief" = "Swap space [default: none]"))]
    pub swap: Option<Size>,
    /// Injected fragmentation, or none: portion=P%,holes=H%,clustered|dispersed and if wanted
    /// ,unallocated or ,unusable=U%.
    #[schemars(extend("brief" = "Injected fragmentation, or none"))]
    pub fragmentation: Option<Fragmentation>,
    /// Age memory by a simulated system uptime: PRESET[,unusable=U%][,slab=S%][,pinned=P%][,free=F%] (see `perforate list
    /// ageing`).
    #[schemars(extend("brief" = "Age memory by a simulated uptime (see `perforate list ageing`)"))]
    pub age: Option<Ageing>,
    /// Faulty frames: uniform=S%, clustered=S%, or a file with one frame number a line.
    #[schemars(extend("form" = "SPEC|FILE"))]
    pub faulty: Option<FaultyFrames>,
    /// Zones of memory: single, x86 (DMA, DMA32, Normal) or sizes such as dma=16M,dma32=2G.
    pub zones: Option<ZoneLayout>,
    /// Compaction before the run: none or background [default: none].
    pub compaction: Option<Compaction>,
    /// Compaction in page faults, as Linux's transparent_hugepage/defrag: always, defer,
    /// defer+madvise, madvise or never [default: never].
    #[schemars(extend("brief" = "Compaction in page faults, as in Linux [default: never]"))]
    pub defrag: Option<Defrag>,
    /// Background promotion while the program runs: default, or
    /// every=INSTRUCTIONS,pages-to-scan=4096,max-ptes-none=511,… with Linux's knobs.
    #[schemars(extend("brief" = "Background promotion while the program runs; default: as Linux"))]
    pub khugepaged: Option<Daemon<KhugepagedConfig>>,
    /// Same-page merging while the program runs: default, or every=INSTRUCTIONS,
    /// pages-to-scan=100,max-page-sharing=256; needs contents.
    pub ksm: Option<Daemon<KsmConfig>>,
    /// Contents of the pages: zero=5%,duplicate=20%,distinct=64[,regions=40%][,run=8].
    pub contents: Option<ContentDistribution>,
    /// Policy for perforated pages, for example max-hole-share=25%,max-filter-bits=4; it overrides
    /// a perforated scheme's own options (see `perforate list perforation`).
    pub perforation: Option<Changes<PerforationOptions>>,
    /// Policy for direct segments, for example min=16M,escapes=4 or base=0x…,limit=0x…; it overrides
    /// a segment scheme's own options (see `perforate list segment`).
    pub segment: Option<Changes<SegmentOptions>>,
    /// Policy for gap-tolerant superpages, for example least-blocks=32 or from=4G,to=8G (see
    /// `perforate list superpages`).
    pub superpages: Option<Changes<SuperpageOptions>>,
    /// Policy of page sizes as a script in the language Rhai, for the schemes scripted and
    /// perforated-scripted: a file, or one of those that come with the program (see `perforate list
    /// policies` and docs/policies.md).
    #[schemars(extend("form" = "NAME|FILE"))]
    #[schemars(extend("brief" = "A script that chooses page sizes, for the scheme scripted"))]
    pub policy: Option<String>,
    /// Page sizes of parts of the program's memory, a file of Mosalloc's: a line for each part,
    /// type,pageSize,startOffset,endOffset; the scheme layout has them, and for all schemes the heap and
    /// the anonymous mappings lie in pools (see docs/layouts.md).
    #[schemars(extend("form" = "FILE"))]
    #[schemars(extend("brief" = "Page sizes of parts of the program's memory, a file of Mosalloc's"))]
    pub layout: Option<String>,
    /// Physical addresses from 3GB to 4GB without memory: none, pc, or reclaimed (256M stays below,
    /// the rest lies above) [default: none].
    pub io_gap: Option<IoGapPreset>,
    /// Room above memory for what self-ballooning adds [default: none].
    pub hot_add: Option<Size>,
    /// Exchange a guest's scattered free memory for whole 2MB blocks while the program runs (D §IV):
    /// default, or every=INSTRUCTIONS,blocks=16; needs hot-add.
    #[schemars(extend("brief" = "Exchange a guest's scattered free memory for 2MB blocks (D §IV)"))]
    pub self_balloon: Option<Daemon<SelfBalloonConfig>>,
    /// Make missing direct segments while the program runs, by self-ballooning and host compaction
    /// (D Table III): big-memory or compute, and if wanted ,every=INSTRUCTIONS and ,frames=N, which
    /// compaction moves each time [default: 1M, 16384].
    pub modes: Option<ModeSwitching>,
    /// The memory of the host, if the program runs in a virtual machine.
    pub host: Option<Box<MemoryOptions>>,
}

/// Compaction before a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Compaction {
    /// Background compaction had its time.
    Background,
}

/// How a snapshot is had that options name.
pub type Snapshots<'a> = &'a dyn Fn(&str) -> Result<MemorySnapshot, SimError>;

impl MemoryOptions {
    /// Options of the memory of a virtual machine as a whole, which a host's has not.
    pub const GUEST_ONLY: [&str; 4] = ["layout", "modes", "self-balloon", "host"];

    /// The memory that these options describe.
    ///
    /// # Errors
    /// Options that contradict each other, files that cannot be read.
    pub fn resolve(&self) -> Result<MemoryState, SimError> {
        self.resolve_with(&MemorySnapshot::load)
    }

    /// The same where snapshots are had in another way than by reading the file of that name.
    ///
    /// # Errors
    /// Options that contradict each other, files that cannot be read.
    pub fn resolve_with(&self, snapshots: Snapshots<'_>) -> Result<MemoryState, SimError> {
        let memory = self.resolve_one(snapshots, |_| MemoryState::DEFAULT_BYTES)?;
        let layout = self.layout()?;
        let memory = MemoryState { modes: self.modes, layout, ..memory };
        let Some(options) = self.host.as_deref().filter(|host| **host != Self::default()) else {
            return Ok(memory);
        };
        let host = options.resolve_host(&memory, snapshots).map_err(SimError::of_host)?;
        Ok(MemoryState { host: Some(Box::new(host)), ..memory })
    }

    /// The memory of the host under a guest with `guest`.
    fn resolve_host(
        &self,
        guest: &MemoryState,
        snapshots: Snapshots<'_>,
    ) -> Result<MemoryState, SimError> {
        let given = [
            (self.layout.is_some(), "layout"),
            (self.modes.is_some(), "modes"),
            (self.host.is_some(), "host"),
        ];
        for (given, key) in given {
            if given {
                let problem = "is an option of the guest, not of its host";
                return Err(ConfigError::new(problem).under(key).into());
            }
        }
        self.resolve_one(snapshots, |fragmentation| guest.room_for_host(fragmentation))
    }

    fn layout(&self) -> Result<Option<LayoutFile>, ConfigError> {
        let Some(file) = &self.layout else { return Ok(None) };
        let layout = LayoutFile::read(Path::new(file), PageSize::Size1G);
        let layout = layout.map_err(|error| ConfigError::new(error.to_string()).under("layout"))?;
        Ok(Some(layout))
    }

    /// All but layout, modes and host; where no size is given, that which `default_bytes` finds for the
    /// fragmentation.
    fn resolve_one(
        &self,
        snapshots: Snapshots<'_>,
        default_bytes: impl FnOnce(Option<Fragmentation>) -> u64,
    ) -> Result<MemoryState, SimError> {
        self.check_policies()?;
        let script = self.policy.as_deref().map(load).transpose();
        let script = script.map_err(|error| error.under("policy"))?;
        let fragmentation = self.fragmentation.filter(|fragmentation| !fragmentation.is_none());
        let memory_bytes = match self.memory {
            Some(size) => memory_bytes(size).map_err(|error| error.under("memory"))?,
            None => default_bytes(fragmentation),
        };
        let memory = MemoryState {
            memory_bytes,
            fragmentation,
            policies: PolicyOptions {
                perforation: self.perforation.clone(),
                segment: self.segment.clone(),
                superpages: self.superpages.clone(),
                script,
                ..PolicyOptions::default()
            },
            past: self.past()?,
            background: self.background()?,
            ..MemoryState::of(0)
        };
        memory.check()?;
        match &self.memory_from {
            None => Ok(memory),
            Some(file) => self.begin_with(memory, file, snapshots),
        }
    }

    /// The memory of a snapshot instead.
    fn begin_with(
        &self,
        memory: MemoryState,
        file: &str,
        snapshots: Snapshots<'_>,
    ) -> Result<MemoryState, SimError> {
        if let Some(size) = self.memory {
            let problem = format!("says how large memory is, and memory says {size}: choose one");
            return Err(ConfigError::new(problem).under("memory-from").into());
        }
        memory.with_snapshot(snapshots(file)?)
    }

    fn past(&self) -> Result<Past, SimError> {
        let most = |size: Option<Size>, key: &str, most: u64, problem: &str| {
            let bytes = size.unwrap_or_default().bytes();
            if bytes > most { Err(ConfigError::new(problem).under(key)) } else { Ok(bytes) }
        };
        let most_swap = MemoryState::MAXIMUM_BYTES;
        let swap_bytes = most(self.swap, "swap", most_swap, "at most 64T can be simulated")?;
        let hot_add = most(self.hot_add, "hot-add", MOST_ADDED_BYTES, "at most 4T can be added")?;
        let faulty = self.faulty.as_ref().map(FaultyFrames::read).transpose()?;
        Ok(Past {
            zones: self.zones.unwrap_or_default(),
            faulty: faulty.filter(|faulty| !faulty.is_none()),
            ageing: self.age,
            defrag: self.defrag.unwrap_or_default(),
            compacted: self.compaction == Some(Compaction::Background),
            swap_bytes,
            io_gap: self.io_gap.map(Into::into),
            // Whole blocks of 4MB, so that what is added can be one run of them.
            hot_add_bytes: hot_add.next_multiple_of(4 << 20),
        })
    }

    fn background(&self) -> Result<Background, ConfigError> {
        let wrong = |key: &str, problem: &str| Err(ConfigError::new(problem).under(key));
        match (&self.ksm, &self.contents) {
            (Some(_), None) => {
                return wrong("ksm", "needs contents: without them no two pages are equal");
            }
            (None, Some(_)) => return wrong("contents", "has no effect without ksm"),
            (_, Some(contents)) => contents.check().map_err(|error| error.under("contents"))?,
            (None, None) => {}
        }
        if self.self_balloon.is_some() && self.hot_add.is_none() {
            return wrong("self-balloon", "needs hot-add: without it there is no room for blocks");
        }
        let (khugepaged, ksm, contents) = (self.khugepaged, self.ksm, self.contents);
        Ok(Background { khugepaged, ksm, contents, self_balloon: self.self_balloon })
    }

    /// Options of policies make sense by themselves; what they are put over comes later.
    fn check_policies(&self) -> Result<(), ConfigError> {
        fn check<T: Clone, P>(
            changes: Option<&Changes<T>>,
            key: &str,
            make: fn(T) -> Result<P, ConfigError>,
        ) -> Result<(), ConfigError> {
            let policy = changes.map(|changes| make(changes.values().clone())).transpose();
            policy.map(|_| ()).map_err(|error| error.under(key))
        }
        check(self.perforation.as_ref(), "perforation", Perforated::new)?;
        check(self.segment.as_ref(), "segment", SegmentPolicy::new)?;
        check(self.superpages.as_ref(), "superpages", GapTolerant::new)
    }
}

/// A size of memory, down to whole 2MB blocks.
fn memory_bytes(size: Size) -> Result<u64, ConfigError> {
    match size.bytes() {
        ..0x40_0000 => Err(ConfigError::new(format!("{size} is less than the 4M that are needed"))),
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
    use perforate_config::Given;

    use super::*;

    fn resolved(options: &[(&str, &str)]) -> Result<MemoryState, String> {
        let given: Given = options.iter().copied().collect();
        let options: Result<MemoryOptions, _> = given.grouped("host").read();
        let memory = options.map_err(SimError::from).and_then(|options| options.resolve());
        memory.map_err(|error| error.to_string())
    }

    #[test]
    fn nothing_said_is_the_default() {
        assert_eq!(resolved(&[]), Ok(MemoryState::default()));
        assert_eq!(resolved(&[]).unwrap().memory_bytes, 16 << 30);
        let none = [("fragmentation", "none"), ("io-gap", "none"), ("khugepaged", "none")];
        assert_eq!(resolved(&none), Ok(MemoryState::default()));
        // Axes begin at nothing.
        for (key, nothing) in
            [("fragmentation", "portion=0%,holes=25%,clustered"), ("faulty", "uniform=0%")]
        {
            assert_eq!(resolved(&[(key, nothing)]), Ok(MemoryState::default()), "{nothing}");
        }
    }

    /// Regions that are unusable are fragmented as well, also where the others are whole.
    #[test]
    fn no_portion_and_unusable_regions_are_fragmentation() {
        for text in ["portion=0%,unusable=60%", "portion=0%,holes=25%,clustered,unusable=60%"] {
            let memory = resolved(&[("fragmentation", text)]).unwrap();
            assert_eq!(memory.fragmentation.unwrap().unusable.value(), 0.6, "{text}");
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
        assert_eq!(resolved(&[("memory", "1T")]).unwrap().memory_bytes, 1 << 40);
        assert_eq!(resolved(&[("hot-add", "5M")]).unwrap().past.hot_add_bytes, 8 << 20);
        assert_eq!(resolved(&[("memory", "5M")]).unwrap().memory_bytes, 4 << 20);
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
        let background = memory.unwrap().background;
        let khugepaged = background.khugepaged.unwrap();
        assert_eq!((khugepaged.every.get(), khugepaged.knobs.max_ptes_none.get()), (5000, 0));
        assert_eq!(khugepaged.knobs.pages_to_scan.get(), 4096, "the rest is as in Linux");
        assert_eq!(background.ksm.unwrap().every.get(), 1_000_000);
        let modes = |text| resolved(&[("modes", text)]).unwrap().modes.unwrap();
        let of = |switching: ModeSwitching| (switching.big_memory, switching.every.get());
        assert_eq!(of(modes("big-memory")), (true, 1_000_000));
        assert_eq!(of(modes("compute,every=5000")), (false, 5000));
    }

    /// Results keep what was asked for, in the words of the options.
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
}
