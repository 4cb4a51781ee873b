//! TLBs and caches that the processor reports in CPUID, under the keys of machine files.

use raw_cpuid::{Associativity, CacheType, CpuId, CpuIdReader, CpuIdResult, DatInfo, DatType};

/// TLB or cache as the processor reports it in CPUID.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stated {
    /// Section of the TLB or cache in machine files, such as `tlb.l2` or `cache.l1d`.
    pub section: &'static str,
    /// Number of entries of a TLB, or bytes of a cache.
    pub size: u64,
    /// Number of ways; `None` if the processor reports only a range.
    pub ways: Option<u64>,
    /// CPUID leaf that reports the size.
    pub source: &'static str,
}

impl Stated {
    /// Name of the key for the size in the machine file's section.
    pub fn size_name(&self) -> &'static str {
        if self.section.starts_with("tlb.") { "entries" } else { "size_bytes" }
    }
}

/// Part of the L2 TLB that can hold pages of one size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatedPart {
    /// Key of the part in machine files, `tlb.l2_2m` or `tlb.l2_1g`.
    pub key: &'static str,
    /// Value of the key: a number of the ways of `tlb.l2`, or a separate array.
    pub value: String,
    /// CPUID leaf that reports the value.
    pub source: &'static str,
}

/// Returns the parts of the L2 TLB that can hold 2MB and 1GB pages; empty if the processor does not
/// report its TLBs.
pub(super) fn l2_parts<R: CpuIdReader>(reader: &R, stated: &[Stated]) -> Vec<StatedPart> {
    let Some(l2) = stated.iter().find(|one| one.section == "tlb.l2") else { return Vec::new() };
    let source = l2.source;
    let [large, huge] = match source {
        "18H" => parts_of_leaf_18(&CpuId::with_cpuid_reader(reader.clone())),
        // Of leaf 2's descriptors, only the one of 512 entries is for 4KB pages alone.
        "2" => [if l2.size == 512 { "none" } else { "all" }, "none"].map(String::from),
        // AMD's array takes 4KB and 2MB pages.
        _ => ["all", "none"].map(String::from),
    };
    [("tlb.l2_2m", large), ("tlb.l2_1g", huge)]
        .into_iter()
        .filter(|(key, _)| !stated.iter().any(|one| one.section == *key))
        .map(|(key, value)| StatedPart { key, value, source })
        .collect()
}

/// Returns the TLBs and caches that the processor reports; empty if a hypervisor hides them.
pub(super) fn stated<R: CpuIdReader>(reader: &R) -> Vec<Stated> {
    let cpuid = &CpuId::with_cpuid_reader(reader.clone());
    let tlbs = [tlbs_of_amd(reader), tlbs_of_leaf_18(cpuid), tlbs_of_leaf_2(reader)];
    let caches = [caches_by_parameters(cpuid), caches_of_amd(cpuid)];
    let first = |lists: &[Vec<Stated>]| lists.iter().find(|list| !list.is_empty()).cloned();
    let found = first(&tlbs).into_iter().chain(first(&caches));
    let mut found: Vec<Stated> = found.flatten().collect();
    found.retain(|one| one.size > 0);
    found
}

/// Unit in which AMD's leaves count entries of the L2 TLB: 32 from Zen 5 on, whose 4096 entries do
/// not fit into the field (leaf 8000_0021, bit 14 of EAX).
fn l2_tlb_unit<R: CpuIdReader>(reader: &R) -> u64 {
    const LEAF: u32 = 0x8000_0021;
    let is_32 = reader.cpuid1(0x8000_0000).eax >= LEAF && reader.cpuid1(LEAF).eax >> 14 & 1 == 1;
    if is_32 { 32 } else { 1 }
}

/// Decodes the TLBs in AMD's leaves 8000_0005, 8000_0006 and 8000_0019, which report the L2 TLB's
/// ways as ranges.
fn tlbs_of_amd<R: CpuIdReader>(reader: &R) -> Vec<Stated> {
    let cpuid = &CpuId::with_cpuid_reader(reader.clone());
    let unit = l2_tlb_unit(reader);
    let Some(first) = cpuid.get_l1_cache_and_tlb_info() else { return Vec::new() };
    let l1 = |section, entries: u8, ways| amd(section, entries.into(), ways, "8000_0005");
    let mut found = vec![
        l1("tlb.l1_data_4k", first.dtlb_4k_size(), first.dtlb_4k_associativity()),
        l1("tlb.l1_data_2m", first.dtlb_2m_4m_size(), first.dtlb_2m_4m_associativity()),
        l1("tlb.l1_instruction_4k", first.itlb_4k_size(), first.itlb_4k_associativity()),
        l1("tlb.l1_instruction_2m", first.itlb_2m_4m_size(), first.itlb_2m_4m_associativity()),
    ];
    if let Some(second) = cpuid.get_l2_l3_cache_and_tlb_info() {
        let entries = u64::from(second.dtlb_4k_size()) * unit;
        found.push(amd("tlb.l2", entries, second.dtlb_4k_associativity(), "8000_0006"));
    }
    if let Some(large) = cpuid.get_tlb_1gb_page_info() {
        let entries = large.dtlb_l1_1gb_size().into();
        found.push(amd("tlb.l1_data_1g", entries, large.dtlb_l1_1gb_associativity(), "8000_0019"));
        let entries = u64::from(large.dtlb_l2_1gb_size()) * unit;
        found.push(amd("tlb.l2_1g", entries, large.dtlb_l2_1gb_associativity(), "8000_0019"));
    }
    found
}

