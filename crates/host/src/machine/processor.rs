//! Identity, TLBs and caches of the processor, from the CPUID instruction; identity of an Arm
//! processor from Linux' `/proc/cpuinfo`.

#[cfg(not(target_arch = "x86_64"))]
use perforate_record::process_memory::read_text;
use raw_cpuid::{CpuId, CpuIdReader};

use super::hypervisor::Hypervisor;
use super::stated::{Stated, StatedPart, l2_parts, stated};

/// Description of a processor by CPUID, or of an Arm processor by `/proc/cpuinfo`. Sizes that the processor does not report are absent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Processor {
    /// Vendor, such as `AuthenticAMD`, or implementer of an Arm processor, such as `0x41`; empty if
    /// unknown.
    pub vendor: String,
    /// Family of the processor, including the extended family; architecture of an Arm processor.
    pub family: u32,
    /// Model of the processor, including the extended model; part of an Arm processor.
    pub model: u32,
    /// Stepping of the processor.
    pub stepping: u32,
    /// Marketing name of the processor; empty if unknown.
    pub name: String,
    /// Hypervisor under the processor, if it reports one.
    pub hypervisor: Hypervisor,
    /// TLBs and caches that the processor reports.
    pub stated: Vec<Stated>,
    /// Parts of the L2 TLB that can hold 2MB and 1GB pages, as the processor reports them.
    pub l2_parts: Vec<StatedPart>,
    /// True if the processor supports 1GB pages; absent if it does not report this.
    pub has_1g_pages: Option<bool>,
}

impl Processor {
    /// Describes the processor that runs this process. Without CPUID, identity and hypervisor are
    /// read from the kernel's files, and sizes are absent.
    pub fn own() -> Self {
        #[cfg(target_arch = "x86_64")]
        let mut own = Self::read(&raw_cpuid::native_cpuid::cpuid_count);
        #[cfg(not(target_arch = "x86_64"))]
        let mut own = Self::of_cpuinfo(&read_text("/proc/cpuinfo").unwrap_or_default());
        if own.hypervisor == Hypervisor::Unknown {
            own.hypervisor = Hypervisor::of_files(std::path::Path::new("/"));
        }
        own
    }

    /// Entries of a TLB or bytes of a cache, by its section in machine files, as the processor reports them; `None`
    /// if it does not.
    pub fn size(&self, section: &str) -> Option<u64> {
        self.stated.iter().find(|one| one.section == section).map(|one| one.size)
    }

    /// True in a virtual machine that reports a hypervisor.
    pub fn is_virtual(&self) -> bool {
        self.hypervisor.is_present()
    }

    /// True for an Arm processor, which its implementer's number identifies.
    pub(super) fn is_arm(&self) -> bool {
        self.vendor.starts_with("0x")
    }

    /// Vendor, family, model and stepping of the processor as text.
    pub fn identity(&self) -> String {
        let Self { vendor, family, model, stepping, .. } = self;
        if vendor.is_empty() {
            return "a processor that says nothing of itself (no CPUID)".into();
        }
        if self.is_arm() {
            return format!("implementer {vendor}, part {model:#x}");
        }
        format!("{vendor:?} family {family} model {model} stepping {stepping}")
    }

    /// Value of the key `processors` in a machine file for this processor only.
    pub(crate) fn listed(&self) -> String {
        let Self { vendor, family, model, stepping, .. } = self;
        format!(
            "[{{ vendor = {vendor:?}, family = {family}, models = [{model}], \
             steppings = [{stepping}] }}]"
        )
    }

    /// Identifies an Arm processor by the text of `/proc/cpuinfo`. Of several kinds of cores, the
    /// first is taken; without the numbers of an Arm processor, the result is empty.
    #[cfg(any(test, not(target_arch = "x86_64")))]
    fn of_cpuinfo(text: &str) -> Self {
        let value = |key: &str| {
            let pairs = text.lines().filter_map(|line| line.split_once(':'));
            pairs.map(|(name, value)| (name.trim(), value.trim())).find(|(name, _)| *name == key)
        };
        let number = |key: &str| {
            let (_, text) = value(key)?;
            match text.strip_prefix("0x") {
                Some(digits) => u32::from_str_radix(digits, 16).ok(),
                None => text.parse().ok(),
            }
        };
        let numbers = ["CPU implementer", "CPU architecture", "CPU part"].map(number);
        let [Some(implementer), Some(family), Some(model)] = numbers else {
            return Self::default();
        };
        let found =
            Self { vendor: format!("{implementer:#04x}"), family, model, ..Self::default() };
        Self { name: format!("Arm processor, {}", found.identity()), ..found }
    }

