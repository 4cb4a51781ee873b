//! Configuration of a kernel, and the options that make it.

use std::sync::Arc;

use perforate_config::{ConfigError, Size, Work, options};
use perforate_types::{Contiguity, GapTolerance};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use super::{
    Daemon, Defrag, HardFaultConfig, KhugepagedConfig, KsmConfig, SelfBalloonConfig, Setting,
};
use crate::memory::{FrameLayout, IoGap, TopTable};
use crate::{
    Ageing, ContentDistribution, FaultMap, FolioSizes, Fragmentation, HostSnapshot, ZoneLayout,
};

/// Largest swap space, equal to the largest memory.
const MOST_SWAP_BYTES: u64 = 1 << 46;
/// Largest amount of hot-added memory. Booting takes time for each 4MB of room for it.
const MOST_ADDED_BYTES: u64 = 4 << 40;
/// Hot-added memory comes in whole blocks of the buddy allocator's largest order.
const ADDED_BLOCK_BYTES: u64 = 4 << 20;

/// Properties of the page-table format that determine which frames the tables take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct TableFormat {
    /// True if page-table nodes of level 2 (with 2MB entries) are pairs of frames, node and shadow node, and
    /// memory has a hole bitmap (P §IV, §VI).
    pub shadow_directories: bool,
    /// Mode of gap-tolerant entries. If set, page-table nodes of level 2 hold these entries besides pointers
    /// to level-1 nodes, and no 2MB pages (G §3.7).
    pub gap_tolerance: Option<GapTolerance>,
    /// Number of guest pages that a flat table at the top of memory maps; 0 without a flat table. A
    /// hypervisor uses the flat table instead of nested page tables (D §X). The address space's
    /// ordinary tables are then only the hypervisor kernel's records, and no hardware walks them.
    pub flat_pages: u64,
    /// True for tables of five levels (57-bit addresses), false for those of four. Programs get addresses of
    /// 47 bits either way, as in Linux without a hint.
    pub five_levels: bool,
    /// Encoding by which the entries of 16 contiguous 4KB pages say that they belong together; `None` if the
    /// machine has none.
    pub contiguity: Option<Contiguity>,
}

impl TableFormat {
    /// Kind of table at the top of memory that this format needs: hole bitmap, flat table or none.
    pub(crate) fn top_table(self) -> TopTable {
        match (self.shadow_directories, self.flat_pages) {
            (true, _) => TopTable::HoleBitmap,
            (false, 0) => TopTable::None,
            (false, pages) => TopTable::Flat { pages },
        }
    }

    /// log2 of the number of frames of a node of 2MB entries (level 2): 1 with a shadow node (P §VI), up to 2
    /// with gap-tolerant entries (G Table 2).
    pub fn directory_order(self) -> u32 {
        match self.gap_tolerance {
            Some(mode) => mode.directory_order(),
            None => u32::from(self.shadow_directories),
        }
    }
}

/// Compaction before the program starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum EarlyCompaction {
    /// Background compaction has run over all of memory.
    Background,
}

