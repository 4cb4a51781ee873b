//! What of a process's memory is resident, and in which pages: `/proc/PID/smaps`.

use std::ops::Range;

use super::memory::kilobytes;

/// Resident memory of some mappings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Residency {
    /// `Rss`, in bytes.
    pub resident_bytes: u64,
    /// `AnonHugePages`, in bytes: anonymous memory mapped by 2MB entries.
    pub large_bytes: u64,
    /// `Swap`, in bytes.
    pub swapped_bytes: u64,
}

impl Residency {
    /// Share of the resident memory that is in 2MB pages, 0–1; 0 where nothing is resident.
    pub fn large_share(&self) -> f64 {
        if self.resident_bytes == 0 {
            return 0.0;
        }
        self.large_bytes as f64 / self.resident_bytes as f64
    }
}

/// Sums the mappings in the text of `smaps` (or `smaps_rollup`) that overlap `addresses`.
pub fn parse_smaps(text: &[u8], addresses: Range<u64>) -> Residency {
    let text = String::from_utf8_lossy(text);
    let mut sum = Residency::default();
    let mut counts = false;
    for line in text.lines() {
        if let Some(mapping) = mapping(line) {
            counts = mapping.start < addresses.end && addresses.start < mapping.end;
            continue;
        }
        let Some((key, value)) = line.split_once(':').filter(|_| counts) else { continue };
        let place = match key {
            "Rss" => &mut sum.resident_bytes,
            "AnonHugePages" => &mut sum.large_bytes,
            "Swap" => &mut sum.swapped_bytes,
            _ => continue,
        };
        *place = place.saturating_add(kilobytes(value).unwrap_or(0));
    }
    sum
}

/// The addresses in a line such as `7f0000000000-7f0000200000 rw-p …`.
fn mapping(line: &str) -> Option<Range<u64>> {
    let (start, end) = line.split_whitespace().next()?.split_once('-')?;
    let hexadecimal = |text| u64::from_str_radix(text, 16).ok();
    Some(hexadecimal(start)?..hexadecimal(end)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &[u8] = b"\
10000000-10400000 rw-p 00000000 00:00 0\nSize: 4096 kB\nRss: 4096 kB\nAnonHugePages: 2048 kB\n\
Swap: 0 kB\nVmFlags: rd wr hg\n\
7f0000000000-7f0000001000 r--p 00000000 00:00 0  [a:b]\nRss: 4 kB\nAnonHugePages: 0 kB\n\
Swap: 8 kB\n";

    #[test]
    fn mappings_that_overlap_are_summed() {
        let all = parse_smaps(TEXT, 0..u64::MAX);
        assert_eq!(all.resident_bytes, 4100 << 10);
        assert_eq!(all.large_bytes, 2 << 20);
        assert_eq!(all.swapped_bytes, 8 << 10);
        let first = parse_smaps(TEXT, 0x103f_f000..0x1040_0000);
        assert_eq!((first.resident_bytes, first.large_share()), (4 << 20, 0.5));
        assert_eq!(parse_smaps(TEXT, 0x1040_0000..0x1050_0000), Residency::default());
    }

    #[test]
    fn damage_is_passed_over() {
        assert_eq!(parse_smaps(b"Rss: 4 kB\n", 0..u64::MAX), Residency::default(), "no mapping");
        let text =
            b"0-ffffffffffffffff x\nRss: 18014398509481983 kB\nRss: 9 kB\nSwap: -3 kB\n\xff:";
        let sum = parse_smaps(text, 0..u64::MAX);
        assert_eq!((sum.resident_bytes, sum.swapped_bytes), (u64::MAX, 0));
        assert_eq!(Residency::default().large_share(), 0.0);
    }
}