    fn read<R: CpuIdReader>(reader: &R) -> Self {
        let cpuid = CpuId::with_cpuid_reader(reader.clone());
        let vendor = cpuid.get_vendor_info().map(|vendor| vendor.as_str().to_owned());
        let name = cpuid.get_processor_brand_string();
        let name = name.map(|name| name.as_str().trim().replace(char::is_control, ""));
        let features = cpuid.get_feature_info();
        let features = features.as_ref();
        let extended = cpuid.get_extended_processor_and_feature_identifiers();
        let stated = stated(reader);
        Self {
            vendor: vendor.unwrap_or_default(),
            family: features.map_or(0, |features| features.family_id().into()),
            model: features.map_or(0, |features| features.model_id().into()),
            stepping: features.map_or(0, |features| features.stepping_id().into()),
            name: name.unwrap_or_default(),
            hypervisor: Hypervisor::of_cpuid(reader),
            has_1g_pages: extended.map(|extended| extended.has_1gib_pages()),
            l2_parts: l2_parts(reader, &stated),
            stated,
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use raw_cpuid::CpuIdResult;

    use super::*;

    pub type Leaf = ((u32, u32), [u32; 4]);

    /// Creates a processor with these CPUID values; all other leaves are zero.
    pub fn processor(vendor: &[u8; 12], leaves: &[Leaf]) -> Processor {
        let word = |at: usize| u32::from_le_bytes(vendor[at..at + 4].try_into().unwrap());
        let (vendor, leaves) = ([word(0), word(4), word(8)], leaves.to_vec());
        Processor::read(&move |leaf: u32, subleaf: u32| {
            let known = leaves.iter().find(|(place, _)| *place == (leaf, subleaf));
            let [eax, ebx, ecx, edx] = match leaf {
                0 => [0x1f, vendor[0], vendor[2], vendor[1]],
                0x8000_0000 => [0x8000_0021, 0, 0, 0],
                _ => known.map_or([0; 4], |(_, registers)| *registers),
            };
            CpuIdResult { eax, ebx, ecx, edx }
        })
    }

    /// Decodes the leaves of a Zen 4 server: 72 and 3072 entries for 4KB pages; family 19H, model
    /// 11H, in a virtual machine.
    #[test]
    fn leaves_of_amd() {
        let leaves = [
            ((1, 0), [0x00a1_0f11, 0, 1 << 31, 0]),
            ((0x8000_0005, 0), [0xff48_ff40, 0xff48_ff40, 0x2008_0140, 0x2008_0140]),
            ((0x8000_0006, 0), [0x5c00_2200, 0x6c00_4200, 0x0400_6140, 0x0a00_9140]),
            // L1 data cache: 8 ways of 64 sets of 64 bytes; L2 cache: 8 ways of 2048 sets of 64
            // bytes.
            ((0x8000_001d, 0), [1 | 1 << 5, 7 << 22 | 63, 63, 0]),
            ((0x8000_001d, 1), [2 | 1 << 5, 7 << 22 | 63, 127, 0]),
            ((0x8000_001d, 2), [3 | 2 << 5, 7 << 22 | 63, 2047, 0]),
        ];
        let found = processor(b"AuthenticAMD", &leaves);
        let identity = (found.vendor.as_str(), found.family, found.model, found.is_virtual());
        assert_eq!(identity, ("AuthenticAMD", 25, 17, true));
        let tlbs = ["tlb.l1_data_4k", "tlb.l2"];
        assert_eq!(tlbs.map(|tlb| found.size(tlb)), [Some(72), Some(3072)]);
        let caches = ["cache.l1d", "cache.l2", "cache.llc"].map(|cache| found.size(cache));
        assert_eq!(caches, [Some(32 << 10), Some(1 << 20), None]);
        let disabled = processor(b"AuthenticAMD", &[((0x8000_0006, 0), [0, 0x0c00_0200, 0, 0])]);
        assert_eq!(tlbs.map(|tlb| disabled.size(tlb)), [None, None]);
    }

    /// Decodes the leaves of a Zen 5, which counts entries of the L2 TLB in 32s: 4096 entries for
    /// 4KB pages, and 1024 for 1GB pages in an array of their own.
    #[test]
    fn entries_that_are_counted_in_32s() {
        let leaves = |counted_in_32s: u32| {
            [
                ((1, 0), [0x00b0_0f21, 0, 0, 0]),
                ((0x8000_0005, 0), [0xff60_ff40, 0xff60_ff40, 0x300c_0140, 0x2008_0140]),
                ((0x8000_0006, 0), [0x8080_6040, 0x8080_6040, 0x0400_8140, 0]),
                ((0x8000_0019, 0), [0xf060_f040, 0x4020_0000, 0, 0]),
                ((0x8000_0021, 0), [counted_in_32s << 14, 0, 0, 0]),
            ]
        };
        let sizes = |found: &Processor| {
            ["tlb.l1_data_4k", "tlb.l2", "tlb.l1_data_1g", "tlb.l2_1g"].map(|tlb| found.size(tlb))
        };
        let zen5 = processor(b"AuthenticAMD", &leaves(1));
        assert_eq!((zen5.family, zen5.model), (26, 2));
        assert_eq!(sizes(&zen5), [Some(96), Some(4096), Some(96), Some(1024)]);
        let parts: Vec<_> = zen5.l2_parts.iter().map(|one| (one.key, one.value.as_str())).collect();
        assert_eq!(parts, [("tlb.l2_2m", "all")], "1GB pages are stated apart");
        let without = processor(b"AuthenticAMD", &leaves(0));
        assert_eq!(sizes(&without), [Some(96), Some(128), Some(96), Some(32)]);
    }

    #[test]
    fn arm_processors_are_identified_by_the_kernel() {
        let text = "processor\t: 0\nBogoMIPS\t: 243.75\nFeatures\t: fp asimd: x\nCPU implementer\t: 0x41\n\
                    CPU architecture: 8\nCPU variant\t: 0x3\nCPU part\t: 0xd0c\nCPU revision\t: 1\n\n";
        let found = Processor::of_cpuinfo(text);
        assert_eq!((found.vendor.as_str(), found.family, found.model), ("0x41", 8, 0xd0c));
        assert_eq!(found.name, "Arm processor, implementer 0x41, part 0xd0c");
        assert!(found.is_arm() && found.stated.is_empty());
        let two = format!("{text}{}", text.replace("0xd0c", "0xd40"));
        assert_eq!(Processor::of_cpuinfo(&two), found, "the first");
        let apple = Processor::of_cpuinfo(&text.replace("0x41", "0x61"));
        assert_eq!(apple.identity(), "implementer 0x61, part 0xd0c");
        for other in ["", "isa : rv64imafdc\nuarch : thead,c910\n", "CPU implementer\t: 0x41\n"] {
            assert_eq!(Processor::of_cpuinfo(other), Processor::default(), "{other}");
        }
    }

    /// Decodes an L1 TLB of 4 × 16 entries, and an L2 TLB of 16 × 128 entries for 4KB and 2MB
    /// pages.
    #[test]
    fn leaves_of_intel() {
        let leaves = [
            ((0x18, 0), [3, 0, 0, 0]),
            ((0x18, 1), [0, 8 << 16 | 1, 16, 1 << 5 | 2]),
            ((0x18, 2), [0, 4 << 16 | 1, 16, 1 << 5 | 1]),
            ((0x18, 3), [0, 16 << 16 | 3, 128, 2 << 5 | 3]),
        ];
        let found = processor(b"GenuineIntel", &leaves);
        assert_eq!((found.size("tlb.l1_data_4k"), found.size("tlb.l2")), (Some(64), Some(2048)));
        let instructions = &found.stated.iter().find(|one| one.section == "tlb.l1_instruction_4k");
        assert_eq!(instructions.map(|one| (one.size, one.ways)), Some((128, Some(8))));
        // Ice Lake: 8 × 128 entries for 4KB and 2MB pages, and 8 × 128 for 4KB and 1GB pages.
        let halves = [
            ((0x18, 0), [2, 0, 0, 0]),
            ((0x18, 1), [0, 8 << 16 | 3, 128, 2 << 5 | 3]),
            ((0x18, 2), [0, 8 << 16 | 9, 128, 2 << 5 | 3]),
        ];
        let found = processor(b"GenuineIntel", &halves);
        assert_eq!((found.stated[0].size, found.stated[0].ways), (2048, Some(16)));
        let parts = |found: &Processor| {
            found.l2_parts.iter().map(|one| (one.key, one.value.clone())).collect::<Vec<_>>()
        };
        let named = |large: &str, huge: &str| {
            vec![("tlb.l2_2m", large.to_owned()), ("tlb.l2_1g", huge.to_owned())]
        };
        assert_eq!(parts(&found), named("1-8", "9-16"));
        // An array for 4KB pages, and an array of 2 × 64 entries for 2MB pages only.
        let apart = [
            ((0x18, 0), [2, 0, 0, 0]),
            ((0x18, 1), [0, 4 << 16 | 1, 128, 2 << 5 | 3]),
            ((0x18, 2), [0, 2 << 16 | 2, 64, 2 << 5 | 3]),
        ];
        let apart = processor(b"GenuineIntel", &apart);
        assert_eq!(parts(&apart), named("{ entries = 128, ways = 2 }", "none"));
        // Skylake with the descriptors of leaf 2; its leaf 18H is empty.
        let found = processor(b"GenuineIntel", &[((2, 0), [0x76_03_63_01, 0xc3_b6, 0, 0])]);
        let stated = |section: &str| found.stated.iter().find(|one| one.section == section);
        assert_eq!(stated("tlb.l2").map(|one| (one.size, one.ways)), Some((1536, Some(6))));
        assert_eq!(stated("tlb.l1_data_1g").map(|one| one.size), Some(4));
        assert_eq!((found.size("tlb.l1_data_4k"), found.size("tlb.l2")), (Some(64), Some(1536)));
        assert_eq!(parts(&found), [("tlb.l2_2m", "all".to_owned())], "1GB pages are stated apart");
        let absurd = [((0x18, 0), [0, 0xffff << 16 | 1, u32::MAX, 1 << 5 | 1])];
        assert!(processor(b"GenuineIntel", &absurd).size("tlb.l1_data_4k").is_some());
    }
}
