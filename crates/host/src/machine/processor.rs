//! Identity, TLBs and caches of the processor, from the CPUID instruction.

use raw_cpuid::{Associativity, CacheType, CpuId, CpuIdReader, DatInfo, DatType};

/// A processor as it describes itself. Sizes that it does not report are absent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Processor {
    /// Vendor, such as `AuthenticAMD`; empty if unknown.
    pub vendor: String,
    /// Family, extended family included.
    pub family: u32,
    /// Model, extended model included.
    pub model: u32,
    /// Marketing name; empty if unknown.
    pub name: String,
    /// True in a virtual machine that says so (the CPUID bit `hypervisor`).
    pub is_virtual: bool,
    /// Entries of the first-level TLB for data in 4KB pages.
    pub l1_tlb_entries: Option<u64>,
    /// Entries of the second-level TLB for data in 4KB pages.
    pub l2_tlb_entries: Option<u64>,
    /// Size of the first-level data cache.
    pub l1_cache_bytes: Option<u64>,
    /// Size of the second-level cache.
    pub l2_cache_bytes: Option<u64>,
    /// Size of the third-level cache.
    pub l3_cache_bytes: Option<u64>,
}

impl Processor {
    /// The processor that this process runs on.
    #[cfg(target_arch = "x86_64")]
    pub fn own() -> Self {
        Self::read(&CpuId::new())
    }

    /// The processor that this process runs on, about which nothing is known.
    #[cfg(not(target_arch = "x86_64"))]
    pub fn own() -> Self {
        Self::default()
    }

    fn read<R: CpuIdReader>(cpuid: &CpuId<R>) -> Self {
        let vendor = cpuid.get_vendor_info().map(|vendor| vendor.as_str().to_owned());
        let name = cpuid.get_processor_brand_string();
        let name = name.map(|name| name.as_str().trim().replace(char::is_control, ""));
        let features = cpuid.get_feature_info();
        let features = features.as_ref();
        Self {
            vendor: vendor.unwrap_or_default(),
            family: features.map_or(0, |features| features.family_id().into()),
            model: features.map_or(0, |features| features.model_id().into()),
            name: name.unwrap_or_default(),
            is_virtual: features.is_some_and(|features| features.has_hypervisor()),
            l1_tlb_entries: tlb_entries(cpuid, 1),
            l2_tlb_entries: tlb_entries(cpuid, 2),
            l1_cache_bytes: cache_bytes(cpuid, 1),
            l2_cache_bytes: cache_bytes(cpuid, 2),
            l3_cache_bytes: cache_bytes(cpuid, 3),
        }
    }
}

/// Entries of a TLB for data in 4KB pages: leaves 8000_0005 and 8000_0006 of AMD (where a size
/// without associativity is disabled), else leaf 18H of Intel.
fn tlb_entries<R: CpuIdReader>(cpuid: &CpuId<R>, level: u8) -> Option<u64> {
    let amd = match (level, cpuid.get_l1_cache_and_tlb_info()) {
        (1, Some(first)) => Some(first.dtlb_4k_size().into()),
        (2, Some(_)) => cpuid
            .get_l2_l3_cache_and_tlb_info()
            .filter(|second| second.dtlb_4k_associativity() != Associativity::Disabled)
            .map(|second| second.dtlb_4k_size().into()),
        _ => None,
    };
    let holds_data = |tlb: &DatInfo| {
        let kinds = [DatType::DataTLB, DatType::UnifiedTLB, DatType::LoadOnly];
        tlb.cache_level() == level && tlb.has_4k_entries() && kinds.contains(&tlb.cache_type())
    };
    let intel = || {
        let tlb = cpuid.get_deterministic_address_translation_info()?.find(holds_data)?;
        Some(u64::from(tlb.ways()) * u64::from(tlb.sets()))
    };
    amd.or_else(intel).filter(|entries| *entries > 0)
}