options! {
    /// Configuration of a [`super::Kernel`], except its policy. The rows before `and` are options of users.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
    #[serde(default, deny_unknown_fields)]
    pub struct KernelConfig, Setting {
        /// Swap space, for example 2G; memory of the program is swapped out when physical memory is
        /// short, and host memory may be smaller than its guest's [default: none].
        swap: Size, Memory {
            is_rare: true,
            brief: "Swap space [default: none]",
            default: "none",
            phrase: |it| (it.swap.0 > 0).then(|| format!("{} of swap", in_words(it.swap))),
            work: Some(Work {
                counters: &["swap_outs"],
                missing: "memory never was so short that the program's had to be swapped out",
            }),
        };
        /// Injected fragmentation, or none, as with age or memory-from:
        /// portion=P%,holes=H%,clustered|dispersed and if wanted ,unallocated or ,unusable=U%.
        #[serde(deserialize_with = "some_fragmentation")]
        fragmentation: Option<Fragmentation>, Memory {
            ideal_ignores: true,
            snapshot_says: true,
            brief: "Injected fragmentation, or none",
        };
        /// Age memory by a simulated system uptime: PRESET[,unusable=U%][,slab=S%][,pinned=P%][,free=F%] (see `perforate list
        /// ageing`).
        age: Option<Ageing>, Memory {
            ideal_ignores: true,
            snapshot_says: true,
            brief: "Age memory by a simulated uptime (see `perforate list ageing`)",
            phrase: |it| it.age.as_ref().map(|age| format!("aged: {age}")),
        };
        /// Faulty frames: uniform=S%, clustered=S%, or a file with one frame number a line.
        #[serde(deserialize_with = "some_faulty")]
        #[schemars(with = "Option<String>")]
        faulty: Option<FaultMap>, Memory {
            is_rare: true,
            ideal_ignores: true,
            snapshot_says: true,
            form: "SPEC|FILE",
            phrase: |it| it.faulty.as_ref().map(|faulty| format!("faulty: {faulty}")),
        };
        /// Zones of memory: single, x86 (DMA, DMA32, Normal) or sizes such as dma=16M,dma32=2G.
        zones: ZoneLayout, Memory {
            is_rare: true,
            ideal_ignores: true,
            snapshot_says: true,
            default: "none",
            phrase: |it| phrase_of_zones(it.zones),
        };
        /// Compaction before the run: none or background [default: none].
        compaction: Option<EarlyCompaction>, System {
            is_rare: true,
            ideal_ignores: true,
            phrase: |it| it.compaction.map(|_| "compacted in the background".into()),
            idle: |it, _| {
                let has_past = it.age.is_some() || it.snapshot.is_some();
                (!has_past).then(|| {
                    "memory has no past (age, memory-from): there is nothing to move".into()
                })
            },
        };
        /// Compaction in page faults, as Linux's transparent_hugepage/defrag: always, defer,
        /// defer+madvise, madvise or never [default: never].
        defrag: Defrag, System {
            ideal_ignores: true,
            brief: "Compaction in page faults, as in Linux [default: never]",
            default: "none",
            phrase: |it| (it.defrag != Defrag::Never).then(|| format!("defrag {}", it.defrag)),
            idle: |_, setting| lacks_large_pages(setting),
            work: Some(Work {
                counters: &["compaction_blocks_scanned"],
                missing: "no page fault lacked a 2MB block for which to compact memory",
            }),
        };
        /// Sizes of folios that a first touch maps beside 4KB and 2MB pages, as Linux's
        /// hugepages-SIZEkB/enabled: 16K to 1M, each with =always, inherit, madvise or never, for
        /// example 64K,16K=madvise [default: those of the scheme].
        #[schemars(with = "Option<String>")]
        mthp: Option<FolioSizes>, System {
            is_rare: true,
            ideal_ignores: true,
            form: "SIZE[=ENABLED],…",
            brief: "Sizes of folios of 16KB to 1MB (multi-size THP)",
            phrase: |it| it.mthp.map(|sizes| format!("mTHP {sizes}")),
            work: Some(Work {
                counters: &[
                    "folios_16k",
                    "folios_32k",
                    "folios_64k",
                    "folios_128k",
                    "folios_256k",
                    "folios_512k",
                    "folios_1m",
                ],
                missing: "no first touch found an aligned block unmapped in its area, and free memory for it",
            }),
        };
        /// Background promotion while the program runs: default, or
        /// every=INSTRUCTIONS,pages-to-scan=4096,max-ptes-none=511,… with Linux's knobs.
        khugepaged: Option<Daemon<KhugepagedConfig>>, System {
            brief: "Background promotion while the program runs; default: as Linux",
            phrase: |it| it.khugepaged.map(|daemon| daemon.phrase("khugepaged")),
            idle: |_, setting| lacks_large_pages(setting),
            work: Some(Work {
                counters: &[
                    "khugepaged_pages_made_whole",
                    "khugepaged_pages_made_perforated",
                    "khugepaged_holes_patched",
                ],
                missing: "it made no page larger",
            }),
        };
        /// Same-page merging while the program runs: default, or every=INSTRUCTIONS,
        /// pages-to-scan=100,max-page-sharing=256; needs contents.
        ksm: Option<Daemon<KsmConfig>>, System {
            is_rare: true,
            ideal_ignores: true,
            phrase: |it| it.ksm.map(|daemon| daemon.phrase("same-page merging")),
            work: Some(Work { counters: &["ksm_pages_merged"], missing: "it merged no pages" }),
        };
        /// Contents of the pages: zero=5%,duplicate=20%,distinct=64[,regions=40%][,run=8].
        contents: Option<ContentDistribution>, System {
            is_rare: true,
            phrase: |it| it.contents.map(|contents| format!("contents: {contents}")),
        };
        /// Frames in use that fail while the program runs, drawn at random: default, or
        /// every=INSTRUCTIONS,frames=1. Their data move, and their pages become holes, escape or split.
        hard_faults: Option<Daemon<HardFaultConfig>>, System {
            is_rare: true,
            ideal_ignores: true,
            brief: "Frames in use that fail while the program runs",
            phrase: |it| it.hard_faults.map(|daemon| daemon.phrase("failing frames")),
            work: Some(Work { counters: &["hard_faults"], missing: "the programs used no memory yet" }),
        };
        /// Physical addresses from 3GB to 4GB without memory: none, pc, or reclaimed (256M stays below,
        /// the rest lies above) [default: none].
        io_gap: Option<IoGap>, Virtual {
            is_rare: true,
            snapshot_says: true,
            phrase: |it| it.io_gap.map(|gap| match gap.kept_bytes {
                None => "I/O gap".into(),
                Some(_) => "I/O gap, memory below it moved above".into(),
            }),
            idle: |it, setting| it.io_gap.and_then(|gap| idle_gap(gap, it.memory_bytes, setting)),
        };
        /// Address space above memory in which self-ballooning can add memory [default: none].
        hot_add: Size, Virtual {
            is_rare: true,
            snapshot_says: true,
            default: "none",
            phrase: |it| (it.hot_add.0 > 0).then(|| format!("room for {} more", in_words(it.hot_add))),
            idle: |it, setting| {
                let is_used = it.self_balloon.is_some() || setting.switches_modes;
                (!is_used).then(|| "it needs modes or self-balloon".into())
            },
        };
        /// Exchange a guest's scattered free memory for whole 2MB blocks while the program runs (D §IV):
        /// default, or every=INSTRUCTIONS,blocks=16; needs hot-add.
        self_balloon: Option<Daemon<SelfBalloonConfig>>, Virtual {
            is_rare: true,
            is_guest_only: true,
            brief: "Exchange a guest's scattered free memory for 2MB blocks (D §IV)",
            phrase: |it| it.self_balloon.map(|daemon| daemon.phrase("self-ballooning")),
            idle: |_, setting| (!setting.is_virtual).then(|| "no GUEST+HOST is compared".into()),
        };
    } and {
        /// Size of physical memory in bytes, a multiple of 4096.
        #[serde(skip_deserializing)]
        memory_bytes: u64;
        /// Seed of generated fragmentation, ageing and faulty frames.
        #[serde(skip)]
        seed: u64;
        /// Format of the page tables.
        #[serde(skip)]
        tables: TableFormat;
        /// Snapshot of a real machine's memory from which the run starts. Size, layout and zones of the
        /// snapshot override those in this configuration.
        #[serde(skip)]
        snapshot: Option<Arc<HostSnapshot>>;
        /// True for traces without map events: a touch outside all areas creates an anonymous area with all
        /// permissions in the aligned 2MB region around it, except where other areas lie.
        #[serde(skip)]
        implicit_maps: bool;
    }
}

