//! Geometry of TLBs and walk caches, as configured in a machine file.

use perforate_types::{CONTIGUOUS_PAGES, PageSize};
use serde::{Deserialize, Serialize};

use crate::Coalescing;

mod parts;

pub use parts::{L2Part, Ways, WaysError};

/// Size and associativity of one TLB or walk cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TlbGeometry {
    /// Total number of entries of the TLB or cache.
    pub entries: usize,
    /// Entries per set; equal to `entries` for a fully associative array.
    pub ways: usize,
}

/// The TLBs of one core, the `[tlb]` section of a machine file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TlbConfig {
    /// True if entries carry an address-space tag (ASID, PCID). Otherwise a context switch flushes
    /// the TLBs.
    pub tagged: bool,
    /// First-level data TLB for 4KB pages.
    pub l1_data_4k: TlbGeometry,
    /// First-level data TLB for 2MB pages; without it, they are held as 4KB entries.
    pub l1_data_2m: Option<TlbGeometry>,
    /// First-level data TLB for 1GB pages; without it, they are held as 2MB or 4KB entries.
    pub l1_data_1g: Option<TlbGeometry>,
    /// First-level instruction TLB for 4KB pages.
    pub l1_instruction_4k: TlbGeometry,
    /// First-level instruction TLB for 2MB pages.
    pub l1_instruction_2m: Option<TlbGeometry>,
    /// Second-level TLB. Each page size uses all of its ways, some, or a separate array.
    pub l2: TlbGeometry,
    /// Ways of `l2` for 4KB entries: 4KB pages, holes, bitmap entries and runs of 4KB pages.
    /// Without this key, all ways.
    #[serde(default = "all_ways", skip_serializing_if = "Ways::are_all")]
    pub l2_4k: Ways,
    /// Entries for 2MB: 2MB pages, perforated pages, and a guest's 2MB page over 4KB pages of its
    /// host. Either ways of `l2` (without this key, all ways), or a separate array. With `"none"`,
    /// only the first level holds 2MB pages, as on Sandy Bridge (D Table VI).
    #[serde(default = "L2Part::all")]
    pub l2_2m: L2Part,
    /// Entries for 1GB pages: ways of `l2`, or a separate array. Without this key, only the first
    /// level holds 1GB pages.
    #[serde(default = "L2Part::none")]
    pub l2_1g: L2Part,
    /// Number of entries in a mechanism's fully associative cache that is looked up in parallel
    /// with the second-level TLB. Without this key, 32, as in the range TLB of RMM (ISCA 2015,
    /// §4.1).
    #[serde(default = "range_tlb_entries", skip_serializing_if = "is_range_tlb")]
    pub beside_entries: usize,
    /// TLB of gap-tolerant entries that is looked up in parallel with the second-level TLB, for
    /// schemes that have one. Without this key, it has the size of the second-level TLB, because G
    /// §3.7 names no size.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gap_tolerant: Option<TlbGeometry>,
    /// Coalescing of 4KB pages in the second-level TLB; off without this key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub l2_coalescing: Option<Coalescing>,
    /// True if the first-level TLBs hold a coalesced window of pages as one entry, like the second
    /// level. Otherwise they hold its pages one by one. Needs a form of coalescing other than
    /// `runs`, whose entries may be parts of windows.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub l1_coalescing: bool,
    /// Point in a page walk at which the shadow entry of a perforated page is read.
    #[serde(default, skip_serializing_if = "is_when_needed")]
    pub shadow_reads: ShadowReads,
    /// Effect of making a hole in a perforated page, or removing one, on cached bitmap entries.
    #[serde(default, skip_serializing_if = "is_invalidate")]
    pub bitmap_updates: BitmapUpdates,
}

/// Effect on the bitmap entry in the second-level TLB when the operating system makes a hole in a
/// perforated page (punching) or removes one (patching).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BitmapUpdates {
    /// The entry is invalidated; the next access that needs it reads the bitmap from memory (P
    /// §IV.E).
    #[default]
    Invalidate,
    /// The entry is rewritten, "with the right ISA support" (P §IV.E). In a guest, this requires a
    /// host without perforated pages: the entry has the holes of both, and the guest's kernel knows
    /// only its own.
    InPlace,
}

fn is_invalidate(updates: &BitmapUpdates) -> bool {
    *updates == BitmapUpdates::Invalidate
}