/// Size of the cache of this level that holds data: leaf 4 of Intel, leaf 8000_001D of AMD.
fn cache_bytes<R: CpuIdReader>(cpuid: &CpuId<R>, level: u8) -> Option<u64> {
    let holds_data = |kind| matches!(kind, CacheType::Data | CacheType::Unified);
    let mut caches = cpuid.get_cache_parameters()?;
    let cache = caches.find(|cache| cache.level() == level && holds_data(cache.cache_type()))?;
    let lines = cache.associativity() * cache.physical_line_partitions() * cache.sets();
    Some((lines * cache.coherency_line_size()) as u64)
}

#[cfg(test)]
mod tests {
    use raw_cpuid::CpuIdResult;

    use super::*;

    type Leaf = ((u32, u32), [u32; 4]);

    /// A processor that answers with these registers, and with zeros for all other leaves.
    fn processor(vendor: &[u8; 12], leaves: &[Leaf]) -> Processor {
        let word = |at: usize| u32::from_le_bytes(vendor[at..at + 4].try_into().unwrap());
        let (vendor, leaves) = ([word(0), word(4), word(8)], leaves.to_vec());
        Processor::read(&CpuId::with_cpuid_fn(move |leaf, subleaf| {
            let known = leaves.iter().find(|(place, _)| *place == (leaf, subleaf));
            let [eax, ebx, ecx, edx] = match leaf {
                0 => [0x1f, vendor[0], vendor[2], vendor[1]],
                0x8000_0000 => [0x8000_001f, 0, 0, 0],
                _ => known.map_or([0; 4], |(_, registers)| *registers),
            };
            CpuIdResult { eax, ebx, ecx, edx }
        }))
    }

    /// A Zen 4 server: 72 and 3072 entries for 4KB pages; family 19H, model 11H, in a virtual machine.
    #[test]
    fn leaves_of_amd() {
        let leaves = [
            ((1, 0), [0x00a1_0f11, 0, 1 << 31, 0]),
            ((0x8000_0005, 0), [0xff48_ff40, 0xff48_ff40, 0x2008_0140, 0x2008_0140]),
            ((0x8000_0006, 0), [0x5c00_2200, 0x6c00_4200, 0x0400_6140, 0x0a00_9140]),
            // L1 data: 8 ways of 64 sets of 64 bytes; L2: 8 × 2048 × 64.
            ((0x8000_001d, 0), [1 | 1 << 5, 7 << 22 | 63, 63, 0]),
            ((0x8000_001d, 1), [2 | 1 << 5, 7 << 22 | 63, 127, 0]),
            ((0x8000_001d, 2), [3 | 2 << 5, 7 << 22 | 63, 2047, 0]),
        ];
        let found = processor(b"AuthenticAMD", &leaves);
        let identity = (found.vendor.as_str(), found.family, found.model, found.is_virtual);
        assert_eq!(identity, ("AuthenticAMD", 25, 17, true));
        assert_eq!((found.l1_tlb_entries, found.l2_tlb_entries), (Some(72), Some(3072)));
        let caches = (found.l1_cache_bytes, found.l2_cache_bytes, found.l3_cache_bytes);
        assert_eq!(caches, (Some(32 << 10), Some(1 << 20), None));
        let disabled = processor(b"AuthenticAMD", &[((0x8000_0006, 0), [0, 0x0c00_0200, 0, 0])]);
        assert_eq!((disabled.l1_tlb_entries, disabled.l2_tlb_entries), (None, None));
    }

    /// A first level of 4 × 16 entries, and a second one of 16 × 128 for 4KB and 2MB pages.
    #[test]
    fn leaves_of_intel() {
        let leaves = [
            ((0x18, 0), [3, 0, 0, 0]),
            ((0x18, 1), [0, 8 << 16 | 1, 16, 1 << 5 | 2]),
            ((0x18, 2), [0, 4 << 16 | 1, 16, 1 << 5 | 1]),
            ((0x18, 3), [0, 16 << 16 | 3, 128, 2 << 5 | 3]),
        ];
        let found = processor(b"GenuineIntel", &leaves);
        assert_eq!((found.l1_tlb_entries, found.l2_tlb_entries), (Some(64), Some(2048)));
        let absurd = [((0x18, 0), [0, 0xffff << 16 | 1, u32::MAX, 1 << 5 | 1])];
        assert!(processor(b"GenuineIntel", &absurd).l1_tlb_entries.is_some());
    }
}