impl KernelConfig {
    /// Configures a fresh memory of this size, with ordinary page tables.
    pub fn new(memory_bytes: u64) -> Self {
        Self { memory_bytes, ..Self::default() }
    }

    /// Room for hot-added memory at the end of the physical address space, rounded up to whole
    /// blocks so that it can be one run. In a guest, the balloon holds it from the start (D §VI.C).
    pub fn hot_add_bytes(&self) -> u64 {
        self.hot_add.bytes().next_multiple_of(ADDED_BLOCK_BYTES)
    }

    /// Physical address ranges of the memory.
    pub(super) fn layout(&self) -> FrameLayout {
        FrameLayout { io_gap: self.io_gap, hot_add_bytes: self.hot_add_bytes() }
    }

    /// Checks that the options do not contradict each other.
    ///
    /// # Errors
    /// The first option that is wrong: too large, of no use without another option, outside the memory, or
    /// `age` together with `fragmentation`.
    pub fn check(&self) -> Result<(), ConfigError> {
        let wrong = |key: &str, problem: &str| Err(ConfigError::new(problem).under(key));
        match (&self.ksm, &self.contents) {
            (Some(_), None) => {
                return wrong("ksm", "needs contents: without them no two pages are equal");
            }
            (None, Some(_)) => return wrong("contents", "has no effect without ksm"),
            (_, Some(contents)) => contents.check().map_err(|error| error.under("contents"))?,
            (None, None) => {}
        }
        if self.swap.0 > MOST_SWAP_BYTES {
            return wrong("swap", "at most 64T can be simulated");
        }
        if self.hot_add.0 > MOST_ADDED_BYTES {
            return wrong("hot-add", "at most 4T can be added");
        }
        if self.self_balloon.is_some() && self.hot_add.0 == 0 {
            return wrong("self-balloon", "needs hot-add: without it there is no room for blocks");
        }
        if self.age.is_some() && self.fragmentation.is_some() {
            let problem = "produces fragmentation, and fragmentation injects it: choose one";
            return wrong("age", problem);
        }
        if let Err(problem) = self.zones.check(self.memory_bytes) {
            return wrong("zones", problem);
        }
        if let Some(list @ FaultMap::Frames(_)) = &self.faulty {
            let frames = self.memory_bytes / crate::memory::FRAME_BYTES;
            list.frames(frames, 0).map_err(|error| error.under("faulty"))?;
        }
        Ok(())
    }
}

