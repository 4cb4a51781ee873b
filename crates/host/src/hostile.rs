//! Entry points to private parsers, for tests with hostile input.

use crate::Residency;
use crate::proc;

/// Parses `/proc/PID/smaps`.
pub fn smaps(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    for addresses in [0..u64::MAX, 0x7f00_0000_0000..0x7f00_0040_0000, 5..5] {
        Residency::of(&text, addresses);
    }
}

/// Parses bytes as the text of `/proc/buddyinfo`.
pub fn buddyinfo(bytes: &[u8]) {
    proc::free_memory(&String::from_utf8_lossy(bytes));
}