fn amd(
    section: &'static str,
    size: u64,
    associativity: Associativity,
    source: &'static str,
) -> Stated {
    // A disabled TLB still reports a size.
    let size = if associativity == Associativity::Disabled { 0 } else { size };
    let ways = match associativity {
        Associativity::FullyAssociative => Some(size),
        Associativity::DirectMapped => Some(1),
        Associativity::NWay(ways) if source == "8000_0005" => Some(ways.into()),
        _ => None,
    };
    Stated { section, size, ways, source }
}

/// Rule that selects the TLB structures in CPUID leaf 18H that together form one TLB of a machine file.
struct Kind {
    section: &'static str,
    level: u8,
    types: &'static [DatType],
    holds: fn(&DatInfo) -> bool,
}

/// Types of data TLBs in leaf 18H. Newer processors have a TLB for loads only; their small TLB for
/// stores is left out.
const DATA: &[DatType] = &[DatType::DataTLB, DatType::UnifiedTLB, DatType::LoadOnly];
const INSTRUCTIONS: &[DatType] = &[DatType::InstructionTLB, DatType::UnifiedTLB];

const KINDS: [Kind; 6] = [
    kind("tlb.l1_data_4k", 1, DATA, DatInfo::has_4k_entries),
    kind("tlb.l1_data_2m", 1, DATA, DatInfo::has_2mb_entries),
    kind("tlb.l1_data_1g", 1, DATA, DatInfo::has_1gb_entries),
    kind("tlb.l1_instruction_4k", 1, INSTRUCTIONS, DatInfo::has_4k_entries),
    kind("tlb.l1_instruction_2m", 1, INSTRUCTIONS, DatInfo::has_2mb_entries),
    kind("tlb.l2", 2, DATA, DatInfo::has_4k_entries),
];

const fn kind(
    section: &'static str,
    level: u8,
    types: &'static [DatType],
    holds: fn(&DatInfo) -> bool,
) -> Kind {
    Kind { section, level, types, holds }
}

/// Decodes the TLBs in Intel's leaf 18H. Structures for the same pages are combined into one TLB,
/// such as the halves of the L2 TLB for 4KB and 2MB pages and for 4KB and 1GB pages.
fn tlbs_of_leaf_18<R: CpuIdReader>(cpuid: &CpuId<R>) -> Vec<Stated> {
    let tlb = |kind: &Kind| {
        let is_wanted = |info: &DatInfo| {
            let is_of_type = kind.types.contains(&info.cache_type());
            info.cache_level() == kind.level && is_of_type && (kind.holds)(info)
        };
        let (mut size, mut ways) = (0, 0);
        for info in cpuid.get_deterministic_address_translation_info()?.filter(is_wanted) {
            size += u64::from(info.ways()) * u64::from(info.sets());
            ways += u64::from(info.ways());
        }
        let Kind { section, .. } = *kind;
        Some(Stated { section, size, ways: Some(ways), source: "18H" }).filter(|tlb| tlb.size > 0)
    };
    KINDS.iter().filter_map(tlb).collect()
}

/// Returns the L2 TLB's parts for 2MB and 1GB pages in leaf 18H. Structures that also hold 4KB
/// pages become ways of one array; a structure for large pages only becomes a separate array.
fn parts_of_leaf_18<R: CpuIdReader>(cpuid: &CpuId<R>) -> [String; 2] {
    let infos = cpuid.get_deterministic_address_translation_info().into_iter().flatten();
    let is_l2 = |info: &DatInfo| info.cache_level() == 2 && DATA.contains(&info.cache_type());
    let (shared, apart): (Vec<DatInfo>, Vec<DatInfo>) =
        infos.filter(is_l2).partition(DatInfo::has_4k_entries);
    let part = |holds: fn(&DatInfo) -> bool| {
        let (mut taken, mut before, mut runs) = (0_u64, 0_u64, Vec::new());
        for info in &shared {
            let ways = u64::from(info.ways());
            if holds(info) {
                taken += 1;
                runs.push(before + 1..=before + ways);
            }
            before += ways;
        }
        let is_in_order = runs.windows(2).all(|pair| pair[0].end() + 1 == *pair[1].start());
        match (runs.first(), runs.last(), apart.iter().find(|info| holds(info))) {
            (None, _, Some(own)) => {
                let (ways, sets) = (u64::from(own.ways()), u64::from(own.sets()));
                format!("{{ entries = {}, ways = {ways} }}", ways * sets)
            }
            (None, ..) => "none".into(),
            (Some(first), Some(last), _) if taken < shared.len() as u64 && is_in_order => {
                format!("{}-{}", first.start(), last.end())
            }
            _ => "all".into(),
        }
    };
    [part(DatInfo::has_2mb_entries), part(DatInfo::has_1gb_entries)]
}