/// Deserializes the option `fragmentation`; `None` if it affects no region, as at the zero point of a sweep.
fn some_fragmentation<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Fragmentation>, D::Error> {
    let given = Option::<Fragmentation>::deserialize(deserializer)?;
    Ok(given.filter(|fragmentation| !fragmentation.is_none()))
}

/// Deserializes the option `faulty`; `None` if no frame is faulty.
fn some_faulty<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<FaultMap>, D::Error> {
    let given = Option::<FaultMap>::deserialize(deserializer)?;
    Ok(given.filter(|faulty| !faulty.is_none()))
}

fn lacks_large_pages(setting: &Setting) -> Option<String> {
    setting.lacks("2MB pages", |policy| policy.maps_large())
}

/// Reason why the option `io_gap` has no effect in this run; `None` if it has one. Without virtualization,
/// the gap matters only to schemes that need contiguous memory.
fn idle_gap(gap: IoGap, memory_bytes: u64, setting: &Setting) -> Option<String> {
    if memory_bytes <= gap.kept_bytes.unwrap_or(gap.start_bytes) {
        return Some("memory ends below the gap".into());
    }
    (!setting.is_virtual && !setting.has_segments)
        .then(|| "no GUEST+HOST and no scheme with direct segments is compared".into())
}

fn phrase_of_zones(zones: ZoneLayout) -> Option<String> {
    match zones {
        ZoneLayout::Single => None,
        ZoneLayout::X86 => Some("zones of x86-64".into()),
        ZoneLayout::Sizes { dma_bytes, dma32_bytes } => {
            let (dma, dma32) = (in_words(Size(dma_bytes)), in_words(Size(dma32_bytes)));
            Some(format!("zones: DMA {dma}, DMA32 {dma32}"))
        }
    }
}

