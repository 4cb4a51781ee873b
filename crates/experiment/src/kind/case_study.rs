//! Common parts of case studies: heaps and contents, random numbers that are the same for every subject, the
//! events they send, and a closed form.

use perforate_config::{Share, Size};
use perforate_os::ContentDistribution;
use perforate_types::{Backing, Permissions, ProcessId, ProgramEvent, ThreadId, VirtualAddress};

/// Bytes of a page, and pages of a 2MB region.
pub const PAGE_BYTES: u64 = 4096;
pub const REGION_PAGES: u64 = 512;
const REGION_BYTES: u64 = REGION_PAGES * PAGE_BYTES;

/// Default contents of the pages of two programs, but for the size of the pool: our choice, as
/// neither paper says what pages held.
pub const CONTENTS: ContentDistribution = ContentDistribution {
    zero: Share::percent(2),
    duplicate: Share::percent(16),
    distinct: 0,
    regions: Share::percent(40),
    run: 16,
    seed: 0,
};

/// A heap in 2MB regions, `least` to `most` bytes.
pub fn heap_regions(heap: Size, (least, most): (u64, u64)) -> Result<u64, String> {
    if !(least..=most).contains(&heap.bytes()) || !heap.bytes().is_multiple_of(REGION_BYTES) {
        let (least, most) = (Size(least), Size(most));
        return Err(format!("setting heap: is {least} to {most} in steps of 2M, not {heap}"));
    }
    Ok(heap.bytes() / REGION_BYTES)
}

/// The same numbers for every subject, from a seed (splitmix64).
pub struct Random(pub u64);

impl Random {
    /// A number from 0 up to 1, evenly.
    pub fn fraction(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((bits ^ (bits >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A whole number below `bound`, evenly.
    pub fn below(&mut self, bound: u64) -> u64 {
        (self.fraction() * bound as f64) as u64
    }
}

/// Process `process` runs now.
pub fn switch(process: u16) -> ProgramEvent {
    ProgramEvent::Switch { process: ProcessId(process), thread: ThreadId(0) }
}

/// Anonymous memory that is mapped in full at once.
pub fn map_populated(start: u64, length: u64, shared: bool) -> ProgramEvent {
    ProgramEvent::Map {
        start: VirtualAddress::new(start),
        length,
        permissions: Permissions::READ_WRITE,
        accessible: true,
        backing: Backing::Anonymous,
        shared,
        populate: true,
    }
}

/// How many of `places` different places `throws` even throws hit on average:
/// n·(1 − (1 − 1/n)^k).
pub fn places_hit(places: f64, throws: f64) -> f64 {
    -places * ((-1.0 / places).ln_1p() * throws).exp_m1()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heaps_have_bounds() {
        let regions = |text: &str| heap_regions(text.parse().unwrap(), (2 << 20, 4 << 30));
        assert_eq!((regions("64M"), regions("4G")), (Ok(32), Ok(2048)));
        for wrong in ["3M", "0", "5G"] {
            assert!(regions(wrong).unwrap_err().contains("heap: is 2M to 4G"), "{wrong}");
        }
    }

    /// Two throws on two places: one place half of the time, else both.
    #[test]
    fn places_by_hand() {
        assert!((places_hit(2.0, 2.0) - 1.5).abs() < 1e-12);
        assert!((places_hit(1.0, 7.0) - 1.0).abs() < 1e-12);
    }
}