/// Point in a page walk at which the shadow entry of a perforated page is read. This entry leads to
/// the translations of holes. It is 4KB after the page-directory entry; P §IV.B does not say when
/// it is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ShadowReads {
    /// Only after the bitmap has shown that the sub-page is a hole.
    #[default]
    WhenNeeded,
    /// In parallel with every entry of a page directory. Each walk then reads one more line, and a
    /// walk to a hole has one sequential read fewer. In a guest, shadow entries are still read when
    /// needed, because the shadow directory has a separate guest-physical address.
    WithDirectoryEntry,
}

fn is_when_needed(reads: &ShadowReads) -> bool {
    *reads == ShadowReads::WhenNeeded
}

fn all_ways() -> Ways {
    Ways::All
}

fn range_tlb_entries() -> usize {
    32
}

fn is_range_tlb(entries: &usize) -> bool {
    *entries == range_tlb_entries()
}

/// Page-walk (structure) caches, the `[walk_cache]` section of a machine file. Each caches non-leaf
/// entries of one level. A hit at level *n* leaves *n* − 1 reads. 0 entries disable a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WalkCacheConfig {
    /// Number of level-4 entries (PML4E).
    pub level4_entries: usize,
    /// Number of level-3 entries (PDPTE).
    pub level3_entries: usize,
    /// Number of level-2 entries (PDE), including shadow entries of perforated pages.
    pub level2_entries: usize,
    /// Level-4 entries per set; without it, the cache is fully associative.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level4_ways: Option<usize>,
    /// Level-3 entries per set; without it, the cache is fully associative.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level3_ways: Option<usize>,
    /// Level-2 entries per set; without it, the cache is fully associative.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level2_ways: Option<usize>,
}

/// Guest-physical pages for which gPA→hPA entries are cached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NestedEntries {
    /// All guest-physical pages that the walker translates: the guest's tables and the program's
    /// data.
    #[default]
    All,
    /// The guest's tables, and data in a large guest page that the second-level TLB holds as an
    /// intermediate entry (gVA→gPA). For other data, only the combined translation (gVA→hPA) is
    /// cached.
    Tables,
}

/// Hardware for nested translation, from guest-physical to physical addresses (gPA→hPA).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VirtualizationConfig {
    /// A separate TLB of guest-physical addresses. If `None`, gPA→hPA entries share the
    /// second-level TLB. With 0 entries, they are not cached.
    pub nested_tlb: Option<TlbGeometry>,
    /// Page-walk caches for the host's tables. If `None`, they have the sizes of
    /// [`MmuConfig::walk_cache`].
    pub host_walk_cache: Option<WalkCacheConfig>,
    /// True if the second-level TLB holds a guest's large page over 4KB host pages as one entry,
    /// from guest-virtual to guest-physical addresses (P §V). Otherwise it holds one entry per 4KB
    /// page, as x86-64 processors do. Has an effect only if gPA→hPA entries are cached.
    pub intermediate_entries: bool,
    /// Guest-physical pages for which gPA→hPA entries are cached.
    pub nested_entries: NestedEntries,
    /// True if a TLB entry with holes also contains the guest frame of the 2MB page. Otherwise the
    /// walker reads the guest's page-directory entry again to find the guest's bitmap and holes. P
    /// §V does not say what the hardware does.
    pub guest_blocks_in_entries: bool,
}

/// Configuration of a memory-management unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MmuConfig {
    /// TLBs of each core.
    pub tlb: TlbConfig,
    /// Page-walk caches of each core.
    pub walk_cache: WalkCacheConfig,
    /// Hardware for nested translation.
    pub virtualization: VirtualizationConfig,
}