/// A size in the largest unit of which it is a multiple: `16GB`.
pub fn in_words(Size(bytes): Size) -> String {
    for (shift, unit) in [(40, "TB"), (30, "GB"), (20, "MB")] {
        if bytes >= 1 << shift && bytes.is_multiple_of(1 << shift) {
            return format!("{}{unit}", bytes >> shift);
        }
    }
    format!("{}MB", bytes >> 20)
}

#[cfg(test)]
mod tests {
    use perforate_config::{Count, Table, read};

    use super::*;

    #[test]
    fn each_option_that_is_set_has_its_phrase() {
        let none = KernelConfig::new(64 << 20);
        assert!(none.phrases().is_empty());
        let phrase = |change: &dyn Fn(&mut KernelConfig)| {
            let mut config = none.clone();
            change(&mut config);
            config.phrases().join("; ")
        };
        for (defrag, expected) in [
            (Defrag::Never, ""),
            (Defrag::Madvise, "defrag madvise"),
            (Defrag::DeferMadvise, "defrag defer+madvise"),
            (Defrag::Defer, "defrag defer"),
            (Defrag::Always, "defrag always"),
        ] {
            assert_eq!(phrase(&|config| config.defrag = defrag), expected);
        }
        let x86 = phrase(&|config| config.zones = ZoneLayout::X86);
        assert_eq!(x86, "zones of x86-64");
        let sizes = ZoneLayout::Sizes { dma_bytes: 16 << 20, dma32_bytes: 2 << 30 };
        assert_eq!(phrase(&|config| config.zones = sizes), "zones: DMA 16MB, DMA32 2GB");
        let gap = |gap| phrase(&|config| config.io_gap = Some(gap));
        assert_eq!(gap(IoGap::PC), "I/O gap");
        assert_eq!(gap(IoGap::RECLAIMED), "I/O gap, memory below it moved above");
        let both = phrase(&|config| {
            (config.swap, config.hot_add) = (Size(3 << 30), Size(1536 << 20));
        });
        assert_eq!(both, "3GB of swap; room for 1536MB more");
        let every = Count::new(5);
        let knobs = SelfBalloonConfig { blocks: Count::new(16) };
        let daemon = Some(Daemon { every, knobs });
        let balloon = phrase(&|config| config.self_balloon = daemon);
        assert_eq!(balloon, "self-ballooning every 5 instructions (blocks=16)");
        let contents = "zero=5%,duplicate=20%,distinct=64";
        let said = phrase(&|config| config.contents = Some(read(contents).expect("valid")));
        assert!(said.starts_with("contents: zero=5%"), "{said}");
    }

    #[test]
    fn sizes_have_the_largest_unit_that_divides_them() {
        for (bytes, expected) in [
            (0, "0MB"),
            (1 << 20, "1MB"),
            (1023 << 20, "1023MB"),
            (1 << 30, "1GB"),
            (1025 << 20, "1025MB"),
            (3 << 40, "3TB"),
            ((1 << 40) + (1 << 30), "1025GB"),
        ] {
            assert_eq!(in_words(Size(bytes)), expected);
        }
    }

