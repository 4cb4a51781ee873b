//! Resident memory of a process by mapping and page size, from `/proc/PID/smaps` and `smaps_rollup`; or
//! from `maps`, without sizes.

use std::ops::Range;

use perforate_record::process_memory::Mapping;

use super::kilobytes;

/// Maximum number of mappings of a process. Linux allows far fewer (`vm.max_map_count` is 65530).
const MAX_AREAS: usize = 1 << 20;
/// Maximum of any size in bytes: that of a 57-bit address space.
const MAX_BYTES: u64 = 1 << 57;

/// Mapping of a process with its resident sizes, in bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct MappedArea {
    pub(crate) mapping: Mapping,
    /// Resident memory of the mapping, without hugetlbfs (`Rss`).
    pub(crate) resident_bytes: u64,
    /// Anonymous part of the mapping's resident memory (`Anonymous`).
    pub(crate) anonymous_bytes: u64,
    /// Swapped-out memory of the mapping (`Swap`).
    pub(crate) swapped_bytes: u64,
    /// Anonymous memory of the mapping in 2MB page-table entries (`AnonHugePages`).
    pub(crate) anonymous_large_bytes: u64,
    /// Memory of the mapping in page-table entries of 2MB or more: `AnonHugePages`,
    /// `ShmemPmdMapped`, `FilePmdMapped`, `Private_Hugetlb`, `Shared_Hugetlb`.
    pub(crate) large_bytes: u64,
    /// Memory of hugetlbfs in the mapping, which `large_bytes` includes and `Rss` does not.
    pub(crate) hugetlb_bytes: u64,
    /// Resident memory of the mapping whose accessed bits are set (`Referenced`).
    pub(crate) referenced_bytes: u64,
}

impl MappedArea {
    /// True if the mapping is anonymous or shared memory, false if it is a mapped file.
    pub(crate) fn is_memory(&self) -> bool {
        let names = ["/memfd:", "/dev/shm/", "/dev/zero", "/SYSV", "/anon_hugepage"];
        let own = &self.mapping.name;
        !own.starts_with('/') || names.iter().any(|name| own.starts_with(name))
    }
}

/// Parses the mappings in the text of `smaps` or `maps`. Also returns true if the text has resident
/// sizes.
pub(crate) fn parse_areas(text: &str) -> (Vec<MappedArea>, bool) {
    let mut areas: Vec<MappedArea> = Vec::new();
    let mut has_sizes = false;
    for line in text.lines() {
        if let Some(mapping) = Mapping::parse(line) {
            if areas.len() == MAX_AREAS {
                break;
            }
            areas.push(MappedArea { mapping, ..MappedArea::default() });
            continue;
        }
        let Some(area) = areas.last_mut() else { continue };
        let Some((key, value)) = line.split_once(':') else { continue };
        let Some(bytes) = kilobytes(value).map(|bytes| bytes.min(MAX_BYTES)) else { continue };
        match key {
            "Rss" => (area.resident_bytes, has_sizes) = (bytes, true),
            "Anonymous" => area.anonymous_bytes = bytes,
            "Referenced" => area.referenced_bytes = bytes,
            "Swap" => area.swapped_bytes = bytes,
            "AnonHugePages" => {
                area.anonymous_large_bytes = bytes;
                area.large_bytes = area.large_bytes.saturating_add(bytes);
            }
            "ShmemPmdMapped" | "FilePmdMapped" => {
                area.large_bytes = area.large_bytes.saturating_add(bytes);
            }
            "Private_Hugetlb" | "Shared_Hugetlb" => {
                area.large_bytes = area.large_bytes.saturating_add(bytes);
                area.hugetlb_bytes = area.hugetlb_bytes.saturating_add(bytes);
            }
            _ => {}
        }
    }
    (areas, has_sizes)
}

/// Resident memory in an address range of a process, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Residency {
    /// Resident bytes, the sum of `Rss` over the mappings.
    pub resident_bytes: u64,
    /// Bytes of resident anonymous memory in 2MB page-table entries.
    pub large_bytes: u64,
    /// Bytes that are swapped out.
    pub swapped_bytes: u64,
}