/// Descriptors of leaf 2 that describe TLBs: byte, section, entries and ways (Intel SDM, volume 2A,
/// CPUID, "Encoding of CPUID Leaf 2 Descriptors"). Covers processors from Nehalem to Skylake.
const DESCRIPTORS: &[(u8, &str, u64, u64)] = &[
    (0x03, "tlb.l1_data_4k", 64, 4),
    (0x55, "tlb.l1_instruction_2m", 7, 7),
    (0x5a, "tlb.l1_data_2m", 32, 4),
    (0x63, "tlb.l1_data_2m", 32, 4),
    (0x63, "tlb.l1_data_1g", 4, 4),
    (0x76, "tlb.l1_instruction_2m", 8, 8),
    (0xb2, "tlb.l1_instruction_4k", 64, 4),
    (0xb5, "tlb.l1_instruction_4k", 64, 8),
    (0xb6, "tlb.l1_instruction_4k", 128, 8),
    (0xc1, "tlb.l2", 1024, 8),
    (0xc3, "tlb.l2", 1536, 6),
    (0xc3, "tlb.l2_1g", 16, 4),
    (0xca, "tlb.l2", 512, 4),
];

/// Decodes the TLBs in Intel's leaf 2 directly: `raw_cpuid` stops at unknown descriptors, such as
/// Skylake's C3H.
fn tlbs_of_leaf_2<R: CpuIdReader>(reader: &R) -> Vec<Stated> {
    const LEAF: u32 = 2;
    if reader.cpuid1(0).eax < LEAF {
        return Vec::new();
    }
    let CpuIdResult { eax, ebx, ecx, edx } = reader.cpuid1(LEAF);
    // The lowest byte is not a descriptor, and a register with its highest bit set has no descriptors.
    let registers = [eax & !0xff, ebx, ecx, edx].into_iter().filter(|register| register >> 31 == 0);
    let numbers: Vec<u8> = registers.flat_map(u32::to_le_bytes).collect();
    let known = DESCRIPTORS.iter().filter(|(number, ..)| numbers.contains(number));
    let tlb = |&(_, section, size, ways): &(u8, &'static str, u64, u64)| Stated {
        section,
        size,
        ways: Some(ways),
        source: "2",
    };
    known.map(tlb).collect()
}

/// Decodes the caches in the parameters of leaf 4 (Intel) or leaf 8000_001D (AMD).
fn caches_by_parameters<R: CpuIdReader>(cpuid: &CpuId<R>) -> Vec<Stated> {
    let Some(caches) = cpuid.get_cache_parameters() else { return Vec::new() };
    let is_amd = cpuid.get_vendor_info().is_some_and(|vendor| vendor.as_str() == "AuthenticAMD");
    let source = if is_amd { "8000_001D" } else { "4" };
    let cache = |cache: raw_cpuid::CacheParameter| {
        let section = match (cache.level(), cache.cache_type()) {
            (1, CacheType::Instruction) => "cache.l1i",
            (1, CacheType::Data) => "cache.l1d",
            (2, CacheType::Data | CacheType::Unified) => "cache.l2",
            (3, CacheType::Data | CacheType::Unified) => "cache.llc",
            _ => return None,
        };
        let ways = cache.associativity() as u64;
        let lines = ways * (cache.physical_line_partitions() * cache.sets()) as u64;
        let size = lines * cache.coherency_line_size() as u64;
        Some(Stated { section, size, ways: Some(ways), source })
    };
    caches.filter_map(cache).collect()
}

/// Decodes the caches in AMD's leaves 8000_0005 and 8000_0006, if leaf 8000_001D is hidden. The
/// size of the last level is reported as a range, so it is left out.
fn caches_of_amd<R: CpuIdReader>(cpuid: &CpuId<R>) -> Vec<Stated> {
    let Some(first) = cpuid.get_l1_cache_and_tlb_info() else { return Vec::new() };
    let l1 =
        |section, kilobytes: u8, ways| amd(section, u64::from(kilobytes) << 10, ways, "8000_0005");
    let mut found = vec![
        l1("cache.l1d", first.dcache_size(), first.dcache_associativity()),
        l1("cache.l1i", first.icache_size(), first.icache_associativity()),
    ];
    if let Some(second) = cpuid.get_l2_l3_cache_and_tlb_info() {
        let size = u64::from(second.l2cache_size()) << 10;
        found.push(amd("cache.l2", size, second.l2cache_associativity(), "8000_0006"));
    }
    found
}