    #[test]
    fn daemons_and_histories_have_phrases() {
        let of = |config: KernelConfig| config.phrases().join("; ");
        let config = KernelConfig::default;
        for (config, expected) in [
            (
                KernelConfig { khugepaged: Some(read("default").unwrap()), ..config() },
                "khugepaged every 1000000 instructions (pages-to-scan=4096,max-ptes-none=511,\
                 max-ptes-swap=64,max-ptes-shared=256,defrag=yes)",
            ),
            (
                KernelConfig { ksm: Some(read("every=7").unwrap()), ..config() },
                "same-page merging every 7 instructions (pages-to-scan=100,max-page-sharing=256)",
            ),
            (
                KernelConfig { self_balloon: Some(read("blocks=3").unwrap()), ..config() },
                "self-ballooning every 1000000 instructions (blocks=3)",
            ),
            (KernelConfig { age: Some(read("weeks").unwrap()), ..config() }, "aged: weeks"),
            (
                KernelConfig { faulty: Some(read("uniform=1%").unwrap()), ..config() },
                "faulty: uniform=1%",
            ),
            (KernelConfig { mthp: Some(read("64K").unwrap()), ..config() }, "mTHP 64K"),
            (
                KernelConfig { compaction: Some(EarlyCompaction::Background), ..config() },
                "compacted in the background",
            ),
            (KernelConfig { swap: Size(1), ..config() }, "0MB of swap"),
            (KernelConfig { zones: ZoneLayout::Single, memory_bytes: 7, ..config() }, ""),
        ] {
            assert_eq!(of(config), expected);
        }
    }