/// Error of a configured TLB or walk cache that no hardware can have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// The coalescing window has a size that no entry can hold.
    #[error(
        "tlb.l2_coalescing: windows of {pages} pages; a power of two from 2 to {} is possible, and \
         {CONTIGUOUS_PAGES} with a contiguous bit or NAPOT entries",
        Coalescing::MAXIMUM_PAGES
    )]
    Coalescing {
        /// Configured number of pages in a coalescing window.
        pages: u64,
    },
    /// The first level cannot hold entries of pages that the second level does not coalesce, or
    /// coalesces in runs of any length.
    #[error(
        "tlb.l1_coalescing: the first level holds whole windows only; tlb.l2_coalescing must be \
         there, with another form than \"runs\""
    )]
    FirstLevelCoalescing,
    /// The number of sets of a TLB is not a power of two, or the TLB has no entries.
    #[error(
        "{key}: {entries} entries in {ways} ways is no TLB; entries must be ways × a power of two"
    )]
    Geometry {
        /// Key of the TLB in the machine file.
        key: &'static str,
        /// Configured number of entries.
        entries: usize,
        /// Configured associativity of the TLB.
        ways: usize,
    },
    /// The second-level TLB does not have the configured ways.
    #[error("{key}: ways {asked} of {ways}; expected ways from 1 to {ways}, such as \"1-{ways}\"")]
    Ways {
        /// Key of the page size's ways in the machine file.
        key: &'static str,
        /// Ways that the machine file names for this page size.
        asked: Ways,
        /// Associativity of the second-level TLB.
        ways: usize,
    },
    /// No ways of the second-level TLB are for 4KB pages.
    #[error(
        "tlb.l2_4k: 4KB entries need one way at least; expected \"all\" or ways such as \"1-8\""
    )]
    NoSmallEntries,
    /// A walk cache has more than 4,096 entries.
    #[error(
        "{section}.{key}: {entries} entries; at most {} are possible",
        WalkCacheConfig::MAXIMUM
    )]
    WalkCache {
        /// Section of the machine file that configures the walk cache.
        section: &'static str,
        /// Key of the walk cache in that section.
        key: &'static str,
        /// Configured number of entries.
        entries: usize,
    },
    /// The entries of a walk cache cannot be divided into sets.
    #[error(
        "{section}.level{level}_ways: {entries} entries in {ways} ways is no cache; \
         level{level}_entries must be ways × a power of two"
    )]
    WalkCacheWays {
        /// Section of the machine file that configures the walk cache.
        section: &'static str,
        /// Level of the page-table entries that the walk cache holds.
        level: u8,
        /// Configured number of entries.
        entries: usize,
        /// Configured associativity of the walk cache.
        ways: usize,
    },
}

impl TlbGeometry {
    /// Maximum number of entries of a TLB.
    const MAXIMUM: usize = 1 << 24;

    /// Number of sets in the TLB or cache.
    pub const fn sets(self) -> usize {
        self.entries / self.ways
    }

    fn validate(self, key: &'static str) -> Result<(), ConfigError> {
        let Self { entries, ways } = self;
        let possible = ways > 0
            && entries > 0
            && entries <= Self::MAXIMUM
            && entries % ways == 0
            && (entries / ways).is_power_of_two();
        if possible { Ok(()) } else { Err(ConfigError::Geometry { key, entries, ways }) }
    }
}

impl TlbConfig {
    /// Number of entries of the second-level TLB that can hold pages of `size`.
    pub fn l2_entries(&self, size: PageSize) -> usize {
        match size {
            PageSize::Size4K => L2Part::Ways(self.l2_4k).entries(self.l2),
            PageSize::Size2M => self.l2_2m.entries(self.l2),
            PageSize::Size1G => self.l2_1g.entries(self.l2),
        }
    }

    /// Number of pages of a window that the first level holds as one entry; 0 if it holds 4KB pages
    /// one by one.
    pub(crate) fn l1_window(&self) -> u64 {
        self.l2_coalescing.filter(|_| self.l1_coalescing).map_or(0, |coalescing| coalescing.pages)
    }

    /// Checks that the second-level TLB has the ways configured for each page size.
    fn validate_ways(&self) -> Result<(), ConfigError> {
        let all = [
            ("tlb.l2_4k", self.l2_4k),
            ("tlb.l2_2m", self.l2_2m.ways()),
            ("tlb.l2_1g", self.l2_1g.ways()),
        ];
        let ways = self.l2.ways;
        match all.into_iter().find(|(_, asked)| !asked.are_in(ways)) {
            Some((key, asked)) => Err(ConfigError::Ways { key, asked, ways }),
            None if self.l2_4k == Ways::None => Err(ConfigError::NoSmallEntries),
            None => Ok(()),
        }
    }
}

impl WalkCacheConfig {
    /// No walk caches: every walk starts at the root.
    pub const NONE: Self = Self::fully_associative(0, 0, 0);

    /// Fully associative caches of this many level-4, level-3 and level-2 entries.
    pub const fn fully_associative(level4: usize, level3: usize, level2: usize) -> Self {
        Self {
            level4_entries: level4,
            level3_entries: level3,
            level2_entries: level2,
            level4_ways: None,
            level3_ways: None,
            level2_ways: None,
        }
    }

    /// Maximum number of entries of one level's walk cache.
    const MAXIMUM: usize = 4096;

