//! Amounts of memory: `/proc/meminfo` and `/proc/buddyinfo`.

use std::fs;

/// Orders of the buddy allocator that Linux lists, 0 to 10.
const ORDERS: usize = 11;

/// Amounts from `/proc/meminfo`; absent where the file does not have them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryAmounts {
    /// `MemTotal`, in bytes.
    pub total_bytes: Option<u64>,
    /// `MemFree`, in bytes.
    pub free_bytes: Option<u64>,
    /// `MemAvailable`, in bytes: what can be had without swapping, as the kernel estimates it.
    pub available_bytes: Option<u64>,
    /// `SwapTotal`, in bytes.
    pub swap_bytes: Option<u64>,
    /// `AnonHugePages`, in bytes: anonymous memory of the whole system in 2MB pages.
    pub anonymous_large_bytes: Option<u64>,
}

impl MemoryAmounts {
    /// The amounts of this moment.
    pub fn now() -> Self {
        parse_meminfo(&fs::read("/proc/meminfo").unwrap_or_default())
    }
}

/// Reads the text of `/proc/meminfo`.
pub fn parse_meminfo(text: &[u8]) -> MemoryAmounts {
    let text = String::from_utf8_lossy(text);
    let mut amounts = MemoryAmounts::default();
    for line in text.lines() {
        let Some((key, value)) = line.split_once(':') else { continue };
        let place = match key {
            "MemTotal" => &mut amounts.total_bytes,
            "MemFree" => &mut amounts.free_bytes,
            "MemAvailable" => &mut amounts.available_bytes,
            "SwapTotal" => &mut amounts.swap_bytes,
            "AnonHugePages" => &mut amounts.anonymous_large_bytes,
            _ => continue,
        };
        *place = kilobytes(value);
    }
    amounts
}

/// Bytes of a value such as `  1024 kB`.
pub(super) fn kilobytes(value: &str) -> Option<u64> {
    value.trim().strip_suffix("kB")?.trim_end().parse::<u64>().ok()?.checked_mul(1024)
}

/// Free blocks of each order, summed over nodes and zones, from the text of `/proc/buddyinfo`.
/// Absent if no line has the form `Node N, zone NAME COUNTS…`.
pub fn parse_buddyinfo(text: &[u8]) -> Option<[u64; ORDERS]> {
    let text = String::from_utf8_lossy(text);
    let mut sums = None;
    for line in text.lines() {
        let mut words = line.split_whitespace();
        if words.next() != Some("Node") || words.nth(1) != Some("zone") {
            continue;
        }
        let counts: Vec<u64> = words.skip(1).map_while(|word| word.parse().ok()).collect();
        let sums: &mut [u64; ORDERS] = sums.get_or_insert_default();
        for (sum, count) in sums.iter_mut().zip(counts) {
            *sum = sum.saturating_add(count);
        }
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn meminfo_in_bytes() {
        let text =
            b"MemTotal:       24683520 kB\nMemFree:         1024 kB\nMemAvailable: 2048 kB\n\
            HugePages_Total:       0\nAnonHugePages:      4 kB\nSwapTotal: x kB\nMemFreeX: 9 kB\n";
        let amounts = parse_meminfo(text);
        assert_eq!(amounts.total_bytes, Some(24_683_520 * 1024));
        assert_eq!(amounts.free_bytes, Some(1 << 20));
        assert_eq!(amounts.available_bytes, Some(2 << 20));
        assert_eq!(amounts.anonymous_large_bytes, Some(4096));
        assert_eq!(amounts.swap_bytes, None, "not a number");
        let huge = parse_meminfo(b"MemTotal: 18446744073709551615 kB");
        assert_eq!(huge.total_bytes, None, "more bytes than can be counted");
        assert_eq!(parse_meminfo(b"\xff\xfe:\0\n:::\n"), MemoryAmounts::default());
    }

    #[test]
    fn buddyinfo_sums_zones() {
        let text = b"Node 0, zone      DMA      0      0      0      1\n\
            Node 0, zone   Normal      2      3      5      7      0      0      0      0      0      9      4\n";
        let sums = parse_buddyinfo(text).unwrap();
        assert_eq!(sums, [2, 3, 5, 8, 0, 0, 0, 0, 0, 9, 4]);
        assert_eq!(parse_buddyinfo(b"Node\nzone 0\n\xff"), None);
        assert_eq!(parse_buddyinfo(b"Node 0, zone X -1 5"), Some([0; ORDERS]));
    }
}