    #[test]
    fn every_limit_is_exact() {
        let contents = |text: &str| Some(read::<ContentDistribution>(text).unwrap());
        let none = || KernelConfig::new(64 << 20);
        let ksm = || Some(read("default").unwrap());
        let balloon = || Some(read("default").unwrap());
        let zones = |dma_bytes, dma32_bytes| ZoneLayout::Sizes { dma_bytes, dma32_bytes };
        let frames = |frame| Some(FaultMap::Frames(vec![frame]));
        let (age, fragmentation) =
            (Some(read("weeks").unwrap()), Some(read("portion=1%,holes=1%,clustered").unwrap()));
        for (config, expected) in [
            (none(), ""),
            (KernelConfig { swap: Size(64 << 40), ..none() }, ""),
            (
                KernelConfig { swap: Size((64 << 40) + 1), ..none() },
                "swap: at most 64T can be simulated",
            ),
            (KernelConfig { hot_add: Size(4 << 40), ..none() }, ""),
            (
                KernelConfig { hot_add: Size((4 << 40) + 1), ..none() },
                "hot-add: at most 4T can be added",
            ),
            (
                KernelConfig { self_balloon: balloon(), ..none() },
                "self-balloon: needs hot-add: without it there is no room for blocks",
            ),
            (KernelConfig { self_balloon: balloon(), hot_add: Size(1), ..none() }, ""),
            (
                KernelConfig { ksm: ksm(), ..none() },
                "ksm: needs contents: without them no two pages are equal",
            ),
            (
                KernelConfig { contents: contents("zero=1%"), ..none() },
                "contents: has no effect without ksm",
            ),
            (KernelConfig { ksm: ksm(), contents: contents("zero=1%"), ..none() }, ""),
            (
                KernelConfig { ksm: ksm(), contents: contents("duplicate=1%"), ..none() },
                "contents: duplicate pages need at least one distinct content",
            ),
            (KernelConfig { age, ..none() }, ""),
            (KernelConfig { fragmentation, ..none() }, ""),
            (
                KernelConfig { age, fragmentation, ..none() },
                "age: produces fragmentation, and fragmentation injects it: choose one",
            ),
            (KernelConfig { zones: zones(16 << 20, 48 << 20), ..none() }, ""),
            (
                KernelConfig { zones: zones(16 << 20, 52 << 20), ..none() },
                "zones: the zones are larger than the memory",
            ),
            // Memory that is added later has no zones of its own.
            (
                KernelConfig {
                    zones: zones(16 << 20, 52 << 20),
                    hot_add: Size(64 << 20),
                    ..none()
                },
                "zones: the zones are larger than the memory",
            ),
            (KernelConfig { zones: zones(4096, 0), ..none() }, "zones: zones are multiples of 4M"),
            (KernelConfig { faulty: frames(16_383), ..none() }, ""),
            (
                KernelConfig { faulty: frames(16_384), ..none() },
                "faulty: frame 16384 lies outside the memory of 16384 frames",
            ),
        ] {
            let found = config.check().err().map_or_else(String::new, |error| error.to_string());
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn added_memory_comes_in_blocks_of_4mb() {
        for (asked, bytes) in [(0, 0), (1, 4 << 20), (4 << 20, 4 << 20), ((4 << 20) + 1, 8 << 20)] {
            let config = KernelConfig { hot_add: Size(asked), ..KernelConfig::default() };
            assert_eq!((config.hot_add_bytes(), config.layout().hot_add_bytes), (bytes, bytes));
        }
    }

    /// Nothing that is fragmented or faulty is as good as no option.
    #[test]
    fn shares_of_nothing_are_no_options() {
        let config = |text: &str| serde_json::from_str::<KernelConfig>(text).expect("valid");
        let none = config(r#"{"faulty": "uniform=0%", "fragmentation": {"portion": "0%"}}"#);
        assert_eq!(none, KernelConfig::default());
        let some = config(
            r#"{"faulty": "uniform=1%",
                "fragmentation": {"portion": "1%", "holes": "1%", "distribution": "clustered"}}"#,
        );
        assert!(some.faulty.is_some() && some.fragmentation.is_some());
    }

    #[test]
    fn rows_say_where_options_belong() {
        let rows = KernelConfig::rows();
        let with = |wanted: fn(&perforate_config::Row<KernelConfig>) -> bool| -> Vec<&str> {
            rows.iter().filter(|row| wanted(row)).map(|row| row.name).collect()
        };
        let said = ["fragmentation", "age", "faulty", "zones", "io_gap", "hot_add"];
        assert_eq!(with(|row| row.snapshot_says), said);
        let ignored = [
            "fragmentation",
            "age",
            "faulty",
            "zones",
            "compaction",
            "defrag",
            "mthp",
            "ksm",
            "hard_faults",
        ];
        assert_eq!(with(|row| row.ideal_ignores), ignored);
        assert_eq!(with(|row| row.is_guest_only), ["self_balloon"]);
        assert_eq!(with(|row| !row.is_rare), ["fragmentation", "age", "defrag", "khugepaged"]);
        let known = crate::counters();
        let done = rows.iter().filter_map(|row| Some((row.name, row.work?)));
        let done: Vec<_> = done.map(|(name, work)| (name, work.missing, work.counters)).collect();
        for (name, _, counters) in &done {
            for counter in *counters {
                assert!(known.iter().any(|known| known.id == *counter), "{name}: {counter}");
            }
        }
        let found: Vec<_> =
            done.iter().map(|(name, missing, all)| (*name, *missing, all.len())).collect();
        let swap = "memory never was so short that the program's had to be swapped out";
        let mthp =
            "no first touch found an aligned block unmapped in its area, and free memory for it";
        let expected = [
            ("swap", swap, 1),
            ("defrag", "no page fault lacked a 2MB block for which to compact memory", 1),
            ("mthp", mthp, 7),
            ("khugepaged", "it made no page larger", 3),
            ("ksm", "it merged no pages", 1),
            ("hard_faults", "the programs used no memory yet", 1),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn a_table_at_the_top_and_large_directories_come_with_the_format() {
        let plain = TableFormat::default();
        let shadow = TableFormat { shadow_directories: true, ..plain };
        let flat = TableFormat { flat_pages: 5, ..plain };
        let gaps = |mode| TableFormat { gap_tolerance: Some(mode), ..plain };
        for (format, top, order) in [
            (plain, TopTable::None, 0),
            (shadow, TopTable::HoleBitmap, 1),
            (flat, TopTable::Flat { pages: 5 }, 0),
            (gaps(GapTolerance::SINGLE_1M), TopTable::None, 2),
            (gaps(GapTolerance::SINGLE_4M), TopTable::None, 0),
        ] {
            assert_eq!((format.top_table(), format.directory_order()), (top, order), "{format:?}");
        }
    }
}
