//! Which processor this is: `/proc/cpuinfo`, the caches in `/sys`, TLBs by CPUID.

use std::fs;
use std::path::Path;

use super::cpuid::{self, TlbSize, TlbUse};

/// One cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheSize {
    /// 1 to 4.
    pub level: u8,
    /// Whether it holds instructions only.
    pub is_for_instructions: bool,
    /// In bytes.
    pub size_bytes: u64,
}

/// A processor, as far as it tells of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Processor {
    /// Vendor as CPUID spells it, such as `AuthenticAMD`.
    pub vendor: Option<String>,
    /// Family, extended family included.
    pub family: Option<u32>,
    /// Model, extended model included.
    pub model: Option<u32>,
    /// Name for people.
    pub name: Option<String>,
    /// Whether this is a virtual machine that says so (the CPUID bit `hypervisor`).
    pub is_virtual: bool,
    /// Caches of processor 0.
    pub caches: Vec<CacheSize>,
    /// TLBs.
    pub tlbs: Vec<TlbSize>,
}

impl Processor {
    /// The processor we run on.
    pub fn own() -> Self {
        Self {
            caches: read_caches(Path::new("/sys/devices/system/cpu/cpu0/cache")),
            tlbs: cpuid::own_tlbs(),
            ..parse_cpuinfo(&fs::read("/proc/cpuinfo").unwrap_or_default())
        }
    }

    /// Entries of the TLB of this level for data in pages of `page_kilobytes`.
    pub fn data_tlb_entries(&self, level: u8, page_kilobytes: u32) -> Option<u32> {
        let matches = |tlb: &&TlbSize| {
            tlb.level == level
                && tlb.page_kilobytes == page_kilobytes
                && tlb.holds != TlbUse::Instructions
        };
        self.tlbs.iter().find(matches).map(|tlb| tlb.entries)
    }

    /// Size of the data cache of this level, in bytes.
    pub fn data_cache_bytes(&self, level: u8) -> Option<u64> {
        let matches = |cache: &&CacheSize| cache.level == level && !cache.is_for_instructions;
        self.caches.iter().find(matches).map(|cache| cache.size_bytes)
    }
}

/// Reads the first processor in the text of `/proc/cpuinfo`; caches and TLBs stay empty.
pub fn parse_cpuinfo(text: &[u8]) -> Processor {
    let text = String::from_utf8_lossy(text);
    let mut processor = Processor::default();
    for line in text.lines().take_while(|line| !line.trim().is_empty()) {
        let Some((key, value)) = line.split_once(':') else { continue };
        let value = value.trim();
        let plain = || value.chars().filter(|c| !c.is_control()).take(80).collect::<String>();
        match key.trim() {
            "vendor_id" => processor.vendor = Some(plain()),
            "cpu family" => processor.family = value.parse().ok(),
            "model" => processor.model = value.parse().ok(),
            "model name" => processor.name = Some(plain()),
            "flags" => {
                processor.is_virtual = value.split_whitespace().any(|flag| flag == "hypervisor");
            }
            _ => {}
        }
    }
    processor
}

/// Reads `index*/{level,type,size}` in `folder`.
fn read_caches(folder: &Path) -> Vec<CacheSize> {
    let mut caches = Vec::new();
    for index in 0..16 {
        let folder = folder.join(format!("index{index}"));
        let read = |name| fs::read_to_string(folder.join(name)).ok();
        let (Some(level), Some(kind), Some(size)) = (read("level"), read("type"), read("size"))
        else {
            continue;
        };
        let (Ok(level), Some(size_bytes)) = (level.trim().parse(), kibibytes(size.trim())) else {
            continue;
        };
        let is_for_instructions = kind.trim() == "Instruction";
        caches.push(CacheSize { level, is_for_instructions, size_bytes });
    }
    caches
}

/// Bytes of a size such as `1024K`.
fn kibibytes(size: &str) -> Option<u64> {
    size.strip_suffix('K')?.parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_processor_of_cpuinfo() {
        let text = b"processor\t: 0\nvendor_id\t: AuthenticAMD\ncpu family\t: 25\nmodel\t\t: 17\n\
            model name\t: AMD EPYC \x1b[31m\nflags\t\t: fpu hypervisor nopl\n\n\
            processor\t: 1\nmodel\t: 99\n";
        let processor = parse_cpuinfo(text);
        assert_eq!(processor.vendor.as_deref(), Some("AuthenticAMD"));
        assert_eq!((processor.family, processor.model), (Some(25), Some(17)));
        assert_eq!(processor.name.as_deref(), Some("AMD EPYC [31m"), "no control characters");
        assert!(processor.is_virtual);
        assert!(!parse_cpuinfo(b"flags : fpu hypervisors").is_virtual);
        let damaged = parse_cpuinfo(b"model : -1\ncpu family : 99999999999\n\xff\xff");
        assert_eq!(damaged, Processor::default());
    }

    #[test]
    fn caches_of_made_up_files() {
        let folder = tempfile::tempdir().unwrap();
        let cache = |index: u8, level: &str, kind: &str, size: &str| {
            let folder = folder.path().join(format!("index{index}"));
            fs::create_dir(&folder).unwrap();
            for (name, text) in [("level", level), ("type", kind), ("size", size)] {
                fs::write(folder.join(name), text).unwrap();
            }
        };
        cache(0, "1\n", "Data\n", "32K\n");
        cache(1, "1\n", "Instruction\n", "64K\n");
        cache(2, "2\n", "Unified\n", "1024K\n");
        cache(3, "x\n", "Unified\n", "1K\n");
        cache(4, "3\n", "Unified\n", "99999999999999999999K\n");
        let caches = read_caches(folder.path());
        let processor = Processor { caches, ..Processor::default() };
        assert_eq!(processor.caches.len(), 3);
        assert_eq!(processor.data_cache_bytes(1), Some(32 << 10));
        assert_eq!(processor.data_cache_bytes(2), Some(1 << 20));
        assert_eq!(processor.data_cache_bytes(3), None);
    }
}
