//! Amounts of memory: `/proc/meminfo`.

use super::{kilobytes, text};

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
        Self::parse(&text("/proc/meminfo").unwrap_or_default())
    }

    /// Reads the text of `/proc/meminfo`.
    pub(crate) fn parse(text: &str) -> Self {
        let mut amounts = Self::default();
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_in_bytes() {
        let text = "MemTotal:       24683520 kB\nMemFree:         1024 kB\nMemAvailable: 2048 kB\n\
            HugePages_Total:       0\nAnonHugePages:      4 kB\nSwapTotal: x kB\nMemFreeX: 9 kB\n";
        let amounts = MemoryAmounts::parse(text);
        assert_eq!(amounts.total_bytes, Some(24_683_520 * 1024));
        assert_eq!(amounts.free_bytes, Some(1 << 20));
        assert_eq!(amounts.available_bytes, Some(2 << 20));
        assert_eq!(amounts.anonymous_large_bytes, Some(4096));
        assert_eq!(amounts.swap_bytes, None, "not a number");
        let huge = MemoryAmounts::parse("MemTotal: 18446744073709551615 kB");
        assert_eq!(huge.total_bytes, None, "more bytes than can be counted");
        assert_eq!(MemoryAmounts::parse("\u{fffd}:\0\n:::\n"), MemoryAmounts::default());
    }
}
