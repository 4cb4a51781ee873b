//! Sizes of TLBs as the processor itself tells them (the CPUID instruction).

/// What a TLB holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlbUse {
    /// Translations of data.
    Data,
    /// Translations of code.
    Instructions,
    /// Both.
    Unified,
}

/// One TLB for one page size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TlbSize {
    /// 1 or 2.
    pub level: u8,
    /// What it holds.
    pub holds: TlbUse,
    /// Page size in KB: 4, 2048 or 1,048,576.
    pub page_kilobytes: u32,
    /// Entries.
    pub entries: u32,
}

/// Registers EAX, EBX, ECX, EDX after CPUID.
pub type Registers = [u32; 4];

const KB_2M: u32 = 2048;
const KB_1G: u32 = 1 << 20;

/// TLBs of an AMD processor from leaves 8000_0005, 8000_0006 and 8000_0019 (AMD64 Architecture
/// Programmer's Manual, volume 3, appendix E). In the second leaf, sizes whose associativity is 0
/// are disabled.
pub fn amd_tlbs(first: Registers, second: Registers, huge: Registers) -> Vec<TlbSize> {
    let mut tlbs = Vec::new();
    let mut add = |level, holds, page_kilobytes, entries: u32| {
        if entries > 0 {
            tlbs.push(TlbSize { level, holds, page_kilobytes, entries });
        }
    };
    for (page, register) in [(4, first[1]), (KB_2M, first[0])] {
        add(1, TlbUse::Data, page, register >> 16 & 0xff);
        add(1, TlbUse::Instructions, page, register & 0xff);
    }
    let enabled = |half: u32| if half >> 12 == 0 { 0 } else { half & 0xfff };
    for (level, page, register) in
        [(2, 4, second[1]), (2, KB_2M, second[0]), (1, KB_1G, huge[0]), (2, KB_1G, huge[1])]
    {
        add(level, TlbUse::Data, page, enabled(register >> 16));
        add(level, TlbUse::Instructions, page, enabled(register & 0xffff));
    }
    tlbs
}

/// TLBs of an Intel processor from the subleaves of leaf 18H, in order (Intel 64 and IA-32
/// Architectures Software Developer's Manual, CPUID: Deterministic Address Translation
/// Parameters). A TLB for several page sizes is listed with each of them.
pub fn intel_tlbs(subleaves: &[Registers]) -> Vec<TlbSize> {
    let mut tlbs = Vec::new();
    for [_, ways_and_pages, sets, kind] in subleaves {
        let holds = match kind & 0x1f {
            1 | 4 => TlbUse::Data,
            2 => TlbUse::Instructions,
            3 => TlbUse::Unified,
            _ => continue,
        };
        let level = (kind >> 5 & 0x7) as u8;
        let Some(entries) = (ways_and_pages >> 16).checked_mul(*sets).filter(|n| *n > 0) else {
            continue;
        };
        for (bit, page_kilobytes) in [(0, 4), (1, KB_2M), (3, KB_1G)] {
            if ways_and_pages >> bit & 1 != 0 {
                tlbs.push(TlbSize { level, holds, page_kilobytes, entries });
            }
        }
    }
    tlbs
}

/// The TLBs of the processor we run on; none where it does not tell.
#[cfg(target_arch = "x86_64")]
pub(super) fn own_tlbs() -> Vec<TlbSize> {
    #[allow(unused_unsafe)] // safe since Rust 1.94
    let cpuid = |leaf, subleaf| {
        // SAFETY: every x86-64 processor has the instruction; unknown leaves give zeros or those
        // of the last known one.
        let answer = unsafe { std::arch::x86_64::__cpuid_count(leaf, subleaf) };
        [answer.eax, answer.ebx, answer.ecx, answer.edx]
    };
    if cpuid(0x8000_0000, 0)[0] >= 0x8000_0019 {
        let tlbs = amd_tlbs(cpuid(0x8000_0005, 0), cpuid(0x8000_0006, 0), cpuid(0x8000_0019, 0));
        if tlbs.iter().any(|tlb| tlb.level == 1) {
            return tlbs;
        }
    }
    if cpuid(0, 0)[0] < 0x18 {
        return Vec::new();
    }
    let last = cpuid(0x18, 0)[0].min(63);
    intel_tlbs(&(0..=last).map(|subleaf| cpuid(0x18, subleaf)).collect::<Vec<_>>())
}

/// The TLBs of the processor we run on; none where it does not tell.
#[cfg(not(target_arch = "x86_64"))]
pub(super) fn own_tlbs() -> Vec<TlbSize> {
    Vec::new()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(tlbs: &[TlbSize], level: u8, holds: TlbUse, page_kilobytes: u32) -> Option<u32> {
        let wanted = |tlb: &&TlbSize| {
            (tlb.level, tlb.holds, tlb.page_kilobytes) == (level, holds, page_kilobytes)
        };
        tlbs.iter().find(wanted).map(|tlb| tlb.entries)
    }

    /// Registers of a Zen 4 server: 72 and 64 entries in the first level, 3072 and 512 in the
    /// second.
    #[test]
    fn leaves_of_amd() {
        let tlbs = amd_tlbs(
            [0xff48_ff40, 0xff48_ff40, 0x2008_0140, 0x2008_0140],
            [0x5c00_2200, 0x6c00_4200, 0x0400_6140, 0x0a00_9140],
            [0; 4],
        );
        assert_eq!(entries(&tlbs, 1, TlbUse::Data, 4), Some(72));
        assert_eq!(entries(&tlbs, 1, TlbUse::Instructions, KB_2M), Some(64));
        assert_eq!(entries(&tlbs, 2, TlbUse::Data, 4), Some(3072));
        assert_eq!(entries(&tlbs, 2, TlbUse::Data, KB_2M), Some(3072));
        assert_eq!(entries(&tlbs, 2, TlbUse::Instructions, 4), Some(512));
        assert_eq!(entries(&tlbs, 1, TlbUse::Data, KB_1G), None);
        let disabled = amd_tlbs([0; 4], [0x0c00_0200, 0, 0, 0], [0xf048_0000, 0, 0, 0]);
        assert_eq!(disabled.len(), 1);
        assert_eq!(entries(&disabled, 1, TlbUse::Data, KB_1G), Some(72));
    }

    /// A second level of 16 ways × 128 sets for 4KB and 2MB, and a first level of 4 × 16.
    #[test]
    fn subleaves_of_intel() {
        let tlbs = intel_tlbs(&[
            [2, 0, 0, 0],
            [0, 4 << 16 | 0b0001, 16, 1 << 5 | 1],
            [0, 16 << 16 | 0b0011, 128, 2 << 5 | 3],
            [0, 0xffff << 16 | 0xf, u32::MAX, 1],
        ]);
        assert_eq!(tlbs.len(), 3, "{tlbs:?}");
        assert_eq!(entries(&tlbs, 1, TlbUse::Data, 4), Some(64));
        assert_eq!(entries(&tlbs, 2, TlbUse::Unified, 4), Some(2048));
        assert_eq!(entries(&tlbs, 2, TlbUse::Unified, KB_2M), Some(2048));
    }
}
