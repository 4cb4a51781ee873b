//! A process's areas from `/proc/PID/smaps`, or `maps` where that is all there is.

use std::ops::Range;

/// More areas than Linux gives a process by far (`vm.max_map_count` is 65530).
const MOST_AREAS: usize = 1 << 20;
const PAGE_BYTES: u64 = 4096;

/// An area (Linux: VMA) as the kernel describes it; sizes in bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Area {
    pub(super) range: Range<u64>,
    /// As in maps: `rw-p`.
    pub(super) permissions: String,
    /// The file, `[heap]`, or nothing.
    pub(super) name: String,
    /// `Rss`.
    pub(super) resident_bytes: u64,
    /// `Anonymous`.
    pub(super) anonymous_bytes: u64,
    /// `Swap`.
    pub(super) swapped_bytes: u64,
    /// Mapped by entries of 2MB or more: `AnonHugePages`, `ShmemPmdMapped`, `FilePmdMapped`,
    /// `Private_Hugetlb`, `Shared_Hugetlb`.
    pub(super) large_bytes: u64,
    /// Of these, hugetlbfs: not part of `Rss`.
    pub(super) hugetlb_bytes: u64,
}

impl Area {
    /// Whether its contents are memory rather than a file's.
    pub(super) fn is_memory(&self) -> bool {
        let names = ["/memfd:", "/dev/shm/", "/dev/zero", "/SYSV", "/anon_hugepage"];
        !self.name.starts_with('/') || names.iter().any(|name| self.name.starts_with(name))
    }
}

/// Reads the areas; whether the text says how much of them is resident.
pub(super) fn areas(text: &str) -> (Vec<Area>, bool) {
    let mut areas: Vec<Area> = Vec::new();
    let mut has_sizes = false;
    for line in text.lines() {
        if let Some(area) = area(line) {
            if areas.len() == MOST_AREAS {
                break;
            }
            areas.push(area);
            continue;
        }
        let Some(area) = areas.last_mut() else { continue };
        let Some((key, rest)) = line.split_once(':') else { continue };
        let kilobytes = rest.trim().strip_suffix(" kB").and_then(|text| text.trim().parse().ok());
        let Some(bytes) = kilobytes.and_then(|kilobytes: u64| kilobytes.checked_mul(1024)) else {
            continue;
        };
        // A process has no more than its address space.
        let bytes = bytes.min(1 << 57);
        match key {
            "Rss" => (area.resident_bytes, has_sizes) = (bytes, true),
            "Anonymous" => area.anonymous_bytes = bytes,
            "Swap" => area.swapped_bytes = bytes,
            "AnonHugePages" | "ShmemPmdMapped" | "FilePmdMapped" => {
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

/// A line such as `7f00-7f10 rw-p 00000000 00:00 0   [heap]`.
fn area(line: &str) -> Option<Area> {
    let (addresses, rest) = line.split_once(' ')?;
    let (start, end) = addresses.split_once('-')?;
    let [start, end] = [start, end].map(|text| u64::from_str_radix(text, 16).ok());
    let range = start?..end?;
    let is_sound = range.start < range.end
        && range.start.is_multiple_of(PAGE_BYTES)
        && range.end.is_multiple_of(PAGE_BYTES);
    let mut fields = rest.splitn(5, ' ');
    let permissions = fields.next()?;
    if !is_sound || permissions.len() != 4 {
        return None;
    }
    let name = fields.nth(3).unwrap_or_default().trim();
    let name = name.chars().take(4096).collect();
    Some(Area { range, permissions: permissions.into(), name, ..Area::default() })
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
        let (areas, has_sizes) = areas(text);
        assert!(has_sizes);
        let names: Vec<&str> = areas.iter().map(|area| area.name.as_str()).collect();
        assert_eq!(names, ["/usr/bin/a program", "", "/anon_hugepage (deleted)"]);
        assert_eq!((areas[0].resident_bytes, areas[0].is_memory()), (8192, false));
        assert_eq!((areas[1].large_bytes, areas[1].swapped_bytes), (1046528 << 10, 12 << 10));
        assert_eq!((areas[2].hugetlb_bytes, areas[2].is_memory()), (2 << 20, true));
        let (areas, has_sizes) = super::areas("1000-3000 r--p 00000000 00:00 0\n");
        assert_eq!((areas.len(), has_sizes), (1, false));
    }

    mod hostile {
        use super::*;
        use proptest::prelude::*;

        proptest! {
            #[test]
            fn any_text_is_answered(
                text in "([0-9a-f]{1,17}-[0-9a-f]{1,17} [rwxps-]{3,5} [0-9a-f :]{0,20}\\PC{0,9}\n|(Rss|Swap|AnonHugePages): *[0-9]{1,21} kB\n|\\PC{0,30}\n){0,9}",
            ) {
                let _ = areas(&text);
            }
        }
    }
}