    fn validate(&self, section: &'static str) -> Result<(), ConfigError> {
        let keys = [(4, "level4_entries"), (3, "level3_entries"), (2, "level2_entries")];
        for (level, key) in keys {
            let TlbGeometry { entries, ways } = self.geometry(level);
            if entries > Self::MAXIMUM {
                return Err(ConfigError::WalkCache { section, key, entries });
            }
            let in_sets = |ways: usize| entries % ways == 0 && (entries / ways).is_power_of_two();
            if entries > 0 && (ways == 0 || !in_sets(ways)) {
                return Err(ConfigError::WalkCacheWays { section, level, entries, ways });
            }
        }
        Ok(())
    }

    /// Geometry of the walk cache for entries of `level` (4, 3 or 2); 0 entries if there is no such
    /// cache.
    pub(crate) fn geometry(&self, level: u8) -> TlbGeometry {
        let (entries, ways) = match level {
            4 => (self.level4_entries, self.level4_ways),
            3 => (self.level3_entries, self.level3_ways),
            _ => (self.level2_entries, self.level2_ways),
        };
        TlbGeometry { entries, ways: ways.unwrap_or(entries) }
    }
}

impl VirtualizationConfig {
    fn validate(&self) -> Result<(), ConfigError> {
        if let Some(caches) = &self.host_walk_cache {
            caches.validate("virtualization.host_walk_cache")?;
        }
        let nested = self.nested_tlb.filter(|geometry| geometry.entries > 0);
        nested.map_or(Ok(()), |geometry| geometry.validate("virtualization.nested_tlb"))
    }
}

impl MmuConfig {
    /// A minimal configuration for tests and examples, with these two levels of TLBs, both tagged.
    /// The first level (data and code) holds 4KB entries only, the second level 4KB and 2MB
    /// entries. There are no walk caches.
    pub fn plain(l1: TlbGeometry, l2: TlbGeometry) -> Self {
        let tlb = TlbConfig {
            tagged: true,
            l1_data_4k: l1,
            l1_data_2m: None,
            l1_data_1g: None,
            l1_instruction_4k: l1,
            l1_instruction_2m: None,
            l2,
            l2_4k: Ways::All,
            l2_2m: L2Part::ALL,
            l2_1g: L2Part::NONE,
            beside_entries: range_tlb_entries(),
            gap_tolerant: None,
            l2_coalescing: None,
            l1_coalescing: false,
            shadow_reads: ShadowReads::WhenNeeded,
            bitmap_updates: BitmapUpdates::Invalidate,
        };
        let virtualization = VirtualizationConfig::default();
        Self { tlb, walk_cache: WalkCacheConfig::NONE, virtualization }
    }

    /// Checks that hardware with these geometries can exist.
    ///
    /// # Errors
    /// [`ConfigError`] for the first key with an impossible value.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let tlb = &self.tlb;
        tlb.l1_data_4k.validate("tlb.l1_data_4k")?;
        tlb.l1_instruction_4k.validate("tlb.l1_instruction_4k")?;
        tlb.l2.validate("tlb.l2")?;
        for (key, geometry) in [
            ("tlb.l1_data_2m", tlb.l1_data_2m),
            ("tlb.l1_data_1g", tlb.l1_data_1g),
            ("tlb.l1_instruction_2m", tlb.l1_instruction_2m),
            ("tlb.l2_2m", tlb.l2_2m.own()),
            ("tlb.l2_1g", tlb.l2_1g.own()),
            ("tlb.gap_tolerant", tlb.gap_tolerant),
        ] {
            geometry.map_or(Ok(()), |geometry| geometry.validate(key))?;
        }
        tlb.validate_ways()?;
        if let Some(coalescing) = tlb.l2_coalescing.filter(|coalescing| !coalescing.is_possible()) {
            return Err(ConfigError::Coalescing { pages: coalescing.pages });
        }
        if tlb.l1_coalescing && !tlb.l2_coalescing.is_some_and(Coalescing::is_whole) {
            return Err(ConfigError::FirstLevelCoalescing);
        }
        self.walk_cache.validate("walk_cache")?;
        self.virtualization.validate()
    }

    /// Geometry of the first-level TLB by page size, for code if `instruction`, otherwise for data.
    pub(crate) fn l1(&self, instruction: bool) -> (TlbGeometry, [Option<TlbGeometry>; 2]) {
        let tlb = &self.tlb;
        if instruction {
            (tlb.l1_instruction_4k, [tlb.l1_instruction_2m, None])
        } else {
            (tlb.l1_data_4k, [tlb.l1_data_2m, tlb.l1_data_1g])
        }
    }
}