impl Residency {
    /// Share of the resident memory that is in 2MB pages, 0–1; 0 if nothing is resident.
    pub fn large_share(&self) -> f64 {
        if self.resident_bytes == 0 {
            return 0.0;
        }
        self.large_bytes as f64 / self.resident_bytes as f64
    }

    /// Sums the mappings in the text of `smaps` or `smaps_rollup` that overlap `addresses`.
    pub(crate) fn of(text: &str, addresses: Range<u64>) -> Self {
        let (areas, _) = parse_areas(text);
        let overlaps =
            |range: &Range<u64>| range.start < addresses.end && addresses.start < range.end;
        let counted = areas.iter().filter(|area| overlaps(&area.mapping.range));
        counted.fold(Self::default(), |sum, area| Self {
            resident_bytes: sum.resident_bytes.saturating_add(area.resident_bytes),
            large_bytes: sum.large_bytes.saturating_add(area.anonymous_large_bytes),
            swapped_bytes: sum.swapped_bytes.saturating_add(area.swapped_bytes),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn areas_have_sizes() {
        let text = "\
00400000-00402000 r-xp 00000000 fe:00 17   /usr/bin/a program
Rss:                   8 kB
VmFlags: rd ex
7f0000000000-7f0040000000 rw-p 00000000 00:00 0 
Rss:             1048576 kB
Anonymous:       1048576 kB
AnonHugePages:   1046528 kB
Swap:                 12 kB
7f1000000000-7f1000200000 rw-s 00000000 00:0f 9    /anon_hugepage (deleted)
Rss:                   0 kB
Shared_Hugetlb:     2048 kB
";
        let (areas, has_sizes) = parse_areas(text);
        assert!(has_sizes);
        let names: Vec<&str> = areas.iter().map(|area| area.mapping.name.as_str()).collect();
        assert_eq!(names, ["/usr/bin/a program", "", "/anon_hugepage (deleted)"]);
        assert_eq!((areas[0].resident_bytes, areas[0].is_memory()), (8192, false));
        assert_eq!((areas[1].large_bytes, areas[1].swapped_bytes), (1046528 << 10, 12 << 10));
        assert_eq!((areas[2].hugetlb_bytes, areas[2].is_memory()), (2 << 20, true));
        assert_eq!((areas[2].large_bytes, areas[2].anonymous_large_bytes), (2 << 20, 0));
        let (areas, has_sizes) = parse_areas("1000-3000 r--p 00000000 00:00 0\n");
        assert_eq!((areas.len(), has_sizes), (1, false));
    }

    const TEXT: &str = "\
10000000-10400000 rw-p 00000000 00:00 0\nSize: 4096 kB\nRss: 4096 kB\nAnonHugePages: 2048 kB\n\
Swap: 0 kB\nVmFlags: rd wr hg\n\
7f0000000000-7f0000001000 r--p 00000000 00:00 0  [a:b]\nRss: 4 kB\nAnonHugePages: 0 kB\n\
Swap: 8 kB\n";

    #[test]
    fn areas_that_overlap_are_summed() {
        let all = Residency::of(TEXT, 0..u64::MAX);
        assert_eq!(all.resident_bytes, 4100 << 10);
        assert_eq!(all.large_bytes, 2 << 20);
        assert_eq!(all.swapped_bytes, 8 << 10);
        let first = Residency::of(TEXT, 0x103f_f000..0x1040_0000);
        assert_eq!((first.resident_bytes, first.large_share()), (4 << 20, 0.5));
        assert_eq!(Residency::of(TEXT, 0x1040_0000..0x1050_0000), Residency::default());
    }

    #[test]
    fn damaged_lines_are_skipped() {
        assert_eq!(Residency::of("Rss: 4 kB\n", 0..u64::MAX), Residency::default(), "no area");
        let text = "0-fffffffffffff000 ---p\nRss: 18014398509481983 kB\nRss: x kB\nSwap: -3 kB\n:";
        let sum = Residency::of(text, 0..u64::MAX);
        assert_eq!((sum.resident_bytes, sum.swapped_bytes), (MAX_BYTES, 0));
        assert_eq!(Residency::default().large_share(), 0.0);
    }
}
